"""Any solver that Pyomo can drive, by Pyomo's name for it."""

from __future__ import annotations

import logging
import math
import shutil
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from structopt.backends.arrays import drop_idle_rows, with_rows, with_scaled_rows, without_fixed_columns
from structopt.backends.base import Capability, Solution, Status
from structopt.backends.executables import cbc_executable, missing_solver
from structopt.backends.recording import RecordingBackend
from structopt.backends.supervision import SupervisedProgram
from structopt.errors import SolverNotAvailable
from structopt.space.compiled import FloatArray

__all__ = ["Pyomo"]

_DEFAULT_SOLVER = "appsi_highs"
#: Pyomo redirects the output of the whole process and keeps one stack of temporary files: two solves at a time
#: wait for each other for ever.
_one_at_a_time = threading.Lock()
#: Pyomo's solvers that are programs, and the programs.
_PROGRAMS = {"cbc": "cbc", "glpk": "glpsol", "scip": "scip", "gurobi": "gurobi_cl", "cplex": "cplex"}
#: Pyomo's solvers that are Python packages, and the packages.
_PACKAGES = {
    "appsi_highs": "highspy",
    "highs": "highspy",
    "appsi_gurobi": "gurobipy",
    "gurobi_direct": "gurobipy",
    "gurobi_persistent": "gurobipy",
    "scip_direct": "pyscipopt",
}
#: What each solver calls the common options; the time limit has one name in Pyomo.
_COMMON_NAMES = {
    "appsi_highs": {"mip_gap": "mip_rel_gap", "threads": "threads"},
    "highs": {"mip_gap": "mip_rel_gap", "threads": "threads"},
    "cbc": {"mip_gap": "ratio", "threads": "threads"},
    "glpk": {"mip_gap": "mipgap"},
    "scip": {"mip_gap": "limits/gap"},
    "gurobi": {"mip_gap": "MIPGap", "threads": "Threads"},
    "gurobi_direct": {"mip_gap": "MIPGap", "threads": "Threads"},
    "gurobi_persistent": {"mip_gap": "MIPGap", "threads": "Threads"},
    "appsi_gurobi": {"mip_gap": "MIPGap", "threads": "Threads"},
    "cplex": {"mip_gap": "mip_tolerances_mipgap", "threads": "threads"},
}
_UNSURE = ("infeasibleOrUnbounded", "other", "unknown", "error", "noSolution", "internalSolverError")


class Pyomo(RecordingBackend):
    """A solver behind Pyomo: by default its HiGHS interface.

    Parameters
    ----------
    space : CompiledSpace
    options : mapping, optional
        ``solver``: a name of ``pyomo.environ.SolverFactory`` (``"appsi_highs"``, ``"highs"``,
        ``"cbc"``, ``"glpk"``, ...); ``executable``: the program, if it is not on the path (for CBC the
        one that PuLP ships is found); the common ``time_limit``, ``mip_gap``, ``threads``; all others
        go to the solver under its own names.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from structopt.space.compiled import CompiledSpace
    >>> space = CompiledSpace(
    ...     sp.csr_array([[1.0, 1.0]]), np.array([-np.inf]), np.array([1.5]), np.zeros(2), np.ones(2),
    ...     np.array([True, True]), ["u", "v"], ["at most one and a half"])
    >>> backend = Pyomo(space)
    >>> backend.set_costs(np.array([1.0, 2.0]))
    >>> backend.run().z
    array([0., 1.])
    """

    name: ClassVar[str] = "pyomo"
    capabilities: ClassVar[Capability] = Capability.LP | Capability.MIP | Capability.ROWS | Capability.TIME_LIMIT
    _rounding: ClassVar[float] = 5e-8
    _is_audited: ClassVar[bool] = True
    _program: SupervisedProgram | None = None

    @classmethod
    def unavailable(cls, options: Mapping[str, Any]) -> str | None:
        """Why Pyomo or the program of this solver is missing, or None."""
        solver = str(options.get("solver", _DEFAULT_SOLVER))
        return missing_solver("pyomo", solver, _PACKAGES, _PROGRAMS, options.get("executable"))

    @property
    def _solver_name(self) -> str:
        return str(self.options.get("solver", _DEFAULT_SOLVER))

    def _build(self) -> None:
        import pyomo.environ as pyo

        from structopt.interop.pyomo import to_pyomo

        missing = self.unavailable(self.options)
        if missing is not None:
            raise SolverNotAvailable(f"solver {self._solver_name!r} of Pyomo: {missing}.")
        rows, self._contradiction = drop_idle_rows(with_scaled_rows(without_fixed_columns(self.space)))
        self._extra_contradiction = False
        self._model = to_pyomo(
            replace(
                rows,
                variable_names=[f"x[{j}]" for j in range(rows.n_variables)],
                row_names=[f"r[{i}]" for i in range(rows.n_rows)],
                name="",
            )
        )
        self._variables = list(self._model.component_data_objects(pyo.Var))
        self._model.score = pyo.Objective(expr=0.0, sense=pyo.maximize)
        self._solver = self._make_solver()

    def _make_solver(self) -> Any:
        import pyomo.environ as pyo

        name, executable = self._solver_name, self.options.get("executable")
        if executable is None and name == "cbc":
            executable = cbc_executable()
        program = shutil.which(str(executable or _PROGRAMS.get(name, "")))
        if program is not None:
            self._program = SupervisedProgram(program, keep_output=False)  # Pyomo reads what it prints
            executable = self._program.path
        try:
            with _quiet_pyomo():
                solver = pyo.SolverFactory(name, **({"executable": executable} if executable else {}))
                usable = solver.available(exception_flag=False)
        except Exception as error:  # a program that does not report its version
            raise SolverNotAvailable(
                f"Pyomo cannot run {program or name!r}: {type(error).__name__}: {error}"
            ) from error
        if not usable:
            raise SolverNotAvailable(
                f"Pyomo cannot run the solver {name!r}: check its name in `pyomo help --solvers`, that it is "
                "installed, and option 'executable' if it is not on the path."
            )
        names = _COMMON_NAMES.get(name, {})
        for key in ("mip_gap", "threads"):
            value = self.options.get(key, 0.0 if key == "mip_gap" else None)
            if key in names and value is not None:
                solver.options[names[key]] = value
        if name in ("appsi_highs", "highs") and self.space.is_mixed:
            solver.options["presolve"] = "off"  # it is wrong about mixed programs (see `structopt.backends.highs`)
        for key, value in self._native.items():
            solver.options[key] = value
        return solver

    def _rows_changed(self) -> None:
        import pyomo.environ as pyo

        from structopt.interop.pyomo import add_rows

        if self._model.component("extra") is not None:
            self._model.del_component("extra")
        self._extra_contradiction = False
        if not self._extra:
            return
        none = replace(
            self.space, matrix=self.space.matrix[:0], row_lower=np.zeros(0), row_upper=np.zeros(0), row_names=[]
        )
        extra, self._extra_contradiction = drop_idle_rows(
            with_scaled_rows(without_fixed_columns(with_rows(none, self._extra)))
        )
        if extra.n_rows:
            # A name with an index, so that one component holds all extra rows and goes with them.
            extra = replace(extra, row_names=[f"extra[{i}]" for i in range(extra.n_rows)])
            add_rows(self._model, extra, self._variables, pyo.Suffix())

    def _solve(self, costs: FloatArray, start: FloatArray | None) -> Solution:
        from pyomo.core.expr.numeric_expr import LinearExpression

        if self._contradiction or self._extra_contradiction:
            return Solution(Status.INFEASIBLE, None, message="a row without coefficients cannot hold")
        self._model.score.set_value(
            LinearExpression(constant=0, linear_coefs=costs.tolist(), linear_vars=self._variables)
        )
        for variable in self._variables:
            variable.set_value(None, skip_validation=True)
        arguments: dict[str, Any] = {"load_solutions": False}
        if not math.isinf(self._limit):
            # glpsol reads whole seconds
            arguments["timelimit"] = math.ceil(self._limit) if self._solver_name == "glpk" else self._limit
        watched = self._program.watched(self._limit) if self._program is not None else nullcontext()
        try:
            with _one_at_a_time, _quiet_pyomo(), watched:
                results = self._solver.solve(self._model, **arguments)
                return self._read(results)
        except Exception as error:  # Pyomo's readers raise whatever a strange file makes them raise
            return Solution(Status.FAILED, None, message=self._account(error))

    def _account(self, error: Exception) -> str:
        parts = [self._program.account()] if self._program is not None else []
        parts.append(f"last output: {' '.join(str(getattr(self._solver, '_log', '') or '').split())[-300:]}")
        name = self._program.program if self._program is not None else self._solver_name
        return f"{name}: {type(error).__name__}: {error}; {', '.join(part for part in parts if part)}"

    def _read(self, results: Any) -> Solution:
        words = str(results.solver.termination_condition)
        if words == "infeasible":
            return Solution(Status.INFEASIBLE, None, message=words)
        if words == "unbounded":
            return Solution(Status.UNBOUNDED, None, message=words)
        if words in _UNSURE or not len(results.solution):
            timed = words == "maxTimeLimit"
            return Solution(Status.TIME_LIMIT if timed else Status.FAILED, None, message=words)
        z = self._load(results)
        if words == "optimal":
            return Solution(Status.OPTIMAL, z, -math.inf, message=words)
        # glpsol reports its incumbent at the time limit as "feasible".
        timed = words == "maxTimeLimit" or (words == "feasible" and not math.isinf(self._limit))
        return Solution(Status.TIME_LIMIT if timed else Status.FAILED, z, message=words)

    def _load(self, results: Any) -> FloatArray:
        from pyomo.opt import SolverStatus

        if hasattr(self._solver, "load_vars"):  # the appsi interfaces keep the solution in the solver
            self._solver.load_vars()
        else:
            results.solver.status = SolverStatus.ok  # an incumbent is welcome, whatever ended the run
            self._model.solutions.load_from(results)
        values = [variable.value for variable in self._variables]
        z = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        # A variable without coefficient and rows is not in the solver's file: any value is optimal.
        return np.where(np.isnan(z), np.clip(0.0, self.space.lower, self.space.upper), z)


class _quiet_pyomo:
    """Hold back the log lines in which Pyomo repeats what the status says."""

    def __enter__(self) -> None:
        self._logger = logging.getLogger("pyomo")
        self._before = self._logger.level
        self._logger.setLevel(logging.CRITICAL)

    def __exit__(self, *exc_info: object) -> None:
        self._logger.setLevel(self._before)
