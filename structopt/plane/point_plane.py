"""`PointPlane`: the λ-oracles over explicit points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from structopt.checks import checked, flag, integers, number, numeric, shown, whole
from structopt.errors import DeclarationError
from structopt.plane.points import Bounds, Point, Precision, Ray, check_lam, check_ray, pair
from structopt.space.compiled import FloatArray

__all__ = ["PointPlane"]


class PointPlane:
    """The λ-oracles over explicit points: for tests, pictures and teaching.

    Strict inequalities are true ones, so that the guarantees of the papers hold to the letter.

    Parameters
    ----------
    points : sequence of (h, g)
    convex : bool
        Whether mixtures count as labels, as in a relaxation. Restricted queries are refused then.
    truth : int, optional
        Index of the true label.

    Examples
    --------
    >>> from structopt.plane import PointPlane
    >>> plane = PointPlane([(1, 8), (3, 4), (5, 3), (8, 1)])
    >>> plane.query(1.0)
    Point(h=1, g=8)
    >>> plane.query(0.4, bottom=(1, 1), top=(1, 8), open_top=True)
    Point(h=3, g=4)
    >>> plane.query(2.2, bottom=(2.83, 1), top=(5, 3), open_top=True) is None
    True
    >>> plane.counts
    {'free': 1, 'constrained': 2, 'forbidding': 0}
    """

    @checked
    def __init__(
        self, points: Iterable[tuple[float, float]], *, convex: bool = False, truth: int | None = None
    ) -> None:
        array = np.array(numeric("points", points), dtype=float)
        if not array.size:
            raise DeclarationError("A PointPlane needs at least one point (h, g).")
        if array.ndim != 2 or array.shape[1] != 2:
            raise DeclarationError(f"points must be pairs (h, g), an array of shape (n, 2); got shape {array.shape}.")
        if not np.isfinite(array).all():
            index = int(np.argwhere(~np.isfinite(array))[0, 0])
            raise DeclarationError(f"Point {index} is ({array[index, 0]}, {array[index, 1]}); points must be finite.")
        self.h: FloatArray = np.ascontiguousarray(array[:, 0])
        self.g: FloatArray = np.ascontiguousarray(array[:, 1])
        self.convex = convex
        self.truth = None if truth is None else whole("truth", truth, 0, len(array) - 1)
        self.counts = {"free": 0, "constrained": 0, "forbidding": 0}
        self.queries = 0
        self.tolerance = 1e-12
        self.points: list[Point] = []

    @property
    def precision(self) -> Precision:
        """True strict inequalities."""
        return Precision()

    @cached_property
    def bounds(self) -> Bounds:
        """The smallest box around the points."""
        positive = self.g[self.g > 0.0]
        return Bounds(
            float(self.h.min()),
            float(self.h.max()),
            float(self.g.min()),
            float(self.g.max()),
            float(positive.min()) if positive.size else 0.0,
            tight=True,
        )

    def query(
        self,
        lam: float,
        *,
        bottom: Ray | None = None,
        top: Ray | None = None,
        open_bottom: bool = False,
        open_top: bool = False,
        above: Ray | None = None,
        forbid: Sequence[Any] = (),
        ties: bool = True,
        shrink: float | None = None,
        worth: Callable[[float], bool] | None = None,
    ) -> Point | None:
        """The best point among those allowed; see `Plane.query` for the parameters.

        Parameters
        ----------
        lam : float
            Maximise ``h + lam g``; ``inf`` for g alone.
        bottom : (h, g), optional
            Lower ray of the angle.
        top : (h, g), optional
            Upper ray of the angle.
        open_bottom : bool
            Whether the lower ray itself is outside.
        open_top : bool
            Whether the upper ray itself is outside.
        above : (h, g), optional
            Only labels with larger h and g.
        forbid : sequence
            Labels that are excluded.
        ties : bool
            Whether the other criterion decides among equals.
        shrink : float, optional
            How far open rays are moved in.
        worth : float, optional
            Labels worth less need not be found.

        Returns
        -------
        Point or None
        """
        lam = check_lam(lam)
        if shrink is not None:
            number("shrink", shrink)
        flag("open_bottom", open_bottom)
        flag("open_top", open_top)
        h, g = self.h, self.g
        allowed = np.ones(h.size, dtype=bool)
        if bottom is not None or top is not None:
            allowed &= (h > 0.0) & (g > 0.0)
        if bottom is not None:
            ray_h, ray_g = check_ray(bottom, "bottom")
            side = ray_h * g - ray_g * h
            allowed &= (side > 0.0) if open_bottom else (side >= 0.0)
        if top is not None:
            ray_h, ray_g = check_ray(top, "top")
            side = ray_g * h - ray_h * g
            allowed &= (side > 0.0) if open_top else (side >= 0.0)
        if above is not None:
            corner = pair(above, "above")
            allowed &= (h > corner[0]) & (g > corner[1])
        if not hasattr(forbid, "__len__"):
            raise DeclarationError(f"forbid must be a sequence of indices, got {shown(forbid)}.")
        if len(forbid):
            forbidden = integers("forbid", list(forbid))
            if forbidden.min() < 0 or forbidden.max() >= h.size:
                raise DeclarationError(f"forbid must hold indices of the {h.size} points, got {shown(forbid)}.")
            allowed[forbidden] = False
        self._count(bottom is not None or top is not None or above is not None, bool(len(forbid)))
        if not allowed.any():
            return None
        first, second = (g, h) if lam == math.inf else (h + lam * g if lam else h, g)
        best = np.where(allowed, first, -np.inf)
        tied = np.flatnonzero(best == best.max())
        index = int(tied[np.argmax(second[tied])]) if ties and lam in (0.0, math.inf) else int(tied[0])
        point = Point(float(h[index]), float(g[index]), index, float(first[index]))
        self.points.append(point)
        return point

    def _count(self, constrained: bool, forbidding: bool) -> None:
        if self.convex and (constrained or forbidding):
            raise DeclarationError("A convex PointPlane only answers free queries; use convex=False.")
        self.counts["forbidding" if forbidding else "constrained" if constrained else "free"] += 1
        self.queries += 1

    def evaluate(self, label: Any) -> Point:
        """The point with this index.

        Parameters
        ----------
        label : object
            A label.

        Returns
        -------
        Point
        """
        index = whole("A label", label.label if isinstance(label, Point) else label, 0, self.h.size - 1)
        return Point(float(self.h[index]), float(self.g[index]), index)

    def mix(self, p: Point, q: Point, t: float) -> Point:
        """The mixture; its label is a dictionary from index to weight.

        Parameters
        ----------
        p : Point
        q : Point
        t : float
            The share of `q`.

        Returns
        -------
        Point
        """
        label = {p.label: 1.0 - t, q.label: t}
        return Point(p.h + t * (q.h - p.h), p.g + t * (q.g - p.g), label)

    def as_product(self) -> PointPlane:
        """Itself: h g is the product as it stands.

        Returns
        -------
        PointPlane
        """
        return self

    def can_forbid(self, point: Point) -> bool:
        """Always, unless mixtures count as labels.

        Parameters
        ----------
        point : Point

        Returns
        -------
        bool
        """
        return not self.convex

    def k_best(self, lam: float, k: int) -> list[Point] | None:
        """None, as for `front`.

        Parameters
        ----------
        lam : float
        k : int
            Number of labels.

        Returns
        -------
        list of Point, or None
        """
        check_lam(lam)
        whole("k", k, low=0)
        return None

    def front(self) -> list[Point] | None:
        """None: explicit points are there to show the search at work.

        Returns
        -------
        list of Point, or None
        """
        return None

    def __repr__(self) -> str:
        return f"<PointPlane of {self.h.size} points, {self.queries} queries so far>"
