"""Structured risks trained by BMRM against a convex solver that sees every label, enumerated from the definition."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

import structopt as so
import structopt.risks as risks
from structopt.risks.crf import ChainCRF, PathSoftmax
from structopt.structures.chain import Chain
from structopt.structures.mrf import PairwiseMRF

cp = pytest.importorskip("cvxpy")

M, D = 20, 3
rng = np.random.default_rng(1)
X = rng.normal(size=(M, D))


def rows(w, n_outputs):
    """Predictions of class-major weights, one row per example."""
    return X @ cp.reshape(w, (D, n_outputs), order="F")


def worst(pieces):
    """The largest of the affine functions ``slope.w + height``."""
    slopes, heights = zip(*pieces, strict=True)
    return lambda w: cp.max(np.array(slopes) @ w + np.array(heights))


# Rows of predictions: regression, classes, nodes of a graph.

TARGETS = X @ rng.normal(size=(D, 2)) + rng.normal(size=(M, 2))
WEIGHT = np.array([[2.0, 0.5], [0.5, 1.0]])
ROOT = np.linalg.cholesky(WEIGHT)
CLASS = np.argmax(X @ rng.normal(size=(D, 3)) + 0.5 * rng.normal(size=(M, 3)), axis=1)
COST = np.array([[0.0, 1.0, 3.0], [0.5, 0.0, 1.0], [2.0, 1.5, 0.0]])
SCALE = np.array([[0.0, 1.0, 0.5], [2.0, 0.0, 1.0], [1.0, 3.0, 0.0]])


def soft_margin(delta, gamma, phi):
    """``mean max_k gamma[y, k] (F_k - F_y) + delta[y, k]`` of label scores ``F_k = sum_v phi[k, v] f_v``."""

    def definition(w):
        F = rows(w, phi.shape[1]) @ phi.T
        own = cp.reshape(F[np.arange(M), CLASS], (M, 1), order="F") @ np.ones((1, 3))
        return cp.sum(cp.max(cp.multiply(gamma[CLASS], F - own) + delta[CLASS], axis=1)) / M

    return definition


# Root r; three paths lead to z (two by b), two to y, one to x. Nodes a, b, x, y, z in order of first appearance.
GRAPH = [("r", "a"), ("r", "b"), ("a", "b"), ("a", "x"), ("b", "y"), ("a", "z"), ("b", "z")]
SHARES = np.array([[1, 0, 1, 0, 0], [1 / 2, 1, 0, 1, 0], [2 / 3, 2 / 3, 0, 0, 1]])
DISTANCE = np.abs(SHARES[:, None] - SHARES).sum(axis=2)
LEAF = np.array(["x", "y", "z"])[CLASS]
INNER = np.array([[1, 0, 0, 0, 0], [1, 0, 1, 0, 0], [2 / 3, 2 / 3, 0, 0, 1]])  # labels a, x, z
ZERO_ONE, ONES = 1.0 - np.eye(3), np.ones((3, 3))

PROBLEMS = {
    "MultivariateRegression": (
        risks.MultivariateRegression(X, TARGETS),
        0.05,
        lambda w: cp.sum_squares(rows(w, 2) - TARGETS) / (2 * M),
    ),
    "MultivariateRegression weighted": (
        risks.MultivariateRegression(X, TARGETS, WEIGHT),
        0.05,
        lambda w: cp.sum_squares((rows(w, 2) - TARGETS) @ ROOT) / (2 * M),
    ),
    "Multiclass": (risks.Multiclass(X, CLASS), 0.05, soft_margin(ZERO_ONE, ONES, np.eye(3))),
    "Multiclass cost": (risks.Multiclass(X, CLASS, COST), 0.05, soft_margin(COST, ONES, np.eye(3))),
    "Multiclass scaled": (risks.Multiclass(X, CLASS, COST, SCALE), 0.05, soft_margin(COST, SCALE, np.eye(3))),
    "Ontology": (risks.Ontology(X, LEAF, GRAPH), 0.05, soft_margin(ZERO_ONE, ONES, SHARES)),
    "Ontology path": (risks.Ontology(X, LEAF, GRAPH, delta="path"), 0.05, soft_margin(DISTANCE, ONES, SHARES)),
    "Ontology slack": (
        risks.Ontology(X, LEAF, GRAPH, delta=COST, gamma="delta"),
        0.05,
        soft_margin(COST, COST, SHARES),
    ),
    "Ontology inner label": (
        risks.Ontology(X, np.array(["a", "x", "z"])[CLASS], GRAPH, labels=["a", "x", "z"]),
        0.05,
        soft_margin(ZERO_ONE, ONES, INNER),
    ),
}

# Pairs and rankings.

LOW, HIGH = np.array([pair for pair in permutations(range(M), 2) if X[pair[0]].sum() < X[pair[1]].sum()][::6]).T
LOW[::5], HIGH[::5] = HIGH[::5].copy(), LOW[::5].copy()  # some preferences contradict the others
PRICE = rng.uniform(0.0, 2.0, LOW.size)
PROBLEMS["Preference"] = (
    risks.Preference(X, np.stack([LOW, HIGH], axis=1)),
    0.05,
    lambda w: cp.sum(cp.pos(1 + (X[LOW] - X[HIGH]) @ w)) / LOW.size,
)
PROBLEMS["Preference cost"] = (
    risks.Preference(X, np.stack([LOW, HIGH], axis=1), PRICE),
    0.05,
    lambda w: PRICE @ cp.pos(1 + (X[LOW] - X[HIGH]) @ w) / LOW.size,
)

SIZES = (4, 3, 4, 2, 4, 3)  # of the queries, M documents in all
QUERY = np.repeat(np.arange(len(SIZES)), SIZES)[rng.permutation(M)]
TASTE = X.sum(axis=1) + rng.normal(size=M)
RELEVANCE = np.digitize(TASTE, [-1.5, 0.0, 1.5]).astype(float)
BY_QUERY = [np.flatnonzero(np.equal(QUERY, q)) for q in range(len(SIZES))]
for own in BY_QUERY:  # every measure tells these two apart, so that no query is left out
    RELEVANCE[own[[TASTE[own].argmin(), TASTE[own].argmax()]]] = 0.0, 3.0


def ndcg(relevance, k=4):
    a = (1.0 / np.log2(np.arange(relevance.size) + 2)) * (np.arange(relevance.size) < k)
    gain = 2.0**relevance - 1.0
    return a, gain / (a @ gain)


def mrr(relevance):
    return 1.0 / (np.arange(relevance.size) + 1), np.eye(relevance.size)[0]


def precision(relevance, n):
    return (np.arange(relevance.size) < n) / n, 1.0 * (relevance > 0)


def eru(relevance, half_life, neutral):
    return 2.0 ** (-np.arange(relevance.size) / (half_life - 1)), np.maximum(relevance - neutral, 0.0)


def ranking(weights, positions):
    """Mean over queries of ``max over pi of c.(f(pi) - f) + a.(b - b(pi))``, docs/mathematics/risks#ranking."""
    queries = []
    for documents in BY_QUERY:
        own = documents[np.argsort(-RELEVANCE[documents], kind="stable")]
        (a, b), c = weights(RELEVANCE[own]), positions(own.size)
        orders = map(list, permutations(range(own.size)))
        queries.append(worst([(c @ (X[own[pi]] - X[own]), a @ (b - b[pi])) for pi in orders]))
    return lambda w: sum(query(w) for query in queries) / len(queries)


def fading(n):
    return np.arange(1.0, n + 1) ** -0.25


def falling(n):
    return np.arange(n, 0.0, -1.0)


for label, measure, weights in [
    ("ndcg", "ndcg", ndcg),
    ("NDCG(2)", risks.NDCG(k=2), lambda y: ndcg(y, 2)),
    ("mrr", "mrr", mrr),
    ("PrecisionAtN(2)", risks.PrecisionAtN(2), lambda y: precision(y, 2)),
    ("PrecisionAtN(1)", risks.PrecisionAtN(1), lambda y: precision(y, 1)),
    ("eru", "eru", lambda y: eru(y, 5.0, 0.0)),
    ("ERU(2, 1)", risks.ERU(2.0, 1.0), lambda y: eru(y, 2.0, 1.0)),
]:
    risk = risks.Ranking(X, RELEVANCE, QUERY, measure)
    PROBLEMS[f"Ranking {label}"] = risk, 0.02, ranking(weights, fading)
PROBLEMS["Ranking decay"] = risks.Ranking(X, RELEVANCE, QUERY, "ndcg", falling), 0.02, ranking(ndcg, falling)

# Contingency tables: all labellings of six examples.

# Large weights of the regulariser where the risk would else fall to 0, the same for many scores.
FEW = X[:6]
SIGN = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0])


def labellings(score, k=None):
    """``max over y' of (y' - y).f + 1 - score``; with `k`, over those with k positives and the true one."""
    pieces = [(np.zeros(D), 0.0)]
    for other in map(np.array, product([-1.0, 1.0], repeat=6)):
        if k is None or np.sum(other > 0) == k:
            tp, fp = np.sum((other > 0) & (SIGN > 0)), np.sum((other > 0) & (SIGN < 0))
            pieces.append(((other - SIGN) @ FEW, 1.0 - score(tp, fp, 3 - tp, 3 - fp)))
    return worst(pieces)


def f_beta(beta):
    return lambda tp, fp, fn, tn: (1 + beta**2) * tp / ((1 + beta**2) * tp + beta**2 * fn + fp)


def g_mean(tp, fp, fn, tn):
    return np.sqrt(tp / (tp + fn) * tn / (tn + fp))


def balanced(tp, fp, fn, tn):
    return (tp / (tp + fn) + tn / (tn + fp)) / 2


def dear(tp, fp, fn, tn):
    return 0.75 - 0.1 * fp**2 - 0.2 * fn  # not 1 at the truth: a risk with a positive floor


for beta in (0.3, 1.0, 2.5):
    PROBLEMS[f"FBeta({beta})"] = risks.FBeta(FEW, SIGN, beta), 2.0, labellings(f_beta(beta))
for k in (1, 2, 4):
    PROBLEMS[f"PrecisionAt({k})"] = risks.PrecisionAt(FEW, SIGN, k), 10.0, labellings(lambda i, q, *_: i / (i + q), k)
    PROBLEMS[f"RecallAt({k})"] = risks.RecallAt(FEW, SIGN, k), 10.0, labellings(lambda i, *_: i / 3, k)
PROBLEMS |= {
    "Jaccard": (risks.Jaccard(FEW, SIGN), 0.5, labellings(lambda tp, fp, fn, tn: tp / (tp + fp + fn))),
    "BalancedAccuracy": (risks.BalancedAccuracy(FEW, SIGN), 0.5, labellings(balanced)),
    "BreakEven": (risks.BreakEven(FEW, SIGN), 0.5, labellings(lambda tp, fp, fn, tn: tp / 3, 3)),
    "Contingency g-mean": (risks.Contingency(FEW, SIGN, g_mean), 0.5, labellings(g_mean)),
    "Contingency floor": (risks.Contingency(FEW, SIGN, dear), 0.5, labellings(dear)),
}

# Log-partition functions: all sequences of a chain, all paths of a hierarchy.

LENGTHS = (4, 1, 3, 2, 4)
SEQUENCES = [rng.normal(size=(T, 2)) for T in LENGTHS]
STATES = [[0, 1, 2, 1], [2], [0, 0, 1], [0, 1], [2, 1, 1, 0]]
RULES = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=bool)
FIRST = np.array([1, 0, 1], dtype=bool)


def joint(x, y, first):
    """Features of a sequence with its states: rows by state, transitions, the first state if it has a weight."""
    unary, steps = np.zeros((3, x.shape[1])), np.zeros((3, 3))
    np.add.at(unary, y, x)
    np.add.at(steps, (y[:-1], y[1:]), 1.0)
    return np.concatenate([unary.ravel(), steps.ravel(), np.eye(3)[y[0]] if first else []])


def chain_likelihood(sequences, first=False, rules=ONES > 0, start=ONES[0] > 0):
    terms = []
    for x, truth in zip(sequences, STATES, strict=True):
        every = [np.array(y) for y in product(range(3), repeat=len(x))]
        allowed = [y for y in every if start[y[0]] and rules[y[:-1], y[1:]].all()]
        terms.append((np.array([joint(x, y, first) for y in allowed]), joint(x, np.array(truth), first)))
    return lambda w: sum(cp.log_sum_exp(phi @ w) - own @ w for phi, own in terms) / len(terms)


def path_likelihood(paths):
    def definition(w):
        F = rows(w, paths.shape[1]) @ paths.T
        return cp.sum(cp.log_sum_exp(F, axis=1) - F[np.arange(M), CLASS]) / M

    return definition


BRANCHES = [(1, 0), (1, 2)]  # label 3 stands alone: a forest
TAGS = (X @ rng.normal(size=(D, 4)) + rng.normal(size=(M, 4)) > 0).astype(int)


def tree_likelihood():
    """All 16 labels; weights label by label, then those of the pairs in the order of their sorted edges."""
    every = np.array(list(product([0, 1], repeat=4)))
    both = np.stack([every[:, 0] * every[:, 1], every[:, 1] * every[:, 2]], axis=1)

    def definition(w):
        scores = rows(w[: 4 * D], 4) @ every.T + np.ones((M, 1)) @ cp.reshape(both @ w[4 * D :], (1, 16), order="F")
        own = TAGS @ np.array([8, 4, 2, 1])
        return cp.sum(cp.log_sum_exp(scores, axis=1) - scores[np.arange(M), own]) / M

    return definition


WITH_ONE = [np.column_stack([x, np.ones(len(x))]) for x in SEQUENCES]
RULED = Chain(3, RULES, initial=FIRST, intercept=True, initial_weights=True)
# Nodes r, a, b, x, y, z: the leaf y has two parents, and its ancestors count once.
DAG = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "x"), ("a", "y"), ("b", "y"), ("b", "z")])
ABOVE = {"x": "rax", "y": "raby", "z": "rbz"}
PATHS = np.array([[node in ABOVE[leaf] for node in DAG.nodes] for leaf in "xyz"], dtype=float)
ALPHA = np.array([0.5, 1.0, 0.0, 2.0, 1.5, 0.25])
PROBLEMS |= {
    "ChainCRF": (ChainCRF(Chain(3), SEQUENCES, STATES), 0.05, chain_likelihood(SEQUENCES)),
    "ChainCRF rules": (
        ChainCRF(RULED, SEQUENCES, STATES),
        0.05,
        chain_likelihood(WITH_ONE, True, RULES, FIRST),
    ),
    "TreeCRF": (risks.TreeCRF(PairwiseMRF(4, edges=BRANCHES), X, TAGS), 0.05, tree_likelihood()),
    "PathSoftmax": (PathSoftmax(X, LEAF, DAG), 0.05, path_likelihood(PATHS)),
    "PathSoftmax alpha": (PathSoftmax(X, LEAF, DAG, ALPHA), 0.05, path_likelihood(PATHS * np.sqrt(ALPHA))),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_objective_agrees_with_a_convex_solver(name):
    risk, lam, definition = PROBLEMS[name]
    w = cp.Variable(risk.n_features)
    problem = cp.Problem(cp.Minimize(lam / 2 * cp.sum_squares(w) + definition(w)))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    optimum = float(problem.objective.value)  # at the solver's w: above the minimum, whatever its tolerances
    result = so.train.bmrm(risk, lam=lam, tol=1e-7)
    assert result.converged
    assert result.objective == pytest.approx(optimum, rel=1e-6)
    assert result.lower_bound <= optimum * (1 + 1e-9)
    assert result.objective < 0.98 * risk(np.zeros(risk.n_features))[0]  # weights matter here
