"""The bound of the sweeps holds for any labels and multipliers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt.algorithms.leaf_sets.core import Core, fold, unfold
from structopt.algorithms.leaf_sets.proof import IN, OUT, sweep, value_of
from structopt.hierarchy import Hierarchy
from structopt.structures.hierarchy import HierarchicalLabels

seeds = st.integers(0, 2**32 - 1)


def random_dag(rng, n, most=3):
    edges = [(int(p), i) for i in range(1, n) for p in rng.choice(i, min(i, rng.integers(0, most + 1)), replace=False)]
    return Hierarchy(edges, nodes=range(n))


def folded(core, gain):
    n, m = core.above.size, core.size
    outside = np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n, np.bool_)
    gains = np.zeros(m), np.zeros(m, np.bool_), np.zeros(m)
    full = np.concatenate([[0.0], gain])
    largest = fold(full, core.above, core.place, core.inner, *outside, *gains)
    return outside, gains, largest


def reduced_gains(core, gains, lam, mu):
    g = gains[0] - mu
    np.add.at(g, core.head, mu[core.tail] - lam)
    np.add.at(g, core.tail, lam)
    return g


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(2, 14))
def test_the_bound_holds_whatever_the_label(seed, n):
    rng = np.random.default_rng(seed)
    h = random_dag(rng, n)
    core = Core(h)
    gain = rng.normal(size=n) if rng.random() < 0.7 else rng.integers(-2, 3, n).astype(float)
    _, gains, _ = folded(core, gain)
    best = so.Oracle(HierarchicalLabels(h, "leaves").space().relaxed(), "highs").maximize(gain).value
    m = core.size
    graph = core.up_ptr, core.tail, core.down_ptr, core.kid
    lam, mu, g, room, value = rng.random(core.head.size), *rng.random((4, m))
    ease, paid = 5 * rng.random(m), np.zeros(m, np.bool_)
    for _ in range(3):
        state = rng.choice([OUT, IN], m)
        bound = sweep(*graph, *gains, state, lam, mu, g, room, ease, paid, value)
        assert bound >= best - 1e-9 * (1 + np.abs(gain).sum())
        # The bound is that of its multipliers, all of which are allowed: a child outside is never worth anything.
        assert (lam >= 0).all() and (mu >= 0).all() and (mu <= -gains[2] + 1e-9)[gains[1]].all()
        assert not mu[~gains[1]].any()
        np.testing.assert_allclose(g, reduced_gains(core, gains, lam, mu), atol=1e-9)
        assert bound == pytest.approx(g[0] + np.maximum(g[1:], 0.0).sum())


def test_value_of_a_point_counts_children_outside_the_core():
    # 0 over 1 and 2; 3 is a child of both, 4 of 1 alone: 4 is outside the core.
    h = Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3), (1, 4)])
    core = Core(h)
    assert core.size == 5 and core.place.tolist() == [0, 1, 2, 3, 4, -1]
    outside, gains, largest = folded(core, np.array([1.0, 2.0, -3.0, -5.0, -0.5]))
    assert largest == 5.0 and gains[1].tolist() == [True, True, True, True, False]
    x, s, z = np.array([1.0, 1.0, 1.0, 0.0, 0.0]), np.empty(5), np.empty(6)
    assert value_of(core.down_ptr, core.kid, *gains, x, s) == pytest.approx(2.5)
    unfold(x, s, core.above, core.place, core.inner, *outside, z)
    assert z.tolist() == [1, 1, 1, 0, 0, 1]
