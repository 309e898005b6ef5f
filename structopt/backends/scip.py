"""SCIP in this process, through PySCIPOpt: ``pip install pyscipopt`` brings the solver with it."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from structopt.backends.arrays import scaled_extra, with_scaled_rows, without_fixed, without_fixed_columns
from structopt.backends.base import Capability, SideConstraints, Solution, Status
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
#: What SCIP may not conclude from the rows that it has while others are still to come.
_LAZY_DEFAULTS: dict[str, Any] = {
    "misc/usesymmetry": 0,
    "misc/allowstrongdualreds": False,
    "misc/allowweakdualreds": False,
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
        Capability.LP
        | Capability.MIP
        | Capability.ROWS
        | Capability.TIME_LIMIT
        | Capability.MIP_START
        | Capability.LAZY_ROWS
    )
    _handler: Any = None
    _model: Any = None

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
        self._make(None)

    def _rows_changed(self) -> None:
        self._rows = with_scaled_rows(without_fixed_columns(self._current()))
        self._model = None  # several changes may come before the next run

    def run_lazily(
        self,
        separate: Callable[[FloatArray], SideConstraints | None],
        start: FloatArray | None = None,
        max_rounds: int = 1000,
    ) -> Solution:
        """Branch and cut with rows that are found on the way, by a constraint handler of its own."""
        handler = _handler_class()(self, separate, max_rounds)
        self._make(handler)
        try:
            found = self.run(start)
        finally:
            # A model with a handler in it cannot be used without one. It is emptied now: Python may let go of it much
            # later, and it calls the handler once more then.
            self._model.freeProb()
            self._model = self._handler = None
        if handler.raised is not None:
            raise handler.raised
        return found

    def constraints(self, rows: SideConstraints) -> list[Any]:
        """Rows in SCIP's words, by the variables of the present model."""
        space = self.space
        matrix, lower, upper = scaled_extra(*without_fixed(*rows, space.lower == space.upper, space.lower))
        return _constraints(matrix, lower, upper, self._variables)

    def point(self, solution: Any) -> FloatArray:
        """A solution of SCIP, or the present one of its LP (None), by the variables of the space."""
        value = self._model.getSolVal
        return np.array([value(solution, variable) for variable in self._variables])

    def _make(self, handler: Any) -> None:
        import pyscipopt

        rows = self._rows
        model = pyscipopt.Model()
        model.hideOutput()
        gap = {} if self._common["mip_gap"] is None else {"limits/gap": float(self._common["mip_gap"])}
        lazily = _LAZY_DEFAULTS if handler is not None else {}
        for name, value in {**_DEFAULTS, **gap, **self._native, **lazily}.items():
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
        for constraint in _constraints(rows.matrix, rows.row_lower, rows.row_upper, self._variables):
            model.addCons(constraint)
        if handler is not None:
            handler.variables = self._variables
            # It enforces after all others, at points that are integral by then, and cuts fractions in all nodes. That
            # it has a constraint lets SCIP lock the variables, so that nothing is concluded from their objective alone.
            model.includeConshdlr(
                handler,
                "lazy rows",
                "rows found on the way",
                sepapriority=-1,
                enfopriority=-1_000_000,
                chckpriority=-1_000_000,
                sepafreq=1,
                eagerfreq=-1,
                maxprerounds=0,
            )
            model.addPyCons(model.createCons(handler, "lazy rows"))
        self._handler = handler
        self._model = model

    def _solve(self, costs: FloatArray, start: FloatArray | None) -> Solution:
        import pyscipopt

        if self._model is None:
            self._make(None)
        model, handler = self._model, self._handler
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
        try:
            model.optimize()
        except Exception as error:  # PySCIPOpt raises a bare Exception, e.g. "error in LP solver"
            if handler is not None:
                raise
            self._model = None
            return Solution(Status.FAILED, None, message=f"{type(error).__name__}: {error}")
        word = model.getStatus()
        status = _STATUS.get(word, Status.FAILED)
        if handler is not None and handler.stopped:
            word, status = handler.stopped, Status.TIME_LIMIT
        elif word == "userinterrupt":
            raise KeyboardInterrupt
        z = None
        if status in (Status.OPTIMAL, Status.TIME_LIMIT) and model.getNSols():
            z = self.point(model.getBestSol())
        bound = float(model.getDualbound()) if status in (Status.OPTIMAL, Status.TIME_LIMIT) else math.inf
        return Solution(status, z, bound if bound < 1e20 else math.inf, int(model.getNNodes()), word)


def _constraints(matrix: sp.csr_array, lower: FloatArray, upper: FloatArray, variables: list[Any]) -> list[Any]:
    """Rows in SCIP's words."""
    import pyscipopt

    constraints = []
    for i, (low, up) in enumerate(zip(lower.tolist(), upper.tolist(), strict=True)):
        entries = slice(int(matrix.indptr[i]), int(matrix.indptr[i + 1]))
        row = pyscipopt.quicksum(
            coefficient * variables[j]
            for j, coefficient in zip(matrix.indices[entries].tolist(), matrix.data[entries].tolist(), strict=True)
        )
        if not math.isinf(low) or not math.isinf(up):
            constraints.append(
                pyscipopt.ExprCons(row, lhs=None if math.isinf(low) else low, rhs=None if math.isinf(up) else up)
            )
    return constraints


@cache
def _handler_class() -> Any:
    """The constraint handler of lazy rows. Its base class is there only once PySCIPOpt is imported."""
    import pyscipopt

    result = pyscipopt.SCIP_RESULT

    class LazyRows(pyscipopt.Conshdlr):  # type: ignore[misc]
        """Asks a separation at every point that SCIP would accept, and at the optima of its LPs.

        PySCIPOpt prints exceptions of a callback and goes on. So they are kept here, and SCIP is told to stop.
        """

        def __init__(
            self, backend: Scip, separate: Callable[[FloatArray], SideConstraints | None], max_rounds: int
        ) -> None:
            self.backend, self.separate, self.max_rounds, self.rounds = backend, separate, max_rounds, 0
            self.variables: list[Any] = []  # of the model that it is in
            self.raised: BaseException | None = None
            self.stopped = ""

        def _asked(self, solution: Any) -> SideConstraints | None:
            """What is violated; after an exception, or once there were enough rounds, nothing."""
            if self.stopped:
                return None
            try:
                return self.separate(self.backend.point(solution))
            except BaseException as error:
                self.raised = error
                self._stop(f"{type(error).__name__} in a separation")
                return None

        def _stop(self, why: str) -> None:
            self.stopped = why
            self.model.interruptSolve()

        def _cut(self, nothing: Any) -> dict[str, Any]:
            """Add what the optimum of the present LP violates."""
            rows = self._asked(None)
            if rows is None:
                return {"result": nothing if not self.stopped or nothing != result.FEASIBLE else result.INFEASIBLE}
            for constraint in self.backend.constraints(rows):
                self.model.addCons(constraint)
            self.rounds += 1
            if self.rounds == self.max_rounds:  # the rows of this round are in, so that the bound of the node holds
                self._stop(f"max_rounds={self.max_rounds} of lazy rows")
            return {"result": result.CONSADDED}

        def consenfolp(self, constraints: Any, nusefulconss: int, solinfeasible: bool) -> dict[str, Any]:
            return self._cut(result.FEASIBLE)

        def consenfops(
            self, constraints: Any, nusefulconss: int, solinfeasible: bool, objinfeasible: bool
        ) -> dict[str, Any]:
            return self._cut(result.FEASIBLE)

        def conssepalp(self, constraints: Any, nusefulconss: int) -> dict[str, Any]:
            return self._cut(result.DIDNOTFIND)

        def conscheck(
            self,
            constraints: Any,
            solution: Any,
            checkintegrality: bool,
            checklprows: bool,
            printreason: bool,
            completely: bool,
        ) -> dict[str, Any]:
            violated = self._asked(solution) is not None or bool(self.stopped)
            return {"result": result.INFEASIBLE if violated else result.FEASIBLE}

        def conslock(self, constraint: Any, locktype: Any, nlockspos: int, nlocksneg: int) -> None:
            # A row that comes may forbid to raise a variable, or to lower it.
            both = nlockspos + nlocksneg
            for variable in self.variables:
                self.model.addVarLocksType(variable, locktype, both, both)

    return LazyRows
