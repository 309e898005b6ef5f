"""`BatchInference`: inference for a whole data set at a time, over score tables.

A family with an algorithm for whole batches (all chains at once, whatever their lengths) gives a `BatchInference` of
its own. `OracleInference` serves every other model: tables become objective coefficients, and the oracle of the
label space solves all examples that have the same space at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from structopt._jit import IntArray
from structopt._jit.choices import LevelChoice
from structopt.algorithms.fronts import FrontPlan, Fronts, MostViolated
from structopt.model.codec import RaggedRows
from structopt.model.loss_batch import LossBatch, Weight
from structopt.space.compiled import FloatArray

if TYPE_CHECKING:
    from structopt.model.data_set import DataSet

__all__ = [
    "BatchFronts",
    "BatchInference",
    "Best",
    "Maxima",
    "OracleInference",
    "blocks",
    "rows_or_all",
    "with_truth",
    "within",
]

# Points of fronts that are held at a time: 32 MB of values; and entries of the tables behind them, 64 MB.
_FRONT_POINTS = 1 << 22
_FRONT_ENTRIES = 1 << 23
#: Work of fronts in batch inferences above which the tables of all examples take longer than a search of their planes,
#: for labels and for mixtures; they take half of that, because tables are filled once.
_MOST_LABEL_COST, _MOST_MIXTURE_COST = 16.0, 8.0
#: Numbers that the plans of all spaces may keep together (64 MB).
_KEPT_BY_PLANS = 1 << 24


class Maxima(NamedTuple):
    """The best labels of some examples.

    Attributes
    ----------
    labels : object
        In the compact form of the batch's codec.
    values : ndarray
        Their scores plus weighted losses, without the losses' constants.
    bounds : ndarray or None
        No label has a larger value; None where the labels are proved best.
    """

    labels: Any
    values: FloatArray
    bounds: FloatArray | None = None


class BatchFronts(NamedTuple):
    """Exact fronts of some examples (increasing): h is the margin over the ground truth, g the task loss."""

    examples: IntArray
    fronts: Fronts


class Best(NamedTuple):
    """The most violated labels of some examples, with their margins and losses (0 where the ground truth is best)."""

    labels: Any
    margin: FloatArray
    loss: FloatArray


class BatchInference(ABC):
    """Maximises over the labels of one data set."""

    def __init__(self, data: DataSet) -> None:
        self.data = data

    @abstractmethod
    def maximize(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None,
        weight: Weight,
        some: IntArray | None,
        n_jobs: int,
    ) -> Maxima:
        """The label of largest ``score + weight * loss`` of some examples (increasing; None: all).

        Parameters
        ----------
        tables : sequence of ndarray
            Scores of the parts, as `Batch.tables` makes them.
        loss : LossBatch or None
        weight : float or ndarray of shape (n,)
            One number, or one for each example of the data set: a search has a λ for each.
        some : ndarray of int or None
        n_jobs : int
            Threads.
        """

    def front_cost(self, loss: LossBatch) -> float | None:
        """Work of `fronts` in calls of `maximize`, roughly; None where this inference has none for such a loss."""
        return None

    def fronts(
        self, tables: Sequence[FloatArray], loss: LossBatch, truth: Any, some: IntArray | None, n_jobs: int
    ) -> Iterator[BatchFronts]:
        """The exact fronts of (margin, loss) of some examples, in blocks that fit into memory.

        The maximum of every surrogate that decreases neither in the margin nor in the loss is one scan over them.
        `truth` are the ground truths of all examples in compact form.
        """
        raise NotImplementedError(f"{type(self).__name__} has no fronts.")

    def fronts_between(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch,
        truth: Any,
        some: IntArray,
        n_jobs: int,
        low: FloatArray,
        high: FloatArray,
    ) -> Iterator[BatchFronts]:
        """`fronts` where only labels with ``low <= loss <= high`` matter, limits for each of some examples.

        The points may be more, or fewer: where that takes less time, those of other losses are left out.
        """
        return self.fronts(tables, loss, truth, some, n_jobs)

    def maximize_product(self, tables: Sequence[FloatArray], loss: LossBatch, truth: Any, n_jobs: int) -> Best | None:
        """The label of largest ``(1 + margin) * loss`` of every example, where that is cheaper than a front."""
        return None

    def maximize_levels(
        self, tables: Sequence[FloatArray], loss: LossBatch, truth: Any, choice: LevelChoice
    ) -> MostViolated | None:
        """The choice among the levels of the loss of every example, where that is cheaper than fronts or a search.

        Labels are in compact form, or mixtures of them; that of an example without a violation is its ground truth.
        """
        return None


class OracleInference(BatchInference):
    """Any model: the oracle of its space, with one batch for all examples of the same space.

    Few labels are listed, and a front is then a product with all of them.
    """

    def __init__(self, data: DataSet) -> None:
        super().__init__(data)
        self._planned: tuple[LossBatch, list[_GroupPlan] | None] | None = None

    def maximize(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None,
        weight: Weight,
        some: IntArray | None,
        n_jobs: int,
    ) -> Maxima:
        data = self.data
        if not data.model.fixed:
            return self._by_space(tables, loss, weight, some, n_jobs)
        C = rows_or_all(data.costs(tables), some)
        if loss is not None:
            C = loss.added(C, some, weight)
        keys = range(data.n) if some is None else some.tolist()
        found = data.model.oracle()._solve_batch(C, n_jobs, keys=keys)
        return Maxima(found.Z, found.values, found.bounds)

    def _by_space(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None,
        weight: Weight,
        some: IntArray | None,
        n_jobs: int,
    ) -> Maxima:
        """Spaces that differ: all examples of one space in one call."""
        data = self.data
        chosen = np.arange(data.n) if some is None else some
        place = np.full(data.n, -1)
        place[chosen] = np.arange(len(chosen))
        Z: list[FloatArray] = [np.empty(0)] * len(chosen)
        values, bounds = np.zeros(len(chosen)), np.zeros(len(chosen))
        for group in data.same_space:
            own = group[place[group] >= 0]
            if not own.size:
                continue
            C = data.costs_of_some(own, tables)
            if loss is not None:
                C = loss.added(C.ravel(), own, weight).reshape(C.shape)
            found = data.model.oracle(data.input(int(own[0])))._solve_batch(C, n_jobs)
            at = place[own]
            values[at], bounds[at] = found.values, found.bounds
            for k, z in zip(at.tolist(), found.Z, strict=True):
                Z[k] = z
        return Maxima(RaggedRows.of(Z), values, bounds)

    # ---- fronts ----------------------------------------------------------------------------------

    def _plans(self, loss: LossBatch) -> list[_GroupPlan] | None:
        """What makes the fronts for these losses, which do not depend on the weights; None if a space has none."""
        if self._planned is None or self._planned[0] is not loss:
            self._planned = (loss, self._make_plans(loss))
        return self._planned[1]

    def _make_plans(self, loss: LossBatch) -> list[_GroupPlan] | None:
        data, found, kept = self.data, list[_GroupPlan](), 0
        for group in [np.arange(data.n)] if data.model.fixed else data.same_space:
            oracle = data.model.oracle(data.input(int(group[0])))
            plan = oracle._front_plan(loss.of_examples(group), loss.const[group])
            if plan is None:
                return None
            kept += plan.kept
            if kept > _KEPT_BY_PLANS:
                plan.forget()
            found.append(_GroupPlan(group, plan))
        return found

    def front_cost(self, loss: LossBatch) -> float | None:
        plans = self._plans(loss)
        return None if plans is None else sum(len(group) * plan.cost for group, plan in plans) / max(1, self.data.n)

    def fronts(
        self, tables: Sequence[FloatArray], loss: LossBatch, truth: Any, some: IntArray | None, n_jobs: int
    ) -> Iterator[BatchFronts]:
        plans = self._plans(loss)
        assert plans is not None
        wanted = np.full(self.data.n, some is None)
        wanted[slice(0) if some is None else some] = True
        for group, plan in plans:
            own = np.flatnonzero(wanted[group])
            if not own.size:
                continue
            costs, truths = self.data.costs_of_some(group[own], tables), _stacked(truth, group[own])
            scores = np.einsum("ij,ij->i", costs, truths)
            for chosen in within(np.arange(own.size), plan.entries[own]):
                rows: Any = slice(None) if len(chosen) == own.size else chosen
                front = plan.fronts(costs[rows], -scores[rows], own[rows], n_jobs)
                yield BatchFronts(group[own[rows]], with_truth(front, truths[rows]))

    def maximize_product(self, tables: Sequence[FloatArray], loss: LossBatch, truth: Any, n_jobs: int) -> Best | None:
        plans = self._plans(loss)
        if plans is None or len(plans) != 1 or plans[0].plan.cost > _MOST_LABEL_COST:
            return None
        costs, truths = self.data.costs_of_some(plans[0].examples, tables), _stacked(truth, plans[0].examples)
        found = plans[0].plan.best_products(costs, -np.einsum("ij,ij->i", costs, truths))
        if found is None:
            return None
        labels, margin, losses = found
        idle = np.flatnonzero(losses == 0.0)
        if idle.size:
            labels[idle] = truths[idle]
        return Best(labels, margin, losses)

    def maximize_levels(
        self, tables: Sequence[FloatArray], loss: LossBatch, truth: Any, choice: LevelChoice
    ) -> MostViolated | None:
        most = _MOST_MIXTURE_COST if choice.mixes else _MOST_LABEL_COST
        plans, cost = self._plans(loss), self.front_cost(loss)
        if plans is None or cost is None or cost > most:
            return None
        parts = list[MostViolated]()
        for group, plan in plans:
            costs, truths = self.data.costs_of_some(group, tables), _stacked(truth, group)
            found = plan.most_violated(costs, -np.einsum("ij,ij->i", costs, truths), choice)
            if found is None:
                return None
            idle = found.value == 0.0
            if idle.any():
                found.Z[idle] = truths[idle]
            parts.append(found)
        if len(parts) == 1:
            return parts[0]
        # Numbers of the groups, put back among those of all examples.
        order = np.argsort(np.concatenate([group for group, _ in plans]))
        rows = [row for part in parts for row in part.Z]
        labels: Any = RaggedRows.of([rows[k] for k in order.tolist()])
        return MostViolated(labels, *(np.concatenate(arrays)[order] for arrays in list(zip(*parts, strict=True))[1:]))


class _GroupPlan(NamedTuple):
    """The fronts of all examples of one space."""

    examples: IntArray
    plan: FrontPlan


def _stacked(rows: Any, some: IntArray) -> FloatArray:
    """The rows of some examples that have the same length, as an array."""
    if isinstance(rows, np.ndarray):
        return np.asarray(rows_or_all(rows, None if len(some) == len(rows) else some))
    return np.array([rows[i] for i in some.tolist()])


def with_truth(front: Fronts, truth: FloatArray) -> Fronts:
    """Fronts of points that decode place -1 to the ground truths of their examples."""

    def decode(places: IntArray) -> FloatArray:
        idle = places < 0
        points: FloatArray = front.decode(np.where(idle, front.ptr[:-1], places))
        if idle.any():
            points[idle] = truth[idle]
        return points

    return Fronts(front.ptr, front.h, front.g, decode)


def within(chosen: IntArray, entries: IntArray, most: int = _FRONT_ENTRIES) -> list[IntArray]:
    """Examples in blocks of neighbours whose tables have at most about `most` entries together."""
    total = np.cumsum(entries)
    if not len(chosen) or total[-1] <= most:
        return [chosen] if len(chosen) else []
    cuts = np.flatnonzero(np.diff(total // most)) + 1
    return [block for block in np.split(chosen, cuts) if block.size]


def blocks(chosen: IntArray, width: int, entries: int = _FRONT_POINTS) -> list[IntArray]:
    """Examples in blocks, each with at most about `entries` entries of `width` an example."""
    size = max(1, entries // max(1, width))
    return [chosen[first : first + size] for first in range(0, len(chosen), size)]


def rows_or_all(array: Any, some: IntArray | None) -> Any:
    """The rows of some examples; the array itself for all, and one row shown many times stays one."""
    if some is None:
        return array
    shared = isinstance(array, np.ndarray) and array.ndim > 0 and array.strides[0] == 0
    return array[: len(some)] if shared else array[some]
