"""Labels that choose one part for every slot: a head for each token, a column for each row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, kernel
from structopt.losses import TaskLoss
from structopt.model.batch import Batch
from structopt.model.codec import BatchCodec, Counts, LossBatch, common_steps, counts_of, csr_table, ranges, spread_rows
from structopt.model.inference import BatchInference, Maxima, Weight, weighed
from structopt.space.compiled import FloatArray

__all__ = ["Choices", "ChoiceInference"]


class Choices(BatchCodec[IntArray]):
    """An integer choice for each slot of each example, in one flat array; -1 stands for none.

    The model has one `Shared` term: slot s with choice k stands for the feature row ``base[s] + k * stride[s]``. Losses
    are one flat array as well, aligned with the feature rows, so that scores, losses and gradients never touch points.

    Parameters
    ----------
    batch : Batch
    slots : array of int, shape (n,)
        Number of slots of each example.
    base, stride : array of int
        Of every slot.
    """

    def __init__(self, batch: Batch, slots: IntArray, base: IntArray, stride: IntArray) -> None:
        super().__init__(batch)
        self.slots = np.concatenate([[0], np.cumsum(slots)]).astype(np.int64)
        self._base, self._stride = base, stride

    @abstractmethod
    def choices(self, label: Any, i: int) -> IntArray:
        """A label of example i as choices, checked."""

    @abstractmethod
    def task_loss(self, i: int) -> TaskLoss:
        """The task loss of example i on the 0/1 parts."""

    def encode(self, Y: Any) -> IntArray:
        return np.concatenate(self.encode_each(Y, self.choices)).astype(np.int64, copy=False)

    def decode(self, labels: IntArray) -> list[Any]:
        return np.split(labels, self.slots[1:-1])

    def tables(self, labels: IntArray) -> list[sp.csr_array]:
        return [_chosen_rows(self._parts(labels), int(self.batch.starts[0][-1]))]

    def _parts(self, labels: IntArray) -> IntArray:
        """Feature rows of the parts that are chosen."""
        made = labels >= 0
        parts: IntArray = (self._base + labels * self._stride)[made]
        return parts

    def from_points(self, Z: Any) -> IntArray:
        model, batch = self.batch.model, self.batch
        return np.concatenate([model.decode(np.asarray(z), batch.input(i)) for i, z in enumerate(Z)])

    def spread(self, parts: Sequence[IntArray], some: IntArray | None) -> IntArray:
        rows = None if some is None else ranges(self.slots[some], self.slots[some + 1])
        found: IntArray = spread_rows(parts, rows, int(self.slots[-1]), -1)
        return found

    def losses(self, truth: IntArray) -> LossBatch[FloatArray]:
        start = self.batch.starts[0]
        block = np.zeros(int(start[-1]))
        block[self._parts(truth)] = 1.0
        coef, const = np.empty(len(block)), np.empty(self.n)
        for i in range(self.n):
            own = slice(start[i], start[i + 1])
            coef[own], const[i] = self.task_loss(i).linear(block[own])
        return LossBatch(coef, const)

    def counts(self, truth: IntArray) -> Counts | None:
        self.batch.model.counted(self.batch.input(0))  # refuses losses that are no counts
        sizes = np.diff(self.batch.starts[0]).tolist()
        weights = np.concatenate([np.asarray(self.task_loss(i).counted(size)) for i, size in enumerate(sizes)])
        block = np.zeros(len(weights))
        block[self._parts(truth)] = 1.0
        return counts_of(block, weights, self.batch.starts[0])

    @property
    def loss_rows(self) -> IntArray:
        return np.diff(self.batch.starts[0])

    def loss_steps(self, loss: LossBatch[FloatArray]) -> FloatArray:
        owner = np.repeat(np.arange(self.n), np.diff(self.batch.starts[0]))
        return common_steps(loss.coef[:, None], owner, self.n)

    def loss_values(self, loss: LossBatch[FloatArray], labels: IntArray) -> FloatArray:
        parts = self._parts(labels)
        owner = np.searchsorted(self.batch.starts[0], parts, side="right") - 1
        return np.asarray(np.bincount(owner, loss.coef[parts], minlength=self.n) + loss.const)


class ChoiceInference(BatchInference):
    """The best choices for the scores of all parts, one after the other."""

    @abstractmethod
    def solve(self, scores: FloatArray, chosen: IntArray, n_jobs: int) -> tuple[IntArray, FloatArray]:
        """The best choices of some examples and their values, for the scores of their parts one after the other."""

    def maximize(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch[FloatArray] | None,
        weight: Weight,
        some: IntArray | None,
        n_jobs: int,
    ) -> Maxima:
        start = self.batch.starts[0]
        scores = np.asarray(tables[0], dtype=np.float64).ravel()
        chosen = np.arange(self.batch.n) if some is None else some
        parts = None if some is None else ranges(start[some], start[some + 1])
        scores = scores if parts is None else scores[parts]
        if loss is not None:
            coef = loss.coef if parts is None else loss.coef[parts]
            scores = scores + weighed(coef, weight, some, np.diff(start)[chosen])
        return Maxima(*self.solve(np.ascontiguousarray(scores), chosen, n_jobs))


def _chosen_rows(parts: IntArray, n_rows: int) -> sp.csr_array:
    """A column of zeros with ones at `parts`."""
    ordered = np.sort(parts)
    indptr = np.empty(n_rows + 1, dtype=np.int32 if n_rows < 2**31 - 1 else np.int64)
    _pointers(ordered, indptr)
    ones, zeros = np.ones(len(ordered)), np.zeros(len(ordered), dtype=indptr.dtype)
    return csr_table(ones, zeros, indptr, (n_rows, 1))


@kernel
def _pointers(ordered: IntArray, indptr: npt.NDArray[Any]) -> None:
    # Long constant runs: written at the speed of memory, where a cumulative sum would be felt in small subsets.
    at = 0
    for k in range(ordered.size):
        indptr[at : ordered[k] + 1] = k
        at = ordered[k] + 1
    indptr[at:] = ordered.size
