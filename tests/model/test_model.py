"""Models composed by a user: scores, label encoders, tied weights, bad input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace


def budget_space() -> so.LabelSpace:
    space = so.LabelSpace("budget")
    y = space.binary("y", 4)
    i, j = np.triu_indices(4, k=1)
    p = space.continuous("pair", len(i), 0, 1)
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    space.subject_to(y.sum() <= 2, name="budget")
    return space


def row_model(**options) -> so.Model:
    features = {"y": so.features.Linear(intercept=True), "pair": so.features.Tied()}
    return so.Model(budget_space(), features, so.losses.Hamming(), **options)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_codec_completes_auxiliary_blocks():
    model = row_model()
    z = model.encode([1, 0, 1, 0])
    assert z[4:].tolist() == [0, 1, 0, 0, 0, 0]
    assert model.decode(z).tolist() == [1, 0, 1, 0]
    assert model.encode({"y": [0, 0, 0, 1], "pair": np.zeros(6)})[3] == 1
    with pytest.raises(LabelNotInSpace, match="budget"):
        model.encode([1, 1, 1, 0])
    with pytest.raises(DeclarationError, match="shape"):
        model.encode([1, 0])


def test_all_bad_labels_are_listed(rng):
    Y = np.ones((15, 4), dtype=int)
    Y[3] = 0
    with pytest.raises(LabelNotInSpace, match="14 of 15") as info:
        row_model().batch(rng.normal(size=(15, 3))).truth(Y)
    assert "example 0" in str(info.value) and "example 10" in str(info.value) and "example 11" not in str(info.value)


def test_bad_models_and_data(rng):
    with pytest.raises(DeclarationError, match="nope"):
        so.Model(budget_space(), {"nope": so.features.Linear()})
    with pytest.raises(DeclarationError, match="no task loss"):
        so.Model(budget_space(), {"y": so.features.Linear()}).loss([0, 0, 0, 0])
    with pytest.raises(DeclarationError, match="weights"):
        row_model().scores(np.zeros(3), np.zeros(3))
    X = rng.normal(size=(3, 2))
    X[1, 0] = np.nan
    with pytest.raises(DeclarationError, match="example 1"):
        row_model().batch(X)
    with pytest.raises(DeclarationError, match="example 1"):
        row_model().batch(sp.csr_array(X))
    with pytest.raises(DeclarationError, match="no examples"):
        row_model().batch(np.empty((0, 3)))
    with pytest.raises(DeclarationError, match="labels"):
        row_model().batch(rng.normal(size=(3, 2))).truth([[0, 0, 0, 0]])


def test_tied_groups():
    term = so.features.Tied([0, 1, 0])
    space = so.LabelSpace()
    space.binary("y", 3)
    model = so.Model(space, {"y": term})
    assert model.scores([2.0, 5.0], None).tolist() == [2, 5, 2]
    assert model.joint(None, [1, 1, 1]).tolist() == [2, 1]
    with pytest.raises(DeclarationError, match="n_weights"):
        so.features.Tied(lambda x: x)
