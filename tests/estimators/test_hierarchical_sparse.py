"""Hierarchical SVMs on sparse data: SGD, weights where a node has met a feature, precision and memory."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError
from structopt.estimators.hierarchical import HierarchicalSVM
from structopt.structures.hierarchy import HierarchicalLabels

# Tests stop early where an optimum is not what they are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

TREE = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (2, 7)])


@pytest.fixture
def sparse_data(leaf_data):
    X, y = leaf_data(TREE, n=80, d=50)
    keep = np.random.default_rng(0).random(X.shape) < 0.2
    return sp.csr_array(X * keep), y


def test_seen_support_keeps_only_what_a_node_has_met(sparse_data):
    X, y = sparse_data
    est = HierarchicalSVM(TREE, support="seen", lam=0.05, max_passes=3).fit(X, y)
    labels = HierarchicalLabels(TREE).codec.encode_many(y, X.shape[0])
    met = ((X != 0).astype(int).T @ labels).toarray().T > 0
    assert sp.issparse(est.coef_) and "only where a node has met" in est.plan_
    assert not est.coef_.toarray()[~met].any()
    assert est.result_.lower_bound <= est.result_.objective
    assert est.predict(X).shape == (80,)
    assert np.allclose(est.decision_function(X), X @ est.coef_.toarray().T + est.intercept_)


def test_float32_is_near_float64(sparse_data):
    X, y = sparse_data
    single, double = (
        HierarchicalSVM(TREE, trainer="sgd", dtype=dtype, lam=0.05, max_passes=5).fit(X, y)
        for dtype in ("float32", "float64")
    )
    assert single.coef_.dtype == np.float32 and double.coef_.dtype == np.float64
    assert np.allclose(single.coef_, double.coef_, atol=1e-3)
    assert single.result_.objective == pytest.approx(double.result_.objective, rel=1e-3)


def test_memory_is_stated_and_refused(sparse_data):
    X, y = sparse_data
    est = HierarchicalSVM(TREE, lam=0.05, max_passes=1, trainer="sgd")
    assert "MiB" in est.fit(X, y).plan_
    with pytest.raises(DeclarationError, match=r"sgd.*MiB.*max_memory|max_memory.*sgd"):
        HierarchicalSVM(TREE, max_memory=1000).fit(X, y)
    with pytest.raises(DeclarationError, match=r"bmrm.*cuts"):
        HierarchicalSVM(TREE, max_memory=1000, trainer="bmrm").fit(X, y)
    # 'auto' goes on to what fits.
    wide = sp.csr_array(sp.hstack([X, sp.csr_array((80, 100_000))], format="csr"))
    chosen = HierarchicalSVM(TREE, max_memory=2**21, max_passes=1).fit(wide, y)
    assert "only where a node has met" in chosen.plan_ and sp.issparse(chosen.coef_)


def test_ctrl_c_keeps_what_was_learned(sparse_data, monkeypatch):
    X, y = sparse_data
    calls = []
    trainer = sys.modules["structopt.train.hierarchical_sgd"]
    visit = trainer.leaf_steps

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return visit(*args)

    monkeypatch.setattr(trainer, "leaf_steps", interrupted)
    monkeypatch.setattr(trainer, "_SLAB", 10)
    est = HierarchicalSVM(TREE, trainer="sgd", lam=0.05).fit(X, y)
    assert est.result_.stopped == "interrupted" and est.coef_.any()
