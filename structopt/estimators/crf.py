"""`CRF`: conditional random fields over chains, or over any model whose labels can be summed over."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from structopt.checks import check_parameters, choice, hashable, instance, sequence
from structopt.errors import DeclarationError, numbered
from structopt.estimators._base import FloatArray, LinearEstimator
from structopt.estimators._fitting import is_collection, lazily, named_inputs, on_engine, taken, used_examples
from structopt.estimators._labels import as_array
from structopt.estimators.structured import label_score
from structopt.features import n_examples
from structopt.frames import plain_inputs, plain_labels
from structopt.model import Model
from structopt.model.batch import Batch
from structopt.model.forms import check_codec, label_form
from structopt.risks.crf import chain_marginals
from structopt.risks.space_crf import bayes_labels, likelihood, means_of
from structopt.structures.chain import Chain
from structopt.train.registry import TrainerOption

__all__ = ["CRF"]


class CRF(LinearEstimator):
    """Maximum likelihood of labels, ``P(y | x) = exp(score(x, y)) / Z(x)``: of sequences of states, or of any model.

    Minimises ``lam/2 ||w||^2`` plus the mean negative log-likelihood of the labels, to a certified gap.

    Parameters
    ----------
    model : Model, optional
        What the labels are: a declared `structopt.Model` or one of `structopt.structures`, with integral labels that an
        algorithm sums over (`structopt.risks.likelihood`). By default labels are sequences, and the model a chain of
        the states found in training.
    lam : float
        Weight of the regulariser.
    states : sequence, optional
        The states of a chain in order; those found in training, sorted, by default. This and the next four are for
        sequences, without `model`.
    transitions, initial
        Which states may follow which, and which may come first, as of `structopt.structures.Chain`
        (``transitions="bio"`` for BIO tags); all by default.
    intercept : bool
        Append the constant 1 to the features of every position.
    initial_weights : bool
        Learn a weight for the first state.
    trainer : str or callable
        ``"auto"`` (the quasi-Newton method `structopt.train.lbfgs`), a name of `structopt.train.names` that takes such
        a risk, or a function ``f(risk, *, lam, ...) -> TrainResult`` of your own.
    tol : float
        Certified relative gap of the objective at which to stop.
    n_jobs : int
        Threads for the forward-backward passes.
    max_passes, max_seconds, checkpoint, verbose, warm_start
        As of `LinearSVM`.
    engine : distributed.Client, address, "dask" or None
        Where the examples are: see `StructuredSVM`. X and y may then be dask bags of sequences and of their states.

    Attributes
    ----------
    model_ : Model
    states_ : list
        Of a chain.
    w_ : ndarray
        Weights in the order of the model.
    coef_ : ndarray
        Of a chain a view of the weights of the features, of shape (n_states, n_features); else `w_`.
    transitions_ : ndarray of shape (n_states, n_states)
        Of a chain a view of the weights of the transitions.
    result_ : TrainResult
    label_form_ : {"first", "blocks", "vector"} or None
        The form of the labels given to `fit` and returned by `predict`; see `StructuredSVM`.
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

    Over a declared label space:

    >>> import structopt as so
    >>> space = so.LabelSpace("at most one of three")
    >>> tag = space.binary("tag", 3)
    >>> space.subject_to(tag.sum() <= 1)
    >>> model = so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming())
    >>> crf = CRF(model, lam=0.1).fit([[1.0], [-1.0]], [[1, 0, 0], [0, 0, 0]])
    >>> crf.predict([[1.0]]), crf.predict_proba([[0.0]])
    (array([[1, 0, 0]]), array([[0.25, 0.25, 0.25]]))
    """

    def __init__(
        self,
        model: Model | None = None,
        lam: float = 1e-2,
        states: Sequence[Hashable] | None = None,
        transitions: Any = None,
        initial: npt.ArrayLike | None = None,
        *,
        intercept: bool = False,
        initial_weights: bool = False,
        trainer: TrainerOption = "auto",
        tol: float = 1e-3,
        n_jobs: int = 1,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        checkpoint: Any = None,
        verbose: bool | int = False,
        warm_start: bool = False,
        engine: Any = None,
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
        self.model = model
        self.states = states
        self.transitions = transitions
        self.initial = initial
        self.intercept = intercept
        self.initial_weights = initial_weights
        self.trainer = trainer
        self.n_jobs = n_jobs
        self.engine = engine

    @on_engine
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from sequences, or from what the model takes.

        Parameters
        ----------
        X : list of arrays, sparse matrices or frames of shape (T, n_features), or the model's inputs
        y : list
            T states for each, or the model's labels.
        sample_weight : array, optional
            Weights of the examples in the mean: weight 2 is an example given twice, 0 one left out, and all weights
            times a number change nothing. Equal by default.

        Returns
        -------
        self
        """
        check_parameters(self)
        if is_collection(X):
            return self._fit_collection(X, y, sample_weight)
        X, y = named_inputs(self, X, reset=True), plain_labels(y)
        rows, weights = used_examples(sample_weight, n_examples(X), self)
        if rows is not None and n_examples(y) != n_examples(X):
            raise DeclarationError(f"{n_examples(X)} inputs but {n_examples(y)} labels.")
        with numbered(range(n_examples(X)) if rows is None else rows):
            return self._fit_examples(taken(X, rows), taken(y, rows), weights)

    def _fit_examples(self, X: Any, y: Any, weights: Any) -> Self:
        """Learn from the examples of positive weight."""
        self._begin_fit()
        self.model_ = self._chain(y) if self.model is None else self._given(self.model)
        risk = likelihood(self.model_, X, y, n_jobs=self.n_jobs, sample_weight=weights)
        check_codec(self.model_, risk._truth, risk._batch.input)
        self.label_form_ = label_form(self.model_, y, risk._batch.input)
        result = self._minimise(risk, self._trainer())
        self.w_ = np.array(result.w)
        if self.model is None or getattr(X, "ndim", 0) == 2:
            first = X if getattr(X, "ndim", 0) == 2 else X[0]
            self.n_features_in_ = int(first.shape[1] if hasattr(first, "shape") else np.shape(first)[1])
        self._keep(result)
        return self

    def _trainer(self) -> TrainerOption:
        return "lbfgs" if isinstance(self.trainer, str) and self.trainer == "auto" else self.trainer

    def _fit_collection(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Learn from dask collections, whose partitions stay on the workers."""
        from structopt.distributed.engine import distinct

        self._begin_fit()
        if self.model is None:
            states = distinct(_states, y, self._workers) if self.states is None else list(self.states)
            self.model_ = self._chain([states])
        else:
            self.model_ = self._given(self.model)
        self.label_form_ = self._form_of_parts(self.model_, y)
        with self._parts(_Partition(self.model_, self.n_jobs), X, y, sample_weight) as risk:
            result = self._minimise(risk, self._trainer())
        self.w_ = np.array(result.w)
        if self.model is None:
            n = len(self.states_)
            self.n_features_in_ = (len(self.w_) - n * n - n * self.initial_weights) // n - self.intercept
        else:
            self._columns(X)
        self._keep(result)
        return self

    def _chain(self, y: Any) -> Chain:
        """The chain of the states of y, or of those given."""
        states = _states(y) if self.states is None else list(self.states)
        self._refuse_other("states", getattr(self, "states_", None), states)
        self.states_ = states
        return Chain(
            self.states_, self.transitions, self.initial, intercept=self.intercept, initial_weights=self.initial_weights
        )

    def _given(self, model: Model) -> Model:
        """The model that was given; what describes a chain does not go with it."""
        instance("model", model, Model)
        of_chains = {"states": None, "transitions": None, "initial": None, "intercept": False, "initial_weights": False}
        for name, default in of_chains.items():
            if getattr(self, name) is not default:
                raise DeclarationError(
                    f"{name} describes the chain that CRF makes without a model; give it to the model."
                )
        return model

    def _unary(self) -> FloatArray:
        width = self.n_features_in_ + self.intercept
        return self.w_[: len(self.states_) * width].reshape(len(self.states_), width)

    @property
    def coef_(self) -> FloatArray:  # type: ignore[override]
        """Weights of the features by state; all weights of a model that was given."""
        check_is_fitted(self, "w_")
        if self.model is not None:
            return self.w_
        return self._unary()[:, : self.n_features_in_]

    @property
    def transitions_(self) -> FloatArray:
        """Weights of the transitions, ``[from, to]``."""
        check_is_fitted(self, "w_")
        if self.model is not None:
            raise AttributeError("transitions_ is of a CRF that makes its own chain; see w_.")
        n, start = len(self.states_), self._unary().size
        return self.w_[start : start + n * n].reshape(n, n)

    def _check_restored(self) -> None:
        instance("model_", getattr(self, "model_", None), Model)
        if np.ndim(getattr(self, "w_", 0.0)) != 1:
            raise DeclarationError("w_ must be a vector")

    def _batch(self, X: Any) -> Batch:
        check_is_fitted(self, "w_")
        return self.model_.batch(named_inputs(self, X, reset=False))

    @lazily
    def predict(self, X: Any, decision: Literal["best", "bayes"] = "best") -> Any:
        """The most likely label of each input (of sequences by Viterbi), or that of least expected loss.

        Parameters
        ----------
        X : list of arrays, sparse matrices or frames, or the model's inputs
        decision : {"best", "bayes"}
            ``"best"``: the most likely label. ``"bayes"``: the label of least expected task loss; of sequences that is
            a label of the most likely state at each position, within the rules.

        Returns
        -------
        list of lists, or labels as the model has them
        """
        choice("decision", decision, ("best", "bayes"))
        batch = self._batch(X)
        if decision == "bayes":
            labels = bayes_labels(batch, self.w_, n_jobs=self.n_jobs)
        else:
            labels, _ = batch.argmax(batch.tables(self.w_), n_jobs=self.n_jobs)
        found = batch.decode(labels, getattr(self, "label_form_", None))
        return [list(label) for label in found] if self.model is None else as_array(found)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the parts of a label.

        Parameters
        ----------
        X : list of arrays, sparse matrices or frames, or the model's inputs

        Returns
        -------
        list or ndarray
            For each sequence the probabilities of the states at its positions, (T, n_states). For each input of another
            model the mean of the label's variables. Means have the form of the labels given to `fit`: a dict of all
            blocks, a whole vector, or the first block.
        """
        batch = self._batch(X)
        if isinstance(self.model_, Chain):
            return np.split(chain_marginals(batch, self.w_, self.n_jobs)[1], batch.starts[0][1:-1])
        _, means = means_of(batch, batch.tables(self.w_))
        form = getattr(self, "label_form_", None)
        if form == "vector":
            return as_array([np.asarray(mean) for mean in means])
        found = [self.model_.space(batch.input(i)).blocks(means[i]) for i in range(len(batch))]
        return found if form == "blocks" else as_array([next(iter(blocks.values())) for blocks in found])

    def decision_function(self, X: Any) -> Any:
        """Scores, of each sequence those of the states at its positions, without transitions.

        Parameters
        ----------
        X : list of arrays, sparse matrices or frames, or the model's inputs

        Returns
        -------
        list of ndarray, or the scores of the label's variables
        """
        batch = self._batch(X)
        tables = batch.tables(self.w_)
        return np.split(tables[0], batch.starts[0][1:-1]) if isinstance(self.model_, Chain) else batch.costs(tables)

    def log_likelihood(self, X: Any, y: Any) -> FloatArray:
        """``log P(y | x)`` of each example.

        Parameters
        ----------
        X : list of arrays, sparse matrices or frames, or the model's inputs
        y : list
            T states for each, or the model's labels.

        Returns
        -------
        ndarray
        """
        batch = self._batch(X)
        tables = batch.tables(self.w_)
        scores = batch.dot(tables, batch.truth(plain_labels(y)))
        if isinstance(self.model_, Chain):
            return np.asarray(scores - chain_marginals(batch, self.w_, self.n_jobs)[0])
        return np.asarray(scores - means_of(batch, tables)[0])

    def score(self, X: Any, y: Any) -> float:
        """The share of positions whose state is right; of other models that of `StructuredSVM`.

        Parameters
        ----------
        X : list of arrays, sparse matrices or frames, or the model's inputs
        y : list
            T states for each, or the model's labels.

        Returns
        -------
        float
        """
        if self.model is not None:
            return label_score(self._batch(X), self.w_, y, self.n_jobs)
        found = self.predict(X)
        truth = [
            [_present(f"A state of y[{i}]", state, self.states_) for state in sequence(f"y[{i}]", label)]
            for i, label in enumerate(sequence("y", plain_labels(y)))
        ]
        if [len(label) for label in truth] != [len(label) for label in found]:
            raise DeclarationError("y needs a state for every position of every sequence of X.")
        pairs = [a == b for left, right in zip(found, truth, strict=True) for a, b in zip(left, right, strict=True)]
        return float(np.mean(pairs))


class _Partition:
    """The risk of a partition of dask collections, made on a worker."""

    def __init__(self, model: Model, n_jobs: int) -> None:
        self.model, self.n_jobs = model, n_jobs

    def __call__(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        inputs, labels = plain_inputs(X), plain_labels(y)
        return likelihood(self.model, inputs, labels, n_jobs=self.n_jobs, sample_weight=sample_weight)


def _present(name: str, state: Any, known: Sequence[Any] = ()) -> Any:
    """Return a state, known or not; raise if it is missing. None is a state only if it is among the known ones."""
    if (hashable(name, state) is None and None not in known) or state != state:
        raise DeclarationError(f"{name} is {state!r}; remove the sequences whose states are missing.")
    return state


def _states(y: Iterable[Iterable[Any]]) -> list[Any]:
    """The states of all sequences in order; python objects, so that they are found again in any label."""
    found: set[Any] = set()
    for i, label in enumerate(y):
        if isinstance(label, str) or not isinstance(label, Iterable):
            raise DeclarationError(
                f"Label {i} of y is {label!r:.60}. CRF without a model takes a sequence of states for each input. If "
                "each row of X has one class, use CRF(structopt.structures.Multiclass(classes))."
            )
        states = label.tolist() if isinstance(label, np.ndarray) else label
        try:
            new = set(states) - found
        except TypeError:
            for state in states:
                hashable(f"A state of y[{i}]", state)
            raise
        found.update(_present(f"A state of y[{i}]", state) for state in new)
    try:
        return sorted(found)
    except TypeError:
        raise DeclarationError("The states of y cannot be sorted; give them in order as states=[...].") from None
