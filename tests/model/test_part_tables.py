"""Part tables, loop by loop against numpy."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import structopt as so
from structopt.model.codec import part_table
from structopt.model.loss_batch import common_steps
from structopt.risks.planes import _mixed, _stacked


def test_dense_and_sparse_tables_are_the_same():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(5, 4)) * (rng.random((5, 4)) < 0.4)
    for given in (dense, sp.coo_array(dense), np.asfortranarray(dense), dense.astype(np.float32)):
        table = part_table(given)
        np.testing.assert_allclose(table.toarray(), dense, rtol=1e-6)
        assert table.nnz == (dense != 0).sum() and table.has_sorted_indices


def test_mixtures_of_rows():
    rng = np.random.default_rng(1)
    dense = rng.integers(-2, 3, size=(3, 7, 4)).astype(float)
    start = np.array([0, 2, 2, 5, 7])  # four examples of 2, 0, 3 and 2 rows
    sources, shares = rng.integers(0, 3, (2, 4)), rng.random((2, 4))
    sources[1, 3], shares[:, 3], dense[sources[0, 3], 5:] = sources[0, 3], (0.5, -0.5), 1.0  # cancels
    found = _mixed(_stacked([sp.csr_array(table) for table in dense]), sources, shares, start, (7, 4))
    owner = np.repeat(np.arange(4), np.diff(start))
    expected = sum(shares[k, owner, None] * dense[sources[k, owner], np.arange(7)] for k in range(2))
    np.testing.assert_allclose(found.toarray(), expected)
    assert (found.data != 0).all()


def test_scores_of_tied_tables_shown_as_many_rows():
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(t, 2)) for t in (3, 1, 4)]
    batch = so.structures.Chain(3).batch(X)
    labels = batch.truth([rng.integers(0, 3, len(x)) for x in X])
    w = rng.normal(size=batch.n_weights)
    expected = [w @ batch.joint(labels, np.eye(3)[i]) for i in range(3)]
    tables = batch.tables(w)
    assert tables[1].strides[0] == 0
    np.testing.assert_allclose(batch.dot(tables, labels), expected)
    np.testing.assert_allclose(batch.dot([np.array(table) for table in tables], labels), expected)


def test_steps_of_losses():
    rng = np.random.default_rng(4)
    owner = np.repeat(np.arange(5), [3, 1, 4, 2, 2])
    coef = rng.integers(-3, 4, size=(12, 4)) * np.array([0.5, 1.0, 0.1, 3.0, 1.0])[owner][:, None]
    coef[owner == 4] = 0.0
    coef[owner == 3, 0] = (1.0, np.sqrt(2.0))
    rows = np.abs(coef)
    for i, found in enumerate(common_steps(coef, owner, 5)):
        own = rows[owner == i]
        least = own[own > 0].min(initial=np.inf)
        whole = np.abs(own / least - np.rint(own / least)).max() <= 1e-9
        assert found == (least if whole and np.isfinite(least) else 0.0)
    assert common_steps(coef[:, :1].copy(), owner, 5).shape == (5,)
