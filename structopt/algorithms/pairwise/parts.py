"""Pairwise labels of many examples, from the scores of labels and of pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from structopt._jit import FloatArray, IntArray
from structopt.algorithms.counting import LISTED
from structopt.algorithms.fronts import Fronts
from structopt.algorithms.maxflow import FlowState
from structopt.algorithms.pairwise.algorithm import PairwiseAlgorithm, PairwiseFronts
from structopt.algorithms.pairwise.graph import PairwiseGraph
from structopt.algorithms.pairwise.halves import HalfLabels
from structopt.algorithms.parts import Best, Losses, Maxima, PartFronts, Parts, PartSolver, best_or_truth, with_truth

__all__ = ["PairwiseParts"]

# Flows kept from call to call, one per example: at most this many bytes.
_FLOW_LIMIT = 1 << 29

#: The best point for an objective, from a known point or from none: z, value and bound.
Rest = Callable[[FloatArray, FloatArray | None], tuple[FloatArray, float, float]]


class PairwiseParts(PartSolver):
    """Enumeration, or persistency and search, of 0/1 labels; roof duality over the relaxation.

    Over the relaxation of few pairs the flow of every example is kept from call to call. With many pairs most labels
    are decided without a flow, and a kept flow saves no time.

    Without `cycles`, a relaxation has no cycle inequalities. With `halves`, labels are `HalfLabels` without pairs, and
    points in other cases. `rest` solves examples that this solver leaves.
    """

    splits = False

    def __init__(self, graph: PairwiseGraph, n: int, relaxed: bool, cycles: bool, halves: bool, rest: Rest) -> None:
        self._graph, self._relaxed, self._cycles, self._halves, self._rest = graph, relaxed, cycles, halves, rest
        self._flows: FlowState | None = None
        if relaxed and not halves and n * 17 * graph.n_edges <= _FLOW_LIMIT:
            self._flows = graph.warm_state(n)

    def maximize_parts(self, parts: Parts) -> Maxima:
        pair = np.asarray(parts.others[0], dtype=np.float64)
        if not self._relaxed:
            return self._exact(parts.scores, pair, parts.n_jobs)
        if self._halves:
            return Maxima(*self._graph.solve_labels(parts.scores, pair, parts.n_jobs))
        owner = None if self._flows is None or len(parts.examples) == len(self._flows) else parts.examples
        Z, values = self._graph.solve_points(parts.scores, pair, state=self._flows, owner=owner, n_jobs=parts.n_jobs)
        if not self._cycles:
            return Maxima(Z, values)
        bounds = self._graph.tighten(parts.scores, pair, Z, values, parts.n_jobs)
        for i in np.flatnonzero(np.isinf(bounds)):
            Z[i], values[i], bounds[i] = self._rest(np.concatenate([parts.scores[i], pair[i]]), None)
        return Maxima(Z, values, bounds)

    def _exact(self, unary: FloatArray, pair: FloatArray, n_jobs: int) -> Maxima:
        Y, values, proved = self._graph.solve_exact(unary, pair, n_jobs=n_jobs)
        if self._halves and proved.all():
            return Maxima(HalfLabels.of_labels(Y, self._graph.n_edges), values)
        Z = self._graph.with_products(Y)
        if proved.all():
            return Maxima(Z, values)
        bounds = values.copy()
        for i in np.flatnonzero(~proved):
            Z[i], values[i], bounds[i] = self._rest(np.concatenate([unary[i], pair[i]]), Z[i])
        if self._halves:
            return Maxima(HalfLabels.of_labels(Z[:, : self._graph.n_labels], self._graph.n_edges), values, bounds)
        return Maxima(Z, values, bounds)

    def front_plan(self, losses: Losses, ptr: IntArray) -> PartFronts | None:
        # Up to 16 labels all 2^n are cheaper than a search (docs/mathematics/oracles#roof-duality).
        n, m = self._graph.n_labels, self._graph.n_edges
        if self._relaxed or self._halves or n > LISTED:
            return None
        algorithm = PairwiseAlgorithm(self._graph, np.arange(n), n + np.arange(m), True, False)
        return _PairFronts(PairwiseFronts(algorithm, losses.coef, losses.const))


class _PairFronts(PartFronts):
    """Fronts of few labels with their pairs."""

    def __init__(self, plan: PairwiseFronts) -> None:
        self._plan = plan
        self.cost, self.entries = plan.cost, plan.entries

    def fronts(self, parts: Parts, truth: Any, between: tuple[FloatArray, FloatArray] | None = None) -> Fronts:
        scores = np.hstack([parts.scores, *parts.others])
        own = truth if len(parts.examples) == len(truth) else truth[parts.examples]
        known = -np.einsum("ij,ij->i", scores, own)
        return with_truth(self._plan.fronts(scores, known, parts.examples, parts.n_jobs), own)

    def best_products(self, parts: Parts, truth: Any) -> Best | None:
        unary, pair = parts.scores, parts.others[0]
        n, alike = unary.shape[1], not pair.strides[0] and len(pair) > 0
        own = np.einsum("ij,ij->i", unary, truth[:, :n])
        own += truth[:, n:] @ pair[0] if alike else np.einsum("ij,ij->i", pair, truth[:, n:])
        return best_or_truth(self._plan.best_of_tables(unary, pair, -own, parts.n_jobs), truth)
