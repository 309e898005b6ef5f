"""The laws of node weights: they satisfy their constraints, and a convex solver finds no better ones."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest

import structopt as so
from structopt import norms

HIERARCHIES = {
    "tree": so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (5, 6), (5, 7)]),
    "star": so.Hierarchy([(0, 1), (0, 2), (0, 3)]),
    "path": so.Hierarchy([(0, 1), (1, 2), (2, 3)]),
    "forest": so.Hierarchy([(0, 2), (0, 3), (1, 4), (4, 5), (4, 6)]),
    "dag": so.Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3), (2, 4), (1, 5), (3, 6), (3, 7)]),
}
CASES = [(name, root) for name in HIERARCHIES for root in (False, True)]
KINDS = {
    "plain": {},
    "far from one": {"rho": 5.0},
    "near one": {"rho": 1.2},
    "tolerance": {"tolerance": 1.5},
    "factors": {"weights": True},
    "directional": {"directional": True},
    "directional with a tolerance": {"directional": True, "tolerance": 1.3, "rho": 3.0},
}


def solve(objective, constraints):
    problem = cp.Problem(objective, constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return problem.solve(solver="CLARABEL")


def variables(hierarchy, root):
    """Weights of all nodes, 0 at a single inner root unless it takes part."""
    alpha = cp.Variable(len(hierarchy), nonneg=True)
    top = hierarchy.root_index
    return alpha, [] if root or top.size > 1 else [alpha[int(top[0])] == 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "root"), CASES)
def test_normalization_is_the_smallest(name, root, kind):
    h, options = HIERARCHIES[name], dict(KINDS[kind])
    factors = np.linspace(0.5, 2.0, len(h)) if options.pop("weights", False) else None
    rho, most = options.get("rho", 2.0), options.get("tolerance", 1.0)
    alpha = norms.normalization(h, root=root, weights=factors, **options)
    x, rows = variables(h, root)
    rows += [h.closure @ x >= 1, h.closure @ x <= most]
    sums = h.closure @ alpha
    assert (alpha >= 0).all() and (sums >= 1 - 1e-7).all() and (sums <= most + 1e-7).all()
    if not root and h.root_index.size == 1:
        assert alpha[h.root_index] == 0
    if options.get("directional"):
        inner = [arc for arc in zip(h.parent, h.child, strict=True) if root or h.root_index.size > 1 or arc[0] > 0]
        assert all(alpha[p] <= alpha[c] + 1e-7 for p, c in inner)
        rows += [x[int(p)] <= x[int(c)] for p, c in inner]
    own = np.ones(len(h)) if factors is None else factors
    best = solve(cp.Minimize(own @ cp.power(x, rho)), rows)
    assert own @ alpha**rho == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(("name", "root"), CASES)
def test_the_smallest_weight_of_maxmin_is_the_largest(name, root):
    h = HIERARCHIES[name]
    alpha, least = norms.maxmin(h, root=root), cp.Variable()
    taking = [k for k in range(len(h)) if root or h.root_index.size > 1 or k not in h.root_index]
    x, rows = variables(h, root)
    rows += [h.closure @ x == 1, x[taking] >= least]
    arcs = [(int(p), int(c)) for p, c in zip(h.parent, h.child, strict=True) if p in taking]
    rows += [x[p] <= x[c] for p, c in arcs]
    np.testing.assert_allclose(h.closure @ alpha, 1.0, atol=1e-12)
    assert all(alpha[p] <= alpha[c] + 1e-12 for p, c in arcs)
    assert alpha[taking].min() == pytest.approx(solve(cp.Maximize(least), rows), rel=1e-6)


@pytest.mark.parametrize(("name", "root"), CASES)
def test_shared_weights_are_the_best(name, root):
    h = HIERARCHIES[name]
    squares = np.random.default_rng(0).uniform(0.5, 4.0, len(h))
    alpha = norms.shared_alpha(squares, h, root=root)
    x, rows = variables(h, root)
    taking = [k for k in range(len(h)) if root or h.root_index.size > 1 or k not in h.root_index]
    best = solve(cp.Minimize(squares[taking] @ cp.inv_pos(x[taking])), [*rows, h.closure @ x <= 1])
    assert (h.closure @ alpha <= 1 + 1e-7).all()
    assert squares[taking] @ (1 / alpha[taking]) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("name", [None, *HIERARCHIES])
def test_shared_norm_lies_between_its_bounds(name):
    h = None if name is None else HIERARCHIES[name]
    U = np.random.default_rng(1).normal(size=(4 if h is None else len(h.leaves), 3))
    found = norms.shared_frobenius(U, h, certificate=True)
    assert float(found) == found.value == pytest.approx(norms.shared_frobenius(U, h))
    assert found.lower_bound <= found.value * (1 + 1e-12)
    if h is None:
        n = len(U)
        G, T = cp.Variable((n, n), PSD=True), cp.Variable((3, 3), symmetric=True)
        best = solve(cp.Minimize(cp.trace(T)), [cp.diag(G) <= 1, cp.bmat([[G, U], [U.T, T]]) >> 0])
        np.testing.assert_allclose(found.coefficients @ found.factors, U, atol=1e-7)
        assert np.linalg.norm(found.factors) == pytest.approx(found.value)
    else:
        alpha, V = cp.Variable(len(h), nonneg=True), cp.Variable((len(h), 3))
        cost = sum(cp.quad_over_lin(V[k], alpha[k]) for k in range(len(h)))
        best = solve(cp.Minimize(cost), [h.closure @ V == U, h.closure @ alpha <= 1])
        np.testing.assert_allclose(h.closure @ found.node_vectors, U, atol=1e-7)
    assert found.value**2 == pytest.approx(best, rel=1e-4)
    assert found.lower_bound**2 <= best * (1 + 1e-5)


@pytest.mark.parametrize("rho", [1.5, 2.0, 4.0])
@pytest.mark.parametrize("name", HIERARCHIES)
def test_duplicated_nodes_change_nothing(name, rho):
    original = HIERARCHIES[name]
    small = norms.minimal_graph(original)
    closures = {tuple(column) for column in small.hierarchy.closure.toarray().T.tolist()}
    assert len(closures) == len(small.hierarchy)
    alpha = norms.normalization(small.hierarchy, rho, root=True)
    np.testing.assert_allclose(small.collapse(small.expand(alpha)), alpha)
    again = norms.normalization(original, rho, root=True, weights=small.weights(rho))
    np.testing.assert_allclose(again, small.expand(alpha), atol=1e-6)
