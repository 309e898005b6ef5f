"""Hierarchical SVMs on sparse data: SGD, weights where a node has met a feature, precision and memory."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt import norms
from structopt.errors import DeclarationError
from structopt.estimators._divided import Divided
from structopt.estimators._hierarchical import node_model, task_loss
from structopt.estimators.hierarchical import HierarchicalSVM
from structopt.risks.structured import StructuredRisk
from structopt.structures.hierarchy import HierarchicalLabels
from structopt.train.hierarchical_sgd import Pattern, hierarchical_sgd, seen_features
from structopt.train.sgd import sgd

# Tests stop early where an optimum is not what they are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

TREE = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (2, 7)])


@pytest.fixture
def sparse_data(leaf_data):
    X, y = leaf_data(TREE, n=80, d=50)
    keep = np.random.default_rng(0).random(X.shape) < 0.2
    return sp.csr_array(X * keep), y


@pytest.mark.parametrize("batch_size", [None, 5])
@pytest.mark.parametrize("margin", ["hamming", "leaf", "normalized", "divided"])
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


def test_sparse_and_dense_agree(sparse_data):
    X, y = sparse_data
    dense = HierarchicalSVM(TREE, lam=0.3, tol=1e-5).fit(X.toarray(), y)
    sparse = HierarchicalSVM(TREE, lam=0.3, tol=1e-5).fit(X, y)
    assert dense.result_.objective == pytest.approx(sparse.result_.objective, rel=3e-5)


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


def test_runs_like_every_trainer(sparse_data, tmp_path):
    """Certified points of a run that goes on, warm starts with another lam, the callback, and the clock."""
    X, y = sparse_data
    risk = StructuredRisk(HierarchicalLabels(TREE), X, y)
    path = tmp_path / "run.npz"
    hierarchical_sgd(risk, lam=0.05, max_passes=3, checkpoint=path)
    resumed = hierarchical_sgd(risk, lam=0.05, max_passes=8, checkpoint=path)
    assert resumed.objective < hierarchical_sgd(risk, lam=0.05, max_passes=3).objective
    assert resumed.lower_bound <= resumed.objective
    warm = so.train.WarmStart()
    first = hierarchical_sgd(risk, lam=0.05, max_passes=3, warm=warm)
    again = hierarchical_sgd(risk, lam=0.05, max_passes=3, warm=warm)
    assert again.objective <= first.objective and again.lower_bound >= first.lower_bound
    other = hierarchical_sgd(risk, lam=0.1, max_passes=3, warm=warm)
    assert 0 < other.lower_bound <= other.objective
    seen = []
    stopped = hierarchical_sgd(risk, lam=0.05, certify=False, callback=lambda result: seen.append(result.w) or True)
    assert stopped.stopped == "callback" and len(seen) == 1


def test_resumes_from_a_checkpoint(sparse_data, tmp_path):
    X, y = sparse_data
    options = {"trainer": "sgd", "lam": 0.05, "checkpoint": tmp_path / "run.npz"}
    HierarchicalSVM(TREE, max_passes=2, certify=False, **options).fit(X, y)
    resumed = HierarchicalSVM(TREE, max_passes=4, certify=False, **options).fit(X, y)
    straight = HierarchicalSVM(TREE, trainer="sgd", lam=0.05, max_passes=4, certify=False).fit(X, y)
    assert np.allclose(resumed.coef_, straight.coef_)


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
