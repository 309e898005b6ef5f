"""`QuantileRegressor` and `OrdinalRegressor`."""

from __future__ import annotations

import heapq
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from structopt.checks import floats
from structopt.errors import DeclarationError
from structopt.estimators._base import FloatArray, LinearRegressor, append_constant, check_constant
from structopt.risks.ordinal import Ordinal
from structopt.risks.scalar import Quantile

__all__ = ["OrdinalRegressor", "QuantileRegressor"]


_LARGEST = float(np.finfo(np.float64).max)


class QuantileRegressor(LinearRegressor):
    """Linear prediction of a quantile: ``lam/2 ||w||^2 + mean pinball loss``, to a certified gap.

    Parameters
    ----------
    tau : float
        Which quantile, between 0 and 1: the share of targets that should lie below the prediction.
    lam : float
        Weight of the regulariser.
    tol : float
        Certified relative gap of the objective at which to stop.
    intercept : bool
        Learn an intercept: the quantile of the training targets, plus the weight of a constant feature (regularised, so
        that the prediction without features is that quantile, wherever zero is).
    intercept_scaling : float
        Value of the constant feature.
    max_passes, max_seconds, checkpoint, verbose, warm_start
        As of `LinearSVM`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    result_ : TrainResult
        Of the problem with targets less their quantile.
    n_features_in_, n_iter_ : int
    feature_names_in_ : ndarray
        Names of the columns, where X had some.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.estimators.regression import QuantileRegressor
    >>> X = np.linspace(-1, 1, 101)[:, None]
    >>> y = 2 * X[:, 0] + np.tile([0.0, 1.0], 51)[:101]
    >>> high = QuantileRegressor(tau=0.9, lam=1e-4).fit(X, y)
    >>> high.predict([[0.0]]).round(1), round(float(np.mean(y <= high.predict(X) + 1e-2)), 1)
    (array([1.]), 1.0)
    """

    def __init__(
        self,
        tau: float = 0.5,
        lam: float = 1e-3,
        *,
        tol: float = 1e-3,
        intercept: bool = True,
        intercept_scaling: float = 1.0,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        checkpoint: Any = None,
        verbose: bool | int = False,
        warm_start: bool = False,
    ) -> None:
        super().__init__(
            lam,
            tol=tol,
            max_passes=max_passes,
            max_seconds=max_seconds,
            checkpoint=checkpoint,
            verbose=verbose,
            warm_start=warm_start,
        )
        self.tau = tau
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows `X` of features, dense or sparse, and their targets `y`.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
        y : array or column of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
            The risk is the weighted mean over the examples: weight 2 is an example given twice, 0 one left out, and all
            weights times a number change nothing. Equal by default.

        Returns
        -------
        self
        """
        X, y, weights = self._check_data(X, y, sample_weight, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        if not 0.0 < self.tau < 1.0:
            raise DeclarationError(f"tau is a quantile and must lie in (0, 1), got {self.tau!r}.")
        constant = check_constant(self.intercept, self.intercept_scaling)
        origin = _quantile(y, self.tau, weights) if constant else 0.0
        risk = Quantile(append_constant(X, constant), y - origin, self.tau, sample_weight=weights)
        result = self._minimise(risk)
        self._set_weights(result.w, constant)
        self.intercept_ += origin
        self._keep(result)
        return self

    def predict(self, X: Any) -> FloatArray:
        """The estimated quantile at the rows of X.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._scores(X)


class OrdinalRegressor(LinearRegressor):
    """Predict levels that are ordered: a linear score, cut into levels by thresholds.

    The score minimises ``lam/2 ||w||^2`` plus the mean over pairs of different level of ``cost max(0, 1 + f_i - f_j)``
    (BMRM Algorithm 8). The thresholds then minimise the sum over the training examples of the number of levels between
    prediction and ground truth: an isotonic median regression of the levels on the scores.

    Parameters
    ----------
    lam : float
        Weight of the regulariser.
    cost : "constant", "linear" or array of shape (n_levels, n_levels)
        The loss of a pair in the wrong order, as of `structopt.risks.Ordinal`.
    tol : float
        Certified relative gap of the objective at which to stop.
    max_passes, max_seconds, checkpoint, verbose, warm_start
        As of `LinearSVM`.

    Attributes
    ----------
    levels_ : ndarray
        The different targets, ascending.
    thresholds_ : ndarray of shape (n_levels - 1,)
        Scores from which each level but the first begins.
    coef_ : ndarray of shape (n_features,)
    result_ : TrainResult
    n_features_in_, n_iter_ : int
    feature_names_in_ : ndarray
        Names of the columns, where X had some.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.estimators.regression import OrdinalRegressor
    >>> X, y = np.arange(6.0)[:, None], [1, 1, 2, 2, 5, 5]
    >>> ordinal = OrdinalRegressor(lam=0.01).fit(X, y)
    >>> ordinal.predict([[0.2], [2.4], [9.0]])
    array([1, 2, 5])
    """

    def __init__(
        self,
        lam: float = 1e-3,
        cost: Any = "constant",
        *,
        tol: float = 1e-3,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        checkpoint: Any = None,
        verbose: bool | int = False,
        warm_start: bool = False,
    ) -> None:
        super().__init__(
            lam,
            tol=tol,
            max_passes=max_passes,
            max_seconds=max_seconds,
            checkpoint=checkpoint,
            verbose=verbose,
            warm_start=warm_start,
        )
        self.cost = cost

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows `X` of features, dense or sparse, and their levels `y`, any ordered numbers.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
        y : array or column of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
            An example of weight 2 counts as two: a pair by the product of its weights, and a distance between
            prediction and ground truth by that of its example. Equal by default.

        Returns
        -------
        self
        """
        X, y, weights = self._check_data(X, y, sample_weight, y_numeric=True)
        self.levels_, codes = np.unique(y, return_inverse=True)
        if self.levels_.size < 2:
            raise DeclarationError(
                f"OrdinalRegressor: every target is {self.levels_[0]:g} (n_samples = {len(y)}), so there is no pair to "
                "compare; pass two levels or more."
            )
        result = self._minimise(Ordinal(X, y, self.cost, sample_weight=weights))
        self._set_weights(result.w, 0.0)
        scores = np.asarray(X @ self.coef_, dtype=np.float64)
        if not np.isfinite(scores).all():
            raise DeclarationError(
                "OrdinalRegressor: the scores of the training examples overflow; scale the features to about unit size."
            )
        self.thresholds_ = _thresholds(scores, codes, self.levels_.size, weights)
        self._keep(result)
        return self

    def _check_restored(self) -> None:
        super()._check_restored()
        levels = floats("levels_", getattr(self, "levels_", None), ndim=1)
        floats("thresholds_", getattr(self, "thresholds_", None), (levels.size - 1,), finite=False)

    def score_samples(self, X: Any) -> FloatArray:
        """Scores of the rows of X, which the thresholds cut into levels (a regressor has no `decision_function`).

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._scores(X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The levels of the rows of X.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self)
        return np.asarray(self.levels_[np.searchsorted(self.thresholds_, self._scores(X), side="right")])


def _quantile(y: FloatArray, tau: float, weights: FloatArray | None) -> float:
    """The middle of the minimisers of the weighted pinball loss: where the weighted share of targets passes `tau`.

    Unlike an interpolated quantile it does not change when every example is given twice.

    Examples
    --------
    >>> y = np.array([3.0, 1.0, 2.0, 4.0])
    >>> _quantile(y, 0.5, None), _quantile(y, 0.5, np.array([1.0, 1.0, 3.0, 1.0])), _quantile(y, 0.9, None)
    (2.5, 2.0, 4.0)
    """
    order = np.argsort(y, kind="stable")
    share = np.arange(1.0, len(y) + 1.0) if weights is None else np.cumsum(weights[order] / weights.max())
    share /= share[-1]
    low, high = np.searchsorted(share, [tau * (1.0 - 1e-12), tau * (1.0 + 1e-12)])
    low, high = min(int(low), len(y) - 1), min(int(high), len(y) - 1)
    return float(0.5 * (y[order[low]] + y[order[high]]))


def _thresholds(
    f: FloatArray, level: npt.NDArray[np.intp], n_levels: int, weights: FloatArray | None = None
) -> FloatArray:
    """Where each level but the first begins, ascending and finite; between two training scores, in their middle."""
    order = np.argsort(f, kind="stable")
    ordered, ends = f[order], np.flatnonzero(np.diff(f[order], append=np.inf) > 0)
    own = np.ones(len(f)) if weights is None else weights
    fitted = _isotonic_median(np.split(level[order], ends[:-1] + 1), np.split(own[order], ends[:-1] + 1))
    scores = ordered[ends]
    first = np.searchsorted(fitted, np.arange(1, n_levels))  # the first group at or above each level
    # Levels that no training score reaches begin beyond all of them, by the margin that the risk requires of a pair.
    beyond = np.maximum(1.0, 1e-6 * np.abs(scores[[0, -1]])) * [-1.0, 1.0] + scores[[0, -1]]
    middle = np.concatenate([beyond[:1], 0.5 * scores[1:] + 0.5 * scores[:-1], beyond[1:]])
    return np.asarray(np.clip(middle[first], -_LARGEST, _LARGEST))


def _isotonic_median(groups: list[npt.NDArray[np.intp]], weights: list[FloatArray]) -> npt.NDArray[np.intp]:
    """The non-decreasing sequence, one value per group, with the least weighted sum of distances to its members.

    Slope trick: the heap holds the points where the slope of the least cost so far, as a function of the last value,
    rises, and by how much; its largest entry is the best last value.

    Examples
    --------
    >>> levels = [np.array([0]), np.array([2]), np.array([1, 1]), np.array([3])]
    >>> _isotonic_median(levels, [np.ones(len(group)) for group in levels])
    array([0, 1, 1, 3])
    >>> _isotonic_median(levels, [np.ones(1), np.full(1, 5.0), np.ones(2), np.ones(1)])
    array([0, 2, 2, 3])
    """
    heap: list[tuple[int, float]] = []
    best = np.empty(len(groups), dtype=np.intp)
    for k, (group, own) in enumerate(zip(groups, weights, strict=True)):
        for value, weight in zip(group.tolist(), own.tolist(), strict=True):
            heapq.heappush(heap, (-value, 2.0 * weight))
        left = float(own.sum())
        while left > 0.0:
            value, rise = heap[0]
            if rise > left * (1.0 + 1e-12) or len(heap) == 1:
                heapq.heapreplace(heap, (value, max(rise - left, 0.0)))
                break
            heapq.heappop(heap)
            left -= rise
        best[k] = -heap[0][0]
    return np.minimum.accumulate(best[::-1])[::-1]
