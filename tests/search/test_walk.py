"""The compiled hull walk against the one in Python, for every surrogate."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structopt import search, surrogates
from structopt.plane import PointPlane
from structopt.search.hull import HullWalk
from structopt.search.result import Run
from structopt.surrogates import (
    BetaScaling,
    GeneralizedScaling,
    LogLoss,
    Margin,
    MicroF1,
    ProbLoss,
    Product,
    Slack,
    Surrogate,
)


class Root(Surrogate):
    """A surrogate in Python, (1 + h) sqrt(g)."""

    h_lower = -1.0

    def psi(self, h, g):
        return (1.0 + h) * np.sqrt(g)

    def psi_gradient(self, h, g):
        g = np.maximum(g, 1e-300)
        return np.sqrt(g), 0.5 * (1.0 + h) / np.sqrt(g)


COMPILED = surrogates.from_functions(
    "compiled", numba.njit(lambda h, g: h * g**0.3 + g), numba.njit(lambda h, g: (g**0.3, 0.3 * h * g**-0.7 + 1.0))
)
EVERY = [
    Margin(),
    Slack(),
    Product(),
    BetaScaling(0.3),
    GeneralizedScaling(1.5, 1.0),
    LogLoss(),
    ProbLoss(),
    ProbLoss(convex=True),
    ProbLoss(noise=0.4),
    MicroF1(),
    Root(),
    COMPILED,
]


def random_points(psi, rng, seed, scale=1.0):
    """Points of all sorts: ties, zero losses, negative h, single ones, all on the hull."""
    n = int(rng.integers(1, 40))
    points = np.column_stack([3 * rng.normal(size=n), rng.uniform(0, 5, n)])
    if seed % 3 == 0:
        points = np.rint(points)  # ties, and losses of 0
    if seed % 5 == 0:
        t = np.linspace(0.01, 1.56, n)
        points = np.column_stack([5 * np.cos(t), 5 * np.sin(t)])  # all on the hull
    if seed % 7 == 0:
        points[:, 0] -= 10.0
    if isinstance(psi, MicroF1):
        points[:, 1] -= 7.0
    return scale * points


def walk(points, psi, compiled, *, convex, rtol=0.0, cache=(), truth=None, lam=None, max_queries=1000):
    """Every step and the outcome of one walk."""
    run = Run("walk", PointPlane(points, convex=convex, truth=truth), psi.clipped, max_queries, cache, psi)
    found = HullWalk(run, psi, lam, rtol)
    stopped = found.explore() if compiled else found._explore_step_by_step()
    found.mix()
    steps = [(s.lam, s.point.label, s.incumbent, s.bound) for s in run.trace]
    chain = [p.label for p in found.chain] if not convex else []
    edge = [point.label for point in found.edge()] if not convex else []
    return stopped, chain, run.value, run.bound, edge, steps


def numbers(outcome) -> list[float]:
    return [outcome[2], outcome[3], *(number for step in outcome[5] for number in step)]


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    convex=st.booleans(),
    rtol=st.sampled_from([0.0, 1e-3, 0.1]),
    n_cached=st.integers(0, 3),
    start=st.sampled_from([None, 0.0, 0.3, math.inf]),
    psi=st.sampled_from([Slack(), Product(), Margin()]),
)
def test_compiled_walk_equals_the_one_in_python(seed, convex, rtol, n_cached, start, psi):
    """Query by query, where ψ on a segment has a closed form."""
    rng = np.random.default_rng(seed)
    points = random_points(psi, rng, seed)
    n = len(points)
    cache = rng.integers(0, n, n_cached).tolist()
    options = {"convex": convex, "rtol": rtol, "cache": cache, "truth": int(rng.integers(n)), "lam": start}
    one, other = walk(points, psi, True, **options), walk(points, psi, False, **options)
    assert one[0] == other[0] and one[4] == other[4]
    assert numbers(one) == pytest.approx(numbers(other), rel=1e-12, abs=1e-12)
    assert one[1] == other[1]


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    convex=st.booleans(),
    psi=st.sampled_from(EVERY),
    scale=st.sampled_from([1.0, 1e-9, 1e9]),
)
def test_same_value_and_bound_for_every_surrogate(seed, convex, psi, scale):
    rng = np.random.default_rng(seed)
    points = random_points(psi, rng, seed, scale)
    one, other = walk(points, psi, True, convex=convex), walk(points, psi, False, convex=convex)
    assert one[2:4] == pytest.approx(other[2:4], rel=1e-9, abs=1e-300)
    best = max(psi.clipped(h, g) for h, g in points.tolist())
    assert one[3] >= best * (1 - 1e-12), "the bound is a promise"


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


def test_an_error_in_a_surrogate_is_raised():
    class Broken(Root):
        def psi(self, h, g):
            raise ZeroDivisionError("in the surrogate")

    with pytest.raises(ZeroDivisionError, match="in the surrogate"):
        search.exact(PointPlane([(1.0, 2.0), (2.0, 1.0)]), Broken())
