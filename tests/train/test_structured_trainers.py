"""Trainers of structured risks: Ctrl-C, failing solvers, and wrong arguments; their optima have a law."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError
from structopt.train import block_ascent, n_slack, one_slack

LAM = 0.2
#: Trainers with the relative gap that they reach soon.
TOL = {"block_ascent": 1e-6, "n_slack": 1e-6, "one_slack": 1e-6, "bcfw": 5e-2}
every_trainer = pytest.mark.parametrize("name", [*TOL, "sgd"])


@every_trainer
@pytest.mark.parametrize("kind", ["multiclass", "pairwise"])
def test_ctrl_c_returns_the_best_model_so_far(helpers, name, kind):
    risk, train = getattr(helpers, kind)(), getattr(so.train, name)
    helpers.interrupted(lambda callback: train(risk, lam=1e-4, tol=0.0, callback=callback))


@every_trainer
def test_callback_gets_the_info_of_the_trainer(helpers, name):
    seen = []
    result = getattr(so.train, name)(helpers.pairwise(), lam=LAM, max_passes=3, callback=seen.append)
    assert seen and all(step.info.keys() == result.info.keys() for step in seen)


@every_trainer
def test_a_failing_solver_names_the_example(helpers, monkeypatch, name):
    train = getattr(so.train, name)
    helpers.fails_in_the_middle(lambda failing: train(failing, lam=LAM, tol=0.0), monkeypatch, after=40)


@pytest.mark.parametrize("trainer", [block_ascent, n_slack, one_slack])
def test_zero_tolerance_goes_to_the_limit_of_float64(helpers, trainer):
    exact = trainer(helpers.pairwise(), lam=LAM, tol=0.0, max_passes=300)
    assert exact.gap <= 1e-7 and exact.stopped in ("precision", "tol", "passes", "stalled")


@every_trainer
def test_wrong_arguments_are_named(helpers, name):
    train = getattr(so.train, name)
    for lam in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(DeclarationError, match="lam must be"):
            train(helpers.multiclass(), lam=lam)
    with pytest.raises(DeclarationError, match="StructuredRisk"):
        train(so.risks.Hinge(np.ones((2, 1)), np.array([1, -1])), lam=LAM)
    if name != "sgd":
        with pytest.raises(DeclarationError, match="convex"):
            train(helpers.multiclass(so.surrogates.ProbLoss()), lam=LAM)
