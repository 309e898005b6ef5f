"""Labels that choose one part for every slot: a head for each token, a column for each row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, kernel
from structopt.losses import TaskLoss
from structopt.model.codec import BatchCodec, StackedLabels, csr_table, spread_rows, taken_labels
from structopt.model.data_set import DataSet
from structopt.model.inference import BatchInference, Maxima
from structopt.model.loss_batch import Counts, Entries, LossBatch, Weight, counts_of, ranges
from structopt.space.compiled import FloatArray

__all__ = ["Choices", "ChoiceInference"]


class Choices(BatchCodec[IntArray]):
    """An integer choice for each slot of each example, in one flat array; -1 stands for none.

    The model has one term, `Shared`, or `Table` with `width` columns. The parts are the entries of its table of scores,
    row by row: slot s with choice ``k = a * width + b`` stands for part ``base[s] + a * stride[s] + b``. Losses are one
    flat array as well, aligned with the parts, so that scores, losses and gradients never touch points.

    Parameters
    ----------
    data : DataSet
    slots : array of int, shape (n,)
        Number of slots of each example.
    base, stride : array of int
        Of every slot.
    width : int
    """

    def __init__(self, data: DataSet, slots: IntArray, base: IntArray, stride: IntArray, width: int = 1) -> None:
        super().__init__(data)
        self.slots = self.label_ptr = np.concatenate([[0], np.cumsum(slots)]).astype(np.int64)
        self._base, self._stride, self.width = base, stride, width
        #: Where the parts of each example begin.
        self.start: IntArray = data.starts[0].astype(np.int64) * width

    @abstractmethod
    def choices(self, label: Any, i: int) -> IntArray:
        """A label of example i as choices, checked."""

    @abstractmethod
    def task_loss(self, i: int) -> TaskLoss:
        """The task loss of example i on the 0/1 parts."""

    def stacked(self, flat: npt.NDArray[Any]) -> IntArray | None:
        """Labels of whole numbers, one after the other, as choices, checked all at once; None where one is wrong."""
        return None

    def encode(self, Y: Any) -> IntArray:
        if isinstance(Y, StackedLabels) and Y.flat.dtype.kind in "iu" and Y.begins_at(self.slots):
            together = self.stacked(Y.flat)
            if together is not None:
                return together
        # One by one: those that are wrong are named.
        return np.concatenate(self.encode_each(Y, self.choices)).astype(np.int64, copy=False)

    def decode(self, labels: IntArray) -> list[Any]:
        return np.split(labels, self.slots[1:-1])

    def tables(self, labels: IntArray) -> list[sp.csr_array]:
        return [_chosen_rows(self._parts(labels), int(self.data.starts[0][-1]), self.width)]

    def _parts(self, labels: IntArray) -> IntArray:
        """The parts that are chosen."""
        parts = np.empty(len(labels), dtype=np.int64)
        return parts[: _chosen_parts(self._base, self._stride, self.width, labels, parts)]

    def from_points(self, Z: Any) -> IntArray:
        model, data = self.data.model, self.data
        return np.concatenate([model.decode(np.asarray(z), data.input(i)) for i, z in enumerate(Z)])

    def spread(self, parts: Sequence[IntArray], some: IntArray | None) -> IntArray:
        rows = None if some is None else ranges(self.slots[some], self.slots[some + 1])
        found: IntArray = spread_rows(parts, rows, int(self.slots[-1]), -1)
        return found

    def losses(self, truth: IntArray) -> LossBatch:
        start, ones = self.start, self._parts(truth)
        if len(self._alike) == 1:
            known = self.task_loss(0)._linear_ones(ones, self.n, int(start[-1]) // self.n)
            if known is not None:
                return LossBatch(*known, start)
        block = np.zeros(int(start[-1]))
        block[ones] = 1.0
        if len(self._alike) == 1:
            coef, const = self.task_loss(0).linear_batch(block.reshape(self.n, -1))
            return LossBatch(np.ascontiguousarray(coef, dtype=np.float64).reshape(-1), np.asarray(const), start)
        coef, const = np.empty(len(block)), np.empty(self.n)
        for group in self._alike:
            rows = start[group][:, None] + np.arange(start[group[0] + 1] - start[group[0]])
            coef[rows], const[group] = self.task_loss(int(group[0])).linear_batch(block[rows])
        return LossBatch(coef, const, start)

    def loss_parts(self, labels: IntArray) -> Entries:
        parts = np.empty(len(labels), dtype=np.int64)
        _every_part(self._base, self._stride, self.width, labels, parts)
        return Entries(self.slots, parts)

    @cached_property
    def _alike(self) -> list[IntArray]:
        """Examples by their sizes, on which the task loss depends."""
        sizes = np.asarray(self.data.sizes)
        if (sizes == sizes[0]).all():
            return [np.arange(self.n)]
        kind = np.unique(sizes, axis=0, return_inverse=True)[1].ravel()
        return np.split(np.argsort(kind, kind="stable"), np.cumsum(np.bincount(kind))[:-1])

    def scores(self, tables: Sequence[FloatArray], labels: IntArray) -> FloatArray | None:
        flat = tables[0].reshape(-1)
        if flat.dtype != np.float64 or len(flat) != self.start[-1]:
            return None
        total = np.zeros(self.n)
        _chosen_scores(flat, self.slots, self._base, self._stride, self.width, labels, total)
        return total

    def add_parts(self, t: int, labels: IntArray, weights: FloatArray, out: FloatArray) -> bool:
        # Every example has rows of its own: a table of one row is that of a single example with a single part.
        factors = np.ascontiguousarray(weights, dtype=np.float64)
        _add_chosen(self.slots, self._base, self._stride, self.width, labels, factors, out.reshape(-1))
        return True

    def add_differences(self, t: int, labels: IntArray, truth: IntArray, weights: FloatArray, out: FloatArray) -> bool:
        _add_changed(self.slots, self._base, self._stride, self.width, labels, truth, weights, out.reshape(-1))
        return True

    def counts(self, truth: IntArray) -> Counts | None:
        self.data.model.counted(self.data.input(0))  # refuses losses that are no counts
        sizes = np.diff(self.start).tolist()
        weights = np.concatenate([np.asarray(self.task_loss(i).counted(size)) for i, size in enumerate(sizes)])
        block = np.zeros(len(weights))
        block[self._parts(truth)] = 1.0
        return counts_of(block, weights, self.start)

    @cached_property
    def _slot_owner(self) -> IntArray:
        """The example of every slot."""
        return np.repeat(np.arange(self.n), np.diff(self.slots))

    def mixture(self, labels: Sequence[IntArray | None], numbers: IntArray, shares: FloatArray) -> IntArray | None:
        return None if shares[1].any() else taken_labels(labels, numbers[0], self._slot_owner)


class ChoiceInference(BatchInference):
    """The best choices for the scores of all parts, one after the other."""

    @abstractmethod
    def solve(self, scores: FloatArray, chosen: IntArray, n_jobs: int) -> tuple[IntArray, FloatArray]:
        """The best choices of some examples and their values, for the scores of their parts one after the other."""

    def maximize(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None,
        weight: Weight,
        some: IntArray | None,
        n_jobs: int,
    ) -> Maxima:
        start = self.data.starts[0].astype(np.int64) * self.data.columns[0]
        scores = np.asarray(tables[0], dtype=np.float64).reshape(-1)
        chosen = np.arange(self.data.n) if some is None else some
        parts = None if some is None else ranges(start[some], start[some + 1])
        scores = scores if parts is None else scores[parts]
        if loss is not None:
            scores = loss.added(scores, some, weight, parts)
        return Maxima(*self.solve(np.ascontiguousarray(scores), chosen, n_jobs))


def _chosen_rows(parts: IntArray, n_rows: int, width: int) -> sp.csr_array:
    """A table of zeros with ones at `parts`, its entries row by row."""
    rows, columns = np.divmod(np.sort(parts), width)
    indptr = np.empty(n_rows + 1, dtype=np.int32 if n_rows < 2**31 - 1 else np.int64)
    _pointers(rows, indptr)
    return csr_table(np.ones(len(rows)), columns.astype(indptr.dtype), indptr, (n_rows, width))


@kernel
def _pointers(ordered: IntArray, indptr: npt.NDArray[Any]) -> None:
    # Long constant runs: written at the speed of memory, where a cumulative sum would be felt in small subsets.
    at = 0
    for k in range(ordered.size):
        indptr[at : ordered[k] + 1] = k
        at = ordered[k] + 1
    indptr[at:] = ordered.size


@kernel
def _chosen_parts(base: IntArray, stride: IntArray, width: int, labels: IntArray, parts: IntArray) -> int:
    found = 0
    for s in range(labels.size):
        if labels[s] >= 0:
            parts[found] = base[s] + labels[s] // width * stride[s] + labels[s] % width
            found += 1
    return found


@kernel
def _every_part(base: IntArray, stride: IntArray, width: int, labels: IntArray, parts: IntArray) -> None:
    for s in range(labels.size):
        k = labels[s]
        parts[s] = base[s] + k // width * stride[s] + k % width if k >= 0 else -1


@kernel
def _chosen_scores(
    scores: FloatArray,
    slots: IntArray,
    base: IntArray,
    stride: IntArray,
    width: int,
    labels: IntArray,
    total: FloatArray,
) -> None:
    for i in range(total.size):
        own = 0.0
        for s in range(slots[i], slots[i + 1]):
            if labels[s] >= 0:
                own += scores[base[s] + labels[s] // width * stride[s] + labels[s] % width]
        total[i] += own


@kernel
def _add_chosen(
    slots: IntArray,
    base: IntArray,
    stride: IntArray,
    width: int,
    labels: IntArray,
    weights: FloatArray,
    out: FloatArray,
) -> None:
    for i in range(weights.size):
        for s in range(slots[i], slots[i + 1]):
            if labels[s] >= 0:
                out[base[s] + labels[s] // width * stride[s] + labels[s] % width] += weights[i]


@kernel
def _add_changed(
    slots: IntArray,
    base: IntArray,
    stride: IntArray,
    width: int,
    labels: IntArray,
    truth: IntArray,
    weights: FloatArray,
    out: FloatArray,
) -> None:
    """`_add_chosen` of labels less that of the ground truths: the slots in which they differ."""
    for i in range(weights.size):
        for s in range(slots[i], slots[i + 1]):
            if labels[s] == truth[s]:
                continue
            if labels[s] >= 0:
                out[base[s] + labels[s] // width * stride[s] + labels[s] % width] += weights[i]
            if truth[s] >= 0:
                out[base[s] + truth[s] // width * stride[s] + truth[s] % width] -= weights[i]
