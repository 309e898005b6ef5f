"""Hierarchical SVMs: where theory says that methods agree they do; bounds hold; every input form works."""

from __future__ import annotations

import pickle
import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import structopt as so
from structopt import metrics, norms
from structopt.errors import DeclarationError, StructoptError
from structopt.estimators._divided import Divided
from structopt.estimators._hierarchical_sgd import Pattern, hierarchical_sgd, seen_features
from structopt.estimators._hierarchical_train import node_model, task_loss
from structopt.estimators.hierarchical import HierarchicalSVM
from structopt.estimators.persistence import load
from structopt.estimators.shared import SharedSVM
from structopt.estimators.structured import StructuredSVM
from structopt.losses import LeafHamming, Normalized
from structopt.structures.hierarchy import HierarchicalLabels
from structopt.train.sgd import sgd
from structopt.train.structured import StructuredRisk

TREE = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (2, 7)])
DAG = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 4), (2, 5)])


def make(h: so.Hierarchy = TREE, n: int = 60, d: int = 6, seed: int = 0, noise: float = 1.0):
    """Leaves with the largest sum of random node scores, plus noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    W = rng.normal(size=(len(h), d))
    potential = X @ (h.closure @ W).T + noise * rng.normal(size=(n, h.leaf_index.size))
    return X, np.array(h.leaves)[potential.argmax(axis=1)]


def make_sets(h: so.Hierarchy, n: int = 40, d: int = 5, seed: int = 0):
    X, _ = make(h, n, d, seed)
    W = np.random.default_rng(seed + 1).normal(size=(len(h), d))
    z = HierarchicalLabels(h, "leaves").batch(X)
    labels, _ = z.argmax(z.tables(W.ravel()))
    return X, z.decode(labels)


# ---- agreement where theory asks for it -----------------------------------------------------------


def test_flat_is_multiclass_on_the_leaves():
    X, y = make()
    flat = HierarchicalSVM(TREE, "flat", lam=0.2, tol=1e-6, fit_intercept=False).fit(X, y)
    other = StructuredSVM(so.structures.Multiclass(list(TREE.leaves)), lam=0.2, tol=1e-6).fit(X, y)
    assert flat.result_.objective == pytest.approx(other.result_.objective, rel=5e-6)
    assert (flat.predict(X) == other.predict(X)).all()
    assert not flat.coef_[~TREE.is_leaf].any()


def test_a_tree_of_leaves_only_makes_all_methods_the_same():
    star = so.Hierarchy([("root", k) for k in range(4)])
    X, y = make(star)
    fits = [
        HierarchicalSVM(star, name, margin="leaf", lam=0.3, tol=1e-5).fit(X, y)
        for name in ("flat", "none", "rho", "maxmin")
    ]
    assert np.ptp([fit.result_.objective for fit in fits]) < 1e-5
    assert all((fit.predict(X) == fits[0].predict(X)).all() for fit in fits)


@pytest.mark.parametrize("h", [TREE, DAG])
def test_node_weights_are_those_of_norms(h):
    X, y = make(h)
    quick = {"trainer": "sgd", "max_passes": 1}
    assert np.array_equal(HierarchicalSVM(h, "rho", rho=1.5, **quick).fit(X, y).alpha_, norms.normalization(h, 1.5))
    assert np.array_equal(HierarchicalSVM(h, "maxmin", **quick).fit(X, y).alpha_, norms.maxmin(h))
    loose = HierarchicalSVM(h, "rho", tolerance=1.5, **quick).fit(X, y).alpha_
    sums = h.closure @ loose
    assert (sums >= 1 - 1e-7).all() and (sums <= 1.5 + 1e-7).all()


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_objective_is_the_one_stated(seed):
    """lam/2 ||W||^2 + mean of max over leaves, by enumeration, for every normalisation and margin."""
    h = TREE
    X, y = make(seed=seed, n=25)
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


def test_trainers_agree():
    X, y = make()
    objectives = {}
    for trainer in ("block_ascent", "bmrm", "one_slack"):
        est = HierarchicalSVM(TREE, "rho", lam=0.2, trainer=trainer, tol=1e-4).fit(X, y)
        objectives[trainer] = est.result_.objective
    rough = HierarchicalSVM(TREE, "rho", lam=0.2, trainer="sgd", max_passes=60).fit(X, y).result_
    assert max(objectives.values()) <= min(objectives.values()) * (1 + 3e-4)
    assert objectives["bmrm"] * (1 - 2e-4) <= rough.objective <= 1.1 * objectives["bmrm"]
    assert rough.lower_bound <= objectives["bmrm"]


def test_order_of_nodes_and_of_examples_does_not_matter():
    X, y = make()
    edges = list(TREE.edges)
    base = HierarchicalSVM(edges, lam=0.3, tol=1e-5).fit(X, y)
    shuffled = HierarchicalSVM(edges[::-1], lam=0.3, tol=1e-5).fit(X[::-1], y[::-1])
    assert base.result_.objective == pytest.approx(shuffled.result_.objective, rel=3e-5)
    place = [shuffled.hierarchy_.index(name) for name in base.hierarchy_.nodes]
    assert np.allclose(base.alpha_, shuffled.alpha_[place])
    assert np.allclose(base.coef_, shuffled.coef_[place], atol=2e-2)


def test_a_duplicated_node_changes_nothing_when_its_weight_is_split():
    """MATH.md 6.4: for a fixed sum K of alpha over duplicates the models are equivalent."""
    X, y = make(so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)]), n=40)
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
def test_predictions_are_optimal_by_enumeration(h, kind):
    X, y = make(h) if kind == "leaf" else make_sets(h)
    est = HierarchicalSVM(h, kind=kind, lam=0.05, max_passes=20, tol=1e-2).fit(X, y)
    labels = np.array([label.z if hasattr(label, "z") else label for label in est._predictor().space().enumerate()])
    scores = est.decision_function(X)
    rows = est.predict_nodes(X).toarray()
    assert np.isin(rows, (0.0, 1.0)).all()
    assert np.allclose((scores * rows).sum(axis=1), (scores @ labels.T).max(axis=1), atol=1e-7)


def test_dag_is_trained_over_the_relaxation():
    X, y = make_sets(DAG, n=20)
    est = HierarchicalSVM(DAG, kind="leaves", lam=0.05, tol=1e-3).fit(X, y)
    assert est.result_.converged
    # The relaxation contains the labels: its optimum is no smaller than that of integral training.
    integral = HierarchicalLabels(DAG, "leaves", alpha=est.alpha_, loss=LeafHamming(DAG), bias=True)
    exact = so.train.bmrm(StructuredRisk(integral, X, y), lam=0.05, tol=1e-3)
    assert est.result_.objective >= exact.lower_bound - 1e-9


def test_chunks_of_a_prediction_agree(monkeypatch):
    X, y = make()
    est = HierarchicalSVM(TREE, lam=0.1, tol=0.1).fit(X, y)
    whole, scores = est.predict(X), est.decision_function(X)
    monkeypatch.setattr("structopt.estimators._hierarchical_base._CHUNK_ENTRIES", 7 * len(TREE))
    assert (est.predict(X) == whole).all() and np.allclose(est.decision_function(X), scores)


# ---- the divided margin ----------------------------------------------------------------------------


def test_divided_surrogate_by_enumeration():
    X, y = make(n=20)
    alpha = norms.normalization(TREE)
    from structopt.estimators._divided import DividedLabels

    model = DividedLabels(TREE, alpha=alpha, loss=Normalized(TREE, alpha))
    risk = StructuredRisk(model, X, y, Divided())
    w = np.random.default_rng(0).normal(size=risk.n_features)
    value, subgradient = risk(w)
    paths = TREE.closure.toarray()
    scores = (X @ (np.sqrt(alpha)[:, None] * w.reshape(len(TREE), -1)).T) @ paths.T
    own = [TREE.leaves.index(leaf) for leaf in y]
    error = Normalized(TREE, alpha).pairwise()[own]
    margin = scores - scores[np.arange(20), own][:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        psi = np.where(error > 0, 1 + margin / error, 0)
    assert value == pytest.approx(np.maximum(psi.max(axis=1), 0).mean())
    step = 1e-6 * np.random.default_rng(1).normal(size=w.size)
    assert (risk(w + step)[0] - value) == pytest.approx(subgradient @ step, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("normalization", ["flat", "none", "rho", "maxmin"])
def test_divided_margin_has_the_two_properties_of_the_thesis(normalization):
    """Below (6.13): subgradients are as long as the features, the loss at every decision boundary is 1."""
    X, y = make(n=8)
    est = HierarchicalSVM(TREE, normalization, divided=True, fit_intercept=False, lam=1.0, tol=0.5).fit(X, y)
    loss = task_loss(est.margin_, TREE, "leaf", est.alpha_)
    model = node_model(TREE, "leaf", est.alpha_, loss, divided=True)
    for i in range(len(y)):
        risk = StructuredRisk(model, X[i : i + 1], y[i : i + 1], Divided())
        value, subgradient = risk(np.zeros(risk.n_features))
        assert value == pytest.approx(1.0)
        assert np.linalg.norm(subgradient) == pytest.approx(np.linalg.norm(X[i]))


# ---- sparse data and SGD ---------------------------------------------------------------------------


def _sparse(n=80, d=50, seed=0):
    X, y = make(n=n, d=d, seed=seed)
    keep = np.random.default_rng(seed).random(X.shape) < 0.2
    return sp.csr_array(X * keep), y


@pytest.mark.parametrize("batch_size", [None, 5])
@pytest.mark.parametrize("margin", ["hamming", "leaf", "normalized", "divided"])
def test_weights_by_feature_are_those_of_the_general_sgd(margin, batch_size):
    X, y = _sparse()
    alpha = norms.normalization(TREE)
    divided = margin == "divided"
    loss = task_loss("normalized" if divided else margin, TREE, "leaf", alpha)
    model = node_model(TREE, "leaf", alpha, loss, divided)
    surrogate = Divided() if divided else "margin"
    risk = StructuredRisk(model, X, y, surrogate)
    one = sgd(risk, lam=0.05, max_passes=2, random_state=3, batch_size=batch_size or 1)
    two, W = hierarchical_sgd(
        model, X, y, lam=0.05, max_passes=2, random_state=3, batch_size=batch_size, surrogate=surrogate
    )
    assert np.allclose(one.w, W.ravel(), atol=1e-10)
    assert one.objective == pytest.approx(two.objective, rel=1e-10)
    assert one.lower_bound == pytest.approx(two.lower_bound, rel=1e-10)


def test_seen_features_is_the_pattern_of_a_product():
    X, y = _sparse(n=30)
    labels = HierarchicalLabels(TREE).codec.encode_many(y, 30)
    pattern = seen_features(X, labels)
    assert isinstance(pattern, Pattern) and pattern.size == seen_features(X, labels, count_only=True)
    counts = (X != 0).astype(int).T @ labels
    found = sp.csr_array((np.ones(pattern.size), pattern.node, pattern.ptr), shape=counts.shape)
    assert (found.toarray() == (counts.toarray() > 0)).all()


def test_weights_on_the_full_pattern_are_all_weights():
    X, y = _sparse()
    model = HierarchicalLabels(TREE)
    full = seen_features(sp.csr_array(np.ones((1, 50))), sp.csr_array(np.ones((1, len(TREE)))))
    for size in (None, 7):
        _, all_of_them = hierarchical_sgd(model, X, y, lam=0.05, max_passes=2, batch_size=size)
        _, on_pattern = hierarchical_sgd(model, X, y, lam=0.05, max_passes=2, pattern=full, batch_size=size)
        assert np.allclose(on_pattern.toarray(), all_of_them)


def test_seen_support_keeps_only_what_a_node_has_met():
    X, y = _sparse()
    est = HierarchicalSVM(TREE, support="seen", lam=0.05, max_passes=3).fit(X, y)
    labels = HierarchicalLabels(TREE).codec.encode_many(y, X.shape[0])
    met = ((X != 0).astype(int).T @ labels).toarray().T > 0
    assert sp.issparse(est.coef_) and "only where a node has met" in est.plan_
    assert not est.coef_.toarray()[~met].any()
    assert est.result_.lower_bound <= est.result_.objective
    assert est.predict(X).shape == (80,)
    assert np.allclose(est.decision_function(X), X @ est.coef_.toarray().T + est.intercept_)


def test_float32_is_near_float64():
    X, y = _sparse()
    single, double = (
        HierarchicalSVM(TREE, trainer="sgd", dtype=dtype, lam=0.05, max_passes=5).fit(X, y)
        for dtype in ("float32", "float64")
    )
    assert single.coef_.dtype == np.float32 and double.coef_.dtype == np.float64
    assert np.allclose(single.coef_, double.coef_, atol=1e-3)
    assert single.result_.objective == pytest.approx(double.result_.objective, rel=1e-3)


def test_sparse_and_dense_agree():
    X, y = _sparse()
    dense = HierarchicalSVM(TREE, lam=0.3, tol=1e-5).fit(X.toarray(), y)
    sparse = HierarchicalSVM(TREE, lam=0.3, tol=1e-5).fit(X, y)
    assert dense.result_.objective == pytest.approx(sparse.result_.objective, rel=3e-5)


def test_memory_is_stated_and_refused():
    X, y = _sparse()
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


def test_one_thread_or_two():
    X, y = _sparse()
    model = HierarchicalLabels(TREE)
    one, two = (hierarchical_sgd(model, X, y, lam=0.05, max_passes=2, batch_size=9, n_jobs=jobs)[1] for jobs in (1, 2))
    assert np.array_equal(one, two)


def test_resumes_from_a_checkpoint(tmp_path):
    X, y = _sparse()
    options = {"trainer": "sgd", "lam": 0.05, "checkpoint": tmp_path / "run.npz"}
    HierarchicalSVM(TREE, max_passes=2, certify=False, **options).fit(X, y)
    resumed = HierarchicalSVM(TREE, max_passes=4, certify=False, **options).fit(X, y)
    straight = HierarchicalSVM(TREE, trainer="sgd", lam=0.05, max_passes=4, certify=False).fit(X, y)
    assert np.allclose(resumed.coef_, straight.coef_)


# ---- an estimator like any other -------------------------------------------------------------------


@pytest.mark.parametrize("cls", [HierarchicalSVM, SharedSVM])
def test_clone_grid_search_and_pickle(cls, tmp_path):
    X, y = make()
    est = cls(list(TREE.edges), max_passes=10, tol=5e-2, lam=0.1, **({"rounds": 2} if cls is SharedSVM else {}))
    again = clone(est)
    assert again.get_params()["lam"] == est.lam and not hasattr(again, "coef_")
    search = GridSearchCV(est, {"lam": [0.1, 1.0]}, cv=2).fit(X, y)
    assert search.best_params_["lam"] in (0.1, 1.0) and search.best_score_ > 0.2
    fitted = est.fit(X, y)
    thawed = pickle.loads(pickle.dumps(fitted))
    assert (thawed.predict(X) == fitted.predict(X)).all()
    fitted.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert (loaded.predict(X) == fitted.predict(X)).all() and loaded.result_.gap == fitted.result_.gap
    assert fitted.score(X, y) == pytest.approx(metrics.accuracy(y, fitted.predict(X)))
    assert fitted.classes_.tolist() == list(TREE.leaves)


def test_sets_of_leaves_in_a_grid_search():
    X, y = make_sets(TREE)
    search = GridSearchCV(HierarchicalSVM(TREE, kind="leaves", tol=0.1), {"lam": [0.1, 1.0]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert 0 <= search.fit(X, y).best_score_ <= 1


def test_every_form_of_hierarchy_is_the_same():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    names = np.array(["a/c", "a/d", "b"])[rng.integers(3, size=30)]
    forms = [
        ["a/c", "a/d", "b"],
        {"a": ["a/c", "a/d"], "b": None},
        nx.DiGraph([("a", "a/c"), ("a", "a/d")]),
        so.Hierarchy([("a", "a/c"), ("a", "a/d")], nodes=["b"]),
    ]
    forms[2].add_node("b")
    answers = [HierarchicalSVM(form, lam=0.3, tol=1e-4).fit(X, names).result_.objective for form in forms]
    assert np.ptp(answers) < 3e-4
    array = HierarchicalSVM(np.array([[0, 1], [0, 2]]), lam=0.3).fit(X, rng.integers(1, 3, size=30))
    assert array.hierarchy_.nodes == (0, 1, 2)


def test_unseen_nodes_are_reported():
    X, y = make()
    known = y < 6
    with pytest.warns(UserWarning, match="have no training example"):
        est = HierarchicalSVM(TREE, lam=0.1).fit(X[known], y[known])
    assert set(est.unseen_nodes_) == {6, 7}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert HierarchicalSVM(TREE, max_passes=2).fit(X, y).unseen_nodes_ == ()


def test_ctrl_c_keeps_what_was_learned(monkeypatch):
    X, y = _sparse()
    from structopt.estimators import _hierarchical_sgd

    calls = []
    visit = _hierarchical_sgd.leaf_steps

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return visit(*args)

    monkeypatch.setattr(_hierarchical_sgd, "leaf_steps", interrupted)
    monkeypatch.setattr(_hierarchical_sgd, "_SLAB", 10)
    est = HierarchicalSVM(TREE, trainer="sgd", lam=0.05).fit(X, y)
    assert est.result_.stopped == "interrupted" and est.coef_.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalization": "rhoo"}, "normalization must be one of"),
        ({"margin": "leafs"}, "margin must be one of"),
        ({"kind": "node"}, "kind must be"),
        ({"kind": "leaves", "margin": "normalized"}, "between single leaves only"),
        ({"kind": "leaves", "divided": True}, "single-label"),
        ({"margin": "leaf", "divided": True}, "norm of the attributes"),
        ({"kind": "closure", "normalization": "flat"}, "leaves only"),
        ({"normalization": "maxmin", "tolerance": 1.5}, "tolerance belongs"),
        ({"rho": 1.0}, "rho must be"),
        ({"lam": 0.0}, "lam"),
        ({"trainer": "adam"}, "trainer must be"),
        ({"support": "some"}, "support must be"),
        ({"support": "seen"}, "sparse X"),
        ({"dtype": "int32"}, "dtype must be"),
        ({"max_memory": -1}, "max_memory"),
    ],
)
def test_bad_arguments(options, message):
    X, y = make(n=20)
    if options.get("kind") == "leaves":
        y = [{leaf} for leaf in y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(StructoptError, match=message):
            HierarchicalSVM(TREE, **options).fit(X, y)


def test_bad_data():
    X, y = make(n=20)
    with pytest.raises(StructoptError, match="example 3"):
        HierarchicalSVM(TREE).fit(np.where(np.arange(20)[:, None] == 3, np.nan, X), y)
    bad = sp.csr_array(X)
    bad.data[-1] = np.inf
    with pytest.raises(StructoptError, match="example 19"):
        HierarchicalSVM(TREE).fit(bad, y)
    with pytest.raises(StructoptError, match=r"example 0: .*99"):
        HierarchicalSVM(TREE).fit(X, [99, *y[1:]])
    with pytest.raises(StructoptError, match="without any of its leaves"):
        HierarchicalSVM(TREE).fit(X, [1, *y[1:]])
    with pytest.raises(ValueError, match="19 labels"):
        HierarchicalSVM(TREE).fit(X, y[1:])
    with pytest.raises(StructoptError, match="hierarchy must be"):
        HierarchicalSVM(7).fit(X, y)
    with pytest.raises(StructoptError, match="needs labels"):
        HierarchicalSVM(TREE).fit(X, None)
    with pytest.raises(ValueError, match="6 features"), pytest.warns(UserWarning):
        HierarchicalSVM(TREE, max_passes=1).fit(X, y).predict(X[:, :-1])
