"""Dual coordinate descent: its certificate compared with bmrm, storage, shrinking, and rows of zeros."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.errors import DeclarationError
from structopt.risks import Absolute, Hinge
from structopt.train import bmrm
from structopt.train.coordinate import coordinate_descent


def data(seed: int, m: int = 60, d: int = 8, density: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)) * (rng.random((m, d)) < density)
    y = np.where(X @ rng.normal(size=d) + 0.5 * rng.normal(size=m) > 0, 1, -1)
    return X, y


def test_the_bound_is_that_of_the_dual_point() -> None:
    X, y = data(5)
    lam = 1e-2
    result = coordinate_descent(Hinge(X, y), lam=lam, tol=1e-9)
    alpha = result.info["dual"]
    assert alpha.min() >= 0.0 and alpha.max() <= 1.0
    w = X.T @ (y * alpha) / (lam * len(y))
    assert result.lower_bound == pytest.approx(alpha.mean() - lam / 2 * w @ w, rel=1e-9)


def test_shrinking_saves_visits_and_not_accuracy() -> None:
    X, y = data(7, 2000, 20)
    plain = coordinate_descent(Hinge(X, y), lam=1e-3, tol=1e-4, shrinking=False)
    shrunk = coordinate_descent(Hinge(X, y), lam=1e-3, tol=1e-4)
    assert shrunk.converged and plain.converged
    assert shrunk.oracle_calls < 0.7 * plain.oracle_calls
    assert shrunk.objective == pytest.approx(plain.objective, rel=2e-4)


def test_a_row_of_zeros_has_loss_one() -> None:
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, -1.0]])
    result = coordinate_descent(Hinge(X, [1, 1, -1]), lam=1e-3, tol=1e-9)
    assert result.converged
    assert result.objective == pytest.approx(1 / 3 + 1e-3, rel=1e-6)
    only_zeros = coordinate_descent(Hinge(np.zeros((2, 3)), [1, -1]), lam=1.0, tol=1e-9)
    assert only_zeros.objective == pytest.approx(1.0) and not only_zeros.w.any()


def test_a_shard_keeps_its_weight() -> None:
    X, y = data(9)
    part = Hinge(X, y).shard(1, 3)
    assert coordinate_descent(part, lam=0.01, tol=1e-7).objective == pytest.approx(
        bmrm(part, lam=0.01, tol=1e-7).objective, rel=1e-6
    )


def test_runs_to_the_limit_of_float64() -> None:
    result = coordinate_descent(Hinge(*data(19)), lam=0.05, tol=0)
    assert result.stopped in ("precision", "stalled", "tol") and result.gap < 1e-10


def test_bad_arguments() -> None:
    X, y = data(0)
    with pytest.raises(DeclarationError, match=r"not Absolute; use train\.bmrm"):
        coordinate_descent(Absolute(X, y), lam=0.1)
    with pytest.raises(DeclarationError, match="lam must be a positive"):
        coordinate_descent(Hinge(X, y), lam=0)
    with pytest.raises(DeclarationError, match="random_state"):
        coordinate_descent(Hinge(X, y), lam=1, random_state=-1)
