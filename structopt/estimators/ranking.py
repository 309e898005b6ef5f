"""`RankSVM` and `AUCMaximizer`: learn an order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import column_or_1d

from structopt.checks import floats
from structopt.errors import DeclarationError
from structopt.estimators._base import BinaryEstimator, FloatArray, LinearEstimator
from structopt.estimators._fitting import taken, used_examples
from structopt.losses.ranking_measures import RankingMeasure
from structopt.risks.ordinal import Ordinal
from structopt.risks.preference import Preference
from structopt.risks.ranking import Ranking
from structopt.risks.risk import Risk
from structopt.risks.roc import ROCArea

__all__ = ["AUCMaximizer", "RankSVM"]


class RankSVM(LinearEstimator):
    """Rank documents by a linear score: pairwise, or by a measure of whole rankings.

    Parameters
    ----------
    lam : float
        Weight of the regulariser.
    measure : "pairs", "ndcg", "mrr", "precision", "eru" or RankingMeasure
        "pairs" is the mean hinge over the pairs of a query that differ in relevance; the others are the multivariate
        risks of BMRM, for example ``structopt.risks.NDCG(k=10)``.
    decay : float or callable
        Weights of the positions in those risks, as of `structopt.risks.Ranking`.
    tol : float
        Certified relative gap of the objective at which to stop.
    max_passes, max_seconds, checkpoint, verbose, warm_start
        As of `LinearSVM`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    result_ : TrainResult
    n_features_in_, n_iter_ : int
    feature_names_in_ : ndarray
        Names of the columns, where X had some.

    Notes
    -----
    An intercept would change no order; there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.estimators.ranking import RankSVM
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> ranker = RankSVM(lam=0.01).fit(X, [0, 1, 0, 1], query=["a", "a", "b", "b"])
    >>> ranker.predict(X).round(1), ranker.score(X, [0, 1, 0, 1], query=["a", "a", "b", "b"])
    (array([-0.5,  0.5,  0.5,  1.5]), 1.0)
    """

    def __init__(
        self,
        lam: float = 1e-3,
        measure: str | RankingMeasure = "pairs",
        decay: float | Callable[[int], FloatArray] = 0.25,
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
        self.measure = measure
        self.decay = decay

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any, query: Any = None, sample_weight: Any = None) -> Self:
        """Learn from documents.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_documents, n_features)
        y : array of shape (n_documents,)
            Relevances; more is better.
        query : array of shape (n_documents,), optional
            To which query each document belongs; all to one by default.
        sample_weight : array of shape (n_documents,), optional
            Of weight 2 is what is there twice: with ``measure="pairs"`` a document, so that a pair counts by the
            product of its two weights; with the other measures a query, so that its documents share one weight.

        Returns
        -------
        self
        """
        X, y, weights = self._check_data(X, y, sample_weight, y_numeric=True)
        n = len(y) if sample_weight is None else np.asarray(sample_weight).size
        rows, _ = used_examples(sample_weight, n, self)
        queries = _queries(query, len(y) if rows is None else n)
        queries = np.unique(taken(queries, rows), return_inverse=True)[1]
        result = self._minimise(self._risk(X, y, queries, weights))
        self._set_weights(result.w, 0.0)
        self._keep(result)
        return self

    def _risk(self, X: Any, y: FloatArray, query: npt.NDArray[np.intp], weights: FloatArray | None) -> Risk:
        if not (isinstance(self.measure, str) and self.measure == "pairs"):
            return Ranking(X, y, query, self.measure, self.decay, sample_weight=weights)
        if np.ptp(y) == 0.0:
            raise DeclarationError(
                f"RankSVM: every relevance is {float(y[0]):g} (n_samples = {len(y)}), so there is no pair to compare; "
                "pass documents of two relevances or more."
            )
        if query.max() == 0:
            return Ordinal(X, y, sample_weight=weights)  # all pairs of one query in O(m log m)
        return Preference(X, _pairs(y, query), sample_weight=weights)

    def decision_function(self, X: Any) -> FloatArray:
        """Scores; a higher one ranks before a lower one.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._scores(X)

    def predict(self, X: Any) -> FloatArray:
        """Scores; sort by them, highest first.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._scores(X)

    def score(self, X: Any, y: Any, query: Any = None) -> float:
        """The mean over queries of the share of pairs in the right order, or of the measure.

        Queries whose documents are all equally relevant say nothing and are left out.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)
        y : array_like of shape (n,)
            Relevances.
        query : array_like of shape (n,), optional
            Which query each row belongs to.

        Returns
        -------
        float
        """
        f = self.predict(X)
        y = floats("y", column_or_1d(y), (len(f),))
        codes = _queries(query, len(y))
        found = [self._score(y[codes == q], f[codes == q]) for q in range(int(codes.max()) + 1)]
        known = [value for value in found if value is not None]
        if not known:
            raise DeclarationError("RankSVM: no query has two documents that differ in relevance: nothing to score.")
        return float(np.mean(known))

    def _score(self, y: FloatArray, f: FloatArray) -> float | None:
        if np.ptp(y) == 0.0:
            return None
        if isinstance(self.measure, RankingMeasure):
            return self.measure.score(y, f)
        if self.measure != "pairs":
            return Ranking(f[:, None], y, np.zeros(len(y)), self.measure).measure.score(y, f)
        worse, better = _pairs(y, np.zeros(len(y), dtype=np.intp)).T
        return float(np.mean((f[better] > f[worse]) + 0.5 * (f[better] == f[worse])))


class AUCMaximizer(BinaryEstimator):
    """Linear binary classifier trained on the area under the ROC curve.

    Minimises ``lam/2 ||w||^2`` plus the mean hinge over all pairs of a positive and a negative example, in O(m log m) a
    pass (BMRM Algorithm 7).

    Parameters
    ----------
    lam : float
        Weight of the regulariser.
    tol : float
        Certified relative gap of the objective at which to stop.
    max_passes, max_seconds, checkpoint, verbose, warm_start
        As of `LinearSVM`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The second is the positive class.
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
        No order depends on it. It is set after training, where sensitivity plus specificity on the training data is
        largest, so that `predict` has a threshold.
    result_ : TrainResult
    n_features_in_, n_iter_ : int
    feature_names_in_ : ndarray
        Names of the columns, where X had some.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.estimators.ranking import AUCMaximizer
    >>> X, y = np.array([[5.0], [4.0], [7.0], [9.0]]), ["ham", "ham", "spam", "spam"]
    >>> auc = AUCMaximizer(lam=0.01).fit(X, y)
    >>> auc.score(X, y), auc.predict([[5.5], [6.5]])
    (1.0, array(['ham', 'spam'], dtype='<U4'))
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows `X` of features, dense or sparse, and their classes `y`.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n_samples, n_features)
        y : array or column of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
            An example of weight 2 counts as two, a pair by the product of its weights. Equal by default.

        Returns
        -------
        self
        """
        X, signs, weights = self._check_binary(X, y, sample_weight)
        result = self._minimise(ROCArea(X, signs, sample_weight=weights))
        self.coef_ = np.array(result.w)[np.newaxis]
        self.intercept_ = np.array([-_threshold(np.asarray(X @ result.w), signs > 0, weights)])
        self._keep(result)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The area under the ROC curve."""
        positive = self._true_classes(y) == self.classes_[1]
        return float(roc_auc_score(positive, self.decision_function(X), sample_weight=sample_weight))


def _queries(query: Any, length: int) -> npt.NDArray[np.intp]:
    if query is None:
        return np.zeros(length, dtype=np.intp)
    names = np.asarray(query)
    if names.shape != (length,):
        raise DeclarationError(f"query has shape {names.shape}; X has {length} rows, pass ({length},).")
    return np.unique(names, return_inverse=True)[1]


def _pairs(y: FloatArray, query: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Rows (worse, better) of all pairs within queries that differ in relevance."""
    order = np.argsort(query, kind="stable")
    found = []
    for rows in np.split(order, np.cumsum(np.bincount(query))[:-1]):
        i, j = np.nonzero(np.less.outer(y[rows], y[rows]))
        found.append(np.column_stack([rows[i], rows[j]]))
    pairs = np.concatenate(found)
    if not len(pairs):
        raise DeclarationError("RankSVM: no query has two documents that differ in relevance: no pair to compare.")
    return pairs


def _threshold(f: FloatArray, positive: npt.NDArray[np.bool_], weights: FloatArray | None = None) -> float:
    """The middle of the gap between scores at which sensitivity + specificity is largest."""
    order = np.argsort(f, kind="stable")
    own = np.ones(len(f)) if weights is None else weights
    gain = np.where(positive, -own / own[positive].sum(), own / own[~positive].sum())[order]
    ordered = f[order]
    above = np.cumsum(gain)[:-1]  # of putting the threshold after each example but the last
    above[ordered[1:] == ordered[:-1]] = -np.inf
    if not np.isfinite(above).any():
        return float(ordered[0])
    k = int(above.argmax())
    return float(0.5 * (ordered[k] + ordered[k + 1]))
