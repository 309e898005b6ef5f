"""Batches of small linear assignment problems, as they occur in ranking."""

from __future__ import annotations

import numpy as np

from structopt._jit import kernel
from structopt.risks._features import FloatArray, IntArray

__all__ = ["first_prices", "rank_batch"]


def first_prices(a: FloatArray, b: FloatArray) -> FloatArray:
    """Column duals of the assignment with costs b_i a_j alone, b decreasing: large is paired with small."""
    order = np.argsort(-a)
    rising = b[::-1]
    prices = np.zeros(a.size)
    prices[order[1:]] = np.cumsum(0.5 * (rising[:-1] + rising[1:]) * np.diff(a[order]))
    return prices


@kernel
def rank_batch(
    f: FloatArray,
    a: FloatArray,
    b: FloatArray,
    c: FloatArray,
    starts: IntArray,
    order: IntArray,
    first: FloatArray,
    derivative: FloatArray,
) -> float:
    """Sum over queries of ``max over pi of c.(f(pi) - f) + (a - a(pi)).b``, docs/mathematics/risks#ranking.

    Query s owns the entries ``starts[s]:starts[s + 1]``; `order` sorts its f in descending order.

    The augmentation starts from `first` plus the duals of the costs c_i f_j alone, which a sort solves too. That
    takes a sixth to two thirds of the time from zero, not much more than from the duals of the previous w, and the
    answer does not depend on earlier calls.
    """
    total = 0.0
    for s in range(starts.size - 1):
        low, high = starts[s], starts[s + 1]
        prices = first[low:high].copy()
        price = 0.0
        for k in range(low, high - 1):
            price -= 0.5 * (c[k] + c[k + 1]) * (f[order[k + 1]] - f[order[k]])
            prices[order[k + 1] - low] += price
        column = _assign(f[low:high], a[low:high], b[low:high], c[low:high], prices)
        for i in range(low, high):
            j = low + column[i - low]
            total += c[i] * (f[j] - f[i]) + (a[i] - a[j]) * b[i]
            derivative[j] += c[i]
            derivative[i] -= c[i]
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
