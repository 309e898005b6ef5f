"""The picture of a hierarchy shows every node, its weight, and the confusions that are there."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch

import structopt as so
from structopt.errors import DeclarationError
from structopt.estimators.hierarchical import HierarchicalSVM
from structopt.plot.hierarchy import hierarchy

TREE = so.Hierarchy([("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")])


def fitted() -> tuple[HierarchicalSVM, np.ndarray, np.ndarray]:
    X = np.repeat(np.eye(3), 10, axis=0)
    y = np.repeat(["cat", "dog", "oak"], 10)
    return HierarchicalSVM(TREE, lam=0.1, tol=0.1).fit(X, y), X, y


def test_nodes_and_weights():
    est, _, _ = fitted()
    ax = hierarchy(est)
    (drawn,) = ax.collections
    assert np.array_equal(drawn.get_array(), est.alpha_)
    assert {text.get_text() for text in ax.texts} == set(TREE.nodes)
    assert not [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]


def test_confusions_are_those_of_the_predictions():
    est, X, y = fitted()
    truth = np.where(np.arange(30) < 4, "dog", y)  # four cats are called dogs
    ax = hierarchy(est, X, truth)
    arcs = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    assert len(arcs) == 1 and "1 largest confusions, 4 examples" in ax.get_title()
    place = {text.get_text(): text.xy for text in ax.texts}
    start, end = arcs[0]._posA_posB
    assert start == place["dog"] and end == place["cat"]


def test_dags_and_bad_input():
    assert len(hierarchy(so.Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3)])).texts) == 4
    with pytest.raises(DeclarationError, match="fitted"):
        hierarchy(HierarchicalSVM(TREE))
    with pytest.raises(DeclarationError, match="both X and y"):
        hierarchy(fitted()[0], np.eye(3))
