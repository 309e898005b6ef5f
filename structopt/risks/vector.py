"""Losses of one prediction per class or output, BMRM Table 6, corrected in docs/mathematics/risks#vector-losses.

Weights are class-major: ``w.reshape(n_outputs, d)`` has one row per class, as scikit-learn's ``coef_``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp, softmax

from structopt._jit import kernel
from structopt.checks import checked, converted
from structopt.errors import DeclarationError
from structopt.risks._base import SeparableRisk
from structopt.risks._features import FloatArray, IntArray, integer_vector
from structopt.risks._piecewise import table_entry, table_line_minimum

__all__ = ["Multiclass", "MultivariateRegression", "Softmax"]


class VectorRisk(SeparableRisk):
    """A mean of losses of a row of predictions ``f = W x``, W of shape (n_outputs, d)."""

    #: Length of a row of predictions.
    n_outputs: int

    def _set_outputs(self, n_outputs: int) -> None:
        self.n_outputs = n_outputs
        self.n_features = n_outputs * self._features.n_columns

    def predictions(self, w: FloatArray) -> FloatArray:
        """Return ``X W'``, of shape (m, n_outputs)."""
        return self._features.forward(self._checked(w).reshape(self.n_outputs, -1).T)

    def _mean(self, values: FloatArray, derivative: FloatArray) -> tuple[float, FloatArray]:
        """The weighted mean of the examples' losses, which are not negative, and its derivative."""
        if self._weight is not None:
            values, derivative = values * self._weight, derivative * self._weight[:, None]
        return max(float(values.sum()), 0.0) * self._scale, derivative * self._scale


class Multiclass(VectorRisk):
    """Soft-margin multiclass risk ``mean max_k gamma[y, k] (f_k - f_y) + delta[y, k]``.

    With ``gamma = 1`` this is the loss of Crammer and Singer, scaled by `delta`; ``gamma="delta"`` gives slack
    rescaling, BMRM (24) and (29).

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : array of shape (m,)
        Classes 0, 1, ..., n_classes - 1.
    delta : array of shape (n_classes, n_classes), optional
        Cost of answering k where y is true, at least 0 and 0 on the diagonal. Default: 1 off the diagonal.
    gamma : array of shape (n_classes, n_classes) or "delta", optional
        Scale of the margins, at least 0. Default: 1.
    n_classes : int, optional
        Default: the size of `delta`, or one more than the largest class.
    sample_weight : array of shape (m,), optional
        Weights of the examples in the mean, not negative; equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Multiclass
    >>> risk = Multiclass([[1.0], [2.0]], [0, 2])
    >>> risk
    <Multiclass(n_classes=3): 2 examples, 3 features>
    >>> value, subgradient = risk(np.array([0.0, 0.5, 0.25]))
    >>> value, subgradient
    (1.5, array([-0.5,  1.5, -1. ]))
    """

    _parameters: ClassVar[tuple[str, ...]] = ("n_classes",)

    @checked
    def __init__(
        self,
        X: Any,
        y: Any,
        delta: Any = None,
        gamma: Any = None,
        n_classes: int | None = None,
        *,
        sample_weight: Any = None,
    ) -> None:
        super().__init__(X, sample_weight)
        owner = type(self).__name__
        self.y, self.n_classes = _classes(y, len(self), n_classes, delta, owner)
        self._delta = _cost_table(delta, self.n_classes, "delta", owner)
        if np.any(np.diag(self._delta) != 0.0):
            raise DeclarationError(f"{owner}: delta must be 0 on the diagonal: the right answer has no loss.")
        self._gamma = (
            self._delta if isinstance(gamma, str) and gamma == "delta" else _scales(gamma, self.n_classes, owner)
        )
        self._set_outputs(self.n_classes)

    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        f = np.ascontiguousarray(f)
        derivative = np.zeros_like(f)
        value = _soft_margin(f, self.y, self._delta, self._gamma, self.shares, derivative)
        return float(value), derivative

    def line_step(self, f: FloatArray, df: FloatArray, slope: float, curvature: float) -> float:
        f, df = np.ascontiguousarray(f), np.ascontiguousarray(df)
        return float(table_line_minimum(f, df, self.y, self._delta, self._gamma, self.shares, slope, curvature))


class Softmax(VectorRisk):
    """Multinomial logistic risk ``mean log sum_k exp f_k - f_y``.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : array of shape (m,)
        Classes 0, 1, ..., n_classes - 1.
    n_classes : int, optional
        Default: one more than the largest class.
    sample_weight : array of shape (m,), optional
        Weights of the examples in the mean, not negative; equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Softmax
    >>> value, gradient = Softmax([[1.0], [1.0]], [0, 1])(np.zeros(2))
    >>> round(value, 6), gradient
    (0.693147, array([0., 0.]))
    """

    is_smooth = True

    _parameters: ClassVar[tuple[str, ...]] = ("n_classes",)

    @checked
    def __init__(self, X: Any, y: Any, n_classes: int | None = None, *, sample_weight: Any = None) -> None:
        super().__init__(X, sample_weight)
        self.y, self.n_classes = _classes(y, len(self), n_classes, None, type(self).__name__)
        self._set_outputs(self.n_classes)

    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        rows = np.arange(len(self))
        values = logsumexp(f, axis=1) - f[rows, self.y]
        derivative = softmax(f, axis=1)
        derivative[rows, self.y] -= 1.0
        return self._mean(values, derivative)


class MultivariateRegression(VectorRisk):
    """Least squares of several outputs, ``mean 1/2 (f - y)' M (f - y)``.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : array of shape (m, n_outputs)
        Targets.
    M : array of shape (n_outputs, n_outputs), optional
        Symmetric positive semidefinite weight of the errors. Default: the identity.
    sample_weight : array of shape (m,), optional
        Weights of the examples in the mean, not negative; equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import MultivariateRegression
    >>> risk = MultivariateRegression([[1.0]], [[1.0, 0.0]], M=[[2.0, 1.0], [1.0, 2.0]])
    >>> value, gradient = risk(np.zeros(2))
    >>> value, gradient
    (1.0, array([-2., -1.]))
    """

    is_smooth = True

    def __init__(self, X: Any, y: Any, M: Any = None, *, sample_weight: Any = None) -> None:
        super().__init__(X, sample_weight)
        self.y = _target_matrix(y, len(self))
        self._set_outputs(self.y.shape[1])
        self.M = np.eye(self.n_outputs) if M is None else _semidefinite(M, self.n_outputs)

    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        residual = f - self.y
        weighted = residual @ self.M
        return self._mean(0.5 * np.einsum("ij,ij->i", weighted, residual), weighted)

    def line_step(self, f: FloatArray, df: FloatArray, slope: float, curvature: float) -> float:
        weighted = self._scale * (df @ self.M)
        if self._weight is not None:
            weighted *= self._weight[:, None]
        curvature += float(np.vdot(weighted, df))
        slope += float(np.vdot(weighted, f - self.y))
        return max(-slope / curvature, 0.0) if curvature > 0.0 else 0.0


@kernel
def _soft_margin(
    f: FloatArray, y: IntArray, delta: FloatArray, gamma: FloatArray, shares: FloatArray, derivative: FloatArray
) -> float:
    total = 0.0
    for i in range(y.size):
        label = y[i]
        best, height = label, 0.0
        for k in range(f.shape[1]):
            value = table_entry(gamma, label, k) * (f[i, k] - f[i, label]) + table_entry(delta, label, k)
            if value > height:
                best, height = k, value
        if best != label:
            total += shares[i] * height
            gain = shares[i] * table_entry(gamma, label, best)
            derivative[i, best] += gain
            derivative[i, label] -= gain
    return total


def _classes(y: Any, length: int, n_classes: int | None, delta: Any, owner: str) -> tuple[IntArray, int]:
    labels = integer_vector(y, "y", length, owner)
    least, most = int(labels.min()), int(labels.max())
    if n_classes is None:
        n_classes = most + 1 if delta is None else len(np.atleast_1d(converted(f"{owner}: delta", delta)))
    if least < 0 or most >= n_classes:
        raise DeclarationError(
            f"{owner}: y must hold classes 0 to {n_classes - 1}; it holds {least} to {most}. "
            "Map names first, e.g. names, y = np.unique(labels, return_inverse=True)."
        )
    if n_classes < 2:
        raise DeclarationError(f"{owner}: y holds one class only; pass n_classes or examples of another class.")
    return labels, n_classes


def _cost_table(delta: Any, n_classes: int, name: str, owner: str) -> FloatArray:
    """Return a checked table. No table is an empty one: 1 off the diagonal (see `table_entry`)."""
    if delta is None:
        return np.zeros((0, 0))
    table = np.array(converted(f"{owner}: {name}", delta))
    if table.shape != (n_classes, n_classes):
        raise DeclarationError(f"{owner}: {name} has shape {table.shape}; it needs ({n_classes}, {n_classes}).")
    if not np.all(np.isfinite(table)) or np.any(table < 0.0):
        raise DeclarationError(f"{owner}: {name} must be finite and not negative, or the risk would not be convex.")
    return table


def _scales(gamma: Any, n_classes: int, owner: str) -> FloatArray:
    # The diagonal is multiplied by a margin of 0, so the default may be 0 there.
    if isinstance(gamma, str):
        raise DeclarationError(f"{owner}: gamma must be a table or 'delta', got {gamma!r}.")
    return _cost_table(gamma, n_classes, "gamma", owner)


def _target_matrix(y: Any, length: int) -> FloatArray:
    targets = np.array(converted("MultivariateRegression: y", y))
    if targets.ndim != 2 or targets.shape[0] != length or targets.shape[1] == 0:
        raise DeclarationError(
            f"MultivariateRegression: y has shape {targets.shape}; X has {length} rows, pass ({length}, n_outputs)."
        )
    if not np.all(np.isfinite(targets)):
        row = int(np.flatnonzero(~np.isfinite(targets).all(axis=1))[0])
        raise DeclarationError(f"MultivariateRegression: y is NaN or infinite (first: row {row}).")
    return targets


def _semidefinite(M: Any, n_outputs: int) -> FloatArray:
    matrix = np.array(converted("MultivariateRegression: M", M))
    if matrix.shape != (n_outputs, n_outputs) or not np.all(np.isfinite(matrix)):
        raise DeclarationError(
            f"MultivariateRegression: M must be finite of shape ({n_outputs}, {n_outputs}), got {matrix.shape}."
        )
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=1e-12):
        raise DeclarationError("MultivariateRegression: M must be symmetric; pass (M + M.T) / 2.")
    matrix = (matrix + matrix.T) / 2.0
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least < -1e-10 * max(1.0, float(np.abs(matrix).max())):
        raise DeclarationError(
            f"MultivariateRegression: M must be positive semidefinite; it has the eigenvalue {least:g}."
        )
    return matrix
