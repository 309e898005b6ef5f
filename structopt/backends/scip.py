"""SCIP in this process, through PySCIPOpt: ``pip install pyscipopt`` brings the solver with it."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from structopt.backends.arrays import with_scaled_rows, without_fixed_columns
from structopt.backends.base import Capability, Solution, Status
from structopt.backends.recording import RecordingBackend
from structopt.errors import DeclarationError
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["Scip"]

#: Words of SCIP. What is not here, limits of nodes and memory among them, is a failure with its word.
_STATUS = {
    "optimal": Status.OPTIMAL,
    "gaplimit": Status.OPTIMAL,  # the gap that the user allows; the bound has the rest
    "infeasible": Status.INFEASIBLE,
    "unbounded": Status.UNBOUNDED,
    "inforunbd": Status.UNBOUNDED,  # decided by `RecordingBackend`
    "timelimit": Status.TIME_LIMIT,
}
#: SCIP's tolerances are 1e-6 by default, relative to the right-hand side.
_DEFAULTS: dict[str, Any] = {
    "numerics/feastol": 1e-9,
    "numerics/dualfeastol": 1e-9,
    "limits/gap": 0.0,
    "limits/absgap": 0.0,
    "randomization/randomseedshift": 0,
    "misc/catchctrlc": False,  # Python's own handler raises KeyboardInterrupt
}


class Scip(RecordingBackend):
    """SCIP's branch and cut, for LPs and MIPs alike. Its model is kept; the search starts anew with every objective.

    Parameters
    ----------
    space : CompiledSpace
    options : mapping, optional
        SCIP's parameters by their own names (``"limits/nodes"``), and the common ``time_limit`` and ``mip_gap``. It
        always runs on one thread.
    """

    name: ClassVar[str] = "scip"
    capabilities: ClassVar[Capability] = (
        Capability.LP | Capability.MIP | Capability.ROWS | Capability.TIME_LIMIT | Capability.MIP_START
    )

    @classmethod
    def unavailable(cls, options: Mapping[str, Any]) -> str | None:
        """Why SCIP cannot run here, or None if it can."""
        try:
            found = importlib.util.find_spec("pyscipopt") is not None
        except ValueError:  # None in sys.modules, by which an import is blocked
            found = False
        return None if found else "the Python package 'pyscipopt' is not installed"

    def _build(self) -> None:
        self._rows: CompiledSpace = with_scaled_rows(without_fixed_columns(self.space))
        self._make()

    def _rows_changed(self) -> None:
        self._rows = with_scaled_rows(without_fixed_columns(self._current()))
        self._make()

    def _make(self) -> None:
        import pyscipopt

        rows = self._rows
        model = pyscipopt.Model()
        model.hideOutput()
        gap = {} if self._common["mip_gap"] is None else {"limits/gap": float(self._common["mip_gap"])}
        for name, value in {**_DEFAULTS, **gap, **self._native}.items():
            try:
                model.setParam(name, value)
            except Exception as error:  # PySCIPOpt has many kinds, some without a class of their own
                raise DeclarationError(f"SCIP does not take the parameter {name!r} = {value!r}: {error}.") from None
        self._variables = [
            model.addVar(
                vtype="I" if whole else "C",
                lb=None if math.isinf(low) else low,
                ub=None if math.isinf(up) else up,
            )
            for whole, low, up in zip(rows.integrality.tolist(), rows.lower.tolist(), rows.upper.tolist(), strict=True)
        ]
        matrix = rows.matrix
        for i in range(rows.n_rows):
            entries = slice(int(matrix.indptr[i]), int(matrix.indptr[i + 1]))
            row = pyscipopt.quicksum(
                coefficient * self._variables[j]
                for j, coefficient in zip(matrix.indices[entries].tolist(), matrix.data[entries].tolist(), strict=True)
            )
            low, up = float(rows.row_lower[i]), float(rows.row_upper[i])
            if not math.isinf(low) or not math.isinf(up):
                model.addCons(
                    pyscipopt.ExprCons(row, lhs=None if math.isinf(low) else low, rhs=None if math.isinf(up) else up)
                )
        self._model = model

    def _solve(self, costs: FloatArray, start: FloatArray | None) -> Solution:
        import pyscipopt

        model = self._model
        model.freeTransform()
        used = np.flatnonzero(costs)
        model.setObjective(
            pyscipopt.quicksum(
                c * self._variables[j] for j, c in zip(used.tolist(), costs[used].tolist(), strict=True)
            ),
            "maximize",
        )
        model.setParam("limits/time", 1e20 if math.isinf(self._limit) else self._limit)
        if start is not None and self._rows.is_integral:
            guess = model.createSol()
            for variable, value in zip(self._variables, start.tolist(), strict=True):
                model.setSolVal(guess, variable, value)
            model.addSol(guess)
        model.optimize()
        word = model.getStatus()
        if word == "userinterrupt":
            raise KeyboardInterrupt
        status = _STATUS.get(word, Status.FAILED)
        z = None
        if status in (Status.OPTIMAL, Status.TIME_LIMIT) and model.getNSols():
            best = model.getBestSol()
            z = np.array([model.getSolVal(best, variable) for variable in self._variables])
        bound = float(model.getDualbound()) if status in (Status.OPTIMAL, Status.TIME_LIMIT) else math.inf
        return Solution(status, z, bound if bound < 1e20 else math.inf, int(model.getNNodes()), word)
