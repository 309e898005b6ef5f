"""SciPy's ``milp``: HiGHS without highspy, rebuilt on every call."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.optimize
import scipy.sparse as sp

from structopt.backends.arrays import with_scaled_rows, without_fixed_columns
from structopt.backends.base import Capability, Solution, Status
from structopt.backends.recording import RecordingBackend
from structopt.errors import DeclarationError
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.stopping import call_in_thread

__all__ = ["Scipy"]

#: The status codes of `scipy.optimize.milp`.
_STATUS = {
    0: Status.OPTIMAL,
    1: Status.TIME_LIMIT,
    2: Status.INFEASIBLE,
    3: Status.UNBOUNDED,
    4: Status.FAILED,
}
#: Coefficients of a linear program that may run for seconds.
_LARGE = 50_000
_OPTIONS = ("presolve", "node_limit", "disp")


class Scipy(RecordingBackend):
    """`scipy.optimize.milp`, for LPs and MIPs alike.

    Parameters
    ----------
    space : CompiledSpace
    options : mapping, optional
        ``presolve``, ``node_limit``, ``disp`` of `scipy.optimize.milp`, and the common
        ``time_limit`` and ``mip_gap``. It always runs on one thread.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from structopt.space.compiled import CompiledSpace
    >>> space = CompiledSpace(
    ...     sp.csr_array([[1.0, 1.0]]), np.array([-np.inf]), np.array([1.5]), np.zeros(2), np.ones(2),
    ...     np.array([False, False]), ["u", "v"], ["at most one and a half"])
    >>> backend = Scipy(space)
    >>> backend.set_costs(np.array([1.0, 2.0]))
    >>> backend.run().z
    array([0.5, 1. ])
    """

    name: ClassVar[str] = "scipy"
    capabilities: ClassVar[Capability] = Capability.LP | Capability.MIP | Capability.ROWS | Capability.TIME_LIMIT

    def _build(self) -> None:
        unknown = set(self._native) - set(_OPTIONS)
        if unknown:
            raise DeclarationError(
                f"The scipy backend has no option {sorted(unknown)[0]!r}; it takes "
                f"{', '.join(_OPTIONS)}, time_limit and mip_gap."
            )
        # The presolve of HiGHS is wrong about mixed programs (see `structopt.backends.highs`).
        presolve = {"presolve": False} if self.space.is_mixed else {}
        self._options: dict[str, Any] = {"mip_rel_gap": self.options.get("mip_gap", 0.0), **presolve, **self._native}
        self._take(self.space)

    def _rows_changed(self) -> None:
        self._take(self._current())

    def _take(self, space: CompiledSpace) -> None:
        self._rows = with_scaled_rows(without_fixed_columns(space))
        # SciPy before 1.15 takes indices of 32 bits only.
        matrix, index = self._rows.matrix, np.int32
        self._matrix = sp.csr_array(
            (matrix.data, matrix.indices.astype(index), matrix.indptr.astype(index)), matrix.shape
        )

    def _solve(self, costs: FloatArray, start: FloatArray | None) -> Solution:
        rows = self._rows
        options = self._options if math.isinf(self._limit) else {**self._options, "time_limit": self._limit}
        solve = partial(
            scipy.optimize.milp,
            -costs,  # milp minimises
            integrality=rows.integrality.astype(np.uint8),
            bounds=scipy.optimize.Bounds(rows.lower, rows.upper),
            constraints=(
                scipy.optimize.LinearConstraint(self._matrix, rows.row_lower, rows.row_upper) if rows.n_rows else ()
            ),
            options=options,
        )
        # SciPy does not react to Ctrl-C. A thread costs a fifth of the time of a tiny linear program.
        may_take_long = rows.is_integral or self._matrix.nnz >= _LARGE
        result = call_in_thread(solve) if may_take_long else solve()
        status = _STATUS.get(result.status, Status.FAILED)
        if status is Status.TIME_LIMIT and "ime limit" not in result.message:
            status = Status.FAILED  # SciPy's code 1 also covers the node and iteration limits
        z = None if result.x is None else np.array(result.x, dtype=np.float64)
        bound = getattr(result, "mip_dual_bound", None)
        return Solution(
            status,
            z,
            float("inf") if bound is None or not rows.is_integral else -float(bound),
            int(getattr(result, "mip_node_count", None) or 0),
            str(result.message),
        )
