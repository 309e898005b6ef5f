"""Bisection of λ by the sign of ``λ g - h``, shared by the searches with the free oracle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from structopt.checks import number
from structopt.plane.points import Point, SearchPlane
from structopt.search.result import (
    Run,
    SearchResult,
    check_lam,
    check_rtol,
    default_lam,
    no_positive_product,
    product,
)

__all__ = ["Bracket", "narrow", "product_bound"]

#: λ is a ratio of h to g: beyond these, in units of H^ / G^, one of the two has no weight left (and a solver
#: takes its coefficients for 0).
_SMALLEST, _LARGEST = 1e-9, 1e9


def product_bound(lam: float, bound: float) -> float:
    """``K(λ)^2 / (4 λ)``, which no product h g of a label with h, g >= 0 exceeds (docs/mathematics/searches)."""
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
    """Query at the middle of the bracket until it is narrow, the gap is closed or the queries are used up.

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
    number("width", width, low=0.0)
    plane = plane.as_product()
    run = Run(method, plane, product, max_queries, cache, rtol=rtol)
    current = check_lam(lam) or default_lam(plane)
    if no_positive_product(plane):
        run.tighten(0.0)
        return run.result("no violation")
    bracket, ends = Bracket(), _Ends(run)
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
        if ends.empty(point):
            run.tighten(0.0)
            return run.result("optimal")
        low, high = bracket.at_low, bracket.at_high
        if until_vertices_meet and low is not None and high is not None and run.same_place(low, high):
            return run.result("vertices")
        current = middle(bracket)
        unit = ends.unit
        if bracket.narrower_than(width) or not _SMALLEST * unit <= current <= _LARGEST * unit:
            return run.result("bracket")
    return run.result("max_queries")


class _Ends:
    """The largest h and the largest g, found by queries when an answer has none: the box may be larger than the labels.

    Without them λ would be doubled for ever where every label has g = 0, and halved where every label has h <= 0.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._asked: set[float] = set()
        bounds = run.plane.bounds
        self.h, self.g = bounds.h_upper, bounds.g_upper

    def empty(self, point: Point) -> bool:
        """Whether no label at all has h > 0 and g > 0; queries one end, if the answer has none of it."""
        run = self._run
        end = math.inf if point.g <= 0.0 else 0.0 if point.h <= 0.0 else None
        if end is None or end in self._asked or run.exhausted:
            return False
        self._asked.add(end)
        last = run.lam
        found = run.ask(end)
        run.lam = last  # the start of the next search
        if found is None:
            return True
        if end:
            self.g = min(self.g, found.bound)
        else:
            self.h = min(self.h, found.bound)
        return self.h <= 0.0 or self.g <= 0.0

    @property
    def unit(self) -> float:
        """H^ / G^, as well as it is known."""
        return self.h / self.g if 0.0 < self.h < math.inf and 0.0 < self.g < math.inf else 1.0
