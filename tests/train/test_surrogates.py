"""Training with every convex surrogate against cvxpy over all labels of all examples."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.surrogates import BetaScaling, GeneralizedScaling, LogLoss, Margin, MicroF1, ProbLoss, Slack

cp = pytest.importorskip("cvxpy")

LAM = 0.05
CONVEX = [
    Margin(),
    Slack(),
    BetaScaling(0.5),
    GeneralizedScaling(1.5, 1.0),
    LogLoss(),
    LogLoss(bound=True),
    ProbLoss(convex=True),
    ProbLoss(convex=True, noise=0.5),
    MicroF1(),
]


def make_risk(psi, structure):
    rng = np.random.default_rng(3)
    if structure == "chain":
        X = [rng.normal(size=(t, 2)) for t in (2, 3, 1, 3)]
        Y = [rng.integers(0, 2, len(x)) for x in X]
        return so.train.StructuredRisk(so.structures.Chain(2), X, Y, psi, rtol=1e-8)
    X, Y = rng.normal(size=(8, 2)), rng.integers(0, 2, (8, 3))
    return so.train.StructuredRisk(so.structures.PairwiseMRF(3), X, Y, psi, rtol=1e-8)


def terms(risk, w):
    """For every example ψ of all its labels, as expressions in w."""
    psi, model, size = risk.surrogate, risk.model, risk.n_features
    for i in range(len(risk)):
        x = risk.batch.input(i)
        truth = model.encode(risk.Y[i], x)
        labels = model.space(x).enumerate()
        # Scores are linear in w: those of unit weights are the features of every variable.
        features = np.array([model.scores(unit, x) for unit in np.eye(size)]).T
        options = {"counted": model.counted(x)} if psi.counts else {}
        h, g = psi.factors(np.zeros(len(truth)), model.loss(risk.Y[i], x), truth, **options)
        for z in labels:
            at, base = float(g[0] @ z + g[1]), float(h[0] @ z + h[1])
            margin = ((z - truth) @ features) @ w
            if isinstance(psi, MicroF1):
                if at < 0:
                    yield i, (base + margin) / -at
            elif at > 0:
                yield i, expression(psi, base + margin, at)


def expression(psi, h, g):
    """ψ(h, g) for a number g > 0: affine, a logistic function, or the largest of many tangents."""
    if isinstance(psi, LogLoss):
        return psi.value(0.0, g) / np.log(2.0) * cp.logistic(h)
    if isinstance(psi, ProbLoss):
        places = np.concatenate([np.linspace(-8.0, 0.0, 400), [1.0]])
        slopes, levels = psi.gradient(places, np.full(len(places), g))[0], psi.value(places, np.full(len(places), g))
        return cp.max(slopes * h + (levels - slopes * places))
    slope = psi.gradient(0.0, g)[0]
    return slope * h + psi.value(0.0, g)


@pytest.mark.parametrize("structure", ["chain", "pairwise"])
@pytest.mark.parametrize("psi", CONVEX, ids=repr)
def test_training_reaches_the_optimum(psi, structure):
    risk = make_risk(psi, structure)
    n = len(risk)
    w, xi = cp.Variable(risk.n_features), cp.Variable(n, nonneg=True)
    constraints = [xi[i] >= value for i, value in terms(risk, w)]
    objective = 0.5 * LAM * cp.sum_squares(w) + cp.sum(xi) / n
    wanted = cp.Problem(cp.Minimize(objective), constraints).solve(solver=cp.CLARABEL)
    result = so.train.bmrm(risk, lam=LAM, tol=1e-4, max_passes=500)
    assert result.converged
    # The tangents of ProbLoss lie a little below it.
    assert result.lower_bound <= wanted * (1 + 1e-4) + 1e-6
    assert result.objective == pytest.approx(wanted, rel=2e-4)
