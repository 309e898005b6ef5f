"""The result of a search, and the bookkeeping that all searches share."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from structopt.checks import sequence, whole
from structopt.errors import DeclarationError
from structopt.plane.points import Point, Ray, SearchPlane

__all__ = ["Run", "SearchResult", "Step"]


@dataclass(slots=True, eq=False)
class Step:
    """One query of a search.

    Attributes
    ----------
    kind : str
        ``"free"``, ``"angle"``, ``"corner"`` or ``"list"``.
    lam : float
    point : Point or None
        The answer; None if nothing was allowed.
    bottom, top : (h, g) or None
        The rays of the angle.
    above : (h, g) or None
        The corner.
    incumbent : float
        Best value after the step.
    bound : float
        Certified upper bound after the step.
    """

    kind: str
    lam: float
    point: Point | None
    bottom: Ray | None = None
    top: Ray | None = None
    above: Ray | None = None
    incumbent: float = 0.0
    bound: float = math.inf


@dataclass(slots=True, eq=False, repr=False)
class SearchResult:
    """The most violated label that a search found, with a proof of how good it is.

    Parameters
    ----------
    surrogate : Surrogate or None
        What was maximised; None for the product.
    plane : SearchPlane
        Where it was searched.

    Attributes
    ----------
    method : str
        Name of the search.
    label : object
        The label (a vector z, or an index of a `PointPlane`); the ground truth (or None) if no label is violated.
    point : Point or None
        The label in the plane.
    value : float
        ψ of the label; 0 if no label is violated.
    upper_bound : float
        No label has a larger value.
    queries : int
        Solves of the λ-oracle.
    statistics : dict
        The queries by kind, and figures of the method.
    stopped : str
        Why it ended: ``"optimal"``, ``"gap"``, ``"no violation"``, ``"vertices"``, ``"bracket"``, ``"front"``,
        ``"stalled"`` or ``"max_queries"``. The first three are statements about `gap`: it is at most `rtol`,
        or nothing up to the plane's accuracy (1e-7 for a solver, 2e-5 where restricted queries were needed).
        A search that ends without that proof is ``"stalled"``; its bound holds all the same.
    proof : str
        Why no label is better than `upper_bound`: ``"vertex"`` (the optimum over the hull is a label, or nothing is
        violated), ``"hull"`` (it is a mixture), ``"front"`` (all labels that matter were compared), ``"k_best"``
        (labels were listed in order), ``"branch_and_bound"`` (variables were fixed in turn), ``"side_constraints"``
        (queries restricted to angles or corners, or without labels that were forbidden), or ``"bound"`` where the
        search ended with a gap.
    lam : float
        The last λ, a good start for the next search of the same example.
    parts : tuple of (weight, Point)
        The labels of which a fractional optimum is the mixture; one part of weight 1 otherwise.
    trace : list of Step
        Every query in order.
    """

    method: str
    label: Any
    point: Point | None
    value: float
    upper_bound: float
    queries: int
    statistics: Mapping[str, Any]
    stopped: str
    lam: float
    parts: tuple[tuple[float, Point], ...] = ()
    trace: list[Step] = field(default_factory=list)
    surrogate: Any = None
    plane: Any = None
    proof: str = "bound"

    @property
    def absolute_gap(self) -> float:
        """``upper_bound - value``; ``inf`` where no bound is known."""
        return self.upper_bound - self.value

    @property
    def gap(self) -> float:
        """The relative gap, ``(upper_bound - value) / upper_bound``; ``inf`` where no bound is known."""
        if self.upper_bound <= 0.0:  # nothing is violated, for certain
            return 0.0
        return self.absolute_gap / self.upper_bound if math.isfinite(self.upper_bound) else math.inf

    @property
    def violated(self) -> bool:
        """Whether some label has a larger value than the ground truth."""
        return self.value > 0.0

    @property
    def fractional(self) -> bool:
        """Whether the optimum is a mixture of two labels."""
        return len(self.parts) > 1

    def __repr__(self) -> str:
        return (
            f"<{self.method}: value {self.value:.6g}, upper bound {self.upper_bound:.6g}, "
            f"{self.queries} queries, {self.stopped}>"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("value", f"{self.value:.6g}"),
            ("upper bound", f"{self.upper_bound:.6g}"),
            ("relative gap", f"{self.gap:.3g}"),
            ("queries", ", ".join(f"{key}: {count}" for key, count in self.statistics.items())),
            ("stopped", self.stopped),
            ("proof", self.proof),
            ("point", "none" if self.point is None else f"({self.point.h:.6g}, {self.point.g:.6g})"),
        ]
        body = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows)
        return f"<table><caption>{html.escape(self.method)}</caption>{body}</table>"


class Run:
    """One search in progress: its incumbent, its bound, its limit and its trace."""

    __slots__ = (
        "_before",
        "_queries_before",
        "cached",
        "lam",
        "limit",
        "lost",
        "method",
        "parts",
        "plane",
        "point",
        "psi",
        "rtol",
        "surrogate",
        "trace",
        "upper",
        "value",
    )

    def __init__(
        self,
        method: str,
        plane: SearchPlane,
        psi: Callable[[float, float], float],
        max_queries: int,
        cache: Iterable[Any] = (),
        surrogate: Any = None,
        rtol: float = 0.0,
    ) -> None:
        self.method = method
        self.plane = plane
        self.psi = psi
        self.surrogate = surrogate
        self.rtol = rtol
        self.limit = whole("max_queries", max_queries, low=1)
        self.trace: list[Step] = []
        self.value = 0.0
        self.point: Point | None = None
        self.parts: tuple[tuple[float, Point], ...] = ()
        self.upper = math.inf
        self.lost = 0.0
        self.lam = math.nan
        self._before = dict(plane.counts)
        self._queries_before = plane.queries
        self.cached = [plane.evaluate(label) for label in sequence("cache", cache)]
        for point in self.cached:
            self.offer(point)

    @property
    def exhausted(self) -> bool:
        """Whether the query limit is reached."""
        return len(self.trace) >= self.limit

    @property
    def left(self) -> int:
        """Queries left; every one, and no other, makes a step."""
        return self.limit - len(self.trace)

    def ask(self, lam: float, **restriction: Any) -> Point | None:
        """Query the plane, offer the answer as incumbent and write the step down."""
        self.lam = lam
        if not restriction:  # most queries
            point = self.plane.query(lam, ties=False)
            if point is not None:
                value = self.psi(point.h, point.g)
                if value > self.value:
                    self.offer(point, value)
            self.trace.append(Step("free", lam, point, None, None, None, self.value, self.bound))
            return point
        point = self.plane.query(lam, ties=False, **restriction)
        if point is not None:
            self.offer(point)
        kind = "corner" if "above" in restriction else "angle" if "bottom" in restriction else "free"
        self.trace.append(
            Step(
                kind,
                lam,
                point,
                restriction.get("bottom"),
                restriction.get("top"),
                restriction.get("above"),
                self.value,
                self.bound,
            )
        )
        return point

    def ask_best(self, lam: float, k: int) -> list[Point] | None:
        """The `k` best labels for a λ, offered one by one and written down as one step."""
        points = self.plane.k_best(lam, k)
        if points is None:
            return None
        self.lam = lam
        for point in points:
            self.offer(point)
        self.trace.append(Step("list", lam, points[-1] if points else None, None, None, None, self.value, self.bound))
        return points

    def offer(self, point: Point, value: float | None = None) -> None:
        """Take a point as incumbent if it is better."""
        if value is None:
            value = self.psi(point.h, point.g)
        if value > self.value:
            self.value = value
            self.point = point
            self.parts = ((1.0, point),)

    def tighten(self, upper: float, value: float = 0.0) -> None:
        """A new upper bound on all labels (bounds only ever go down).

        `value` is that of a mixture known to exist but not yet made into a label.
        """
        if upper < self.upper:
            self.upper = upper
        if self.trace:
            step = self.trace[-1]
            step.incumbent = value = max(value, self.value)
            step.bound = max(value, self.upper, self.lost)

    def lose(self, upper: float) -> None:
        """Labels worth at most `upper` may have been missed; the certificate must say so."""
        self.lost = max(self.lost, upper)

    @property
    def bound(self) -> float:
        """The certificate: never below the incumbent nor below what may have been missed."""
        return max(self.value, self.upper, self.lost)

    def within(self, rtol: float) -> bool:
        """Whether a label is known whose value is within this relative gap of the bound."""
        return self.value > 0.0 and self.value >= (1.0 - rtol) * self.bound

    @property
    def accuracy(self) -> float:
        """The relative gap that is none: what the plane's answers are accurate to."""
        plane = self.plane
        shrink = 2.0 * plane.precision.shrink if self.restricted else 0.0
        return 1e-9 + 10.0 * plane.tolerance + shrink

    @property
    def restricted(self) -> bool:
        """Whether a query was restricted to an angle or a corner."""
        return any(step.kind in ("angle", "corner") for step in self.trace)

    def _verdict(self, stopped: str) -> str:
        """The reason to report: a statement about the gap is checked."""
        if stopped not in ("optimal", "gap", "no violation"):
            return stopped
        gap, bound = self.bound - self.value, self.bound
        if gap <= self.accuracy * bound:
            return "no violation" if bound <= 0.0 else "optimal" if stopped == "no violation" else stopped
        if gap <= self.rtol * bound:
            return "gap"
        # Where nothing is violated there is no value to compare with: what the box could hold is the measure.
        plane, box = self.plane, self.plane.bounds
        largest = self.psi(box.h_upper, box.g_upper) if math.isfinite(box.h_upper + box.g_upper) else 0.0
        nothing = 1e-9 * largest if math.isfinite(largest) else 0.0
        if self.restricted:
            nothing += 2.0 * max(plane.precision.h_min * box.g_upper, plane.precision.g_min * box.h_upper, 0.0)
        return "optimal" if bound <= nothing else "stalled"

    def _proof(self, stopped: str, counts: Mapping[str, int]) -> str:
        """The cheapest argument for the bound that was enough."""
        if stopped == "front":
            return "front"
        if stopped not in ("optimal", "gap", "no violation"):
            return "bound"
        kinds = {step.kind for step in self.trace}
        if kinds & {"angle", "corner"} or counts.get("forbidding", 0):
            return "side_constraints"
        if "list" in kinds:
            return "k_best"
        if counts.get("branches", 0):
            return "branch_and_bound"
        return "hull" if len(self.parts) > 1 else "vertex"

    def same_place(self, p: Point, q: Point) -> bool:
        """Whether two points are one, up to rounding in the units of the plane."""
        box = self.plane.bounds
        h_error = 1e-9 * (abs(p.h) + abs(q.h)) + 1e-13 * max(abs(box.h_lower), abs(box.h_upper))
        g_error = 1e-9 * (abs(p.g) + abs(q.g)) + 1e-13 * max(abs(box.g_lower), abs(box.g_upper))
        return abs(p.h - q.h) <= h_error and abs(p.g - q.g) <= g_error

    def result(self, stopped: str, **statistics: Any) -> SearchResult:
        """Close the run."""
        if self.surrogate is not None and self.point is not None:
            self.surrogate.refuse_infinite(self.value, self.point.h, self.point.g)
        stopped = self._verdict(stopped)
        counts = {kind: n - self._before.get(kind, 0) for kind, n in self.plane.counts.items()}
        if self.trace:
            self.trace[-1].bound = self.bound
            self.trace[-1].incumbent = max(self.trace[-1].incumbent, self.value)
        return SearchResult(
            method=self.method,
            label=self.plane.truth if self.point is None else self.point.label,
            point=self.point,
            value=self.value,
            upper_bound=self.bound,
            queries=self.plane.queries - self._queries_before,
            statistics={**counts, **statistics},
            stopped=stopped,
            lam=self.lam,
            parts=self.parts,
            trace=self.trace,
            surrogate=self.surrogate,
            plane=self.plane,
            proof=self._proof(stopped, counts),
        )


def product(h: float, g: float) -> float:
    """The product of the slack searches, 0 outside the open quadrant (docs/mathematics/searches#angular-search)."""
    return h * g if h > 0.0 and g > 0.0 else 0.0


def default_lam(plane: SearchPlane) -> float:
    """λ0 = H^ / G^ (docs/mathematics/searches#angular-search), from bounds that need no query."""
    bounds = plane.bounds
    if not (0.0 < bounds.h_upper < math.inf and 0.0 < bounds.g_upper < math.inf):
        return 1.0
    return bounds.start(bounds.h_upper / bounds.g_upper)


def no_positive_product(plane: SearchPlane) -> bool:
    """Whether the box alone shows that no label has h > 0 and g > 0."""
    return plane.bounds.h_upper <= 0.0 or plane.bounds.g_upper <= 0.0


def check_lam(lam: float | None) -> float | None:
    """A start λ must be positive and finite."""
    if lam is not None and not 0.0 < lam < math.inf:
        raise DeclarationError(f"The first lam of a product search must be positive and finite, got {lam}.")
    return lam


def check_rtol(rtol: float) -> float:
    """Relative gap at which a search may stop."""
    if not 0.0 <= rtol < 1.0:
        raise DeclarationError(f"rtol must be in [0, 1), got {rtol}.")
    return rtol
