"""Crammer-Singer block ascent: single precision, projections, and what it does not train; its optima have a law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt.errors import DeclarationError
from structopt.train.kernels.multiclass import _threshold
from structopt.train.multiclass import is_multiclass, multiclass_ascent

LAM = 0.05


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


def test_only_multiclass_models_with_margin_rescaling(helpers):
    assert is_multiclass(helpers.multiclass()) and not is_multiclass(helpers.pairwise())
    with pytest.raises(DeclarationError, match="margin rescaling"):
        multiclass_ascent(helpers.multiclass("slack"), lam=LAM)
    with pytest.raises(DeclarationError, match="cached_passes"):
        multiclass_ascent(helpers.multiclass(), lam=LAM, cached_passes=-1)
