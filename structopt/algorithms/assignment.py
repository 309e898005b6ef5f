"""Bipartite matching: every row gets its own column (docs/mathematics/oracles#assignment).

The kernels find shortest augmenting paths, and they can keep column prices from call to call. A score of ``-inf``
forbids a pair. Ties: no rule is guaranteed; without kept prices the answer depends on the scores only.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache, partial

import numpy as np

from structopt._jit import BAD_NUMBER, INFEASIBLE, SOLVED, FloatArray, IntArray, fail, kernel, unusable
from structopt._jit.threads import in_threads
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.lawler import BoolArray, best_first
from structopt.algorithms.lawler import k_best as lawler_k_best
from structopt.algorithms.parts import Maxima, Parts, PartSolver
from structopt.algorithms.product import Product
from structopt.algorithms.question import Question, per_question
from structopt.algorithms.warm_starts import WarmStarts
from structopt.recognize import Assignment, Record

__all__ = ["AssignmentAlgorithm", "AssignmentParts", "augment_rows", "best_columns", "complete_matching", "matrix_of"]

_NUMBERS = "a pair's score (or a kept price) is NaN or +inf; scores are finite, or -inf where a pair is forbidden."
_EMPTY = "no assignment avoids the forbidden pairs: some rows share too few columns."


class AssignmentAlgorithm(Algorithm):
    """Best matchings of a bipartite graph in which some nodes must be matched.

    A matching is an assignment of the rows (the left nodes) of a larger table. A row that may stay free has a dummy
    column of its own, and a column that may stay free has a dummy row of its own if others must be matched. Dummies
    score 0. Column prices are kept by key if the table is square.
    """

    name = "linear assignment"
    answers = Question.ARGMAX | Question.K_BEST | Question.OUTSIDE
    steps = per_question(
        argmax="rows^2 x columns",
        k_best="k x rows^2 x columns",
        outside="forbidden x rows^2 x columns",
    )

    def __init__(self, record: Assignment) -> None:
        self._left, self._right = np.array(record.left), np.array(record.right)
        n, m = record.left_required.size, record.right_required.size
        optional = np.flatnonzero(~record.left_required)
        needed = record.right_required.any() and not (n == m and not optional.size)
        dummies = m if needed else 0
        #: The larger table without the scores of pairs, which are at the places `_place` of it.
        self._table = np.full((n + dummies, m + (n if needed else optional.size)), -np.inf)
        if needed:
            self._table[n:, m:] = 0.0
            free = np.flatnonzero(~record.right_required)
            self._table[n + free, free] = 0.0
            self._table[optional, m + optional] = 0.0
        else:
            self._table[optional, m + np.arange(optional.size)] = 0.0
        self._n, self._m = n, m
        self._place = self._left * self._table.shape[1] + self._right
        self._prices = WarmStarts(partial(_no_prices, self._table.shape[1]))

    @classmethod
    def of_record(cls, record: Record, n: int) -> Algorithm:
        assert isinstance(record, Assignment)
        blocks = len(record.left_ptr) - 1
        if blocks == 1:
            return cls(record)
        block = np.repeat(np.arange(blocks), np.diff(record.left_ptr))[record.left]
        order = np.argsort(block, kind="stable")
        parts: list[tuple[IntArray, Algorithm]] = []
        for b, columns in enumerate(np.split(order, np.cumsum(np.bincount(block, minlength=blocks))[:-1])):
            rows, others = (slice(*ptr[b : b + 2].tolist()) for ptr in (record.left_ptr, record.right_ptr))
            own = Assignment(
                record.left[columns] - rows.start,
                record.right[columns] - others.start,
                record.left_required[rows],
                record.right_required[others],
                np.array([0, rows.stop - rows.start]),
                np.array([0, others.stop - others.start]),
            )
            parts.append((columns, cls(own)))
        return Product(parts)

    @property
    def keeps_prices(self) -> bool:
        """Whether the prices of a call make the next call for similar scores faster."""
        return self._table.shape[0] == self._table.shape[1]

    def partners(
        self, C: FloatArray, prices: FloatArray | None = None, n_jobs: int = 1, Z: FloatArray | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Return the right node of each left node, -1 for none, and the values, for each row of `C`.

        `prices` are updated in place, and `Z` (zeros) gets the points.
        """
        C = C if C.flags.writeable else C.copy()  # numba would compile the kernel again
        partner, values = np.empty((len(C), self._n), dtype=np.int64), np.empty(len(C))
        kept = _no_prices(self._table.shape[1], len(C)) if prices is None else prices
        points = np.empty((len(C), 0)) if Z is None else Z

        def work(first: int, last: int) -> None:
            own = slice(first, last)
            results = partner[own], values[own], points[own]
            status, i = _match(C[own], self._table, self._place, self._right, self._left, kept[own], self._m, *results)
            if status:
                fail(status, _NUMBERS, _EMPTY, first + i)

        in_threads(work, len(C), n_jobs)
        return partner, values

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        Z = np.zeros((1, c.size))
        kept = self._prices[key] if key is not None and self.keeps_prices else None
        value = float(self.partners(c[None], kept, Z=Z)[1][0])
        return Optimum(Z[0], value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        Z = np.zeros(C.shape)
        values = self.partners(C, self._prices.batch(keys) if self.keeps_prices else None, n_jobs, Z)[1]
        return Solutions(Z, values, values.copy())

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        if k < 1:
            return Solutions.stacked([], c.size)
        scores = self._table.copy()
        scores.reshape(-1)[self._place] = c
        columns, value, status = augment_rows(scores, np.zeros(scores.shape[1]))
        if status:
            fail(status, _NUMBERS, _EMPTY)

        def branch(label: IntArray, position: int, forbidden: BoolArray) -> tuple[IntArray, FloatArray, IntArray]:
            return _branch(scores, label, position, forbidden)

        labels, values = lawler_k_best(best_first(columns[: self._n], value, branch, scores.shape[1]), k)
        Z = (np.array(labels, dtype=np.int64)[:, self._left] == self._right).astype(np.float64)
        return Solutions(Z, values, values)


def _no_prices(width: int, n: int) -> FloatArray:
    return np.zeros((n, width))


@lru_cache(maxsize=256)
def complete_matching(rows: int, columns: int, unmatched: bool = False) -> Assignment:
    """Return the record of all pairs of rows and columns; pair (i, j) is the variable ``i * columns + j``."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    sides = [(row, np.full(rows, not unmatched)), (column, np.full(columns, rows == columns and not unmatched))]
    (left, left_required), (right, right_required) = sides if rows <= columns else sides[::-1]
    ends = np.array([0, min(rows, columns)]), np.array([0, max(rows, columns)])
    return Assignment(left, right, left_required, right_required, *ends)


@lru_cache(maxsize=256)
def _complete(rows: int, columns: int, unmatched: bool) -> AssignmentAlgorithm:
    return AssignmentAlgorithm(complete_matching(rows, columns, unmatched))


def best_columns(
    scores: FloatArray, unmatched: bool = False, prices: FloatArray | None = None, n_jobs: int = 1
) -> tuple[IntArray, FloatArray]:
    """Return the column of each row, -1 for none, and the values, for each table of scores (n, rows, columns).

    The `prices` of square tables, shape (n, columns), are updated in place.
    """
    count, rows, columns = scores.shape
    algorithm = _complete(rows, columns, unmatched)
    flat = np.ascontiguousarray(scores, dtype=np.float64).reshape(count, rows * columns)
    found, values = algorithm.partners(flat, prices if algorithm.keeps_prices else None, n_jobs)
    if rows <= columns:
        return found, values
    wide = np.full((count, rows + 1), -1, dtype=np.int64)  # the last column for columns without a row
    wide[np.arange(count)[:, None], found] = np.arange(columns)
    return wide[:, :rows], values


def matrix_of(columns: IntArray, shape: tuple[int, int]) -> FloatArray:
    """Return the 0/1 matrix with a one in each row's column; -1 leaves a row empty."""
    flat = np.zeros(shape[0] * shape[1])
    rows = np.arange(shape[0])
    if columns.min(initial=0) < 0:
        rows = rows[columns >= 0]
        columns = columns[rows]
    flat[rows * shape[1] + columns] = 1.0
    return flat.reshape(shape)


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
    """Return the column of each row, the value and a status; the prices are updated in place."""
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
def _match(
    C: FloatArray,
    table: FloatArray,
    place: IntArray,
    right: IntArray,
    left: IntArray,
    prices: FloatArray,
    m: int,
    partner: IntArray,
    values: FloatArray,
    Z: FloatArray,
) -> tuple[int, int]:
    """Solve a table for each row of C, whose entries are at `place` in it; return a status and the failing row."""
    height, width = table.shape
    scores = table.copy()
    flat = scores.ravel()
    u, distance = np.empty(height), np.empty(width)
    column, row = np.empty(height, np.int64), np.empty(width, np.int64)
    via, todo = np.empty(width, np.int64), np.empty(width, np.int64)
    for i in range(C.shape[0]):
        bad = unusable(C[i])
        for j in range(width):
            bad |= not (abs(prices[i, j]) < np.inf)
        if bad:
            return BAD_NUMBER, i
        for q in range(place.size):
            flat[place[q]] = C[i, q]
        values[i], status = _solve(scores, u, prices[i], column, row, distance, via, todo)
        if status:
            return status, i
        for k in range(partner.shape[1]):
            partner[i, k] = column[k] if column[k] < m else -1
        for q in range(Z.shape[1]):
            Z[i, q] = 1.0 if column[left[q]] == right[q] else 0.0
    return SOLVED, -1


@kernel
def _branch(
    C: FloatArray, label: IntArray, position: int, forbidden: BoolArray
) -> tuple[IntArray, FloatArray, IntArray]:
    """Return the new cells of `lawler.best_first`: rows before q keep their columns, the rest is solved without them.

    The rows after the label's are dummies, which follow from the others.
    """
    n, (height, m) = label.size, C.shape
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
        rest = np.empty((height - q, width))
        for i in range(height - q):
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


class AssignmentParts(PartSolver):
    """Best matchings of all examples of a shape in one call; labels are the stacked columns of the rows.

    The column prices of square tables are kept for the next call. `shapes` are those of all examples.
    """

    flat = True

    def __init__(self, shapes: IntArray, unmatched: bool) -> None:
        self._shapes, self._unmatched = shapes, unmatched
        self._ends = np.cumsum(shapes[:, 1])
        square = not unmatched and bool((shapes[:, 0] == shapes[:, 1]).any())
        self._prices = np.zeros(int(self._ends[-1]) if square else 0)

    def maximize_parts(self, parts: Parts) -> Maxima:
        shapes = self._shapes[parts.examples]
        if (shapes == shapes[:1]).all():
            rows, columns = self._shapes[0 if not len(shapes) else parts.examples[0]].tolist()
            found, values = self._solve(parts.scores.reshape(-1, rows, columns), parts.examples, parts.n_jobs)
            return Maxima(found.reshape(-1), values)
        slots = np.append(0, np.cumsum(shapes[:, 0]))
        choices, values = np.empty(slots[-1], dtype=np.int64), np.empty(len(shapes))
        kinds, kind = np.unique(shapes, axis=0, return_inverse=True)
        for g, (rows, columns) in enumerate(kinds.tolist()):
            group = np.flatnonzero(kind.ravel() == g)
            stacked = parts.scores[parts.ptr[group][:, None] + np.arange(rows * columns)].reshape(-1, rows, columns)
            found, values[group] = self._solve(stacked, parts.examples[group], parts.n_jobs)
            choices[slots[group][:, None] + np.arange(rows)] = found
        return Maxima(choices, values)

    def _solve(self, scores: FloatArray, examples: IntArray, n_jobs: int) -> tuple[IntArray, FloatArray]:
        """Return the columns of each row, for examples of one shape."""
        rows, columns = scores.shape[1:]
        if rows != columns or self._unmatched:
            return best_columns(scores, self._unmatched, None, n_jobs)
        kept = (self._ends[examples] - columns)[:, None] + np.arange(columns)
        prices = self._prices[kept]
        found, values = best_columns(scores, False, prices, n_jobs)
        self._prices[kept] = prices
        return found, values
