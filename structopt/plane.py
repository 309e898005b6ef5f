"""Labels seen as points (h(y), g(y)) of a plane, and the λ-oracles over them.

    O(λ) = argmax  h(y) + λ g(y)          λ in [0, inf]

free, or restricted to the labels between two rays from the origin, or to those above a corner (MATH.md 1). A
search only ever sees a `SearchPlane`; `Plane` is the one over an oracle, `PointPlane` the one over explicit points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from structopt.compiled import FloatArray
from structopt.errors import DeclarationError, InfeasibleSpace, SpaceMismatch
from structopt.kernels.affine import ranges
from structopt.label import Label
from structopt.point_plane import PointPlane
from structopt.points import Bounds, Point, Precision, Ray, SearchPlane, check_lam, check_ray
from structopt.settle import Halfplane, settle

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
        space = oracle.space
        n = int(space.n_variables)
        self.shrink = shrink
        self.h_min = h_min
        self.convex = bool(getattr(oracle, "integral", "auto") == "relax" or not space.is_integral)
        self.counts = {"free": 0, "constrained": 0, "banned": 0}
        self.queries = 0
        self.tolerance = 1e-8
        # Both coordinates in one array, so that a point, a cost vector and the box are one product each.
        self._both = np.empty((2, n))
        self._h, self._g = self._both[0], self._both[1]
        self._weights = np.ones(2)
        self._costs = np.empty(n)
        self.update(h, g, truth=truth, rows=rows)

    def update(
        self,
        h: tuple[npt.ArrayLike, float],
        g: tuple[npt.ArrayLike, float],
        *,
        truth: npt.ArrayLike | None = None,
        rows: Sequence[tuple[npt.ArrayLike, float, float]] = (),
    ) -> Self:
        """Other coordinates over the same oracle: the next example, or new weights.

        The points of the old coordinates are dropped; the counts go on.
        """
        self._h0, self._g0 = h0, g0 = _fill(self._h, h, "h"), _fill(self._g, g, "g")
        space = self.oracle.space
        self.truth = None if truth is None else np.ascontiguousarray(truth, dtype=float)
        if self.truth is not None and self.truth.shape != self._h.shape:
            raise SpaceMismatch(f"The truth has shape {self.truth.shape}; this space has {self._h.size} variables.")
        # One pass for the check, the box and the truth: a plane is made for every example of every pass.
        at = space.lower if self.truth is None else self.truth
        total, h_low, h_high, h_at, g_low, g_high, g_at = ranges(self._both, space.lower, space.upper, at)
        if not math.isfinite(total + h0 + g0):
            _refuse_infinite(self._h, h0, "h")  # overflow of the sum alone is forgiven
            _refuse_infinite(self._g, g0, "g")
        self._box = (h0 + h_low, h0 + h_high, g0 + g_low, g0 + g_high)
        self._at_truth = (h0 + h_at, g0 + g_at)
        self.rows: list[tuple[Any, float, float]] = list(rows)
        self.points: list[Point] = []
        self._bounds: Bounds | None = None
        self._precision: Precision | None = None
        self._step: float | None = None
        return self

    @property
    def bounds(self) -> Bounds:
        """Box bounds from the variables' own bounds; no query."""
        if self._bounds is None:
            self._bounds = Bounds(*self._box, self._smallest_positive_g())
        return self._bounds

    def _smallest_positive_g(self) -> float:
        if not self._lattice:
            return 0.0
        over = self._g0 % self._lattice
        return over if 1e-9 < over < self._lattice - 1e-9 else self._lattice

    @property
    def _lattice(self) -> float:
        """The step of g where g only takes values const + step * integer (Hamming: 1); 0 otherwise."""
        if self._step is None:
            self._step = 0.0 if self.convex else self._lattice_step()
        return self._step

    def _lattice_step(self) -> float:
        used = self._g != 0.0
        if not used.any() or not np.all(self.oracle.space.integrality[used]):
            return 0.0
        coef = np.abs(self._g[used])
        step = float(coef.min())
        quotients = coef / step
        return step if np.all(np.abs(quotients - np.rint(quotients)) <= 1e-9) else 0.0

    @property
    def precision(self) -> Precision:
        """What a restricted query may miss. A loss on a lattice is never missed."""
        if self._precision is None:
            h_scale, g_scale = (scale or 1.0 for scale in np.abs(self._both).max(axis=1, initial=0.0).tolist())
            self._precision = Precision(
                shrink=self.shrink,
                h_min=self.h_min,
                g_min=0.0 if self._lattice else self.shrink * g_scale,
                h_step=self.shrink * h_scale,
                g_step=0.0 if self._lattice else self.shrink * g_scale,
            )
        return self._precision

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
        worth : callable, optional
            ``worth(K)`` says whether labels with ``h + lam g <= K`` are of interest. Where they are not, a
            restricted query may be answered by None without a solve.

        Returns
        -------
        Point or None
            None if no label is allowed (or none is worth having).
        """
        lam = check_lam(lam)
        costs, const = self._costs, self._set_costs(lam)
        if bottom is None and top is None and above is None and not self.rows and not len(forbid):
            # The path of most queries. An empty space is the user's mistake, not an empty angle: it is raised.
            self.counts["free"] += 1
            self.queries += 1
            found: Label | None = self.oracle.maximize(costs)
            rows, kind = self.rows, "free"
        else:
            sides = self._sides(bottom, top, open_bottom, open_top, above, self.shrink if shrink is None else shrink)
            kind = "banned" if len(forbid) else "constrained" if sides else "free"
            if above is None and kind == "constrained" and self._settles(lam, ties):
                settled = settle(self._free, (0.0, 1.0) if lam == math.inf else (1.0, lam), sides, worth)
                if settled.decided:
                    return self._keep(settled.point)
                self._set_costs(lam)
            rows = [*self.rows, *(self._row(side) for side in sides)]
            found = self._solve(costs, rows, forbid, kind)
        if found is None:
            return None
        z = found.z
        if ties and (lam == 0.0 or lam == math.inf):
            z = self._break_tie(z, lam, rows, forbid, kind)
        h, g = self._both.dot(z).tolist()
        point = Point(h + self._h0, g + self._g0, z, found.bound + const)
        self.points.append(point)
        return point

    def _set_costs(self, lam: float) -> float:
        """Write ``h + lam g`` (g for inf) into the cost vector, and return its constant."""
        if lam == math.inf:
            self._costs[:] = self._g
            return self._g0
        self._weights[1] = lam
        self._weights.dot(self._both, out=self._costs)
        return self._h0 + lam * self._g0

    def _settles(self, lam: float, ties: bool) -> bool:
        """Whether free queries may stand in for a restricted one: cheap ones, over labels that need no other row.

        Not for corners: they are asked inside a proved hull, of which free queries have nothing more to say.
        """
        if self.convex or self.rows or (ties and (lam == 0.0 or lam == math.inf)):
            return False
        return bool(getattr(self.oracle, "prefers_free_calls", False))

    def _free(self, d_h: float, d_g: float) -> Point:
        """The label that maximises ``d_h h + d_g g``, for weights of any sign."""
        self.counts["free"] += 1
        self.queries += 1
        label = self.oracle.maximize(np.array([d_h, d_g]).dot(self._both))
        return self._point(label.z, label.bound + d_h * self._h0 + d_g * self._g0)

    def _keep(self, point: Point | None) -> Point | None:
        if point is not None:
            self.points.append(point)
        return point

    def _solve(self, costs: FloatArray, rows: Sequence[Any], forbid: Sequence[Any], kind: str) -> Label | None:
        self.counts[kind] += 1
        self.queries += 1
        if not rows and not len(forbid):
            # An empty space is the user's mistake and not an empty angle: let it be raised.
            return self.oracle.maximize(costs)  # type: ignore[no-any-return]
        try:
            return self.oracle.maximize(costs, rows, forbid)  # type: ignore[no-any-return]
        except InfeasibleSpace:
            return None

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
        if found is None or float(first @ found.z) < value - 1e-9 * max(scale, abs(value)):
            return z
        return found.z if float(second @ found.z) > float(second @ z) else z

    def _point(self, z: FloatArray, bound: float) -> Point:
        h, g = self._both.dot(z).tolist()
        return Point(h + self._h0, g + self._g0, z, bound)

    def _sides(
        self,
        bottom: Ray | None,
        top: Ray | None,
        open_bottom: bool,
        open_top: bool,
        above: Ray | None,
        shrink: float,
    ) -> list[Halfplane]:
        """The halfplanes of an angle and of a corner (MATH.md 1.1): scaled, shrunk on an open side."""
        sides = []
        if bottom is not None or top is not None:
            low_h, low_g = check_ray(bottom or (1.0, 0.0), "bottom")
            high_h, high_g = check_ray(top or (0.0, 1.0), "top")
            if low_g == 0.0:
                # The axis itself: g > 0. Half of the smallest positive loss separates it from g = 0.
                sides.append(Halfplane(0.0, 1.0, 0.5 * self.bounds.g_positive or self.precision.g_min))
            else:
                sides.append(_through_origin(-low_g * (1.0 + shrink if open_bottom else 1.0), low_h))
            if high_h == 0.0:
                sides.append(Halfplane(1.0, 0.0, self.h_min))
            else:
                sides.append(_through_origin(high_g * (1.0 - shrink if open_top else 1.0), -high_h))
        if above is not None:
            step = self.precision
            if above[0] > -math.inf:
                sides.append(Halfplane(1.0, 0.0, above[0] + step.h_step))
            if above[1] > -math.inf:
                sides.append(Halfplane(0.0, 1.0, above[1] + (0.5 * self._lattice or step.g_step)))
        return sides

    def _row(self, side: Halfplane) -> tuple[FloatArray, float, float]:
        """A halfplane as a row; that of an axis is scaled by its largest coefficient."""
        coef = np.array([side.a, side.b]).dot(self._both)
        least = side.least - side.a * self._h0 - side.b * self._g0
        if side.a == 0.0 or side.b == 0.0:
            scale = float(np.abs(coef).max(initial=0.0)) or 1.0
            return coef / scale, least / scale, math.inf
        return coef, least, math.inf

    def evaluate(self, label: Any) -> Point:
        """A vector z (or a point of an earlier search) at the current h and g."""
        if label is self.truth:
            return Point(*self._at_truth, label)
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

    def k_best(self, lam: float, k: int) -> list[Point] | None:
        """The `k` best labels for ``h + lam g`` (fewer if there are fewer), where the oracle lists them cheaply."""
        listing = getattr(self.oracle, "list_best", None)
        if listing is None or self.convex or self.rows:
            return None
        const = self._set_costs(check_lam(lam))
        labels = listing(self._costs, k)
        if labels is None:
            return None
        self.counts["listed"] = self.counts.get("listed", 0) + 1
        self.queries += 1
        points = [self._point(label.z, label.bound + const) for label in labels]
        self.points += points
        return points

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


def _through_origin(a: float, b: float) -> Halfplane:
    """The halfplane ``a h + b g >= 0`` with max(|a|, |b|) scaled to 1."""
    scale = max(abs(a), abs(b))
    return Halfplane(a / scale, b / scale, 0.0)


def _fill(row: FloatArray, pair: tuple[npt.ArrayLike, float], name: str) -> float:
    """Write the coefficients into their row, and return the constant."""
    coef = np.asarray(pair[0], dtype=float)
    if coef.shape != row.shape:
        raise SpaceMismatch(f"The coefficients of {name} have shape {coef.shape}; the space has {row.size} variables.")
    row[:] = coef
    return float(pair[1])


def _refuse_infinite(coef: FloatArray, const: float, name: str) -> None:
    if not (np.isfinite(coef).all() and math.isfinite(const)):
        where = "constant" if not math.isfinite(const) else f"coefficient {int(np.argmin(np.isfinite(coef)))}"
        raise DeclarationError(f"The {where} of {name} is not finite; h and g need finite coefficients.")
