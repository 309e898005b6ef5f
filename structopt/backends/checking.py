"""The check of every point that a solver returned: is it, its integer values rounded, a label of the space?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray, kernel
from structopt.backends.base import SideConstraints
from structopt.space.compiled import FEASIBILITY_TOLERANCE, VALUE_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.tolerance import bound_holds, row_holds

__all__ = ["FRACTIONAL", "HOLDS", "WORSE", "Checker"]

#: What `snap` answers besides the number of a broken row or bound.
HOLDS, FRACTIONAL, WORSE = -1, -2, -3


class Checker:
    """Rounds the integer variables of a point if that leaves it a label, in exact activity of the declared rows.

    A solver's "integer" is 1e-6 away from one; in a row ``x <= M y`` that is M/1e6 of x. So a point is checked after
    rounding, by the rows as they were declared.

    Parameters
    ----------
    space : CompiledSpace

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.testing.instances import space_of
    >>> checker = Checker(space_of([[1.0, -1e7]], -np.inf, 0.0, 0.0, [2.0, 1.0], [False, True]))  # x <= 1e7 y
    >>> z = np.array([2.0, 1.0 - 1e-9])
    >>> checker.holds(np.ones(2), z), z
    (True, array([2., 1.]))
    >>> checker.complaint(checker.snap(np.zeros(2), np.array([2.0, 2e-7])))
    'row[0]'
    """

    def __init__(self, space: CompiledSpace) -> None:
        self._space = space
        matrix = space.matrix
        # Copies, because numba compiles once more for arrays that are read-only.
        self._integer = np.array(space.integrality)
        self._none = np.zeros(space.n_variables, dtype=np.bool_)
        self._arrays = (
            np.array(space.lower, dtype=np.float64),
            np.array(space.upper, dtype=np.float64),
            np.array(matrix.indptr, dtype=np.int64),
            np.array(matrix.indices, dtype=np.int64),
            np.array(matrix.data, dtype=np.float64),
            np.array(space.row_lower, dtype=np.float64),
            np.array(space.row_upper, dtype=np.float64),
        )

    def snap(
        self, costs: FloatArray, z: FloatArray, extra: SideConstraints | None = None, *, relaxed: bool = False
    ) -> int:
        """Round `z` in place and return HOLDS, or leave it as it was and return what is wrong (see `complaint`).

        With `relaxed`, integer variables may have any value.
        """
        integer = self._none if relaxed else self._integer
        if extra is None:
            return snap(costs, z, integer, *self._arrays, FEASIBILITY_TOLERANCE, VALUE_TOLERANCE)
        rounded = z.copy()
        found = snap(costs, rounded, integer, *self._arrays, FEASIBILITY_TOLERANCE, VALUE_TOLERANCE)
        if found != HOLDS:
            return found
        matrix, lower, upper = extra
        broken = first_broken(
            rounded,
            matrix.indptr.astype(np.int64, copy=False),
            matrix.indices.astype(np.int64, copy=False),
            matrix.data,
            np.ascontiguousarray(lower),
            np.ascontiguousarray(upper),
            FEASIBILITY_TOLERANCE,
        )
        if broken >= 0:
            return int(self._space.n_rows + self._space.n_variables + broken)
        z[:] = rounded
        return HOLDS

    def holds(self, costs: FloatArray, z: FloatArray, extra: SideConstraints | None = None) -> bool:
        """Whether `z`, rounded in place, is a label."""
        return self.snap(costs, z, extra) == HOLDS

    def complaint(self, code: int) -> str:
        """What an answer of `snap` means, by name."""
        n_rows, n = self._space.n_rows, self._space.n_variables
        if code == FRACTIONAL:
            return "an integer variable is fractional"
        if code == WORSE:
            return "rounding the integer variables loses value"
        if code < n_rows:
            return str(self._space.row_names[code])
        if code < n_rows + n:
            return f"the bounds of {self._space.variable_names[code - n_rows]}"
        return f"extra row {code - n_rows - n} of this call"


@kernel
def first_broken(
    z: FloatArray,
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    row_lower: FloatArray,
    row_upper: FloatArray,
    tolerance: float,
) -> int:
    """Return the number of the first row that `z` violates, or -1."""
    for i in range(len(row_lower)):
        activity = 0.0
        size = 0.0
        unit = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            term = data[k] * z[indices[k]]
            activity += term
            size += abs(term)
            unit = max(unit, abs(data[k]))
        unit = min(1.0, unit) if unit > 0.0 else 1.0  # as `structopt.space.tolerance.row_units`
        if not row_holds(activity, size, unit, row_lower[i], row_upper[i], tolerance):
            return i
    return -1


@kernel
def snap(
    c: FloatArray,
    z: FloatArray,
    integer: npt.NDArray[np.bool_],
    lower: FloatArray,
    upper: FloatArray,
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    row_lower: FloatArray,
    row_upper: FloatArray,
    tolerance: float,
    rounding: float,
) -> int:
    """Round the integer entries of `z` in place, if the rounded point is still a label and worth as much.

    Entries that leave their bounds by less than the tolerance are put on them, unless that breaks a row.

    Returns
    -------
    int
        HOLDS; FRACTIONAL if an entry is not within `tolerance` of an integer; WORSE if rounding loses more than
        `rounding` of the terms of ``c . z``; else the number of the first row that the rounded point breaks, or
        ``len(row_lower) + j`` if it leaves the bounds of variable j. In all but the first case `z` is left as it was.
    """
    n, m = len(z), len(row_lower)
    loss, size = 0.0, 0.0
    rounds = False
    for j in range(n):
        size += abs(c[j] * z[j])
        if integer[j]:
            nearest = np.rint(z[j])
            off = z[j] - nearest
            if not abs(off) <= tolerance:
                return FRACTIONAL
            if off != 0.0:
                rounds = True
                loss += c[j] * off
    if loss > rounding * size:
        return WORSE
    for j in range(n):
        if not bound_holds(z[j], integer[j], lower[j], upper[j], tolerance):
            return m + j
        rounds |= not lower[j] <= z[j] <= upper[j]
    kept = z.copy() if rounds else z
    for j in range(n):
        if integer[j]:
            z[j] = np.rint(z[j]) + 0.0  # no negative zeros
        if z[j] < lower[j]:
            z[j] = lower[j]
        elif z[j] > upper[j]:
            z[j] = upper[j]
    broken = first_broken(z, indptr, indices, data, row_lower, row_upper, tolerance)
    if broken >= 0 and rounds:
        # A continuous value outside its bounds by less than the tolerance is allowed; on its bound, it broke the row.
        for k in range(n):
            if not integer[k]:
                z[k] = kept[k]
        broken = first_broken(z, indptr, indices, data, row_lower, row_upper, tolerance)
    if broken >= 0 and rounds:
        for k in range(n):
            z[k] = kept[k]
    return broken  # HOLDS is -1, too
