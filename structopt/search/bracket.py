"""What the searches by λ alone share: an interval of λ, halved by the sign of ``λ g - h`` (MATH.md 3.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
    same_place,
)

__all__ = ["Bracket", "narrow", "product_bound"]

#: λ beyond these is beyond every scale of h and g.
_SMALLEST, _LARGEST = 1e-12, 1e12


def product_bound(lam: float, bound: float) -> float:
    """``K(λ)^2 / (4 λ)``, which no product h g of a label with h, g >= 0 exceeds (MATH.md 1)."""
    if bound <= 0.0:
        return 0.0
    return bound * bound / (4.0 * lam)


@dataclass(slots=True)
class Bracket:
    """The λ between which the convex bound is smallest, and the labels that answered at its ends."""

    low: float = 0.0
    high: float = math.inf
    at_low: Point | None = None
    at_high: Point | None = None

    def cut(self, lam: float, point: Point) -> None:
        """Drop the side of `lam` on which the bound only grows."""
        if lam * point.g <= point.h:
            self.low, self.at_low = lam, point
        else:
            self.high, self.at_high = lam, point

    @property
    def closed(self) -> bool:
        """Whether one vertex answers at both ends: there is no other in between."""
        return self.at_low is not None and self.at_high is not None and same_place(self.at_low, self.at_high)

    def narrower_than(self, width: float) -> bool:
        """Whether the interval is relatively at most `width` wide."""
        return self.high < math.inf and self.high - self.low <= width * self.high


def narrow(
    method: str,
    plane: SearchPlane,
    lam: float | None,
    middle: Callable[[Bracket], float],
    rtol: float,
    width: float,
    max_queries: int,
    cache: Iterable[Any],
    *,
    until_vertices_meet: bool = False,
) -> SearchResult:
    """Ask at the middle of the bracket until it is narrow, the gap is closed or the queries are used up.

    Parameters
    ----------
    middle : callable
        The next λ from a bracket, one of whose ends may still be 0 or inf.
    until_vertices_meet : bool
        Also stop when one label answers at both ends.
    method, plane, lam, rtol, width, max_queries, cache
        As in `structopt.search.bisecting`.
    """
    check_rtol(rtol)
    plane = plane.as_product()
    run = Run(method, plane, product, max_queries, cache)
    current = check_lam(lam) or default_lam(plane)
    if no_positive_product(plane):
        run.tighten(0.0)
        return run.result("no violation")
    bracket = Bracket()
    while not run.exhausted:
        point = run.ask(current)
        if point is None:
            run.tighten(0.0)
            return run.result("optimal")
        run.tighten(product_bound(current, point.bound))
        if run.bound <= run.value * (1.0 + 1e-12):
            return run.result("optimal")
        if run.within(rtol):
            return run.result("gap")
        bracket.cut(current, point)
        if until_vertices_meet and bracket.closed:
            return run.result("vertices")
        current = middle(bracket)
        if bracket.narrower_than(width) or not _SMALLEST <= current <= _LARGEST:
            return run.result("bracket")
    return run.result("max_queries")
