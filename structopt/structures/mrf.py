"""Pairwise Markov random fields over binary labels, and their local-polytope relaxation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.algorithms.base import Algorithm
from structopt.algorithms.pairwise.algorithm import PairwiseAlgorithm
from structopt.algorithms.pairwise.cycles import triangles, violated_cycles
from structopt.algorithms.pairwise.graph import PairwiseGraph
from structopt.algorithms.pairwise.halves import HalfLabels
from structopt.algorithms.pairwise.parts import PairwiseParts
from structopt.algorithms.parts import PartSolver
from structopt.checks import checked, choice, floats, integers
from structopt.errors import DeclarationError
from structopt.features import Linear, Tied, n_examples
from structopt.losses import Hamming, TaskLoss
from structopt.model import Model
from structopt.model.codec import BatchCodec, PointCodec, csr_table, part_table
from structopt.model.data_set import DataSet
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.structures.multilabel import binary_rows

__all__ = ["Cycles", "PairwiseMRF"]

# From this number of labels and pairs on a label is kept without its pairs.
_MANY_VARIABLES = 1000
# A cycle inequality that is violated by less is not returned.
_TOLERANCE = 1e-5
# Triangles of a graph that are listed; more are found as cycles are, by shortest paths.
_MOST_TRIANGLES = 1 << 18


class Cycles:
    """The separation of pairwise labels: cycle inequalities (`structopt.algorithms.pairwise.cycles`).

    Triangles are looked through, the most violated are returned; where none is violated, longer cycles are found by
    shortest paths, so that a violated inequality is found wherever there is one.
    """

    #: Threads may call it at once (see `Separation.lock`): it has no state, and its kernels run side by side.
    concurrent = True

    def __init__(self, n: int, first: IntArray, second: IntArray) -> None:
        self.n, self.first, self.second = n, first, second
        m = len(first)
        self._edge_at = np.full((n, n), -1)
        self._edge_at[first, second] = self._edge_at[second, first] = np.arange(m)
        # Quick to bound from above, and the list is not made where it would be long.
        sides = np.bincount(np.concatenate([first, second]), minlength=n)
        self._triangles = np.zeros((0, 3), dtype=np.int64)
        if (sides * (sides - 1)).sum() <= 6 * _MOST_TRIANGLES:
            self._triangles = triangles(n, self._edge_at)
        edges = np.arange(m)
        ends, columns = np.tile(edges, 3), np.concatenate([first, second, n + edges])
        # By how much the ends of each edge differ: y_i + y_j - 2 p.
        self._differ = sp.csr_array((np.repeat([1.0, 1.0, -2.0], m), (ends, columns)), shape=(m, n + m))

    def __call__(self, z: dict[str, FloatArray]) -> tuple[sp.csr_array, float, FloatArray] | None:
        y, pair = z["y"], z["pair"]
        x = np.clip(y[self.first] + y[self.second] - 2.0 * pair, 0.0, 1.0)
        rows = self._triangle_rows(x)
        if rows is None:
            rows = self._cycle_rows(x)
        if rows is None:
            return None
        signs, upper = rows
        return sp.csr_array(signs @ self._differ), -np.inf, upper

    def _triangle_rows(self, x: FloatArray) -> tuple[sp.csr_array, FloatArray] | None:
        sides = x[self._triangles]
        around = sides.sum(axis=1)
        excess = np.column_stack([2.0 * sides - around[:, None], around - 2.0]).ravel()
        violated = np.flatnonzero(excess > _TOLERANCE)
        if not len(violated):
            return None
        violated = violated[np.argsort(-excess[violated], kind="stable")[: 4 * self.n]]
        number, kind = np.divmod(violated, 4)
        signs = np.where((kind[:, None] == 3) | (kind[:, None] == np.arange(3)), 1.0, -1.0)
        starts = 3 * np.arange(len(number) + 1)
        matrix = sp.csr_array((signs.ravel(), self._triangles[number].ravel(), starts), shape=(len(number), len(x)))
        return matrix, np.where(kind == 3, 2.0, 0.0)

    def _cycle_rows(self, x: FloatArray) -> tuple[sp.csr_array, FloatArray] | None:
        starts, edges, odd = violated_cycles(self._edge_at, x, 1.0 - _TOLERANCE)
        if len(starts) == 1:
            return None
        matrix = sp.csr_array((np.where(odd, 1.0, -1.0), edges, starts), shape=(len(starts) - 1, len(x)))
        return matrix, np.add.reduceat(odd.astype(np.float64), starts[:-1]) - 1.0


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
        ``"auto"`` is the structure's own algorithm. Any other profile or backend finds every label, in training
        and prediction, over the declared program.
    integral : {"auto", "relax"}
        ``"relax"`` optimises over the relaxation, in training and prediction; labels may then be 1/2.
    tighten : {None, "cycles"}
        ``"cycles"`` adds the cycle inequalities to the relaxation, as lazy rows: most models whose relaxation is
        fractional have an integral one then.

    Notes
    -----
    With the cycle inequalities a relaxation is solved by roof duality first. What it leaves open, if it is at most 20
    labels, goes to a simplex method of its own (docs/mathematics/oracles#cycle-inequalities), the rest to HiGHS.

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
        tighten: str | None = None,
    ) -> None:
        choice("integral", integral, ("auto", "relax", "force"))
        if tighten is not None:
            choice("tighten", tighten, ("cycles",))
        self.n = n
        self.edges = edges
        self.intercept = intercept
        self.tighten = tighten
        first, second = _pairs(n, edges)
        self.graph = PairwiseGraph(n, first, second)
        space = LabelSpace("pairwise MRF")
        y = space.binary("y", n)
        p = space.continuous("pair", len(first), 0, 1)
        space.subject_to(p <= y[first], name="first")
        space.subject_to(p <= y[second], name="second")
        space.subject_to(p >= y[first] + y[second] - 1, name="both")
        if self.tightened:
            space.lazy(Cycles(n, first, second), name="cycles")
        features = {"y": Linear(intercept=intercept), "pair": Tied()}
        super().__init__(space, features, loss or Hamming(), solver=solver, integral=integral)

    @property
    def tightened(self) -> bool:
        """Whether the space has cycle inequalities; that of a forest does not have any."""
        return self.tighten is not None and not self.graph.is_forest

    def algorithm(self, x: Any) -> Algorithm | None:
        """Roof duality: recognised, except where there are cycle inequalities."""
        if not self.tightened:
            return None
        labels, pairs = np.arange(self.n), self.n + np.arange(self.graph.n_edges)
        return PairwiseAlgorithm(self.graph, labels, pairs, not self.is_relaxed, False, cycles=True)

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The labels and their products."""
        y = binary_rows(floats("A label", label)[None], 1, self.n)[0]
        return self.graph.with_products(y)

    @property
    def is_relaxed(self) -> bool:
        """Whether labels are points of the relaxation."""
        return bool(self.integral == "relax")

    @property
    def _leaves_out_pairs(self) -> bool:
        """Whether the labels of a data set are kept as halves, without their pairs."""
        halves = self.graph.n_edges > 0 and not (self.is_relaxed and self.tightened)
        return halves and self.n + self.graph.n_edges >= _MANY_VARIABLES

    def _encode_batch(self, labels: Any) -> FloatArray:
        """The labels and their products, one row for each example."""
        rows = binary_rows(labels, n_examples(labels), self.n)
        return self.graph.with_products(rows)

    def _batch_codec(self, data: DataSet) -> BatchCodec[Any]:
        if not self._solves_itself:
            return super()._batch_codec(data)
        # The losses are of the labels only, which stand first.
        return (PairwiseLabels if self._leaves_out_pairs else PointCodec)(data, n_lossy=self.n)

    def _part_solver(self, data: DataSet) -> PartSolver | None:
        # Roof duality over the relaxation; over 0/1 labels enumeration, or persistency and search.
        if not self.graph.n_edges and not self.is_relaxed:
            return None
        ways = self.is_relaxed, self.tightened, self._leaves_out_pairs
        return PairwiseParts(self.graph, data.n, *ways, self._solve_rest)

    def _solve_rest(self, c: FloatArray, start: FloatArray | None) -> tuple[FloatArray, float, float]:
        """Return the best point, its value and a bound, for an objective that the graph's own methods leave."""
        label = self.oracle().maximize(c, start=start)
        return label.z, label.value, label.bound


class MixedHalves(NamedTuple):
    """``shares[0, i] * first_i + shares[1, i] * second_i``, for every example i."""

    first: HalfLabels
    second: HalfLabels
    shares: FloatArray


class PairwiseLabels(PointCodec):
    """Half-integral labels without their pairs, and mixtures of two of them (`structopt.algorithms.pairwise.halves`).

    For models with many pairs: as long as a data set is trained on, points of all its examples would take more memory
    than its features. Points that a caller gives stay points.
    """

    holds_mixtures = True

    @property
    def _graph(self) -> PairwiseGraph:
        return cast("PairwiseMRF", self.data.model).graph

    def encode(self, Y: Any) -> HalfLabels:
        model = cast("PairwiseMRF", self.data.model)
        return HalfLabels.of_labels(binary_rows(Y, self.n, model.n), model.graph.n_edges)

    def decode(self, labels: Any) -> list[Any]:
        together = self.data.model._decode_batch(self._lossy(labels))
        return super().decode(self._points(labels)) if together is None else together

    def tables(self, labels: Any) -> list[sp.csr_array]:
        if isinstance(labels, HalfLabels):
            indptr, indices, data = self._graph.pairs_of(labels)
            pairs = csr_table(data, indices, indptr, (self.n, self._graph.n_edges))
            return [part_table(labels.y), pairs]
        if isinstance(labels, MixedHalves):
            first, second = self.tables(labels.first), self.tables(labels.second)
            by_row = [sp.diags_array(share) for share in labels.shares]
            return [sp.csr_array(by_row[0] @ a + by_row[1] @ b) for a, b in zip(first, second, strict=True)]
        return super().tables(labels)

    def _points(self, labels: Any) -> Any:
        """The labels with their pairs."""
        if isinstance(labels, (HalfLabels, MixedHalves)):
            return np.hstack([table.toarray() for table in self.tables(labels)])
        return labels

    def _lossy(self, points: Any) -> FloatArray:
        if isinstance(points, HalfLabels):
            return points.y
        if isinstance(points, MixedHalves):
            first, second = (share[:, None] for share in points.shares)
            return np.asarray(first * points.first.y + second * points.second.y)
        return super()._lossy(points)

    def spread(self, parts: Sequence[Any], some: IntArray | None) -> Any:
        if len(parts) == 1 and isinstance(parts[0], HalfLabels):
            return parts[0] if some is None else parts[0].spread(some, self.n)
        return super().spread([self._points(part) for part in parts], some)

    def scores(self, tables: Sequence[FloatArray], labels: Any) -> FloatArray | None:
        if isinstance(labels, HalfLabels):
            return self._graph.scores_of(labels, *tables)
        if isinstance(labels, MixedHalves):
            first, second = (self._graph.scores_of(part, *tables) for part in labels[:2])
            return np.asarray(labels.shares[0] * first + labels.shares[1] * second)
        return None

    def mixture(self, labels: Sequence[Any], numbers: IntArray, shares: FloatArray) -> Any:
        if not all(isinstance(labels[k], HalfLabels) for k in np.unique(numbers)):
            return None
        first, second = (HalfLabels.taken(labels, which) for which in numbers)
        return MixedHalves(first, second, shares) if shares[1].any() else first


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
