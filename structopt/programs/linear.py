"""Linear programs by HiGHS, from a basis that the caller keeps or with bounds that move between runs.

`structopt.backends.Highs`, which solves label spaces, has neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.backends.highs import Highs
from structopt.errors import SolverFailed
from structopt.space.compiled import FloatArray

__all__ = ["BASIC", "Basis", "LinearProgram", "LinearSolution", "MovingBounds"]

#: Statuses of the columns and of the rows, as numbers that a checkpoint can hold.
Basis = tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]
#: The status of a basic variable; of a row with this status the constraint is not in force.
BASIC = int(highspy.HighsBasisStatus.kBasic)

_OPTIONS: dict[str, Any] = {
    "threads": 1,
    "random_seed": 0,
    "solver": "simplex",
    "presolve": "off",
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


@dataclass(frozen=True, eq=False)
class LinearSolution:
    """An optimal point, the duals of the rows, the optimal value, and the basis to start the next program from."""

    x: FloatArray
    row_duals: FloatArray
    value: float
    basis: Basis


class LinearProgram:
    """``min costs . x`` subject to ``rows x >= row_lower`` and ``lower <= x <= upper``, by the simplex method.

    The program is passed anew each time: the pivots of a model that lives on depend on its whole past, and a run
    resumed from a checkpoint would not repeat them. The basis is the caller's to keep, and to extend with new rows.
    """

    def __init__(self) -> None:
        self._highs = highspy.Highs()
        self._highs.silent()
        for name, value in _OPTIONS.items():
            self._highs.setOptionValue(name, value)

    def solve(
        self,
        costs: FloatArray,
        rows: sp.csr_array,
        row_lower: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        basis: Basis | None = None,
    ) -> LinearSolution:
        """The optimum, from a basis if one is known; `SolverFailed` where there is none."""
        highs = self._highs
        highs.clearModel()
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = rows.shape
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = costs, lower, upper
        lp.row_lower_, lp.row_upper_ = row_lower, np.full(rows.shape[0], highspy.kHighsInf)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = rows.indptr, rows.indices, rows.data
        highs.passModel(lp)
        if basis is not None:
            known = highspy.HighsBasis()
            known.col_status = [highspy.HighsBasisStatus(int(status)) for status in basis[0]]
            known.row_status = [highspy.HighsBasisStatus(int(status)) for status in basis[1]]
            highs.setBasis(known)
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            highs.clearSolver()  # forget a basis that went bad
            highs.run()
        status = highs.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            words = highs.modelStatusToString(status)
            raise SolverFailed(f"HiGHS stopped a linear program at {words!r}.", status=words)
        solution, found = highs.getSolution(), highs.getBasis()
        return LinearSolution(
            np.array(solution.col_value),
            np.array(solution.row_dual),
            float(highs.getInfo().objective_function_value),
            (_numbers(found.col_status), _numbers(found.row_status)),
        )


def _numbers(statuses: Any) -> npt.NDArray[np.int8]:
    return np.array([int(status) for status in statuses], dtype=np.int8)


class MovingBounds(Highs):
    """HiGHS with bounds of variables and rows that change between runs; the basis stays."""

    def set_bounds(self, upper: FloatArray, row_lower: FloatArray, row_upper: FloatArray) -> None:
        """Let the first variables run from 0 to `upper`, and the rows between other bounds."""
        first, rows = self._columns[: upper.size], np.arange(len(row_lower), dtype=np.int32)
        self._highs.changeColsBounds(upper.size, first, np.zeros(upper.size), upper)
        if hasattr(self._highs, "changeRowsBounds"):
            self._highs.changeRowsBounds(len(rows), rows, row_lower, row_upper)
        else:  # highspy 1.12
            for k, low, up in zip(rows.tolist(), row_lower.tolist(), row_upper.tolist(), strict=True):
                self._highs.changeRowBounds(k, low, up)
