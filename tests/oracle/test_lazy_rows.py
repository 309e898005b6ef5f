"""Oracles over lazy rows, against the same spaces with all rows listed and against enumeration."""

from __future__ import annotations

import pickle
import threading
import time
import warnings

import numpy as np
import pytest

import structopt as so
from structopt.backends.lazy import RowPool
from structopt.errors import InfeasibleSpace, SeparationFailed, TimeLimitReached
from structopt.space.enumeration import enumerate_labels
from structopt.stopping import deadline


class Hidden:
    """Rows ``matrix @ y <= upper`` of which the most violated are returned."""

    def __init__(self, matrix, upper, most=1):
        self.matrix, self.upper, self.most = matrix, upper, most

    def __call__(self, z):
        excess = self.matrix @ z["y"] - self.upper
        worst = np.argsort(-excess)[: self.most]
        return [(self.matrix[k], -np.inf, self.upper[k]) for k in worst if excess[k] > 1e-7]


def instance(seed, *, integral_only=False, most=2):
    """A random space with a few rows listed and the others lazy, and its twin with all rows listed."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(3, 8)), int(rng.integers(2, 9))
    matrix = rng.integers(-2, 4, (m, n)).astype(float)
    upper = np.maximum(matrix.sum(axis=1) - rng.integers(1, 5, m), 0.0)
    k = int(rng.integers(0, m))
    spaces = []
    for listed in (k, m):
        space = so.LabelSpace("hidden")
        y = space.binary("y", n)
        if listed:
            space.subject_to(matrix[:listed] @ y <= upper[:listed])
        spaces.append(space)
    spaces[0].lazy(Hidden(matrix[k:], upper[k:], most), name="hidden", integral_only=integral_only)
    return *spaces, rng


@pytest.mark.parametrize("integral", ["auto", "force", "relax"])
@pytest.mark.parametrize("integral_only", [False, True])
def test_optima_equal_those_of_listed_rows(integral, integral_only):
    for seed in range(8):
        lazy, full, rng = instance(seed, integral_only=integral_only)
        oracle, twin = so.Oracle(lazy, integral=integral), so.Oracle(full, "highs", integral=integral)
        for c in rng.normal(size=(4, lazy.n_variables)):
            found, want = oracle.maximize(c), twin.maximize(c)
            if integral == "relax" and integral_only:
                assert found.value >= want.value - 1e-9  # a bound: fractions are not separated
                assert not found.integral or full.contains(found.z)
            else:
                assert found.value == pytest.approx(want.value, abs=1e-7)
                assert (full.relaxed() if integral == "relax" else full).contains(found.z, tol=1e-6)
            assert found.status == "optimal" and found.bound >= want.value - 1e-9


_scratch = np.zeros(6)


class Global:
    """At most two of all, computed in an array that all threads share."""

    def __init__(self):
        self.inside, self.most = 0, 0

    def __call__(self, z):
        self.inside += 1
        self.most = max(self.most, self.inside)
        _scratch[:] = z["y"]
        time.sleep(1e-4)  # another thread would write here
        total = _scratch.sum()
        yield from [({"y": 1.0}, -np.inf, 2.0)] if total > 2 + 1e-6 else []
        self.inside -= 1


@pytest.mark.parametrize("solver", ["auto", "scipy"])
def test_a_function_with_global_arrays_is_called_by_one_thread_at_a_time(solver):
    space = so.LabelSpace("few")
    space.binary("y", 6)
    separate = Global()
    space.lazy(separate, name="few")
    C = np.random.default_rng(0).normal(size=(60, 6))
    found = so.Oracle(space, solver)._solve_batch(C, n_jobs=4)
    want = np.maximum(np.sort(C, axis=1)[:, -2:], 0.0).sum(axis=1)
    assert found.values == pytest.approx(want, abs=1e-7)
    assert separate.most == 1
    copy = pickle.loads(pickle.dumps(space))
    assert so.Oracle(copy).maximize(np.ones(6)).value == 2.0
    # One inside the other: an oracle over lazy rows in a separation.
    outer = so.LabelSpace("outer")
    y = outer.binary("y", 6)
    outer.lazy(lambda z: y.sum() <= 2 if not space.contains(z["y"]) else None, integral_only=True)
    assert so.Oracle(outer)._solve_batch(C, n_jobs=2).values == pytest.approx(want, abs=1e-7)


def test_one_that_says_so_is_called_by_several_threads():
    """Two calls wait for each other: they are made at the same time, or never end."""
    both = threading.Barrier(2, timeout=60)

    class Kernel:
        concurrent = True

        def __call__(self, z):
            both.wait()

    space = so.LabelSpace()
    space.binary("y", 2)
    space.lazy(Kernel(), integral_only=True)
    found = so.Oracle(space, "scipy")._solve_batch(np.ones((2, 2)), n_jobs=2)
    assert found.values.tolist() == [2.0, 2.0]


# ---- a solver with lazy-constraint callbacks -----------------------------------------------------


@pytest.fixture
def scip():
    return pytest.importorskip("pyscipopt", reason="SCIP is not installed here") and "scip"


@pytest.mark.parametrize("integral", ["auto", "force", "relax"])
@pytest.mark.parametrize("integral_only", [False, True])
def test_callbacks_find_the_optima_of_listed_rows(scip, integral, integral_only):
    for seed in range(4):
        lazy, full, rng = instance(seed, integral_only=integral_only, most=1)
        oracle, labels = so.Oracle(lazy, scip, integral=integral), full.enumerate()
        for c in rng.normal(size=(4, lazy.n_variables)):
            found, best = oracle.maximize(c), (labels @ c).max()
            assert found.bound >= best - 1e-7
            if integral == "relax":
                continue
            assert found.value == pytest.approx(best, abs=1e-7) and full.contains(found.z)
            a, limit = rng.normal(size=c.size), float(rng.normal())
            inside = labels[labels @ a <= limit - 1e-6]
            if len(inside):
                rows = [(a, -np.inf, limit)]
                assert oracle.maximize(c, rows).value >= (inside @ c).max() - 1e-7
            want = np.sort(labels @ c)[::-1][:3]
            assert [label.value for label in oracle.k_best(c, 3)] == pytest.approx(want.tolist(), abs=1e-7)
        runs = oracle.statistics
        # One search each, no rounds; a box without rows is solved without SCIP, once.
        assert integral == "relax" or (runs.lp == 0 and runs.mip <= runs.calls + 1)


def test_exceptions_and_limits_inside_callbacks(scip):
    def raising(y, z):
        raise ZeroDivisionError("by nothing")

    for _ in range(2):
        space = one_of(3, raising)
        space.subject_to(space["y"].sum() >= 1)
        with pytest.raises(SeparationFailed, match="'mine' raised ZeroDivisionError"):
            so.Oracle(space, scip).maximize(np.ones(3))

    def interrupted(y, z):
        raise KeyboardInterrupt

    space = one_of(3, interrupted)
    space.subject_to(space["y"].sum() >= 1)
    with pytest.raises(KeyboardInterrupt):
        so.Oracle(space, scip).maximize(np.ones(3))
    space = one_of(3, lambda y, z: y.sum() <= z.sum() - 0.5, max_rounds=2)
    space.subject_to(space["y"].sum() <= 3, name="listed")
    with pytest.raises((TimeLimitReached, InfeasibleSpace)) as raised:
        so.Oracle(space, scip).maximize(np.ones(3))
    assert isinstance(raised.value, InfeasibleSpace) or raised.value.bound <= 3.0 + 1e-6


def test_no_time_for_callbacks_leaves_what_the_bounds_allow(scip):
    space = one_of(3, lambda y, z: y.sum() <= 1 if z.sum() > 1 + 1e-6 else None)
    space.subject_to(space["y"].sum() <= 2.5)
    oracle = so.Oracle(space, scip)
    with pytest.raises(TimeLimitReached, match="No label is worth more than 6") as raised, deadline(0.0):
        oracle.maximize([3.0, 2.0, 1.0])
    assert raised.value.bound == 6.0
    assert oracle.maximize([3.0, 2.0, 1.0]).value == 3.0


def test_callbacks_with_awkward_rows(scip):
    """Equations, tiny and huge coefficients, a continuous variable, contradictions, and SCIP inside SCIP."""

    def oracle(separate, n=4):
        space = one_of(n, separate)
        space.subject_to(space["y"].sum() <= n - 0.5, name="listed")
        return so.Oracle(space, scip)

    two = oracle(lambda y, z: y.sum() == 2 if abs(z.sum() - 2) > 1e-6 else None)
    assert [two.maximize(sign * np.ones(4)).value for sign in (1.0, -1.0)] == [2.0, -2.0]
    for size in (1e-9, 1e9):
        row = np.full(4, size), -np.inf, size
        one = oracle(lambda y, z, row=row: row if z.sum() > 1 + 1e-9 else None)
        assert one.maximize([1.0, 2.0, 3.0, 0.0]).value == 3.0
    nested = oracle(lambda y, z: y.sum() <= two.maximize(np.ones(4)).value if z.sum() > 2 + 1e-6 else None)
    assert nested.maximize(np.ones(4)).value == 2.0
    with pytest.raises(InfeasibleSpace, match="mine"):
        oracle(lambda y, z: y.sum() <= 1 if z.sum() > 1 + 1e-6 else y.sum() >= 2).maximize(np.ones(4))
    mixed = so.LabelSpace()
    y, t = mixed.binary("y", 2), mixed.continuous("t", lower=0.0, upper=10.0)
    mixed.subject_to(y.sum() <= 5)
    mixed.lazy(lambda z: t <= 3 * y.sum() if z["t"] > 3 * z["y"].sum() + 1e-7 else None)
    assert so.Oracle(mixed, scip).maximize([-1.0, -2.0, 1.0]).value == pytest.approx(3.0)


def test_tours_by_callbacks(scip):
    rng = np.random.default_rng(0)
    for directed in (False, True):
        space = so.structures.Tour(directed).space(np.zeros((8, 8, 1)))
        oracle, peer = so.Oracle(space, scip), so.Oracle(space, "highs")
        for c in rng.normal(size=(4, 64)):
            assert oracle.maximize(c).value == pytest.approx(peer.maximize(c).value, abs=1e-7)


def test_rows_are_kept_for_the_next_call():
    lazy, _, rng = instance(7)
    oracle = so.Oracle(lazy, "highs")
    C = rng.normal(size=(30, lazy.n_variables))
    oracle._solve_batch(C)
    before = oracle.lazy_rows.found
    assert len(oracle.lazy_rows) > 0
    oracle._solve_batch(C)
    assert oracle.lazy_rows.found == before
    copy = pickle.loads(pickle.dumps(oracle))
    assert len(copy.lazy_rows) == 0 and copy.maximize(C[0]).value == pytest.approx(oracle.maximize(C[0]).value)


def test_duplicates_and_dominated_rows_are_dropped():
    space = so.LabelSpace()
    y = space.binary("y", 3)
    answers = [
        [y.sum() <= 2, y.sum() * 2 <= 4, -y.sum() >= -2],
        [y.sum() * 3 <= 3],
    ]
    space.lazy(lambda z: answers[0] if z["y"].sum() > 2 else answers[1] if z["y"].sum() > 1 else None, name="few")
    oracle = so.Oracle(space)
    assert oracle.maximize([3.0, 2.0, 1.0]).value == 3.0
    (row,) = oracle.lazy_rows.rows
    assert oracle.lazy_rows.described(row) == "few (y[0] + y[1] + y[2] <= 1)"
    assert oracle.lazy_rows.found == 4


def test_rows_that_contradict_each_other_make_a_space_empty():
    space = one_of(2, lambda y, z: y.sum() <= 1 if z.sum() > 1.2 else y.sum() * 2 >= 3)
    with pytest.raises(InfeasibleSpace, match="mine"):
        so.Oracle(space, integral="relax").maximize(np.ones(2))


def test_old_rows_are_dropped_and_found_again():
    lazy, full, rng = instance(11)
    oracle = so.Oracle(lazy)
    pool = oracle.lazy_rows
    pool.max_rows, pool.max_age = 2, 3
    labels = full.enumerate()
    for c in rng.normal(size=(150, lazy.n_variables)):
        assert oracle.maximize(c).value == pytest.approx((labels @ c).max(), abs=1e-7)
        assert len(pool) <= 2 + 8  # and what the present call found


# ---- what may go wrong ---------------------------------------------------------------------------


def one_of(n, separate, **options):
    space = so.LabelSpace("one of many")
    y = space.binary("y", n)
    space.lazy(lambda z: separate(y, z["y"]), name="mine", **options)
    return space


def test_an_exception_is_chained_with_the_point():
    def separate(y, z):
        raise ZeroDivisionError("by nothing")

    oracle = so.Oracle(one_of(2, separate))
    for _ in range(2):
        with pytest.raises(SeparationFailed, match="'mine' raised ZeroDivisionError: by nothing") as raised:
            oracle.maximize([1.0, -1.0], rows=[(np.ones(2), 0.0, 2.0)])
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        assert raised.value.point.tolist() == [1, 0] and raised.value.name == "mine"


def test_satisfied_rows_are_ignored_and_warned_of_once():
    oracle = so.Oracle(one_of(3, lambda y, z: [y.sum() <= 3.5, y.sum() <= 2]))
    with pytest.warns(UserWarning, match="'mine' returned a row that the point satisfies"):
        assert oracle.maximize(np.ones(3)).value == 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert oracle.maximize([3.0, 2.0, 1.0]).value == 5.0
    assert oracle.lazy_rows.ignored >= 3 and len(oracle.lazy_rows) == 1


def test_a_separation_that_never_ends_leaves_a_bound():
    def separate(y, z):
        return y.sum() <= z.sum() - 0.001 if z.sum() > 0.5 else None

    relaxed = so.Oracle(one_of(3, separate, max_rounds=20), integral="relax").maximize(np.ones(3))
    assert relaxed.status == "time limit" and 2.9 < relaxed.bound < 3.0 and relaxed.value <= relaxed.bound + 1e-9
    with pytest.raises(TimeLimitReached, match="max_rounds=1 after 2 rounds") as raised:
        so.Oracle(one_of(3, lambda y, z: y.sum() <= z.sum() - 0.5, max_rounds=1)).maximize(np.ones(3))
    assert raised.value.bound == pytest.approx(2.0)


def test_a_known_label_is_returned_at_a_limit():
    def separate(y, z):
        return y.sum() <= z.sum() - 1 if z.sum() > 1.5 else None

    oracle = so.Oracle(one_of(3, separate, max_rounds=1))
    found = oracle.maximize([3.0, 2.0, 1.0], start=[0, 1, 0])
    assert found.z.tolist() == [0, 1, 0] and found.value == 2.0
    assert found.status == "time limit" and found.bound >= 3.0


def test_failing_and_many_rows():
    """4,000 rows at once, and a batch in threads of which one call fails: the oracle answers afterwards."""
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 3, (4_000, 12)).astype(float)
    upper = matrix.sum(axis=1) - 1

    def many(y, z):
        broken = matrix @ z > upper + 1e-6
        return (matrix[broken], -np.inf, upper[broken]) if broken.any() else None

    oracle = so.Oracle(one_of(12, many))
    assert oracle.maximize(np.ones(12)).value < 12 and len(oracle.lazy_rows) > 2_000
    calls = []

    def fails_once(y, z):
        calls.append(z)
        if len(calls) == 7:
            raise OSError("no disk")
        return y.sum() <= 1 if z.sum() > 1 + 1e-6 else None

    oracle, C = so.Oracle(one_of(3, fails_once)), rng.normal(size=(30, 3))
    with pytest.raises(SeparationFailed, match="no disk"):
        oracle._solve_batch(C, n_jobs=3)
    assert oracle._solve_batch(C, n_jobs=3).values == pytest.approx(np.maximum(C.max(axis=1), 0.0), abs=1e-7)


def test_rows_that_exclude_everything_are_named():
    space = one_of(2, lambda y, z: [row for row, out in ((y.sum() <= 1, z.sum() > 1), (y[0] >= 1, z[0] < 1)) if out])
    space.subject_to(space["y"].sum() >= 2, name="both")
    with pytest.raises(InfeasibleSpace, match="mine") as raised:
        so.Oracle(space).maximize(np.ones(2))
    assert "both" in raised.value.rows


def test_a_row_that_cuts_off_a_ground_truth_is_named():
    def separate(y, z):  # right at integral points, wrong at fractions
        if (z == np.rint(z)).all():
            return None
        return y[0] <= 0

    space = one_of(3, separate)
    space.subject_to(2 * space["y"].sum() <= 3, name="half")
    model = so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming(), integral="relax")
    with pytest.raises(SeparationFailed, match=r"cuts off the ground truth of example 1: y\[0\] <= 0") as raised:
        so.StructuredSVM(model, lam=0.01).fit(np.eye(3), [[0, 1, 0], [1, 0, 0], [0, 0, 1]])
    assert raised.value.point.tolist() == [1, 0, 0]


def test_a_row_that_cuts_off_an_accepted_label_is_named():
    seen = []

    def separate(y, z):
        seen.append(z)
        return y[0] <= 0 if len(seen) > 1 and z[0] > 0 else None

    oracle = so.Oracle(one_of(2, separate))
    assert oracle.maximize([1.0, 0.5]).value == 1.5
    with pytest.raises(SeparationFailed, match="accepted before"):
        oracle.maximize([1.0, -0.5])


def test_known_labels_are_checked_against_known_rows():
    space = one_of(3, lambda y, z: y.sum() <= 1 if z.sum() > 1.5 else None)
    oracle = so.Oracle(space)
    oracle.maximize(np.ones(3))
    with pytest.raises(SeparationFailed, match="cuts off label 1"):
        oracle.lazy_rows.know(np.array([[1.0, 0, 0], [1.0, 1.0, 0]]), lambda i: f"label {i}")


def test_mixed_variables_and_free_ones():
    """A continuous variable in lazy rows, and an objective that only lazy rows would bound."""
    space = so.LabelSpace()
    y, t = space.binary("y", 2), space.continuous("t", lower=0.0, upper=10.0)
    space.lazy(lambda z: t <= 3 * y.sum() if z["t"] > 3 * z["y"].sum() + 1e-7 else None)
    oracle = so.Oracle(space)
    assert oracle.maximize([-1.0, -2.0, 1.0]).value == pytest.approx(3.0)  # both: 6 - 3; the first alone: 3 - 1 = 2
    free = so.LabelSpace()
    x = free.continuous("x", lower=0.0)
    free.lazy(lambda z: x <= 1 if z["x"] > 1 else None)
    with pytest.raises(so.errors.UnboundedObjective, match=r"x \(up\).*lazy rows 'lazy0' are asked at points"):
        so.Oracle(free).maximize([1.0])


@pytest.mark.parametrize(
    "row",
    [([1.0 + 1j, 1.0], 0.0, 1.0), ({"y": np.array([1j, 0.0])}, 0.0, 1.0), (np.ones(2), 0.0, 1.0 + 1j)],
)
def test_complex_rows_are_refused(row):
    with pytest.raises(SeparationFailed, match="complex"):
        so.Oracle(one_of(2, lambda y, z: row)).maximize(np.ones(2))


def test_a_time_limit_ends_the_rounds_with_a_bound():
    def slow(y, z):
        time.sleep(0.25)
        return y.sum() <= z.sum() - 0.001 if z.sum() > 0.5 else None

    found = so.Oracle(one_of(3, slow), integral="relax", time_limit=0.6).maximize(np.ones(3))
    assert found.status == "time limit" and 2.9 < found.bound <= 3.0 + 1e-9
    with pytest.raises(TimeLimitReached, match="the time limit after") as raised:
        so.Oracle(one_of(3, slow), time_limit=0.6).maximize(np.ones(3))
    assert 1.0 <= raised.value.bound <= 3.0 + 1e-9


def test_an_interrupted_call_leaves_the_oracle_usable():
    """Ctrl-C inside the separation, with side constraints loaded."""
    seen = []

    def separate(y, z):
        seen.append(z)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return y.sum() <= 1 if z.sum() > 1 + 1e-6 else None

    oracle = so.Oracle(one_of(3, separate))
    with pytest.raises(KeyboardInterrupt):
        oracle.maximize([3.0, 2.0, 1.0], rows=[([1.0, 0.0, 0.0], -np.inf, 0.0)])
    assert oracle.maximize([3.0, 2.0, 1.0]).value == 3.0  # without the rows of that call
    assert oracle.maximize([3.0, 2.0, 1.0], rows=[([1.0, 0.0, 0.0], -np.inf, 0.0)]).value == 2.0


def test_the_pool_by_itself():
    space = so.LabelSpace()
    y = space.binary("y", 2)
    space.lazy(lambda z: y.sum() <= 1 if z["y"].sum() > 1 else None)
    pool = RowPool(space.compiled)
    assert pool.program.n_rows == 0 and repr(pool) == "<RowPool: 0 rows; 0 found in 0 rounds, 0 ignored>"
    (row,) = pool.separate(np.ones(2))
    assert pool.separate(np.ones(2)) == [row] and not pool.separate(np.zeros(2))
    assert pool.program.row_names == ["lazy0 (y[0] + y[1] <= 1)"]


def test_small_spaces_are_listed_after_many_calls():
    for seed in range(3):
        lazy, full, rng = instance(seed)
        oracle, twin = so.Oracle(lazy), so.Oracle(full, "highs")
        assert oracle.algorithm == "highs"
        C = rng.normal(size=(max(40, len(full.enumerate())), lazy.n_variables))
        assert [label.value for label in oracle.maximize_batch(C)] == pytest.approx(
            [label.value for label in twin.maximize_batch(C)], abs=1e-9
        )
        c = rng.normal(size=lazy.n_variables)
        values = [label.value for label in oracle.k_best(c, 3)]
        assert values == pytest.approx([label.value for label in twin.k_best(c, 3)], abs=1e-9)
        few = len(enumerate_labels(lazy.compiled.rows_only())) <= len(C)
        assert oracle.algorithm == ("enumeration" if few else "highs")


def test_a_call_with_a_time_limit_lists_nothing():
    lazy, _, rng = instance(0)
    oracle = so.Oracle(lazy, time_limit=60.0)
    oracle.maximize_batch(rng.normal(size=(300, lazy.n_variables)))
    assert oracle.algorithm == "highs"


def test_a_separation_that_fails_where_no_solver_asked_is_no_obstacle():
    space = so.LabelSpace("half known")
    y = space.binary("y", 3)

    def separate(z):
        if z["y"].sum() == 0:
            raise ValueError("nothing is known of this one")
        return [y.sum() <= 2] if z["y"].sum() > 2 else None

    space.lazy(separate, name="two")
    oracle = so.Oracle(space)
    assert [oracle.maximize([1.0, 2.0, 3.0]).value for _ in range(40)] == [5.0] * 40
    assert oracle.algorithm == "highs"
