"""Slack rescaling of a whole batch: the convex hull search of every example in step (MATH.md 3, 5).

One round asks the batch oracle for all open examples at once, each at its own λ, so that a search costs a few batch
inferences and no Python per example. With ``h = 1 + margin`` and ``g = loss`` the search closes in on the edge of the
upper-right hull that holds the largest product: the answer at λ tells on which side of λ it lies (MATH.md 3.1), and
the next λ is the slope between the two ends. Where the edge is known to be on the hull, its best point is the optimum
over the hull; over a relaxation that is the most violated label itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.batch import Batch, LabelBatch, LossBatch
from structopt.compiled import FloatArray

__all__ = ["HullBatch", "HullSearch"]

_MAX_ROUNDS = 60
_ABOVE = 1e-10  # how far above the chord an answer must lie to count, relatively


@dataclass(frozen=True, eq=False)
class HullBatch:
    """What the search found for every example.

    Attributes
    ----------
    tables : list of csr_array
        Part tables of the best point on the hull (a mixture of two labels where the optimum lies inside an edge), or of
        the best label, if integral ones were asked for.
    h, g : ndarray
        ``1 + margin`` and loss of that point.
    upper : ndarray
        No label has a larger product.
    rounds : int
        Batch inferences.
    """

    tables: list[sp.csr_array]
    h: FloatArray
    g: FloatArray
    upper: FloatArray
    rounds: int


# Labels of all examples as part tables, and their losses, which do not depend on the weights.
_Points = tuple[list[sp.csr_array], FloatArray]


@dataclass(frozen=True, eq=False)
class _Optimum:
    """Where a search ended: the two ends, the best label, and whether a mixture of the ends was better than it."""

    left: _Points
    right: _Points
    best: _Points
    mixed: npt.NDArray[np.bool_]


class HullSearch:
    """Finds the largest ``(1 + margin) * loss`` of every example of one batch; remembers edges from pass to pass.

    Parameters
    ----------
    batch : Batch
    truth : LabelBatch
    loss : LossBatch
    """

    def __init__(self, batch: Batch, truth: LabelBatch, loss: LossBatch) -> None:
        self.batch, self.truth, self.loss = batch, truth, loss
        self._worst: _Points | None = None
        self._last: _Optimum | None = None

    @property
    def possible(self) -> bool:
        """Whether this family's losses can be weighed example by example."""
        return self._weigh(np.ones(self.batch.n)) is not None

    def run(self, tables: Sequence[FloatArray], *, integral: bool, rtol: float, n_jobs: int = 1) -> HullBatch:
        """Search all examples at the given score tables."""
        search = _Lockstep(self, tables, n_jobs)
        search.start(self._farthest(tables, n_jobs), self._last)
        while search.open.any() and search.rounds < _MAX_ROUNDS:
            search.step(rtol, integral)
        found = search.result(integral)
        self._last = search.optimum()
        return found

    def _farthest(self, tables: Sequence[FloatArray], n_jobs: int) -> _Points:
        """The label of largest loss of every example: the right end of its hull, whatever the weights."""
        if self._worst is None:
            nothing = [np.zeros_like(table) for table in tables]
            labels, _ = self.batch.argmax(nothing, self.loss, n_jobs=n_jobs)
            self._worst = labels.tables, self.batch.loss_values(self.loss, labels)
        return self._worst

    def _weigh(self, factors: FloatArray) -> LossBatch | None:
        """The losses times one factor per example."""
        coef, const = self.loss.coef, self.loss.const * factors
        if isinstance(coef, list):
            return LossBatch([c * f for c, f in zip(coef, factors, strict=True)], const)
        if not isinstance(coef, np.ndarray):
            return None
        start = self.batch.starts[0]
        if len(coef) == self.batch.n:
            rows = factors
        elif len(coef) == start[-1]:
            rows = np.repeat(factors, np.diff(start))
        else:
            return None
        return LossBatch(coef * rows.reshape(-1, *[1] * (coef.ndim - 1)), const)


class _Lockstep:
    """The state of all searches: two ends of the hull's part that holds the optimum, and the interval of λ."""

    def __init__(self, search: HullSearch, tables: Sequence[FloatArray], n_jobs: int) -> None:
        self._search, self._tables, self._n_jobs = search, tables, n_jobs
        batch = search.batch
        n = batch.n
        self._score = batch.dot(tables, search.truth)
        # Every point of the plane is a label of one of these batches.
        self._batches: list[list[sp.csr_array]] = [search.truth.tables]
        self._every = np.arange(n)
        self.h, self.g = np.ones((2, n)), np.zeros((2, n))  # ends: 0 left (large h), 1 right (large g)
        self.source = np.zeros((2, n), dtype=np.intp)
        self.low, self.high = np.zeros(n), np.full(n, np.inf)
        self.best, self.best_h, self.best_g = np.zeros(n), np.ones(n), np.zeros(n)
        self.best_source = np.zeros(n, dtype=np.intp)
        self.upper = np.full(n, np.inf)
        self.edge = np.zeros(n, dtype=bool)  # the two ends are known to span an edge of the hull
        self.open = np.ones(n, dtype=bool)
        self.lam = np.ones(n)
        self.rounds = 0
        self._terms = range(len(batch.starts))
        self._picked: tuple[list[sp.csr_array], list[sp.csr_array], list[sp.csr_array]] | None = None

    def _heights(self, tables: list[sp.csr_array]) -> FloatArray:
        return 1.0 + self._search.batch.dot(self._tables, LabelBatch(tables, None)) - self._score

    def start(
        self,
        farthest: _Points,
        last: _Optimum | None,
    ) -> None:
        """The truth and the label of largest loss are the ends; the first λ is that of the last pass's optimum."""
        tables, g = farthest
        self._put(1, self._every, self._heights(tables), g, self._add(tables))
        self.open = g > 0
        self.upper[~self.open] = 0.0
        self._consider(self._every, self.h[1], g, self.source[1])
        self.lam = np.where(g > 0, np.maximum(self.h[1].max(), 1.0) / np.maximum(g, 1e-300), 1.0)
        if last is None:
            return
        ends = []
        for tables_then, g_then in (last.left, last.right, last.best):
            h_now, source = self._heights(tables_then), self._add(tables_then)
            self._consider(self._every, h_now, g_then, source)
            ends.append((h_now, g_then, source))
        (h_left, g_left, s_left), (h_right, g_right, s_right), _ = ends
        # Inside an edge the edge's slope proves the optimum with one query, at a vertex its tangent h/g does.
        usable = last.mixed & (g_right > g_left) & (h_left > h_right)
        slope = (h_left - h_right) / np.where(usable, g_right - g_left, 1.0)
        vertex = self.best > 0
        tangent = self.best_h / np.where(vertex, self.best_g, 1.0)
        self.lam = np.where(usable, slope, np.where(vertex, tangent, self.lam))
        self._trial = (usable, h_left, g_left, s_left, h_right, g_right, s_right)

    _trial: tuple[npt.NDArray[np.bool_], FloatArray, FloatArray, int, FloatArray, FloatArray, int] | None = None

    def _add(self, tables: list[sp.csr_array]) -> int:
        self._batches.append(tables)
        return len(self._batches) - 1

    def _put(self, end: int, some: npt.NDArray[np.intp], h: FloatArray, g: FloatArray, source: int) -> None:
        self.h[end, some], self.g[end, some], self.source[end, some] = h, g, source

    def _consider(self, some: npt.NDArray[np.intp], h: FloatArray, g: FloatArray, source: npt.ArrayLike) -> None:
        value = np.where(h > 0, h * g, 0.0)
        better = value > self.best[some]
        at = some[better]
        self.best[at], self.best_h[at], self.best_g[at] = value[better], h[better], g[better]
        self.best_source[at] = np.broadcast_to(np.asarray(source), some.shape)[better]

    def step(self, rtol: float, integral: bool) -> None:
        """One batch inference of all open examples, each at its λ."""
        some = np.flatnonzero(self.open)
        search = self._search
        loss = search._weigh(np.where(self.open, self.lam, 1.0))
        assert loss is not None
        labels, _ = search.batch.argmax(self._tables, loss, n_jobs=self._n_jobs, examples=some)
        self.rounds += 1
        h = self._heights(labels.tables)[some]
        g = search.batch.loss_values(search.loss, labels)[some]
        source = self._add(labels.tables)
        lam = self.lam[some]
        height = h + lam * g
        self._consider(some, h, g, source)
        self.upper[some] = np.minimum(self.upper[some], np.maximum(height, 0.0) ** 2 / (4.0 * lam))
        self._confirm_trial(some, lam, height, 0.0 if integral else rtol)
        ends = self.h[:, some] + lam * self.g[:, some]
        flat = height <= ends.max(axis=0) + _ABOVE * np.maximum(1.0, np.abs(height))
        on_edge = flat & (np.abs(ends[0] - ends[1]) <= 2 * _ABOVE * np.maximum(1.0, np.abs(height)))
        self.edge[some[on_edge]] = True
        self._narrow(some[~on_edge], h[~on_edge], g[~on_edge], lam[~on_edge], source)
        self._close(some, on_edge, rtol, integral)
        self._next()

    def _confirm_trial(self, some: npt.NDArray[np.intp], lam: FloatArray, height: FloatArray, rtol: float) -> None:
        """Where last pass's edge still supports the hull, take its ends; an optimum inside it closes the search.

        Over a relaxation an edge that supports it up to `rtol` will do, since its points are labels.
        """
        if self._trial is None:
            return
        usable, h_left, g_left, s_left, h_right, g_right, s_right = self._trial
        self._trial = None
        value = h_left[some] + lam * g_left[some]
        holds = usable[some] & (height <= value + np.maximum(_ABOVE, 0.25 * rtol) * np.maximum(1.0, np.abs(height)))
        tangent = height / (2.0 * lam)  # the g of the tangent point on the line h + lam g = height
        inside = holds & (tangent >= g_left[some]) & (tangent <= g_right[some])
        at = some[inside]
        self._put(0, at, h_left[at], g_left[at], s_left)
        self._put(1, at, h_right[at], g_right[at], s_right)
        self.low[at], self.high[at] = 0.0, np.inf
        beyond_left = some[holds & (tangent < g_left[some])]
        self._put(1, beyond_left, h_left[beyond_left], g_left[beyond_left], s_left)
        self.high[beyond_left] = self.lam[beyond_left]
        beyond_right = some[holds & (tangent > g_right[some])]
        self._put(0, beyond_right, h_right[beyond_right], g_right[beyond_right], s_right)
        self.low[beyond_right] = self.lam[beyond_right]

    def _narrow(self, some: npt.NDArray[np.intp], h: FloatArray, g: FloatArray, lam: FloatArray, source: int) -> None:
        """The optimum lies at larger λ iff ``lam g <= h`` at the answer (MATH.md 3.1)."""
        up = lam * g <= h
        inside = (lam > self.low[some]) & (lam < self.high[some])
        right, left = some[up & inside], some[~up & inside]
        self._put(0, right, h[up & inside], g[up & inside], source)
        self.low[right] = lam[up & inside]
        self._put(1, left, h[~up & inside], g[~up & inside], source)
        self.high[left] = lam[~up & inside]

    def _close(self, some: npt.NDArray[np.intp], on_edge: npt.NDArray[np.bool_], rtol: float, integral: bool) -> None:
        _, value = self._on_edge(some)
        at = some[on_edge]
        self.upper[at] = np.minimum(self.upper[at], np.maximum(value[on_edge], self.best[at]))
        known = self.best[some] if integral else np.maximum(self.best[some], value)
        tight = self.upper[some] <= known * (1.0 + rtol)
        narrow = np.isfinite(self.high[some]) & (self.high[some] - self.low[some] <= 1e-12 * self.high[some])
        # One vertex answers from both sides of the optimal λ: it is the optimum.
        same = (self.h[0, some] == self.h[1, some]) & (self.g[0, some] == self.g[1, some])
        self.upper[some[same]] = self.best[some[same]]
        self.open[some[on_edge | tight | narrow | same]] = False

    def _on_edge(self, at: npt.NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """The largest product between the two ends, and where (MATH.md 5, segment maximum)."""
        h, g = self.h[:, at], self.g[:, at]
        dh, dg = h[1] - h[0], g[1] - g[0]
        bend = dh * dg
        falls = bend < 0
        t = np.clip(-(h[0] * dg + g[0] * dh) / np.where(falls, 2.0 * bend, 1.0), 0.0, 1.0)
        ends = h * g
        t = np.where(falls, t, np.where(ends[1] >= ends[0], 1.0, 0.0))
        return t, np.maximum((h[0] + t * dh) * (g[0] + t * dg), 0.0)

    def _next(self) -> None:
        """The slope between the ends where it lies in the interval, else a middle of it."""
        dg = self.g[1] - self.g[0]
        slope = (self.h[0] - self.h[1]) / np.where(dg > 0, dg, 1.0)
        fits = (dg > 0) & (slope > self.low) & (slope < self.high)
        middle = np.where(
            np.isinf(self.high),
            2.0 * np.maximum(self.low, 1e-3),
            np.where(self.low > 0, np.sqrt(self.low * np.where(np.isinf(self.high), 1.0, self.high)), 0.5 * self.high),
        )
        self.lam = np.where(fits, slope, middle)

    def _mixed(self) -> tuple[npt.NDArray[np.bool_], FloatArray]:
        """Where a mixture of the ends is better than every label seen, and which."""
        t, value = self._on_edge(self._every)
        return value > self.best * (1.0 + 1e-12), t

    # ---- results ---------------------------------------------------------------------------------

    def result(self, integral: bool) -> HullBatch:
        """The best point on the hull, or the best label seen."""
        mixed, t = self._mixed()
        # Over a relaxation every mixture is a label, whether or not its ends span an edge.
        mixed = mixed & (not integral)
        h = np.where(mixed, self.h[0] + t * (self.h[1] - self.h[0]), self.best_h)
        g = np.where(mixed, self.g[0] + t * (self.g[1] - self.g[0]), self.best_g)
        left, right, best = self._chosen()
        shares = (np.where(mixed, 1.0 - t, 0.0), np.where(mixed, t, 0.0), np.where(mixed, 0.0, 1.0))
        tables = best if not mixed.any() else self._mixture((left, right, best), shares)
        found = np.where(h > 0, h * g, 0.0)
        return HullBatch(tables, h, g, np.maximum(self.upper, found), self.rounds)

    def optimum(self) -> _Optimum:
        """Where every search ended, for the next pass."""
        left, right, best = self._chosen()
        return _Optimum(
            (left, self.g[0].copy()), (right, self.g[1].copy()), (best, self.best_g.copy()), self._mixed()[0]
        )

    def _chosen(self) -> tuple[list[sp.csr_array], list[sp.csr_array], list[sp.csr_array]]:
        """The part tables of the left ends, the right ends and the best labels."""
        if self._picked is None:
            stacks = [sp.vstack([tables[t] for tables in self._batches], format="csr") for t in self._terms]
            self._picked = tuple(  # type: ignore[assignment]
                [self._pick(stacks[t], t, source) for t in self._terms] for source in (*self.source, self.best_source)
            )
        assert self._picked is not None
        return self._picked

    def _pick(self, stack: sp.csr_array, t: int, source: npt.NDArray[np.intp]) -> sp.csr_array:
        start = self._search.batch.starts[t]
        row = np.arange(start[-1])
        return sp.csr_array(stack[np.repeat(source, np.diff(start)) * start[-1] + row])

    def _mixture(self, points: Sequence[list[sp.csr_array]], shares: Sequence[FloatArray]) -> list[sp.csr_array]:
        """``sum_k share_k[i] * point_k[i]`` as part tables."""
        mixed = []
        for t in self._terms:
            counts = np.diff(self._search.batch.starts[t])
            total = sum(
                _scaled(point[t], np.repeat(share, counts)) for point, share in zip(points, shares, strict=True)
            )
            table = sp.csr_array(total)
            table.eliminate_zeros()
            mixed.append(table)
        return mixed


def _scaled(table: sp.csr_array, factors: FloatArray) -> sp.csr_array:
    """The rows of a table times one factor each."""
    data = table.data * np.repeat(factors, np.diff(table.indptr))
    return sp.csr_array((data, table.indices, table.indptr), shape=table.shape)
