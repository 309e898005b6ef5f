"""Independent blocks of variables: each is solved by an algorithm of its own."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence

import numpy as np

from structopt._jit import IntArray
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.fronts import nondominated
from structopt.algorithms.question import Question, per_question
from structopt.space.compiled import FloatArray

__all__ = ["Product"]

# Sums of the points of two Pareto fronts that are compared at once; larger products are left to a search.
_FRONT_SUMS = 1 << 18


class Product(Algorithm):
    """Independent blocks of variables, each with an algorithm of its own.

    It lists k-best labels and Pareto fronts if all of its parts do: the k best sums come from the k best of each part,
    and a sum of points is dominated if one of its terms is.
    """

    name = "product"
    steps = per_question(
        argmax="sum over the parts",
        k_best="sum over the parts, and k log k",
        outside="as for the k best",
        front="product of the sizes of the fronts",
    )

    def __init__(self, parts: Sequence[tuple[IntArray, Algorithm]]) -> None:
        self._parts = list(parts)
        self._size = sum(columns.size for columns, _ in parts)
        self.integral = all(algorithm.integral for _, algorithm in parts)
        self.answers = Question.ARGMAX | Question.K_BEST | Question.OUTSIDE | Question.FRONT
        for _, algorithm in parts:
            self.answers &= algorithm.answers

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        z = np.empty(self._size)
        value = bound = 0.0
        optimal = True
        for columns, algorithm in self._parts:
            found = algorithm.maximize(c[columns], key)
            if found is None:
                return None
            z[columns] = found.z
            value, bound, optimal = value + found.value, bound + found.bound, optimal and found.optimal
        return Optimum(z, value, bound, optimal)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        n = len(C)
        Z, values, bounds = np.empty((n, self._size)), np.zeros(n), np.zeros(n)
        solved, optimal = np.ones(n, dtype=np.bool_), np.ones(n, dtype=np.bool_)
        for columns, algorithm in self._parts:
            found = algorithm.maximize_batch(np.ascontiguousarray(C[:, columns]), n_jobs=n_jobs, keys=keys)
            Z[:, columns] = found.Z
            values += found.values
            bounds += found.bounds
            if found.solved is not None:
                solved &= found.solved
            if found.optimal is not None:
                optimal &= found.optimal
        return Solutions(Z, values, bounds, None if solved.all() else solved, None if optimal.all() else optimal)

    def k_best(self, c: FloatArray, k: int) -> Solutions | None:
        Z, values = np.zeros((min(k, 1), self._size)), np.zeros(min(k, 1))
        for columns, algorithm in self._parts:
            found = algorithm.k_best(c[columns], k)
            if found is None:
                return None
            first, second = _largest_sums(values, found.values, k)
            Z, values = Z[first], values[first] + found.values[second]
            Z[:, columns] = found.Z[second]
        return Solutions(Z, values, values.copy())

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        Z, points = np.zeros((1, self._size)), np.array([[h_const, g_const]])
        for columns, algorithm in self._parts:
            own = algorithm.front(h[columns], 0.0, g[columns], 0.0)
            if own is None or len(own) * len(points) > _FRONT_SUMS:
                return None
            ends = np.column_stack([own @ h[columns], own @ g[columns]])
            sums = (points[:, None] + ends[None]).reshape(-1, 2)
            kept = nondominated(sums[:, 0], sums[:, 1])
            first, second = np.divmod(kept, len(own))
            points, Z = sums[kept], Z[first]
            Z[:, columns] = own[second]
        return Z


def _largest_sums(a: FloatArray, b: FloatArray, k: int) -> tuple[IntArray, IntArray]:
    """Places of the terms of the `k` largest sums of two falling lists, the largest first."""
    if not a.size or not b.size or k < 1:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    found: list[tuple[int, int]] = []
    heap = [(-(a[0] + b[0]), 0, 0)]
    while heap and len(found) < k:
        _, i, j = heapq.heappop(heap)
        found.append((i, j))
        # Every pair has one way in: along the second list, and along the first at its head.
        if j + 1 < b.size:
            heapq.heappush(heap, (-(a[i] + b[j + 1]), i, j + 1))
        if j == 0 and i + 1 < a.size:
            heapq.heappush(heap, (-(a[i + 1] + b[0]), i + 1, 0))
    places = np.array(found, dtype=np.int64)
    return places[:, 0], places[:, 1]
