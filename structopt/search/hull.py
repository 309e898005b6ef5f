"""Convex hull search: the optimum of any surrogate over the hull, by free queries only (thesis ch. 5)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.plane.points import Point, SearchPlane
from structopt.search import walk as compiled
from structopt.search.envelope import Envelope, Peak
from structopt.search.result import Run, SearchResult, Step, check_rtol
from structopt.surrogates import Surrogate, get

__all__ = ["HullWalk", "convex_hull"]

#: Where listing gives up: labels listed at once.
_LONGEST_LIST = 4096
_STOPPED = {
    compiled.ASK: "max_queries",
    compiled.OPTIMAL: "optimal",
    compiled.GAP: "gap",
    compiled.CLOSED: "closed",
    compiled.STALLED: "stalled",
}


@checked
def convex_hull(
    plane: SearchPlane,
    surrogate: Surrogate | str,
    *,
    integral: bool = False,
    lam: float | None = None,
    rtol: float = 0.0,
    max_queries: int = 1000,
    cache: Iterable[Any] = (),
) -> SearchResult:
    """Maximise ψ over the convex hull of the labels.

    The optimum is a vertex or a mixture of two labels; in a relaxed space the mixture is a label. Every query but
    the last returns a new vertex of the upper right hull, so that their number is at most the number of those
    vertices plus one (thesis Theorem 6, corrected).

    Parameters
    ----------
    plane : SearchPlane
        With the factors of the surrogate: ``surrogate.plane(...)`` makes it.
    surrogate : Surrogate or str
    integral : bool
        Return the best label and not a mixture: by listing labels in order of h + λ g where the oracle can, and
        otherwise by forbidding the two ends of a mixture and searching again.
    lam : float, optional
        First λ; the last one of the example's previous search is a good choice.
    rtol : float
        Stop when the value is within this relative gap of the bound.
    max_queries : int
    cache : iterable of labels
        Labels of earlier searches, evaluated anew: a warm start for the hull.

    Returns
    -------
    SearchResult
        ``parts`` holds the two labels of a mixture and their weights.

    Examples
    --------
    >>> import structopt.search as search
    >>> from structopt.plane import PointPlane
    >>> points = [(-4, 10), (0, 6), (2, 3), (3, 1), (1, 2)]
    >>> search.convex_hull(PointPlane(points), "slack").value
    9.375
    >>> search.convex_hull(PointPlane(points), "slack", integral=True).value
    9.0
    """
    psi = get(surrogate)
    check_rtol(rtol)
    if integral and plane.convex:
        raise DeclarationError(
            "A relaxed plane has no finite set of labels to forbid: use integral=False, or an oracle of the "
            "integral space."
        )
    run = Run("convex_hull", plane, psi.clipped, max_queries, cache, psi, rtol)
    walk = HullWalk(run, psi, lam, rtol)
    if not integral:
        stopped = walk.explore()
        walk.mix()
        return run.result("optimal" if stopped == "closed" else stopped)
    stopped = walk.explore()
    if stopped == "closed":
        stopped = walk.list_labels() or stopped
    forbidden: list[Any] = []
    while stopped == "closed":
        # The hull's optimum lies on an edge of two labels: both are known, neither may hide a better one.
        ends = walk.edge()
        forbidden += [point.label for point in ends]
        walk.forget(ends)
        stopped = walk.explore(forbidden)
    return run.result(stopped)


class HullWalk:
    """The known part of the upper right hull, from inside (labels) and from outside (lines).

    Parameters
    ----------
    run : Run
    surrogate : Surrogate
    lam : float, optional
        First λ.
    rtol : float

    Attributes
    ----------
    state : State
        That of the compiled walk.
    """

    state: compiled.State

    @checked
    def __init__(self, run: Run, surrogate: Surrogate, lam: float | None, rtol: float) -> None:
        if lam is not None and not lam >= 0.0:
            raise DeclarationError(f"lam must be in [0, inf], got {lam}.")
        self.run = run
        self.surrogate = surrogate
        self.rtol = rtol
        plane = run.plane
        self.envelope = Envelope(plane.bounds, surrogate)
        # Vertices in increasing g, and their ψ. They are computed once: the loop below runs between two solves,
        # with cold caches, where every function call takes several times longer.
        self.chain: list[Point] = []
        self._values: list[float] = []
        # The vertices of answers alone. A line through each is known, and only then is what lies above them known, too:
        # a label of an earlier search may be anywhere below the hull.
        self._answers: list[Point] = []
        self._mixed = False
        self._mixes = rtol > 0.0 and plane.convex  # a mixture may already be good enough
        self._first = lam
        self._asked: set[float] = set()
        self._tolerance = plane.tolerance
        self._known = list(run.cached)
        if plane.truth is not None:
            # A label like any other, and known without a query: one end of the chain (h of value 0, g = 0). Should it
            # be worth more than 0, which only a wrong loss or rounding does, it is left to the queries.
            truth = plane.evaluate(plane.truth)
            if run.psi(truth.h, truth.g) <= 0.0:
                self._known.append(truth)

    def peak(self) -> Peak:
        """The largest ψ that any label may still have."""
        return self.envelope.peak(self.surrogate, known=self.run.value)

    def proved(self, upper: float) -> bool:
        """Whether nothing better than the incumbent is left, up to rounding or to `rtol`."""
        value = self.run.value
        return upper <= value * (1.0 + 1e-10) or (value > 0.0 and value >= (1.0 - self.rtol) * upper)

    def explore(self, forbid: Sequence[Any] = ()) -> str:
        """Query until the hull's optimum is known.

        Returns
        -------
        str
            ``"optimal"`` (no label is better than the incumbent), ``"gap"``, ``"closed"`` (the optimum over the
            hull lies on the edge `edge`, which is proved to be one), ``"stalled"`` or ``"max_queries"``.
        """
        if not len(forbid) and not self.run.trace:
            return self._explore_compiled()
        return self._explore_step_by_step(forbid)

    def _explore_step_by_step(self, forbid: Sequence[Any] = ()) -> str:
        """The walk in Python: what `structopt.search.walk` compiles, and what it is tested against."""
        run, envelope, surrogate = self.run, self.envelope, self.surrogate
        if not self.chain:
            self._make_chain()
        asked = self._asked
        asked.clear()
        while True:
            if self._mixes:
                self.mix()
            peak = envelope.peak(surrogate, known=run.value)
            run.tighten(peak.upper)
            if self.proved(peak.upper):
                return "optimal" if peak.upper <= run.value * (1.0 + 1e-10) else "gap"
            if run.exhausted:
                return "max_queries"
            lam, closing, edge = self._next(peak)
            if lam in asked:
                # An edge whose line is known already is proved to be one; an extreme λ may have nothing to add.
                return "closed" if edge else "stalled"
            asked.add(lam)
            point = run.ask(lam, forbid=forbid) if len(forbid) else run.ask(lam)
            if point is None:
                envelope.exhausted = True  # no label is left, whatever room the lines leave
                continue
            envelope.add(lam, point.bound)
            self._known.append(point)
            _insert(self._answers, point)
            rises = self._rises(point, lam)
            if rises or self._is_new(point):
                self._insert(point)
            if not rises and closing:
                upper = envelope.peak(surrogate, known=run.value).upper
                run.tighten(upper)
                return "optimal" if self.proved(upper) else "closed"

    def _explore_compiled(self) -> str:
        """The same loop with all but the queries compiled."""
        run, known, envelope = self.run, self._known, self.envelope
        form = self.surrogate.form
        f = form.numbers
        plane, psi, trace = run.plane, run.psi, run.trace
        convex = plane.convex
        self.state = state = compiled.State(known)
        code, lam, upper, value = compiled.begin(
            state.array,
            f,
            envelope.h_cap,
            envelope.g_cap,
            envelope.h_floor,
            envelope.g_floor,
            run.value,
            self._tolerance,
            self.rtol,
            self._mixes,
            math.nan if self._first is None else self._first,
            envelope.tight,
            len(known),
        )
        form.check()
        run.tighten(upper, value)
        left = run.left
        while code == compiled.ASK and left > 0:
            left -= 1  # a free query counts once
            # `Run.ask`, written out; `tighten` fills in the step.
            run.lam = lam
            point = plane.query(lam, ties=False)
            trace.append(Step("free", lam, point))
            if point is None:
                envelope.exhausted = True  # no label is left
                run.tighten(0.0)
                code = compiled.OPTIMAL
                break
            worth = psi(point.h, point.g)
            if worth > run.value:
                run.offer(point, worth)
            array = state.make_room(len(known))
            code, lam, upper, value = compiled.advance(array, f, lam, point.bound, point.h, point.g, len(known))
            form.check()
            known.append(point)
            run.tighten(upper, value)
        if convex:
            # In a convex plane the walk ends here: only the best mixture is wanted, not the hull.
            value, t, low, high = compiled.best_mixture(state.array, f, run.value)
            if t > 0.0:
                self._offer_mixture(known[low], known[high], t, value)
            self._mixed = True
        else:
            state.put_back(envelope)
            self.chain = [known[k] for k in state.vertices()]
            self._values = [run.psi(p.h, p.g) for p in self.chain]
            self._answers = [known[k] for k in state.answers()]
        return _STOPPED[code]

    def _rises(self, point: Point, lam: float) -> bool:
        """Whether an answer lies above every known label in its own direction, by more than rounding."""
        if not self.chain:
            return True
        # The weights (1, λ), or (0, 1) for λ = inf.
        a, b = (0.0, 1.0) if lam == math.inf else (1.0, lam)
        known = max([a * p.h + b * p.g for p in self.chain])
        scale = max([abs(a * p.h) + abs(b * p.g) for p in self.chain])
        return a * point.h + b * point.g - known > self._tolerance * scale

    def _is_new(self, point: Point) -> bool:
        """Whether no vertex is where this answer is: it may be the other end of an edge, and then it does not rise."""
        h_error = self._tolerance * max([abs(p.h) for p in self.chain])
        g_error = self._tolerance * max([abs(p.g) for p in self.chain])
        return all(abs(p.h - point.h) > h_error or abs(p.g - point.g) > g_error for p in self.chain)

    def _next(self, peak: Peak) -> tuple[float, bool, bool]:
        """The next λ, whether an answer that is nothing new ends the walk, and whether λ is that of an edge."""
        if not self.chain or (not self.run.trace and self.run.value <= 0.0):
            return self._start(peak), False, False
        highest = max(self._values)
        if highest > 0.0:
            wanted = self._tangent_or_edge(self._values.index(highest))
            lam = self._snap(wanted)
            if lam not in self._asked:
                return lam, lam == wanted, True
        if highest <= 0.0 and self._mixes:
            # Only mixtures are worth anything: the edge of the best.
            chord = self._edge_of_mixture()
            if chord is not None:
                lam = self._snap(chord)
                if lam not in self._asked:
                    return lam, lam == chord, True
        answers = self._answers
        if math.isnan(peak.h):
            return (math.inf if self.envelope.g_cap == math.inf else 0.0), False, False
        if not answers:
            return self.envelope.snap(self.surrogate.direction(peak.h, peak.g)), False, False
        # No label with ψ > 0 yet, so that the gradient means nothing there, or it has nothing to add. The peak lies
        # above one edge of the answers' chain (or beyond its ends), and so does every better label: two such labels on
        # both sides of a vertex would put the vertex, which has a line through it, into their convex superlevel set.
        if peak.g > answers[-1].g:
            return math.inf, False, False
        if peak.g < answers[0].g or len(answers) == 1:
            return 0.0, False, False
        wanted = _chord(*_around(answers, peak.g))
        lam = self._snap(wanted)
        return lam, False, lam == wanted

    def _snap(self, wanted: float) -> float:
        """An extreme λ is 0 or inf at first; the λ itself only if that was not enough."""
        lam = self.envelope.snap(wanted)
        return wanted if lam in self._asked and self.envelope.is_informative(wanted) else lam

    def _start(self, peak: Peak) -> float:
        """The first λ: the caller's, or the tangent at the box's corner (H^ / G^ for a product)."""
        if self._first is not None:
            return self._first
        if not self.run.trace and math.isfinite(peak.upper) and not math.isnan(peak.h):
            corner = self.envelope.snap(self.surrogate.direction(peak.h, peak.g))
            return self.run.plane.bounds.start(corner)
        return 1.0

    def _tangent_or_edge(self, best: int) -> float:
        """Get-lambda of thesis Algorithm 4: the tangent at the best vertex, or the edge to a neighbour above it."""
        chain, vertex = self.chain, self.chain[best]
        psi_h, psi_g = self.surrogate.psi_gradient(vertex.h, vertex.g)
        least = self._tolerance * (abs(psi_h * vertex.h) + abs(psi_g * vertex.g))
        for k in (best - 1, best + 1):
            if 0 <= k < len(chain):
                neighbour = chain[k]
                if psi_h * (neighbour.h - vertex.h) + psi_g * (neighbour.g - vertex.g) > least:
                    return _chord(vertex, neighbour)
        return self.surrogate.direction(vertex.h, vertex.g)

    def _edge_of_mixture(self) -> float | None:
        """The λ of the edge with the best mixture of its ends; None if none is worth anything."""
        highest: float = 0.0
        chord: float | None = None
        for p, q in pairwise(self.chain):
            if self.run.psi(max(p.h, q.h), max(p.g, q.g)) > highest:
                mixed = self.surrogate.segment_maximum((p.h, p.g), (q.h, q.g))[1]
                if mixed > highest:
                    highest, chord = mixed, _chord(p, q)
        return chord

    def edge(self) -> tuple[Point, ...]:
        """The edge above which the peak lies; one point if the chain has only one."""
        if len(self.chain) < 2:
            return tuple(self.chain)
        return _around(self.chain, self.peak().g)

    def mix(self) -> None:
        """Offer the best mixture of two neighbours as incumbent (GET-MAX-FRACT)."""
        if self._mixed:
            return  # no new vertex since the last time
        self._mixed = True
        for p, q in pairwise(self.chain):
            if self.run.psi(max(p.h, q.h), max(p.g, q.g)) <= self.run.value:
                continue  # the corner bounds the whole edge
            t, value, _ = self.surrogate.segment_maximum((p.h, p.g), (q.h, q.g))
            if value > self.run.value and 0.0 < t < 1.0:
                self._offer_mixture(p, q, t, value)

    def _offer_mixture(self, p: Point, q: Point, t: float, value: float) -> None:
        self.run.offer(self.run.plane.mix(p, q, t), value)
        self.run.parts = ((1.0 - t, p), (t, q))

    def list_labels(self) -> str | None:
        """List labels from the hull's edge downwards until none can be better; None if the plane cannot.

        A label that is in none of the lists lies below the last line of each, so that these lines bound all labels
        not yet offered.
        """
        run, envelope, surrogate = self.run, self.envelope, self.surrogate
        k = 4
        while True:
            peak = envelope.peak(surrogate, known=run.value)
            run.tighten(peak.upper)
            if self.proved(peak.upper):
                return "optimal" if peak.upper <= run.value * (1.0 + 1e-10) else "gap"
            if run.exhausted or k > _LONGEST_LIST:
                return "max_queries"
            if math.isnan(peak.h):
                return None
            lam = envelope.clamp(surrogate.direction(peak.h, peak.g))
            points = run.ask_best(lam, k)
            if points is None:
                return None
            if len(points) < k:
                envelope.exhausted = True  # every label is listed
            else:
                envelope.add(lam, points[-1].bound)
            k *= 2

    def forget(self, points: Iterable[Point]) -> None:
        """Remove points from the chain for good: they are excluded."""
        gone = list(points)
        self._known = [p for p in self._known if not any(_same_label(p, q) for q in gone)]
        self._answers = [p for p in self._answers if not any(_same_label(p, q) for q in gone)]
        self._make_chain()

    def _make_chain(self) -> None:
        """The chain of all points known."""
        self.chain, self._values = [], []
        for point in self._known:
            self._insert(point)

    def _insert(self, point: Point) -> None:
        """Put a point on the chain, unless it is below it, and drop those that it covers."""
        at = _insert(self.chain, point)
        if at is not None:
            low, high = at
            self._values[low:high] = [self.run.psi(point.h, point.g)]
            self._mixed = False


def _insert(chain: list[Point], point: Point) -> tuple[int, int] | None:
    """Put a point in place of those that it covers, and say which these were; None if it is below the chain."""
    h, g = point.h, point.g
    at = 0
    while at < len(chain) and (chain[at].g < g or (chain[at].g == g and chain[at].h <= h)):
        at += 1
    # In increasing g: h must fall, and the chain must turn the same way everywhere.
    if at < len(chain) and (chain[at].h >= h or (at and _turn(chain[at - 1], point, chain[at]) <= 0.0)):
        return None
    low = at
    while low and (chain[low - 1].h <= h or (low > 1 and _turn(chain[low - 2], chain[low - 1], point) <= 0.0)):
        low -= 1
    while at + 1 < len(chain) and _turn(point, chain[at], chain[at + 1]) <= 0.0:
        at += 1
    chain[low:at] = [point]
    return low, at


def _around(chain: list[Point], g: float) -> tuple[Point, Point]:
    """The neighbours on a chain between which a g lies."""
    k = bisect_left([p.g for p in chain], g)
    k = min(max(k, 1), len(chain) - 1)
    return chain[k - 1], chain[k]


def _chord(p: Point, q: Point) -> float:
    """The λ of the line through two points of the chain."""
    return (p.h - q.h) / (q.g - p.g)


def _turn(a: Point, b: Point, c: Point) -> float:
    """Positive if b is strictly above the segment from a to c (g increases, h falls)."""
    return (b.h - a.h) * (c.g - a.g) - (c.h - a.h) * (b.g - a.g)


def _same_label(p: Point, q: Point) -> bool:
    if isinstance(p.label, (int, dict)) or isinstance(q.label, (int, dict)):
        return bool(p.label == q.label)
    return p.label is q.label or bool((p.label == q.label).all())
