"""The rule of when a point satisfies a row, in one place.

A row ``lower <= a z <= upper`` holds at z within `tol` if

    lower - room <= a z <= upper + room    with    room = tol * max(unit, sum_j |a_j z_j|),

in which `unit` is the largest ``|a_j|``, but at most 1 (and 1 for a row without coefficients). The bounds of a
continuous variable are rows with the coefficient 1. An integer variable must be within `tol` of an integer, and that
integer must be within the bounds. NaN satisfies nothing. docs/mathematics/oracles.md gives the reasons.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import inlined

__all__ = ["bound_holds", "broken_bounds", "broken_rows", "row_holds", "row_room", "row_units", "within"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def row_room(unit: Any, size: Any, tol: float) -> Any:
    """Return how far a row may be violated, given the sum of its absolute terms."""
    return tol * np.maximum(unit, size)


def within(value: Any, size: Any, unit: Any, lower: Any, upper: Any, tol: float) -> Any:
    """Return whether rows hold, given their activities and the sums of their absolute terms."""
    room = tol * np.maximum(unit, size)
    return (value >= lower - room) & (value <= upper + room)


#: `within` of one row, for kernels.
row_holds = inlined(within)


@inlined
def bound_holds(z: float, integer: bool, lower: float, upper: float, tol: float) -> bool:
    """Return whether one value satisfies the bounds and the integrality of its variable."""
    if integer:
        nearest = np.rint(z)
        return bool(abs(z - nearest) <= tol) and bool(lower <= nearest <= upper)
    return row_holds(z, abs(z), 1.0, lower, upper, tol)  # type: ignore[no-any-return]


def row_units(indptr: npt.NDArray[Any], data: FloatArray) -> FloatArray:
    """Return the unit of each row of a CSR matrix: its largest absolute coefficient, but at most 1."""
    units = np.ones(len(indptr) - 1)
    filled = np.flatnonzero(np.diff(indptr))
    if filled.size:
        units[filled] = np.minimum(1.0, np.maximum.reduceat(np.abs(data), indptr[filled]))
    units[units == 0.0] = 1.0
    return units


def broken_rows(
    matrix: sp.csr_array, lower: FloatArray, upper: FloatArray, Z: Any, tol: float, units: FloatArray | None = None
) -> BoolArray:
    """Return which rows do not hold, of shape (n_points, n_rows), or (n_rows,) for one point.

    `Z` has a point per row and may be sparse. `units` are the rows' units, if they are known.
    """
    if not len(lower):
        return np.zeros((*Z.shape[:-1], 0), dtype=np.bool_)
    value, size = matrix @ Z.T, abs(matrix) @ abs(Z).T
    if sp.issparse(Z):
        value, size = value.toarray(), size.toarray()
    units = row_units(matrix.indptr, matrix.data) if units is None else units
    return np.asarray(~within(value.T, size.T, units, lower, upper, tol))


def broken_bounds(Z: FloatArray, integer: BoolArray, lower: FloatArray, upper: FloatArray, tol: float) -> BoolArray:
    """Return which values violate the bounds of their variables, in the shape of `Z`."""
    whole = np.where(integer, np.rint(Z), Z)
    return np.asarray(~within(whole, np.where(integer, 0.0, np.abs(Z)), np.where(integer, 0.0, 1.0), lower, upper, tol))
