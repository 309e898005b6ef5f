"""Stochastic steps with weights by feature: those of `sgd`, on all weights or where a node has met a feature."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt import norms
from structopt.errors import DeclarationError
from structopt.estimators._hierarchical import Divided, node_model, task_loss
from structopt.risks.structured import StructuredRisk
from structopt.structures.hierarchy import HierarchicalLabels
from structopt.train.hierarchical_sgd import hierarchical_sgd
from structopt.train.node_weights import Pattern, seen_features
from structopt.train.sgd import sgd

TREE = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (2, 7)])


@pytest.fixture
def sparse_data():
    rng = np.random.default_rng(0)
    y = rng.choice(TREE.leaves, size=80)
    X = rng.normal(size=(80, 50)) * (rng.random((80, 50)) < 0.2)
    X[np.arange(80), y] += 2.0  # a feature that tells
    return sp.csr_array(X), y.tolist()


@pytest.mark.parametrize(
    ("margin", "batch_size"), [("hamming", 5), ("leaf", None), ("normalized", 5), ("divided", None)]
)
def test_weights_by_feature_are_those_of_the_general_sgd(sparse_data, margin, batch_size):
    X, y = sparse_data
    alpha = norms.normalization(TREE)
    divided = margin == "divided"
    loss = task_loss("normalized" if divided else margin, TREE, "leaf", alpha)
    model = node_model(TREE, "leaf", alpha, loss, divided)
    surrogate = Divided() if divided else "margin"
    risk = StructuredRisk(model, X, y, surrogate)
    one = sgd(risk, lam=0.05, max_passes=2, random_state=3, batch_size=batch_size or 1)
    two = hierarchical_sgd(risk, lam=0.05, max_passes=2, random_state=3, batch_size=batch_size)
    assert np.allclose(one.w, two.w, atol=1e-10)
    assert one.objective == pytest.approx(two.objective, rel=1e-10)
    assert one.lower_bound == pytest.approx(two.lower_bound, rel=1e-10)


def test_seen_features_is_the_pattern_of_a_product(sparse_data):
    X, y = (part[:30] for part in sparse_data)
    labels = HierarchicalLabels(TREE).codec.encode_many(y, 30)
    pattern = seen_features(X, labels)
    assert isinstance(pattern, Pattern) and pattern.size == seen_features(X, labels, count_only=True)
    counts = (X != 0).astype(int).T @ labels
    found = sp.csr_array((np.ones(pattern.size), pattern.node, pattern.ptr), shape=counts.shape)
    assert (found.toarray() == (counts.toarray() > 0)).all()


def test_weights_on_the_full_pattern_are_all_weights(sparse_data):
    X, y = sparse_data
    risk = StructuredRisk(HierarchicalLabels(TREE), X, y)
    for size in (None, 7):
        options = {"lam": 0.05, "max_passes": 2, "batch_size": size}
        all_of_them = hierarchical_sgd(risk, **options)
        on_pattern = hierarchical_sgd(risk, support="seen", everywhere=range(50), **options)
        W = on_pattern.info["pattern"].matrix(on_pattern.w)
        assert np.allclose(W.toarray().ravel(), all_of_them.w)


def test_one_thread_or_two(sparse_data):
    X, y = sparse_data
    risks = (StructuredRisk(HierarchicalLabels(TREE), X, y, n_jobs=jobs) for jobs in (1, 2))
    one, two = (hierarchical_sgd(risk, lam=0.05, max_passes=2, batch_size=9).w for risk in risks)
    assert np.array_equal(one, two)


def test_any_model_with_one_row_per_example(sparse_data):
    X, y = sparse_data
    risk = StructuredRisk(so.structures.Multiclass(sorted(set(y))), X, y)
    one, two = (train(risk, lam=0.05, max_passes=3, batch_size=4) for train in (sgd, hierarchical_sgd))
    assert np.allclose(one.w, two.w, atol=1e-10) and one.lower_bound == pytest.approx(two.lower_bound)
    with pytest.raises(DeclarationError, match="one row of features per example"):
        words = [np.eye(3), np.eye(3)[:2]]
        hierarchical_sgd(StructuredRisk(so.structures.Chain([0, 1]), words, [[0, 1, 1], [1, 0]]), lam=0.1)
