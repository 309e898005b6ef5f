"""Risks: what a trainer minimises besides the regulariser.

A risk maps weights to a value and a subgradient, nothing more. Whatever produced the value (a matrix product,
a solver, a search over label spaces) stays behind this interface, so every trainer works with every risk.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structopt.checks import converted
from structopt.errors import DeclarationError
from structopt.risks.linesearch import zero_of_increasing

__all__ = ["Cut", "LinearRisk", "Risk"]

Vector = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


class Cut(NamedTuple):
    """One evaluation of a risk: a value from above and a cutting plane from below.

    Attributes
    ----------
    value : float
        The risk at w, or an upper bound of the risk if the search is inexact.
    subgradient : ndarray of shape (n_features,)
        Slope of the cutting plane.
    plane : float
        Height of the cutting plane at w: ``plane + <subgradient, v - w> <= risk(v)`` for all v. Equal to `value`
        unless the search was inexact.
    intercept : float, optional
        Height of the cutting plane at 0, where the risk knows it without the difference of two heights far out: a mean
        over examples cancels, so that its slope does not bound the rounding errors of its height.
    """

    value: float
    subgradient: Vector
    plane: float
    intercept: float | None = None

    def offset(self, w: Vector) -> float:
        """Return b such that ``<subgradient, v> + b <= risk(v)`` for all v, where the cut was taken at `w`.

        The difference of two large numbers far out would leave the cutting plane above the risk near the origin by its
        rounding error; b is lowered by that much.

        Parameters
        ----------
        w : ndarray
            Where the cut was taken.

        Returns
        -------
        float
        """
        if self.intercept is not None:
            return self.intercept
        lean = float(w @ self.subgradient)
        error = 16.0 * _EPS * (abs(self.plane) + float(np.abs(w) @ np.abs(self.subgradient)))
        return self.plane - lean - error


class Risk(ABC):
    """A convex function of the weights, usually a mean over examples.

    A subclass sets `n_features`, implements `value_and_subgradient`, and may improve the rest: `lower_bound`
    (0 for a non-negative risk; trainers start from a much better certificate), ``len``, `shard`, `cut`,
    `line_search`.

    Examples
    --------
    >>> import numpy as np
    >>> class Absolute(Risk):
    ...     lower_bound = 0.0
    ...     n_features = 1
    ...     def value_and_subgradient(self, w):
    ...         return float(abs(w[0] - 3.0)), np.sign(w - 3.0)
    >>> value, subgradient = Absolute()(np.zeros(1))
    >>> value, subgradient
    (3.0, array([-1.]))
    """

    #: A lower bound of the risk at all weights; ``-inf`` if none is known.
    lower_bound: float = -math.inf

    #: Whether the risk is differentiable everywhere, so that quasi-Newton steps (`structopt.train.lbfgs`) make sense.
    is_smooth: bool = False

    #: Whether `shard` made it, so that it is no mean over its own examples but adds up with the other parts.
    is_part: bool = False

    #: Whether it is a mean over its examples, queries or pairs, so that a mean of risks of parts is the risk of all.
    is_mean: bool = True

    #: How far below the risk a value may lie, as a share of it: positive if a solver with tolerances finds the values.
    value_error: float = 0.0

    #: Length of the weight vector.
    n_features: int

    @abstractmethod
    def value_and_subgradient(self, w: Vector) -> tuple[float, Vector]:
        """Return the risk at `w` and one of its subgradients, a dense float64 vector.

        Parameters
        ----------
        w : ndarray
            The weights.

        Returns
        -------
        value, subgradient : float and ndarray
            If a search is inexact (`rtol`, or a time limit), the value is an upper bound of the risk, and the pair need
            not be a cut. `cut` returns the height of the cut as well, as `Cut.plane`.
        """

    def __call__(self, w: Vector) -> tuple[float, Vector]:
        return self.value_and_subgradient(w)

    def __len__(self) -> int:
        """Return the number of examples: the oracle calls in one pass."""
        return 1

    def __bool__(self) -> bool:  # a risk without examples is still a risk
        return True

    def cut(self, w: Vector) -> Cut:
        """Return value and cutting plane at `w`; override where they differ (inexact searches).

        Parameters
        ----------
        w : ndarray
            The weights.

        Returns
        -------
        Cut
        """
        value, subgradient = self.value_and_subgradient(w)
        return Cut(float(value), np.asarray(subgradient, dtype=np.float64), float(value))

    def shard(self, k: int, n: int) -> Risk:
        """Return part `k` of `n`: the examples ``k::n``, weighted so that the parts add up to this risk.

        Parameters
        ----------
        k : int
            Number of the part, from 0.
        n : int
            Number of parts.

        Returns
        -------
        Risk
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not decompose over examples: it has no shard(k, n). Train it whole."
        )

    def line_search(self, w: Vector, direction: Vector, lam: float) -> tuple[float, float] | None:
        """Minimise ``lam/2 ||w + t direction||^2 + risk(w + t direction)`` over ``t >= 0``.

        Returns ``(t, risk(w + t direction))``, or None where it would take longer than it saves, as when each trial
        step needs an oracle pass (docs/mathematics/training#line-search).

        Parameters
        ----------
        w : ndarray
            The start.
        direction : ndarray
        lam : float
            Weight of the regulariser.

        Returns
        -------
        (t, value), or None
        """
        return None

    @property
    def has_line_search(self) -> bool:
        """Whether `line_search` is implemented."""
        return type(self).line_search is not Risk.line_search

    def fingerprint(self) -> str:
        """A short description of the problem, for messages; `identity` distinguishes problems.

        Returns
        -------
        str
        """
        return f"{type(self).__name__}({len(self)} examples, {self.n_features} features)"

    def identity(self) -> dict[str, Any]:
        """What must agree for a checkpoint of this risk to be resumed: JSON values by name.

        By default a risk is identified by its value and slope at a fixed point, which takes one evaluation.
        Risks that hold data hash them (`structopt.risks.identity.digest`).

        Returns
        -------
        dict of str to object
        """
        rng = np.random.default_rng(15)
        w, first, second = rng.normal(size=(3, self.n_features)) / math.sqrt(max(self.n_features, 1))
        value, slope = self(np.abs(w) / max(float(np.abs(w).sum()), _EPS))  # where entropies are defined, too
        probe = [float(value), float(slope @ first), float(slope @ second)]
        return {"risk": self.fingerprint(), "value and slope": probe}

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} examples, {self.n_features} features>"


class LinearRisk(Risk):
    """A risk that sees the weights only through predictions ``f = X w``.

    Trainers interpolate predictions instead of multiplying again: an iteration of line-search BMRM takes one
    product forward and one back. A subclass implements `predictions`, `loss` and `pull_back`;
    the exact `line_step` is worth overriding where the loss is piecewise linear.
    """

    @abstractmethod
    def predictions(self, w: Vector) -> Vector:
        """Return ``X w``, of any shape.

        Parameters
        ----------
        w : ndarray
            The weights.

        Returns
        -------
        ndarray
        """

    @abstractmethod
    def loss(self, f: Vector) -> tuple[float, Vector]:
        """Return the risk at predictions `f` and its derivative, of the shape of `f`.

        Parameters
        ----------
        f : ndarray
            Predictions.

        Returns
        -------
        value, derivative : float and ndarray
        """

    @abstractmethod
    def pull_back(self, derivative: Vector) -> Vector:
        """Return ``X' derivative``, the subgradient with respect to the weights.

        Parameters
        ----------
        derivative : ndarray
            Of the loss by the predictions.

        Returns
        -------
        ndarray
        """

    def value_and_subgradient(self, w: Vector) -> tuple[float, Vector]:
        value, derivative = self.loss(self.predictions(w))
        return value, self.pull_back(derivative)

    def line_step(self, f: Vector, df: Vector, slope: float, curvature: float) -> float:
        """Minimise ``slope t + curvature/2 t^2 + loss(f + t df)`` over ``t >= 0``.

        The default brackets the zero of the (non-decreasing) derivative and bisects with Illinois steps; each
        trial takes one `loss`, no product.

        Parameters
        ----------
        f : ndarray
            Predictions at the start.
        df : ndarray
            How they change with t.
        slope : float
            Of the regulariser along the line, at the start.
        curvature : float
            Of the regulariser along the line.

        Returns
        -------
        float
            The best t.
        """

        def derivative(t: float) -> float:
            return slope + curvature * t + float(np.vdot(self.loss(f + t * df)[1], df))

        # A hundredth of the step is enough: finer searches saved no pass (a9a, lam 1e-3 and 1e-4).
        return zero_of_increasing(derivative, tolerance=1e-2)

    def line_search(self, w: Vector, direction: Vector, lam: float) -> tuple[float, float]:
        f, df = self.predictions(w), self.predictions(direction)
        t = self.line_step(f, df, lam * float(w @ direction), lam * float(direction @ direction))
        return t, self.loss(f + t * df)[0]


def check_lam(lam: float) -> float:
    """Return `lam` as a float, or say why it cannot weigh a regulariser."""
    if not (isinstance(lam, (int, float, np.floating, np.integer)) and math.isfinite(lam) and lam > 0):
        raise DeclarationError(
            f"lam must be a positive finite number, got {lam!r}: without a regulariser the problem may have no "
            "minimiser and no certificate. Use a small value such as 1e-6."
        )
    return float(lam)


def check_start(w0: Vector | None, default: Vector) -> Vector:
    """Return a private copy of the start, or `default`; raise on a wrong shape or non-finite entries."""
    if w0 is None:
        return default.copy()
    w = np.array(w0, dtype=np.float64)
    if w.shape != default.shape:
        raise DeclarationError(f"w0 has shape {w.shape}; this risk needs {default.shape}")
    bad = np.flatnonzero(~np.isfinite(w))
    if bad.size:
        raise DeclarationError(f"w0 is not finite at {bad.size} positions (first: {int(bad[0])}); pass finite weights")
    return w


def check_weights(w: Any, length: int, owner: str) -> Vector:
    """Return the weights at which a risk is asked, or say what is wrong with them."""
    weights = converted(f"{owner}: w", w)
    if weights.shape != (length,):
        raise DeclarationError(f"{owner}: w has shape {weights.shape}; this risk needs ({length},).")
    finite = np.isfinite(weights)
    if not finite.all():
        place = int(np.flatnonzero(~finite)[0])
        raise DeclarationError(f"{owner}: w[{place}] is {weights[place]}; all weights must be finite.")
    return weights
