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


def needed_child_by_definition(gain, parent):
    """The recursion word for word, with the rule for ties."""
    n = len(parent)
    children = [np.flatnonzero(parent == i) for i in range(-1, n)]
    v = np.empty(n)
    for i in range(n - 1, -1, -1):
        c = v[children[i + 1]]
        v[i] = gain[i] + (0 if not len(c) else c[c > 0][::-1].sum() if (c > 0).any() else c.max())
    chosen = np.zeros(n, bool)
    stack = [-1]
    while stack:
        c = children[stack.pop() + 1]
        if len(c):
            take = c[v[c] > 0] if (v[c] > 0).any() else c[[v[c].argmax()]]
            chosen[take] = True
            stack.extend(take)
    return chosen


trees = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 9), st.booleans(), st.booleans())


@pytest.mark.parametrize(
    ("gain", "nodes", "value"),
    [((-1, 0.5, -2, -0.3, -0.4), [0, 1, 3], -0.8), ((0.2, -3, 1, 1, 2), [0, 2], 1.2)],
)
def test_the_examples(gain, nodes, value):
    chosen, found = tree.needed_child(gain, PARENT)
    assert np.flatnonzero(chosen).tolist() == nodes and found == pytest.approx(value, abs=1e-15)


@given(trees)
@settings(deadline=None, max_examples=40)
def test_needed_child_equals_enumeration(case):
    gain, parent = instance(*case)
    chosen, value = tree.needed_child(gain, parent)
    Y = enumerate_sets(parent)
    assert (chosen == Y).all(axis=1).any()
    assert value == pytest.approx((Y @ gain).max(), abs=1e-12)
    if case[2]:
        assert chosen.tolist() == needed_child_by_definition(gain, parent).tolist()


@given(trees)
@settings(deadline=None, max_examples=25)
def test_best_leaf_is_the_first_best(case):
    gain, parent = instance(*case)
    leaves = np.setdiff1d(np.arange(len(parent)), parent)
    sums = []
    for leaf in leaves:
        total, i = 0.0, leaf
        while i >= 0:
            total, i = total + gain[i], parent[i]
        sums.append(total)
    leaf, value = tree.best_leaf(gain, parent)
    assert value == pytest.approx(max(sums), abs=1e-12)
    if case[2]:
        assert leaf == leaves[int(np.argmax(sums))]


@given(trees, st.integers(1, 20))
@settings(deadline=None, max_examples=25)
def test_every_root_of_several_trees(case, k):
    gain, parent = instance(case[0], case[1], case[2], True)
    Y = enumerate_sets(parent)
    Y = Y[Y[:, parent < 0].all(axis=1)]
    v = np.sort(Y @ gain)[::-1]
    chosen, value = tree.needed_child(gain, parent, every_root=True)
    assert (chosen == Y).all(axis=1).any() and value == pytest.approx(v[0], abs=1e-12)
    both, values = tree.needed_child_batch(np.stack([gain, -gain], axis=1), parent, every_root=True)
    assert (both[:, 0] == chosen).all() and values[1] == pytest.approx((Y @ -gain).max(), abs=1e-12)
    rows, values = tree.k_best(gain, parent, k, every_root=True)
    np.testing.assert_allclose(values, v[:k], atol=1e-12)
    listed = {tuple(row) for row in rows.astype(int).tolist()}
    assert len(listed) == len(rows) and listed <= {tuple(row) for row in Y.tolist()}


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
        lambda: tree.best_leaf(gain, PARENT),
        lambda: tree.k_best(gain, PARENT, 2),
        lambda: loss_front(gain, PARENT, np.ones(5, int)),
    ):
        with pytest.raises(DeclarationError, match="finite"):
            call()


@pytest.mark.parametrize("parent", [[0, 0], [-1, 1], [-1, 2], [-1, -2], [-1], []])
def test_wrong_parents_are_refused(parent):
    with pytest.raises(DeclarationError, match="parents before children"):
        tree.needed_child([1.0, 2.0], np.array(parent, dtype=int))
