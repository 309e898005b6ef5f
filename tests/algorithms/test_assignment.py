"""Assignment kernels against enumeration, scipy and the example of docs/mathematics/oracles#assignment."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt.algorithms import assignment
from structopt.errors import DeclarationError, InfeasibleSpace

C0 = np.array([[3.0, 1, 2], [2, 4, 6], [0, 2, 5]])


def instance(seed, n, extra, ties, forbid):
    rng = np.random.default_rng(seed)
    shape = (n, n + extra)
    C = rng.integers(-3, 4, shape).astype(float) if ties else rng.normal(size=shape)
    if forbid:
        C[rng.random(shape) < 0.35] = -np.inf
    return C


def enumerate_assignments(C):
    n, m = C.shape
    Y = np.array(list(permutations(range(m), n)))
    v = C[np.arange(n), Y].sum(axis=1)
    return Y[v > -np.inf], v[v > -np.inf]


cases = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(0, 2), st.booleans(), st.booleans())


def test_the_example():
    columns, values = assignment.k_best(C0, 3)
    assert columns.tolist() == [[0, 1, 2], [0, 2, 1], [1, 0, 2]]
    assert values.tolist() == [12, 11, 8]


@given(cases)
@settings(deadline=None, max_examples=40)
def test_kernel_and_scipy_equal_enumeration(case):
    C = instance(*case)
    Y, v = enumerate_assignments(C)
    for solve in (assignment.assign, assignment.assign_scipy):
        if not len(Y):
            with pytest.raises(InfeasibleSpace):
                solve(C)
            continue
        columns, value = solve(C)
        assert value == pytest.approx(v.max(), abs=1e-12)
        assert len(set(columns.tolist())) == len(C)
        assert C[np.arange(len(C)), columns].sum() == pytest.approx(value, abs=1e-12)


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
        assert value == pytest.approx(assignment.assign_scipy(D)[1], abs=1e-9)
        assert np.isfinite(prices).all() and prices.max() <= 0


def test_prices_do_not_sink_over_many_calls():
    rng = np.random.default_rng(1)
    C, prices = rng.normal(size=(8, 8)), np.zeros(8)
    for _ in range(200):
        assignment.assign(C + rng.normal(size=C.shape), prices)
    assert prices.max() == 0 and prices.min() > -50


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3), st.booleans())
@settings(deadline=None, max_examples=30)
def test_mixed_rows_equal_enumeration(seed, n, m, forbid):
    rng = np.random.default_rng(seed)
    C = rng.normal(size=(n, m))
    if forbid:
        C[rng.random(C.shape) < 0.3] = -np.inf
    rows, columns = rng.random(n) < 0.5, rng.random(m) < 0.5
    best = -np.inf
    for y in product(range(-1, m), repeat=n):
        used = [j for j in y if j >= 0]
        if len(set(used)) < len(used) or any(r and j < 0 for r, j in zip(rows, y, strict=True)):
            continue
        if set(np.flatnonzero(columns)) - set(used):
            continue
        best = max(best, sum(C[i, j] for i, j in enumerate(y) if j >= 0))
    if best == -np.inf:
        with pytest.raises(InfeasibleSpace):
            assignment.match(C, rows, columns)
        return
    found, value = assignment.match(C, rows, columns)
    assert value == pytest.approx(best, abs=1e-12)
    assert (found[rows] >= 0).all() and set(np.flatnonzero(columns)) <= set(found.tolist())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_numbers_are_refused(value):
    C = C0.copy()
    C[1, 1] = value
    for call in (assignment.assign, assignment.assign_scipy, assignment.match):
        with pytest.raises(DeclarationError, match="NaN"):
            call(C)
    with pytest.raises(DeclarationError, match=r"Example 1.*NaN"):
        assignment.assign_batch(np.stack([C0, C]))
    with pytest.raises(DeclarationError, match="price"):
        assignment.assign(C0, np.array([0, value, 0]))


def test_wrong_shapes_are_named():
    with pytest.raises(DeclarationError, match="transpose"):
        assignment.assign(np.zeros((3, 2)))
    with pytest.raises(DeclarationError, match=r"shape \(3,\)"):
        assignment.assign(C0, np.zeros(2))
