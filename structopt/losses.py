"""Task losses that are linear in the label: ``loss(y, truth) = coef . y + const`` for every label ``y``.

Losses act on one block of 0/1 variables, flattened. Linearity is what lets one declaration serve loss-augmented
inference, the λ-oracle and conditional risk.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from structopt.compiled import FloatArray
from structopt.errors import DeclarationError

__all__ = [
    "CostMatrix",
    "Footrule",
    "Hamming",
    "HierarchicalLoss",
    "LeafHamming",
    "Normalized",
    "TaskLoss",
    "ZeroOne",
]


class TaskLoss(ABC):
    """A loss that is linear in the label, for labels and truths of a given 0/1 block."""

    @abstractmethod
    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        """Coefficients and constant with ``loss(y, truth) = coef . y + const``."""

    @abstractmethod
    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        """The loss by its definition, for a 0/1 label `y`."""

    def linear_batch(self, truths: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """`linear` for each row of `truths`."""
        forms = [self.linear(truth) for truth in np.asarray(truths)]
        return np.array([coef for coef, _ in forms]), np.array([const for _, const in forms])

    @property
    def smallest(self) -> float:
        """A lower bound on the positive values of the loss (the g_min of MATH.md 1.1 is half of it)."""
        return 1.0

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


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

    def __init__(self, weights: npt.ArrayLike | None = None, normalize: bool = False) -> None:
        self.weights = None if weights is None else np.asarray(weights, dtype=np.float64).ravel()
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
        y = np.asarray(truth, dtype=np.float64).ravel()
        weights = self._weights(y.size)
        return weights * (1 - 2 * y), float(weights @ y)

    def linear_batch(self, truths: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        Y = np.asarray(truths, dtype=np.float64).reshape(len(np.asarray(truths)), -1)
        weights = self._weights(Y.shape[1])
        return weights * (1 - 2 * Y), Y @ weights

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        a, b = np.asarray(y, dtype=np.float64).ravel(), np.asarray(truth, dtype=np.float64).ravel()
        return float(self._weights(a.size) @ np.abs(a - b))

    @property
    def smallest(self) -> float:
        if self.weights is None:
            return 1.0
        positive = self._weights(self.weights.size)
        positive = positive[positive > 0]
        return float(positive.min()) if positive.size else 1.0

    def __repr__(self) -> str:
        told = [f"weights=array of {self.weights.size}"] if self.weights is not None else []
        told += ["normalize=True"] if self.normalize else []
        return f"Hamming({', '.join(told)})"


class ZeroOne(TaskLoss):
    """1 for every label but the truth; linear only where labels are one-hot (one variable per label)."""

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        y = np.asarray(truth, dtype=np.float64).ravel()
        if y.sum() != 1 or set(np.unique(y)) - {0.0, 1.0}:
            raise DeclarationError(
                "The zero-one loss is linear only for one-hot labels; use Hamming, or declare a variable per label."
            )
        return -y, 1.0

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        return float(not np.array_equal(np.asarray(y).ravel(), np.asarray(truth).ravel()))


class CostMatrix(TaskLoss):
    """Any loss between one-hot labels: ``costs[truth, predicted]``, zero on the diagonal.

    Examples
    --------
    >>> import structopt as so
    >>> so.losses.CostMatrix([[0, 1, 4], [1, 0, 2], [4, 2, 0]]).linear([0, 0, 1])
    (array([4., 2., 0.]), 0.0)
    """

    def __init__(self, costs: npt.ArrayLike) -> None:
        self.costs = np.asarray(costs, dtype=np.float64)
        square = self.costs.ndim == 2 and self.costs.shape[0] == self.costs.shape[1]
        if not square or not np.isfinite(self.costs).all() or (self.costs < 0).any() or self.costs.diagonal().any():
            raise DeclarationError("A cost matrix is square, finite, non-negative, and zero on the diagonal.")

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        return self.costs[int(np.argmax(np.asarray(truth)))].copy(), 0.0

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        return float(self.costs[int(np.argmax(np.asarray(truth))), int(np.argmax(np.asarray(y)))])

    @property
    def smallest(self) -> float:
        positive = self.costs[self.costs > 0]
        return float(positive.min()) if positive.size else 1.0


class Footrule(TaskLoss):
    """Spearman's footrule between permutations given as 0/1 matrices: ``sum_j |sigma(j) - truth(j)|`` (MATH.md 8.2).

    Parameters
    ----------
    n : int
        Number of items.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(np.float64)

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        matrix = np.asarray(truth, dtype=np.float64).reshape(self.n, self.n)
        return (matrix @ self._distance).ravel(), 0.0

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        places = [np.asarray(v).reshape(self.n, self.n).argmax(axis=1) for v in (y, truth)]
        return float(np.abs(places[0] - places[1]).sum())

    @property
    def smallest(self) -> float:
        return 2.0

    def __repr__(self) -> str:
        return f"Footrule({self.n})"


# Last, because the losses of a hierarchy derive from `TaskLoss` above.
from structopt.losses_hierarchy import HierarchicalLoss, LeafHamming, Normalized  # noqa: E402
