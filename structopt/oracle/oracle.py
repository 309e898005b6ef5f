"""`Oracle`: ``argmax c . z`` over a label space, whoever solves it."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from time import perf_counter
from typing import Any, Literal, NoReturn, TypeGuard

import numpy as np
import numpy.typing as npt

from structopt._jit.products import dot
from structopt.algorithms.base import Algorithm, Answers, Enumeration, fast_algorithm
from structopt.backends import make_backend
from structopt.backends.base import Backend, Solution, Status
from structopt.backends.profiles import Profile, check_limits
from structopt.backends.snapping import value_of
from structopt.backends.worker import ExtraRows
from structopt.checks import checked, converted, floats, hashable, instance, listed, number, sequence, shown, whole
from structopt.errors import DeclarationError, InfeasibleSpace, SolverFailed, SpaceMismatch, TimeLimitReached
from structopt.oracle.diagnosis import explain_infeasible, explain_unbounded
from structopt.oracle.label import Label, Statistics
from structopt.oracle.pool import WorkerPool
from structopt.oracle.side_constraints import Row, extra_rows
from structopt.space import LabelSpace
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.enumeration import enumerate_labels
from structopt.stopping import map_in_threads

__all__ = ["Oracle", "shared_oracle"]

# Members of an enum are looked up through its metaclass: not in the path of every call.
_OPTIMAL, _TIME_LIMIT = Status.OPTIMAL, Status.TIME_LIMIT

# A batch is cut into pieces that each start cold, so that an answer depends on its piece alone and not on
# which thread solved what before: n_jobs changes the time, never the labels.
_PIECE = 64

# Labels are listed for products with all of them if they have no more entries than this.
_LISTED_ENTRIES = 1 << 16
_LISTED_INTEGERS = 60
#: Larger costs may add up to infinity.
_LARGE_COST = 1e150

# The default of the sequences of a call: one object, so that a plain call is known at once.
_NOTHING: tuple[Any, ...] = ()


class Oracle:
    """``argmax c . z`` over a space, with extra rows, bans, k-best and batches, on a persistent model.

    Parameters
    ----------
    space : LabelSpace or CompiledSpace
        What to optimise over. An oracle is made for the space as it stands: once more is declared in a `LabelSpace`,
        its older oracles refuse to answer.
    solver : str, path, Backend subclass
        ``"auto"`` uses a combinatorial algorithm where ``space.structure`` proves one exact, and HiGHS
        otherwise; or the name of a profile in ``solvers/`` (``"highs"``, ``"scipy"``, ``"cbc"``, ...), the path
        of a profile of your own, or a `Backend` class.
    integral : {"auto", "relax", "force"}
        For spaces with integer variables: ``"auto"`` solves the LP and calls the MIP only if its answer is
        fractional; ``"relax"`` returns the LP's answer; ``"force"`` always calls the MIP.
    algorithm : Algorithm, optional
        A combinatorial algorithm known to be exact for this space; the backend then only serves calls with extra
        rows or bans that it cannot take.
    **options
        Passed to the backend: ``time_limit``, ``mip_gap``, ``threads``, and the solver's own.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace("one of three, or none")
    >>> y = space.binary("y", 3)
    >>> space.subject_to(y.sum() <= 1)
    >>> oracle = so.Oracle(space, solver="highs")
    >>> oracle.maximize([1.0, 3.0, 2.0])
    Label(value=3, integral, optimal)
    >>> oracle.maximize([1.0, 3.0, 2.0], forbid=[[0, 1, 0]]).z
    array([0., 0., 1.])
    >>> [label.value for label in oracle.k_best([1.0, 3.0, 2.0], 3)]
    [3.0, 2.0, 1.0]
    """

    @checked
    def __init__(
        self,
        space: LabelSpace | CompiledSpace,
        solver: str | type[Backend] | Any = "auto",
        *,
        integral: Literal["auto", "relax", "force"] = "auto",
        algorithm: Algorithm | None = None,
        **options: Any,
    ) -> None:
        if integral not in ("auto", "relax", "force"):
            raise DeclarationError(f"integral must be 'auto', 'relax' or 'force', got {integral!r}.")
        if not isinstance(solver, str | os.PathLike | Profile | type):
            raise DeclarationError(
                f"solver must be 'auto', the name or path of a profile, or a Backend class; got {shown(solver)}."
            )
        check_limits(options)
        if algorithm is not None:
            instance("algorithm", algorithm, Algorithm)
        self.declared = space if isinstance(space, LabelSpace) else None
        self.space: CompiledSpace = space.compiled if isinstance(space, LabelSpace) else space
        self.solver = solver
        self.integral = integral
        self.options: Mapping[str, Any] = dict(options)
        self._given = algorithm
        self._start()
        # Fail here, where the mistake was made, and not at the first call inside a long fit.
        if self._fast is None:
            with self._pool.borrowed() as desk:
                desk.worker.prepare()

    def _start(self) -> None:
        self._shape = (self.space.n_variables,)
        self._integer = np.array(self.space.integrality)
        self._lock = threading.Lock()
        self._listed: tuple[FloatArray | None] | None = None
        self._fast_calls = Statistics()
        self._pool = WorkerPool(self.space, self.integral, self._make)
        self._fast = self._recognise() if self.solver == "auto" and self._given is None else self._given

    def _recognise(self) -> Algorithm | None:
        """The combinatorial algorithm that the space's structure proves exact, or None."""
        structure = self.declared.structure if self.declared is not None else None
        return fast_algorithm(self.space, structure, relaxed=self.integral == "relax")

    # ---- one program -----------------------------------------------------------------------------

    def maximize(
        self,
        c: npt.ArrayLike,
        rows: Sequence[Row] = _NOTHING,
        forbid: Sequence[npt.ArrayLike] = _NOTHING,
        *,
        key: Hashable | None = None,
        start: npt.ArrayLike | None = None,
    ) -> Label:
        """The label that maximises ``c . z``.

        Parameters
        ----------
        c : array_like, shape (n_variables,)
            Finite costs.
        rows : sequence of (a, lower, upper)
            Extra rows ``lower <= a . z <= upper`` for this call only.
        forbid : sequence of array_like
            Labels that may not be returned. A label is known by its integer variables, so banning one bans
            every point with the same integer part.
        key : hashable, optional
            Remember the simplex basis under this name and start from it the next time. Worth about 3 x when
            one example's costs drift slowly, as they do in training.
        start : array_like, optional
            A feasible label for the MIP to start from.

        Returns
        -------
        Label

        Raises
        ------
        InfeasibleSpace, UnboundedObjective, TimeLimitReached, SolverFailed
        """
        self._check_current()
        costs = c if self._is_clean(c) else self._costs(c)
        if rows is not _NOTHING or forbid is not _NOTHING:
            rows, forbid = sequence("rows", rows), sequence("forbid", forbid)
        extra = self._extra_rows(rows, forbid) if len(rows) or len(forbid) else None
        if key is not None:
            hashable("key", key)
        if self._fast is not None:
            begun = perf_counter()
            label = self._combinatorial(self._fast, costs, extra, rows, forbid, key)
            if label is not None:
                self._count_fast(1, perf_counter() - begun)
                return label
        if extra is None and key is None and start is None:
            return self._label(costs, self._pool.maximize(costs, dot(costs, costs)))
        first = None if start is None else floats("start", start, self._shape)
        return self._label(costs, self._pool.solve(costs, extra, key, first), extra is not None)

    @staticmethod
    def _combinatorial(
        fast: Algorithm,
        costs: FloatArray,
        extra: ExtraRows | None,
        rows: Sequence[Row],
        forbid: Sequence[npt.ArrayLike],
        key: Hashable | None,
    ) -> Label | None:
        """The answer of the combinatorial algorithm, or None if it cannot settle this call."""
        if extra is None:
            return fast.maximize(costs, key)
        if not len(rows):
            outside = fast.maximize_outside(costs, np.asarray(forbid, dtype=np.float64))
            if outside is not None:
                return outside
        return fast.maximize_constrained(costs, extra)

    def maximize_batch(
        self, C: npt.ArrayLike, n_jobs: int = 1, *, keys: Sequence[Hashable] | None = None
    ) -> list[Label]:
        """The best label for each row of `C`, in order; the answers do not depend on `n_jobs`.

        Parameters
        ----------
        C : array_like, shape (n, n_variables)
        n_jobs : int
            Threads, each with a persistent model of its own; -1 means one per core.
        keys : sequence of hashable, optional
            One name per row under which its basis is kept from call to call (see `maximize`).
        """
        whole("n_jobs", n_jobs)
        keys = listed(keys)
        costs = self._cost_rows(C, keys)
        if self._fast is None:
            return self._in_pieces(costs, _jobs(n_jobs), keys)
        begun = perf_counter()
        labels = self._fast.maximize_batch(costs, _jobs(n_jobs), keys)
        self._count_fast(len(costs), perf_counter() - begun)
        return [label or self._label(c, self._pool.solve(c)) for c, label in zip(costs, labels, strict=True)]

    def solve_batch(self, C: npt.ArrayLike, n_jobs: int = 1, *, keys: Sequence[Hashable] | None = None) -> Answers:
        """`maximize_batch` as arrays: labels, values and proved bounds, without an object for each row.

        Parameters
        ----------
        C, n_jobs, keys
            As in `maximize_batch`.

        Returns
        -------
        Answers
            ``Z`` of shape (n, n_variables), ``values`` and ``bounds`` of shape (n,).

        Examples
        --------
        >>> import structopt as so
        >>> space = so.LabelSpace.from_matrices([[1, 1, 1]], 0, 1)
        >>> found = so.Oracle(space).solve_batch([[1.0, 3.0, 2.0], [-1.0, -1.0, -1.0]])
        >>> found.Z, found.values
        (array([[0., 1., 0.],
               [0., 0., 0.]]), array([3., 0.]))
        """
        costs = self._cost_rows(C, keys)
        if self._fast is None or type(self).maximize_batch is not Oracle.maximize_batch:
            labels = self.maximize_batch(costs, n_jobs, keys=keys)
            Z = np.array([label.z for label in labels]).reshape(costs.shape)
            return Answers(Z, np.array([label.value for label in labels]), np.array([label.bound for label in labels]))
        begun = perf_counter()
        found = self._fast.solve_batch(costs, _jobs(n_jobs), keys)
        self._count_fast(len(costs), perf_counter() - begun)
        if found.settled is not None:
            for i in np.flatnonzero(~found.settled):
                label = self._label(costs[i], self._pool.solve(costs[i]))
                found.Z[i], found.values[i], found.bounds[i] = label.z, label.value, label.bound
        return Answers(found.Z, found.values, found.bounds)

    def _cost_rows(self, C: npt.ArrayLike, keys: Sequence[Hashable] | None) -> FloatArray:
        self._check_current()
        costs = np.ascontiguousarray(converted("C", C))
        if costs.ndim != 2:
            raise SpaceMismatch(f"C must have shape (n, {self.space.n_variables}), got {costs.shape}.")
        self._check_costs(costs)
        if keys is not None:
            for key in sequence("keys", keys):
                hashable("A key", key)
            if len(keys) != len(costs):
                raise DeclarationError(f"{len(keys)} keys for {len(costs)} rows of C.")
        return costs

    def _in_pieces(self, costs: FloatArray, jobs: int, keys: Sequence[Hashable] | None) -> list[Label]:
        size = max(1, min(_PIECE, -(-len(costs) // 8)))
        pieces = [range(k, min(k + size, len(costs))) for k in range(0, len(costs), size)]

        def solve_piece(piece: range) -> list[Label]:
            with self._pool.borrowed() as desk:
                desk.worker.forget()
                found = [self._pool.solve(costs[i], key=None if keys is None else keys[i], desk=desk) for i in piece]
            return [self._label(costs[i], solution) for i, solution in zip(piece, found, strict=True)]

        if jobs == 1:
            return [label for piece in pieces for label in solve_piece(piece)]
        return [label for labels in map_in_threads(solve_piece, pieces, jobs) for label in labels]

    def k_best(self, c: npt.ArrayLike, k: int, rows: Sequence[Row] = ()) -> list[Label]:
        """The `k` best labels in decreasing value; fewer if the space has fewer."""
        k = whole("k", k, low=0)
        rows = sequence("rows", rows)
        costs = self._costs(c)
        known = self.list_best(costs, k) if not rows else None
        if known is not None:
            return known
        found: list[Label] = []
        while len(found) < k:
            try:
                found.append(self.maximize(costs, rows, [label.z for label in found]))
            except InfeasibleSpace:
                if not found and not rows:
                    raise
                break
        return found

    def list_best(self, c: npt.ArrayLike, k: int) -> list[Label] | None:
        """`k_best` where the combinatorial algorithm lists labels in order; None where it would take a solver."""
        self._check_current()
        if self._fast is None:
            return None
        begun = perf_counter()
        known = self._fast.k_best(self._costs(c), whole("k", k, low=0))
        if known is not None:
            self._count_fast(1, perf_counter() - begun)
        return known

    @property
    def listed(self) -> FloatArray | None:
        """Every label of a space so small that products with all of them cost less than a search; None for others.

        Examples
        --------
        >>> import structopt as so
        >>> so.Oracle(so.LabelSpace.from_matrices([[1, 1]], 1, 1)).listed
        array([[0., 1.],
               [1., 0.]])
        """
        self._check_current()
        if self._listed is None:
            self._listed = (self._list_labels(),)
        return self._listed[0]

    def _list_labels(self) -> FloatArray | None:
        # A solver that was chosen is to be asked, and a subclass may answer otherwise.
        if self.solver != "auto" or self.integral == "relax" or type(self).maximize is not Oracle.maximize:
            return None
        if isinstance(self._fast, Enumeration):
            return self._fast.labels
        space = self.space
        if self._fast is None or not space.is_integral or int(space.integrality.sum()) > _LISTED_INTEGERS:
            return None
        try:
            return enumerate_labels(space, limit=max(1, _LISTED_ENTRIES // space.n_variables))
        except DeclarationError:  # too many, or continuous variables that do not follow from the integer ones
            return None

    def front(self, h: tuple[npt.ArrayLike, float], g: tuple[npt.ArrayLike, float]) -> FloatArray | None:
        """Labels that hold the maximum of every ``psi(h, g)`` increasing in both, or None if too many to list.

        Offered where the structure allows it without a search (enumeration of few labels, loss-indexed
        dynamic programs); `structopt.search.exact` then needs no λ at all.
        """
        self._check_current()
        (h_coef, h_const), (g_coef, g_const) = self._affine("h", h), self._affine("g", g)
        return None if self._fast is None else self._fast.front(h_coef, h_const, g_coef, g_const)

    # ---- the work --------------------------------------------------------------------------------

    @property
    def plain_solver(self) -> Callable[[FloatArray, float], tuple[FloatArray, float]] | None:
        """For a caller who looks at the point himself; None where a combinatorial algorithm, or a subclass, answers.

        It takes costs (a contiguous float64 vector of the space) and their squared norm, and returns the best point
        as the solver has it, free for the caller to change, with a bound on its value.

        Examples
        --------
        >>> import numpy as np
        >>> import structopt as so
        >>> space = so.LabelSpace()
        >>> y = space.continuous("y", 2, 0, 1)
        >>> solve = so.Oracle(space, "highs").plain_solver
        >>> solve(np.array([3.0, -4.0]), 25.0)
        (array([1., 0.]), 3.0)
        """
        self._check_current()
        return self._optimum if self._fast is None and type(self).maximize is Oracle.maximize else None

    def _optimum(self, costs: FloatArray, square: float) -> tuple[FloatArray, float]:
        solution = self._pool.maximize(costs, square)
        if solution.status is _OPTIMAL and solution.z is not None:
            return solution.z, solution.bound
        label = self._label(costs, solution)
        return label.z, label.bound

    def _label(self, costs: FloatArray, solution: Solution, constrained: bool = False) -> Label:
        """The label that a solver found; the error it amounts to if there is none."""
        z = solution.z
        if z is None or solution.status not in (_OPTIMAL, _TIME_LIMIT):
            self._refuse(costs, solution, constrained)
        integral: bool | None = None  # in a space without integer variables the label finds out when asked
        if self.space.is_integral:
            integral, value = value_of(costs, z, self._integer)
        else:
            value = float(costs.dot(z))
        # "Optimal" may leave the gap that the caller allows: the solver's bound is the promise, not the value.
        bound = solution.bound if solution.bound < math.inf else self._box_bound(costs)
        if not bound - value > 1e-9 * abs(value) or bound - value <= 1e-13 * float(np.abs(costs).dot(np.abs(z))):
            bound = value  # they agree, up to rounding
        return Label(z, value, integral, "optimal" if solution.status is _OPTIMAL else "time limit", bound)

    def _box_bound(self, costs: FloatArray) -> float:
        """What the bounds of the variables alone allow: a bound where the solver had no time to prove any."""
        ends = np.where(costs > 0, self.space.upper, self.space.lower)
        used = costs != 0
        return float(costs[used] @ ends[used])

    def _refuse(self, costs: FloatArray, solution: Solution, constrained: bool) -> NoReturn:
        if solution.status is Status.INFEASIBLE:
            if constrained:
                raise InfeasibleSpace("No label of the space satisfies the extra rows and bans of this call.")
            raise explain_infeasible(self.space)
        if solution.status is Status.UNBOUNDED:
            raise explain_unbounded(self.space, costs)
        if solution.status is Status.TIME_LIMIT:
            raise TimeLimitReached(
                "The time limit passed before the solver found any label; raise time_limit=.",
                status=solution.message,
            )
        raise SolverFailed(
            f"The solver {self.solver!r} stopped without an answer: {solution.message}. "
            "Try solver='highs-exact', or write the space with space.write('model.mps') and report it.",
            status=solution.message,
        )

    # ---- inputs ----------------------------------------------------------------------------------

    def _check_current(self) -> None:
        """Refuse to answer for a space that has grown since this oracle was made."""
        if self.declared is not None and self.declared._compiled is not self.space:
            raise DeclarationError(
                f"{self.declared!r} has grown since this oracle was made ({self.space.n_variables} variables, "
                f"{self.space.n_rows} rows); make a new one with so.Oracle(space). For two versions side by side, "
                "extend space.copy()."
            )

    def _is_clean(self, c: Any) -> TypeGuard[FloatArray]:
        """Whether `c` can be taken as it is; a backend looks for NaN itself. (numpy is slow right after a run.)"""
        if type(c) is not np.ndarray or c.dtype != np.float64 or c.shape != self._shape or not c.flags.c_contiguous:
            return False
        # A finite square norm has finite terms; the few that overflow take the long way.
        return dot(c, c) < math.inf

    def _costs(self, c: npt.ArrayLike) -> FloatArray:
        costs = np.ascontiguousarray(converted("c", c))
        if costs.ndim != 1:
            raise SpaceMismatch(f"c must have shape ({self.space.n_variables},), got {costs.shape}.")
        self._check_costs(costs)
        return costs

    def _affine(self, name: str, function: Any) -> tuple[FloatArray, float]:
        if not isinstance(function, tuple | list) or len(function) != 2:
            raise DeclarationError(f"{name} must be a pair (coefficients, constant), got {shown(function)}.")
        return self._costs(function[0]), number(f"The constant of {name}", function[1], finite=True)

    def _check_costs(self, costs: FloatArray) -> None:
        if costs.shape[-1] != self.space.n_variables:
            raise SpaceMismatch(
                f"Costs have {costs.shape[-1]} entries; the space {self.space.name!r} has "
                f"{self.space.n_variables} variables."
            )
        # The sum is finite iff all entries are (up to overflow, which the second test forgives).
        with np.errstate(over="ignore", invalid="ignore"):
            total = costs.sum()
        if not np.isfinite(total) and not np.isfinite(costs).all():
            place = np.argwhere(~np.isfinite(costs))[0]
            row = f" in row {place[0]}" if costs.ndim == 2 else ""
            name = self.space.variable_names[int(place[-1])]
            raise DeclarationError(f"The cost of {name}{row} is {costs[tuple(place)]}; costs must be finite.")
        if costs.size and max(costs.max(), -costs.min()) > _LARGE_COST:
            self._refuse_overflow(costs)

    def _refuse_overflow(self, costs: FloatArray) -> None:
        """Costs so large that the value of a label is not a number."""
        reach = np.maximum(np.abs(self.space.lower), np.abs(self.space.upper))
        reach = np.where(np.isfinite(reach), np.maximum(reach, 1.0), 1.0)
        with np.errstate(over="ignore"):
            size = np.abs(costs) @ reach
        if not np.isfinite(size).all():
            raise DeclarationError(
                f"The costs are too large (up to {np.abs(costs).max():.3g}): their sum over a label overflows. Divide "
                "all of them by one number, which changes no answer."
            )

    def _extra_rows(self, rows: Sequence[Row], forbid: Sequence[npt.ArrayLike]) -> ExtraRows:
        if len(forbid) and self.integral == "relax":
            raise DeclarationError("A relaxed oracle cannot forbid labels; use integral='auto'.")
        return extra_rows(self.space, rows, forbid)

    # ---- what answers ----------------------------------------------------------------------------

    def _make(self, space: CompiledSpace) -> Backend:
        solver = "highs" if self.solver == "auto" else self.solver
        return make_backend(solver, space, **self.options)

    def _count_fast(self, calls: int, seconds: float) -> None:
        with self._lock:
            self._fast_calls.add(calls, 0, 0, seconds, 0)

    @property
    def statistics(self) -> Statistics:
        """What this oracle has done so far, in all threads."""
        total = self._pool.statistics
        total.include(self._fast_calls)
        return total

    def __getstate__(self) -> dict[str, Any]:
        # A live solver does not pickle: an oracle is its recipe.
        kept = ("declared", "space", "solver", "integral", "options", "_given")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    @property
    def algorithm(self) -> str:
        """What answers a plain call: the name of the combinatorial algorithm, or the solver's profile."""
        if self._fast is not None:
            return str(self._fast.name)
        return "highs" if self.solver == "auto" else str(getattr(self.solver, "name", self.solver))

    @property
    def prefers_free_calls(self) -> bool:
        """Whether plain calls have a combinatorial algorithm while calls with extra rows need the solver.

        Then several plain calls cost less than one with rows (docs/mathematics/oracles).
        """
        fast = self._fast
        return fast is not None and type(fast).maximize_constrained is Algorithm.maximize_constrained

    def __repr__(self) -> str:
        return f"<Oracle by {self.algorithm} on {self.space!r}>"

    def _repr_html_(self) -> str:
        from structopt.space.views import html_table

        facts = [["algorithm", self.algorithm], ["space", repr(self.space)], ["integral", self.integral]]
        return html_table(["Oracle", ""], facts + [[name, told] for name, told in self.statistics.rows()])


def _jobs(n_jobs: int) -> int:
    if n_jobs == 0 or n_jobs < -1:
        raise DeclarationError(f"n_jobs must be -1 or at least 1, got {n_jobs}.")
    if n_jobs > 0:
        return n_jobs
    return os.cpu_count() or 1


_shared: dict[tuple[Any, ...], Oracle] = {}
_shared_lock = threading.Lock()


@checked
def shared_oracle(space: LabelSpace | CompiledSpace, solver: Any = "auto", **options: Any) -> Oracle:
    """One oracle for all spaces of the same content: compiled once, kept for the life of the process.

    Nothing more can be declared in the space afterwards, except in a ``space.copy()``.

    Examples
    --------
    >>> import structopt as so
    >>> spaces = [so.LabelSpace.from_matrices([[1, 1]], 1, 1) for _ in range(2)]
    >>> so.shared_oracle(spaces[0]) is so.shared_oracle(spaces[1])
    True
    """
    instance("space", space, (LabelSpace, CompiledSpace))
    compiled = space
    if isinstance(space, LabelSpace):
        # It may serve other declarations of the same content, which must not hear of changes in this one.
        space.seal("a shared oracle")
        compiled = space.compiled
    key = (space.fingerprint, str(solver), tuple(sorted((k, str(v)) for k, v in options.items())))
    with _shared_lock:
        if key not in _shared:
            _shared[key] = Oracle(compiled, solver, **options)
        return _shared[key]
