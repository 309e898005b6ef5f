"""Halfplanes of the (h, g) plane, of which angles and corners are made (docs/mathematics/searches)."""

from __future__ import annotations

import math
from typing import NamedTuple

from structopt.plane.points import Point, Ray, check_ray

__all__ = ["Halfplane", "angle_sides", "corner_sides"]


class Halfplane(NamedTuple):
    """The points with ``a h + b g >= least``."""

    a: float
    b: float
    least: float

    def excess(self, point: Point) -> float:
        """How far inside a point is; negative outside."""
        return self.a * point.h + self.b * point.g - self.least

    def tolerance(self, point: Point) -> float:
        """The rounding error of `excess`."""
        return 1e-12 * (abs(self.a * point.h) + abs(self.b * point.g) + abs(self.least))

    def holds(self, point: Point) -> bool:
        """Whether a point is inside, up to rounding."""
        return self.excess(point) >= -self.tolerance(point)

    def surely_outside(self, point: Point) -> bool:
        """Whether a point is outside by more than rounding."""
        return self.excess(point) < -self.tolerance(point)

    def excludes(self, best: Point) -> bool:
        """Whether every label is outside: `best` answers for the row's own direction, and its bound is for all."""
        return self.surely_outside(best) and best.bound - self.least < -self.tolerance(best)


def angle_sides(bottom: Ray, top: Ray, shrink_bottom: float, shrink_top: float, floor: Ray) -> list[Halfplane]:
    """The two sides of the angle between two rays from the origin, in the open quadrant.

    Parameters
    ----------
    bottom, top : (h, g)
    shrink_bottom, shrink_top : float
        By how much the slope of an open ray is moved inwards, relatively; 0 for a closed one.
    floor : (h, g)
        What stands for h > 0 and g > 0 where a ray is an axis.
    """
    low_h, low_g = check_ray(bottom, "bottom")
    high_h, high_g = check_ray(top, "top")
    return [
        Halfplane(0.0, 1.0, floor[1]) if low_g == 0.0 else _through_origin(-low_g * (1.0 + shrink_bottom), low_h),
        Halfplane(1.0, 0.0, floor[0]) if high_h == 0.0 else _through_origin(high_g * (1.0 - shrink_top), -high_h),
    ]


def corner_sides(corner: Ray) -> list[Halfplane]:
    """Return the sides of ``h >= corner[0], g >= corner[1]``; a coordinate of -inf has no side."""
    sides = (Halfplane(1.0, 0.0, corner[0]), Halfplane(0.0, 1.0, corner[1]))
    return [side for side in sides if side.least > -math.inf]


def _through_origin(a: float, b: float) -> Halfplane:
    """The halfplane ``a h + b g >= 0`` with max(|a|, |b|) scaled to 1."""
    scale = max(abs(a), abs(b))
    return Halfplane(a / scale, b / scale, 0.0)
