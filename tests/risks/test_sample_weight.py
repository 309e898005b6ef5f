"""Every risk with weights is, at any w, the risk of a data set in which examples are repeated."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.train import StructuredRisk

N, D = 14, 3
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, D))
SIGN = np.where(X[:, 0] + 0.5 * RNG.normal(size=N) > 0, 1.0, -1.0)
LEVEL = np.arange(N) % 3
TARGET = RNG.normal(size=N)
ROWS = (RNG.random((N, 3)) > 0.5).astype(int)
EDGES = [("root", "animal"), ("animal", "cat"), ("animal", "dog"), ("root", "oak")]
LEAVES = np.array(["cat", "dog", "oak"])[LEVEL]
QUERY = np.repeat([0, 1, 2], [5, 5, 4])
WORDS = [RNG.normal(size=(1 + i % 3, 2)) for i in range(N)]
TAGS = [[("a", "b")[int(t)] for t in RNG.integers(0, 2, len(x))] for x in WORDS]
PAIRS = np.array([(i, j) for i in range(N) for j in range(N) if LEVEL[i] < LEVEL[j]])
COPIES = np.random.default_rng(5).integers(0, 4, N)
COPIES[:3] = [2, 1, 3]

r = so.risks
HIERARCHY = so.Hierarchy([("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")])
CHAIN = so.structures.Chain(["a", "b"], initial_weights=True)


def _g_mean(tp, fp, fn, tn):
    return np.sqrt(tp / (tp + fn) * tn / (fp + tn))


def _take(data: Any, rows: Any) -> Any:
    return data[rows] if isinstance(data, np.ndarray) or sp.issparse(data) else [data[i] for i in rows]


#: Name, constructor from the examples of some rows (all data in `rows` order) and a weight.
RISKS = {
    "Hinge": lambda k, s: r.Hinge(X[k], SIGN[k], sample_weight=s),
    "SquaredHinge": lambda k, s: r.SquaredHinge(X[k], SIGN[k], sample_weight=s),
    "Logistic": lambda k, s: r.Logistic(X[k], SIGN[k], sample_weight=s),
    "Exponential": lambda k, s: r.Exponential(X[k], SIGN[k], sample_weight=s),
    "Novelty": lambda k, s: r.Novelty(X[k], 0.5, sample_weight=s),
    "LeastSquares": lambda k, s: r.LeastSquares(X[k], TARGET[k], sample_weight=s),
    "Absolute": lambda k, s: r.Absolute(X[k], TARGET[k], sample_weight=s),
    "Quantile": lambda k, s: r.Quantile(X[k], TARGET[k], 0.2, sample_weight=s),
    "EpsilonInsensitive": lambda k, s: r.EpsilonInsensitive(X[k], TARGET[k], 0.3, sample_weight=s),
    "Huber": lambda k, s: r.Huber(X[k], 3 * TARGET[k], sample_weight=s),
    "Poisson": lambda k, s: r.Poisson(X[k], LEVEL[k], sample_weight=s),
    "Multiclass": lambda k, s: r.Multiclass(X[k], LEVEL[k], n_classes=3, sample_weight=s),
    "Softmax": lambda k, s: r.Softmax(X[k], LEVEL[k], n_classes=3, sample_weight=s),
    "MultivariateRegression": lambda k, s: r.MultivariateRegression(
        X[k], X[k][:, :2] + TARGET[k][:, None], M=[[2.0, 0.5], [0.5, 1.0]], sample_weight=s
    ),
    "Ontology": lambda k, s: r.Ontology(X[k], LEAVES[k], EDGES, delta="path", sample_weight=s),
    "ROCArea": lambda k, s: r.ROCArea(X[k], SIGN[k], sample_weight=s),
    "Ordinal": lambda k, s: r.Ordinal(X[k], LEVEL[k], "constant", sample_weight=s),
    "Ordinal linear": lambda k, s: r.Ordinal(X[k], LEVEL[k], "linear", sample_weight=s),
    "Ordinal table": lambda k, s: r.Ordinal(X[k], LEVEL[k], np.triu(np.ones((3, 3)), 1) * 1.7, sample_weight=s),
    "Preference": lambda k, s: r.Preference(
        X[k], [(i, j) for i in range(len(k)) for j in range(len(k)) if LEVEL[k[i]] < LEVEL[k[j]]], sample_weight=s
    ),
    "FBeta": lambda k, s: r.FBeta(X[k], SIGN[k], 1.5, sample_weight=s),
    "Jaccard": lambda k, s: r.Jaccard(X[k], SIGN[k], sample_weight=s),
    "BalancedAccuracy": lambda k, s: r.BalancedAccuracy(X[k], SIGN[k], sample_weight=s),
    "PrecisionAt": lambda k, s: r.PrecisionAt(X[k], SIGN[k], 5, sample_weight=s),
    "RecallAt": lambda k, s: r.RecallAt(X[k], SIGN[k], 5, sample_weight=s),
    "BreakEven": lambda k, s: r.BreakEven(X[k], SIGN[k], sample_weight=s),
    "Contingency": lambda k, s: r.Contingency(X[k], SIGN[k], _g_mean, sample_weight=s),
    "ChainCRF": lambda k, s: r.ChainCRF(CHAIN, _take(WORDS, k), _take(TAGS, k), sample_weight=s),
    "ChainCRF threads": lambda k, s: r.ChainCRF(CHAIN, _take(WORDS, k), _take(TAGS, k), n_jobs=2, sample_weight=s),
    "TreeCRF": lambda k, s: r.TreeCRF(
        so.structures.PairwiseMRF(3, edges=[(0, 1), (1, 2)]), X[k], ROWS[k], sample_weight=s
    ),
    "PathSoftmax": lambda k, s: r.PathSoftmax(X[k], LEAVES[k], HIERARCHY, sample_weight=s),
    "StructuredRisk margin": lambda k, s: StructuredRisk(so.structures.PairwiseMRF(3), X[k], ROWS[k], sample_weight=s),
    "StructuredRisk slack": lambda k, s: StructuredRisk(
        so.structures.PairwiseMRF(3), X[k], ROWS[k], "slack", rtol=0.0, sample_weight=s
    ),
    "StructuredRisk log": lambda k, s: StructuredRisk(
        so.structures.Multiclass(["cat", "dog", "oak"]), X[k], LEAVES[k], so.surrogates.LogLoss(), sample_weight=s
    ),
    "StructuredRisk chain": lambda k, s: StructuredRisk(CHAIN, _take(WORDS, k), _take(TAGS, k), sample_weight=s),
}  # fmt: skip
COUNTING = {"FBeta", "Jaccard", "BalancedAccuracy", "PrecisionAt", "RecallAt", "BreakEven", "Contingency"}
NOT_OF_EXAMPLES = {"NDCG", "MRR", "PrecisionAtN", "ERU", "RankingMeasure", "Ranking", "ChainCRF", "TreeCRF", "SpaceCRF"}


def test_no_risk_is_forgotten():
    classes = {name for name in r.__all__ if inspect.isclass(getattr(r, name))}
    known = {name.split()[0] for name in RISKS}
    known |= {"Risk", "LinearRisk"}  # the protocol itself
    missing = {n for n in classes - known - NOT_OF_EXAMPLES if issubclass(getattr(r, n), so.train.Risk)}
    assert not missing


@pytest.mark.parametrize("name", RISKS)
def test_copies(name):
    everything = np.arange(N)
    weighted = RISKS[name](everything, COPIES)
    plain = RISKS[name](np.repeat(everything, COPIES), None)
    for seed in range(6):
        w = np.random.default_rng(seed).normal(size=weighted.n_features) * (0.0, 0.3, 1.0)[seed % 3]
        a, slope_a = weighted(w)
        b, slope_b = plain(w)
        assert a == pytest.approx(b, rel=1e-10, abs=1e-12)
        if seed % 3 and name != "Preference":  # at 0 subgradients are many
            np.testing.assert_allclose(slope_a, slope_b, atol=1e-9)
        v = w + np.random.default_rng(seed + 50).normal(size=w.size)
        assert plain(v)[0] >= a + slope_a @ (v - w) - 1e-9 * (1 + abs(a))  # the cut holds for the copies


@pytest.mark.parametrize("name", RISKS)
def test_unit(name):
    if name.split()[0] in COUNTING:
        pytest.skip("these count examples")
    w = np.random.default_rng(1).normal(size=RISKS[name](np.arange(N), None).n_features)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, N)
    a, b = RISKS[name](np.arange(N), weight), RISKS[name](np.arange(N), 1e-200 * weight)
    assert a(w)[0] == pytest.approx(b(w)[0], rel=1e-10)
    same, none = RISKS[name](np.arange(N), np.full(N, 5.0)), RISKS[name](np.arange(N), None)
    assert same(w)[0] == none(w)[0]
    assert a.fingerprint() != none.fingerprint() and same.fingerprint() == none.fingerprint()


@pytest.mark.parametrize("name", RISKS)
def test_line_search(name):
    weighted = RISKS[name](np.arange(N), COPIES)
    if not weighted.has_line_search:
        pytest.skip("no line search")
    rng = np.random.default_rng(4)
    for _ in range(5):
        w, direction = rng.normal(size=(2, weighted.n_features))
        found = weighted.line_search(w, direction, 0.3)
        assert found is not None
        t, value = found

        def along(step, w=w, direction=direction):
            v = w + step * direction
            return 0.15 * v @ v + weighted(v)[0]

        assert value == pytest.approx(weighted(w + t * direction)[0])
        least = min(along(s) for s in np.linspace(0.0, 5.0, 501))
        assert along(t) <= least + 2e-3 * (1 + abs(least))


@pytest.mark.parametrize("name", RISKS)
def test_shards_add_up(name):
    if name.split()[0] in COUNTING:
        pytest.skip("not a mean over examples")
    weighted = RISKS[name](np.arange(N), np.where(COPIES, COPIES, 0.5))
    try:
        parts = [weighted.shard(k, 2) for k in range(2)]
    except NotImplementedError:
        pytest.skip("does not decompose")
    w = np.random.default_rng(0).normal(size=weighted.n_features)
    assert sum(part(w)[0] for part in parts) == pytest.approx(weighted(w)[0])


def test_queries():
    weight = np.array([2.0, 0.0, 1.0])
    weighted = r.Ranking(X, LEVEL, QUERY, sample_weight=weight[QUERY])
    rows = np.concatenate([np.flatnonzero(QUERY == 0)] * 2 + [np.flatnonzero(QUERY == 2)])
    query = np.repeat([0, 1, 2], [5, 5, 4])
    plain = r.Ranking(X[rows], LEVEL[rows], query)
    for seed in range(4):
        w = np.random.default_rng(seed).normal(size=D)
        assert weighted(w)[0] == pytest.approx(plain(w)[0])
        np.testing.assert_allclose(weighted(w)[1], plain(w)[1], atol=1e-10)


def test_structured_parts_keep_their_weights():
    risk = StructuredRisk(so.structures.PairwiseMRF(3), X, ROWS, sample_weight=COPIES)
    w = np.random.default_rng(0).normal(size=risk.n_features)
    np.testing.assert_array_equal(risk.examples, np.flatnonzero(COPIES))
    halves = np.array_split(np.arange(len(risk)), 2)
    parts = [risk.part(half) for half in halves]
    total = sum(float(part.violations(w).upper.sum()) for part in parts) / len(risk)
    assert total == pytest.approx(risk(w)[0])


@pytest.mark.parametrize("lam", [0.3, 0.01])
@pytest.mark.parametrize("squared", [False, True])
def test_coordinate_descent_against_cvxpy(lam, squared):
    cp = pytest.importorskip("cvxpy")
    weight = np.random.default_rng(9).uniform(0.0, 3.0, N)
    weight[4] = 0.0
    w = cp.Variable(D)
    slack = cp.pos(1 - cp.multiply(SIGN, X @ w))
    losses = 0.5 * cp.square(slack) if squared else slack
    problem = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(w) + (weight / weight.sum()) @ losses))
    problem.solve()
    risk = (r.SquaredHinge if squared else r.Hinge)(X, SIGN, sample_weight=weight)
    for found in (
        so.train.coordinate_descent(risk, lam=lam, tol=1e-8),
        so.train.bmrm(risk, lam=lam, tol=1e-8),
    ):
        assert found.objective == pytest.approx(problem.value, rel=1e-6)
        assert found.lower_bound <= problem.value * (1 + 1e-6)


@pytest.mark.parametrize("trainer", ["block_ascent", "n_slack", "one_slack", "bmrm", "bcfw", "trust_region_bundle"])
@pytest.mark.parametrize("sparse", [False, True])
def test_multiclass_against_cvxpy(trainer, sparse):
    cp = pytest.importorskip("cvxpy")
    weight, lam = np.random.default_rng(9).uniform(0.0, 3.0, N), 0.1
    W = cp.Variable((3, D))
    scores = X @ W.T
    own = cp.sum(cp.multiply(scores, np.eye(3)[LEVEL]), axis=1)
    losses = cp.max(scores + (1 - np.eye(3)[LEVEL]), axis=1) - own
    problem = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(W) + (weight / weight.sum()) @ losses))
    problem.solve()
    given = sp.csr_array(X) if sparse else X
    risk = StructuredRisk(so.structures.Multiclass(3), given, LEVEL, sample_weight=weight)
    tol = 1e-2 if trainer == "bcfw" else 1e-5
    found = getattr(so.train, trainer)(risk, lam=lam, tol=tol)
    assert found.objective == pytest.approx(problem.value, rel=2 * tol)
    assert found.lower_bound <= problem.value * (1 + 1e-6) <= found.objective * (1 + 1e-5)
