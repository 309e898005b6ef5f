"""RankSVM, AUCMaximizer, QuantileRegressor, OrdinalRegressor and CRF against brute force and references."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.linear_model import QuantileRegressor as Reference
from sklearn.metrics import roc_auc_score

from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.estimators import CRF, AUCMaximizer, OrdinalRegressor, QuantileRegressor, RankSVM
from structopt.estimators.ranking import _threshold
from structopt.estimators.regression import _thresholds
from structopt.risks import NDCG

TRUTH = np.array([2.0, -1.0, 0.5, 0.0])


def queries(seed: int = 0, n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, query = rng.normal(size=(n, 4)), rng.integers(0, 6, n)
    utility = X @ TRUTH + 5.0 * query  # a query has its own level
    y = np.zeros(n)
    for q in range(6):
        y[query == q] = np.digitize(utility[query == q], np.quantile(utility[query == q], [0.4, 0.8]))
    return X, y, query


@pytest.mark.parametrize("measure", ["pairs", "ndcg", "mrr", "precision", "eru", NDCG(k=3)], ids=str)
def test_every_measure_learns_the_order(measure: Any) -> None:
    X, y, query = queries()
    ranker = RankSVM(lam=1e-3, measure=measure).fit(X, y, query=query)
    assert ranker.result_.converged and ranker.coef_.shape == (4,)
    ideal, reverse = copy.copy(ranker), copy.copy(ranker)
    ideal.coef_, reverse.coef_ = TRUTH, -TRUTH
    best, worst = ideal.score(X, y, query=query), reverse.score(X, y, query=query)
    assert ranker.score(X, y, query=query) >= best - 0.15 * (best - worst)
    assert np.array_equal(ranker.predict(sp.csr_array(X)).round(9), ranker.decision_function(X).round(9))


def test_pairs_of_one_query_are_all_pairs() -> None:
    X, y, _ = queries()
    one = RankSVM(lam=0.01, tol=1e-6).fit(X, y)  # by sorting
    same = RankSVM(lam=0.01, tol=1e-6).fit(np.vstack([X, X]), np.tile(y, 2), query=np.repeat([0, 1], 60))  # by pairs
    assert one.result_.objective == pytest.approx(same.result_.objective, rel=1e-5)
    f = one.predict(X)
    right = [f[i] > f[j] for i in range(60) for j in range(60) if y[i] > y[j]]
    assert one.score(X, y) == pytest.approx(np.mean(right))


def test_rank_svm_refuses_what_it_cannot_rank() -> None:
    X, y, query = queries()
    with pytest.raises(DeclarationError, match="no pair to compare"):
        RankSVM().fit(X, np.ones(60))
    with pytest.raises(DeclarationError, match="no pair to compare"):
        RankSVM().fit(X[:2], [1.0, 2.0], query=["a", "b"])
    with pytest.raises(DeclarationError, match="query has shape"):
        RankSVM().fit(X, y, query=query[:5])
    with pytest.raises(DeclarationError, match="measure must be"):
        RankSVM(measure="auc").fit(X, y, query)
    with pytest.warns(UserWarning, match="1 of 7 queries have one document"):
        RankSVM(measure="ndcg").fit(np.vstack([X, X[:1]]), np.append(y, 1.0), query=np.append(query, 9))
    with pytest.raises(DeclarationError, match="nothing to score"):
        RankSVM().fit(X, y).score(X, np.ones(60))


def test_auc_is_maximised_and_the_threshold_separates() -> None:
    X, y = make_classification(300, 6, weights=[0.8], flip_y=0.1, random_state=1)
    auc = AUCMaximizer(lam=1e-3).fit(X, y)
    assert auc.score(X, y) == pytest.approx(roc_auc_score(y, auc.decision_function(X)))
    assert auc.score(X, y) > 0.85 and auc.result_.converged
    predicted = auc.predict(X)
    balanced = predicted[y == 1].mean() + 1 - predicted[y == 0].mean()
    f = auc.decision_function(X)
    best = max((f > t)[y == 1].mean() + 1 - (f > t)[y == 0].mean() for t in np.append(f, f.min() - 1))
    assert balanced == pytest.approx(best)
    with pytest.raises(DeclarationError, match="one class"):
        AUCMaximizer().fit(X, np.zeros(300, dtype=int))


def test_a_threshold_between_equal_scores() -> None:
    assert _threshold(np.zeros(4), np.array([True, False, True, False])) == 0.0
    assert _threshold(np.array([0.0, 0.0, 2.0]), np.array([False, False, True])) == 1.0


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.9])
def test_quantiles_cover_and_agree_with_scikit_learn(tau: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = 1000.0 + X @ [1.0, 2.0, 3.0] + rng.exponential(size=400)
    mine = QuantileRegressor(tau=tau, lam=1e-6, tol=1e-4).fit(X, y)
    theirs = Reference(quantile=tau, alpha=0.0).fit(X, y)
    assert mine.coef_ == pytest.approx(theirs.coef_, abs=0.05)
    assert mine.intercept_ == pytest.approx(theirs.intercept_, abs=0.05)
    assert np.mean(y <= mine.predict(X)) == pytest.approx(tau, abs=0.03)
    with pytest.raises(DeclarationError, match="tau is a quantile"):
        QuantileRegressor(tau=1.0).fit(X, y)


def test_the_quantile_moves_with_the_targets() -> None:
    X, y, _ = queries()
    here = QuantileRegressor(lam=0.1, tol=1e-6).fit(X, y)
    there = QuantileRegressor(lam=0.1, tol=1e-6).fit(X, y + 1e4)
    assert there.intercept_ - here.intercept_ == pytest.approx(1e4, abs=1e-2)


@settings(max_examples=60, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=9),
)
def test_thresholds_have_the_least_error(pairs: list[tuple[int, int]]) -> None:
    f = np.array([p[0] for p in pairs], dtype=float)
    level = np.array([p[1] for p in pairs])
    thresholds = _thresholds(f, level, 4)
    assert (np.diff(thresholds[np.isfinite(thresholds)]) >= 0).all()
    error = np.abs(np.searchsorted(thresholds, f, side="right") - level).sum()
    cuts = np.arange(-0.5, 7)
    least = min(np.abs((f > a).astype(int) + (f > b) + (f > c) - level).sum() for a in cuts for b in cuts for c in cuts)
    assert error == least


@pytest.mark.parametrize("cost", ["constant", "linear"])
def test_ordinal_levels(cost: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.array([1, 2, 5])[np.digitize(X @ [1.0, 1.0, 0.0], [-0.5, 1.0])]
    ordinal = OrdinalRegressor(lam=1e-4, cost=cost).fit(X, y)
    assert np.mean(ordinal.predict(X) == y) > 0.95
    assert ordinal.levels_.tolist() == [1, 2, 5] and ordinal.thresholds_.shape == (2,)
    assert set(ordinal.predict(100 * X)) <= {1, 2, 5}
    assert np.array_equal(
        ordinal.levels_[np.digitize(ordinal.score_samples(X), ordinal.thresholds_)], ordinal.predict(X)
    )
    with pytest.raises(DeclarationError, match="no pair to compare"):
        OrdinalRegressor().fit(X, np.ones(200))
    with pytest.raises(DeclarationError, match="cost must be"):
        OrdinalRegressor(cost="square").fit(X, y)


def tagged(n: int = 30, seed: int = 0) -> tuple[list[np.ndarray], list[list[str]]]:
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags = ["O"]
        for _ in range(rng.integers(2, 7)):
            tags.append(rng.choice(["O", "B", "I"] if tags[-1] != "O" else ["O", "B"]))
        y.append([str(tag) for tag in tags])
        X.append(np.eye(3)[["OBI".index(tag) for tag in tags]] + 0.3 * rng.normal(size=(len(tags), 3)))
    return X, y


def test_crf_learns_a_chain() -> None:
    X, y = tagged()
    crf = CRF(lam=0.01, transitions="bio", intercept=True, initial_weights=True, n_jobs=2).fit(X, y)
    assert crf.score(X, y) > 0.95 and crf.result_.converged
    assert crf.states_ == ["B", "I", "O"] and crf.coef_.shape == (3, 3) and crf.transitions_.shape == (3, 3)
    for chain in crf.predict(X):
        assert all(not (a == "O" and b == "I") for a, b in itertools.pairwise(chain))
    shares = crf.predict_proba(X)
    assert all(np.allclose(p.sum(axis=1), 1.0) for p in shares) and shares[0].shape == (len(y[0]), 3)
    mean = -crf.log_likelihood(X, y).mean()
    assert crf.result_.objective == pytest.approx(0.005 * crf.w_ @ crf.w_ + mean, rel=1e-9)
    assert crf.decision_function(X)[0].shape == (len(y[0]), 3)


def test_crf_numbers_and_refusals() -> None:
    X, y = tagged()
    codes = [np.array(["BIO".index(tag) for tag in label]) for label in y]
    crf = CRF(lam=0.1).fit(X, codes)
    assert crf.states_ == [0, 1, 2] and crf.score(X, codes) > 0.9
    with pytest.raises(LabelNotInSpace, match="is not one of the states"):
        CRF(states=["O", "B"]).fit(X, y)
    with pytest.raises(DeclarationError, match="cannot be sorted"):
        CRF().fit(X[:1], [[0, "a"]])
    with pytest.raises(DeclarationError, match="a state for every position"):
        crf.score(X, [label[:-1] for label in codes])
