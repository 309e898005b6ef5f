"""Node weights against convex solvers, closed forms and the facts of docs/mathematics/hierarchies#normalisation."""

from __future__ import annotations

import cvxpy as cp
import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt import norms
from structopt.errors import DeclarationError, SolverFailed
from structopt.hierarchy import Hierarchy
from structopt.norms import _interior
from structopt.norms.normalization import _equal_sums, _loose_sums, included_nodes

TREE = Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)])
DIAMOND = Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (2, 5)])


def reference_normalization(kit, h, rho, root, tolerance=None, weights=None, directional=False):
    a = cp.Variable(len(h), nonneg=True)
    weights = np.ones(len(h)) if weights is None else weights
    sums = h.closure @ a
    rows = [sums == 1] if tolerance is None else [sums >= 1, sums <= tolerance]
    if not root and len(h.roots) == 1 and len(h) > 1:
        rows.append(a[h.root_index[0]] == 0)
    if directional and h.parent.size:
        rows.append(a[h.child] >= a[h.parent])
    cost = cp.sum_squares(cp.multiply(np.sqrt(weights), a)) if rho == 2 else weights @ cp.power(a, rho)
    return kit.solve(cp.Minimize(cost), rows), a.value


def test_examples_of_the_specification():
    np.testing.assert_allclose(norms.normalization(TREE, root=True), [0.625, 0.25, 0.375, 0.125, 0.125], atol=1e-15)
    np.testing.assert_allclose(norms.normalization(TREE), [0, 2 / 3, 1, 1 / 3, 1 / 3], atol=1e-15)
    expected = [0.78208, 0.17434, 0.21792, 0.04358, 0.04358]
    np.testing.assert_allclose(norms.normalization(TREE, rho=1.5, root=True), expected, atol=5e-6)
    assert norms.normalization(TREE, rho=1.1, root=True)[0] == pytest.approx(0.999, abs=5e-4)
    assert (norms.normalization(TREE, root=True) ** 2).sum() == pytest.approx(0.625)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rho", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("extra", [0, 8])
def test_equals_a_convex_solver(kit, seed, rho, extra):
    h = kit.random_hierarchy(seed, 14, extra)
    root = bool(seed % 2)
    weights = np.random.default_rng(seed).uniform(0.5, 2, len(h)) if seed > 3 else None
    value, alpha = reference_normalization(kit, h, rho, root, weights=weights)
    found = norms.normalization(h, rho, root, weights=weights)
    own = np.ones(len(h)) if weights is None else weights
    assert own @ found**rho == pytest.approx(value, rel=1e-8)
    # At 0 a power above 2 is too flat for any solver to place alpha better.
    np.testing.assert_allclose(found, alpha, atol=1e-6 if rho <= 2 else 1e-3)
    np.testing.assert_allclose(h.closure @ found, 1, atol=1e-12)
    assert (found >= 0).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rho", [1.5, 2.0])
def test_tolerance_equals_a_convex_solver(kit, seed, rho):
    h = kit.random_hierarchy(seed, 14, 10)
    value, alpha = reference_normalization(kit, h, rho, False, 1.5)
    found = norms.normalization(h, rho, tolerance=1.5)
    assert (found**rho).sum() == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(found, alpha, atol=1e-6)
    sums = h.closure @ found
    assert sums.min() >= 1 - 1e-12
    assert sums.max() <= 1.5 + 1e-12


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tolerance", [None, 1.5])
@pytest.mark.parametrize("extra", [0, 8])
def test_directional_equals_a_convex_solver(kit, seed, tolerance, extra):
    h = kit.random_hierarchy(seed, 14, extra)
    rho, root = (2.0, 1.5)[seed % 2], seed > 2
    weights = np.random.default_rng(seed).uniform(0.5, 2, len(h)) if seed > 1 else None
    value, alpha = reference_normalization(kit, h, rho, root, tolerance, weights, directional=True)
    found = norms.normalization(h, rho, root, tolerance, weights=weights, directional=True)
    own = np.ones(len(h)) if weights is None else weights
    assert own @ found**rho == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(found, alpha, atol=1e-5)
    sums = h.closure @ found
    assert sums.min() >= 1 - 1e-12
    assert sums.max() <= (tolerance or 1) + 1e-12
    included = included_nodes(h, root)
    assert (found[h.child] >= found[h.parent] - 1e-12)[included[h.parent]].all()


def test_directional_changes_nothing_where_weights_grow_downwards():
    star = Hierarchy([(0, 1), (0, 2)])
    np.testing.assert_allclose(norms.normalization(star, directional=True), [0, 1, 1], atol=1e-9)
    alone = Hierarchy([], nodes=["a"])
    np.testing.assert_allclose(norms.normalization(alone, directional=True), [1])
    np.testing.assert_allclose(
        norms.normalization(TREE, root=True, directional=True), [1 / 3, 1 / 3, 2 / 3, 1 / 3, 1 / 3]
    )


def test_directional_weights_of_a_large_tree_and_of_a_long_path():
    rng = np.random.default_rng(0)
    h = Hierarchy([(int(rng.integers(0, k)), k) for k in range(1, 3000)])
    found = norms.normalization(h, directional=True)
    np.testing.assert_allclose(h.closure @ found, 1, atol=1e-10)
    assert (found[h.child] >= found[h.parent] - 1e-10).all()
    path = norms.normalization(Hierarchy([(k, k + 1) for k in range(30)]), root=True, directional=True)
    np.testing.assert_allclose(path, 1 / 31, atol=1e-6)


def test_tolerance_of_one_is_none():
    np.testing.assert_array_equal(norms.normalization(DIAMOND, tolerance=1), norms.normalization(DIAMOND))


def test_tolerance_without_inner_nodes_and_nearly_one():
    star = Hierarchy([(0, 1), (0, 2)])
    np.testing.assert_allclose(norms.normalization(star, tolerance=1.5), [0, 1, 1], atol=1e-9)
    near = norms.normalization(DIAMOND, tolerance=1.001)
    np.testing.assert_allclose(near, norms.normalization(DIAMOND), atol=0.01)


def test_a_tolerance_never_hurts(kit):
    h = kit.random_hierarchy(1, 60, 60)
    tight, loose = norms.normalization(h), norms.normalization(h, tolerance=1.5)
    assert (loose**2).sum() < (tight**2).sum()


def test_rho_two_equals_the_quadratic_program_of_highs(kit):
    h = kit.random_hierarchy(2, 60, 30)
    n, A = len(h), h.closure
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n, A.shape[0]
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = np.zeros(n), np.zeros(n), np.ones(n)
    lp.row_lower_ = lp.row_upper_ = np.ones(A.shape[0])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = A.indptr, A.indices, A.data
    solver = highspy.Highs()
    solver.silent()
    solver.passModel(lp)
    solver.passHessian(n, n, 1, np.arange(n), np.arange(n), 2 * np.ones(n))
    solver.run()
    found = norms.normalization(h, root=True)
    assert (found**2).sum() == pytest.approx(solver.getObjectiveValue(), rel=1e-8)
    np.testing.assert_allclose(found, solver.getSolution().col_value, atol=1e-6)


@given(seed=st.integers(0, 10**6), rho=st.sampled_from([1.001, 1.02, 1.3, 2.0, 5.0, 40.0]), root=st.booleans())
@settings(max_examples=40, deadline=None)
def test_closed_form_equals_the_interior_point_method_on_trees(kit, seed, rho, root):
    h = kit.random_hierarchy(seed, 12)
    closed = norms.normalization(h, rho, root)
    np.testing.assert_allclose(h.closure @ closed, 1, atol=1e-12)
    if 1.02 <= rho <= 5:
        found = _equal_sums(h, included_nodes(h, root), np.ones(len(h)), rho)
        assert found.gap <= _interior.ACCEPTED
        # The certificate holds for the other method's answer, too.
        assert found.lower * (1 - 1e-12) <= (closed**rho).sum() <= found.value * (1 + 1e-12)


@pytest.mark.parametrize("rho", [1.02, 1.05, 1.1, 1.3, 2.0, 3.0, 6.0])
@pytest.mark.parametrize("seed", range(3))
def test_certified_on_dags_for_any_rho(kit, rho, seed):
    h = kit.random_hierarchy(seed, 80, 40)
    ones, included = np.ones(len(h)), included_nodes(h, False)
    for found in (_equal_sums(h, included, ones, rho), _loose_sums(h, included, ones, rho, 1.5)):
        assert found.lower <= found.value * (1 + 1e-13)
        assert found.gap <= 1e-8


def test_deep_and_steep_trees_do_not_overflow():
    chain = Hierarchy([(k, k + 1) for k in range(3000)] + [(k, -k - 1) for k in range(3000)])
    for rho in (1.0001, 2.0, 300.0):
        alpha = norms.normalization(chain, rho, root=True)
        assert np.isfinite(alpha).all()
        np.testing.assert_allclose(chain.closure @ alpha, 1, atol=1e-9)


def test_linear_time_on_large_trees():
    n = 200_000
    h = Hierarchy(np.column_stack([(np.arange(1, n) - 1) // 8, np.arange(1, n)]))
    alpha = norms.normalization(h)
    assert np.abs(h.closure @ alpha - 1).max() < 1e-12


def test_several_roots_all_take_part():
    forest = Hierarchy([("a", "x"), ("a", "y"), ("b", "z")])
    alpha = dict(zip(forest.nodes, norms.normalization(forest), strict=True))
    assert alpha["a"] == pytest.approx(2 / 3)
    assert alpha["b"] == pytest.approx(1 / 2)


def test_a_single_node_is_its_own_label():
    single = Hierarchy([], nodes=["only"])
    assert norms.normalization(single).tolist() == [1.0]
    assert norms.maxmin(single).tolist() == [1.0]


@pytest.mark.parametrize("bad", [{"rho": 1}, {"rho": np.nan}, {"tolerance": 0.5}, {"tolerance": np.inf}])
def test_refuses(bad):
    with pytest.raises(DeclarationError, match=next(iter(bad))):
        norms.normalization(TREE, **bad)


def test_refuses_other_graphs_and_weights():
    with pytest.raises(DeclarationError, match="Hierarchy"):
        norms.normalization([(0, 1)])
    with pytest.raises(DeclarationError, match="positive"):
        norms.normalization(TREE, weights=[1, 0, 1, 1, 1])


def test_an_uncertified_answer_is_an_error():
    found = _interior.Certified(np.ones(1), np.ones(1), 1.0, 0.9)
    with pytest.raises(SolverFailed, match="gap") as error:
        _interior.certified(found, "something")
    assert error.value.partial is found.x


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("root", [False, True])
def test_maxmin_is_optimal_and_directional(kit, seed, root):
    h = kit.random_hierarchy(seed, 12, 6 * (seed % 2))
    alpha = norms.maxmin(h, root)
    included = included_nodes(h, root)
    np.testing.assert_allclose(h.closure @ alpha, 1, atol=1e-12)
    assert (alpha[h.child] >= alpha[h.parent] - 1e-12).all()
    a, t = cp.Variable(len(h), nonneg=True), cp.Variable()
    rows = [h.closure @ a == 1, a[h.child] >= a[h.parent], a[np.flatnonzero(included)] >= t]
    if not included.all():
        rows.append(a[h.root_index[0]] == 0)
    assert alpha[included].min() == pytest.approx(kit.solve(cp.Maximize(t), rows), rel=1e-8)


def test_maxmin_example():
    np.testing.assert_allclose(norms.maxmin(TREE), [0, 0.5, 1, 0.5, 0.5])
