"""Certificates of searches: no label above the bound, and "optimal" only where bound and value agree."""

from __future__ import annotations

import math

import numpy as np
import pytest

import structopt as so
from structopt import search
from structopt.plane import Plane
from structopt.plane.point_plane import PointPlane
from structopt.plane.points import Point
from structopt.surrogates import MicroF1


@pytest.mark.parametrize("cache", [[], [0], [1], [2], [1, 2]])
@pytest.mark.parametrize("method", ["convex_hull", "exact", "angular"])
def test_a_label_of_an_earlier_search_does_not_end_the_walk(cache, method):
    """The cached label lies below the hull: no line through it is known, so that nothing may be concluded from it."""
    plane = PointPlane([(-17, 7), (-5, 3), (-2, 2), (1, 0)], truth=3, convex=True)
    options = {} if method == "angular" else {"surrogate": "product"}
    result = getattr(search, method)(plane, cache=cache, rtol=0.0, **options)
    assert result.value == pytest.approx(1 / 6) and result.upper_bound == pytest.approx(1 / 6)
    assert result.stopped == "optimal"


@pytest.mark.parametrize("truth", [None, 1, 2])
@pytest.mark.parametrize("cache", [[], [1], [2], [1, 2]])
@pytest.mark.parametrize("convex", [False, True])
def test_micro_f1_finds_the_only_positive_label(truth, cache, convex):
    plane = PointPlane([(1, -3), (-4, -1), (0, -1.5)], truth=truth, convex=convex)
    for result in (search.convex_hull(plane, "micro_f1", cache=cache), search.exact(plane, "micro_f1", cache=cache)):
        assert result.value == pytest.approx(1 / 3)
        assert result.upper_bound == pytest.approx(1 / 3) and result.stopped == "optimal"


def test_equal_heights_are_not_one_point():
    """The cached end of an edge is as high as its other end, which an answer must not be taken for."""
    result = search.convex_hull(PointPlane([(4, 0), (2, 1), (0, 2)]), "product", cache=[2])
    assert result.value == pytest.approx(2.0) and result.stopped == "optimal"


class Counting(Plane):
    """A plane that records the λ of its queries."""

    lams: list[float]

    def query(self, lam, **options):
        self.__dict__.setdefault("lams", []).append(lam)
        return super().query(lam, **options)


@pytest.mark.parametrize("method", [search.bisecting, search.binary])
@pytest.mark.parametrize(
    ("bounds", "margin", "options"),
    [
        # The box allows g = 1, the rows forbid it: λ was doubled up to 1e12, on which solvers fail.
        ((-math.inf, 0.0), [1.0, 1.0], {"truth": [0.0, 0.0]}),
        # Every margin is met: λ was halved down to 1e-12.
        ((1.0, math.inf), [-2.0, -2.0], {}),
    ],
    ids=["no label has a loss", "every margin is met"],
)
def test_lambda_stays_within_reason_without_a_violation(method, bounds, margin, options):
    space = so.LabelSpace()
    space.subject_to(space.binary("y", 2).sum().between(*bounds))
    plane = Counting(so.Oracle(space, solver="highs"), h=(margin, 1.0), g=([1.0, 1.0], 0.0), **options)
    result = method(plane)
    assert result.value == result.upper_bound == 0.0 and result.stopped == "no violation"
    assert result.queries <= 3
    assert all(lam == math.inf or lam < 1e3 for lam in plane.lams)


@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e9])
@pytest.mark.parametrize("method", ["bisecting", "binary", "angular", "convex_hull", "exact"])
def test_units_do_not_matter(unit, method):
    """Margins in units of 1e-9 or 1e9 give the same label after the same number of queries."""
    points = np.array([(1, 8), (3, 4), (5, 3), (8, 1), (-2, 9)])
    options = {"surrogate": "product"} if method in ("convex_hull", "exact") else {}
    here = getattr(search, method)(PointPlane(points), **options)
    there = getattr(search, method)(PointPlane(points * (unit, 1 / unit)), **options)
    assert there.value == pytest.approx(here.value) and there.upper_bound == pytest.approx(here.upper_bound)
    assert there.queries == here.queries and there.stopped == here.stopped


class LaxPlane(PointPlane):
    """A relaxation behind a solver whose tolerance lets the ground truth into every angle, as happens on real data."""

    def query(self, lam, *, bottom=None, top=None, **options):
        if bottom is None and top is None:
            return super().query(lam, ties=False)
        self.counts["constrained"] += 1
        self.queries += 1
        truth = self.evaluate(self.truth)
        return Point(truth.h, truth.g, truth.label, super().query(lam, ties=False).bound)


def test_the_ground_truth_in_place_of_a_label_inside_the_angle():
    """The free answer is the ground truth and the restricted one, too: there are mixtures with h g > 0 all the same."""
    plane = LaxPlane([(1, 0), (-2, 2), (-1, 1.5)], truth=0, convex=True)
    want = search.convex_hull(PointPlane([(1, 0), (-2, 2), (-1, 1.5)], convex=True), "product").value
    result = search.angular(plane, lam=0.1, angles_only=True, rtol=1e-3)
    assert want > 0.1
    assert (1 - 1e-3) * want <= result.value <= want + 1e-12 and result.upper_bound >= want - 1e-12
    assert result.stopped in ("optimal", "gap")


class Late(PointPlane):
    """Answers with some other label than the best one, and with a bound that says so."""

    def query(self, lam, **options):
        best = super().query(lam, **options)
        return None if best is None else Point(*self._worst(), best.bound + 1.0)

    def _worst(self):
        worst = int(np.argmin(self.h + self.g))
        return float(self.h[worst]), float(self.g[worst]), worst


@pytest.mark.parametrize("convex", [False, True])
@pytest.mark.parametrize("method", ["convex_hull", "exact", "angular", "bisecting", "binary"])
def test_a_bound_that_is_not_reached_is_not_called_optimal(method, convex):
    points = [(1, 8), (3, 4), (5, 3), (8, 1)]
    options = {"surrogate": "product"} if method in ("convex_hull", "exact") else {}
    result = getattr(search, method)(Late(points, convex=convex), max_queries=30, **options)
    assert result.upper_bound >= 15.0 and result.value < 15.0
    assert result.stopped not in ("optimal", "gap", "no violation")


def test_xi_zero_on_a_relaxation():
    result = search.sarawagi(PointPlane([(3, 0), (1, 2)], convex=True), xi=0.0)
    assert result.value == 2.0 and result.upper_bound >= 2.25 and result.statistics["violation_bound"] == 3.0


# ---- micro-F1 --------------------------------------------------------------------------------


def test_micro_f1_is_refused_where_it_means_nothing():
    ranking, segments = so.structures.Ranking(), so.structures.Segmentation(2, 2, loss="normalized")
    costs = so.structures.Multiclass(3, loss=[[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    flow = so.structures.Flow([(0, 1), (0, 1)], {0: 1.0, 1: -1.0})
    for model, x in ((ranking, np.ones((3, 2))), (segments, np.ones((3, 2))), (costs, np.ones(2)), (flow, np.ones(2))):
        with pytest.raises(so.errors.DeclarationError, match="icro-F1"):
            model.counted(x)
    space = so.LabelSpace()
    space.integer("count", 2, 0, 7)
    counts = so.Model(space, {"count": so.features.Linear()}, loss=so.losses.Hamming())
    with pytest.raises(so.errors.DeclarationError, match="0/1 variables"):
        counts.counted()
    with pytest.raises(so.errors.DeclarationError, match="0/1 variables"):
        MicroF1().factors(np.zeros(2), (np.ones(2), 0.0), np.array([0.5, 0.0]), counted=np.ones(2))
    for rows in (np.ones((2, 3)), np.full((1, 2), np.nan), [[0.5, 0.5]]):
        with pytest.raises(so.errors.DeclarationError, match=r"column of finite|0/1 numbers"):
            MicroF1().factors(np.zeros(2), (np.ones(2), 0.0), np.array([1.0, 0.0]), counted=rows)
