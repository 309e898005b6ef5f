"""Weights of examples: weight 2 is an example given twice, weight 0 one left out, and their unit does not count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import structopt as so

# Tests stop early where an optimum is not what they are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def weights_of(est: Any) -> Any:
    if isinstance(est, so.estimators.ConditionalRiskMinimizer):
        return None
    return np.asarray(est.result_.w)


def copies_of(case: Any) -> np.ndarray:
    """0 to 3 copies of each example; of each query where rankings are measured."""
    n = len(case.y)
    copies = np.random.default_rng(3).integers(0, 4, n)
    if isinstance(case.y, np.ndarray) and case.y.ndim == 1:
        copies[np.unique(case.y, return_index=True)[1]] += 1  # no class disappears
    if case.parameters.get("measure", "pairs") != "pairs":
        copies = np.random.default_rng(3).integers(0, 4, n)[case.query]
    return copies


def repeated(case: Any, copies: np.ndarray) -> Any:
    rows = np.repeat(np.arange(len(case.y)), copies)
    again = case.take(rows)
    if case.parameters.get("measure", "pairs") != "pairs":  # a query that is there twice is two queries
        order = np.concatenate([np.arange(k) for k in copies])
        object.__setattr__(again, "query", again.query * 10 + order)
    return again


def is_sgd(case: Any) -> bool:
    return case.parameters.get("trainer") == "sgd"


def test_weight_is_a_number_of_copies(case):
    copies = copies_of(case)
    kept = copies.copy()
    twin = repeated(case, copies)
    tol = 1e-2 if case.parameters.get("trainer") == "bcfw" else 1e-5  # plain Frank-Wolfe steps stall
    options = {} if case.kind is so.estimators.ConditionalRiskMinimizer or is_sgd(case) else {"tol": tol}
    weighted = case.fit(case.make(**options), sample_weight=copies)
    plain = twin.fit(twin.make(**options))
    np.testing.assert_array_equal(copies, kept)
    if weights_of(weighted) is None:
        grid = np.random.default_rng(1).normal(size=(9, 3))
        np.testing.assert_allclose(weighted.conditional_risk(grid)[0], plain.conditional_risk(grid)[0], atol=1e-9)
        return
    a, b = weighted.result_, plain.result_
    if case.kind is so.estimators.SharedSVM:
        assert a.objective == pytest.approx(b.objective, rel=0.02)
        return
    # Both certificates are of the same problem: each bound holds for the other's objective.
    assert a.lower_bound <= b.objective * (1 + 1e-9) and b.lower_bound <= a.objective * (1 + 1e-9)
    if not is_sgd(case):
        assert a.converged and b.converged
        assert a.objective == pytest.approx(b.objective, rel=3 * tol)
        # ||w - w*||^2 <= 2 gap / lam for each
        lam = weighted.lam * (copies.sum() if case.kind is so.estimators.FBetaSVM else 1.0)
        room = np.sqrt(2 * a.absolute_gap / lam) + np.sqrt(2 * b.absolute_gap / lam)
        assert np.linalg.norm(a.w - b.w) <= room + 1e-9


def test_unit_does_not_count(case):
    if case.kind is so.estimators.FBetaSVM:
        pytest.skip("its weights are numbers of copies")
    weight = np.random.default_rng(8).uniform(0.1, 2.0, len(case.y))
    if case.parameters.get("measure", "pairs") != "pairs":
        weight = weight[case.query]
    short = {} if case.kind is so.estimators.ConditionalRiskMinimizer else {"max_passes": 4}
    a = case.fit(case.make(**short), sample_weight=weight)
    b = case.fit(case.make(**short), sample_weight=list(1024.0 * weight))
    if weights_of(a) is None:
        np.testing.assert_allclose(a.weights(case.X), b.weights(case.X))
    else:
        np.testing.assert_allclose(a.result_.w, b.result_.w, atol=1e-7)
    c, d = case.fit(case.make(**short)), case.fit(case.make(**short), sample_weight=np.full(len(case.y), 3.0))
    if weights_of(c) is not None:
        np.testing.assert_array_equal(c.result_.w, d.result_.w)


IMPOSSIBLE = [
    ([1.0], "1 entries for 24 examples"),
    (np.ones((24, 2)), "1D array or scalar"),
    (np.where(np.arange(24) == 5, -1.0, 1.0), "entry 5 is -1"),
    (np.where(np.arange(24) == 7, np.nan, 1.0), "entry 7 is nan"),
    (np.where(np.arange(24) == 7, np.inf, 1.0), "entry 7 is inf"),
    (np.zeros(24), "every sample weight is zero"),
    (["heavy"] * 24, "one number per example"),
    ({"a": 1}, "one number per example"),
]


def test_impossible_weights(case):
    for weight, message in IMPOSSIBLE:
        with pytest.raises(so.errors.DeclarationError, match=message):
            case.fit(case.make(), sample_weight=weight)


def test_classes_of_weight_zero_are_not_there(cases):
    case = cases["LinearSVM crammer_singer"]
    est = case.fit(case.make(), sample_weight=(case.y < 2).astype(float))
    np.testing.assert_array_equal(est.classes_, [0, 1])
    with pytest.raises(so.errors.DeclarationError, match="weight 0 do not count"):
        case.fit(case.make(), sample_weight=(case.y < 1).astype(float))


def test_fractions_of_counted_examples_are_refused(cases):
    case = cases["FBetaSVM"]
    with pytest.raises(so.errors.DeclarationError, match="a weight is a number of copies"):
        case.fit(case.make(), sample_weight=np.full(24, 0.5))


def test_a_fraction_is_named_by_its_place_among_all_weights():
    with pytest.raises(so.errors.DeclarationError, match=r"entry 2 of sample_weight is 1\.5"):
        so.estimators.FBetaSVM().fit(np.eye(4), [1, -1, 1, -1], sample_weight=[0, 1, 1.5, 1])


def test_hierarchical_estimators_number_examples_as_the_data_set_does():
    class OneForNode1(so.losses.Hamming):
        """Not 0 at the truth that holds node 1."""

        def linear(self, truth):
            coef, const = super().linear(truth)
            return coef, const + truth[1]

        def linear_batch(self, truths):
            return so.losses.TaskLoss.linear_batch(self, truths)

    class Svm(so.HierarchicalSVM):
        def _model(self, constant):
            model = super()._model(constant)
            return so.structures.HierarchicalLabels(model.hierarchy, self.kind, loss=OneForNode1())

    y = ["c", "b", "c", "b", "c", "a"]
    with pytest.raises(so.errors.DeclarationError, match=r"^example 5: the task loss of the true label"):
        Svm([("r", leaf) for leaf in "abc"]).fit(np.ones((6, 1)), y, sample_weight=[0, 1, 0, 1, 1, 1])


def test_documents_of_a_measured_query_share_a_weight(cases):
    case = cases["RankSVM ndcg"]
    with pytest.raises(so.errors.DeclarationError, match="share one weight"):
        case.fit(case.make(), sample_weight=np.arange(1.0, 25.0))


def test_in_pipelines_and_searches(cases):
    case = cases["StructuredSVM multiclass"]
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 24)
    pipe = make_pipeline(StandardScaler(), case.make())
    pipe.fit(case.X, case.y, structuredsvm__sample_weight=weight)
    assert pipe.predict(case.X).shape == (24,)
    search = GridSearchCV(case.make(), {"lam": [0.1, 1.0], "warm_start": [False, True]}, cv=2)
    search.fit(case.X, case.y, sample_weight=weight)
    assert search.best_estimator_.coef_.shape == (9,)
