"""The compiled hull walk of products against the interpreted one, which every other surrogate uses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt import search
from structopt.plane import PointPlane
from structopt.search.hull import HullWalk
from structopt.search.result import Run
from structopt.surrogates import Product, Slack


def walk(monkeypatch, points, psi, compiled, *, convex, rtol=0.0, cache=(), truth=None, lam=None, max_queries=1000):
    """Every step and the outcome of one walk."""
    if not compiled:
        monkeypatch.setattr("structopt.search.hull._COMPILED", ())
    run = Run("walk", PointPlane(points, convex=convex, truth=truth), psi.clipped, max_queries, cache, psi)
    found = HullWalk(run, psi, lam, rtol)
    stopped = found.explore()
    monkeypatch.undo()
    edge = [point.label for point in found.edge()] if not convex else []
    found.mix()
    steps = [(s.lam, s.point.label, s.incumbent, s.bound) for s in run.trace]
    return stopped, [p.label for p in found.chain] if not convex else [], run.value, run.bound, edge, steps


def numbers(outcome) -> list[float]:
    return [outcome[2], outcome[3], *(number for step in outcome[5] for number in step)]


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    convex=st.booleans(),
    rtol=st.sampled_from([0.0, 1e-3, 0.1]),
    n_cached=st.integers(0, 3),
    start=st.sampled_from([None, 0.0, 0.3, math.inf]),
    shift=st.sampled_from([Slack(), Product()]),
)
def test_compiled_walk_equals_the_interpreted_one(seed, convex, rtol, n_cached, start, shift):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    points = np.column_stack([3 * rng.normal(size=n), rng.uniform(0, 5, n)])
    if seed % 3 == 0:
        points = np.rint(points)  # ties
    if seed % 5 == 0:
        t = np.linspace(0.01, 1.56, n)
        points = np.column_stack([5 * np.cos(t), 5 * np.sin(t)])  # all on the hull
    cache = rng.integers(0, n, n_cached).tolist()
    options = {"convex": convex, "rtol": rtol, "cache": cache, "truth": int(rng.integers(n)), "lam": start}
    with pytest.MonkeyPatch.context() as patch:
        one = walk(patch, points, shift, True, **options)
        other = walk(patch, points, shift, False, **options)
    assert one[0] == other[0] and one[4] == other[4]
    assert numbers(one) == pytest.approx(numbers(other), rel=1e-12, abs=1e-12)
    assert one[1] == other[1]


def test_query_limit_and_its_bound():
    t = np.linspace(0.01, 1.56, 200)
    points = np.column_stack([5 * np.cos(t), 5 * np.sin(t)])
    best = (points[:, 0] * points[:, 1]).max()
    for limit in (1, 2, 3):
        result = search.convex_hull(PointPlane(points), Product(), max_queries=limit, lam=0.01)
        assert result.queries <= limit and result.upper_bound >= best
        assert result.stopped == "max_queries" or limit == 3


def test_room_for_many_labels():
    """More cached labels than the walk's first array holds, all of them vertices."""
    t = np.linspace(0.01, 1.56, 150)
    points = np.column_stack([5 * np.cos(t), 5 * np.sin(t)])
    plane = PointPlane(np.vstack([points, 1.2 * points[::7]]))
    result = search.convex_hull(plane, Product(), cache=range(150))
    products = plane.h * plane.g
    assert result.upper_bound >= products.max() and result.value >= products.max()
    assert result.stopped == "optimal"
