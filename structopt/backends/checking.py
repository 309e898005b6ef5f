"""The check of every point that a solver returned: is it a label of the space?"""

from __future__ import annotations

import numpy as np

from structopt.backends.base import SideConstraints
from structopt.backends.snapping import FRACTIONAL, HOLDS, WORSE, first_broken, snap
from structopt.space.compiled import FEASIBILITY_TOLERANCE, VALUE_TOLERANCE, CompiledSpace, FloatArray

__all__ = ["Checker"]


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
        self._arrays = (
            np.array(space.lower, dtype=np.float64),
            np.array(space.upper, dtype=np.float64),
            np.array(matrix.indptr, dtype=np.int64),
            np.array(matrix.indices, dtype=np.int64),
            np.array(matrix.data, dtype=np.float64),
            np.array(space.row_lower, dtype=np.float64),
            np.array(space.row_upper, dtype=np.float64),
        )

    def snap(self, costs: FloatArray, z: FloatArray, extra: SideConstraints | None = None) -> int:
        """Round `z` in place and return HOLDS, or leave it as it was and return what is wrong (see `complaint`)."""
        if extra is None:
            return snap(costs, z, self._integer, *self._arrays, FEASIBILITY_TOLERANCE, VALUE_TOLERANCE)
        rounded = z.copy()
        found = snap(costs, rounded, self._integer, *self._arrays, FEASIBILITY_TOLERANCE, VALUE_TOLERANCE)
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
