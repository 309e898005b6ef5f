"""Hierarchical SVMs: where theory says that methods agree they do; bounds hold; predictions are optimal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt import norms
from structopt.estimators._hierarchical import Divided, node_model, task_loss
from structopt.estimators.hierarchical import HierarchicalSVM
from structopt.estimators.structured import StructuredSVM
from structopt.losses import LeafHamming, Normalized
from structopt.risks.structured import StructuredRisk
from structopt.structures.hierarchy import HierarchicalLabels

# Tests stop early where an optimum is not what they are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

TREE = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (2, 7)])
DAG = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 4), (2, 5)])


# ---- agreement where theory asks for it -----------------------------------------------------------


def test_flat_is_multiclass_on_the_leaves(leaf_data):
    X, y = leaf_data(TREE)
    flat = HierarchicalSVM(TREE, "flat", lam=0.2, tol=1e-6, intercept=False).fit(X, y)
    other = StructuredSVM(so.structures.Multiclass(list(TREE.leaves)), lam=0.2, tol=1e-6).fit(X, y)
    assert flat.result_.objective == pytest.approx(other.result_.objective, rel=5e-6)
    assert (flat.predict(X) == other.predict(X)).all()
    assert not flat.coef_[~TREE.is_leaf].any()


def test_a_tree_of_leaves_only_makes_all_methods_the_same(leaf_data):
    star = so.Hierarchy([("root", k) for k in range(4)])
    X, y = leaf_data(star)
    fits = [
        HierarchicalSVM(star, name, margin="leaf", lam=0.3, tol=1e-5).fit(X, y)
        for name in ("flat", "none", "rho", "maxmin")
    ]
    assert np.ptp([fit.result_.objective for fit in fits]) < 1e-5
    assert all((fit.predict(X) == fits[0].predict(X)).all() for fit in fits)


@pytest.mark.parametrize("h", [TREE, DAG])
def test_node_weights_are_those_of_norms(leaf_data, h):
    X, y = leaf_data(h)
    quick = {"trainer": "sgd", "max_passes": 1}
    assert np.array_equal(HierarchicalSVM(h, "rho", rho=1.5, **quick).fit(X, y).alpha_, norms.normalization(h, 1.5))
    assert np.array_equal(HierarchicalSVM(h, "maxmin", **quick).fit(X, y).alpha_, norms.maxmin(h))
    directional = HierarchicalSVM(h, "directional", rho=1.5, **quick).fit(X, y)
    assert np.array_equal(directional.alpha_, norms.normalization(h, 1.5, directional=True))
    assert directional.margin_ == "normalized"
    loose = HierarchicalSVM(h, "rho", tolerance=1.5, **quick).fit(X, y).alpha_
    sums = h.closure @ loose
    assert (sums >= 1 - 1e-7).all() and (sums <= 1.5 + 1e-7).all()


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_objective_is_the_one_stated(leaf_data, seed):
    """lam/2 ||W||^2 + mean of max over leaves, by enumeration, for every normalisation and margin."""
    h = TREE
    X, y = leaf_data(TREE, seed=seed, n=25)
    rng = np.random.default_rng(seed)
    name = rng.choice(["flat", "none", "rho", "maxmin"])
    margin = rng.choice(["hamming", "leaf", "normalized"])
    divided = bool(rng.integers(2))
    if divided:
        margin = "normalized"  # the norm of the attributes, whatever the normalisation: thesis (6.13)
    asked = "auto" if divided else str(margin)
    est = HierarchicalSVM(h, str(name), margin=asked, divided=divided, lam=0.2, tol=1e-2)
    est.fit(X, y)
    assert est.result_.converged and est.result_.lower_bound <= est.result_.objective
    paths = h.closure.toarray()
    scores = (X @ est.coef_.T + est.intercept_) @ paths.T
    truth = h.closure.toarray()[[h.leaves.index(leaf) for leaf in y]]
    differ = np.abs(truth[:, None, :] - paths[None, :, :])
    if margin == "hamming":
        error = differ.sum(axis=2)
    elif margin == "leaf":
        error = 0.5 * differ[:, :, h.leaf_index].sum(axis=2)
    else:
        error = np.sqrt(differ @ est.alpha_)
    own = (truth * (X @ est.coef_.T + est.intercept_)).sum(axis=1)
    gap = scores - own[:, None]
    if divided:
        psi = np.where(error > 0, 1 + gap / np.where(error > 0, error, 1), 0.0)
    else:
        psi = gap + error
    U = np.column_stack([est.coef_, est.intercept_])
    norm = sum((U[k] @ U[k]) / est.alpha_[k] for k in range(len(h)) if est.alpha_[k] > 0)
    value = 0.1 * norm + np.maximum(psi.max(axis=1), 0).mean()
    assert est.result_.objective == pytest.approx(value, rel=1e-9)


def test_order_of_nodes_and_of_examples_does_not_matter(leaf_data):
    X, y = leaf_data(TREE)
    edges = list(TREE.edges)
    base = HierarchicalSVM(edges, lam=0.3, tol=1e-5).fit(X, y)
    shuffled = HierarchicalSVM(edges[::-1], lam=0.3, tol=1e-5).fit(X[::-1], y[::-1])
    assert base.result_.objective == pytest.approx(shuffled.result_.objective, rel=3e-5)
    place = [shuffled.hierarchy_.index(name) for name in base.hierarchy_.nodes]
    assert np.allclose(base.alpha_, shuffled.alpha_[place])
    assert np.allclose(base.coef_, shuffled.coef_[place], atol=2e-2)


def test_a_duplicated_node_changes_nothing_when_its_weight_is_split(leaf_data):
    """Models with one sum K of alpha over duplicates are equivalent (docs/mathematics/hierarchies#duplicates)."""
    X, y = leaf_data(so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)]), n=40)
    short = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)])
    long = so.Hierarchy([(0, 1), (0, 2), (1, "copy"), ("copy", 3), ("copy", 4)])
    alpha = dict(zip(short.nodes, [0.0, 0.5, 1.0, 0.5, 0.5], strict=True))
    doubled = {**alpha, 1: 0.25, "copy": 0.25}
    objectives = []
    for h, weights in ((short, alpha), (long, doubled)):
        model = HierarchicalLabels(h, alpha=weights, loss=Normalized(h, weights))
        objectives.append(so.train.block_ascent(StructuredRisk(model, X, y), lam=0.3, tol=1e-5).objective)
    assert objectives[0] == pytest.approx(objectives[1], rel=3e-5)


# ---- prediction -----------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [TREE, DAG])
@pytest.mark.parametrize("kind", ["leaf", "leaves", "closure"])
def test_predictions_are_optimal_by_enumeration(leaf_data, leaf_set_data, h, kind):
    X, y = leaf_data(h) if kind == "leaf" else leaf_set_data(h)
    est = HierarchicalSVM(h, kind=kind, lam=0.05, max_passes=20, tol=1e-2).fit(X, y)
    labels = np.array([label.z if hasattr(label, "z") else label for label in est._predictor().space().enumerate()])
    scores = est.decision_function(X)
    rows = est.predict_nodes(X).toarray()
    assert np.isin(rows, (0.0, 1.0)).all()
    assert np.allclose((scores * rows).sum(axis=1), (scores @ labels.T).max(axis=1), atol=1e-7)


def test_dag_is_trained_over_the_relaxation(leaf_set_data):
    X, y = leaf_set_data(DAG, n=20)
    est = HierarchicalSVM(DAG, kind="leaves", lam=0.05, tol=1e-3).fit(X, y)
    assert est.result_.converged
    # The relaxation contains the labels: its optimum is no smaller than that of integral training.
    integral = HierarchicalLabels(DAG, "leaves", alpha=est.alpha_, loss=LeafHamming(DAG), intercept=True)
    exact = so.train.bmrm(StructuredRisk(integral, X, y), lam=0.05, tol=1e-3)
    assert est.result_.objective >= exact.lower_bound - 1e-9


def test_chunks_of_a_prediction_agree(leaf_data, monkeypatch):
    X, y = leaf_data(TREE)
    est = HierarchicalSVM(TREE, lam=0.1, tol=0.1).fit(X, y)
    whole, scores = est.predict(X), est.decision_function(X)
    monkeypatch.setattr("structopt.estimators._hierarchical._CHUNK_ENTRIES", 7 * len(TREE))
    assert (est.predict(X) == whole).all() and np.allclose(est.decision_function(X), scores)


@pytest.mark.parametrize("kind", ["leaf", "leaves", "closure"])
def test_scores_that_overflow_name_their_input(monkeypatch, kind):
    svm = HierarchicalSVM([("r", "a"), ("r", "b")], kind=kind, max_passes=2)
    X, y = np.array([[1.0], [-1.0]] * 5), [{"a"}, {"b"}] * 5
    svm.fit(X, ["a", "b"] * 5 if kind == "leaf" else y)
    svm.coef_ = svm.coef_ + 10.0
    monkeypatch.setattr("structopt.estimators._hierarchical._CHUNK_ENTRIES", 6)
    X[7] = 1e308
    with pytest.raises(so.errors.DeclarationError, match=r"for example 7 is inf"):
        svm.predict(X)


# ---- the divided margin ---------------------------------------------------------------------------


@pytest.mark.parametrize("normalization", ["flat", "none", "rho", "maxmin"])
def test_divided_margin_has_the_two_properties_of_the_thesis(leaf_data, normalization):
    """Below (6.13): subgradients are as long as the features, the loss at every decision boundary is 1."""
    X, y = leaf_data(TREE, n=8)
    est = HierarchicalSVM(TREE, normalization, divided=True, intercept=False, lam=1.0, tol=0.5).fit(X, y)
    loss = task_loss(est.margin_, TREE, "leaf", est.alpha_)
    model = node_model(TREE, "leaf", est.alpha_, loss, divided=True)
    for i in range(len(y)):
        risk = StructuredRisk(model, X[i : i + 1], y[i : i + 1], Divided())
        value, subgradient = risk(np.zeros(risk.n_features))
        assert value == pytest.approx(1.0)
        assert np.linalg.norm(subgradient) == pytest.approx(np.linalg.norm(X[i]))
