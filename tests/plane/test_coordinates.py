"""The compiled passes over h and g against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt.plane.coordinates import blend, locate, mixture, ranges

SEEDS = st.integers(0, 2**32 - 1)
LAMBDAS = st.sampled_from([0.0, 1e-9, 0.7, 3.0, 1e9, math.inf])


def problem(seed: int):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    return rng, n, rng.normal(size=(2, n)) * (rng.random((2, n)) < 0.8)


def test_a_variable_without_a_coefficient_may_be_unbounded():
    both = np.empty((2, 1))
    zero, infinite = np.zeros(1), np.full(1, np.inf)
    assert ranges(zero, zero.copy(), -infinite, infinite, zero, both) == (0.0,) * 7


@settings(deadline=None)
@given(SEEDS, LAMBDAS)
def test_blend(seed, lam):
    _, n, coef = problem(seed)
    costs = np.empty(n)
    square = blend(coef, lam, costs)
    expected = coef[1] if lam == math.inf else coef[0] + lam * coef[1]
    assert costs == pytest.approx(expected) and square == pytest.approx(expected @ expected)


def test_blend_shows_what_is_not_finite():
    assert math.isnan(blend(np.array([[math.nan], [1.0]]), 1.0, np.empty(1)))
    assert blend(np.full((2, 1), 1e200), 1.0, np.empty(1)) == math.inf


@settings(deadline=None)
@given(SEEDS, LAMBDAS, st.sampled_from([0.0, 1e-12, 1e-3, 1.0]))
def test_locate(seed, lam, gap):
    rng, n, coef = problem(seed)
    z = np.rint(2 * rng.random(n)) + 1e-8 * rng.normal(size=n)
    before = z.copy()
    value = float((coef[1] if lam == math.inf else coef[0] + lam * coef[1]) @ z)
    given_bound = value + gap * max(1.0, abs(value))
    h, g, bound = locate(coef, lam, z, given_bound)
    assert (z == before).all()
    assert [h, g] == pytest.approx((coef @ z).tolist())
    if gap >= 1e-3:
        assert bound == given_bound  # the solver's promise is kept, not the label's value
    else:
        assert bound == pytest.approx(value, rel=1e-9, abs=1e-9)


def test_mixture():
    p, q = np.array([0.0, 1.0, 4.0]), np.array([1.0, 0.0, 4.0])
    assert mixture(p, q, 0.25).tolist() == [0.25, 0.75, 4.0]
