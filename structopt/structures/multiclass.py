"""One class out of several: the simplex."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.algorithms.fronts import Fronts
from structopt.checks import checked, converted, floats, hashable
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Linear
from structopt.losses import CostMatrix, TaskLoss, ZeroOne
from structopt.model import Model
from structopt.model.batch import Batch
from structopt.model.codec import BatchCodec, Counts, LossBatch, common_steps, counts_of, labels_given, spread_rows
from structopt.model.inference import BatchFronts, BatchInference, Maxima, Weight, blocks, rows_or_all, weighed
from structopt.space import LabelSpace
from structopt.space.compiled import FloatArray

__all__ = ["Multiclass"]


class Multiclass(Model):
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
        names: list[Any] = list(range(classes)) if isinstance(classes, int | np.integer) else list(classes)
        if len(names) < 1:
            raise DeclarationError("Multiclass needs at least one class.")
        self._place = {hashable("A class", name): k for k, name in enumerate(names)}
        if len(self._place) != len(names):
            raise DeclarationError("Two classes have the same name.")
        self.names = names
        space = LabelSpace("multiclass")
        y = space.binary("y", len(names))
        space.subject_to(y.sum() == 1, name="one class")
        super().__init__(space, {"y": Linear(intercept=intercept)}, _task_loss(loss, len(names)), solver=solver)

    def place(self, label: Hashable, example: int | None = None) -> int:
        """The number of a class.

        Parameters
        ----------
        label : object
            A class.
        example : int, optional
            Its number, for the message.

        Returns
        -------
        int
        """
        try:
            return self._place[label]
        except (KeyError, TypeError):
            where = "" if example is None else f"example {example}: "
            shown = ", ".join(map(repr, self.names[:10])) + (", ..." if len(self.names) > 10 else "")
            raise LabelNotInSpace(f"{where}{label!r} is not one of the classes {shown}.", (str(label),)) from None

    def encode(self, label: Any, x: Any = None) -> FloatArray:
        """The one-hot vector of a class."""
        z = np.zeros(len(self.names))
        z[self.place(label)] = 1.0
        return z

    def decode(self, z: npt.ArrayLike, x: Any = None) -> Any:
        """The class of a point: its largest entry."""
        return self.names[int(np.argmax(floats("z", z, (len(self.names),))))]

    def batch_codec(self, batch: Batch) -> BatchCodec[Any]:
        # Class numbers.
        return ClassNumbers(batch) if self.solves_itself else super().batch_codec(batch)

    def batch_inference(self, batch: Batch) -> BatchInference:
        # The largest score.
        return ClassInference(batch) if self.solves_itself else super().batch_inference(batch)


class ClassNumbers(BatchCodec[IntArray]):
    """One class out of several as its number, -1 for none; losses are by class, ``(n, K)``."""

    one_of_many = True

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self.model = cast("Multiclass", batch.model)

    def encode(self, Y: Any) -> IntArray:
        Y = labels_given(Y, self.n)
        labels = Y.tolist() if isinstance(Y, np.ndarray) else list(Y)
        unknown = [i for i, y in enumerate(labels) if not _known(y, self.model._place)]
        if unknown:
            text = "; ".join(f"example {i}: {labels[i]!r}" for i in unknown[:10])
            raise LabelNotInSpace(f"{len(unknown)} of {self.n} labels are not classes of the model: {text}.")
        return np.array([self.model._place[y] for y in labels], dtype=np.int64)

    def decode(self, labels: IntArray) -> list[Any]:
        names = self.model.names
        return [names[k] if k >= 0 else None for k in labels.tolist()]

    def tables(self, labels: IntArray) -> list[sp.csr_array]:
        known = labels >= 0
        indptr = np.concatenate([[0], np.cumsum(known)])
        columns = labels[known]
        return [sp.csr_array((np.ones(len(columns)), columns, indptr), shape=(self.n, len(self.model.names)))]

    def from_points(self, Z: Any) -> IntArray:
        return np.asarray(np.asarray(Z).argmax(axis=1), dtype=np.int64)

    def spread(self, parts: Sequence[IntArray], some: IntArray | None) -> IntArray:
        return cast("IntArray", spread_rows(parts, some, self.n, -1))

    def losses(self, truth: IntArray) -> LossBatch[FloatArray]:
        task = self.model.block_losses()["y"]
        forms = [task.linear(row) for row in np.eye(len(self.model.names))]
        return LossBatch(np.array([form[0] for form in forms])[truth], np.array([form[1] for form in forms])[truth])

    def counts(self, truth: IntArray) -> Counts | None:
        return counts_of(np.eye(len(self.model.names))[truth], self.model.counted())

    def loss_steps(self, loss: LossBatch[FloatArray]) -> FloatArray:
        return common_steps(loss.coef, np.arange(self.n), self.n)

    def loss_values(self, loss: LossBatch[FloatArray], labels: IntArray) -> FloatArray:
        found = loss.coef[np.arange(self.n), labels]
        return np.asarray(np.where(labels >= 0, found, 0.0) + loss.const)


class ClassInference(BatchInference):
    """The largest entry of each row; all K classes are a front."""

    def maximize(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch[FloatArray] | None,
        weight: Weight,
        some: IntArray | None,
        n_jobs: int,
    ) -> Maxima:
        scores = rows_or_all(tables[0], some)
        if loss is not None:
            scores = scores + weighed(rows_or_all(loss.coef, some), weight, some)
        best = scores.argmax(axis=1)
        return Maxima(best, scores[np.arange(len(best)), best])

    def front_cost(self, loss: LossBatch[FloatArray]) -> float | None:
        return 1.0

    def fronts(
        self, tables: Sequence[FloatArray], loss: LossBatch[FloatArray], truth: Any, some: IntArray | None, n_jobs: int
    ) -> Iterator[BatchFronts]:
        scores = np.asarray(tables[0], dtype=np.float64)
        width = scores.shape[1]
        for block in blocks(np.arange(self.batch.n) if some is None else some, width):
            own = truth[block]
            h = scores[block] - scores[block, own][:, None]
            g = loss.coef[block] + loss.const[block][:, None]
            g[np.arange(len(block)), own] = 0.0  # exactly
            ptr = np.arange(len(block) + 1) * width

            def decode(places: IntArray, ptr: IntArray = ptr, own: IntArray = own) -> IntArray:
                return np.where(places < 0, own, places - ptr[:-1])

            yield BatchFronts(block, Fronts(ptr, h.ravel(), g.ravel(), decode))


def _known(label: Any, places: dict[Any, int]) -> bool:
    try:
        return label in places
    except TypeError:  # unhashable
        return False


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
