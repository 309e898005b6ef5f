"""The (h, g) planes of a data set, queried together by a batch search (docs/mathematics/searches).

The h of a label is its margin error, the g its task loss. A query is one batch inference with the losses of each
example times its own λ; its answers are part tables, and labels are identified by the number of their query. The
labels around each optimum are kept for the next pass, as sparse tables of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.model import Model
from structopt.model.batch import Batch, LabelBatch, LossBatch
from structopt.model.codec import csr_table
from structopt.model.part_tables import mix_rows
from structopt.plane.batch import BatchAnswers, BatchBox, IndexArray, PlaneFronts
from structopt.plane.points import SearchPlane
from structopt.search import BatchResult
from structopt.space.compiled import FloatArray

__all__ = ["DataPlanes"]

#: Vertices of the hull kept from pass to pass: the best one and its neighbours.
N_NEAR = 5

# Labels of all examples as part tables, and their losses, which do not depend on the weights.
_Points = tuple[list[sp.csr_array], FloatArray]


class DataPlanes:
    """The planes of all examples; between two passes it keeps labels from which to start.

    Parameters
    ----------
    batch : Batch
    truth : LabelBatch
    loss : LossBatch
    convex : bool
        Whether mixtures of labels are labels.
    offset : float
        What h is besides the margin error (`Surrogate.h_offset`).
    """

    def __init__(self, batch: Batch, truth: LabelBatch, loss: LossBatch, convex: bool, offset: float = 0.0) -> None:
        self.batch, self.truth, self.loss = batch, truth, loss
        self.convex, self.offset = convex, offset
        self._levels: tuple[FloatArray, FloatArray] | None = None
        self._farthest: tuple[_Points, FloatArray] | None = None
        self._kept: list[_Points] = []
        self._lam: FloatArray | None = None

    def at(self, tables: Sequence[FloatArray], n_jobs: int, plane: Callable[[int], SearchPlane]) -> PassPlanes:
        """The planes at the score tables of some weights; `plane` makes that of one example."""
        return PassPlanes(self, tables, n_jobs, plane)

    @property
    def start(self) -> FloatArray | None:
        """The last λ of every example."""
        return self._lam

    def keep(self, planes: PassPlanes, found: BatchResult) -> list[sp.csr_array]:
        """The labels found, as part tables; those around them are kept for the next pass."""
        numbers = np.maximum(found.numbers, 0)  # where nothing is violated, the ground truth
        shares = np.where(found.numbers >= 0, found.shares, [[1.0], [0.0]])
        self._lam = found.lam if self._lam is None else np.where(np.isnan(found.lam), self._lam, found.lam)
        near = np.where(found.near >= 0, found.near, 0)
        alone = np.ones((1, self.batch.n))
        chosen, losses = planes.mixture(numbers, shares), planes.losses
        every = np.arange(self.batch.n)
        self._kept = [(planes.mixture(row[None], alone), losses[row, every]) for row in near]
        return chosen

    def farthest(self, tables: Sequence[FloatArray], n_jobs: int) -> tuple[_Points, FloatArray]:
        """The label of largest loss of every example, whatever the weights, and what no loss exceeds."""
        if self._farthest is None:
            nothing = [np.zeros_like(table) for table in tables]
            labels, _ = self.batch.argmax(nothing, self.loss, n_jobs=n_jobs)
            g = self.batch.loss_values(self.loss, labels)
            self._farthest = (labels.tables, g), g if labels.slack is None else g + labels.slack
        return self._farthest

    def levels(self) -> tuple[FloatArray, FloatArray]:
        """Step and one of the values that each example's loss takes; step 0 where they are on no lattice."""
        if self._levels is None:
            on_lattice = not self.convex and _loss_of_integers(self.batch)
            step = self.batch.codec.loss_steps(self.loss) if on_lattice else np.zeros(self.batch.n)
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
        self._score = batch.dot(tables, data.truth) - data.offset
        (far, far_g), self._largest = data.farthest(tables, n_jobs)
        # The labels of each number: the ground truth, the label of largest loss, those kept, and the answers.
        self._tables_of: list[list[sp.csr_array]] = [data.truth.tables, far, *(tables for tables, _ in data._kept)]
        self._losses: list[FloatArray] = [np.zeros(self.n), far_g, *(g for _, g in data._kept)]
        self._stacks: tuple[int, list[_Stack]] | None = None

    def _heights(self, tables: list[sp.csr_array]) -> FloatArray:
        return self._data.batch.dot(self._tables, LabelBatch(tables, None)) - self._score

    @property
    def losses(self) -> FloatArray:
        """The losses of all labels, by number and example."""
        return np.array(self._losses)

    def box(self) -> BatchBox:
        free = np.full(self.n, np.inf)
        return BatchBox(-free, free, np.zeros(self.n), self._largest, *self._data.levels())

    def known(self) -> tuple[FloatArray, FloatArray]:
        H = np.array([np.full(self.n, self._data.offset), *(self._heights(t) for t in self._tables_of[1:])])
        return H, np.array(self._losses)

    def query(self, some: IndexArray, lam: FloatArray) -> BatchAnswers:
        far = np.isinf(lam)
        if not far.any():
            return self._ask(some, lam)
        # The label of largest loss does not depend on the weights: it is known.
        h = np.where(far, self._heights(self._tables_of[1])[some], 0.0)
        g, bound, number = self._losses[1][some], self._largest[some], np.ones(some.size, dtype=np.intp)
        if not far.all():
            rest = self._ask(some[~far], lam[~far])
            g, bound = g.copy(), bound.copy()
            h[~far], g[~far], bound[~far], number[~far] = rest
        return BatchAnswers(h, g, bound, number)

    def _ask(self, some: IndexArray, lam: FloatArray) -> BatchAnswers:
        factors = np.ones(self.n)
        factors[some] = lam
        data = self._data
        chosen = None if some.size == self.n else some
        labels, _ = data.batch.argmax(self._tables, data.loss, factors, n_jobs=self._n_jobs, examples=chosen)
        h = self._heights(labels.tables)[some]
        losses = data.batch.loss_values(data.loss, labels)
        bound = h + lam * losses[some]
        if labels.slack is not None:
            bound += labels.slack[some]  # what is proved, where the solver stopped early
        return BatchAnswers(h, losses[some], bound, self._add(labels.tables, losses, some))

    def _add(self, tables: list[sp.csr_array], losses: FloatArray, some: IndexArray) -> IndexArray:
        self._tables_of.append(tables)
        self._losses.append(losses)
        return np.full(some.size, len(self._tables_of) - 1, dtype=np.intp)

    def fronts(self, some: IndexArray) -> Iterator[PlaneFronts]:
        """The exact fronts of some examples, in blocks that fit into memory; none where the model has no fronts."""
        data = self._data
        if data.batch.front_cost(data.loss) is None:
            return
        for examples, front in data.batch.fronts(
            self._tables, data.loss, data.truth, n_jobs=self._n_jobs, examples=some
        ):
            yield PlaneFronts(
                examples, front.ptr, front.h + data.offset, front.g, partial(self._take, examples, front.decode)
            )

    def _take(self, examples: IndexArray, decode: Callable[[IndexArray], Any], places: IndexArray) -> IndexArray:
        batch = self._data.batch
        labels = batch.labels(batch.codec.spread([decode(places)], examples))
        return self._add(labels.tables, np.zeros(self.n), examples)

    def plane(self, i: int) -> SearchPlane:
        """The plane of one example."""
        return self._plane(i)

    def add(self, some: IndexArray, labels: Sequence[Any]) -> IndexArray:
        batch = self._data.batch
        points: list[Any] = [None] * self.n
        for i, label in zip(some.tolist(), labels, strict=True):
            points[i] = np.asarray(label, dtype=np.float64)
        tables = batch.fold_some(points, some)
        return self._add(tables, np.zeros(self.n), some)

    def mixture(self, numbers: IndexArray, shares: FloatArray) -> list[sp.csr_array]:
        """``sum_k shares[k, i] * label numbers[k, i]`` of every example, as part tables."""
        batch = self._data.batch
        if self._stacks is None or self._stacks[0] != len(self._tables_of):
            terms = range(len(batch.starts))
            self._stacks = len(self._tables_of), [_stacked([tables[t] for tables in self._tables_of]) for t in terms]
        return [
            _mixed(stack, numbers, shares, start, table.shape)
            for stack, start, table in zip(self._stacks[1], batch.starts, self._tables_of[0], strict=True)
        ]


def _loss_of_integers(batch: Batch) -> bool:
    """Whether every variable of a block with a loss is an integer."""
    model = batch.model
    x = batch.input(0)
    space = model.space(x)
    if model._loss is None and type(model).block_losses is Model.block_losses:
        return bool(space.integrality.all())  # a loss of its own, perhaps of all of them
    return all(bool(space.integrality[space[name].slice].all()) for name in model.block_losses(x))


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
    # Copies: the room was that of all parts, and a table that is kept must not hold on to it.
    return csr_table(out[2][:end].copy(), out[1][:end].copy(), out[0], shape)
