"""The searches over small integer label spaces, driven by a solver, against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt import search
from structopt.plane import Plane
from structopt.plane.oracle import LinearOracle
from structopt.surrogates import MicroF1, Product, Slack


def values(plane: Plane, psi, labels: np.ndarray) -> np.ndarray:
    points = [plane.evaluate(z) for z in labels]
    return np.array([psi.clipped(p.h, p.g) for p in points] + [0.0])


def test_a_pareto_front_replaces_the_search():
    space = so.LabelSpace("budget")
    space.subject_to(np.array([1.0, 3.0, 2.0, 2.0]) @ space.binary("y", 4) <= 5)
    labels, score, truth = space.enumerate(), np.array([0.3, -1.0, 0.8, 0.5]), np.array([1.0, 0.0, 0.0, 1.0])
    loss = (1.0 - 2.0 * truth, 2.0)

    class Listing(LinearOracle):
        def __init__(self) -> None:
            self.space = space.compiled

        def maximize(self, c, rows=(), forbid=()):
            raise AssertionError("a listed front needs no query")

        def front(self, h, g):
            return labels

    plane = Slack().plane(Listing(), score, loss, truth)
    result = search.exact(plane, "slack")
    assert result.stopped == "front"
    assert result.queries == 0
    assert result.value == result.upper_bound == values(plane, Slack(), labels).max()


@pytest.mark.parametrize("zero", ["h", "g", "both"])
def test_a_coordinate_that_is_zero_everywhere(zero):
    space = so.LabelSpace()
    space.binary("y", 3)
    nothing, something = ([0.0, 0.0, 0.0], 0.0), ([1.0, -1.0, 2.0], 0.5)
    h = nothing if zero in ("h", "both") else something
    g = nothing if zero in ("g", "both") else something
    plane = Plane(so.Oracle(space, solver="highs"), h=h, g=g, truth=[0, 0, 0])
    for result in (
        search.angular(plane),
        search.bisecting(plane),
        search.binary(plane),
        search.sarawagi(plane, 1.0),
        search.exact(plane, "product"),
        search.convex_hull(plane, "product"),
    ):
        assert result.value == 0
        assert result.upper_bound == 0
        assert result.label is plane.truth


def test_a_relaxation_whose_g_is_negative_at_a_vertex():
    space = so.LabelSpace()
    y = space.continuous("y", 2, 0, 1)
    space.subject_to(y.sum() <= 1.5)
    oracle = so.Oracle(space, solver="highs")
    plane = Plane(oracle, h=([2.0, -1.0], 1.0), g=([-1.0, 2.0], 0.25))
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 1, 101)), -1).reshape(-1, 2)
    grid = grid[grid.sum(axis=1) <= 1.5]
    h, g = grid @ [2.0, -1.0] + 1.0, grid @ [-1.0, 2.0] + 0.25
    want = (h * g)[(h > 0) & (g > 0)].max()
    for result in (search.exact(plane, "product"), search.angular(plane), search.convex_hull(plane, "product")):
        assert result.value >= want * 0.999
        assert result.upper_bound >= want


def test_empty_ground_truth_of_micro_f1():
    space = so.LabelSpace()
    space.binary("y", 3)
    truth = np.zeros(3)
    plane = MicroF1().plane(so.Oracle(space, solver="highs"), [0.5, -1.0, 0.2], (np.ones(3), 0.0), truth)
    result = search.exact(plane, "micro_f1")
    assert result.value == pytest.approx(1.5)  # one label, margin 0.5: (1 + 0.5) / 1
    assert np.array_equal(result.label, [1, 0, 0])


def test_what_the_floor_of_h_hides_is_in_the_bound():
    """h > 0 is the row h >= 1e-5. A label below that is lost, and the certificate says so."""
    space = so.LabelSpace()
    space.binary("y", 3)
    plane = Plane(so.Oracle(space, solver="highs"), h=([1.000005, 0.0, -0.2], -1.0), g=([1.0, 1.0, 10.0], 0.0))
    want = 5e-6 * 2
    result = search.angular(plane, lam=1.0)
    assert result.value == 0
    assert result.upper_bound >= want
    assert search.exact(plane, "product", lam=1.0).value == pytest.approx(want)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), close=st.booleans())
def test_general_integers_cannot_be_forbidden_one_by_one(seed, close):
    """Inside its bounds an integer label has no no-good cut: what a strip may hide must be in the bound."""
    rng = np.random.default_rng(seed)
    space = so.LabelSpace()
    space.integer("k", 2, 0, 3)
    h, g = rng.normal(size=2), rng.normal(size=2)
    if close:
        # Labels that differ by less than the solver can tell.
        h[1], g[1] = 2.0 + 1e-7 * rng.normal(), -1.0 + 1e-7 * rng.normal()
        h[0], g[0] = 0.5 * h[1] + 1e-6 * rng.normal(), 0.5 * g[1] + 1e-6 * rng.normal()
    plane = Plane(so.Oracle(space, solver="highs"), h=(h, 1.0), g=(g, 3.0))
    labels = np.array(list(itertools.product(range(4), repeat=2)), dtype=float)
    want = values(plane, Product(), labels).max()
    result = search.exact(plane, "product", front=False)
    assert result.value >= want * (1 - 1e-4)
    assert result.upper_bound >= want * (1 - 1e-9)
    assert result.queries <= 40


@pytest.mark.parametrize(
    ("g", "violation", "bound"),
    [
        (([1.0, 1.0], 0.2), 0.816, 0.816),  # losses 0.2, 1.2 and 2.2: the first is below half a step
        (([2.0, -0.3], 1e-5), -0.184, 0.816),  # a loss below the precision of restricted queries
    ],
)
def test_zero_slack_bound_covers_the_smallest_positive_loss(g, violation, bound):
    space = so.LabelSpace()
    space.binary("y", 2)
    plane = Plane(so.Oracle(space, solver="highs"), h=([-1.0, -2.0], 0.816), g=g)
    found = search.sarawagi(plane, 0.0).statistics
    assert found["violation"] >= violation - 1e-9
    assert found["violation_bound"] >= bound - 1e-9
