"""Data for hierarchical SVMs; fixtures, because test modules cannot import a conftest in importlib mode."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.structures.hierarchy import HierarchicalLabels


@pytest.fixture(scope="session")
def leaf_data():
    """Leaves with the largest sum of random node scores, plus noise."""

    def make(h: so.Hierarchy, n: int = 60, d: int = 6, seed: int = 0):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        W = rng.normal(size=(len(h), d))
        potential = X @ (h.closure @ W).T + rng.normal(size=(n, h.leaf_index.size))
        return X, np.array(h.leaves)[potential.argmax(axis=1)]

    return make


@pytest.fixture(scope="session")
def leaf_set_data(leaf_data):
    """The sets of leaves that random node scores prefer."""

    def make(h: so.Hierarchy, n: int = 40, d: int = 5, seed: int = 0):
        X, _ = leaf_data(h, n, d, seed)
        W = np.random.default_rng(seed + 1).normal(size=(len(h), d))
        z = HierarchicalLabels(h, "leaves").batch(X)
        labels, _ = z.argmax(z.tables(W.ravel()))
        return X, z.decode(labels)

    return make
