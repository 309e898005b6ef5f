"""The base class of task losses, linear in the label: ``loss(y, truth) = coef . y + const``."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from structopt.checks import call_text
from structopt.errors import removed
from structopt.space.compiled import FloatArray

__all__ = ["TaskLoss"]


@removed(smallest="searches do not need it; delete your own")
class TaskLoss(ABC):
    """A loss that is linear in the label, for labels and ground truths of a given 0/1 block."""

    @abstractmethod
    def linear(self, truth: npt.ArrayLike) -> tuple[FloatArray, float]:
        """Coefficients and constant with ``loss(y, truth) = coef . y + const``.

        Parameters
        ----------
        truth : ndarray
            The ground truth.

        Returns
        -------
        coef, const : ndarray and float
        """

    @abstractmethod
    def value(self, y: npt.ArrayLike, truth: npt.ArrayLike) -> float:
        """The loss by its definition, for a 0/1 label `y`.

        Parameters
        ----------
        y : ndarray
            A label.
        truth : ndarray
            The ground truth.

        Returns
        -------
        float
        """

    def linear_batch(self, truths: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """`linear` for each row of `truths`.

        Parameters
        ----------
        truths : ndarray of shape (n, size)
            Ground truths.

        Returns
        -------
        coef, const : ndarray
        """
        forms = [self.linear(truth) for truth in np.asarray(truths)]
        return np.array([coef for coef, _ in forms]), np.array([const for _, const in forms])

    def _linear_ones(self, ones: npt.NDArray[np.int64], n: int, size: int) -> tuple[FloatArray, FloatArray] | None:
        """Return `linear_batch` of `n` true labels by the places of their ones, or None if the zeros matter."""
        return None

    def expected(self, mean: npt.ArrayLike) -> tuple[FloatArray, float] | None:
        """The mean of `linear` over random ground truths, from their mean; None if it takes more than the mean.

        Minimum-Bayes-risk prediction minimises this function. A loss has one if its linear form is affine in the ground
        truth.

        Parameters
        ----------
        mean : array_like
            Marginal probabilities of the true label's 0/1 variables.

        Returns
        -------
        tuple of (ndarray, float), or None
        """
        return None

    def counted(self, size: int) -> FloatArray | None:
        """One weight for each variable whose wrong values this loss counts; None if it counts something else.

        For 0/1 variables a count of wrong ones is one of false positives and false negatives, which is what micro-F1 is
        made of: `structopt.surrogates.MicroF1` finds here which variables these are.

        Parameters
        ----------
        size : int
            Number of variables.

        Returns
        -------
        ndarray or None
        """
        return None

    __repr__ = call_text
