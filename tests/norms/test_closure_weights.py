"""Weights of a single root if labels are closures, which include the empty label."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from structopt import norms
from structopt.estimators.hierarchical import HierarchicalSVM
from structopt.estimators.shared import SharedSVM
from structopt.hierarchy import Hierarchy

STAR = Hierarchy([(0, 1), (0, 2)])
TREE = Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)])
PATH = Hierarchy([(0, 1), (1, 2)])
FOREST = Hierarchy([(0, 1), (2, 3)])
ALONE = Hierarchy([], nodes=[0])
DIAMOND = Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (2, 5)])

RULES = {
    "rho": lambda h, root: norms.normalization(h, root=root),
    "rho 1.5": lambda h, root: norms.normalization(h, 1.5, root),
    "directional": lambda h, root: norms.normalization(h, root=root, directional=True),
    "tolerance": lambda h, root: norms.normalization(h, root=root, tolerance=1.5),
    "maxmin": norms.maxmin,
    "shared": lambda h, root: norms.shared_alpha(1.0 + np.array(h.nodes, float), h, root=root),
}
ESTIMATORS = {
    "rho": lambda h, kind: HierarchicalSVM(h, "rho", kind=kind),
    "directional": lambda h, kind: HierarchicalSVM(h, "directional", kind=kind),
    "maxmin": lambda h, kind: HierarchicalSVM(h, "maxmin", kind=kind),
    "shared": lambda h, kind: SharedSVM(h, kind=kind),
}


def closed_rows(h, rows):
    """Remove the nodes without a parent in the row, from the top down."""
    rows = np.array(rows)
    for _ in range(len(h)):
        for parent, child in zip(h.parent, h.child, strict=True):
            rows[:, child] *= rows[:, parent]
    return rows


def separable(h):
    """80 closures with features whose signs determine them."""
    X = np.random.default_rng(0).normal(size=(80, len(h)))
    X += 0.5 * np.sign(X)
    return X, closed_rows(h, (X > 0).astype(int))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("h", [STAR, TREE, PATH, DIAMOND], ids=["star", "tree", "path", "diamond"])
def test_root_weight_equals_that_below_an_additional_top_node(h, rule):
    above = Hierarchy([(-1, 0), *h.edges])
    squares = {"shared": lambda: norms.shared_alpha([0.0, *(1.0 + np.array(h.nodes, float))], above, root=False)}
    expected = squares.get(rule, lambda: RULES[rule](above, False))()
    found = RULES[rule](h, True)
    assert above.nodes[1:] == h.nodes
    assert expected[0] == 0
    assert found[0] > 0.01
    np.testing.assert_allclose(found, expected[1:], atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("h", [STAR, TREE, PATH, FOREST, ALONE], ids=["star", "tree", "path", "forest", "alone"])
def test_closures_of_trees_have_distinct_attributes(h, rule):
    alpha = RULES[rule](h, True)
    labels = np.unique(closed_rows(h, list(product([0, 1], repeat=len(h)))), axis=0)
    attributes = labels * np.sqrt(alpha)
    distance = np.linalg.norm(attributes[:, None] - attributes[None], axis=2)
    assert distance[~np.eye(len(labels), dtype=bool)].min() > 0.1
    if rule != "tolerance":
        np.testing.assert_allclose(np.sqrt(h.closure @ alpha), 1, atol=1e-9)


@pytest.mark.parametrize("h", [DIAMOND, STAR], ids=["diamond", "star"])
def test_maxmin_distinguishes_all_closures(h):
    labels = np.unique(closed_rows(h, list(product([0, 1], repeat=len(h)))), axis=0)
    attributes = labels * np.sqrt(norms.maxmin(h, root=True))
    distance = np.linalg.norm(attributes[:, None] - attributes[None], axis=2)
    assert distance[~np.eye(len(labels), dtype=bool)].min() > 0.1


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("h", [STAR, TREE, PATH, FOREST, ALONE], ids=["star", "tree", "path", "forest", "alone"])
def test_separable_closures_with_the_empty_label_are_learned(h, make):
    X, Y = separable(h)
    assert (Y.sum(axis=1) == 0).mean() > 0.2
    est = ESTIMATORS[make](h, "closure").fit(X, Y)
    assert est.score(X, Y) >= 0.99
    assert (est.alpha_ > 0).all()


@pytest.mark.parametrize("make", ESTIMATORS)
def test_empty_label_is_learned_on_a_dag_with_one_root(make):
    X, Y = separable(DIAMOND)
    est = ESTIMATORS[make](DIAMOND, "closure").fit(X, Y)
    assert est.alpha_[0] > 0
    np.testing.assert_array_equal(est.predict(X)[:, 0], Y[:, 0])


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("kind", ["leaf", "leaves"])
def test_root_has_no_weight_if_every_label_contains_it(kind, make):
    X = np.eye(3)
    y = [4, 3, 2] if kind == "leaf" else [{4}, {3}, {2}]
    alpha = ESTIMATORS[make](TREE, kind).fit(X, y).alpha_
    assert alpha[0] == 0
    if make != "shared":
        expected = {"rho": [0, 2 / 3, 1, 1 / 3, 1 / 3], "directional": [0, 0.5, 1, 0.5, 0.5]}
        np.testing.assert_allclose(alpha, expected.get(make, [0, 0.5, 1, 0.5, 0.5]), atol=1e-7)
