"""Every search on explicit points against brute force: exactness, certified bounds, query bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt import search
from structopt.errors import DeclarationError
from structopt.plane import PointPlane

EXAMPLE = [(1, 8), (3, 4), (5, 3), (8, 1)]
THEOREM_1 = [(0.001, 10), (10, 0.001), (5, 5)]


def point_set(seed: int) -> np.ndarray:
    """A set of one of the families of docs/mathematics/searches, as margins h and losses g."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    t = rng.uniform(0.02, 1.0, n)
    families = [
        lambda: (3 * rng.normal(size=n), rng.uniform(0, 5, n)),
        lambda: (rng.integers(-4, 8, n), rng.integers(0, 8, n)),  # ties
        lambda: (2 * rng.normal(size=n), rng.integers(0, 8, n)),
        lambda: (rng.lognormal(0, 1.5, n) - 1, rng.lognormal(0, 1.5, n)),
        lambda: (5 * (1 - t) ** 2 - 1, 5 * t**2),  # all labels below the chord of the two extremes
        lambda: (5 * t - 1, (1 + rng.uniform(0, 0.002, n)) / t),  # nearly equal products
        lambda: (5 * np.cos(1.57 * t) - 1, 5 * np.sin(1.57 * t)),  # all on the hull
    ]
    h, g = families[int(rng.integers(len(families)))]()
    return np.column_stack([h, g]).astype(float)


@pytest.mark.parametrize("first", range(0, 150, 50))
def test_random_searches_are_certified(first, fuzz):
    """Every search with every surrogate over points and small spaces, exact or not, wherever it stops."""
    for seed in range(first, first + 50):
        fuzz("searches").case(seed)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), start=st.sampled_from([1e-3, 1.0, 1e3]))
def test_searches_by_lambda_find_the_smallest_bound_from_any_start(seed, start):
    """They once stopped after the first answer when the smallest bound lay at a larger λ: inf - λ <= width * inf."""
    points = np.abs(point_set(seed)) + np.array([0.1, 0.1])
    lams = np.geomspace(1e-3, 1e3, 4000)
    heights = (points[:, :1] + points[:, 1:] * lams).max(axis=0)
    smallest = (heights**2 / (4 * lams)).min()
    for result in (search.bisecting(PointPlane(points), start), search.binary(PointPlane(points), start)):
        assert result.stopped in ("bracket", "vertices", "optimal")
        if result.stopped != "vertices":  # one vertex is best for all λ in between: no need to look there
            assert result.upper_bound <= smallest * (1 + 1e-4)


def test_example_of_math_2_5():
    result = search.angular(PointPlane(EXAMPLE), lam=1.0, rtol=0)
    assert (result.value, result.queries, result.label) == (15.0, 5, 2)
    assert [None if s.point is None else (s.point.h, s.point.g) for s in result.trace] == [
        (1, 8),
        (3, 4),
        (5, 3),
        None,
        None,
    ]
    assert [round(s.lam, 6) for s in result.trace] == [1, 0.353553, 2.828427, 2.171185, 3.684623]


def test_return_at_the_tangent_is_not_taken():
    """The counterexample of docs/mathematics/searches#angular-search to the printed rule "if z1 = z1' return y"."""
    assert search.angular(PointPlane([(9, 16), (6, 4), (3, 6)]), lam=4.0, rtol=0).value == 144


def test_sarawagi_example_of_math_3_4():
    result = search.sarawagi(PointPlane(EXAMPLE), xi=6.0)
    assert result.statistics["violation_bound"] == pytest.approx(4.101, abs=1e-3)
    assert result.statistics["violation"] <= 3.0
    assert search.sarawagi(PointPlane(EXAMPLE), xi=0.0).label == 3


def test_warm_lambda_shortens_the_bisection_and_the_hull():
    points = [(1, 8), (4, 6), (5, 5), (7, 2)]
    cold = search.convex_hull(PointPlane(points), "product")
    warm = search.convex_hull(PointPlane(points), "product", lam=cold.lam, cache=[cold.label])
    assert warm.value == cold.value == 25
    assert warm.queries == 1


def test_a_relaxed_plane_takes_mixtures():
    plane = PointPlane([(1, 8), (8, 1)], convex=True)
    for result in (search.exact(plane, "product"), search.angular(plane), search.convex_hull(plane, "product")):
        assert result.value == pytest.approx(20.25)
        assert result.fractional
        assert result.statistics["constrained"] == 0
    with pytest.raises(DeclarationError, match="relaxed plane"):
        search.convex_hull(plane, "product", integral=True)


def test_negative_g_is_not_a_product_of_two_negatives():
    points = [(-3, -5), (1, 1), (2, -1)]
    assert search.angular(PointPlane(points), rtol=0).value == 1
    assert search.exact(PointPlane(points), "product").value == 1
    assert search.exact(PointPlane(points), "slack").value == 2
    assert search.bisecting(PointPlane(points)).value <= 1


def test_bad_arguments_are_refused():
    plane = PointPlane(EXAMPLE)
    with pytest.raises(DeclarationError, match="max_queries"):
        search.angular(plane, max_queries=0)
    with pytest.raises(DeclarationError, match="rtol"):
        search.exact(plane, "slack", rtol=1.0)
    with pytest.raises(DeclarationError, match="positive and finite"):
        search.bisecting(plane, lam=-1.0)
    with pytest.raises(DeclarationError, match="lam"):
        search.convex_hull(plane, "slack", lam=-1.0)
    with pytest.raises(DeclarationError, match="xi"):
        search.sarawagi(plane, math.nan)
    with pytest.raises(DeclarationError, match="no surrogate called"):
        search.exact(plane, "slak")


def test_result_has_a_readable_trace():
    result = search.exact(PointPlane(THEOREM_1), "product")
    assert repr(result).startswith("<exact: value 25, upper bound 25")
    html = result._repr_html_()
    assert "upper bound" in html
    assert "constrained" in html
    assert result.absolute_gap == result.upper_bound - result.value
    assert result.gap == result.absolute_gap / result.upper_bound
    kinds = [s.kind for s in result.trace]
    assert set(kinds) <= {"free", "corner"}
    assert kinds == sorted(kinds, reverse=True)  # cheap free queries first
