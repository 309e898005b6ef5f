"""One class out of several: the simplex."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.checks import checked, floats, hashable
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.features import Linear
from structopt.losses import CostMatrix, TaskLoss, ZeroOne
from structopt.model import Model
from structopt.model.batch import Batch, LabelBatch, LossBatch, labels_given
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
        ``"auto"`` is the structure's own algorithm. Any other profile or backend is asked for every label, in training
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

    def batch(self, X: Any) -> MulticlassBatch:
        """A data set prepared once."""
        return self._batch(MulticlassBatch, X)


class MulticlassBatch(Batch):
    """A multiclass data set; labels are class numbers."""

    model: Multiclass
    one_of_many = True

    def _labels(self, places: npt.NDArray[np.intp], known: npt.NDArray[np.intp] | None = None) -> LabelBatch:
        counts = np.ones(self.n, dtype=np.int64)
        if known is not None:
            counts[:] = 0
            counts[known] = 1
        indptr = np.concatenate([[0], np.cumsum(counts)])
        columns = places[counts > 0]
        table = sp.csr_array((np.ones(len(columns)), columns, indptr), shape=(self.n, self.columns[0]))
        return LabelBatch([table], places)

    def truth(self, Y: Any) -> LabelBatch:
        Y = labels_given(Y, self.n)
        labels = Y.tolist() if isinstance(Y, np.ndarray) else list(Y)
        unknown = [i for i, y in enumerate(labels) if not _known(y, self.model._place)]
        if unknown:
            told = "; ".join(f"example {i}: {labels[i]!r}" for i in unknown[:10])
            raise LabelNotInSpace(f"{len(unknown)} of {self.n} labels are not classes of the model: {told}.")
        return self._labels(np.array([self.model._place[y] for y in labels], dtype=np.intp))

    def loss(self, truth: LabelBatch) -> LossBatch:
        task = self.model._losses(self.model.space())["y"]
        forms = [task.linear(row) for row in np.eye(len(self.model.names))]
        coef = np.array([form[0] for form in forms])[truth.native]
        return LossBatch(coef, np.array([form[1] for form in forms])[truth.native])

    def argmax(
        self,
        tables: Sequence[FloatArray],
        loss: LossBatch | None = None,
        weight: float = 1.0,
        *,
        n_jobs: int = 1,
        examples: npt.NDArray[np.intp] | None = None,
    ) -> tuple[LabelBatch, FloatArray]:
        scores = tables[0] if examples is None else tables[0][examples]
        if loss is not None:
            scores = scores + weight * (loss.coef if examples is None else loss.coef[examples])
        best = scores.argmax(axis=1)
        found = scores[np.arange(len(best)), best]
        if loss is not None:
            found = found + weight * (loss.const if examples is None else loss.const[examples])
        if examples is None:
            return self._labels(best), found
        places, values = np.zeros(self.n, dtype=np.intp), np.zeros(self.n)
        places[examples], values[examples] = best, found
        return self._labels(places, examples), values

    def argmax_surrogate(
        self, surrogate: Any, tables: Sequence[FloatArray], loss: LossBatch, truth: LabelBatch, n_jobs: int = 1
    ) -> tuple[LabelBatch, FloatArray, FloatArray] | None:
        if surrogate.counts:  # other factors than margin and loss
            return None
        rows = np.arange(self.n)
        margin = tables[0] - tables[0][rows, truth.native][:, None]
        losses = loss.coef + loss.const[:, None]
        inside = np.asarray(surrogate.inside(margin, losses)) & (losses > 0)
        psi = np.zeros_like(margin)
        psi[inside] = surrogate.psi(margin[inside], losses[inside])
        psi[rows, truth.native] = 0.0
        # The truth itself is a label of surrogate 0: it wins where nothing else is violated.
        best = np.where(psi.max(axis=1) > 0, psi.argmax(axis=1), truth.native)
        return self._labels(best), margin[rows, best], losses[rows, best]

    def decode(self, labels: LabelBatch) -> list[Any]:
        return [self.model.names[k] for k in labels.native]

    def loss_values(self, loss: LossBatch, labels: LabelBatch) -> FloatArray:
        return np.asarray(loss.coef[np.arange(self.n), labels.native] + loss.const)


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
    matrix = np.asarray(loss, dtype=np.float64)
    if matrix.shape != (n_classes, n_classes):
        raise DeclarationError(f"The loss matrix has shape {matrix.shape}; there are {n_classes} classes.")
    return CostMatrix(matrix)
