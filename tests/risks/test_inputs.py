"""Inputs of every risk: storage of the features, weights of the examples, shards, and wrong features."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError

R, S = so.risks, so.structures
M, D = 12, 3
EDGES = [("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "d"), ("b", "e"), ("d", "f"), ("c", "f")]
RNG = np.random.default_rng(6)
SIGN = np.where(np.arange(M) % 3 == 0, 1.0, -1.0)
LEVEL, TARGET, QUERY = np.arange(M) % 4, RNG.normal(size=M), np.arange(M) % 3
RELEVANCE = 2 * (np.arange(M) // 4) + RNG.integers(0, 2, M)
LEAF = np.array(["e", "f"])[RNG.integers(0, 2, M)]
TAGS = RNG.integers(0, 2, (M, 3))
ENDS = [0, 1, 4, 7, M]


def g_mean(tp, fp, fn, tn):
    return np.sqrt(tp / (tp + fn) * tn / (fp + tn))


def chain(X, s=None):
    """The rows as four sequences; wrong features are left to the risk."""
    model = S.Chain(2, initial_weights=True)
    if np.shape(X) != (M, D):
        return R.ChainCRF(model, [X], [[0] * M])
    rows = X.tocsr() if sp.issparse(X) else X
    spans = list(pairwise(ENDS))
    weight = None if s is None else s[: len(spans)]
    return R.ChainCRF(model, [rows[a:b] for a, b in spans], [TAGS[a:b, 0] for a, b in spans], sample_weight=weight)


BUILD = {
    "Hinge": lambda X, s=None: R.Hinge(X, SIGN, sample_weight=s),
    "SquaredHinge": lambda X, s=None: R.SquaredHinge(X, SIGN, sample_weight=s),
    "Logistic": lambda X, s=None: R.Logistic(X, SIGN, sample_weight=s),
    "Exponential": lambda X, s=None: R.Exponential(X, SIGN, sample_weight=s),
    "Novelty": lambda X, s=None: R.Novelty(X, rho=0.7, sample_weight=s),
    "LeastSquares": lambda X, s=None: R.LeastSquares(X, TARGET, sample_weight=s),
    "Absolute": lambda X, s=None: R.Absolute(X, TARGET, sample_weight=s),
    "Quantile": lambda X, s=None: R.Quantile(X, TARGET, tau=0.2, sample_weight=s),
    "EpsilonInsensitive": lambda X, s=None: R.EpsilonInsensitive(X, TARGET, eps=0.3, sample_weight=s),
    "Huber": lambda X, s=None: R.Huber(X, 3.0 * TARGET, sample_weight=s),
    "Poisson": lambda X, s=None: R.Poisson(X, LEVEL, sample_weight=s),
    "Multiclass": lambda X, s=None: R.Multiclass(X, LEVEL, gamma=np.arange(16.0).reshape(4, 4), sample_weight=s),
    "Softmax": lambda X, s=None: R.Softmax(X, LEVEL, sample_weight=s),
    "MultivariateRegression": lambda X, s=None: R.MultivariateRegression(
        X, TAGS, M=np.diag([2, 1, 0]), sample_weight=s
    ),
    "Ontology": lambda X, s=None: R.Ontology(X, LEAF, EDGES, ["c", "d", "e", "f"], delta="path", sample_weight=s),
    "ROCArea": lambda X, s=None: R.ROCArea(X, SIGN, sample_weight=s),
    "Ordinal": lambda X, s=None: R.Ordinal(X, LEVEL, cost="linear", sample_weight=s),
    "Preference": lambda X, s=None: R.Preference(X, [(0, 1), (1, 2), (3, 5), (2, 0)], [1, 2, 0.5, 0], sample_weight=s),
    "Ranking": lambda X, s=None: R.Ranking(X, RELEVANCE, QUERY, sample_weight=None if s is None else s[QUERY]),
    "FBeta": lambda X, s=None: R.FBeta(X, SIGN, sample_weight=s),
    "Jaccard": lambda X, s=None: R.Jaccard(X, SIGN, sample_weight=s),
    "BalancedAccuracy": lambda X, s=None: R.BalancedAccuracy(X, SIGN, sample_weight=s),
    "PrecisionAt": lambda X, s=None: R.PrecisionAt(X, SIGN, k=3, sample_weight=s),
    "RecallAt": lambda X, s=None: R.RecallAt(X, SIGN, k=5, sample_weight=s),
    "BreakEven": lambda X, s=None: R.BreakEven(X, SIGN, sample_weight=s),
    "Contingency": lambda X, s=None: R.Contingency(X, SIGN, g_mean, sample_weight=s),
    "ChainCRF": chain,
    "TreeCRF": lambda X, s=None: R.TreeCRF(S.PairwiseMRF(3, edges=[(2, 0), (2, 1)]), X, TAGS, sample_weight=s),
    "SpaceCRF": lambda X, s=None: R.SpaceCRF(S.MultiLabel(3), X, TAGS, sample_weight=s),
    "PathSoftmax": lambda X, s=None: R.PathSoftmax(X, LEAF, so.Hierarchy(EDGES), np.arange(7.0), sample_weight=s),
    "StructuredRisk": lambda X, s=None: R.StructuredRisk(S.Multiclass(4), X, LEVEL, "slack", sample_weight=s),
}
COUNTING = ("FBeta", "Jaccard", "BalancedAccuracy", "PrecisionAt", "RecallAt", "BreakEven", "Contingency")
X = (RNG.normal(size=(M, D)) * (RNG.random((M, D)) < 0.7)).astype(np.float32)
every_risk = pytest.mark.parametrize("name", [name for name in BUILD if name != "StructuredRisk"])
weighted_risk = pytest.mark.parametrize("name", [name for name in BUILD if name not in COUNTING])


def test_every_risk_is_tested():
    kinds = {name for name in R.__all__ if isinstance(getattr(R, name), type) and issubclass(getattr(R, name), R.Risk)}
    assert kinds - {"Risk", "LinearRisk"} == set(BUILD)


@every_risk
def test_sparse_and_single_precision_agree(name):
    results = []
    for version in (X.astype(np.float64), X, sp.csr_array(X), sp.csc_array(X), np.asfortranarray(X)):
        risk = BUILD[name](version)
        results.append(risk(np.random.default_rng(7).normal(size=risk.n_features)))
    for value, slope in results[1:]:
        assert value == pytest.approx(results[0][0], rel=1e-12)
        np.testing.assert_allclose(slope, results[0][1], atol=1e-12)


@every_risk
def test_shards_that_do_not_exist_are_named(name):
    risk = BUILD[name](X)
    assert repr(risk).startswith(f"<{name}") and "\n" not in repr(risk)
    if name in ("Ordinal", *COUNTING):
        with pytest.raises(NotImplementedError, match="Train it whole"):
            risk.shard(0, 2)
        return
    for k, n in ((0, 10_000), (2, 2)):
        with pytest.raises(DeclarationError, match="shard"):
            risk.shard(k, n)


@pytest.mark.parametrize("name", BUILD)
@pytest.mark.parametrize("wrong", [np.zeros((0, 3)), np.zeros((M, 0)), np.zeros(M), np.full((M, D), np.nan)])
def test_bad_features_are_refused(name, wrong):
    if name == "SpaceCRF" and wrong.shape == (M,):
        pytest.skip("to a declared model an input of one number has one feature")
    # A risk of a model is refused by its model, which counts examples and not rows of X.
    told = "[Ee]xample|no features|X " if name in ("ChainCRF", "TreeCRF", "SpaceCRF", "StructuredRisk") else "X "
    with pytest.raises(DeclarationError, match=told):
        BUILD[name](wrong)


@every_risk
def test_weights_that_are_wrong_are_named(name):
    risk = BUILD[name](X)
    with pytest.raises(DeclarationError, match=r"w has shape \(\d+,\); this (risk|model and data) needs?"):
        risk(np.zeros(risk.n_features + 1))
    w = np.zeros(risk.n_features)
    w[1] = np.inf
    with pytest.raises(DeclarationError, match=r"w\[1\] is .*; all weights must be finite"):
        risk(w)


@weighted_risk
def test_only_the_ratios_of_the_weights_of_examples_count(name):
    weight = np.random.default_rng(1).uniform(0.2, 3.0, M)
    risk, other, same, plain = (BUILD[name](X, s) for s in (weight, 1e-200 * weight, np.full(M, 5.0), None))
    w = np.random.default_rng(1).normal(size=risk.n_features)
    assert risk(w)[0] == pytest.approx(other(w)[0], rel=1e-10)
    assert same(w)[0] == plain(w)[0]
    assert risk.fingerprint() != plain.fingerprint() and same.fingerprint() == plain.fingerprint()


@weighted_risk
def test_line_searches_and_shards_keep_the_weights_of_examples(name):
    risk, rng = BUILD[name](X, np.arange(1.0, M + 1.0)), np.random.default_rng(4)
    w, direction = rng.normal(size=(2, risk.n_features))
    if name not in ("Ordinal", *COUNTING):
        assert sum(risk.shard(k, 2)(w)[0] for k in range(2)) == pytest.approx(risk(w)[0])
    if not risk.has_line_search:
        return

    def along(t):
        v = w + t * direction
        return 0.15 * v @ v + risk(v)[0]

    t, value = risk.line_search(w, direction, 0.3)
    assert value == pytest.approx(risk(w + t * direction)[0])
    least = min(map(along, np.linspace(0.0, 5.0, 101)))
    assert along(t) <= least + 2e-3 * (1 + abs(least))
