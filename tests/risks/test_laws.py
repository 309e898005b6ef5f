"""Properties of every risk of the package."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt.risks as risks
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy
from structopt.risks.risk import LinearRisk
from structopt.structures.chain import Chain
from structopt.structures.mrf import PairwiseMRF
from structopt.structures.multilabel import MultiLabel

M, D = 12, 3
TREE = [("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "d"), ("b", "e"), ("d", "f"), ("c", "f")]


def labels(rng):
    return np.where(np.arange(M) % 3 == 0, 1.0, -1.0)[rng.permutation(M)]


def g_mean(tp, fp, fn, tn):
    return np.sqrt(tp / (tp + fn) * tn / (fp + tn))


def queries(rng):
    """Three queries of four documents each; the first three rows are the least relevant, the last three the most."""
    return np.arange(M) % 3, 2 * (np.arange(M) // 4) + rng.integers(0, 2, M)


def sequences(X, r):
    """The rows as four sequences of lengths 1 to 5, with states that the chain allows."""
    rows = X if sp.issparse(X) or np.ndim(X) < 2 else np.asarray(X)
    if np.shape(X) != (M, D):  # what is wrong with X is for the risk to say
        return [X], [[0] * M]
    rows = rows.tocsr() if sp.issparse(rows) else rows
    ends = [0, 1, 4, 7, M]
    return [rows[a:b] for a, b in pairwise(ends)], [r.integers(0, 2, b - a).tolist() for a, b in pairwise(ends)]


BUILD = {
    "Hinge": lambda X, r: risks.Hinge(X, labels(r)),
    "SquaredHinge": lambda X, r: risks.SquaredHinge(X, labels(r)),
    "Logistic": lambda X, r: risks.Logistic(X, labels(r)),
    "Exponential": lambda X, r: risks.Exponential(X, labels(r)),
    "Novelty": lambda X, r: risks.Novelty(X, rho=0.7),
    "LeastSquares": lambda X, r: risks.LeastSquares(X, r.normal(size=M)),
    "Absolute": lambda X, r: risks.Absolute(X, r.normal(size=M)),
    "Quantile": lambda X, r: risks.Quantile(X, r.normal(size=M), tau=0.2),
    "EpsilonInsensitive": lambda X, r: risks.EpsilonInsensitive(X, r.normal(size=M), eps=0.3),
    "Huber": lambda X, r: risks.Huber(X, r.normal(size=M)),
    "Poisson": lambda X, r: risks.Poisson(X, r.integers(0, 9, M)),
    "Multiclass": lambda X, r: risks.Multiclass(X, r.integers(0, 4, M), n_classes=4),
    "Multiclass costs": lambda X, r: risks.Multiclass(
        X, r.integers(0, 3, M), delta=r.random((3, 3)) * (1 - np.eye(3)), gamma=r.random((3, 3))
    ),
    "Multiclass slack": lambda X, r: risks.Multiclass(
        X, r.integers(0, 3, M), delta=r.random((3, 3)) * (1 - np.eye(3)), gamma="delta"
    ),
    "Softmax": lambda X, r: risks.Softmax(X, r.integers(0, 4, M), n_classes=4),
    "MultivariateRegression": lambda X, r: risks.MultivariateRegression(
        X, r.normal(size=(M, 2)), M=[[2.0, 1.0], [1.0, 0.5]]
    ),
    "Ontology": lambda X, r: risks.Ontology(X, [["e", "f"][k] for k in r.integers(0, 2, M)], TREE),
    "Ontology nodes": lambda X, r: risks.Ontology(
        X, [["c", "d", "f"][k] for k in r.integers(0, 3, M)], TREE, labels=["c", "d", "e", "f"], delta="path"
    ),
    "ROCArea": lambda X, r: risks.ROCArea(X, labels(r)),
    "Ordinal": lambda X, r: risks.Ordinal(X, np.arange(M) % 4),
    "Ordinal linear": lambda X, r: risks.Ordinal(X, np.arange(M) % 5, cost="linear"),
    "Ordinal table": lambda X, r: risks.Ordinal(X, np.arange(M) % 3, cost=r.random((3, 3))),
    "Preference": lambda X, r: risks.Preference(X, [(0, 1), (1, 2), (3, 5), (2, 0)], cost=[1.0, 2.0, 0.5, 0.0]),
    "Ranking ndcg": lambda X, r: risks.Ranking(X, queries(r)[1], queries(r)[0]),
    "Ranking mrr": lambda X, r: risks.Ranking(X, queries(r)[1], queries(r)[0], "mrr"),
    "Ranking precision": lambda X, r: risks.Ranking(
        X, np.arange(M) % 2, [0, 1, 1] * 4, risks.PrecisionAtN(2), decay=1.0
    ),
    "Ranking eru": lambda X, r: risks.Ranking(X, queries(r)[1], queries(r)[0], risks.ERU(3.0, 1.0)),
    "FBeta": lambda X, r: risks.FBeta(X, labels(r)),
    "FBeta 0.3": lambda X, r: risks.FBeta(X, labels(r), beta=0.3),
    "Jaccard": lambda X, r: risks.Jaccard(X, labels(r)),
    "BalancedAccuracy": lambda X, r: risks.BalancedAccuracy(X, labels(r)),
    "PrecisionAt": lambda X, r: risks.PrecisionAt(X, labels(r), k=3),
    "RecallAt": lambda X, r: risks.RecallAt(X, labels(r), k=5),
    "BreakEven": lambda X, r: risks.BreakEven(X, labels(r)),
    "Contingency": lambda X, r: risks.Contingency(X, labels(r), g_mean),
    "ChainCRF": lambda X, r: risks.ChainCRF(Chain(2, initial_weights=True), *sequences(X, r)),
    "TreeCRF": lambda X, r: risks.TreeCRF(
        PairwiseMRF(5, edges=[(3, 0), (3, 1), (1, 4)]), X, r.integers(0, 2, (np.shape(X)[0], 5))
    ),
    "SpaceCRF": lambda X, r: risks.SpaceCRF(MultiLabel(3, at_most=2), X, np.eye(3)[r.integers(0, 3, np.shape(X)[0])]),
    "PathSoftmax": lambda X, r: risks.PathSoftmax(
        X, [["e", "f"][k] for k in r.integers(0, 2, M)], Hierarchy(TREE), alpha=r.random(7)
    ),
}
NO_SHARDS = ("Ordinal", "FBeta", "Jaccard", "Balanced", "PrecisionAt", "RecallAt", "BreakEven", "Contingency")
seeds = st.integers(0, 2**32 - 1)
every_risk = pytest.mark.parametrize("name", BUILD)


def build(name, seed, X=None):
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(M, D))
    return BUILD[name](own if X is None else X, rng), rng, own


def test_every_risk_is_tested():
    measures = {"RankingMeasure", "NDCG", "MRR", "PrecisionAtN", "ERU"}
    protocol = {"Risk", "LinearRisk", "Cut", "Violations"}
    elsewhere = {"StructuredRisk", "likelihood"}  # tests/train and the searches; a choice among the likelihoods
    assert set(risks.__all__) - measures - protocol - elsewhere == {name.split()[0] for name in BUILD}


@every_risk
@settings(max_examples=25, deadline=None)
@given(seed=seeds, scale=st.sampled_from([0.0, 0.1, 1.0, 10.0]))
def test_cut_lies_below_the_risk(name, seed, scale):
    risk, rng, _ = build(name, seed)
    w = scale * rng.normal(size=risk.n_features)
    value, slope = risk(w)
    assert value >= risk.lower_bound
    assert slope.shape == (risk.n_features,) and slope.dtype == np.float64
    for reach in (1e-3, 0.1, 1.0, 10.0):
        v = w + reach * rng.normal(size=w.size)
        other = risk(v)[0]
        assert value + slope @ (v - w) <= other + 1e-10 * (1.0 + abs(value) + abs(other))


@every_risk
@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_gradient_by_finite_differences(name, seed):
    risk, rng, _ = build(name, seed)
    w = rng.normal(size=risk.n_features)
    direction = rng.normal(size=w.size)
    step = 1e-6
    ahead, behind = risk(w + step * direction)[0], risk(w - step * direction)[0]
    here, slope = risk(w)
    # Convexity squeezes a subgradient between the one-sided quotients, corner or not.
    noise = 1e-8 * (1.0 + abs(here) + abs(slope @ direction))
    assert (here - behind) / step - noise <= slope @ direction <= (ahead - here) / step + noise


@every_risk
def test_shards_add_up(name):
    risk, rng, _ = build(name, 3)
    if name.startswith(NO_SHARDS):
        with pytest.raises(NotImplementedError, match="Train it whole"):
            risk.shard(0, 2)
        return
    n = min(3, len(risk))
    for w in rng.normal(size=(5, risk.n_features)):
        value, slope = risk(w)
        parts = [risk.shard(k, n) for k in range(n)]
        results = [part(w) for part in parts]
        assert sum(part[0] for part in results) == pytest.approx(value, rel=1e-12, abs=1e-13)
        np.testing.assert_allclose(sum(part[1] for part in results), slope, atol=1e-12)
        assert all(part[0] >= shard.lower_bound for part, shard in zip(results, parts, strict=True))
        assert sum(part.lower_bound for part in parts) == pytest.approx(risk.lower_bound, abs=1e-10)
    with pytest.raises(DeclarationError, match="shard"):
        risk.shard(0, 10_000)
    with pytest.raises(DeclarationError, match="shard"):
        risk.shard(n, n)


@every_risk
def test_sparse_and_single_precision_agree(name):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(M, D)).astype(np.float32) * (rng.random((M, D)) < 0.7)
    results = []
    for version in (
        X.astype(np.float64),
        X,
        sp.csr_matrix(X),
        sp.csc_array(X.astype(np.float64)),
        np.asfortranarray(X),
    ):
        risk = BUILD[name](version, np.random.default_rng(6))
        results.append(risk(np.random.default_rng(7).normal(size=risk.n_features)))
    for value, slope in results[1:]:
        assert value == pytest.approx(results[0][0], rel=1e-12)
        np.testing.assert_allclose(slope, results[0][1], atol=1e-12)


@every_risk
def test_pickles_and_names_itself(name):
    risk, rng, _ = build(name, 1)
    again = pickle.loads(pickle.dumps(risk))
    w = rng.normal(size=risk.n_features)
    assert again(w)[0] == risk(w)[0]
    assert again.fingerprint() == risk.fingerprint()
    assert repr(risk).startswith(f"<{name.split()[0]}") and "\n" not in repr(risk)


@every_risk
def test_weights_of_the_wrong_length_are_refused(name):
    risk, _, _ = build(name, 1)
    with pytest.raises(DeclarationError, match=r"w has shape \(\d+,\); this (risk|model and data) needs?"):
        risk(np.zeros(risk.n_features + 1))


@every_risk
@pytest.mark.parametrize("entry", [np.inf, -np.inf, np.nan])
def test_weights_that_are_not_finite_are_refused(name, entry):
    risk, _, _ = build(name, 1)
    w = np.zeros(risk.n_features)
    w[1] = entry
    with pytest.raises(DeclarationError, match=r"w\[1\] is .*; all weights must be finite"):
        risk(w)


@every_risk
@pytest.mark.parametrize("X", [np.zeros((0, 3)), np.zeros((M, 0)), np.zeros(M), np.full((M, D), np.nan)])
def test_bad_features_are_refused(name, X):
    if name == "SpaceCRF" and X.shape == (M,):
        pytest.skip("to a declared model an input of one number has one feature")
    # A risk of a model is refused by its model, which counts examples and not rows of X.
    told = "[Ee]xample|no features|X " if name in ("ChainCRF", "TreeCRF", "SpaceCRF") else "X "
    with pytest.raises(DeclarationError, match=told):
        BUILD[name](X, np.random.default_rng(0))


LINEAR = [name for name in BUILD if isinstance(build(name, 0)[0], LinearRisk)]


@pytest.mark.parametrize("name", LINEAR)
@settings(max_examples=20, deadline=None)
@given(seed=seeds, lam=st.sampled_from([1e-3, 0.1, 3.0]), start=st.sampled_from([0.0, 0.1, 1.0]))
def test_line_search_finds_the_minimum(name, seed, lam, start):
    risk, rng, _ = build(name, seed)
    w, d = start * rng.normal(size=(2, risk.n_features))
    if start == 0.0:
        d = rng.normal(size=risk.n_features)
    if rng.random() < 0.7:
        d = -(lam * w + risk(w)[1])

    def objective(t):
        v = w + t * d
        return 0.5 * lam * v @ v + risk(v)[0]

    t, value = risk.line_search(w, d, lam)
    assert t >= 0.0
    assert value == pytest.approx(risk(w + t * d)[0], rel=1e-9, abs=1e-12)
    best = objective(t)
    slack = 1e-9 * (1.0 + abs(best))
    if type(risk).line_step is LinearRisk.line_step:  # the default stops at a hundredth of the step
        slack += 0.02 * (objective(0.0) - best)
    trials = np.concatenate([[0.0], t * np.array([0.5, 0.9, 0.999, 1.001, 1.1, 2.0]), np.logspace(-4, 2, 40)])
    assert all(best <= objective(s) + slack for s in trials)


def test_line_search_families():
    assert "Hinge" in LINEAR and "Multiclass" in LINEAR and "ROCArea" not in LINEAR and "FBeta" not in LINEAR
