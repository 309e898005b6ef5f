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


def test_arguments_of_one_slack(helpers):
    for wrong in ({"theta": 0.0}, {"theta": 1.5}, {"cached_labels": -1}):
        with pytest.raises(DeclarationError):
            one_slack(helpers.multiclass(), lam=LAM, **wrong)
