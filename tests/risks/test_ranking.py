from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import structopt.risks as risks
from structopt.errors import DeclarationError
from structopt.risks.ranking import first_prices, rank_batch

seeds = st.integers(0, 2**32 - 1)


def one_query(f, a, b, c):
    slope = np.zeros(f.size)
    value = rank_batch(f, a, b, c, np.array([0, f.size]), np.argsort(-f), first_prices(a, b), slope)
    return value, slope


@settings(max_examples=10, deadline=None)
@given(seed=seeds, n=st.integers(6, 60))
def test_against_scipy(seed, n):
    rng = np.random.default_rng(seed)
    a, c = 1 / np.log2(np.arange(n) + 2), (1.0 + np.arange(n)) ** -0.25
    b = np.sort(rng.integers(0, 4, n).astype(float))[::-1].copy()
    for scale in (0.0, 0.01, 1.0, 100.0):
        f = scale * rng.normal(size=n)
        value, slope = one_query(f, a, b, c)
        rows, columns = linear_sum_assignment(np.outer(c, f) - np.outer(a, b), maximize=True)
        expected = (np.outer(c, f) - np.outer(a, b))[rows, columns].sum() - c @ f + a @ b
        assert value == pytest.approx(expected, rel=1e-10, abs=1e-10)
        assert slope.sum() == pytest.approx(0.0, abs=1e-12)


def test_queries_that_order_nothing_are_left_out_with_a_note():
    X, query = np.arange(6.0).reshape(-1, 1), ["a", "b", "b", "c", "c", "c"]
    with pytest.warns(UserWarning, match="2 of 3 queries have one document or equally relevant"):
        risk = risks.Ranking(X, [1, 1, 1, 0, 1, 2], query)
    assert len(risk) == 1
    alone = risks.Ranking(X[3:], [0, 1, 2], query[3:])
    value, slope = risk(np.array([0.3]))
    assert (value, slope[0]) == pytest.approx((alone(np.array([0.3]))[0], alone(np.array([0.3]))[1][0]))


def test_position_weights_by_function():
    risk = risks.Ranking(np.eye(2), [1, 0], [0, 0], decay=lambda n: np.linspace(1, 0, n))
    # Swapping costs NDCG 1 - 1/log2(3) and gains c.(f(pi) - f) = 1.
    assert risk(np.array([0.0, 1.0]))[0] == pytest.approx(2.0 - 1 / np.log2(3))


@pytest.mark.parametrize("high", [np.inf, -np.inf, np.nan, 1.7e308])
@pytest.mark.parametrize("n", [2, 3, 8])
def test_scores_that_are_not_finite_are_refused(high, n):
    # The augmenting paths went on with column -1, past the ends of the arrays; of 1.7e308 the differences overflow.
    risk = risks.Ranking(np.eye(n), np.arange(n), np.zeros(n))
    for place in range(n):
        f = np.full(n, -high)
        f[place] = high
        with pytest.raises(DeclarationError, match=r"scores must be finite.* document \d has"):
            risk.loss(f)
    assert np.isfinite(risk.loss(np.linspace(-1e300, 1e300, n))[0])
