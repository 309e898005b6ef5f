"""`Batch`: a data set prepared for one model; scores, inference and gradients of all examples at a time.

`Batch` stacks the feature rows and has the products: scores of parts, scores of labels, gradients. What a label is in
compact form its family's `structopt.model.codec.BatchCodec` knows, which label is best its
`structopt.model.inference.BatchInference`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.algorithms.fronts import MostViolated
from structopt.algorithms.parts import Maxima
from structopt.checks import converted, floats
from structopt.errors import DeclarationError
from structopt.features import Term
from structopt.model.codec import BatchCodec, LabelBatch, PointCodec, labels_given
from structopt.model.data_set import DataSet, is_tied
from structopt.model.forms import LabelForm
from structopt.model.inference import BatchFronts, BatchInference, Query
from structopt.model.loss_batch import LossBatch, Weight, ranges
from structopt.model.part_tables import add_joint, add_scores
from structopt.space.compiled import FloatArray
from structopt.surrogates.compiled import PRODUCT
from structopt.surrogates.levels import level_choice

if TYPE_CHECKING:
    from structopt.model import Model

__all__ = ["Batch", "LabelBatch", "LossBatch"]

# Up to this number of variables a dense product takes less time than a sparse table.
_FEW_VARIABLES = 64


class Batch:
    """The inputs of a data set with the feature rows of each term stacked into one matrix.

    Parameters
    ----------
    model : Model
    X : matrix or list of inputs

    Attributes
    ----------
    data : DataSet
        The inputs and their feature rows.
    n : int
        Number of examples.
    sizes : ndarray of int or None
        What the label space of each input depends on (a length, a shape), where the model says so; see `Model._sizes`.
    rows : list of matrix
        The feature rows of each term, of all examples one after the other.
    starts : list of ndarray
        The rows of example i are ``starts[term][i]:starts[term][i + 1]``.
    columns : list of int
        Columns of the weights of each term.
    n_weights : int
    codec : BatchCodec
        Between labels in the user's form, their compact form, and part tables.
    inference : BatchInference
        The inference that finds the best labels.
    """

    def __init__(self, model: Model, X: Any) -> None:
        data = DataSet(model, X)
        self._hold(data, model._batch_codec(data), model._inference(data))
        # Labels are points of few variables, and all features dense.
        points = isinstance(self.codec, PointCodec) and not (self.codec.holds_mixtures or self.codec.is_sparse)
        few = points and model.fixed and model.space().n_variables <= _FEW_VARIABLES
        self._dense = few and all(isinstance(rows, np.ndarray) for rows in data.contents)

    def _hold(self, data: DataSet, codec: BatchCodec[Any], inference: BatchInference[Any]) -> None:
        """Take a data set, and what encodes its labels and finds the best ones."""
        self.data, self.codec, self.inference = data, codec, inference
        self.model, self.X, self.n, self.sizes = data.model, data.X, data.n, data.sizes
        self.starts, self.columns, self.n_weights = data.starts, data.columns, data.n_weights
        self._dense = False

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        rows = sum(int(start[-1]) for start, term in zip(self.starts, self._terms, strict=True) if not is_tied(term))
        return f"<Batch of {type(self.model).__name__}: {self.n} examples, {rows} rows, {self.n_weights} weights>"

    @property
    def rows(self) -> list[Any]:
        """The feature rows of each term, of all examples one after the other."""
        return self.data.rows

    @property
    def one_of_many(self) -> bool:
        """Whether every label is one class out of K, in compact form its number."""
        return self.codec.one_of_many

    @property
    def _terms(self) -> list[Term]:
        return list(self.model.features.values())

    def input(self, i: int) -> Any:
        """Example `i` in the form of its model."""
        return self.data.input(i)

    @property
    def same_space(self) -> list[IntArray]:
        """Examples by their label space: the numbers of those that share one."""
        return self.data.same_space

    # ---- products --------------------------------------------------------------------------------

    def split(self, w: FloatArray) -> list[FloatArray]:
        """``w`` as one matrix ``(K, d)`` per term (views)."""
        w = converted("w", w)
        if w.shape != (self.n_weights,):
            raise DeclarationError(f"w has shape {w.shape}; this model and data need ({self.n_weights},).")
        parts, start = [], 0
        for columns, rows in zip(self.columns, self.rows, strict=True):
            stop = start + columns * rows.shape[1]
            parts.append(w[start:stop].reshape(columns, rows.shape[1]))
            start = stop
        return parts

    def tables(self, w: FloatArray) -> list[FloatArray]:
        """Scores of all parts: one ``(rows, K)`` table per term.

        Tied weights have the same row for every example, which is kept once (read-only).
        """
        return [
            np.broadcast_to(W[:, 0], (self.n, len(W))) if is_tied(term) else np.asarray(rows @ W.T)
            for term, rows, W in zip(self._terms, self.rows, self.split(w), strict=True)
        ]

    def dot(self, tables: Sequence[FloatArray], labels: LabelBatch) -> FloatArray:
        """The score of each example's label."""
        known = None if labels.native is None else self.codec.scores(tables, labels.native)
        if known is not None:
            return known
        total = np.zeros(self.n)
        for scores, parts, start in zip(tables, labels.tables, self.starts, strict=True):
            tied = scores.strides[0] == 0 and len(scores) > 0  # one row that stands for all
            if scores.ndim != 2 or parts.shape != scores.shape or len(scores) != start[-1]:
                raise DeclarationError(
                    f"A table of scores has shape {scores.shape}, a table of labels {parts.shape}; this data set has "
                    f"{int(start[-1])} feature rows for them."
                )
            rows = np.ascontiguousarray(scores[:1] if tied else scores)
            add_scores(rows, 0 if tied else 1, parts.indptr, parts.indices, parts.data, start, total)
        return total

    def joint(self, labels: LabelBatch, weights: FloatArray | None = None) -> FloatArray:
        """``sum_i weights_i joint(x_i, z_i)``: one product per term."""
        parts = []
        for t, (rows, table, start) in enumerate(zip(self.rows, labels.tables, self.starts, strict=True)):
            if isinstance(rows, np.ndarray) and rows.dtype == np.float64 and rows.flags.c_contiguous:
                factors = np.ones(self.n) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
                sums = np.zeros((self.columns[t], rows.shape[1]))
                add_joint(table.indptr, table.indices, table.data, start, factors, rows, sums)
                parts.append(sums.ravel())
                continue
            weighted = table
            if weights is not None:
                per_row = np.repeat(weights, np.diff(start))
                data = table.data * np.repeat(per_row, np.diff(table.indptr))
                weighted = sp.csr_array((data, table.indices, table.indptr), shape=table.shape)
            product = weighted.T @ rows
            parts.append(product.toarray().ravel() if sp.issparse(product) else np.asarray(product).ravel())
        return np.concatenate(parts).astype(np.float64, copy=False)

    def joint_differences(self, labels: LabelBatch, truth: LabelBatch, weights: FloatArray) -> FloatArray:
        """``sum_i weights_i (joint(x_i, z_i) - joint(x_i, y_i))``: the sum of feature differences of a subgradient."""
        if self._dense and labels.native is not None and truth.native is not None:
            # For few variables sparse tables take longer to make than the whole product.
            return self._joint_of_points(weights[:, None] * (np.asarray(labels.native) - np.asarray(truth.native)))
        return self.joint(labels, weights) - self.joint(truth, weights)

    def _joint_of_points(self, Z: FloatArray) -> FloatArray:
        """``sum_i joint(x_i, Z_i)`` of few variables and dense feature rows."""
        blocks = [Z[:, self.data.block_of(t).slice] for t in range(len(self.columns))]
        parts = [(self.data.fold_blocks(t, blocks[t]).T @ rows).ravel() for t, rows in enumerate(self.rows)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    # ---- labels ----------------------------------------------------------------------------------

    def labels(self, native: Any, slack: FloatArray | None = None) -> LabelBatch:
        """Labels in the codec's compact form, with part tables made on demand."""
        return LabelBatch(partial(self.codec.tables, native), native, slack)  # no lambda: a risk can be pickled

    def truth(self, Y: Sequence[Any]) -> LabelBatch:
        """The given labels, encoded; all that are not in their space are reported together."""
        labels = self.labels(self.codec.encode(Y))
        if self.model._loss_needs_labels:
            labels.given = [np.array(Y[i]) for i in range(self.n)]
        return labels

    def decode(self, labels: LabelBatch, form: LabelForm | None = None) -> list[Any]:
        """Return the labels in the user's form; `form` is a result of `structopt.model.forms.label_form`."""
        if form is not None and isinstance(self.codec, PointCodec):
            return self.codec.decode_as(labels.native, form)
        return self.codec.decode(labels.native)

    def loss(self, truth: LabelBatch) -> LossBatch:
        """The linear task loss of each example's truth."""
        return self.codec.losses(truth.native, truth.given)

    def loss_values(self, loss: LossBatch, labels: LabelBatch) -> FloatArray:
        """Return the task loss of each example's label."""
        return loss.values(self.codec.loss_parts(labels.native))

    def loss_steps(self, loss: LossBatch) -> FloatArray:
        """Return the step of each example's loss: its values differ by multiples of it; 0 if unknown."""
        return loss.steps(self.codec.fixed_sums)

    # ---- inference -------------------------------------------------------------------------------

    def argmax(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None = None,
        weight: Weight = 1.0,
        *,
        n_jobs: int = 1,
        examples: npt.NDArray[np.intp] | None = None,
    ) -> tuple[LabelBatch, FloatArray]:
        """The best label of each example under ``score + weight * loss``, and these values.

        Parameters
        ----------
        tables : sequence of ndarray
            Scores of the parts; see `tables`.
        loss : LossBatch, optional
        weight : float or ndarray of shape (n,)
            Weight of the loss: one number, or one for each example.
        n_jobs : int
            Threads.
        examples : array of int, optional
            Restricts the work to some examples; the others then have no label, that is empty part tables, and value 0.

        Returns
        -------
        labels : LabelBatch
            If a solver stopped early, `LabelBatch.slack` says how much larger the maximum may be.
        values : ndarray, shape (n,)
        """
        some = self._some(examples)
        found = self.inference.maximize(Query(tables, loss, weight, some, n_jobs))
        native = self.codec.spread([piece.labels for piece in found], some)
        gaps = _gaps(found)
        best = found[0].values if len(found) == 1 else np.concatenate([np.empty(0), *(piece.values for piece in found)])
        if loss is not None:
            consts = loss.const if some is None else loss.const[some]
            factors = weight if np.ndim(weight) == 0 or some is None else np.asarray(weight)[some]
            best = best + factors * consts
        if some is None:
            return self.labels(native, gaps), best
        values, slack = np.zeros(self.n), None if gaps is None else np.zeros(self.n)
        values[some] = best
        if slack is not None:
            slack[some] = gaps
        return self.labels(native, slack), values

    def _some(self, examples: npt.NDArray[np.intp] | None) -> IntArray | None:
        return None if examples is None else np.unique(np.asarray(examples, dtype=np.int64))

    def front_cost(self, loss: LossBatch) -> float | None:
        """The time of `fronts` in calls of `argmax`, roughly; None if there are none for this model and loss."""
        return self.inference.front_cost(loss)

    def fronts(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch,
        truth: LabelBatch,
        *,
        n_jobs: int = 1,
        examples: npt.NDArray[np.intp] | None = None,
        between: tuple[FloatArray, FloatArray] | None = None,
    ) -> Iterator[BatchFronts]:
        """The exact Pareto fronts of (margin, loss) of all examples or of some, in blocks of examples.

        Parameters
        ----------
        tables, loss, n_jobs, examples
            As in `argmax`.
        truth : LabelBatch
            The ground truths: margins are differences to their scores.
        between : tuple of ndarray, optional
            The smallest and the largest loss that matter, for each of `examples`, which are increasing: a front may
            leave out labels of other losses.

        Yields
        ------
        examples, fronts : ndarray and Fronts
            Increasing examples, and their fronts: arrays ``h`` and ``g`` by example, and ``decode`` from one place of
            each to labels in compact form (place -1: the ground truth).
        """
        some = self._some(examples)
        return self.inference.fronts(Query(tables, loss, 1.0, some, n_jobs), truth.native, between)

    def argmax_surrogate(
        self,
        surrogate: Any,
        tables: Sequence[FloatArray],
        loss: LossBatch,
        truth: LabelBatch,
        n_jobs: int = 1,
        most_cost: float = np.inf,
        *,
        examples: npt.NDArray[np.intp] | None = None,
    ) -> tuple[LabelBatch, FloatArray, FloatArray] | None:
        """The label with the largest ``psi(margin, loss)`` of each example, with its margin and loss, exactly.

        One scan over the fronts. None if there are none, or they take longer than `most_cost` inferences, or the
        surrogate is of other factors than margin and loss; each example is then searched in its plane. Where nothing is
        violated the label is the ground truth, with margin and loss 0.
        """
        if surrogate.counts:
            return None
        query = Query(tables, loss, 1.0, self._some(examples), n_jobs)
        code, shift = surrogate.form.numbers[:2]
        if query.some is None and code == PRODUCT and shift == 1.0:
            best = self.inference.maximize_product(query, truth.native)
            if best is not None:
                return self.labels(self.codec.spread([best.labels], None)), best.margin, best.loss
        cost = self.front_cost(loss)
        if cost is None or cost > most_cost:
            return None
        h, g, parts, order = np.zeros(self.n), np.zeros(self.n), [], list[IntArray]()
        for block, front in self.inference.fronts(query, truth.native):
            places, h[block], g[block] = most_violated(surrogate, front)
            parts.append(front.decode(places))
            order.append(block)
        # Blocks of examples that share a space are not in the order of the examples.
        done = np.concatenate(order) if order else np.empty(0, dtype=np.int64)
        in_order = len(done) == self.n and bool((np.diff(done) > 0).all())
        return self.labels(self.codec.spread(parts, None if in_order else done)), h, g

    def argmax_levels(
        self,
        surrogate: Any,
        tables: Sequence[FloatArray],
        loss: LossBatch,
        truth: LabelBatch,
        mixes: bool,
    ) -> tuple[LabelBatch, MostViolated] | None:
        """The label, or the mixture of two, with the largest ``psi(h, g)`` of each example, by levels of its loss.

        Exact; None if the loss has no levels, or tables of them take longer than a search. Where nothing is violated
        the label is the ground truth.
        """
        if surrogate.counts:
            return None
        found = self.inference.maximize_levels(Query(tables, loss), truth.native, level_choice(surrogate, mixes))
        return None if found is None else (self.labels(self.codec.spread([found.Z], None)), found)

    # ---- points ----------------------------------------------------------------------------------

    def costs(self, tables: Sequence[FloatArray]) -> Any:
        """Objective coefficients of the variables: an array ``(n, n_variables)``, or a list where spaces differ."""
        if self.model.fixed:
            return self.data.costs(tables)
        return [self.data.costs_of(i, tables) for i in range(self.n)]

    def costs_of(self, i: int, tables: Sequence[FloatArray]) -> FloatArray:
        """Objective coefficients of the variables of one example."""
        return self.data.costs_of(i, tables)

    def fold(self, Z: Any) -> LabelBatch:
        """Points, one per example, as labels."""
        return LabelBatch(partial(self.data.fold, Z), self.codec.from_points(Z))

    def fold_some(self, points: Sequence[Any], examples: npt.NDArray[np.intp]) -> list[sp.csr_array]:
        """Part tables with the points of some examples (increasing); the rows of the others are empty."""
        tables = self.data.fold([points[i] for i in examples.tolist()], examples)
        return [_spread(table, start, examples) for table, start in zip(tables, self.starts, strict=True)]

    def points(self, Z: Any) -> Any:
        """Points given by a caller, checked: one for each example, of the length of its space."""
        Z = labels_given(Z, self.n)
        if self.model.fixed:
            return floats("Z", Z, (self.n, self.model.space().n_variables))
        return [floats(f"Z[{i}]", Z[i], (self.model.space(self.input(i)).n_variables,)) for i in range(self.n)]


def _gaps(found: Sequence[Maxima]) -> FloatArray | None:
    """Return by how much the bounds of labels exceed their values; None if they do not."""
    if all(piece.bounds is None or piece.bounds is piece.values for piece in found):
        return None
    gaps = np.concatenate([(v if b is None else b) - v for _, v, b in found])
    return np.maximum(gaps, 0.0) if gaps.max(initial=0.0) > 0.0 else None


def most_violated(surrogate: Any, front: Any) -> tuple[IntArray, FloatArray, FloatArray]:
    """The point of largest ψ of every front: its place, h and g; place -1 and zeros where none is positive."""
    h, g = front.h, front.g
    # Whole arrays, several at a time: a tenth of the time of one formula after the other in a kernel.
    finite = h > -np.inf
    if finite.all():
        psi = surrogate.clipped_array(h, g)
    else:
        psi = np.zeros(h.shape)
        psi[finite] = surrogate.clipped_array(h[finite], g[finite])
    places = front.best(psi)
    violated = psi[places] > 0.0
    return np.where(violated, places, -1), np.where(violated, h[places], 0.0), np.where(violated, g[places], 0.0)


def _spread(table: sp.csr_array, start: npt.NDArray[np.intp], examples: npt.NDArray[np.intp]) -> sp.csr_array:
    """The rows of some examples, one after the other, put in their places among the rows of all."""
    counts = np.zeros(int(start[-1]), dtype=np.int64)
    counts[ranges(start[examples], start[examples + 1])] = np.diff(table.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return sp.csr_array((table.data, table.indices, indptr), shape=(int(start[-1]), table.shape[1]))
