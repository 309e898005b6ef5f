"""Searches over the plane, every one with every surrogate, against the enumeration of all labels.

A search returns a certificate: ``value`` is ψ of a label (of a mixture of labels, where these count), no label is
worth more than ``upper_bound``, and ``stopped == "optimal"`` means that the two agree. The points are random, and
hostile: collinear, repeated, tied, all without loss, all below the margin, in units of 1e-9 or 1e9. The planes are
explicit points, and points behind an oracle that stops before the optimum and says how far it may be off. The job
`batches` has the structures; label spaces, and their relaxations, have a law.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from structopt import search
from structopt.plane import Plane
from structopt.plane.point_plane import PointPlane
from structopt.plane.points import Point
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
    from_functions,
)

PRODUCTS = ("angular", "angles_only", "bisecting", "binary", "sarawagi")
EXACT = ("exact", "integral", "angular", "angles_only")


def _least(h: Any, g: Any) -> Any:
    return np.minimum(h + 1.0, g)


def _least_gradient(h: Any, g: Any) -> tuple[Any, Any]:
    return np.where(h + 1.0 < g, 1.0, 0.0)[()], np.where(h + 1.0 < g, 0.0, 1.0)[()]


#: Surrogates of a user's own: smooth, steep and with flat pieces.
OWN = (
    from_functions(
        "root", lambda h, g: (1 + h) * g**0.5, lambda h, g: (g**0.5, 0.5 * (1 + h) / np.maximum(g, 1e-300) ** 0.5)
    ),
    from_functions("bent", lambda h, g: h + g**0.5, lambda h, g: (1.0 + 0.0 * h, 0.5 / np.maximum(g, 1e-300) ** 0.5)),
    from_functions("least", _least, _least_gradient, convex_in_h=False),
)
SHIPPED = (
    Margin(),
    Slack(),
    Product(),
    GeneralizedScaling(1.5, 0.5),
    GeneralizedScaling(1.0, 1.0),
    BetaScaling(0.25),
    LogLoss(),
    ProbLoss(),
    ProbLoss(convex=True),
    ProbLoss(noise=0.3),
    ProbLoss(convex=True, noise=2.5),
    MicroF1(),
)


class InexactPlane(PointPlane):
    """Points behind a solver with a limit: the answer may be worse than the best, by no more than its bound says."""

    def __init__(self, points: Any, *, rng: np.random.Generator, **options: Any) -> None:
        super().__init__(points, **options)
        self._rng = rng
        self._error = float(rng.choice([1e-6, 1e-2, 0.3]))

    def query(self, lam: float, **options: Any) -> Point | None:
        best = super().query(lam, **options)
        if best is None:
            return None
        a, b = (0.0, 1.0) if lam == math.inf else (1.0, lam)
        room = self._error * (abs(a * best.h) + abs(b * best.g))
        bound = best.bound + room * float(self._rng.uniform())
        allowed = [best]
        for k in range(self.h.size):
            point = self.evaluate(k)
            height = a * point.h + b * point.g
            if height >= best.bound - room and self._allows(point, options):
                allowed.append(point)
        chosen = allowed[int(self._rng.integers(len(allowed)))]
        return Point(chosen.h, chosen.g, chosen.label, max(bound, best.bound))

    @staticmethod
    def _allows(point: Point, options: dict[str, Any]) -> bool:
        bottom, top, above = options.get("bottom"), options.get("top"), options.get("above")
        if (bottom is not None or top is not None) and (point.h <= 0.0 or point.g <= 0.0):
            return False
        if bottom is not None:
            side = bottom[0] * point.g - bottom[1] * point.h
            if side < 0.0 or (side == 0.0 and options.get("open_bottom")):
                return False
        if top is not None:
            side = top[1] * point.h - top[0] * point.g
            if side < 0.0 or (side == 0.0 and options.get("open_top")):
                return False
        if above is not None and not (point.h > above[0] and point.g > above[1]):
            return False
        return point.label not in options.get("forbid", ())


# ---- the reference ---------------------------------------------------------------------------------------------------


def clipped(psi: Surrogate, h: Any, g: Any) -> Any:
    """max(0, ψ), and 0 outside the domain; of arrays."""
    h, g = np.asarray(h, dtype=float), np.asarray(g, dtype=float)
    inside = np.asarray(psi.inside(h, g)) & np.ones(h.shape, dtype=bool)
    values = np.zeros(h.shape)
    with np.errstate(all="ignore"):
        values[inside] = psi.psi(h[inside], g[inside])
    return np.maximum(np.nan_to_num(values, nan=0.0), 0.0)


def best_label(psi: Surrogate, points: Any) -> float:
    """The largest value of a point."""
    return float(clipped(psi, points[:, 0], points[:, 1]).max(initial=0.0))


def best_mixture(psi: Surrogate, points: Any) -> float:
    """The largest value of the hull: it lies on a segment of two points, which is looked at ever closer."""
    i, j = np.triu_indices(len(points), k=1)
    best = best_label(psi, points)
    if not i.size:
        return best
    low, high = np.zeros(i.size), np.ones(i.size)
    steps = np.linspace(0.0, 1.0, 33)
    for _ in range(9):
        t = low[:, None] + (high - low)[:, None] * steps
        h = points[i, 0][:, None] * (1.0 - t) + points[j, 0][:, None] * t
        g = points[i, 1][:, None] * (1.0 - t) + points[j, 1][:, None] * t
        values = clipped(psi, h, g)
        best = max(best, float(values.max()))
        k = values.argmax(axis=1)
        rows = np.arange(i.size)
        low, high = t[rows, np.maximum(k - 1, 0)], t[rows, np.minimum(k + 1, 32)]
    return best


# ---- points ----------------------------------------------------------------------------------------------------------


def random_points(rng: np.random.Generator) -> tuple[np.ndarray, str]:
    """Points of one of many shapes, in the units that a slack search expects: h around 1, g from 0."""
    n = int(rng.integers(1, 13))
    kind = str(
        rng.choice(
            [
                "normal",
                "integer",
                "front",
                "collinear",
                "repeated",
                "no loss",
                "negative",
                "one",
                "thin",
                "line",
                "uneven",
            ]
        )
    )
    h, g = rng.normal(size=n) * 2.0, np.abs(rng.normal(size=n)) * 3.0
    if kind == "integer":
        h, g = rng.integers(-20, 5, n).astype(float), rng.integers(0, 8, n).astype(float)
    elif kind == "front":
        t = np.sort(rng.uniform(0.0, 1.0, n))
        h, g = 3.0 * (1.0 - t**2) - rng.uniform(0, 2), 5.0 * t
    elif kind == "collinear":
        h, g = 4.0 - 2.0 * np.arange(n), 1.0 * np.arange(n)
    elif kind == "repeated":
        h, g = rng.choice([-1.0, 0.5, 2.0], n), rng.choice([0.0, 1.0, 3.0], n)
    elif kind == "no loss":
        g = np.zeros(n)
    elif kind == "negative":
        h = -np.abs(h) - rng.choice([0.0, 1.0, 5.0])
    elif kind == "one":
        h, g = h[:1], g[:1]
    elif kind == "thin":
        h = 1.0 + 1e-7 * rng.normal(size=n)
    elif kind == "line":
        g = np.full(n, float(rng.integers(0, 3)))
    elif kind == "uneven":
        h, g = h * 10.0 ** rng.uniform(-4, 4, n), g * 10.0 ** rng.uniform(-4, 4, n)
    return np.column_stack([h, g]), kind


def point_case(rng: np.random.Generator) -> str:
    """A search over explicit points."""
    points, kind = random_points(rng)
    psi, method = choose(rng)
    if isinstance(psi, MicroF1):
        points[:, 1] = -points[:, 1] - rng.choice([1e-3, 1.0])
    if isinstance(psi, (Product, Margin, MicroF1)) and rng.random() < 0.4:
        # These, and no others, are the same in other units; products in any units of either axis.
        unit = 10.0 ** rng.integers(-9, 10)
        points *= (unit, 10.0 ** rng.integers(-9, 10)) if isinstance(psi, Product) else (unit, unit)
    convex = bool(rng.random() < 0.4) and method != "integral"
    # The truth is a label that is worth nothing.
    worthless = np.flatnonzero(clipped(psi, points[:, 0], points[:, 1]) == 0.0)
    truth = int(rng.choice(worthless)) if worthless.size and rng.random() < 0.7 else None
    inexact = rng.random() < 0.3
    options: dict[str, Any] = {"truth": truth, "convex": convex}
    plane = InexactPlane(points, rng=rng, **options) if inexact else PointPlane(points, **options)
    if convex and method == "angles_only":
        method = "angular"  # an explicit convex plane has free queries alone
    cache = rng.integers(0, len(points), int(rng.integers(1, 4))).tolist() if rng.random() < 0.4 else []
    with np.errstate(all="ignore"):
        result, rtol, limited = run(rng, method, plane, psi, cache)
    labels, hull = best_label(psi, points), best_mixture(psi, points)
    what = f"{method} of {psi!r}, {kind}, convex={convex}, truth={truth}, cache={cache}, inexact={inexact}, rtol={rtol}"
    what += f"\npoints {points.tolist()}\n{result!r}"
    mixes = convex or method == "hull"
    check(result, psi, hull if mixes else labels, labels, what, 1e-9, rtol)
    if not (inexact or limited) and method in (*EXACT, "hull"):
        within = rtol if rtol else 1e-7
        want = hull if mixes else labels
        rounding = 1e-12 * float(clipped(psi, points[:, 0].max(), points[:, 1].max()))
        assert result.value >= (1.0 - within) * want - rounding, f"{what}\nbelow the optimum {want}"
        assert result.stopped in ("optimal", "gap", "no violation"), f"{what}\nno proof of {want}"
    return f"points, {method}" + (", inexact" if inexact else "")


def choose(rng: np.random.Generator) -> tuple[Surrogate, str]:
    """A surrogate and a search that goes with it."""
    if rng.random() < 0.3:
        return Product(), str(rng.choice(PRODUCTS))
    pool = OWN if rng.random() < 0.25 else SHIPPED
    return pool[int(rng.integers(len(pool)))], str(rng.choice(["hull", "integral", "exact"]))


def run(rng: np.random.Generator, method: str, plane: Any, psi: Surrogate, cache: list[Any]) -> Any:
    """Run the search, with a random gap, first λ and limit."""
    rtol = float(rng.choice([0.0, 0.0, 1e-3, 0.1]))
    limit = int(rng.integers(1, 6)) if rng.random() < 0.2 else 1000
    options: dict[str, Any] = {"max_queries": limit, "cache": cache}
    lam = float(10.0 ** rng.uniform(-3, 3)) if rng.random() < 0.3 else None
    if method == "sarawagi":
        return search.sarawagi(plane, xi=float(rng.choice([0.0, 1e-6, 1.0, 50.0])), **options), 0.0, True
    options |= {"rtol": rtol, "lam": lam}
    found: Callable[..., Any]
    if method in ("bisecting", "binary"):
        found = search.bisecting if method == "bisecting" else search.binary
        return found(plane, **options), rtol, True
    if method in ("angular", "angles_only"):
        return search.angular(plane, angles_only=method == "angles_only", **options), rtol, limit < 1000
    if method == "exact":
        return search.exact(plane, psi, front=bool(rng.random() < 0.5), **options), rtol, limit < 1000
    return search.convex_hull(plane, psi, integral=method == "integral", **options), rtol, limit < 1000


def check(result: Any, psi: Surrogate, best: float, labels: float, what: str, accuracy: float, rtol: float) -> None:
    """The certificate: nothing is claimed that is not there, and nothing is better than the bound."""
    slack = accuracy * max(best, labels)
    if isinstance(result.plane, Plane):
        # Rounding of h and g, whose scale is 1 here; of g = 1e-15 the root is 3e-8.
        slack += 1e-9 + 1e-6 * (psi in OWN)
    assert not math.isnan(result.value) and not math.isnan(result.upper_bound), what
    assert result.value <= best + slack, f"{what}\nclaims more than the optimum {best!r}"
    assert result.upper_bound >= labels - slack, f"{what}\nthe bound is below the best label {labels!r}"
    assert result.upper_bound >= best - slack, f"{what}\nthe bound is below the optimum {best!r}"
    assert result.upper_bound >= result.value, what
    incumbents = [step.incumbent for step in result.trace]
    falls = any(later < earlier * (1.0 - 1e-12) for earlier, later in itertools.pairwise(incumbents))
    assert not falls, f"{what}\nthe incumbent falls"
    assert all(step.bound >= labels - slack for step in result.trace), f"{what}\na bound on the way is too low"
    if result.point is not None:
        own = float(clipped(psi, result.point.h, result.point.g))
        assert abs(own - result.value) <= 1e-8 * max(own, result.value), f"{what}\nthe point is worth {own!r}"
        weight = sum(share for share, _ in result.parts)
        h = sum(share * point.h for share, point in result.parts)
        g = sum(share * point.g for share, point in result.parts)
        near = 1e-9 * sum(abs(point.h) + abs(point.g) for _, point in result.parts)
        assert abs(weight - 1.0) < 1e-12 and abs(h - result.point.h) <= near and abs(g - result.point.g) <= near, what
    else:
        assert result.value == 0.0, what
    if result.stopped in ("optimal", "no violation"):
        allowed = max(rtol, 3e-5)
        gap = result.upper_bound - result.value
        box, precision = result.plane.bounds, result.plane.precision
        largest = float(clipped(psi, box.h_upper, box.g_upper)) if math.isfinite(box.h_upper + box.g_upper) else 0.0
        unseen = 2.1 * max(precision.h_min * box.g_upper, precision.g_min * box.h_upper)
        assert gap <= allowed * result.upper_bound or result.upper_bound <= max(1e-9 * largest, unseen), (
            f"{what}\n{result.stopped}, with a gap of {gap!r}"
        )


def case(seed: int) -> str:
    return point_case(np.random.default_rng(seed))
