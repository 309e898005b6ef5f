"""Rankings of queries of any sizes, from the scores of their documents."""

from __future__ import annotations

import numpy as np

from structopt._jit import FloatArray, IntArray, assign, fail, kernel
from structopt.algorithms.assignment import augment_rows
from structopt.algorithms.parts import Maxima, Parts, PartSolver

__all__ = ["RankingParts"]


class RankingParts(PartSolver):
    """One sort without a loss; one assignment per query with a loss. Labels are stacked documents from the top.

    Column prices are kept for the next call. `position_weights` are those of all queries, one after the other.
    """

    adds_loss = True

    def __init__(self, position_weights: FloatArray) -> None:
        self._c = position_weights
        self._prices = np.zeros(len(position_weights))

    def maximize_parts(self, parts: Parts) -> Maxima:
        own = slice(None) if parts.rows is None else parts.rows
        f, c, ptr = np.ascontiguousarray(parts.scores[:, 0]), self._c[own], parts.ptr
        n = len(ptr) - 1
        if parts.loss is None:
            query = np.repeat(np.arange(n), np.diff(ptr))
            order = np.lexsort((-f, query))
            values = np.bincount(query, c * f[order], minlength=n).astype(np.float64, copy=False)
            return Maxima(order - ptr[query], values)
        order, values, prices = np.empty(len(f), dtype=np.int64), np.empty(n), self._prices[own]
        status, k = _rank(c, f, *parts.loss.outer(), ptr, prices, order, values)
        if status:
            fail(status, "a score is NaN or infinite.", "no ranking.", int(parts.examples[k]))
        self._prices[own] = prices
        return Maxima(order, values)


@kernel
def _rank(
    c: FloatArray,
    f: FloatArray,
    a: FloatArray,
    b: FloatArray,
    start: IntArray,
    prices: FloatArray,
    order: IntArray,
    values: FloatArray,
) -> tuple[int, int]:
    """For every query the permutation that maximises ``sum_i c_i f_{pi(i)} - a_i b_{pi(i)}``; prices are kept."""
    for s in range(start.size - 1):
        low, n = start[s], start[s + 1] - start[s]
        scores = np.empty((n, n))
        for i in range(n):
            for j in range(n):
                scores[i, j] = c[low + i] * f[low + j] - a[low + i] * b[low + j]
        columns, value, status = augment_rows(scores, prices[low : low + n])
        if status:
            return status, s
        assign(order[low : low + n], columns)
        values[s] = value
    return 0, -1
