"""L-BFGS agrees with the bundle method on every kind of smooth risk, and starts warm."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError
from structopt.risks.regularizers import L1, Quadratic
from structopt.train import WarmStart, bmrm, lbfgs


def data(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)


def smooth_risks():
    X, y = data()
    counts = np.random.default_rng(1).poisson(2.0, len(X)).astype(float)
    tree = so.Hierarchy([("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")])
    leaves = np.array(["oak", "cat", "dog"])[np.arange(len(X)) % 3]
    return [
        so.risks.Logistic(X, y, sample_weight=1.0 + np.arange(len(X)) % 3),
        so.risks.Exponential(X, y),
        so.risks.Poisson(X, counts),
        so.risks.MultivariateRegression(X, np.column_stack([y, -y])),
        so.risks.PathSoftmax(X, leaves, tree),
        so.risks.ChainCRF(so.structures.Chain(3), list(X.reshape(12, 5, 5)), list(np.arange(60).reshape(12, 5) % 3)),
        so.risks.likelihood(so.structures.MultiLabel(3), X, (X[:, :3] > 0).astype(int)),
    ]


@pytest.mark.parametrize("risk", smooth_risks(), ids=lambda risk: type(risk).__name__)
def test_bounds_hold_and_meet_those_of_the_bundle_method(risk, lam=1e-2):
    assert risk.is_smooth
    best = bmrm(risk, lam=lam, tol=1e-4, max_passes=300)
    result = lbfgs(risk, lam=lam, tol=1e-9)
    assert result.converged
    assert best.lower_bound <= result.objective + 1e-12
    assert (result.history["lower_bound"] <= best.objective + 1e-12).all()
    assert (result.history["lower_bound"] <= result.objective + 1e-12).all()
    # The certificate of strong convexity, where the run ended.
    value, gradient = risk(result.w)
    total = gradient + lam * result.w
    assert value + lam / 2 * result.w @ result.w - total @ total / (2 * lam) <= result.lower_bound + 1e-9
    assert lbfgs(risk, lam=lam, tol=0.0).stopped in ("precision", "stalled")


def test_a_quadratic_regulariser():
    X, y = data()
    risk, B = so.risks.Logistic(X, y), Quadratic([1.0, 2.0, 0.1, 5.0, 1e-6])
    result, best = lbfgs(risk, B, lam=0.1, tol=1e-8), bmrm(risk, B, lam=0.1, tol=1e-6)
    assert result.converged and result.objective <= best.objective * (1 + 1e-8)
    assert result.lower_bound <= best.objective and best.lower_bound <= result.objective


def test_crf_takes_it_and_no_passes_are_lost():
    X, y = data()
    rows, states = list(X.reshape(12, 5, 5)), [["up" if s > 0 else "down" for s in row] for row in y.reshape(12, 5)]
    auto = so.CRF(lam=0.01, tol=1e-6).fit(rows, states)
    bundle = so.CRF(lam=0.01, tol=1e-6, trainer="bmrm").fit(rows, states)
    assert auto.result_.trainer == "lbfgs" and auto.result_.converged
    assert auto.result_.objective == pytest.approx(bundle.result_.objective, rel=2e-6)


def test_warm_starts():
    risk = so.risks.Logistic(*data())
    warm = WarmStart()
    first = lbfgs(risk, lam=1e-3, tol=1e-6, warm=warm)
    assert lbfgs(risk, lam=1e-3, tol=1e-6, warm=warm).passes < first.passes
    assert lbfgs(risk, lam=2e-3, tol=1e-6, warm=warm).converged
    assert lbfgs(risk, lam=1e-3, tol=1e-6, w0=first.w).passes <= 2


def test_a_risk_without_features_in_some_directions():
    result = lbfgs(so.risks.Logistic(np.zeros((4, 2)), [1, -1, 1, -1]), lam=0.1, tol=1e-9)
    assert result.converged and not result.w.any()


@pytest.mark.parametrize(
    ("risk", "options", "message"),
    [
        (so.risks.Hinge(*data()), {}, "Hinge has kinks"),
        (so.risks.Logistic(*data()), {"regularizer": L1()}, "quadratic"),
        (so.risks.Logistic(*data()), {"lam": 0.0}, "lam"),
        (so.risks.Logistic(*data()), {"w0": np.zeros(3)}, "w0"),
    ],
    ids=["kinks", "regularizer", "lam", "w0"],
)
def test_what_it_cannot_minimise_is_named(risk, options, message):
    with pytest.raises(DeclarationError, match=message):
        lbfgs(risk, **({"lam": 0.1} | options))
