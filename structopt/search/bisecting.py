"""Bisecting search over λ with the free oracle (thesis Algorithm 1, corrected in MATH.md 3.3)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from structopt.points import Point, SearchPlane
from structopt.search.result import (
    Run,
    SearchResult,
    check_lam,
    check_rtol,
    default_lam,
    no_positive_product,
    product,
)

__all__ = ["bisecting", "product_bound"]


def product_bound(lam: float, bound: float) -> float:
    """``K(λ)^2 / (4 λ)``, which no product h g of a label with h, g >= 0 exceeds (MATH.md 1)."""
    if bound <= 0.0:
        return 0.0
    return bound * bound / (4.0 * lam)


def bisecting(
    plane: SearchPlane,
    lam: float | None = None,
    *,
    rtol: float = 0.0,
    width: float = 1e-9,
    max_queries: int = 60,
    cache: Iterable[Any] = (),
) -> SearchResult:
    """Maximise h g by bisecting λ: up where ``λ g <= h``, down otherwise.

    Not exact: labels strictly inside the convex hull are invisible to the free oracle (thesis Theorem 1); the
    returned ``upper_bound`` says how much may be missing.

    Parameters
    ----------
    plane : SearchPlane
    lam : float, optional
        First λ; the last one of the example's previous search is a good choice. Default H^ / G^.
    rtol : float
        Stop when the value is within this relative gap of the bound.
    width : float
        Stop when the interval of λ is relatively this small.
    max_queries : int
    cache : iterable of labels
        Labels of earlier searches, evaluated anew; they only supply the incumbent.

    Returns
    -------
    SearchResult

    Examples
    --------
    >>> import structopt.search as search
    >>> from structopt.plane import PointPlane
    >>> search.bisecting(PointPlane([(1, 8), (3, 4), (5, 3), (8, 1)]), lam=1.0, width=1e-3)
    <bisecting: value 8, upper bound 20.25, 11 queries, bracket>
    """
    check_rtol(rtol)
    run = Run("bisecting", plane, product, max_queries, cache)
    current = check_lam(lam) or default_lam(plane)
    if no_positive_product(plane):
        run.tighten(0.0)
        return run.result("no violation")
    low, high = 0.0, math.inf
    at_low: Point | None = None
    at_high: Point | None = None
    stopped = "max_queries"
    while not run.exhausted:
        point = run.ask(current)
        if point is None:
            run.tighten(0.0)
            stopped = "optimal"
            break
        run.tighten(product_bound(current, point.bound))
        if run.bound <= run.value * (1.0 + 1e-12):
            stopped = "optimal"
            break
        if run.value > 0.0 and run.value >= (1.0 - rtol) * run.bound:
            stopped = "gap"
            break
        if current * point.g <= point.h:
            low, at_low = current, point
        else:
            high, at_high = current, point
        if at_low is not None and at_high is not None and _same(at_low, at_high):
            stopped = "vertices"  # one vertex answers at both ends: there is no other in between
            break
        if high == math.inf:
            current *= 2.0
        elif low == 0.0:
            current *= 0.5
        else:
            current = 0.5 * (low + high)
        if high - low <= width * high or not 1e-12 <= current <= 1e12:
            stopped = "bracket"
            break
    return run.result(stopped)


def _same(p: Point, q: Point) -> bool:
    scale = 1e-9 * (1.0 + abs(p.h) + abs(p.g))
    return abs(p.h - q.h) <= scale and abs(p.g - q.g) <= scale
