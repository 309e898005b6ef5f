"""`BatchInference`: inference for a whole data set at a time, over score tables.

`PartInference` serves structures with a `PartSolver`, which takes the tables as they are (all chains at once, whatever
their lengths). `OracleInference` serves every other model: tables become objective coefficients, and the oracle of the
label space solves all examples that have the same space at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from structopt._jit import IntArray
from structopt._jit.choices import LevelChoice
from structopt._jit.threads import in_threads
from structopt.algorithms.fronts import FrontPlan, Fronts, MostViolated
from structopt.algorithms.parts import Best, Maxima, PartFronts, Parts, PartSolver, best_or_truth, with_truth
from structopt.checks import n_threads
from structopt.model.data_set import DataSet, stacked
from structopt.model.loss_batch import LossBatch, Weight, ranges
from structopt.space.compiled import FloatArray

__all__ = [
    "BatchFronts",
    "BatchInference",
    "OracleInference",
    "PartInference",
    "Query",
]

# Entries of the tables of fronts that are held at a time: 64 MB.
_FRONT_ENTRIES = 1 << 23
#: Work of fronts in batch inferences above which the tables of all examples take longer than a search of their planes,
#: for labels and for mixtures; they take half of that, because tables are filled once.
_MOST_LABEL_COST, _MOST_MIXTURE_COST = 16.0, 8.0
#: Numbers that the plans of all spaces may keep together (64 MB).
_KEPT_BY_PLANS = 1 << 24


#: The maker of fronts for known losses.
Plan = TypeVar("Plan")
#: Exact fronts of some examples (increasing): h is the margin over the ground truth, g the task loss.
BatchFronts = tuple[IntArray, Fronts]


class Query(NamedTuple):
    """Scores of parts (`Batch.tables`), losses and their weights; for some examples (increasing; None: all)."""

    tables: Sequence[FloatArray]
    loss: LossBatch | None = None
    weight: Weight = 1.0
    some: IntArray | None = None
    n_jobs: int = 1


class BatchInference(ABC, Generic[Plan]):
    """Maximises over the labels of one data set."""

    def __init__(self, data: DataSet) -> None:
        self.data = data
        self._planned: tuple[LossBatch | None, Plan | None] = None, None

    def _plan(self, loss: LossBatch | None) -> Plan | None:
        """Return what makes the fronts for these losses, which does not depend on the weights; None without fronts."""
        assert loss is not None
        if self._planned[0] is not loss:
            self._planned = (loss, self._make_plan(loss))
        return self._planned[1]

    @abstractmethod
    def _make_plan(self, loss: LossBatch) -> Plan | None:
        """Return what `_plan` keeps."""

    @abstractmethod
    def maximize(self, query: Query) -> list[Maxima]:
        """Return the labels of largest ``score + weight * loss``, in pieces."""

    @abstractmethod
    def front_cost(self, loss: LossBatch | None) -> float | None:
        """Work of `fronts` in calls of `maximize`, roughly; None if there are none for such a loss."""

    @abstractmethod
    def fronts(
        self, query: Query, truth: Any, between: tuple[FloatArray, FloatArray] | None = None
    ) -> Iterator[BatchFronts]:
        """Yield the exact fronts of (margin, loss) of some examples, in blocks that fit into memory.

        The maximum of every surrogate that decreases neither in the margin nor in the loss is one scan over them.
        `truth` are the ground truths of all examples in compact form. If limits of the losses of `some` are given in
        `between`, points of other losses may be missing.
        """

    @abstractmethod
    def maximize_product(self, query: Query, truth: Any) -> Best | None:
        """The label of largest ``(1 + margin) * loss`` of every example, where that is cheaper than a front."""

    @abstractmethod
    def maximize_levels(self, query: Query, truth: Any, choice: LevelChoice) -> MostViolated | None:
        """The choice among the levels of the loss of every example, where that is cheaper than fronts or a search.

        Labels are in compact form, or mixtures of them; that of an example without a violation is its ground truth.
        """


class OracleInference(BatchInference[list[tuple[IntArray, FrontPlan]]]):
    """Any model: the oracle of its space, with one batch for all examples of the same space.

    Few labels are listed, and a front is then a product with all of them.
    """

    def maximize(self, query: Query) -> list[Maxima]:
        if self.data.model.fixed:
            return [Maxima(*self._solve(query))]
        groups = list(self.data.groups(query.some))
        found = [self._solve(query._replace(some=own)) for own, _ in groups]
        return [Maxima(*_in_order(found, [at for _, at in groups]))] if found else []

    def _solve(self, query: Query) -> tuple[Any, FloatArray, FloatArray]:
        """Return labels, values and bounds of some examples of one space."""
        data, keys, (tables, loss, weight, some, n_jobs) = self.data, None, query
        if data.model.fixed:
            C = rows_or_all(data.costs(tables), some)
            keys = range(data.n) if some is None else some.tolist()
        else:
            C = data.costs(tables, some)
        if loss is not None:
            C = loss.added(C if loss.ptr is None else C.ravel(), some, weight).reshape(C.shape)
        return data.model.oracle(data.input_of(some))._solve_batch(C, n_jobs, keys=keys)[:3]

    # ---- fronts ----------------------------------------------------------------------------------

    def _make_plan(self, loss: LossBatch) -> list[tuple[IntArray, FrontPlan]] | None:
        data, found, kept = self.data, list[tuple[IntArray, FrontPlan]](), 0
        for group in data.same_space:
            oracle = data.model.oracle(data.input_of(group))
            plan = oracle._front_plan(loss.of_examples(group), loss.const[group])
            if plan is None:
                return None
            kept += plan.kept
            if kept > _KEPT_BY_PLANS:
                plan.forget()
            found.append((group, plan))
        return found

    def front_cost(self, loss: LossBatch | None) -> float | None:
        plans = self._plan(loss)
        return None if plans is None else sum(len(group) * plan.cost for group, plan in plans) / max(1, self.data.n)

    def fronts(
        self, query: Query, truth: Any, between: tuple[FloatArray, FloatArray] | None = None
    ) -> Iterator[BatchFronts]:
        plans, (tables, _, _, some, n_jobs) = self._plan(query.loss), query
        assert plans is not None
        wanted = np.full(self.data.n, some is None)
        wanted[slice(0) if some is None else some] = True
        for group, plan in plans:
            own = np.flatnonzero(wanted[group])
            if not own.size:
                continue
            costs, truths = self.data.costs(tables, group[own]), stacked(truth, group[own])
            scores = np.einsum("ij,ij->i", costs, truths)
            for chosen in within(np.arange(own.size), plan.entries[own]):
                rows: Any = slice(None) if len(chosen) == own.size else chosen
                front = plan.fronts(costs[rows], -scores[rows], own[rows], n_jobs)
                yield group[own[rows]], with_truth(front, truths[rows])

    def maximize_product(self, query: Query, truth: Any) -> Best | None:
        plans = self._plan(query.loss)
        if plans is None or len(plans) != 1:
            return None
        ((group, plan),) = plans
        if not plan.finds_products or plan.cost > _MOST_LABEL_COST:
            return None
        costs, truths = self.data.costs(query.tables, group), stacked(truth, group)
        return best_or_truth(plan.best_products(costs, -np.einsum("ij,ij->i", costs, truths), query.n_jobs), truths)

    def maximize_levels(self, query: Query, truth: Any, choice: LevelChoice) -> MostViolated | None:
        most = _MOST_MIXTURE_COST if choice.mixes else _MOST_LABEL_COST
        plans, cost = self._plan(query.loss), self.front_cost(query.loss)
        if plans is None or cost is None or cost > most:
            return None
        parts = list[MostViolated]()
        for group, plan in plans:
            costs, truths = self.data.costs(query.tables, group), stacked(truth, group)
            found = plan.most_violated(costs, -np.einsum("ij,ij->i", costs, truths), choice)
            if found is None:
                return None
            idle = found.value == 0.0
            if idle.any():
                found.Z[idle] = truths[idle]
            parts.append(found)
        return MostViolated(*_in_order(parts, [group for group, _ in plans]))


def _in_order(parts: Sequence[tuple[Any, ...]], places: Sequence[IntArray]) -> tuple[Any, ...]:
    """Return labels and arrays of groups of examples in the order of their `places`."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate(places))
    rows = [row for part in parts for row in part[0]]
    _, *arrays = zip(*parts, strict=True)
    return [rows[k] for k in order.tolist()], *(np.concatenate(one)[order] for one in arrays)


class PartInference(BatchInference[PartFronts]):
    """A structure with a `PartSolver`: examples in pieces that fit into memory, and threads that share them.

    Examples have any number of rows in the first feature term, and one row in each of the others.
    """

    def __init__(self, data: DataSet, solver: PartSolver) -> None:
        super().__init__(data)
        self.solver = solver
        self._ptr: IntArray = np.asarray(data.starts[0], dtype=np.int64)
        self._n_rows, self._every = int(self._ptr[-1]), np.arange(data.n)
        self._most_rows = max(1, solver.most_entries // solver.width)

    def maximize(self, query: Query) -> list[Maxima]:
        jobs = n_threads(query.n_jobs)
        pieces = self._pieces(query.some, jobs)
        if len(pieces) == 1:
            return [self.solver.maximize_parts(self._parts(query._replace(some=pieces[0], n_jobs=jobs)))]
        found: list[Any] = [None] * len(pieces)

        def work(first: int, last: int) -> None:
            for k in range(first, last):
                found[k] = self.solver.maximize_parts(self._parts(query._replace(some=pieces[k], n_jobs=1)))

        in_threads(work, len(pieces), jobs)
        return found

    def _pieces(self, some: IntArray | None, n_jobs: int) -> list[Any]:
        """Return examples in pieces of neighbours whose tables fit into memory, at least one per thread."""
        most, splits = self._most_rows, n_jobs > 1 and self.solver.splits
        if self._n_rows <= most and not splits:
            return [some]
        count = self.data.n if some is None else len(some)
        rows = self._n_rows if some is None else count if self._single else int(self._lengths[some].sum())
        if splits:
            most = min(most, max(1, -(-rows // n_jobs)))
        if rows <= most or count <= 1:
            return [some]
        chosen = self._every if some is None else some
        if self._single:
            # Kernels of trees work on blocks of 64 examples.
            most = most // 64 * 64 if most > 64 else most
            return [chosen[k : k + most] for k in range(0, count, most)]
        return within(chosen, self._lengths[chosen], most)

    @cached_property
    def _lengths(self) -> IntArray:
        return np.diff(self._ptr)

    @cached_property
    def _single(self) -> bool:
        """Whether every example has one row."""
        return self._n_rows == self.data.n and bool((self._lengths == 1).all())

    def _parts(self, query: Query) -> Parts:
        tables, loss, weight, some, n_jobs = query
        rows, ptr = some, self._ptr
        if some is not None and self._single:
            ptr = np.arange(len(some) + 1)
        elif some is not None:
            rows, ptr = ranges(self._ptr[some], self._ptr[some + 1]), np.append(0, np.cumsum(self._lengths[some]))
        scores = np.asarray(rows_or_all(tables[0], rows), dtype=np.float64)
        scores = scores.reshape(-1) if self.solver.flat else scores
        added = None
        if loss is not None:
            # Flat losses of several columns begin elsewhere than the rows.
            own = None if self.solver.flat and self.data.columns[0] > 1 else rows
            added = _WeightedLoss(loss, weight, some, own)
            if not self.solver.adds_loss:
                scores, added = added.added(scores), None
        others = [rows_or_all(table, some) for table in tables[1:]]
        examples = self._every if some is None else some
        return Parts(scores, ptr, examples, rows, others, added, n_jobs)

    # ---- fronts ----------------------------------------------------------------------------------

    def _make_plan(self, loss: LossBatch) -> PartFronts | None:
        return self.solver.front_plan(loss, self._ptr)

    def front_cost(self, loss: LossBatch | None) -> float | None:
        plan = self._plan(loss)
        return None if plan is None else plan.cost

    def fronts(
        self, query: Query, truth: Any, between: tuple[FloatArray, FloatArray] | None = None
    ) -> Iterator[BatchFronts]:
        plan, some, scores = self._plan(query.loss), query.some, _only_scores(query)
        assert plan is not None
        chosen, first = self._every if some is None else some, 0
        for block in within(chosen, plan.entries[chosen]):
            own = slice(first, first + len(block))
            limits = None if between is None else (between[0][own], between[1][own])
            parts = self._parts(scores._replace(some=None if len(block) == self.data.n else block))
            yield block, plan.fronts(parts, truth, limits)
            first += len(block)

    def maximize_product(self, query: Query, truth: Any) -> Best | None:
        plan = self._plan(query.loss)
        return None if plan is None else plan.best_products(self._parts(_only_scores(query)), truth)

    def maximize_levels(self, query: Query, truth: Any, choice: LevelChoice) -> MostViolated | None:
        return None


def _only_scores(query: Query) -> Query:
    """Return a query without its losses, which are in a plan."""
    return query._replace(loss=None, n_jobs=n_threads(query.n_jobs))


class _WeightedLoss(NamedTuple):
    """The losses of some examples, times their weights."""

    loss: LossBatch
    weight: Weight
    some: IntArray | None
    rows: IntArray | None

    def added(self, scores: Any, out: FloatArray | None = None) -> FloatArray:
        """Return scores plus the weighted coefficients."""
        return self.loss.added(scores, self.some, self.weight, self.rows, out)

    def stored(self) -> tuple[Any, IntArray, FloatArray] | None:
        """Return the sparse rows that are all coefficients, with their numbers and weights; None for other losses."""
        losses = self.loss.sparse
        if losses is None or not self.loss.is_sparse:
            return None
        rows = np.arange(losses.shape[0]) if self.rows is None else self.rows
        return losses, rows, np.full(len(rows), self.loss.factors(self.weight, self.some), dtype=np.float64)

    def outer(self) -> tuple[FloatArray, FloatArray]:
        """Return two numbers per row whose products are the coefficients."""
        assert self.loss.outer is not None
        a, b = (rows_or_all(own, self.rows) for own in self.loss.outer)
        return self.loss.factors(self.weight, self.some) * a, b


def within(chosen: IntArray, entries: IntArray, most: int = _FRONT_ENTRIES) -> list[IntArray]:
    """Examples in blocks of neighbours whose tables have at most about `most` entries together."""
    total = np.cumsum(entries)
    if not len(chosen) or total[-1] <= most:
        return [chosen] if len(chosen) else []
    cuts = np.flatnonzero(np.diff(total // most)) + 1
    return [block for block in np.split(chosen, cuts) if block.size]


def rows_or_all(array: Any, some: IntArray | None) -> Any:
    """The rows of some examples; the array itself for all, and one row shown many times stays one."""
    if some is None:
        return array
    shared = isinstance(array, np.ndarray) and array.ndim > 0 and array.strides[0] == 0
    return array[: len(some)] if shared else array[some]
