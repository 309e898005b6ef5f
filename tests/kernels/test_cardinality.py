"""Boxes, simplices and cardinality groups against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt.algorithms.box import BoxAlgorithm
from structopt.algorithms.cardinality import CardinalityAlgorithm
from structopt.errors import DeclarationError
from structopt.recognize import Cardinality


def one_group(n: int, low: int, high: int) -> CardinalityAlgorithm:
    limits = np.array([low]), np.array([high])
    return CardinalityAlgorithm(Cardinality(np.zeros(n, np.int64), np.array([0, n]), np.arange(n), *limits))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.booleans())
@settings(deadline=None, max_examples=100)
def test_top_k_equals_sorting(seed, n, ties):
    rng = np.random.default_rng(seed)
    c = rng.integers(-3, 4, n).astype(float) if ties else rng.normal(size=n)
    k = int(rng.integers(0, n + 1))
    order = np.argsort(-c, kind="stable")
    z, value, _, _ = one_group(n, k, k).maximize(c)
    assert np.flatnonzero(z).tolist() == sorted(order[:k].tolist())
    z, value, _, _ = one_group(n, 0, k).maximize(c)
    expected = [i for i in order[:k] if c[i] > 0]
    assert np.flatnonzero(z).tolist() == sorted(expected) and value == pytest.approx(c[expected].sum(), abs=1e-12)


def test_simplex_takes_the_first_best():
    simplex = one_group(3, 1, 1)
    found = simplex.maximize_batch(np.array([[1.0, 3.0, 3.0], [-2.0, -2.0, -5.0]]))
    assert found.Z.argmax(axis=1).tolist() == [1, 0] and found.values.tolist() == [3, -2]


def test_box():
    box = BoxAlgorithm(np.array([-1.0, -1.0, 0.5]), np.array([4.0, 4.0, 5.0]))
    z, value, bound, _ = box.maximize(np.array([2.0, -3.0, 0.0]))
    assert z.tolist() == [4, -1, 0.5] and value == bound == 11 and not box.integral
    C = np.random.default_rng(0).normal(size=(4, 3))
    found = box.maximize_batch(C)
    np.testing.assert_allclose(found.values, [box.maximize(c).value for c in C])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_coefficients_must_be_finite(value):
    with pytest.raises(DeclarationError, match="Coefficient 1"):
        one_group(3, 0, 2).maximize(np.array([1, value, 2]))
