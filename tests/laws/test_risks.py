"""The laws of risks hold for every risk of the package, and find wrong ones."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

import structopt as so
from structopt.errors import DeclarationError, StructoptError
from structopt.risks import LinearRisk, Risk, StructuredRisk
from structopt.risks.risk import Cut
from structopt.testing import check_risk

R, S = so.risks, so.structures
N, D = 9, 3
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, D))
SIGN = np.where(np.arange(N) % 3 == 0, 1.0, -1.0)
LEVEL = np.arange(N) % 3
TARGET = RNG.normal(size=N)
TAGS = RNG.integers(0, 2, (N, 3))
TREE = so.Hierarchy([("root", "animal"), ("root", "oak"), ("animal", "cat"), ("animal", "dog")])
EDGES = [("root", "animal"), ("root", "oak"), ("animal", "cat"), ("animal", "dog")]
LEAVES = np.array(["oak", "cat", "dog"])[LEVEL]
WORDS = [RNG.normal(size=(1 + i % 3, 2)) for i in range(N)]
STATES = [RNG.integers(0, 2, len(x)) for x in WORDS]
COSTS = np.array([[0.0, 1.0, 3.0], [0.5, 0.0, 1.0], [2.0, 2.0, 0.0]])
M = np.array([[2.0, 0.5], [0.5, 1.0]])
CHAIN = S.Chain(2, initial_weights=True)
RULES = S.Chain(3, [[1, 1, 0], [1, 1, 1], [0, 1, 1]], initial=[1, 1, 0], intercept=True)
MRF, FOREST = S.PairwiseMRF(3), S.PairwiseMRF(3, edges=[(0, 1), (1, 2)])


# ---- references ------------------------------------------------------------------------------------


def mean_of(loss, y):
    return lambda w: np.mean([loss(f, t) for f, t in zip(X @ w, y, strict=True)])


def of_classes(loss, k=3):
    return lambda w: np.mean([loss(f, t) for f, t in zip(X @ w.reshape(k, D).T, LEVEL, strict=True)])


def of_pairs(cost):
    """Mean hinge over pairs of examples with a lower and a higher level."""

    def risk(w, y):
        f = X @ w
        pairs = [(i, j) for i in range(N) for j in range(N) if y[i] < y[j]]
        return np.mean([cost(y[i], y[j]) * max(0.0, 1.0 + f[i] - f[j]) for i, j in pairs])

    return risk


def of_tables(score, k=None):
    """The largest ``(y' - y).f + 1 - score`` of all labellings, or of those with k positives."""
    labellings = np.array(list(itertools.product([-1.0, 1.0], repeat=N)))
    if k is not None:
        labellings = labellings[(labellings > 0).sum(axis=1) == k]
    positive = labellings > 0
    tp, fp = positive[:, SIGN > 0].sum(axis=1), positive[:, SIGN < 0].sum(axis=1)
    loss = 1.0 - score(tp, fp, (SIGN > 0).sum() - tp, (SIGN < 0).sum() - fp)
    return lambda w: max(0.0, ((labellings - SIGN) @ (X @ w) + loss).max())


def f_score(beta):
    return lambda tp, fp, fn, tn: (1 + beta**2) * tp / ((1 + beta**2) * tp + beta**2 * fn + fp)


def precision(tp, fp, fn, tn):
    return tp / (tp + fp)


def g_mean(tp, fp, fn, tn):
    return np.sqrt(tp / (tp + fn) * tn / (fp + tn))


def matthews(tp, fp, fn, tn):
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return np.where(product > 0, (tp * tn - fp * fn) / np.sqrt(np.maximum(product, 1)), 0.0)


def dear(tp, fp, fn, tn):
    """A score that is below 1 at the ground truth: the risk has a positive floor."""
    return 0.75 - 0.1 * fp**2 - 0.2 * fn


def of_rankings(measure):
    """The mean over three queries of the worst of all rankings of three documents."""

    def query(f, relevance):
        order = np.argsort(-relevance, kind="stable")
        f, (a, b) = f[order], measure.weights(relevance[order])
        c = np.arange(1.0, len(f) + 1.0) ** -0.25
        return max(c @ (f[list(p)] - f) + a @ (b - b[list(p)]) for p in itertools.permutations(range(len(f))))

    return lambda w: np.mean([query(X[k : k + 3] @ w, RELEVANCE[k : k + 3]) for k in range(0, N, 3)])


def of_paths(loss, nodes):
    """A leaf scores the sum of its path; `nodes` has the paths of oak, cat and dog."""
    return lambda w: np.mean(
        [loss(f, t) for f, t in zip(X @ (nodes @ w.reshape(nodes.shape[1], D)).T, LEVEL, strict=True)]
    )


def hinge_of_classes(f, t):
    return max(COSTS[t, k] + f[k] - f[t] for k in range(3))


def slack_of_classes(f, t):
    return max(COSTS[t, k] * (1.0 + f[k] - f[t]) for k in range(3))


def softmax(f, t):
    return logsumexp(f) - f[t]


def residual(w):
    return X @ w.reshape(2, D).T - X[:, :2] - TARGET[:, None]


RELEVANCE = np.array([0.0, 2.0, 1.0, 1.0, 0.0, 3.0, 2.0, 0.0, 1.0])
# animal, oak, cat, dog; PathSoftmax has the root, too.
PATHS = np.array([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]])
DAG = so.Hierarchy(
    [("r", "a"), ("r", "b"), ("a", "oak"), ("a", "c"), ("b", "c"), ("c", "cat"), ("c", "dog"), ("b", "dog")]
)
ALPHA = np.arange(1.0, 8.0)
ANCESTORS = DAG.closure.toarray()[[DAG.leaves.index(leaf) for leaf in ("oak", "cat", "dog")]]
#: The shares of nodes in the ways down: two ways to cat, by a and by b, and three to dog.
SHARES = {
    "oak": {"r": 1, "a": 1, "oak": 1},
    "cat": {"r": 1, "a": 1 / 2, "b": 1 / 2, "c": 1, "cat": 1},
    "dog": {"r": 1, "a": 1 / 3, "b": 2 / 3, "c": 2 / 3, "dog": 1},
}
WAYS = np.array([[SHARES[leaf].get(node, 0) for node in DAG.nodes] for leaf in SHARES])
# ---- cases -----------------------------------------------------------------------------------------


def same(X):
    return X


def take(data, rows, form=same):
    return form(data[rows]) if isinstance(data, np.ndarray) else [form(data[i]) for i in rows]


def simple(kind, y=None, reference=None, **options):
    """A risk of rows of X, in some form, and targets."""
    targets = () if y is None else (np.asarray(y),)

    def build(rows, sample_weight=None, form=same):
        return kind(form(X[rows]), *(t[rows] for t in targets), **options, sample_weight=sample_weight)

    return build, reference


def of_model(kind, model, inputs, labels, **options):
    def build(rows, sample_weight=None, form=same):
        return kind(model, take(inputs, rows, form), take(labels, rows), **options, sample_weight=sample_weight)

    return build, None


def structured(model, inputs, labels, surrogate, **options):
    return of_model(StructuredRisk, model, inputs, labels, surrogate=surrogate, **{"rtol": 0.0} | options)


def preference(rows, sample_weight=None, form=same):
    """Example k is the pair of rows 2k and 2k + 1 of six rows; weights are given to the first of each."""
    pairs = np.ravel([[2 * k, 2 * k + 1] for k in rows])
    weights = None if sample_weight is None else np.ravel([[s, 1.0] for s in sample_weight])
    return R.Preference(form(X[pairs]), np.arange(len(pairs)).reshape(-1, 2), sample_weight=weights)


def ranking(measure):
    """Example k is a query of three rows."""

    def build(rows, sample_weight=None, form=same):
        documents = np.ravel([np.arange(3 * k, 3 * k + 3) for k in rows])
        weights = None if sample_weight is None else np.repeat(sample_weight, 3)
        queries = np.repeat(np.arange(len(rows)), 3)
        return R.Ranking(form(X[documents]), RELEVANCE[documents], queries, measure, sample_weight=weights)

    return build, of_rankings(measure)


def budget():
    space = so.LabelSpace()
    tag = space.binary("tag", 3)
    space.subject_to(np.array([3.0, 2.0, 2.0]) @ tag <= 4)
    return so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming())


def fixed_root():
    """A tree with more labels than are listed for fronts, and a variable that has one value."""
    space = so.LabelSpace()
    node = space.binary("node", 17)
    space.subject_to(node[0] == 1, *(node[k] <= node[(k - 1) // 3] for k in range(1, 17)))
    return so.Model(space, {"node": so.features.Linear()}, so.losses.Hamming())


def two_blocks():
    """Labels with nothing on in the block that counts."""
    space = so.LabelSpace()
    y, free = space.binary("y", 3), space.binary("free", 2)
    space.subject_to(y[0] + free[0] <= 1)
    features = {"y": so.features.Linear(), "free": so.features.Linear()}
    return so.Model(space, features, {"y": so.losses.Hamming()})


def few_tags(x):
    """At most two tags, of as many as the input has rows."""
    space = so.LabelSpace(f"{x.shape[0]} tags")
    space.subject_to(space.binary("tag", (x.shape[0], 1)).sum() <= 2)
    return space


FEW_TAGS = so.Model(few_tags, {"tag": so.features.Table()}, so.losses.Hamming())


def predicted(model, *shapes):
    """Inputs of these shapes in turn, and the labels that random weights predict."""
    inputs = [RNG.normal(size=shapes[i % len(shapes)]) for i in range(N)]
    w = RNG.normal(size=model.batch(inputs).n_weights)
    return model, inputs, [model.predict(w, x) for x in inputs]


SEGMENTS = S.Segmentation(2, 2, pooling="mean", length_weights=True)
PIECES = [SEGMENTS.predict(RNG.normal(size=12), x) for x in WORDS]
PAIRS = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])[LEVEL]
BLOCKS = [{"y": [0, 1, 0][:k] + [0] * (3 - k), "free": [1, k % 2]} for k in LEVEL]
NODES = np.repeat([np.eye(17, dtype=int)[0], np.ones(17, dtype=int)], [5, 4], axis=0)

CASES = {
    "Hinge": simple(R.Hinge, SIGN, mean_of(lambda f, y: max(0.0, 1.0 - y * f), SIGN)),
    "SquaredHinge": simple(R.SquaredHinge, SIGN, mean_of(lambda f, y: max(0.0, 1.0 - y * f) ** 2 / 2, SIGN)),
    "Logistic": simple(R.Logistic, SIGN, mean_of(lambda f, y: np.log1p(np.exp(-y * f)), SIGN)),
    "Exponential": simple(R.Exponential, SIGN, mean_of(lambda f, y: np.exp(-y * f), SIGN)),
    "Novelty": simple(R.Novelty, None, mean_of(lambda f, y: max(0.0, 0.7 - f), SIGN), rho=0.7),
    "LeastSquares": simple(R.LeastSquares, TARGET, mean_of(lambda f, y: (f - y) ** 2 / 2, TARGET)),
    "Absolute": simple(R.Absolute, TARGET, mean_of(lambda f, y: abs(f - y), TARGET)),
    "Quantile": simple(R.Quantile, TARGET, mean_of(lambda f, y: max(0.2 * (y - f), 0.8 * (f - y)), TARGET), tau=0.2),
    "EpsilonInsensitive": simple(
        R.EpsilonInsensitive, TARGET, mean_of(lambda f, y: max(0.0, abs(f - y) - 0.3), TARGET), eps=0.3
    ),
    "Huber": simple(
        R.Huber, TARGET, mean_of(lambda f, y: (f - y) ** 2 / 2 if abs(f - y) <= 1 else abs(f - y) - 0.5, TARGET)
    ),
    "Poisson": simple(R.Poisson, LEVEL, mean_of(lambda f, y: np.exp(f) - y * f, LEVEL)),
    "Multiclass": simple(R.Multiclass, LEVEL, of_classes(hinge_of_classes), delta=COSTS),
    "Multiclass slack": simple(R.Multiclass, LEVEL, of_classes(slack_of_classes), delta=COSTS, gamma="delta"),
    "Softmax": simple(R.Softmax, LEVEL, of_classes(softmax), n_classes=3),
    "MultivariateRegression": simple(
        R.MultivariateRegression,
        X[:, :2] + TARGET[:, None],
        lambda w: np.sum(residual(w) @ M * residual(w)) / 2 / N,
        M=M,
    ),
    "Ontology": simple(
        R.Ontology,
        LEAVES,
        of_paths(hinge_of_classes, PATHS),
        edges=EDGES,
        labels=["oak", "cat", "dog"],
        delta=COSTS,
    ),
    "PathSoftmax": simple(
        R.PathSoftmax,
        LEAVES,
        of_paths(softmax, np.column_stack([np.ones(3), PATHS])),
        hierarchy=TREE,
    ),
    "PathSoftmax dag": simple(
        R.PathSoftmax, LEAVES, of_paths(softmax, ANCESTORS * np.sqrt(ALPHA)), hierarchy=DAG, alpha=ALPHA
    ),
    "PathSoftmax average": simple(R.PathSoftmax, LEAVES, of_paths(softmax, WAYS), hierarchy=DAG, paths="average"),
    "ROCArea": simple(R.ROCArea, SIGN, lambda w: of_pairs(lambda a, b: 1.0)(w, SIGN)),
    "Ordinal": simple(R.Ordinal, LEVEL, lambda w: of_pairs(lambda a, b: 1.0)(w, LEVEL)),
    "Ordinal linear": simple(R.Ordinal, LEVEL, lambda w: of_pairs(lambda a, b: b - a)(w, LEVEL), cost="linear"),
    "Ordinal table": simple(R.Ordinal, LEVEL, lambda w: of_pairs(lambda a, b: COSTS[a, b])(w, LEVEL), cost=COSTS),
    "Preference": (preference, lambda w: np.maximum(0.0, 1.0 + (X[[0, 2, 4, 6]] - X[[1, 3, 5, 7]]) @ w).mean()),
    "Ranking ndcg": ranking(R.NDCG()),
    "Ranking mrr": ranking(R.MRR()),
    "Ranking precision": ranking(R.PrecisionAtN(2)),
    "Ranking eru": ranking(R.ERU(3.0, 1.0)),
    "FBeta": simple(R.FBeta, SIGN, of_tables(f_score(0.7)), beta=0.7),
    "Jaccard": simple(R.Jaccard, SIGN, of_tables(lambda tp, fp, fn, tn: tp / (tp + fp + fn))),
    "BalancedAccuracy": simple(
        R.BalancedAccuracy, SIGN, of_tables(lambda tp, fp, fn, tn: 0.5 * (tp / (tp + fn) + tn / (tn + fp)))
    ),
    "PrecisionAt": simple(R.PrecisionAt, SIGN, of_tables(precision, 2), k=2),
    "RecallAt": simple(R.RecallAt, SIGN, of_tables(lambda tp, fp, fn, tn: tp / (tp + fn), 5), k=5),
    "BreakEven": simple(R.BreakEven, SIGN, of_tables(precision, 3)),
    "Contingency": simple(R.Contingency, SIGN, of_tables(g_mean), score=g_mean),
    "Contingency matthews": simple(R.Contingency, SIGN, of_tables(matthews), score=matthews),
    "Contingency floor": simple(R.Contingency, SIGN, of_tables(dear), score=dear),
    "ChainCRF": of_model(R.ChainCRF, CHAIN, WORDS, STATES),
    "ChainCRF rules": of_model(R.ChainCRF, RULES, WORDS, STATES),
    "TreeCRF": of_model(R.TreeCRF, FOREST, X, TAGS),
    "SpaceCRF": of_model(R.SpaceCRF, S.MultiLabel(3, at_most=2), X, np.minimum(TAGS, [1, 1, 0])),
    "SpaceCRF inputs": of_model(R.SpaceCRF, FEW_TAGS, WORDS, [np.eye(len(x))[:, :1] for x in WORDS]),
    "StructuredRisk margin": structured(MRF, X, TAGS, "margin"),
    "StructuredRisk slack": structured(MRF, X, TAGS, "slack"),
    "StructuredRisk beta": structured(MRF, X, TAGS, so.surrogates.BetaScaling(0.5)),
    "StructuredRisk log": structured(S.Multiclass(3), X, LEVEL, "log"),
    "StructuredRisk prob": structured(S.Multiclass(3, loss=COSTS), X, LEVEL, "prob"),
    "StructuredRisk micro_f1": structured(S.MultiLabel(3), X, TAGS, "micro_f1"),
    "StructuredRisk product": structured(MRF, X, TAGS, "product"),
    "StructuredRisk micro_f1 pairs": structured(MRF, X, TAGS, "micro_f1"),
    "StructuredRisk micro_f1 chain": structured(CHAIN, WORDS, STATES, "micro_f1"),
    "StructuredRisk micro_f1 segments": structured(SEGMENTS, WORDS, PIECES, "micro_f1"),
    "StructuredRisk chain": structured(CHAIN, WORDS, STATES, "margin"),
    "StructuredRisk chain slack": structured(CHAIN, WORDS, STATES, "slack"),
    "StructuredRisk leaves": structured(S.HierarchicalLabels(TREE), X, LEAVES, "slack"),
    "StructuredRisk declared": structured(budget(), X, np.minimum(TAGS, [0, 1, 1]), "slack"),
    "StructuredRisk fixed root": structured(fixed_root(), X, NODES, "slack"),
    "StructuredRisk classes": structured(S.Multiclass(3), X, LEVEL, "margin"),
    "StructuredRisk classes slack": structured(S.Multiclass(3), X, LEVEL, "slack"),
    "StructuredRisk classes micro_f1": structured(S.Multiclass(3), X, LEVEL, "micro_f1"),
    "StructuredRisk blocks micro_f1": structured(two_blocks(), X, BLOCKS, "micro_f1"),
    "StructuredRisk chain costs": structured(S.Chain(2, loss=[[0, 1], [2, 0]]), WORDS, STATES, "slack"),
    "StructuredRisk trees": structured(*predicted(S.Arborescence(), (3, 3, 2), (4, 4, 2)), "slack"),
    "StructuredRisk relations": structured(*predicted(S.LabelledArborescence(2), (2, 2, 2), (3, 3, 2)), "slack"),
    "StructuredRisk matching": structured(*predicted(S.Assignment(normalize=True), (3, 3, 2)), "slack"),
    "StructuredRisk unmatched": structured(*predicted(S.Assignment(unmatched=True), (3, 3, 2), (2, 2, 2)), "slack"),
    "StructuredRisk chain hull": structured(CHAIN, WORDS, STATES, "slack", search="convex_hull"),
    "StructuredRisk trees hull": structured(*predicted(S.Arborescence(), (4, 4, 2)), "slack", search="convex_hull"),
    "StructuredRisk matching hull": structured(*predicted(S.Assignment(), (3, 3, 2)), "slack", search="convex_hull"),
    "StructuredRisk hull": structured(S.MultiLabel(3), X, TAGS, "slack", search="convex_hull"),
    "StructuredRisk inexact": structured(MRF, X, TAGS, "slack", rtol=1e-2),
}
LINEAR = ("predictions", "line_search")
#: Risks of counts, whose weights are numbers of copies.
COUNTED = ("FBeta", "Jaccard", "Balanced", "PrecisionAt", "RecallAt", "BreakEven", "Contingency")
#: Sets of labels, of which the most violated one is found by sorting.
COUNTS = S.MultiLabel(4, at_least=1, at_most=2, loss=so.losses.Hamming(np.full(4, 0.25)))
G = so.surrogates
GENERAL = (G.BetaScaling(0.5), G.GeneralizedScaling(1.5, 0.5), G.ProbLoss(convex=True))
for psi in ("margin", "slack", "log", "prob", *GENERAL):
    CASES[f"StructuredRisk counts {psi}"] = structured(COUNTS, X, PAIRS, psi)
CASES["StructuredRisk ranking"] = structured(S.Ranking(), WORDS, [RNG.integers(0, 3, len(x)) for x in WORDS], "slack")
UNEQUAL = S.MultiLabel(4, loss=so.losses.Hamming([1, 0.5, 2, 1]))
CASES["StructuredRisk counts with weights"] = structured(UNEQUAL, X, PAIRS, "slack")
#: Laws that are skipped, by the beginning of the case's name.
SILENT = {
    "ROC": LINEAR,
    "Ordinal": (*LINEAR, "parts"),
    "Ranking": LINEAR,
    **dict.fromkeys(COUNTED, (*LINEAR, "parts")),
    **dict.fromkeys(("ChainCRF", "TreeCRF", "SpaceCRF"), LINEAR),
    "StructuredRisk prob": (*LINEAR, "cut"),
    "StructuredRisk counts prob": (*LINEAR, "cut"),
    "StructuredRisk inexact": (*LINEAR, "subgradient"),
    "StructuredRisk": LINEAR,
}


def n_rows(name):
    return {"Preference": 4, "Ranking": 3}.get(name.split()[0], N)


@pytest.mark.parametrize("name", CASES)
def test_laws_of_risks(name):
    build, reference = CASES[name]
    risk = build(np.arange(n_rows(name)))
    report = check_risk(risk, reference=reference, rebuild=build, n=8)
    assert report.ok, report
    silent = next((laws for start, laws in SILENT.items() if name.startswith(start)), ())
    assert {outcome.check for outcome in report.skipped} == set(silent), report


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(COUNTED)])
def test_laws_of_risks_with_weights(name):
    build, _ = CASES[name]
    n = n_rows(name)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, n)
    risk, other, equal, plain = (build(np.arange(n), s) for s in (weight, 1e-200 * weight, np.full(n, 5.0), None))
    report = check_risk(risk, n=4)
    assert report.ok, report
    w = np.random.default_rng(1).normal(size=risk.n_features)
    assert risk(w)[0] == pytest.approx(other(w)[0], rel=1e-10)
    assert equal(w)[0] == pytest.approx(plain(w)[0], rel=1e-12)
    assert risk.fingerprint() != plain.fingerprint() and equal.fingerprint() == plain.fingerprint()


@pytest.mark.parametrize("integral", ["auto", "relax"])
@pytest.mark.parametrize("psi", ["margin", "slack", "micro_f1"])
def test_laws_of_risks_whose_labels_leave_out_pairs(psi, integral, monkeypatch):
    """As the labels of many pairs do."""
    monkeypatch.setattr("structopt.structures.mrf._MANY_VARIABLES", 0)
    risk = StructuredRisk(S.PairwiseMRF(3, integral=integral), X, TAGS, psi, rtol=0.0)
    assert not isinstance(risk.truth.native, np.ndarray)
    report = check_risk(risk, n=8)
    assert report.ok, report


FORMS = [
    np.asfortranarray,
    lambda X: sp.csr_array(X.reshape(-1, X.shape[-1])),
    lambda X: sp.csc_array(X.reshape(-1, X.shape[-1])),
    lambda X: X.astype(np.float32),
]


@pytest.mark.parametrize("name", CASES)
def test_sparse_and_single_precision_features_agree(name):
    build, rows = CASES[name][0], np.arange(n_rows(name))
    rounded = build(rows, form=lambda X: X.astype(np.float32).astype(float))
    w = np.random.default_rng(7).normal(size=rounded.n_features)
    value, slope = rounded(w)
    for form in FORMS:
        found = build(rows, form=lambda X, form=form: form(X.astype(np.float32).astype(float)))(w)
        assert found[0] == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(found[1], slope, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_every_risk_knows_its_features(name):
    build, rows = CASES[name][0], np.arange(n_rows(name))
    known = build(rows).identity()
    assert build(rows, form=lambda X: X.copy()).identity() == known
    for factor in (2.0, 1.0 + 1e-12):
        assert build(rows, form=lambda X, factor=factor: factor * X).identity() != known


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wrong", [np.zeros((0, 3)), np.zeros((N, 0)), np.zeros(N), np.full((N, D), np.nan)])
def test_bad_features_are_rejected(name, wrong):
    build, rows = CASES[name][0], np.arange(n_rows(name))
    if wrong.ndim == 1 and name.split()[-1] in ("SpaceCRF", "declared", "root"):
        pytest.skip("an input of a declared model may be one number")
    # A risk of a model is rejected by its model, which counts examples and not rows of X.
    with pytest.raises(StructoptError, match=r"[Ee]xample|no features|X |An input of"):
        build(rows, form=lambda X: wrong)


@pytest.mark.parametrize("name", CASES)
def test_shards_that_do_not_exist_are_named(name):
    risk = CASES[name][0](np.arange(n_rows(name)))
    assert repr(risk).startswith(f"<{name.split()[0]}") and "\n" not in repr(risk)
    if name.startswith(("Ordinal", *COUNTED)):
        with pytest.raises(NotImplementedError, match="Train it whole"):
            risk.shard(0, 2)
        return
    for k, n in ((0, 10_000), (2, 2)):
        with pytest.raises(DeclarationError, match="shard"):
            risk.shard(k, n)


def test_every_risk_has_a_case():
    kinds = {name for name in R.__all__ if isinstance(getattr(R, name), type) and issubclass(getattr(R, name), Risk)}
    assert kinds - {"Risk", "LinearRisk"} == {name.split()[0] for name in CASES}


# ---- risks that break a law ------------------------------------------------------------------------


def altered(base, **changes):
    """Return a class with other attributes; a function gets the right method and then its arguments."""

    def method(name, change):
        return lambda self, *args, **options: change(functools.partial(getattr(base, name), self), *args, **options)

    own = {name: method(name, change) if callable(change) else change for name, change in changes.items()}
    return type(f"Altered{base.__name__}", (base,), own)


def first_counts(right, f):
    value, derivative = right(f)
    derivative[0] += 0.1
    return value + 0.1 * float(f[0]), derivative


def high_bound(right, k, n):
    part = right(k, n)
    part.lower_bound = 0.2
    return part


def moved_offset(by):
    return lambda right, w: Cut(*right(w)[:3], intercept=right(w).offset(w) + by)


def high_cut(right, w):
    found = right(w)
    return found._replace(value=found.value + 1e-3, plane=found.plane + 1e-3)


def halved(right, w):
    found = right(w)
    w /= 2.0
    return found


def squared_weights(right, X, y, sample_weight=None):
    right(X, y, sample_weight=None if sample_weight is None else np.square(sample_weight))


class BadCopy(R.Hinge):
    def __setstate__(self, state):
        self.__dict__ = {**state, "_scale": 0.5 * state["_scale"]}


class Counting(R.Hinge):
    """Forgets nothing: each evaluation adds to the value."""

    calls = 0

    def loss(self, f):
        self.calls += 1
        value, derivative = super().loss(f)
        return value + 1e-6 * self.calls, derivative


wrong_slope = altered(R.Hinge, pull_back=lambda right, derivative: 1.001 * right(derivative))
WRONG = {
    "high value": ("value", altered(R.Hinge, loss=lambda right, f: tuple(1.01 * part for part in right(f)))),
    "wrong slope": ("subgradient", wrong_slope),
    "high cut": ("cut", altered(R.Hinge, cut=high_cut)),
    "high offset": ("cut", altered(R.Hinge, cut=moved_offset(1e-3))),
    "low offset": ("cut", altered(R.Hinge, cut=moved_offset(-1e-3))),
    "high bound": ("lower_bound", altered(R.LeastSquares, lower_bound=0.4)),
    "bent predictions": ("predictions", altered(R.Hinge, predictions=lambda right, w: right(w) + 1e-3 * right(w) ** 2)),
    "wrong slope of predictions": ("predictions", wrong_slope),
    "half shards": ("parts", altered(R.Hinge, shard=lambda right, k, n: right(k, n).shard(0, 2))),
    "high bounds of shards": ("parts", altered(R.Hinge, shard=high_bound)),
    "the first example counts more": ("order", altered(R.Hinge, loss=first_counts)),
    "equal weights": ("weights", altered(R.Hinge, __init__=lambda right, X, y, sample_weight=None: right(X, y))),
    "squared weights": ("weights", altered(R.Hinge, __init__=squared_weights)),
    "bad copy": ("copies", BadCopy),
    "counting": ("repeated", Counting),
    "halved weights": ("repeated", altered(R.Hinge, value_and_subgradient=halved)),
    "short steps": ("line_search", altered(R.Hinge, line_step=lambda right, *args: 0.5 * right(*args))),
    "gullible": (
        "rejected",
        altered(R.Hinge, value_and_subgradient=lambda right, w: right(np.nan_to_num(np.resize(w, D)))),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_risks_are_found(name):
    law, kind = WRONG[name]
    build, reference = simple(kind, SIGN, CASES["Hinge"][1])
    assert law in {
        outcome.check for outcome in check_risk(build(np.arange(N)), reference=reference, rebuild=build).failed
    }


def test_every_law_has_a_risk_that_breaks_it():
    assert {law for law, _ in WRONG.values()} == set(so.testing.RISK_CHECKS)


class LosesLabels(StructuredRisk):
    """Never finds the labels in which more than one variable is wrong."""

    def _most_violated(self, tables):
        found = super()._most_violated(tables)
        few = self.batch.loss_values(self.loss, found.labels) <= 1.0
        return found.times(np.where(few, 1.0, 0.0))


def test_labels_that_a_search_misses_are_found():
    failed = check_risk(LosesLabels(MRF, X, TAGS, "slack", rtol=0.0)).failed
    assert "value" in {outcome.check for outcome in failed}


class Bare(Risk):
    """A risk with the least that a user writes."""

    n_features = D

    def value_and_subgradient(self, w):
        error = X @ w - TARGET
        return float(error @ error), 2.0 * X.T @ error


def test_laws_of_optional_methods_are_skipped():
    report = check_risk(Bare())
    assert report.ok, report
    optional = {"value", "lower_bound", "predictions", "parts", "order", "weights", "line_search"}
    assert {outcome.check for outcome in report.skipped} == optional


def test_a_relaxed_model_has_no_list_of_labels():
    report = check_risk(StructuredRisk(S.PairwiseMRF(3, integral="relax"), X, TAGS, "margin"))
    assert report.ok and "relaxed" in next(o.reason for o in report.skipped if o.check == "value")
    assert issubclass(R.Hinge, LinearRisk) and not issubclass(StructuredRisk, LinearRisk)
