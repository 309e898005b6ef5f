"""Ranking measures: the position weights a and relevance weights b of BMRM (28).

A measure of a ranking is ``sum over documents of a[position] b[document]``, with positions counted from the top.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from structopt.checks import number, whole
from structopt.errors import DeclarationError
from structopt.space.compiled import FloatArray

__all__ = ["ERU", "MRR", "NDCG", "PrecisionAtN", "RankingMeasure"]


class RankingMeasure(ABC):
    """A measure that is linear in the permutation; a subclass gives `weights`."""

    @abstractmethod
    def weights(self, relevance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``a`` by position and ``b`` by document, for relevances in descending order.

        Parameters
        ----------
        relevance : ndarray of shape (n,)

        Returns
        -------
        gains, discounts : ndarray
        """

    def score(self, relevance: FloatArray, f: FloatArray) -> float:
        """Return the measure of ranking one query's documents by descending `f`.

        Parameters
        ----------
        relevance : ndarray of shape (n,)
        f : ndarray of shape (n,)
            Scores of the documents.

        Returns
        -------
        float

        Examples
        --------
        >>> import numpy as np
        >>> from structopt.risks import NDCG
        >>> NDCG().score(np.array([0.0, 3.0]), np.array([1.0, 2.0]))
        1.0
        """
        by_relevance = np.argsort(-np.asarray(relevance, dtype=np.float64), kind="stable")
        a, b = self.weights(np.asarray(relevance, dtype=np.float64)[by_relevance])
        return float(a @ b[np.argsort(-np.asarray(f)[by_relevance], kind="stable")])


@dataclass(frozen=True)
class NDCG(RankingMeasure):
    """Normalised discounted cumulative gain ``sum (2^relevance - 1) / log2(1 + position)``, cut after `k` positions.

    Parameters
    ----------
    k : int, optional
        Only the first k places count.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import NDCG
    >>> a, b = NDCG().weights(np.array([2.0, 0.0]))
    >>> a.round(4), b
    (array([1.    , 0.6309]), array([1., 0.]))
    """

    k: int | None = None

    def __post_init__(self) -> None:
        if self.k is not None:
            whole("NDCG: k", self.k, low=1)

    def weights(self, relevance: FloatArray) -> tuple[FloatArray, FloatArray]:
        a = 1.0 / np.log2(2.0 + np.arange(relevance.size))
        a[self.k :] = 0.0 if self.k is not None else a[self.k :]
        gain = np.exp2(relevance) - 1.0
        ideal = float(a @ gain)
        return a, gain / ideal if ideal > 0.0 else gain


@dataclass(frozen=True)
class MRR(RankingMeasure):
    """Reciprocal rank of the most relevant document.

    If several are equally relevant, the first given is the one to find; the risk is then still an upper bound of one
    minus the reciprocal rank of the best of them.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import MRR
    >>> MRR().weights(np.array([1.0, 0.0]))
    (array([1. , 0.5]), array([1., 0.]))
    """

    def weights(self, relevance: FloatArray) -> tuple[FloatArray, FloatArray]:
        b = np.zeros(relevance.size)
        b[0] = 1.0
        return 1.0 / np.arange(1.0, relevance.size + 1.0), b


@dataclass(frozen=True)
class PrecisionAtN(RankingMeasure):
    """Share of relevant documents (relevance above 0) among the first `n`.

    Parameters
    ----------
    n : int
        The places that count.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import PrecisionAtN
    >>> PrecisionAtN(2).weights(np.array([3.0, 0.0, 0.0]))
    (array([0.5, 0.5, 0. ]), array([1., 0., 0.]))
    """

    n: int = 10

    def __post_init__(self) -> None:
        whole("PrecisionAtN: n", self.n, low=1)

    def weights(self, relevance: FloatArray) -> tuple[FloatArray, FloatArray]:
        a = np.where(np.arange(relevance.size) < self.n, 1.0 / self.n, 0.0)
        return a, (relevance > 0.0).astype(np.float64)


@dataclass(frozen=True)
class ERU(RankingMeasure):
    """Expected rank utility ``sum max(relevance - neutral, 0) 2^(-(position - 1) / (half_life - 1))`` (Breese 1998).

    Parameters
    ----------
    half_life : float
        The place at which the interest has halved.
    neutral : float
        The relevance that counts nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import ERU
    >>> ERU(half_life=2.0).weights(np.array([3.0, 1.0]))
    (array([1. , 0.5]), array([3., 1.]))
    """

    half_life: float = 5.0
    neutral: float = 0.0

    def __post_init__(self) -> None:
        if not number("ERU: half_life", self.half_life) > 1.0:
            raise DeclarationError(f"ERU: half_life is a position beyond the first, got {self.half_life!r}.")
        number("ERU: neutral", self.neutral, finite=True)

    def weights(self, relevance: FloatArray) -> tuple[FloatArray, FloatArray]:
        a = np.exp2(-np.arange(relevance.size) / (self.half_life - 1.0))
        return a, np.maximum(relevance - self.neutral, 0.0)
