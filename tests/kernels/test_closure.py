"""Closure kernels against enumeration, HiGHS and each other."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from scipy.sparse import coo_array

from structopt.algorithms.closure import ClosureAlgorithm
from structopt.errors import DeclarationError


class Graph(NamedTuple):
    n: int
    child: np.ndarray
    parent: np.ndarray

    @property
    def algorithm(self) -> ClosureAlgorithm:
        return ClosureAlgorithm(*self)

    def solve(self, weights: np.ndarray) -> np.ndarray:
        return self.algorithm.maximize(np.array(weights, float)).z

    @property
    def is_forest(self) -> bool:
        return self.algorithm.forest is not None


def random_dag(rng: np.random.Generator, n: int, n_arcs: int) -> Graph:
    ends = np.sort(rng.integers(0, n, (n_arcs, 2)), axis=1)
    parent, child = ends[ends[:, 0] < ends[:, 1]].T
    names = rng.permutation(n)
    return Graph(n, names[child], names[parent])


def random_forest(rng: np.random.Generator, n: int) -> Graph:
    names = rng.permutation(n)
    child = np.flatnonzero(rng.random(n) < 0.9)
    child = child[child > 0]
    return Graph(n, names[child], names[(child * rng.random(child.size)).astype(int)])


def optimal_closures(graph: Graph, weights: np.ndarray) -> np.ndarray:
    Y = np.array(list(product((0.0, 1.0), repeat=graph.n)))
    Y = Y[(Y[:, graph.child] <= Y[:, graph.parent]).all(axis=1)]
    values = Y @ weights
    return Y[values == values.max()]


@st.composite
def digraphs(draw):
    """Any digraph, cycles and parallel arcs included, with small integer weights, where ties abound."""
    n = draw(st.integers(1, 7))
    arc = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda a: a[0] != a[1])
    arcs = draw(st.lists(arc, max_size=10)) if n > 1 else []
    weights = draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    child = np.array([a for a, _ in arcs], int)
    parent = np.array([b for _, b in arcs], int)
    return Graph(n, child, parent), np.array(weights, float)


@settings(max_examples=50, deadline=None)
@given(digraphs())
def test_smallest_optimum(model):
    graph, weights = model
    optima = optimal_closures(graph, weights)
    assert_array_equal(graph.solve(weights), optima.min(axis=0))


def test_forest_program_is_the_cut():
    rng = np.random.default_rng(0)
    for n in (1, 5, 30):
        for _ in range(5):
            forest = random_forest(rng, n)
            assert forest.is_forest
            # Nodes that are never chosen, one of them with two parents, change nothing but the algorithm.
            child, parent = np.append(forest.child, [n + 2, n + 2]), np.append(forest.parent, [n, n + 1])
            cut = Graph(n + 3, child, parent)
            assert not cut.is_forest
            weights = np.rint(2 * rng.normal(size=n))
            assert_array_equal(forest.solve(weights), cut.solve(np.append(weights, [-1.0] * 3))[:n])


@pytest.mark.parametrize(
    ("child", "parent", "is_forest"),
    [
        ([], [], True),
        ([1, 2], [0, 1], True),
        ([1, 2, 1], [0, 1, 0], True),
        ([1, 1], [0, 2], False),
        ([0, 1, 2], [1, 2, 0], False),
    ],
)
def test_what_is_a_forest(child, parent, is_forest):
    assert Graph(3, np.array(child, int), np.array(parent, int)).is_forest == is_forest


@pytest.mark.parametrize(("n", "n_arcs"), [(40, 60), (200, 320)])
def test_value_of_highs(n, n_arcs):
    rng = np.random.default_rng(n)
    graph = random_dag(rng, n, n_arcs)
    rows = np.arange(graph.child.size)
    A = coo_array((np.ones(rows.size), (rows, graph.child)), (rows.size, n)) - coo_array(
        (np.ones(rows.size), (rows, graph.parent)), (rows.size, n)
    )
    for _ in range(5):
        weights = rng.normal(size=n) - 0.2
        y = graph.solve(weights)
        assert (y[graph.child] <= y[graph.parent]).all()
        lp = linprog(-weights, A.tocsr(), np.zeros(rows.size), bounds=(0, 1), method="highs")
        assert_allclose(weights @ y, -lp.fun, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("integral", [False, True])
def test_warm_answers_are_the_cold_answers(cyclic, integral):
    rng = np.random.default_rng(1)
    graph = random_dag(rng, 30, 60)
    if cyclic:
        back = slice(0, 60, 10)
        child, parent = np.append(graph.child, graph.parent[back]), np.append(graph.parent, graph.child[back])
        graph = Graph(30, child, parent)
    assert not graph.is_forest
    solver = graph.algorithm
    weights = rng.normal(size=30)
    for step in range(100):
        weights = weights + 0.3 * rng.normal(size=30)
        w = weights * (10.0 ** rng.integers(-15, 15) if step % 30 == 0 else 1.0)
        if step % 50 == 25:
            w = -w
        if integral:
            w = np.rint(2 * w)
        assert_array_equal(solver.maximize(w, key="a").z, graph.solve(w))
    flow = solver._flows["a"].flow
    assert flow.any() and (flow >= 0).all()


@pytest.mark.parametrize("scale", [1e-280, 1e30, 1.7e308])
def test_scale_does_not_matter(scale):
    rng = np.random.default_rng(3)
    weights = rng.normal(size=20)
    weights /= abs(weights).max()
    for graph in (random_dag(rng, 20, 40), random_forest(rng, 20)):
        assert_array_equal(graph.solve(scale * weights), graph.solve(weights))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_gains_must_be_finite(bad):
    for parent in ([0, 0], [0, 1]):
        solver = ClosureAlgorithm(3, np.array([1, 2]), np.array(parent))
        with pytest.raises(DeclarationError, match="Gain 0 of example 1 is"):
            solver.maximize_batch(np.array([[0.0, 1, 2], [bad, 0, 1]]))
