"""The few loops of the recogniser that do not vectorise."""

from __future__ import annotations

import numpy as np

from structopt._jit import kernel
from structopt.recognize.grouping import BoolArray, IntArray

__all__ = ["components", "peel", "reachable"]


@kernel
def components(a: IntArray, b: IntArray, n: int) -> tuple[int, IntArray]:
    """Connected components of the graph with edges ``a[e] - b[e]``, numbered by their smallest node."""
    parent = np.arange(n)
    for e in range(a.size):
        u, v = a[e], b[e]
        while parent[u] != u:
            parent[u] = parent[parent[u]]
            u = parent[u]
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        if u < v:
            parent[v] = u
        else:
            parent[u] = v
    count = 0
    label = np.empty(n, dtype=np.int64)
    for v in range(n):  # parents have smaller numbers, so they are labelled first
        if parent[v] == v:
            label[v] = count
            count += 1
        else:
            label[v] = label[parent[v]]
    return count, label


@kernel
def reachable(ptr: IntArray, head: IntArray, order: IntArray, start: BoolArray) -> BoolArray:
    """Nodes that a path from a `start` node leads to."""
    reached = start.copy()
    for v in order:
        if reached[v]:
            for e in range(ptr[v], ptr[v + 1]):
                reached[head[e]] = True
    return reached


@kernel
def peel(ptr: IntArray, adjacent: IntArray) -> BoolArray:
    """Which nodes stay when nodes with at most one neighbour are removed again and again."""
    n = ptr.size - 1
    degree = np.empty(n, dtype=np.int64)
    stack = np.empty(n, dtype=np.int64)
    alive = np.ones(n, dtype=np.bool_)
    top = 0
    for v in range(n):
        degree[v] = ptr[v + 1] - ptr[v]
        if degree[v] <= 1:
            alive[v] = False
            stack[top] = v
            top += 1
    while top > 0:
        top -= 1
        v = stack[top]
        for e in range(ptr[v], ptr[v + 1]):
            u = adjacent[e]
            degree[u] -= 1
            if alive[u] and degree[u] <= 1:
                alive[u] = False
                stack[top] = u
                top += 1
    return alive
