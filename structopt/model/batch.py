"""A data set prepared once: scoring, inference and gradients of all examples at a time.

Labels of a batch are kept as *part tables*: one sparse matrix per feature term, with a row per feature row and the
values of the label's parts in it. Scores of labels and gradients are then sparse-dense products, whatever the
structure; only `argmax` differs from family to family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.checks import converted, examples, floats
from structopt.errors import DeclarationError, LabelNotInSpace, StructoptError
from structopt.features import Term, check_data_set, n_examples, stack_rows
from structopt.model.part_tables import add_scores, fill_rows
from structopt.space.compiled import FloatArray

if TYPE_CHECKING:
    from structopt.model import Model

__all__ = ["Batch", "LabelBatch", "LossBatch", "labels_given", "part_table", "refusal", "slack_of"]


# Labels of all examples that are compared at a time: 32 MB of values.
_COMPARED = 1 << 22


@dataclass(frozen=True, eq=False)
class LabelBatch:
    """One label per example, as part tables.

    Attributes
    ----------
    tables : list of csr_array
        For each feature term, the values of the parts: rows are the term's stacked feature rows.
    native : object
        The labels as the structure's own algorithm has them (points ``z``, state sequences, ...), for decoding.
    slack : ndarray or None
        By how much the proved maximum of each example may exceed the value of its label; None where every label is
        proved best, which is so unless a solver stopped at a gap or a time limit.
    """

    tables: list[sp.csr_array]
    native: Any = field(repr=False)
    slack: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class LossBatch:
    """The linear task loss of every example: coefficients in the structure's own layout, and constants."""

    coef: Any
    const: FloatArray


class Batch:
    """The inputs of a data set with the feature rows of each term stacked into one matrix.

    Parameters
    ----------
    model : Model
    X : matrix or list of inputs

    Notes
    -----
    A family with an algorithm for whole batches (all chains at once, whatever their lengths) overrides `argmax`,
    `truth`, `loss` and `decode`, and leaves the products to this class.

    Attributes
    ----------
    one_of_many : bool
        Every label is one class out of K: `native` labels are the classes' numbers, the only table has a row per
        example with a one in it, and `loss.coef` is ``(n, K)`` and depends on the true class alone.
    """

    one_of_many = False

    def __init__(self, model: Model, X: Any) -> None:
        self.model = model
        X = examples("X", X)
        self.X = X
        self.n = check_data_set(X)
        if not self.n:
            raise DeclarationError("The data set has no examples.")
        self._listed_losses: tuple[LossBatch, FloatArray | None] | None = None
        self.rows: list[Any] = []
        self.starts: list[npt.NDArray[np.intp]] = []
        for term in model.features.values():
            rows, start = stack_rows(term, X)
            _check_finite(rows, start)
            self.rows.append(rows)
            self.starts.append(start)
        self._check_rows()
        space = model.space(self.input(0))
        self.columns = [term.n_columns(space[name].shape) for name, term in model.features.items()]
        self.n_weights = sum(k * rows.shape[1] for k, rows in zip(self.columns, self.rows, strict=True))

    def __len__(self) -> int:
        return self.n

    def input(self, i: int) -> Any:
        """Example `i` as its model wants it."""
        return self.X[[i]] if sp.issparse(self.X) else self.X[i]

    def _check_rows(self) -> None:
        """Every example has as many feature rows as its block has: the kernels rely on it."""
        for t, (name, term) in enumerate(self.model.features.items()):
            counts, expected = np.diff(self.starts[t]), self._expected_rows(name, term)
            if expected is None:
                continue
            wrong = np.flatnonzero(counts != expected)
            if wrong.size or len(counts) != self.n:
                i = int(wrong[0]) if wrong.size else min(self.n, len(counts)) - 1
                wanted = int(np.broadcast_to(expected, counts.shape)[i])
                raise DeclarationError(
                    f"Example {i} of X has {int(counts[i])} feature rows for the block {name!r}, where {term!r} takes "
                    f"{wanted}{self._told_shape(i)}."
                )

    def _told_shape(self, i: int) -> str:
        shape = getattr(self.input(i), "shape", None)
        return "" if shape is None else f"; its shape is {tuple(shape)}, and the last axis are the features of a row"

    def _expected_rows(self, name: str, term: Term) -> Any:
        """Feature rows of each example for a term: one number, one for each example, or None where anything goes."""
        if self.model.fixed:
            return term.n_rows(self.model.space()[name].shape)
        if type(term).n_rows is Term.n_rows:
            return None
        shapes = (self.model.space(self.input(i))[name].shape for i in range(self.n))
        return np.array([term.n_rows(shape) for shape in shapes], dtype=np.intp)

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
        """Scores of all parts: one ``(rows, K)`` table per term."""
        return [np.asarray(rows @ W.T) for rows, W in zip(self.rows, self.split(w), strict=True)]

    def dot(self, tables: Sequence[FloatArray], labels: LabelBatch) -> FloatArray:
        """The score of each example's label."""
        total = np.zeros(self.n)
        for scores, parts, start in zip(tables, labels.tables, self.starts, strict=True):
            tied = scores.strides[0] == 0 and len(scores) > 0  # one row, shown as many
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
        for rows, table, start in zip(self.rows, labels.tables, self.starts, strict=True):
            weighted = table
            if weights is not None:
                per_row = np.repeat(weights, np.diff(start))
                data = table.data * np.repeat(per_row, np.diff(table.indptr))
                weighted = sp.csr_array((data, table.indices, table.indptr), shape=table.shape)
            product = weighted.T @ rows
            parts.append(product.toarray().ravel() if sp.issparse(product) else np.asarray(product).ravel())
        return np.concatenate(parts).astype(np.float64, copy=False)

    # ---- points ----------------------------------------------------------------------------------

    def costs(self, tables: Sequence[FloatArray]) -> Any:
        """Costs of the variables: an array ``(n, n_variables)``, or a list where spaces differ."""
        if not self.model.fixed:
            return [self.costs_of(i, tables) for i in range(self.n)]
        space = self.model.space()
        costs = np.zeros((self.n, space.n_variables))
        for (name, term), table in zip(self.model.features.items(), tables, strict=True):
            block = space[name]
            costs[:, block.slice] = term.unfold_rows(table, self.n, block.size)
        return costs

    def costs_of(self, i: int, tables: Sequence[FloatArray]) -> FloatArray:
        """Costs of the variables of one example."""
        x = self.input(i)
        space = self.model.space(x)
        costs = np.zeros(space.n_variables)
        for (name, term), table, start in zip(self.model.features.items(), tables, self.starts, strict=True):
            block = space[name]
            part = table[start[i] : start[i + 1]]
            costs[block.slice] = term.unfold(x, part, block.shape).ravel()
        return costs

    def fold(self, Z: Any) -> LabelBatch:
        """Points, one per example, as part tables."""
        tables = []
        for t, (name, term) in enumerate(self.model.features.items()):
            if self.model.fixed:
                block = self.model.space()[name]
                tables.append(part_table(term.fold_rows(np.asarray(Z)[:, block.slice], self.columns[t])))
                continue
            parts = []
            for i in range(self.n):
                x = self.input(i)
                block = self.model.space(x)[name]
                parts.append(term.fold(x, np.asarray(Z[i])[block.slice].reshape(block.shape)))
            tables.append(part_table(np.concatenate(parts)))
        return LabelBatch(tables, Z)

    def points(self, Z: Any) -> Any:
        """Points given by a caller, checked: one for each example, of the length of its space."""
        Z = labels_given(Z, self.n)
        if self.model.fixed:
            return floats("Z", Z, (self.n, self.model.space().n_variables))
        return [floats(f"Z[{i}]", Z[i], (self.model.space(self.input(i)).n_variables,)) for i in range(self.n)]

    def fold_some(self, points: Sequence[Any], examples: npt.NDArray[np.intp]) -> list[sp.csr_array]:
        """Part tables with the points of some examples (increasing); the rows of the others are empty."""
        tables = []
        for t, (name, term) in enumerate(self.model.features.items()):
            if self.model.fixed:
                block = self.model.space()[name]
                Z = np.array([points[i] for i in examples])
                parts = part_table(term.fold_rows(Z[:, block.slice], self.columns[t]))
            else:
                folded = []
                for i in examples.tolist():
                    x = self.input(i)
                    block = self.model.space(x)[name]
                    folded.append(term.fold(x, np.asarray(points[i])[block.slice].reshape(block.shape)))
                parts = part_table(np.concatenate(folded))
            tables.append(_spread(parts, self.starts[t], examples))
        return tables

    # ---- what families override ------------------------------------------------------------------

    def truth(self, Y: Sequence[Any]) -> LabelBatch:
        """The given labels, encoded; all that are not in their space are reported together."""
        Y = labels_given(Y, self.n)
        together = self.model.encode_batch(Y)
        if together is not None:
            return self.fold(together)
        points: list[FloatArray] = []
        refused: list[str] = []
        for i in range(self.n):
            try:
                points.append(self.model.encode(Y[i], self.input(i)))
            except StructoptError as error:
                refused.append(f"example {i}: {error}")
        if refused:
            raise refusal(refused, self.n)
        return self.fold(np.array(points) if self.model.fixed else points)

    def loss(self, truth: LabelBatch) -> LossBatch:
        """The linear task loss of each example's truth."""
        try:
            together = self.model.loss_batch(np.asarray(truth.native)) if self.model.fixed else None
        except DeclarationError:
            together = None  # one by one, they say whose fault it is
        if together is not None:
            return LossBatch(*together)
        forms = []
        for i in range(self.n):
            try:
                forms.append(self.model.loss_at(np.asarray(truth.native[i]), self.input(i)))
            except DeclarationError as error:
                raise DeclarationError(f"example {i}: {error}") from None
        coef: Any = [c for c, _ in forms]
        return LossBatch(np.array(coef) if self.model.fixed else coef, np.array([k for _, k in forms]))

    def argmax(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None = None,
        weight: float = 1.0,
        *,
        n_jobs: int = 1,
        examples: npt.NDArray[np.intp] | None = None,
    ) -> tuple[LabelBatch, FloatArray]:
        """The best label of each example under ``score + weight * loss``, and these values.

        `examples` restricts the work to some examples; the labels of the others are then the zero table. Where a
        solver stopped early, `LabelBatch.slack` says how much larger the maximum may be.
        """
        chosen = np.arange(self.n) if examples is None else np.asarray(examples)
        costs = self.costs(tables)
        values, bounds = np.zeros(self.n), np.zeros(self.n)
        Z: Any = np.zeros((self.n, self.model.space().n_variables)) if self.model.fixed else [None] * self.n
        if self.model.fixed:
            C = costs[chosen] if loss is None else costs[chosen] + weight * loss.coef[chosen]
            found = self.model.oracle().solve_batch(C, n_jobs, keys=chosen.tolist())
            values[chosen], bounds[chosen] = found.values, found.bounds
            if examples is None:
                Z = found.Z
            else:
                Z[chosen] = found.Z
        else:
            for i in range(self.n):
                Z[i] = np.zeros(len(costs[i]))
            for i in chosen:
                c = costs[i] if loss is None else costs[i] + weight * loss.coef[i]
                label = self.model.oracle(self.input(i)).maximize(c)
                Z[i], values[i], bounds[i] = label.z, label.value, label.bound
        labels = replace(self.fold(Z), slack=slack_of(values, bounds))
        if loss is not None:
            values[chosen] += weight * loss.const[chosen]
        return labels, values

    def argmax_surrogate(
        self, surrogate: Any, tables: Sequence[FloatArray], loss: LossBatch, truth: LabelBatch, n_jobs: int = 1
    ) -> tuple[LabelBatch, FloatArray, FloatArray] | None:
        """The label with the largest ``psi(margin, loss)`` of each example, with its margin and loss, exactly.

        Few labels are compared all at once. None where the family has no algorithm for whole batches; each example is
        then searched in its plane.
        """
        # A family with a layout of its own for losses and labels knows better.
        own = type(self).loss is not Batch.loss or type(self).truth is not Batch.truth
        if own or not self.model.fixed or surrogate.counts:
            return None
        listed = self.model.oracle().listed
        if listed is None:
            return None
        costs, margin_const = self.costs(tables), -self.dot(tables, truth)
        Z, h, g = np.empty((self.n, listed.shape[1])), np.empty(self.n), np.empty(self.n)
        size = max(1, _COMPARED // len(listed))
        for first in range(0, self.n, size):
            some = slice(first, first + size)
            H = costs[some] @ listed.T + margin_const[some, None]
            G = self._losses_of(listed, loss, some)
            psi = surrogate.clipped_array(H, G)
            best = psi.argmax(axis=1)
            rows = np.arange(len(best))
            Z[some], h[some], g[some] = listed[best], H[rows, best], G[rows, best]
            # The truth is a label of surrogate 0: it stays where nothing is violated.
            idle = first + np.flatnonzero(psi[rows, best] <= 0.0)
            Z[idle], h[idle], g[idle] = np.asarray(truth.native)[idle], 0.0, 0.0
        return self.fold(Z), h, g

    def _losses_of(self, listed: FloatArray, loss: LossBatch, some: slice) -> FloatArray:
        """The losses of listed labels for some examples; they do not depend on the weights, and are kept."""
        if self._listed_losses is None or self._listed_losses[0] is not loss:
            few = self.n * len(listed) <= _COMPARED
            self._listed_losses = (loss, loss.coef @ listed.T + loss.const[:, None] if few else None)
        known = self._listed_losses[1]
        return loss.coef[some] @ listed.T + loss.const[some, None] if known is None else known[some]

    def decode(self, labels: LabelBatch) -> list[Any]:
        """The labels in the user's words."""
        return [self.model.decode(np.asarray(labels.native[i]), self.input(i)) for i in range(self.n)]

    def loss_values(self, loss: LossBatch, labels: LabelBatch) -> FloatArray:
        """The task loss of each example's label."""
        if self.model.fixed:
            return np.asarray(np.einsum("ij,ij->i", loss.coef, np.asarray(labels.native)) + loss.const)
        return np.array([float(c @ z) for c, z in zip(loss.coef, labels.native, strict=True)]) + loss.const


def slack_of(values: FloatArray, bounds: FloatArray) -> FloatArray | None:
    """By how much proved bounds exceed the values of labels; None if nowhere.

    Examples
    --------
    >>> import numpy as np
    >>> slack_of(np.array([1.0, 2.0]), np.array([1.0, 2.5]))
    array([0. , 0.5])
    """
    slack = np.maximum(bounds - values, 0.0)
    return slack if slack.any() else None


def labels_given(Y: Any, n: int) -> Any:
    """The labels of a data set, checked to be as many as its `n` examples."""
    Y = examples("Y", Y)
    if n_examples(Y) != n:
        raise DeclarationError(f"{n} inputs but {n_examples(Y)} labels.")
    return Y


def _check_finite(rows: Any, start: npt.NDArray[np.intp]) -> None:
    data = rows.data if sp.issparse(rows) else rows
    if np.isfinite(data).all():
        return
    if sp.issparse(rows):
        place = int(np.searchsorted(rows.indptr, np.argmin(np.isfinite(data)), side="right")) - 1
    else:
        place = int(np.argmin(np.isfinite(data).all(axis=1)))
    example = int(np.searchsorted(start, place, side="right")) - 1
    raise DeclarationError(f"The features of example {example} contain NaN or infinity; impute or drop it first.")


def _spread(table: sp.csr_array, start: npt.NDArray[np.intp], examples: npt.NDArray[np.intp]) -> sp.csr_array:
    """The rows of some examples, one after the other, put in their places among the rows of all."""
    sizes = np.diff(start)[examples]
    places = np.repeat(start[examples] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes) + np.arange(sizes.sum())
    counts = np.zeros(int(start[-1]), dtype=np.int64)
    counts[places] = np.diff(table.indptr)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return sp.csr_array((table.data, table.indices, indptr), shape=(int(start[-1]), table.shape[1]))


def part_table(rows: Any) -> sp.csr_array:
    """A table of parts as a sparse one; of a dense one scipy's own conversion takes ten times as long."""
    if sp.issparse(rows):
        return sp.csr_array(rows)
    dense = np.ascontiguousarray(rows, dtype=np.float64)
    indptr, indices, data = np.empty(len(dense) + 1, np.int32), np.empty(dense.size, np.int32), np.empty(dense.size)
    end = fill_rows(dense, indptr, indices, data)
    return sp.csr_array((data[:end].copy(), indices[:end].copy(), indptr), shape=dense.shape)


def refusal(refused: list[str], n: int) -> LabelNotInSpace:
    """The error that lists the labels of a data set that cannot be used, the first ten by name."""
    listed = "\n  ".join(refused[:10]) + ("\n  ..." if len(refused) > 10 else "")
    return LabelNotInSpace(f"{len(refused)} of {n} labels cannot be used:\n  {listed}", tuple(refused))
