"""Columns that follow from others are substituted if no point is lost, and only then."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

import structopt as so
from structopt.recognize.dependent import without_dependent
from structopt.recognize.normalize import normalize


def random_program(kit, rng):
    """A few packing rows, and equality rows that give further columns, some of them with tight bounds."""
    n, k = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    A = np.zeros((0, n + k))
    low, high = [], []
    for _ in range(rng.integers(0, 4)):
        row = np.zeros(n + k)
        row[rng.choice(n, rng.integers(1, n + 1), replace=False)] = 1.0
        A, low, high = np.vstack([A, row]), [*low, rng.choice([-np.inf, 1.0])], [*high, 1.0]
    integer = rng.random(n + k) < 0.7
    lower, upper = np.zeros(n + k), np.ones(n + k)
    upper[:n] = rng.choice([1.0, 2.0, 0.7], n, p=[0.8, 0.1, 0.1])
    for j in range(n, n + k):
        row = np.zeros(n + k)
        others = rng.choice(j if rng.random() < 0.3 else n, rng.integers(1, n + 1), replace=False)
        row[others] = rng.choice([1.0, -1.0, 0.5, 0.3], others.size, p=[0.7, 0.1, 0.1, 0.1])
        row[j] = rng.choice([-1.0, 1.0, 2.0], p=[0.7, 0.2, 0.1])
        b = float(rng.choice([0.0, 1.0, 0.25], p=[0.7, 0.2, 0.1]))
        lower[j] = rng.choice([0.0, -1.0, -np.inf, -4.0])
        upper[j] = rng.choice([1.0, 2.0, np.inf, 4.0])
        A, low, high = np.vstack([A, row]), [*low, b], [*high, b]
        if rng.random() < 0.15:
            row = np.zeros(n + k)
            row[[j, rng.integers(n)]] = 1.0
            A, low, high = np.vstack([A, row]), [*low, -np.inf], [*high, 1.0]
    order = rng.permutation(len(A))
    return kit.space(A[order], np.array(low)[order], np.array(high)[order], lower, upper, integer)


def best(c, matrix, low, high, lower, upper, integer):
    """The largest ``c z``; None if there is no point."""
    rows = LinearConstraint(matrix, low, high) if matrix.shape[0] else None
    found = milp(-c, constraints=rows, bounds=Bounds(lower, upper), integrality=integer)
    return None if found.status == 2 else -found.fun


def test_no_point_is_lost_or_gained(kit):
    """Optima over the smaller space and over the declared one agree, of the program and of its LP relaxation."""
    substituted = rounds = 0
    for seed in range(250):
        rng = np.random.default_rng(seed)
        space = random_program(kit, rng)
        found = normalize(space)
        for _ in range(3):
            reduced = without_dependent(found, np.arange(space.n_variables))
            if reduced is None:
                break
            found = reduced
            rounds += 1
        if found.dependent is None:
            continue
        substituted += 1
        form, dependent = found.form, found.dependent
        kinds = np.concatenate([form.columns, found.fixed_columns, dependent.columns])
        assert sorted(kinds) == list(range(space.n_variables))
        for whole in (False, True):
            if not whole and found.tightened:
                continue
            for _ in range(3):
                c = rng.integers(-5, 6, space.n_variables).astype(float)
                free = c[form.columns] + dependent.matrix.T @ c[dependent.columns]
                base = c[found.fixed_columns] @ found.fixed_values + c[dependent.columns] @ dependent.const
                marks = (whole * space.integrality, whole * form.integer)
                parts = space.matrix, space.row_lower, space.row_upper, space.lower, space.upper
                wanted = best(c, *parts, marks[0])
                if form.n_columns:
                    parts = form.matrix, form.row_lower, form.row_upper, form.lower, form.upper
                    value = best(free, *parts, marks[1])
                    value = None if value is None else value + base
                else:
                    value = base
                assert value == pytest.approx(wanted, abs=1e-6), (seed, whole)
    assert substituted > 80 and rounds > substituted


def test_answers_for_spaces_with_dependent_columns():
    """Oracles of recognised spaces with counts, copies and weighted sums agree with enumeration."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        space = so.LabelSpace()
        x = space.binary("x", (2, 3))
        space.subject_to(x.sum(axis=1) == 1)
        if rng.random() < 0.5:
            space.subject_to(x.sum(axis=0) <= 1)
        groups = rng.integers(0, 2, (3, 6)).astype(float)
        groups[np.arange(3), rng.integers(0, 6, 3)] = 1.0
        count = space.continuous("count", 3, 0, 6)
        space.subject_to(count == sp.csr_array(groups) @ x.reshape(-1))
        total = space.integer("total", 1, 0, 20)
        space.subject_to(total == x[0].sum() + x[1, :2].sum() + 2)
        weight = space.continuous("weight", 1, -np.inf, np.inf)
        space.subject_to(2 * weight == np.array([0.3, 1.5, -0.7]) @ x[0] + count.sum())
        assert space.structure.kind in ("simplices", "assignment")
        assert space.structure.dependent.columns.size == 5
        assert not space.structure.integral
        labels = space.enumerate()
        oracle = so.Oracle(space)
        C = rng.normal(size=(5, space.n_variables))
        found = oracle.maximize_batch(C)
        for c, label in zip(C, found, strict=True):
            assert label.value == pytest.approx((labels @ c).max())
            assert space.contains(label.z)
            assert oracle.maximize(c).value == pytest.approx(label.value)
        values = [label.value for label in oracle.k_best(C[0], len(labels) + 1)]
        assert values == pytest.approx(np.sort(labels @ C[0])[::-1])


def only_a_choice(*rows):
    """A choice of one of three, with a fourth column in the equality rows given as functions of both."""
    space = so.LabelSpace()
    x = space.binary("x", 3)
    space.subject_to(x.sum() <= 2, x[0] + x[1] <= 1)
    d = rows[0](space)
    space.subject_to(*(row(x, d) for row in rows[1:]))
    return normalize(space.compiled)


NEAR_MISSES = {
    "bounds are not implied": (lambda s: s.continuous("d", 1, 0, 1), lambda x, d: d == x[0] + x[2]),
    "a lower bound is not implied": (lambda s: s.continuous("d", 1, 0, 9), lambda x, d: d == x[0] - x[2]),
    "integer column, fractional terms": (lambda s: s.integer("d", 1, -9, 9), lambda x, d: d == 0.5 * x[0] + x[2]),
    "integer column, factor": (lambda s: s.integer("d", 1, -9, 9), lambda x, d: 2 * d == x[0] + x[2] * 3),
    "integer column, fractional constant": (lambda s: s.integer("d", 1, -9, 9), lambda x, d: d == x[0] + x[2] + 0.5),
    "a column of two rows": (
        lambda s: s.continuous("d", 1, 0, 9),
        lambda x, d: d == x[0] + x[2],
        lambda x, d: d <= x[1] + 1,
    ),
    "an inequality": (lambda s: s.continuous("d", 1, 0, 9), lambda x, d: d <= x[0] + x[2]),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_not_substituted(name):
    assert without_dependent(only_a_choice(*NEAR_MISSES[name]), np.arange(4)) is None


@pytest.mark.parametrize(
    "rows",
    [
        (lambda s: s.continuous("d", 1, 0, 1), lambda x, d: d == x[0] + x[1]),  # by the row that packs both
        (lambda s: s.continuous("d", 1, 0, 2), lambda x, d: d == x[0] + x[2]),
        (lambda s: s.integer("d", 1, -1, 1), lambda x, d: d == x[0] - x[2]),
        (lambda s: s.continuous("d", 1, -np.inf, np.inf), lambda x, d: 3 * d == 0.5 * x[0] + 0.3 * x[2]),
    ],
)
def test_columns_with_implied_bounds_are_substituted(rows):
    reduced = without_dependent(only_a_choice(*rows), np.arange(4))
    assert reduced is not None and reduced.dependent.columns.tolist() == [3]


def test_two_rows_do_not_imply_the_bounds_of_each_other():
    """``a = 1 - x - y`` is non-negative by ``b``'s row, and ``b`` by ``a``'s: not both rows may go."""
    space = so.LabelSpace()
    x, a, b = space.binary("x", 2), space.binary("a", 1), space.binary("b", 1)
    z = space.binary("z", 1)
    space.subject_to(a + x.sum() == 1, b + x.sum() == 1, 2 * z + 3 * x[0] <= 4)
    found = normalize(space.compiled)
    assert without_dependent(found, np.arange(5)) is None


def test_a_continuous_part_of_an_integer_sum_stays():
    space = so.LabelSpace()
    x, y = space.binary("x", 2), space.continuous("y", 1, 0, 1)
    d = space.integer("d", 1, 0, 3)
    space.subject_to(d == x.sum() + y, x.sum() <= 1, x[0] + y <= 1)
    assert without_dependent(normalize(space.compiled), np.arange(4)) is None


@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("initial", [False, True])
def test_declared_segments_with_extra_blocks_are_paths(lengths, initial):
    rules = {"transitions": ~np.eye(3, dtype=bool), "initial": [1, 0, 1]}
    model = so.structures.Segmentation(3, 2, length_weights=lengths, initial_weights=initial, **rules)
    space = so.LabelSpace.from_compiled(model.space(np.zeros((4, 1))).compiled)
    assert space.structure.kind == "path" and space.structure.integral
    assert (space.structure.dependent is not None) == (lengths or initial)
    assert "follow" in repr(space.structure) or not (lengths or initial)
