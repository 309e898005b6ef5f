"""One tolerance for everybody: `contains`, `enumerate`, diagrams, recognised algorithms and every solver mean one set.

`contains` accepts a label that leaves a row by up to 1e-6 of the size of its terms (or of the row's unit). Bounds here
are put just inside and just outside of what some label then needs.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import structopt as so
from structopt.backends import available_profiles
from structopt.space.compiled import FEASIBILITY_TOLERANCE
from structopt.space.exact_rows import with_exact_rows
from structopt.space.feasibility import contains
from structopt.space.tolerance import broken_rows
from structopt.testing.instances import space_of

SOLVERS = sorted(name for name, profile in available_profiles().items() if profile.unavailable() is None)


def every_label(space, tol=FEASIBILITY_TOLERANCE):
    """All integer points within the bounds that `contains` accepts."""
    bounds = zip(space.lower, space.upper, strict=True)
    values = [np.arange(np.ceil(low - 1e-6), np.floor(up + 1e-6) + 1) for low, up in bounds]
    return np.array([z for z in itertools.product(*values) if contains(space, z, tol)]).reshape(-1, space.n_variables)


def near_miss(rng, kind):
    """A space with a row whose bound is within a few tolerances of what one of its points needs."""
    n = int(rng.integers(2, 6))
    low, up = np.zeros(n), np.ones(n)
    a = {
        "equal": np.full(n, float(rng.choice([1000.0, 1.0, 0.25, 1 / 3]))),
        "integers": rng.integers(1, 3000, n).astype(float),
        "decimals": rng.integers(1, 500, n) / 10.0,
        "floats": rng.random(n) * float(rng.choice([1e-3, 1.0, 1e4])),
        "signs": rng.choice([-1.0, 1.0], n) * rng.integers(1, 3000, n),
        "float signs": rng.normal(size=n) * float(rng.choice([1.0, 1e4])),
        "big M": np.r_[np.ones(n - 1), -float(rng.choice([100.0, 1e5]))],
        "both signs": rng.choice([-1.0, 1.0], n) * rng.integers(1, 2000, n),
    }[kind]
    if kind == "both signs":
        low = rng.integers(-2, 1, n).astype(float)
    if rng.random() < 0.3:
        up[0] = low[0]
    elif rng.random() < 0.3:
        up[-1] = 2.0
    point = np.array([rng.integers(x, y + 1) for x, y in zip(low, up, strict=True)], dtype=float)
    size = max(min(1.0, np.abs(a).max()), np.abs(a) @ np.abs(point))
    off = float(rng.choice([0.5, 0.95, 1.05, 2.0, -1.0])) * FEASIBILITY_TOLERANCE * size
    if rng.random() < 0.5:
        lower, upper = -np.inf, a @ point - off
    else:
        lower, upper = a @ point + off, np.inf
    if rng.random() < 0.3:
        lower, upper = a @ point - abs(off), a @ point + abs(off)
    return space_of(a[None], lower, upper, low, up, np.ones(n, dtype=bool))


KINDS = ["equal", "integers", "decimals", "floats", "signs", "float signs", "big M", "both signs"]


def check(space, solver, rng, **options):
    labels = every_label(space)
    if len(labels) != len(every_label(space, 1e-9)) and ((space.lower < 0) & (space.upper > 0)).any():
        return  # the exception: a label that hangs on the tolerance of a row with variables of both signs
    try:
        oracle = so.Oracle(space, solver, **options)
        for _ in range(2):
            c = rng.normal(size=space.n_variables)
            found = oracle.maximize(c)
            assert len(labels), found
            assert found.value == pytest.approx((labels @ c).max(), rel=1e-9, abs=1e-9), (space.matrix.toarray(), c)
            assert (labels == found.z).all(axis=1).any()
    except so.errors.DiagramRefused as refusal:
        assert refusal.reason == "tolerance"
    except so.errors.InfeasibleSpace:
        assert not len(labels), labels


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_the_same_for_algorithms_and_highs(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(6):
        space = near_miss(rng, kind)
        for solver in ("auto", "diagram", "highs"):
            check(space, solver, rng)
        check(space, "highs", rng, integral="force")


@pytest.mark.parametrize("solver", SOLVERS)
def test_labels_are_the_same_for_every_solver(solver):
    rng = np.random.default_rng(5)
    for kind in KINDS:
        check(near_miss(rng, kind), solver, rng)


@pytest.mark.parametrize("upper, most", [(1999.999, 2), (1999.9981, 2), (1999.9979, 1), (1999.0, 1), (2000.0, 2)])
def test_two_items_of_a_thousand(upper, most):
    space = so.LabelSpace()
    y = space.binary("y", 3)
    space.subject_to(1000 * y[0] + 1000 * y[1] <= upper, y[1] + 2 * y[2] <= 2)
    assert space.contains([1, 1, 0]) == (most == 2)
    assert [1.0, 1.0, 0.0] in space.enumerate().tolist() or most == 1
    for solver in ("auto", "diagram", *SOLVERS):
        assert so.Oracle(space, solver).maximize([1.0, 1.0, -1.0]).value == pytest.approx(most), solver


def test_rows_of_small_integers_stay_as_they_are():
    space = space_of([[1.0, 2.0, -3.0], [1.0, 1.0, 1.0]], -np.inf, [2.0, 1.0], 0.0, 1.0, [True] * 3)
    assert with_exact_rows(space) is space
    assert with_exact_rows(space.relaxed()) is not None and with_exact_rows(space.relaxed()).row_upper[0] == 2.0


def test_rows_of_continuous_variables_and_unbounded_ones_stay():
    space = space_of([[1000.0, 0.5]], -np.inf, 999.9999, 0.0, 1.0, [True, False])
    assert with_exact_rows(space) is space
    space = space_of([[1000.0, 0.5]], -np.inf, 999.9999, 0.0, [np.inf, 1.0], [True, True])
    assert with_exact_rows(space) is space


@pytest.mark.parametrize("kind", KINDS)
def test_exact_rows_hold_all_labels(kind):
    """And no point besides them."""
    rng = np.random.default_rng(40 + KINDS.index(kind))
    for _ in range(12):
        space = near_miss(rng, kind)
        exact = with_exact_rows(space)
        boxes = [np.arange(np.ceil(low), np.floor(up) + 1) for low, up in zip(space.lower, space.upper, strict=True)]
        points = np.array(list(itertools.product(*boxes)))
        labels = {tuple(z) for z in every_label(space)}
        activity = (exact.matrix @ points.T).T
        rounding = 1e-12 * (abs(exact.matrix) @ np.abs(points).T).T
        inside = (activity <= exact.row_upper + rounding) & (activity >= exact.row_lower - rounding)
        inside = {tuple(z) for z in points[inside.all(axis=1)]}
        if not ((space.lower < 0) & (space.upper > 0)).any():
            # Coefficients below the row's unit, of both signs: where the terms are smaller than that, a little more.
            assert labels <= inside if kind == "float signs" else labels == inside


def test_the_relaxation_that_was_asked_for_is_that_of_the_rows_as_declared():
    space = so.LabelSpace.from_matrices([[2.0, 2.0, 3.0]], -np.inf, 3.5)
    assert so.Oracle(space, "highs", integral="relax").maximize([2.0, 2.0, 3.0]).value == pytest.approx(3.5)


@pytest.mark.parametrize("integral", ["auto", "force"])
@pytest.mark.parametrize("kind", KINDS)
def test_side_rows_sent_to_a_solver_follow_the_rule(kind, integral):
    """A row of one call and a lazy row leave the labels that the row would leave in the space."""
    rng = np.random.default_rng(80 + KINDS.index(kind))
    for _ in range(12):
        space = near_miss(rng, kind)
        labels = every_label(space)
        if len(labels) != len(every_label(space, 1e-9)) and ((space.lower < 0) & (space.upper > 0)).any():
            continue  # as in `check`

        def cut(z, y, space=space):
            broken = broken_rows(space.matrix, space.row_lower, space.row_upper, z, FEASIBILITY_TOLERANCE)
            return row_of(y, space) if broken.any() else None

        free, lazy = so.LabelSpace(), so.LabelSpace()
        y = free.integer("y", space.n_variables, lower=space.lower, upper=space.upper)
        x = lazy.integer("y", space.n_variables, lower=space.lower, upper=space.upper)
        lazy.lazy(lambda z, x=x, cut=cut: cut(z["y"], x))
        for asked, rows in ((free, [row_of(y, space)]), (lazy, [])):
            oracle = so.Oracle(asked, "highs", integral=integral)
            for c in rng.normal(size=(3, space.n_variables)):
                try:
                    found = oracle.maximize(c, rows=rows)
                except so.errors.InfeasibleSpace:
                    assert not len(labels), labels
                    continue
                assert len(labels), found
                assert found.value == pytest.approx((labels @ c).max(), rel=1e-9, abs=1e-9), (space.matrix, c)
                assert (labels == found.z).all(axis=1).any()


def row_of(y, space):
    """The only row of a compiled space, over the variables of another one."""
    return (space.matrix.toarray()[0] @ y).between(float(space.row_lower[0]), float(space.row_upper[0]))
