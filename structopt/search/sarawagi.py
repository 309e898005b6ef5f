"""Sarawagi and Gupta's separation search for cutting planes (docs/mathematics/searches)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.plane.points import Point, SearchPlane
from structopt.search.bracket import product_bound
from structopt.search.result import Run, SearchResult, no_positive_product, product

__all__ = ["sarawagi"]

_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


@checked
def sarawagi(
    plane: SearchPlane,
    xi: float,
    *,
    width: float = 1e-9,
    max_queries: int = 60,
    cache: Iterable[Any] = (),
) -> SearchResult:
    """Maximise h - xi / g by golden section on its convex bound ``K(λ) - 2 sqrt(xi λ)``.

    A label cuts off the slack value xi iff h - xi / g > 0, that is h g > xi. The label of largest h - xi / g among
    those seen is returned; its product h g is the result's value. Not exact (thesis Theorem 1).

    Parameters
    ----------
    plane : SearchPlane
    xi : float
        The example's current slack value, at least 0.
    width : float
        Relative width of the λ interval at which to stop.
    max_queries : int
    cache : iterable of labels

    Returns
    -------
    SearchResult
        ``statistics["violation"]`` is h - xi / g of the label, ``statistics["violation_bound"]`` no label exceeds.

    Examples
    --------
    >>> import structopt.search as search
    >>> from structopt.plane import PointPlane
    >>> result = search.sarawagi(PointPlane([(1, 8), (3, 4), (5, 3), (8, 1)]), xi=6.0)
    >>> result.value, round(result.statistics["violation_bound"], 3)
    (8.0, 4.101)
    """
    if not 0.0 <= xi < math.inf:
        raise DeclarationError(f"xi is a slack value: finite and at least 0, got {xi}.")
    plane = plane.as_product()
    run = Run("sarawagi", plane, product, max_queries, cache)
    best = _Best(xi)
    for point in run.cached:
        best.offer(point)
    if no_positive_product(plane):
        run.tighten(0.0)
        return run.result("no violation", violation=0.0, violation_bound=0.0)
    stopped = _zero_slack(run, best) if xi == 0.0 else _golden_section(run, best, xi, width)
    # The method's own criterion chooses the label, not the product.
    run.point, run.value, run.parts = None, 0.0, ()
    if best.point is not None:
        run.offer(best.point)
    violation = best.violation if best.point is not None else 0.0
    return run.result(stopped, violation=violation, violation_bound=max(best.bound, violation))


class _Best:
    """The largest h - xi / g seen, and the smallest bound on it."""

    def __init__(self, xi: float) -> None:
        self.xi = xi
        self.point: Point | None = None
        self.violation = -math.inf
        self.bound = math.inf

    def offer(self, point: Point) -> None:
        if point.g > 0.0:
            violation = point.h - self.xi / point.g
            if violation > self.violation:
                self.point, self.violation = point, violation


def _zero_slack(run: Run, best: _Best) -> str:
    """Find the largest h among labels with g > 0 (the case xi = 0)."""
    if run.plane.convex:
        return _zero_slack_relaxed(run, best)
    step = run.plane.precision.g_step
    # The restricted query does not see labels with 0 < g < step. A free query bounds their h.
    free = run.ask(0.0) if step else None
    point = free if free is not None and free.g > 0.0 else run.ask(0.0, above=(-math.inf, 0.0))
    best.bound = 0.0 if point is None else point.bound
    if point is not None:
        best.offer(point)
        run.tighten(max(0.0, point.bound) * run.plane.bounds.g_upper)
    else:
        run.tighten(0.0)
    if free is not None and free is not point:
        best.bound = max(best.bound, free.bound)
        run.lose(step * max(0.0, free.bound))
    return "optimal"


def _zero_slack_relaxed(run: Run, best: _Best) -> str:
    """Where mixtures are labels, those with g > 0 come arbitrarily near to the largest h: free queries find it."""
    for lam in (0.0, math.inf):
        point = run.ask(lam)
        if point is None:
            best.bound = 0.0
            run.tighten(0.0)
            return "optimal"
        if lam == 0.0:
            best.bound = point.bound
            run.tighten(max(0.0, point.bound) * max(0.0, run.plane.bounds.g_upper))
        else:
            run.tighten(max(0.0, best.bound) * max(0.0, point.bound))
        best.offer(point)
        if point.g > 0.0 or run.exhausted:
            break
    return "bracket"


def _golden_section(run: Run, best: _Best, xi: float, width: float) -> str:
    bounds = run.plane.bounds
    smallest = bounds.g_positive or 1e-3 * bounds.g_upper
    # F at λ is least where λ = xi / g^2, so the bracket holds the minimiser; log λ makes it well scaled.
    low, high = math.log(xi / bounds.g_upper**2), math.log(xi / smallest**2)

    def evaluate(log_lam: float) -> float:
        lam = math.exp(log_lam)
        point = run.ask(lam)
        if point is None:
            run.tighten(0.0)
            return -math.inf
        best.offer(point)
        run.tighten(product_bound(lam, point.bound))
        bound = point.bound - 2.0 * math.sqrt(xi * lam)
        best.bound = min(best.bound, bound)
        return bound

    if high - low <= width:
        evaluate(low)
        return "bracket"
    # Log positions and bounds of the two inner points; the one nearer to the smaller bound survives.
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    bounds_at = [math.nan, math.nan]
    missing = [0, 1]
    while high - low > width:
        for k in missing:
            if run.exhausted:
                return "max_queries"
            bounds_at[k] = evaluate(inner[k])
        if bounds_at[0] <= bounds_at[1]:
            high = inner[1]
            inner = [high - _GOLDEN * (high - low), inner[0]]
            bounds_at, missing = [math.nan, bounds_at[0]], [0]
        else:
            low = inner[0]
            inner = [inner[1], low + _GOLDEN * (high - low)]
            bounds_at, missing = [bounds_at[1], math.nan], [1]
    return "bracket"
