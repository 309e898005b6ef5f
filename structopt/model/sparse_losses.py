"""Losses of data sets whose labels are sparse rows over many variables."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.losses import TaskLoss
from structopt.losses.hierarchical import AffineForm, sparse_form
from structopt.model.loss_batch import Counts, LossBatch
from structopt.space.compiled import FloatArray

__all__ = ["sparse_counts", "sparse_losses"]

# Coefficients over at most `_TABLE_VARIABLES` variables are a dense table if it has at most `_TABLE_ENTRIES` entries:
# 1 kB per example at most, compared with 5 kB that block ascent takes.
_TABLE_VARIABLES, _TABLE_ENTRIES = 128, 1 << 20
# Sparse coefficients are stored up to this many entries (200 MB), and made for each block above.
_STORED_ENTRIES = 1 << 24


def sparse_losses(task: TaskLoss, truth: sp.csr_array) -> LossBatch:
    """Return the losses of ground truths."""
    made, (n, n_variables) = _MadeRows(task, truth), truth.shape
    if n_variables <= _TABLE_VARIABLES and n * n_variables <= _TABLE_ENTRIES:
        return LossBatch(made.base + made[np.arange(n)].toarray(), made.constants())
    base = made.base[None] if made.base.any() else None
    if made.entries > _STORED_ENTRIES:
        return LossBatch(None, made.constants(), shared=base, sparse=made)
    sparse = made[np.arange(n)]
    sparse.eliminate_zeros()
    return LossBatch(None, made.constants(), shared=base, sparse=sparse)


def sparse_counts(weights: FloatArray, truth: sp.csr_array) -> Counts:
    """Return the counts of 0/1 variables of these weights."""
    own = truth @ weights
    errors = LossBatch(None, own, shared=weights[None], sparse=sp.csr_array(truth.multiply(-2.0 * weights)))
    on = LossBatch(None, -own, shared=-weights[None])
    return Counts(errors, on, float(weights[weights > 0.0].min()))


class _MadeRows:
    """Sparse coefficients of a loss, made for some examples at a time; all examples have `base` in addition."""

    def __init__(self, loss: TaskLoss, truths: sp.csr_array) -> None:
        self._loss, self._truths = loss, truths
        self._form = sparse_form(loss, truths.shape[1])
        self.shape = truths.shape

    @property
    def base(self) -> FloatArray:
        """The coefficients that all examples have."""
        return np.zeros(self.shape[1]) if not isinstance(self._form, AffineForm) else self._form.base

    @property
    def entries(self) -> int:
        """The number of entries of all rows, or more."""
        if isinstance(self._form, AffineForm):
            return int(np.diff(self._form.matrix.indptr)[self._truths.indices].sum())
        return int(np.prod(self.shape))

    def constants(self) -> FloatArray:
        """The constant of each example."""
        if isinstance(self._form, AffineForm):
            return self._form.constants(self._truths)
        if self._form is not None:
            return np.zeros(self.shape[0])
        return np.array([self._loss.linear(row.toarray().ravel())[1] for row in self._truths])

    def __getitem__(self, some: IntArray) -> sp.csr_array:
        truths = self._truths[some]
        if self._form is not None:
            return self._form.rows(truths)
        return sp.csr_array(self._loss.linear_batch(truths.toarray())[0])
