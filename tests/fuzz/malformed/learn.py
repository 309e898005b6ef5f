"""Calls that learn and use: risks, regularisers, trainers, norms, estimators."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import structopt as so

from . import kinds as k
from .call import Argument as A
from .call import Call, eighths, optional, positional, recipe
from .declare import _list, structure_of, tree

Rng = np.random.Generator

# Limits that keep a case short, whatever its other arguments are.
LIMITS: dict[str, A] = {"max_passes": A(8.0, optional(k.real)), "max_seconds": A(20.0, None), "tol": A(0.125, k.real)}


@recipe
def scalar_risks(rng: Rng) -> Call:
    r = so.risks
    X, signs = eighths(rng, 6, 3), np.array([1.0, -1, 1, -1, 1, 1])
    real = eighths(rng, 6)
    name = str(
        rng.choice(
            [
                "Hinge",
                "SquaredHinge",
                "Logistic",
                "Exponential",
                "LeastSquares",
                "Absolute",
                "Huber",
                "ROCArea",
                "Jaccard",
                "BalancedAccuracy",
                "BreakEven",
                "FBeta",
                "Quantile",
                "EpsilonInsensitive",
                "Poisson",
                "PrecisionAt",
                "RecallAt",
                "Novelty",
            ]
        )
    )
    target = {"LeastSquares": real, "Absolute": real, "Huber": real, "Quantile": real, "EpsilonInsensitive": real}
    target["Poisson"] = np.abs(np.rint(real))
    w = eighths(rng, 3)
    arguments = {"X": A(X, k.rows), "y": A(target.get(name, signs), k.targets), "w": A(w, k.weights)}
    extra = {
        "FBeta": ("beta", A(1.0, k.real)),
        "Quantile": ("tau", A(0.5, k.real)),
        "EpsilonInsensitive": ("eps", A(0.125, k.real)),
        "PrecisionAt": ("k", A(2, k.count)),
        "RecallAt": ("k", A(2, k.count)),
        "Novelty": ("rho", A(1.0, k.real)),
    }
    if name in extra:
        arguments[extra[name][0]] = extra[name][1]
    if name == "Novelty":
        del arguments["y"]
    return Call(lambda w, **v: getattr(r, name)(**v)(w), arguments, tolerance=1e-6)


@recipe
def vector_risks(rng: Rng) -> Call:
    r = so.risks
    X, y = eighths(rng, 6, 2), np.array([0, 1, 2, 0, 1, 2])
    which = int(rng.integers(6))
    if which == 0:
        return Call(
            lambda w, **v: r.Multiclass(**v)(w),
            {
                "X": A(X, k.rows),
                "y": A(y, k.classes),
                "delta": A(1.0 - np.eye(3), optional(k.array)),
                "n_classes": A(3, optional(k.count)),
                "w": A(eighths(rng, 6), k.weights),
            },
            tolerance=None,
        )
    if which == 1:
        return Call(
            lambda w, **v: r.Softmax(**v)(w),
            {"X": A(X, k.rows), "y": A(y, k.classes), "w": A(eighths(rng, 6), k.weights)},
            tolerance=None,
        )
    if which == 2:
        return Call(
            lambda w, **v: r.MultivariateRegression(**v)(w),
            {
                "X": A(X, k.rows),
                "y": A(eighths(rng, 6, 2), k.array),
                "M": A(np.eye(2), optional(k.array)),
                "w": A(eighths(rng, 4), k.weights),
            },
            tolerance=None,
        )
    if which == 3:
        return Call(
            lambda w, **v: r.Ordinal(**v)(w),
            {"X": A(X, k.rows), "y": A(y, k.targets), "cost": A("constant", k.option), "w": A(eighths(rng, 2), None)},
            tolerance=None,
        )
    if which == 4:
        pairs = np.array([[0, 1], [2, 3]])
        return Call(
            lambda w, **v: r.Preference(**v)(w),
            {
                "X": A(X, k.rows),
                "pairs": A(pairs, k.array),
                "cost": A(np.ones(2), optional(k.array)),
                "w": A(eighths(rng, 2), k.weights),
            },
            tolerance=None,
        )
    return Call(
        lambda w, **v: r.Ranking(**v)(w),
        {
            "X": A(X, k.rows),
            "relevance": A(y.astype(float), k.array),
            "query": A(np.array([0, 0, 0, 1, 1, 1]), k.loose(k.classes)),
            "measure": A("ndcg", k.option),
            "decay": A(0.25, k.real),
            "w": A(eighths(rng, 2), k.weights),
        },
        tolerance=None,
    )


@recipe
def graph_risks(rng: Rng) -> Call:
    r = so.risks
    X, y = eighths(rng, 6, 2), list("cdecde")
    edges = [("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "e")]
    if rng.random() < 0.5:
        return Call(
            lambda **v: r.Ontology(**v)(np.ones(2 * 5)),
            {"X": A(X, k.rows), "y": A(y, k.classes), "edges": A(edges, k.edges)},
            tolerance=None,
        )
    return Call(
        lambda **v: r.PathSoftmax(**v)(np.ones(2 * 6)),
        {
            "X": A(X, k.rows),
            "y": A(y, k.classes),
            "hierarchy": A(tree(), k.thing),
            "alpha": A(np.ones(6), optional(k.array)),
        },
        tolerance=None,
    )


@recipe
def structured_risk(rng: Rng) -> Call:
    m, X, Y, xkind, ykind = structure_of(rng)
    width = m.n_weights(X[0])
    return Call(
        lambda w, **v: so.train.StructuredRisk(**v)(w),
        {
            "model": A(m, k.thing),
            "X": A(X, _list(xkind)),
            "y": A(Y, _list(ykind)),
            "surrogate": A("margin", k.option),
            "search": A("auto", k.option),
            "n_jobs": A(1, k.count),
            "rtol": A(1e-3, k.real),
            "w": A(eighths(rng, width), k.weights),
        },
        tolerance=None,
    )


@recipe
def measures(rng: Rng) -> Call:
    r = so.risks
    which = int(rng.integers(3))
    if which == 0:
        return Call(lambda k: r.NDCG(k).weights(np.array([1.0, 0, 2])), {"k": A(2, optional(k.count))}, tolerance=None)
    if which == 1:
        return Call(lambda n: r.PrecisionAtN(n).weights(np.array([1.0, 0, 1])), {"n": A(2, k.count)}, tolerance=None)
    return Call(
        lambda **v: r.ERU(**v).weights(np.array([1.0, 0, 2])),
        {"half_life": A(5.0, k.real), "neutral": A(0.0, k.real)},
        tolerance=None,
    )


@recipe
def regularizers(rng: Rng) -> Call:
    r = so.regularizers
    w = np.abs(eighths(rng, 3)) + 0.125
    which = int(rng.integers(3))
    if which == 0:
        return Call(lambda p: r.Lp(p).value(w), {"p": A(1.5, k.real)})
    if which == 1:
        return Call(lambda B: r.Quadratic(B).value(w), {"B": A(2 * np.eye(3), k.array)})
    return Call(lambda normalized: r.Entropy(normalized).value(np.full(4, 0.25)), {"normalized": A(True, k.flag)})


@recipe
def trainers(rng: Rng) -> Call:
    t = so.train
    name = str(
        rng.choice(
            [
                "bcfw",
                "block_ascent",
                "bmrm",
                "multiclass_ascent",
                "n_slack",
                "one_slack",
                "proximal_bundle",
                "trust_region_bundle",
                "sgd",
                "coordinate_descent",
            ]
        )
    )
    X = eighths(rng, 6, 3)
    risk: Any
    if name == "coordinate_descent":
        risk = so.risks.Hinge(X, np.array([1.0, -1, 1, -1, 1, 1]))
    else:
        risk = t.StructuredRisk(so.structures.Multiclass(3), X, [0, 1, 2, 0, 1, 2])
    arguments = {"risk": A(risk, k.thing), "lam": A(0.125, k.real), **LIMITS}
    arguments["callback"] = A(lambda monitor: None, optional(k.function))
    arguments["checkpoint"] = A(None, k.loose(k.thing))
    arguments["verbose"] = A(False, k.flag)
    if name in ("bmrm", "proximal_bundle", "trust_region_bundle"):
        arguments["w0"] = A(np.zeros(9), optional(k.array))
    if name not in ("coordinate_descent", "multiclass_ascent"):
        arguments["regularizer"] = A(None, optional(k.thing))
    if name in ("bcfw", "block_ascent", "multiclass_ascent", "n_slack", "sgd", "coordinate_descent"):
        arguments["random_state"] = A(0, k.seed)
    for option, own in {
        "cached_passes": ("block_ascent", "multiclass_ascent"),
        "cached_labels": ("block_ascent", "n_slack", "one_slack"),
        "max_cuts": ("bmrm",),
        "batch_size": ("sgd",),
    }.items():
        if name in own:
            arguments[option] = A(20, k.count if option not in ("max_cuts", "batch_size") else optional(k.count))
    if name in ("bmrm", "one_slack"):
        arguments["theta"] = A(0.25, k.real)
    if name in ("proximal_bundle", "trust_region_bundle"):
        arguments["serious_share"] = A(0.125, k.real)
    if name in ("bcfw", "sgd"):
        arguments["average"] = A("weighted", k.option)
    if name == "sgd":
        arguments["certify"] = A(True, k.flag)

    def check(result: Any) -> None:
        assert np.isfinite(result.w).all(), "weights that are not finite"
        assert not np.isnan(result.objective)

    return Call(getattr(t, name), arguments, check, tolerance=None)


@recipe
def dual(rng: Rng) -> Call:
    M = eighths(rng, 3, 3)
    return Call(
        lambda **v: so.train.solve_simplex_qp(**v)[0],
        {
            "gram": A(M @ M.T, k.array),
            "b": A(eighths(rng, 3), k.array),
            "lam": A(0.5, k.real),
            "absolute_tol": A(1e-9, k.real),
        },
        tolerance=None,
    )


@recipe
def norms(rng: Rng) -> Call:
    h = tree()
    n = so.norms
    which = int(rng.integers(5))
    if which == 0:
        return Call(n.maxmin, {"hierarchy": A(h, k.thing), "root": A(False, k.flag)})
    if which == 1:
        return Call(lambda hierarchy: len(n.minimal_graph(hierarchy).sizes), {"hierarchy": A(h, k.thing)})
    if which == 2:
        return Call(
            n.normalization,
            {
                "hierarchy": A(h, k.thing),
                "rho": A(2.0, k.real),
                "root": A(False, k.flag),
                "tolerance": A(None, optional(k.real)),
                "weights": A(np.ones(6), optional(k.array)),
            },
            tolerance=1e-4,
        )
    if which == 3:
        return Call(
            n.shared_alpha,
            {
                "squared_norms": A(np.abs(eighths(rng, 6)) + 1, k.array),
                "hierarchy": A(h, k.thing),
                "root": A(True, k.flag),
                "floor": A(0.0, k.real),
                "shares": A("optimal", k.option),
            },
            tolerance=1e-4,
        )
    return Call(
        n.shared_frobenius,
        {
            "U": A(eighths(rng, 3, 3), k.array),
            "hierarchy": A(h, optional(k.thing)),
            "rtol": A(1e-3, optional(k.real)),
        },
        tolerance=1e-2,
    )


# ---- estimators ----------------------------------------------------------------------------------


def _estimators(rng: Rng) -> tuple[Any, dict[str, A], Any, Any, Any, Any]:
    """A class, its parameters, and data with their kinds."""
    X = eighths(rng, 12, 3)
    two = np.tile([0, 1], 6)
    three = np.tile([0, 1, 2], 4)
    path: dict[str, A] = {"checkpoint": A(None, None), "verbose": A(False, k.flag)}
    lam = {"lam": A(0.125, k.real), **LIMITS, **path}
    which = int(rng.integers(13))
    if which == 0:
        return so.AUCMaximizer, lam, X, two, k.rows, k.classes
    if which == 1:
        own = {
            "loss": A("hinge", k.option),
            "multi_class": A("ovr", k.option),
            "trainer": A("auto", k.option),
            "intercept": A(True, k.flag),
            "intercept_scaling": A(1.0, k.real),
            "random_state": A(0, k.seed),
        }
        return so.LinearSVM, lam | own, X, three, k.rows, k.classes
    if which == 2:
        return so.FBetaSVM, lam | {"beta": A(1.0, k.real)}, X, two, k.rows, k.classes
    if which == 3:
        return so.OrdinalRegressor, lam | {"cost": A("constant", k.option)}, X, three, k.rows, k.classes
    if which == 4:
        return so.QuantileRegressor, lam | {"tau": A(0.5, k.real)}, X, eighths(rng, 12), k.rows, k.targets
    if which == 5:
        own = {"measure": A("pairs", k.option), "decay": A(0.25, k.real)}
        return so.RankSVM, lam | own, X, three.astype(float), k.rows, k.targets
    if which in (6, 7):
        cls = so.HierarchicalSVM if which == 6 else so.SharedSVM
        own = {
            "hierarchy": A([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "e")], k.edges),
            "kind": A("leaf", k.option),
            "margin": A("auto", k.option),
            "trainer": A("auto", k.option),
            "intercept": A(True, k.flag),
            "dtype": A("float64", k.option),
            "n_jobs": A(1, k.count),
            "random_state": A(0, k.seed),
            "max_memory": A(None, optional(k.real)),
        }
        if which == 6:
            own |= {
                "normalization": A("rho", k.option),
                "rho": A(2.0, k.real),
                "support": A("auto", k.option),
                "divided": A(False, k.flag),
                "tolerance": A(None, optional(k.real)),
                "certify": A(True, k.flag),
            }
        else:
            own |= {"max_rounds": A(2, k.count), "rounds_tol": A(0.125, k.real), "floor": A(1e-8, k.real)}
            own["shares"] = A("optimal", k.option)
        shared = {name: a for name, a in lam.items() if name != "checkpoint"}
        return cls, shared | own, X, np.tile(list("cde"), 4), k.rows, k.classes
    if which == 8:
        seqs = [eighths(rng, t, 2) for t in (2, 3, 1, 4)]
        tags = [rng.choice(["a", "b"], len(s)).tolist() for s in seqs]
        own = {
            "states": A(["a", "b"], optional(k.names)),
            "transitions": A(np.ones((2, 2)), optional(k.array)),
            "initial": A(np.ones(2), optional(k.array)),
            "intercept": A(False, k.flag),
            "n_jobs": A(1, k.count),
        }
        return so.CRF, lam | own, seqs, tags, _list(k.rows), _list(k.classes)
    if which == 9:
        own = {
            "model": A(so.structures.MultiLabel(3), k.thing),
            "kernel": A("rbf", k.option),
            "lam": A(0.125, k.real),
            "intercept": A(True, k.flag),
            "solver": A("auto", k.option),
            "gamma": A(1.0, optional(k.real)),
            "method": A("auto", k.option),
            "n_landmarks": A(5, k.count),
            "rtol": A(1e-3, k.real),
            "max_programs": A(50, k.count),
            "n_jobs": A(1, k.count),
            "random_state": A(0, k.seed),
        }
        return so.ConditionalRiskMinimizer, own, X, rng.integers(0, 2, (12, 3)), k.rows, k.indicators
    m, X, Y, xkind, ykind = structure_of(rng)
    own = {
        "model": A(m, k.thing),
        "surrogate": A(str(rng.choice(["margin", "slack"])), k.one_or_several),
        "search": A("auto", k.option),
        "trainer": A(str(rng.choice(["auto", "bmrm", "n_slack", "one_slack", "bcfw", "sgd"])), k.option),
        "n_jobs": A(1, k.count),
        "random_state": A(0, k.seed),
    }
    return so.StructuredSVM, lam | own, X, Y, _list(xkind), _list(ykind)


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
    return Call(lambda **v: cls(**v).fit(X, Y), parameters, _sound, tolerance=None)


@recipe
def fit_data(rng: Rng) -> Call:
    cls, parameters, X, Y, xkind, ykind = _estimators(rng)
    valid = {name: a.value for name, a in parameters.items()}

    def fit(X: Any, y: Any) -> Any:
        e = cls(**valid).fit(X, y)
        _sound(e)
        return np.asarray(e.coef_.todense() if hasattr(e.coef_, "todense") else e.coef_) if hasattr(e, "coef_") else 0

    return Call(fit, {"X": A(X, xkind), "y": A(Y, ykind)}, tolerance=0.2)


def fitted(rng: Rng) -> tuple[Any, Any, Any, Any, Any]:
    cls, parameters, X, Y, xkind, ykind = _estimators(rng)
    valid = {name: a.value for name, a in parameters.items()}
    return cls(**valid).fit(X, Y), X, Y, xkind, ykind


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

    return Call(run, {"X": A(X, k.loose(xkind))}, tolerance=1e-6)


@recipe
def score(rng: Rng) -> Call:
    e, X, Y, xkind, ykind = fitted(rng)
    return Call(positional(e.score, "X", "Y"), {"X": A(X, xkind), "Y": A(Y, ykind)}, tolerance=1e-6)


@recipe
def unfitted(rng: Rng) -> Call:
    cls, parameters, X, _, xkind, _ = _estimators(rng)
    e = cls(**{name: a.value for name, a in parameters.items()})
    return Call(e.predict, {"X": A(X, xkind)}, tolerance=None)


@recipe
def save_and_set(rng: Rng) -> Call:
    e, X, Y, _, _ = fitted(rng)
    if rng.random() < 0.5:
        folder = Path(tempfile.mkdtemp(dir="."))
        return Call(e.save, {"path": A(folder / "model.npz", k.path)}, tolerance=None)
    parameter = str(rng.choice(sorted(e.get_params(deep=False))))
    return Call(
        lambda value: e.set_params(**{parameter: value}).fit(X, Y),
        {"value": A(getattr(e, parameter), k.loose(k.thing))},
        _sound,
        tolerance=None,
    )
