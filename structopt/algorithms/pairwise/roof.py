"""Roof duality: the local polytope of a binary pairwise model as one minimum cut (docs/mathematics/oracles).

Everything here works on integer coefficients. A label ``y`` in {0, 1/2, 1} is carried as ``2 y`` in int8.

The network has the nodes ``v`` (label v is 1) and ``n + v`` (label v is 0). An edge ``e`` joins labels ``i, j`` and
owns slot ``q`` at ``i`` and slot ``r`` at ``j``; the copies of both at the complements are ``q + D`` and ``r + D``
with ``D`` twice the number of edges. Only where a slot leads depends on the sign of the coupling.

Ties follow one rule, for every flow: the answer is the lexicographically smallest of the half-integral optima with the
fewest halves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import kernel
from structopt.algorithms.maxflow import adjacency, dinic, flow_scratch

__all__ = [
    "clip_flow",
    "decide_labels",
    "fewest_halves",
    "fill_cut",
    "fill_network",
    "pull_flow",
    "reduced_graph",
    "roof_labels",
    "roof_scratch",
    "slot_ends",
]

_UNDECIDED, _IN, _OUT, _FRUSTRATED = 0, 1, 2, 3


@kernel
def roof_scratch(n: int, m: int) -> tuple[Any, Any, Any, Any, tuple[Any, Any, Any, Any, Any]]:
    """Work space for ``n`` labels and ``m`` edges: head, rev, residuals, excess and that of `dinic`."""
    return (
        np.empty(4 * m, np.uint32),
        np.empty(4 * m, np.uint32),
        np.empty(4 * m, np.int64),
        np.empty(2 * n, np.int64),
        flow_scratch(2 * n),
    )


@kernel
def slot_ends(n_slots: int, edges: Any) -> tuple[Any, Any]:
    """For every slot of the labels the edge that owns it, and the label at that edge's other end."""
    edge, end = np.empty(n_slots, np.int32), np.empty(n_slots, np.int32)
    for e in range(len(edges)):
        edge[edges[e, 2]], end[edges[e, 2]] = e, edges[e, 1]
        edge[edges[e, 3]], end[edges[e, 3]] = e, edges[e, 0]
    return edge, end


@kernel
def decide_labels(
    n: int, ptr: Any, edge: Any, end: Any, unary: Any, pair: Any, gains: Any, losses: Any, y2: Any, free: Any
) -> int:
    """Labels that are 0, or 1, in every optimum because their own coefficient outweighs all couplings.

    A label with ``c_v + sum_w max(0, c_vw) < 0`` is 0, one with ``c_v + sum_w min(0, c_vw) > 0`` is 1, also with
    fractions around it; the couplings of labels that are decided count as they are. Trained on many labels of which
    each example has few, almost all are decided.
    """
    count = 0
    for v in range(n):
        y2[v] = 0 if unary[v] + gains[v] < 0 else (2 if unary[v] + losses[v] > 0 else 1)
        if y2[v] == 1:
            free[count] = v
            count += 1
    before = n
    # Another round while it pays: it looks at all couplings of the labels that are left.
    while count > 0 and 10 * (before - count) >= count:
        before, count = count, 0
        for k in range(before):
            v = free[k]
            most, least = unary[v], unary[v]
            for q in range(ptr[v], ptr[v + 1]):
                c, other = pair[edge[q]], y2[end[q]]
                if other == 2:
                    most += c
                    least += c
                elif other == 1:
                    most += max(c, 0)
                    least += min(c, 0)
            if most < 0:
                y2[v] = 0
            elif least > 0:
                y2[v] = 2
            else:
                free[count] = v
                count += 1
    return count


@kernel
def reduced_graph(n: int, ptr: Any, edge: Any, end: Any, unary: Any, pair: Any, y2: Any, free: Any, count: int) -> Any:
    """The model of the labels that `decide_labels` left: row pointers, edges, unary and pair coefficients.

    Labels of value 1 add their couplings to the coefficients of their neighbours; labels of value 0 go.
    """
    number = np.full(n, -1, np.int32)
    n_edges = 0
    for k in range(count):
        number[free[k]] = k
        for q in range(ptr[free[k]], ptr[free[k] + 1]):
            n_edges += y2[end[q]] == 1 and end[q] > free[k]
    own, couplings = np.empty(count, np.int64), np.empty(n_edges, np.int64)
    first, second = np.empty(n_edges, np.int32), np.empty(n_edges, np.int32)
    at = 0
    for k in range(count):
        v = free[k]
        own[k] = unary[v]
        for q in range(ptr[v], ptr[v + 1]):
            w = end[q]
            if y2[w] == 2:
                own[k] += pair[edge[q]]
            elif y2[w] == 1 and w > v:
                first[at], second[at], couplings[at] = k, number[w], pair[edge[q]]
                at += 1
    half, slot_first, slot_second = adjacency(count, first, second)
    both, edges = np.empty(2 * count + 1, np.int32), np.empty((n_edges, 4), np.int32)
    for k in range(count + 1):
        both[k] = half[k]
        both[count + k] = half[k] + np.int32(2 * n_edges)
    for e in range(n_edges):
        edges[e, 0], edges[e, 1], edges[e, 2], edges[e, 3] = first[e], second[e], slot_first[e], slot_second[e]
    return both, edges, own, couplings


@kernel
def fill_network(n: int, edges: Any, unary: Any, pair: Any, head: Any, rev: Any, res: Any, ex: Any) -> None:
    """Write the doubled network of the coefficients: ``ex = a`` with a_j = 2 c_j + sum_k c_jk, capacities |c_jk|."""
    m = pair.size
    D = 2 * m
    for v in range(n):
        ex[v] = 2 * unary[v]
    for e in range(m):
        a, b, q, r = edges[e, 0], edges[e, 1], edges[e, 2], edges[e, 3]
        c = pair[e]
        ex[a] += c
        ex[b] += c
        if c >= 0:
            head[q], rev[q] = b, r
            head[r], rev[r] = a, q
            head[q + D], rev[q + D] = n + b, r + D
            head[r + D], rev[r + D] = n + a, q + D
        else:
            head[q], rev[q] = n + b, r + D
            head[r + D], rev[r + D] = a, q
            head[q + D], rev[q + D] = b, r
            head[r], rev[r] = n + a, q + D
        u = abs(c)
        res[q] = u
        res[r] = u
        res[q + D] = u
        res[r + D] = u
    for v in range(n):
        ex[n + v] = -ex[v]


@kernel
def fill_cut(n: int, edges: Any, unary: Any, pair: Any, head: Any, rev: Any, res: Any, ex: Any) -> None:
    """Write the single network of a sub-modular objective (no negative coupling): half the nodes and slots."""
    for v in range(n):
        ex[v] = 2 * unary[v]
    for e in range(pair.size):
        a, b, q, r = edges[e, 0], edges[e, 1], edges[e, 2], edges[e, 3]
        c = pair[e]
        ex[a] += c
        ex[b] += c
        head[q], rev[q] = b, r
        head[r], rev[r] = a, q
        res[q] = c
        res[r] = c


@kernel
def clip_flow(n: int, copies: int, edges: Any, pair: Any, flow: Any, head: Any, rev: Any, res: Any, ex: Any) -> None:
    """Start from a kept flow: clip it to the new capacities and let the excess say what it leaves to do.

    Any antisymmetric flow within the capacities is a valid start; the excess accounts for it.
    """
    D = 2 * pair.size
    for e in range(pair.size):
        u = abs(pair[e])
        for copy in range(copies):
            f = min(max(flow[2 * e + copy], -u), u)
            if f != 0:
                q = edges[e, 2] + copy * D
                res[q] -= f
                res[rev[q]] += f
                ex[edges[e, 0] + copy * n] -= f
                ex[head[q]] += f


@kernel
def pull_flow(copies: int, edges: Any, pair: Any, res: Any, flow: Any) -> None:
    """Keep the flow of a solved network: two numbers an edge, since the slots that look back mirror them."""
    D = 2 * pair.size
    for e in range(pair.size):
        u = abs(pair[e])
        for copy in range(copies):
            flow[2 * e + copy] = u - res[edges[e, 2] + copy * D]


@kernel
def roof_labels(n: int, ptr: Any, doubled: bool, work: Any, y2: Any) -> None:
    """Solve the network written in ``work`` and put ``2 y`` of the smallest source side into ``y2``."""
    head, rev, res, ex, flow_work = work
    if doubled:
        level = dinic(2 * n, ptr, head, rev, res, ex, flow_work)
        for v in range(n):
            y2[v] = (1 if level[v] >= 0 else 0) + (0 if level[n + v] >= 0 else 1)
    else:
        level = dinic(n, ptr, head, rev, res, ex, flow_work)
        for v in range(n):
            y2[v] = 2 if level[v] >= 0 else 0


@kernel
def fewest_halves(n: int, ptr: Any, work: Any, y2: Any) -> None:
    """Decide as many of the undecided labels as some optimum does, the smaller value first; overwrites the residuals.

    Optimal half-integral labels are the closed sets of the residual graph of a mirror-symmetric maximum flow that hold
    no node together with its complement. A label stays 1/2 in all of them iff each of its two nodes reaches the other.
    """
    undecided = False
    for v in range(n):
        undecided |= y2[v] == 1
    if not undecided:
        return
    head, rev, res, _, flow_work = work
    D = ptr[n]
    # The symmetric flow is the mean of the flow and its mirror, so its residual is positive where either is.
    for q in range(2 * D):
        mirror = rev[q] + D if rev[q] < D else rev[q] - D
        if mirror > q:
            r = max(res[q], res[mirror])
            res[q] = r
            res[mirror] = r
    state = np.empty(2 * n, np.int8)
    for v in range(n):
        state[v] = _UNDECIDED if y2[v] == 1 else (_IN if y2[v] == 2 else _OUT)
        state[n + v] = _UNDECIDED if y2[v] == 1 else (_IN if y2[v] == 0 else _OUT)
    component = _components(2 * n, ptr, head, res, state)
    for v in range(n):
        if state[v] == _UNDECIDED and component[v] == component[n + v]:
            state[v] = _FRUSTRATED
            state[n + v] = _FRUSTRATED
    queue = flow_work[2]
    for v in range(n):
        if state[v] == _UNDECIDED and not _close(n, n + v, ptr, head, res, state, queue):
            _close(n, v, ptr, head, res, state, queue)
        if state[v] == _IN:
            y2[v] = 2
        elif state[v] == _OUT:
            y2[v] = 0


@kernel
def _close(n: int, start: int, ptr: Any, head: Any, res: Any, state: Any, queue: Any) -> bool:
    """Put ``start`` and all that it reaches on the source side; undo and say False if that contradicts itself."""
    queue[0] = start
    count = 1
    state[start] = _IN
    k = 0
    consistent = True
    while k < count and consistent:
        v = queue[k]
        k += 1
        for q in range(ptr[v], ptr[v + 1]):
            w = head[q]
            if res[q] == 0 or state[w] == _IN:
                continue
            mirror = w - n if w >= n else w + n
            if state[w] != _UNDECIDED or state[mirror] == _IN:
                consistent = False
                break
            state[w] = _IN
            queue[count] = w
            count += 1
    for k in range(count):
        v = queue[k]
        if consistent:
            state[v - n if v >= n else v + n] = _OUT
        else:
            state[v] = _UNDECIDED
    return consistent


@kernel
def _components(n: int, ptr: Any, head: Any, res: Any, state: Any) -> Any:
    """Strongly connected components of the residual graph on the undecided nodes (Tarjan, without recursion)."""
    order = np.empty(n, np.int32)
    low = np.empty(n, np.int32)
    component = np.empty(n, np.int32)
    for v in range(n):
        order[v] = -1
        component[v] = -1
    current = np.empty(n, np.int32)
    calls = np.empty(n, np.int32)
    pending = np.empty(n, np.int32)
    visited = 0
    n_pending = 0
    n_components = 0
    for root in range(n):
        if state[root] != _UNDECIDED or order[root] >= 0:
            continue
        calls[0] = root
        depth = 0
        order[root] = -2
        while depth >= 0:
            v = calls[depth]
            if order[v] == -2:
                order[v] = visited
                low[v] = visited
                visited += 1
                pending[n_pending] = v
                n_pending += 1
                current[v] = ptr[v]
            descended = False
            q = current[v]
            while q < ptr[v + 1]:
                w = head[q]
                if res[q] > 0 and state[w] == _UNDECIDED:
                    if order[w] == -1:
                        order[w] = -2
                        descended = True
                        break
                    if component[w] < 0:
                        low[v] = min(low[v], low[w])
                q += 1
            if descended:
                current[v] = q  # looked at again on the way back, to take over low[w]
                depth += 1
                calls[depth] = w
                continue
            if low[v] == order[v]:
                while True:
                    n_pending -= 1
                    w = pending[n_pending]
                    component[w] = n_components
                    if w == v:
                        break
                n_components += 1
            depth -= 1
    return component
