"""The λ-oracles over label spaces and over points."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt.errors import DeclarationError, InfeasibleSpace, SolverFailed, SpaceMismatch
from structopt.plane import Plane, PointPlane
from structopt.plane.oracle import LinearOracle


def small_space(rng: np.random.Generator) -> tuple[so.LabelSpace, np.ndarray]:
    """A random 0/1 space (cardinality, closure or knapsack) and all its labels."""
    n = int(rng.integers(3, 8))
    space = so.LabelSpace("small")
    y = space.binary("y", n)
    kind = int(rng.integers(3))
    if kind == 0:
        space.subject_to(y.sum() <= int(rng.integers(1, n)))
    elif kind == 1:
        parents = np.array([int(rng.integers(0, j)) for j in range(1, n)])
        space.subject_to(y[np.arange(1, n)] <= y[parents])
    else:
        space.subject_to((y * rng.integers(0, 4, n).astype(float)).sum() <= 5.0)
    labels = np.array(list(itertools.product([0.0, 1.0], repeat=n)))
    return space, labels[[space.contains(z) for z in labels]]


def random_plane(seed: int) -> tuple[Plane, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    space, labels = small_space(rng)
    n = labels.shape[1]
    h, g = (rng.normal(size=n), 1.0), (rng.integers(0, 3, n).astype(float), 0.0)
    plane = Plane(so.Oracle(space, solver="highs"), h=h, g=g)
    return plane, labels, labels @ h[0] + h[1], labels @ g[0] + g[1]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_two_limits_break_ties_by_the_other_coordinate(seed):
    plane, labels, h, g = random_plane(seed)
    # Coarse h, so that there are ties to break.
    coef = np.rint(plane.coordinates.h)
    plane = Plane(plane.oracle, h=(coef, 0.0), g=(plane.coordinates.g, 0.0))
    h = labels @ coef
    first = plane.query(0.0)
    assert (first.h, first.g) == pytest.approx((h.max(), g[h == h.max()].max()), abs=1e-6)
    last = plane.query(math.inf)
    assert (last.g, last.h) == pytest.approx((g.max(), h[g == g.max()].max()), abs=1e-6)


def test_an_open_ray_excludes_the_label_that_defines_it():
    space = so.LabelSpace()
    space.binary("y", 2)
    plane = Plane(
        so.Oracle(space, solver="highs"), h=([2.0, -1.0], 1.0), g=([1.0, 1.0], 0.0)
    )  # (1,0) (3,1) (0,1) (2,2)
    ray = (3.0, 1.0)
    closed = plane.query(0.1, bottom=(1, 0), top=ray)
    assert (closed.h, closed.g) == (3, 1)
    assert plane.query(0.1, bottom=(1, 0), top=ray, open_top=True) is None
    assert plane.query(0.1, bottom=ray, top=(2, 2), open_bottom=True, open_top=True) is None
    above = plane.query(0.1, bottom=ray, top=(0, 1), open_bottom=True, open_top=True)
    assert (above.h, above.g) == (2, 2)


def test_box_lattice_and_precision():
    space = so.LabelSpace()
    space.binary("y", 3)
    oracle = so.Oracle(space, solver="highs")
    plane = Plane(oracle, h=([1.0, -2.0, 0.5], 1.0), g=([1.0, -1.0, 1.0], 1.0))
    assert plane.bounds[:5] == (-1.0, 2.5, 0.0, 3.0, 1.0)
    assert plane.precision.g_step == 0.0
    uneven = Plane(oracle, h=([1.0, -2.0, 0.5], 1.0), g=([1.0, -0.7, 1.0], 1.0))
    assert uneven.precision.g_step > 0.0
    relaxed = Plane(so.Oracle(space, solver="highs", integral="relax"), h=([1.0, -2.0, 0.5], 1.0), g=([1, -1, 1], 1.0))
    assert relaxed.convex
    assert not plane.convex
    assert "relaxed" in repr(relaxed)


def test_bad_input():
    space = so.LabelSpace()
    space.binary("y", 2)
    oracle = so.Oracle(space, solver="highs")
    good = ([1.0, 1.0], 0.0)
    with pytest.raises(DeclarationError, match="coefficient 1 of h is not finite"):
        Plane(oracle, h=([1.0, math.nan], 0.0), g=good)
    with pytest.raises(DeclarationError, match="constant of g"):
        Plane(oracle, h=good, g=([1.0, 1.0], math.inf))
    with pytest.raises(SpaceMismatch, match="2 variables"):
        Plane(oracle, h=([1.0], 0.0), g=good)
    plane = Plane(oracle, h=good, g=good)
    for lam in (-1.0, math.nan):
        with pytest.raises(DeclarationError, match=r"lam must be (in|a number, got NaN)"):
            plane.query(lam)
        with pytest.raises(DeclarationError, match=r"lam must be (in|a number, got NaN)"):
            PointPlane([(1, 1)]).query(lam)
    for ray, told in (
        ((-1.0, 1.0), "first quadrant"),
        ((0.0, 0.0), "first quadrant"),
        ((math.nan, 1.0), "h of (bottom|top) must be a number, got NaN"),
    ):
        with pytest.raises(DeclarationError, match=told):
            plane.query(1.0, bottom=ray, top=(0, 1))
        with pytest.raises(DeclarationError, match=told):
            PointPlane([(1, 1)]).query(1.0, bottom=(1, 0), top=ray)
    for pair in (b"\x00\xff", {1.0: "h", 2.0: "g"}, {1.0, 2.0}, (1.0,), 3.0):
        for search_plane in (plane, PointPlane([(1, 1)])):
            with pytest.raises(DeclarationError, match=r"above must be a pair \(h, g\), got"):
                search_plane.query(1.0, above=pair)
    with pytest.raises(SpaceMismatch, match="cached label"):
        plane.evaluate([1.0])
    with pytest.raises(DeclarationError, match="at least one point"):
        PointPlane([])
    with pytest.raises(DeclarationError, match="Point 1 is"):
        PointPlane([(1, 1), (math.nan, 2)])


def test_only_infeasible_means_empty():
    class Failing(LinearOracle):
        def __init__(self, error: Exception) -> None:
            space = so.LabelSpace()
            space.binary("y", 2)
            self.space = space.compiled
            self.error = error

        def maximize(self, c, rows=(), forbid=()):
            raise self.error

    factors = {"h": ([1.0, 1.0], 0.0), "g": ([1.0, 1.0], 0.0)}
    assert Plane(Failing(InfeasibleSpace("empty")), **factors).query(1.0, bottom=(1, 1), top=(1, 2)) is None
    with pytest.raises(InfeasibleSpace):
        Plane(Failing(InfeasibleSpace("the space itself")), **factors).query(1.0)
    with pytest.raises(SolverFailed):
        Plane(Failing(SolverFailed("time")), **factors).query(1.0, bottom=(1, 1), top=(1, 2))


def test_points_evaluate_and_mix():
    plane = PointPlane([(1, 8), (8, 1)])
    mixed = plane.mix(plane.evaluate(0), plane.evaluate(1), 0.5)
    assert (mixed.h, mixed.g, mixed.label) == (4.5, 4.5, {0: 0.5, 1: 0.5})
    assert repr(mixed) == "Point(h=4.5, g=4.5)"
    assert "2 points" in repr(plane)
    with pytest.raises(DeclarationError, match="free queries"):
        PointPlane([(1, 8)], convex=True).query(1.0, above=(0, 0))


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_update_equals_a_new_plane(seed):
    plane, labels, _, _ = random_plane(seed)
    plane.query(1.0)
    rng = np.random.default_rng(seed + 1)
    n = labels.shape[1]
    h, g = (rng.normal(size=n), 0.5), (rng.uniform(0, 2, n), 0.25)
    fresh = Plane(plane.oracle, h=h, g=g, truth=labels[0])
    assert plane.update(h, g, truth=labels[0]) is plane
    assert plane.points == [] and plane.queries == 1
    assert plane.bounds == fresh.bounds and plane.precision == fresh.precision
    mine, other = plane.query(0.7), fresh.query(0.7)
    assert (mine.h, mine.g, mine.bound) == (other.h, other.g, other.bound)
    with pytest.raises(DeclarationError, match="coefficient 1 of g"):
        plane.update(h, (np.where(np.arange(n) == 1, np.inf, 1.0), 0.0))


def test_box_of_unbounded_variables():
    space = so.LabelSpace("half line")
    y = space.binary("y", 2)
    t = space.continuous("t", 1, 0, np.inf)
    space.subject_to(t[0] + y[0] <= 3, t[0] + y[1] <= 3)
    plane = Plane(so.Oracle(space, "highs"), h=([1.0, -1.0, 0.0], 0.0), g=([0.0, 1.0, 1.0], 0.0))
    assert (plane.bounds.h_lower, plane.bounds.h_upper) == (-1.0, 1.0)
    assert (plane.bounds.g_lower, plane.bounds.g_upper) == (0.0, math.inf)
