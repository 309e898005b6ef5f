"""Boxes, simplices and cardinality groups against enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt.algorithms import cardinality
from structopt.errors import DeclarationError, InfeasibleSpace, UnboundedObjective


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.booleans())
@settings(deadline=None, max_examples=200)
def test_groups_equal_enumeration(seed, n, ties):
    rng = np.random.default_rng(seed)
    C = rng.integers(-2, 3, (3, n)).astype(float) if ties else rng.normal(size=(3, n))
    group = rng.integers(-1, 3, n)
    columns = np.concatenate([np.flatnonzero(group == g) for g in range(3)])
    size = np.bincount(group[group >= 0], minlength=3)
    ptr = np.r_[0, np.cumsum(size)]
    lower = rng.integers(-1, size + 1)
    upper = lower + rng.integers(0, 3, 3)
    upper = np.maximum(upper, 0)
    Y = np.array(list(product((0, 1), repeat=n)))
    ok = np.ones(len(Y), bool)
    for g in range(3):
        total = Y[:, group == g].sum(axis=1)
        ok &= (lower[g] <= total) & (total <= upper[g])
    Y = Y[ok]
    z, values = cardinality.choose_batch(C, ptr, columns, lower, upper)
    for c, label, value in zip(C, z, values, strict=True):
        v = Y @ c
        assert (label == Y).all(axis=1).any()
        assert value == pytest.approx(v.max(), abs=1e-12)
        if ties:
            # Fewest ones, then the first variables: the largest code among the shortest optimal labels.
            best = Y[v == v.max()]
            best = best[best.sum(axis=1) == best.sum(axis=1).min()]
            assert label.astype(int).tolist() == max(best.tolist())


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.booleans())
@settings(deadline=None, max_examples=100)
def test_top_k_equals_sorting(seed, n, ties):
    rng = np.random.default_rng(seed)
    c = rng.integers(-3, 4, n).astype(float) if ties else rng.normal(size=n)
    k = int(rng.integers(0, n + 1))
    order = np.argsort(-c, kind="stable")
    z, value = cardinality.top_k(c, k, exactly=True)
    assert np.flatnonzero(z).tolist() == sorted(order[:k].tolist())
    z, value = cardinality.top_k(c, k)
    expected = [i for i in order[:k] if c[i] > 0]
    assert np.flatnonzero(z).tolist() == sorted(expected) and value == pytest.approx(c[expected].sum(), abs=1e-12)


def test_simplex_takes_the_first_best():
    index, values = cardinality.first_best([[1, 3, 3], [-2, -2, -5]])
    assert index.tolist() == [1, 0] and values.tolist() == [3, -2]
    with pytest.raises(InfeasibleSpace):
        cardinality.first_best(np.zeros((2, 0)))


def test_box():
    z, value = cardinality.box([2, -3, 0, 0], [-1, -1, -np.inf, -np.inf], [4, 4, 5, np.inf])
    assert z.tolist() == [4, -1, 5, 0] and value == 11
    with pytest.raises(UnboundedObjective, match="Variable 1"):
        cardinality.box([1, 1], 0, [1, np.inf])
    with pytest.raises(InfeasibleSpace, match="Variable 0"):
        cardinality.box([1.0], 2, 1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_costs_must_be_finite(value):
    c = np.array([1, value, 2])
    for call in (cardinality.box, lambda x: cardinality.top_k(x, 2)):
        with pytest.raises(DeclarationError, match="Cost 1"):
            call(c)
    if value != -np.inf:
        with pytest.raises(DeclarationError, match="Cost 1"):
            cardinality.first_best(c[None])


@pytest.mark.parametrize(
    ("ptr", "columns", "lower", "upper", "error", "message"),
    [
        ([0, 2], [0, 1], [2], [1], InfeasibleSpace, "Group 0"),
        ([0, 2], [0, 1], [3], [4], InfeasibleSpace, "Group 0"),
        ([0, 2], [0, 1], [-2], [-1], InfeasibleSpace, "Group 0"),
        ([0, 1, 2], [0, 0], [0, 0], [1, 1], DeclarationError, "Variable 0 is in more"),
        ([0, 1], [3], [0], [1], DeclarationError, r"0\.\.2"),
        ([0, 3], [0, 1], [0], [1], DeclarationError, "ptr"),
        ([0, 2], [0, 1], [0, 0], [1], DeclarationError, "1 groups"),
    ],
)
def test_wrong_groups_are_named(ptr, columns, lower, upper, error, message):
    with pytest.raises(error, match=message):
        cardinality.choose([1.0, 2.0, 3.0], ptr, columns, lower, upper)
