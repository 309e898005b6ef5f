"""Cycle inequalities of a binary pairwise model, which its local polytope lacks: Barahona and Mahjoub, *On the cut
polytope* (1986); Sontag and Jaakkola, *New outer bounds on the marginal polytope* (2007).

The two ends of an edge differ by ``x = y_i + y_j - 2 p``. Around a cycle an even number of edges has ends that differ,
so that every label satisfies, for each cycle C and each odd set F of its edges,

    sum_{e in C - F} x_e + sum_{e in F} (1 - x_e) >= 1.

In the graph with two copies of every node, in which an edge keeps the copy at length x and changes it at length 1 - x,
a violated inequality is a path shorter than 1 from one copy of a node to the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import FloatArray, IntArray, kernel

__all__ = ["triangles", "violated_cycles"]


def triangles(n: int, edge_at: IntArray) -> IntArray:
    """Return the three edges of every triangle of a graph, one triangle per row."""
    found = []
    for a in range(n):
        above = a + 1 + np.flatnonzero(edge_at[a, a + 1 :] >= 0)
        if len(above) > 1:
            first, second = np.triu_indices(len(above), 1)
            b, c = above[first], above[second]
            closed = edge_at[b, c] >= 0
            b, c = b[closed], c[closed]
            found.append(np.stack([edge_at[a, b], edge_at[a, c], edge_at[b, c]], axis=1))
    return np.concatenate(found) if found else np.zeros((0, 3), dtype=np.int64)


@kernel
def _shortest(n: int, edge_at: IntArray, x: FloatArray, source: int, limit: float, before: IntArray) -> float:
    """The length of a shortest path from one copy of `source` to the other, if below `limit`; Dijkstra, dense."""
    length = np.full(2 * n, np.inf)
    done = np.zeros(2 * n, dtype=np.bool_)
    length[source] = 0.0
    while True:
        u = -1
        for v in range(2 * n):
            if not done[v] and length[v] < limit and (u < 0 or length[v] < length[u]):
                u = v
        if u < 0:
            return np.inf
        if u == source + n:
            return float(length[u])
        done[u] = True
        node, other = u % n, n if u < n else 0
        for v in range(n):
            e = edge_at[node, v]
            if e < 0:
                continue
            same, changed = v + n - other, v + other
            if length[u] + x[e] < length[same]:
                length[same], before[same] = length[u] + x[e], u
            if length[u] + 1.0 - x[e] < length[changed]:
                length[changed], before[changed] = length[u] + 1.0 - x[e], u


@kernel
def violated_cycles(edge_at: IntArray, x: FloatArray, limit: float) -> tuple[IntArray, IntArray, Any]:
    """Return odd cycles shorter than `limit`, at most one through each node, and at least one if there are any.

    Cycle k has the edges ``edges[ptr[k]:ptr[k + 1]]``; the third array marks those of them on which it flips.
    """
    n = len(edge_at)
    before, path, seen = np.empty(2 * n, dtype=np.int64), np.empty(2 * n, dtype=np.int64), np.empty(n, dtype=np.int64)
    starts = np.zeros(n + 1, dtype=np.int64)
    edges, odd = np.empty(n * n, dtype=np.int64), np.empty(n * n, dtype=np.bool_)
    covered = np.zeros(n, dtype=np.bool_)
    n_cycles, size = 0, 0
    for source in range(n):
        if covered[source] or _shortest(n, edge_at, x, source, limit, before) == np.inf:
            continue
        steps, u = 0, source + n
        while u != source:
            path[steps] = u
            steps += 1
            u = before[u]
        path[steps] = u
        # If a node is met in both copies first, the part in between is a cycle without repetitions.
        seen[:] = -1
        first, last = 0, steps
        for k in range(steps + 1):
            node = path[k] % n
            if seen[node] >= 0:
                first, last = seen[node], k
                break
            seen[node] = k
        for k in range(first, last):
            a, b = path[k], path[k + 1]
            edges[size] = edge_at[a % n, b % n]
            odd[size] = (a < n) != (b < n)
            covered[a % n] = True
            size += 1
        n_cycles += 1
        starts[n_cycles] = size
    return starts[: n_cycles + 1], edges[:size], odd[:size]
