"""Bundle methods on structured risks: the optimum of a quadratic program over all labels, and Theorem 5's counts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from structopt.train import bmrm, proximal_bundle, trust_region_bundle

SURROGATE = pytest.mark.parametrize("surrogate", ["margin", "slack", "beta"])


@SURROGATE
@pytest.mark.parametrize("kind", ["multiclass", "pairwise"])
@pytest.mark.parametrize("trainer", [bmrm, proximal_bundle, trust_region_bundle])
def test_reaches_the_optimum_of_the_quadratic_program(helpers, trainer, kind, surrogate):
    risk = getattr(helpers, kind)(helpers.surrogates[surrogate])
    best = helpers.optimum(risk, 0.2)
    result = helpers.bounds_hold(lambda callback: trainer(risk, lam=0.2, tol=1e-6, callback=callback), best)
    assert result.converged
    assert result.objective == pytest.approx(best, rel=1e-6)
    assert result.lower_bound == pytest.approx(best, rel=1e-6)


@SURROGATE
@pytest.mark.parametrize("theta", [1.0, 0.1])
def test_iterations_obey_theorem_5(helpers, surrogate, theta):
    risk, lam = helpers.pairwise(helpers.surrogates[surrogate]), 0.02
    rows, _, owners = helpers.planes(risk)
    # A subgradient is a mean of one slope per example.
    G = np.mean([np.linalg.norm(rows[owners == i], axis=1).max() for i in range(len(risk))])
    result = bmrm(risk, lam=lam, tol=1e-6, theta=theta)
    gap = result.history["objective"] - result.history["lower_bound"]
    start = risk(np.zeros(risk.n_features))[0]
    for epsilon in np.logspace(-1, -5, 9):
        assert gap.min() <= epsilon < 4 * G**2 / lam
        needed = 1 + int(np.argmax(gap <= epsilon))
        assert needed <= max(math.log2(lam * start / (4 * G**2)), 0.0) + 8 * G**2 / (lam * epsilon) - 1
