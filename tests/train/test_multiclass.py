"""Crammer-Singer block ascent: optimum, any cost matrix, dense and sparse, resuming, odd data."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt.errors import DeclarationError
from structopt.train.kernels.multiclass import _threshold
from structopt.train.multiclass import is_multiclass, multiclass_ascent

LAM = 0.05
COSTS = np.array([[0, 1, 4, 2], [1, 0, 2, 2], [3, 2, 0, 0.5], [1, 1, 1, 0]])


@pytest.mark.parametrize("sparse", [False, True])
def test_reaches_the_optimum_with_costs(helpers, sparse):
    risk = helpers.multiclass(loss=COSTS)
    best = helpers.optimum(risk, LAM)
    if sparse:
        risk = so.train.StructuredRisk(risk.model, sp.csr_array(risk.X), risk.Y)
    result = helpers.bounds_hold(lambda callback: multiclass_ascent(risk, lam=LAM, tol=1e-7, callback=callback), best)
    assert result.converged
    assert result.objective == pytest.approx(best, rel=1e-6)
    assert result.lower_bound == pytest.approx(best, rel=1e-6)
    assert 0.5 * LAM * result.w @ result.w + risk(result.w)[0] == pytest.approx(result.objective, rel=1e-9)


def test_bias_and_single_precision_agree_with_block_ascent(helpers):
    risk = helpers.multiclass(n=60)
    model = so.structures.Multiclass(4, intercept=True)
    risk = so.train.StructuredRisk(model, risk.X.astype(np.float32), risk.Y)
    a, b = multiclass_ascent(risk, lam=0.01, tol=1e-5), so.train.block_ascent(risk, lam=0.01, tol=1e-5)
    assert a.converged and b.converged
    assert a.lower_bound <= b.objective and b.lower_bound <= a.objective
    assert a.objective == pytest.approx(b.objective, rel=2e-5)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-3.0, 3.0) | st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=12))
def test_threshold_projects_on_the_simplex(values):
    v = np.array(values)
    projected = np.maximum(v - _threshold(v), 0.0)
    assert projected.sum() == pytest.approx(1.0, abs=1e-12)
    # the projection is the point p of the simplex with <v - p, q - p> <= 0 for every vertex q
    assert ((v - projected) @ (np.eye(len(v)) - projected).T <= 1e-9).all()


def test_threshold_ends_where_rounding_puts_an_entry_on_both_sides():
    rng = np.random.default_rng(0)
    for _ in range(2_000):  # a version that waited for two equal counts looped here
        v = rng.random(3) * 10.0 ** rng.integers(-9, 1)
        v[1] = v[0] - (1.0 + v[2] - v[0]) / 2.0 if rng.random() < 0.5 else (v[0] + v[2] - 1.0) / 2.0
        assert np.maximum(v - _threshold(v), 0.0).sum() == pytest.approx(1.0, abs=1e-9)


def test_odd_data(helpers):
    risk = helpers.multiclass()
    one = risk.part(np.array([0]))
    assert multiclass_ascent(one, lam=LAM, tol=1e-7).objective == pytest.approx(helpers.optimum(one, LAM), rel=1e-6)
    twice = risk.part(np.tile(np.arange(len(risk)), 2))
    best = helpers.optimum(risk, LAM)
    assert multiclass_ascent(twice, lam=LAM, tol=1e-7).objective == pytest.approx(best, rel=1e-6)
    single = so.train.StructuredRisk(so.structures.Multiclass(["a", "b"]), np.ones((3, 2)), ["a"] * 3)
    assert multiclass_ascent(single, lam=LAM, tol=1e-7).objective == pytest.approx(
        helpers.optimum(single, LAM), rel=1e-6
    )
    lonely = so.train.StructuredRisk(so.structures.Multiclass(["a"]), np.ones((3, 2)), ["a"] * 3)
    nothing = multiclass_ascent(lonely, lam=LAM)
    assert nothing.objective == 0.0 and nothing.converged and not nothing.w.any()
    X = risk.X.copy()
    X[:5] = 0.0  # examples without features cost their largest loss, whatever w
    blank = so.train.StructuredRisk(risk.model, X, risk.Y)
    assert multiclass_ascent(blank, lam=LAM, tol=1e-7).objective == pytest.approx(helpers.optimum(blank, LAM), rel=1e-6)
    exact = multiclass_ascent(risk, lam=LAM, tol=0.0, max_passes=500)
    assert exact.gap <= 1e-10


def test_only_multiclass_models_with_margin_rescaling(helpers):
    assert is_multiclass(helpers.multiclass()) and not is_multiclass(helpers.pairwise())
    with pytest.raises(DeclarationError, match="margin rescaling"):
        multiclass_ascent(helpers.multiclass("slack"), lam=LAM)
    with pytest.raises(DeclarationError, match="cached_passes"):
        multiclass_ascent(helpers.multiclass(), lam=LAM, cached_passes=-1)
