"""The rows of a space as exact integers, with a proof that membership of a label does not depend on a tolerance.

States of a diagram are merged by equality, and a merged state must mean the same set of completions to the last bit:
sums of floating-point coefficients would not do. A row ``lower <= a z <= upper`` over integer variables becomes a row
of integers: its coefficients times a common denominator where they are rationals of small denominators, else rounded to
a grid of 2^-50 of the largest activity.

`structopt.LabelSpace.contains` accepts a label that leaves a row by up to ``1e-6 max(unit, |a| |z|)``. That is the rule
for everyone who works with labels. The integer bounds here accept at least these labels, and `demand_lower`,
`demand_upper` bound the activities that are accepted beyond doubt. A row is *certified* if no integer lies between the
two. For the others the compiler of diagrams looks at the extreme activities over the finished diagram, and refuses if
any label lies in the band; solvers, whose tolerances are absolute, get rows with that of `contains` built in
(`with_exact_rows`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import kernel
from structopt.space.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.naming import ChainedNames, ChosenNames

__all__ = [
    "LARGEST_COEFFICIENT",
    "UNBOUNDED",
    "ExactRows",
    "exact_rows",
    "exact_side_rows",
    "only_rows",
    "small_integers",
    "with_exact_rows",
]

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

#: An integer bound that no activity reaches; sums with activities (below 2^53) do not overflow.
UNBOUNDED = 1 << 60

#: Denominators of single coefficients, and of a whole row.
_MOST_DENOMINATOR, _MOST_MULTIPLE = 1000, 10**6
#: Integer activities stay below this, so that they are exact in float64 as well.
_MOST_ACTIVITY = 2.0**52
#: Coefficients are below this in magnitude, and above its inverse: multiples of others overflow.
LARGEST_COEFFICIENT = 1e200
#: Sums in rows of integers for a solver: its integers are off by 1e-6.
_LARGEST_SUM = 1e5


@dataclass(frozen=True, eq=False)
class ExactRows:
    """Integer rows ``lower <= coefficients . z <= upper`` over the free integer variables.

    Attributes
    ----------
    coefficients : int64 array, one for each entry of the space's matrix
        0 for fixed and continuous variables.
    scale : float array, shape (n_rows,)
        What a row was multiplied by: ``coefficients / scale`` is the row as declared, up to the grid.
    lower, upper : int64 arrays, shape (n_rows,)
        Bounds of what the free integer variables add up to. Only for rows without free continuous variables.
    demand_lower, demand_upper : float arrays, shape (n_rows,)
        Activities within them are accepted by every tolerance.
    shift : float array, shape (n_rows,)
        What the fixed variables contribute, as declared.
    """

    coefficients: IntArray
    scale: FloatArray
    lower: IntArray
    upper: IntArray
    demand_lower: FloatArray
    demand_upper: FloatArray
    shift: FloatArray

    @property
    def certified(self) -> BoolArray:
        """Rows for which no integer activity depends on the tolerance."""
        return np.asarray((self.upper <= self.demand_upper) & (self.lower >= self.demand_lower))


def exact_rows(space: CompiledSpace, lower: FloatArray, upper: FloatArray) -> ExactRows:
    """The rows of `space` as integers, for integer variables between finite bounds `lower` and `upper`."""
    matrix, n_rows = space.matrix, space.n_rows
    counts = np.diff(matrix.indptr)
    row_of = np.repeat(np.arange(n_rows), counts)
    column, data = matrix.indices, matrix.data
    fixed = lower == upper
    free = (space.integrality & ~fixed)[column]
    reach = np.where(space.integrality | fixed, np.maximum(np.abs(lower), np.abs(upper)), 0.0)
    size = np.asarray(np.bincount(row_of, np.abs(data) * reach[column], minlength=n_rows), dtype=np.float64)
    constant = np.where(fixed, lower, 0.0)
    shift = np.asarray(np.bincount(row_of, data * constant[column], n_rows), dtype=np.float64)

    scale, on_grid = _scales(space, row_of, free, size)
    coefficients = np.where(free, np.rint(data * scale[row_of]), 0.0)
    # A common divisor of a row says nothing; without it sums and thresholds are small.
    divisor = np.ones(n_rows)
    filled = np.flatnonzero(counts)
    if filled.size:
        divisor[filled] = np.gcd.reduceat(np.abs(coefficients).astype(np.int64), matrix.indptr[filled])
    divisor[divisor == 0] = 1.0

    # Where all terms have one sign, |a| |z| is the activity itself and the accepted set is a threshold.
    low_end, up_end = _ends(data, lower[column], upper[column])
    positive, negative = np.ones(n_rows, dtype=bool), np.ones(n_rows, dtype=bool)
    np.logical_and.at(positive, row_of, low_end >= 0.0)
    np.logical_and.at(negative, row_of, up_end <= 0.0)
    unit = np.maximum(space.row_units, size)
    upper_ends = _thresholds(space.row_upper, space.row_units, size, positive, negative, counts)
    mirrored = _thresholds(-space.row_lower, space.row_units, size, negative, positive, counts)
    lower_ends = tuple(-end for end in mirrored)

    slack = np.where(on_grid, 0.0, 1e-11 * size)
    # A coefficient is off by half a step of the grid, an activity by that for each unit of its variables.
    steps = np.bincount(row_of, reach[column] * free, minlength=n_rows)
    grid = np.where(on_grid, 2.0 * (counts + 2.0) + steps, 0.0)
    with np.errstate(invalid="ignore", over="ignore"):
        most = np.floor((scale * (upper_ends[0] + slack - shift) + grid) / divisor)
        least = np.ceil((scale * (lower_ends[0] - slack - shift) - grid) / divisor)
        sure_most = (scale * (upper_ends[1] - slack - shift) - grid) / divisor
        sure_least = (scale * (lower_ends[1] + slack - shift) + grid) / divisor
    # A side that no label reaches is no side.
    beyond = 1.0 + 1.1 * unit
    open_above = (space.row_upper >= beyond) | (negative & (space.row_upper >= 0.0))
    open_below = (space.row_lower <= -beyond) | (positive & (space.row_lower <= 0.0))
    return ExactRows(
        coefficients=np.asarray(coefficients / divisor[row_of]).astype(np.int64),
        scale=scale / divisor,
        lower=_integers(np.where(open_below, -UNBOUNDED, least)),
        upper=_integers(np.where(open_above, UNBOUNDED, most)),
        demand_lower=np.where(open_below, -np.inf, sure_least),
        demand_upper=np.where(open_above, np.inf, sure_most),
        shift=shift,
    )


def _integers(bounds: FloatArray) -> IntArray:
    return np.clip(bounds, -float(UNBOUNDED), float(UNBOUNDED)).astype(np.int64)


def _ends(data: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Least and largest value of each term ``a_j z_j``."""
    return (
        np.where(data > 0, data * lower, data * upper),
        np.where(data > 0, data * upper, data * lower),
    )


def _thresholds(
    bound: FloatArray, unit: FloatArray, size: FloatArray, positive: BoolArray, negative: BoolArray, counts: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Activities that `contains` may accept under an upper bound, and those that it accepts for certain.

    `positive` and `negative` are the rows all of whose terms are so. With terms of one sign the two differ by rounding
    only, which the caller adds; with mixed signs ``|a| |z|`` may be anything up to `size`.
    """
    tol = FEASIBILITY_TOLERANCE
    absolute = bound + tol * unit
    # act <= u + tol max(unit, act): absolute up to act = unit, relative beyond it.
    rising = np.where(absolute <= unit, absolute, bound / (1.0 - tol))
    # Negative terms: act <= u + tol max(unit, -act).
    falling = np.where(absolute >= -unit, absolute, bound / (1.0 + tol))
    largest = np.maximum(unit, size)
    # Sums of `counts` products are exact up to this.
    rounding = 4e-16 * (counts + 1.0) * size
    sure = np.maximum(np.minimum(1e-9 * largest, 0.5 * tol * unit), rounding)
    accepted = np.where(positive, rising, np.where(negative, falling, bound + 2.0 * tol * largest))
    certain = np.where(positive, rising, np.where(negative, falling, bound + sure))
    return accepted, certain


def _scales(space: CompiledSpace, row_of: IntArray, free: BoolArray, size: FloatArray) -> tuple[FloatArray, BoolArray]:
    """The factor of each row, and the rows that are rounded to a grid because they are not rational."""
    data, n_rows = space.matrix.data, space.n_rows
    scale = np.ones(n_rows)
    on_grid = np.zeros(n_rows, dtype=bool)
    fractional = free & ((data != np.rint(data)) | (np.abs(data) > 2.0**40))
    known: dict[float, int] = {}
    for row in np.unique(row_of[fractional]).tolist():
        entries = slice(int(space.matrix.indptr[row]), int(space.matrix.indptr[row + 1]))
        magnitudes = np.unique(np.abs(data[entries][free[entries]])).tolist()
        multiple = 1
        for value in magnitudes:
            if value not in known:
                known[value] = _denominator(value)
            multiple = math.lcm(multiple, known[value]) if known[value] else 0
            if not 0 < multiple <= _MOST_MULTIPLE or value * multiple > 2.0**40:
                multiple = 0
                break
        # Of one magnitude, whatever it is: signs.
        scale[row] = multiple or (1.0 / magnitudes[0] if len(magnitudes) == 1 else 0.0)
    on_grid |= (scale == 0.0) | (scale * size >= _MOST_ACTIVITY)
    if on_grid.any():
        scale[on_grid] = 2.0 ** np.floor(50.0 - np.log2(size[on_grid]))
    return scale, on_grid


def _denominator(value: float) -> int:
    """The denominator of a rational number, or 0 if it is none of small denominator."""
    fraction = Fraction(value).limit_denominator(_MOST_DENOMINATOR)
    return fraction.denominator if abs(float(fraction) - value) <= 1e-12 * abs(value) else 0


def with_exact_rows(space: CompiledSpace, *, certified_only: bool = False) -> CompiledSpace:
    """The same labels, as `contains` knows them, in rows that mean the same within any small tolerance.

    Only rows over integer variables (and fixed ones) change, and of them those where a tolerance matters. A certified
    row becomes one of integers, whose activities are at least 1 apart. In another one, with the positive terms P and
    the negative ones -N, a label is accepted if ``P - N <= upper + 1e-6 max(unit, P + N)``: where no variable changes
    its sign the linear row ``(1 - 1e-6) P - (1 + 1e-6) N <= upper``. A row that is not certified and has a variable of
    both signs stays as it is.

    Parameters
    ----------
    space : CompiledSpace
    certified_only : bool
        Whether rows that are not certified stay as they were declared.

    Returns
    -------
    CompiledSpace
        The rows in their order. The lower side of a row that has two sides, has terms of both signs and is not
        certified follows as a row of its own.

    Examples
    --------
    >>> import structopt as so
    >>> exact = with_exact_rows(so.LabelSpace.from_matrices([[1000.0, 1000.0]], 0.0, 1999.999).compiled)
    >>> exact.matrix.toarray(), exact.row_upper                        # 2000 is within 1e-6 of the bound
    (array([[1., 1.]]), array([2.]))
    """
    if not space.is_integral or not space.n_rows:
        return space
    matrix, n_rows, integer = space.matrix, space.n_rows, space.integrality
    data, column = matrix.data, matrix.indices
    row_of = np.repeat(np.arange(n_rows), np.diff(matrix.indptr))
    lower, upper = space.lower, space.upper
    fixed = lower == upper
    magnitude = np.abs(data)
    with np.errstate(over="ignore"):
        reach = magnitude * np.maximum(np.abs(lower), np.abs(upper))[column]
        size = np.asarray(np.bincount(row_of, reach, n_rows), dtype=np.float64)

    def every(entries: BoolArray) -> BoolArray:
        return np.asarray(np.bincount(row_of[~entries], minlength=n_rows) == 0)

    plain = small_integers(every(data == np.rint(data)), space.row_lower, space.row_upper, size)
    if plain.all() or (lower > upper).any():
        return space
    moderate = (magnitude < LARGEST_COEFFICIENT) & (magnitude > 1.0 / LARGEST_COEFFICIENT)
    in_question = ~plain & (size > 0.0) & (size < LARGEST_COEFFICIENT) & every(moderate & (integer | fixed)[column])
    if not in_question.any():
        return space
    rows = np.flatnonzero(in_question)
    exact = exact_rows(space if rows.size == n_rows else only_rows(space, rows), lower, upper)
    free_size = np.bincount(row_of, np.where(in_question[row_of] & ~fixed[column], reach, 0.0), n_rows)[rows]
    empty = exact.lower > exact.upper  # as it was declared, no label meets such a row either
    sure = exact.certified & ~empty & (free_size * exact.scale <= _LARGEST_SUM)

    coefficients, row_lower, row_upper = data.copy(), space.row_lower.copy(), space.row_upper.copy()
    row_lower[rows[sure]] = np.where(exact.lower[sure] > -UNBOUNDED, exact.lower[sure], -np.inf)
    row_upper[rows[sure]] = np.where(exact.upper[sure] < UNBOUNDED, exact.upper[sure], np.inf)
    certified = np.zeros(n_rows, dtype=bool)
    certified[rows[sure]] = True
    integers = data.copy()
    integers[in_question[row_of]] = exact.coefficients  # their entries come in the same order
    coefficients[certified[row_of]] = integers[certified[row_of]]
    changed = sp.csr_array((coefficients, column.copy(), matrix.indptr.copy()), shape=matrix.shape)
    unsure = rows[~sure & ~empty]
    lower_sides = None
    if unsure.size and not certified_only:
        lower_sides = _build_tolerance_in(space, unsure, size, row_of, coefficients, row_lower, row_upper)
    if sure.any():
        changed.eliminate_zeros()  # of fixed variables
    found = replace(space, matrix=changed, row_lower=row_lower, row_upper=row_upper)
    if lower_sides is None:
        return found
    below, of_rows, least = lower_sides
    return replace(
        found,
        matrix=sp.csr_array(sp.vstack([changed, below], format="csr")),
        row_lower=np.concatenate([row_lower, least]),
        row_upper=np.concatenate([row_upper, np.full(of_rows.size, np.inf)]),
        row_names=ChainedNames([space.row_names, ChosenNames(space.row_names, of_rows)]),
    )


def exact_side_rows(
    space: CompiledSpace, matrix: sp.csr_array, lower: FloatArray, upper: FloatArray
) -> tuple[sp.csr_array, FloatArray, FloatArray]:
    """Return rows of one call, changed as `with_exact_rows` changes the rows of the space."""
    if not _depend_on_tolerance(matrix.indptr, matrix.indices, matrix.data, lower, upper, space.lower, space.upper):
        return matrix, lower, upper
    # Views, because a space makes its arrays read-only.
    rows = sp.csr_array((matrix.data.view(), matrix.indices.view(), matrix.indptr.view()), shape=matrix.shape)
    found = with_exact_rows(
        replace(space, matrix=rows, row_lower=lower.view(), row_upper=upper.view(), row_names=[""] * len(lower))
    )
    return found.matrix, found.row_lower, found.row_upper


@kernel
def _depend_on_tolerance(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    row_lower: FloatArray,
    row_upper: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> bool:
    """Return whether any row is none of `small_integers`."""
    for i in range(len(row_lower)):
        size = 0.0
        whole = (np.isinf(row_lower[i]) or row_lower[i] == np.rint(row_lower[i])) and (
            np.isinf(row_upper[i]) or row_upper[i] == np.rint(row_upper[i])
        )
        for k in range(indptr[i], indptr[i + 1]):
            size += abs(data[k]) * max(abs(lower[indices[k]]), abs(upper[indices[k]]))
            whole = whole and data[k] == np.rint(data[k])
        if not (whole and 4.0 * FEASIBILITY_TOLERANCE * size < 1.0):
            return True
    return False


def _build_tolerance_in(
    space: CompiledSpace,
    rows: IntArray,
    size: FloatArray,
    row_of: IntArray,
    coefficients: FloatArray,
    row_lower: FloatArray,
    row_upper: FloatArray,
) -> tuple[sp.csr_array, IntArray, FloatArray] | None:
    """Build the tolerance of `contains` into some `rows`, in place.

    A row with terms of both signs has other coefficients for its lower side than for its upper side. The lower sides of
    such rows, if the upper ones are finite, are returned: coefficients, the rows' numbers and the bounds.
    """
    tol, units, matrix = FEASIBILITY_TOLERANCE, space.row_units, space.matrix
    low_end, up_end = _ends(matrix.data, space.lower[matrix.indices], space.upper[matrix.indices])
    sign = np.where(low_end >= 0.0, 1.0, np.where(up_end <= 0.0, -1.0, 0.0))

    def every(entries: BoolArray) -> BoolArray:
        return np.asarray(np.bincount(row_of[~entries], minlength=space.n_rows) == 0)

    positive, negative = every(low_end >= 0.0), every(up_end <= 0.0)
    # Terms of one sign: their sum is their size, and what is accepted has a threshold.
    simple = rows[(positive | negative)[rows]]
    if simple.size:
        counts = np.diff(matrix.indptr)
        row_upper[simple] = _thresholds(space.row_upper, units, size, positive, negative, counts)[0][simple]
        row_lower[simple] = -_thresholds(-space.row_lower, units, size, negative, positive, counts)[0][simple]
    mixed = rows[~(positive | negative)[rows] & every(sign != 0.0)[rows]]
    if not mixed.size:
        return None

    least = np.full(space.n_rows, np.inf)
    np.minimum.at(least, row_of, np.abs(matrix.data))

    def room(bound: FloatArray) -> FloatArray:
        """A unit where the terms of a label may be smaller than that, or be none."""
        small = (least < units) | ((bound < 0.0) & (bound + tol * units >= 0.0))
        return np.where(small, tol * units, 0.0)[mixed]

    row_lower[mixed] -= room(-space.row_lower)
    row_upper[mixed] += room(space.row_upper)
    above = np.zeros(space.n_rows)
    above[mixed] = np.where(np.isfinite(space.row_upper[mixed]), -tol, tol)
    coefficients *= 1.0 + above[row_of] * sign
    ranged = mixed[np.isfinite(space.row_upper[mixed]) & np.isfinite(space.row_lower[mixed])]
    if not ranged.size:
        return None
    below = sp.csr_array((matrix.data * (1.0 + tol * sign), matrix.indices, matrix.indptr), shape=matrix.shape)
    bounds = row_lower[ranged]
    row_lower[ranged] = -np.inf
    return sp.csr_array(below[ranged]), ranged, bounds


def only_rows(space: CompiledSpace, rows: IntArray) -> CompiledSpace:
    """The space with these rows and no others."""
    return replace(
        space,
        matrix=sp.csr_array(space.matrix[rows]),
        row_lower=space.row_lower[rows],
        row_upper=space.row_upper[rows],
        row_names=ChosenNames(space.row_names, rows),
    )


def small_integers(whole: BoolArray, lower: FloatArray, upper: FloatArray, size: FloatArray) -> BoolArray:
    """Rows that depend on no tolerance: with entries marked `whole`, activities up to `size` and integral bounds."""
    whole_bounds = ((lower == np.rint(lower)) | np.isinf(lower)) & ((upper == np.rint(upper)) | np.isinf(upper))
    return np.asarray(whole & whole_bounds & (4.0 * FEASIBILITY_TOLERANCE * size < 1.0))
