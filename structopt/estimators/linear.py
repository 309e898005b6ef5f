"""`LinearSVM`: support vector classification with a certificate."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from structopt.checks import check_parameters, choice
from structopt.errors import DeclarationError
from structopt.estimators._base import FloatArray, LinearClassifier, append_constant, check_constant
from structopt.estimators._fitting import is_collection, lazily, on_engine
from structopt.frames import plain_inputs, plain_labels
from structopt.risks.scalar import Hinge, SquaredHinge
from structopt.risks.vector import Multiclass
from structopt.train.registry import TrainerOption
from structopt.train.result import History, Record, TrainResult, relative_gap

__all__ = ["LinearSVM"]

_LOSSES = {"hinge": Hinge, "squared_hinge": SquaredHinge}


class LinearSVM(LinearClassifier):
    """Linear support vector machine: ``lam/2 ||w||^2 + mean hinge``, minimised to a certified gap.

    Parameters
    ----------
    lam : float
        Weight of the regulariser; scikit-learn's and LIBLINEAR's ``C`` is ``1 / (lam * n_samples)``.
    loss : {"hinge", "squared_hinge"}
        ``max(0, 1 - y f)``, or half its square.
    multi_class : {"ovr", "crammer_singer"}
        More than two classes: one machine for each against the rest, or one joint problem (hinge only).
    trainer : str or callable
        ``"auto"``, ``"coordinate_descent"`` (dual coordinate descent), ``"bmrm"`` (the bundle method with a line
        search), another name of `structopt.train.names` that takes such a risk, or a function
        ``f(risk, *, lam, ...) -> TrainResult`` of your own. ``"auto"`` takes the first on sparse and the second on
        dense data, where each is the faster (docs/mathematics/training#choice-of-the-trainer).
    tol : float
        Certified relative gap of the objective at which to stop.
    intercept : bool
        Learn an intercept, as the weight of one more feature that is constant. As in LIBLINEAR it is regularised;
        `intercept_scaling`, the value of that feature, makes the regularisation weaker.
    intercept_scaling : float
        See `intercept`.
    max_passes, max_seconds : float, optional
        Limits of the training.
    checkpoint : path or Checkpoint, optional
        Where the training writes its state, and resumes from.
    verbose : bool
        Show a progress bar with the certified gap.
    warm_start : bool
        Begin at the weights of the last fit (`result_`), and from what its trainer knew where the data are the same:
        a fit to a smaller `tol`, with another `lam`, or after Ctrl-C takes fewer passes. Classes and features must be
        the same.
    random_state : int, RandomState or None
        For the order of visits of coordinate descent.
    engine : distributed.Client, address, "dask" or None
        Where the examples are: see `StructuredSVM`. X and y may then be dask arrays or data frames.

    Attributes
    ----------
    classes_ : ndarray
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    result_ : TrainResult
        With the certificate. One-against-rest machines are one separable problem: objective and bound are sums, and
        ``result_.info["results"]`` has the parts.
    n_iter_ : int
        Passes over the data.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.estimators.linear import LinearSVM
    >>> X, y = np.array([[2.0], [1.0], [-1.0], [-3.0]]), np.array(["b", "b", "a", "a"])
    >>> svm = LinearSVM(lam=0.1, intercept=False, tol=1e-6).fit(X, y)
    >>> svm.coef_.round(3), svm.predict([[0.5]]), svm.result_.gap <= 1e-6
    (array([[1.]]), array(['b'], dtype='<U1'), True)
    """

    def __init__(
        self,
        lam: float = 1e-3,
        loss: str = "hinge",
        *,
        multi_class: str = "ovr",
        trainer: TrainerOption = "auto",
        tol: float = 1e-3,
        intercept: bool = True,
        intercept_scaling: float = 1.0,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        checkpoint: Any = None,
        verbose: bool | int = False,
        warm_start: bool = False,
        random_state: Any = 0,
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
        self.loss = loss
        self.multi_class = multi_class
        self.trainer = trainer
        self.intercept = intercept
        self.intercept_scaling = intercept_scaling
        self.random_state = random_state
        self.engine = engine

    @on_engine
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows `X` of features, dense or sparse, and their classes `y`.

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
        self._check_parameters()
        if is_collection(X):
            return self._fit_collection(X, y, sample_weight)
        X, y, weights = self._check_data(X, y, sample_weight)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        n_classes = classes.size
        if n_classes < 2:
            raise DeclarationError(
                f"LinearSVM needs two classes or more; all of y is one class, {classes.tolist()[0]!r}"
                f"{' (examples of weight 0 do not count)' if weights is not None else ''}."
            )
        self._refuse_other("classes", getattr(self, "classes_", None), classes)
        self.classes_ = classes
        constant = check_constant(self.intercept, self.intercept_scaling)
        X = append_constant(X, constant)
        if n_classes == 2:
            result = self._fit_binary(X, codes == 1, weights)
        elif self.multi_class == "ovr":
            result = _joined(self._fit_classes(X, codes, weights))
        else:
            risk = Multiclass(X, codes, n_classes=n_classes, sample_weight=weights)
            result = self._minimise(risk, self._choose("bmrm"), random_state=self._seed())
        self._set(result, constant)
        return self

    def _set(self, result: TrainResult, constant: float) -> None:
        W = np.array(result.w.reshape(-1, self.n_features_in_ + (constant != 0.0)))
        self.coef_ = W[:, :-1] if constant else W
        self.intercept_ = constant * W[:, -1] if constant else np.zeros(len(W))
        self._keep(result)

    def _fit_collection(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Learn from dask collections, whose partitions stay on the workers."""
        from structopt.distributed.engine import distinct

        check_parameters(self)
        self._columns(X)
        self._begin_fit()
        classes = np.asarray(distinct(_classes_of, y, self._workers))
        if classes.size < 2:
            raise DeclarationError(f"LinearSVM needs two classes or more; all of y is one class, {classes.tolist()}.")
        self._refuse_other("classes", getattr(self, "classes_", None), classes)
        self.classes_ = classes
        constant = check_constant(self.intercept, self.intercept_scaling)
        joint = self.multi_class == "crammer_singer" and classes.size > 2
        results = []
        for part, positive in enumerate([None] if joint else classes[1:] if classes.size == 2 else classes):
            build = _Partition(self.loss, classes, positive, constant)
            with self._parts(build, X, y, sample_weight) as risk:
                name = str(part) if classes.size > 2 and not joint else ""
                results.append(self._minimise(risk, self._choose("bmrm"), part=name, random_state=self._seed()))
        self._set(results[0] if len(results) == 1 else _joined(results), constant)
        return self

    def _check_parameters(self) -> None:
        choice("loss", self.loss, _LOSSES)
        choice("multi_class", self.multi_class, ("ovr", "crammer_singer"))
        if self.multi_class == "crammer_singer" and self.loss != "hinge":
            raise DeclarationError("multi_class='crammer_singer' has the hinge loss only.")

    def _fit_classes(self, X: Any, codes: npt.NDArray[np.intp], weights: FloatArray | None) -> list[TrainResult]:
        """One class against the others, each in turn; after Ctrl-C the others get one pass each."""
        known = self.__dict__.get("result_")
        n_classes, size = int(codes.max()) + 1, X.shape[1]
        before = None if known is None or known.w.size != n_classes * size else known.w.reshape(n_classes, size)
        parts: list[TrainResult] = []
        limit: dict[str, Any] = {}
        for k in range(n_classes):
            w0 = None if before is None else before[k]
            parts.append(self._fit_binary(X, codes == k, weights, part=str(k), w0=w0, **limit))
            if parts[-1].stopped == "interrupted":
                limit = {"max_passes": 1}
        return parts

    def _fit_binary(
        self, X: Any, positive: npt.NDArray[np.bool_], weights: FloatArray | None, **options: Any
    ) -> TrainResult:
        risk = _LOSSES[self.loss](X, np.where(positive, 1.0, -1.0), sample_weight=weights)
        trainer = self._choose("coordinate_descent" if sp.issparse(X) and self.engine is None else "bmrm")
        return self._minimise(risk, trainer, random_state=self._seed(), **options)

    def _choose(self, automatic: str) -> TrainerOption:
        return automatic if isinstance(self.trainer, str) and self.trainer == "auto" else self.trainer

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def decision_function(self, X: Any) -> FloatArray:
        """Scores of shape (n,), positive for the second class; or (n, n_classes), the largest is predicted.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @lazily
    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The classes of the rows of X.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, n_features)

        Returns
        -------
        ndarray of shape (n,)
        """
        scores = self.decision_function(X)
        best = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])


class _Partition:
    """The risk of a partition of dask collections, made on a worker: of one class, or of all (None)."""

    def __init__(self, loss: str, classes: npt.NDArray[Any], positive: Any, constant: float) -> None:
        self.loss, self.classes, self.positive, self.constant = loss, classes, positive, constant

    def __call__(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        X, y = append_constant(plain_inputs(X), self.constant), np.asarray(plain_labels(y)).reshape(len(y))
        if self.positive is None:
            codes = np.searchsorted(self.classes, y)
            return Multiclass(X, codes, n_classes=self.classes.size, sample_weight=sample_weight)
        return _LOSSES[self.loss](X, np.where(y == self.positive, 1.0, -1.0), sample_weight=sample_weight)


def _classes_of(y: Any) -> list[Any]:
    found = np.asarray(plain_labels(y))
    check_classification_targets(found)
    return list(np.unique(found).tolist())


def _joined(parts: list[TrainResult]) -> TrainResult:
    """The results of separate problems as that of their sum."""
    objective = math.fsum(part.objective for part in parts)
    lower_bound = math.fsum(part.lower_bound for part in parts)
    record = Record(
        objective,
        lower_bound,
        relative_gap(objective, lower_bound),
        sum(part.oracle_calls for part in parts),
        sum(part.passes for part in parts) / len(parts),
        sum(part.seconds for part in parts),
    )
    unfinished = [part.stopped for part in parts if not part.converged]
    if "interrupted" in unfinished:  # the classes after it had one pass each
        unfinished = ["interrupted"]
    return TrainResult(
        w=np.concatenate([part.w for part in parts]),
        objective=objective,
        lower_bound=lower_bound,
        gap=record.gap,
        history=History([record]),
        stopped=unfinished[0] if unfinished else "tol",
        tol=parts[0].tol,
        trainer=parts[0].trainer,
        info={"results": list(parts)},
    )
