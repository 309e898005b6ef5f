"""Minimisation of the convex bound K(λ)^2 / (4 λ) with the free oracle (thesis 4.2, MATH.md 3.2)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from structopt.points import SearchPlane
from structopt.search.bisecting import product_bound
from structopt.search.result import (
    Run,
    SearchResult,
    check_lam,
    check_rtol,
    default_lam,
    no_positive_product,
    product,
)

__all__ = ["binary"]


def binary(
    plane: SearchPlane,
    lam: float | None = None,
    *,
    rtol: float = 0.0,
    width: float = 1e-6,
    max_queries: int = 100,
    cache: Iterable[Any] = (),
) -> SearchResult:
    """Maximise h g through its convex upper bound: find the λ at which the bound is smallest.

    The bound does not depend on a slack value, unlike `sarawagi`. λ is bisected on a logarithmic scale by the sign
    of the bound's derivative (that of ``λ g - h``) until its interval is relatively `width` wide; the best label
    met on the way is returned. Not exact (thesis Theorem 1).

    Parameters
    ----------
    plane, lam, rtol, width, max_queries, cache
        As in `bisecting`.

    Examples
    --------
    >>> import structopt.search as search
    >>> from structopt.plane import PointPlane
    >>> search.binary(PointPlane([(1, 8), (3, 4), (5, 3), (8, 1)])).upper_bound
    20.25
    """
    check_rtol(rtol)
    run = Run("binary", plane, product, max_queries, cache)
    current = check_lam(lam) or default_lam(plane)
    if no_positive_product(plane):
        run.tighten(0.0)
        return run.result("no violation")
    low, high = 0.0, math.inf
    factor = 2.0
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
            low = current
        else:
            high = current
        if low > 0.0 and high < math.inf:
            current = math.sqrt(low * high)
        else:
            current = low * factor if low > 0.0 else high / factor
            factor *= factor  # a far minimum is bracketed in a few queries
        if high - low <= width * high or not 1e-12 <= current <= 1e12:
            stopped = "bracket"
            break
    return run.result(stopped)
