"""Kernel ridge regression seen as weights on the training examples (ECRM Prop. 2.1 and appendix B).

The estimate of any quantity q at x is ``sum_i w_i(x) q_i``, with weights that depend on the inputs alone:

    w(x) = (K + m lam I)^-1 v(x),                     without an intercept;
    w(x) = (H K H + m lam I)^-1 v~(x) + 1/m,          with one: centred in feature space, and the weights sum to 1.

With weights s_i of the examples, over their mean, the squared error of example i counts s_i times: K is replaced by
``S^1/2 K S^1/2``, rows and quantities by those times ``S^1/2``, and means are weighted.

So one factorisation serves every label and every loss. Many quantities at many points are never weighted one by one:
the factor is applied to the quantities once, and each new point takes one row of a matrix product (`Regression`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg as la
import scipy.sparse as sp
from sklearn.metrics.pairwise import KERNEL_PARAMS, pairwise_kernels

from structopt.errors import DeclarationError
from structopt.space.compiled import FloatArray

__all__ = [
    "CholeskyWeights",
    "FeatureWeights",
    "KernelWeights",
    "NystroemMap",
    "Regression",
    "Spectrum",
    "kernel_matrix",
]

Kernel = str | Callable[..., Any]

_SINGULAR = (
    "The {what} matrix of the {m} examples is singular and lam = {lam:g} does not repair it{why}. "
    "Use a larger lam, or drop repeated examples."
)


def kernel_matrix(X: Any, Y: Any, kernel: Kernel = "linear", params: Mapping[str, Any] | None = None) -> FloatArray:
    """``k(x, y)`` for all rows of `X` and `Y`.

    Parameters
    ----------
    X, Y : matrices, or for a callable whatever it takes
    kernel : str or callable
        A name known to scikit-learn, ``"precomputed"`` (`X` is the answer), or ``kernel(X, Y, **params)`` that returns
        the whole matrix.
    params : mapping, optional
        Parameters of the kernel; a named kernel ignores those that it does not have.

    Examples
    --------
    >>> kernel_matrix([[0.0], [1.0]], [[2.0]], "polynomial", {"degree": 2, "gamma": 1.0, "coef0": 1.0})
    array([[1.],
           [9.]])
    """
    given = dict(params or {})
    if isinstance(kernel, type):
        raise DeclarationError(f"kernel is the class {kernel.__name__}; give an object of it, or a function.")
    if callable(kernel):
        found = np.asarray(kernel(X, Y, **given), dtype=np.float64)
        expected = (_length(X), _length(Y))
        if found.shape != expected:
            raise DeclarationError(
                f"The kernel returned an array of shape {found.shape} where {expected} was due; a callable kernel "
                "takes two sets of inputs and returns the matrix of all pairs."
            )
    elif kernel == "precomputed":
        found = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    elif kernel in KERNEL_PARAMS:
        found = np.asarray(pairwise_kernels(X, Y, metric=kernel, filter_params=True, **given), dtype=np.float64)
    else:
        known = ", ".join(map(repr, sorted(KERNEL_PARAMS)))
        raise DeclarationError(f"kernel must be a callable, 'precomputed' or one of {known}, got {kernel!r}.")
    if not np.isfinite(found).all():
        i, j = np.argwhere(~np.isfinite(found))[0]
        raise DeclarationError(f"The kernel between inputs {i} and {j} is {found[i, j]}; it must be finite.")
    return found


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


@dataclass(frozen=True, eq=False)
class Regression:
    """Estimates of several quantities at once: ``rows @ coef + offset``, for rows ``v(x)`` of the kernel or features.

    Attributes
    ----------
    coef : ndarray, shape (n_examples or n_features, n_quantities)
    offset : ndarray, shape (n_quantities,)
    """

    coef: FloatArray
    offset: FloatArray

    def __call__(self, rows: Any) -> FloatArray:
        return np.asarray(rows @ self.coef) + self.offset


class KernelWeights(ABC):
    """The weights ``w(x)`` of one set of training inputs and one `lam`."""

    n_examples: int
    lam: float
    intercept: bool
    sample_weight: FloatArray | None

    @abstractmethod
    def weights(self, rows: FloatArray) -> FloatArray:
        """``w(x)``, one row for each row of the kernel (or of features) between new inputs and the training inputs."""

    @abstractmethod
    def regress(self, quantities: FloatArray) -> Regression:
        """The factor applied to the columns of `quantities` (one row an example)."""

    def __repr__(self) -> str:
        kind = "with" if self.intercept else "without"
        return f"<{type(self).__name__}: {self.n_examples} examples, lam={self.lam:g}, {kind} intercept>"


class CholeskyWeights(KernelWeights):
    """Exact weights from one Cholesky factor of the (centred) kernel matrix.

    Parameters
    ----------
    gram : ndarray, shape (m, m)
        Kernel matrix of the training inputs.
    lam : float
        As in ECRM (2): the ridge is ``m lam``.
    intercept : bool
        Centre in feature space.
    sample_weight : ndarray, shape (m,), optional
        Weights of the examples over their mean.

    Examples
    --------
    The example of docs/mathematics/conditional_risk#weights:

    >>> import numpy as np
    >>> X, x = np.array([[0.0], [1.0], [2.0]]), np.array([[0.5]])
    >>> gram, row = kernel_matrix(X, X, "rbf", {"gamma": 1.0}), kernel_matrix(x, X, "rbf", {"gamma": 1.0})
    >>> CholeskyWeights(gram, 0.1, intercept=False).weights(row).round(5)
    array([[ 0.46242,  0.48604, -0.06298]])
    >>> CholeskyWeights(gram, 0.1, intercept=True).weights(row).round(5)
    array([[ 0.50605,  0.51331, -0.01936]])
    """

    def __init__(self, gram: FloatArray, lam: float, intercept: bool, sample_weight: FloatArray | None = None) -> None:
        self.n_examples, self.lam, self.intercept = len(gram), float(lam), intercept
        self.sample_weight = sample_weight
        self.means, self.mean = _means(gram, intercept, sample_weight)
        system = _scaled(centred(gram, sample_weight) if intercept else np.array(gram), sample_weight)
        system.flat[:: len(gram) + 1] += len(gram) * self.lam
        self._factor = _factorise(system, "kernel", self)

    def weights(self, rows: FloatArray) -> FloatArray:
        if not self.intercept:
            return np.ascontiguousarray(self._solve(rows.T).T)
        shifted = rows - _mean(rows.T, self.sample_weight)[:, None] - self.means + self.mean
        own = 1.0 if self.sample_weight is None else self.sample_weight
        return np.asarray(self._solve(shifted.T).T + own / self.n_examples)

    def regress(self, quantities: FloatArray) -> Regression:
        if not self.intercept:
            return Regression(self._solve(quantities), np.zeros(quantities.shape[1]))
        mean = _mean(quantities, self.sample_weight)
        coef = self._solve(quantities - mean)
        # The columns of coef sum to zero, so that of the centred row only this much is left beside the plain one.
        return Regression(coef, mean - self.means @ coef)

    def _solve(self, right: FloatArray) -> FloatArray:
        root = 1.0 if self.sample_weight is None else np.sqrt(self.sample_weight)[:, None]
        return np.asarray(root * la.cho_solve(self._factor, root * right, check_finite=False))


class FeatureWeights(KernelWeights):
    """Weights for a kernel given by features, ``k(x, x') = phi(x) . phi(x')``: a p x p system in place of m x m.

    Serves the linear kernel with fewer columns than examples, and the Nyström approximation. Rows are features.

    Parameters
    ----------
    features : ndarray, shape (m, p)
    lam, intercept, sample_weight
        As for `CholeskyWeights`.
    """

    def __init__(
        self, features: FloatArray, lam: float, intercept: bool, sample_weight: FloatArray | None = None
    ) -> None:
        self.n_examples, self.lam, self.intercept = len(features), float(lam), intercept
        self.sample_weight = sample_weight
        self.centre = _mean(features, sample_weight) if intercept else np.zeros(features.shape[1])
        self._features = features - self.centre if intercept else features
        # Weighed on the side of the examples only: for `weights`, and for the quantities in `regress`.
        self._weighted = self._features if sample_weight is None else self._features * sample_weight[:, None]
        system = self._features.T @ self._weighted
        system.flat[:: len(system) + 1] += self.n_examples * self.lam
        self._factor = _factorise(system, "feature", self)

    def weights(self, rows: FloatArray) -> FloatArray:
        part = la.cho_solve(self._factor, (rows - self.centre).T, check_finite=False)
        own = 1.0 if self.sample_weight is None else self.sample_weight
        return np.asarray((self._weighted @ part).T + (own / self.n_examples if self.intercept else 0.0))

    def regress(self, quantities: FloatArray) -> Regression:
        coef = np.asarray(la.cho_solve(self._factor, self._weighted.T @ quantities, check_finite=False))
        mean = _mean(quantities, self.sample_weight) if self.intercept else np.zeros(quantities.shape[1])
        return Regression(coef, mean - self.centre @ coef)


class NystroemMap:
    """Features ``phi(x)`` with ``phi(x) . phi(x') = k(x, Z) k(Z, Z)^+ k(Z, x')`` for landmarks Z.

    Parameters
    ----------
    gram : ndarray, shape (l, l)
        Kernel matrix of the landmarks; directions below rounding are left out.
    """

    def __init__(self, gram: FloatArray) -> None:
        values, vectors = la.eigh(gram)
        kept = values > len(gram) * np.finfo(np.float64).eps * max(values[-1], 0.0)
        if not kept.any():
            raise DeclarationError("The kernel matrix of the landmarks has no positive eigenvalue: is the kernel one?")
        self.map = vectors[:, kept] / np.sqrt(values[kept])

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Features of the inputs with these kernel rows (against the landmarks)."""
        return np.asarray(rows @ self.map)


class Spectrum:
    """One eigendecomposition of the (centred) kernel matrix: every `lam`, leave-one-out, and joint kernels.

    Parameters
    ----------
    gram : ndarray, shape (m, m)
    intercept : bool
    sample_weight : ndarray, shape (m,), optional
        As for `CholeskyWeights`.

    Notes
    -----
    The estimates at the training points are ``S q`` with a fixed matrix S, and leaving example i out changes the i-th
    one to ``(S q - S_ii q_i) / (1 - S_ii)``. This is exact when the fit without it keeps the ridge ``m lam``, that is
    uses ``lam m / (m - 1)``, and where all of its weight is left out.
    """

    def __init__(self, gram: FloatArray, intercept: bool, sample_weight: FloatArray | None = None) -> None:
        self.n_examples, self.intercept, self.sample_weight = len(gram), intercept, sample_weight
        self.means, _ = _means(gram, intercept, sample_weight)
        system = _scaled(centred(gram, sample_weight) if intercept else gram, sample_weight)
        values, self.vectors = la.eigh(system, check_finite=False)
        floor = -1e-10 * max(values[-1], 0.0) * self.n_examples
        if values[0] < floor:
            raise DeclarationError(
                f"The kernel matrix has the eigenvalue {values[0]:.3g}: the kernel is not positive semi-definite."
            )
        self.values = np.maximum(values, 0.0)

    @classmethod
    def of_features(cls, features: FloatArray, intercept: bool, sample_weight: FloatArray | None = None) -> Spectrum:
        """The spectrum of ``features @ features.T``, from a thin decomposition; for `leave_one_out` only."""
        made = cls.__new__(cls)
        made.n_examples, made.intercept, made.sample_weight = len(features), intercept, sample_weight
        part = made._root * (features - _mean(features, sample_weight) if intercept else features)
        made.vectors, roots, _ = la.svd(part, full_matrices=False, check_finite=False)
        # Ascending, as eigh has them.
        made.vectors, made.values = made.vectors[:, ::-1], np.square(roots[::-1])
        return made

    @property
    def _root(self) -> Any:
        """``S^1/2`` as a column."""
        return 1.0 if self.sample_weight is None else np.sqrt(self.sample_weight)[:, None]

    def _shrink(self, lam: float) -> FloatArray:
        total = self.values + self.n_examples * lam
        if not (lam >= 0 and total.min() > self.n_examples * np.finfo(np.float64).eps * max(self.values[-1], 1e-300)):
            raise DeclarationError(_SINGULAR.format(what="kernel", m=self.n_examples, lam=lam, why=""))
        return np.asarray(self.values / total)

    def leverages(self, lam: float) -> FloatArray:
        """The diagonal of S: how much each example decides its own estimate."""
        own = (self.vectors**2) @ self._shrink(lam)
        share = 1.0 if self.sample_weight is None else self.sample_weight
        return np.asarray(own + share / self.n_examples if self.intercept else own)

    def leave_one_out(self, quantities: FloatArray, lam: float) -> FloatArray:
        """Estimates at each example from the others, in closed form."""
        if self.sample_weight is not None and not self.sample_weight.all():
            raise DeclarationError("The leave-one-out loss is of examples with positive weights; drop the others.")
        mean = _mean(quantities, self.sample_weight) if self.intercept else 0.0
        inner = self.vectors.T @ (self._root * (quantities - mean))
        fitted = (self.vectors @ (self._shrink(lam)[:, None] * inner)) / self._root + mean
        own = self.leverages(lam)[:, None]
        return np.asarray((fitted - own * quantities) / (1 - own))

    def regress(self, quantities: FloatArray, lam: float, joint: FloatArray | None = None) -> Regression:
        """As `CholeskyWeights.regress`; with a kernel between the quantities, the additive model of ECRM (13).

        Parameters
        ----------
        joint : ndarray, shape (n_quantities, n_quantities), optional
            Symmetric positive semi-definite B: quantities a, b at x, x' have the kernel ``B_ab k(x, x')``.
        """
        mean = _mean(quantities, self.sample_weight) if self.intercept else np.zeros(quantities.shape[1])
        inner = self.vectors.T @ (self._root * (quantities - mean))
        ridge = self.n_examples * lam
        if joint is None:
            self._shrink(lam)
            coef = self.vectors @ (inner / (self.values + ridge)[:, None])
        else:
            # (B (x) K + ridge I)^-1 is diagonal in the product of both eigenbases.
            spread, basis = la.eigh(joint)
            spread = np.maximum(spread, 0.0)
            system = np.outer(self.values, spread) + ridge
            if not system.min() > 0:
                raise DeclarationError(_SINGULAR.format(what="joint kernel", m=self.n_examples, lam=lam, why=""))
            coef = self.vectors @ ((inner @ basis) * spread / system) @ basis.T
        coef = self._root * coef
        return Regression(coef, mean - self.means @ coef)

    def __repr__(self) -> str:
        return f"<Spectrum of {self.n_examples} examples, largest eigenvalue {self.values[-1]:.3g}>"


def centred(gram: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """``H K H'`` with ``H = I - 11'/m``, the kernel matrix centred in feature space; with weights ``H = I - 1s'/m``."""
    means, mean = _means(gram, True, weight)
    return np.asarray(gram - means - means[:, None] + mean)


def _mean(rows: FloatArray, weight: FloatArray | None) -> FloatArray:
    """The (weighted) mean over the first axis."""
    return np.asarray(rows.mean(axis=0) if weight is None else weight @ rows / len(rows))


def _means(gram: FloatArray, intercept: bool, weight: FloatArray | None) -> tuple[FloatArray, float]:
    means = _mean(gram, weight) if intercept else np.zeros(len(gram))
    return means, float(_mean(means, weight))


def _scaled(system: FloatArray, weight: FloatArray | None) -> FloatArray:
    """``S^1/2 system S^1/2``."""
    if weight is None:
        return system
    root = np.sqrt(weight)
    return np.asarray(root[:, None] * system * root)


def _factorise(system: FloatArray, what: str, weights: KernelWeights) -> tuple[npt.NDArray[Any], bool]:
    """The Cholesky factor, in place; refused where rounding would decide the answer."""
    size = float(np.abs(system).sum(axis=0).max())
    message = _SINGULAR.format(
        what=what,
        m=weights.n_examples,
        lam=weights.lam,
        why=" (centring makes every kernel matrix singular)" if weights.intercept and what == "kernel" else "",
    )
    try:
        factor: tuple[npt.NDArray[Any], bool] = la.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
    except la.LinAlgError:
        raise DeclarationError(message + " If the kernel is your own, check that it is positive definite.") from None
    rcond, _ = la.lapack.dpocon(factor[0], size, uplo="L")
    if rcond < np.finfo(np.float64).eps:
        raise DeclarationError(message)
    return factor
