"""Block-coordinate Frank-Wolfe: the rate of the paper, optima at vertices, and means of the iterates."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.train.bcfw import bcfw

LAM = 0.2


def plain_bcfw(risk, lam, passes):
    """One example at a time in feature space, as published; the dual value after each pass."""
    n = len(risk)
    parts = [risk.part(np.array([i])) for i in range(n)]
    w_i, l_i = np.zeros((n, risk.n_features)), np.zeros(n)
    values = []
    for _ in range(passes):
        for i in range(n):
            w = w_i.sum(axis=0)
            cut = parts[i].cut(w)
            w_s, l_s = -cut.subgradient / (lam * n), (cut.plane - w @ cut.subgradient) / n
            slope = lam * (w_i[i] - w_s) @ w - l_i[i] + l_s
            bend = lam * (w_i[i] - w_s) @ (w_i[i] - w_s)
            t = min(1.0, max(0.0, slope / bend)) if bend > 0 else float(slope > 0)
            w_i[i] += t * (w_s - w_i[i])
            l_i[i] += t * (l_s - l_i[i])
        w = w_i.sum(axis=0)
        values.append(l_i.sum() - 0.5 * lam * w @ w)
    return values


@pytest.mark.parametrize(("kind", "surrogate"), [("multiclass", "slack"), ("pairwise", "margin")])
def test_converges_at_its_rate_and_its_bounds_hold(helpers, kind, surrogate):
    """The distance falls as 1/k (Theorem 2 of the paper): 1e-4 is near, 1e-6 is not."""
    risk, lam = getattr(helpers, kind)(helpers.surrogates[surrogate]), 1.0
    best, n = helpers.optimum(risk, lam), len(risk)
    result = helpers.bounds_hold(lambda callback: bcfw(risk, lam=lam, tol=1e-4, callback=callback), best)
    assert result.converged and result.objective == pytest.approx(best, rel=1e-4)
    assert 0.5 * lam * result.w @ result.w + risk(result.w)[0] == pytest.approx(result.objective, rel=1e-9)
    curvature = 4 * max(np.linalg.norm(helpers.planes(risk)[0], axis=1)) ** 2 / lam
    steps = n * np.arange(1, 1 + len(result.history))
    assert (best - result.history["lower_bound"] <= 2 * n / (steps + 2 * n) * (curvature + best)).all()


@pytest.mark.parametrize("surrogate", ["margin", "beta"])
def test_reaches_an_optimum_at_a_vertex(helpers, surrogate):
    """Where the dual optimum has all mass of each example on one label the steps end in it."""
    risk = helpers.pairwise(helpers.surrogates[surrogate])
    best = helpers.optimum(risk, 1.0)
    result = bcfw(risk, lam=1.0, tol=1e-6, average="none")
    assert result.converged
    assert result.objective == pytest.approx(best, rel=1e-6) and result.lower_bound == pytest.approx(best, rel=1e-6)


def test_ascends_as_fast_as_the_published_method(helpers):
    risk = helpers.multiclass(n=12)  # twelve groups of one example: the same method but for the order of visits
    best = helpers.optimum(risk, LAM)
    published = plain_bcfw(risk, LAM, 20)
    ours = bcfw(risk, lam=LAM, tol=0.0, max_passes=20, average="none").history["lower_bound"]
    assert best - max(ours) <= 1.5 * (best - published[-1]) + 1e-9
    assert (np.diff(ours) >= 0.0).all()


def test_the_mean_has_the_better_objective_and_sparse_features_the_same_run(helpers):
    risk = helpers.pairwise()
    mean, last = (bcfw(risk, lam=0.02, tol=0.0, max_passes=30, average=average) for average in ("weighted", "none"))
    assert mean.objective < last.objective and mean.lower_bound == last.lower_bound
    sparse = so.train.StructuredRisk(risk.model, sp.csr_array(risk.X), risk.Y)
    assert bcfw(sparse, lam=0.02, tol=0.0, max_passes=30).w == pytest.approx(mean.w, abs=1e-9)
