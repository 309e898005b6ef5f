"""Scores of the contingency table, BMRM Algorithm 11: F_beta, Jaccard, precision at k and others.

The risk of a score is ``max over labellings y' of (y' - y).f + 1 - score(y', y)``. A score depends on y' only
through the true positives i and the false positives q, so the best y' with given (i, q) marks the i highest
positives and the q highest negatives (docs/mathematics/risks#contingency-tables):

    R = max over i, q of  A_i + B_q + 1 - score(i, q),      A, B concave: partial sums of sorted predictions

The named scores are linear in i once t is fixed, where t is the number of predicted positives (F_beta, precision,
recall) or q itself (Jaccard, balanced accuracy). Then the best i for each t maximises a concave function, and it never
falls as t grows because the slopes never rise: walking from the last best i visits O(m) tables in all, where
Algorithm 11 visits m+ m-.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from structopt._jit import kernel
from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.risks._base import FeatureRisk
from structopt.risks._features import BoolArray, FloatArray, IntArray, number_between, signs
from structopt.risks.sample_weight import copies

__all__ = ["BalancedAccuracy", "BreakEven", "Contingency", "FBeta", "Jaccard", "PrecisionAt", "RecallAt"]

Score = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]

# Tables of a general score that are evaluated at a time.
_BLOCK = 1 << 18


class Lines(NamedTuple):
    """``1 - score = constants[t] - slopes[t] i`` for each t from `first` on."""

    constants: FloatArray
    slopes: FloatArray
    first: int
    #: Whether t counts predicted positives (else false positives).
    by_predicted: bool


class ContingencyRisk(FeatureRisk):
    """A risk that depends on the labels through the contingency table; a subclass finds the worst table."""

    is_mean = False  # the table counts all examples

    def __init__(self, X: Any, y: Any, *, sample_weight: Any = None) -> None:
        super().__init__(X)
        self.y = signs(y, len(self), type(self).__name__)
        examples = copies(sample_weight, len(self), type(self).__name__)
        if examples is None:
            examples = np.arange(len(self))
        else:
            self._weight = np.bincount(examples, minlength=len(self)).astype(np.float64)
        self._positive = examples[self.y[examples] > 0]
        self._negative = examples[self.y[examples] < 0]
        if not self._positive.size:
            raise DeclarationError(
                f"{type(self).__name__}: all {self.n_negative} labels are -1 and the score needs a positive example."
            )

    @property
    def n_positive(self) -> int:
        """Number of examples labelled +1, with their copies."""
        return int(self._positive.size)

    @property
    def n_negative(self) -> int:
        """Number of examples labelled -1, with their copies."""
        return int(self._negative.size)

    @property
    def n_counted(self) -> int:
        """Number of examples with their copies: the tables' total."""
        return self.n_positive + self.n_negative

    @abstractmethod
    def _worst(self, positive: FloatArray, negative: FloatArray) -> tuple[float, int, int]:
        """Return ``1 - score`` and (i, q) of the worst table, given each class's predictions in descending order."""

    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        positive, negative = f[self._positive], f[self._negative]
        best, worst = np.sort(positive)[::-1].copy(), np.sort(negative)[::-1].copy()
        delta, i, q = self._worst(best, worst)
        missed = self._positive[~_highest(positive, best, i)]
        marked = self._negative[_highest(negative, worst, q)]
        size = len(self)
        derivative = 2.0 * np.bincount(marked, minlength=size) - 2.0 * np.bincount(missed, minlength=size)
        # Summed afresh: value and slope of the cut agree whatever rounding chose the table.
        return delta + float(derivative @ f), derivative


class LineRisk(ContingencyRisk):
    """A contingency risk whose score is linear in the true positives along lines, in O(m log m)."""

    @abstractmethod
    def _lines(self) -> Lines:
        """Return the lines of ``1 - score``."""

    def _worst(self, positive: FloatArray, negative: FloatArray) -> tuple[float, int, int]:
        delta, i, q = _walk(positive, negative, *self._lines())
        return float(delta), int(i), int(q)


class FBeta(LineRisk):
    """Risk of the F_beta score ``(1 + beta^2) i / (i + q + beta^2 m+)``.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : array of shape (m,)
        Labels -1 and +1, with at least one +1.
    beta : float
        Weight of recall against precision, positive.
    sample_weight : array of shape (m,), optional
        Whole numbers: how often each example is there, in the table and in the sums. All risks of this module take it.

    Notes
    -----
    As in BMRM the predictions are summed, not averaged: ``R(w)`` grows with the number of examples, and so does the
    `lam` that suits it.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import FBeta
    >>> risk = FBeta([[1.0], [2.0], [0.0], [3.0]], [1, -1, -1, 1])
    >>> value, subgradient = risk(np.array([0.4]))
    >>> round(value, 7), subgradient
    (1.9333333, array([4.]))
    """

    _parameters: ClassVar[tuple[str, ...]] = ("beta",)

    @checked
    def __init__(self, X: Any, y: Any, beta: float = 1.0, *, sample_weight: Any = None) -> None:
        super().__init__(X, y, sample_weight=sample_weight)
        self.beta = number_between("beta", beta, 0.0, math.inf, "FBeta")

    def _lines(self) -> Lines:
        square = self.beta**2
        predicted = np.arange(self.n_counted + 1, dtype=np.float64)
        slopes = (1.0 + square) / (predicted + square * self.n_positive)
        return Lines(np.ones(slopes.size), slopes, 0, True)


class Jaccard(LineRisk):
    """Risk of the Jaccard index ``i / (m+ + q)``, the intersection over the union.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Jaccard
    >>> Jaccard([[1.0], [-1.0]], [1, -1])(np.array([0.1]))[0]
    0.8
    """

    def _lines(self) -> Lines:
        slopes = 1.0 / (self.n_positive + np.arange(self.n_negative + 1, dtype=np.float64))
        return Lines(np.ones(slopes.size), slopes, 0, False)


class BalancedAccuracy(LineRisk):
    """Risk of the mean of recall and specificity, ``(i/m+ + 1 - q/m-) / 2``; needs both classes.

    Parameters
    ----------
    X : matrix of shape (n, d)
    y : array_like of shape (n,)
        Labels -1 and 1.
    sample_weight : array_like of shape (n,), optional
        Weights of the examples.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import BalancedAccuracy
    >>> BalancedAccuracy([[1.0], [-1.0]], [1, -1])(np.array([0.1]))[0]
    0.6
    """

    def __init__(self, X: Any, y: Any, *, sample_weight: Any = None) -> None:
        super().__init__(X, y, sample_weight=sample_weight)
        if not self.n_negative:
            raise DeclarationError("BalancedAccuracy: all labels are +1; pass examples of both classes.")

    def _lines(self) -> Lines:
        false_positives = np.arange(self.n_negative + 1, dtype=np.float64)
        slopes = np.full(false_positives.size, 0.5 / self.n_positive)
        return Lines(0.5 + 0.5 * false_positives / self.n_negative, slopes, 0, False)


class PrecisionAt(LineRisk):
    """Risk of precision among exactly `k` predicted positives, ``i / k``.

    The maximum runs over the labellings with k positives and the true one, whose loss is 0.

    Parameters
    ----------
    X : matrix of shape (n, d)
    y : array_like of shape (n,)
        Labels -1 and 1.
    k : int
        Number of examples that are called positive.
    sample_weight : array_like of shape (n,), optional
        Weights of the examples.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import PrecisionAt
    >>> PrecisionAt([[1.0], [-1.0], [-2.0]], [1, -1, -1], k=1)(np.array([0.1]))[0]
    0.6
    """

    _parameters: ClassVar[tuple[str, ...]] = ("k",)

    @checked
    def __init__(self, X: Any, y: Any, k: int, *, sample_weight: Any = None) -> None:
        super().__init__(X, y, sample_weight=sample_weight)
        most = self.n_counted
        if not (isinstance(k, (int, np.integer)) and 1 <= k <= most):
            raise DeclarationError(f"{type(self).__name__}: k must be an integer from 1 to {most}, got {k!r}.")
        self.k = int(k)

    def _lines(self) -> Lines:
        return Lines(np.ones(1), np.full(1, 1.0 / self.k), self.k, True)


class RecallAt(PrecisionAt):
    """Risk of recall among exactly `k` predicted positives, ``i / m+``.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import RecallAt
    >>> round(RecallAt([[1.0], [-1.0], [-2.0]], [1, -1, -1], k=2)(np.array([0.1]))[0], 12)
    0.2
    """

    def _lines(self) -> Lines:
        return Lines(np.ones(1), np.full(1, 1.0 / self.n_positive), self.k, True)


class BreakEven(PrecisionAt):
    """Risk of the precision/recall break-even point: precision among m+ predicted positives.

    Parameters
    ----------
    X : matrix of shape (n, d)
    y : array_like of shape (n,)
        Labels -1 and 1.
    sample_weight : array_like of shape (n,), optional
        Weights of the examples.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import BreakEven
    >>> BreakEven([[1.0], [-1.0], [-2.0]], [1, -1, -1])(np.array([0.1]))[0]
    0.6
    """

    _parameters: ClassVar[tuple[str, ...]] = ()

    def __init__(self, X: Any, y: Any, *, sample_weight: Any = None) -> None:
        ContingencyRisk.__init__(self, X, y, sample_weight=sample_weight)
        self.k = self.n_positive


class Contingency(ContingencyRisk):
    """Risk of any score of the contingency table, in O(m+ m-) time and O(m) memory.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : array of shape (m,)
        Labels -1 and +1, with at least one +1.
    score : callable
        ``score(tp, fp, fn, tn)`` on arrays of counts, finite; 1 is best.
    sample_weight : array_like of shape (n,), optional
        Weights of the examples.

    Notes
    -----
    Tables whose A_i + B_q is too far below its maximum to be the worst are not evaluated: with predictions of some size
    few remain. Use the named scores where there is one: they take O(m log m).

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Contingency
    >>> def g_mean(tp, fp, fn, tn):
    ...     return np.sqrt(tp / (tp + fn) * tn / (fp + tn))
    >>> Contingency([[1.0], [-1.0]], [1, -1], g_mean)(np.array([0.1]))[0]
    0.8
    """

    @checked
    def __init__(self, X: Any, y: Any, score: Score, *, sample_weight: Any = None) -> None:
        super().__init__(X, y, sample_weight=sample_weight)
        if not callable(score):
            raise DeclarationError(f"Contingency: score must be callable as score(tp, fp, fn, tn), got {score!r}.")
        self.score = score
        everything = np.arange(self.n_positive + 1), np.arange(self.n_negative + 1)
        self._largest = max(float(delta.max()) for _, delta in self._blocks(*everything))
        # The true labelling is one of those in the maximum.
        self.lower_bound = float(self._delta(np.array([self.n_positive]), np.zeros(1))[0, 0])

    def _delta(self, i: npt.ArrayLike, q: npt.ArrayLike) -> FloatArray:
        """Return 1 - score for the tables ``i`` (rows) by ``q`` (columns)."""
        rows, columns = np.asarray(i, dtype=np.float64), np.asarray(q, dtype=np.float64)
        tp, fp = np.broadcast_arrays(rows.reshape(-1, 1), columns.reshape(1, -1))
        delta = 1.0 - np.asarray(self.score(tp, fp, self.n_positive - tp, self.n_negative - fp), dtype=np.float64)
        if delta.shape != tp.shape or not np.all(np.isfinite(delta)):
            raise DeclarationError(
                "Contingency: score must return one finite number per table; guard divisions by zero with np.where."
            )
        return delta

    def _blocks(self, i: IntArray, q: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        step = max(1, _BLOCK // q.size)
        for start in range(0, i.size, step):
            rows = i[start : start + step]
            yield rows, self._delta(rows, q)

    def _worst(self, positive: FloatArray, negative: FloatArray) -> tuple[float, int, int]:
        a = 2.0 * (np.concatenate([[0.0], np.cumsum(positive)]) - positive.sum())
        b = 2.0 * np.concatenate([[0.0], np.cumsum(negative)])
        # A table further below the peak of A + B than its delta can make up for is not the worst.
        within = self._largest - self._delta(a.argmax(), b.argmax())[0, 0]
        within += 1e-9 * (1.0 + np.abs(a).max() + np.abs(b).max())
        i, q = np.flatnonzero(a >= a.max() - within), np.flatnonzero(b >= b.max() - within)
        worst, answer = -np.inf, (self.lower_bound, self.n_positive, 0)
        for rows, delta in self._blocks(i, q):
            table = a[rows, np.newaxis] + b[q] + delta
            row, column = np.unravel_index(table.argmax(), table.shape)
            if table[row, column] > worst:
                worst = table[row, column]
                answer = float(delta[row, column]), int(rows[row]), int(q[column])
        return answer


def _highest(values: FloatArray, descending: FloatArray, count: int) -> BoolArray:
    """Mark `count` of the highest values; of equal ones those that come first."""
    if count == 0:
        return np.zeros(values.size, dtype=bool)
    marked: BoolArray = values > descending[count - 1]
    missing = count - int(marked.sum())
    marked[np.flatnonzero(values == descending[count - 1])[:missing]] = True
    return marked


@kernel
def _walk(
    positive: FloatArray,
    negative: FloatArray,
    constants: FloatArray,
    slopes: FloatArray,
    first: int,
    by_predicted: bool,
) -> tuple[float, int, int]:
    """Maximise A_i + B_q + constants[t] - slopes[t] i, with A and B kept up to date as i and q move by one."""
    m_positive, m_negative = positive.size, negative.size
    worst, worst_delta, worst_i, worst_q = 0.0, 0.0, m_positive, 0  # the true labelling
    i, q = 0, 0
    a = 0.0
    for k in range(m_positive):
        a -= 2.0 * positive[k]
    b = 0.0
    for line in range(slopes.size):
        t = first + line
        low = max(0, t - m_negative) if by_predicted else 0
        high = min(t, m_positive) if by_predicted else m_positive
        while i < low:
            a += 2.0 * positive[i]
            i += 1
        while q < (t - i if by_predicted else t):
            b += 2.0 * negative[q]
            q += 1
        moved = True
        while moved and i < high:  # concave in i: climb while it pays
            gain = 2.0 * positive[i] - slopes[line]
            if by_predicted:
                gain -= 2.0 * negative[q - 1]
            moved = gain > 0.0
            if moved:
                a += 2.0 * positive[i]
                i += 1
                if by_predicted:
                    q -= 1
                    b -= 2.0 * negative[q]
        moved = True
        while moved and i > low:
            gain = slopes[line] - 2.0 * positive[i - 1]
            if by_predicted:
                gain += 2.0 * negative[q]
            moved = gain > 0.0
            if moved:
                i -= 1
                a -= 2.0 * positive[i]
                if by_predicted:
                    b += 2.0 * negative[q]
                    q += 1
        delta = constants[line] - slopes[line] * i
        if a + b + delta > worst:
            worst, worst_delta, worst_i, worst_q = a + b + delta, delta, i, q
    return worst_delta, worst_i, worst_q
