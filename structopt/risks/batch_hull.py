"""Slack rescaling of a whole batch: the convex hull search of every example in step (docs/mathematics/searches).

One round asks the batch oracle for all open examples at once, each at its own λ, so that a search costs a few batch
inferences and no Python per example. With ``h = 1 + margin`` and ``g = loss`` the points known of an example span an
inner hull; the next λ is the slope of the hyperbola ``h g = const`` at the largest product on it, ``λ = h*/g*``. Either
the answer lies above the line ``h + λ g`` through that point, and the inner hull grows, or the point is the optimum
over the hull: no label has a product above ``max(h + λ g)² / 4λ``. Over a relaxation that point is the most violated
label itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.model.batch import Batch, LabelBatch, LossBatch
from structopt.model.part_tables import mix_rows
from structopt.search.inner_hull import join
from structopt.space.compiled import FloatArray

__all__ = ["HullBatch", "HullSearch"]

_MAX_ROUNDS = 60
# Labels kept from pass to pass, besides those of the optimum.
_KEPT = 3
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


class HullSearch:
    """Finds the largest ``(1 + margin) * loss`` of every example of a batch; keeps labels from pass to pass.

    Parameters
    ----------
    batch : Batch
    truth : LabelBatch
    loss : LossBatch
    """

    def __init__(self, batch: Batch, truth: LabelBatch, loss: LossBatch) -> None:
        self.batch, self.truth, self.loss = batch, truth, loss
        self._worst: tuple[_Points, FloatArray] | None = None
        self._last: list[_Points] = []

    @property
    def possible(self) -> bool:
        """Whether this family's losses can be weighed example by example."""
        return self._weigh(np.ones(self.batch.n)) is not None

    def run(self, tables: Sequence[FloatArray], *, integral: bool, rtol: float, n_jobs: int = 1) -> HullBatch:
        """Search all examples at the given score tables."""
        search = _Lockstep(self, tables, n_jobs)
        search.start(*self._farthest(tables, n_jobs), self._last)
        while search.open.any() and search.rounds < _MAX_ROUNDS:
            search.step(rtol, integral)
        found, self._last = search.result(integral)
        return found

    def _farthest(self, tables: Sequence[FloatArray], n_jobs: int) -> tuple[_Points, FloatArray]:
        """The label of largest loss of every example: the right end of its hull, whatever the weights.

        With it what no loss exceeds, which is more where the solver stopped early.
        """
        if self._worst is None:
            nothing = [np.zeros_like(table) for table in tables]
            labels, _ = self.batch.argmax(nothing, self.loss, n_jobs=n_jobs)
            g = self.batch.loss_values(self.loss, labels)
            self._worst = (labels.tables, g), g if labels.slack is None else g + labels.slack
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
    """The state of all searches: the points known, the largest product on their hulls, and a bound on all products."""

    def __init__(self, search: HullSearch, tables: Sequence[FloatArray], n_jobs: int) -> None:
        self._search, self._tables, self._n_jobs = search, tables, n_jobs
        batch = search.batch
        n = batch.n
        self._score = batch.dot(tables, search.truth)
        # Every point of the plane is a label of one of these batches; examples without one have h = nan.
        self._batches: list[list[sp.csr_array]] = []
        self._h, self._g = np.empty((8, n)), np.empty((8, n))
        self._every = np.arange(n)
        # The largest product on the inner hull: a mixture of the labels of two batches.
        self.value, self.h, self.g = np.zeros(n), np.ones(n), np.zeros(n)
        self.ends, self.share = np.zeros((2, n), dtype=np.intp), np.zeros(n)
        self.best, self.best_source = np.zeros(n), np.zeros(n, dtype=np.intp)  # of the labels alone
        self.upper = np.full(n, np.inf)
        self.open = np.ones(n, dtype=bool)
        self.rounds = 0
        self._terms = range(len(batch.starts))
        self._add(self._every, search.truth.tables, np.ones(n), np.zeros(n))

    def _heights(self, tables: list[sp.csr_array]) -> FloatArray:
        return 1.0 + self._search.batch.dot(self._tables, LabelBatch(tables, None)) - self._score

    def start(self, farthest: _Points, largest: FloatArray, last: Sequence[_Points]) -> None:
        """Besides the truth, the label of largest loss and those of the last pass's optimum are known."""
        self.open = farthest[1] > 0
        # No label has a loss; where only none was found, nothing is known.
        self.upper[~self.open & (largest <= 1e-12)] = 0.0
        for tables, g in (farthest, *last):
            self._add(self._every, tables, self._heights(tables), g)

    def _add(self, some: npt.NDArray[np.intp], tables: list[sp.csr_array], h: FloatArray, g: FloatArray) -> None:
        """Points of some examples join their inner hulls."""
        new = len(self._batches)
        self._batches.append(tables)
        if new == len(self._h):
            self._h, self._g = (np.concatenate([known, np.empty_like(known)]) for known in (self._h, self._g))
        self._h[new], self._g[new] = np.nan, 0.0
        self._h[new, some], self._g[new, some] = h, g
        product = np.where(h > 0, h * g, 0.0)
        better = product > self.best[some]
        self.best[some[better]], self.best_source[some[better]] = product[better], new
        join(new, some, self._h, self._g, self.value, self.h, self.g, self.share, self.ends)

    def step(self, rtol: float, integral: bool) -> None:
        """One batch inference of all open examples, each at its λ."""
        some = np.flatnonzero(self.open)
        search = self._search
        lam = self.h[some] / self.g[some]
        factors = np.ones(len(self.open))
        factors[some] = lam
        loss = search._weigh(factors)
        assert loss is not None
        labels, _ = search.batch.argmax(self._tables, loss, n_jobs=self._n_jobs, examples=some)
        self.rounds += 1
        h = self._heights(labels.tables)[some]
        g = search.batch.loss_values(search.loss, labels)[some]
        height = h + lam * g
        if labels.slack is not None:
            height += labels.slack[some]  # what is proved, where the solver stopped early
        line = self.h[some] + lam * self.g[some]
        proved = height <= line + _ABOVE * np.maximum(1.0, np.abs(height))
        self.upper[some] = np.minimum(self.upper[some], np.maximum(np.maximum(height, line), 0.0) ** 2 / (4.0 * lam))
        self._add(some, labels.tables, h, g)
        known = (self.best if integral else self.value)[some]
        self.open[some[proved | (self.upper[some] <= known * (1.0 + rtol))]] = False

    # ---- results ---------------------------------------------------------------------------------

    def result(self, integral: bool) -> tuple[HullBatch, list[_Points]]:
        """The best point on the hull, or the best label seen; and the labels from which to start the next pass."""
        n = self._every
        # Over a relaxation every mixture is a label, whether or not its ends span an edge.
        mixed = (self.value > self.best * (1.0 + 1e-12)) & (not integral)
        h = np.where(mixed, self.h, self._h[self.best_source, n])
        g = np.where(mixed, self.g, self._g[self.best_source, n])
        stacks = [_stacked([tables[t] for tables in self._batches]) for t in self._terms]
        sources = np.where(mixed, self.ends, self.best_source)
        share = np.where(mixed, self.share, 0.0)
        tables = self._mixture(stacks, sources, np.array([1.0 - share, share]))
        alone = np.array([np.ones(len(n))])
        chosen = (*self.ends, self.best_source, *self._nearest(_KEPT))
        kept = [(self._mixture(stacks, source[None], alone), self._g[source, n]) for source in chosen]
        found = np.where(h > 0, h * g, 0.0)
        return HullBatch(tables, h, g, np.maximum(self.upper, found), self.rounds), kept

    def _nearest(self, k: int) -> npt.NDArray[np.intp]:
        """Sources of the points that are next to the supporting line at the optimum, besides its own."""
        m = len(self._batches)
        lam = self.h / np.where(self.g > 0, self.g, 1.0)
        below = self.h + lam * self.g - self._h[:m] - lam * self._g[:m]
        below[np.isnan(below)] = np.inf
        for source in (*self.ends, self.best_source):
            same = (self._h[:m] == self._h[source, self._every]) & (self._g[:m] == self._g[source, self._every])
            below[same] = np.inf
        order = np.argsort(below, axis=0)[:k]
        return np.where(np.isfinite(np.take_along_axis(below, order, axis=0)), order, self.ends[0])

    def _mixture(
        self, stacks: Sequence[_Stack], sources: npt.NDArray[np.intp], shares: FloatArray
    ) -> list[sp.csr_array]:
        """``sum_k shares[k, i] * label of batch sources[k, i]`` of every example, as part tables."""
        return [
            _mixed(stack, sources, shares, start, self._batches[0][t].shape)
            for t, (stack, start) in enumerate(zip(stacks, self._search.batch.starts, strict=True))
        ]


# Tables behind one another: where each one's row pointers begin, and these, the indices and the data.
_Stack = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32], FloatArray]


def _stacked(tables: Sequence[sp.csr_array]) -> _Stack:
    sizes = np.concatenate([[0], np.cumsum([table.nnz for table in tables])])
    indptr = np.concatenate([table.indptr + size for table, size in zip(tables, sizes[:-1], strict=True)])
    first = np.cumsum([0] + [len(table.indptr) for table in tables[:-1]])
    indices = np.concatenate([table.indices for table in tables], dtype=np.int32, casting="unsafe")
    data = np.concatenate([table.data for table in tables], dtype=np.float64)
    return first, indptr.astype(np.int64, copy=False), indices, data


def _mixed(
    stack: _Stack,
    sources: npt.NDArray[np.intp],
    shares: FloatArray,
    start: npt.NDArray[np.intp],
    shape: tuple[int, int],
) -> sp.csr_array:
    first, indptr, indices, data = stack
    per_row = np.repeat(sources, np.diff(start), axis=1)
    row = first[per_row] + np.arange(shape[0])
    size = int((indptr[row + 1] - indptr[row]).sum())
    out = np.empty(shape[0] + 1, dtype=np.int32), np.empty(size, dtype=np.int32), np.empty(size)
    end = mix_rows(sources, shares, start, first, indptr, indices, data, np.zeros(shape[1], dtype=np.int64), out)
    return sp.csr_array((out[2][:end], out[1][:end], out[0]), shape=shape)
