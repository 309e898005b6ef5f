"""Best matchings of one shape, behind `Assignment` and `Ranking` (docs/mathematics/oracles#assignment)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from structopt._jit import IntArray
from structopt._jit.threads import in_threads
from structopt.algorithms import assignment as kernels
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.question import Question, per_question
from structopt.space.compiled import FloatArray

__all__ = ["AssignmentAlgorithm", "assign_in_threads", "matrix_of"]

# Column prices are kept for at most this many bytes of examples, the oldest forgotten first.
_PRICE_LIMIT = 1 << 27


class AssignmentAlgorithm(Algorithm):
    """Best matchings of one shape, with kept column prices where n = m.

    An unmatched row takes a dummy column of its own at score 0: a matching is then one assignment, and not several, so
    that Murty's cells list every matching once.
    """

    name = "assignment"
    answers = Question.ARGMAX | Question.K_BEST | Question.OUTSIDE
    steps = per_question(
        argmax="rows^2 x columns",
        k_best="k x rows^2 x columns",
        outside="forbidden x rows^2 x columns",
    )

    def __init__(self, rows: int, columns: int, unmatched: bool = False) -> None:
        self.rows, self.columns, self.unmatched = rows, columns, unmatched
        self._prices: dict[Hashable, FloatArray] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_prices": {}}

    @property
    def width(self) -> int:
        """Number of columns with the dummies."""
        return self.columns + self.rows if self.unmatched else self.columns

    def padded(self, scores: FloatArray) -> FloatArray:
        """Scores (..., rows, columns) with the dummy columns, if there are any."""
        if not self.unmatched:
            return scores
        wide = np.full((*scores.shape[:-1], self.width), -np.inf)
        wide[..., : self.columns] = scores
        own = np.arange(self.rows)
        wide[..., own, self.columns + own] = 0.0
        return wide

    def chosen(self, columns: IntArray) -> IntArray:
        """Columns without the dummies, which become -1."""
        return np.where(columns < self.columns, columns, -1) if self.unmatched else columns

    def best(self, scores: FloatArray, prices: FloatArray | None = None) -> tuple[IntArray, float]:
        """The best columns and their value."""
        columns, value = kernels.assign(self.padded(scores), prices)
        return self.chosen(columns), value

    def _points(self, columns: IntArray) -> FloatArray:
        """0/1 matrices of column choices, one a row; dummies become empty rows."""
        Z = np.zeros((len(columns), self.rows, self.width + 1))  # a last column for rows without any (-1)
        Z[np.arange(len(columns))[:, None], np.arange(self.rows), columns] = 1.0
        return Z[:, :, : self.columns].reshape(len(columns), Z.shape[1] * self.columns)

    def _kept(self, key: Hashable | None) -> FloatArray | None:
        if key is None or self.rows != self.width:
            return None
        prices = self._prices.get(key)
        if prices is None:
            if len(self._prices) * 8 * self.width > _PRICE_LIMIT:
                self._prices.pop(next(iter(self._prices)), None)
            prices = self._prices[key] = np.zeros(self.width)
        return prices

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        columns, value = self.best(c.reshape(self.rows, self.columns), self._kept(key))
        return Optimum(matrix_of(columns, (self.rows, self.columns)).ravel(), value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        scores = self.padded(C.reshape(-1, self.rows, self.columns))
        prices = np.zeros((len(scores), self.width))
        kept = [None if keys is None else self._kept(key) for key in (keys or range(len(scores)))]
        for row, known in zip(prices, kept, strict=True):
            if known is not None:
                row[:] = known
        columns, values = assign_in_threads(scores, prices, n_jobs)
        for row, known in zip(prices, kept, strict=True):
            if known is not None:
                known[:] = row
        return Solutions(self._points(columns), values, values.copy())

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        if k < 1:
            return Solutions.stacked([], c.size)
        columns, values = kernels.k_best(self.padded(c.reshape(self.rows, self.columns)), k)
        return Solutions(self._points(columns), values, values)


def assign_in_threads(scores: FloatArray, prices: FloatArray, n_jobs: int) -> tuple[IntArray, FloatArray]:
    """`kernels.assign_batch` with the matrices shared between threads."""
    columns, values = np.empty(scores.shape[:2], dtype=np.int64), np.empty(len(scores))

    def work(first: int, last: int) -> None:
        columns[first:last], values[first:last] = kernels.assign_batch(scores[first:last], prices[first:last])

    in_threads(work, len(scores), n_jobs)
    return columns, values


def matrix_of(columns: IntArray, shape: tuple[int, int]) -> FloatArray:
    """The 0/1 matrix with a one in each row's column; -1 leaves a row empty."""
    flat = np.zeros(shape[0] * shape[1])
    rows = np.arange(shape[0])
    if columns.min(initial=0) < 0:
        rows = rows[columns >= 0]
        columns = columns[rows]
    flat[rows * shape[1] + columns] = 1.0
    return flat.reshape(shape)
