"""Data sets whose labels choose one part for every slot: a head for each token, a column for each row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, kernel
from structopt.errors import StructoptError
from structopt.model import Model
from structopt.model.batch import Batch, LabelBatch, LossBatch, labels_given, refusal
from structopt.space.compiled import FloatArray

__all__ = ["ChoiceBatch", "ranges"]


class ChoiceBatch(Batch):
    """A data set with one `Shared` term; a label is an integer choice for each slot of each example.

    Slot s with choice k stands for the feature row ``base[s] + k * stride[s]``; choice -1 stands for none. Labels of
    the data set are one flat array of choices, so that scores, losses and gradients never touch points ``z``.

    Parameters
    ----------
    model : Model
    X : sequence of inputs
    slots : array of int, shape (n,)
        Number of slots of each example.
    """

    def __init__(self, model: Model, X: Any, slots: npt.NDArray[np.intp]) -> None:
        super().__init__(model, X)
        self.slots = np.concatenate([[0], np.cumsum(slots)]).astype(np.int64)
        self._example = np.repeat(np.arange(self.n), slots)
        self._base, self._stride = self._layout()

    @abstractmethod
    def _layout(self) -> tuple[IntArray, IntArray]:
        """``base`` and ``stride`` of every slot."""

    @abstractmethod
    def _choices(self, label: Any, i: int) -> IntArray:
        """A label of example i as choices, checked."""

    @abstractmethod
    def _solve(self, scores: FloatArray, chosen: npt.NDArray[np.intp], n_jobs: int) -> tuple[IntArray, FloatArray]:
        """The best choices and their values, for the scores of the parts of some examples one after the other."""

    def _labels(self, choices: IntArray) -> LabelBatch:
        made = choices >= 0
        parts = (self._base + choices * self._stride)[made]
        return LabelBatch([_chosen_rows(parts, self.rows[0].shape[0])], choices)

    def truth(self, Y: Sequence[Any]) -> LabelBatch:
        Y = labels_given(Y, self.n)
        choices = np.empty(self.slots[-1], dtype=np.int64)
        refused: list[str] = []
        for i in range(self.n):
            try:
                choices[self.slots[i] : self.slots[i + 1]] = self._choices(Y[i], i)
            except StructoptError as error:
                refused.append(f"example {i}: {error}")
        if refused:
            raise refusal(refused, self.n)
        return self._labels(choices)

    def loss(self, truth: LabelBatch) -> LossBatch:
        """Coefficients in one flat array, aligned with the parts."""
        (part,) = self.model.features
        block = np.zeros(truth.tables[0].shape[0])
        block[np.diff(truth.tables[0].indptr) > 0] = 1.0
        coef, const = np.empty(len(block)), np.empty(self.n)
        for i in range(self.n):
            own = slice(self.starts[0][i], self.starts[0][i + 1])
            coef[own], const[i] = self._task_loss(part, i).linear(block[own])
        return LossBatch(coef, const)

    @abstractmethod
    def _task_loss(self, block: str, i: int) -> Any:
        """The task loss of example i on a block."""

    def argmax(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None = None,
        weight: float = 1.0,
        *,
        n_jobs: int = 1,
        examples: npt.NDArray[np.intp] | None = None,
    ) -> tuple[LabelBatch, FloatArray]:
        scores = np.asarray(tables[0], dtype=np.float64).ravel()
        if examples is None:
            chosen = np.arange(self.n)
            if loss is not None:
                scores = scores + weight * loss.coef
        else:
            chosen = np.asarray(examples, dtype=np.intp)
            parts = ranges(self.starts[0][chosen], self.starts[0][chosen + 1])
            scores = scores[parts] if loss is None else scores[parts] + weight * loss.coef[parts]
        found, best = self._solve(np.ascontiguousarray(scores), chosen, n_jobs)
        values = np.zeros(self.n)
        values[chosen] = best if loss is None else best + weight * loss.const[chosen]
        if examples is None:
            return self._labels(found), values
        choices = np.full(self.slots[-1], -1)
        choices[ranges(self.slots[chosen], self.slots[chosen + 1])] = found
        return self._labels(choices), values

    def decode(self, labels: LabelBatch) -> list[Any]:
        if not _is_flat(labels.native):
            return super().decode(labels)
        return np.split(labels.native, self.slots[1:-1])

    def loss_values(self, loss: LossBatch, labels: LabelBatch) -> FloatArray:
        # From the parts and not from the choices, so that labels folded from points z work as well.
        table = labels.tables[0]
        filled = np.flatnonzero(np.diff(table.indptr))
        owner = np.searchsorted(self.starts[0], filled, side="right") - 1
        return np.asarray(np.bincount(owner, table.data * loss.coef[filled], minlength=self.n) + loss.const)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.n} examples, {self.rows[0].shape[0]} parts, {self.n_weights} weights>"


def ranges(start: npt.NDArray[np.integer[Any]], stop: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.intp]:
    """The integers of ``[start_k, stop_k)`` for every k, one after the other.

    Examples
    --------
    >>> ranges(np.array([5, 0]), np.array([8, 2]))
    array([5, 6, 7, 0, 1])
    """
    lengths = stop - start
    first = np.concatenate([[0], np.cumsum(lengths)])
    return np.repeat(start - first[:-1], lengths) + np.arange(first[-1])


def _is_flat(native: Any) -> bool:
    return isinstance(native, np.ndarray) and native.ndim == 1 and native.dtype == np.int64


def _chosen_rows(parts: IntArray, n_rows: int) -> sp.csr_array:
    """A column of zeros with ones at `parts`."""
    ordered = np.sort(parts)
    indptr = np.empty(n_rows + 1, dtype=np.int32 if n_rows < 2**31 - 1 else np.int64)
    _pointers(ordered, indptr)
    ones, zeros = np.ones(len(ordered)), np.zeros(len(ordered), dtype=indptr.dtype)
    return sp.csr_array((ones, zeros, indptr), shape=(n_rows, 1))


@kernel
def _pointers(ordered: IntArray, indptr: npt.NDArray[Any]) -> None:
    # Long constant runs: written at the speed of memory, where a cumulative sum would be felt in small subsets.
    at = 0
    for k in range(ordered.size):
        indptr[at : ordered[k] + 1] = k
        at = ordered[k] + 1
    indptr[at:] = ordered.size
