"""A chosen solver trains estimators of hierarchies and pairwise models; other structures have a law."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.backends.highs import Highs

X = np.random.default_rng(0).normal(size=(4, 2))
TAGS = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1]])
TREE = [("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")]


class Counting(Highs):
    """HiGHS that counts what it is asked."""

    asked = 0

    def run(self, *args, **kwargs):
        type(self).asked += 1
        return super().run(*args, **kwargs)


def test_cbc_on_a_pairwise_model():
    own = so.StructuredSVM(so.structures.PairwiseMRF(3), lam=0.1).fit(X, TAGS)
    cbc = so.StructuredSVM(so.structures.PairwiseMRF(3, solver="cbc"), lam=0.1, tol=1e-2).fit(X, TAGS)
    assert cbc.result_.objective == pytest.approx(own.result_.objective, rel=2e-2)
    assert np.asarray(cbc.predict(X)).shape == (4, 3)


@pytest.mark.parametrize("family", [so.HierarchicalSVM, so.SharedSVM])
def test_hierarchical_estimators(family):
    own = family(TREE, lam=0.1).fit(X, ["cat", "dog", "oak", "cat"])
    Counting.asked = 0
    chosen = family(TREE, lam=0.1, solver=Counting).fit(X, ["cat", "dog", "oak", "cat"])
    assert Counting.asked > 0
    assert chosen.result_.objective == pytest.approx(own.result_.objective, rel=5e-3)
    Counting.asked = 0
    assert list(chosen.predict(X)) == list(own.predict(X)) and Counting.asked >= 4
