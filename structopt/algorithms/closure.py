"""Closures: the heaviest set of nodes that holds the parents of all its nodes (docs/mathematics/oracles#closures).

    max  sum_v w_v y_v    subject to  y_child <= y_parent,  y in {0, 1}

One minimum cut; the constraint matrix is totally unimodular, so that this is the linear program too. In a forest, where
every node has at most one parent, one pass up and one pass down suffice.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt._jit import FloatArray, IntArray, floats, kernel
from structopt._jit.graphs import preorder
from structopt._jit.products import dot
from structopt._jit.threads import in_threads
from structopt.algorithms.base import Optimum, Solutions
from structopt.algorithms.diagram import Diagram, PathsAlgorithm
from structopt.algorithms.diagram.path_networks import arc_diagram
from structopt.algorithms.maxflow import (
    NOT_FINITE,
    FlowState,
    adjacency,
    dinic,
    flow_scratch,
    integer_exponent,
    rescale_flow,
    to_integers,
)
from structopt.algorithms.question import Question, per_question
from structopt.algorithms.warm_starts import WarmStarts
from structopt.errors import DeclarationError
from structopt.recognize import Closure, Record
from structopt.recognize.patterns import forest_order

__all__ = ["ClosureAlgorithm"]

# Sum of |integer weights| < 2^54. The head-room is for warm starts, whose flows may pile up on the arcs, which have no
# capacity: a kept flow that sums to more than 2^60 is dropped, and nothing exceeds 2^62.
_BITS = 54
_KEPT_LIMIT = 2.0**60
_UNBOUNDED = 2**61
#: In place of the flows and exponents of a warm state.
_NO_STATE = (np.empty((0, 0), np.int64), np.empty(0, np.int64))


@kernel
def _solve_forest(order: Any, up: Any, weights: Any, y: Any) -> bool:
    """Best value of each subtree from the leaves up, then choose from the roots down."""
    n = order.size
    best = np.empty(n, np.int64)
    exponent = integer_exponent(weights, weights[:0], _BITS)
    if exponent == NOT_FINITE:
        return False
    to_integers(weights, exponent, best)
    for k in range(n - 1, -1, -1):
        v = order[k]
        if up[v] >= 0:
            best[up[v]] += max(best[v], 0)
    for k in range(n):
        v = order[k]
        chosen = 1.0 if best[v] > 0 else 0.0
        y[v] = chosen if up[v] < 0 else chosen * y[up[v]]
    return True


@kernel
def _forest_rows(order: Any, up: Any, W: Any, first: int, last: int, Y: Any) -> int:
    """Close the rows ``first .. last-1``; return the first that is not finite, or -1."""
    for k in range(first, last):
        if not _solve_forest(order, up, W[k], Y[k]):
            return k
    return -1


@kernel
def _cut(
    ptr: Any, head: Any, rev: Any, slot: Any, weights: Any, warm: bool, flow: Any, exponents: Any, index: int,
    scratch: Any, y: Any,
) -> bool:  # fmt: skip
    n = weights.size
    res, ex, work = scratch
    exponent = integer_exponent(weights, weights[:0], _BITS)
    if exponent == NOT_FINITE:
        return False
    to_integers(weights, exponent, ex)
    for e in range(slot.size):
        res[slot[e]] = _UNBOUNDED
        res[rev[slot[e]]] = 0
    if warm:
        kept = flow[index]
        if exponent != exponents[index]:
            rescale_flow(kept, exponent - exponents[index])
            exponents[index] = exponent
        total = 0.0
        for e in range(kept.size):
            total += kept[e]
        for e in range(kept.size):
            if total > _KEPT_LIMIT:
                kept[e] = 0
            q = slot[e]
            res[q] -= kept[e]
            res[rev[q]] = kept[e]
            ex[head[rev[q]]] -= kept[e]
            ex[head[q]] += kept[e]
    level = dinic(n, ptr, head, rev, res, ex, work)
    for v in range(n):
        y[v] = 1.0 if level[v] >= 0 else 0.0
    if warm:
        for e in range(kept.size):
            kept[e] = res[rev[slot[e]]]
    return True


@kernel
def _cut_rows(
    ptr: Any, head: Any, rev: Any, slot: Any, W: Any, warm: bool, flow: Any, exponents: Any,
    first: int, last: int, Y: Any,
) -> int:  # fmt: skip
    """Do the same by minimum cuts; row k owns row k of the warm state."""
    n = W.shape[1]
    scratch = np.empty(head.size, np.int64), np.empty(n, np.int64), flow_scratch(n)
    for k in range(first, last):
        if not _cut(ptr, head, rev, slot, W[k], warm, flow, exponents, k, scratch, Y[k]):
            return k
    return -1


class ClosureAlgorithm(PathsAlgorithm):
    """``y_child <= y_parent``: min cut, or the linear program's own O(n) recursion on a forest.

    Ties: the smallest optimal closure, which is the intersection of all. Weights are rounded to 54-bit integers, so
    that an answer is within ``n 2^-53 sum|w|`` of the optimum. The nodes of a cycle come together. The closures of a
    forest of integer variables are the paths of a graph, which answers all questions.
    """

    name = "closure"
    steps = per_question(argmax="nodes of a forest; a minimum cut of other graphs")

    def __init__(self, n: int, child: IntArray, parent: IntArray, integer: bool = True) -> None:
        #: Nodes of a forest, parents first, and the place of each node's parent in this order; None for other graphs.
        self.forest = forest_order(child, parent, n)
        self.answers = PathsAlgorithm.answers if self.forest is not None and integer else Question.ARGMAX
        self._flows = WarmStarts(partial(FlowState, n_flows=0 if self.forest is not None else child.size))
        if self.forest is not None:
            order, above = self.forest
            up = np.full(n, -1, dtype=np.int32)
            up[order] = np.where(above >= 0, order[above], -1)
            self._tree = order.astype(np.int32), up
            return
        ptr, slot, back = adjacency(n, child.astype(np.int32), parent.astype(np.int32))
        head = np.empty(2 * child.size, np.uint32)
        rev = np.empty(2 * child.size, np.uint32)
        head[slot], rev[slot] = parent, back
        head[back], rev[back] = child, slot
        self._network = (ptr, head, rev, slot)

    @classmethod
    def of_record(cls, record: Record, n: int) -> ClosureAlgorithm:
        assert isinstance(record, Closure)
        return cls(n, record.child, record.parent, record.integer)

    def _close(self, C: FloatArray, state: FlowState | None, first: int, last: int, Z: FloatArray) -> None:
        """Write the heaviest closures for rows of `C` into `Z`; row k of a state warms row k and keeps its flow."""
        if self.forest is not None:
            failed = _forest_rows(*self._tree, C, first, last, Z)
        else:
            kept = _NO_STATE if state is None else (state.flow, state.exponent)
            failed = _cut_rows(*self._network, C, state is not None, *kept, first, last, Z)
        if failed >= 0:
            k = int(np.argmin(np.isfinite(C[failed])))
            raise DeclarationError(f"Gain {k} of example {failed} is {C[failed, k]}; gains must be finite.")

    def _solve(self, C: FloatArray, state: FlowState | None, n_jobs: int = 1) -> FloatArray:
        """Return the heaviest closure for each row of `C`."""
        C = floats(C, "C", 2)
        Z = np.empty(C.shape)
        in_threads(lambda first, last: self._close(C, state, first, last, Z), len(C), n_jobs)
        return Z

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        C = floats(c[None], "c", 2)
        Z = np.empty(C.shape)
        self._close(C, None if key is None else self._flows[key], 0, 1, Z)
        z: FloatArray = Z[0]
        value = dot(c, z)
        return Optimum(z, value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        return Solutions.of_labels(C, self._solve(C, self._flows.batch(keys), n_jobs))

    def maximize_columns(
        self, gains: FloatArray, keys: Sequence[Hashable] | None = None
    ) -> tuple[sp.csr_array, FloatArray]:
        """Return the best labels for the columns of `gains`, as sparse rows, and their values."""
        C = np.ascontiguousarray(gains.T)
        if self.forest is not None or keys is None:
            Z = self._solve(C, None)
        else:
            # Flows are kept by example, in any chunk.
            Z = np.array([self.maximize(c, key).z for c, key in zip(C, keys, strict=True)]).reshape(C.shape)
        return sp.csr_array(Z), np.einsum("ij,ij->i", C, Z)

    def make_diagram(self) -> Diagram:
        # Nodes are visited in depth-first order. A node is chosen, or left out with its subtree.
        assert self.forest is not None
        order, parent = self.forest
        place, size = preorder(parent)
        tail = np.concatenate([place, place])
        head = np.concatenate([place + 1, place + size])
        column = np.concatenate([order, np.full(order.size, -1)])
        return arc_diagram(tail, head, column, np.zeros(order.size))
