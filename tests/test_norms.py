"""Node weights and shared norms against convex solvers, closed forms and the facts of MATH.md 6 and 7."""

from __future__ import annotations

import pickle
import warnings

import cvxpy as cp
import highspy
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt import norms
from structopt.errors import DeclarationError, SolverFailed
from structopt.hierarchy import Hierarchy
from structopt.norms import _free, _interior, _structured
from structopt.norms.normalization import _equal_sums, _loose_sums, included_nodes
from structopt.norms.shared import _dag_alpha

TREE = Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)])
DIAMOND = Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (2, 5)])
TIGHT = {"tol_gap_rel": 1e-12, "tol_gap_abs": 1e-12, "tol_feas": 1e-12}


def random_hierarchy(seed: int, n: int, extra: int = 0) -> Hierarchy:
    rng = np.random.default_rng(seed)
    arcs = {(int(rng.integers(0, child)), child) for child in range(1, n)}
    for _ in range(extra):
        child = int(rng.integers(2, n))
        arcs.add((int(rng.integers(0, child)), child))
    return Hierarchy(sorted(arcs))


def path_sums(h: Hierarchy, alpha):
    return h.closure @ alpha


def solve(objective, constraints):
    problem = cp.Problem(objective, constraints)
    with warnings.catch_warnings():
        # These tolerances are beyond what the solver can promise; it says so even where it meets them.
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        problem.solve(solver="CLARABEL", **TIGHT)
    return problem.value


def reference_normalization(h, rho, root, tolerance=None, weights=None):
    a = cp.Variable(len(h), nonneg=True)
    weights = np.ones(len(h)) if weights is None else weights
    sums = h.closure @ a
    rows = [sums == 1] if tolerance is None else [sums >= 1, sums <= tolerance]
    if not root and len(h.roots) == 1 and len(h) > 1:
        rows.append(a[h.root_index[0]] == 0)
    cost = cp.sum_squares(cp.multiply(np.sqrt(weights), a)) if rho == 2 else weights @ cp.power(a, rho)
    return solve(cp.Minimize(cost), rows), a.value


class TestNormalization:
    def test_examples_of_the_specification(self):
        np.testing.assert_allclose(norms.normalization(TREE, root=True), [0.625, 0.25, 0.375, 0.125, 0.125], atol=1e-15)
        np.testing.assert_allclose(norms.normalization(TREE), [0, 2 / 3, 1, 1 / 3, 1 / 3], atol=1e-15)
        expected = [0.78208, 0.17434, 0.21792, 0.04358, 0.04358]
        np.testing.assert_allclose(norms.normalization(TREE, rho=1.5, root=True), expected, atol=5e-6)
        assert norms.normalization(TREE, rho=1.1, root=True)[0] == pytest.approx(0.999, abs=5e-4)
        assert (norms.normalization(TREE, root=True) ** 2).sum() == pytest.approx(0.625)

    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize("rho", [1.5, 2.0, 3.0])
    @pytest.mark.parametrize("extra", [0, 8])
    def test_equals_a_convex_solver(self, seed, rho, extra):
        h = random_hierarchy(seed, 14, extra)
        root = bool(seed % 2)
        weights = np.random.default_rng(seed).uniform(0.5, 2, len(h)) if seed > 3 else None
        value, alpha = reference_normalization(h, rho, root, weights=weights)
        found = norms.normalization(h, rho, root, weights=weights)
        own = np.ones(len(h)) if weights is None else weights
        assert own @ found**rho == pytest.approx(value, rel=1e-8)
        # At 0 a power above 2 is too flat for any solver to place alpha better.
        np.testing.assert_allclose(found, alpha, atol=1e-6 if rho <= 2 else 1e-3)
        np.testing.assert_allclose(path_sums(h, found), 1, atol=1e-12)
        assert (found >= 0).all()

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("rho", [1.5, 2.0])
    def test_tolerance_equals_a_convex_solver(self, seed, rho):
        h = random_hierarchy(seed, 14, 10)
        value, alpha = reference_normalization(h, rho, False, 1.5)
        found = norms.normalization(h, rho, tolerance=1.5)
        assert (found**rho).sum() == pytest.approx(value, rel=1e-8)
        np.testing.assert_allclose(found, alpha, atol=1e-6)
        sums = path_sums(h, found)
        assert sums.min() >= 1 - 1e-12
        assert sums.max() <= 1.5 + 1e-12

    def test_tolerance_of_one_is_none(self):
        np.testing.assert_array_equal(norms.normalization(DIAMOND, tolerance=1), norms.normalization(DIAMOND))

    def test_tolerance_without_inner_nodes_and_nearly_one(self):
        star = Hierarchy([(0, 1), (0, 2)])
        np.testing.assert_allclose(norms.normalization(star, tolerance=1.5), [0, 1, 1], atol=1e-9)
        near = norms.normalization(DIAMOND, tolerance=1.001)
        np.testing.assert_allclose(near, norms.normalization(DIAMOND), atol=0.01)

    def test_a_tolerance_never_hurts(self):
        h = random_hierarchy(1, 60, 60)
        tight, loose = norms.normalization(h), norms.normalization(h, tolerance=1.5)
        assert (loose**2).sum() < (tight**2).sum()

    def test_rho_two_equals_the_quadratic_program_of_highs(self):
        h = random_hierarchy(2, 60, 30)
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
    def test_closed_form_equals_the_interior_point_method_on_trees(self, seed, rho, root):
        h = random_hierarchy(seed, 12)
        closed = norms.normalization(h, rho, root)
        np.testing.assert_allclose(path_sums(h, closed), 1, atol=1e-12)
        if 1.02 <= rho <= 5:
            found = _equal_sums(h, included_nodes(h, root), np.ones(len(h)), rho)
            assert found.gap <= _interior.ACCEPTED
            # The certificate holds for the other method's answer, too.
            assert found.lower * (1 - 1e-12) <= (closed**rho).sum() <= found.value * (1 + 1e-12)

    @pytest.mark.parametrize("rho", [1.02, 1.05, 1.1, 1.3, 2.0, 3.0, 6.0])
    @pytest.mark.parametrize("seed", range(3))
    def test_certified_on_dags_for_any_rho(self, rho, seed):
        h = random_hierarchy(seed, 80, 40)
        ones, included = np.ones(len(h)), included_nodes(h, False)
        for found in (_equal_sums(h, included, ones, rho), _loose_sums(h, included, ones, rho, 1.5)):
            assert found.lower <= found.value * (1 + 1e-13)
            assert found.gap <= 1e-8

    def test_deep_and_steep_trees_do_not_overflow(self):
        chain = Hierarchy([(k, k + 1) for k in range(3000)] + [(k, -k - 1) for k in range(3000)])
        for rho in (1.0001, 2.0, 300.0):
            alpha = norms.normalization(chain, rho, root=True)
            assert np.isfinite(alpha).all()
            np.testing.assert_allclose(path_sums(chain, alpha), 1, atol=1e-9)

    def test_linear_time_on_large_trees(self):
        n = 200_000
        h = Hierarchy(np.column_stack([(np.arange(1, n) - 1) // 8, np.arange(1, n)]))
        alpha = norms.normalization(h)
        assert np.abs(path_sums(h, alpha) - 1).max() < 1e-12

    def test_several_roots_all_take_part(self):
        forest = Hierarchy([("a", "x"), ("a", "y"), ("b", "z")])
        alpha = dict(zip(forest.nodes, norms.normalization(forest), strict=True))
        assert alpha["a"] == pytest.approx(2 / 3)
        assert alpha["b"] == pytest.approx(1 / 2)

    def test_a_single_node_is_its_own_label(self):
        single = Hierarchy([], nodes=["only"])
        assert norms.normalization(single).tolist() == [1.0]
        assert norms.maxmin(single).tolist() == [1.0]

    @pytest.mark.parametrize("bad", [{"rho": 1}, {"rho": np.nan}, {"tolerance": 0.5}, {"tolerance": np.inf}])
    def test_refuses(self, bad):
        with pytest.raises(DeclarationError, match=next(iter(bad))):
            norms.normalization(TREE, **bad)

    def test_refuses_other_graphs_and_weights(self):
        with pytest.raises(DeclarationError, match="Hierarchy"):
            norms.normalization([(0, 1)])
        with pytest.raises(DeclarationError, match="positive"):
            norms.normalization(TREE, weights=[1, 0, 1, 1, 1])

    def test_an_uncertified_answer_is_an_error(self):
        found = _interior.Certified(np.ones(1), np.ones(1), 1.0, 0.9)
        with pytest.raises(SolverFailed, match="gap") as error:
            _interior.certified(found, "something")
        assert error.value.partial is found.x


class TestMaxMin:
    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize("root", [False, True])
    def test_optimal_and_directional(self, seed, root):
        h = random_hierarchy(seed, 12, 6 * (seed % 2))
        alpha = norms.maxmin(h, root)
        included = included_nodes(h, root)
        np.testing.assert_allclose(path_sums(h, alpha), 1, atol=1e-12)
        assert (alpha[h.child] >= alpha[h.parent] - 1e-12).all()
        a, t = cp.Variable(len(h), nonneg=True), cp.Variable()
        rows = [h.closure @ a == 1, a[h.child] >= a[h.parent], a[np.flatnonzero(included)] >= t]
        if not included.all():
            rows.append(a[h.root_index[0]] == 0)
        assert alpha[included].min() == pytest.approx(solve(cp.Maximize(t), rows), rel=1e-8)

    def test_example(self):
        np.testing.assert_allclose(norms.maxmin(TREE), [0, 0.5, 1, 0.5, 0.5])


class TestSharedAlpha:
    def test_example_of_the_specification(self):
        alpha = norms.shared_alpha([1, 4, 9, 1, 4], TREE)
        np.testing.assert_allclose(alpha, [0.16153, 0.39587, 0.83847, 0.44260, 0.44260], atol=5e-6)
        assert (np.array([1, 4, 9, 1, 4]) / alpha).sum() == pytest.approx(38.32585, abs=5e-6)
        by_name = norms.shared_alpha({0: 1, 1: 4, 2: 9, 3: 1, 4: 4}, TREE)
        np.testing.assert_array_equal(alpha, by_name)

    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize("extra", [0, 10])
    def test_equals_a_convex_solver(self, seed, extra):
        h = random_hierarchy(seed, 14, extra)
        rng = np.random.default_rng(seed)
        squares = rng.exponential(size=len(h)) * (rng.random(len(h)) < 0.8)
        a = cp.Variable(len(h), nonneg=True)
        terms = [squares[n] * cp.inv_pos(a[n]) for n in np.flatnonzero(squares)]
        value = solve(cp.Minimize(cp.sum(cp.hstack(terms))), [h.closure @ a <= 1])
        found = norms.shared_alpha(squares, h)
        used = squares > 0
        assert (squares[used] / found[used]).sum() == pytest.approx(value, rel=1e-8)
        np.testing.assert_allclose(found[used], a.value[used], atol=1e-6)
        np.testing.assert_allclose(path_sums(h, found), 1, atol=1e-12)

    @given(seed=st.integers(0, 10**6), root=st.booleans())
    @settings(max_examples=30, deadline=None)
    def test_closed_form_equals_the_interior_point_method_on_trees(self, seed, root):
        h = random_hierarchy(seed, 12)
        rng = np.random.default_rng(seed)
        squares = rng.exponential(size=len(h)) ** 3 * (rng.random(len(h)) < 0.8)
        included = included_nodes(h, root)
        squares[~included] = 0.0
        if not squares.any():
            return
        found = _dag_alpha(h, included, squares)
        alpha = norms.shared_alpha(squares, h, root=root)
        used = squares > 0
        assert found.gap <= 1e-8
        assert found.lower * (1 - 1e-12) <= (squares[used] / alpha[used]).sum() <= found.value * (1 + 1e-12)

    def test_norms_of_any_magnitude_on_dags(self):
        for seed in range(40):
            rng = np.random.default_rng(seed)
            h = random_hierarchy(seed, int(rng.integers(5, 40)), 12)
            squares = rng.exponential(size=len(h)) * 10.0 ** -rng.uniform(0, 25, len(h)) * (rng.random(len(h)) < 0.8)
            found = _dag_alpha(h, included_nodes(h, False), squares)
            assert found.gap <= _interior.ACCEPTED
            assert path_sums(h, found.x).max() <= 1 + 1e-12

    def test_no_vectors_at_all(self):
        for h in (TREE, DIAMOND):
            np.testing.assert_allclose(path_sums(h, norms.shared_alpha(np.zeros(len(h)), h)), 1)

    def test_weights_do_not_depend_on_the_scale(self):
        squares = np.random.default_rng(0).exponential(size=len(DIAMOND))
        base = norms.shared_alpha(squares, DIAMOND)
        np.testing.assert_allclose(norms.shared_alpha(1e12 * squares, DIAMOND), base, atol=1e-9)

    def test_floor_keeps_every_weight_positive_and_sums_feasible(self):
        alpha = norms.shared_alpha([0, 0, 1, 1, 1], TREE, floor=1e-8)
        assert alpha.min() > 0.9e-8
        assert path_sums(TREE, alpha).max() <= 1 + 1e-15

    def test_published_shares(self):
        """Line 9 of NHSVM's Algorithm 1 as printed, by hand: N_1 = (2 + sqrt 5)^2, the root's children apart."""
        alpha = norms.shared_alpha([1, 4, 9, 1, 4], TREE, root=False, shares="published")
        inner = (2 + 5**0.5) / (2 + 2 * 5**0.5)
        np.testing.assert_allclose(alpha, [0, inner, 1, 1 - inner, 1 - inner])
        for seed in range(5):
            h = random_hierarchy(seed, 14, 0)
            squares = np.random.default_rng(seed).exponential(size=len(h))
            lifted = norms.shared_alpha(squares, h, shares="published")
            np.testing.assert_allclose(path_sums(h, lifted), 1)
            assert (squares / lifted).sum() > (squares / norms.shared_alpha(squares, h)).sum()

    def test_refuses(self):
        with pytest.raises(DeclarationError, match="shares must be"):
            norms.shared_alpha(np.ones(5), TREE, shares="printed")
        with pytest.raises(DeclarationError, match="rule for trees"):
            norms.shared_alpha(np.ones(len(DIAMOND)), DIAMOND, shares="published")
        with pytest.raises(DeclarationError, match="squared_norms"):
            norms.shared_alpha([1, 2], TREE)
        with pytest.raises(DeclarationError, match="floor"):
            norms.shared_alpha(np.ones(5), TREE, floor=2)


def structured_reference(U, h):
    V, a, t = cp.Variable((len(h), U.shape[1])), cp.Variable(len(h), nonneg=True), cp.Variable(len(h))
    rows = [cp.quad_over_lin(V[n], a[n]) <= t[n] for n in range(len(h))]
    return np.sqrt(solve(cp.Minimize(cp.sum(t)), [*rows, h.closure @ V == U, h.closure @ a <= 1]))


def free_reference(U):
    """min tr(W) over [[G, U], [U', W]] positive semidefinite, diag(G) <= 1."""
    n, d = U.shape
    X = cp.Variable((n + d, n + d), PSD=True)
    return np.sqrt(solve(cp.Minimize(cp.trace(X[n:, n:])), [X[:n, n:] == U, cp.diag(X)[:n] <= 1]))


class TestSharedFrobenius:
    @pytest.mark.parametrize("seed", range(4))
    def test_structured_equals_a_conic_solver(self, seed):
        h = random_hierarchy(seed, 10, 5 * (seed % 2))
        U = np.random.default_rng(seed).normal(size=(len(h.leaves), 3)) + seed
        found = norms.shared_frobenius(U, h, certificate=True)
        # The reference is good to about 1e-8; the certificate is better.
        assert found.value == pytest.approx(structured_reference(U, h), rel=3e-8)
        assert -1e-13 <= found.gap <= 1e-10

    @pytest.mark.parametrize("seed", range(4))
    def test_free_equals_a_semidefinite_solver(self, seed):
        rng = np.random.default_rng(seed)
        U = rng.normal(size=(6, 4)) + 0.5 * seed
        found = norms.shared_frobenius(U, certificate=True)
        assert found.value == pytest.approx(free_reference(U), rel=2e-7)
        assert -1e-13 <= found.gap <= 1e-8

    @pytest.mark.parametrize("shape", [(1, 1), (1, 5), (40, 3), (7, 60), (60, 60)])
    def test_free_factors_prove_the_value(self, shape):
        U = np.random.default_rng(1).normal(size=shape) + 1
        found = norms.shared_frobenius(U, certificate=True)
        np.testing.assert_allclose(found.coefficients @ found.factors, U, atol=1e-10)
        assert np.linalg.norm(found.coefficients, axis=1).max() <= 1 + 1e-12
        assert np.linalg.norm(found.factors) == pytest.approx(found.value, rel=1e-12)
        assert found.lower_bound <= found.value * (1 + 1e-13)

    @pytest.mark.parametrize("h", [TREE, DIAMOND, random_hierarchy(5, 80, 30)])
    def test_node_vectors_prove_the_value(self, h):
        U = np.random.default_rng(1).normal(size=(len(h.leaves), 7)) + 1
        found = norms.shared_frobenius(U, h, certificate=True)
        np.testing.assert_allclose(h.closure @ found.node_vectors, U, atol=1e-10)
        assert path_sums(h, found.alpha).max() <= 1 + 1e-12
        assert np.sqrt(((found.node_vectors**2).sum(axis=1) / found.alpha).sum()) == pytest.approx(
            found.value, rel=1e-9
        )
        assert found.lower_bound <= found.value * (1 + 1e-13)

    def test_full_sharing(self):
        u = np.array([3.0, 4.0, 0.0])
        U = np.tile(u, (3, 1))
        assert norms.shared_frobenius(U, TREE) == pytest.approx(5, rel=1e-8)
        assert norms.shared_frobenius(U) == pytest.approx(5, rel=1e-8)
        assert np.linalg.norm(U) == pytest.approx(np.sqrt(3) * 5)

    def test_no_sharing(self):
        alone = Hierarchy([], nodes=["a", "b", "c"])
        U = np.random.default_rng(0).normal(size=(3, 4))
        assert norms.shared_frobenius(U, alone) == pytest.approx(np.linalg.norm(U), rel=1e-8)

    def test_disjoint_features(self):
        U = np.diag([1.0, 2.0, 3.0])
        for value in (norms.shared_frobenius(U), norms.shared_frobenius(U, TREE), norms.shared_frobenius(U, DIAMOND)):
            assert value == pytest.approx(np.linalg.norm(U), rel=1e-8)

    def test_factor_scaling(self):
        a, u = np.array([1.0, -3.0, 2.0]), np.array([1.0, 2.0, 2.0])
        assert norms.shared_frobenius(np.outer(a, u)) == pytest.approx(3 * 3, rel=1e-8)

    @given(seed=st.integers(0, 10**6), shift=st.floats(0, 3))
    @settings(max_examples=12, deadline=None)
    def test_inequalities(self, seed, shift):
        rng = np.random.default_rng(seed)
        h = random_hierarchy(seed, 9, 4)
        U = rng.normal(size=(len(h.leaves), 4)) + shift
        free, tree = norms.shared_frobenius(U), norms.shared_frobenius(U, h)
        rounding = 1 + 1e-7
        assert np.linalg.norm(U, "nuc") <= np.sqrt(U.shape[0]) * free * rounding
        assert np.linalg.norm(U, axis=1).max() <= free * rounding
        assert free <= tree * rounding
        assert tree <= np.linalg.norm(U) * rounding
        assert norms.shared_frobenius(-7 * U, h) == pytest.approx(7 * tree, rel=1e-7)
        V = rng.normal(size=U.shape)
        assert norms.shared_frobenius(U + V, h) <= (tree + norms.shared_frobenius(V, h)) * rounding

    def test_optimal_weights_are_a_fixed_point_of_the_alternation(self):
        U = np.random.default_rng(0).normal(size=(3, 5)) + 1
        found = norms.shared_frobenius(U, TREE, certificate=True)
        squares = (found.node_vectors**2).sum(axis=1)
        again = norms.shared_alpha(squares, TREE)
        used = squares > 1e-20
        assert (squares[used] / again[used]).sum() == pytest.approx(found.value**2, rel=1e-8)

    @pytest.mark.parametrize("extra", [0, 20])
    def test_alternation_for_large_hierarchies_brackets_the_norm(self, extra, monkeypatch):
        h = random_hierarchy(3, 60, extra)
        U = np.random.default_rng(0).normal(size=(len(h.leaves), 5)) + 1
        exact = norms.shared_frobenius(U, h)
        monkeypatch.setattr("structopt.norms.frobenius._NEWTON_NODES", 10)
        found = norms.shared_frobenius(U, h, rtol=1e-2, certificate=True)
        assert found.gap <= 1e-2
        assert found.lower_bound <= exact * (1 + 1e-9)
        assert exact * (1 - 1e-9) <= found.value
        np.testing.assert_allclose(h.closure @ found.node_vectors, U, atol=1e-8)

    def test_first_order_rounds_bracket_the_free_norm(self, monkeypatch):
        U = np.random.default_rng(0).normal(size=(12, 6)) + 1
        exact = norms.shared_frobenius(U)
        monkeypatch.setattr(_free, "_NEWTON_ENTRIES", 0)
        found = norms.shared_frobenius(U, rtol=1e-4, certificate=True)
        assert found.lower_bound <= exact * (1 + 1e-9)
        assert exact * (1 - 1e-9) <= found.value

    def test_a_gap_that_stays_open_is_an_error_with_the_answer_so_far(self, monkeypatch):
        rounds = _structured.alternate
        monkeypatch.setattr("structopt.norms.frobenius._NEWTON_NODES", 0)
        monkeypatch.setattr("structopt.norms.frobenius.alternate", lambda U, h, rtol: rounds(U, h, rtol, rounds=1))
        with pytest.raises(SolverFailed, match="gap") as error:
            norms.shared_frobenius(np.ones((3, 2)), TREE)
        assert isinstance(error.value.partial, norms.SharedNorm)

    def test_classes_without_vectors_and_sparse_input(self):
        U = np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 0.0]])
        assert norms.shared_frobenius(sp.csr_array(U), TREE) == norms.shared_frobenius(U, TREE)
        assert norms.shared_frobenius(U) == pytest.approx(free_reference(U), rel=1e-7)
        for h in (None, TREE):
            nothing = norms.shared_frobenius(np.zeros((3, 2)), h, certificate=True)
            assert (nothing.value, nothing.gap) == (0.0, 0.0)

    def test_refuses(self):
        with pytest.raises(DeclarationError, match="leaves"):
            norms.shared_frobenius(np.ones((2, 2)), TREE)
        with pytest.raises(DeclarationError, match="NaN"):
            norms.shared_frobenius([[np.nan]])
        with pytest.raises(DeclarationError, match="one row"):
            norms.shared_frobenius([1.0, 2.0])


class TestMinimalGraph:
    def duplicated(self):
        return Hierarchy([("r", "a"), ("a", "b"), ("b", "x"), ("b", "y"), ("r", "c"), ("c", "z"), ("r", "w")])

    def test_merges_nodes_above_the_same_leaves(self):
        small = norms.minimal_graph(self.duplicated())
        assert set(small.hierarchy.nodes) == {"r", "b", "x", "y", "z", "w"}
        assert small.members("b") == ("a", "b")
        assert small.members("z") == ("c", "z")
        assert set(small.hierarchy.leaves) == {"x", "y", "z", "w"}
        assert repr(small) == "<MinimalGraph: 8 nodes merged to 6>"

    @given(seed=st.integers(0, 10**6), extra=st.integers(0, 12))
    @settings(max_examples=40, deadline=None)
    def test_keeps_the_labels(self, seed, extra):
        h = random_hierarchy(seed, 12, extra)
        small = norms.minimal_graph(h)
        assert set(small.hierarchy.leaves) == set(h.leaves)
        columns = {h.closure[:, [k]].toarray().tobytes() for k in range(len(h))}
        assert len(columns) == len(small.hierarchy)
        for leaf in h.leaves:
            merged = {small.hierarchy.nodes[small.group[h.index(n)]] for n in h.ancestors(leaf, itself=True)}
            assert merged == set(small.hierarchy.ancestors(leaf, itself=True))
        again = norms.minimal_graph(small.hierarchy)
        assert len(again.hierarchy) == len(small.hierarchy)

    def test_figures_of_the_specification(self):
        alone = Hierarchy([(0, 1), (1, 2), (1, 3), (0, 4)])
        twice = Hierarchy([(0, 10), (10, 1), (1, 2), (1, 3), (0, 4)])
        small = norms.minimal_graph(twice)
        for rho, single, double in ((2, 0.6667, 0.8), (1.5, 0.8, 0.8889), (1.1, 0.99902, 0.99951)):
            assert norms.normalization(alone, rho)[alone.index(1)] == pytest.approx(single, abs=1e-4)
            merged = small.collapse(norms.normalization(twice, rho))
            assert merged[small.hierarchy.index(1)] == pytest.approx(double, abs=1e-4)

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("extra", [0, 6])
    def test_invariant_with_weights_whatever_rho(self, seed, extra):
        h = random_hierarchy(seed, 14, extra)
        small = norms.minimal_graph(h)
        assert len(small.hierarchy) < len(h)
        for rho in (1.3, 2.0, 3.0):
            expected = norms.normalization(small.hierarchy, rho, root=True)
            found = norms.normalization(h, rho, root=True, weights=small.weights(rho))
            np.testing.assert_allclose(small.collapse(found), expected, atol=1e-5)
            np.testing.assert_allclose(found, small.expand(expected), atol=1e-5)

    def test_theorem_1_nearly_invariant_as_rho_goes_to_one(self):
        h = self.duplicated()
        small = norms.minimal_graph(h)
        errors = []
        for rho in (2.0, 1.5, 1.2, 1.1, 1.05, 1.02):
            merged = small.collapse(norms.normalization(h, rho))
            errors.append(np.abs(merged - norms.normalization(small.hierarchy, rho)).max())
        assert errors == sorted(errors, reverse=True)
        assert errors[0] > 0.1
        assert errors[-1] < 1e-4

    def test_expanded_vectors_score_and_cost_the_same(self):
        h = self.duplicated()
        small = norms.minimal_graph(h)
        rng = np.random.default_rng(0)
        W, x = rng.normal(size=(len(small.hierarchy), 3)), rng.normal(size=3)
        K = norms.normalization(small.hierarchy)
        alpha, V = small.expand(K), small.expand_weights(W)
        own = dict(zip(h.leaves, h.closure @ (np.sqrt(alpha) * (V @ x)), strict=True))
        merged = dict(zip(small.hierarchy.leaves, small.hierarchy.closure @ (np.sqrt(K) * (W @ x)), strict=True))
        assert own == pytest.approx(merged)
        assert (V**2).sum() == pytest.approx((W**2).sum())

    def test_pickles_and_refuses(self):
        small = norms.minimal_graph(TREE)
        assert pickle.loads(pickle.dumps(small)).hierarchy == TREE
        with pytest.raises(DeclarationError, match="one number"):
            small.expand([1.0])
        with pytest.raises(DeclarationError, match="one row"):
            small.expand_weights([[1.0]])
        with pytest.raises(DeclarationError, match="Hierarchy"):
            norms.minimal_graph("tree")
