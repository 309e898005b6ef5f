"""`Oracle`: ``argmax c . z`` over a label space, by an algorithm or a solver."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from functools import cached_property
from time import perf_counter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.box import BoxAlgorithm
from structopt.algorithms.cardinality import CardinalityAlgorithm
from structopt.algorithms.checked import checked_algorithm
from structopt.algorithms.counting import CountFronts
from structopt.algorithms.diagram import DIAGRAMS, DiagramAlgorithm, coupled_diagram
from structopt.algorithms.enumeration import Enumeration
from structopt.algorithms.fronts import FrontPlan, ListedFronts
from structopt.algorithms.question import Question
from structopt.algorithms.registry import fast_algorithm
from structopt.algorithms.stated import stated_algorithm
from structopt.backends import make_backend
from structopt.backends.arrays import with_rows
from structopt.backends.base import Backend, SideConstraints
from structopt.backends.lazy import RowPool
from structopt.backends.profiles import Profile, check_limits
from structopt.checks import checked, floats, hashable, listed, n_threads, seed, sequence, shown, whole
from structopt.errors import (
    DeclarationError,
    DiagramRefused,
    InfeasibleSpace,
    NoGoodNotExpressible,
    SeparationFailed,
    removed,
)
from structopt.oracle.costs import affine_costs, cost_matrix, cost_vector, is_clean
from structopt.oracle.diagnosis import explain_call
from structopt.oracle.label import Label, Statistics
from structopt.oracle.plan import Plan, plan_of
from structopt.oracle.pool import SolverPool
from structopt.oracle.side_constraints import Row, plain_rows, row_names, side_constraints_of
from structopt.recognize import Record
from structopt.space import LabelSpace
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.enumeration import enumerate_labels
from structopt.stopping import deadline

__all__ = ["Oracle", "check_solver"]

# Labels are listed for products with all of them if they have no more entries than this.
_LISTED_ENTRIES = 1 << 16
_LISTED_INTEGERS = 60
#: Row activities of partial assignments until a list is given up: a fraction of a second.
_LISTED_WORK = 1 << 23
#: Integer variables and entries of a matrix beyond which a space is not compiled unless that is asked for.
_MOST_INTEGERS, _MOST_ENTRIES = 5000, 200_000
#: Seconds of a solver's call: of a plain one before one was measured, and of one with no-goods or side constraints.
_PLAIN_CALL, _HARD_CALL = 1e-4, 5e-3
#: Seconds that the largest diagram takes to compile; its budget is counted in steps.
_COMPILE_SECONDS = 1.0
#: Seconds of an example in a batch by a list of labels below which nothing is faster (about 250 labels).
_SHORT_CALL = 5e-7
#: Calls of a space with lazy rows before its labels may be listed, and after which that is not tried again.
_FIRST_LISTING, _LAST_LISTING = 32, 8192

# The default of the sequences of a call: one object, so that a plain call is known at once.
_NOTHING: tuple[Any, ...] = ()


@removed(
    listed="use enumerate of the space",
    list_best="use k_best",
    plain_solver="use maximize",
    prefers_free_calls="read answers, which may contain Question.SIDE_ROWS",
    front_plan="use front for each example",
    solve_batch="use maximize_batch",
)
class Oracle:
    """``argmax c . z`` over a space, with side constraints, forbidden labels, k-best and batches.

    A space is solved by one `structopt.algorithms.base.Algorithm`: a combinatorial one where one is known to be exact,
    else a pool of solver instances with persistent models. The pool also answers what a combinatorial algorithm leaves.

    Parameters
    ----------
    space : LabelSpace or CompiledSpace
        Space to optimise over. An oracle is made for the space as it stands: once more is declared in a `LabelSpace`,
        its older oracles refuse to answer.
    solver : str, path, Backend subclass
        ``"auto"`` uses a combinatorial algorithm where ``space.structure`` proves one exact; other spaces of integer
        labels are compiled into a decision diagram at the second call, unless that gets too wide; HiGHS
        does the rest. ``"diagram"`` compiles at once, or raises `structopt.errors.DiagramRefused`. Or the name of a
        profile in ``solvers/`` (``"highs"``, ``"scipy"``, ``"cbc"``, ...), the path of a profile of your own, or a
        `Backend` class.
    integral : {"auto", "relax", "force"}
        For spaces with integer variables: ``"auto"`` solves the LP and calls the MIP only if its answer is
        fractional; ``"relax"`` returns the LP's answer; ``"force"`` always calls the MIP.
    algorithm : Algorithm, optional
        A combinatorial algorithm known to be exact for this space; the backend then only serves calls with side
        constraints or forbidden labels that it cannot take. Of an algorithm of your own every label, value and bound
        is checked (not whether a better label exists).
    record : Record, optional
        Record of the space (`structopt.records`) if recognition cannot prove it. The algorithm of the record then
        solves the space. Its arrays are checked, and a few labels. ``integral="relax"`` does not use it, because a
        record describes labels and not the relaxation.
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
        record: Record | None = None,
        **options: Any,
    ) -> None:
        check_solver(solver)
        if solver == "diagram" and integral == "relax":
            raise DeclarationError(
                "A diagram has integral labels only: leave out integral='relax', or solver='diagram'."
            )
        check_limits(options)
        if record is not None and algorithm is not None:
            raise DeclarationError("Give the algorithm or the record of a space, not both.")
        self.declared = space if isinstance(space, LabelSpace) else None
        self.space: CompiledSpace = space.compiled if isinstance(space, LabelSpace) else space
        self.solver = solver
        self.integral: str = integral
        self.options: Mapping[str, Any] = dict(options)
        self._given, self._record = algorithm, record
        self._start()
        # Fail here, where the mistake was made, and not at the first call inside a long fit.
        if self._algorithm is self._solvers:
            self._solvers.prepare()

    def _start(self) -> None:
        self._shape = (self.space.n_variables,)
        self._integer = np.array(self.space.integrality)
        self._lock = threading.Lock()
        self._sums: Algorithm | None = None
        self._fast_calls = Statistics()
        self._used: dict[Algorithm, Statistics] = {}
        solver = "highs" if self._chooses else str(getattr(self.solver, "name", self.solver))
        self._solvers = SolverPool(self.space, self.integral, self._make, solver)
        found: Algorithm | None = None
        begun = perf_counter()
        if self._given is not None:
            found = checked_algorithm(self._given, self.space, relaxed=self.integral == "relax")
        elif self._record is not None and self.integral != "relax":
            found = stated_algorithm(self._record, self.space)
        elif self._chooses:
            with deadline(self._time_limit):
                found = self._recognise()
        self._seconds_to_start = perf_counter() - begun
        self._use(self._solvers if found is None else found)
        space = self.space
        many = isinstance(found, Enumeration) and found.seconds_per_call(batch=True) > _SHORT_CALL
        self._list_at, self._asked = _FIRST_LISTING, 0
        self._may_compile = (
            (found is None or many)
            and self.solver == "auto"
            and self.integral != "relax"
            and 0 < int(space.integrality.sum()) <= _MOST_INTEGERS
            and space.matrix.nnz <= _MOST_ENTRIES
            # Compiling a diagram, or listing labels by a separation, belongs to one call with its time limit.
            and self._time_limit >= (np.inf if space.separations else _COMPILE_SECONDS)
        )

    @property
    def _time_limit(self) -> float:
        limit = self.options.get("time_limit")
        return np.inf if limit is None else float(limit)

    def _use(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        if algorithm is not self._solvers:
            self._fast_calls = self._used[algorithm] = Statistics()
        # Known for all labels, or else found for each label when it is read.
        self._labels_integral = True if algorithm.integral and self._solvers.integral else None

    def _recognise(self) -> Algorithm | None:
        """Return the combinatorial algorithm that the space's structure proves exact, or None."""
        if self.solver == "diagram":
            return DiagramAlgorithm(DIAGRAMS.get(self.space))
        structure = self.declared.structure if self.declared is not None else None
        return fast_algorithm(self.space, structure, relaxed=self.integral == "relax")

    @property
    def _chooses(self) -> bool:
        """Whether no backend was chosen; HiGHS then solves what the algorithm does not."""
        return isinstance(self.solver, str) and self.solver in ("auto", "diagram")

    def _consider_diagram(self, calls: int, *, hard: bool = False) -> None:
        """Before `calls` more calls (`hard`: with no-goods, side constraints or a front): compile?

        A diagram is used if it is expected to answer in half of the time of the solver, or in less than that of the
        products with all labels where they are listed.
        """
        if self.space.separations:
            self._consider_listing(calls)
            return
        listed = self._algorithm if isinstance(self._algorithm, Enumeration) else None
        if hard and listed is not None:
            return
        diagram = DIAGRAMS.used(self.space, calls)
        if diagram is None:
            self._may_compile = DIAGRAMS.refusal(self.space) is None
            if not self._may_compile and listed is None:
                self._use(coupled_diagram(self.space, self._solver_seconds(_HARD_CALL)) or self._solvers)
            return
        algorithm = DiagramAlgorithm(diagram)
        expected = _HARD_CALL if hard else self._solver_seconds(_PLAIN_CALL)
        limit = 0.5 * expected if listed is None else listed.seconds_per_call(batch=calls > 1)
        if algorithm.seconds_per_call(batch=calls > 1) < limit:
            self._use(algorithm)
            self._may_compile = False

    def _consider_listing(self, calls: int) -> None:
        """Before `calls` more calls of a space with lazy rows, of which there is no diagram: list its labels?

        A list takes one call of the separations for each label of the declared rows, and a call of the solver at least
        one. So labels are listed once there were as many calls as labels: never more than twice the work.
        """
        self._asked += calls
        if self._asked < self._list_at:
            return
        self._list_at *= 4
        try:
            found = Enumeration.of_space(self.space, most=self._asked)
        except SeparationFailed:  # at a point that no solver asked about: what it asks about is answered as before
            found, self._list_at = None, _LAST_LISTING + 1
        if found is not None:
            self._use(found)
        self._may_compile = found is None and self._list_at <= _LAST_LISTING

    def _solver_seconds(self, unknown: float) -> float:
        """Return the measured time of a call of the solver."""
        measured = self._solvers.statistics
        return measured.seconds / measured.calls if measured.calls else unknown

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
            Finite objective coefficients.
        rows : sequence of comparisons or of (a, lower, upper)
            Side constraints for this call only: ``block[0] == 1`` as `LabelSpace.subject_to` takes it, or
            ``lower <= a . z <= upper``.
        forbid : sequence of array_like
            Labels that may not be returned (no-good cuts). A label is known by its integer variables, so forbidding
            one forbids every point with the same integer part.
        key : hashable, optional
            Remember the simplex basis under this name and start from it the next time. Worth about 3 x when
            the objective of an example changes slowly, as it does in training.
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
        costs = c if is_clean(c, self._shape) else cost_vector(self.space, c)
        free = rows is _NOTHING and forbid is _NOTHING
        if not free:
            given, rows = rows, plain_rows("rows", self.space, rows)
            forbid = sequence("forbid", forbid)
            free = not len(rows) and not len(forbid)
        if key is not None:
            hashable("key", key)
        first = None if start is None else floats("start", start, self._shape)
        if free:
            return self._label(self._maximize_freely(costs, key, first))
        try:
            return self._label(self._maximize_constrained(costs, rows, forbid, key, first))
        except InfeasibleSpace as error:
            raise self._without_label(error, given, rows, forbid) from None

    def _without_label(
        self, error: InfeasibleSpace, given: Any, rows: Sequence[Row], forbid: Sequence[npt.ArrayLike]
    ) -> InfeasibleSpace:
        """Return the error of a call without a label, which finds the rows in conflict when it is read."""
        message = str(error)

        def diagnose() -> tuple[str, tuple[str, ...]]:
            try:
                extra = self._side_constraints(rows, forbid)
            except NoGoodNotExpressible:
                return message, ()
            return explain_call(self._solvers.program, extra, row_names(given, len(forbid)))

        return error if error.rows else InfeasibleSpace(message, diagnose=diagnose)

    def _maximize_freely(self, costs: FloatArray, key: Hashable | None, start: FloatArray | None) -> Optimum:
        if self._may_compile:
            self._consider_diagram(1)
        if self._algorithm is not self._solvers:
            begun = perf_counter()
            found = self._algorithm.maximize(costs, key)
            if found is not None:
                self._count_fast(1, perf_counter() - begun)
                return found
        return self._solvers.maximize(costs, key) if start is None else self._solvers.solve(costs, key=key, start=start)

    def _maximize_constrained(
        self,
        costs: FloatArray,
        rows: Sequence[Row],
        forbid: Sequence[npt.ArrayLike],
        key: Hashable | None,
        start: FloatArray | None,
    ) -> Optimum:
        """Answer by the k best labels, by side constraints or by a solver, in this order."""
        if self._may_compile:
            self._consider_diagram(2, hard=True)
        algorithm = self._algorithm
        try:
            constraints = self._side_constraints(rows, forbid)
        except NoGoodNotExpressible:
            # No linear row cuts the label off; an algorithm that lists labels in order needs none.
            listing = self._listing(rows)
            found = None if listing is None else listing.maximize_outside(costs, np.array(forbid, dtype=np.float64))
            if found is None:
                raise
            return found
        if algorithm is not self._solvers:
            begun = perf_counter()
            found = None
            if not len(rows) and Question.K_BEST in algorithm.answers:
                found = algorithm.maximize_outside(costs, np.asarray(forbid, dtype=np.float64))
            if found is None and Question.SIDE_ROWS in algorithm.answers:
                found = algorithm.maximize_constrained(costs, constraints)
            if found is not None:
                self._count_fast(1, perf_counter() - begun)
                return found
        return self._solvers.solve(costs, constraints, key=key, start=start)

    def _listing(self, rows: Sequence[Row]) -> Algorithm | None:
        """Return an algorithm that lists the labels within `rows` in decreasing value; None if there is none."""
        space = self.space
        if not space.is_integral or self.integral == "relax":
            return None
        if not len(rows) and Question.K_BEST in self._algorithm.answers:
            return self._algorithm
        if not self._chooses:
            return None
        if len(rows):
            space = with_rows(space, [side_constraints_of(space, rows, ())])
        if not space.separations and self._time_limit >= _COMPILE_SECONDS:
            try:
                return DiagramAlgorithm(DIAGRAMS.get(space))
            except DiagramRefused:
                pass
            except InfeasibleSpace:
                if not len(rows):
                    raise
                return None
        return Enumeration.of_space(space)

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

        Returns
        -------
        list of Label
        """
        return self._labels(self._solve_batch(C, n_jobs, keys=keys))

    def _solve_batch(self, C: npt.ArrayLike, n_jobs: int = 1, *, keys: Sequence[Hashable] | None = None) -> Solutions:
        """Return the answers of `maximize_batch` as arrays: labels, values and proved bounds."""
        keys = listed(keys)
        self._check_current()
        costs = cost_matrix(self.space, C)
        if keys is not None:
            _check_keys(keys, len(costs))
        jobs = n_threads(n_jobs)
        if self._may_compile:
            self._consider_diagram(len(costs))
        if self._algorithm is self._solvers:
            return self._solvers.maximize_batch(costs, n_jobs=jobs, keys=keys)
        begun = perf_counter()
        found = self._algorithm.maximize_batch(costs, n_jobs=jobs, keys=keys)
        self._count_fast(len(costs), perf_counter() - begun)
        if found.solved is None:
            return found
        left = np.flatnonzero(~found.solved)
        rest = self._solvers.maximize_batch(costs[left], n_jobs=jobs)
        found.Z[left], found.values[left], found.bounds[left] = rest.Z, rest.values, rest.bounds
        optimal = np.ones(len(costs), dtype=np.bool_) if found.optimal is None else found.optimal
        optimal[left] = True if rest.optimal is None else rest.optimal
        return found._replace(solved=None, optimal=None if optimal.all() else optimal)

    def k_best(self, c: npt.ArrayLike, k: int, rows: Sequence[Row] = ()) -> list[Label]:
        """The `k` best labels in decreasing value; fewer if the space has fewer.

        Parameters
        ----------
        c : ndarray of shape (n_variables,)
            Objective coefficients.
        k : int
            Number of labels.
        rows : sequence of comparisons or of (coefficients, lower, upper)
            Side constraints, as in `maximize`.

        Returns
        -------
        list of Label
            The best first.
        """
        k = whole("k", k, low=0)
        rows = plain_rows("rows", self.space, rows)
        costs = cost_vector(self.space, c)
        known = self._list_best(costs, k) if not len(rows) else None
        if known is not None:
            return known
        if not self.space.is_binary[self._integer].all():  # no-goods may not be expressible
            listing = self._listing(rows)
            best = None if listing is None else listing.k_best(costs, k)
            if best is not None:
                return self._labels(best)
        found: list[Label] = []
        while len(found) < k:
            try:
                found.append(self.maximize(costs, rows, [label.z for label in found]))
            except InfeasibleSpace:
                if not found and not len(rows):
                    raise
                break
        return found

    def _list_best(self, c: FloatArray, k: int) -> list[Label] | None:
        """Return `k_best` if the combinatorial algorithm lists labels in order, or None if it would take a solver."""
        self._check_current()
        if self._may_compile:
            self._consider_diagram(2, hard=True)
        algorithm = self._algorithm
        if Question.K_BEST not in algorithm.answers:
            return None
        begun = perf_counter()
        known = algorithm.k_best(c, k)
        if known is None:
            return None
        self._count_fast(1, perf_counter() - begun)
        return self._labels(known)

    @cached_property
    def _listed_labels(self) -> FloatArray | None:
        """Every label if products with all of them take less time than a search; None for larger spaces."""
        # A solver that was chosen must be used, and a subclass may override the method.
        if not self._chooses or self.integral == "relax" or type(self).maximize is not Oracle.maximize:
            return None
        if self._may_compile:
            self._consider_diagram(2, hard=True)
        if isinstance(self._algorithm, Enumeration):
            return self._algorithm.labels
        space = self.space
        # Without sums its labels are not all: those of paths whose flows may be fractional are the vertices.
        if isinstance(self._algorithm, DiagramAlgorithm) and Question.SUMS in self._algorithm.answers:
            diagram, most = self._algorithm.diagram, max(1, _LISTED_ENTRIES // space.n_variables)
            return diagram.labels() if diagram.count() <= most else None
        if self._algorithm is self._solvers or not space.is_integral or int(space.integrality.sum()) > _LISTED_INTEGERS:
            return None
        try:
            return enumerate_labels(space, max(1, _LISTED_ENTRIES // space.n_variables), _LISTED_WORK)
        except DeclarationError:  # too many, too long, or continuous variables that do not follow from the integer ones
            return None

    def front(self, h: tuple[npt.ArrayLike, float], g: tuple[npt.ArrayLike, float]) -> FloatArray | None:
        """The Pareto front: labels among which every ``psi(h, g)`` increasing in both is largest; None if too many.

        Offered where the structure allows it without a search (enumeration of few labels, loss-indexed
        dynamic programs); `structopt.search.exact` then needs no λ at all.

        Parameters
        ----------
        h : (coef, const)
            First criterion.
        g : (coef, const)
            Second criterion.

        Returns
        -------
        ndarray or None
        """
        self._check_current()
        h_coef, h_const = affine_costs(self.space, "h", h)
        g_coef, g_const = affine_costs(self.space, "g", g)
        if self._may_compile:
            self._consider_diagram(2, hard=True)
        if Question.FRONT not in self._algorithm.answers:
            return None
        return self._algorithm.front(h_coef, h_const, g_coef, g_const)

    def _front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        """Return the plan of the fronts of examples whose losses are the rows of `G`; None if it takes a search."""
        self._check_current()
        free = self._chooses and type(self).maximize is Oracle.maximize and self.integral != "relax"
        if free and isinstance(self._algorithm, BoxAlgorithm | CardinalityAlgorithm):
            plan = self._algorithm.front_plan(G, g_const)
            if isinstance(plan, CountFronts):  # faster than products with all labels
                return plan
        if self._listed_labels is not None:
            return ListedFronts(self._listed_labels, G, g_const)
        if not free:
            return None
        if self._may_compile:
            self._consider_diagram(len(G), hard=True)
        return self._algorithm.front_plan(G, g_const)

    # ---- sums over all labels --------------------------------------------------------------------

    def log_partition(self, C: npt.ArrayLike) -> FloatArray:
        """``log sum_z exp(c . z)`` over all labels, for every row of `C`.

        Parameters
        ----------
        C : array_like, shape (n, n_variables)
            Objective coefficients, one row for each distribution ``p(z) ~ exp(c . z)``.

        Returns
        -------
        ndarray, shape (n,)

        Raises
        ------
        DeclarationError
            If no algorithm that sums over this space's labels is known.

        Examples
        --------
        >>> import numpy as np
        >>> import structopt as so
        >>> oracle = so.Oracle(so.LabelSpace.from_matrices([[1, 1, 1]], 0, 1))        # four labels
        >>> np.exp(oracle.log_partition(np.zeros((1, 3)))).round(6)
        array([4.])
        """
        return self._summing.log_partition(cost_matrix(self.space, C))

    def marginals(self, C: npt.ArrayLike) -> FloatArray:
        """The mean label under ``p(z) ~ exp(c . z)``, for every row of `C`.

        The gradient of `log_partition`; for a 0/1 variable the probability that it is 1.

        Parameters
        ----------
        C : array_like, shape (n, n_variables)

        Returns
        -------
        ndarray, shape (n, n_variables)

        Examples
        --------
        >>> import numpy as np
        >>> import structopt as so
        >>> oracle = so.Oracle(so.LabelSpace.from_matrices([[1, 1, 1]], 0, 1))
        >>> oracle.marginals(np.log([[1.0, 2.0, 4.0]])).round(4)
        array([[0.125, 0.25 , 0.5  ]])
        """
        return self._summing.marginals(cost_matrix(self.space, C))

    def sums(self, C: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """`log_partition` and `marginals` in one pass.

        Parameters
        ----------
        C : array_like, shape (n, n_variables)

        Returns
        -------
        log_partition : ndarray, shape (n,)
        marginals : ndarray, shape (n, n_variables)

        Examples
        --------
        >>> import numpy as np
        >>> import structopt as so
        >>> oracle = so.Oracle(so.LabelSpace.from_matrices([[1, 1, 1]], 0, 1))
        >>> log_partition, marginals = oracle.sums(np.log([[1.0, 2.0, 4.0]]))
        >>> np.exp(log_partition).round(4), marginals.round(4)
        (array([8.]), array([[0.125, 0.25 , 0.5  ]]))
        """
        return self._summing.sums(cost_matrix(self.space, C))

    def covariance_products(self, C: npt.ArrayLike, V: npt.ArrayLike) -> FloatArray:
        """The covariance of the labels under ``p(z) ~ exp(c . z)`` times a vector, row by row.

        The derivative of `marginals` along that vector. It is exact up to rounding, except for an algorithm of your own
        without a formula: then it is a difference quotient of fourth order, right to about ten digits.

        Parameters
        ----------
        C : array_like, shape (n, n_variables)
        V : array_like, shape (n, n_variables)
            A vector for each row of `C`.

        Returns
        -------
        ndarray, shape (n, n_variables)

        Examples
        --------
        >>> import numpy as np
        >>> import structopt as so
        >>> oracle = so.Oracle(so.LabelSpace.from_matrices([[1, 1]], 1, 1))            # (1, 0) or (0, 1)
        >>> oracle.covariance_products(np.zeros((1, 2)), [[1.0, 0.0]])
        array([[ 0.25, -0.25]])
        """
        costs, vectors = cost_matrix(self.space, C), cost_matrix(self.space, V)
        if costs.shape != vectors.shape:
            raise DeclarationError(f"V has shape {vectors.shape}, C {costs.shape}: a vector for each row is needed.")
        return self._summing.covariance_products(costs, vectors)

    def sample(self, c: npt.ArrayLike, n: int = 1, *, random_state: Any = None) -> FloatArray:
        """Labels drawn from ``p(z) ~ exp(c . z)``.

        Parameters
        ----------
        c : array_like, shape (n_variables,)
            Zeros draw all labels with the same probability.
        n : int
            How many labels.
        random_state : int, Generator or None
            Seed, as `numpy.random.default_rng` takes it.

        Returns
        -------
        ndarray, shape (n, n_variables)

        Examples
        --------
        >>> import structopt as so
        >>> oracle = so.Oracle(so.LabelSpace.from_matrices([[1, 1]], 1, 1))
        >>> oracle.sample([0.0, 0.0], 2, random_state=0).sum(axis=1)
        array([1., 1.])
        """
        return self._summing.sample(
            cost_vector(self.space, c), whole("n", n, low=0), np.random.default_rng(seed("random_state", random_state))
        )

    @property
    def _summing(self) -> Algorithm:
        """Algorithm for sums over all labels: the oracle's own, a list of the labels, or a decision diagram."""
        self._check_current()
        if self._sums is None:
            self._sums = self._find_summing()
        return self._sums

    def _find_summing(self) -> Algorithm:
        if self.integral == "relax" or not self.space.is_integral:
            raise DeclarationError(
                "Sums over all labels need integral labels: declare the variables integer, and leave out "
                "integral='relax'."
            )
        if Question.SUMS in self._algorithm.answers:
            return self._algorithm
        found = Enumeration.of_space(self.space)
        if found is not None:
            return found
        try:
            return DiagramAlgorithm(DIAGRAMS.get(self.space))
        except DiagramRefused as refusal:
            raise DeclarationError(
                f"No algorithm is known that sums over all labels of {self.space!r}: it is solved by "
                f"{self._algorithm.name}, and cannot be compiled. {refusal}"
            ) from None

    # ---- the work --------------------------------------------------------------------------------

    @property
    def _plain_solver(self) -> Callable[[FloatArray, float], tuple[FloatArray, float]] | None:
        """The solver's call without checks of its answer; None if a combinatorial algorithm or a subclass answers.

        It takes objective coefficients (a contiguous float64 vector) and their squared norm. It returns the best point
        as the solver has it, free for the caller to change, with a bound on its value.
        """
        self._check_current()
        if self._may_compile:
            self._consider_diagram(1)
        own = type(self).maximize is not Oracle.maximize
        return None if own or self._algorithm is not self._solvers else self._solvers.best_point

    def _label(self, found: Optimum) -> Label:
        """Return an answer as a label; whether it is integral is computed lazily, unless it is known."""
        z, value, bound, optimal = found
        return Label(z, value, self._labels_integral, "optimal" if optimal else "time limit", bound, self._integer)

    def _labels(self, found: Solutions) -> list[Label]:
        return [self._label(row) for row in map(found.row, range(len(found.Z))) if row is not None]

    # ---- inputs ----------------------------------------------------------------------------------

    def _check_current(self) -> None:
        """Raise an error if the space has grown since this oracle was made."""
        if self.declared is not None and self.declared._compiled is not self.space:
            raise DeclarationError(
                f"{self.declared!r} has grown since this oracle was made ({self.space.n_variables} variables, "
                f"{self.space.n_rows} rows); make a new one with so.Oracle(space). For two versions side by side, "
                "extend space.copy()."
            )

    def _side_constraints(self, rows: Sequence[Row], forbid: Sequence[npt.ArrayLike]) -> SideConstraints:
        if len(forbid) and self.integral == "relax":
            raise DeclarationError("A relaxed oracle cannot forbid labels; use integral='auto'.")
        return side_constraints_of(self.space, rows, forbid)

    # ---- what answers ----------------------------------------------------------------------------

    def _make(self, space: CompiledSpace) -> Backend:
        solver = "highs" if self._chooses else self.solver
        return make_backend(solver, space, **self.options)

    def _count_fast(self, calls: int, seconds: float) -> None:
        with self._lock:
            counted = self._fast_calls
            counted.calls += calls
            counted.fast += calls
            counted.seconds += seconds

    @property
    def statistics(self) -> Statistics:
        """Calls, solver runs and time of this oracle so far, in all threads."""
        total = self._solvers.statistics
        for calls in self._used.values():
            total.include(calls)
        return total

    def __getstate__(self) -> dict[str, Any]:
        # A live solver does not pickle: an oracle is its recipe.
        kept = ("declared", "space", "solver", "integral", "options", "_given", "_record")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    @property
    def lazy_rows(self) -> RowPool | None:
        """The rows that the space's separations have found so far, in all threads; None for a space without lazy rows.

        Examples
        --------
        >>> import structopt as so
        >>> space = so.LabelSpace()
        >>> y = space.binary("y", 2)
        >>> space.lazy(lambda z: y.sum() <= 1 if z["y"].sum() > 1 else None, name="one")
        >>> oracle = so.Oracle(space)
        >>> [oracle.maximize(c).value for c in ([1.0, 1.0], [1.0, 2.0])]
        [1.0, 2.0]
        >>> [oracle.lazy_rows.described(row) for row in oracle.lazy_rows.rows]
        ['one (y[0] + y[1] <= 1)']
        """
        return self._solvers.lazy_rows

    @property
    def algorithm(self) -> str:
        """Name of the combinatorial algorithm or of the solver's profile that answers the next plain call."""
        if self._may_compile and DIAGRAMS.known(self.space) is not None:  # made for another oracle
            self._consider_diagram(0)
        return self._algorithm.name

    @property
    def answers(self) -> Question:
        """The questions that are answered without a solver.

        A question that is missing here is answered by the solver. The exceptions are `front`, which returns None, and
        sums and samples, which raise an error. A single call may still take the solver if it gets too long. A space
        without a combinatorial algorithm is compiled into a decision diagram here, as by its second call.

        Examples
        --------
        >>> import structopt as so
        >>> so.Oracle(so.LabelSpace.from_matrices([[2, 3, 1]], 0, 4)).answers == ~so.Question(0)
        True
        >>> print(so.Oracle(so.LabelSpace.from_matrices([[2, 3, 1]], 0, 4), "highs").answers)
        Question.SUMS|SAMPLE
        """
        self._check_current()
        if self._may_compile:
            self._consider_diagram(2, hard=True)
        found = Question(0)
        for question in Question:
            if self._answering(question) not in (None, self._solvers):
                found |= question
        return found

    def _answering(self, question: Question) -> Algorithm | None:
        """Return the algorithm that answers a question now, or the pool of solvers; None if there is no answer."""
        if question in Question.SUMS | Question.SAMPLE:
            try:
                return self._summing
            except DeclarationError:
                return None
        own, solvers = self._algorithm, self._solvers
        can = Question.ARGMAX | own.answers if own is not solvers else Question(0)
        if question in Question.OUTSIDE | Question.K_BEST:
            own_list = question is Question.K_BEST and question in can
            if self.integral == "relax" or not (own_list or self._integer.any()):
                return None  # a point of a polytope cannot be forbidden
            # No-good rows are side rows, and a list of labels leaves out those that are forbidden.
            if can & (Question.SIDE_ROWS | Question.K_BEST):
                return own
            listed = question is Question.K_BEST and not self.space.is_binary[self._integer].all()
            return (self._listing(()) if listed else None) or solvers
        if question is Question.FRONT:
            return own if question in can else None
        return own if question in can else solvers

    def plan(self) -> Plan:
        """Return a report of the ways in which this oracle can answer: their costs, what was measured, what is used.

        The report does not change the choice. As in `answers`, a space without a combinatorial algorithm is compiled
        into a decision diagram here, as by its second call.

        Returns
        -------
        Plan

        Examples
        --------
        >>> import structopt as so
        >>> oracle = so.Oracle(so.LabelSpace.from_matrices([[2, 3, 1]], 0, 4))
        >>> oracle.maximize([1.0, 2.0, 3.0]).z
        array([0., 1., 1.])
        >>> plan = oracle.plan()
        >>> plan
        Plan of <CompiledSpace: 3 variables (3 integer), 1 rows, 3 non-zeros>
        option      algorithm     to make        one call                       measured      used for
        ----------  ...
        recognised  general: ...  entries of the matrix
        list        6 labels      labels x rows  2 µs + 3 ns x labels: 2.02 µs  1 call, ...   everything
        diagram     not made      nodes x values x rows
        solver      highs: 0 LP, 0 MIP runs  a model per thread  LP, then MIP if its point is fractional
        >>> plan.answered_by(so.Question.K_BEST).name
        'list'
        """
        _ = self.answers
        return plan_of(self)

    @property
    def _prefers_free_calls(self) -> bool:
        """Whether plain calls have a combinatorial algorithm while side constraints need the solver.

        Then several calls without rows take less time than one with side constraints (docs/mathematics/oracles).
        """
        return Question.SIDE_ROWS not in self._algorithm.answers

    def __repr__(self) -> str:
        return f"<Oracle by {self.algorithm} on {self.space!r}>"

    def _repr_html_(self) -> str:
        from structopt.space.views import html_table

        facts = [["algorithm", self.algorithm], ["space", repr(self.space)], ["integral", self.integral]]
        return html_table(["Oracle", ""], facts + self.statistics.rows())


def check_solver(solver: Any) -> Any:
    """Return `solver` if it may name a solver; whether it exists is checked when an instance is made."""
    if not isinstance(solver, str | os.PathLike | Profile | type):
        raise DeclarationError(
            f"solver must be 'auto', the name or path of a profile, or a Backend class; got {shown(solver)}."
        )
    return solver


def _check_keys(keys: Sequence[Hashable], n: int) -> None:
    if isinstance(keys, Set):
        raise DeclarationError("keys must name the rows of C in their order, and a set has none; give a list.")
    if not isinstance(keys, range):
        try:
            hash(tuple(sequence("keys", keys)))  # of all at once
        except TypeError:
            for key in keys:
                hashable("A key", key)
    if len(keys) != n:
        raise DeclarationError(f"{len(keys)} keys for {n} rows of C.")
