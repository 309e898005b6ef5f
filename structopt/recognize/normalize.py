"""Normalisation of a compiled space: the same labels with fewer and simpler rows (docs/mathematics/oracles).

Every step keeps the set of feasible points, with one exception that is reported as `Normalized.tightened`:
fractional bounds of integer rows and columns are rounded inwards, which keeps the labels but shrinks the LP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from structopt.recognize._kernels import components
from structopt.recognize.grouping import BoolArray, IntArray, repeated_rows
from structopt.space.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.exact_rows import only_rows, small_integers, with_exact_rows

__all__ = ["Dependent", "NormalForm", "Normalized", "is_whole", "normalize", "unit_rows"]

#: Rounds of substituting fixed columns; each handles one more level of a hierarchy hanging from a fixed node, or one
#: more step of a network whose start is fixed. More of them while all look at no more entries than this (a second).
MAX_ROUNDS, MAX_ENTRIES = 32, 1 << 24
#: Sums of up to 2^22 integers below this are exact in float64.
_EXACT = 2.0**31


_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class NormalForm:
    """Rows with at least two entries over free columns, split into blocks.

    Rows and columns of different blocks never meet. `memo` holds what a test has worked out and the builder of the same
    form uses again (`once`).
    """

    row: IntArray  # of every entry, in row order
    column: IntArray
    value: FloatArray  # +1 or -1 in the rows marked `unit`
    unit: BoolArray  # rows whose entries had one magnitude and were divided by it
    row_lower: FloatArray  # a side that the column bounds imply is infinite
    row_upper: FloatArray
    lower: FloatArray
    upper: FloatArray
    integer: BoolArray
    rows: IntArray  # where the rows and columns were in the declared space
    columns: IntArray
    row_block: IntArray  # the block of every row and column
    column_block: IntArray
    n_blocks: int
    memo: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def n_rows(self) -> int:
        """Number of rows left."""
        return self.unit.size

    @property
    def n_columns(self) -> int:
        """Number of free columns."""
        return self.lower.size

    @cached_property
    def plus(self) -> IntArray:
        """Positive entries by row."""
        return np.bincount(self.row[self.value > 0], minlength=self.n_rows)

    @cached_property
    def minus(self) -> IntArray:
        """Negative entries by row."""
        return np.bincount(self.row[self.value < 0], minlength=self.n_rows)

    @cached_property
    def degree(self) -> IntArray:
        """Entries by column."""
        return np.bincount(self.column, minlength=self.n_columns)

    @cached_property
    def binary(self) -> BoolArray:
        """Columns with bounds [0, 1], integer or not."""
        return np.asarray((self.lower == 0) & (self.upper == 1))

    @cached_property
    def whole_rows(self) -> BoolArray:
        """Rows with integral (or infinite) bounds."""
        return is_whole(self.row_lower) & is_whole(self.row_upper)

    @cached_property
    def whole_columns(self) -> BoolArray:
        """Columns with integral (or infinite) bounds."""
        return is_whole(self.lower) & is_whole(self.upper)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """The entries as a sparse matrix."""
        return sp.csr_array((self.value, (self.row, self.column)), shape=(self.n_rows, self.n_columns))

    def once(self, read: Callable[[NormalForm], _T]) -> _T:
        """Return ``read(self)``, which is called once."""
        if read not in self.memo:
            self.memo[read] = read(self)
        found: _T = self.memo[read]
        return found

    def passing(self, rows: BoolArray, columns: BoolArray) -> BoolArray:
        """Blocks whose rows and columns all have their mark."""
        failures = np.bincount(self.row_block[~rows], minlength=self.n_blocks)
        failures += np.bincount(self.column_block[~columns], minlength=self.n_blocks)
        return np.asarray(failures == 0)

    def split(self) -> NormalForm:
        """The same form with its connected blocks separated."""
        m = self.n_rows
        count, label = components(self.row, self.column + m, m + self.n_columns)
        return replace(self, row_block=label[:m], column_block=label[m:], n_blocks=count, memo={})

    def select(self, blocks: BoolArray) -> NormalForm:
        """Only the marked blocks, with rows, columns and blocks renumbered in order."""
        return self if blocks.all() else self.kept(blocks[self.row_block], blocks[self.column_block], blocks)

    def kept(self, rows: BoolArray, columns: BoolArray, blocks: BoolArray) -> NormalForm:
        """Only the marked rows, columns and blocks, renumbered in order."""
        entries = rows[self.row] & columns[self.column]
        new_row, new_column, new_block = (np.cumsum(mask) - 1 for mask in (rows, columns, blocks))
        return NormalForm(
            new_row[self.row[entries]],
            new_column[self.column[entries]],
            self.value[entries],
            self.unit[rows],
            self.row_lower[rows],
            self.row_upper[rows],
            self.lower[columns],
            self.upper[columns],
            self.integer[columns],
            self.rows[rows],
            self.columns[columns],
            new_block[self.row_block[rows]],
            new_block[self.column_block[columns]],
            int(blocks.sum()),
        )


class Dependent(NamedTuple):
    """Columns that are affine functions of the free columns: ``z[columns] = matrix @ z[free] + const``."""

    columns: IntArray  # where they were in the declared space
    matrix: sp.csr_array
    const: FloatArray

    @property
    def whole(self) -> bool:
        """Whether the columns are integral if the free columns are."""
        return bool(is_whole(self.matrix.data).all() and is_whole(self.const).all())


@dataclass(frozen=True, eq=False)
class Normalized:
    """The result of `normalize`."""

    form: NormalForm | None  # one block; None if the space was found empty
    fixed_columns: IntArray  # columns that can take one value only and that no row of `form` mentions
    fixed_values: FloatArray
    tightened: bool  # whether bounds of integer rows or columns were rounded inwards
    conflict: str = ""  # why the space is empty
    dependent: Dependent | None = None  # columns that follow from those of `form` by rows that are no longer in it


def is_whole(x: FloatArray) -> BoolArray:
    """Integers that float64 sums exactly, and infinities."""
    return np.asarray((x == np.rint(x)) & ((np.abs(x) < _EXACT) | np.isinf(x)))


def unit_rows(matrix: sp.csr_array) -> tuple[sp.csr_array, FloatArray]:
    """Every row whose entries share one magnitude divided by it; the magnitudes, 0 for the other rows.

    >>> import numpy as np, scipy.sparse as sp
    >>> divided, magnitude = unit_rows(sp.csr_array(np.array([[2.0, -2.0], [1.0, 3.0]])))
    >>> divided.toarray(), magnitude
    (array([[ 1., -1.],
           [ 1.,  3.]]), array([2., 0.]))
    """
    matrix = matrix.tocsr()
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    counts = np.diff(matrix.indptr)
    magnitude = np.ones(matrix.shape[0])
    size = np.abs(matrix.data)
    if (size == 1.0).all():
        return matrix.astype(np.float64, copy=False), magnitude
    filled = counts > 0
    starts = matrix.indptr[:-1][filled]
    smallest, largest = np.minimum.reduceat(size, starts), np.maximum.reduceat(size, starts)
    magnitude[filled] = np.where(smallest == largest, largest, 0.0)
    unit = np.repeat(magnitude != 0, counts)
    data = np.where(unit, np.sign(matrix.data), matrix.data).astype(np.float64)
    return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape), magnitude


class _Worker:
    """Entries and bounds while they are being simplified."""

    def __init__(self, space: CompiledSpace) -> None:
        matrix, magnitude = unit_rows(space.matrix)
        self.n_rows, self.n_columns = matrix.shape
        self.row: IntArray = np.repeat(np.arange(self.n_rows), np.diff(matrix.indptr))
        self.column: IntArray = matrix.indices.astype(np.int64)
        self.value: FloatArray = matrix.data
        self.row_lower, self.row_upper, self.unit = _divide(space.row_lower, space.row_upper, magnitude)
        # A row that could not be divided must get its own entries back.
        undone = (magnitude != 0) & ~self.unit
        if undone.any():
            self.value = np.where(undone[self.row], self.value * magnitude[self.row], self.value)
        self.lower, self.upper = space.lower.astype(float), space.upper.astype(float)
        self.integer = space.integrality
        self.fixed = np.zeros(self.n_columns, dtype=bool)
        self.tightened = False
        self.conflict = ""
        fractional = self.unit & ~(is_whole(self.row_lower) & is_whole(self.row_upper))
        if fractional.any():
            self._read_exactly(space, fractional, magnitude)
        self.alive: BoolArray = ~(np.isneginf(self.row_lower) & np.isposinf(self.row_upper))

    def _read_exactly(self, space: CompiledSpace, fractional: BoolArray, magnitude: FloatArray) -> None:
        """Read some unit rows as `structopt.LabelSpace.contains` means them.

        Which integers a fractional bound allows is for one rule to say, except that ``3 x + 3 y <= 20`` has a
        fractional bound only since it was divided: `_round_rows` will do.
        """
        rows, size = np.flatnonzero(fractional), magnitude[fractional]
        reach = max(np.abs(space.lower).max(initial=0.0), np.abs(space.upper).max(initial=0.0))
        with np.errstate(over="ignore"):
            most = size * reach * np.diff(space.matrix.indptr)[rows]
        rows = rows[~small_integers(size == np.rint(size), space.row_lower[rows], space.row_upper[rows], most)]
        if not rows.size:
            return
        exact = with_exact_rows(only_rows(space, rows), certified_only=True)
        matrix, magnitude = unit_rows(exact.matrix)
        lower, upper, _ = _divide(exact.row_lower, exact.row_upper, magnitude)
        self.tightened = bool((lower != self.row_lower[rows]).any() or (upper != self.row_upper[rows]).any())
        self.row_lower, self.row_upper = self.row_lower.copy(), self.row_upper.copy()
        self.row_lower[rows], self.row_upper[rows] = lower, upper
        chosen = np.zeros(self.n_rows, dtype=bool)
        chosen[rows] = True
        entries = chosen[self.row]
        if np.count_nonzero(entries) == matrix.nnz:
            return  # no fixed column has left its row, and the signs are what they were
        row = np.concatenate([self.row[~entries], np.repeat(rows, np.diff(matrix.indptr))])
        order = np.argsort(row, kind="stable")
        self.row = row[order]
        self.column = np.concatenate([self.column[~entries], matrix.indices.astype(np.int64)])[order]
        self.value = np.concatenate([self.value[~entries], matrix.data])[order]

    def run(self) -> None:
        self._keep(self.alive[self.row])
        self._round_columns()
        rounds = seen = 0
        while rounds < MAX_ROUNDS or seen < MAX_ENTRIES:
            rounds, seen = rounds + 1, seen + self.row.size + self.n_rows + self.n_columns
            self._substitute_fixed()
            self._drop_short_rows()
            self._round_rows()
            self._round_columns()
            self._imply_upper_bounds()
            self._drop_implied_sides()
            self._check_columns()
            if self.conflict or not self._pending():
                break
        self._merge_repeated_rows()

    def _keep(self, entries: BoolArray) -> None:
        if not entries.all():
            kept = np.flatnonzero(entries)
            self.row, self.column, self.value = self.row.take(kept), self.column.take(kept), self.value.take(kept)

    def _pending(self) -> bool:
        """Whether columns became fixed that are not substituted yet."""
        now = (self.lower == self.upper) & is_whole(self.lower) & ~self.fixed
        return bool(now.any())

    def _substitute_fixed(self) -> None:
        """Move fixed columns of unit rows into the row bounds."""
        self.fixed = (self.lower == self.upper) & is_whole(self.lower)
        if not self.fixed.any():
            return
        moved = self.fixed[self.column] & self.unit[self.row]
        weight = self.value[moved] * self.lower[self.column[moved]]
        shift = np.bincount(self.row[moved], weights=weight, minlength=self.n_rows)
        self.row_lower, self.row_upper = self.row_lower - shift, self.row_upper - shift
        self._keep(~moved)

    def _drop_short_rows(self) -> None:
        """Rows without entries are checked, rows with one entry become column bounds; both are dropped."""
        count = np.bincount(self.row, minlength=self.n_rows)
        empty = self.alive & (count == 0)
        broken = empty & ~((self.row_lower <= 0) & (self.row_upper >= 0))
        if broken.any():
            self.conflict = f"row {int(np.flatnonzero(broken)[0])} cannot be satisfied"
        single = self.alive & (count == 1) & self.unit
        if single.any():
            entries = single[self.row]
            row, column = self.row[entries], self.column[entries]
            positive = self.value[entries] > 0
            low = np.where(positive, self.row_lower[row], -self.row_upper[row])
            high = np.where(positive, self.row_upper[row], -self.row_lower[row])
            np.maximum.at(self.lower, column, low)
            np.minimum.at(self.upper, column, high)
            self._keep(~entries)
        self.alive &= ~(empty | single)

    def _round_rows(self) -> None:
        """Integer rows have integral activities: round their bounds inwards (same labels, tighter LP)."""
        rows = self.alive & self.unit & ~(is_whole(self.row_lower) & is_whole(self.row_upper))
        if not rows.any():
            return
        entries = np.flatnonzero(rows[self.row])
        row, column = self.row[entries], self.column[entries]
        rows &= np.bincount(row[~self.integer[column]], minlength=self.n_rows) == 0
        reach = np.maximum(np.abs(self.lower[column]), np.abs(self.upper[column]))
        size = np.bincount(row, np.where(np.isfinite(reach), reach, 0.0), self.n_rows)
        # Twice the room of `structopt.space.tolerance` at the largest label: coefficients are 1 after the division, so
        # `size` bounds the sum of absolute terms. Which integers satisfy the row then does not depend on the tolerance.
        self.row_lower, self.row_upper, changed = _round_inwards(
            self.row_lower, self.row_upper, rows, 2.0 * FEASIBILITY_TOLERANCE * np.maximum(1.0, size)
        )
        self.tightened |= changed

    def _round_columns(self) -> None:
        self.lower, self.upper, changed = _round_inwards(self.lower, self.upper, self.integer)
        self.tightened |= changed

    def _imply_upper_bounds(self) -> None:
        """``sum x <= u`` with ``x >= 0`` implies ``x <= u``: columns are often declared without an upper bound."""
        bad = (self.value < 0) | ~(self.lower[self.column] >= 0)
        good = self.alive & self.unit & is_whole(self.row_upper)
        good &= np.bincount(self.row[bad], minlength=self.n_rows) == 0
        limit = np.where(good, self.row_upper, np.inf)[self.row]
        entries = limit < self.upper[self.column]
        np.minimum.at(self.upper, self.column[entries], limit[entries])

    def _drop_implied_sides(self) -> None:
        """A side of a row that the column bounds imply becomes infinite; a row without sides is dropped."""
        low, high = self.lower[self.column], self.upper[self.column]
        least = np.bincount(self.row, self.value * np.where(self.value > 0, low, high), self.n_rows)
        most = np.bincount(self.row, self.value * np.where(self.value > 0, high, low), self.n_rows)
        # The sums are exact only over integral bounds; elsewhere the row is left as it is.
        rough = ~(is_whole(self.lower) & is_whole(self.upper))
        exact = self.unit
        if rough.any():
            exact = exact & (np.bincount(self.row[rough[self.column]], minlength=self.n_rows) == 0)
        self._fix_forced(exact & (self.row_lower == most), low, high, self.value > 0)
        self._fix_forced(exact & (self.row_upper == least), low, high, self.value < 0)
        self.row_lower = np.where(exact & (self.row_lower <= least), -np.inf, self.row_lower)
        self.row_upper = np.where(exact & (self.row_upper >= most), np.inf, self.row_upper)
        broken = self.alive & exact & ((self.row_lower > most) | (self.row_upper < least))
        if broken.any() and not self.conflict:
            self.conflict = f"row {int(np.flatnonzero(broken)[0])} cannot be satisfied"
        idle = np.isneginf(self.row_lower) & np.isposinf(self.row_upper)
        if (idle & self.alive).any():
            self.alive &= ~idle
            self._keep(self.alive[self.row])

    def _fix_forced(self, rows: BoolArray, low: FloatArray, high: FloatArray, up: BoolArray) -> None:
        """Columns of rows that hold only if each is at one of its bounds: flow into a node that nothing leaves."""
        rows = rows & self.alive
        if rows.any():
            entries = rows[self.row]
            raised, lowered = entries & up, entries & ~up
            np.maximum.at(self.lower, self.column[raised], high[raised])
            np.minimum.at(self.upper, self.column[lowered], low[lowered])

    def _merge_repeated_rows(self) -> None:
        """A row that repeats another one, up to its sign, tightens that one's bounds: ``a z <= b`` and ``a z >= b``."""
        rows, kept, turned = repeated_rows(self.row, self.column, self.value, self.alive & self.unit)
        if not rows.size:
            return
        low = np.where(turned > 0, self.row_lower[rows], -self.row_upper[rows])
        high = np.where(turned > 0, self.row_upper[rows], -self.row_lower[rows])
        np.maximum.at(self.row_lower, kept, low)
        np.minimum.at(self.row_upper, kept, high)
        if (self.row_lower[kept] > self.row_upper[kept]).any() and not self.conflict:
            row = int(kept[np.argmax(self.row_lower[kept] > self.row_upper[kept])])
            self.conflict = f"row {row} contradicts one with the same entries"
        self.alive[rows] = False
        self._keep(self.alive[self.row])

    def _check_columns(self) -> None:
        empty = ~(self.lower <= self.upper) | np.isposinf(self.lower) | np.isneginf(self.upper)
        if empty.any() and not self.conflict:
            self.conflict = f"variable {int(np.flatnonzero(empty)[0])} has no value left"


def normalize(space: CompiledSpace) -> Normalized:
    """Simplify a space without changing its labels.

    Rows are divided to entries +-1 where possible and written with positive entries where all were negative;
    single-entry rows become column bounds, columns with one value left, by their bounds or by a row that holds for
    no other, are substituted, sides of rows that the column bounds imply are removed, and rows with the same entries
    become one.
    """
    worker = _Worker(space)
    worker.run()
    if worker.conflict:
        nothing = np.zeros(0, dtype=np.int64)
        return Normalized(None, nothing, np.zeros(0), worker.tightened, worker.conflict)
    mentioned = np.bincount(worker.column, minlength=worker.n_columns) > 0
    gone = (worker.lower == worker.upper) & ~mentioned & (is_whole(worker.lower) | ~worker.integer)
    fixed = np.flatnonzero(gone)
    return Normalized(_form(worker, ~gone), fixed, worker.lower[fixed], worker.tightened)


def _form(worker: _Worker, free: BoolArray) -> NormalForm:
    rows, columns = np.flatnonzero(worker.alive), np.flatnonzero(free)
    row = worker.row if worker.alive.all() else (np.cumsum(worker.alive) - 1)[worker.row]
    column = worker.column if free.all() else (np.cumsum(free) - 1)[worker.column]
    value = worker.value
    row_lower, row_upper, unit = worker.row_lower[rows], worker.row_upper[rows], worker.unit[rows]
    negative = unit & (np.bincount(row[value > 0], minlength=rows.size) == 0)
    if negative.any():
        value = np.where(negative[row], -value, value)
        row_lower, row_upper = np.where(negative, -row_upper, row_lower), np.where(negative, -row_lower, row_upper)
    return NormalForm(
        row,
        column,
        value,
        unit,
        row_lower,
        row_upper,
        worker.lower[columns],
        worker.upper[columns],
        worker.integer[columns],
        rows,
        columns,
        np.zeros(rows.size, dtype=np.int64),
        np.zeros(columns.size, dtype=np.int64),
        1,
    )


def _divide(lower: FloatArray, upper: FloatArray, magnitude: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Row bounds divided by the rows' magnitudes, and which rows could be divided."""
    if (magnitude == 1.0).all():
        return lower, upper, np.ones(magnitude.size, dtype=np.bool_)
    divisor = np.where(magnitude > 0, magnitude, 1.0)
    with np.errstate(over="ignore", under="ignore"):
        new_lower, new_upper = lower / divisor, upper / divisor
    # A finite bound that overflows would silently free its row.
    unit = (magnitude > 0) & (np.isinf(new_lower) == np.isinf(lower)) & (np.isinf(new_upper) == np.isinf(upper))
    return np.where(unit, new_lower, lower), np.where(unit, new_upper, upper), unit


def _round_inwards(
    lower: FloatArray, upper: FloatArray, mask: BoolArray, tolerance: FloatArray | float = FEASIBILITY_TOLERANCE
) -> tuple[FloatArray, FloatArray, bool]:
    """Fractional bounds rounded inwards where `mask` is set.

    A bound within the tolerance of an integer is left fractional (and so unrecognised): whether
    that integer is a label would hang on the tolerance.
    """
    if is_whole(lower).all() and is_whole(upper).all():
        return lower, upper, False
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, which compares as "not fractional"
        low = mask & (np.abs(lower - np.rint(lower)) > tolerance)
        high = mask & (np.abs(upper - np.rint(upper)) > tolerance)
    new_lower, new_upper = np.where(low, np.ceil(lower), lower), np.where(high, np.floor(upper), upper)
    return new_lower, new_upper, bool(low.any() or high.any())
