"""Binary pairwise models: roof duality, persistency and enumeration (docs/mathematics/oracles)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from structopt._jit import IntArray
from structopt._jit.products import dot
from structopt.algorithms.base import Algorithm, BoolArray, Optimum, Solutions
from structopt.algorithms.fronts import FrontPlan, Fronts
from structopt.algorithms.maxflow import FlowState
from structopt.algorithms.pairwise.graph import PairwiseGraph
from structopt.algorithms.pairwise.loops import front_rows
from structopt.algorithms.question import Question, per_question
from structopt.algorithms.warm_starts import WarmStarts
from structopt.recognize import Pairwise, Record
from structopt.space.compiled import FloatArray

__all__ = ["PairwiseAlgorithm", "PairwiseFronts"]

# Models up to this size are enumerated for the whole Pareto front of two criteria (docs/mathematics/oracles).
_FRONT_LABELS = 16


class PairwiseAlgorithm(Algorithm):
    """Roof duality for the relaxation; enumeration and persistency for 0/1 labels."""

    name = "roof duality"
    steps = per_question(
        argmax="a minimum cut of 2 x labels nodes; then a search if labels are undecided",
        front="2^labels",
    )

    def __init__(
        self,
        graph: PairwiseGraph,
        label: IntArray,
        pair: IntArray,
        integer: bool,
        forest: bool,
        cycles: bool = False,
    ) -> None:
        self._graph, self._label, self._pair = graph, label, pair
        order = np.concatenate([label, pair])
        self._order = None if (order == np.arange(order.size)).all() else order
        self._flows = WarmStarts(graph.warm_state)
        self.integral = integer or forest
        self._exact = integer and not forest
        self._cycles = cycles and not self.integral
        if self.integral and len(label) <= _FRONT_LABELS:
            self.answers = Question.ARGMAX | Question.FRONT

    @classmethod
    def of_record(cls, record: Record, n: int) -> PairwiseAlgorithm:
        assert isinstance(record, Pairwise)
        graph = PairwiseGraph(len(record.label), record.first, record.second)
        return cls(graph, record.label, record.pair, record.integer, record.forest)

    def _ordered(self, points: FloatArray) -> FloatArray:
        """Return points whose labels come before their pairs as points of the space."""
        if self._order is None:
            return points
        z = np.empty(points.shape)
        z[..., self._order] = points
        return z

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        unary, pair = c[self._label][None], c[self._pair][None]
        Z, bounds, solved = self._solve(unary, pair, None if key is None else self._flows[key], 1)
        if solved is not None and not solved[0]:
            return None
        z = self._ordered(Z[0])
        value = dot(c, z)
        return Optimum(z, value, value if bounds is None else float(bounds[0]))

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        unary, pair = C[:, self._label], C[:, self._pair]
        Z, bounds, solved = self._solve(unary, pair, self._flows.batch(keys), n_jobs)
        found = Solutions.of_labels(C, self._ordered(Z), solved)
        return found if bounds is None else found._replace(bounds=bounds)

    def _solve(
        self, unary: FloatArray, pair: FloatArray, state: FlowState | None, n_jobs: int
    ) -> tuple[FloatArray, FloatArray | None, BoolArray | None]:
        """Return points (labels, then pairs), bounds (None: their values), and which rows are solved (None: all)."""
        if self._exact:
            Y, _, proved = self._graph.solve_exact(unary, pair, n_jobs=n_jobs)
            return self._graph.with_products(Y), None, proved
        Z, values = self._graph.solve_points(unary, pair, state=state, n_jobs=n_jobs)
        bounds = self._graph.tighten(unary, pair, Z, values, n_jobs) if self._cycles else None
        return Z, bounds, None if bounds is None else np.isfinite(bounds)

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray:
        labels, pairs = self._label, self._pair
        costs = h[labels][None], h[pairs][None], np.array([h_const])
        losses = g[labels][None], g[pairs][None], np.array([g_const])
        # `front_batch` without its checks, which take as long as the front of few labels.
        codes, _, _ = front_rows(self._graph.i, self._graph.j, *costs, *losses, 0, 1, np.empty(1, dtype=np.int64))
        Y = self._graph.labels_of(codes)
        return self._ordered(self._graph.with_products(Y))

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        if Question.FRONT not in self.answers or G[:, self._pair].any():
            return None
        return PairwiseFronts(self, G[:, self._label], g_const)


class PairwiseFronts(FrontPlan):
    """Fronts of few pairwise labels, by enumeration; losses are of the labels alone."""

    finds_products = True

    def __init__(self, algorithm: PairwiseAlgorithm, G: FloatArray, g_const: FloatArray) -> None:
        self._algorithm, self._G, self._g_const = algorithm, G, g_const
        self.cost = 4.0
        self.entries = np.full(len(G), 64 * (2 + G.shape[1]))

    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        own = self._algorithm
        unary, pair = H[:, own._label], H[:, own._pair]
        ptr, Y, h, g = own._graph.front_batch(unary, pair, h_const, self._G[some], self._g_const[some], n_jobs)
        return Fronts(ptr, h, g, lambda places: own._ordered(own._graph.with_products(Y[places])))

    def best_products(
        self, H: FloatArray, h_const: FloatArray, n_jobs: int = 1
    ) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        own = self._algorithm
        return self.best_of_tables(H[:, own._label], H[:, own._pair], h_const, n_jobs)

    def best_of_tables(
        self, unary: FloatArray, pair: FloatArray, h_const: FloatArray, n_jobs: int
    ) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Return `best_products` from scores of labels and of pairs; None if the pairs of two examples differ."""
        if pair.strides[0] and (pair != pair[:1]).any():
            return None
        own, weights = self._algorithm, pair[0] if len(pair) else np.empty(0)
        Y, h, g = own._graph.best_product_batch(unary, weights, 1.0 + h_const, self._G, self._g_const, n_jobs)
        idle = h * g <= 0.0
        return own._ordered(own._graph.with_products(Y)), np.where(idle, 0.0, h - 1.0), np.where(idle, 0.0, g)
