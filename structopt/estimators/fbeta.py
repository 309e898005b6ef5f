"""`FBetaSVM`: classify for the F score."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.metrics import fbeta_score

from structopt.errors import numbered
from structopt.estimators._base import BinaryEstimator, append_constant, check_constant
from structopt.risks.contingency import FBeta

__all__ = ["FBetaSVM"]


class FBetaSVM(BinaryEstimator):
    """Linear binary classifier trained on the F_beta score of the positive class (BMRM Algorithm 11).

    Parameters
    ----------
    lam : float
        Weight of the regulariser against the risk of one example: the risk of a contingency table grows with the number
        of examples, and ``lam/2 ||w||^2 + risk / n_samples`` is minimised.
    beta : float
        Weight of recall against precision.
    tol : float
        Certified relative gap of the objective at which to stop.
    intercept, intercept_scaling
        As of `LinearSVM`.
    max_passes, max_seconds, checkpoint, verbose, warm_start
        As of `LinearSVM`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The second is the positive class.
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
    result_ : TrainResult
        Of the objective ``n_samples lam/2 ||w||^2 + risk``.
    n_features_in_, n_iter_ : int
    feature_names_in_ : ndarray
        Names of the columns, where X had some.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.estimators.fbeta import FBetaSVM
    >>> X, y = np.array([[2.0], [1.0], [-1.0], [-3.0]]), np.array([1, 1, 0, 0])
    >>> svm = FBetaSVM(lam=0.01).fit(X, y)
    >>> svm.predict([[1.5], [-2.0]]), svm.score(X, y)
    (array([1, 0]), 1.0)
    """

    def __init__(
        self,
        lam: float = 1e-3,
        beta: float = 1.0,
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
        self.beta = beta
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows `X` of features, dense or sparse, and their classes `y`.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
        y : array or column of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
            How often each example is there, whole numbers: the score counts examples. Once each by default.

        Returns
        -------
        self
        """
        X, signs, weights = self._check_binary(X, y, sample_weight)
        constant = check_constant(self.intercept, self.intercept_scaling)
        with numbered(range(len(signs)) if sample_weight is None else np.flatnonzero(np.asarray(sample_weight))):
            risk = FBeta(append_constant(X, constant), signs, self.beta, sample_weight=weights)
        result = self._minimise(risk, lam=self.lam * risk.n_counted)
        self._set_weights(result.w, constant)
        self.coef_, self.intercept_ = self.coef_[np.newaxis], np.array([self.intercept_])
        self._keep(result)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The F_beta score of the positive class."""
        positive = self.classes_[1]
        true, found = self._true_classes(y) == positive, self.predict(X) == positive
        return float(fbeta_score(true, found, beta=self.beta, sample_weight=sample_weight))
