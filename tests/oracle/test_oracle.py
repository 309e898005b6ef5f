"""The oracle: against brute force, on every backend; rows, no-goods, k-best, batches, diagnosis."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import structopt as so
from structopt.backends.highs import Highs
from structopt.errors import (
    DeclarationError,
    InfeasibleSpace,
    NoGoodNotExpressible,
    SpaceMismatch,
    TimeLimitReached,
    UnboundedObjective,
)

IN_PROCESS = ["auto", "highs", "scipy"]


def pairwise(n: int, integral: bool = True) -> so.LabelSpace:
    s = so.LabelSpace(f"pairwise {n}")
    y = s.binary("y", n)
    i, j = np.triu_indices(n, k=1)
    p = s.continuous("pair", len(i), 0, 1)
    s.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    return s if integral else s.relaxed()


class TestIntegrality:
    # Three labels that repel each other: the LP takes halves (docs/mathematics/oracles#roof-duality).
    costs = np.r_[np.ones(3), -2 * np.ones(3)]

    @pytest.mark.parametrize("solver", ["auto", "highs"])
    def test_modes(self, solver):
        space = pairwise(3)
        assert so.Oracle(space, solver).maximize(self.costs).value == pytest.approx(1.0)
        relaxed = so.Oracle(space, solver, integral="relax").maximize(self.costs)
        assert relaxed.value == pytest.approx(1.5) and not relaxed.integral
        assert so.Oracle(space, solver, integral="force").maximize(self.costs).value == pytest.approx(1.0)

    def test_lp_first(self):
        oracle = so.Oracle(pairwise(3), "highs")
        oracle.maximize(np.ones(6))
        assert (oracle.statistics.lp, oracle.statistics.mip) == (1, 0)
        oracle.maximize(self.costs)
        assert (oracle.statistics.lp, oracle.statistics.mip) == (2, 1)
        forced = so.Oracle(pairwise(3), "highs", integral="force")
        forced.maximize(np.ones(6))
        assert (forced.statistics.lp, forced.statistics.mip) == (0, 1)

    def test_relaxed_space(self):
        label = so.Oracle(pairwise(3, integral=False), "highs").maximize(self.costs)
        assert label.value == pytest.approx(1.5) and not label.integral


class TestBatch:
    def test_keys_keep_a_basis_and_the_values(self):
        space = pairwise(8, integral=False)
        rng = np.random.default_rng(1)
        base = rng.normal(size=(12, space.n_variables))
        kept, plain = so.Oracle(space, "highs"), so.Oracle(space, "highs")
        for step in range(4):
            C = base + 0.02 * step * rng.normal(size=base.shape)
            a = kept.maximize_batch(C, keys=range(12))
            b = plain.maximize_batch(C)
            np.testing.assert_allclose([u.value for u in a], [v.value for v in b], atol=1e-7)
        assert kept.statistics.iterations < plain.statistics.iterations

    def test_calls_from_many_threads(self):
        space = pairwise(5)
        oracle = so.Oracle(space, "highs")
        C = np.random.default_rng(2).normal(size=(24, space.n_variables))
        wanted = [oracle.maximize(c).value for c in C]
        with ThreadPoolExecutor(3) as pool:
            got = list(pool.map(lambda c: oracle.maximize(c).value, C))
        np.testing.assert_allclose(got, wanted, atol=1e-7)

    def test_bad_batches(self):
        oracle = so.Oracle(pairwise(3), "highs")
        with pytest.raises(SpaceMismatch):
            oracle.maximize_batch(np.zeros(6))
        with pytest.raises(DeclarationError, match="row 1"):
            oracle.maximize_batch(np.array([np.zeros(6), np.r_[np.nan, np.zeros(5)]]))
        with pytest.raises(DeclarationError, match="n_jobs"):
            oracle.maximize_batch(np.zeros((1, 6)), n_jobs=0)
        with pytest.raises(DeclarationError, match="keys"):
            oracle.maximize_batch(np.zeros((2, 6)), keys=[1])
        with pytest.raises(DeclarationError, match="a set has none"):
            oracle.maximize_batch(np.zeros((2, 6)), keys={1, 2})


class TestBans:
    def test_general_integers_at_their_bounds(self):
        s = so.LabelSpace()
        s.integer("k", 2, 0, 3)
        oracle = so.Oracle(s, "highs")
        assert oracle.maximize([1.0, 1.0], forbid=[[3, 3]]).value == pytest.approx(5)
        with pytest.raises(NoGoodNotExpressible, match=r"k\[1\]"):
            oracle.maximize([1.0, 1.0], forbid=[[3, 2]])

    def test_relaxations_cannot_exclude_labels(self):
        with pytest.raises(NoGoodNotExpressible, match="relaxed"):
            so.Oracle(pairwise(3, integral=False), "highs").maximize(np.zeros(6), forbid=[np.zeros(6)])
        with pytest.raises(DeclarationError, match="relaxed"):
            so.Oracle(pairwise(3), "highs", integral="relax").maximize(np.zeros(6), forbid=[np.zeros(6)])


class TestDiagnosis:
    def test_conflict_is_named_and_smallest(self):
        s = so.LabelSpace("clash")
        y = s.binary("y", 6)
        s.subject_to(y[0] + y[1] >= 2, name="both")
        s.subject_to(y[1] + y[2] <= 2, name="harmless")
        s.subject_to(y[0] + y[1] + y[3] <= 1, name="at most one")
        s.subject_to(y.sum() >= 1, name="something")
        with pytest.raises(InfeasibleSpace, match="clash") as info:
            so.Oracle(s, "highs").maximize(np.zeros(6))
        assert set(info.value.rows) == {"both", "at most one"}

    def test_integer_conflict(self):
        s = so.LabelSpace("parity")
        y = s.binary("y", 3)
        s.subject_to(2 * y[0] + 2 * y[1] == 1, name="odd")
        s.subject_to(y[2] <= 1, name="idle")
        with pytest.raises(InfeasibleSpace) as info:
            so.Oracle(s, "highs").maximize(np.zeros(3))
        assert info.value.rows == ("odd",)

    @pytest.mark.parametrize("solver", IN_PROCESS)
    def test_unbounded_names_the_ray(self, solver):
        s = so.LabelSpace("open")
        x = s.continuous("x", 3, 0)
        s.subject_to(x[0] - x[1] <= 1)
        with pytest.raises(UnboundedObjective, match="bound") as info:
            so.Oracle(s, solver).maximize([0.0, 1.0, -1.0])
        assert "x[1]" in info.value.variables and "x[2]" not in info.value.variables

    def test_label_outside_names_rows(self):
        model = so.Model(pairwise(3), {"y": so.features.Linear()}, so.losses.Hamming())
        with pytest.raises(so.errors.LabelNotInSpace, match=r"c0\[0\]"):
            model.encode(np.r_[0.0, 1, 1, 1, 0, 1])


class TestBadInput:
    def test_costs(self):
        oracle = so.Oracle(pairwise(3), "highs")
        with pytest.raises(SpaceMismatch, match="6 variables"):
            oracle.maximize(np.zeros(5))
        with pytest.raises(DeclarationError, match=r"y\[2\]"):
            oracle.maximize([0, 0, np.inf, 0, 0, 0])
        with pytest.raises(DeclarationError, match="Extra row 0"):
            oracle.maximize(np.zeros(6), rows=[(np.full(6, np.nan), 0, 1)])

    def test_solver(self):
        with pytest.raises(DeclarationError, match="choose one of"):
            so.Oracle(pairwise(3), "no such solver")
        with pytest.raises(DeclarationError, match="integral"):
            so.Oracle(pairwise(3), integral="maybe")

    def test_time_limit(self):
        rng = np.random.default_rng(0)
        s = so.LabelSpace("hard")
        y = s.binary("y", 120)
        s.subject_to(rng.integers(1, 1000, (20, 120)) @ y <= 15000.0)
        oracle = so.Oracle(s, "highs", time_limit=0.3)
        try:
            label = oracle.maximize(rng.integers(1, 1000, 120).astype(float))
        except TimeLimitReached:
            return
        assert s.contains(label.z) and label.bound >= label.value
        assert label.status in ("time limit", "optimal")


class GapAllowed(Highs):
    """A solver that stops at "optimal" with a gap left."""

    gap = 0.0

    def run(self, start=None):
        found = super().run(start)
        return replace(found, bound=found.bound + self.gap * abs(found.bound))


@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-3, 0.1])
def test_the_bound_of_an_optimal_answer_is_the_solvers(gap):
    backend = type("Backend", (GapAllowed,), {"gap": gap})
    for integral in ("auto", "relax", "force"):
        label = so.Oracle(pairwise(3), backend, integral=integral).maximize([1.0, 2.0, -1.0, 0.5, 0.0, 0.0])
        assert label.status == "optimal" and label.value == pytest.approx(3.5)
        if gap < 1e-9:
            assert label.bound == label.value
        else:
            assert label.bound == pytest.approx(3.5 * (1 + gap))


def test_a_solver_of_ones_own_answers_the_queries_of_a_plane():
    backend = type("Backend", (GapAllowed,), {"gap": 0.1})
    oracle = so.Oracle(pairwise(3), backend, integral="relax")
    h, g = np.array([1.0, 2.0, -1.0, 0.5, 0.0, 0.0]), np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    point = so.Plane(oracle, (h, 0.0), (g, 0.0)).query(0.5)
    assert (point.h, point.g) == (3.5, 2.0) and point.bound == pytest.approx(1.1 * 4.5)


def test_an_oracle_of_ones_own_answers_the_queries_of_a_plane():
    class Counting(so.Oracle):
        calls = 0

        def maximize(self, *args, **options):
            self.calls += 1
            return super().maximize(*args, **options)

    oracle = Counting(pairwise(3), "highs", integral="relax")
    so.Plane(oracle, (np.ones(6), 0.0), (np.ones(6), 0.0)).query(0.5)
    assert oracle.calls == 1


def test_a_gap_that_the_user_allows_is_in_the_bound():
    rng = np.random.default_rng(0)
    s = so.LabelSpace("knapsack")
    y = s.binary("y", 30)
    weight, c = rng.integers(10, 60, 30).astype(float), rng.integers(10, 60, 30).astype(float)
    s.subject_to(weight @ y <= 200.0)
    best = so.Oracle(s, "highs").maximize(c).value
    loose = so.Oracle(s, "highs", mip_gap=0.5, integral="force").maximize(c)
    assert loose.status == "optimal" and loose.value <= best <= loose.bound


def test_listing_is_offered_where_an_algorithm_lists():
    c = np.array([3.0, -1.0, 2.0, 0.0, 0.0, 0.0])
    assert so.Oracle(pairwise(3), "highs")._list_best(c, 3) is None
    s = so.LabelSpace("few labels")
    y = s.binary("y", 4)
    s.subject_to(y[0] + 2 * y[1] - 3 * y[2] <= 1, y[1] + y[3] >= 1)
    oracle = so.Oracle(s)
    assert oracle.algorithm == "enumeration" and not oracle._prefers_free_calls
    listed = oracle._list_best(np.array([1.0, 2.0, -1.0, 0.5]), 3)
    assert [label.value for label in listed] == sorted(s.enumerate() @ [1.0, 2.0, -1.0, 0.5])[::-1][:3]


def test_oracle_pickles_as_its_recipe():
    oracle = so.Oracle(pairwise(4), "highs", time_limit=60)
    twin = pickle.loads(pickle.dumps(oracle))
    c = np.random.default_rng(0).normal(size=10)
    assert twin.maximize(c).value == pytest.approx(oracle.maximize(c).value)
    assert twin.options == {"time_limit": 60} and twin.statistics.calls == 1


def test_views():
    first = so.Oracle(pairwise(4), "highs")
    first.maximize(np.ones(10))
    assert "highs" in repr(first) and "calls" in first._repr_html_()


@pytest.mark.parametrize("solver", ["auto", "highs", "scipy", "cbc"])
def test_fractional_bounds_of_integers(solver):
    """HiGHS 1.15 calls a wrong point optimal here unless the bound is rounded first."""
    space = so.LabelSpace()
    x = space.integer("x", 3, 0, [1, 0.5, 1])
    space.subject_to(-2 * x[0] + 2 * x[1] <= 0)
    oracle = so.Oracle(space, solver)
    rng = np.random.default_rng(0)
    labels = space.enumerate()
    for _ in range(20 if solver != "cbc" else 3):
        c = rng.normal(size=3)
        assert oracle.maximize(c).value == pytest.approx((labels @ c).max(), abs=1e-6)
    assert oracle.maximize([-1.0, 3.0, 0.0]).z[0] == 0


def test_labels_are_listed_where_products_with_all_are_cheap():
    space = so.LabelSpace("budget")
    z = space.binary("z", 5)
    space.subject_to(z @ np.array([1.0, 2.0, 3.0, 1.0, 2.0]) <= 4)
    listed = so.Oracle(space)._listed_labels
    assert {tuple(row) for row in listed} == {tuple(row) for row in space.enumerate()}
    assert so.Oracle(space, "highs")._listed_labels is None  # a chosen solver is asked
    assert so.Oracle(space, integral="relax")._listed_labels is None
    large = so.LabelSpace("box")
    large.binary("y", 40)
    assert so.Oracle(large)._listed_labels is None


@pytest.mark.parametrize("integral", ["auto", "force"])
def test_a_ray_of_the_relaxation_is_no_label(integral):
    # 9 a - 9 b = 6 has no integral solution; the LP has, and a free variable that grows for ever.
    space = so.LabelSpace.from_matrices([[9, -9, 0]], 6, 6, upper=[1, 1, np.inf])
    oracle = so.Oracle(space, "highs", integral=integral)
    with pytest.raises(InfeasibleSpace):
        oracle.maximize([0.0, 0.0, 1.0])
    with pytest.raises(InfeasibleSpace):
        oracle.maximize([0.0, 0.0, -1.0])
    feasible = so.LabelSpace.from_matrices([[9, -9, 0]], 9, 9, upper=[1, 1, np.inf])
    with pytest.raises(UnboundedObjective):
        so.Oracle(feasible, "highs", integral=integral).maximize([0.0, 0.0, 1.0])
    with pytest.raises(InfeasibleSpace):
        so.Oracle(feasible, "highs", integral=integral).maximize([0.0, 0.0, 1.0], rows=[([2, 2, 0], 1, 1)])


def test_seeds_of_samples_are_checked():
    oracle = so.Oracle(pairwise(3))
    with pytest.raises(DeclarationError, match="random_state must be an integer, got 'x'"):
        oracle.sample(np.zeros(6), random_state="x")
