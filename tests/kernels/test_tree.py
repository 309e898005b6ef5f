"""Tree kernels against enumeration and the example of docs/mathematics/oracles#needed-child-trees."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt.algorithms.tree import labels as tree
from structopt.algorithms.tree.front import loss_front
from structopt.errors import DeclarationError

PARENT = np.array([-1, 0, 0, 1, 1])


def instance(seed, n, ties, forest):
    rng = np.random.default_rng(seed)
    parent = np.array([rng.integers(-1 if forest else 0, i) if i else -1 for i in range(n)])
    gain = rng.integers(-2, 3, n).astype(float) if ties else rng.normal(size=n)
    return gain, parent


def enumerate_sets(parent):
    """Every needed-child set as a 0/1 row, in lexicographic order."""
    n = len(parent)
    Y = np.array(list(product((0, 1), repeat=n)))
    ok = Y[:, parent < 0].any(axis=1)
    for i in range(n):
        children = np.flatnonzero(parent == i)
        if parent[i] >= 0:
            ok &= Y[:, i] <= Y[:, parent[i]]
        if len(children):
            ok &= Y[:, children].any(axis=1) | (Y[:, i] == 0)
    return Y[ok]


trees = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 9), st.booleans(), st.booleans())


@given(trees, st.sampled_from(["leaf", "hamming", "any"]))
@settings(deadline=None, max_examples=40)
def test_loss_front_equals_enumeration(case, kind):
    gain, parent = instance(*case)
    rng = np.random.default_rng(case[0])
    Y = enumerate_sets(parent)
    loss = 1 - 2 * Y[rng.integers(len(Y))]
    if kind == "leaf":
        loss = np.where(np.isin(np.arange(len(parent)), parent), 0, loss)
    if kind == "any":
        loss = rng.integers(-3, 4, len(parent))
    v, g = Y @ gain, Y @ loss
    losses, values, chosen = loss_front(gain, parent, loss)
    assert losses.tolist() == np.unique(g).tolist()
    for e, value, row in zip(losses, values, chosen, strict=True):
        assert value == pytest.approx(v[g == e].max(), abs=1e-12)
        assert (row == Y).all(axis=1).any() and row @ loss == e and row @ gain == pytest.approx(value, abs=1e-12)
    # Exact for every psi that does not decrease in h: slack, and one that is not concave.
    shift = -g.min()
    for psi in (lambda h, g: (h + 1) * (g + shift), lambda h, g: np.exp(h) + (g - 1) ** 2):
        assert psi(values, losses).max() == pytest.approx(psi(v, g).max(), abs=1e-9)


def test_a_deep_and_a_wide_front():
    n = 300
    rng = np.random.default_rng(0)
    gain = rng.normal(size=n)
    losses, values, _ = loss_front(gain, np.arange(-1, n - 1), np.ones(n, int))
    assert losses.tolist() == [n] and values[0] == pytest.approx(gain.sum())
    star = np.r_[-1, np.zeros(n - 1, int)]
    losses, values, _ = loss_front(gain, star, np.r_[0, np.ones(n - 1, int)])
    np.testing.assert_allclose(values, gain[0] + np.cumsum(np.sort(gain[1:])[::-1]), atol=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_gains_must_be_finite(value):
    gain = np.array([0, value, 1, 1, 1])
    for call in (
        lambda: tree.needed_child(gain, PARENT),
        lambda: tree.needed_child_batch(gain[:, None], PARENT),
        lambda: tree.best_leaf_batch(gain[:, None], PARENT),
        lambda: tree.k_best(gain, PARENT, 2),
        lambda: loss_front(gain, PARENT, np.ones(5, int)),
    ):
        with pytest.raises(DeclarationError, match="finite"):
            call()


@pytest.mark.parametrize("parent", [[0, 0], [-1, 1], [-1, 2], [-1, -2], [-1], []])
def test_wrong_parents_are_refused(parent):
    with pytest.raises(DeclarationError, match="parents before children"):
        tree.needed_child([1.0, 2.0], np.array(parent, dtype=int))
