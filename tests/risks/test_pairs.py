"""ROC area, ordinal regression and preferences against the sums over pairs that define them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import structopt.risks as risks
from structopt.risks._order import ascending


def test_large_roc_equals_its_pairs():
    """Large enough for the packed sort."""
    rng = np.random.default_rng(1)
    m = 17_000
    f, y = rng.normal(size=m), np.where(rng.random(m) < 0.001, 1.0, -1.0)
    value, slope = risks.ROCArea(np.ones((m, 1)), y).loss(f)
    slack = np.maximum(0.0, 1.0 + f[y < 0][:, None] - f[y > 0])
    assert value == pytest.approx(slack.mean(), rel=1e-11)
    np.testing.assert_allclose(slope[y > 0], -(slack > 0).sum(axis=0) / slack.size, atol=1e-15)
    np.testing.assert_allclose(slope[y < 0], (slack > 0).sum(axis=1) / slack.size, atol=1e-15)


def test_preferences_with_costs():
    rng = np.random.default_rng(2)
    f, cost = rng.normal(size=8), rng.random(10)
    pairs = np.array([(i, j) for i in range(8) for j in range(8) if i != j])[rng.permutation(56)[:10]]
    value, slope = risks.Preference(np.eye(8), pairs, cost)(f)
    slack = 1 + f[pairs[:, 0]] - f[pairs[:, 1]]
    assert value == pytest.approx(np.mean(cost * np.maximum(0, slack)), rel=1e-12)
    moves = (np.eye(8)[pairs[:, 0]] - np.eye(8)[pairs[:, 1]]) * (slack > 0)[:, None]
    np.testing.assert_allclose(slope, cost @ moves / 10, atol=1e-14)


@pytest.mark.parametrize("kind", ["normal", "close", "offset", "ties", "signs", "sorted"])
def test_ascending_orders_like_argsort(kind):
    rng = np.random.default_rng(3)
    values = rng.normal(size=1 << 14)
    if kind == "close":
        values = 1.0 + 1e-13 * values  # agree in the leading bits: the fallback
    elif kind == "offset":
        values = 1e6 + values
    elif kind == "ties":
        values = np.round(values)
    elif kind == "signs":
        values = np.copysign(10.0 ** (60 * values), rng.normal(size=values.size))
        values[:5] = 0.0, -0.0, 5e-324, -5e-324, 1e308
    elif kind == "sorted":
        values.sort()
    order = ascending(values)
    assert np.array_equal(np.sort(order), np.arange(values.size))
    assert np.array_equal(values[order], np.sort(values))


@settings(max_examples=30)
@given(arrays(np.float64, st.integers(0, 30), elements=st.floats(-1e300, 1e300)))
def test_ascending_small(values):
    assert np.array_equal(values[ascending(values)], np.sort(values))
