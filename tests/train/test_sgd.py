"""Stochastic subgradient descent: its steps, means, free bound, and limits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError
from structopt.train.sgd import sgd

LAM = 0.05


def plain_pegasos(risk, lam, size, passes, seed):
    """The method as it is usually written: dense, one step after the other, every iterate kept."""
    rng = np.random.default_rng(seed)
    n = len(risk)
    parts = np.array_split(rng.permutation(n), -(-n // size))
    w, iterates = np.zeros(risk.n_features), []
    for _ in range(passes):
        for k in rng.permutation(len(parts)):
            t = len(iterates) + 1
            part = risk.part(parts[k])
            subgradient = part(w)[1] * len(part) * len(parts) / n
            w = (1.0 - 1.0 / t) * w - subgradient / (lam * t)
            iterates.append(w)
    return np.array(iterates)


@pytest.mark.parametrize("surrogate", ["margin", "slack"])
@pytest.mark.parametrize("sparse", [False, True])
def test_lazy_steps_and_means_are_those_of_pegasos(helpers, surrogate, sparse):
    risk = helpers.pairwise(surrogate)
    iterates = plain_pegasos(risk, LAM, 3, 4, seed=7)
    if sparse:
        risk = so.train.StructuredRisk(risk.model, sp.csr_array(risk.X), risk.Y, surrogate, rtol=1e-10)
    t = np.arange(1, len(iterates) + 1)
    means = {"none": iterates[-1], "uniform": iterates.mean(axis=0), "weighted": t @ iterates / t.sum()}
    for average, expected in means.items():
        result = sgd(risk, lam=LAM, max_passes=4, batch_size=3, average=average, random_state=7)
        assert result.w == pytest.approx(expected, abs=1e-9), average
        assert result.info["steps"] == len(iterates)


def test_converges_at_the_rate_of_its_theory(helpers):
    """The mean weighted by t is expected within ``2 B^2 / (lam (T + 1))`` of the optimum, ||subgradient|| <= B.

    Lacoste-Julien, Schmidt, Bach. A simpler approach to obtaining an O(1/t) convergence rate. 2012.
    """
    risk, lam = helpers.multiclass("slack"), 1.0
    best = helpers.optimum(risk, lam)
    iterates = np.vstack([np.zeros(risk.n_features), plain_pegasos(risk, lam, 2, 25, seed=0)])
    T = len(iterates) - 1
    B = max(np.linalg.norm(np.diff(iterates, axis=0) * lam * np.arange(1, T + 1)[:, None], axis=1))
    promise = 2 * B**2 / (lam * (T + 1))
    assert promise < 0.1 * best, "the problem says nothing about the method"
    runs = [sgd(risk, lam=lam, max_passes=25, batch_size=2, random_state=seed) for seed in range(3)]
    assert np.mean([result.objective for result in runs]) - best <= promise


def test_without_a_certifying_pass_the_objective_is_unknown(helpers):
    risk = helpers.pairwise()
    blind = sgd(risk, lam=LAM, max_passes=3, certify=False)
    assert blind.objective == np.inf and blind.passes == 3 and not blind.converged
    seeing = sgd(risk, lam=LAM, max_passes=3)
    assert np.array_equal(blind.w, seeing.w) and np.isfinite(seeing.objective) and seeing.passes == 4


def test_a_pass_cut_short_by_time_gives_no_false_bound(helpers, tmp_path):
    risk = helpers.pairwise()
    best = helpers.optimum(risk, LAM)
    path = tmp_path / "run.npz"
    first = sgd(risk, lam=LAM, max_passes=30, max_seconds=1e-9, checkpoint=path)
    assert first.stopped == "time" and first.info["steps"] == 1
    path_result = helpers.bounds_hold(
        lambda callback: sgd(risk, lam=LAM, max_passes=30, checkpoint=path, callback=callback), best
    )
    assert path_result.lower_bound == 0.0


def test_odd_data_and_arguments(helpers):
    risk = helpers.pairwise()
    one = risk.part(np.array([0]))
    assert sgd(one, lam=LAM, max_passes=200).objective == pytest.approx(helpers.optimum(one, LAM), rel=0.1)
    single = so.train.StructuredRisk(so.structures.Multiclass(["a", "b"]), np.ones((3, 2)), ["a"] * 3)
    assert sgd(single, lam=1.0, max_passes=100).objective == pytest.approx(helpers.optimum(single, 1.0), rel=0.05)
    twice = risk.part(np.tile(np.arange(len(risk)), 2))
    assert np.isfinite(sgd(twice, lam=LAM, max_passes=5, tol=0.0, batch_size=100).objective)
    for wrong in ({"batch_size": 0}, {"average": "best"}):
        with pytest.raises(DeclarationError):
            sgd(risk, lam=LAM, **wrong)


def test_a_surrogate_that_is_not_convex_improves_on_good_weights():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 6))
    y = (X @ rng.normal(size=(6, 5)) + rng.normal(size=(80, 5))).argmax(axis=1)
    model = so.structures.Multiclass(5)
    start = so.train.block_ascent(so.train.StructuredRisk(model, X, y), lam=1e-3)
    risk = so.train.StructuredRisk(model, X, y, "prob")
    result = so.train.sgd(risk, lam=1e-3, max_passes=10, w0=start.w)
    before = risk(start.w)[0] + 0.5e-3 * start.w @ start.w
    assert result.objective < 0.999 * before and result.info["convex"] is False
    assert result.lower_bound == 0.0  # planes of such a surrogate are no bounds
