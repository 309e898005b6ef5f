"""Losses between 0/1 vectors of variables: Hamming, zero-one and any cost matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt.checks import checked, floats
from structopt.errors import DeclarationError
from structopt.losses.base import TaskLoss
from structopt.space.compiled import FloatArray

__all__ = ["CURE", "CostMatrix", "Hamming", "WrongEdges", "ZeroOne"]

#: Advice for integers.
CURE = (
    "|z - truth| is linear in an integer z by its steps: declare them with steps = so.losses.thermometer(space, "
    "block), give loss={steps: so.losses.Hamming()}, and the loss is the absolute difference."
)
_NEARLY = 1e-6


def pair_of_labels(y: npt.ArrayLike, truth: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """A label and a ground truth of the same length, flat."""
    a, b = floats("y", y).ravel(), floats("truth", truth).ravel()
    if a.size != b.size:
        raise DeclarationError(f"A label of {a.size} variables and a ground truth of {b.size} cannot be compared.")
    return a, b


class Hamming(TaskLoss):
    """Weighted number of wrong variables: ``sum_j weight_j |y_j - truth_j|``.

    Parameters
    ----------
    weights : array_like, optional
        Non-negative weight per variable; 1 by default.
    normalize : bool
        Divide by the total weight, so that the largest loss is 1.

    Examples
    --------
    >>> import structopt as so
    >>> so.losses.Hamming().linear([1, 0, 1])
    (array([-1.,  1., -1.]), 2.0)
    """

    @checked
    def __init__(self, weights: npt.ArrayLike | None = None, normalize: bool = False) -> None:
        self.weights = None if weights is None else np.array(weights, dtype=np.float64).ravel()
        self.normalize = normalize
        if self.weights is not None and (not np.isfinite(self.weights).all() or (self.weights < 0).any()):
            raise DeclarationError("Hamming weights must be finite and non-negative.")

    def _weights(self, size: int) -> FloatArray:
        weights = np.ones(size) if self.weights is None else self.weights
        if weights.shape != (size,):
            raise DeclarationError(f"Hamming has {weights.shape[0]} weights for {size} variables.")
        total = weights.sum()
        return weights / total if self.normalize and total > 0 else weights

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        y = floats("truth", truth).ravel()
        weights = self._weights(y.size)
        _refuse_integers(y[weights > 0.0])
        return weights * (1 - 2 * y), float(weights @ y)

    def linear_batch(self, truths: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        Y = floats("truths", truths)
        Y = Y.reshape(len(Y), -1)
        weights = self._weights(Y.shape[1])
        _refuse_integers(Y if weights.all() else Y[:, weights > 0.0])
        if (weights == 1.0).all():
            return 1.0 - 2.0 * Y, Y.sum(axis=1)
        return weights * (1.0 - 2.0 * Y), Y @ weights

    def expected(self, mean: npt.ArrayLike) -> tuple[FloatArray, float]:
        return self.linear(mean)

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        a, b = pair_of_labels(y, truth)
        return float(self._weights(a.size) @ np.abs(a - b))

    def counted(self, size: int) -> FloatArray:
        return self._weights(size)


class ZeroOne(TaskLoss):
    """1 for every label but the ground truth; linear only if labels are one-hot (one variable per label)."""

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        y = floats("truth", truth).ravel()
        if y.sum() != 1 or set(np.unique(y)) - {0.0, 1.0}:
            raise DeclarationError(
                "The zero-one loss is linear only for one-hot labels; use Hamming, or declare a variable per label."
            )
        return -y, 1.0

    def expected(self, mean: npt.ArrayLike) -> tuple[FloatArray, float]:
        return -floats("mean", mean).ravel(), 1.0

    def counted(self, size: int) -> FloatArray:
        return np.ones(size)  # a wrong label is one variable too many and one too few

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        return float(not np.array_equal(*pair_of_labels(y, truth)))


class CostMatrix(TaskLoss):
    """Any loss between one-hot labels: ``costs[truth, predicted]``, zero on the diagonal.

    Parameters
    ----------
    costs : array_like of shape (n, n)
        Entry ``[i, j]`` is the loss of answering j where i is right.

    Examples
    --------
    >>> import structopt as so
    >>> so.losses.CostMatrix([[0, 1, 4], [1, 0, 2], [4, 2, 0]]).linear([0, 0, 1])
    (array([4., 2., 0.]), 0.0)
    """

    @checked
    def __init__(self, costs: npt.ArrayLike) -> None:
        self.costs = np.array(costs, dtype=np.float64)
        square = self.costs.ndim == 2 and self.costs.shape[0] == self.costs.shape[1]
        if not square or not np.isfinite(self.costs).all() or (self.costs < 0).any() or self.costs.diagonal().any():
            raise DeclarationError("A cost matrix is square, finite, non-negative, and zero on the diagonal.")

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        y = floats("truth", truth).ravel()
        if y.shape != (len(self.costs),):
            raise DeclarationError(f"A cost matrix of {len(self.costs)} labels cannot serve {y.size} variables.")
        if abs(y.sum() - 1.0) > _NEARLY or y.max() < 1.0 - _NEARLY:
            raise DeclarationError("A cost matrix is a loss between one-hot labels: one variable is 1, all others 0.")
        return self.costs[int(np.argmax(y))].copy(), 0.0

    def expected(self, mean: npt.ArrayLike) -> tuple[FloatArray, float]:
        return np.asarray(floats("mean", mean).ravel() @ self.costs), 0.0

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        return float(self.costs[self._class(truth), self._class(y)])

    def _class(self, label: npt.ArrayLike) -> int:
        """The class of a one-hot label (of a mean of them, the largest)."""
        row = floats("The label", label).ravel()
        if row.size != len(self.costs):
            raise DeclarationError(f"A label has {row.size} entries; the cost matrix has {len(self.costs)} classes.")
        return int(np.argmax(row))


class WrongEdges(TaskLoss):
    """Number of edges of the ground truth that a label does not have; ``normalize=True`` divides by their number."""

    @checked
    def __init__(self, normalize: bool = False) -> None:
        self.normalize = normalize

    def _scale(self, sizes: FloatArray) -> FloatArray:
        """Return a factor per ground truth with these numbers of edges."""
        return 1.0 / np.maximum(1.0, sizes) if self.normalize else np.ones_like(sizes)

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        coef, const = self._forms(np.asarray(truth, dtype=np.float64).reshape(1, -1))
        return coef[0], float(const[0])

    def linear_batch(self, truths: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        if type(self).linear is not WrongEdges.linear:  # a loss of the user's own, made from this one
            return super().linear_batch(truths)
        return self._forms(np.asarray(truths, dtype=np.float64))

    def _forms(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        sizes = edges.sum(axis=1)
        scale = self._scale(sizes)
        return -scale[:, None] * edges, scale * sizes

    def _linear_ones(self, ones: npt.NDArray[np.int64], n: int, size: int) -> tuple[FloatArray, FloatArray] | None:
        if type(self).linear is not WrongEdges.linear or type(self)._forms is not WrongEdges._forms:
            return None
        counts = np.diff(np.searchsorted(ones, size * np.arange(n + 1)))  # examples stand one after the other
        coef, scale = np.zeros(n * size), self._scale(counts.astype(np.float64))
        coef[ones] = -np.repeat(scale, counts) if self.normalize else -1.0
        return coef, scale * counts

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        edges = np.asarray(truth, dtype=np.float64).ravel()
        missed = edges * (np.asarray(y).ravel() < 0.5)
        return float(self._scale(edges.sum()) * missed.sum())


def _refuse_integers(truths: FloatArray) -> None:
    """Refuse entries outside [0, 1]: ``|y - truth|`` has another linear form there, or none."""
    if truths.size and not (truths.min() >= -_NEARLY and truths.max() <= 1.0 + _NEARLY):
        bad = truths[~((truths >= -_NEARLY) & (truths <= 1.0 + _NEARLY))].flat[0]
        raise DeclarationError(f"The Hamming loss is between 0/1 variables; a ground truth is {bad:g}. {CURE}")
