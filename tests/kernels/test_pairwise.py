"""Pairwise kernels against enumeration, HiGHS and each other."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog

from structopt.algorithms.maxflow import FlowState
from structopt.algorithms.pairwise.algorithm import PairwiseAlgorithm
from structopt.algorithms.pairwise.graph import PairwiseGraph
from structopt.errors import DeclarationError


def full(n: int) -> PairwiseGraph:
    return PairwiseGraph(n, *np.triu_indices(n, 1))


def solve(graph: PairwiseGraph, unary: np.ndarray, pair: np.ndarray, state: FlowState | None = None):
    """Labels, pairs and value of the relaxation, warmed by row 1 of a state."""
    Z, values = graph.solve_points([unary], [pair], state, np.array([0 if state is None else 1]))
    return Z[0, : graph.n_labels], Z[0, graph.n_labels :], values[0]


def solve_exact(graph: PairwiseGraph, unary: np.ndarray, pair: np.ndarray):
    return tuple(answer[0] for answer in graph.solve_exact([unary], [pair]))


def best_pairs(graph: PairwiseGraph, Y: np.ndarray, pair: np.ndarray) -> np.ndarray:
    a, b = Y[:, graph.i], Y[:, graph.j]
    return np.where(pair >= 0, np.minimum(a, b), np.maximum(0, a + b - 1))


def grid_values(graph: PairwiseGraph, grid: tuple[float, ...], unary: np.ndarray, pair: np.ndarray):
    """All labels over the grid in lexicographic order, and their values with the best p."""
    Y = np.array(list(product(grid, repeat=graph.n_labels)))
    return Y, Y @ unary + best_pairs(graph, Y, pair) @ pair


def lp_value(graph: PairwiseGraph, unary: np.ndarray, pair: np.ndarray) -> float:
    n, m = graph.n_labels, graph.n_edges
    A = np.zeros((3 * m, n + m))
    e = np.arange(m)
    A[e, graph.i] = A[m + e, graph.j] = -1
    A[2 * m + e, graph.i] = A[2 * m + e, graph.j] = 1
    A[e, n + e] = A[m + e, n + e] = 1
    A[2 * m + e, n + e] = -1
    b = np.concatenate((np.zeros(2 * m), np.ones(m)))
    return -linprog(-np.concatenate((unary, pair)), A, b, bounds=(0, 1), method="highs").fun


def random_costs(rng: np.random.Generator, graph: PairwiseGraph, coupling: float = 1.0, integral: bool = False):
    unary = rng.normal(size=graph.n_labels)
    pair = coupling * rng.normal(size=graph.n_edges)
    if integral:
        return np.rint(2 * unary), np.rint(2 * pair)
    return unary, pair


@st.composite
def models(draw, max_labels: int = 6):
    """A random graph (parallel edges possible) with small integer costs, where ties abound."""
    n = draw(st.integers(1, max_labels))
    possible = [*combinations(range(n), 2)] * 2
    edges = draw(st.lists(st.sampled_from(possible), max_size=12)) if possible else []
    costs = st.integers(-4, 4)
    unary = draw(st.lists(costs, min_size=n, max_size=n))
    pair = draw(st.lists(costs, min_size=len(edges), max_size=len(edges)))
    i = np.array([a for a, _ in edges], int)
    j = np.array([b for _, b in edges], int)
    return PairwiseGraph(n, i, j), np.array(unary, float), np.array(pair, float)


@settings(max_examples=50, deadline=None)
@given(models())
def test_relaxation_is_the_stated_optimum(model):
    graph, unary, pair = model
    y, p, value = solve(graph, unary, pair)
    Y, values = grid_values(graph, (0.0, 0.5, 1.0), unary, pair)
    assert value == values.max()
    optima = Y[values == values.max()]
    halves = (optima == 0.5).sum(axis=1)
    assert_array_equal(y, optima[halves == halves.min()][0])
    assert_array_equal(p, best_pairs(graph, y[None], pair)[0])
    assert value == unary @ y + pair @ p


@settings(max_examples=40, deadline=None)
@given(models(max_labels=8))
def test_exact_is_the_smallest_best_label(model):
    graph, unary, pair = model
    y, value, proved = solve_exact(graph, unary, pair)
    Y, values = grid_values(graph, (0.0, 1.0), unary, pair)
    assert proved
    assert value == values.max()
    assert_array_equal(y, Y[np.argmax(values)])


def test_examples_of_the_specification():
    triangle = full(3)
    y, p, value = solve(triangle, [1, 1, 1], [-2, -2, -2])
    assert (y.tolist(), p.tolist(), value) == ([0.5] * 3, [0.0] * 3, 1.5)
    assert solve_exact(triangle, [1, 1, 1], [-2, -2, -2])[1:] == (1.0, True)

    four = full(4)  # edges 01 02 03 12 13 23
    unary, pair = [3, 1, 1, 1], [-0.5, -0.5, -0.5, -2, -2, -2]
    y, p, value = solve(four, unary, pair)
    assert (y.tolist(), p.tolist(), value) == ([1, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0, 0, 0], 3.75)
    assert solve_exact(four, unary, pair)[1:] == (3.5, True)

    unary, pair = [2, -1, 0.5], [1.5, -1, 0.5]
    y, _, value = solve(triangle, unary, pair)
    assert (y.tolist(), value) == ([1, 1, 0], 2.5)


def test_zero_objective():
    graph = full(5)
    zeros = np.zeros(5), np.zeros(10)
    assert solve(graph, *zeros)[0].tolist() == [0] * 5
    assert solve_exact(graph, *zeros)[0].tolist() == [0] * 5


@pytest.mark.parametrize("coupling", [0.1, 1.0])
@pytest.mark.parametrize("integral", [False, True])
def test_warm_answers_are_the_cold_answers(coupling, integral):
    """Drift with changes of sign, of scale, and in and out of the sub-modular case."""
    rng = np.random.default_rng(3)
    graph = full(9)
    state = graph.warm_state(2)
    unary, pair = random_costs(rng, graph, coupling)
    for step in range(80):
        unary = unary + 0.2 * rng.normal(size=9)
        pair = pair + 0.2 * coupling * rng.normal(size=36)
        scale = 10.0 ** rng.integers(-12, 12) if step % 20 == 0 else 1.0
        u, c = scale * unary, scale * (np.abs(pair) if step % 7 == 3 else pair)
        if integral:
            u, c = np.rint(u), np.rint(c)
        warm = solve(graph, u, c, state)
        cold = solve(graph, u, c)
        for a, b in zip(warm, cold, strict=True):
            assert_array_equal(a, b)
    assert not state.flow[0].any()
    assert coupling < 1.0 or state.flow[1].any()  # weak couplings decide nothing


@pytest.mark.parametrize("integral", [False, True])
@pytest.mark.parametrize("n_free", [0, 1, 4, 12])
def test_most_labels_are_decided_by_their_own_coefficients(n_free, integral):
    """As after training on many labels: few are open, and these are solved by themselves."""
    rng, n = np.random.default_rng(n_free), 24
    graph = full(n)
    state = graph.warm_state(6)
    U = np.where(rng.random((6, n)) < 0.2, 9.0, -9.0) + rng.normal(size=(6, n))
    for row in U:
        row[rng.choice(n, n_free, replace=False)] = rng.normal(size=n_free)
    P = np.where(rng.random((1, graph.n_edges)) < 0.9, -1.0, 1.0) * rng.random((1, graph.n_edges))
    if integral:
        U, P = np.rint(U), np.rint(P)
    shared = np.broadcast_to(P, (6, graph.n_edges))
    cold, warm = graph.solve_points(U, shared), graph.solve_points(U, shared, state=state)
    one_by_one = graph.solve_points(U, shared.copy())
    for a, b, c in zip(cold, warm, one_by_one, strict=True):
        assert_array_equal(a, b)
        assert_array_equal(a, c)
    for z, value, unary in zip(*cold, U, strict=True):
        assert_allclose(value, lp_value(graph, unary, P[0]), rtol=1e-9, atol=1e-9)
        assert_array_equal(2.0 * z, np.rint(2.0 * z))
        assert value == pytest.approx(unary @ z[:n] + P[0] @ z[n:], rel=1e-12)


def test_a_batch_of_some_examples_warms_their_own_rows():
    rng = np.random.default_rng(6)
    graph, state = full(7), full(7).warm_state(10)
    U, shared = rng.normal(size=(10, 7)), np.broadcast_to(4.0 * rng.normal(size=21), (10, 21))
    some = np.array([1, 4, 8])
    for _ in range(2):
        Z, values = graph.solve_points(U[some], shared[:3], state=state, owner=some)
        cold, expected = graph.solve_points(U[some], shared[:3].copy())
        assert_array_equal(Z, cold)
        assert_array_equal(values, expected)
    assert state.flow.any(axis=1)[some].all()
    assert not np.delete(state.flow, some, axis=0).any()
    with pytest.raises(DeclarationError, match="shapes"):
        graph.solve_points(U[:2], shared)
    U[1, 0] = np.nan
    with pytest.raises(DeclarationError, match=r"unary\[1, 0\]"):
        graph.solve_points(U, shared)


@pytest.mark.parametrize(("n", "coupling", "integral"), [(18, 0.5, False), (18, 1.0, True), (19, 0.15, False)])
def test_branching_finds_the_best_label(n, coupling, integral):
    """More labels than are enumerated at once, so that bounds, persistency and branches all act."""
    rng = np.random.default_rng(n)
    graph = full(n)
    Y = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(float)
    for _ in range(3):
        unary, pair = random_costs(rng, graph, coupling, integral)
        W = np.zeros((n, n))
        W[graph.i, graph.j] = pair
        values = Y @ unary + ((Y @ W) * Y).sum(axis=1)
        y, value, proved = solve_exact(graph, unary, pair)
        assert proved
        assert value == pytest.approx(values.max(), rel=1e-12, abs=1e-12)
        assert value == pytest.approx(unary @ y + pair @ (y[graph.i] * y[graph.j]), rel=1e-12)


def test_a_search_that_stops_gives_an_incumbent_below_the_bound():
    rng = np.random.default_rng(0)
    graph = full(60)
    unary, pair = random_costs(rng, graph)
    y, value, proved = solve_exact(graph, unary, pair)
    assert not proved
    assert set(y.tolist()) <= {0.0, 1.0}
    assert 0 < value <= solve(graph, unary, pair)[2]
    y, value, proved = solve_exact(graph, unary, 0.02 * pair)
    assert proved
    assert value <= solve(graph, unary, 0.02 * pair)[2] * (1 + 1e-12)


def front(graph, h_unary, h_pair, g_unary):
    _, Y, h, g = graph.front_batch([h_unary], [h_pair], [0.0], [g_unary], [0.0])
    return Y, h, g


@pytest.mark.parametrize("n", [9, 11])
def test_enumeration_across_blocks(n):
    rng = np.random.default_rng(n)
    graph = full(n)
    h_unary, h_pair = random_costs(rng, graph)
    g_unary = rng.integers(1, 4, n).astype(float)
    Y, h = grid_values(graph, (0.0, 1.0), h_unary, h_pair)
    g = Y @ g_unary
    y = solve_exact(graph, h_unary, h_pair)[0]
    assert_array_equal(y, Y[np.argmax(h)])
    y = graph.best_product_batch(h_unary[None], h_pair, [1.0], g_unary[None], [0.0])[0]
    assert_array_equal(y[0], Y[np.argmax((1 + h) * g)])
    F, fh, fg = front(graph, h_unary, h_pair, g_unary)
    code = 2 ** np.arange(n - 1, -1, -1)
    at = (F @ code).astype(int)
    assert_allclose(fh, h[at], rtol=1e-12, atol=1e-12)
    assert_array_equal(fg, g[at])
    g_pair = rng.integers(0, 3, graph.n_edges).astype(float)
    algorithm = PairwiseAlgorithm(graph, np.arange(n), n + np.arange(graph.n_edges), True, False)
    with_pairs = algorithm.front(np.append(h_unary, h_pair), 0.0, np.append(g_unary, g_pair), 0.0)
    for labels, losses in ((F, g), (with_pairs[:, :n], g + (Y[:, graph.i] * Y[:, graph.j]) @ g_pair)):
        at = (labels @ code).astype(int)
        assert h[at[0]] == h.max()
        assert losses[at[-1]] == losses.max()
        for psi in (lambda h, g: (1 + h) * g, lambda h, g: h + g, lambda h, g: np.minimum(h, g)):
            assert psi(h[at], losses[at]).max() == pytest.approx(psi(h, losses).max(), rel=1e-12)


def test_many_points_on_the_pareto_front():
    """g = -h: no label dominates another, so that the front outgrows its first room."""
    graph = PairwiseGraph(8, [], [])
    unary = 2.0 ** np.arange(8)
    F, h, g = front(graph, unary, [], -unary)
    assert h.tolist() == [float(k) for k in range(255, -1, -1)]
    assert_array_equal(g, -h)
    assert_array_equal(F @ unary, h)


def test_forest():
    path = PairwiseGraph(4, [0, 1, 2], [1, 2, 3])
    assert path.is_forest
    assert PairwiseGraph(4, [], []).is_forest
    assert not full(3).is_forest
    assert not PairwiseGraph(2, [0, 1], [1, 0]).is_forest


def test_without_frustration_the_relaxation_is_integral():
    rng = np.random.default_rng(2)
    tree = PairwiseGraph(9, [0, 0, 1, 1, 3, 3, 6], [1, 2, 3, 4, 5, 6, 7])
    graph = full(7)
    for _ in range(25):
        unary, pair = random_costs(rng, tree, integral=True)
        y, _, value = solve(tree, unary, pair)
        assert set(y.tolist()) <= {0.0, 1.0}
        assert value == solve_exact(tree, unary, pair)[1]
        flips = rng.integers(0, 2, 7) * 2 - 1
        unary, pair = random_costs(rng, graph, integral=True)
        pair = np.abs(pair) * flips[graph.i] * flips[graph.j]
        y, _, value = solve(graph, unary, pair)
        assert set(y.tolist()) <= {0.0, 1.0}
        assert value == solve_exact(graph, unary, pair)[1]


@pytest.mark.parametrize("scale", [1e-280, 1e-30, 1e30, 1e300])
def test_scale_does_not_matter(scale):
    rng = np.random.default_rng(4)
    graph = full(8)
    unary, pair = random_costs(rng, graph)
    expected = solve(graph, unary, pair)[0]
    assert_array_equal(solve(graph, scale * unary, scale * pair)[0], expected)
    # The sum of the costs overflows here, the costs do not.
    huge = 1.7e308 / max(abs(unary).max(), abs(pair).max())
    big = solve_exact(graph, unary, pair)[0]
    assert_array_equal(solve_exact(graph, huge * unary, huge * pair)[0], big)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(bad):
    graph = full(3)
    good, wrong = np.ones(3), np.array([0.0, bad, 1.0])
    state = graph.warm_state(2)
    for unary, pair, name in ((wrong, good, "unary"), (good, wrong, "pair")):
        for call in (
            lambda u, p: solve(graph, u, p, state=state),
            lambda u, p: front(graph, u, p, good),
            lambda u, p: graph.best_product_batch([u], p, [0], [good], [0]),
        ):
            with pytest.raises(DeclarationError, match=rf"{name}\[(0, )?1\]"):
                call(unary, pair)
        for batch in (graph.solve_points, graph.solve_exact):
            with pytest.raises(DeclarationError, match=rf"{name}\[1, 1\]"):
                batch(np.array([good, unary]), np.array([good, pair]))


def test_malformed_input_is_refused():
    for unary, pair in ((np.ones((2, 3)), np.ones((3, 3))), (np.ones((2, 2)), np.ones((2, 3)))):
        with pytest.raises(DeclarationError, match="shapes"):
            full(3).solve_points(unary, pair)
