"""HiGHS in this process: one persistent model per backend, re-solved from its last basis.

Only objective coefficients and extra rows change between calls. HiGHS releases the GIL in ``run``, so instances in
different threads solve side by side.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import highspy
import numpy as np
import scipy.sparse as sp

from structopt.backends.arrays import (
    as_rows,
    constant_solution,
    costs_and_scale,
    recession_ray,
    row_factors,
    scaled_extra,
    snapped,
    with_rows,
    with_scaled_rows,
    without_fixed,
    without_fixed_columns,
)
from structopt.backends.base import Backend, Capability, Solution, Status
from structopt.errors import DeclarationError, SolverNotAvailable
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.stopping import Stop, current_stop

__all__ = ["Highs"]


def _refuse_wrong_versions() -> None:
    """Dependencies may be overridden; a HiGHS that is known to answer wrongly is not used."""
    running = str(highspy.Highs().version())
    numbers = tuple(int(part) for part in running.split(".")[:2])
    if numbers < (1, 12) or running == "1.14.0":
        raise SolverNotAvailable(
            f"highspy {running} answers wrongly: 1.14.0 calls a poor label of a mixed program optimal, versions "
            "before 1.12 ignore integrality with solver='ipm'. structopt works with 1.12, 1.13 and from 1.15.0 on; "
            "get one with: pip install 'highspy>=1.12,!=1.14.0'."
        )


_refuse_wrong_versions()

_FLOAT64 = np.dtype(np.float64)
_MODEL_STATUS = highspy.HighsModelStatus
_OPTIMAL = _MODEL_STATUS.kOptimal
_OPTIMAL_NUMBER = int(_OPTIMAL)  # members of pybind11's enums compare at half the speed of numbers
_FEASIBLE_POINT = int(highspy.SolutionStatus.kSolutionStatusFeasible)
#: Stopped by the time limit, or by another thread that no longer needs the answer.
_OUT_OF_TIME = (_MODEL_STATUS.kTimeLimit, _MODEL_STATUS.kInterrupt)
#: Stopped by a limit that the user set in the options: trying again would stop there again.
_STOPPED = (
    _MODEL_STATUS.kIterationLimit,
    _MODEL_STATUS.kSolutionLimit,
    _MODEL_STATUS.kObjectiveBound,
    _MODEL_STATUS.kObjectiveTarget,
)
#: Relative primal-dual gap above which "Optimal" is rejected (HiGHS issue 3194).
_OPTIMALITY_ERROR = 1e-7
#: Small objectives are scaled up to a norm of about 2 to this power: a simplex needs less than a MIP,
#: whose cut-off is coarser, and an unscaled objective saves a copy.
_LP_COST_EXPONENT = 0
_LP_LEAST_SQUARE = 0.25  # the squared norm from which on that exponent leaves the objective as it is
_MIP_COST_EXPONENT = 10
_LARGEST_SQUARE = 1e30  # coefficients of 1e20 and more are infinite to HiGHS
#: LPs of this many coefficients may run for seconds, so that they are watched as integer programs are.
_LARGE = 50_000
_INTERRUPTS = (
    highspy.cb.HighsCallbackType.kCallbackMipInterrupt,
    highspy.cb.HighsCallbackType.kCallbackSimplexInterrupt,
    highspy.cb.HighsCallbackType.kCallbackIpmInterrupt,
)

_DEFAULTS: dict[str, Any] = {
    "output_flag": False,
    # Runs are reproducible only on one thread with a fixed seed (HiGHS issues 1598, 1670).
    "threads": 1,
    "random_seed": 0,
    "simplex_strategy": 1,  # dual
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 1e-9,
}
#: Where this HiGHS has them. Its feasibility jump takes longer than all the rest of a small integer program
#: (`python benchmarks/run.py overhead jump`) and finds no label that the tree does not.
_DEFAULTS_IF_KNOWN: dict[str, Any] = {"mip_heuristic_run_feasibility_jump": False}
#: The presolve of integer programs without its aggregator (rule 12), which runs in circles with doubleton equations on
#: some tiny mixed programs, for ever and past every time limit (1.15.1).
_MIP_DEFAULTS: dict[str, Any] = {"presolve_rule_off": 1 << 12}
#: The presolve of mixed programs is wrong: of 40,000 random ones of 3 to 6 variables, fixed columns moved, 5 are called
#: infeasible or get a label that is not the best (1.15.1; SciPy's 1.17 likewise; fuzz job `mixed`). No one rule is to
#: blame: without 12 and 14, which spoil some, 4 are wrong. These tiny programs take 0.6 ms in place of 0.3 without
#: presolve, those of 20 to 200 variables that were measured no longer.
_MIXED_DEFAULTS: dict[str, Any] = {"presolve": "off"}
_COMMON_NAMES = {"mip_gap": "mip_rel_gap"}
#: Coefficients from which on rounding errors reach the tolerances of presolve.
_BAD_SCALE = 1e6


class _Watch:
    """Called by HiGHS during long runs, in the thread that runs it.

    That it is Python is half of its use: the interpreter runs the handlers of signals before it, so that Ctrl-C is
    raised here and leaves ``Highs.run`` as it would leave any function. The callback also checks the stop flags of
    other threads.
    """

    def __init__(self) -> None:
        self.stop: Stop | None = None

    def __call__(self, kind: Any, message: str, output: Any, answer: Any, data: Any) -> None:
        # HiGHS keeps the flag from one run to the next, so that it must be cleared, too.
        answer.user_interrupt = self.stop is not None and self.stop.seconds_left <= 0.0


class Highs(Backend):
    """The HiGHS linear and mixed-integer solver.

    Parameters
    ----------
    space : CompiledSpace
    options : mapping, optional
        HiGHS options by their own names, and the common ``time_limit``, ``mip_gap``, ``threads``. Programs with
        integer and continuous variables run with ``presolve="off"`` by default: HiGHS's presolve is not reliable there.
        ``{"simplex_strategy": 4}`` (primal) is faster when the objective changes little from call to call,
        the default (dual) when they are unrelated.

    Notes
    -----
    Small objectives are scaled up by a power of two before they are passed on: its MIP ignores improvements
    below the absolute 1e-6, which for coefficients of 1e-4 would be one per cent.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from structopt.space.compiled import CompiledSpace
    >>> space = CompiledSpace(
    ...     sp.csr_array([[1.0, 1.0]]), np.array([-np.inf]), np.array([1.5]), np.zeros(2), np.ones(2),
    ...     np.array([True, True]), ["u", "v"], ["at most one and a half"])
    >>> backend = Highs(space)
    >>> backend.set_costs(np.array([1.0, 2.0]))
    >>> backend.run().z
    array([0., 1.])
    """

    name: ClassVar[str] = "highs"
    capabilities: ClassVar[Capability] = (
        Capability.LP
        | Capability.MIP
        | Capability.ROWS
        | Capability.WARM
        | Capability.TIME_LIMIT
        | Capability.MIP_START
        | Capability.THREADS
    )

    def _build(self) -> None:
        space = self.space
        self._n = n = space.n_variables
        self._highs = highspy.Highs()
        wanted = {**_DEFAULTS_IF_KNOWN, **(_MIP_DEFAULTS if space.is_integral else {})}
        wanted |= _MIXED_DEFAULTS if space.is_mixed else {}
        known = {key: value for key, value in wanted.items() if self._knows(key)}
        for key, value in {**_DEFAULTS, **known, **self.options}.items():
            self._set_option(_COMMON_NAMES.get(key, key), value)
        self._columns = np.arange(n, dtype=np.int32)
        self._costs: FloatArray = np.zeros(n)
        self._scale = 1.0
        self._extra: list[tuple[sp.csr_array, FloatArray, FloatArray]] = []
        self._basis_before_rows: Any = None
        self._integral = space.is_integral
        self._spoiled = False
        self._is_badly_scaled = bool(np.abs(space.matrix.data).max(initial=0.0) >= _BAD_SCALE)
        self._watched = self._integral or space.matrix.nnz >= _LARGE
        if self._watched:
            self._watch = _Watch()
            self._time_limit = float(self._highs.getOptionValue("time_limit")[1])
            # Past highspy's own dispatcher, which makes an object for every call.
            highspy._core._Highs.setCallback(self._highs, self._watch, None)
            for kind in _INTERRUPTS:
                self._highs.startCallback(kind)
        self._cost_exponent = _MIP_COST_EXPONENT if self._integral else _LP_COST_EXPONENT
        # `maximize` skips all checks from this squared norm on: never where runs are watched, nor past a
        # subclass that has a `run` of its own.
        own = type(self).run is Highs.run and type(self).set_costs is Highs.set_costs
        self._least_square = _LP_LEAST_SQUARE if own and n and not self._watched else np.inf
        self._load()

    def _knows(self, key: str) -> bool:
        return bool(self._highs.getOptionType(key)[0] == highspy.HighsStatus.kOk)

    def _set_option(self, key: str, value: Any) -> None:
        # HiGHS types its options strictly: time_limit=5 is an error, time_limit=5.0 is not.
        status, current = self._highs.getOptionValue(key)
        if status == highspy.HighsStatus.kOk and isinstance(current, float):
            value = float(value)
        if status != highspy.HighsStatus.kOk or (self._highs.setOptionValue(key, value) != highspy.HighsStatus.kOk):
            raise DeclarationError(
                f"HiGHS does not accept the option {key}={value!r}: see the list of its options for the "
                "name and the type, and the common names time_limit, mip_gap, threads."
            )

    def _load(self) -> None:
        space = with_scaled_rows(without_fixed_columns(self.space))
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = space.n_variables, space.n_rows
        lp.col_cost_ = self._costs
        lp.col_lower_, lp.col_upper_ = space.lower, space.upper
        lp.row_lower_, lp.row_upper_ = space.row_lower, space.row_upper
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = space.matrix.indptr
        lp.a_matrix_.index_ = space.matrix.indices
        lp.a_matrix_.value_ = space.matrix.data
        lp.sense_ = highspy.ObjSense.kMaximize
        if self._highs.passModel(lp) == highspy.HighsStatus.kError:
            raise DeclarationError(f"HiGHS refuses {space!r}: a bound or a coefficient is NaN or too large.")
        if self._integral:
            integer = self._columns[space.integrality]
            kinds = np.full(len(integer), int(highspy.HighsVarType.kInteger), dtype=np.uint8)
            self._highs.changeColsIntegrality(len(integer), integer, kinds)

    def set_costs(self, c: FloatArray) -> None:
        """Set the objective ``max c . z``."""
        if self._spoiled:
            self._renew()
        costs, scale = costs_and_scale(c, self.space, self._cost_exponent)
        scaled = costs if scale == 1.0 else costs * scale
        self._highs.changeColsCost(self._n, self._columns, scaled)
        self._scale = scale
        if self._watched:
            self._costs[:] = costs  # a copy: the caller may reuse the array

    def _renew(self) -> None:
        """A new native model in place of one whose last run was left by an exception; objective and rows are kept."""
        costs, extra = self._costs, self._extra
        self._build()
        self.set_costs(costs)
        for rows in extra:
            self.add_rows(*rows)

    def add_rows(self, matrix: sp.csr_array, lower: FloatArray, upper: FloatArray) -> None:
        """Append rows; the basis is extended with their slacks and stays warm."""
        if self._spoiled:
            self._renew()
        rows, lower, upper = as_rows(matrix, lower, upper, self.space)
        if not self._extra:
            self._basis_before_rows = self._highs.getBasis()
        # Recorded before it is done: after an interrupt in between `remove_rows` still removes every row.
        self._extra.append((rows, lower, upper))
        if self._integral:
            space = self.space
            rows, lower, upper = without_fixed(rows, lower, upper, space.lower == space.upper, space.lower)
        rows, lower, upper = scaled_extra(rows, lower, upper)
        starts, indices = rows.indptr[:-1].astype(np.int32, copy=False), rows.indices.astype(np.int32, copy=False)
        status = self._highs.addRows(len(lower), lower, upper, rows.nnz, starts, indices, rows.data)
        if status == highspy.HighsStatus.kError:
            self._extra.pop()
            raise DeclarationError("HiGHS refuses an extra row: a coefficient is too large (1e15 and more are).")

    def remove_rows(self) -> None:
        """Remove the appended rows and go back to the basis from before them.

        HiGHS drops its basis when a deleted row was binding, hence the saved one.
        """
        if not self._extra:
            return
        if self._spoiled:  # the next call makes a new model, without them
            self._extra, self._basis_before_rows = [], None
            return
        first, last = self.space.n_rows, self._highs.getNumRow()
        if last > first:
            self._highs.deleteRows(last - first, np.arange(first, last, dtype=np.int32))
        if self._basis_before_rows is not None and self._basis_before_rows.valid and not self._highs.getBasis().valid:
            self._highs.setBasis(self._basis_before_rows)
        self._extra, self._basis_before_rows = [], None

    def run(self, start: FloatArray | None = None) -> Solution:
        """Solve, from `start` if the space is integral and from the last basis otherwise."""
        if not self._n:
            return constant_solution(self._current())
        if self._spoiled:
            self._renew()
        if start is not None and self._integral:
            self._highs.setSolution(len(start), self._columns, np.asarray(start, dtype=np.float64))
        highs = self._highs
        self._start()
        status = highs.getModelStatus()
        if int(status) != _OPTIMAL_NUMBER:
            return self._second_look(status)
        if self._integral:
            return self._read(Status.OPTIMAL, status)
        return self._read_optimum(status)

    def _start(self) -> None:
        """Run HiGHS; where that may take long, within the deadline of the surroundings and open to interrupts."""
        if not self._watched:
            self._highs.run()
            return
        stop = self._watch.stop = current_stop()
        left = math.inf if stop is None else stop.seconds_left
        # Until it is known how the run ended, this model must not be used.
        self._spoiled = True
        if left < self._time_limit:
            self._highs.setOptionValue("time_limit", left)
            self._highs.run()
            self._highs.setOptionValue("time_limit", self._time_limit)
        else:
            self._highs.run()
        self._spoiled = False

    def maximize(self, c: FloatArray, square: float) -> Solution:
        """`set_costs` and `run` in one: the path of every plain LP call, in as few steps as will do."""
        if not self._least_square <= square <= _LARGEST_SQUARE:
            return super().maximize(c, square)
        highs = self._highs
        highs.changeColsCost(self._n, self._columns, c)
        self._scale = 1.0
        highs.run()
        status = highs.getModelStatus()
        return self._read_optimum(status) if int(status) == _OPTIMAL_NUMBER else self._second_look(status)

    def _read_optimum(self, status: Any) -> Solution:
        """The optimum of an LP."""
        highs = self._highs
        # Older versions of HiGHS report 0 as the error of the objective.
        if highs.getInfoValue("primal_dual_objective_error")[1] > _OPTIMALITY_ERROR:
            return self._second_look(status)
        # fromiter is the fastest way out of the list that highspy returns.
        z = np.fromiter(highs.allVariableValues(), _FLOAT64, self._n)
        bound = highs.getObjectiveValue() / self._scale
        return Solution(Status.OPTIMAL, z, bound, highs.getInfoValue("simplex_iteration_count")[1], "Optimal")

    def _second_look(self, status: Any) -> Solution:
        solver, presolve = (self._highs.getOptionValue(name)[1] for name in ("solver", "presolve"))
        decided = self._decided(status)
        is_doubtful = decided is None or decided.status is Status.INFEASIBLE
        if self._integral or solver not in ("ipm", "ipx", "pdlp") or not is_doubtful:
            found = self._solved_again(status)
            if found.status is not Status.INFEASIBLE or self._integral or not self._is_badly_scaled:
                return found
        # Where the interior is empty such methods may miss the only point, or go on for ever without presolve; next to
        # coefficients of 1e9 the presolve takes rounding for a contradiction. The simplex method decides, without it.
        self._highs.setOptionValue("solver", "simplex")
        self._highs.setOptionValue("presolve", "off")
        try:
            return self._last_attempt()
        finally:
            self._highs.setOptionValue("solver", solver)
            self._highs.setOptionValue("presolve", presolve)

    def _solved_again(self, status: Any) -> Solution:
        decided = self._decided(status)
        if decided is not None:
            return decided
        # Presolve or the last basis may be the cause: solve once more without them.
        presolve = self._highs.getOptionValue("presolve")[1]
        self._highs.setOptionValue("presolve", "off")
        self._highs.clearSolver()
        # A thread pool of another size, made by another model in this thread, is an error to HiGHS.
        highspy.Highs.resetGlobalScheduler(True)
        self._start()
        self._highs.setOptionValue("presolve", presolve)
        status = self._highs.getModelStatus()
        if status == _OPTIMAL:
            return self._read(Status.OPTIMAL, status)
        if status == _MODEL_STATUS.kUnboundedOrInfeasible:
            return self._unbounded_or_infeasible()
        return self._decided(status) or self._last_attempt()

    def _last_attempt(self) -> Solution:
        """The primal simplex, with an objective of norm 1.

        Tolerances are absolute, and 1e-9 of 1e8 is below rounding. The dual simplex may end in "Unknown" where rows
        contradict each other by little more than the tolerance (a thin angle of a search); the first phase of the
        primal simplex decides that.
        """
        costs = self._present_costs()
        self._scale = math.ldexp(1.0, -math.frexp(float(np.abs(costs).max(initial=0.0)))[1])
        self._highs.changeColsCost(self._n, self._columns, costs * self._scale)
        self._highs.clearSolver()
        strategy = self._highs.getOptionValue("simplex_strategy")[1]
        if not self._integral:
            self._highs.setOptionValue("simplex_strategy", 4)
        self._start()
        status = self._highs.getModelStatus()
        self._highs.setOptionValue("simplex_strategy", strategy)
        if status == _OPTIMAL:
            return self._read(Status.OPTIMAL, status)
        return self._decided(status) or self._read(Status.FAILED, status)

    def _decided(self, status: Any) -> Solution | None:
        """The answer where a status other than optimal leaves no doubt; None where it does."""
        if status == _MODEL_STATUS.kInfeasible:
            return Solution(Status.INFEASIBLE, None, message=self._words(status))
        if status == _MODEL_STATUS.kUnbounded:
            return Solution(Status.UNBOUNDED, None, message=self._words(status))
        if status in _OUT_OF_TIME:
            return self._read(Status.TIME_LIMIT, status)
        if status in _STOPPED:
            return self._read(Status.FAILED, status)
        return None

    def _unbounded_or_infeasible(self) -> Solution:
        # Without an objective nothing is unbounded, so that only infeasibility remains to be decided.
        costs = self._present_costs()
        self._highs.changeColsCost(self._n, self._columns, np.zeros(self._n))
        self._start()
        feasible = self._highs.getModelStatus() == _OPTIMAL
        self._highs.changeColsCost(self._n, self._columns, costs * self._scale)
        status = Status.UNBOUNDED if feasible else Status.INFEASIBLE
        return Solution(status, None, message=f"{status.value}, found by solving without an objective")

    def _read(self, status: Status, model_status: Any) -> Solution:
        words = self._words(model_status)
        if status is not Status.OPTIMAL and self._info("primal_solution_status") != _FEASIBLE_POINT:
            return Solution(status, None, iterations=self._iterations(), message=words)
        z = snapped(np.fromiter(self._highs.allVariableValues(), _FLOAT64, self._n), self.space)
        bound = value = float(self._present_costs() @ z)
        if self._integral:
            bound = max(value, self._info("mip_dual_bound") / self._scale)
        elif status is not Status.OPTIMAL:
            bound = float("inf")
        return Solution(status, z, bound, self._iterations(), words)

    def _present_costs(self) -> FloatArray:
        if self._integral:
            return self._costs
        # An LP rarely needs them back: HiGHS keeps the only copy.
        return np.array(self._highs.getLp().col_cost_, dtype=np.float64) / self._scale

    def _info(self, key: str) -> Any:
        return self._highs.getInfoValue(key)[1]

    def _iterations(self) -> int:
        # Read one value: getInfo() copies the whole record, ten times slower.
        return int(self._info("mip_node_count" if self._integral else "simplex_iteration_count"))

    def _words(self, model_status: Any) -> str:
        return str(self._highs.modelStatusToString(model_status))

    def _current(self) -> CompiledSpace:
        return with_rows(self.space, self._extra)

    def ray(self) -> FloatArray | None:
        """A direction in which the current objective grows without limit, or None."""
        return recession_ray(self._current(), self._present_costs())

    def get_basis(self) -> Any:
        """The simplex basis: an opaque handle for `set_basis`, about a microsecond to take.

        Keep one per example to re-solve each from its own last optimum.
        """
        return self._highs.getBasis()

    def set_basis(self, basis: Any) -> None:
        """Start the next run from a basis that `get_basis` gave for the same rows; cold if None."""
        if basis is None:
            self._highs.clearSolver()
        elif basis.valid and self._highs.setBasis(basis) == highspy.HighsStatus.kError:
            raise DeclarationError(
                "This basis belongs to a model of another shape: take and restore it with the same extra rows."
            )

    def row_duals(self) -> FloatArray:
        """Multipliers of the rows (the space's, then the extra ones) at the last LP optimum.

        Non-negative where a row is held at its upper bound, non-positive at its lower one.
        """
        duals = np.array(self._highs.getSolution().row_dual, dtype=np.float64) / self._scale
        return duals * row_factors(self._current())
