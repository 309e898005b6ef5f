"""Sets of labels: independent, or with a limited number of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.algorithms.cardinality import choose_rows
from structopt.algorithms.counting import LISTED, equal_weight, list_products, most_violated
from structopt.checks import checked, converted
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Linear
from structopt.losses import Hamming, TaskLoss
from structopt.model import Model
from structopt.model.batch import Batch, LabelBatch, LossBatch, labels_given, part_table, refusal
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.surrogates import Slack

__all__ = ["MultiLabel", "binary_rows"]


class MultiLabel(Model):
    """Any set of labels, each with a weight vector; optionally between `at_least` and `at_most` of them.

    Parameters
    ----------
    n : int
        Number of labels.
    at_least, at_most : int, optional
        Limits on the number of labels that are on.
    loss : TaskLoss, optional
        Hamming by default.
    intercept : bool
        Append the constant 1 to the features.
    solver : str, path or Backend
        ``"auto"`` is the structure's own algorithm. Any other profile or backend is asked for every label, in training
        and prediction, over the declared program.

    Examples
    --------
    >>> import structopt as so
    >>> model = so.structures.MultiLabel(4, at_most=2)
    >>> model.predict([3.0, 1.0, -1.0, 2.0], [1.0])
    array([1, 0, 0, 1])
    """

    @checked
    def __init__(
        self,
        n: int,
        at_least: int | None = None,
        at_most: int | None = None,
        loss: TaskLoss | None = None,
        intercept: bool = False,
        solver: Any = "auto",
    ) -> None:
        self.n = n
        self.at_least = at_least
        self.at_most = at_most
        self.intercept = intercept
        low, high = at_least or 0, n if at_most is None else at_most
        if n < 1 or not 0 <= low <= high or low > n:
            raise DeclarationError(f"MultiLabel({n}, at_least={at_least}, at_most={at_most}) has no labels.")
        space = LabelSpace("multi-label")
        y = space.binary("y", n)
        if low > 0 or high < n:
            space.subject_to(y.sum().between(low, high), name="cardinality")
        self.limits = (low, min(high, n))
        super().__init__(space, {"y": Linear(intercept=intercept)}, loss or Hamming(), solver=solver)

    def batch(self, X: Any) -> MultiLabelBatch:
        """A data set prepared once."""
        return self._batch(MultiLabelBatch, X)


class MultiLabelBatch(Batch):
    """A multi-label data set; labels are 0/1 rows."""

    model: MultiLabel

    def truth(self, Y: Any) -> LabelBatch:
        rows = binary_rows(Y, self.n, self.model.n)
        low, high = self.model.limits
        counts = rows.sum(axis=1)
        wrong = np.flatnonzero((counts < low) | (counts > high))
        if wrong.size:
            told = [f"example {i}: {int(counts[i])} labels are on, allowed are {low} to {high}" for i in wrong]
            raise refusal(told, self.n)
        return LabelBatch([sp.csr_array(rows)], rows)

    def loss(self, truth: LabelBatch) -> LossBatch:
        return LossBatch(*self.model._losses(self.model.space())["y"].linear_batch(truth.native))

    def argmax(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None = None,
        weight: float = 1.0,
        *,
        n_jobs: int = 1,
        examples: npt.NDArray[np.intp] | None = None,
    ) -> tuple[LabelBatch, FloatArray]:
        some = slice(None) if examples is None else examples
        scores = np.asarray(tables[0][some], dtype=np.float64)
        if loss is not None:
            scores = scores + weight * loss.coef[some]
        low, high = self.model.limits
        if low > 0 or high < self.model.n:
            members = np.arange(self.model.n)
            chosen, _, _ = choose_rows(
                np.ascontiguousarray(scores),
                np.array([0, self.model.n]), members, np.array([low]), np.array([high]),
            )  # fmt: skip
        else:
            chosen = scores > 0
        Z, values = np.zeros((self.n, self.model.n)), np.zeros(self.n)
        Z[some] = chosen
        values[some] = np.einsum("ij,ij->i", scores, Z[some])
        if loss is not None:
            values[some] += weight * loss.const[some]
        return LabelBatch([sp.csr_array(Z)], Z), values

    def argmax_surrogate(
        self, surrogate: Any, tables: Sequence[FloatArray], loss: LossBatch, truth: LabelBatch, n_jobs: int = 1
    ) -> tuple[LabelBatch, FloatArray, FloatArray] | None:
        low, high = self.model.limits
        limits = (low, high) if low > 0 or high < self.model.n else None
        scores = np.asarray(tables[0], dtype=np.float64)
        weight = None if surrogate.counts else equal_weight(loss.coef, loss.const, truth.native)
        if weight is not None:
            Y, h, g = most_violated(surrogate, scores, truth.native, weight, limits)
        elif limits is None and self.model.n <= LISTED and type(surrogate) is Slack:
            Y, h, g = list_products(scores, loss.coef, loss.const, truth.native, n_jobs)
        else:
            return None
        return LabelBatch([part_table(Y)], Y), h, g


@checked
def binary_rows(Y: Any, n: int, n_labels: int) -> FloatArray:
    """Labels of a data set as 0/1 rows, checked; dense or sparse."""
    Y = labels_given(Y, n)
    rows = converted("Y", Y.toarray() if sp.issparse(Y) else Y)
    if rows.shape != (n, n_labels):
        raise DeclarationError(f"Labels have shape {rows.shape}; expected ({n}, {n_labels}).")
    wrong = np.flatnonzero(((rows != 0) & (rows != 1)).any(axis=1))
    if wrong.size:
        bad = rows[wrong[0]][(rows[wrong[0]] != 0) & (rows[wrong[0]] != 1)][0]
        raise LabelNotInSpace(f"{len(wrong)} of {n} labels are not 0/1 rows; example {wrong[0]} contains {bad:g}.")
    return rows
