"""Tours compared with a dynamic program; small cuts compared with all sets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import maximum_flow

import structopt as so
from structopt.algorithms import cuts
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.structures import Tour
from structopt.structures.tour import subtours


def cut_values(weights: np.ndarray) -> dict[tuple[bool, ...], float]:
    n = len(weights)
    sides = (np.array(side, dtype=bool) for side in itertools.product([False, True], repeat=n))
    return {tuple(side.tolist()): float(weights[side][:, ~side].sum()) for side in sides if 0 < side.sum() < n}


def cuts_below(weights: np.ndarray, limit: float) -> np.ndarray:
    return np.asarray(cuts.cuts_below(weights, np.zeros(0, dtype=bool), limit))


def test_cuts_below_a_limit():
    rng = np.random.default_rng(0)
    for _ in range(25):
        n = int(rng.integers(2, 8))
        weights = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.6), 1)
        weights += weights.T
        values = cut_values(weights)
        limit = float(rng.choice([0.5, 1.0, 2.0]))
        found = cuts_below(weights, limit)
        assert all(values[tuple(side.tolist())] < limit for side in found)
        assert (len(found) > 0) == (min(values.values()) < limit)


def test_smallest_cuts_equal_maximum_flows():
    rng = np.random.default_rng(1)
    whole = np.triu(rng.integers(0, 9, (12, 12)), 1)
    whole += whole.T
    graph = sp.csr_array(whole.astype(np.int32))
    least = min(maximum_flow(graph, 0, t).flow_value for t in range(1, 12))
    assert len(cuts_below(whole.astype(float), least)) == 0 < len(cuts_below(whole.astype(float), least + 0.5))


def test_the_relaxation_violates_no_subtour_inequality():
    """Of 8 nodes in two clusters, against all sets of nodes."""
    rng = np.random.default_rng(3)
    n = 8
    space = Tour().space(np.zeros((n, n, 1)))
    oracle = so.Oracle(space, integral="relax")
    fractions = 0
    for _ in range(12):
        point = rng.normal(size=(n, 2)) + 4.0 * (np.arange(n) % 2)[:, None]
        z = oracle.maximize(-np.linalg.norm(point[:, None] - point[None], axis=2).ravel()).z.reshape(n, n)
        fractions += not np.allclose(z, np.rint(z))
        assert min(cut_values(z + z.T).values()) >= 2.0 - 2e-5
    assert subtours({"edge": z}) is None


def test_decoding_of_fractions_gives_tours():
    rng = np.random.default_rng(4)
    for directed in (False, True):
        for n in (3, 4, 7):
            model = Tour(directed)
            order = model.decode(rng.random(n * n))
            assert sorted(order.tolist()) == list(range(n))
            assert model.space(np.zeros((n, n, 1))).contains(model.encode(order))


def test_malformed_tours_are_refused():
    model = Tour()
    for label in ([0, 1, 1], [0, 1, 3], [0, 1]):
        with pytest.raises(LabelNotInSpace):
            model.encode(label, np.zeros((3, 3, 1)))
    with pytest.raises(DeclarationError):
        model.encode(["a", "b", "c"])
    with pytest.raises(DeclarationError, match="at least 3"):
        model.space(np.zeros((2, 2, 1)))
    with pytest.raises(DeclarationError, match=r"\(n, n, d\)"):
        model.space(np.zeros((3, 2, 1)))
    with pytest.raises(DeclarationError):
        model.decode(np.zeros(7))
