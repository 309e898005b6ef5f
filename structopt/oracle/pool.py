"""A pool of solver instances: one persistent model per thread, with warm starts and statistics."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple, NoReturn

import numpy as np

from structopt._jit.products import dot
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.question import Question, per_question
from structopt.backends.base import Backend, SideConstraints, Solution, Status
from structopt.backends.instance import SolverInstance
from structopt.backends.lazy import LazyInstance, RowPool
from structopt.errors import InfeasibleSpace, SolverFailed, StructoptError, TimeLimitReached, UnboundedObjective
from structopt.oracle.diagnosis import explain_infeasible, explain_unbounded
from structopt.oracle.label import Statistics
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.stopping import map_in_threads

__all__ = ["PooledSolver", "SolverPool"]

# Members of an enum are looked up through its metaclass: not in the path of every call.
_OPTIMAL, _TIME_LIMIT = Status.OPTIMAL, Status.TIME_LIMIT

#: Bytes of simplex bases that are kept; HiGHS takes about one per row and column.
_BASIS_LIMIT = 256_000_000

# A batch is cut into pieces that each start cold, so that an answer depends on its piece alone and not on
# which thread solved what before: n_jobs changes the time, never the labels.
_PIECE = 64


#: Packages that raise exceptions of their own.
_LIBRARIES = {"gurobipy", "highspy", "pulp", "pyomo", "pyscipopt", "scipy"}


class PooledSolver(NamedTuple):
    """A solver instance with the figures of its own work, used by one thread at a time, so that neither needs a lock.

    `lp` is the instance's backend where it has no other, so that a plain call can go there straight.
    """

    instance: SolverInstance
    lp: Backend | None
    statistics: Statistics


class SolverPool(Algorithm):
    """A backend as an algorithm: solver instances of one space; a new one is made only when all others are busy.

    An instance that was interrupted (Ctrl-C, an exception from elsewhere) is not used again: it is unknown in what
    state its models are.
    """

    answers = Question.ARGMAX | Question.SIDE_ROWS
    steps = per_question(
        argmax="LP, then MIP if its point is fractional",
        k_best="k MIPs",
        outside="MIP with a row per forbidden label",
        side_rows="LP, then MIP",
    )

    def __init__(
        self, space: CompiledSpace, integral: str, make: Callable[[CompiledSpace], Backend], name: str = "solver"
    ) -> None:
        self.name = name
        self._space = space
        self._mode = integral
        self._has_lp_only = integral == "relax" or not space.is_integral
        self.integral = not self._has_lp_only
        self._make = make
        #: The rows that separations have found, if the space has any.
        self.lazy_rows = RowPool(space) if space.separations else None
        self._lock = threading.Lock()
        self._records: list[Statistics] = []
        self._idle: list[PooledSolver] = []
        self._bases: OrderedDict[Hashable, tuple[Any, Any]] = OrderedDict()

    # ---- the protocol ----------------------------------------------------------------------------

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        if key is not None:
            return self.solve(c, key=key)
        return self._optimum(c, self._run_plain(c, dot(c, c)))

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        n = len(C)
        size = max(1, min(_PIECE, -(-n // 8)))
        pieces = [range(k, min(k + size, n)) for k in range(0, n, size)]
        Z, values, bounds, optimal = np.empty(C.shape), np.empty(n), np.empty(n), np.empty(n, dtype=np.bool_)

        def solve_piece(piece: range) -> None:
            with self.borrowed() as solver:
                solver.instance.forget()
                for i in piece:
                    found = self._run(solver, C[i], key=None if keys is None else keys[i])
                    Z[i], values[i], bounds[i], optimal[i] = self._optimum(C[i], found)

        if n_jobs == 1:
            for piece in pieces:
                solve_piece(piece)
        else:
            for _ in map_in_threads(solve_piece, pieces, n_jobs):
                pass
        return Solutions(Z, values, bounds, optimal=None if optimal.all() else optimal)

    def maximize_constrained(self, c: FloatArray, side_constraints: SideConstraints) -> Optimum:
        return self.solve(c, side_constraints)

    # ---- what only solvers take ------------------------------------------------------------------

    def solve(
        self,
        c: FloatArray,
        side_constraints: SideConstraints | None = None,
        *,
        key: Hashable | None = None,
        start: FloatArray | None = None,
    ) -> Optimum:
        """One program, from the basis kept under `key`, or from a feasible label for the MIP to start from."""
        with self.borrowed() as solver:
            solution = self._run(solver, c, side_constraints, key, start)
        return self._optimum(c, solution, side_constraints is not None)

    def best_point(self, c: FloatArray, square: float) -> tuple[FloatArray, float]:
        """The best point as the solver has it and a bound on its value, for contiguous `c` with its squared norm."""
        solution = self._run_plain(c, square)
        if solution.status is _OPTIMAL and solution.z is not None:
            return solution.z, solution.bound
        found = self._optimum(c, solution)
        return found.z, found.bound

    def prepare(self) -> None:
        """Make the first model, so that a solver that is missing is missed here."""
        with self.borrowed() as solver:
            solver.instance.prepare()

    # ---- the work --------------------------------------------------------------------------------

    def _run(
        self,
        solver: PooledSolver,
        c: FloatArray,
        side_constraints: SideConstraints | None = None,
        key: Hashable | None = None,
        start: FloatArray | None = None,
    ) -> Solution:
        begun = perf_counter()
        basis = self._bases.get(key) if key is not None else None
        solution, lp_runs, mip_runs = solver.instance.solve(c, side_constraints, basis, start)
        if key is not None:
            self._remember(key, solver.instance.basis())
        solver.statistics.add(lp_runs, mip_runs, perf_counter() - begun, solution.iterations)
        return solution

    def _run_plain(self, c: FloatArray, square: float) -> Solution:
        """A program without side constraints, basis or start, in few steps.

        Coefficients that are not finite, or whose square is not, are checked one by one first.
        """
        with self.borrowed() as solver:
            if solver.lp is None or not square < math.inf:
                return self._run(solver, c)
            begun = perf_counter()
            solution = solver.instance.verified(c, solver.lp.maximize(c, square))
            solver.statistics.add(1, 0, perf_counter() - begun, solution.iterations)
            return solution

    @contextmanager
    def borrowed(self) -> Iterator[PooledSolver]:
        """A solver instance for exclusive use in a ``with`` block."""
        solver = self._take()
        try:
            yield solver
        except StructoptError:
            self._idle.append(solver)  # raised between two runs: its models are whole
            raise
        except Exception as error:
            if not _is_of_library(error):
                raise
            raise self._raised(error) from error
        self._idle.append(solver)

    def _raised(self, error: Exception) -> SolverFailed:
        """Return the error for an exception of a solver's library; the instance is not used again."""
        return SolverFailed(
            f"The solver {self.name!r} raised {type(error).__name__}: {error}. "
            "Try another solver, or write the space with space.write('model.mps') and report it.",
            status=f"{type(error).__name__}: {error}",
        )

    def _take(self) -> PooledSolver:
        try:
            return self._idle.pop()  # atomic, as is append
        except IndexError:
            statistics, lp = Statistics(), None
            if self.lazy_rows is not None:
                instance: SolverInstance = LazyInstance(self._space, self._mode, self._make, self.lazy_rows)
            else:
                instance = SolverInstance(self._space, self._mode, self._make)
                lp = instance.prepare() if self._has_lp_only else None
            self._records.append(statistics)
            return PooledSolver(instance, lp, statistics)

    def _remember(self, key: Hashable, basis: tuple[Any, Any]) -> None:
        with self._lock:
            self._bases[key] = basis
            self._bases.move_to_end(key)
            if len(self._bases) * (self._space.n_rows + self._space.n_variables) > _BASIS_LIMIT:
                self._bases.popitem(last=False)

    def _optimum(self, c: FloatArray, solution: Solution, constrained: bool = False) -> Optimum:
        """Return the solution of a solver, or raise the error of a solver without one."""
        z = solution.z
        if z is None or solution.status not in (_OPTIMAL, _TIME_LIMIT):
            self._refuse(c, solution, constrained)
        value = dot(c, z)
        # "Optimal" may leave the gap that the caller allows: the solver's bound is what is proved, not the value.
        bound = solution.bound if solution.bound < math.inf else self._box_bound(c)
        if not bound - value > 1e-9 * abs(value) or bound - value <= 1e-13 * float(np.abs(c).dot(np.abs(z))):
            bound = value  # they agree, up to rounding
        return Optimum(z, value, bound, solution.status is _OPTIMAL)

    def _box_bound(self, c: FloatArray) -> float:
        """Return the bound that follows from the variables' bounds, for a solver that had no time to prove one."""
        ends = np.where(c > 0, self._space.upper, self._space.lower)
        used = c != 0
        return float(c[used] @ ends[used])

    def _refuse(self, c: FloatArray, solution: Solution, constrained: bool) -> NoReturn:
        if solution.status is Status.INFEASIBLE:
            if constrained:
                raise InfeasibleSpace("No label of the space satisfies the side constraints and no-goods of this call.")
            raise explain_infeasible(self.program)
        if solution.status is Status.UNBOUNDED:
            unbounded = explain_unbounded(self.program, c)
            if self.lazy_rows is None:
                raise unbounded
            names = ", ".join(repr(separation.name) for separation in self._space.separations)
            raise UnboundedObjective(
                f"{unbounded} The lazy rows {names} are asked at points, never in a direction: where only they bound a "
                "variable, give it bounds that are large enough, or list a row that does.",
                unbounded.variables,
            )
        if solution.status is Status.TIME_LIMIT and self.lazy_rows is not None:
            bound = min(solution.bound, self._box_bound(c))
            proved = (
                f" No label is worth more than {bound:g}, the exception's attribute bound." if bound < math.inf else ""
            )
            raise TimeLimitReached(
                f"No label was found: the call was stopped by {solution.message or 'the time limit'}.{proved} Raise "
                "max_rounds= of space.lazy or time_limit=, or look at what the separation returns.",
                status=solution.message,
                bound=bound,
            )
        if solution.status is Status.TIME_LIMIT:
            raise TimeLimitReached(
                "The time limit passed before the solver found any label; raise time_limit=.",
                status=solution.message,
            )
        raise SolverFailed(
            f"The solver {self.name!r} stopped without an answer: {solution.message}. "
            "Try solver='highs-exact', or write the space with space.write('model.mps') and report it.",
            status=solution.message,
        )

    @property
    def program(self) -> CompiledSpace:
        """The space with the lazy rows found so far."""
        return self._space if self.lazy_rows is None else self.lazy_rows.program

    @property
    def statistics(self) -> Statistics:
        """Calls, solver runs and time of all instances so far."""
        total = Statistics()
        for record in list(self._records):
            total.include(record)
        return total


def _is_of_library(error: Exception) -> bool:
    """Return whether a solver's library raised an error; a signal handler of the user may raise any other one."""
    return type(error) in (Exception, RuntimeError) or type(error).__module__.partition(".")[0] in _LIBRARIES
