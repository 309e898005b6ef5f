"""`StructuredSVM`: a declared model, trained to a certified gap, behind scikit-learn's interface."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from structopt import surrogates, train
from structopt.checks import check_parameters, choice, instance, sequence
from structopt.errors import DeclarationError
from structopt.estimators._fitting import Fitting, is_collection, lazily, named_inputs, on_engine
from structopt.estimators._labels import as_array
from structopt.estimators.persistence import Persistent
from structopt.frames import plain_inputs, plain_labels
from structopt.model import Model
from structopt.model.batch import Batch
from structopt.model.forms import check_codec, label_form
from structopt.plane import Plane
from structopt.risks.loss_check import check_losses
from structopt.risks.space_crf import bayes_labels
from structopt.space.compiled import FloatArray
from structopt.surrogates import Surrogate
from structopt.train import StructuredRisk, TrainResult
from structopt.train.registry import ProblemSize, Trainer, TrainerOption

__all__ = ["StructuredSVM"]

_log = logging.getLogger(__name__)

# Beyond this many bytes of working sets bundle methods do.
_MEMORY_LIMIT = 8 << 30


class StructuredSVM(Fitting, Persistent, BaseEstimator):
    """Structured support vector machine: ``min_w lam/2 ||w||^2 + 1/n sum_i surrogate_i(w)``.

    Parameters
    ----------
    model : Model
        From `structopt.structures`, or your own.
    surrogate : str, Surrogate or sequence of them
        ``"margin"``, ``"slack"``, or another of `structopt.surrogates`. Several are trained one after the other, each
        from the weights of the one before (thesis 5.3.4), and the last one counts. One that is not convex in the
        weights, such as ``"prob"``, learns next to nothing from zero: it is trained after ``"margin"``, which
        ``result_.info["stages"]`` tells; ``["prob"]``, a sequence of one, begins at zero.
    search : str
        How most violated labels are found (`structopt.train.StructuredRisk`).
    trainer : str or callable
        ``"auto"``, a name of `structopt.train.names` (``"block_ascent"``, ``"bmrm"``, ``"one_slack"``, ``"n_slack"``,
        ``"bcfw"``, ``"sgd"``, ``"proximal_bundle"``, ...), or a function ``f(risk, *, lam, ...) -> TrainResult`` of
        your own. ``"auto"`` takes block ascent where the surrogate is convex and the working sets fit into memory,
        bundle methods where they do not, and SGD for a surrogate that is not convex. With an engine ``"block_ascent"``
        and ``"sgd"`` are those of `structopt.distributed`; trainers that need all examples in one process are refused.
    lam : float
        Weight of the regulariser.
    tol : float
        Relative gap, certified, at which to stop.
    n_jobs : int
        Threads over examples.
    random_state : int
    max_passes, max_seconds : float, optional
        Limits on the training, of each of several surrogates.
    verbose : bool
        Say which trainer was chosen and show one progress bar with the gap and the oracle calls.
    checkpoint : path, optional
        Written atomically while training; an interrupted fit with the same path resumes to the same iterates.
    warm_start : bool
        Begin at the weights of the last fit, and from the planes that its trainer knew where the data are the same: a
        fit to a smaller `tol`, with another `lam`, or after Ctrl-C takes fewer passes. The data must need as many
        weights as before. Of several surrogates the last alone is trained again.
    n_starts : int
        Of a last surrogate that is not convex in the weights, so many runs, from the weights of the one before times
        1, 2, 1/2, 4, ...; the one of least objective counts. It is a local minimum all the same: the lower bound is
        that of the surrogate's values, the gap certifies nothing (``result_.info["convex"]`` is False).
    engine : distributed.Client, address, "dask" or None
        Where the examples are: None for this process; the workers of a dask client or scheduler; ``"dask"``
        processes of this machine (`structopt.distributed`, extra ``dask``). X and y may then be dask arrays, bags or
        data frames, whose partitions stay on the workers.

    Attributes
    ----------
    coef_ : ndarray
        The weights.
    result_ : TrainResult
        Objective, certified bound and gap, history; of several surrogates that of the last. ``info["stages"]`` has the
        surrogates before it with their results, ``info["objectives"]`` the objectives of several starts.
    trainer_ : str
        The trainer that ran.
    n_iter_ : int
        Passes over the data.
    label_form_ : {"first", "blocks", "vector"} or None
        The form of the labels given to `fit`, and of those that `predict` returns: the array of the first block, a
        dict of all blocks, or the whole z. None if the model has a codec of its own.
    n_features_in_ : int
        Width of a matrix X (only for models whose inputs are rows).
    feature_names_in_ : ndarray
        Names of the columns, where X is a frame or a list of frames.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5))
    >>> y = (X @ rng.normal(size=(5, 3)) > 0).astype(int)
    >>> svm = so.StructuredSVM(so.structures.PairwiseMRF(3), lam=0.01).fit(X, y)
    >>> svm.result_.converged, svm.predict(X[:2]).shape
    (True, (2, 3))
    """

    def __init__(
        self,
        model: Model,
        surrogate: str | Surrogate | Sequence[str | Surrogate] = "margin",
        search: str = "auto",
        trainer: TrainerOption = "auto",
        lam: float = 1e-2,
        tol: float = 1e-3,
        n_jobs: int = 1,
        random_state: int = 0,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        verbose: bool = False,
        checkpoint: Any = None,
        warm_start: bool = False,
        n_starts: int = 1,
        engine: Any = None,
    ) -> None:
        self.model = model
        self.surrogate = surrogate
        self.search = search
        self.trainer = trainer
        self.lam = lam
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.n_starts = n_starts
        self.engine = engine

    @on_engine
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> StructuredSVM:
        """Train on a data set (the structure's docstring says what X and y look like).

        Labels that are not in their space, NaN features and wrong shapes are reported before training starts. Ctrl-C
        keeps the best weights so far, with their gap; if anything fails, they are kept too and travel with the error.

        Parameters
        ----------
        X : matrix, frame or list of inputs
        y : matrix, frame, column or list of labels
        sample_weight : array of shape (n,), optional
            Weights of the examples in the mean of the surrogates: weight 2 is an example given twice, 0 one left out,
            and all weights times a number change nothing. Equal by default.

        Returns
        -------
        self
        """
        check_parameters(self)
        if is_collection(X):
            self._columns(X)
        else:
            X, y = named_inputs(self, X, reset=True), plain_labels(y)
        self._begin_fit()
        if self.n_starts < 1:
            raise DeclarationError(f"n_starts must be at least 1, got {self.n_starts!r}.")
        *first, last = self._schedule()
        risk = self._risk(last, X, y, sample_weight)
        if is_collection(X):
            self.label_form_ = self._form_of_parts(self.model, y)
        else:
            check_codec(self.model, risk.truth.native, risk.batch.input)
            self.label_form_ = label_form(self.model, risk.Y, risk.batch.input)
        trainer = self._choose(risk, last)
        stages: list[tuple[Surrogate, TrainResult]] = []
        try:
            for number, surrogate in enumerate(first):
                stage = self._risk(surrogate, X, y, sample_weight)
                start = stages[-1][1].w if stages else None
                found = self._minimise(stage, self._choose(stage, surrogate), part=f"stage{number}", start=start)
                stages.append((surrogate, found))
            result = self._minimise_from(risk, trainer, stages[-1][1].w if stages else None)
            if stages:
                result = replace(result, info={**result.info, "stages": stages})
        except Exception as error:
            partial = getattr(error, "partial", None)
            if isinstance(partial, TrainResult):
                self._keep(partial, trainer, X)
                error.partial = self  # type: ignore[attr-defined]
            raise
        self._keep(result, trainer, X)
        self._tell_early_end()
        return self

    def _risk(self, surrogate: Surrogate, X: Any, y: Any, sample_weight: Any) -> Any:
        if is_collection(X):
            build = _Partition(self.model, surrogate, self.search, self.n_jobs)
            return self._parts(build, X, y, sample_weight)
        return StructuredRisk(self.model, X, y, surrogate, self.search, self.n_jobs, sample_weight=sample_weight)

    def _schedule(self) -> list[Surrogate]:
        """The surrogates to train, in turn; after a fit with ``warm_start`` the last one alone."""
        given = self.surrogate
        if isinstance(given, str | Surrogate):
            last = surrogates.get(given)
            found = [last] if last.convex_in_h else [surrogates.get("margin"), last]
        else:
            found = [surrogates.get(surrogate) for surrogate in sequence("surrogate", given)]
            if not found:
                raise DeclarationError("surrogate is an empty sequence; give at least one surrogate.")
        return found[-1:] if self.warm_start and "result_" in self.__dict__ else found

    def _minimise_from(self, risk: Any, trainer: Trainer, start: FloatArray | None) -> TrainResult:
        """Train the last surrogate; one that is not convex from several multiples of `start`."""
        if self.n_starts == 1 or self.engine is not None or risk.is_convex or start is None:
            return self._minimise(risk, trainer, start=start)
        results = []
        for k in range(self.n_starts):
            factor = 2.0 ** ((k + 1) // 2 if k % 2 else -(k // 2))
            results.append(self._minimise(risk, trainer, part=f"start{k}" if k else "", start=factor * start))
            if results[-1].stopped == "interrupted":
                break
        best = min(results, key=lambda result: result.objective)
        return replace(best, info={**best.info, "objectives": [result.objective for result in results]})

    def _keep(self, result: TrainResult, trainer: Trainer, X: Any) -> None:
        self._keep_result(result)
        self.coef_ = np.array(result.w)
        self.trainer_ = trainer.name
        if getattr(X, "ndim", 0) == 2:
            self.n_features_in_ = int(X.shape[1])

    def _choose(self, risk: Any, surrogate: Surrogate) -> Trainer:
        if not (isinstance(self.trainer, str) and self.trainer == "auto"):
            return train.get(self.trainer)
        if self.engine is not None and not surrogate.convex_in_h:
            raise DeclarationError(
                f"{surrogate!r} is not convex in the weights, and needs engine=None; trainer='sgd' is a rough answer."
            )
        if not surrogate.convex_in_h:
            name, why = "sgd", f"{surrogate!r} is not convex in the weights"
        elif not self._working_sets_fit(risk):
            name, why = "bmrm", "working sets for so many examples would not fit into memory"
        else:
            name, why = "block_ascent", "a decomposable risk whose working sets fit into memory"
        _log.info("trainer='auto' chose %s: %s", name, why)
        if self.verbose:
            with suppress(OSError, ValueError):  # the pipe or the file was closed
                print(f"trainer: {name} ({why})")
        return train.get(name)

    def _working_sets_fit(self, risk: Any) -> bool:
        """Whether there is memory for block ascent: here, or on the workers that hold the examples."""
        if self._workers is None:
            return _memory_beside_the_features("block_ascent", risk) <= _MEMORY_LIMIT
        from structopt.distributed.engine import working_sets_fit

        return working_sets_fit(risk, self._workers)

    # ---- use -------------------------------------------------------------------------------------

    @lazily
    def predict(self, X: Any, decision: Literal["best", "bayes"] = "best", *, temperature: float = 1.0) -> Any:
        """The best label of every input, integral also where training was over a relaxation.

        An array where the labels have one shape, else a list.

        Parameters
        ----------
        X : matrix, frame or list of inputs
        decision : {"best", "bayes"}
            ``"best"``: the label with the largest score. ``"bayes"``: the label of least expected task loss under
            ``P(y | x) ~ exp(score(x, y) / temperature)``, where an algorithm sums over the labels
            (`structopt.Oracle.marginals`) and the expected loss depends on the marginals alone.
        temperature : float
            Of the distribution of ``"bayes"``; scores of a support vector machine have no scale of their own.

        Returns
        -------
        ndarray or list
        """
        choice("decision", decision, ("best", "bayes"))
        batch = self._batch(X, self.model._integral_twin)
        if decision == "bayes":
            labels = bayes_labels(batch, self.coef_, temperature=temperature, n_jobs=self.n_jobs)
        else:
            labels, _ = batch.argmax(batch.tables(self.coef_), n_jobs=self.n_jobs)
        return as_array(batch.decode(labels, getattr(self, "label_form_", None)))

    def decision_function(self, X: Any) -> Any:
        """Scores of the label's variables: an array ``(n, n_variables)``, or a list where spaces differ.

        Parameters
        ----------
        X : matrix, frame or list of inputs

        Returns
        -------
        ndarray or list
        """
        batch = self._batch(X, lambda: self.model)
        return batch.costs(batch.tables(self.coef_))

    def score(self, X: Any, y: Any) -> float:
        """``1 - sum of task losses / sum of the largest possible ones``, between 0 and 1.

        Accuracy for multiclass, label accuracy for Hamming losses.

        Parameters
        ----------
        X : matrix, frame or list of inputs
        y : matrix, frame, column or list of labels

        Returns
        -------
        float
        """
        return label_score(self._batch(X, self.model._integral_twin), self.coef_, y, self.n_jobs)

    def predict_plane(self, x: Any, y: Any) -> Plane:
        """The plane of margins and losses of one example at the learned weights, for searches and pictures.

        Parameters
        ----------
        x : object
            An input.
        y : object
            Its label.

        Returns
        -------
        Plane
        """
        check_is_fitted(self, "coef_")
        truth = self.model.encode(y, x)
        psi = self._schedule()[-1]
        options = {"counted": self.model.counted(x)} if psi.counts else {}
        score = self.model.scores(self.coef_, x)
        return psi.plane(self.model.oracle(x), score, self.model._loss_at(truth, x), truth, **options)

    def _batch(self, X: Any, model: Callable[[], Model]) -> Batch:
        check_is_fitted(self, "coef_")
        batch = model().batch(named_inputs(self, X, reset=False))
        self._check_width(batch.n_weights)
        return batch

    def _check_restored(self) -> None:
        model: Any = self.model
        if model is not None or not hasattr(self, "model_source_"):  # the command line names it separately
            instance("model", model, Model)
        if np.ndim(getattr(self, "coef_", 0.0)) != 1:
            raise DeclarationError("coef_ must be a vector")

    def _check_width(self, n_weights: int) -> None:
        if n_weights != len(self.coef_):
            raise DeclarationError(
                f"These inputs have another number of features than the training data: the model has {len(self.coef_)} "
                f"weights and would need {n_weights}."
            )


class _Partition:
    """The risk of a partition of dask collections, made on a worker."""

    def __init__(self, model: Model, surrogate: Surrogate, search: str, n_jobs: int) -> None:
        self.model, self.surrogate, self.search, self.n_jobs = model, surrogate, search, n_jobs

    def __call__(self, X: Any, y: Any, sample_weight: Any = None) -> StructuredRisk:
        options = (self.surrogate, self.search, self.n_jobs)
        return StructuredRisk(self.model, plain_inputs(X), plain_labels(y), *options, sample_weight=sample_weight)


def _memory_beside_the_features(trainer: str, risk: StructuredRisk) -> float:
    """Bytes that a trainer would take for what it learns."""
    estimate = train.get(trainer).memory
    size = ProblemSize(len(risk), sum(risk.batch.columns), risk.n_features, 0.0)
    return 0.0 if estimate is None else sum(estimate(size).values())


def label_score(batch: Batch, w: Any, y: Any, n_jobs: int) -> float:
    """One minus the sum of the task losses of the best labels over the sum of the largest possible ones."""
    tables = batch.tables(w)
    truth = batch.truth(plain_labels(y))
    loss = batch.loss(truth)
    check_losses(batch, truth, loss, search=False)
    labels, _ = batch.argmax(tables, n_jobs=n_jobs)
    _, worst = batch.argmax([np.zeros_like(table) for table in tables], loss)
    values = np.maximum(batch.loss_values(loss, labels), 0.0)
    # A solver with a limit may miss the largest loss, and then the label predicted has more than it found.
    total = float(np.maximum(worst, values).sum())
    return 1.0 - float(values.sum()) / total if total > 0 else 1.0
