"""Directed graphs as arrays: the arcs of node v are ``head[ptr[v]:ptr[v + 1]]``."""

from __future__ import annotations

import numpy as np

from structopt._jit import IntArray, kernel

__all__ = ["preorder", "topological_order"]


@kernel
def topological_order(ptr: IntArray, head: IntArray) -> IntArray:
    """Kahn's order of the nodes that no cycle leads to: as many as there are nodes if the graph has no cycle.

    Examples
    --------
    >>> topological_order(np.array([0, 1, 1, 2]), np.array([1, 0]))        # 2 -> 0 -> 1
    array([2, 0, 1])
    """
    n = ptr.size - 1
    left = np.zeros(n, np.int64)
    for q in range(head.size):
        left[head[q]] += 1
    order = np.empty(n, np.int64)
    end = 0
    for v in range(n):
        if left[v] == 0:
            order[end] = v
            end += 1
    done = 0
    while done < end:
        v = order[done]
        done += 1
        for q in range(ptr[v], ptr[v + 1]):
            left[head[q]] -= 1
            if left[head[q]] == 0:
                order[end] = head[q]
                end += 1
    return order[:end]


@kernel
def preorder(parent: IntArray) -> tuple[IntArray, IntArray]:
    """Return the place of each node in depth-first order, and the size of its subtree.

    Examples
    --------
    >>> preorder(np.array([-1, 0, 0, 1]))                      # parents come before children
    (array([0, 1, 3, 2]), array([4, 2, 1, 1]))
    """
    n = parent.size
    size = np.ones(n, np.int64)
    for i in range(n - 1, -1, -1):
        if parent[i] >= 0:
            size[parent[i]] += size[i]
    place, free = np.empty(n, np.int64), np.empty(n, np.int64)
    end = 0
    for i in range(n):
        p = parent[i]
        place[i] = free[p] if p >= 0 else end
        free[i] = place[i] + 1
        if p >= 0:
            free[p] += size[i]
        else:
            end += size[i]
    return place, size
