"""Binary labels that talk to each other: pairwise Markov random fields and their local-polytope relaxation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt.algorithms.counting import LISTED, equal_weight, most_violated
from structopt.algorithms.maxflow import FlowState
from structopt.algorithms.pairwise.graph import PairwiseGraph
from structopt.checks import checked, floats, integers
from structopt.errors import DeclarationError
from structopt.features import Linear, Tied
from structopt.losses import Hamming, TaskLoss
from structopt.model import Model
from structopt.model.batch import Batch, LabelBatch, LossBatch, part_table
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.structures.multilabel import binary_rows
from structopt.surrogates import Slack

__all__ = ["PairwiseMRF"]

# Flows kept from call to call, one per example: at most this many bytes.
_FLOW_LIMIT = 1 << 29


class PairwiseMRF(Model):
    """0/1 labels with a weight vector each and one weight for every pair that is on together.

    The space is the local polytope ``p <= y_i, p <= y_j, p >= y_i + y_j - 1``: its relaxation is solved by roof duality
    (one max-flow, half-integral answers equal to the LP's), its integral labels by persistency and enumeration.

    Parameters
    ----------
    n : int
        Number of labels.
    edges : array_like of int, shape (n_edges, 2), optional
        Pairs of labels; the full graph by default.
    loss : TaskLoss, optional
        Hamming by default.
    intercept : bool
        Append the constant 1 to the features.
    solver : str, path or Backend
        ``"auto"`` is the structure's own algorithm. Any other profile or backend is asked for every label, in training
        and prediction, over the declared program.
    integral : {"auto", "relax"}
        ``"relax"`` optimises over the relaxation, in training and prediction; labels may then be 1/2.

    Examples
    --------
    Labels 0 and 1 attract each other, 2 repels both:

    >>> import structopt as so
    >>> model = so.structures.PairwiseMRF(3)
    >>> model.predict([1.0, -0.5, 0.8, 2.0, -1.0, -1.0], [1.0])
    array([1, 1, 0])
    """

    @checked
    def __init__(
        self,
        n: int,
        edges: npt.ArrayLike | None = None,
        loss: TaskLoss | None = None,
        intercept: bool = False,
        solver: Any = "auto",
        integral: Any = "auto",
    ) -> None:
        self.n = n
        self.edges = edges
        self.intercept = intercept
        first, second = _pairs(n, edges)
        self.graph = PairwiseGraph(n, first, second)
        space = LabelSpace("pairwise MRF")
        y = space.binary("y", n)
        p = space.continuous("pair", len(first), 0, 1)
        space.subject_to(p <= y[first], name="first")
        space.subject_to(p <= y[second], name="second")
        space.subject_to(p >= y[first] + y[second] - 1, name="both")
        features = {"y": Linear(intercept=intercept), "pair": Tied()}
        super().__init__(space, features, loss or Hamming(), solver=solver, integral=integral)

    def _products(self, y: FloatArray) -> FloatArray:
        return y[..., self.graph.i] * y[..., self.graph.j]

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The labels and their products."""
        y = binary_rows(floats("A label", label)[None], 1, self.n)[0]
        return np.concatenate([y, self._products(y)])

    @property
    def is_relaxed(self) -> bool:
        """Whether labels are points of the relaxation."""
        return bool(self.integral == "relax")

    def batch(self, X: Any) -> PairwiseBatch:
        """A data set prepared once."""
        return self._batch(PairwiseBatch, X)


class PairwiseBatch(Batch):
    """A data set of a pairwise model; labels are points ``(y, pair)``, flows are kept from call to call."""

    model: PairwiseMRF

    def __init__(self, model: PairwiseMRF, X: Any) -> None:
        super().__init__(model, X)
        self._flows: FlowState | None = None
        if model.is_relaxed and self.n * 17 * model.graph.n_edges <= _FLOW_LIMIT:
            self._flows = model.graph.warm_state(self.n)

    def _labels(self, Y: FloatArray, P: FloatArray) -> LabelBatch:
        return LabelBatch([part_table(Y), part_table(P)], np.hstack([Y, P]))

    def truth(self, Y: Any) -> LabelBatch:
        rows = binary_rows(Y, self.n, self.model.n)
        return self._labels(rows, self.model._products(rows))

    def loss(self, truth: LabelBatch) -> LossBatch:
        n = self.model.n
        return LossBatch(*self.model._losses(self.model.space())["y"].linear_batch(truth.native[:, :n]))

    def argmax(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None = None,
        weight: float = 1.0,
        *,
        n_jobs: int = 1,
        examples: npt.NDArray[np.intp] | None = None,
    ) -> tuple[LabelBatch, FloatArray]:
        some = np.arange(self.n) if examples is None else np.asarray(examples)
        unary = np.asarray(tables[0][some], dtype=np.float64)
        if loss is not None:
            unary = unary + weight * loss.coef[some]
        pair = np.asarray(tables[1][some], dtype=np.float64)
        Y, P = np.zeros((self.n, self.model.n)), np.zeros((self.n, self.model.graph.n_edges))
        Y[some], P[some], found, bounds = self._solve(unary, pair, some, n_jobs)
        values = np.zeros(self.n)
        values[some] = found if loss is None else found + weight * loss.const[some]
        slack = None
        if bounds is not None:
            slack = np.zeros(self.n)
            slack[some] = np.maximum(bounds - found, 0.0)
        return replace(self._labels(Y, P), slack=slack), values

    def _solve(self, unary: FloatArray, pair: FloatArray, some: npt.NDArray[np.intp], n_jobs: int) -> Any:
        graph = self.model.graph
        if self.model.is_relaxed:
            if self._flows is None or len(some) == self.n:
                return *graph.solve_batch(unary, pair, state=self._flows, n_jobs=n_jobs), None
            part = self._flows.take(some)
            found = graph.solve_batch(unary, pair, state=part, n_jobs=n_jobs)
            self._flows.put(some, part)
            return *found, None
        Y, values, proved = graph.solve_exact_batch(unary, pair, n_jobs=n_jobs)
        P = self.model._products(Y)
        if proved.all():
            return Y, P, values, None
        oracle, bounds = self.model.oracle(), values.copy()
        for i in np.flatnonzero(~proved):
            start = np.concatenate([Y[i], P[i]])
            label = oracle.maximize(np.concatenate([unary[i], pair[i]]), start=start)
            Y[i], P[i], values[i] = label.z[: self.model.n], label.z[self.model.n :], label.value
            bounds[i] = label.bound
        return Y, P, values, bounds

    def argmax_surrogate(
        self, surrogate: Any, tables: Sequence[FloatArray], loss: LossBatch, truth: LabelBatch, n_jobs: int = 1
    ) -> tuple[LabelBatch, FloatArray, FloatArray] | None:
        graph, n = self.model.graph, self.model.n
        if not graph.n_edges and not self.model.is_relaxed and not surrogate.counts:
            # Labels that do not talk to each other need no enumeration.
            weight = equal_weight(loss.coef, loss.const, truth.native[:, :n])
            if weight is not None:
                scores = np.asarray(tables[0], dtype=np.float64)
                Y, h, g = most_violated(surrogate, scores, truth.native[:, :n], weight)
                return self._labels(Y, self.model._products(Y)), h, g
        # Up to 16 labels all 2^n products are cheaper than a search (docs/mathematics/oracles).
        if self.model.is_relaxed or self.model.n > LISTED or type(surrogate) is not Slack:
            return None
        margin_const = 1.0 - self.dot(tables, truth)
        unary, pair = np.asarray(tables[0], dtype=np.float64), np.asarray(tables[1][0], dtype=np.float64)
        Y, h, g = self.model.graph.best_product_batch(unary, pair, margin_const, loss.coef, loss.const, n_jobs)
        idle = h * g <= 0
        Y[idle] = truth.native[idle, : self.model.n]
        return self._labels(Y, self.model._products(Y)), np.where(idle, 0.0, h - 1.0), np.where(idle, 0.0, g)

    def loss_values(self, loss: LossBatch, labels: LabelBatch) -> FloatArray:
        return np.asarray(np.einsum("ij,ij->i", loss.coef, labels.native[:, : self.model.n]) + loss.const)


def _pairs(n: int, edges: npt.ArrayLike | None) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    if n < 1:
        raise DeclarationError(f"PairwiseMRF needs at least one label, got n = {n}.")
    if edges is None:
        return np.triu_indices(n, k=1)
    pairs = integers("edges", edges)
    if pairs.size and (pairs.ndim != 2 or pairs.shape[1] != 2):
        raise DeclarationError(f"edges must be pairs of labels, an array of shape (m, 2); got shape {pairs.shape}.")
    pairs = pairs.reshape(-1, 2)
    outside = np.flatnonzero(((pairs < 0) | (pairs >= n)).any(axis=1))
    if outside.size:
        raise DeclarationError(f"Edge {tuple(pairs[outside[0]].tolist())} joins labels outside 0..{n - 1}.")
    pairs = np.sort(pairs, axis=1)
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if loops.size:
        raise DeclarationError(f"Edge {tuple(pairs[loops[0]].tolist())} joins a label with itself.")
    _, first, counts = np.unique(pairs, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        raise DeclarationError(f"Edge {tuple(pairs[first[counts > 1][0]].tolist())} is given twice.")
    return pairs[:, 0], pairs[:, 1]
