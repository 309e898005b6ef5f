"""The search of many planes at once against enumeration and against the search of each plane."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from structopt import search
from structopt import surrogates as S
from structopt.errors import DeclarationError
from structopt.plane import PointPlane
from structopt.plane.batch import BatchBox, PlaneList
from structopt.search import search_batch
from structopt.surrogates import MicroF1, Slack, Surrogate


class Root(Surrogate):
    """A surrogate in Python, (1 + h) sqrt(g)."""

    h_lower = -1.0

    def psi(self, h, g):
        return (1.0 + h) * np.sqrt(g)

    def psi_gradient(self, h, g):
        g = np.maximum(g, 1e-300)
        return np.sqrt(g), 0.5 * (1.0 + h) / np.sqrt(g)


COMPILED = S.from_functions(
    "compiled", numba.njit(lambda h, g: h * g**0.3 + g), numba.njit(lambda h, g: (g**0.3, 0.3 * h * g**-0.7 + 1.0))
)
EVERY = [
    S.Margin(), Slack(), S.Product(), S.BetaScaling(0.3), S.GeneralizedScaling(1.5, 1.0), S.LogLoss(), S.ProbLoss(),
    S.ProbLoss(convex=True), S.ProbLoss(noise=0.4), MicroF1(), Root(), COMPILED,
]  # fmt: skip


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


class Levels(PlaneList):
    """Planes whose g are integers, and which say so."""

    def box(self):
        box = super().box()
        return BatchBox(*box[:4], np.ones(self.n), np.zeros(self.n))


def many(psi, seed, n=36, scale=1.0, **options):
    rng = np.random.default_rng(seed)
    return [PointPlane(random_points(psi, rng, k, scale), **options) for k in range(n)]


def best_of(psi, planes):
    return np.array([max(psi.clipped(h, g) for h, g in zip(p.h, p.g, strict=True)) for p in planes])


#: Every surrogate, and some of them in other units.
SCALES = pytest.mark.parametrize(("psi", "scale"), [*((psi, 1.0) for psi in EVERY), (EVERY[1], 1e-9), (EVERY[6], 1e9)])


@SCALES
def test_hulls_against_the_search_of_each_plane(psi, scale):
    planes = many(psi, 1, scale=scale, convex=True)
    one_by_one = [search.convex_hull(plane, psi) for plane in many(psi, 1, scale=scale, convex=True)]
    value = np.array([result.value for result in one_by_one])
    batch = PlaneList(planes)
    found = search_batch(batch, psi)
    assert found.value == pytest.approx(value, rel=1e-8, abs=1e-300)
    assert found.upper == pytest.approx([r.upper_bound for r in one_by_one], rel=1e-8, abs=1e-300)
    assert (found.upper >= value * (1 - 1e-12)).all()
    for i in np.flatnonzero(found.value > 0.0):
        labels = [batch.labels[i][k] for k in found.numbers[:, i]]
        for coordinates, at in ((planes[i].h, found.h[i]), (planes[i].g, found.g[i])):
            assert found.shares[:, i] @ coordinates[labels] == pytest.approx(at, rel=1e-9, abs=1e-9 * scale)
        assert psi.clipped(found.h[i], found.g[i]) == pytest.approx(found.value[i], rel=1e-9)
    # Over labels the same optimum is asked for by name.
    relaxed = search_batch(PlaneList(many(psi, 1, scale=scale)), psi, integral=False)
    assert relaxed.value == pytest.approx(value, rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("psi", [p for p in EVERY if not isinstance(p, MicroF1)], ids=repr)
def test_levels_prove_what_lines_cannot(psi):
    rng = np.random.default_rng(2)
    planes = []
    for _ in range(40):
        n = int(rng.integers(1, 30))
        g = rng.integers(0, 6, n)
        planes.append(PointPlane(np.column_stack([-g + 2 * rng.normal(size=n), g])))
    found = search_batch(Levels(planes), psi)
    want = best_of(psi, planes)
    assert found.value == pytest.approx(want, rel=1e-9)
    assert (found.upper >= want * (1 - 1e-12)).all() and found.upper == pytest.approx(want, rel=1e-8)
    plain = search_batch(PlaneList(planes), psi)
    assert (found.proof == "side_constraints").sum() <= (plain.proof == "side_constraints").sum()
    if isinstance(psi, Slack):
        assert (found.proof == "levels").any()


@pytest.mark.parametrize("psi", EVERY[::2], ids=repr)
@pytest.mark.parametrize("rounds", [1, 2])
def test_bounds_hold_when_stopped_early(psi, rounds):
    planes = many(psi, 4)
    found = search_batch(PlaneList(planes), psi, integral=False, max_rounds=rounds)
    assert found.rounds <= rounds and (found.upper >= best_of(psi, planes) * (1 - 1e-12)).all()


@pytest.mark.parametrize("integral", [True, False])
def test_labels_near_the_optimum_are_those_next_to_its_tangent(integral):
    planes = many(Slack(), 6)
    known = PlaneList(planes)
    found = search_batch(known, Slack(), integral=integral, n_near=3)
    assert (found.value > 0).any()
    for i, plane in enumerate(planes):
        near = found.near[:, i]
        assert (np.diff((near >= 0).astype(int)) <= 0).all()  # those there are come first
        if found.proof[i] in ("front", "search"):
            continue  # found after the walk
        seen = [(p.h, p.g) for p in (plane.evaluate(label) for label in known.labels[i] if label is not None)]
        a, b = Slack().gradient(found.h[i], found.g[i]) if found.value[i] > 0 else (1.0, 0.0)
        best = sorted({a * h + b * g for h, g in seen}, reverse=True)
        own = [plane.evaluate(known.labels[i][k]) for k in near[near >= 0]]
        heights = [a * p.h + b * p.g for p in own]
        assert len({(p.h, p.g) for p in own}) == len(own) == min(3, len(set(seen)))
        assert heights == sorted(heights, reverse=True)
        assert heights[:1] == best[:1]


def test_wrong_arguments_are_named():
    planes = many(Slack(), 7, n=3)
    for options, text in (
        ({"lam": np.ones(2)}, "lam has shape"),  # the kernel would read behind its end
        ({"lam": np.ones((3, 1))}, "lam has shape"),
        ({"n_near": -1}, "n_near"),
        ({"max_rounds": -1}, "max_rounds"),
        ({"each": lambda visit: None}, "2 arguments"),
    ):
        with pytest.raises(DeclarationError, match=text):
            search_batch(PlaneList(planes), "slack", **options)


def test_relaxed_and_integral_planes_are_not_mixed():
    points = [(-4, 10), (0, 6), (2, 3), (3, 1)]
    with pytest.raises(DeclarationError, match="relaxed"):
        PlaneList([PointPlane(points, convex=True), PointPlane(points)])


@pytest.mark.parametrize("psi", EVERY[1::4], ids=repr)
def test_batches_of_none_and_of_one(psi):
    nothing = search_batch(PlaneList([]), psi, n_near=2)
    assert nothing.value.size == 0 and nothing.near.shape == (2, 0) and nothing.rounds == 0
    planes = many(psi, 8, n=1)
    assert search_batch(PlaneList(planes), psi).value == pytest.approx(best_of(psi, planes), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("psi", [p for p in EVERY if not isinstance(p, MicroF1)], ids=repr)
def test_labels_without_a_loss(psi):
    """With g = 0 everywhere only a surrogate that counts the margin alone is worth anything."""
    planes = [PointPlane([(1, 0), (5, 0), (-2, 0)]), PointPlane([(0, 0)])]
    found = search_batch(PlaneList(planes), psi)
    assert found.value == pytest.approx(best_of(psi, planes), abs=1e-300) and (found.upper >= found.value).all()


def test_room_for_many_labels():
    """More cached labels than the walk's first array holds, all of them vertices."""
    t = np.linspace(0.01, 1.56, 150)
    points = np.column_stack([5 * np.cos(t), 5 * np.sin(t)])
    plane = PointPlane(np.vstack([points, 1.2 * points[::7]]))
    result = search.convex_hull(plane, S.Product(), cache=range(150))
    products = plane.h * plane.g
    assert result.upper_bound >= products.max() and result.value >= products.max()
    assert result.stopped == "optimal"


def test_an_error_in_a_surrogate_is_raised():
    class Broken(Root):
        def psi(self, h, g):
            raise ZeroDivisionError("in the surrogate")

    with pytest.raises(ZeroDivisionError, match="in the surrogate"):
        search.exact(PointPlane([(1.0, 2.0), (2.0, 1.0)]), Broken())
