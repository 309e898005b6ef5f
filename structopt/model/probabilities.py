"""Probabilities of labels under a model: log-partition, marginals, samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from structopt.checks import number
from structopt.space.compiled import FloatArray

if TYPE_CHECKING:
    from structopt.oracle import Oracle

__all__ = ["Probabilities"]


class Probabilities(ABC):
    """The distribution ``P(z | x) ~ exp(w . joint(x, z))`` over the labels of an input: what a `Model` says of it."""

    @abstractmethod
    def oracle(self, x: Any = None) -> Oracle:
        """The oracle of an input's space."""

    @abstractmethod
    def scores(self, w: npt.ArrayLike, x: Any) -> FloatArray:
        """Objective coefficients of an input's labels."""

    @abstractmethod
    def check_key(self, x: Any, name: str = "This input") -> None:
        """Raise if the label space of an input differs from that of an earlier input with the same key."""

    @abstractmethod
    def _decode_all(self, points: FloatArray, x: Any) -> list[Any]:
        """Return the labels of points of one input, all in one form."""

    def log_partition(self, w: npt.ArrayLike, x: Any) -> float:
        """``log sum_z exp(w . joint(x, z))`` over all labels of the space, where an algorithm sums over them.

        Parameters
        ----------
        w : array_like
            Weights.
        x : object
            An input.

        Returns
        -------
        float
        """
        self.check_key(x)
        return float(self.oracle(x).log_partition(self.scores(w, x)[None])[0])

    def marginals(self, w: npt.ArrayLike, x: Any, *, temperature: float = 1.0) -> FloatArray:
        """The mean label under ``P(z | x) ~ exp(w . joint(x, z) / temperature)``.

        Parameters
        ----------
        w : array_like
            Weights.
        x : object
            An input.
        temperature : float
            Larger than 0: small ones favour the best label, large ones all labels alike.

        Returns
        -------
        ndarray, shape (n_variables,)
            Of a 0/1 variable the probability that it is 1; ``model.space(x).blocks(...)`` takes it apart.

        Examples
        --------
        >>> import structopt as so
        >>> space = so.LabelSpace("at most one of three")
        >>> tag = space.binary("tag", 3)
        >>> space.subject_to(tag.sum() <= 1)
        >>> model = so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming())
        >>> model.marginals([0.0, 0.0, 0.0], [1.0])
        array([0.25, 0.25, 0.25])
        """
        self.check_key(x)
        temperature = number("temperature", temperature, above=0.0)
        return np.asarray(self.oracle(x).marginals(self.scores(w, x)[None] / temperature)[0])

    def sample(
        self, w: npt.ArrayLike, x: Any, n: int = 1, *, temperature: float = 1.0, random_state: Any = None
    ) -> list[Any]:
        """Labels drawn from ``P(z | x) ~ exp(w . joint(x, z) / temperature)``.

        Parameters
        ----------
        w : array_like
            Weights; zeros draw all labels with the same probability.
        x : object
            An input.
        n : int
            How many labels.
        temperature : float
            As of `marginals`.
        random_state : int, Generator or None
            As of `numpy.random.default_rng`.

        Returns
        -------
        list
            Labels as `decode` makes them.
        """
        self.check_key(x)
        costs = self.scores(w, x) / number("temperature", temperature, above=0.0)
        return self._decode_all(self.oracle(x).sample(costs, n, random_state=random_state), x)
