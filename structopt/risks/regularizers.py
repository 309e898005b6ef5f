"""Regularisers and their Fenchel duals (BMRM 2.3, corrected in docs/mathematics/risks#regularisers).

A bundle trainer does not evaluate a regulariser Omega directly. It gives an affine lower bound of the risk,
``<slope, w> + offset``, and receives the minimiser of ``lam Omega(w) + <slope, w> + offset`` and the minimum,

    w = grad Omega*(-slope / lam),      bound = offset - lam Omega*(-slope / lam),

a certified lower bound of the objective whatever the quality of the affine function. That is `Regularizer.dual_point`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import ArrayLike, NDArray

from structopt.checks import checked, converted
from structopt.errors import DeclarationError
from structopt.risks.identity import digest

__all__ = ["Entropy", "L1", "L2", "Lp", "Quadratic", "Regularizer"]

Vector = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)

# Beyond this exponent the conjugate counts as infinite.
_MAX_EXPONENT = 300.0


class Curvature(NamedTuple):
    """Hessian of a conjugate: ``diag(diagonal) + factor * vector vector'``."""

    diagonal: Vector
    factor: float
    vector: Vector


class Regularizer(ABC):
    """A convex function of the weights with a conjugate that is known in closed form."""

    #: How the bundle's subproblem is solved: a quadratic program, Newton steps on the simplex, interior points
    #: (where the conjugate is too kinked for Newton), or a linear program.
    kind: Literal["quadratic", "smooth", "interior", "linear"]

    #: Whether every weight vector is allowed (else only non-negative ones).
    everywhere: ClassVar[bool] = True

    @abstractmethod
    def value(self, w: Vector) -> float:
        """Return Omega(w).

        Parameters
        ----------
        w : ndarray
            The weights.

        Returns
        -------
        float
        """

    @abstractmethod
    def subgradient(self, w: Vector) -> Vector:
        """Return a subgradient of Omega at w.

        Parameters
        ----------
        w : ndarray
            The weights.

        Returns
        -------
        ndarray
        """

    @abstractmethod
    def conjugate(self, mu: Vector) -> float:
        """Return Omega*(mu) = max over w of <w, mu> - Omega(w).

        Parameters
        ----------
        mu : ndarray
            A dual vector.

        Returns
        -------
        float
        """

    @abstractmethod
    def conjugate_gradient(self, mu: Vector) -> Vector:
        """Return the w at which the maximum in `conjugate` is attained.

        Parameters
        ----------
        mu : ndarray
            A dual vector.

        Returns
        -------
        ndarray
        """

    def conjugate_curvature(self, mu: Vector) -> Curvature:
        """Return the Hessian of the conjugate (kind "smooth").

        Parameters
        ----------
        mu : ndarray
            A dual vector.

        Returns
        -------
        Curvature
        """
        raise NotImplementedError

    def curvature(self, w: Vector) -> Curvature:
        """Return the Hessian of Omega (kind "interior").

        Parameters
        ----------
        w : ndarray
            The weights.

        Returns
        -------
        Curvature
        """
        raise NotImplementedError

    def start(self, n_features: int) -> Vector:
        """Return the minimiser of Omega.

        Parameters
        ----------
        n_features : int

        Returns
        -------
        ndarray
        """
        return self.conjugate_gradient(np.zeros(n_features))

    def identity(self) -> str:
        """Name and hash of the settings, so that a checkpoint is not resumed with others.

        Returns
        -------
        str
        """
        settings = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return f"{self!r} {digest(settings)}"

    def check(self, w: Vector) -> None:
        """Raise if Omega is infinite at w.

        Parameters
        ----------
        w : ndarray
            The weights.
        """
        if not np.isfinite(w).all():
            raise DeclarationError("the weights are not finite")

    def dual_point(self, slope: Vector, offset: float, lam: float, floor: float = -math.inf) -> tuple[Vector, float]:
        """Minimise ``lam Omega(w) + <slope, w> + offset``.

        Parameters
        ----------
        slope, offset : ndarray, float
            An affine function that nowhere exceeds the risk.
        lam : float
            Weight of the regulariser.
        floor : float
            A constant lower bound of the risk, used where the minimum would be unbounded.

        Returns
        -------
        w : ndarray
            The minimiser.
        bound : float
            The minimum, less the rounding errors of its computation.
        """
        mu = slope / -lam
        dual = lam * self.conjugate(mu)
        return self.conjugate_gradient(mu), offset - dual - 8.0 * _EPS * (abs(offset) + abs(dual))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


class QuadraticRegularizer(Regularizer):
    """What L2 and `Quadratic` share: ``1/2 w' B w``."""

    kind = "quadratic"

    @abstractmethod
    def product(self, w: Vector) -> Vector:
        """Return B w.

        Parameters
        ----------
        w : ndarray
            The weights.

        Returns
        -------
        ndarray
        """

    @abstractmethod
    def solve(self, mu: Vector) -> Vector:
        """Return B^-1 mu.

        Parameters
        ----------
        mu : ndarray
            A dual vector.

        Returns
        -------
        ndarray
        """

    def value(self, w: Vector) -> float:
        return 0.5 * float(w @ self.product(w))

    def subgradient(self, w: Vector) -> Vector:
        return self.product(w)

    def conjugate(self, mu: Vector) -> float:
        return 0.5 * float(mu @ self.solve(mu))

    def conjugate_gradient(self, mu: Vector) -> Vector:
        return self.solve(mu)

    def dual_point(self, slope: Vector, offset: float, lam: float, floor: float = -math.inf) -> tuple[Vector, float]:
        w = self.solve(slope / -lam)
        dual = -0.5 * float(slope @ w)  # lam Omega*(-slope/lam), one solve for both
        return w, offset - dual - 8.0 * _EPS * (abs(offset) + abs(dual))

    def along(self, w: Vector, direction: Vector) -> tuple[float, float]:
        """Return slope and curvature of ``Omega(w + t direction)`` in t at 0."""
        image = self.product(direction)
        return float(w @ image), float(direction @ image)


class L2(QuadraticRegularizer):
    """``1/2 ||w||^2``.

    Examples
    --------
    >>> L2().value(np.array([3.0, 4.0]))
    12.5
    """

    def product(self, w: Vector) -> Vector:
        return w

    def solve(self, mu: Vector) -> Vector:
        return mu


class Quadratic(QuadraticRegularizer):
    """``1/2 w' B w`` with a positive definite B.

    Parameters
    ----------
    B : array of shape (n_features,) or (n_features, n_features), or sparse matrix
        A vector is a diagonal.

    Examples
    --------
    >>> Quadratic([1.0, 4.0]).conjugate(np.array([1.0, 2.0]))
    1.0
    """

    @checked
    def __init__(self, B: ArrayLike | Any) -> None:
        self._factor: Any = None
        if scipy.sparse.issparse(B):
            self.B: Any = scipy.sparse.csc_array(B, dtype=np.float64)
            values = self.B.data
        else:
            self.B = values = np.array(converted("B", B))
        if not np.isfinite(values).all():
            raise DeclarationError("B has entries that are not finite")
        if 0 in self.B.shape:
            raise DeclarationError(f"B must have an entry for each weight, got shape {self.B.shape}")
        if self.B.ndim == 1:
            if not (self.B > 0).all():
                bad = int(np.flatnonzero(~(self.B > 0))[0])
                raise DeclarationError(
                    f"B must be positive definite: its diagonal has {self.B[bad]!r} at {bad}. Give weights that should "
                    "go (almost) unpenalised a small positive value."
                )
            return
        if self.B.ndim != 2 or self.B.shape[0] != self.B.shape[1]:
            raise DeclarationError(f"B must be a vector or a square matrix, got shape {self.B.shape}")
        asymmetry = abs(self.B - self.B.T).max()
        if asymmetry > 1e-10 * abs(self.B).max():
            raise DeclarationError(f"B must be symmetric; B and B' differ by {asymmetry:.3g}. Use (B + B') / 2.")
        self._factorise()

    def _factorise(self) -> None:
        message = "B must be positive definite: add a small multiple of the identity"
        if scipy.sparse.issparse(self.B):
            try:
                # Symmetric mode without pivoting: the signs of U's diagonal are those of B's inertia.
                factor = scipy.sparse.linalg.splu(
                    self.B, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
                )
            except RuntimeError as error:
                raise DeclarationError(message) from error
            if not (factor.U.diagonal() > 0).all():
                raise DeclarationError(message)
            self._factor = factor
        else:
            try:
                self._factor = scipy.linalg.cho_factor(self.B)
            except scipy.linalg.LinAlgError as error:
                raise DeclarationError(message) from error

    def _check_length(self, w: Vector) -> None:
        if len(w) != self.B.shape[0]:
            raise DeclarationError(f"B is for {self.B.shape[0]} weights, and there are {len(w)}")

    def product(self, w: Vector) -> Vector:
        self._check_length(w)
        return np.asarray(self.B * w if self.B.ndim == 1 else self.B @ w, dtype=np.float64)

    def solve(self, mu: Vector) -> Vector:
        self._check_length(mu)
        if self.B.ndim == 1:
            return np.asarray(mu / self.B, dtype=np.float64)
        if scipy.sparse.issparse(self.B):
            return np.asarray(self._factor.solve(mu), dtype=np.float64)
        return np.asarray(scipy.linalg.cho_solve(self._factor, mu), dtype=np.float64)

    def __repr__(self) -> str:
        kind = "diagonal" if self.B.ndim == 1 else "sparse" if scipy.sparse.issparse(self.B) else "dense"
        return f"Quadratic(<{kind} {self.B.shape[0]} x {self.B.shape[0]}>)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quadratic) or self.B.shape != other.B.shape:
            return False
        return bool(abs(self.B - other.B).max() == 0)

    def __hash__(self) -> int:
        return hash(repr(self))


class Lp(Regularizer):
    """``1/2 ||w||_p^2`` for p > 1.

    For p > 2 the conjugate, ``1/2 ||mu||_q^2`` with q < 2, has infinite curvature where a coordinate is 0, while Omega
    itself is smooth; the subproblem is then solved in the weights.

    Parameters
    ----------
    p : float
        The exponent, above 1.

    Examples
    --------
    >>> w = np.array([1.0, -1.0])
    >>> round(Lp(1.5).value(w), 6), round(Lp(2).conjugate(w), 6)
    (1.259921, 1.0)
    """

    @checked
    def __init__(self, p: float) -> None:
        if not (math.isfinite(p) and p > 1):
            raise DeclarationError(f"p must be finite and above 1, got {p!r}. For p = 1 use L1().")
        self.p = float(p)
        self.q = self.p / (self.p - 1.0)
        self.kind = "smooth" if self.p <= 2.0 else "interior"

    def value(self, w: Vector) -> float:
        return 0.5 * _norm(w, self.p) ** 2

    def subgradient(self, w: Vector) -> Vector:
        return _norm_gradient(w, self.p)

    def conjugate(self, mu: Vector) -> float:
        return 0.5 * _norm(mu, self.q) ** 2

    def conjugate_gradient(self, mu: Vector) -> Vector:
        return _norm_gradient(mu, self.q)

    def conjugate_curvature(self, mu: Vector) -> Curvature:
        return _norm_curvature(mu, self.q)

    def curvature(self, w: Vector) -> Curvature:
        return _norm_curvature(w, self.p)

    def __repr__(self) -> str:
        return f"Lp({self.p:g})"


def _norm(x: Vector, p: float) -> float:
    top = float(np.abs(x).max(initial=0.0))
    return top * float(((np.abs(x) / top) ** p).sum()) ** (1.0 / p) if top > 0 else 0.0


def _norm_gradient(x: Vector, p: float) -> Vector:
    """Gradient of 1/2 ||x||_p^2: sign(x) |x|^(p-1) ||x||_p^(2-p), without overflow."""
    norm = _norm(x, p)
    if norm == 0.0:
        return np.zeros_like(x)
    return np.asarray(np.sign(x) * (np.abs(x) / norm) ** (p - 1.0) * norm, dtype=np.float64)


def _norm_curvature(x: Vector, p: float) -> Curvature:
    """Hessian of 1/2 ||x||_p^2; it depends on the direction of x only."""
    norm = _norm(x, p)
    if norm == 0.0:
        return Curvature(np.ones_like(x), 0.0, x)
    unit = np.abs(x) / norm
    # For p < 2 it is infinite where x is 0, hence the floor.
    diagonal = (p - 1.0) * np.maximum(unit, 1e-8 if p < 2.0 else 0.0) ** (p - 2.0)
    return Curvature(diagonal, 2.0 - p, np.sign(x) * unit ** (p - 1.0))


class L1(Regularizer):
    """``||w||_1``; its bundle subproblem is a linear program.

    Examples
    --------
    >>> L1().value(np.array([3.0, -4.0]))
    7.0
    """

    kind = "linear"

    def value(self, w: Vector) -> float:
        return float(np.abs(w).sum())

    def subgradient(self, w: Vector) -> Vector:
        return np.sign(w)

    def conjugate(self, mu: Vector) -> float:
        return 0.0 if float(np.abs(mu).max(initial=0.0)) <= 1.0 else math.inf

    def conjugate_gradient(self, mu: Vector) -> Vector:
        return np.zeros_like(mu)

    def dual_point(self, slope: Vector, offset: float, lam: float, floor: float = -math.inf) -> tuple[Vector, float]:
        # Where a slope exceeds lam the minimum is -inf. Mixing with the constant floor flattens the slope just enough:
        # a convex combination of two lower bounds of the risk is one too. Solvers leave slopes over lam by rounding.
        excess = float(np.abs(slope).max(initial=0.0)) / lam * (1.0 + 4.0 * _EPS)
        if excess > 1.0:
            offset = -math.inf if math.isinf(floor) else floor + (offset - floor) / excess
        return np.zeros_like(slope), offset - 8.0 * _EPS * abs(offset) if math.isfinite(offset) else offset


class Entropy(Regularizer):
    """Negative entropy ``sum w log w`` of non-negative weights.

    Parameters
    ----------
    normalized : bool
        Whether the weights must also sum to 1.

    Notes
    -----
    BMRM prints the conjugate of the unnormalised entropy without the ``- 1`` (docs/mathematics/risks#regularisers).

    Examples
    --------
    >>> Entropy().start(4)
    array([0.25, 0.25, 0.25, 0.25])
    >>> round(Entropy(normalized=False).conjugate(np.array([1.0, 1.0])), 6)
    2.0
    """

    kind = "smooth"
    everywhere = False

    @checked
    def __init__(self, normalized: bool = True) -> None:
        self.normalized = bool(normalized)

    def check(self, w: Vector) -> None:
        if (w < 0).any():
            bad = int(np.flatnonzero(w < 0)[0])
            raise DeclarationError(f"entropy needs non-negative weights; w[{bad}] = {w[bad]:g}. Leave w0 out.")
        if self.normalized and abs(float(w.sum()) - 1.0) > 1e-9:
            raise DeclarationError(f"normalised entropy needs weights that sum to 1, got {float(w.sum()):g}")

    def value(self, w: Vector) -> float:
        positive = w[w > 0]
        return float(positive @ np.log(positive))

    def subgradient(self, w: Vector) -> Vector:
        return np.asarray(np.log(np.maximum(w, 1e-300)) + 1.0, dtype=np.float64)

    def conjugate(self, mu: Vector) -> float:
        top = float(mu.max(initial=-math.inf))
        if self.normalized:
            return top + math.log(float(np.exp(mu - top).sum()))
        return float(np.exp(mu - 1.0).sum()) if top <= _MAX_EXPONENT else math.inf

    def conjugate_gradient(self, mu: Vector) -> Vector:
        if self.normalized:
            weight = np.exp(mu - mu.max(initial=-math.inf))
            return np.asarray(weight / weight.sum(), dtype=np.float64)
        return np.asarray(np.exp(np.minimum(mu, _MAX_EXPONENT) - 1.0), dtype=np.float64)

    def conjugate_curvature(self, mu: Vector) -> Curvature:
        w = self.conjugate_gradient(mu)
        return Curvature(w, -1.0 if self.normalized else 0.0, w)

    def __repr__(self) -> str:
        return f"Entropy(normalized={self.normalized})"


def check_l2(regularizer: Regularizer | None, trainer: str) -> None:
    """Refuse what a trainer whose steps are those of ``||w||^2 / 2`` cannot minimise."""
    if regularizer is not None and type(regularizer) is not L2:
        raise DeclarationError(
            f"{trainer} takes steps of the squared norm and cannot minimise {regularizer!r}; "
            "use structopt.train.bmrm, which takes any regulariser."
        )
