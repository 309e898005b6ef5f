"""Losses between permutations: Spearman's footrule."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt.checks import checked, floats, whole
from structopt.errors import DeclarationError
from structopt.losses.base import TaskLoss
from structopt.space.compiled import FloatArray

__all__ = ["Footrule"]

#: The distances of more items than this, n x n of them, fit into no memory.
_MOST_ITEMS = 2**16


class Footrule(TaskLoss):
    """Spearman's footrule: ``sum_j |sigma(j) - truth(j)|``, linear in the permutation's 0/1 matrix.

    Labels are permutations (the place of every item) or their matrices, one row an item.

    Parameters
    ----------
    n : int
        Number of items.

    Examples
    --------
    >>> import structopt as so
    >>> loss = so.losses.Footrule(3)
    >>> loss.value([2, 1, 0], [0, 1, 2])
    4.0
    >>> loss.linear([0, 1, 2])[0].reshape(3, 3)
    array([[0., 1., 2.],
           [1., 0., 1.],
           [2., 1., 0.]])
    """

    @checked
    def __init__(self, n: int) -> None:
        self.n = whole("n", n, 1, _MOST_ITEMS)
        self._distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(np.float64)

    def _places(self, label: npt.ArrayLike) -> npt.NDArray[np.intp]:
        given = floats("The label", label)
        if given.shape == (self.n,) and self.n > 1:
            if not np.array_equal(np.sort(given), np.arange(self.n)):
                raise DeclarationError(f"{given!r:.60} is not a permutation of 0 to {self.n - 1}.")
            return given.astype(np.intp)
        if given.size != self.n**2:
            raise DeclarationError(
                f"Footrule({self.n}) takes permutations of {self.n} items or their matrices, got shape {given.shape}."
            )
        return np.asarray(given.reshape(self.n, self.n).argmax(axis=1))

    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        given = floats("truth", truth)
        if given.size == self.n**2:  # a mean of permutation matrices is accepted as ground truth, too
            return (given.reshape(self.n, self.n) @ self._distance).ravel(), 0.0
        return self._distance[self._places(truth)].ravel(), 0.0

    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        return float(np.abs(self._places(y) - self._places(truth)).sum())
