"""Losses of one prediction per example, BMRM Table 5 as corrected in docs/mathematics/risks#scalar-losses.

Each risk is a mean ``R(w) = (1/m) sum_i loss(<w, x_i>, y_i)``, with ``sample_weight=s`` the weighted mean
``sum_i s_i loss_i / sum_i s_i``. Labels of the classifiers are -1 and +1.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, xlogy

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.risks._base import SeparableRisk
from structopt.risks._features import FloatArray, finite_vector, number_between, signs
from structopt.risks._piecewise import scalar_line_minimum

__all__ = [
    "Absolute",
    "EpsilonInsensitive",
    "Exponential",
    "Hinge",
    "Huber",
    "LeastSquares",
    "Logistic",
    "Novelty",
    "Poisson",
    "Quantile",
    "SquaredHinge",
]

# Exponent beyond which exp() is continued by its tangent. A minimiser of the regularised risk stays far below: its risk
# is at most that at w = 0, so no exponential term exceeds the number of examples
# (docs/mathematics/risks#scalar-losses).
_LARGEST_EXPONENT = 40.0


class ScalarRisk(SeparableRisk):
    """A mean of losses of a scalar prediction; a subclass gives `_pointwise`."""

    def __init__(self, X: Any, y: Any, *, sample_weight: Any = None) -> None:
        super().__init__(X, sample_weight)
        self.y = self._check_target(y)

    def _check_target(self, y: Any) -> FloatArray:
        return finite_vector(y, "y", len(self), type(self).__name__)

    @abstractmethod
    def _pointwise(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the loss and its derivative at each prediction."""

    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        values, derivative = self._pointwise(f)
        if self._weight is not None:
            values, derivative = values * self._weight, derivative * self._weight
        return float(values.sum()) * self._scale, derivative * self._scale


class BinaryRisk(ScalarRisk):
    """A scalar risk whose targets are -1 and +1."""

    def _check_target(self, y: Any) -> FloatArray:
        return signs(y, len(self), type(self).__name__)


class PiecewiseLinearRisk(ScalarRisk):
    """A scalar risk that is piecewise linear, so that its exact line search is a selection in O(n)."""

    @abstractmethod
    def _corners(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return corners (q, m), the jumps of the slope there (q,), and the slopes at minus infinity (m,)."""

    def line_step(self, f: FloatArray, df: FloatArray, slope: float, curvature: float) -> float:
        corners, jumps, left = self._corners()
        if self._weight is not None:
            # In terms of s f the loss s l(f) has the slopes of l, with its corners at s times the old ones.
            f, df, corners = self._weight * f, self._weight * df, self._weight * corners
        return float(scalar_line_minimum(f, df, corners, jumps, left, self._scale, slope, curvature))


class Hinge(PiecewiseLinearRisk, BinaryRisk):
    """Hinge risk ``mean max(0, 1 - y f)`` of the support vector machine.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : array of shape (m,)
        Labels -1 and +1.
    sample_weight : array of shape (m,), optional
        Weights of the examples, not negative; equal by default. All risks of this module take it.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Hinge
    >>> risk = Hinge([[1.0], [2.0], [0.0], [3.0]], [1, -1, -1, 1])
    >>> risk
    <Hinge: 4 examples, 1 features>
    >>> value, subgradient = risk(np.array([0.4]))
    >>> round(value, 12), subgradient
    (0.85, array([0.25]))
    """

    def _pointwise(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        slack = np.maximum(1.0 - self.y * f, 0.0)
        return slack, np.where(slack > 0.0, -self.y, 0.0)

    def _corners(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        # y f = 1 where f = y; the slope goes from -1 to 0 (y = 1) or from 0 to 1 (y = -1).
        return self.y[np.newaxis], np.ones(1), np.minimum(-self.y, 0.0)


class SquaredHinge(BinaryRisk):
    """Squared hinge risk ``mean 1/2 max(0, 1 - y f)^2``.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import SquaredHinge
    >>> value, gradient = SquaredHinge([[1.0], [1.0]], [1, -1])(np.array([0.5]))
    >>> value, gradient
    (0.625, array([0.5]))
    """

    is_smooth = True

    def _pointwise(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        slack = np.maximum(1.0 - self.y * f, 0.0)
        return 0.5 * slack * slack, -self.y * slack


class Logistic(BinaryRisk):
    """Logistic risk ``mean log(1 + exp(-y f))``.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Logistic
    >>> value, gradient = Logistic([[1.0]], [1])(np.array([0.3]))
    >>> round(value, 7), gradient.round(7)
    (0.5543552, array([-0.4255575]))
    """

    is_smooth = True

    def _pointwise(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        margin = self.y * f
        return np.logaddexp(0.0, -margin), -self.y * expit(-margin)


class Exponential(BinaryRisk):
    """Exponential risk ``mean exp(-y f)`` of boosting.

    Beyond the exponent 40 the exponential is continued by its tangent: value and derivative stay finite and
    consistent, so every cut stays valid, and the minimiser is the same for fewer than e^40 examples.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Exponential
    >>> value, gradient = Exponential([[1.0], [1.0]], [1, -1])(np.zeros(1))
    >>> value, gradient
    (1.0, array([0.]))
    """

    is_smooth = True

    def _pointwise(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, growth = _exp(-self.y * f, _LARGEST_EXPONENT)
        return values, -self.y * growth


class Novelty(PiecewiseLinearRisk):
    """Novelty detection ``mean max(0, rho - f)``: one-class examples should score at least rho.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row; there are no labels.
    rho : float
        The level to reach.
    sample_weight : array_like of shape (n,), optional
        Weights of the examples in the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Novelty
    >>> risk = Novelty([[1.0], [3.0]], rho=2.0)
    >>> value, subgradient = risk(np.ones(1))
    >>> risk, value, subgradient
    (<Novelty(rho=2.0): 2 examples, 1 features>, 0.5, array([-0.5]))
    """

    _parameters: ClassVar[tuple[str, ...]] = ("rho",)

    @checked
    def __init__(self, X: Any, rho: float = 1.0, *, sample_weight: Any = None) -> None:
        super().__init__(X, None, sample_weight=sample_weight)
        self.rho = number_between("rho", rho, -math.inf, math.inf, type(self).__name__)

    def _check_target(self, y: Any) -> FloatArray:
        return np.ones(len(self))

    def _pointwise(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        slack = np.maximum(self.rho - f, 0.0)
        return slack, np.where(slack > 0.0, -1.0, 0.0)

    def _corners(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return np.full((1, len(self)), self.rho), np.ones(1), np.full(len(self), -1.0)


class LeastSquares(ScalarRisk):
    """Least squares ``mean 1/2 (f - y)^2``.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import LeastSquares
    >>> value, gradient = LeastSquares([[1.0], [2.0]], [1.0, 0.0])(np.ones(1))
    >>> value, gradient
    (1.0, array([2.]))
    """

    is_smooth = True

    def _pointwise(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        residual = f - self.y
        return 0.5 * residual * residual, residual

    def line_step(self, f: FloatArray, df: FloatArray, slope: float, curvature: float) -> float:
        weighted = df if self._weight is None else self._weight * df
        curvature += self._scale * float(weighted @ df)
        slope += self._scale * float((f - self.y) @ weighted)
        return max(-slope / curvature, 0.0) if curvature > 0.0 else 0.0


class Absolute(PiecewiseLinearRisk):
    """Least absolute deviations ``mean |f - y|``.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Absolute
    >>> value, subgradient = Absolute([[1.0], [2.0]], [3.0, 0.0])(np.ones(1))
    >>> value, subgradient
    (2.0, array([0.5]))
    """

    def _pointwise(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        residual = f - self.y
        return np.abs(residual), np.sign(residual)

    def _corners(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.y[np.newaxis], np.full(1, 2.0), np.full(len(self), -1.0)


class Quantile(PiecewiseLinearRisk):
    """Quantile regression ``mean max(tau (y - f), (1 - tau) (f - y))``.

    `tau` is the share of the targets that should lie below the prediction, the usual sense; BMRM's Table 5 prints the
    loss of the (1 - tau)-quantile (docs/mathematics/risks#scalar-losses).

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : array of shape (m,)
        Targets.
    tau : float
        Which quantile, between 0 and 1.
    sample_weight : array_like of shape (n,), optional
        Weights of the examples in the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Quantile
    >>> risk = Quantile(np.ones((5, 1)), [1.0, 2.0, 3.0, 4.0, 5.0], tau=0.9)
    >>> values = [risk(np.array([b]))[0] for b in (2.0, 3.0, 4.0, 5.0)]
    >>> np.argmin(values), risk
    (np.int64(3), <Quantile(tau=0.9): 5 examples, 1 features>)
    """

    _parameters: ClassVar[tuple[str, ...]] = ("tau",)

    @checked
    def __init__(self, X: Any, y: Any, tau: float = 0.5, *, sample_weight: Any = None) -> None:
        super().__init__(X, y, sample_weight=sample_weight)
        self.tau = number_between("tau", tau, 0.0, 1.0, type(self).__name__)

    def _pointwise(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        slope = np.where(f > self.y, 1.0 - self.tau, -self.tau)
        return slope * (f - self.y), slope

    def _corners(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.y[np.newaxis], np.ones(1), np.full(len(self), -self.tau)


class EpsilonInsensitive(PiecewiseLinearRisk):
    """Support vector regression ``mean max(0, |f - y| - eps)``.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : array of shape (m,)
        Targets.
    eps : float
        Error without loss, at least 0.
    sample_weight : array_like of shape (n,), optional
        Weights of the examples in the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import EpsilonInsensitive
    >>> value, subgradient = EpsilonInsensitive([[1.0], [2.0]], [1.25, 0.0], eps=0.5)(np.ones(1))
    >>> value, subgradient
    (0.75, array([1.]))
    """

    _parameters: ClassVar[tuple[str, ...]] = ("eps",)

    @checked
    def __init__(self, X: Any, y: Any, eps: float = 0.1, *, sample_weight: Any = None) -> None:
        super().__init__(X, y, sample_weight=sample_weight)
        self.eps = number_between("eps", eps, 0.0, math.inf, type(self).__name__, closed=True)

    def _pointwise(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        residual = f - self.y
        excess = np.maximum(np.abs(residual) - self.eps, 0.0)
        return excess, np.where(excess > 0.0, np.sign(residual), 0.0)

    def _corners(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return np.stack([self.y - self.eps, self.y + self.eps]), np.ones(2), np.full(len(self), -1.0)


class Huber(ScalarRisk):
    """Huber's robust loss: a mean of ``1/2 r^2`` for ``|r| <= 1``, else ``|r| - 1/2``, with ``r = f - y``.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Huber
    >>> value, gradient = Huber([[1.0], [1.0]], [0.5, -2.0])(np.ones(1))
    >>> value, gradient
    (1.3125, array([0.75]))
    """

    is_smooth = True

    def _pointwise(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        residual = f - self.y
        clipped = np.clip(residual, -1.0, 1.0)
        return clipped * (residual - 0.5 * clipped), clipped


class Poisson(ScalarRisk):
    """Poisson regression ``mean exp(f) - y f`` for counts y.

    Beyond a large exponent (40, more if some target exceeds e^30) the exponential is continued by its tangent, as in
    `Exponential`. The risk can be negative; `lower_bound` is ``mean y - y log y``.

    Parameters
    ----------
    X : matrix of shape (n, d)
    y : array_like of shape (n,)
        Counts.
    sample_weight : array_like of shape (n,), optional
        Weights of the examples in the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Poisson
    >>> risk = Poisson([[1.0], [2.0]], [3, 0])
    >>> value, gradient = risk(np.zeros(1))
    >>> value, gradient, round(risk.lower_bound, 6)
    (1.0, array([0.]), -0.147918)
    """

    is_smooth = True

    def __init__(self, X: Any, y: Any, *, sample_weight: Any = None) -> None:
        super().__init__(X, y, sample_weight=sample_weight)
        # The tangent must rise faster than y f falls, or the continued loss would have no minimum.
        self._cap = max(_LARGEST_EXPONENT, math.log(max(float(self.y.max()), 1.0)) + 10.0)
        self.lower_bound = self._least()

    def _check_target(self, y: Any) -> FloatArray:
        counts = super()._check_target(y)
        bad = np.flatnonzero(counts < 0.0)
        if bad.size:
            raise DeclarationError(
                f"Poisson: targets are counts and cannot be negative; y[{int(bad[0])}] is {counts[bad[0]]:g} "
                f"({bad.size} in all). For signed targets use LeastSquares or Huber."
            )
        return counts

    def _pointwise(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        values, growth = _exp(f, self._cap)
        return values - self.y * f, growth - self.y

    def _select(self, rows: slice) -> None:
        super()._select(rows)
        self.lower_bound = self._least()

    def _least(self) -> float:
        values = self.y - xlogy(self.y, self.y)
        least = float(values.sum() if self._weight is None else values @ self._weight) * self._scale
        return least - 1e-12 * abs(least)  # a bound must hold in spite of the rounding of the sum


def _exp(x: FloatArray, cap: float) -> tuple[FloatArray, FloatArray]:
    """Return exp and its derivative, continued by the tangent beyond `cap`."""
    growth = np.exp(np.minimum(x, cap))
    return np.asarray(growth * (1.0 + np.maximum(x - cap, 0.0))), growth
