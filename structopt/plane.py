"""Labels seen as points (h(y), g(y)) of a plane, and the λ-oracles over them.

    O(λ) = argmax  h(y) + λ g(y)          λ in [0, inf]

free, or restricted to the labels between two rays from the origin, or to those above a corner (MATH.md 1). A
search only ever sees a `SearchPlane`; `Plane` is the one over an oracle, `PointPlane` the one over explicit points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt.compiled import FloatArray
from structopt.errors import DeclarationError, InfeasibleSpace, SpaceMismatch
from structopt.point_plane import PointPlane
from structopt.points import Bounds, Point, Precision, Ray, SearchPlane, check_lam, check_ray

__all__ = ["Bounds", "Plane", "Point", "PointPlane", "Precision", "SearchPlane"]


class Plane:
    """The λ-oracles over a label space, with h and g affine in z.

    Parameters
    ----------
    oracle : Oracle
        Answers ``argmax c . z``, with extra rows and bans.
    h, g : (coef, const)
        The two coordinates, ``h(z) = coef . z + const``.
    truth : array, optional
        The true label as a vector; a search that finds no violated label returns it.
    rows : sequence of (a, lower, upper)
        Rows that hold in every query.
    shrink : float
        Relative shrink of open rays and corners; must be clearly above the solver's feasibility tolerance.
    h_min : float
        Stands for h > 0.

    Attributes
    ----------
    points : list of Point
        Every point that a query has returned.
    counts : dict
        Queries by kind: free, constrained (an angle or a corner), banned; `queries` is their sum. A two-stage
        query (λ = 0 or inf, with tie-break) counts each of its solves.

    Notes
    -----
    MATH.md 1.1: rays are vectors, never quotients; rows are scaled; strict sides are shrunk; only the status
    "infeasible" means that an angle is empty, everything else is raised by the oracle.

    Examples
    --------
    >>> import structopt as so
    >>> from structopt.plane import Plane
    >>> space = so.LabelSpace()
    >>> y = space.binary("y", 3)
    >>> plane = Plane(so.Oracle(space, solver="highs"), h=([1.0, -2.0, -0.5], 1.0), g=([1.0, 1.0, 1.0], 0.0))
    >>> plane.query(1.0)
    Point(h=1.5, g=2)
    >>> plane.query(1.0, bottom=(1, 0), top=(1, 1), open_top=True)
    Point(h=2, g=1)
    """

    def __init__(
        self,
        oracle: Any,
        h: tuple[npt.ArrayLike, float],
        g: tuple[npt.ArrayLike, float],
        *,
        truth: npt.ArrayLike | None = None,
        rows: Sequence[tuple[npt.ArrayLike, float, float]] = (),
        shrink: float = 1e-5,
        h_min: float = 1e-5,
    ) -> None:
        self.oracle = oracle
        n = int(oracle.space.n_variables)
        h_coef, self._h0 = _affine(h, n, "h")
        g_coef, self._g0 = _affine(g, n, "g")
        self._both = np.stack([h_coef, g_coef])
        self._h, self._g = self._both
        self.truth = None if truth is None else np.asarray(truth, dtype=float)
        self.rows: list[tuple[Any, float, float]] = list(rows)
        self.shrink = shrink
        self.h_min = h_min
        self.convex = bool(getattr(oracle, "integral", "auto") == "relax" or not np.any(oracle.space.integrality))
        self.counts = {"free": 0, "constrained": 0, "banned": 0}
        self.queries = 0
        self.points: list[Point] = []
        self.tolerance = 1e-8
        self._costs = np.empty(n)

    @cached_property
    def bounds(self) -> Bounds:
        """Box bounds from the variables' own bounds; no query."""
        lower, upper = self.oracle.space.lower, self.oracle.space.upper
        if math.isfinite(lower.sum() + upper.sum()):
            at_lower, at_upper = self._both * lower, self._both * upper
        else:
            # 0 * inf is NaN: variables without a coefficient do not count.
            used = self._both != 0.0
            at_lower, at_upper = (
                np.multiply(self._both, v, where=used, out=np.zeros_like(self._both)) for v in (lower, upper)
            )
        h_lower, g_lower = np.minimum(at_lower, at_upper).sum(axis=1).tolist()
        h_upper, g_upper = np.maximum(at_lower, at_upper).sum(axis=1).tolist()
        return Bounds(
            self._h0 + h_lower,
            self._h0 + h_upper,
            self._g0 + g_lower,
            self._g0 + g_upper,
            self._smallest_positive_g(),
        )

    def _smallest_positive_g(self) -> float:
        if not self._lattice:
            return 0.0
        over = self._g0 % self._lattice
        return over if 1e-9 < over < self._lattice - 1e-9 else self._lattice

    @cached_property
    def _lattice(self) -> float:
        """The step of g where g only takes values const + step * integer (Hamming: 1); 0 otherwise."""
        used = self._g != 0.0
        if self.convex or not used.any() or not np.all(self.oracle.space.integrality[used]):
            return 0.0
        coef = np.abs(self._g[used])
        step = float(coef.min())
        quotients = coef / step
        return step if np.all(np.abs(quotients - np.rint(quotients)) <= 1e-9) else 0.0

    @cached_property
    def precision(self) -> Precision:
        """What a restricted query may miss. A loss on a lattice is never missed."""
        h_scale = float(np.abs(self._h).max(initial=0.0)) or 1.0
        g_scale = float(np.abs(self._g).max(initial=0.0)) or 1.0
        return Precision(
            shrink=self.shrink,
            h_min=self.h_min,
            g_min=0.0 if self._lattice else self.shrink * g_scale,
            h_step=self.shrink * h_scale,
            g_step=0.0 if self._lattice else self.shrink * g_scale,
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
    ) -> Point | None:
        """The label that maximises ``h + lam g`` among those allowed.

        Parameters
        ----------
        lam : float in [0, inf]
            0 asks for the largest h (of those, the largest g), inf for the largest g (of those, the largest h).
        bottom, top : (h, g), optional
            Only labels with h > 0 and g > 0 between these two rays from the origin.
        open_bottom, open_top : bool
            Whether labels on a ray itself are left out.
        above : (h, g), optional
            Only labels with a larger h and a larger g than this corner.
        forbid : sequence
            Labels that may not be returned.
        ties : bool
            False leaves out the second solve for λ = 0 and inf.
        shrink : float, optional
            In place of the plane's own.

        Returns
        -------
        Point or None
            None if no label is allowed.
        """
        lam = check_lam(lam)
        costs = self._costs
        if lam == math.inf:
            costs[:] = self._g
            const = self._g0
        else:
            np.multiply(self._g, lam, out=costs)
            costs += self._h
            const = self._h0 + lam * self._g0
        rows = self.rows
        if bottom is not None or top is not None:
            margin = self.shrink if shrink is None else shrink
            rows = rows + self._angle(bottom or (1.0, 0.0), top or (0.0, 1.0), open_bottom, open_top, margin)
        if above is not None:
            rows = rows + self._corner(above)
        kind = "banned" if len(forbid) else "free" if rows is self.rows else "constrained"
        found = self._solve(costs, rows, forbid, kind)
        if found is None:
            return None
        z, bound = found
        if ties and (lam == 0.0 or lam == math.inf):
            z = self._break_tie(z, lam, rows, forbid, kind)
        point = self._point(z, bound + const)
        self.points.append(point)
        return point

    def _solve(
        self, costs: FloatArray, rows: Sequence[Any], forbid: Sequence[Any], kind: str
    ) -> tuple[FloatArray, float] | None:
        self.counts[kind] += 1
        self.queries += 1
        try:
            label = self.oracle.maximize(costs, rows, forbid) if rows or len(forbid) else self.oracle.maximize(costs)
        except InfeasibleSpace:
            if rows or len(forbid):
                return None
            raise  # the space itself is empty, which is the user's mistake and not an empty angle
        return label.z, label.bound

    def _break_tie(
        self, z: FloatArray, lam: float, rows: Sequence[Any], forbid: Sequence[Any], kind: str
    ) -> FloatArray:
        """Second stage of a lexicographic solve: the other coordinate, at the same value of the first."""
        first, second = (self._h, self._g) if lam == 0.0 else (self._g, self._h)
        if not second.any():
            return z
        scale = float(np.abs(first).max(initial=0.0)) or 1.0
        value = float(first @ z)
        floor = (first / scale, (value - 1e-7 * max(scale, abs(value))) / scale, math.inf)
        found = self._solve(second, [*rows, floor], forbid, kind)
        # The row has a tolerance; a label that is truly smaller in the first coordinate is no tie.
        if found is None or float(first @ found[0]) < value - 1e-9 * max(scale, abs(value)):
            return z
        return found[0] if float(second @ found[0]) > float(second @ z) else z

    def _point(self, z: FloatArray, bound: float) -> Point:
        h, g = (self._both @ z).tolist()
        return Point(h + self._h0, g + self._g0, z, bound)

    def _angle(
        self, bottom: Ray, top: Ray, open_bottom: bool, open_top: bool, shrink: float
    ) -> list[tuple[Any, float, float]]:
        """The two rows of an angle (MATH.md 1.1): scaled, shrunk on an open side."""
        low_h, low_g = check_ray(bottom, "bottom")
        high_h, high_g = check_ray(top, "top")
        if low_g == 0.0:
            # The axis itself: g > 0. Half of the smallest positive loss separates it from g = 0.
            floor = 0.5 * self.bounds.g_positive or self.precision.g_min
            lower_row = (self._g, floor - self._g0, math.inf)
        else:
            lower_row = self._halfplane(-low_g * (1.0 + shrink if open_bottom else 1.0), low_h)
        if high_h == 0.0:
            upper_row = (self._h, self.h_min - self._h0, math.inf)
        else:
            upper_row = self._halfplane(high_g * (1.0 - shrink if open_top else 1.0), -high_h)
        return [lower_row, upper_row]

    def _halfplane(self, a: float, b: float) -> tuple[FloatArray, float, float]:
        """The row ``a h + b g >= 0`` with max(|a|, |b|) scaled to 1."""
        scale = max(abs(a), abs(b))
        a, b = a / scale, b / scale
        return a * self._h + b * self._g, -(a * self._h0 + b * self._g0), math.inf

    def _corner(self, above: Ray) -> list[tuple[Any, float, float]]:
        """Rows ``h > above[0]`` and ``g > above[1]``, each scaled by its largest coefficient."""
        rows = []
        step = self.precision
        pairs = (
            (self._h, self._h0, above[0], step.h_step),
            (self._g, self._g0, above[1], 0.5 * self._lattice or step.g_step),
        )
        for coef, const, floor, margin in pairs:
            if floor > -math.inf:
                scale = float(np.abs(coef).max(initial=0.0)) or 1.0
                rows.append((coef / scale, (floor + margin - const) / scale, math.inf))
        return rows

    def evaluate(self, label: Any) -> Point:
        """A vector z (or a point of an earlier search) at the current h and g."""
        z = np.asarray(label.label if isinstance(label, Point) else label, dtype=float)
        if z.shape != self._h.shape:
            raise SpaceMismatch(f"A cached label has shape {z.shape}; this space has {self._h.size} variables.")
        return self._point(z, math.nan)

    def mix(self, p: Point, q: Point, t: float) -> Point:
        """The mixture as a fractional label."""
        return Point(p.h + t * (q.h - p.h), p.g + t * (q.g - p.g), (1.0 - t) * p.label + t * q.label)

    def can_forbid(self, point: Point) -> bool:
        """Whether a no-good cut exists: every integer variable of the label stands at one of its bounds."""
        if self.convex:
            return False
        space = self.oracle.space
        integer = space.integrality
        z = point.label[integer]
        at_bound = (np.abs(z - space.lower[integer]) <= 1e-6) | (np.abs(z - space.upper[integer]) <= 1e-6)
        return bool(at_bound.all())

    def front(self) -> list[Point] | None:
        """Every label that matters, where the oracle lists them without a search (ORACLES.md 11.1)."""
        listing = getattr(self.oracle, "front", None)
        if listing is None or self.convex or self.rows:
            return None
        labels = listing((self._h, self._h0), (self._g, self._g0))
        return None if labels is None else [self._point(np.asarray(z, dtype=float), math.nan) for z in labels]

    def __repr__(self) -> str:
        kind = "relaxed" if self.convex else "integral"
        return f"<Plane over {self._h.size} variables, {kind}, {self.queries} queries so far>"


def _affine(pair: tuple[npt.ArrayLike, float], n: int, name: str) -> tuple[FloatArray, float]:
    coef, const = np.array(pair[0], dtype=float), float(pair[1])
    if coef.shape != (n,):
        raise SpaceMismatch(f"The coefficients of {name} have shape {coef.shape}; the space has {n} variables.")
    if not (np.isfinite(coef).all() and math.isfinite(const)):
        where = "constant" if not math.isfinite(const) else f"coefficient {int(np.argmin(np.isfinite(coef)))}"
        raise DeclarationError(f"The {where} of {name} is not finite; h and g need finite coefficients.")
    return coef, const
