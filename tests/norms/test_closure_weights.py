"""Weights of a single root if labels are closures, which include the empty label."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.estimators.hierarchical import HierarchicalSVM
from structopt.estimators.shared import SharedSVM
from structopt.hierarchy import Hierarchy

STAR = Hierarchy([(0, 1), (0, 2)])
TREE = Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)])
PATH = Hierarchy([(0, 1), (1, 2)])
FOREST = Hierarchy([(0, 1), (2, 3)])
ALONE = Hierarchy([], nodes=[0])
DIAMOND = Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (2, 5)])

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
