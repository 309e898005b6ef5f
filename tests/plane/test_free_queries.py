"""Restricted queries answered by free ones, compared with brute force over points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt import search
from structopt.plane import Plane, Point
from structopt.plane.free_queries import Halfplane, answer_by_free_queries
from structopt.search.bracket import product_bound
from structopt.surrogates import Product


def angle(rng: np.random.Generator) -> list[Halfplane]:
    low, high = np.sort(rng.uniform(0.02, 1.55, 2))
    return [Halfplane(-math.sin(low), math.cos(low), 0.0), Halfplane(math.sin(high), -math.cos(high), 0.0)]


def cloud(rng: np.random.Generator) -> np.ndarray:
    n = int(rng.integers(1, 25))
    if rng.random() < 0.5:
        return np.column_stack([rng.normal(size=n), rng.integers(0, 6, n)]).astype(float)
    return np.column_stack([rng.integers(-3, 6, n), rng.integers(0, 6, n)]).astype(float)  # ties, points on rays


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), pruned=st.booleans())
def test_an_answer_is_never_wrong(seed, pruned):
    rng = np.random.default_rng(seed)
    points, rows = cloud(rng), angle(rng)
    if rng.random() < 0.3:
        rows = [Halfplane(0.0, 1.0, 0.5), Halfplane(1.0, 0.0, 1e-5)]  # the open quadrant
    lam = float(np.exp(rng.normal()))
    calls = 0

    def free(d_h: float, d_g: float) -> Point:
        nonlocal calls
        calls += 1
        heights = points @ [d_h, d_g]
        k = int(heights.argmax())
        return Point(points[k, 0], points[k, 1], k, float(heights[k]))

    allowed = np.all([points @ [r.a, r.b] - r.least >= -1e-12 for r in rows], axis=0)
    heights = np.where(allowed, points @ [1.0, lam], -math.inf)
    enough = float(rng.normal() * 3)
    found = answer_by_free_queries(free, (1.0, lam), rows, (lambda bound: bound > enough) if pruned else None)
    assert calls <= 50
    if not found.decided:
        assert found.bound >= heights.max() - 1e-9
    elif found.point is not None:
        assert allowed[found.point.label]
        assert heights[found.point.label] == pytest.approx(heights.max(), rel=1e-10, abs=1e-10)
        assert found.bound >= heights.max() - 1e-12
    elif pruned:
        assert not heights.max() > enough + 1e-12
    else:
        assert not allowed.any()


def test_each_way_to_an_answer():
    points = [(4.0, 1.0), (1.0, 4.0)]

    def free(d_h: float, d_g: float) -> Point:
        k = max(range(2), key=lambda i: d_h * points[i][0] + d_g * points[i][1])
        return Point(*points[k], k, d_h * points[k][0] + d_g * points[k][1])

    def between(low: float, high: float) -> list[Halfplane]:
        return [Halfplane(-low, 1.0, 0.0), Halfplane(high, -1.0, 0.0)]

    inside = answer_by_free_queries(free, (1.0, 0.5), between(0.1, 1.0))
    assert inside.decided and inside.point.label == 0
    second = answer_by_free_queries(
        free, (1.0, 0.5), between(2.0, 5.0)
    )  # the free answer is outside, the next one is not
    assert second.point is None or second.point.label == 1
    assert answer_by_free_queries(free, (1.0, 0.5), between(5.0, 9.0)) == (True, None, -1.0)  # one row excludes all
    middle = answer_by_free_queries(
        free, (1.0, 1.1), between(0.9, 1.1)
    )  # the hull meets this empty angle: nothing can tell
    assert not middle.decided and middle.bound == pytest.approx(5.25, abs=0.1)
    assert answer_by_free_queries(free, (1.0, 1.1), between(0.9, 1.1), lambda bound: bound > 6.0).decided


def pairwise(n: int) -> so.LabelSpace:
    space = so.LabelSpace("pairwise")
    y = space.binary("y", n)
    i, j = np.triu_indices(n, 1)
    p = space.binary("pair", len(i))
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    return space


def random_plane(seed: int) -> tuple[Plane, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    space = pairwise(4)
    labels = space.enumerate()
    truth, score = labels[rng.integers(len(labels))], rng.normal(size=space.n_variables)
    counted = np.arange(space.n_variables) < 4
    weight = counted * (1.0 if seed % 2 else rng.uniform(0.3, 2.0, space.n_variables))
    coef = weight * (1.0 - 2.0 * truth)
    plane = Product().plane(so.Oracle(space), score, (coef, float(weight @ truth)), truth)
    points = [plane.evaluate(z) for z in labels]
    return plane, np.array([p.h for p in points]), np.array([p.g for p in points])


def test_angular_needs_fewer_programs():
    programs, queries = {True: 0, False: 0}, {True: 0, False: 0}
    for seed in range(6):
        for tries in programs:
            plane, h, g = random_plane(seed)
            if not tries:
                plane._tries_free_calls = lambda lam, ties: False
            result = search.angular(plane, rtol=0)
            want = np.where((h > 0) & (g > 0), h * g, 0.0).max()
            assert result.value == pytest.approx(want, rel=1e-6) and result.upper_bound >= want * (1 - 1e-12)
            counts = result.statistics
            programs[tries] += counts["constrained"]
            queries[tries] += result.queries
            # Such an angle is one query, however many free calls it took; those have a count of their own.
            assert result.queries == counts["free"] + counts["constrained"] + counts.get("replaced", 0)
            assert counts["free"] == 1 and counts.get("trials", 0) >= counts.get("replaced", 0)
    assert programs[True] <= 0.75 * programs[False]
    assert queries[True] <= queries[False]


def test_worth_bounds_the_best_label():
    """An angle whose free bound is too low is closed by a single free query."""
    plane, h, g = random_plane(3)
    lam = 1.0
    best = (h + g).max()
    free = plane.query(lam)
    ray = (free.h, free.g)
    before = plane.queries
    answer = plane.query(lam, bottom=(1, 0), top=ray, open_top=True, worth=lambda bound: bound > best + 1.0)
    assert answer is None and plane.queries == before + 1
    assert plane.counts["replaced"] == plane.counts["trials"] == 1
    assert product_bound(lam, best) >= np.where((h > 0) & (g > 0), h * g, 0.0).max()


def test_an_answer_that_is_not_the_best_proves_nothing():
    """A free query that stopped early returns a label outside the angle; its bound says that one may be inside."""
    points = [(3.0, 1.0), (1.0, 3.0), (0.5, 0.5)]
    rows = [Halfplane(-1.0, 1.0, 0.0), Halfplane(1.0, 0.0, 0.1)]  # g >= h, h >= 0.1: holds (1, 3) and (0.5, 0.5)

    def late(a, b):
        heights = [a * h + b * g for h, g in points]
        return Point(3.0, 1.0, 0, max(heights))

    found = answer_by_free_queries(late, (1.0, 0.5), rows)
    assert not found.decided and found.bound >= 2.5
