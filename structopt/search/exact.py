"""Exact search for any surrogate: the hull with cheap free queries, then what is between the hull and the labels.

Where free queries are answered by a combinatorial algorithm and restricted ones are not, that is branch and bound
(`structopt.search.branching`). Elsewhere queries are restricted to corners, as follows.

Let φ be the best value known. The set ``C = {ψ > φ}`` is convex and closed upwards, and no known label is in it.
Suppose that labels p and q of C lay on both sides of a known hull vertex v: both are below the λ-line through v,
so the segment from p to q passes below v, v dominates a point of C and would be in C itself. Hence every label
of C lies above *one* edge AB of the hull, in the corner ``h > h(B), g > g(A)`` (A has the smaller g), and the
triangle between this corner and the edge is all that has to be searched.

A query restricted to a corner returns a label z with the line through it. By the same argument with z in place of
v, what is left of C lies on one side of z: either ``g > g(z)`` or ``h > h(z)``, which again is a corner. Each query
thus gives a new label, a lower line and a smaller corner, until no label is left or the line's bound is below φ.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from structopt.checks import checked
from structopt.plane.branches import Branches
from structopt.plane.points import Point, SearchPlane
from structopt.search.branching import branch_and_bound
from structopt.search.envelope import Envelope, Peak
from structopt.search.hull import HullWalk
from structopt.search.result import Run, SearchResult, check_rtol
from structopt.surrogates import Surrogate, get

__all__ = ["exact"]


@checked
def exact(
    plane: SearchPlane,
    surrogate: Surrogate | str,
    *,
    rtol: float = 0.0,
    lam: float | None = None,
    max_queries: int = 1000,
    cache: Iterable[Any] = (),
    front: bool = True,
) -> SearchResult:
    """The label with the largest ψ, with a proof, for every surrogate and every space.

    Parameters
    ----------
    plane : SearchPlane
        In a relaxed space mixtures are labels, and the hull phase alone is exact.
    surrogate : Surrogate or str
    rtol : float
        Stop when the value is within this relative gap of the bound; 0 proves optimality.
    lam : float, optional
        First λ.
    max_queries : int
        The bound is certified when stopped here, too.
    cache : iterable of labels
    front : bool
        Use the plane's Pareto front, if it can list it, in place of a search.

    Returns
    -------
    SearchResult

    Examples
    --------
    Theorem 1's three labels: every search by λ alone ends at 0.01.

    >>> import structopt.search as search
    >>> from structopt.plane import PointPlane
    >>> plane = PointPlane([(0.001, 10), (10, 0.001), (5, 5)])
    >>> search.bisecting(plane).value, search.exact(plane, "product").value
    (0.01, 25.0)
    """
    psi = get(surrogate)
    check_rtol(rtol)
    run = Run("exact", plane, psi.clipped, max_queries, cache, psi, rtol)
    listed = plane.front() if front else None
    if listed is not None:
        for point in listed:
            run.offer(point)
        run.tighten(run.value)
        return run.result("front", listed=len(listed))
    walk = HullWalk(run, psi, lam, rtol)
    stopped = walk.explore()
    if plane.convex:
        walk.mix()
        return run.result("optimal" if stopped == "closed" else stopped)
    if stopped in ("closed", "stalled"):
        stopped = _branch(run, walk, psi, rtol) or _search_corners(
            run, walk, psi, rtol, proved_edge=stopped == "closed"
        )
    return run.result(stopped)


def _branch(run: Run, walk: HullWalk, psi: Surrogate, rtol: float) -> str | None:
    """Branch and bound, where the plane's free queries are the cheap ones; None if it was not, or not to the end."""
    branches = Branches.of([run.plane])
    if branches is None or run.left < 3:
        return None
    state, value, upper = walk.state.array[None], np.array([run.value]), np.array([run.upper])
    before = run.plane.queries
    found = branch_and_bound(branches, psi, state, value, upper, rtol, run.left)
    run.limit -= run.plane.queries - before
    if found.better[0]:
        run.offer(Point(float(found.h[0]), float(found.g[0]), found.Z[0]), float(found.value[0]))
    if not found.proved[0]:
        return None
    run.tighten(float(found.upper[0]))
    return "optimal" if run.bound <= run.value * (1.0 + 1e-10) else "gap"


@dataclass(slots=True)
class _Corner:
    """The labels with h > `h` and g > `g`, and what is known of them.

    `above` is the corner given to the plane. Where the plane's step could hide a better label, it is moved back
    by that step, and the labels on the side are forbidden one by one.
    """

    envelope: Envelope
    h: float
    g: float
    above: tuple[float, float]
    forbid: list[Any]
    peak: Peak


def _search_corners(run: Run, walk: HullWalk, psi: Surrogate, rtol: float, proved_edge: bool) -> str:
    """The second phase: best-first over corners; by the argument above there is one at a time, up to rounding."""
    queue: list[tuple[float, int, _Corner]] = []
    ends = walk.edge()
    # The whole plane; only rounding can make it necessary to start there and not above the edge.
    corner = _Corner(walk.envelope, -math.inf, -math.inf, (-math.inf, -math.inf), [], walk.peak())
    if proved_edge and len(ends) == 2:
        low, high = ends
        outside = _outside(walk.envelope, psi, high.h, low.g, run.value)
        if outside <= run.value * (1.0 + 1e-9):
            run.lose(outside)
            corner = _shrink(run, psi, corner, walk.envelope, h_side=high, g_side=low)
    run.upper = math.inf  # from here on the bound is that of the queue
    _push(queue, run, corner)
    while queue:
        run.tighten(max(-queue[0][0], run.value))
        if run.within(rtol):
            return "gap" if rtol > 0.0 and run.bound > run.value * (1.0 + 1e-10) else "optimal"
        if -queue[0][0] <= run.value * (1.0 + 1e-10):
            return "optimal"
        if run.exhausted:
            return "max_queries"
        corner = heapq.heappop(queue)[2]
        lam = corner.envelope.clamp(psi.direction(corner.peak.h, corner.peak.g))
        point = _ask(run, corner, lam)
        if point is None:
            continue
        envelope = corner.envelope.copy()
        envelope.add(lam, point.bound)
        if point.h <= corner.h or point.g <= corner.g:
            _push_again(queue, run, psi, corner, envelope, point)
            continue
        _push(queue, run, _shrink(run, psi, corner, envelope, h_side=None, g_side=point))
        _push(queue, run, _shrink(run, psi, corner, envelope, h_side=point, g_side=None))
    run.tighten(run.value)
    return "optimal"


def _ask(run: Run, corner: _Corner, lam: float) -> Point | None:
    if corner.forbid:
        return run.ask(lam, above=corner.above, forbid=corner.forbid)
    return run.ask(lam, above=corner.above)


def _push(queue: list[tuple[float, int, _Corner]], run: Run, corner: _Corner) -> None:
    if corner.peak.upper > run.value * (1.0 + 1e-10):
        heapq.heappush(queue, (-corner.peak.upper, -len(run.trace) * 2 - len(queue), corner))
    elif corner.peak.upper > run.value:
        run.lose(corner.peak.upper)  # rounding, but a bound must hold


def _push_again(
    queue: list[tuple[float, int, _Corner]],
    run: Run,
    psi: Surrogate,
    corner: _Corner,
    envelope: Envelope,
    point: Point,
) -> None:
    """The answer is a label of the strip beside the corner: not in the corner, but returned for it."""
    corner.envelope = envelope
    corner.peak = envelope.peak(psi, corner.h, corner.g)
    if run.plane.can_forbid(point):
        corner.forbid = [*corner.forbid, point.label]
    elif corner.above != (corner.h, corner.g):
        # It cannot be forbidden: give the strip up, and say so in the bound.
        step = run.plane.precision
        for sides in ({"h_step": step.h_step}, {"g_step": step.g_step}):
            run.lose(_strip(psi, envelope, run.value, corner.h, corner.g, **sides))
        corner.above = (corner.h, corner.g)
    else:
        run.lose(corner.peak.upper)
        return
    _push(queue, run, corner)


def _outside(envelope: Envelope, psi: Surrogate, h: float, g: float, value: float) -> float:
    """Bound on the labels that are not above the corner (h, g): at most rounding, by the argument above."""
    below = envelope.copy()
    below.g_cap = min(below.g_cap, g)
    left = envelope.copy()
    left.h_cap = min(left.h_cap, h)
    return max(below.peak(psi, known=value).upper, left.peak(psi, known=value).upper)


def _shrink(
    run: Run, psi: Surrogate, parent: _Corner, envelope: Envelope, h_side: Point | None, g_side: Point | None
) -> _Corner:
    """The corner with ``h > h_side.h`` and ``g > g_side.g``."""
    h = parent.h if h_side is None else max(parent.h, h_side.h)
    g = parent.g if g_side is None else max(parent.g, g_side.g)
    above_h, above_g = parent.above
    forbid = parent.forbid
    precision = run.plane.precision
    if h_side is not None:
        above_h = h
        strip = _strip(psi, envelope, run.value, h, g, h_step=precision.h_step)
        if strip > run.value and run.plane.can_forbid(h_side):
            above_h, forbid = h - 2.0 * precision.h_step, [*forbid, h_side.label]
        else:
            run.lose(strip)
    if g_side is not None:
        above_g = g
        strip = _strip(psi, envelope, run.value, h, g, g_step=precision.g_step)
        if strip > run.value and run.plane.can_forbid(g_side):
            above_g, forbid = g - 2.0 * precision.g_step, [*forbid, g_side.label]
        else:
            run.lose(strip)
    return _Corner(envelope, h, g, (above_h, above_g), forbid, envelope.peak(psi, h, g))


def _strip(
    psi: Surrogate,
    envelope: Envelope,
    value: float,
    h: float,
    g: float,
    h_step: float = 0.0,
    g_step: float = 0.0,
) -> float:
    """Bound on the labels that lie closer to a side of the corner than the plane can resolve."""
    if h_step == 0.0 and g_step == 0.0:
        return 0.0
    strip = envelope.copy()
    if h_step:
        strip.h_cap = min(strip.h_cap, h + h_step)
    if g_step:
        strip.g_cap = min(strip.g_cap, g + g_step)
    return strip.peak(psi, h, g, known=value).upper
