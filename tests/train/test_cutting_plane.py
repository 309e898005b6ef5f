"""Cutting planes with one slack and with n: the cache of labels, rounds, and arguments."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.errors import DeclarationError
from structopt.train.cutting_plane import n_slack, one_slack

LAM = 0.2


@pytest.mark.parametrize("theta", [1.0, 0.3])
def test_the_cache_saves_oracle_passes(helpers, theta):
    risk = helpers.multiclass(n=80)
    with_cache = one_slack(risk, lam=1e-3, tol=1e-4, theta=theta)
    without = one_slack(risk, lam=1e-3, tol=1e-4, theta=theta, cached_labels=0)
    assert with_cache.info["cached_cuts"] > 0 and without.info["cached_cuts"] == 0
    assert with_cache.passes < without.passes
    assert with_cache.objective == pytest.approx(without.objective, rel=2e-4)


def test_n_slack_needs_few_rounds_and_one_slack_more(helpers):
    risk = helpers.multiclass(n=80)
    many, one = n_slack(risk, lam=1e-3, tol=1e-4), one_slack(risk, lam=1e-3, tol=1e-4, cached_labels=0)
    assert many.passes < one.passes
    assert (np.isfinite(many.history["gap"])).all()  # certified in every round


def test_arguments_of_one_slack(helpers):
    for wrong in ({"theta": 0.0}, {"theta": 1.5}, {"cached_labels": -1}):
        with pytest.raises(DeclarationError):
            one_slack(helpers.multiclass(), lam=LAM, **wrong)
