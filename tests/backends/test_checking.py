"""The check of a solver's answer: rounded, and judged by the rows and bounds as they were declared."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.backends.checking import FRACTIONAL, HOLDS, WORSE, Checker
from structopt.space.compiled import VALUE_TOLERANCE
from structopt.testing.instances import space_of

FREE = space_of(np.zeros((0, 3)), 0.0, 0.0, -5.0, 5.0, [True, False, True])


def test_whole_numbers_are_made_exact():
    z = np.array([1.0 - 1e-9, 0.3, -1e-10])
    assert Checker(FREE).snap(np.array([2.0, 1.0, -4.0]), z) == HOLDS
    assert z.tolist() == [1.0, 0.3, 0.0]


def test_a_fraction_leaves_everything_as_it_was():
    z = np.array([1.0 - 1e-9, 0.5, 0.5])
    assert Checker(FREE).snap(np.ones(3), z) == FRACTIONAL
    assert z.tolist() == [1.0 - 1e-9, 0.5, 0.5]


@pytest.mark.parametrize("where", [0, 1])
def test_nan_is_no_label(where):
    z = np.zeros(3)
    z[where] = np.nan
    assert Checker(FREE).snap(np.ones(3), z) != HOLDS


@pytest.mark.parametrize("extra", [False, True])
@pytest.mark.parametrize("M", [1e7, 1e8, 1e9])
def test_rounding_that_breaks_a_row_is_refused(M, extra):
    row = [[1.0, -M]]
    space = space_of(row if not extra else np.zeros((0, 2)), -np.inf, 0.0, 0.0, [2.0, 1.0], [False, True])
    rows = space_of(row, -np.inf, 0.0, 0.0, 1.0)
    given = (rows.matrix, rows.row_lower, rows.row_upper) if extra else None
    checker, z = Checker(space), np.array([2.0, 2.0 / M])
    code = checker.snap(np.array([1.0, -0.5]), z, given)
    assert checker.complaint(code) == ("extra row 0 of this call" if extra else "row[0]")
    assert z.tolist() == [2.0, 2.0 / M]


def test_a_point_outside_its_bounds_is_refused_and_one_beside_them_put_on_them():
    checker = Checker(FREE)
    z = np.array([0.0, 5.1, 0.0])
    assert checker.complaint(checker.snap(np.ones(3), z)) == "the bounds of z[1]"
    z = np.array([0.0, 5.0 + 1e-8, 0.0])
    assert checker.snap(np.ones(3), z) == HOLDS and z[1] == 5.0


def test_rounding_may_not_lose_value():
    z = np.array([5e-7, 1.0, 0.0])
    assert Checker(FREE).snap(np.array([1e6, 1.0, 0.0]), z) == WORSE
    assert VALUE_TOLERANCE < 0.5 and z[0] == 5e-7
