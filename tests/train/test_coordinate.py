"""Dual coordinate descent: its certificate against bmrm and cvxpy, shrinking, resuming and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt.errors import DeclarationError
from structopt.risks import Absolute, Hinge, SquaredHinge
from structopt.train import Checkpoint, TrainResult, bmrm
from structopt.train.coordinate import coordinate_descent

RISKS = [Hinge, SquaredHinge]


def data(seed: int, m: int = 60, d: int = 8, density: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)) * (rng.random((m, d)) < density)
    y = np.where(X @ rng.normal(size=d) + 0.5 * rng.normal(size=m) > 0, 1, -1)
    return X, y


@pytest.mark.parametrize("Risk", RISKS)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32), np.asfortranarray])
@pytest.mark.parametrize("lam", [1e-3, 0.1])
def test_agrees_with_the_bundle_method(Risk: Any, storage: Any, lam: float) -> None:
    X, y = data(0)
    risk = Risk(storage(X), y)
    result = coordinate_descent(risk, lam=lam, tol=1e-6)
    reference = bmrm(risk, lam=lam, tol=1e-7)
    assert result.converged and reference.converged
    assert result.lower_bound <= reference.objective + 1e-9
    assert reference.lower_bound <= result.objective + 1e-9
    assert result.objective == pytest.approx(lam / 2 * result.w @ result.w + risk(result.w)[0], rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), lam=st.sampled_from([1e-4, 1e-2, 1.0]), squared=st.booleans(), m=st.integers(2, 40)
)
def test_every_certificate_on_the_way_holds(seed: int, lam: float, squared: bool, m: int) -> None:
    X, y = data(seed, m, 5, 0.4)  # some rows are zero
    risk = RISKS[squared](sp.csr_array(X), y)
    result = coordinate_descent(risk, lam=lam, tol=1e-8, random_state=seed)
    optimum = bmrm(risk, lam=lam, tol=1e-9).objective
    slack = 1e-8 * max(1.0, abs(optimum))
    assert (result.history["lower_bound"] <= optimum + slack).all()
    assert (result.history["objective"] >= result.lower_bound - slack).all()
    assert result.converged


@pytest.mark.parametrize("Risk", RISKS)
def test_objective_against_cvxpy(Risk: Any) -> None:
    cp = pytest.importorskip("cvxpy")
    X, y = data(3)
    w = cp.Variable(X.shape[1])
    slack = cp.pos(1 - cp.multiply(y, X @ w))
    loss = cp.sum(slack) if Risk is Hinge else cp.sum_squares(slack) / 2
    problem = cp.Problem(cp.Minimize(0.01 / 2 * cp.sum_squares(w) + loss / len(y)))
    problem.solve(solver="CLARABEL")
    assert coordinate_descent(Risk(X, y), lam=0.01, tol=1e-9).objective == pytest.approx(problem.value, rel=1e-6)


def test_the_bound_is_that_of_the_dual_point() -> None:
    X, y = data(5)
    lam = 1e-2
    result = coordinate_descent(Hinge(X, y), lam=lam, tol=1e-9)
    alpha = result.info["dual"]
    assert alpha.min() >= 0.0 and alpha.max() <= 1.0
    w = X.T @ (y * alpha) / (lam * len(y))
    assert result.lower_bound == pytest.approx(alpha.mean() - lam / 2 * w @ w, rel=1e-9)


def test_shrinking_saves_visits_and_not_accuracy() -> None:
    X, y = data(7, 4000, 20)
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


def test_a_seed_repeats_the_run() -> None:
    risk = Hinge(*data(11))
    first, again, other = (coordinate_descent(risk, lam=1e-3, random_state=seed) for seed in (4, 4, 5))
    assert np.array_equal(first.w, again.w)
    assert not np.array_equal(first.w, other.w)


@pytest.mark.parametrize("Risk", RISKS)
def test_resumes_to_the_same_iterates(Risk: Any, tmp_path: Path) -> None:
    risk = Risk(*data(13, 300, 10))
    whole = coordinate_descent(risk, lam=1e-4, tol=1e-7)
    path = tmp_path / "run.npz"
    part = coordinate_descent(risk, lam=1e-4, tol=1e-7, max_passes=10, checkpoint=Checkpoint(path, every=0))
    assert part.stopped == "passes" and not part.converged
    rest = coordinate_descent(risk, lam=1e-4, tol=1e-7, checkpoint=path)
    assert np.array_equal(rest.w, whole.w)
    assert rest.oracle_calls == whole.oracle_calls
    with pytest.raises(DeclarationError, match=r"lam was 0\.0001, now 0\.001"):
        coordinate_descent(risk, lam=1e-3, checkpoint=path)


def test_callback_time_and_interruption() -> None:
    risk = Hinge(*data(17, 300, 10))
    seen: list[TrainResult] = []
    stopped = coordinate_descent(risk, lam=1e-5, tol=0, callback=lambda result: seen.append(result) or len(seen) == 2)
    assert stopped.stopped == "callback" and len(seen) == 2
    assert coordinate_descent(risk, lam=1e-5, tol=0, max_seconds=1e-9).stopped == "time"

    def interrupt(_: TrainResult) -> None:
        raise KeyboardInterrupt

    partial = coordinate_descent(risk, lam=1e-5, tol=0, callback=interrupt)
    assert partial.stopped == "interrupted" and np.isfinite(partial.gap)


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
