"""`Plane`: the labels of a space as points (h, g), and the λ-oracles over them.

    O(λ) = argmax  h(y) + λ g(y)          λ in [0, inf]

free, or restricted to the labels between two rays from the origin, or to those above a corner. A
search only ever sees a `SearchPlane`; `Plane` is the one over an oracle, `PointPlane` the one over explicit points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from structopt.checks import checked, flag, floats, number, sequence, whole
from structopt.errors import InfeasibleSpace, SpaceMismatch
from structopt.oracle.label import Label
from structopt.oracle.side_constraints import plain_rows
from structopt.plane.coordinates import Affine, Coordinates, mixture
from structopt.plane.free_queries import FreeAnswer, answer_by_free_queries
from structopt.plane.halfplane import Halfplane, angle_sides, corner_sides
from structopt.plane.oracle import LinearOracle
from structopt.plane.point_plane import PointPlane
from structopt.plane.points import Bounds, Point, Precision, Ray, SearchPlane, check_lam, pair
from structopt.space.compiled import FloatArray

__all__ = ["Bounds", "Plane", "Point", "PointPlane", "Precision", "SearchPlane"]

#: Relative shrink of open rays and corners, clearly above the feasibility tolerance of solvers.
_SHRINK = 1e-5
#: Stands for h > 0, in units of the largest coefficient of h.
_H_MIN = 1e-5


class Plane:
    """The λ-oracles over a label space, with h and g affine in z.

    Parameters
    ----------
    oracle : Oracle
        Maximises ``c . z``, with side constraints and forbidden labels (a `structopt.plane.oracle.LinearOracle`).
    h, g : (coef, const)
        The two coordinates, ``h(z) = coef . z + const``.
    truth : array, optional
        The true label as a vector; a search that finds no violated label returns it.
    rows : sequence of comparisons or of (a, lower, upper)
        Rows that hold in every query.
    product_shift : float
        The searches for the largest product maximise ``(h + product_shift) g``: 1 for slack rescaling, where h is
        the margin.

    Attributes
    ----------
    coordinates : Coordinates
        h and g.
    points : list of Point
        Every point that a query has returned.
    counts : dict
        The queries by kind: free, constrained (an angle or a corner), forbidding (with no-good cuts), and where they
        occur listed (`k_best`), branches (with fixed variables) and replaced (an angle, answered by free calls). The
        free calls that it took to answer angles, or to try, are no queries; their number is ``counts["trials"]``.

    Notes
    -----
    Rays are vectors, never quotients; rows are scaled; strict sides are shrunk; only the status
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

    #: Relative accuracy of ``h + λ g`` at an answer: that of a simplex method.
    tolerance = 1e-8

    @checked
    def __init__(
        self,
        oracle: LinearOracle,
        h: Affine,
        g: Affine,
        *,
        truth: npt.ArrayLike | None = None,
        rows: Sequence[tuple[npt.ArrayLike, float, float]] = (),
        product_shift: float = 0.0,
    ) -> None:
        self.oracle = oracle
        self.product_shift = product_shift
        self.convex = oracle.integral == "relax" or not oracle.space.is_integral
        self.counts = {"free": 0, "constrained": 0, "forbidding": 0}
        self._plain_solver = oracle._plain_solver
        self.update(h, g, truth=truth, rows=rows)

    def update(
        self,
        h: Affine,
        g: Affine,
        *,
        truth: npt.ArrayLike | None = None,
        rows: Sequence[tuple[npt.ArrayLike, float, float]] = (),
    ) -> Self:
        """Other coordinates over the same oracle: the next example, or new weights.

        The points of the old coordinates are dropped; the counts go on.

        Parameters
        ----------
        h : (coef, const)
        g : (coef, const)
        truth : ndarray, optional
            The ground truth.
        rows : sequence of comparisons or of (coefficients, lower, upper)
            Side constraints, as in `structopt.Oracle.maximize`.

        Returns
        -------
        self
        """
        space = self.oracle.space
        self.truth = None if truth is None else np.ascontiguousarray(floats("truth", truth))
        if self.truth is not None and self.truth.shape != space.lower.shape:
            raise SpaceMismatch(f"truth has shape {self.truth.shape}; this space has {space.n_variables} variables.")
        self.coordinates = Coordinates(h, g, space, self.truth)
        self.rows: list[tuple[Any, float, float]] = list(plain_rows("rows", space, rows))
        self.points: list[Point] = []
        self._bounds: Bounds | None = None
        self._precision: Precision | None = None
        self._step: float | None = None
        return self

    def as_product(self) -> Plane:
        """The plane whose h g is the product to maximise, with h moved by `product_shift`; the counts are shared.

        Returns
        -------
        Plane
        """
        if not self.product_shift:
            return self
        axes = self.coordinates
        moved = Plane(
            self.oracle,
            (axes.h, axes.h0 + self.product_shift),
            (axes.g, axes.g0),
            truth=self.truth,
            rows=self.rows,
        )
        moved.counts = self.counts
        return moved

    @property
    def queries(self) -> int:
        """Queries so far. One of two stages (λ = 0 or inf, with tie-break) counts each of its solves."""
        return sum(self.counts.values()) - self.counts.get("trials", 0)

    @property
    def bounds(self) -> Bounds:
        """Box bounds from the variables' own bounds; no query."""
        if self._bounds is None:
            self._bounds = self.coordinates.bounds(self.lattice_step)
        return self._bounds

    @property
    def lattice_step(self) -> float:
        """The step of g among the labels, 0 if there is none."""
        if self._step is None:
            self._step = 0.0 if self.convex else self.coordinates.lattice_step()
        return self._step

    @property
    def precision(self) -> Precision:
        """What a restricted query may miss. A loss on a lattice is never missed."""
        if self._precision is None:
            h_scale, g_scale = self.coordinates.scales()
            g_step = 0.0 if self.lattice_step else _SHRINK * g_scale
            self._precision = Precision(_SHRINK, _H_MIN * h_scale, g_step, _SHRINK * h_scale, g_step)
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
            0 is the largest h (of those, the largest g), inf the largest g (of those, the largest h).
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
        if type(lam) is not float or not lam >= 0.0:
            lam = check_lam(lam)
        if type(forbid) is not tuple and type(forbid) is not list:
            forbid = sequence("forbid", forbid)
        if bottom is None and top is None and above is None and not self.rows and not len(forbid):
            if not ties or 0.0 < lam < math.inf:
                return self._query_freely(lam)
            return self._query_solver(lam, [], forbid, "free", ties)
        sides = self._sides(
            bottom, top, open_bottom, open_top, above, _SHRINK if shrink is None else number("shrink", shrink)
        )
        kind = "forbidding" if len(forbid) else "constrained" if sides else "free"
        if above is None and kind == "constrained" and self._tries_free_calls(lam, ties):
            found = self._query_by_free_calls(lam, sides, worth)
            if found.decided:
                return found.point
        return self._query_solver(lam, sides, forbid, kind, ties)

    def _query_freely(self, lam: float) -> Point:
        """The path of most queries, in as few steps as will do.

        An empty space is the user's mistake, not an empty angle: it is raised.
        """
        self.counts["free"] += 1
        axes = self.coordinates
        if self._plain_solver is not None:
            costs, square = axes.blend(lam)
            z, bound = self._plain_solver(costs, square)
            point = axes.locate(lam, z, bound)
        else:
            costs, const = axes.costs(lam)
            found = self.oracle.maximize(costs)
            point = axes.point(found.z, found.bound + const)
        self.points.append(point)
        return point

    def _query_solver(
        self, lam: float, sides: Sequence[Halfplane], forbid: Sequence[Any], kind: str, ties: bool
    ) -> Point | None:
        """A query with its side constraints and no-good cuts, by the oracle."""
        costs, const = self.coordinates.costs(lam)
        rows = [*self.rows, *(self.coordinates.row(side) for side in sides)]
        found = self._solve(costs, rows, forbid, kind)
        if found is None:
            return None
        z = found.z
        if ties and (lam == 0.0 or lam == math.inf):
            z = self._break_tie(z, lam, rows, forbid, kind)
        point = self.coordinates.point(z, found.bound + const)
        self.points.append(point)
        return point

    def _tries_free_calls(self, lam: float, ties: bool) -> bool:
        """Whether free queries may stand in for a restricted one: cheap ones, over labels that need no other row.

        Not for corners: they are inside a proved hull, where free queries give no further information.
        """
        if self.convex or self.rows or (ties and (lam == 0.0 or lam == math.inf)):
            return False
        return self.oracle._prefers_free_calls

    def _query_by_free_calls(
        self, lam: float, sides: Sequence[Halfplane], worth: Callable[[float], bool] | None
    ) -> FreeAnswer:
        """Try to answer a query by free calls; it counts as one query if they do."""
        direction = (0.0, 1.0) if lam == math.inf else (1.0, lam)
        found = answer_by_free_queries(self._towards, direction, sides, worth)
        if found.decided:
            self._count("replaced")
            if found.point is not None:
                self.points.append(found.point)
        return found

    def _towards(self, d_h: float, d_g: float) -> Point:
        """The label that maximises ``d_h h + d_g g``, for weights of any sign."""
        self._count("trials")
        costs, const = self.coordinates.towards(d_h, d_g)
        label = self.oracle.maximize(costs)
        return self.coordinates.point(label.z, label.bound + const)

    def _count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def _solve(self, costs: FloatArray, rows: Sequence[Any], forbid: Sequence[Any], kind: str) -> Label | None:
        self.counts[kind] += 1
        if not rows and not len(forbid):
            # An empty space is the user's mistake and not an empty angle: let it be raised.
            return self.oracle.maximize(costs)
        try:
            return self.oracle.maximize(costs, rows, forbid)
        except InfeasibleSpace:
            return None

    def _break_tie(
        self, z: FloatArray, lam: float, rows: Sequence[Any], forbid: Sequence[Any], kind: str
    ) -> FloatArray:
        """Second stage of a lexicographic solve: the other coordinate, at the same value of the first."""
        first, second = self.coordinates.both if lam == 0.0 else self.coordinates.both[::-1]
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

    def _sides(
        self,
        bottom: Ray | None,
        top: Ray | None,
        open_bottom: bool,
        open_top: bool,
        above: Ray | None,
        shrink: float,
    ) -> list[Halfplane]:
        """The halfplanes of an angle and of a corner: scaled, shrunk on an open side."""
        sides = []
        flag("open_bottom", open_bottom)
        flag("open_top", open_top)
        if bottom is not None or top is not None:
            floor = (self.precision.h_min, self._least_g(0.0))
            sides += angle_sides(
                (1.0, 0.0) if bottom is None else pair(bottom, "bottom"),
                (0.0, 1.0) if top is None else pair(top, "top"),
                shrink if open_bottom else 0.0,
                shrink if open_top else 0.0,
                floor,
            )
        if above is not None:
            h, g = pair(above, "above")
            sides += corner_sides((h + self.precision.h_step, self._least_g(g)))
        return sides

    def _least_g(self, g: float) -> float:
        """Return a level that stands for "larger than g": labels with larger g reach it, all others do not."""
        if self.lattice_step:
            return self.coordinates.level_above(g, self.lattice_step)
        return g + self.precision.g_step

    def evaluate(self, label: Any) -> Point:
        """A vector z (or a point of an earlier search) at the current h and g.

        Parameters
        ----------
        label : object
            A label.

        Returns
        -------
        Point
        """
        if label is not None and label is self.truth:
            return Point(*self.coordinates.at_truth, label)
        z = floats("A label", label.label if isinstance(label, Point) else label)
        space = self.oracle.space
        if z.shape != space.lower.shape:
            raise SpaceMismatch(f"A cached label has shape {z.shape}; this space has {space.n_variables} variables.")
        return self.coordinates.point(z, math.nan)

    def mix(self, p: Point, q: Point, t: float) -> Point:
        """The mixture as a fractional label.

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
        return Point(p.h + t * (q.h - p.h), p.g + t * (q.g - p.g), mixture(p.label, q.label, t))

    def can_forbid(self, point: Point) -> bool:
        """Whether a no-good cut exists: every integer variable of the label stands at one of its bounds.

        Parameters
        ----------
        point : Point

        Returns
        -------
        bool
        """
        if self.convex:
            return False
        space = self.oracle.space
        integer = space.integrality
        z = point.label[integer]
        at_bound = (np.abs(z - space.lower[integer]) <= 1e-6) | (np.abs(z - space.upper[integer]) <= 1e-6)
        return bool(at_bound.all())

    def k_best(self, lam: float, k: int) -> list[Point] | None:
        """The `k` best labels for ``h + lam g`` (fewer if there are fewer), where the oracle lists them cheaply.

        Parameters
        ----------
        lam : float
        k : int
            Number of labels.

        Returns
        -------
        list of Point, or None
        """
        lam, k = check_lam(lam), whole("k", k, low=0)
        if self.convex or self.rows:
            return None
        costs, const = self.coordinates.costs(lam)
        labels = self.oracle._list_best(costs, k)
        if labels is None:
            return None
        self._count("listed")
        points = [self.coordinates.point(label.z, label.bound + const) for label in labels]
        self.points += points
        return points

    def front(self) -> list[Point] | None:
        """Every label that matters, where the oracle lists them without a search (docs/mathematics/oracles).

        Returns
        -------
        list of Point, or None
        """
        if self.convex or self.rows:
            return None
        axes = self.coordinates
        labels = self.oracle.front((axes.h, axes.h0), (axes.g, axes.g0))
        return None if labels is None else [axes.point(np.asarray(z, dtype=float), math.nan) for z in labels]

    def __repr__(self) -> str:
        kind = "relaxed" if self.convex else "integral"
        return f"<Plane over {self.oracle.space.n_variables} variables, {kind}, {self.queries} queries so far>"
