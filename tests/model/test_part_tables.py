"""Part tables, loop by loop against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.risks.planes import _mixed, _stacked


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


def _sizes(rng, *sizes):
    return [rng.normal(size=(t + 1, t + 1, 2)) for t in sizes]


CASES = {
    "chain": lambda rng: (so.structures.Chain(3, initial_weights=True), [rng.normal(size=(t, 2)) for t in (3, 1, 4)]),
    "tree": lambda rng: (so.structures.Arborescence(), _sizes(rng, 2, 3)),
    "trees of one size": lambda rng: (so.structures.Arborescence(), _sizes(rng, 3, 3)),
    "relations": lambda rng: (so.structures.LabelledArborescence(2), _sizes(rng, 2, 3)),
    "matching": lambda rng: (so.structures.Assignment(normalize=True), list(rng.normal(size=(4, 2, 3, 2)))),
    "partial matching": lambda rng: (so.structures.Assignment(unmatched=True), list(rng.normal(size=(4, 3, 2, 2)))),
    "pairs": lambda rng: (so.structures.PairwiseMRF(4), rng.normal(size=(5, 2))),
    "many pairs": lambda rng: (so.structures.PairwiseMRF(50, integral="relax"), rng.normal(size=(3, 2))),
}


@pytest.mark.parametrize("name", CASES)
def test_parts_and_differences_of_compact_labels(name):
    """Summed with weights, in one row and in a row for each, they are those of the part tables."""
    rng = np.random.default_rng(5)
    model, X = CASES[name](rng)
    batch = model.batch(X)
    labels, truth = (batch.argmax(batch.tables(rng.normal(size=batch.n_weights)))[0] for _ in range(2))
    weights = rng.normal(size=batch.n)
    weights[0] = 0.0
    for t, (start, term) in enumerate(zip(batch.starts, batch.model.features.values(), strict=True)):
        factors = sp.diags_array(np.repeat(weights, np.diff(start)))
        parts = [(factors @ one.tables[t]).toarray() for one in (labels, truth)]
        one_row = isinstance(term, so.features.Tied)
        for dtype in (np.float64, np.float32):
            for rows in (len(parts[0]), *([1] if one_row else [])):
                whole = [part if rows > 1 else part.sum(axis=0, keepdims=True) for part in parts]
                out = np.zeros((rows, batch.columns[t]), dtype=dtype)
                if batch.codec.add_parts(t, labels.native, weights, out, truth.native):
                    np.testing.assert_allclose(out, whole[0] - whole[1], rtol=1e-5, atol=1e-6)
                else:
                    assert not out.any() and name == "many pairs"
                if batch.codec.add_parts(t, labels.native, weights, np.zeros_like(out)):
                    out = np.ones_like(out)
                    batch.codec.add_parts(t, labels.native, weights, out)
                    np.testing.assert_allclose(out, 1.0 + whole[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_labels_taken_example_by_example(name):
    rng = np.random.default_rng(6)
    model, X = CASES[name](rng)
    batch = model.batch(X)
    known = [batch.argmax(batch.tables(rng.normal(size=batch.n_weights)))[0] for _ in range(3)]
    numbers = rng.integers(0, 3, size=(2, batch.n))
    for shares in (np.array([np.ones(batch.n), np.zeros(batch.n)]), rng.dirichlet([1.0, 1.0], batch.n).T):
        found = batch.codec.mixture([labels.native for labels in known], numbers, shares)
        if found is None:
            assert shares[1].any()
            continue
        for t, (table, start) in enumerate(zip(batch.labels(found).tables, batch.starts, strict=True)):
            owner = np.repeat(np.arange(batch.n), np.diff(start))
            dense = [labels.tables[t].toarray() for labels in known]
            expected = sum(
                shares[k, owner, None] * np.array(dense)[numbers[k, owner], np.arange(len(owner))] for k in (0, 1)
            )
            np.testing.assert_allclose(table.toarray(), expected, atol=1e-12)
    assert batch.codec.mixture([None, None, None], numbers, np.array([np.ones(batch.n), np.zeros(batch.n)])) is None


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("own_index", [False, True])
def test_examples_of_one_space_are_folded_together_as_one_by_one(mean, own_index):
    """Sequences of mixed lengths; with `own_index` the index of a tied term differs between inputs of one space."""
    rng = np.random.default_rng(3)
    shipped = so.structures.Segmentation(2, 3, pooling="mean" if mean else "sum", initial_weights=True)
    terms = dict(shipped.features)
    if own_index:
        terms["transition"] = so.features.Tied(lambda x: np.full(4 * (len(x) - 1), int(x[0, 0] > 0)), 4)
    model = so.Model(shipped.space, terms, so.losses.Hamming(), key=len)
    X = [rng.normal(size=(length, 3)) for length in (3, 5, 3, 2, 5, 3)]
    data = model.batch(X).data
    Z = [rng.normal(size=model.space(x).n_variables) for x in X]
    tables = [rng.normal(size=(start[-1], columns)) for start, columns in zip(data.starts, data.columns, strict=True)]
    for group in data.same_space:
        expected = [data.costs_of(i, tables) for i in group.tolist()]
        np.testing.assert_allclose(data.costs(tables, group), expected)
    chosen = np.array([4, 0, 3, 2, 1])
    for (name, term), table in zip(model.features.items(), data.fold([Z[i] for i in chosen], chosen), strict=True):
        blocks = [(X[i], model.space(X[i])[name], Z[i]) for i in chosen.tolist()]
        expected = [term.fold(x, z[block.slice].reshape(block.shape)) for x, block, z in blocks]
        np.testing.assert_allclose(table.toarray(), np.concatenate(expected))
