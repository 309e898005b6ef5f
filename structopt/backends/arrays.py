"""Arrays of backends: checked and scaled objective coefficients, checked answers, spaces without rows."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit.products import dot
from structopt.backends.base import SideConstraints, Solution, Status
from structopt.errors import DeclarationError, SpaceMismatch
from structopt.space.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.tolerance import broken_bounds, broken_rows, within

__all__ = [
    "as_costs",
    "as_rows",
    "box_solution",
    "breaks_rows",
    "constant_solution",
    "costs_and_scale",
    "drop_idle_rows",
    "holding_rows",
    "recession_ray",
    "row_factors",
    "scaled_extra",
    "snapped",
    "with_rows",
    "with_scaled_rows",
    "without_fixed",
    "without_fixed_columns",
]

_FLOAT64 = np.dtype(np.float64)
#: Costs whose square norm is larger are scaled down to this power of two.
_LARGEST_SQUARE, _LARGEST_EXPONENT = 1e30, 50


def as_costs(c: FloatArray, space: CompiledSpace) -> FloatArray:
    """Costs as a contiguous float64 vector of the space; refuse NaN, infinities and wrong lengths."""
    costs = np.ascontiguousarray(c, dtype=np.float64)
    if costs.shape != (space.n_variables,):
        raise SpaceMismatch(
            f"The objective coefficients have shape {costs.shape}, but {space!r} has {space.n_variables} variables: "
            f"pass a vector of shape ({space.n_variables},)."
        )
    if not np.isfinite(costs).all():
        j = int(np.flatnonzero(~np.isfinite(costs))[0])
        raise DeclarationError(
            f"The objective coefficient of {space.variable_names[j]!r} is {costs[j]}: it must be finite. "
            "Look for a NaN or an overflow in the scores."
        )
    return costs


def costs_and_scale(c: FloatArray, space: CompiledSpace, target: int) -> tuple[FloatArray, float]:
    """Checked objective coefficients, and the power of two that lifts their norm to at least ``2 ** (target - 1)``.

    The tolerances of solvers on them are absolute (1e-7 in a simplex; the MIP of HiGHS ignores
    improvements below 1e-6, that of CBC below 1e-5). Scaling small ones up, exactly, by a power
    of two keeps them relative. Large ones are scaled down only where solvers take them for infinite (from 1e20 on):
    that drowns the small ones.
    """
    # After a simplex run every first call of a numpy function misses the caches (5 to 10 us each), so the
    # common case makes one: the squared norm answers "finite?" and "how large?" together.
    if type(c) is not np.ndarray or c.dtype is not _FLOAT64 or not c.flags.c_contiguous or c.ndim != 1:
        c = as_costs(c, space)
    if len(c) != len(space.lower):
        as_costs(c, space)
    square = dot(c, c)
    if not square <= _LARGEST_SQUARE:
        as_costs(c, space)  # raises, unless they are just large
        largest = float(np.abs(c).max())
        return c, math.ldexp(1.0, min(0, _LARGEST_EXPONENT - math.frexp(largest)[1]))
    if square == 0.0:
        if not c.any():
            return c, 1.0
        square = sys.float_info.min  # underflow: every coefficient is below 1e-154
    excess = target - (math.frexp(square)[1] + 1) // 2
    return c, math.ldexp(1.0, excess) if excess > 0 else 1.0


def as_rows(
    matrix: sp.csr_array, lower: FloatArray, upper: FloatArray, space: CompiledSpace
) -> tuple[sp.csr_array, FloatArray, FloatArray]:
    """Extra rows in the form of `CompiledSpace`; refuse what does not fit the space."""
    # scipy takes as long to make a matrix as HiGHS to solve a small program: once is enough.
    fits = type(matrix) is sp.csr_array and matrix.dtype is _FLOAT64
    rows = matrix if fits else sp.csr_array(matrix, dtype=np.float64)
    lower = np.atleast_1d(np.asarray(lower, dtype=np.float64))
    upper = np.atleast_1d(np.asarray(upper, dtype=np.float64))
    if rows.shape[1] != space.n_variables:
        raise SpaceMismatch(
            f"The extra rows have {rows.shape[1]} columns, but {space!r} has {space.n_variables} variables."
        )
    if lower.shape != (rows.shape[0],) or upper.shape != (rows.shape[0],):
        raise DeclarationError(
            f"{rows.shape[0]} extra rows need as many lower and upper bounds; "
            f"got shapes {lower.shape} and {upper.shape}."
        )
    if not np.isfinite(rows.data).all() or np.isnan(lower).any() or np.isnan(upper).any():
        raise DeclarationError("An extra row holds a NaN or an infinite coefficient.")
    if not rows.has_canonical_format or (rows.data == 0.0).any():
        rows = rows.copy()  # the caller's matrix is not ours to tidy
        rows.sum_duplicates()
        rows.eliminate_zeros()
    return rows, lower, upper


def holding_rows(extra: SideConstraints, labels: Any) -> npt.NDArray[np.bool_]:
    """Return which of the `labels` (dense or sparse, one per row) satisfy every extra row."""
    return np.asarray(~broken_rows(*extra, labels, FEASIBILITY_TOLERANCE).any(axis=1))


def scaled_extra(matrix: sp.csr_array, lower: FloatArray, upper: FloatArray) -> tuple[Any, FloatArray, FloatArray]:
    """Extra rows, those of small coefficients scaled as in `with_scaled_rows`."""
    data = matrix.data
    # Nearly all rows have a coefficient of 1/2 or more, and need nothing.
    if not len(data) or (len(lower) == 1 and max(data.max(), -data.min()) >= 0.5):
        return matrix, lower, upper
    filled = np.flatnonzero(np.diff(matrix.indptr))
    largest = np.ones(len(lower))
    largest[filled] = np.maximum.reduceat(np.abs(data), matrix.indptr[filled])
    factors = np.ldexp(1.0, np.maximum(-np.frexp(np.minimum(largest, 1.0))[1], 0))
    if (factors == 1.0).all():
        return matrix, lower, upper
    scaled = sp.csr_array(
        (data * np.repeat(factors, np.diff(matrix.indptr)), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    return scaled, lower * factors, upper * factors


def snapped(z: FloatArray, space: CompiledSpace) -> FloatArray:
    """`z` with its integer variables exactly integer where the solver left them within tolerance.

    Not where that breaks a row which `z` holds: what then to do is not for a backend to decide.
    """
    if space.is_integral:
        nearest = np.rint(z)
        close = space.integrality & (np.abs(z - nearest) <= FEASIBILITY_TOLERANCE)
        if (z[close] != nearest[close]).any():
            rounded = np.where(close, nearest, z)
            if not breaks_rows(space, rounded, FEASIBILITY_TOLERANCE):
                return rounded
    return z


def with_rows(space: CompiledSpace, extra: list[tuple[sp.csr_array, FloatArray, FloatArray]]) -> CompiledSpace:
    """The space with extra rows below its own."""
    if not extra:
        return space
    n_extra = sum(len(lower) for _, lower, _ in extra)
    return replace(
        space,
        matrix=sp.csr_array(sp.vstack([space.matrix, *(matrix for matrix, _, _ in extra)], format="csr")),
        row_lower=np.concatenate([space.row_lower, *(lower for _, lower, _ in extra)]),
        row_upper=np.concatenate([space.row_upper, *(upper for _, _, upper in extra)]),
        row_names=[*space.row_names, *(f"extra[{i}]" for i in range(n_extra))],
    )


def constant_solution(space: CompiledSpace) -> Solution:
    """The answer over a space of no variables, whose rows all read ``row_lower <= 0 <= row_upper``.

    HiGHS calls such a model "empty" even when a row cannot hold; most file formats cannot express it.
    """
    if not breaks_rows(space, np.zeros(0), FEASIBILITY_TOLERANCE):
        return Solution(Status.OPTIMAL, np.zeros(0), 0.0, message="no variables")
    return Solution(Status.INFEASIBLE, None, message="no variables, and a row that excludes 0")


def box_solution(space: CompiledSpace, costs: FloatArray) -> Solution:
    """The answer over a space without rows: every variable at its better bound.

    No solver is needed, and glpsol cannot read a file without rows.
    """
    lower, upper = space.lower, space.upper
    if (lower > upper).any():
        j = int(np.flatnonzero(lower > upper)[0])
        return Solution(Status.INFEASIBLE, None, message=f"no value for {space.variable_names[j]!r}")
    z = np.where(costs > 0, upper, np.where(costs < 0, lower, np.clip(0.0, lower, upper)))
    z += 0.0  # no negative zeros
    if np.isinf(z).any():
        return Solution(Status.UNBOUNDED, None, message="no rows, and an objective coefficient without a bound")
    return Solution(Status.OPTIMAL, z, float(costs @ z), message="no rows")


def drop_idle_rows(space: CompiledSpace) -> tuple[CompiledSpace, bool]:
    """The space without rows that cannot bind, and whether one of them can never hold.

    A row without coefficients says ``row_lower <= 0 <= row_upper``: true or false, but nothing that
    PuLP, Pyomo or an LP file can express. A row without bounds says nothing.
    """
    blank = np.diff(space.matrix.indptr) == 0
    false = blank & ~within(0.0, 0.0, 1.0, space.row_lower, space.row_upper, FEASIBILITY_TOLERANCE)
    keep = ~(blank | (np.isneginf(space.row_lower) & np.isposinf(space.row_upper)))
    if keep.all():
        return space, False
    kept = replace(
        space,
        matrix=sp.csr_array(space.matrix[keep]),
        row_lower=space.row_lower[keep],
        row_upper=space.row_upper[keep],
        row_names=[name for name, wanted in zip(space.row_names, keep, strict=True) if wanted],
    )
    return kept, bool(false.any())


def row_factors(space: CompiledSpace) -> FloatArray:
    """The powers of two that lift the largest coefficient of each row to at least 1/2; 1 where it is larger.

    Rows are never scaled down: what a solver overlooks in a scaled row is worth more in the row as declared.
    """
    exponents = np.frexp(space.row_units)[1]
    return np.ldexp(1.0, np.maximum(-exponents, 0))


def with_scaled_rows(space: CompiledSpace) -> CompiledSpace:
    """The same labels with rows of small coefficients times a power of two.

    The tolerances of solvers on rows are absolute: with coefficients of 1e-9 HiGHS ignores a row, with 1e-7 CBC calls a
    feasible program infeasible.
    """
    factors = row_factors(space)
    if (factors == 1.0).all():
        return space
    matrix = space.matrix
    return replace(
        space,
        matrix=sp.csr_array(
            (matrix.data * np.repeat(factors, np.diff(matrix.indptr)), matrix.indices, matrix.indptr),
            shape=matrix.shape,
        ),
        row_lower=space.row_lower * factors,
        row_upper=space.row_upper * factors,
    )


def without_fixed_columns(space: CompiledSpace) -> CompiledSpace:
    """The same labels with the fixed variables of an integer program on the other side of its rows.

    The presolve of HiGHS (1.12 to 1.15.1, and SciPy's) is wrong about columns that their bounds fix: of
    ``x + z = one, y + z = one`` with ``one`` fixed at 1, x binary, y and z continuous, it calls max z = 0 optimal, and
    other programs infeasible. Without these columns it is right. LPs are, too, and keep theirs.
    """
    fixed = space.lower == space.upper
    if not space.is_integral or not fixed.any():
        return space
    matrix, lower, upper = without_fixed(space.matrix, space.row_lower, space.row_upper, fixed, space.lower)
    return replace(space, matrix=matrix, row_lower=lower, row_upper=upper)


def without_fixed(
    matrix: sp.csr_array, lower: FloatArray, upper: FloatArray, fixed: npt.NDArray[np.bool_], values: FloatArray
) -> SideConstraints:
    """Rows over the variables that are not fixed, with the `values` of those that are moved to the other side."""
    kept = ~fixed[matrix.indices]
    if kept.all():
        return matrix, lower, upper
    shift = matrix @ np.where(fixed, values, 0.0)
    ends = np.concatenate([[0], np.cumsum(kept)])[matrix.indptr].astype(matrix.indptr.dtype)
    moved = sp.csr_array((matrix.data[kept], matrix.indices[kept], ends), shape=matrix.shape)
    return moved, lower - shift, upper - shift


def breaks_rows(space: CompiledSpace, z: FloatArray, tolerance: float) -> bool:
    """Return whether `z` violates a row or a bound; integrality is ignored."""
    continuous = np.zeros(len(z), dtype=np.bool_)
    return bool(
        broken_rows(space.matrix, space.row_lower, space.row_upper, z, tolerance, space.row_units).any()
        or broken_bounds(z, continuous, space.lower, space.upper, tolerance).any()
    )


def recession_ray(space: CompiledSpace, costs: FloatArray) -> FloatArray | None:
    """A direction that stays in the space for ever while ``costs`` grow, or None if there is none.

    Solves ``max costs . d`` over the recession cone cut to the box [-1, 1]: rows and bounds keep
    their finite sides, with 0 on the right. The cut cone is never empty and never unbounded, so this
    answers whatever the solver that met the unbounded objective has to say about it.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from structopt.space.compiled import CompiledSpace
    >>> quadrant = CompiledSpace(
    ...     sp.csr_array((0, 2)), np.zeros(0), np.zeros(0), np.zeros(2), np.full(2, np.inf),
    ...     np.zeros(2, dtype=bool), ["u", "v"], [])
    >>> recession_ray(quadrant, np.array([1.0, -1.0]))
    array([1., 0.])
    """
    from structopt.backends.highs import Highs

    open_ended = np.isinf(space.lower) | np.isinf(space.upper)
    if not open_ended.any():
        return None
    costs = np.where(open_ended, costs, 0.0)  # the others stay where they are, whatever their coefficients
    cone = replace(
        space.relaxed(),
        row_lower=np.where(np.isfinite(space.row_lower), 0.0, -np.inf),
        row_upper=np.where(np.isfinite(space.row_upper), 0.0, np.inf),
        lower=np.where(np.isfinite(space.lower), 0.0, -1.0),
        upper=np.where(np.isfinite(space.upper), 0.0, 1.0),
    )
    backend = Highs(cone)
    backend.set_costs(costs)
    direction = backend.run().z
    if direction is None or costs @ direction <= FEASIBILITY_TOLERANCE * np.abs(costs).max(initial=0.0):
        return None
    return direction
