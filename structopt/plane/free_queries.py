"""Queries restricted to an angle, answered by free queries where these suffice (docs/mathematics/oracles).

The rows of an angle break the structure that a combinatorial algorithm relies on, so that a restricted query needs an
integer program. Free queries in other directions of the plane take little time, and often show as much: that the
free answer lies in the angle, that the angle is empty, or that nothing in it is worth having.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from structopt.plane.halfplane import Halfplane
from structopt.plane.points import Point

__all__ = ["FreeAnswer", "Halfplane", "answer_by_free_queries"]

#: Hull vertices looked at for one multiplier; each is a new one, and few angles need more than three.
_MOST_STEPS = 20


class FreeAnswer(NamedTuple):
    """What free queries found out about a restricted one.

    Attributes
    ----------
    decided : bool
        False leaves the query to the solver.
    point : Point or None
        The answer; None if the angle holds no label, or none worth having.
    bound : float
        No label of the angle has a larger ``c . (h, g)``.
    """

    decided: bool
    point: Point | None
    bound: float


def answer_by_free_queries(
    free: Callable[[float, float], Point],
    c: tuple[float, float],
    rows: Sequence[Halfplane],
    worth: Callable[[float], bool] | None = None,
) -> FreeAnswer:
    """The maximum of ``c . (h, g)`` within one or two halfplanes, by free queries in any direction.

    Parameters
    ----------
    free : callable
        ``free(d_h, d_g)`` is the label that maximises ``d_h h + d_g g``, with that maximum as its bound.
    c : (float, float)
    rows : sequence of Halfplane
    worth : callable, optional
        ``worth(K)`` says whether labels with ``c . (h, g) <= K`` are of interest; if not, None is a right answer.
    """
    p = free(*c)
    if all(row.holds(p) for row in rows):
        return FreeAnswer(True, p, p.bound)
    if worth is not None and not worth(p.bound):
        return FreeAnswer(True, None, p.bound)
    row = min(rows, key=lambda r: r.excess(p))
    q = free(row.a, row.b)
    if row.excludes(q):
        return FreeAnswer(True, None, q.bound)
    bound, low, high, best = _lagrangian(free, c, row, rows, p, q, worth)
    if best is not None and _height(c, best) >= bound - 1e-12 * abs(bound):
        return FreeAnswer(True, Point(best.h, best.g, best.label, bound), bound)
    if worth is not None and not worth(bound):
        return FreeAnswer(True, None, bound)
    for other in rows:
        if other is not row and other.excess(_crossing(row, low, high)) < 0.0 and _separated(free, row, other, q):
            return FreeAnswer(True, None, bound)
    return FreeAnswer(False, best, bound)


def _lagrangian(
    free: Callable[[float, float], Point],
    c: tuple[float, float],
    row: Halfplane,
    rows: Sequence[Halfplane],
    low: Point,
    high: Point,
    worth: Callable[[float], bool] | None,
) -> tuple[float, Point, Point, Point | None]:
    """The least of ``max_y (c + mu n) . y - mu least`` over mu >= 0: a bound on every label inside `row`.

    Walks along the hull from `low` outside the row and `high` inside; returns the bound, the edge that crosses the
    row's line, and the best label seen that satisfies all rows.
    """
    bound = low.bound
    seen = [high]
    for _ in range(_MOST_STEPS):
        rise, fall = row.excess(high) - row.excess(low), _height(c, low) - _height(c, high)
        if rise <= 0.0 or fall < 0.0:
            break
        mu = fall / rise
        d = (c[0] + mu * row.a, c[1] + mu * row.b)
        r = free(*d)
        bound = min(bound, r.bound - mu * row.least)
        if _height(d, r) <= _height(d, low) + 1e-12 * (abs(_height(d, r)) + mu * abs(row.least)):
            break
        if worth is not None and not worth(bound):
            break
        seen.append(r)
        if row.excess(r) < 0.0:
            low = r
        else:
            high = r
    inside = [point for point in seen if all(other.holds(point) for other in rows)]
    best = max(inside, key=lambda point: _height(c, point)) if inside else None
    return bound, low, high, best


def _separated(free: Callable[[float, float], Point], row: Halfplane, other: Halfplane, q: Point) -> bool:
    """Whether some mixture of the two rows excludes every label."""
    s = free(other.a, other.b)
    if other.excludes(s):
        return True
    # In t the best mixture is a convex piecewise linear function; q and s are its slopes at the two ends.
    left, right = s, q
    for _ in range(_MOST_STEPS):
        # Excess of t row + (1 - t) other, where the lines of the two labels cross.
        slope_left, slope_right = row.excess(left) - other.excess(left), row.excess(right) - other.excess(right)
        if slope_right <= slope_left:
            return False
        t = (other.excess(left) - other.excess(right)) / (slope_right - slope_left)
        if not 0.0 < t < 1.0:
            return False
        mixed = Halfplane(*(t * a + (1.0 - t) * b for a, b in zip(row, other, strict=True)))
        r = free(mixed.a, mixed.b)
        if mixed.excludes(r):
            return True
        if mixed.excess(left) >= 0.0 or mixed.excess(r) <= mixed.excess(left) + mixed.tolerance(r):
            return False  # the hull itself meets the angle
        if row.excess(r) - other.excess(r) < 0.0:
            left = r
        else:
            right = r
    return False


def _crossing(row: Halfplane, low: Point, high: Point) -> Point:
    """Where the segment from `low` (outside) to `high` (inside) meets the row's line."""
    outside, inside = row.excess(low), row.excess(high)
    t = outside / (outside - inside) if outside < inside else 1.0
    return Point(low.h + t * (high.h - low.h), low.g + t * (high.g - low.g))


def _height(c: tuple[float, float], point: Point) -> float:
    return c[0] * point.h + c[1] * point.g
