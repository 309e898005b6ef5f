"""Cutting planes with one slack and with n: optimum, cache, bounds, resuming."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError
from structopt.train.cutting_plane import n_slack, one_slack

LAM = 0.2
BOTH = pytest.mark.parametrize("trainer", [one_slack, n_slack])


@BOTH
@pytest.mark.parametrize("surrogate", ["margin", "slack", "beta"])
@pytest.mark.parametrize("kind", ["multiclass", "pairwise"])
def test_reaches_the_optimum_of_the_quadratic_program(helpers, trainer, kind, surrogate):
    risk = getattr(helpers, kind)(helpers.surrogates[surrogate])
    best = helpers.optimum(risk, LAM)
    result = helpers.bounds_hold(lambda callback: trainer(risk, lam=LAM, tol=1e-6, callback=callback), best)
    assert result.converged
    assert result.objective == pytest.approx(best, rel=1e-6)
    assert result.lower_bound == pytest.approx(best, rel=1e-6)
    assert 0.5 * LAM * result.w @ result.w + risk(result.w)[0] == pytest.approx(result.objective, rel=1e-9)


@pytest.mark.parametrize("theta", [1.0, 0.3])
def test_the_cache_saves_oracle_passes(helpers, theta):
    risk = helpers.multiclass(n=80)
    with_cache = one_slack(risk, lam=1e-3, tol=1e-4, theta=theta)
    without = one_slack(risk, lam=1e-3, tol=1e-4, theta=theta, cached_labels=0)
    assert with_cache.info["cached_cuts"] > 0 and without.info["cached_cuts"] == 0
    assert with_cache.passes < without.passes
    assert with_cache.objective == pytest.approx(without.objective, rel=2e-4)


def test_cuts_from_the_cache_lie_below_the_risk(helpers):
    from structopt.train.cutting_plane import _LabelCache, _oracle_cut

    risk = helpers.pairwise("slack")
    rng = np.random.default_rng(0)
    cache = _LabelCache(risk, 3)
    for _ in range(6):
        w = rng.normal(size=risk.n_features)
        cut, found = _oracle_cut(cache.groups, w)
        assert cut.slope @ w + cut.offset == pytest.approx(cut.value)
        cache.remember(found, w)
        assert cache.cut(w).value == pytest.approx(cut.value)  # the labels just found are the highest there
        for _ in range(5):
            v = rng.normal(size=risk.n_features)
            composed = cache.cut(v)
            assert composed.slope @ v + composed.offset == pytest.approx(composed.value)
            for at in (v, w, np.zeros(risk.n_features)):
                assert composed.slope @ at + composed.offset <= risk(at)[0] + 1e-9
    assert (cache.count <= 3).all()


def test_n_slack_needs_few_rounds_and_one_slack_more(helpers):
    risk = helpers.multiclass(n=80)
    many, one = n_slack(risk, lam=1e-3, tol=1e-4), one_slack(risk, lam=1e-3, tol=1e-4, cached_labels=0)
    assert many.passes < one.passes
    assert (np.isfinite(many.history["gap"])).all()  # certified in every round


@BOTH
def test_sparse_features_give_the_same_run(helpers, trainer):
    dense = helpers.pairwise()
    sparse = so.train.StructuredRisk(dense.model, sp.csr_array(dense.X), dense.Y)
    a, b = (trainer(risk, lam=LAM, tol=1e-3) for risk in (dense, sparse))
    assert a.objective == pytest.approx(b.objective, rel=1e-9) and a.passes == b.passes


@BOTH
def test_killed_and_resumed_ends_at_the_same_weights(helpers, tmp_path, trainer):
    risk = helpers.pairwise()

    def train(checkpoint, callback):
        return trainer(risk, lam=LAM, tol=1e-4, checkpoint=checkpoint, callback=callback)

    helpers.resumes(train, tmp_path / "run.npz")


@BOTH
def test_interruption_failure_and_limits(helpers, monkeypatch, trainer):
    risk = helpers.pairwise()
    helpers.interrupted(lambda callback: trainer(risk, lam=LAM, tol=0.0, callback=callback))
    assert trainer(risk, lam=LAM, tol=0.0, max_seconds=1e-9).stopped == "time"
    assert trainer(risk, lam=LAM, tol=0.0, max_passes=3).stopped == "passes"
    helpers.fails_in_the_middle(lambda failing: trainer(failing, lam=LAM, tol=1e-9), monkeypatch, after=40)


@BOTH
def test_odd_data_and_arguments(helpers, trainer):
    risk = helpers.pairwise()
    one = risk.part(np.array([0]))
    assert trainer(one, lam=LAM, tol=1e-6).objective == pytest.approx(helpers.optimum(one, LAM), rel=1e-6)
    twice = risk.part(np.tile(np.arange(len(risk)), 2))
    assert trainer(twice, lam=LAM, tol=1e-6).objective == pytest.approx(helpers.optimum(risk, LAM), rel=1e-6)
    single = so.train.StructuredRisk(so.structures.Multiclass(["a", "b"]), np.ones((3, 2)), ["a"] * 3)
    assert trainer(single, lam=LAM, tol=1e-6).objective == pytest.approx(helpers.optimum(single, LAM), rel=1e-6)
    exact = trainer(risk, lam=LAM, tol=0.0, max_passes=100)
    assert exact.gap <= 1e-7
    with pytest.raises(DeclarationError, match="lam must be"):
        trainer(risk, lam=0.0)
    with pytest.raises(DeclarationError, match="convex"):
        trainer(helpers.multiclass(so.surrogates.ProbLoss()), lam=LAM)


def test_arguments_of_one_slack(helpers):
    for wrong in ({"theta": 0.0}, {"theta": 1.5}, {"cached_labels": -1}):
        with pytest.raises(DeclarationError):
            one_slack(helpers.multiclass(), lam=LAM, **wrong)
