"""The regularised objective trained by BMRM against a convex solver that sees the definition."""

from __future__ import annotations

import numpy as np
import pytest

import structopt.risks as risks
from structopt.train import bmrm

cp = pytest.importorskip("cvxpy")

M, D, LAM = 24, 3, 0.05
rng = np.random.default_rng(0)
X = rng.normal(size=(M, D))
SIGN = np.where(X @ [1.0, -1.0, 0.5] + rng.normal(size=M) > 0, 1.0, -1.0)
REAL = X @ [1.0, 2.0, -1.0] + rng.normal(size=M)
COUNT = rng.poisson(np.exp(0.3 * X[:, 0]))
CLASS = rng.integers(0, 3, M)
LEVEL = np.digitize(REAL, [-1.0, 1.0])
DELTA = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
LESS, MORE = np.nonzero(SIGN[:, None] < SIGN)
LOW, HIGH = np.nonzero(LEVEL[:, None] < LEVEL)


def soft_margin(w):
    f = X @ cp.reshape(w, (D, 3), order="F")  # class-major weights
    rows = np.arange(M)
    own = cp.reshape(f[rows, CLASS], (M, 1), order="F") @ np.ones((1, 3))
    return cp.sum(cp.max(cp.multiply(DELTA[CLASS], f - own + 1.0), axis=1)) / M


def softmax(w):
    f = X @ cp.reshape(w, (D, 3), order="F")
    return cp.sum(cp.log_sum_exp(f, axis=1) - f[np.arange(M), CLASS]) / M


PROBLEMS = {
    "Hinge": (risks.Hinge(X, SIGN), lambda w: cp.sum(cp.pos(1 - cp.multiply(SIGN, X @ w))) / M),
    "SquaredHinge": (
        risks.SquaredHinge(X, SIGN),
        lambda w: cp.sum_squares(cp.pos(1 - cp.multiply(SIGN, X @ w))) / (2 * M),
    ),
    "Logistic": (risks.Logistic(X, SIGN), lambda w: cp.sum(cp.logistic(-cp.multiply(SIGN, X @ w))) / M),
    "Exponential": (risks.Exponential(X, SIGN), lambda w: cp.sum(cp.exp(-cp.multiply(SIGN, X @ w))) / M),
    "Novelty": (risks.Novelty(X, 1.5), lambda w: cp.sum(cp.pos(1.5 - X @ w)) / M),
    "LeastSquares": (risks.LeastSquares(X, REAL), lambda w: cp.sum_squares(X @ w - REAL) / (2 * M)),
    "Absolute": (risks.Absolute(X, REAL), lambda w: cp.norm1(X @ w - REAL) / M),
    "Quantile": (
        risks.Quantile(X, REAL, 0.8),
        lambda w: cp.sum(cp.maximum(0.8 * (REAL - X @ w), 0.2 * (X @ w - REAL))) / M,
    ),
    "EpsilonInsensitive": (
        risks.EpsilonInsensitive(X, REAL, 0.4),
        lambda w: cp.sum(cp.pos(cp.abs(X @ w - REAL) - 0.4)) / M,
    ),
    "Huber": (risks.Huber(X, REAL), lambda w: cp.sum(cp.huber(X @ w - REAL, 1)) / (2 * M)),
    "Poisson": (risks.Poisson(X, COUNT), lambda w: cp.sum(cp.exp(X @ w) - cp.multiply(COUNT, X @ w)) / M),
    "Multiclass slack": (risks.Multiclass(X, CLASS, DELTA, "delta"), soft_margin),
    "Softmax": (risks.Softmax(X, CLASS), softmax),
    "ROCArea": (risks.ROCArea(X, SIGN), lambda w: cp.sum(cp.pos(1 + (X[LESS] - X[MORE]) @ w)) / LESS.size),
    "Ordinal": (
        risks.Ordinal(X, LEVEL, "linear"),
        lambda w: (LEVEL[HIGH] - LEVEL[LOW]) @ cp.pos(1 + (X[LOW] - X[HIGH]) @ w) / LOW.size,
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_objective_agrees_with_a_convex_solver(name):
    risk, definition = PROBLEMS[name]
    w = cp.Variable(risk.n_features)
    expected = cp.Problem(cp.Minimize(LAM / 2 * cp.sum_squares(w) + definition(w))).solve(solver=cp.CLARABEL)
    result = bmrm(risk, lam=LAM, tol=2e-7, max_passes=3000)
    assert result.objective == pytest.approx(expected, rel=1e-6)
    assert result.lower_bound <= expected + 1e-6 * abs(expected)
