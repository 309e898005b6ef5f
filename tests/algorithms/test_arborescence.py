"""Arborescences against enumeration of head vectors and the examples of docs/mathematics/oracles#arborescences."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt.algorithms.arborescence import (
    arborescence,
    arborescence_batch,
    covariance_products,
    sample,
    sums,
)
from structopt.errors import DeclarationError, InfeasibleSpace, LabelNotInSpace
from structopt.structures import Arborescence


def example(*root_arcs):
    W = np.zeros((4, 4))
    W[0, 1:] = root_arcs
    W[1, 2:], W[2, [1, 3]], W[3, [1, 2]] = (11, 4), (10, 5), (9, 8)
    return W


def crosses(heads):
    """Whether two arcs cross, with node 0 in front."""
    arcs = [tuple(sorted((h, m))) for m, h in enumerate(heads, 1)]
    return any(a < c < b < d for a, b in arcs for c, d in arcs)


@cache
def all_heads(n, single_root, projective):
    found = []
    for heads in product(range(n), repeat=n - 1):
        reached = {0}
        for _ in heads:
            reached |= {m for m, h in enumerate(heads, 1) if h in reached}
        if len(reached) < n or (single_root and heads.count(0) != 1) or (projective and crosses(heads)):
            continue
        found.append(heads)
    return np.array(found).reshape(len(found), n - 1)


def enumerate_trees(W, single_root, projective):
    Y = all_heads(len(W), single_root, projective)
    v = W[Y, np.arange(1, len(W))].sum(axis=1)
    return Y[v > -np.inf], v[v > -np.inf]


def instance(seed, n, ties, forbid):
    rng = np.random.default_rng(seed)
    W = rng.integers(-3, 4, (n, n)).astype(float) if ties else rng.normal(size=(n, n))
    if forbid:
        W[rng.random(W.shape) < 0.35] = -np.inf
    # Neither column 0 nor the diagonal may be read.
    W[:, 0] = W[np.arange(n), np.arange(n)] = np.nan
    return W


cases = st.tuples(st.integers(0, 2**32 - 1), st.integers(2, 5), st.booleans(), st.booleans())


def test_the_examples():
    heads, value = arborescence(example(5, 1, 1))
    assert value == 21 and heads.tolist() in ([0, 1, 2], [3, 1, 0])
    for projective in (False, True):
        heads, value = arborescence(example(5, 20, 18), projective=projective)
        assert value == 48 and heads.tolist() == [2, 0, 0]
        heads, value = arborescence(example(5, 20, 18), single_root=True, projective=projective)
        assert value == 38 and heads.tolist() == [3, 1, 0]


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("single_root", [False, True])
@given(case=cases)
@settings(deadline=None, max_examples=20)
def test_equals_enumeration(case, single_root, projective):
    W = instance(*case)
    Y, v = enumerate_trees(W, single_root, projective)
    if not len(Y):
        with pytest.raises(InfeasibleSpace):
            arborescence(W, single_root, projective)
        return
    heads, value = arborescence(W, single_root, projective)
    assert value == pytest.approx(v.max(), abs=1e-12)
    assert (heads == Y).all(axis=1).any()
    assert W[heads, np.arange(1, len(W))].sum() == pytest.approx(value, abs=1e-12)


def test_larger_trees_agree_with_networkx():
    networkx = pytest.importorskip("networkx")
    rng = np.random.default_rng(0)
    for n in (10, 20):
        for _ in range(2):
            W = rng.normal(size=(n, n))
            graph = networkx.DiGraph()
            graph.add_weighted_edges_from((h, m, W[h, m]) for h in range(n) for m in range(1, n) if h != m)
            best = networkx.maximum_spanning_arborescence(graph).size(weight="weight")
            assert arborescence(W)[1] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_input_is_refused(value):
    W = example(1, 2, 3)
    W[1, 3] = value
    for flags in product((False, True), repeat=2):
        with pytest.raises(DeclarationError, match="NaN"):
            arborescence(W, *flags)
    with pytest.raises(DeclarationError, match="Example 0"):
        arborescence_batch(W.ravel(), [4])
    with pytest.raises(DeclarationError, match="square"):
        arborescence(np.zeros((2, 3)))
    with pytest.raises(DeclarationError, match="needs 9"):
        arborescence_batch(np.zeros(8), [3])


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("tokens", [1, 4])
def test_sums_over_all_trees(single_root, tokens, projective):
    rng = np.random.default_rng(tokens)
    W, V = 2.0 * rng.normal(size=(2, 2, tokens + 1, tokens + 1))
    rules = Arborescence(single_root=single_root, projective=projective)
    trees = []
    for heads in product(range(tokens + 1), repeat=tokens):
        try:
            trees.append(rules.heads(heads))
        except LabelNotInSpace:
            continue
    log_z, arcs = sums(W, single_root, projective)
    products = covariance_products(W, V, single_root, projective)
    columns = np.arange(tokens) + 1
    for k in range(2):
        totals = np.array([W[k][heads, columns].sum() for heads in trees])
        expected = np.logaddexp.reduce(totals)
        means, change = np.zeros((2, tokens + 1, tokens + 1))
        shares = np.exp(totals - expected)
        along = np.array([V[k][heads, columns].sum() for heads in trees])
        for heads, p, d in zip(trees, shares, shares * (along - shares @ along), strict=True):
            means[heads, columns] += p
            change[heads, columns] += d
        np.testing.assert_allclose(products[k], change, atol=1e-12)
        assert log_z[k] == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(arcs[k], means, atol=1e-12)
    drawn = sample(W[1], 4000, rng, single_root, projective)
    shares = np.zeros((tokens + 1, tokens + 1))
    for heads in drawn:
        rules.heads(heads)
        shares[heads, columns] += 1 / 4000
    assert np.abs(shares - means).max() < 0.04
