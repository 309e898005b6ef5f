"""The (h, g) planes of a data set, queried together by a batch search (docs/mathematics/searches).

The h of a label is its margin error, the g its task loss; for micro-F1 h counts the errors as well, and g is minus what
is on. A query is one batch inference with the losses of each example times its own λ; its answers are part tables, and
labels are identified by the number of their query. The labels around each optimum are kept for the next pass, as sparse
tables of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.model import Model
from structopt.model.batch import Batch, LabelBatch, LossBatch
from structopt.model.block_losses import BlockLosses
from structopt.model.codec import csr_table
from structopt.model.part_tables import mix_rows, take_rows
from structopt.plane.batch import BatchAnswers, BatchBox, IndexArray, PlaneFronts
from structopt.plane.points import SearchPlane
from structopt.search import BatchResult
from structopt.space.compiled import FloatArray

__all__ = ["DataPlanes"]

#: Vertices of the hull kept from pass to pass: the best one and its neighbours.
N_NEAR = 5


class _Points(NamedTuple):
    """A label of every example, its g, and what its h is besides the margin error.

    Neither g nor that part of h depends on the weights. Labels are kept as part tables, or in compact form where that
    holds mixtures, too.
    """

    labels: LabelBatch
    g: FloatArray
    shift: FloatArray


class DataPlanes:
    """The planes of all examples; between two passes it keeps labels from which to start.

    Parameters
    ----------
    batch : Batch
    truth : LabelBatch
    loss : LossBatch
        The g of a label.
    convex : bool
        Whether mixtures of labels are labels.
    offset : float
        What h is besides the margin error (`Surrogate.h_offset`).
    errors : LossBatch, optional
        Another part of h that is linear in the label.
    least : float, optional
        Labels with g above ``-least`` are left out.
    keeps : bool
        Whether there is another pass. Labels are then part tables, of which no more is kept than a label has; those of
        a single pass stay in the compact form of their codec where that makes `BatchCodec.mixture`.
    """

    def __init__(
        self,
        batch: Batch,
        truth: LabelBatch,
        loss: LossBatch,
        convex: bool,
        offset: float = 0.0,
        errors: LossBatch | None = None,
        least: float | None = None,
        keeps: bool = True,
    ) -> None:
        self._compact = batch.codec.holds_mixtures or not keeps
        self.batch, self.truth, self.loss, self.errors = batch, truth, loss, errors
        self.convex, self.offset, self.least = convex, offset, least
        self._levels: tuple[FloatArray, FloatArray] | None = None
        self._ends: list[tuple[_Points, FloatArray]] | None = None
        #: The ground truths.
        self.own = _Points(truth, np.zeros(batch.n), np.full(batch.n, offset))
        if errors is not None:
            self.own = self.points(truth)
        self._kept: list[_Points] = []
        self._lam: FloatArray | None = None

    @classmethod
    def of_counts(cls, batch: Batch, truth: LabelBatch, convex: bool, keeps: bool = True) -> DataPlanes | None:
        """The planes of micro-F1: h is the margin error plus the errors, g minus what is on (`Counts`).

        None where the codec does not count, or where fractional labels may come arbitrarily close to an empty ground
        truth, at which micro-F1 is not defined.
        """
        counts = batch.codec.counts(truth.native)
        if counts is None or (convex and not (counts.on.const < 0.0).all()):
            return None
        return cls(batch, truth, counts.on, convex, errors=counts.errors, least=counts.least, keeps=keeps)

    def at(self, tables: Sequence[FloatArray], n_jobs: int, plane: Callable[[int], SearchPlane]) -> PassPlanes:
        """The planes at the score tables of some weights; `plane` makes that of one example."""
        return PassPlanes(self, tables, n_jobs, plane)

    @property
    def start(self) -> FloatArray | None:
        """The last λ of every example."""
        return self._lam

    def chosen(self, planes: PassPlanes, found: BatchResult) -> LabelBatch:
        """The labels found."""
        numbers = np.maximum(found.numbers, 0)  # where nothing is violated, the ground truth
        return planes.mixture(numbers, np.where(found.numbers >= 0, found.shares, [[1.0], [0.0]]))

    def keep(self, planes: PassPlanes, found: BatchResult) -> None:
        """Keep the labels around those found, for the next pass to start from."""
        self._lam = found.lam if self._lam is None else np.where(np.isnan(found.lam), self._lam, found.lam)
        near, every = np.maximum(found.near, 0), np.arange(self.batch.n)
        g = np.array([label.g for label in planes.labels])[near, every]
        shift = np.array([label.shift for label in planes.labels])[near, every]
        self._kept = [_Points(*point) for point in zip(planes.taken(near), g, shift, strict=True)]

    def points(self, labels: LabelBatch) -> _Points:
        """Where labels lie, but for their margin errors."""
        shift = np.full(self.batch.n, self.offset)
        if self.errors is not None:
            shift += self.batch.loss_values(self.errors, labels)
        kept = labels if self._compact else LabelBatch(labels.tables, None)
        return _Points(kept, self.batch.loss_values(self.loss, labels), shift)

    def ends(self, tables: Sequence[FloatArray], n_jobs: int) -> list[tuple[_Points, FloatArray]]:
        """The label of largest g of every example, whatever the weights, and what no g exceeds.

        For micro-F1 the label of smallest g as well, and what no g is below: where all labels have as many variables
        on, one query answers everything.
        """
        if self._ends is None:
            nothing = [np.zeros_like(table) for table in tables]
            self._ends = []
            for sign in (1.0,) if self.errors is None else (1.0, -1.0):
                labels, _ = self.batch.argmax(nothing, self.loss, sign, n_jobs=n_jobs)
                point = self.points(labels)
                limit = point.g if labels.slack is None else point.g + sign * labels.slack
                self._ends.append((point, limit if self.least is None else np.minimum(limit, -self.least)))
        return self._ends

    def levels(self) -> tuple[FloatArray, FloatArray]:
        """Step and one of the values that each example's loss takes; step 0 where they are on no lattice."""
        if self._levels is None:
            on_lattice = not self.convex and self.errors is None and _loss_of_integers(self.batch)
            step = self.batch.loss_steps(self.loss) if on_lattice else np.zeros(self.batch.n)
            self._levels = step, self.batch.loss_values(self.loss, self.truth)
        return self._levels


class PassPlanes:
    """The `PlaneBatch` of one pass.

    Parameters
    ----------
    data : DataPlanes
    tables : sequence of ndarray
        Scores of all parts.
    n_jobs : int
    plane : callable
        Makes the plane of one example.
    """

    #: Relative accuracy of the inferences: solvers of linear programs are not better.
    tolerance = 1e-9

    def __init__(
        self, data: DataPlanes, tables: Sequence[FloatArray], n_jobs: int, plane: Callable[[int], SearchPlane]
    ) -> None:
        self._data, self._tables, self._n_jobs, self._plane = data, tables, n_jobs, plane
        batch = data.batch
        self.n, self.convex = batch.n, data.convex
        self._score = batch.dot(tables, data.truth)
        ends = data.ends(tables, n_jobs)
        self._largest, self._smallest = ends[0][1], ends[-1][1] if len(ends) > 1 else np.zeros(self.n)
        #: The label of each number: the ground truth, those of largest and smallest g, those kept, and the answers.
        self.labels = [data.own, *(point for point, _ in ends), *data._kept]
        self._stacks: tuple[int, list[_Stack]] | None = None

    def margins(self, labels: LabelBatch) -> FloatArray:
        """The margin errors of labels."""
        return self._data.batch.dot(self._tables, labels) - self._score

    def _heights(self, label: _Points) -> FloatArray:
        return self.margins(label.labels) + label.shift

    def _is_void(self, g: FloatArray) -> Any:
        """Labels that are left out: those with nothing on, of micro-F1."""
        least = self._data.least
        return np.zeros(g.shape, dtype=np.bool_) if least is None else g > -0.5 * least

    def box(self) -> BatchBox:
        free = np.full(self.n, np.inf)
        return BatchBox(-free, free, self._smallest, self._largest, *self._data.levels())

    def known(self) -> tuple[FloatArray, FloatArray]:
        H = np.array([self.labels[0].shift, *(self._heights(label) for label in self.labels[1:])])
        G = np.array([label.g for label in self.labels])
        return np.where(self._is_void(G), np.nan, H), G

    def query(self, some: IndexArray, lam: FloatArray) -> BatchAnswers:
        far = np.isinf(lam)
        if not far.any():
            return self._ask(some, lam)
        # The label of largest g does not depend on the weights: it is known.
        h = np.where(far, self._heights(self.labels[1])[some], 0.0)
        g, bound, number = self.labels[1].g[some], self._largest[some], np.ones(some.size, dtype=np.intp)
        h[self._is_void(g)] = 0.0
        if not far.all():
            rest = self._ask(some[~far], lam[~far])
            g, bound = g.copy(), bound.copy()
            h[~far], g[~far], bound[~far], number[~far] = rest
        return BatchAnswers(h, g, bound, number)

    def _ask(self, some: IndexArray, lam: FloatArray) -> BatchAnswers:
        factors = np.ones(self.n)
        factors[some] = lam
        data, loss = self._data, self._data.loss
        if data.errors is not None:
            loss, factors = data.errors.plus(loss, factors), np.ones(self.n)
        chosen = None if some.size == self.n else some
        labels, _ = data.batch.argmax(self._tables, loss, factors, n_jobs=self._n_jobs, examples=chosen)
        point = data.points(labels)
        h, g = self._heights(point)[some], point.g[some]
        bound = h + lam * g
        if labels.slack is not None:
            bound += labels.slack[some]  # what is proved, where the solver stopped early
        # The line through a label that is left out bounds the others, too; it is no label itself.
        h[self._is_void(g)] = 0.0
        return BatchAnswers(h, g, bound, self._add(point, some))

    def _add(self, label: _Points, some: IndexArray) -> IndexArray:
        self.labels.append(label)
        return np.full(some.size, len(self.labels) - 1, dtype=np.intp)

    def fronts(self, some: IndexArray, low: FloatArray, high: FloatArray) -> Iterator[PlaneFronts]:
        """The exact fronts of some examples, in blocks that fit into memory; none where the model has no fronts."""
        data = self._data
        if data.errors is not None or data.batch.front_cost(data.loss) is None:
            return
        for examples, front in data.batch.fronts(
            self._tables, data.loss, data.truth, n_jobs=self._n_jobs, examples=some, between=(low, high)
        ):
            yield PlaneFronts(
                examples, front.ptr, front.h + data.offset, front.g, partial(self._take, examples, front.decode)
            )

    def _take(self, examples: IndexArray, decode: Callable[[IndexArray], Any], places: IndexArray) -> IndexArray:
        batch = self._data.batch
        labels = batch.labels(batch.codec.spread([decode(places)], examples))
        return self._add(_Points(labels, np.zeros(self.n), np.zeros(self.n)), examples)

    def plane(self, i: int) -> SearchPlane:
        """The plane of one example."""
        return self._plane(i)

    def add(self, some: IndexArray, labels: Sequence[Any]) -> IndexArray:
        batch = self._data.batch
        points: list[Any] = [None] * self.n
        for i, label in zip(some.tolist(), labels, strict=True):
            points[i] = np.asarray(label, dtype=np.float64)
        tables = batch.fold_some(points, some)
        return self._add(_Points(LabelBatch(tables, None), np.zeros(self.n), np.zeros(self.n)), some)

    def mixture(self, numbers: IndexArray, shares: FloatArray) -> LabelBatch:
        """``sum_k shares[k, i] * label numbers[k, i]`` of every example."""
        batch = self._data.batch
        compact = batch.codec.mixture([label.labels.native for label in self.labels], numbers, shares)
        if compact is not None:
            return batch.labels(compact)
        tables = [
            _mixed(stack, numbers, shares, start, table.shape)
            for stack, start, table in zip(
                self._stacked_labels(), batch.starts, self.labels[0].labels.tables, strict=True
            )
        ]
        return LabelBatch(tables, None)

    def taken(self, numbers: IndexArray) -> list[LabelBatch]:
        """For every row of `numbers` the labels of these numbers."""
        batch, whole = self._data.batch, np.array([np.ones(self.n), np.zeros(self.n)])
        natives = [label.labels.native for label in self.labels]
        compact = [batch.codec.mixture(natives, np.array([row, row]), whole) for row in numbers]
        if all(native is not None for native in compact):
            return [batch.labels(native) for native in compact]
        found: list[list[sp.csr_array]] = [[] for _ in numbers]
        for stack, start, table in zip(self._stacked_labels(), batch.starts, self.labels[0].labels.tables, strict=True):
            for tables, taken in zip(found, _taken(stack, numbers, start, table.shape), strict=True):
                tables.append(taken)
        return [LabelBatch(tables, None) for tables in found]

    def _stacked_labels(self) -> list[_Stack]:
        """The tables of all labels, for every term."""
        if self._stacks is None or self._stacks[0] != len(self.labels):
            terms = range(len(self._data.batch.starts))
            self._stacks = (
                len(self.labels),
                [_stacked([label.labels.tables[t] for label in self.labels]) for t in terms],
            )
        return self._stacks[1]


def _loss_of_integers(batch: Batch) -> bool:
    """Return whether every variable of a block with a loss is an integer."""
    model, x = batch.model, batch.input(0)
    declared = type(model).block_losses is Model.block_losses
    if model._loss is None and declared:
        return bool(model.space(x).integrality.all())  # a loss of its own, perhaps of all of them
    space = model.weight_space(x)
    losses = BlockLosses(space, model._loss) if declared else model.block_losses(x)
    return all(bool(space.integrality[space[name].slice].all()) for name in losses)


# Tables behind one another: where each one's row pointers begin, and these, the indices and the data.
_Stack = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int32], FloatArray]


def _stacked(tables: Sequence[sp.csr_array]) -> _Stack:
    sizes = np.concatenate([[0], np.cumsum([table.nnz for table in tables])])
    indptr = np.concatenate([table.indptr + size for table, size in zip(tables, sizes[:-1], strict=True)])
    first = np.cumsum([0] + [len(table.indptr) for table in tables[:-1]])
    indices = np.concatenate([table.indices for table in tables], dtype=np.int32, casting="unsafe")
    data = np.concatenate([table.data for table in tables], dtype=np.float64)
    return first, indptr.astype(np.int64, copy=False), indices, data


def _taken(
    stack: _Stack, sources: npt.NDArray[np.intp], start: npt.NDArray[np.intp], shape: tuple[int, int]
) -> list[sp.csr_array]:
    first, indptr, indices, data = stack
    row = first[np.repeat(sources, np.diff(start), axis=1)] + np.arange(shape[0])
    ends = np.concatenate([[0], np.cumsum((indptr[row + 1] - indptr[row]).sum(axis=1))])
    out = np.empty((len(sources), shape[0] + 1), dtype=np.int32), np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1])
    take_rows(sources, start, first, indptr, indices, data, out)
    return [
        csr_table(out[2][a:b], out[1][a:b], pointers, shape)
        for pointers, a, b in zip(out[0], ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]


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
    if end < size:  # parts that several labels share: a table that is kept must not hold on to their room
        out = out[0], out[1][:end].copy(), out[2][:end].copy()
    return csr_table(out[2], out[1], out[0], shape)
