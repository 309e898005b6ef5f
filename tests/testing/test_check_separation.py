"""The conformance suite of lazy rows accepts right separations and names what is wrong with others."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.structures import Tour
from structopt.testing import check_separation


def few(separate, n=4):
    space = so.LabelSpace("few")
    y = space.binary("y", n)
    space.lazy(lambda z: separate(y, z["y"]), name="few")
    return space


def accepts(z):
    return z["y"].sum() <= 2


RIGHT = few(lambda y, z: y.sum() <= 2 if z.sum() > 2 + 1e-6 else None)
calls: list[float] = []

WRONG = {
    "valid": lambda y, z: y.sum() <= 1 if z.sum() > 1 + 1e-6 else None,
    "complete": lambda y, z: y.sum() <= 3 if z.sum() > 3 + 1e-6 else None,
    "violated": lambda y, z: [y.sum() <= 4.5] + ([y.sum() <= 2] if z.sum() > 2 + 1e-6 else []),
    "repeatable": lambda y, z: (
        calls.append(0.0) or y.sum() <= (2.0 if len(calls) % 2 else 2.5) if z.sum() > 2.6 else None
    ),
    "optimal": lambda y, z: y.sum() <= 3 if z.sum() > 3 + 1e-6 else None,
}


def test_a_right_separation_passes():
    assert check_separation(RIGHT, accepts).ok
    assert check_separation(RIGHT).ok


@pytest.mark.filterwarnings("ignore:The separation")
@pytest.mark.parametrize("law", WRONG)
def test_wrong_separations_are_found(law):
    report = check_separation(few(WRONG[law]), accepts)
    assert law in {outcome.check for outcome in report.failed}, report


def test_a_separation_that_raises_fails_every_check():
    report = check_separation(few(lambda y, z: 1 / 0), accepts)
    assert len(report.failed) == 5 and "ZeroDivisionError" in report.failed[0].reason


@pytest.mark.parametrize("directed", [False, True])
def test_subtours(directed):
    def is_tour(z):
        table = z["edge"] if directed else z["edge"] + z["edge"].T
        reached, node, last = {0}, 0, -1
        while True:
            onward = [int(v) for v in np.flatnonzero(table[node]) if int(v) != last]
            if not onward or onward[0] in reached:
                return len(reached) == len(table)
            node, last = onward[0], -1 if directed else node
            reached.add(node)

    space = Tour(directed).space(np.zeros((5 if directed else 6, 5 if directed else 6, 1)))
    report = check_separation(space, is_tour, trials=4)
    assert report.ok, report


def test_check_model_names_the_ground_truth_that_a_row_cuts_off():
    """The law `separation` of a model, for a function that is right at integral points and wrong at fractions."""

    def separate(y, z):
        return None if (z == np.rint(z)).all() else y[0] <= 0

    space = few(separate, 3)
    space.subject_to(2 * space["y"].sum() <= 3, name="half")
    model = so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming())
    report = so.testing.check_model(model, np.eye(3), np.eye(3), skip=["pickling"])
    (failed,) = [outcome for outcome in report.failed if outcome.check == "separation"]
    assert "cuts off the ground truth of example 0" in failed.reason and "y[0] <= 0" in failed.reason


def test_malformed_arguments():
    plain = so.LabelSpace()
    plain.binary("y", 2)
    for act in (
        lambda: check_separation(plain),
        lambda: check_separation(RIGHT, skip=["nothing"]),
        lambda: check_separation(RIGHT, 3),
    ):
        with pytest.raises(so.errors.DeclarationError):
            act()
    assert check_separation(RIGHT, skip=["optimal"]).skipped


def test_checks_of_many_points_call_the_separation_a_few_thousand_times():
    """16,384 points once meant 100,000 calls."""
    space = so.LabelSpace()
    y = space.binary("y", 14)
    calls = []

    def separate(z):
        calls.append(1)
        v = z["y"]
        return [y[i] + y[i + 1] + y[i + 2] <= 2 for i in range(12) if v[i] + v[i + 1] + v[i + 2] > 2 + 1e-6]

    space.lazy(separate)
    assert so.testing.check_separation(space).ok
    assert len(calls) < 3000
