"""warm_start: a second fit goes on from the first, with a certificate that is as good."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import structopt as so

# Tests stop early where an optimum is not what they are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

#: One of each estimator and of each trainer (`ConditionalRiskMinimizer` factorises: it has nowhere to begin).
WARM = [
    "LinearSVM squared",
    "LinearSVM coordinate",
    "AUCMaximizer",
    "FBetaSVM",
    "QuantileRegressor",
    "OrdinalRegressor",
    "RankSVM ndcg",
    "CRF",
    "HierarchicalSVM",
    "HierarchicalSVM sgd",
    "SharedSVM",
    "StructuredSVM multiclass",
    "StructuredSVM bcfw",
    "StructuredSVM n_slack",
    "StructuredSVM one_slack",
    "StructuredSVM block_ascent",
    "StructuredSVM bmrm",
    "StructuredSVM proximal_bundle",
    "StructuredSVM sgd",
]


@pytest.fixture(params=WARM)
def warm_case(request, cases):
    return cases[request.param]


def test_the_same_data_again_take_fewer_passes(warm_case):
    case = warm_case
    if case.parameters.get("trainer") == "sgd":
        pytest.skip("stops by its passes")
    if case.kind is so.estimators.SharedSVM:
        pytest.skip("alternates; see below")
    est = case.make(warm_start=True)
    first = case.fit(est).result_
    second = case.fit(est).result_
    assert second.converged and second.passes <= min(
        2 * max(1, len(np.unique(np.asarray(case.y, dtype=object)))), first.passes
    )
    assert second.passes < first.passes or first.passes <= 2
    assert second.objective <= first.objective * (1 + 1e-12)
    assert first.lower_bound <= second.objective * (1 + 1e-9) and second.lower_bound <= first.objective * (1 + 1e-9)
    cold = case.make()
    for _ in range(2):  # cold by default, as the first fit of a warm-starting estimator
        np.testing.assert_array_equal(case.fit(cold).result_.w, first.w)


def permuted(case):
    """Return a problem of the same shape with other inputs."""
    rng = np.random.default_rng(4)
    rows = rng.permutation(len(case.y))
    X = case.X[rows] if isinstance(case.X, np.ndarray) else [rng.normal(size=x.shape) for x in case.X]
    return replace(case, X=X)


@pytest.mark.parametrize("changed", ["lam", "data", "weights"])
def test_bounds_hold_after_a_change_of_the_problem(warm_case, changed):
    """Weights are taken over. The bound is that of the new problem."""
    case = warm_case
    est = case.fit(case.make(warm_start=True))
    other = permuted(case) if changed == "data" else case
    options = {"sample_weight": np.where(np.arange(len(case.y)) % 8 < 4, 3, 1)} if changed == "weights" else {}
    for lam in (0.02, 0.3) if changed == "lam" else (0.05,):
        warm = other.fit(est.set_params(lam=lam), **options).result_
        cold = other.fit(case.make(lam=lam), **options).result_
        if case.kind is so.estimators.SharedSVM:
            continue  # another alpha is another objective
        assert warm.lower_bound <= cold.objective * (1 + 1e-9)
        assert cold.lower_bound <= warm.objective * (1 + 1e-9)
        assert warm.converged or case.parameters.get("trainer") == "sgd"


def test_goes_on_after_an_early_end(warm_case):
    case = warm_case
    est = case.make(warm_start=True, max_passes=2, tol=1e-4)
    case.fit(est)
    before = est.result_.objective
    est.set_params(max_passes=20)
    case.fit(est)
    assert est.result_.objective <= before * (1 + 1e-12)


def test_another_shape_is_refused(warm_case):
    case = warm_case
    est = case.fit(case.make(warm_start=True, max_passes=1))
    narrow = case.X[:, :2] if isinstance(case.X, np.ndarray) else [x[:, :2] for x in case.X]
    other = replace(case, X=narrow)
    with pytest.raises(so.errors.DeclarationError, match="warm_start=False"):
        other.fit(est)


def test_other_classes_are_refused(cases):
    for name in ("LinearSVM", "CRF", "HierarchicalSVM"):
        case = cases[name]
        est = case.fit(case.make(warm_start=True))
        if name == "HierarchicalSVM":
            est.set_params(hierarchy=[("thing", "oak"), ("thing", "cat"), ("thing", "animal"), ("animal", "dog")])
            other = case
        elif name == "CRF":
            other = type(case)(case.kind, {}, case.X, [["x" + t for t in y] for y in case.y])
        else:
            other = type(case)(case.kind, {}, case.X, np.where(case.y, "yes", "no"))
        with pytest.raises(so.errors.DeclarationError, match="warm_start=True goes on from weights"):
            other.fit(est)


def test_shared_svm_goes_on_with_its_node_weights(cases):
    case = cases["SharedSVM"]
    est = case.fit(case.make(warm_start=True))
    rounds, objective = est.n_rounds_, est.objectives_[-1]
    case.fit(est)
    assert est.n_rounds_ <= rounds and est.objectives_[-1] <= objective * (1 + 1e-6)


def test_after_loading_and_pickling(warm_case, tmp_path):
    """What is kept for the next fit is not written; the weights are enough to go on."""
    case = warm_case
    est = case.fit(case.make(warm_start=True))
    again = pickle.loads(pickle.dumps(est))
    assert "_runs" not in vars(again)
    assert case.fit(again).result_.objective <= est.result_.objective * (1 + 1e-9)
    est.save(tmp_path / "model.npz")
    loaded = so.estimators.load(tmp_path / "model.npz")
    assert loaded.warm_start
    assert case.fit(loaded).result_.objective <= est.result_.objective * (1 + 1e-9)
    assert "result_" not in vars(clone(est))
