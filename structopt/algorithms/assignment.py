"""Bipartite assignment: every row to its own column, n <= m (docs/mathematics/oracles#assignment).

`assign` is a shortest-augmenting-path kernel that can keep its column prices from call to call. ``-inf`` forbids a
pair. Ties: no rule is guaranteed; without kept prices the answer depends on the scores only.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from structopt._jit import (
    BAD_NUMBER,
    INFEASIBLE,
    SOLVED,
    FloatArray,
    IntArray,
    fail,
    floats,
    kernel,
    unusable,
)
from structopt._jit.threads import in_threads
from structopt.algorithms.base import Algorithm, Solutions
from structopt.algorithms.lawler import BoolArray, best_first, no_good_labels
from structopt.algorithms.lawler import k_best as lawler_k_best
from structopt.algorithms.question import per_question
from structopt.algorithms.warm_starts import WarmStarts
from structopt.errors import DeclarationError
from structopt.recognize import Assignment, Record

__all__ = ["BipartiteMatching", "assign", "assign_batch", "augment_rows", "k_best", "match_batch"]

#: Entries of the padded score matrices that are solved in one call.
_PIECE = 1 << 17

_NUMBERS = "a pair's score (or a kept price) is NaN or +inf; scores are finite, or -inf where a pair is forbidden."
_EMPTY = "no assignment avoids the forbidden pairs: some rows share too few columns."


def assign(C: npt.ArrayLike, prices: FloatArray | None = None) -> tuple[IntArray, float]:
    """The best assignment of rows to columns.

    Parameters
    ----------
    C : array_like, shape (n, m), n <= m
        Scores, maximised.
    prices : ndarray, shape (m,), optional
        Column prices of an earlier call, updated in place: a warm start for a score matrix that drifts. Start with
        zeros. Without effect if n < m, where unmatched columns must have price 0.

    Returns
    -------
    columns : ndarray of int64, shape (n,)
    value : float

    Examples
    --------
    >>> columns, value = assign([[3, 1, 2], [2, 4, 6], [0, 2, 5]])
    >>> columns.tolist(), value
    ([0, 1, 2], 12.0)
    """
    scores = floats(C, "C", 2)
    _check_shape(*scores.shape)
    kept = np.zeros(scores.shape[1]) if prices is None else prices
    _check_prices(kept, (scores.shape[1],))
    columns, value, status = augment_rows(scores, kept)
    if status:
        fail(status, _NUMBERS, _EMPTY)
    return columns, value


def assign_batch(C: npt.ArrayLike, prices: FloatArray | None = None) -> tuple[IntArray, FloatArray]:
    """`assign` for every matrix of `C`, shape (N, n, m), with prices of shape (N, m).

    Examples
    --------
    >>> columns, values = assign_batch([[[3, 1], [2, 4]], [[0, 5], [5, 0]]])
    >>> columns.tolist(), values.tolist()
    ([[0, 1], [1, 0]], [7.0, 10.0])
    """
    scores = floats(C, "C", 3)
    count, n, m = scores.shape
    _check_shape(n, m)
    kept = np.zeros((count, m)) if prices is None else prices
    _check_prices(kept, (count, m))
    columns, values, status, index = _assign_batch(scores, kept)
    if status:
        fail(status, _NUMBERS, _EMPTY, index)
    return columns, values


def match_batch(
    C: npt.ArrayLike, rows_required: npt.ArrayLike | bool = False, columns_required: npt.ArrayLike | bool = False
) -> IntArray:
    """The best matchings in which required rows and columns are matched and the others at most once.

    Each is an assignment of larger matrices: row i may go to a dummy column of its own if it is not required, and
    column j to its own dummy row. Pairs of dummies score 0. If no column is required, there are no dummy rows.

    Parameters
    ----------
    C : array_like, shape (N, n, m)
        Scores of the pairs, any n and m.
    rows_required, columns_required : bool or array_like of bool

    Returns
    -------
    columns : ndarray of int64, shape (N, n)
        The column of each row, or -1.

    Examples
    --------
    >>> match_batch([[[-1.0, 2], [-3, -2]]], rows_required=[True, False])
    array([[ 1, -1]])
    """
    scores = floats(C, "C", 3)
    count, n, m = scores.shape
    rows = np.broadcast_to(np.asarray(rows_required, dtype=np.bool_), (n,))
    columns = np.broadcast_to(np.asarray(columns_required, dtype=np.bool_), (m,))
    dummies = m if columns.any() else 0
    wide = np.full((n + dummies, m + n), -np.inf)
    wide[n:, m:] = 0.0
    wide[np.arange(n), m + np.arange(n)] = np.where(rows, -np.inf, 0.0)
    wide[n + np.arange(dummies), np.arange(dummies)] = np.where(columns[:dummies], -np.inf, 0.0)
    chosen = np.empty((count, n), dtype=np.int64)
    size = max(1, _PIECE // max(1, wide.size))
    for first in range(0, count, size):
        own = slice(first, first + size)
        padded = np.tile(wide, (len(scores[own]), 1, 1))
        padded[:, :n, :m] = scores[own]
        chosen[own] = assign_batch(padded)[0][:, :n]
    return np.where(chosen < m, chosen, -1)


def k_best(C: npt.ArrayLike, k: int, forbid: npt.ArrayLike | None = None) -> tuple[IntArray, FloatArray]:
    """The k best assignments that are not in a list of excluded ones, best first (Murty).

    Parameters
    ----------
    C : array_like, shape (n, m), n <= m
    k : int
    forbid : array_like of int, shape (n_no_goods, n), optional

    Returns
    -------
    columns : ndarray of int64, shape (found, n), found <= k
    values : ndarray, shape (found,)

    Examples
    --------
    >>> columns, values = k_best([[3, 1, 2], [2, 4, 6], [0, 2, 5]], 3)
    >>> columns.tolist(), values.tolist()
    ([[0, 1, 2], [0, 2, 1], [1, 0, 2]], [12.0, 11.0, 8.0])
    """
    scores = floats(C, "C", 2)
    first, value = assign(scores)

    def branch(label: IntArray, position: int, forbidden: BoolArray) -> tuple[IntArray, FloatArray, IntArray]:
        return _branch(scores, label, position, forbidden)

    no_goods = no_good_labels(forbid, len(first))
    labels, values = lawler_k_best(best_first(first, value, branch, scores.shape[1]), k, no_goods)
    return np.array(labels, dtype=np.int64).reshape(len(labels), len(first)), values


def _check_prices(kept: FloatArray, shape: tuple[int, ...]) -> None:
    """Prices are written to in place: they must be an array that can be."""
    good = isinstance(kept, np.ndarray) and kept.dtype == np.float64 and kept.shape == shape
    if not (good and kept.flags.c_contiguous and kept.flags.writeable):
        raise DeclarationError(f"prices must be a contiguous float64 array of shape {shape} that can be written to.")


def _check_shape(n: int, m: int) -> None:
    if n > m:
        raise DeclarationError(
            f"{n} rows cannot each have one of {m} columns; transpose C, or use match() to leave rows out."
        )


@kernel
def _start(C: FloatArray, u: FloatArray, v: FloatArray, column: IntArray, row: IntArray) -> bool:
    """Row prices from column prices, and the pairs that are tight for both, first free column first.

    Costs are -C; prices satisfy u_i + v_j <= -C_ij. False if a row has no allowed column.
    """
    n, m = C.shape
    row[:] = -1
    for i in range(n):
        top = -np.inf
        scores = C[i]
        for j in range(m):
            w = scores[j] + v[j]
            top = w if w > top else top
        if top == -np.inf:
            return False
        u[i] = -top
        column[i] = -1
        for j in range(m):
            if row[j] < 0 and scores[j] + v[j] == top:
                column[i] = j
                row[j] = i
                break
    return True


@kernel
def _augment(
    C: FloatArray,
    free: int,
    u: FloatArray,
    v: FloatArray,
    column: IntArray,
    row: IntArray,
    distance: FloatArray,
    via: IntArray,
    todo: IntArray,
) -> bool:
    """Shortest alternating path from a free row to a free column on reduced costs; prices stay feasible.

    ``todo[:left]`` are the columns not yet scanned; scanned ones are moved behind. False if there is no path.
    """
    m = C.shape[1]
    for j in range(m):
        distance[j] = np.inf
        todo[j] = j
    left, i, reached, sink = m, free, 0.0, -1
    while sink < 0:
        scores = C[i]
        base = reached - u[i]
        lowest, place = np.inf, -1
        for q in range(left):
            j = todo[q]
            d = base - scores[j] - v[j]
            if d < distance[j]:
                distance[j] = d
                via[j] = i
            if distance[j] < lowest or (distance[j] == lowest and row[j] < 0 and lowest < np.inf):
                lowest, place = distance[j], q
        if place < 0:
            return False
        reached = lowest
        j = todo[place]
        left -= 1
        todo[place], todo[left] = todo[left], j
        if row[j] < 0:
            sink = j
        else:
            i = row[j]
    u[free] += reached
    for q in range(left, m):
        j = todo[q]
        if j != sink:
            u[row[j]] += reached - distance[j]
            v[j] -= reached - distance[j]
    j = sink
    while True:
        i = via[j]
        row[j] = i
        column[i], j = j, column[i]
        if i == free:
            return True


@kernel
def _solve(
    C: FloatArray,
    u: FloatArray,
    v: FloatArray,
    column: IntArray,
    row: IntArray,
    distance: FloatArray,
    via: IntArray,
    todo: IntArray,
) -> tuple[float, int]:
    n, m = C.shape
    if n < m:
        v[:] = 0.0
    if not _start(C, u, v, column, row):
        return -np.inf, INFEASIBLE
    for i in range(n):
        if column[i] < 0 and not _augment(C, i, u, v, column, row, distance, via, todo):
            return -np.inf, INFEASIBLE
    if n == m and n:
        # Prices are defined up to a constant; without this they would sink from call to call and lose bits.
        top = v.max()
        for j in range(m):
            v[j] -= top
    value = 0.0
    for i in range(n):
        value += C[i, column[i]]
    return value, SOLVED


@kernel
def augment_rows(C: FloatArray, prices: FloatArray) -> tuple[IntArray, float, int]:
    """`assign` without its checks, for kernels: columns, value and status; the prices are updated in place."""
    n, m = C.shape
    column = np.empty(n, np.int64)
    bad = False
    for j in range(m):
        bad |= not (abs(prices[j]) < np.inf)
    if bad or unusable(C.ravel()):
        return column, np.nan, BAD_NUMBER
    whole, half = np.empty((2, m), np.int64), np.empty(m)
    row = np.empty(m, np.int64)
    value, status = _solve(C, np.empty(n), prices, column, row, half, whole[0], whole[1])
    return column, value, status


@kernel
def _assign_batch(C: FloatArray, prices: FloatArray) -> tuple[IntArray, FloatArray, int, int]:
    count, n, m = C.shape
    columns = np.empty((count, n), np.int64)
    values = np.empty(count)
    u, distance = np.empty(n), np.empty(m)
    row, via, todo = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64)
    for i in range(count):
        bad = False
        for j in range(m):
            bad |= not (abs(prices[i, j]) < np.inf)
        if bad or unusable(C[i].ravel()):
            return columns, values, BAD_NUMBER, i
        values[i], status = _solve(C[i], u, prices[i], columns[i], row, distance, via, todo)
        if status:
            return columns, values, status, i
    return columns, values, SOLVED, -1


@kernel
def _branch(
    C: FloatArray, label: IntArray, position: int, forbidden: BoolArray
) -> tuple[IntArray, FloatArray, IntArray]:
    """The new cells of `lawler.best_first`: rows before q keep their columns, the rest is solved without them."""
    n, m = C.shape
    cells = n - position
    labels = np.empty((cells, n), np.int64)
    values = np.full(cells, -np.inf)
    free = np.empty(m, np.int64)
    taken = np.zeros(m, np.bool_)
    for i in range(position):
        taken[label[i]] = True
    for q in range(position, n):
        width = 0
        for j in range(m):
            if not taken[j]:
                free[width] = j
                width += 1
        taken[label[q]] = True
        rest = np.empty((n - q, width))
        for i in range(n - q):
            for w in range(width):
                rest[i, w] = C[q + i, free[w]]
        for w in range(width):
            if free[w] == label[q] or (q == position and forbidden[free[w]]):
                rest[0, w] = -np.inf
        column, _, status = augment_rows(rest, np.zeros(width))
        if status == SOLVED:
            value = 0.0
            for i in range(n):
                labels[q - position, i] = label[i] if i < q else free[column[i - q]]
                value += C[i, labels[q - position, i]]
            values[q - position] = value
    return labels, values, np.arange(position, n)


class _Block(NamedTuple):
    """One connected part of a bipartite graph."""

    columns: IntArray  # of its pairs
    left: IntArray
    right: IntArray
    shape: tuple[int, int]
    left_required: BoolArray
    right_required: BoolArray

    @property
    def takes_all_rows(self) -> bool:
        """Whether a matching is an assignment of all rows, without dummies."""
        return bool(self.left_required.all() and (self.shape[0] == self.shape[1] or not self.right_required.any()))

    def solve(self, scores: FloatArray, prices: FloatArray, chosen: IntArray, first: int, last: int) -> None:
        """Write the columns of the rows of some examples into `chosen`, -1 for a row without any."""
        part = slice(first, last)
        if self.takes_all_rows:
            chosen[part], _ = assign_batch(scores[part], prices[part])
        else:
            chosen[part] = match_batch(scores[part], self.left_required, self.right_required)


def _no_prices(width: int, n: int) -> FloatArray:
    return np.zeros((n, width))


class BipartiteMatching(Algorithm):
    """Best matchings of bipartite graphs in which some nodes must be matched, block by block.

    Parameters
    ----------
    arrays : structopt.recognize.Assignment
        The graph; see there.
    """

    name = "linear assignment"
    steps = per_question(argmax="rows^2 x columns")

    def __init__(self, arrays: Assignment) -> None:
        block_of_left = np.repeat(np.arange(len(arrays.left_ptr) - 1), np.diff(arrays.left_ptr))
        self._n = len(arrays.left)
        self._blocks = []
        for b in range(len(arrays.left_ptr) - 1):
            columns = np.flatnonzero(block_of_left[arrays.left] == b)
            rows = slice(arrays.left_ptr[b], arrays.left_ptr[b + 1])
            others = slice(arrays.right_ptr[b], arrays.right_ptr[b + 1])
            block = _Block(
                columns,
                arrays.left[columns] - rows.start,
                arrays.right[columns] - others.start,
                (int(rows.stop - rows.start), int(others.stop - others.start)),
                arrays.left_required[rows],
                arrays.right_required[others],
            )
            self._blocks.append(block)
        self._prices = [WarmStarts(partial(_no_prices, block.shape[1])) for block in self._blocks]

    @classmethod
    def of_record(cls, record: Record, n: int) -> BipartiteMatching:
        assert isinstance(record, Assignment)
        return cls(record)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        Z = np.zeros((len(C), self._n))
        for block, prices in zip(self._blocks, self._prices, strict=True):
            scores = np.full((len(C), *block.shape), -np.inf)
            scores[:, block.left, block.right] = C[:, block.columns]
            chosen = np.empty((len(C), block.shape[0]), dtype=np.int64)
            square = block.shape[0] == block.shape[1]
            kept = prices.batch(keys) if square and block.takes_all_rows else None
            if kept is None:
                kept = _no_prices(block.shape[1], len(C))
            in_threads(partial(block.solve, scores, kept, chosen), len(C), n_jobs)
            Z[:, block.columns] = chosen[:, block.left] == block.right
        return Solutions.of_labels(C, Z)
