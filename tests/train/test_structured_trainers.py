"""Trainers of structured risks: Ctrl-C, failing solvers, and wrong arguments; their optima have a law."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError, SolverFailed
from structopt.train import block_ascent, n_slack, one_slack

LAM = 0.2
every_trainer = pytest.mark.parametrize("name", ["block_ascent", "n_slack", "one_slack", "bcfw", "sgd"])


@every_trainer
@pytest.mark.parametrize("kind", ["multiclass", "pairwise"])
def test_ctrl_c_returns_the_best_model_so_far(helpers, name, kind):
    seen = []

    def callback(result):
        seen.append(result)
        if len(seen) == 3:
            raise KeyboardInterrupt

    result = getattr(so.train, name)(getattr(helpers, kind)(), lam=1e-4, tol=0.0, callback=callback)
    assert result.stopped == "interrupted"
    assert np.array_equal(result.w, seen[-1].w)


@every_trainer
def test_callback_gets_the_info_of_the_trainer(helpers, name):
    seen = []
    result = getattr(so.train, name)(helpers.pairwise(), lam=LAM, max_passes=3, callback=seen.append)
    assert seen and all(step.info.keys() == result.info.keys() for step in seen)


@every_trainer
def test_a_failing_solver_names_the_example(helpers, monkeypatch, name):
    """The model so far travels with the error."""
    risk = helpers.pairwise("slack", search="angular")  # one solver call after the other
    calls = []
    search = so.train.StructuredRisk._search_one

    def failing(self, i, *arguments):
        calls.append(self.examples[i])
        if len(calls) > 40:
            raise SolverFailed("the solver lost its mind", status="numerical trouble")
        return search(self, i, *arguments)

    monkeypatch.setattr(so.train.StructuredRisk, "_search_one", failing)
    with pytest.raises(SolverFailed, match="lost its mind") as caught:
        getattr(so.train, name)(risk, lam=LAM, tol=0.0)
    assert f"example {calls[-1]}:" in str(caught.value)
    assert caught.value.status == "numerical trouble"
    assert caught.value.partial.w.shape == (risk.n_features,)
    assert caught.value.partial.stopped == "failed"


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
