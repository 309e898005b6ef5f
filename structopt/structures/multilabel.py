"""Sets of labels: independent, or with a limited number of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.checks import checked, converted
from structopt.errors import DeclarationError, LabelNotInSpace, marked
from structopt.features import Linear, n_examples
from structopt.losses import Hamming, TaskLoss
from structopt.model import Model
from structopt.model.codec import labels_given, refusal
from structopt.recognize import Box, Cardinality, Record
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray

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
        ``"auto"`` is the structure's own algorithm. Any other profile or backend finds every label, in training
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
        record: Record = Box(np.zeros(n), np.ones(n))
        if self.limits != (0, n):
            each = np.zeros(n, np.int64), np.array([0, n]), np.arange(n)
            record = Cardinality(*each, *(np.array([limit]) for limit in self.limits))
        super().__init__(space, {"y": Linear(intercept=intercept)}, loss or Hamming(), record=record, solver=solver)

    def _encode_batch(self, labels: Any) -> FloatArray:
        """0/1 rows, checked."""
        rows = binary_rows(labels, n_examples(labels), self.n)
        low, high = self.limits
        counts = rows.sum(axis=1)
        wrong = np.flatnonzero((counts < low) | (counts > high))
        if wrong.size:
            allowed = f"labels are on, allowed are {low} to {high}"
            raise refusal({i: f"{int(counts[i])} {allowed}" for i in wrong.tolist()}, len(rows))
        return rows


@checked
def binary_rows(Y: Any, n: int, n_labels: int) -> FloatArray:
    """Labels of a data set as 0/1 rows, checked; dense or sparse."""
    Y = labels_given(Y, n)
    rows = converted("y", Y.toarray() if sp.issparse(Y) else Y)
    if rows.shape != (n, n_labels):
        raise DeclarationError(f"Labels have shape {rows.shape}; expected ({n}, {n_labels}).")
    if not ((rows == 0) | (rows == 1)).all():
        wrong = np.flatnonzero(((rows != 0) & (rows != 1)).any(axis=1))
        bad = rows[wrong[0]][(rows[wrong[0]] != 0) & (rows[wrong[0]] != 1)][0]
        message = f"{len(wrong)} of {n} labels are not 0/1 rows; example {marked(wrong[0])} contains {bad:g}."
        raise LabelNotInSpace(message, examples=tuple(wrong.tolist()))
    return rows
