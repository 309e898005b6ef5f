"""One rule of when a point satisfies rows and bounds, and every check follows it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.algorithms.diagram.side_constraints import _holds
from structopt.backends.arrays import breaks_rows, holding_rows
from structopt.backends.checking import Checker
from structopt.backends.lazy import RowPool
from structopt.estimators.conditional_risk.labels import _all_feasible
from structopt.space.compiled import FEASIBILITY_TOLERANCE as TOL
from structopt.space.feasibility import contains, rows_in, violations
from structopt.space.lazy import row_excess
from structopt.space.tolerance import broken_rows, row_units
from structopt.testing.instances import space_of


def rule(space, z):
    """The rule of docs/mathematics/oracles.md in rational numbers."""
    exact = [Fraction(float(x)) for x in z]
    tol = Fraction(TOL)

    def inside(value, room, lower, upper):
        above = lower == -np.inf or value >= Fraction(float(lower)) - room
        return above and (upper == np.inf or value <= Fraction(float(upper)) + room)

    for x, integer, lower, upper in zip(exact, space.integrality, space.lower, space.upper, strict=True):
        if integer and (abs(x - round(x)) > tol or not inside(Fraction(round(x)), Fraction(0), lower, upper)):
            return False
        if not integer and not inside(x, tol * max(Fraction(1), abs(x)), lower, upper):
            return False
    for row, lower, upper in zip(space.matrix.toarray(), space.row_lower, space.row_upper, strict=True):
        terms = [Fraction(float(a)) * x for a, x in zip(row, exact, strict=True)]
        unit = min(Fraction(1), max((abs(Fraction(float(a))) for a in row), default=Fraction(1))) or Fraction(1)
        if not inside(sum(terms), tol * max(unit, sum(map(abs, terms))), lower, upper):
            return False
    return True


def every_answer(space, z):
    """What each check says of a point."""
    rows = (space.matrix, space.row_lower, space.row_upper)
    answers = {
        "contains": contains(space, z),
        "rows_in": bool(rows_in(space, z[None])[0]),
        "violations": not violations(space, z),
        "labels of a trainer": _all_feasible(space, z[None]),
    }
    dense, units = space.matrix.toarray(), row_units(space.matrix.indptr, space.matrix.data)
    by_rows = {
        "broken_rows": not broken_rows(*rows, z, TOL).any(),
        "holding_rows": bool(holding_rows(rows, z[None])[0]),
        "holding_rows, sparse": bool(holding_rows(rows, sp.csr_array(z[None]))[0]),
        "row_excess": not (row_excess(*rows, z, TOL) > 1.0).any(),
        "diagram": _holds(dense, np.array(rows[1]), np.array(rows[2]), units, TOL, z),
    }
    if not space.integrality.any():
        answers["breaks_rows"] = not breaks_rows(space, z, TOL)
    return answers, by_rows


@pytest.mark.parametrize(
    "space, z, good",
    [
        # A continuous bound is a row: `contains` had an absolute tolerance, backends a relative one.
        (space_of(np.zeros((0, 1)), [], [], [0.0], [1e6], [False]), [1e6 + 0.5], True),
        (space_of(np.zeros((0, 1)), [], [], [0.0], [1e6], [False]), [1e6 + 1.5], False),
        # An integer variable is within its bounds exactly: backends took 2,000,001 for the bound.
        (space_of(np.zeros((0, 1)), [], [], [0.0], [2e6], [True]), [2e6 + 1.0], False),
        (space_of(np.zeros((0, 1)), [], [], [0.0], [2e6], [True]), [2e6 + 1e-7], True),
        # Small coefficients: pools of lazy rows and two checks of labels had a unit of 1.
        (space_of([[1e-3]], -np.inf, 0.0, 0.0, 1.0, [False]), [1e-4], False),
        (space_of([[1e-3]], -np.inf, 0.0, 0.0, 1.0, [False]), [9e-7], True),
        # Large coefficients: a unit of the largest one would accept x = 1, y = 0 in x <= 1e6 y.
        (space_of([[1.0, -1e6]], -np.inf, 0.0, 0.0, 1.0, [False, True]), [1.0, 0.0], False),
    ],
)
def test_points_on_which_checks_differed(space, z, good):
    point = np.array(z)
    assert rule(space, point) == good
    answers, _ = every_answer(space, point)
    assert answers == dict.fromkeys(answers, good)
    assert Checker(space).holds(np.zeros(len(point)), point) == good


def test_every_check_follows_the_rule_at_the_border():
    rng = np.random.default_rng(0)
    seen = [0, 0]
    for _ in range(300):
        n = int(rng.integers(1, 5))
        integer = rng.random(n) < 0.5
        z = np.where(integer, rng.integers(-3, 4, n), rng.normal(size=n)) * float(rng.choice([1.0, 1e3, 1e6]))
        z = np.where(integer, np.rint(z), z)
        a = rng.normal(size=(2, n)) * rng.choice([1e-6, 1e-2, 1.0, 1e3], (2, 1)) * (rng.random((2, n)) < 0.8)
        unit = np.where(np.abs(a).max(axis=1) > 0, np.minimum(1.0, np.abs(a).max(axis=1)), 1.0)
        off = rng.choice([-1.0, 0.9, 0.99, 1.01, 1.5], 2) * TOL * np.maximum(unit, np.abs(a) @ np.abs(z))
        low = z + rng.choice([-1.0, -1.0, 0.9, 1.1], n) * TOL * np.maximum(1.0, np.abs(z)) * ~integer - integer
        space = space_of(a, -np.inf, a @ z - off, low, np.inf, integer)
        good = rule(space, z)
        seen[good] += 1
        answers, by_rows = every_answer(space, z)
        assert answers == dict.fromkeys(answers, good), (a, z, off)
        rounded = z.copy()  # the checker may repair a point by rounding
        assert rule(space, rounded) if Checker(space).holds(np.zeros(n), rounded) else not good
        only_rows = rule(space_of(a, -np.inf, a @ z - off, -np.inf, np.inf, [False] * n), z)
        assert by_rows == dict.fromkeys(by_rows, only_rows), (a, z, off)
    assert min(seen) > 50


def test_a_separation_that_cuts_off_a_label_is_found_with_small_coefficients():
    space = so.LabelSpace()
    y = space.binary("y", 2)
    space.lazy(lambda z: 1e-7 * y[0] <= 0 if z["y"][0] > 0.5 else None)
    pool = RowPool(space.compiled)
    pool.know(np.array([[1.0, 0.0]]), lambda i: "a label")
    with pytest.raises(so.errors.SeparationFailed, match="cuts off a label"):
        pool.separate(np.array([1.0, 1.0]))


@pytest.mark.parametrize("lower, upper, values", [(0.0, 1.4, [0, 1]), (-0.5, 1.0 - 1e-9, [0, 1]), (0.2, 0.8, [])])
def test_bounds_of_integer_variables_are_rounded_inwards(lower, upper, values):
    space = so.LabelSpace()
    space.integer("k", 2, lower=lower, upper=upper)
    assert space.enumerate().tolist() == [[a, b] for a in values for b in values]
    if values:
        assert space.compiled.is_binary.all()
        assert [label.value for label in so.Oracle(space).k_best([1.0, 2.0], 5)] == [3.0, 2.0, 1.0, 0.0]
    else:
        with pytest.raises(so.errors.InfeasibleSpace):
            so.Oracle(space).maximize([1.0, 2.0])
