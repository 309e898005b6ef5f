"""Batches of small linear assignments with the costs of ranking, warm-started."""

from __future__ import annotations

import numpy as np

from structopt.kernels._common import kernel
from structopt.risks._features import FloatArray, IntArray

__all__ = ["rank_batch"]


@kernel
def rank_batch(
    f: FloatArray,
    a: FloatArray,
    b: FloatArray,
    c: FloatArray,
    starts: IntArray,
    prices: FloatArray,
    derivative: FloatArray,
) -> float:
    """Sum over queries of ``max over pi of c.(f(pi) - f) + (a - a(pi)).b``, MATH.md 9.6 (ranking).

    Query s owns the entries ``starts[s]:starts[s + 1]``. `prices` are the column duals of the last call, from which the
    augmentation starts: they change little from one w to the next. They are updated.
    """
    total = 0.0
    for s in range(starts.size - 1):
        low, high = starts[s], starts[s + 1]
        column = _assign(f[low:high], a[low:high], b[low:high], c[low:high], prices[low:high])
        for i in range(high - low):
            j = column[i]
            total += c[low + i] * (f[low + j] - f[low + i]) + (a[low + i] - a[low + j]) * b[low + i]
            derivative[low + j] += c[low + i]
            derivative[low + i] -= c[low + i]
    return total


@kernel
def _assign(f: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray, prices: FloatArray) -> IntArray:
    """Column of each row in an assignment that maximises ``c_i f_j - b_i a_j``; shortest augmenting paths."""
    n = f.size
    column = np.full(n, -1)
    row = np.full(n, -1)
    duals = np.empty(n)
    for i in range(n):  # any prices are dual feasible with these; rows on tight free columns are matched at once
        least, at = np.inf, 0
        for j in range(n):
            reduced = b[i] * a[j] - c[i] * f[j] - prices[j]
            if reduced < least:
                least, at = reduced, j
        duals[i] = least
        if row[at] < 0:
            row[at] = i
            column[i] = at
    distance = np.empty(n)
    via = np.empty(n, np.int64)
    done = np.empty(n, np.bool_)
    for free in range(n):
        if column[free] >= 0:
            continue
        distance[:] = np.inf
        done[:] = False
        i, reach, sink = free, 0.0, -1
        while sink < 0:
            nearest, at = np.inf, -1
            for j in range(n):
                if done[j]:
                    continue
                through = reach + b[i] * a[j] - c[i] * f[j] - duals[i] - prices[j]
                if through < distance[j]:
                    distance[j] = through
                    via[j] = i
                if distance[j] < nearest or (distance[j] == nearest and row[j] < 0):
                    nearest, at = distance[j], j
            reach = nearest
            done[at] = True
            if row[at] < 0:
                sink = at
            else:
                i = row[at]
        duals[free] += reach
        for j in range(n):
            if done[j]:
                if row[j] >= 0:
                    duals[row[j]] += reach - distance[j]
                prices[j] -= reach - distance[j]
        while True:  # flip the path
            i = via[sink]
            row[sink] = i
            column[i], sink = sink, column[i]
            if i == free:
                break
    return column
