"""Any solver that PuLP can drive, by PuLP's name for it."""

from __future__ import annotations

import inspect
import math
import shutil
import tempfile
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
from structopt.errors import DeclarationError, SolverNotAvailable
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["Pulp"]

#: PuLP's solvers that are programs, and the programs.
_PROGRAMS = {
    "PULP_CBC_CMD": "cbc",
    "COIN_CMD": "cbc",
    "GLPK_CMD": "glpsol",
    "SCIP_CMD": "scip",
    "FSCIP_CMD": "fscip",
    "HiGHS_CMD": "highs",
    "GUROBI_CMD": "gurobi_cl",
    "CPLEX_CMD": "cplex",
    "XPRESS_CMD": "optimizer",
    "MIPCL_CMD": "mps_mipcl",
    "COPT_CMD": "copt_cmd",
}
#: PuLP's solvers that are Python packages, and the packages.
_PACKAGES = {"HiGHS": "highspy", "SCIP_PY": "pyscipopt", "GUROBI": "gurobipy", "COPT": "coptpy", "MOSEK": "mosek"}
_COMMON_NAMES = {"time_limit": "timeLimit", "mip_gap": "gapRel", "threads": "threads"}
#: What glpsol calls the common options that PuLP does not pass on to it.
_GLPK_FLAGS = {"gapRel": "--mipgap"}
_DEFAULT_SOLVER = "PULP_CBC_CMD"


class Pulp(RecordingBackend):
    """A solver behind PuLP: by default the CBC program that ships with it.

    Parameters
    ----------
    space : CompiledSpace
    options : mapping, optional
        ``solver``: PuLP's name (``"PULP_CBC_CMD"``, ``"GLPK_CMD"``, ``"HiGHS"``, ``"SCIP_CMD"``, ...);
        ``executable``: the program, if it is not on the path; the common ``time_limit``, ``mip_gap``
        and ``threads``; all others are arguments of PuLP's solver class (``options=["..."]``, ...).

    Notes
    -----
    PuLP writes a file for every solve, so this backend is for agreement and for solvers that have
    no other interface. Files hold 12 digits.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from structopt.space.compiled import CompiledSpace
    >>> space = CompiledSpace(
    ...     sp.csr_array([[1.0, 1.0]]), np.array([-np.inf]), np.array([1.5]), np.zeros(2), np.ones(2),
    ...     np.array([True, True]), ["u", "v"], ["at most one and a half"])
    >>> backend = Pulp(space, {"solver": "HiGHS"})
    >>> backend.set_costs(np.array([1.0, 2.0]))
    >>> backend.run().z
    array([0., 1.])
    """

    name: ClassVar[str] = "pulp"
    capabilities: ClassVar[Capability] = (
        Capability.LP | Capability.MIP | Capability.ROWS | Capability.TIME_LIMIT | Capability.THREADS
    )

    #: CBC writes eight digits.
    _rounding: ClassVar[float] = 5e-8
    _is_audited: ClassVar[bool] = True
    _program: SupervisedProgram | None = None

    @classmethod
    def unavailable(cls, options: Mapping[str, Any]) -> str | None:
        """Why PuLP or the program of this solver is missing, or None."""
        solver = str(options.get("solver", _DEFAULT_SOLVER))
        return missing_solver("pulp", solver, _PACKAGES, _PROGRAMS, options.get("executable"))

    def _build(self) -> None:
        missing = self.unavailable(self.options)
        if missing is not None:
            raise SolverNotAvailable(f"solver {self._solver_name!r} of PuLP: {missing}.")
        self._solver = self._make_solver()
        rows, self._contradiction = drop_idle_rows(with_scaled_rows(without_fixed_columns(self.space)))
        self._problem, self._variables = _problem(rows)
        self._extra_contradiction = False
        self._extra_names: list[str] = []

    @property
    def _solver_name(self) -> str:
        return str(self.options.get("solver", _DEFAULT_SOLVER))

    def _make_solver(self) -> Any:
        import pulp

        name, wanted = self._solver_name, dict(self._native)
        if name == "PULP_CBC_CMD":
            # The same program under the name that PuLP 4 keeps.
            name, wanted["path"] = "COIN_CMD", cbc_executable()
        if "executable" in self.options:
            wanted["path"] = self.options["executable"]
        program = shutil.which(str(wanted.get("path") or _PROGRAMS.get(name, "")))
        if program is not None:
            self._program = SupervisedProgram(program, keep_output=True)
            wanted["path"] = self._program.path
        for key, value in self._common.items():
            if value is not None:
                wanted[_COMMON_NAMES[key]] = value
        if name == "GLPK_CMD":
            _translate_for_glpk(wanted)
        classes = {cls.name: cls for cls in pulp.apis._all_solvers}
        if name not in classes:
            raise DeclarationError(
                f"PuLP has no solver {name!r}; it has {', '.join(sorted(classes))}. PuLP's names are case-sensitive."
            )
        _refuse_unknown(name, classes[name], wanted)
        return classes[name](msg=False, **wanted)

    def _rows_changed(self) -> None:
        from structopt.interop.pulp import add_rows

        constraints = _constraints(self._problem)
        for name in self._extra_names:
            del constraints[name]
        # PuLP keeps every constraint ever added in a list that is not used.
        self._problem.modifiedConstraints.clear()
        before = set(constraints)
        self._extra_contradiction = False
        if self._extra:
            empty = replace(
                self.space,
                matrix=self.space.matrix[:0],
                row_lower=np.zeros(0),
                row_upper=np.zeros(0),
                row_names=[],
            )
            extra, self._extra_contradiction = drop_idle_rows(
                with_scaled_rows(without_fixed_columns(with_rows(empty, self._extra)))
            )
            extra = replace(extra, row_names=[f"extra{i}" for i in range(extra.n_rows)])
            add_rows(self._problem, extra, self._variables)
        self._extra_names = [name for name in constraints if name not in before]

    def _solve(self, costs: FloatArray, start: FloatArray | None) -> Solution:
        import pulp

        if self._contradiction or self._extra_contradiction:
            return Solution(Status.INFEASIBLE, None, message="a row without coefficients cannot hold")
        problem, solver = self._problem, self._solver
        # Every variable, with zeros too: PuLP reads back only what the objective or a row mentions.
        problem.setObjective(pulp.LpAffineExpression(zip(self._variables, costs.tolist(), strict=True)))
        # Values of an earlier run must not be read as this one's.
        for variable in self._variables:
            variable.varValue = None
        with tempfile.TemporaryDirectory() as folder:
            if hasattr(solver, "tmpDir"):
                solver.tmpDir = folder  # some interfaces of PuLP (GLPK_CMD) leave files behind
            if not math.isinf(self._limit) and hasattr(solver, "timeLimit"):
                whole = self._solver_name == "GLPK_CMD"  # glpsol reads whole seconds
                solver.timeLimit = math.ceil(self._limit) if whole else self._limit
            try:
                with self._program.watched(self._limit) if self._program is not None else nullcontext():
                    problem.solve(solver)
                return self._read(problem)
            except Exception as error:  # PuLP's readers raise whatever a strange file makes them raise
                return Solution(Status.FAILED, None, message=self._account(error))

    def _account(self, error: Exception) -> str:
        text = self._program.account() if self._program is not None else ""
        name = self._program.program if self._program is not None else self._solver_name
        return f"{name}: {type(error).__name__}: {error}{'; ' + text if text else ''}"

    def _read(self, problem: Any) -> Solution:
        import pulp

        words = f"{pulp.LpStatus[problem.status]} ({pulp.LpSolution[problem.sol_status]})"
        if problem.status == pulp.LpStatusInfeasible:
            return Solution(Status.INFEASIBLE, None, message=words)
        if problem.status == pulp.LpStatusUnbounded:
            return Solution(Status.UNBOUNDED, None, message=words)
        # A limit with an incumbent is "Optimal", with a solution that is only "Feasible".
        stopped = problem.sol_status == pulp.LpSolutionIntegerFeasible
        if problem.status != pulp.LpStatusOptimal:
            timed = problem.status == pulp.LpStatusNotSolved and not math.isinf(self._limit)
            return Solution(Status.TIME_LIMIT if timed else Status.FAILED, None, message=words)
        values = [variable.varValue for variable in self._variables]
        z = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        z = np.where(np.isnan(z), np.clip(0.0, self.space.lower, self.space.upper), z)
        if not stopped:
            return Solution(Status.OPTIMAL, z, -math.inf, message=words)
        return Solution(Status.FAILED if math.isinf(self._limit) else Status.TIME_LIMIT, z, message=words)


def _problem(space: CompiledSpace) -> tuple[Any, list[Any]]:
    """PuLP's model of a space under short names that every file format takes."""
    import pulp

    from structopt.interop.pulp import to_pulp

    problem = to_pulp(
        replace(
            space,
            variable_names=[f"x{j}" for j in range(space.n_variables)],
            row_names=[f"r{i}" for i in range(space.n_rows)],
            name="",
        )
    )
    problem.sense = pulp.LpMaximize
    return problem, list(problem.objective)


def _constraints(problem: Any) -> dict[str, Any]:
    # PuLP 3.3 wraps the dictionary in a view that warns at every touch.
    found: dict[str, Any] = getattr(problem, "_constraints", None) or problem.constraints
    return found


def _translate_for_glpk(wanted: dict[str, Any]) -> None:
    flags = list(wanted.get("options") or [])
    for key, flag in _GLPK_FLAGS.items():
        if key in wanted:
            flags += [flag, str(wanted.pop(key))]
    wanted.pop("threads", None)  # glpsol has one
    if "timeLimit" in wanted:
        wanted["timeLimit"] = math.ceil(wanted["timeLimit"])  # glpsol reads whole seconds
    if flags:
        wanted["options"] = flags


def _refuse_unknown(name: str, cls: Any, wanted: Mapping[str, Any]) -> None:
    parameters = inspect.signature(cls.__init__).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    unknown = sorted(set(wanted) - set(parameters))
    if unknown:
        known = sorted(set(parameters) - {"self", "msg", "mip", "keepFiles", "_skip_v4_deprecation"})
        raise DeclarationError(f"PuLP's {name} has no option {unknown[0]!r}; it takes {', '.join(known)}.")
