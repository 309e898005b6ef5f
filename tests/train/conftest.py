"""Small structured problems whose optimum a quadratic program over all labels gives."""

from __future__ import annotations

import json
import os
import signal

import cvxpy as cp
import numpy as np
import pytest

import structopt as so
from structopt.train.checkpoint import Checkpoint

SURROGATES = {
    "margin": so.surrogates.Margin(),
    "slack": so.surrogates.Slack(),
    "beta": so.surrogates.BetaScaling(0.5),
}


def multiclass_risk(surrogate="margin", n=24, seed=0, loss="zero-one", **options):
    """A noisy problem of four classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (X @ rng.normal(size=(3, 4)) + 0.5 * rng.normal(size=(n, 4))).argmax(axis=1)
    return so.train.StructuredRisk(so.structures.Multiclass(4, loss=loss), X, y, surrogate, rtol=1e-10, **options)


def pairwise_risk(surrogate="margin", n=16, seed=0, **options):
    """Three labels with all pairs: two feature terms, one of them tied."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    Y = (X @ rng.normal(size=(2, 3)) + 0.5 * rng.normal(size=(n, 3)) > 0).astype(int)
    return so.train.StructuredRisk(so.structures.PairwiseMRF(3), X, Y, surrogate, rtol=1e-10, **options)


def unscaled_links_risk(surrogate="slack", n=12, seed=0, solver="auto"):
    """One example of a relaxed program with few weights, whose features differ in size by a factor of 10,000."""
    rng = np.random.default_rng(seed)
    space = so.LabelSpace("links")
    node, edge = space.binary("node", n), space.binary("edge", (n, n))
    space.subject_to(edge.sum(axis=0) <= 1, edge.sum(axis=1) == node)
    features = {name: so.features.Shared(name) for name in ("node", "edge")}
    losses = {name: so.losses.Hamming() for name in features}
    model = so.Model(space, features, losses, integral="relax", solver=solver)
    a, b = rng.uniform(0, 100, (2, n, 2))
    d = np.linalg.norm(a[:, None] - b, axis=2).ravel()
    x = {
        "node": np.column_stack([rng.normal(size=n), np.ones(n)]),
        "edge": np.column_stack([d, d**2, rng.normal(size=n * n), np.ones(n * n)]),
    }
    on = (rng.random(n) < 0.7).astype(float)
    return so.train.StructuredRisk(model, [x], [{"node": on, "edge": np.diag(on)}], surrogate)


def planes(risk):
    """The planes of all labels of all examples (surrogates affine in h): slopes in w, levels, and whose they are."""
    model = risk.model
    rows, levels, owners = [], [], []
    for i in range(len(risk)):
        x = risk.X[i]
        truth = model.encode(risk.Y[i], x)
        coef, const = model._loss_at(truth, x)
        for z in model.space(x).enumerate():
            g = float(coef @ z + const)
            slope = float(risk.surrogate.gradient(0.0, g)[0])
            rows.append(slope * (model.joint(x, z) - model.joint(x, truth)))
            levels.append(float(risk.surrogate.value(0.0, g)))
            owners.append(i)
    return np.array(rows), np.array(levels), np.array(owners)


OPTIMA = {}


def optimum(risk, lam):
    """Return the minimum of ``lam/2 ||w||^2 + risk(w)``, by one constraint per example and label; solve it once."""
    key = json.dumps([risk.identity(), lam], sort_keys=True)
    if key not in OPTIMA:
        OPTIMA[key] = _optimum(risk, lam)
    return OPTIMA[key]


def _optimum(risk, lam):
    n = len(risk)
    rows, levels, owners = planes(risk)
    w, xi = cp.Variable(risk.n_features), cp.Variable(n)
    constraints = [np.eye(n)[owners] @ xi >= rows @ w + levels, xi >= 0]
    problem = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(w) + cp.sum(xi) / n), constraints)
    tight = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    return float(problem.solve(solver=cp.CLARABEL, **tight))


class Helpers:
    """What the trainers' tests share; a fixture, because test folders are not packages."""

    multiclass = staticmethod(multiclass_risk)
    pairwise = staticmethod(pairwise_risk)
    unscaled_links = staticmethod(unscaled_links_risk)
    optimum = staticmethod(optimum)
    planes = staticmethod(planes)
    surrogates = SURROGATES

    @staticmethod
    def bounds_hold(train, best):
        """Train with a callback that checks the bounds at every record: lower bound <= optimum <= objective."""
        slack = 1e-9 * max(1.0, abs(best))
        seen = []

        def callback(result):
            assert result.lower_bound <= best + slack
            assert result.objective >= best - slack
            seen.append(result)

        result = train(callback)
        assert seen
        return result

    @staticmethod
    def resumes(train, path, after=4):
        """A run killed with SIGKILL and resumed must end at the very weights of an uninterrupted one."""
        if not hasattr(os, "fork"):
            pytest.skip("needs fork")
        whole, seen = train(None, None), []

        def callback(result):
            seen.append(result)
            if len(seen) == after:
                os.kill(os.getpid(), signal.SIGKILL)

        child = os.fork()
        if child == 0:
            try:
                train(Checkpoint(path, every=0), callback)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the run ended before it could be killed"
        assert os.path.exists(path)
        resumed = train(path, None)
        assert np.array_equal(resumed.w, whole.w)
        assert resumed.objective == whole.objective and resumed.lower_bound == whole.lower_bound
        assert resumed.passes == whole.passes and len(resumed.history) == len(whole.history)


@pytest.fixture(scope="session")
def helpers():
    return Helpers
