"""Losses of data sets whose labels are sparse rows over many variables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
    (n, n_variables), form = truth.shape, sparse_form(task, truth.shape[1])
    base, const, entries = np.zeros(n_variables), np.zeros(n), n * n_variables
    if isinstance(form, AffineForm):
        base, const = form.base, form.constants(truth)
        entries = int(np.diff(form.matrix.indptr)[truth.indices].sum())
    elif form is None:
        const = np.array([task.linear(row.toarray().ravel())[1] for row in truth])
    made = _MadeRows(truth, partial(_dense_rows, task) if form is None else form.rows)
    if n_variables <= _TABLE_VARIABLES and n * n_variables <= _TABLE_ENTRIES:
        return LossBatch(base + made[np.arange(n)].toarray(), const)
    shared = base[None] if base.any() else None
    if entries > _STORED_ENTRIES:
        return LossBatch(None, const, shared=shared, sparse=made)
    sparse = made[np.arange(n)]
    sparse.eliminate_zeros()
    return LossBatch(None, const, shared=shared, sparse=sparse)


def sparse_counts(weights: FloatArray, truth: sp.csr_array) -> Counts:
    """Return the counts of 0/1 variables of these weights."""
    own = truth @ weights
    errors = LossBatch(None, own, shared=weights[None], sparse=sp.csr_array(truth.multiply(-2.0 * weights)))
    on = LossBatch(None, -own, shared=-weights[None])
    return Counts(errors, on, float(weights[weights > 0.0].min()))


class _MadeRows:
    """Sparse coefficients of a loss, made for some examples at a time."""

    def __init__(self, truths: sp.csr_array, make: Callable[[sp.csr_array], sp.csr_array]) -> None:
        self._truths, self._make, self.shape = truths, make, truths.shape

    def __getitem__(self, some: IntArray) -> sp.csr_array:
        return self._make(self._truths[some])


def _dense_rows(task: TaskLoss, truths: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(task.linear_batch(truths.toarray())[0])
