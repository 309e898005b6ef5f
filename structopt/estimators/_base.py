"""What the linear estimators share: checked data, the constant feature, training, scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from structopt.checks import check_parameters, floats, shown
from structopt.errors import DeclarationError, LabelNotAClass
from structopt.estimators._fitting import Fitting, taken, used_examples, validated
from structopt.estimators.persistence import Persistent, check_linear
from structopt.train.result import TrainResult

__all__ = [
    "BinaryEstimator",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
    "append_constant",
    "check_constant",
]

FloatArray = npt.NDArray[np.float64]


class LinearEstimator(Fitting, Persistent, BaseEstimator):
    """Scores ``<coef, x> + intercept`` learned by minimising ``lam/2 ||w||^2 + risk(w)`` to a certified gap."""

    coef_: FloatArray
    intercept_: Any
    n_features_in_: int

    def __init__(
        self,
        lam: float = 1e-3,
        *,
        tol: float = 1e-3,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        checkpoint: Any = None,
        verbose: bool | int = False,
        warm_start: bool = False,
    ) -> None:
        self.lam = lam
        self.tol = tol
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.warm_start = warm_start

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_data(
        self, X: Any, y: Any, sample_weight: Any = None, *, y_numeric: bool = False
    ) -> tuple[Any, Any, FloatArray | None]:
        """Return checked features, targets and weights, without the examples of weight 0."""
        check_parameters(self)
        y = _checked_entries(y, y_numeric)
        X, y = validated(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], y_numeric=y_numeric)
        rows, weights = used_examples(sample_weight, X.shape[0], self)
        X, y = taken(X, rows), taken(y, rows)
        self._begin_fit()
        return X, y, weights

    def _keep(self, result: TrainResult) -> None:
        """Keep the certificate, and say so where it falls short of `tol`."""
        self._keep_result(result)
        self._tell_early_end()

    def _set_weights(self, w: FloatArray, constant: float) -> None:
        """Split weights into coefficients and the intercept, the last weight times its constant (0: there is none)."""
        w = np.array(w)
        self.coef_, self.intercept_ = (w[:-1], float(constant * w[-1])) if constant else (w, 0.0)

    def _check_restored(self) -> None:
        several = np.ndim(getattr(self, "coef_", 0)) == 2
        check_linear(self, len(self.coef_) if several else None)
        if isinstance(self, ClassifierMixin):
            classes, n = getattr(self, "classes_", None), len(self.coef_) if several else 1
            if not isinstance(classes, np.ndarray) or classes.shape != (max(n, 2),):
                raise DeclarationError(f"classes_ must be an array of {max(n, 2)} classes")

    def _scores(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        X = validated(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        return np.asarray(X @ self.coef_.T + self.intercept_)


class LinearRegressor(RegressorMixin, LinearEstimator):
    """A linear regressor: its score is scikit-learn's coefficient of determination, for finite targets."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination of the predictions."""
        return float(super().score(X, floats("y", y), sample_weight))


class LinearClassifier(ClassifierMixin, LinearEstimator):
    """A linear classifier: its score is the accuracy, of labels that could be classes."""

    classes_: npt.NDArray[Any]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the rows of X whose class is right."""
        return float(super().score(X, self._true_classes(y), sample_weight))

    def _true_classes(self, y: Any) -> npt.NDArray[Any]:
        """The labels of a score: a class that `fit` did not see counts as wrong, what cannot be a class is refused."""
        check_is_fitted(self)
        found = column_or_1d(y)
        text = all(isinstance(name, str) for name in self.classes_.tolist())
        for place, entry in enumerate(found.tolist()):
            number = isinstance(entry, bool | int | float) and entry == entry
            if not (isinstance(entry, str) if text else number):
                raise LabelNotAClass(
                    f"y[{place}] is {shown(entry)}, which cannot be a class: those of the fit are "
                    f"{'texts' if text else 'numbers'} such as {self.classes_.tolist()[0]!r}."
                )
        return np.array(found.tolist()) if found.dtype.kind == "O" else np.asarray(found)


class BinaryEstimator(LinearClassifier):
    """A linear classifier of two classes; the second of the sorted classes is the positive one."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _check_binary(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, FloatArray, FloatArray | None]:
        """Checked features, labels as -1 and +1, and weights."""
        X, y, weights = self._check_data(X, y, sample_weight)
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y")
        if kind != "binary":
            raise DeclarationError(f"Only binary classification is supported. The type of the target is {kind}.")
        classes, codes = np.unique(y, return_inverse=True)
        if classes.size < 2:
            only = classes.tolist()[0]
            raise DeclarationError(
                f"{type(self).__name__} needs examples of two classes; all of y is one class, {only!r}"
                f"{' (examples of weight 0 do not count)' if weights is not None else ''}."
            )
        self._refuse_other("classes", getattr(self, "classes_", None), classes)
        self.classes_ = classes
        return X, np.where(codes == 1, 1.0, -1.0), weights

    def decision_function(self, X: Any) -> FloatArray:
        """Scores, positive where the second class is predicted."""
        return self._scores(X)[:, 0]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The classes of the rows of X."""
        positive = self.decision_function(X) > 0.0
        return np.asarray(self.classes_[positive.astype(np.intp)])


def _checked_entries(y: Any, numeric: bool) -> Any:
    """Return targets, numbers in an array of objects as numbers; raise if classes are not texts or numbers."""
    objects = isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1
    if not objects and not isinstance(y, list | tuple):
        return y
    for place, entry in enumerate(() if numeric else y):
        number = isinstance(entry, bool | float | np.number | np.bool_)
        number = number or (isinstance(entry, int) and -(2**63) <= entry < 2**63)
        is_text = isinstance(entry, str) and not entry.endswith("\0")  # NumPy drops the zero bytes at the end
        if not number and not is_text and not isinstance(entry, list | np.ndarray):
            raise LabelNotAClass(
                f"y[{place}] is {shown(entry)}; the classes of linear estimators are texts or numbers. "
                "StructuredSVM(structopt.structures.Multiclass(classes)) takes any hashable classes."
            )
    texts = {isinstance(entry, str) for entry in y}
    if len(texts) == 2:
        raise LabelNotAClass("y has texts and other values; NumPy would turn all of them into texts.")
    return np.array(list(y)) if objects and texts == {False} and not numeric else y


def append_constant(X: Any, constant: float, dtype: npt.DTypeLike | None = None) -> Any:
    """Return `X` as `dtype` (None: its own) with a last column of one value; 0 appends nothing."""
    dtype = X.dtype if dtype is None else np.dtype(dtype)
    if not constant:
        return X.astype(dtype, copy=False)
    if sp.issparse(X):
        column = sp.csr_array(np.full((X.shape[0], 1), constant, dtype=dtype))
        return sp.csr_array(sp.hstack([X, column], format="csr", dtype=dtype))
    rows = np.empty((X.shape[0], X.shape[1] + 1), dtype=dtype)
    rows[:, :-1], rows[:, -1] = X, constant
    return rows


def check_constant(intercept: bool, intercept_scaling: float) -> float:
    """The value of the constant feature, 0 for none."""
    if not intercept_scaling > 0:
        raise DeclarationError(f"intercept_scaling must be positive, got {intercept_scaling!r}.")
    return float(intercept_scaling) if intercept else 0.0
