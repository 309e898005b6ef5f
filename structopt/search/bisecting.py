"""Searches that halve an interval of λ with the free oracle (docs/mathematics/searches).

`bisecting` is thesis Algorithm 1, corrected; `binary` minimises the convex bound K(λ)^2 / (4 λ), thesis 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from structopt.checks import checked
from structopt.plane.points import SearchPlane
from structopt.search.bracket import Bracket, narrow, product_bound
from structopt.search.result import SearchResult

__all__ = ["binary", "bisecting", "product_bound"]


@checked
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

    def middle(bracket: Bracket) -> float:
        if bracket.high == math.inf:
            return 2.0 * bracket.low
        return 0.5 * (bracket.low + bracket.high)  # half of high where there is no low yet

    return narrow("bisecting", plane, lam, middle, rtol, width, max_queries, cache, until_vertices_meet=True)


@checked
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

    Returns
    -------
    SearchResult

    Examples
    --------
    >>> import structopt.search as search
    >>> from structopt.plane import PointPlane
    >>> search.binary(PointPlane([(1, 8), (3, 4), (5, 3), (8, 1)])).upper_bound
    20.25
    """
    factor = 2.0

    def middle(bracket: Bracket) -> float:
        nonlocal factor
        if bracket.low > 0.0 and bracket.high < math.inf:
            return math.sqrt(bracket.low * bracket.high)
        beyond = bracket.low * factor if bracket.low > 0.0 else bracket.high / factor
        factor *= factor  # a far minimum is bracketed in a few queries
        return beyond

    return narrow("binary", plane, lam, middle, rtol, width, max_queries, cache)
