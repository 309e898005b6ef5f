"""The rows of a space as exact integers, with a proof that membership of a label does not depend on a tolerance.

States of a diagram are merged by equality, and a merged state must mean the same set of completions to the last bit:
sums of floating-point coefficients would not do. A row ``lower <= a z <= upper`` over integer variables becomes a row
of integers: its coefficients times a common denominator where they are rationals of small denominators, else rounded to
a grid of 2^-50 of the largest activity.

`structopt.LabelSpace.contains` accepts a label that leaves a row by up to ``1e-6 max(unit, |a| |z|)``. The integer
bounds here accept at least these labels, and `demand_lower`, `demand_upper` bound the activities that are accepted
beyond doubt. A row is *certified* if no integer lies between the two. For the others the compiler looks at the extreme
activities over the finished diagram, and refuses if any label lies in the band.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from structopt.errors import DiagramRefused
from structopt.space.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray

__all__ = ["UNBOUNDED", "ExactRows", "exact_rows"]

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

#: An integer bound that no activity reaches; sums with activities (below 2^53) do not overflow.
UNBOUNDED = 1 << 60

#: Denominators of single coefficients, and of a whole row.
_MOST_DENOMINATOR, _MOST_MULTIPLE = 1000, 10**6
#: Integer activities stay below this, so that they are exact in float64 as well.
_MOST_ACTIVITY = 2.0**52
#: Coefficients are below this in magnitude, and above its inverse.
_MOST_COEFFICIENT = 1e200


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
    extreme = np.flatnonzero(
        (np.abs(data) > _MOST_COEFFICIENT) | ((np.abs(data) < 1.0 / _MOST_COEFFICIENT) & (data != 0))
    )
    if extreme.size:
        row = space.row_names[int(row_of[extreme[0]])]
        raise DiagramRefused(
            f"Row {row} has the coefficient {data[extreme[0]]:g}, of which multiples overflow: multiply the row by a "
            "constant, or leave out a coefficient that is nearly 0.",
            "tolerance",
            rows=(row,),
        )
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
        values = data[entries][free[entries]]
        multiple = 1
        for value in np.unique(np.abs(values)).tolist():
            if value not in known:
                known[value] = _denominator(value)
            multiple = math.lcm(multiple, known[value]) if known[value] else 0
            if not 0 < multiple <= _MOST_MULTIPLE or value * multiple > 2.0**40:
                multiple = 0
                break
        scale[row] = multiple
    on_grid |= (scale == 0.0) | (scale * size >= _MOST_ACTIVITY)
    if on_grid.any():
        scale[on_grid] = 2.0 ** np.floor(50.0 - np.log2(size[on_grid]))
    return scale, on_grid


def _denominator(value: float) -> int:
    """The denominator of a rational number, or 0 if it is none of small denominator."""
    fraction = Fraction(value).limit_denominator(_MOST_DENOMINATOR)
    return fraction.denominator if abs(float(fraction) - value) <= 1e-12 * abs(value) else 0
