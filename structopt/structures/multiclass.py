"""One class out of several: the simplex."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.algorithms.classes import ClassParts
from structopt.algorithms.parts import PartSolver
from structopt.checks import checked, converted, floats
from structopt.errors import DeclarationError, LabelNotInSpace, marked
from structopt.features import Linear
from structopt.losses import CostMatrix, TaskLoss, ZeroOne
from structopt.model.codec import csr_table, labels_given
from structopt.model.data_set import DataSet
from structopt.model.loss_batch import Counts, Entries, LossBatch, counts_of
from structopt.model.slots import SlotMap, SlotModel, Slots
from structopt.recognize import Cardinality
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray
from structopt.structures.sequences import States

__all__ = ["Multiclass"]


class Multiclass(SlotModel):
    """Exactly one of several classes, each with a weight vector (Crammer and Singer).

    Parameters
    ----------
    classes : int or sequence
        Number of classes (named 0, 1, ...) or their names.
    loss : {"zero-one"} or array_like of shape (K, K) or TaskLoss
        The task loss; entry ``[truth, predicted]`` of a matrix.
    intercept : bool
        Append the constant 1 to the features.
    solver : str, path or Backend
        ``"auto"`` is the structure's own algorithm. Any other profile or backend finds every label, in training
        and prediction, over the declared program.

    Examples
    --------
    >>> import structopt as so
    >>> model = so.structures.Multiclass(["cat", "dog", "eel"])
    >>> model.predict([0.0, 1.0, 3.0], [2.0])
    'eel'
    >>> model.loss("dog")
    (array([ 0., -1.,  0.]), 1.0)
    """

    @checked
    def __init__(
        self, classes: int | Sequence[Hashable], loss: Any = "zero-one", intercept: bool = False, solver: Any = "auto"
    ) -> None:
        self.classes = classes
        self.intercept = intercept
        self._classes = States(classes, "class")
        self.names = names = self._classes.names
        space = LabelSpace("multiclass")
        y = space.binary("y", len(names))
        space.subject_to(y.sum() == 1, name="one class")
        n, one = len(names), np.array([1])
        super().__init__(
            space,
            {"y": Linear(intercept=intercept)},
            _task_loss(loss, n),
            record=Cardinality(np.zeros(n, np.int64), np.array([0, n]), np.arange(n), one, one),
            solver=solver,
        )

    def _slots_of(self, label: Any, size: Any = None) -> IntArray:
        """Return the number of a class."""
        try:
            return np.array([self._classes.place[label]])
        except (KeyError, TypeError):
            shown = ", ".join(map(repr, self.names[:10])) + (", ..." if len(self.names) > 10 else "")
            raise LabelNotInSpace(f"{label!r} is not one of the classes {shown}.", (str(label),)) from None

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The one-hot vector of a class."""
        z = np.zeros(len(self.names))
        z[self._slots_of(label)] = 1.0
        return z

    def decode(self, z: npt.ArrayLike, x: Any = None) -> Any:
        """The class of a point: its largest entry."""
        return self.names[int(np.argmax(floats("z", z, (len(self.names),))))]

    # ---- class numbers ---------------------------------------------------------------------------

    _one_of_many = True

    def _slot_map(self, data: DataSet) -> SlotMap:
        first = np.arange(data.n) * len(self.names)
        return SlotMap(np.arange(data.n + 1), first, first, len(self.names), range(data.n))

    def _all_slots(self, Y: Any, ptr: IntArray, sizes: Sequence[Any]) -> IntArray:
        Y = labels_given(Y, len(sizes))
        labels = Y.tolist() if isinstance(Y, np.ndarray) else list(Y)
        unknown = [i for i, y in enumerate(labels) if not self._classes.knows(y)]
        if unknown:
            text = "; ".join(f"example {marked(i)}: {labels[i]!r}" for i in unknown[:10])
            message = f"{len(unknown)} of {len(labels)} labels are not classes of the model: {text}."
            raise LabelNotInSpace(message, examples=tuple(unknown))
        return np.array([self._classes.place[y] for y in labels], dtype=np.int64)

    def _slots_at(self, Z: Any, sizes: Sequence[Any]) -> IntArray:
        return np.asarray(np.asarray(Z).argmax(axis=1), dtype=np.int64)

    def _labels_of_slots(self, slots: IntArray, ptr: IntArray) -> list[Any]:
        return [self.names[k] if k >= 0 else None for k in slots.tolist()]

    def _slot_losses(self, codec: Slots, truth: IntArray, given: Any = None) -> LossBatch:
        task, n, K = self.block_losses()["y"], len(truth), len(self.names)
        if type(task) is ZeroOne:
            return LossBatch(None, np.ones(n), sparse=_at(truth, K, -1.0))
        seen, place = np.unique(truth, return_inverse=True)
        forms = [task.linear(row) for row in _one_hot(seen, K)]
        return LossBatch(np.array([form[0] for form in forms])[place], np.array([form[1] for form in forms])[place])

    def _slot_entries(self, codec: Slots, slots: IntArray) -> Entries:
        return Entries(codec.slots, slots)

    def _slot_counts(self, codec: Slots, truth: IntArray) -> Counts | None:
        weights, twos, K = self.counted(), np.full(len(truth), 2.0), len(self.names)
        if type(self.block_losses()["y"]) is not ZeroOne:
            return counts_of(_one_hot(truth, K), weights)
        # A wrong class is one variable too many and one too few; every label has one variable on.
        errors, on = (_at(truth, K, value) for value in (-2.0, 0.0))
        return Counts(LossBatch(None, twos, sparse=errors), LossBatch(None, -twos, sparse=on), 1.0)

    def _part_solver(self, data: DataSet) -> PartSolver:
        # The largest score.
        return ClassParts(len(self.names))


def _one_hot(classes: IntArray, n_classes: int) -> FloatArray:
    """Return the one-hot vectors of some classes."""
    rows = np.zeros((len(classes), n_classes))
    rows[np.arange(len(classes)), classes] = 1.0
    return rows


def _at(classes: IntArray, n_classes: int, value: float) -> sp.csr_array:
    """Return a table with one value per row, at its class."""
    n = len(classes)
    return csr_table(np.full(n, value), classes, np.arange(n + 1), (n, n_classes))


def _task_loss(loss: Any, n_classes: int) -> TaskLoss:
    if isinstance(loss, TaskLoss):
        return loss
    if isinstance(loss, str):
        if loss != "zero-one":
            raise DeclarationError(f"loss must be 'zero-one', a matrix or a TaskLoss, got {loss!r}.")
        return ZeroOne()
    matrix = converted("loss", loss)
    if matrix.shape != (n_classes, n_classes):
        raise DeclarationError(f"The loss matrix has shape {matrix.shape}; there are {n_classes} classes.")
    return CostMatrix(matrix)
