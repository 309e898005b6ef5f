"""One search for a whole batch of planes and any surrogate: all of them in step (docs/mathematics/searches).

A round queries every open plane at once, each at its own λ; what happens between two rounds is compiled. The walk of
each plane is that of `convex_hull`. Where a mixture is no label, its end is proved by the cheapest argument that will
do:

1. ``"vertex"``: the optimum over the hull is a label, or no label between the λ-lines and the incumbent can be better;
2. ``"levels"``: g takes values on a lattice, as a Hamming loss does, and below the lines no level holds a better label;
3. ``"front"``: the plane lists all labels that matter;
4. ``"branch_and_bound"``: variables fixed in turn, where free queries are the cheap ones;
5. what the exact search of the one plane needs: ``"k_best"`` or ``"side_constraints"``, or again one of the above.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt.checks import checked, converted, whole
from structopt.errors import DeclarationError
from structopt.plane.batch import BatchAnswers, IndexArray, PlaneBatch
from structopt.plane.branches import Branches
from structopt.plane.points import SearchPlane
from structopt.search import walk
from structopt.search.branching import branch_and_bound
from structopt.search.exact import exact
from structopt.search.result import check_rtol
from structopt.space.compiled import FloatArray
from structopt.surrogates import Surrogate, get
from structopt.surrogates.compiled import clipped_all

__all__ = ["BatchResult", "search_batch"]

_MAX_ROUNDS = 60
#: Room for this many labels of a plane besides those known; it grows.
_ROOM = 8
#: Relative to what could be violated, so much is no violation.
_ROUNDING = 1e-11


@dataclass(frozen=True, eq=False)
class BatchResult:
    """The most violated label of every plane.

    Attributes
    ----------
    value, upper : ndarray, shape (n,)
        ψ of the label (0 where none is violated), and what no label exceeds.
    h, g : ndarray, shape (n,)
        Where the label lies.
    numbers : ndarray of int, shape (2, n)
        The labels of which it is the mixture, by the numbers of the `PlaneBatch`; -1 where none is violated.
    shares : ndarray, shape (2, n)
        Their weights; 1 and 0 for a label that is no mixture.
    proof : ndarray of str, shape (n,)
        Why no label is better than `upper`: ``"vertex"``, ``"hull"`` (the optimum over the hull was requested),
        ``"levels"``, ``"front"``, ``"branch_and_bound"``, those of `SearchResult.proof`, or ``"bound"`` where the
        search ended with a gap.
    lam : ndarray, shape (n,)
        The last λ of each, a good start for the next search; NaN where there was no query.
    near : ndarray of int, shape (k, n)
        Numbers of the labels nearest to the tangent of ψ at the optimum, -1 where there are fewer: a warm start of the
        next search.
    rounds : int
        Batch queries.
    queries : int
        Queries of planes in all rounds.
    """

    value: FloatArray
    upper: FloatArray
    h: FloatArray
    g: FloatArray
    numbers: IndexArray
    shares: FloatArray
    proof: npt.NDArray[np.str_]
    lam: FloatArray
    near: IndexArray
    rounds: int
    queries: int

    @property
    def statistics(self) -> dict[str, int]:
        """The number of planes by proof, with rounds and queries."""
        return {**Counter(self.proof.tolist()), "rounds": self.rounds, "queries": self.queries}


def _one_by_one(visit: Callable[[int], None], some: IndexArray) -> None:
    for i in some.tolist():
        visit(i)


@checked
def search_batch(
    planes: PlaneBatch,
    surrogate: Surrogate | str,
    *,
    integral: bool = True,
    rtol: float = 0.0,
    lam: FloatArray | None = None,
    max_rounds: int = _MAX_ROUNDS,
    n_near: int = 0,
    each: Callable[[Callable[[int], None], IndexArray], None] = _one_by_one,
) -> BatchResult:
    """Maximise ψ in every plane of a batch.

    Parameters
    ----------
    planes : PlaneBatch
    surrogate : Surrogate or str
    integral : bool
        The best label, proved; False: the optimum over the hull, which may be a mixture of two labels. Where mixtures
        are labels both are the same.
    rtol : float
        Relative gap at which the search of a plane may stop.
    lam : ndarray, optional
        A first λ for each plane, NaN where none is known.
    max_rounds : int
        Batch queries at most.
    n_near : int
        How many labels next to the best one to report.
    each : callable
        ``each(visit, some)`` visits the planes that are searched one by one; in threads, for example.

    Returns
    -------
    BatchResult

    Examples
    --------
    >>> from structopt.plane import PointPlane
    >>> from structopt.plane.batch import PlaneList
    >>> points = [(-4, 10), (0, 6), (2, 3), (3, 1), (1, 2)]
    >>> planes = PlaneList([PointPlane(points), PointPlane([(1, 1), (0, 1)])])
    >>> search_batch(planes, "slack").value
    array([9., 2.])
    >>> search_batch(planes, "slack", integral=False).value
    array([9.375, 2.   ])
    """
    psi = get(surrogate)
    check_rtol(rtol)
    whole("max_rounds", max_rounds, low=0)
    whole("n_near", n_near, low=0)
    if lam is not None and (lam := converted("lam", lam)).shape != (planes.n,):
        raise DeclarationError(f"lam has shape {lam.shape}; there are {planes.n} planes.")
    run = _Walks(planes, psi, not integral or planes.convex, rtol, lam)
    run.walk(max_rounds)
    found = run.result(n_near)
    if integral and not planes.convex:
        # Without a label to compare with, a bound of 0 up to rounding says that nothing is violated.
        some = np.flatnonzero(found.proof == "bound")
    else:
        some = np.flatnonzero(~np.isfinite(found.upper))  # a solver without a label to start from
    if some.size:
        some = _compare_fronts(run, psi, found, some)
    if some.size and integral and not planes.convex:
        some = _branch(run, psi, found, some, rtol)
    if some.size:
        _search_each(planes, psi, found, some, rtol, each)
    psi.refuse_infinite(found.value, found.h, found.g)
    return found


class _Walks:
    """The walks of all planes in step."""

    def __init__(self, planes: PlaneBatch, psi: Surrogate, mixes: bool, rtol: float, lam: FloatArray | None) -> None:
        self.planes, self.form = planes, psi.form
        n = planes.n
        H, G = planes.known()
        self.box = box = planes.box()
        limits = np.column_stack(
            [box.h_upper, box.g_upper, np.maximum(box.h_lower, psi.h_lower), np.maximum(box.g_lower, psi.g_lower)]
        )
        first = np.full(n, np.nan) if lam is None else np.ascontiguousarray(lam, dtype=float)
        self.mixes, self.rtol = mixes, rtol
        # Where nothing is violated there is no value to compare a bound with: a tiny part of ψ at the ground truth's h
        # and the largest g is rounding. NaN where there is no ground truth.
        self._nothing = np.empty(n)
        clipped_all(psi.form.numbers, np.ascontiguousarray(H[0]), box.g_upper, self._nothing)
        self._nothing[np.isnan(H[0])] = np.nan
        self._nothing *= _ROUNDING
        self.states = walk.new_states(n, len(H) + _ROOM)
        self.codes, self.lams, self.upper = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
        self.last = np.full(n, np.nan)
        self.n_known = len(H)
        # All points seen, a row for each label known and each round.
        self.seen_h, self.seen_g, self.seen_numbers = list(H), list(G), [np.full(n, k) for k in range(len(H))]
        self.rounds = self.queries = 0
        walk.begin_all(
            self.states, self.form.numbers, np.ascontiguousarray(H), np.ascontiguousarray(G), limits,
            planes.tolerance, rtol, mixes, first, self.codes, self.lams, self.upper,
        )  # fmt: skip
        self.form.check()

    def walk(self, max_rounds: int) -> None:
        """Query all open planes, round by round."""
        step, offset = self.box.g_step, self.box.g_offset
        some = np.flatnonzero(self.codes == walk.ASK)
        while some.size and self.rounds < max_rounds:
            self.states = walk.make_room_for(self.states, self.n_known + self.rounds)
            lam = self.lams[some]
            answer = self.planes.query(some, lam)
            self.last[some] = lam
            self.rounds += 1
            self.queries += some.size
            walk.advance_all(
                self.states, self.form.numbers, some, answer.bound, answer.h, answer.g, answer.number,
                step, offset, self.codes, self.lams, self.upper,
            )  # fmt: skip
            self.form.check()
            self._see(some, answer)
            some = some[self.codes[some] == walk.ASK]

    def _see(self, some: IndexArray, answer: BatchAnswers) -> None:
        n = self.planes.n
        for rows, values in ((self.seen_h, answer.h), (self.seen_g, answer.g)):
            row = np.full(n, np.nan)
            row[some] = values
            rows.append(row)
        numbers = np.full(n, -1)
        numbers[some] = answer.number
        self.seen_numbers.append(numbers)

    def open_levels(self, values: FloatArray, some: IndexArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Between which g labels better than `values` may lie, and what no label elsewhere exceeds."""
        low, high, rest = np.empty((3, some.size))
        walk.open_levels(
            self.states, self.form.numbers, some, values, self.rtol, self.box.g_step, self.box.g_offset, low, high, rest
        )
        self.form.check()
        return low, high, rest

    def result(self, n_near: int) -> BatchResult:
        n = self.planes.n
        values, places = np.empty((n, 2)), np.empty((n, 5))
        parts, near = np.empty((3, n), dtype=np.intp), np.empty((n_near, n), dtype=np.intp)
        walk.summarize(self.states, values, places, parts)
        mixed = values[:, 1] > values[:, 0]
        value = np.where(mixed, values[:, 1], values[:, 0])
        h, g = (np.where(mixed, places[:, 2 + k], places[:, k]) for k in range(2))
        if n_near:
            seen = np.array(self.seen_h), np.array(self.seen_g), np.array(self.seen_numbers)
            walk.nearest(self.form.numbers, *seen, value, h, g, near)
            self.form.check()
        share = np.where(mixed, places[:, 4], 0.0)
        numbers = np.where(mixed, parts[1:], parts[0])
        upper = np.maximum(self.upper, value)
        proof = np.full(n, "bound", dtype="<U16")
        if self.mixes:
            proof[np.isin(self.codes, (walk.OPTIMAL, walk.GAP, walk.CLOSED))] = "hull"
        else:
            proof[np.isin(self.codes, (walk.OPTIMAL, walk.GAP))] = "vertex"
            proof[self.codes == walk.LEVELS] = "levels"
            proof[(value <= 0.0) & (upper <= self._nothing)] = "vertex"
        shares = np.array([1.0 - share, share])
        return BatchResult(value, upper, h, g, numbers, shares, proof, self.last, near, self.rounds, self.queries)


def _compare_fronts(run: _Walks, psi: Surrogate, found: BatchResult, some: IndexArray) -> IndexArray:
    """Take the best of every front that is listed; returns the planes that are left."""
    planes, left = run.planes, np.ones(run.planes.n, dtype=bool)
    low, high, rest = run.open_levels(found.value, some)
    bounds = np.zeros(planes.n)
    bounds[some] = rest
    closed = low > high
    done = some[closed]
    found.upper[done], found.proof[done] = np.maximum(rest[closed], found.value[done]), "levels"
    some, low, high = some[~closed], low[~closed], high[~closed]
    for some_of_them, start, h, g, take in planes.fronts(some, low, high):
        values = np.empty(len(h))
        clipped_all(psi.form.numbers, h, g, values)
        psi.form.check()
        best = np.maximum.reduceat(values, start[:-1])
        owner = np.repeat(np.arange(len(some_of_them)), np.diff(start))
        winners = np.flatnonzero(values == best[owner])
        place = winners[np.unique(owner[winners], return_index=True)[1]]
        better = best > found.value[some_of_them]
        chosen = some_of_them[better]
        found.numbers[:, chosen] = take(np.where(better, place, -1))[better]
        found.shares[:, chosen] = [[1.0], [0.0]]
        found.value[chosen], found.h[chosen], found.g[chosen] = best[better], h[place[better]], g[place[better]]
        found.upper[some_of_them] = np.maximum(bounds[some_of_them], found.value[some_of_them])
        found.proof[some_of_them] = "front"
        left[some_of_them] = False
    return some[left[some]]


def _branch(run: _Walks, psi: Surrogate, found: BatchResult, some: IndexArray, rtol: float) -> IndexArray:
    """Branch and bound of those planes that have cheap free queries, from their hulls; returns the planes left."""
    by_oracle: dict[int, list[tuple[int, SearchPlane]]] = {}
    for i in some.tolist():
        plane = run.planes.plane(i)
        by_oracle.setdefault(id(getattr(plane, "oracle", None)), []).append((i, plane))
    left = []
    labels: dict[int, FloatArray] = {}
    for members in by_oracle.values():
        which = np.array([i for i, _ in members])
        branches = Branches.of([plane for _, plane in members])
        if branches is None:
            left.append(which)
            continue
        result = branch_and_bound(branches, psi, run.states[which], found.value[which], found.upper[which], rtol)
        better = np.flatnonzero(result.better)
        chosen = which[better]
        found.value[chosen], found.h[chosen], found.g[chosen] = (
            array[better] for array in (result.value, result.h, result.g)
        )
        labels.update(zip(chosen.tolist(), result.Z[better], strict=True))
        found.upper[which] = result.upper
        found.proof[which[result.proved]] = "branch_and_bound"
        left.append(which[~result.proved])
    _register(run.planes, found, labels)
    return np.sort(np.concatenate(left)) if left else some[:0]


def _register(planes: PlaneBatch, found: BatchResult, labels: dict[int, Any]) -> None:
    """Name labels that a search of single planes found."""
    better = np.array(sorted(labels), dtype=np.intp)
    if better.size:
        numbers = planes.add(better, [labels[i] for i in better.tolist()])
        found.numbers[:, better], found.shares[:, better] = numbers, [[1.0], [0.0]]


def _search_each(
    planes: PlaneBatch,
    psi: Surrogate,
    found: BatchResult,
    some: IndexArray,
    rtol: float,
    each: Callable[[Callable[[int], None], IndexArray], None],
) -> None:
    """The exact search of each of some planes."""
    labels: dict[int, Any] = {}

    def visit(i: int) -> None:
        start = float(found.lam[i])
        result = exact(planes.plane(i), psi, rtol=rtol, lam=start if 0.0 <= start < np.inf else None)
        if result.value > found.value[i] and result.point is not None:
            found.value[i], found.h[i], found.g[i] = result.value, result.point.h, result.point.g
            labels[i] = result.label
        found.upper[i] = max(min(found.upper[i], result.upper_bound), found.value[i])
        found.proof[i] = result.proof

    each(visit, some)
    _register(planes, found, labels)
