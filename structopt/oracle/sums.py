"""Sums over all labels of a space: log-partition, marginals, samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt.algorithms.base import Algorithm
from structopt.algorithms.diagram import DIAGRAMS, DiagramAlgorithm
from structopt.algorithms.enumeration import Enumeration
from structopt.algorithms.question import Question
from structopt.checks import seed, whole
from structopt.errors import DeclarationError, DiagramRefused
from structopt.oracle.costs import cost_matrix, cost_vector
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["SumsOverLabels"]


class SumsOverLabels(ABC):
    """The distribution ``p(z) ~ exp(c . z)`` over the labels of a space, as a part of `Oracle`.

    By the oracle's own algorithm where it sums over labels, else by a list of them, else by a decision diagram.
    """

    space: CompiledSpace
    integral: str
    _algorithm: Algorithm
    _sums: Algorithm | None = None

    @abstractmethod
    def _check_current(self) -> None:
        """Raise an error if the space has changed since."""

    def log_partition(self, C: npt.ArrayLike) -> FloatArray:
        """``log sum_z exp(c . z)`` over all labels, for every row of `C`.

        Parameters
        ----------
        C : array_like, shape (n, n_variables)
            Objective coefficients, one row for each distribution ``p(z) ~ exp(c . z)``.

        Returns
        -------
        ndarray, shape (n,)

        Raises
        ------
        DeclarationError
            If no algorithm that sums over this space's labels is known.

        Examples
        --------
        >>> import numpy as np
        >>> import structopt as so
        >>> oracle = so.Oracle(so.LabelSpace.from_matrices([[1, 1, 1]], 0, 1))        # four labels
        >>> np.exp(oracle.log_partition(np.zeros((1, 3)))).round(6)
        array([4.])
        """
        return self._summing.log_partition(cost_matrix(self.space, C))

    def marginals(self, C: npt.ArrayLike) -> FloatArray:
        """The mean label under ``p(z) ~ exp(c . z)``, for every row of `C`.

        The gradient of `log_partition`; for a 0/1 variable the probability that it is 1.

        Parameters
        ----------
        C : array_like, shape (n, n_variables)

        Returns
        -------
        ndarray, shape (n, n_variables)

        Examples
        --------
        >>> import numpy as np
        >>> import structopt as so
        >>> oracle = so.Oracle(so.LabelSpace.from_matrices([[1, 1, 1]], 0, 1))
        >>> oracle.marginals(np.log([[1.0, 2.0, 4.0]])).round(4)
        array([[0.125, 0.25 , 0.5  ]])
        """
        return self._summing.marginals(cost_matrix(self.space, C))

    def sums(self, C: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """`log_partition` and `marginals` in one pass.

        Parameters
        ----------
        C : array_like, shape (n, n_variables)

        Returns
        -------
        log_partition : ndarray, shape (n,)
        marginals : ndarray, shape (n, n_variables)

        Examples
        --------
        >>> import numpy as np
        >>> import structopt as so
        >>> oracle = so.Oracle(so.LabelSpace.from_matrices([[1, 1, 1]], 0, 1))
        >>> log_partition, marginals = oracle.sums(np.log([[1.0, 2.0, 4.0]]))
        >>> np.exp(log_partition).round(4), marginals.round(4)
        (array([8.]), array([[0.125, 0.25 , 0.5  ]]))
        """
        return self._summing.sums(cost_matrix(self.space, C))

    def covariance_products(self, C: npt.ArrayLike, V: npt.ArrayLike) -> FloatArray:
        """The covariance of the labels under ``p(z) ~ exp(c . z)`` times a vector, row by row.

        The derivative of `marginals` along that vector. It is exact up to rounding, except for an algorithm of your own
        without a formula: then it is a difference quotient of fourth order, right to about ten digits.

        Parameters
        ----------
        C : array_like, shape (n, n_variables)
        V : array_like, shape (n, n_variables)
            A vector for each row of `C`.

        Returns
        -------
        ndarray, shape (n, n_variables)

        Examples
        --------
        >>> import numpy as np
        >>> import structopt as so
        >>> oracle = so.Oracle(so.LabelSpace.from_matrices([[1, 1]], 1, 1))            # (1, 0) or (0, 1)
        >>> oracle.covariance_products(np.zeros((1, 2)), [[1.0, 0.0]])
        array([[ 0.25, -0.25]])
        """
        costs, vectors = cost_matrix(self.space, C), cost_matrix(self.space, V)
        if costs.shape != vectors.shape:
            raise DeclarationError(f"V has shape {vectors.shape}, C {costs.shape}: a vector for each row is needed.")
        return self._summing.covariance_products(costs, vectors)

    def sample(self, c: npt.ArrayLike, n: int = 1, *, random_state: Any = None) -> FloatArray:
        """Labels drawn from ``p(z) ~ exp(c . z)``.

        Parameters
        ----------
        c : array_like, shape (n_variables,)
            Zeros draw all labels with the same probability.
        n : int
            How many labels.
        random_state : int, Generator or None
            Seed, as `numpy.random.default_rng` takes it.

        Returns
        -------
        ndarray, shape (n, n_variables)

        Examples
        --------
        >>> import structopt as so
        >>> oracle = so.Oracle(so.LabelSpace.from_matrices([[1, 1]], 1, 1))
        >>> oracle.sample([0.0, 0.0], 2, random_state=0).sum(axis=1)
        array([1., 1.])
        """
        return self._summing.sample(
            cost_vector(self.space, c), whole("n", n, low=0), np.random.default_rng(seed("random_state", random_state))
        )

    @property
    def _summing(self) -> Algorithm:
        """Algorithm for sums over all labels: the oracle's own, or a list of the labels."""
        self._check_current()
        if self._sums is None:
            self._sums = self._find_summing()
        return self._sums

    @property
    def _sums_over_labels(self) -> bool:
        """Whether an algorithm sums over all labels; it is made here if necessary."""
        try:
            return self._summing is not None
        except DeclarationError:
            return False

    def _find_summing(self) -> Algorithm:
        if self.integral == "relax" or not self.space.is_integral:
            raise DeclarationError(
                "Sums over all labels need integral labels: declare the variables integer, and leave out "
                "integral='relax'."
            )
        if Question.SUMS in self._algorithm.answers:
            return self._algorithm
        found = Enumeration.of_space(self.space)
        if found is not None:
            return found
        try:
            return DiagramAlgorithm(DIAGRAMS.get(self.space))
        except DiagramRefused as refusal:
            raise DeclarationError(
                f"No algorithm is known that sums over all labels of {self.space!r}: it is solved by "
                f"{self._algorithm.name}, and cannot be compiled. {refusal}"
            ) from None
