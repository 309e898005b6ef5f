"""Trainers of structured risks: odd data, several tables of features, Ctrl-C, failing solvers, and killed runs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError
from structopt.train import block_ascent, n_slack, one_slack

LAM = 0.2
#: Trainers with the relative gap that they reach soon.
TOL = {"block_ascent": 1e-6, "n_slack": 1e-6, "one_slack": 1e-6, "bcfw": 5e-2}
every_trainer = pytest.mark.parametrize("name", [*TOL, "sgd"])


def test_beta_scaling_reaches_the_optimum_of_the_quadratic_program(helpers):
    """Margin and slack rescaling have a law."""
    risk = helpers.pairwise(so.surrogates.BetaScaling(0.5))
    best = helpers.optimum(risk, LAM)
    for trainer in (block_ascent, n_slack, one_slack, so.train.bmrm):
        result = trainer(risk, lam=LAM, tol=1e-6)
        assert result.converged and result.lower_bound <= best * (1 + 1e-9)
        assert result.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("name", TOL)
@pytest.mark.parametrize(("sparse", "surrogate"), [(False, "slack"), (True, "margin")])
def test_several_tables_of_features(helpers, name, sparse, surrogate):
    """Nodes and arcs with features of their own, as many as a sentence or a picture has, and tied weights."""
    risk = helpers.walks(surrogate, sparse)
    best, tol = helpers.optimum(risk, LAM), max(TOL[name], 1e-5)
    train = so.train.get(name).function
    result = helpers.bounds_hold(
        lambda callback: train(risk, lam=LAM, tol=tol, max_passes=3000, callback=callback), best
    )
    assert result.converged and result.objective == pytest.approx(best, rel=1.5 * tol)
    assert 0.5 * LAM * result.w @ result.w + risk(result.w)[0] == pytest.approx(result.objective, rel=1e-9)


@pytest.mark.parametrize("name", TOL)
def test_sparse_features_give_the_same_run(helpers, name):
    dense = helpers.pairwise()
    sparse = so.train.StructuredRisk(dense.model, sp.csr_array(dense.X), dense.Y)
    a, b = (getattr(so.train, name)(risk, lam=LAM, tol=1e-2) for risk in (dense, sparse))
    assert a.objective == pytest.approx(b.objective, rel=1e-9) and a.passes == b.passes


@pytest.mark.parametrize("kind", ["multiclass", "pairwise"])
def test_killed_and_resumed_ends_at_the_same_weights(helpers, tmp_path, kind):
    """The law of checkpoints copies files; here the process dies."""
    risk = getattr(helpers, kind)()

    def train(checkpoint, callback):
        return block_ascent(risk, lam=LAM, tol=0.0, max_passes=8, checkpoint=checkpoint, callback=callback)

    helpers.resumes(train, tmp_path / "run.npz")


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


@pytest.mark.parametrize("name", TOL)
def test_one_example_duplicates_and_one_class(helpers, name):
    risk, train, tol = helpers.pairwise(), getattr(so.train, name), TOL[name]
    single = so.train.StructuredRisk(so.structures.Multiclass(["a", "b"]), np.ones((3, 2)), ["a"] * 3)
    for own in (risk.part(np.array([0])), single):
        assert train(own, lam=LAM, tol=tol).objective == pytest.approx(helpers.optimum(own, LAM), rel=1.1 * tol)
    twice = risk.part(np.tile(np.arange(len(risk)), 2))
    assert train(twice, lam=LAM, tol=tol).objective == pytest.approx(helpers.optimum(risk, LAM), rel=1.1 * tol)


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
