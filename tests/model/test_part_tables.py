"""Part tables, loop by loop against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.model.batch import part_table
from structopt.risks.planes import _mixed, _stacked
from structopt.risks.structured import difference
from structopt.train.working_sets import WorkingSets


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


def test_planes_are_the_parts_in_which_labels_differ():
    rng = np.random.default_rng(3)
    X = [rng.normal(size=(t, 2)) for t in (3, 1, 4, 2)]
    Y = [rng.integers(0, 3, len(x)) for x in X]
    risk = so.train.StructuredRisk(so.structures.Chain(3, initial_weights=True), X, Y, "slack")
    sets = WorkingSets(risk, rng.permutation(4), 3)
    w = rng.normal(size=risk.n_features)
    for k, group in enumerate(sets.groups):
        found = group.violations(w)
        level, pointer, part, row, at, value = sets._new_planes(k, found)
        assert len(pointer) == len(group) + 1 and len(level) == len(group)
        changes = sum(abs(table.data).sum() for table in difference(group.truth, found.labels))
        end = pointer[-1]
        assert len(set(zip(np.repeat(np.arange(len(group)), np.diff(pointer)), part[:end], strict=True))) == end
        assert abs(value[:end]).sum() == pytest.approx(changes * found.scale[0])
        rows = sets._features[0]
        parts = zip(row[:end], at[:end], value[:end], strict=True)
        score = sum(v * (w[a] if r < 0 else rows[r] @ w[a : a + 2]) for r, a, v in parts)
        joint = group.batch.joint(group.truth, found.scale) - group.batch.joint(found.labels, found.scale)
        assert score == pytest.approx(w @ joint)
