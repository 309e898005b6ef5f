"""Weighted averages over training examples: a kernel, the computation of its weights, predictions for new inputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from structopt.errors import DeclarationError
from structopt.estimators.conditional_risk.weights import (
    CholeskyWeights,
    FeatureWeights,
    Kernel,
    KernelWeights,
    NystroemMap,
    Regression,
    Spectrum,
    kernel_matrix,
)
from structopt.features import n_examples
from structopt.space.compiled import FloatArray

__all__ = ["Averager", "KernelAverages", "owned"]

METHODS = ("auto", "cholesky", "eigen", "primal", "nystroem")

# A linear kernel is folded into one weight per column and quantity as long as that table is not larger than this.
_FOLDED_ENTRIES = 1 << 26


def owned(X: Any) -> Any:
    """Inputs that no other code can write to: a copy of arrays and sparse matrices, and of containers of them.

    A kernel between inputs and themselves is also computed in another way where both are the same array.
    """
    if isinstance(X, np.ndarray):
        return X.copy() if X.dtype != object else copy.deepcopy(X)
    return X.copy() if sp.issparse(X) else copy.deepcopy(X)


@dataclass(frozen=True, eq=False)
class Averager:
    """``x -> sum_i w_i(x) quantities_i``, as one matrix product for many inputs.

    Attributes
    ----------
    regression : Regression
    source : KernelAverages or None
        What turns inputs into the rows that the regression takes; None where it takes the inputs themselves.
    """

    regression: Regression
    source: KernelAverages | None

    def __call__(self, X: Any) -> FloatArray:
        return self.regression(X if self.source is None else self.source.rows(X))


class KernelAverages:
    """Training inputs with a kernel, and everything that can be computed from them without a label.

    Parameters
    ----------
    X : matrix, or whatever a callable kernel takes
        Kept, since every prediction reads it: give inputs that no other code writes to (`owned`).
    kernel, params
        See `structopt.estimators.conditional_risk.weights.kernel_matrix`.
    method : {"auto", "cholesky", "eigen", "primal", "nystroem"}
        See `structopt.estimators.conditional_risk.ConditionalRiskMinimizer`.
    intercept : bool
    n_landmarks, random_state, landmarks
        For the Nyström approximation: how many inputs to draw, or the landmarks themselves.
    sample_weight : ndarray, optional
        Weights of the examples over their mean.

    Examples
    --------
    >>> import numpy as np
    >>> averages = KernelAverages(np.array([[0.0], [1.0], [2.0]]), "rbf", {"gamma": 1.0}).factorise(0.1)
    >>> averages.weigh(np.array([[0.5]])).round(5)
    array([[ 0.50605,  0.51331, -0.01936]])
    >>> averages.average(np.array([[1.0], [0.0], [0.0]]))(np.array([[0.5]])).round(5)
    array([[0.50605]])
    """

    def __init__(
        self,
        X: Any,
        kernel: Kernel = "linear",
        params: Mapping[str, Any] | None = None,
        *,
        method: str = "auto",
        intercept: bool = True,
        n_landmarks: int = 1000,
        random_state: Any = 0,
        landmarks: Any = None,
        sample_weight: FloatArray | None = None,
    ) -> None:
        self.sample_weight = sample_weight
        self.X, self.kernel, self.params, self.intercept = X, kernel, params, intercept
        self.method = self._choose(method)
        self.landmarks = landmarks
        self._map: NystroemMap | None = None
        self.weights: KernelWeights | Spectrum | None = None
        self.lam = np.nan
        if self.method == "nystroem":
            if landmarks is None:
                self._draw(n_landmarks, random_state)
            self._map = NystroemMap(self._kernel(self.landmarks, self.landmarks))

    def _choose(self, method: str) -> str:
        if method not in METHODS:
            raise DeclarationError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}.")
        dense_linear = self.kernel == "linear" and not sp.issparse(self.X)
        if method == "primal" and not dense_linear:
            raise DeclarationError("method='primal' needs kernel='linear' and a dense matrix of inputs.")
        if method == "nystroem" and (callable(self.kernel) or self.kernel == "precomputed"):
            raise DeclarationError("method='nystroem' needs a kernel by name, over a matrix of inputs.")
        if method != "auto":
            return method
        return "primal" if dense_linear and self.X.shape[1] < self.X.shape[0] else "cholesky"

    def _draw(self, n_landmarks: Any, random_state: Any) -> None:
        if not isinstance(n_landmarks, Integral) or n_landmarks < 1:
            raise DeclarationError(f"n_landmarks must be an integer of at least 1, got {n_landmarks!r}.")
        drawn = check_random_state(random_state).permutation(n_examples(self.X))[:n_landmarks]
        self.landmarks = self.X[np.sort(drawn)]

    def _kernel(self, X: Any, Y: Any) -> FloatArray:
        return kernel_matrix(X, Y, self.kernel, self.params)

    def _gram(self) -> FloatArray:
        """The kernel matrix of the training inputs; factorisations read half of it, so that both halves must agree."""
        gram = self._kernel(self.X, self.X)
        if callable(self.kernel) or self.kernel == "precomputed":
            differ = np.abs(gram - gram.T)
            if differ.max(initial=0.0) > 1e-8 * np.abs(gram).max(initial=0.0):
                i, j = np.unravel_index(int(differ.argmax()), gram.shape)
                raise DeclarationError(
                    f"The kernel is not symmetric: between inputs {i} and {j} it is {gram[i, j]:g}, and {gram[j, i]:g} "
                    "the other way round."
                )
        return gram

    @property
    def exact(self) -> bool:
        """Whether the kernel is used as it is, and not approximated."""
        return self.method != "nystroem"

    def factorise(self, lam: float) -> KernelAverages:
        """Compute the weights for one `lam`: the whole of training."""
        self.lam = float(lam)
        if self.method in ("primal", "nystroem"):
            self.weights = FeatureWeights(self.rows(self.X), self.lam, self.intercept, self.sample_weight)
        elif self.method == "eigen":
            self.weights = self.spectrum()
        else:
            self.weights = CholeskyWeights(self._gram(), self.lam, self.intercept, self.sample_weight)
        return self

    def spectrum(self) -> Spectrum:
        """One eigendecomposition for every `lam`."""
        if self.method in ("primal", "nystroem"):
            return Spectrum.of_features(self.rows(self.X), self.intercept, self.sample_weight)
        return Spectrum(self._gram(), self.intercept, self.sample_weight)

    def rows(self, X: Any) -> FloatArray:
        """What the weights of new inputs are computed from: rows of the kernel, or features."""
        if self.method == "primal":
            return np.asarray(X, dtype=np.float64)
        if self._map is not None:
            return self._map(self._kernel(X, self.landmarks))
        return self._kernel(X, self.X)

    def weigh(self, X: Any) -> FloatArray:
        """``w(x)``, one row an input."""
        assert self.weights is not None
        if isinstance(self.weights, Spectrum):
            return self.weights.regress(np.eye(self.weights.n_examples), self.lam)(self.rows(X))
        return self.weights.weights(self.rows(X))

    def average(self, quantities: FloatArray, joint: FloatArray | None = None) -> Averager:
        """The factor applied to quantities of the training examples, ready for new inputs."""
        assert self.weights is not None
        if isinstance(self.weights, Spectrum):
            found = self.weights.regress(quantities, self.lam, joint)
        else:
            found = self.weights.regress(quantities)
        if self._folds(quantities.shape[1]):
            return Averager(Regression(np.asarray(self.X.T @ found.coef), found.offset), None)
        return Averager(found, self)

    def _folds(self, n_quantities: int) -> bool:
        """Whether a linear kernel is multiplied into the coefficients, which then take the inputs themselves."""
        if self.kernel != "linear" or self.method not in ("cholesky", "eigen"):
            return False
        return bool(self.X.shape[1] * n_quantities <= _FOLDED_ENTRIES)

    def largest_diagonal(self) -> float:
        """The largest ``k(x, x)``: over all inputs where it is known, else over the training inputs."""
        if self.kernel in ("rbf", "laplacian", "cosine"):
            return 1.0
        if self.kernel == "linear":
            squares = self.X.multiply(self.X) if sp.issparse(self.X) else np.square(self.X)
            return float(np.asarray(squares.sum(axis=1)).max())
        return float(self._kernel(self.X, self.X).diagonal().max())

    def __repr__(self) -> str:
        return f"<KernelAverages of {n_examples(self.X)} inputs, kernel={self.kernel!r}, method={self.method!r}>"
