"""warm_start: a second fit goes on from the first, with a certificate that is as good."""

from __future__ import annotations

import pickle

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
    cold = case.fit(case.make())
    np.testing.assert_array_equal(cold.result_.w, first.w)  # the first fit of a warm-starting estimator is a cold one


def test_another_lam_keeps_the_certificate(warm_case):
    """What is taken over must give valid bounds at another lam."""
    case = warm_case
    est = case.make(warm_start=True)
    case.fit(est)
    for lam in (0.02, 0.3):
        est.set_params(lam=lam)
        warm = case.fit(est).result_
        cold = case.fit(case.make(lam=lam)).result_
        if case.kind is so.estimators.SharedSVM:
            continue  # another alpha is another objective
        assert warm.lower_bound <= cold.objective * (1 + 1e-9)
        assert cold.lower_bound <= warm.objective * (1 + 1e-9)
        if case.parameters.get("trainer") != "sgd":
            assert warm.converged


def test_other_data_of_the_same_shape(warm_case):
    """Weights are taken over, planes are not: the bound is of the new data."""
    case = warm_case
    rng = np.random.default_rng(4)
    rows = rng.permutation(len(case.y))
    X = case.X[rows] if isinstance(case.X, np.ndarray) else [rng.normal(size=x.shape) for x in case.X]
    other = type(case)(case.kind, case.parameters, X, case.y, case.query)
    est = case.make(warm_start=True)
    case.fit(est)
    warm = other.fit(est).result_
    cold = other.fit(other.make()).result_
    if case.kind is so.estimators.SharedSVM:
        return  # another alpha is another objective
    assert warm.lower_bound <= cold.objective * (1 + 1e-9)
    assert cold.lower_bound <= warm.objective * (1 + 1e-9)
    if case.parameters.get("trainer") != "sgd":
        assert warm.converged


def test_other_weights_of_the_examples(warm_case):
    case = warm_case
    weight = np.where(np.arange(len(case.y)) % 8 < 4, 3, 1)
    est = case.make(warm_start=True)
    case.fit(est)
    warm = case.fit(est, sample_weight=weight).result_
    cold = case.fit(case.make(), sample_weight=weight).result_
    if case.kind is so.estimators.SharedSVM:
        return
    assert warm.lower_bound <= cold.objective * (1 + 1e-9)
    assert cold.lower_bound <= warm.objective * (1 + 1e-9)


def test_goes_on_after_an_early_end(warm_case):
    case = warm_case
    est = case.make(warm_start=True, max_passes=2, tol=1e-4)
    case.fit(est)
    before = est.result_.objective
    est.set_params(max_passes=100)
    case.fit(est)
    assert est.result_.objective <= before * (1 + 1e-12)


def test_another_shape_is_refused(warm_case):
    case = warm_case
    est = case.fit(case.make(warm_start=True))
    narrow = case.X[:, :2] if isinstance(case.X, np.ndarray) else [x[:, :2] for x in case.X]
    other = type(case)(case.kind, case.parameters, narrow, case.y, case.query)
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


def test_cold_by_default(warm_case):
    case = warm_case
    est = case.make()
    first = case.fit(est).result_.w
    np.testing.assert_array_equal(case.fit(est).result_.w, first)
