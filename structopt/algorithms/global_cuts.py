"""Small cuts of an undirected graph with weights: Stoer and Wagner, *A simple min-cut algorithm* (1997).

Each phase orders the nodes by how tightly they are connected with those before; the last one by itself is then a
smallest cut between it and the one before it, and the two are merged. The smallest of these n - 1 cuts is a smallest
cut of the graph. All that are below a limit are of use to a cutting plane method.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import FloatArray, kernel

__all__ = ["components", "cuts_below"]


@kernel
def components(weights: FloatArray, least: float) -> Any:
    """Return the number of components of the edges with a weight above `least`, and the component of each node."""
    n = len(weights)
    part = np.full(n, -1, dtype=np.int64)
    reached = np.empty(n, dtype=np.int64)
    n_parts = 0
    for root in range(n):
        if part[root] >= 0:
            continue
        part[root] = n_parts
        reached[0] = root
        head, tail = 0, 1
        while head < tail:
            u = reached[head]
            head += 1
            for v in range(n):
                if part[v] < 0 and weights[u, v] > least:
                    part[v] = n_parts
                    reached[tail] = v
                    tail += 1
        n_parts += 1
    return n_parts, part


@kernel
def cuts_below(weights: FloatArray, limit: float) -> Any:
    """Return sides of cuts of weight below `limit`, one per row, and at least one if there are any."""
    n = len(weights)
    w = weights.copy()
    merged = np.zeros((n, n), dtype=np.bool_)  # the nodes that each remaining one stands for
    for v in range(n):
        merged[v, v] = True
        w[v, v] = 0.0
    cuts = np.zeros((max(n - 1, 0), n), dtype=np.bool_)
    n_cuts = 0
    remaining = np.arange(n)
    for size in range(n, 1, -1):
        connection = np.zeros(n)
        inside = np.zeros(n, dtype=np.bool_)
        before, last = -1, -1
        for _ in range(size):
            best = -1
            for k in range(size):
                v = remaining[k]
                if not inside[v] and (best < 0 or connection[v] > connection[best]):
                    best = v
            inside[best] = True
            before, last = last, best
            for k in range(size):
                v = remaining[k]
                if not inside[v]:
                    connection[v] += w[best, v]
        if connection[last] < limit:
            cuts[n_cuts] = merged[last]
            n_cuts += 1
        for k in range(size):
            v = remaining[k]
            w[before, v] += w[last, v]
            w[v, before] = w[before, v]
        w[before, before] = 0.0
        for v in range(n):
            merged[before, v] |= merged[last, v]
        for k in range(size):
            if remaining[k] == last:
                remaining[k] = remaining[size - 1]
                break
    return cuts[:n_cuts]
