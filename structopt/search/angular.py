"""Angular search: the exact argmax of h g with the constrained oracle (thesis Algorithm 2)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from structopt.checks import checked
from structopt.plane.point_plane import PointPlane
from structopt.plane.points import Point, Ray, SearchPlane
from structopt.search.bracket import product_bound
from structopt.search.hull import HullWalk
from structopt.search.result import (
    Run,
    SearchResult,
    check_lam,
    check_rtol,
    default_lam,
    no_positive_product,
    product,
)
from structopt.surrogates import Product

__all__ = ["angular"]


@dataclass(slots=True, frozen=True)
class _Angle:
    """The labels between two rays. The top is always open, the bottom only of the lower child."""

    top: Ray
    bottom: Ray
    open_bottom: bool
    upper: float
    parent: Point | None = None

    @property
    def lam(self) -> float:
        """1 / sqrt(slope(top) slope(bottom))."""
        return math.sqrt((self.top[0] / self.top[1]) * (self.bottom[0] / self.bottom[1]))


@checked
def angular(
    plane: SearchPlane,
    lam: float | None = None,
    *,
    rtol: float = 1e-3,
    max_queries: int = 1000,
    cache: Iterable[Any] = (),
    angles_only: bool = False,
) -> SearchResult:
    """Maximise h g exactly: split angles, best bound first, until none can hold a better label.

    In a relaxed space every mixture of labels is a label, so that an angle is never empty and the queue of angles
    only converges. There the search first queries the free oracle at tangents and edges (the λ of `convex_hull`),
    whose lines hold for every angle at once; angles are split only if that leaves a gap.

    Parameters
    ----------
    plane : SearchPlane
    lam : float, optional
        First λ; default H^ / G^ (thesis Theorem 5, corrected).
    rtol : float
        Stop when the value is at least ``1 - rtol`` of the bound (the papers' 0.999). 0 is exact: on explicit
        points at most 2 M + 1 queries for M labels. A relaxed space has infinitely many labels: keep rtol > 0.
    max_queries : int
        The bound is certified when stopped here, too.
    cache : iterable of labels
        Labels of earlier searches, evaluated anew; a good one prunes most angles at once.
    angles_only : bool
        The papers' algorithm in relaxed spaces, too: constrained queries from the start.

    Returns
    -------
    SearchResult

    Examples
    --------
    >>> import structopt.search as search
    >>> from structopt.plane import PointPlane
    >>> search.angular(PointPlane([(1, 8), (3, 4), (5, 3), (8, 1)]), lam=1.0, rtol=0)
    <angular: value 15, upper bound 15, 5 queries, optimal>
    """
    check_rtol(rtol)
    plane = plane.as_product()
    run = Run("angular", plane, product, max_queries, cache, rtol=rtol)
    first_lam = check_lam(lam) or default_lam(plane)
    if no_positive_product(plane):
        run.tighten(0.0)
        return run.result("no violation")
    if plane.convex and not angles_only:
        stopped = _along_the_hull(run, lam, rtol)
        if stopped != "stalled" or isinstance(plane, PointPlane):  # a convex one answers free queries only
            return run.result(stopped)
    queue: list[tuple[float, int, _Angle]] = []
    first, stopped = _first_query(run, first_lam)
    if first is None:
        if stopped == "stalled" and plane.convex:
            # The solver's tolerance is wider than the strip that keeps labels off an axis, and admitted the ground
            # truth. Where mixtures are labels, free queries find those inside.
            stopped = _along_the_hull(run, None, rtol)
        return run.result(stopped)
    _split(queue, run, first, first_lam, None)
    stalled = False
    while queue:
        run.tighten(-queue[0][0])
        if -queue[0][0] <= run.value:
            break
        if run.within(rtol):
            stopped = "gap"
            break
        if run.exhausted:
            stopped = "max_queries"
            break
        angle = heapq.heappop(queue)[2]
        current = angle.lam
        point = _query(run, angle, current)
        if point is None:
            continue
        if point.h <= 0.0 or point.g <= 0.0:
            run.lose(angle.upper)  # outside by the solver's tolerance: there is nothing to split at
            stalled = True
            continue
        if angle.parent is not None and run.same_place(point, angle.parent):
            # The solver's tolerance let the excluded label in; push it further away, once.
            point = _query(run, angle, current, shrink=10.0 * plane.precision.shrink)
            if point is not None and (run.same_place(point, angle.parent) or point.h <= 0.0 or point.g <= 0.0):
                run.lose(angle.upper)
                stalled = True
                continue
            run.lose(run.value * (1.0 + 10.0 * plane.precision.shrink))
        if point is not None:
            _split(queue, run, point, current, angle)
    if not queue:
        run.tighten(0.0)
    if run.trace and any(step.kind == "angle" for step in run.trace):
        # A label lost between an open ray and its shrunk copy is worth at most this (docs/mathematics/searches).
        run.lose(run.value * (1.0 + plane.precision.shrink))
    return run.result("stalled" if stalled and stopped == "optimal" else stopped)


def _along_the_hull(run: Run, lam: float | None, rtol: float) -> str:
    """The best mixture of labels, by free queries."""
    walk = HullWalk(run, Product(), lam, rtol)
    stopped = walk.explore()
    walk.mix()
    return "optimal" if stopped == "closed" else stopped


def _first_query(run: Run, lam: float) -> tuple[Point | None, str]:
    """The best label of the whole open quadrant, or None with the reason why the search ends here.

    A free answer inside the quadrant is the constrained answer, and the free oracle is the faster one.
    """
    point = run.ask(lam)
    run.tighten(0.0 if point is None else product_bound(lam, point.bound))
    if point is None or point.bound <= 0.0:
        return None, "optimal"
    if point.h > 0.0 and point.g > 0.0:
        return point, "optimal"
    if run.exhausted:
        return None, "max_queries"
    precision, bounds = run.plane.precision, run.plane.bounds
    run.lose(max(precision.h_min * bounds.g_upper, precision.g_min * bounds.h_upper))
    point = run.ask(lam, bottom=(1.0, 0.0), top=(0.0, 1.0), open_bottom=True, open_top=True)
    run.tighten(0.0 if point is None else product_bound(lam, point.bound))
    if point is None:
        return None, "optimal"
    # Within the solver's tolerance of an axis the split is undefined; the bound above still holds.
    return (point, "optimal") if point.h > 0.0 and point.g > 0.0 else (None, "stalled")


def _query(run: Run, angle: _Angle, lam: float, **options: Any) -> Point | None:
    return run.ask(
        lam,
        bottom=angle.bottom,
        top=angle.top,
        open_bottom=angle.open_bottom,
        open_top=True,
        worth=lambda bound: product_bound(lam, bound) > run.value,
        **options,
    )


def _split(queue: list[tuple[float, int, _Angle]], run: Run, point: Point, lam: float, parent: _Angle | None) -> None:
    """Push the two children of an angle that can still hold a better label (the trimmed split)."""
    bound = max(point.bound, point.h + lam * point.g)
    upper = product_bound(lam, bound)
    if parent is not None:
        upper = min(upper, parent.upper)
    if upper <= run.value:
        return
    rays = _outer_rays(point, lam, bound, run.value)
    if rays is None:
        return
    high, low = rays
    middle = (lam, 1.0)
    for top, bottom, is_lower in ((high, middle, False), (middle, low, True)):
        # Rounding may turn a thin child inside out; it holds nothing then.
        if _steeper(top, bottom):
            angle = _Angle(top, bottom, is_lower, upper, point)
            heapq.heappush(queue, (-upper, len(run.trace) * 2 + is_lower, angle))


def _outer_rays(point: Point, lam: float, bound: float, best: float) -> tuple[Ray, Ray] | None:
    """Rays beyond which no label of the angle is better than the incumbent: where the line meets h g = best."""
    # The label and its mirror image on the line, exactly (for best = h g the formula below would cancel badly).
    label, mirror = (point.h, point.g), (lam * point.g, point.h / lam)
    high, low = (label, mirror) if _steeper(label, mirror) else (mirror, label)
    if bound <= point.h + lam * point.g and best <= point.h * point.g:
        return high, low
    discriminant = bound * bound - 4.0 * lam * best
    if discriminant <= 0.0:
        return None
    larger = bound + math.sqrt(discriminant)
    smaller = 4.0 * lam * best / larger  # the difference of bound and root would cancel, down to 0
    trimmed_high, trimmed_low = (lam * smaller, larger), (lam * larger, smaller)
    if bound > point.h + lam * point.g:
        return trimmed_high, trimmed_low
    # Rounding must not move a ray outwards past the label that it has to exclude.
    return (
        high if _steeper(trimmed_high, high) else trimmed_high,
        low if _steeper(low, trimmed_low) else trimmed_low,
    )


def _steeper(p: Ray, q: Ray) -> bool:
    return p[1] * q[0] > q[1] * p[0]
