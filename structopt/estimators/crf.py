"""`CRF`: a linear-chain conditional random field."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from structopt.checks import check_parameters
from structopt.errors import DeclarationError
from structopt.estimators._base import FloatArray, LinearEstimator
from structopt.estimators._fitting import named_inputs, taken, used_examples
from structopt.features import n_examples
from structopt.frames import plain_labels
from structopt.model.batch import Batch
from structopt.risks.crf import ChainCRF, chain_marginals
from structopt.structures.chain import Chain
from structopt.train.registry import TrainerFunction

__all__ = ["CRF"]


class CRF(LinearEstimator):
    """Label sequences with the chain of states that is most likely, ``P(y | x) = exp(score(x, y)) / Z(x)``.

    Minimises ``lam/2 ||w||^2`` plus the mean negative log-likelihood of the sequences, to a certified gap.

    Parameters
    ----------
    lam : float
        Weight of the regulariser.
    states : sequence, optional
        The states in order; those found in training, sorted, by default.
    transitions, initial
        Which states may follow which, and which may come first, as of `structopt.structures.Chain`
        (``transitions="bio"`` for BIO tags); all by default.
    intercept : bool
        Append the constant 1 to the features of every position.
    initial_weights : bool
        Learn a weight for the first state.
    trainer : str or callable
        ``"auto"`` (the bundle method `structopt.train.bmrm`), a name of `structopt.train.names` that takes such a
        risk, or a function ``f(risk, *, lam, ...) -> TrainResult`` of your own.
    tol : float
        Certified relative gap of the objective at which to stop.
    n_jobs : int
        Threads for the forward-backward passes.
    max_passes, max_seconds, checkpoint, verbose, warm_start
        As of `LinearSVM`.

    Attributes
    ----------
    model_ : Chain
    states_ : list
    w_ : ndarray
        Weights in the order of `Chain`.
    coef_ : ndarray of shape (n_states, n_features)
        A view of the weights of the features.
    transitions_ : ndarray of shape (n_states, n_states)
        A view of the weights of the transitions.
    result_ : TrainResult
    n_features_in_, n_iter_ : int
    feature_names_in_ : ndarray
        Names of the columns, where X had some.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.estimators.crf import CRF
    >>> X = [np.array([[1.0], [-1.0], [-1.0]]), np.array([[-1.0], [1.0]])]
    >>> crf = CRF(lam=0.1).fit(X, [["up", "down", "down"], ["down", "up"]])
    >>> crf.predict(X)[0], crf.score(X, [["up", "down", "down"], ["down", "up"]])
    (['up', 'down', 'down'], 1.0)
    >>> crf.predict_proba(X)[1].shape, crf.states_
    ((2, 2), ['down', 'up'])
    """

    def __init__(
        self,
        lam: float = 1e-2,
        states: Sequence[Hashable] | None = None,
        transitions: Any = None,
        initial: npt.ArrayLike | None = None,
        *,
        intercept: bool = False,
        initial_weights: bool = False,
        trainer: str | TrainerFunction = "auto",
        tol: float = 1e-3,
        n_jobs: int = 1,
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
        self.states = states
        self.transitions = transitions
        self.initial = initial
        self.intercept = intercept
        self.initial_weights = initial_weights
        self.trainer = trainer
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from sequences.

        Parameters
        ----------
        X : list of arrays, sparse matrices or frames of shape (T, n_features)
        y : list
            T states for each.
        sample_weight : array, optional
            Weights of the sequences in the mean: weight 2 is a sequence given twice, 0 one left out, and all weights
            times a number change nothing. Equal by default.

        Returns
        -------
        self
        """
        check_parameters(self)
        X, y = named_inputs(self, X, reset=True), plain_labels(y)
        rows, weights = used_examples(sample_weight, n_examples(X), self)
        if rows is not None and n_examples(y) != n_examples(X):
            raise DeclarationError(f"{n_examples(X)} inputs but {n_examples(y)} labels.")
        X, y = taken(X, rows), taken(y, rows)
        self._begin_fit()
        states = _states(y) if self.states is None else list(self.states)
        self._refuse_other("states", getattr(self, "states_", None), states)
        self.states_ = states
        self.model_ = Chain(
            self.states_, self.transitions, self.initial, intercept=self.intercept, initial_weights=self.initial_weights
        )
        risk = ChainCRF(self.model_, X, y, n_jobs=self.n_jobs, sample_weight=weights)
        automatic = isinstance(self.trainer, str) and self.trainer == "auto"
        result = self._minimise(risk, "bmrm" if automatic else self.trainer)
        self.w_ = np.array(result.w)
        self.n_features_in_ = int(X[0].shape[1] if hasattr(X[0], "shape") else np.shape(X[0])[1])
        self._keep(result)
        return self

    def _unary(self) -> FloatArray:
        width = self.n_features_in_ + self.intercept
        return self.w_[: len(self.states_) * width].reshape(len(self.states_), width)

    @property
    def coef_(self) -> FloatArray:  # type: ignore[override]
        """Weights of the features by state."""
        check_is_fitted(self, "w_")
        return self._unary()[:, : self.n_features_in_]

    @property
    def transitions_(self) -> FloatArray:
        """Weights of the transitions, ``[from, to]``."""
        check_is_fitted(self, "w_")
        n, start = len(self.states_), self._unary().size
        return self.w_[start : start + n * n].reshape(n, n)

    def _batch(self, X: Any) -> Batch:
        check_is_fitted(self, "w_")
        return self.model_.batch(named_inputs(self, X, reset=False))

    def predict(self, X: Any) -> list[list[Any]]:
        """The most likely states of each sequence (Viterbi).

        Parameters
        ----------
        X : list of arrays, sparse matrices or frames

        Returns
        -------
        list of lists
            A state for each position.
        """
        batch = self._batch(X)
        labels, _ = batch.argmax(batch.tables(self.w_), n_jobs=self.n_jobs)
        return [list(label) for label in batch.decode(labels)]

    def predict_proba(self, X: Any) -> list[FloatArray]:
        """Of each sequence the probabilities of the states at its positions, arrays of shape (T, n_states).

        Parameters
        ----------
        X : list of arrays, sparse matrices or frames

        Returns
        -------
        list of ndarray
        """
        batch = self._batch(X)
        return np.split(chain_marginals(batch, self.w_, self.n_jobs)[1], batch.starts[0][1:-1])

    def decision_function(self, X: Any) -> list[FloatArray]:
        """Of each sequence the scores of the states at its positions, without transitions.

        Parameters
        ----------
        X : list of arrays, sparse matrices or frames

        Returns
        -------
        list of ndarray
        """
        batch = self._batch(X)
        return np.split(batch.tables(self.w_)[0], batch.starts[0][1:-1])

    def log_likelihood(self, X: Any, y: Any) -> FloatArray:
        """``log P(y | x)`` of each sequence.

        Parameters
        ----------
        X : list of arrays, sparse matrices or frames
        y : list
            T states for each.

        Returns
        -------
        ndarray
        """
        batch = self._batch(X)
        scores = batch.dot(batch.tables(self.w_), batch.truth(plain_labels(y)))
        return np.asarray(scores - chain_marginals(batch, self.w_, self.n_jobs)[0])

    def score(self, X: Any, y: Any) -> float:
        """The share of positions whose state is right.

        Parameters
        ----------
        X : list of arrays, sparse matrices or frames
        y : list
            T states for each.

        Returns
        -------
        float
        """
        found = self.predict(X)
        truth = [list(label) for label in plain_labels(y)]
        if [len(label) for label in truth] != [len(label) for label in found]:
            raise DeclarationError("y needs a state for every position of every sequence of X.")
        pairs = [a == b for left, right in zip(found, truth, strict=True) for a, b in zip(left, right, strict=True)]
        return float(np.mean(pairs))


def _states(y: Iterable[Iterable[Any]]) -> list[Any]:
    """The states of all sequences in order; python objects, so that they are found again in any label."""
    found = {state for label in y for state in (label.tolist() if isinstance(label, np.ndarray) else label)}
    try:
        return sorted(found)
    except TypeError:
        raise DeclarationError("The states of y cannot be sorted; give them in order as states=[...].") from None
