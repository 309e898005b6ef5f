"""Maximum flow in integers: Dinic's algorithm on a fixed adjacency (docs/mathematics/oracles#roof-duality).

A network is flat arrays: the arcs out of node ``v`` are the slots ``ptr[v] .. ptr[v+1]-1``; slot ``q`` leads to
``head[q]`` with residual capacity ``res[q]``, and ``rev[q]`` is the slot that looks back. Source and sink are not
stored: they are the signed excess ``ex`` (> 0 is capacity from the source, < 0 capacity to the sink).

``head`` and ``rev`` are unsigned: numba then has no negative index to test for, which makes the searches 10% quicker.

Capacities are int64, never floats: the reachable set of a maximum flow then does not depend on the order of the
augmentations, so that a warm start returns the label of a cold start and exact ties stay exact.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from structopt._jit import kernel

__all__ = [
    "NOT_FINITE",
    "FlowState",
    "adjacency",
    "dinic",
    "flow_scratch",
    "integer_exponent",
    "integer_scale",
    "rescale_flow",
    "to_integers",
]

# |exponents| beyond this would overflow or underflow the power of two itself.
_EXPONENT_LIMIT = 1000
_FLOW_LIMIT = 2.0**61
#: Exponent of numbers that are not finite.
NOT_FINITE = -100_000


@kernel
def integer_scale(total: float, bits: int) -> int:
    """Exponent ``k`` such that ``total * 2**k < 2**bits`` and no larger ``k`` is certain to keep that."""
    if total == 0.0:
        return 0
    exponent = bits - math.frexp(total)[1]
    return max(-_EXPONENT_LIMIT, min(_EXPONENT_LIMIT, exponent))


@kernel
def integer_exponent(first: Any, second: Any, bits: int) -> int:
    """Return `integer_scale` of the sum of the absolute values of two arrays, or `NOT_FINITE`."""
    total, smaller = 0.0, 0.0  # the second sum does not overflow if only the first one does
    for value in first:
        total += abs(value)
        smaller += abs(value) * 2.0**-64
    for value in second:
        total += abs(value)
        smaller += abs(value) * 2.0**-64
    if np.isfinite(total):
        return integer_scale(total, bits)
    return integer_scale(smaller, bits) - 64 if np.isfinite(smaller) else NOT_FINITE


@kernel
def to_integers(values: Any, exponent: int, out: Any) -> None:
    """Round values times ``2**exponent``."""
    factor = math.ldexp(1.0, exponent)
    for k in range(values.size):
        out[k] = np.int64(np.rint(values[k] * factor))


@kernel
def rescale_flow(flow: Any, shift: int) -> None:
    """Multiply a kept flow by ``2**shift``: the coefficients of the next call have another scale."""
    factor = math.ldexp(1.0, max(-_EXPONENT_LIMIT, min(_EXPONENT_LIMIT, shift)))
    for k in range(flow.size):
        # Truncation is symmetric, so that opposite slots keep opposite flows.
        flow[k] = np.int64(max(-_FLOW_LIMIT, min(_FLOW_LIMIT, flow[k] * factor)))


@kernel
def adjacency(n: int, tail: Any, head: Any) -> tuple[Any, Any, Any]:
    """Give every arc one slot at its tail and one at its head; return ``ptr``, ``slot_tail``, ``slot_head``."""
    m = tail.size
    ptr = np.zeros(n + 1, np.int32)
    for e in range(m):
        ptr[tail[e] + 1] += 1
        ptr[head[e] + 1] += 1
    for v in range(n):
        ptr[v + 1] += ptr[v]
    free = np.empty(n, np.int32)
    for v in range(n):
        free[v] = ptr[v]
    slot_tail = np.empty(m, np.int32)
    slot_head = np.empty(m, np.int32)
    for e in range(m):
        slot_tail[e] = free[tail[e]]
        free[tail[e]] += 1
        slot_head[e] = free[head[e]]
        free[head[e]] += 1
    return ptr, slot_tail, slot_head


@kernel
def flow_scratch(n: int) -> tuple[Any, Any, Any, Any, Any]:
    """Work space of `dinic` for ``n`` nodes: levels, current slots, queue, path and deficits."""
    return (
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
    )


@kernel
def _levels(n: int, ptr: Any, head: Any, res: Any, ex: Any, level: Any, current: Any, queue: Any, met: Any) -> int:
    """Breadth-first levels from all excess; list the deficits in ``met`` and return their number."""
    count = 0
    for v in range(n):
        current[v] = ptr[v]
        if ex[v] > 0:
            level[v] = 0
            queue[count] = v
            count += 1
        else:
            level[v] = -1
    deficits = 0
    k = 0
    while k < count:
        v = queue[k]
        k += 1
        if ex[v] < 0:
            met[deficits] = v
            deficits += 1
        depth = level[v] + 1
        for q in range(ptr[v], ptr[v + 1]):
            w = head[q]
            if level[w] < 0 and res[q] > 0:
                level[w] = depth
                queue[count] = w
                count += 1
    return deficits


@kernel
def _pull(t: int, ptr: Any, head: Any, rev: Any, res: Any, ex: Any, level: Any, current: Any, path: Any) -> None:
    """Pull flow to the deficit ``t`` against level-increasing arcs until it is filled or no path is left."""
    depth = 0
    v = t
    while True:
        if level[v] == 0 and ex[v] > 0:
            f = min(ex[v], -ex[t])
            for k in range(depth):
                f = min(f, res[path[k]])
            ex[v] -= f
            ex[t] += f
            keep = depth if ex[v] > 0 else depth - 1
            for k in range(depth - 1, -1, -1):
                q = path[k]
                res[q] -= f
                res[rev[q]] += f
                if res[q] == 0:
                    keep = k
            if ex[t] == 0:
                return
            # Go on from the head of the first saturated arc.
            depth = keep
            v = head[path[depth]]
            continue
        before = level[v] - 1
        q = current[v]
        end = ptr[v + 1]
        while q < end and not (level[head[q]] == before and res[rev[q]] > 0):
            q += 1
        current[v] = q
        if q < end:
            path[depth] = rev[q]
            depth += 1
            v = head[q]
            continue
        level[v] = -2
        if depth == 0:
            return
        depth -= 1
        v = head[path[depth]]
        current[v] += 1


@kernel
def dinic(n: int, ptr: Any, head: Any, rev: Any, res: Any, ex: Any, work: Any) -> Any:
    """Maximum flow in place; afterwards ``level >= 0`` is the smallest source side of a minimum cut.

    Levels are distances from the excess, and each deficit pulls along the shortest paths to itself, be they longer than
    those of other deficits: fewer rounds than one length at a time, no search that cannot end in excess, and the last
    search is the answer.
    """
    level, current, queue, path, deficits = work
    while True:
        n_deficits = _levels(n, ptr, head, res, ex, level, current, queue, deficits)
        if n_deficits == 0:
            return level
        for k in range(n_deficits):
            _pull(deficits[k], ptr, head, rev, res, ex, level, current, path)


class FlowState:
    """The flows that warm-started solves keep, one row per example; a row of zeros is a cold start."""

    __slots__ = ("exponent", "flow", "negative")

    def __init__(self, n_examples: int, n_flows: int, n_signs: int = 0) -> None:
        self.flow = np.zeros((n_examples, n_flows), np.int64)
        self.negative = np.zeros((n_examples, n_signs), np.bool_)
        self.exponent = np.zeros(n_examples, np.int64)

    def __len__(self) -> int:
        return self.exponent.size

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self.flow.nbytes + self.negative.nbytes + self.exponent.nbytes
