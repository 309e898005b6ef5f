"""Merging duplicated nodes preserves labels, weights and scores (docs/mathematics/hierarchies#duplicates)."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt import norms
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy

TREE = Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)])
DUPLICATED = Hierarchy([("r", "a"), ("a", "b"), ("b", "x"), ("b", "y"), ("r", "c"), ("c", "z"), ("r", "w")])


def test_merges_nodes_above_the_same_leaves():
    small = norms.minimal_graph(DUPLICATED)
    assert set(small.hierarchy.nodes) == {"r", "b", "x", "y", "z", "w"}
    assert small.members("b") == ("a", "b")
    assert small.members("z") == ("c", "z")
    assert set(small.hierarchy.leaves) == {"x", "y", "z", "w"}
    assert repr(small) == "<MinimalGraph: 8 nodes merged to 6>"


@given(seed=st.integers(0, 10**6), extra=st.integers(0, 12))
@settings(max_examples=40, deadline=None)
def test_keeps_the_labels(kit, seed, extra):
    h = kit.random_hierarchy(seed, 12, extra)
    small = norms.minimal_graph(h)
    assert set(small.hierarchy.leaves) == set(h.leaves)
    columns = {h.closure[:, [k]].toarray().tobytes() for k in range(len(h))}
    assert len(columns) == len(small.hierarchy)
    for leaf in h.leaves:
        merged = {small.hierarchy.nodes[small.group[h.index(n)]] for n in h.ancestors(leaf, itself=True)}
        assert merged == set(small.hierarchy.ancestors(leaf, itself=True))
    again = norms.minimal_graph(small.hierarchy)
    assert len(again.hierarchy) == len(small.hierarchy)


def test_figures_of_the_specification():
    alone = Hierarchy([(0, 1), (1, 2), (1, 3), (0, 4)])
    twice = Hierarchy([(0, 10), (10, 1), (1, 2), (1, 3), (0, 4)])
    small = norms.minimal_graph(twice)
    for rho, single, double in ((2, 0.6667, 0.8), (1.5, 0.8, 0.8889), (1.1, 0.99902, 0.99951)):
        assert norms.normalization(alone, rho)[alone.index(1)] == pytest.approx(single, abs=1e-4)
        merged = small.collapse(norms.normalization(twice, rho))
        assert merged[small.hierarchy.index(1)] == pytest.approx(double, abs=1e-4)


def test_theorem_1_nearly_invariant_as_rho_goes_to_one():
    small = norms.minimal_graph(DUPLICATED)
    errors = []
    for rho in (2.0, 1.5, 1.2, 1.1, 1.05, 1.02):
        merged = small.collapse(norms.normalization(DUPLICATED, rho))
        errors.append(np.abs(merged - norms.normalization(small.hierarchy, rho)).max())
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.1
    assert errors[-1] < 1e-4


def test_expanded_vectors_have_the_same_scores_and_norm():
    h = DUPLICATED
    small = norms.minimal_graph(h)
    rng = np.random.default_rng(0)
    W, x = rng.normal(size=(len(small.hierarchy), 3)), rng.normal(size=3)
    K = norms.normalization(small.hierarchy)
    alpha, V = small.expand(K), small.expand_weights(W)
    own = dict(zip(h.leaves, h.closure @ (np.sqrt(alpha) * (V @ x)), strict=True))
    merged = dict(zip(small.hierarchy.leaves, small.hierarchy.closure @ (np.sqrt(K) * (W @ x)), strict=True))
    assert own == pytest.approx(merged)
    assert (V**2).sum() == pytest.approx((W**2).sum())


def test_pickles_and_refuses():
    small = norms.minimal_graph(TREE)
    assert pickle.loads(pickle.dumps(small)).hierarchy == TREE
    with pytest.raises(DeclarationError, match="one number"):
        small.expand([1.0])
    with pytest.raises(DeclarationError, match="one row"):
        small.expand_weights([[1.0]])
    with pytest.raises(DeclarationError, match="Hierarchy"):
        norms.minimal_graph("tree")
