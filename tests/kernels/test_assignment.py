"""Assignment kernels against enumeration, scipy and the example of docs/mathematics/oracles#assignment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from structopt.algorithms import assignment
from structopt.errors import DeclarationError

C0 = np.array([[3.0, 1, 2], [2, 4, 6], [0, 2, 5]])


def test_the_example():
    columns, values = assignment.k_best(C0, 3)
    assert columns.tolist() == [[0, 1, 2], [0, 2, 1], [1, 0, 2]]
    assert values.tolist() == [12, 11, 8]


@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.booleans())
@settings(deadline=None, max_examples=8)
def test_kept_prices_never_change_the_value(seed, extra, ties):
    rng = np.random.default_rng(seed)
    n = 12
    C = rng.normal(size=(n, n + extra))
    prices = np.zeros(n + extra)
    for step in range(12):
        C = C + 0.05 * rng.normal(size=C.shape) if step % 4 else 10 * rng.normal(size=C.shape)
        D = np.rint(3 * C) if ties else C
        _, value = assignment.assign(D, prices)
        rows, columns = linear_sum_assignment(D, maximize=True)
        assert value == pytest.approx(D[rows, columns].sum(), abs=1e-9)
        assert np.isfinite(prices).all() and prices.max() <= 0


def test_prices_do_not_sink_over_many_calls():
    rng = np.random.default_rng(1)
    C, prices = rng.normal(size=(8, 8)), np.zeros(8)
    for _ in range(200):
        assignment.assign(C + rng.normal(size=C.shape), prices)
    assert prices.max() == 0 and prices.min() > -50


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_numbers_are_refused(value):
    C = C0.copy()
    C[1, 1] = value
    with pytest.raises(DeclarationError, match="NaN"):
        assignment.assign(C)
    for call in (assignment.assign_batch, assignment.match_batch):
        with pytest.raises(DeclarationError, match="NaN"):
            call(C[None])
    with pytest.raises(DeclarationError, match=r"Example 1.*NaN"):
        assignment.assign_batch(np.stack([C0, C]))
    with pytest.raises(DeclarationError, match="price"):
        assignment.assign(C0, np.array([0, value, 0]))


def test_wrong_shapes_are_named():
    with pytest.raises(DeclarationError, match="transpose"):
        assignment.assign(np.zeros((3, 2)))
    with pytest.raises(DeclarationError, match=r"shape \(3,\)"):
        assignment.assign(C0, np.zeros(2))
