"""The algorithm of assignments against scipy, and bad input; small ones have a law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import structopt as so
from structopt.algorithms.assignment import AssignmentAlgorithm, best_columns, complete_matching
from structopt.errors import DeclarationError, InfeasibleSpace

C0 = np.array([[3.0, 1, 2], [2, 4, 6], [0, 2, 5]])


@given(st.integers(0, 2**32 - 1), st.integers(0, 4), st.booleans())
@settings(deadline=None, max_examples=8)
def test_kept_prices_never_change_the_value(seed, extra, ties):
    rng = np.random.default_rng(seed)
    n = 12
    C = rng.normal(size=(n, n + extra))
    prices = np.zeros((1, n + extra))
    algorithm = AssignmentAlgorithm(complete_matching(n, n + extra))
    for step in range(12):
        C = C + 0.05 * rng.normal(size=C.shape) if step % 4 else 10 * rng.normal(size=C.shape)
        D = np.rint(3 * C) if ties else C
        _, value = best_columns(D[None], prices=prices)
        rows, columns = linear_sum_assignment(D, maximize=True)
        assert value == pytest.approx(D[rows, columns].sum(), abs=1e-9)
        assert algorithm.maximize(D.ravel(), "a key").value == pytest.approx(value[0])
        assert algorithm.maximize_batch(D.reshape(1, -1), keys=["a key"]).values == pytest.approx(value)
        assert np.isfinite(prices).all() and prices.max() <= 0


def test_prices_do_not_sink_over_many_calls():
    rng = np.random.default_rng(1)
    C, prices = rng.normal(size=(8, 8)), np.zeros((1, 8))
    for _ in range(200):
        best_columns((C + rng.normal(size=C.shape))[None], prices=prices)
    assert prices.max() == 0 and prices.min() > -50


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_numbers_are_refused(value):
    C = C0.copy()
    C[1, 1] = value
    with pytest.raises(DeclarationError, match=r"Example 1.*NaN"):
        best_columns(np.stack([C0, C]))
    with pytest.raises(DeclarationError, match="NaN"):
        AssignmentAlgorithm(complete_matching(3, 3)).k_best(C.ravel(), 2)
    with pytest.raises(DeclarationError, match="price"):
        best_columns(C0[None], prices=np.array([[0, value, 0]]))


def test_a_graph_without_a_matching_is_refused():
    pairs, needed, ends = np.array([0, 1]), np.array([True, True]), np.array([0, 2])
    algorithm = AssignmentAlgorithm(so.records.Assignment(pairs, pairs * 0, needed, ~needed, ends, ends))
    with pytest.raises(InfeasibleSpace, match="avoids"):
        algorithm.maximize_batch(np.zeros((1, 2)))
    with pytest.raises(InfeasibleSpace, match="avoids"):
        algorithm.k_best(np.zeros(2), 2)
