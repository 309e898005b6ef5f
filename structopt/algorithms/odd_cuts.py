"""Small odd cuts of an undirected graph with weights: Padberg and Rao, *Odd minimum cut-sets and b-matchings* (1982).

A cut tree has the nodes of the graph, and for any two nodes the lightest edge on their path in the tree, removed, is a
smallest cut between them. Among the cuts of its edges is a smallest one of those with an odd number of marked nodes on
each side. The tree takes one maximum flow per node and no contraction: Gusfield, *Very simple methods for all pairs
network flow analysis* (1990).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import FloatArray, IntArray, assign, kernel

__all__ = ["cut_tree", "odd_cuts_below", "smallest_cut"]

#: Capacity that is left on an edge and is taken for none: rounding of the flows before.
_EMPTY = 1e-12


@kernel
def smallest_cut(residual: FloatArray, source: int, sink: int, inside: Any, parent: IntArray, queue: IntArray) -> float:
    """The value of a smallest cut by shortest augmenting paths; `inside` gets its side of the source.

    Parameters
    ----------
    residual : ndarray, shape (n, n)
        Capacities of the arcs from row to column; what is left of them is written to it.
    source, sink : int
    inside : ndarray of bool, shape (n,)
    parent, queue : ndarray of int, shape (n,)
        Scratch.

    Returns
    -------
    float
    """
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
def cut_tree(weights: FloatArray) -> tuple[IntArray, FloatArray]:
    """The cut tree of a graph.

    Parameters
    ----------
    weights : ndarray, shape (n, n)
        Symmetric and not negative; the diagonal is ignored.

    Returns
    -------
    parent : ndarray of int, shape (n,)
        The other end of each node's edge in the tree; that of node 0 is 0.
    value : ndarray, shape (n,)
        The weight of the cut of that edge.

    Examples
    --------
    >>> import numpy as np
    >>> path = np.zeros((3, 3))
    >>> path[[0, 1], [1, 0]], path[[1, 2], [2, 1]] = 2.0, 1.0                    # 0 -2- 1 -1- 2
    >>> cut_tree(path)
    (array([0, 0, 1]), array([0., 2., 1.]))
    """
    n = len(weights)
    tree, value = np.zeros(n, dtype=np.int64), np.zeros(n)
    inside, parent, queue = np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    residual = np.empty_like(weights)
    for s in range(1, n):
        t = tree[s]
        for v in range(n):
            assign(residual[v], weights[v])
        value[s] = smallest_cut(residual, s, t, inside, parent, queue)
        for v in range(n):
            if v != s and inside[v] and tree[v] == t and v != t:
                tree[v] = s
        if inside[tree[t]] and t != 0:  # the parent of t is on the side of s: s comes between them
            tree[s], tree[t] = tree[t], s
            value[s], value[t] = value[t], value[s]
    return tree, value


@kernel
def odd_cuts_below(weights: FloatArray, marked: Any, limit: float) -> Any:
    """Sides of cuts of weight below `limit` with an odd number of marked nodes; none only if no such cut is below it.

    Parameters
    ----------
    weights : ndarray, shape (n, n)
        Symmetric and not negative; the diagonal is ignored.
    marked : ndarray of bool, shape (n,)
        An even number of nodes.
    limit : float

    Returns
    -------
    ndarray of bool, shape (n_cuts, n)
        The sides without node 0.

    Examples
    --------
    >>> import numpy as np
    >>> triangle = np.zeros((4, 4))
    >>> triangle[1:, 1:] = 0.5                                                   # and node 0, far away
    >>> odd_cuts_below(triangle, np.ones(4, dtype=bool), 1.0)
    array([[False,  True,  True,  True]])
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
        odd = False
        for u in range(n):
            odd ^= below[v, u] and marked[u]
        if odd and value[v] < limit:
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
