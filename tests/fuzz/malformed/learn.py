"""Calls that learn and use: risks, regularisers, trainers, norms, estimators."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import structopt as so

from . import kinds as k
from .call import Argument as A
from .call import Call, call, eighths, exact, maybe, near, one_of, positional, recipe, value_of
from .declare import of_examples, structure_of, tree

Rng = np.random.Generator
EDGES = A([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "e")], k.edges)

# Limits that keep a case short, whatever its other arguments are.
LIMITS: dict[str, Any] = {"max_passes": maybe(8.0), "max_seconds": A(20.0), "tol": 0.125}
#: Risks of signs and of numbers, with the parameters of their own.
OF_SIGNS: dict[str, dict[str, Any]] = {
    "Hinge": {}, "SquaredHinge": {}, "Logistic": {}, "Exponential": {}, "ROCArea": {}, "Jaccard": {},
    "BalancedAccuracy": {}, "BreakEven": {}, "FBeta": {"beta": 1.0}, "PrecisionAt": {"k": 2}, "RecallAt": {"k": 2},
    "Novelty": {"rho": 1.0},
}  # fmt: skip
OF_NUMBERS: dict[str, dict[str, Any]] = {
    "LeastSquares": {}, "Absolute": {}, "Huber": {}, "Poisson": {}, "Quantile": {"tau": 0.5},
    "EpsilonInsensitive": {"eps": 0.125},
}  # fmt: skip


@recipe
def scalar_risks(rng: Rng) -> Call:
    X, signs, real, w = eighths(rng, 6, 3), np.array([1.0, -1, 1, -1, 1, 1]), eighths(rng, 6), eighths(rng, 3)
    name = str(rng.choice([*OF_SIGNS, *OF_NUMBERS]))
    own = {"y": signs, **OF_SIGNS[name]} if name in OF_SIGNS else {"y": real, **OF_NUMBERS[name]}
    if name == "Poisson":
        own["y"] = np.abs(np.rint(real))
    if name == "Novelty":
        del own["y"]
    return near(1e-6, lambda w, **v: getattr(so.risks, name)(**v)(w), X=X, w=w, **own)


@recipe
def vector_risks(rng: Rng) -> Call:
    r, X, y, two = so.risks, eighths(rng, 6, 2), np.array([0, 1, 2, 0, 1, 2]), eighths(rng, 2)
    classes, w, costs = A(y, k.classes), eighths(rng, 6), {"delta": maybe(1.0 - np.eye(3)), "n_classes": maybe(3)}
    rankings = {"query": A(np.array([0, 0, 0, 1, 1, 1]), k.loose(k.classes)), "measure": "ndcg", "decay": 0.25}
    table: list[tuple[Any, dict[str, Any]]] = [
        (r.Multiclass, {"y": classes, "w": w, **costs}),
        (r.Softmax, {"y": classes, "w": w}),
        (r.MultivariateRegression, {"y": eighths(rng, 6, 2), "M": maybe(np.eye(2)), "w": eighths(rng, 4)}),
        (r.Ordinal, {"y": y, "cost": "constant", "w": A(two)}),
        (r.Preference, {"pairs": np.array([[0, 1], [2, 3]]), "cost": maybe(np.ones(2)), "w": two}),
        (r.Ranking, {"relevance": y.astype(float), "w": two, **rankings}),
    ]
    risk, arguments = table[int(rng.integers(len(table)))]
    return call(lambda w, **v: risk(**v)(w), X=X, **arguments)


@recipe
def graph_risks(rng: Rng) -> Call:
    given: dict[str, Any] = {"X": eighths(rng, 6, 2), "y": A(list("cdecde"), k.classes)}
    paths = {"hierarchy": tree(), "alpha": maybe(np.ones(6))}
    calls = [
        call(lambda **v: so.risks.Ontology(**v)(np.ones(2 * 5)), edges=EDGES, **given),
        call(lambda **v: so.risks.PathSoftmax(**v)(np.ones(2 * 6)), **paths, **given),
    ]
    return one_of(rng, calls)


@recipe
def structured_risk(rng: Rng) -> Call:
    m, X, Y, ykind = structure_of(rng)
    data = {"X": A(X, of_examples(k.rows)), "y": A(Y, of_examples(ykind)), "w": eighths(rng, m.n_weights(X[0]))}
    options = {"surrogate": "margin", "search": "auto", "n_jobs": 1, "rtol": 1e-3}
    return call(lambda w, **v: so.train.StructuredRisk(**v)(w), model=m, **data, **options)


@recipe
def measures(rng: Rng) -> Call:
    r = so.risks
    calls = [
        call(lambda k: r.NDCG(k).weights(np.array([1.0, 0, 2])), k=maybe(2)),
        call(lambda n: r.PrecisionAtN(n).weights(np.array([1.0, 0, 1])), n=2),
        call(lambda **v: r.ERU(**v).weights(np.array([1.0, 0, 2])), half_life=5.0, neutral=0.0),
    ]
    return one_of(rng, calls)


@recipe
def regularizers(rng: Rng) -> Call:
    r, w = so.regularizers, np.abs(eighths(rng, 3)) + 0.125
    calls = [
        exact(lambda p: r.Lp(p).value(w), p=1.5),
        exact(lambda B: r.Quadratic(B).value(w), B=2 * np.eye(3)),
        exact(lambda normalized: r.Entropy(normalized).value(np.full(4, 0.25)), normalized=True),
    ]
    return one_of(rng, calls)


#: Options of trainers, and who has them.
BUNDLES = ("proximal_bundle", "trust_region_bundle")
TRAINERS = ("bcfw", "block_ascent", "bmrm", "multiclass_ascent", "n_slack", "one_slack", *BUNDLES)
OPTIONS: list[tuple[str, Any, tuple[str, ...]]] = [
    ("w0", maybe(np.zeros(9)), ("bmrm", *BUNDLES)),
    ("regularizer", maybe(None), ("sgd", *(name for name in TRAINERS if name != "multiclass_ascent"))),
    ("random_state", 0, ("bcfw", "block_ascent", "multiclass_ascent", "n_slack", "sgd", "coordinate_descent")),
    ("cached_passes", 20, ("block_ascent", "multiclass_ascent")),
    ("cached_labels", 20, ("block_ascent", "n_slack", "one_slack")),
    ("max_cuts", maybe(20), ("bmrm",)),
    ("batch_size", maybe(20), ("sgd",)),
    ("theta", 0.25, ("bmrm", "one_slack")),
    ("serious_share", 0.125, BUNDLES),
    ("average", "weighted", ("bcfw", "sgd")),
    ("certify", True, ("sgd",)),
]


@recipe
def trainers(rng: Rng) -> Call:
    name, X = str(rng.choice([*TRAINERS, "sgd", "coordinate_descent"])), eighths(rng, 6, 3)
    risk: Any = so.train.StructuredRisk(so.structures.Multiclass(3), X, [0, 1, 2, 0, 1, 2])
    if name == "coordinate_descent":
        risk = so.risks.Hinge(X, np.array([1.0, -1, 1, -1, 1, 1]))
    arguments: dict[str, Any] = {"risk": risk, "lam": 0.125, **LIMITS, "callback": maybe(lambda monitor: None)}
    arguments |= {"checkpoint": A(None, k.loose(k.thing)), "verbose": False}
    arguments |= {option: value for option, value, own in OPTIONS if name in own}

    def check(result: Any) -> None:
        assert np.isfinite(result.w).all(), "weights that are not finite"
        assert not np.isnan(result.objective)

    return call(getattr(so.train, name), **arguments).checked(check)


@recipe
def dual(rng: Rng) -> Call:
    M, b = eighths(rng, 3, 3), eighths(rng, 3)
    return call(lambda **v: so.train.solve_simplex_qp(**v)[0], gram=M @ M.T, b=b, lam=0.5, absolute_tol=1e-9)


@recipe
def norms(rng: Rng) -> Call:
    n, h, squares = so.norms, tree(), np.abs(eighths(rng, 6)) + 1
    loose = {"root": False, "tolerance": maybe(None, k.real), "weights": maybe(np.ones(6))}
    options = {"root": True, "floor": 0.0, "shares": "optimal"}
    calls = [
        exact(n.maxmin, hierarchy=h, root=False),
        exact(lambda hierarchy: len(n.minimal_graph(hierarchy).sizes), hierarchy=h),
        near(1e-4, n.normalization, hierarchy=h, rho=2.0, **loose),
        near(1e-4, n.shared_alpha, squared_norms=squares, hierarchy=h, **options),
        near(1e-2, n.shared_frobenius, U=eighths(rng, 3, 3), hierarchy=maybe(h), rtol=maybe(1e-3)),
    ]
    return one_of(rng, calls)


# ---- estimators ----------------------------------------------------------------------------------


def _estimators(rng: Rng) -> tuple[Any, dict[str, Any], Any, Any, Any, Any]:
    """A class, its parameters, and data with their kinds."""
    e, X, real = so.estimators, eighths(rng, 12, 3), eighths(rng, 12)
    two, three, leaves = np.tile([0, 1], 6), np.tile([0, 1, 2], 4), np.tile(list("cde"), 4)
    lam = {"lam": 0.125, **LIMITS, "verbose": False}
    run = {"n_jobs": 1, "random_state": 0}
    path = {"checkpoint": A(None)}
    svm = {"loss": "hinge", "multi_class": "ovr", "trainer": "auto", "intercept": True, "intercept_scaling": 1.0}
    nodes = {"hierarchy": EDGES, "kind": "leaf", "margin": "auto", "trainer": "auto", "intercept": True, **run}
    nodes |= {"dtype": "float64", "max_memory": maybe(None, k.real)}
    weighted = {"normalization": "rho", "rho": 2.0, "support": "auto", "divided": False, "certify": True}
    weighted |= {"tolerance": maybe(None, k.real)}
    rounds = {"max_rounds": 2, "rounds_tol": 0.125, "floor": 1e-8, "shares": "optimal"}
    seqs = [eighths(rng, t, 2) for t in (2, 3, 1, 4)]
    tags = [rng.choice(["a", "b"], len(s)).tolist() for s in seqs]
    chain = {"states": maybe(["a", "b"], k.names), "intercept": False, "n_jobs": 1}
    chain |= {"transitions": maybe(np.ones((2, 2))), "initial": maybe(np.ones(2))}
    kernel = {"kernel": "rbf", "lam": 0.125, "intercept": True, "gamma": maybe(1.0), "solver": "auto", **run}
    kernel |= {"method": "auto", "n_landmarks": 5, "rtol": 1e-3, "max_programs": 50}
    table: list[tuple[Any, dict[str, Any], Any, Any, Any, Any]] = [
        (e.AUCMaximizer, lam | path, X, two, k.rows, k.classes),
        (e.LinearSVM, lam | path | svm | {"random_state": 0}, X, three, k.rows, k.classes),
        (e.FBetaSVM, lam | path | {"beta": 1.0}, X, two, k.rows, k.classes),
        (e.OrdinalRegressor, lam | path | {"cost": "constant"}, X, three, k.rows, k.classes),
        (e.QuantileRegressor, lam | path | {"tau": 0.5}, X, real, k.rows, k.array),
        (e.RankSVM, lam | path | {"measure": "pairs", "decay": 0.25}, X, three.astype(float), k.rows, k.array),
        (e.HierarchicalSVM, lam | nodes | weighted, X, leaves, k.rows, k.classes),
        (e.SharedSVM, lam | nodes | rounds, X, leaves, k.rows, k.classes),
        (e.CRF, lam | path | chain, seqs, tags, of_examples(k.rows), of_examples(k.classes)),
        (
            e.ConditionalRiskMinimizer, {"model": so.structures.MultiLabel(3), **kernel}, X,
            rng.integers(0, 2, (12, 3)), k.rows, k.indicators,
        ),
    ]  # fmt: skip
    which = int(rng.integers(len(table) + 3))
    if which < len(table):
        return table[which]
    m, inputs, labels, ykind = structure_of(rng)
    own = {"model": m, "surrogate": A(str(rng.choice(["margin", "slack"])), k.one_or_several), "search": "auto", **run}
    own["trainer"] = str(rng.choice(["auto", "bmrm", "n_slack", "one_slack", "bcfw", "sgd"]))
    return so.StructuredSVM, lam | path | own, inputs, labels, of_examples(k.rows), of_examples(ykind)


def _made(cls: Any, parameters: dict[str, Any]) -> Any:
    return cls(**{name: value_of(argument) for name, argument in parameters.items()})


def _sound(estimator: Any) -> None:
    for name in ("coef_", "intercept_", "thresholds_"):
        value = getattr(estimator, name, None)
        if value is not None and not callable(value):
            data = value.data if hasattr(value, "indptr") else np.asarray(value, dtype=float)
            assert np.isfinite(data).all(), f"{name} is not finite: {value}"
    result = getattr(estimator, "result_", None)
    if result is not None and result.stopped != "time":  # out of time before the first evaluation it is unknown
        assert np.isfinite(result.objective), f"the objective is {result.objective}"


@recipe
def fit_parameters(rng: Rng) -> Call:
    cls, parameters, X, Y, _, _ = _estimators(rng)
    return call(lambda **v: cls(**v).fit(X, Y), **parameters).checked(_sound)


@recipe
def fit_data(rng: Rng) -> Call:
    cls, parameters, X, Y, xkind, ykind = _estimators(rng)

    def fit(X: Any, y: Any) -> Any:
        e = _made(cls, parameters).fit(X, y)
        _sound(e)
        return np.asarray(e.coef_.todense() if hasattr(e.coef_, "todense") else e.coef_) if hasattr(e, "coef_") else 0

    return near(0.2, fit, X=A(X, xkind), y=A(Y, ykind))


def fitted(rng: Rng) -> tuple[Any, Any, Any, Any, Any]:
    cls, parameters, X, Y, xkind, ykind = _estimators(rng)
    return _made(cls, parameters).fit(X, Y), X, Y, xkind, ykind


@recipe
def predict(rng: Rng) -> Call:
    e, X, _, xkind, _ = fitted(rng)
    method = getattr(e, "predict", None)
    if rng.random() < 0.4 and hasattr(e, "decision_function"):
        method = e.decision_function

    def run(X: Any) -> Any:
        found = method(X)
        assert len(found) in (12, 6, 4, len(found)), f"{len(found)} predictions"
        return found

    return near(1e-6, run, X=A(X, k.loose(xkind)))


@recipe
def score(rng: Rng) -> Call:
    e, X, Y, xkind, ykind = fitted(rng)
    return near(1e-6, positional(e.score, "X", "Y"), X=A(X, xkind), Y=A(Y, ykind))


@recipe
def unfitted(rng: Rng) -> Call:
    cls, parameters, X, _, xkind, _ = _estimators(rng)
    return call(_made(cls, parameters).predict, X=A(X, xkind))


@recipe
def save_and_set(rng: Rng) -> Call:
    e, X, Y, _, _ = fitted(rng)
    if rng.random() < 0.5:
        return call(e.save, path=Path(tempfile.mkdtemp(dir=".")) / "model.npz")
    parameter = str(rng.choice(sorted(e.get_params(deep=False))))
    value = A(getattr(e, parameter), k.loose(k.thing))
    return call(lambda value: e.set_params(**{parameter: value}).fit(X, Y), value=value).checked(_sound)
