"""Small cuts of a graph with weights, by maximum flows: around any node but a root, and those of odd sets of nodes.

A cut tree has the nodes of an undirected graph, and for any two nodes the lightest edge on their path in the tree,
removed, is a smallest cut between them. Among the cuts of its edges is a smallest one of those with an odd number of
marked nodes on each side: Padberg and Rao, *Odd minimum cut-sets and b-matchings* (1982). The tree takes one maximum
flow per node and no contraction: Gusfield, *Very simple methods for all pairs network flow analysis* (1990).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import FloatArray, IntArray, assign, kernel

__all__ = ["cut_tree", "cuts_below", "rooted_cuts_below"]

#: Capacity that is left on an edge and is taken for none: rounding of the flows before.
_EMPTY = 1e-12


@kernel
def _minimum_cut(residual: FloatArray, source: int, sink: int, inside: Any, parent: IntArray, queue: IntArray) -> float:
    """Return the value of a smallest cut, write its source side into `inside`, and leave what remains in `residual`."""
    n = len(residual)
    total = 0.0
    while True:
        inside[:] = False
        inside[source] = True
        queue[0], first, last = source, 0, 1
        while first < last and not inside[sink]:
            u = queue[first]
            first += 1
            for v in range(n):
                if not inside[v] and residual[u, v] > _EMPTY:
                    inside[v] = True
                    parent[v] = u
                    queue[last] = v
                    last += 1
        if not inside[sink]:
            return total
        step, v = np.inf, sink
        while v != source:
            step = min(step, residual[parent[v], v])
            v = parent[v]
        v = sink
        while v != source:
            residual[parent[v], v] -= step
            residual[v, parent[v]] += step
            v = parent[v]
        total += step


@kernel
def rooted_cuts_below(weights: FloatArray, limit: float) -> Any:
    """Return sets without node 0 that arcs of weight below `limit` enter, and at least one if there are any."""
    n = len(weights)
    cuts, n_cuts = np.zeros((n, n), dtype=np.bool_), 0
    covered = np.zeros(n, dtype=np.bool_)
    inside, parent, queue = np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    residual = np.empty_like(weights)
    for t in range(1, n):
        if covered[t]:  # in a set that is too small to enter already
            continue
        for v in range(n):
            assign(residual[v], weights[v])
        if _minimum_cut(residual, 0, t, inside, parent, queue) < limit:
            for v in range(n):
                cuts[n_cuts, v] = not inside[v]
                covered[v] |= not inside[v]
            n_cuts += 1
    return cuts[:n_cuts]


@kernel
def cut_tree(weights: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the parent of each node in the cut tree (0 for node 0), and the weight of the cut of the edge to it."""
    n = len(weights)
    tree, value = np.zeros(n, dtype=np.int64), np.zeros(n)
    inside, parent, queue = np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    residual = np.empty_like(weights)
    for s in range(1, n):
        t = tree[s]
        for v in range(n):
            assign(residual[v], weights[v])
        value[s] = _minimum_cut(residual, s, t, inside, parent, queue)
        for v in range(n):
            if v != s and inside[v] and tree[v] == t and v != t:
                tree[v] = s
        if inside[tree[t]] and t != 0:  # the parent of t is on the side of s: s comes between them
            tree[s], tree[t] = tree[t], s
            value[s], value[t] = value[t], value[s]
    return tree, value


@kernel
def cuts_below(weights: FloatArray, marked: Any, limit: float) -> Any:
    """Return sides of cuts below `limit`, at least one if there are any; with an odd number of marked nodes if any are.

    `marked` has an entry for each node, or none at all.
    """
    n = len(weights)
    tree, value = cut_tree(weights)
    # Nodes from the leaves to the root: a node hands its subtree over to its parent once it has all of it.
    waiting = np.zeros(n, dtype=np.int64)
    for v in range(1, n):
        waiting[tree[v]] += 1
    below = np.zeros((n, n), dtype=np.bool_)
    order, last = np.empty(n, dtype=np.int64), 0
    for v in range(n):
        below[v, v] = True
        if v and not waiting[v]:
            order[last] = v
            last += 1
    found, n_cuts = np.zeros((n, n), dtype=np.bool_), 0
    first = 0
    while first < last:
        v = order[first]
        first += 1
        counts = marked.size == 0
        for u in range(marked.size):
            counts ^= below[v, u] and marked[u]
        if counts and value[v] < limit:
            found[n_cuts] = below[v]
            n_cuts += 1
        up = tree[v]
        for u in range(n):
            below[up, u] |= below[v, u]
        waiting[up] -= 1
        if up and not waiting[up]:
            order[last] = up
            last += 1
    return found[:n_cuts]
