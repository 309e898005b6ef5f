"""A solver that may stop early proves a bound: what is certified is the bound, never the label it stopped at."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import structopt as so
from structopt.errors import TimeLimitReached
from structopt.model.batch import Batch
from structopt.space.feasibility import contains
from structopt.stopping import deadline
from structopt.testing.instances import hard_knapsack
from structopt.train import StructuredRisk, bcfw, block_ascent, bmrm, n_slack, one_slack

N_ITEMS, N_FEATURES = 12, 3


def knapsack(**options: object) -> so.Model:
    """Items within two capacities: every training call is an integer program."""
    space = so.LabelSpace("knapsack")
    y = space.binary("y", N_ITEMS)
    rng = np.random.default_rng(0)
    for _ in range(2):
        weights = rng.integers(5, 60, N_ITEMS).astype(float)
        space.subject_to(weights @ y <= weights.sum() // 3)
    return so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming(), solver="highs", options=options)


def labels_of(model: so.Model) -> np.ndarray:
    return model.space().enumerate()


@pytest.fixture(scope="module")
def data() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    model = knapsack()
    labels = labels_of(model)
    X = rng.normal(size=(4, N_FEATURES))
    W = rng.normal(size=(N_ITEMS, N_FEATURES))
    Y = labels[[int(np.argmax(labels @ (W @ x + 0.5 * rng.normal(size=N_ITEMS)))) for x in X]]
    yield X, Y


def brute_force_risk(w: np.ndarray, X: np.ndarray, Y: np.ndarray, surrogate: str) -> float:
    labels = labels_of(knapsack())
    W = w.reshape(N_ITEMS, N_FEATURES)
    total = 0.0
    for x, y in zip(X, Y, strict=True):
        margin = (labels - y) @ (W @ x)
        loss = np.abs(labels - y).sum(axis=1)
        total += (margin + loss).max() if surrogate == "margin" else ((1 + margin) * loss).max()
    return max(total, 0.0) / len(X)


ROUGH, SHORT = {"mip_gap": 5.0}, {"time_limit": 1e-3}


@pytest.mark.parametrize(
    ("trainer", "surrogate", "options"),
    [(bmrm, "margin", {"mip_gap": 0.5}), (bmrm, "slack", ROUGH), (one_slack, "margin", ROUGH),
     (n_slack, "margin", ROUGH), (n_slack, "slack", SHORT), (block_ascent, "margin", ROUGH),
     (block_ascent, "margin", SHORT), (bcfw, "margin", ROUGH)],
)  # fmt: skip
def test_objective_is_above_the_true_one(trainer, surrogate, options, data):
    X, Y = data
    lam = 1e-2
    risk = StructuredRisk(knapsack(**options), X, Y, surrogate)
    try:
        result = trainer(risk, lam=lam, max_passes=2 if surrogate == "slack" else 8, tol=1e-3)
    except TimeLimitReached:
        return  # nothing was found in the time given: no certificate at all
    true = brute_force_risk(result.w, X, Y, surrogate) + lam / 2 * float(result.w @ result.w)
    assert result.objective >= true * (1 - 1e-9)
    assert true >= result.lower_bound * (1 - 1e-9)
    if result.converged:
        assert true <= result.lower_bound * (1 + 2e-3) + 1e-12


def test_batches_report_what_is_proved(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = data
    exact, rough = Batch(knapsack(), X), Batch(knapsack(mip_gap=5.0), X)
    w = 3.0 * np.random.default_rng(2).normal(size=exact.n_weights)
    best, values = exact.argmax(exact.tables(w))
    assert best.slack is None
    found, some = rough.argmax(rough.tables(w))
    slack = np.zeros(len(X)) if found.slack is None else found.slack
    assert (some <= values + 1e-9).all()
    assert (some + slack >= values - 1e-9).all()
    assert slack.max() > 0, "a gap of 500 % was not used by any example: this test shows nothing"


def test_a_deadline_reaches_the_solver():
    space, costs = hard_knapsack()
    oracle = so.Oracle(space, "highs")
    with deadline(0.3):
        label = oracle.maximize(costs, start=np.zeros(space.n_variables))
        late = oracle.maximize(costs[::-1].copy())  # no time is left: the relaxation, rounded
    for found in (label, late):
        assert found.status == "time limit"
        assert found.value < found.bound < np.inf
        assert contains(space, found.z)


def test_max_seconds_reaches_into_one_query():
    """Every query of this model runs for minutes."""
    space, _ = hard_knapsack()
    declared = so.LabelSpace.from_matrices(space.matrix, space.row_lower, space.row_upper)
    model = so.Model(declared, {"z": so.features.Linear()}, so.losses.Hamming(), solver="highs")
    X = np.ones((2, 1))
    Y = np.zeros((2, space.n_variables))
    risk = StructuredRisk(model, X, Y, "margin")
    result = bmrm(risk, lam=1e-6, max_seconds=2.0, tol=1e-9)
    assert result.stopped in ("time", "tol")
    assert np.isfinite(result.objective)
