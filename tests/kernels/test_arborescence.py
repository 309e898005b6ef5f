"""Large arborescences against networkx, and bad input; small ones have a law."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from structopt.algorithms.arborescence import (
    arborescence,
    arborescence_batch,
)
from structopt.errors import DeclarationError


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
    W = np.ones((4, 4))
    W[1, 3] = value
    for flags in product((False, True), repeat=2):
        with pytest.raises(DeclarationError, match="NaN"):
            arborescence(W, *flags)
    with pytest.raises(DeclarationError, match="Example 0"):
        arborescence_batch(W.ravel(), np.array([4]))
