"""The laws of planes and searches hold on explicit points and on label spaces, relaxed or not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import structopt as so
from structopt.surrogates import BetaScaling, GeneralizedScaling, LogLoss, Margin, MicroF1, ProbLoss, Product, Slack

S = so.structures
#: A surrogate of a user, in Python.
ROOT = so.surrogates.from_functions(
    "root", lambda h, g: (1 + h) * g**0.5, lambda h, g: (g**0.5, 0.5 * (1 + h) / np.maximum(g, 1e-300) ** 0.5)
)
SURROGATES = [
    Margin(), Slack(), Product(), BetaScaling(0.5), GeneralizedScaling(1.5, 0.5), LogLoss(), ProbLoss(), MicroF1(),
    ROOT,
]  # fmt: skip
PRODUCTS = {
    "angular": lambda plane: so.search.angular(plane, rtol=0.0),
    "angles only": lambda plane: so.search.angular(plane, rtol=0.0, angles_only=True),
    "bisecting": so.search.bisecting,
    "binary": so.search.binary,
    "sarawagi": lambda plane: so.search.sarawagi(plane, 0.5),
}
FAMILIES = {
    "random": lambda rng, t: (3 * rng.normal(size=t.size), rng.uniform(0, 5, t.size)),
    "ties": lambda rng, t: (rng.integers(-4, 8, t.size), rng.integers(0, 8, t.size)),
    "below a chord": lambda rng, t: (5 * (1 - t) ** 2 - 1, 5 * t**2),
    "equal products": lambda rng, t: (5 * t - 1, (1 + rng.uniform(0, 0.002, t.size)) / t),
    "on the hull": lambda rng, t: (5 * np.cos(1.57 * t) - 1, 5 * np.sin(1.57 * t)),
    "one point": lambda rng, t: ([1.0], [2.0]),
    "no violation": lambda rng, t: (-1.5 - t, t),
}


def knapsack():
    space = so.LabelSpace()
    y = space.binary("y", 6)
    space.subject_to(np.array([3.0, 4.0, 5.0, 2.0, 4.0, 3.0]) @ y <= 10.5)
    return space


#: Node 0 is an ancestor of all others, so that labels lie far below their hull.
HUB = [(0, child) for child in range(1, 5)] + [(1 + k % 4, 5 + k) for k in range(4)] + [(2, 5), (3, 5), (4, 6)]
SPACES = {
    "knapsack": lambda: so.Oracle(knapsack()),
    "knapsack by a solver": lambda: so.Oracle(knapsack(), "highs"),
    "chain": lambda: S.Chain(3).oracle(np.zeros((3, 1))),
    "pairs": lambda: S.PairwiseMRF(4).oracle(),
    "closure of a dag": lambda: S.HierarchicalLabels(so.Hierarchy(HUB), "closure").oracle(),
    "assignment": lambda: S.Assignment().oracle(np.zeros((4, 4, 1))),
    "unmatched items": lambda: S.Assignment(unmatched=True).oracle(np.zeros((3, 3, 1))),
    "arborescence": lambda: S.Arborescence().oracle(np.zeros((4, 4, 1))),
    "closure": lambda: S.HierarchicalLabels(so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)]), "closure").oracle(),
}


def moved(h, g, psi):
    """Move points into the domain of a surrogate."""
    if isinstance(psi, MicroF1):
        return h, -1.0 - np.asarray(g)
    return (np.asarray(h) + 1.0, g) if isinstance(psi, Product) else (h, g)


def on_points(family, seed, psi=None, **options):
    rng = np.random.default_rng(seed)
    h, g = moved(*FAMILIES[family](rng, rng.uniform(0.02, 1.0, int(rng.integers(2, 20)))), psi)
    return so.PointPlane(np.column_stack([h, g]), **options), np.asarray(h, dtype=float), np.asarray(g, dtype=float)


def on_space(name, seed, psi=None):
    """The plane of a random objective and the Hamming loss, and the coordinates of all labels."""
    oracle, rng = SPACES[name](), np.random.default_rng(seed)
    labels = so.space.enumeration.enumerate_labels(oracle.space)
    truth = labels[rng.integers(len(labels))]
    c = rng.normal(size=truth.size) * oracle.space.integrality
    sign = np.where(truth > 0.5, -1.0, 1.0) * oracle.space.integrality
    h0, g0 = -float(c @ truth) + 1.0 * isinstance(psi, Product), -float(sign @ truth)
    if isinstance(psi, MicroF1):
        sign, g0 = -sign, -1.0 - g0
    plane = so.Plane(oracle, (c, h0), (sign, g0), truth=truth)
    return plane, labels @ c + h0, labels @ sign + g0, labels


def best_mixture(psi, h, g):
    points = list(zip(h.tolist(), g.tolist(), strict=True))
    best = max(psi.clipped(*p) for p in points)
    pairs = itertools.combinations(points, 2)
    return max([best, *(psi.segment_maximum(p, q)[1] for p, q in pairs)])


def check(found, plane, psi, best, exact):
    """Assert that a result has the value of its label, which no label exceeds by more than the bound says."""
    room = 1e-5 * max(1.0, best)
    assert found.value <= best + room
    assert found.upper_bound >= best - room
    assert found.upper_bound >= found.value - room
    if exact:
        assert abs(found.value - best) <= room
        assert found.upper_bound <= best + 2 * room
    if found.value > 0.0:
        if not found.fractional:
            point = plane.evaluate(found.label)
            assert abs(psi.clipped(point.h, point.g) - found.value) <= room
        at = (sum(share * getattr(p, axis) for share, p in found.parts) for axis in "hg")
        assert abs(psi.clipped(*at) - found.value) <= room
    else:
        assert found.label is plane.truth or np.array_equal(found.label, plane.truth)


@pytest.mark.parametrize("psi", SURROGATES, ids=repr)
@pytest.mark.parametrize("family", FAMILIES)
def test_searches_of_points(family, psi):
    for seed in range(4):
        plane, h, g = on_points(family, seed, psi, truth=0)
        best = max(0.0, *(psi.clipped(*p) for p in zip(h.tolist(), g.tolist(), strict=True)))
        for options in ({}, {"front": False}, {"cache": [0, h.size - 1], "lam": 0.7}):
            found = so.search.exact(plane, psi, **options)
            check(found, plane, psi, best, exact=True)
            assert found.queries <= 2 * h.size + 3
        mixture = best_mixture(psi, h, g)
        hull = so.search.convex_hull(plane, psi)
        check(hull, plane, psi, mixture, exact=True)
        # Thesis Theorem 6: a query per vertex and one more; λ = 0 and infinity come on top where no vertex counts yet.
        assert hull.queries <= h.size + 3
        for early in (so.search.exact(plane, psi, max_queries=2), so.search.convex_hull(plane, psi, max_queries=2)):
            assert early.queries <= 2
            check(early, plane, psi, mixture if early.fractional else best, exact=False)
        convex, *_ = on_points(family, seed, psi, truth=0, convex=True)
        check(so.search.convex_hull(convex, psi), convex, psi, mixture, exact=True)


@pytest.mark.parametrize("method", PRODUCTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_searches_of_products(family, method):
    psi = Product()
    for seed in range(8):
        plane, h, g = on_points(family, seed, psi, truth=0)
        best = max(0.0, *(psi.clipped(*p) for p in zip(h.tolist(), g.tolist(), strict=True)))
        found = PRODUCTS[method](plane)
        check(found, plane, psi, best, exact=method.startswith("ang"))
        assert method != "angular" or found.queries <= 2 * h.size + 1  # thesis Theorem 2


@pytest.mark.parametrize("psi", SURROGATES, ids=repr)
@pytest.mark.parametrize("name", SPACES)
def test_searches_of_spaces(name, psi):
    for seed in range(2):
        plane, h, g, _ = on_space(name, seed, psi)
        best = max(0.0, *(psi.clipped(*p) for p in zip(h.tolist(), g.tolist(), strict=True)))
        for front in (True, False):
            check(so.search.exact(plane, psi, front=front), plane, psi, best, exact=True)
        check(so.search.convex_hull(plane, psi, integral=True), plane, psi, best, exact=True)
        check(so.search.exact(plane, psi, front=False, max_queries=2), plane, psi, best, exact=False)
        hull = so.search.convex_hull(plane, psi)
        assert hull.upper_bound >= best - 1e-5 * max(1.0, best)
        if isinstance(psi, Product):
            check(so.search.angular(plane, rtol=0.0), plane, psi, best, exact=True)


#: Spaces whose relaxation has no other vertices than the labels.
INTEGRAL = ["chain", "closure of a dag", "assignment", "closure"]


@pytest.mark.parametrize("psi", SURROGATES, ids=repr)
@pytest.mark.parametrize("name", INTEGRAL)
def test_searches_of_relaxed_spaces(name, psi):
    for solver in ("auto", "highs"):
        plane, h, g, _ = on_space(name, 0, psi)
        relaxed = so.Oracle(plane.oracle.declared, solver, integral="relax")
        axes = plane.coordinates
        plane = so.Plane(relaxed, (axes.h, axes.h0), (axes.g, axes.g0), truth=plane.truth)
        order = np.lexsort((-h, -g))
        front = order[h[order] > np.maximum.accumulate(np.append(-np.inf, h[order][:-1]))]
        best = best_mixture(psi, h[front], g[front])
        for search in (so.search.exact, so.search.convex_hull):
            check(search(plane, psi), plane, psi, best, exact=True)
        if isinstance(psi, Product):
            check(so.search.angular(plane, rtol=0.0), plane, psi, best, exact=False)


def check_queries(plane, h, g, label_of):
    """Assert that every query has the best point among those that it allows, and that the box holds all points."""
    box = plane.bounds
    assert box.h_lower <= h.min() + 1e-6 and h.max() - 1e-6 <= box.h_upper
    assert box.g_lower <= g.min() + 1e-6 and g.max() - 1e-6 <= box.g_upper
    middle = (float(np.median(h)), float(np.median(g)))
    ray = (1.0, 0.8)
    for lam in (0.0, 0.3, 1.0, 4.0, math.inf):
        height = g if lam == math.inf else h + lam * g
        first = label_of(int(np.argmax(height)))
        angle = (h > 1e-3) & (g > 1e-3)
        restrictions = [
            ({}, np.ones(h.size, dtype=bool)),
            ({"above": middle}, (h > middle[0] + 1e-6) & (g > middle[1] + 1e-6)),
            ({"above": (-math.inf, middle[1])}, g > middle[1] + 1e-6),
            ({"bottom": ray, "top": (1e-4, 1.0)}, angle & (g > 0.8 * h) & (1e4 * h > g)),
            ({"bottom": (1.0, 1e-4), "top": ray}, angle & (g < 0.8 * h) & (1e4 * g > h)),
        ]
        if plane.can_forbid(plane.evaluate(first)):
            restrictions.append(({"forbid": [first]}, np.arange(h.size) != int(np.argmax(height))))
        for options, allowed in restrictions:
            found = plane.query(lam, **options)
            if not allowed.any():
                # The ground truth is at the origin, the end of both rays.
                assert found is None or abs(found.h) + abs(found.g) <= 1e-6, (lam, options)
                continue
            best = height[allowed].max()
            value = found.g if lam == math.inf else found.h + lam * found.g
            assert abs(value - best) <= 2e-5 * max(1.0, abs(best)), (lam, options)
            assert found.bound >= best - 2e-5 * max(1.0, abs(best)), (lam, options)
            point = plane.evaluate(found.label)
            assert abs(point.h - found.h) + abs(point.g - found.g) <= 1e-6, (lam, options)
    listed = plane.front()
    if listed is not None:
        own = np.array([[p.h, p.g] for p in listed])
        assert all((own >= [a - 1e-6, b - 1e-6]).all(axis=1).any() for a, b in zip(h, g, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_queries_of_points(family):
    for seed in range(6):
        plane, h, g = on_points(family, seed)
        check_queries(plane, h, g, int)
        for k in range(h.size):
            point = plane.evaluate(k)
            assert (point.h, point.g) == (h[k], g[k])


@pytest.mark.parametrize("name", SPACES)
def test_queries_of_spaces(name):
    for seed in range(4):
        plane, h, g, labels = on_space(name, seed)
        check_queries(plane, h, g, labels.__getitem__)
        for k in range(0, len(labels), 7):
            point = plane.evaluate(labels[k])
            assert abs(point.h - h[k]) + abs(point.g - g[k]) <= 1e-9


@pytest.mark.parametrize("step", [1e-6, 3e-6])
@pytest.mark.parametrize("solver", ["auto", "highs"])
def test_bounds_hold_for_labels_beside_a_ray(solver, step):
    """An open ray is moved by 1e-5 of its slope. The label between has a larger product than the one on the ray."""
    points = np.array([[0.0, 0.0], [1.0 + 2e-9, 1.0], [1.0 + 2 * step, 1.0 - step], [3.0, 0.05], [0.05, 3.0]])
    space = so.LabelSpace()
    space.subject_to(space.binary("y", len(points)).sum() == 1)
    plane = so.Plane(so.Oracle(space, solver), (points[:, 0], 0.0), (points[:, 1], 0.0), truth=np.eye(len(points))[0])
    found = so.search.angular(plane, rtol=0.0)
    best = points.prod(axis=1).max()
    assert found.value < best <= found.upper_bound
    assert so.search.exact(plane, Product(), front=False).upper_bound >= best
