r"""Bi-criteria surrogates :math:`\psi(h, g)`: what a search maximises over the plane.

A label y is the point (h(y), g(y)); unless a surrogate says otherwise h is the margin error
:math:`m(y) = f(y) - f(y_i)` and g the task loss :math:`L(y, y_i)`. On :math:`K_0 = \{\psi \ge 0\}` every
surrogate here does not decrease in h or in g and is quasi-concave, which is all that the searches use
(thesis 3.3, MATH.md 4).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtr

from structopt.compiled import FloatArray
from structopt.errors import DeclarationError

if TYPE_CHECKING:
    from structopt.plane import Plane

__all__ = [
    "BetaScaling",
    "GeneralizedScaling",
    "LogLoss",
    "Margin",
    "MicroF1",
    "ProbLoss",
    "Product",
    "Slack",
    "Surrogate",
    "from_functions",
    "get",
    "names",
    "register",
]

Affine = tuple[npt.ArrayLike, float]
_SECTION = np.linspace(0.0, 1.0, 65)


class Surrogate(ABC):
    r"""A function :math:`\psi(h, g)`, quasi-concave and monotone where it is positive.

    A subclass writes `psi` and `psi_gradient` for points inside the domain; both get floats or arrays.

    Attributes
    ----------
    name : str
        The name under which `get` finds it.
    h_lower, g_lower : float
        :math:`\psi > 0` only for ``h >= h_lower`` and ``g >= g_lower``; ``g < g_lower`` is outside the domain.
    convex_in_h : bool
        Whether the trained objective is convex in the weights (MATH.md 4, "Training with a surrogate").
    """

    name: ClassVar[str] = ""
    h_lower: ClassVar[float] = -math.inf
    g_lower: ClassVar[float] = 0.0
    convex_in_h: bool = True

    @abstractmethod
    def psi(self, h: Any, g: Any) -> Any:
        """The value at points of the domain."""

    @abstractmethod
    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        """The partial derivatives in h and in g at points of the domain."""

    def inside(self, h: Any, g: Any) -> Any:
        """Whether the points are in the domain."""
        return g >= self.g_lower

    def value(self, h: npt.ArrayLike, g: npt.ArrayLike) -> Any:
        r""":math:`\psi(h, g)` of a point or of arrays of points; a point outside the domain is an error."""
        return self._checked(self.psi, h, g)

    def gradient(self, h: npt.ArrayLike, g: npt.ArrayLike) -> tuple[Any, Any]:
        r""":math:`(\psi_h, \psi_g)` of a point or of arrays of points."""
        psi_h, psi_g = self._checked(self.psi_gradient, h, g)
        return psi_h, psi_g

    def _checked(self, function: Callable[[Any, Any], Any], h: npt.ArrayLike, g: npt.ArrayLike) -> Any:
        h_values, g_values = np.broadcast_arrays(np.asarray(h, dtype=float), np.asarray(g, dtype=float))
        bad = ~(np.isfinite(h_values) & np.isfinite(g_values)) | ~np.asarray(self.inside(h_values, g_values))
        if bad.any():
            where = tuple(np.argwhere(bad)[0])
            raise DeclarationError(
                f"{self!r} is not defined at (h, g) = ({h_values[where]:g}, {g_values[where]:g}): "
                f"it needs finite values with {self.domain}."
            )
        with np.errstate(divide="ignore"):
            answer = function(h_values, g_values)
        if h_values.ndim:
            return answer
        return tuple(float(part) for part in answer) if isinstance(answer, tuple) else float(answer)

    @property
    def domain(self) -> str:
        """The domain in words."""
        return f"g >= {self.g_lower:g}"

    def clipped(self, h: float, g: float) -> float:
        r""":math:`\max(0, \psi)`, and 0 outside the domain: the function that a search maximises.

        Superlevel sets above 0 are the same as those of ψ, so they stay convex and closed upwards.
        """
        return max(0.0, float(self.psi(h, g))) if self.inside(h, g) else 0.0

    def direction(self, h: float, g: float) -> float:
        r"""The λ of the contour's tangent at a point with ψ > 0: :math:`\psi_g / \psi_h`, in [0, inf]."""
        psi_h, psi_g = self.psi_gradient(h, g)
        psi_h, psi_g = max(0.0, float(psi_h)), max(0.0, float(psi_g))
        return psi_g / psi_h if psi_h > 0.0 else math.inf

    def segment_maximum(self, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float, float]:
        """Maximum of `clipped` on the segment ``(1 - t) p + t q``.

        Returns
        -------
        t, value, upper : float
            The best point found, its value, and a certified upper bound on the whole segment.

        Notes
        -----
        ψ is unimodal on the part of the segment inside K_0. The maximum is enclosed by section search, 65 points
        at a time; by monotonicity no point of the last bracket exceeds ψ at the bracket's upper right corner.
        """
        low, high = self._bracket(p, q)
        for _ in range(8):
            t = low + (high - low) * _SECTION
            values = self._clipped_array(p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1]))
            best = int(np.argmax(values))
            low, high = float(t[max(best - 1, 0)]), float(t[min(best + 1, 64)])
            if high - low <= 1e-10:
                break
        t_best = float(t[best])
        return t_best, float(values[best]), max(float(values[best]), self._corner(p, q, low, high))

    def _bracket(self, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float]:
        """An interval of t that holds the maximum, found even where ψ is positive on a short piece only."""
        low = np.zeros(1)
        width = 1.0
        for _ in range(8):
            width /= 16.0
            left = (low[:, None] + width * np.arange(16)).ravel()
            right = left + width
            values = self._clipped_array(p[0] + right * (q[0] - p[0]), p[1] + right * (q[1] - p[1]))
            if values.max() > 0.0:
                centre = float(right[int(np.argmax(values))])
                return max(0.0, centre - width), min(1.0, centre + width)
            first = self.clipped(*p)
            if first > 0.0:
                return 0.0, width
            corners = self._clipped_array(
                p[0] + np.where(q[0] > p[0], right, left) * (q[0] - p[0]),
                p[1] + np.where(q[1] > p[1], right, left) * (q[1] - p[1]),
            )
            keep = np.argsort(-corners, kind="stable")[:16]
            low = left[keep[corners[keep] > 0.0]]
            if not low.size:
                return 0.0, 0.0
        return float(low.min()), float(low.max()) + width

    def _clipped_array(self, h: FloatArray, g: FloatArray) -> FloatArray:
        inside = self.inside(h, g)
        if not np.all(inside):
            values = np.zeros(h.shape)
            values[inside] = self.psi(h[inside], g[inside])
        else:
            values = np.asarray(self.psi(h, g), dtype=float)
        return np.maximum(values, 0.0)

    def _corner(self, p: tuple[float, float], q: tuple[float, float], low: float, high: float) -> float:
        h = max(p[0] + low * (q[0] - p[0]), p[0] + high * (q[0] - p[0]))
        g = max(p[1] + low * (q[1] - p[1]), p[1] + high * (q[1] - p[1]))
        return self.clipped(h, g)

    def factors(
        self, score: npt.ArrayLike, loss: Affine, truth: npt.ArrayLike
    ) -> tuple[tuple[FloatArray, float], tuple[FloatArray, float]]:
        """h and g as affine functions of z: the margin ``score . (z - truth)`` and the task loss."""
        c, z = np.asarray(score, dtype=float), np.asarray(truth, dtype=float)
        return (c, -float(c @ z)), (np.asarray(loss[0], dtype=float), float(loss[1]))

    def plane(self, oracle: Any, score: npt.ArrayLike, loss: Affine, truth: npt.ArrayLike, **options: Any) -> Plane:
        """The plane in which this surrogate of margin and task loss is to be maximised.

        Parameters
        ----------
        oracle : Oracle
        score : array, shape (n_variables,)
            Coefficients of the score f(y) = score . z.
        loss : (coef, const)
            The task loss, affine in z.
        truth : array, shape (n_variables,)
            The true label as a vector z.
        **options
            Passed on to `Plane`.
        """
        from structopt.plane import Plane

        h, g = self.factors(score, loss, truth)
        return Plane(oracle, h=h, g=g, truth=np.asarray(truth, dtype=float), **options)

    def _parameters(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in self._parameters().items())
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self._parameters().items()))))


class Margin(Surrogate):
    """Margin rescaling, ψ = h + g.

    Examples
    --------
    >>> from structopt.surrogates import Margin
    >>> Margin().value(-0.5, 4.0)
    3.5
    """

    name = "margin"

    def psi(self, h: Any, g: Any) -> Any:
        return h + g

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return 1.0 + 0.0 * h, 1.0 + 0.0 * g

    def segment_maximum(self, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float, float]:
        return _better_end(self, p, q)


class Slack(Surrogate):
    """Slack rescaling, ψ = (1 + h) g with h = m(y).

    Examples
    --------
    >>> from structopt.surrogates import Slack
    >>> Slack().value(-0.5, 4.0), Slack().gradient(-0.5, 4.0)
    (2.0, (4.0, 0.5))
    """

    name = "slack"
    h_lower = -1.0
    _shift: ClassVar[float] = 1.0

    def psi(self, h: Any, g: Any) -> Any:
        return (h + self._shift) * g

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return g + 0.0 * h, h + self._shift + 0.0 * g

    def segment_maximum(self, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float, float]:
        # A parabola in t (MATH.md 5, "Segment maximum").
        (h, g), dh, dg = p, q[0] - p[0], q[1] - p[1]
        if dh * dg < 0.0:
            t = -((self._shift + h) * dg + g * dh) / (2.0 * dh * dg)
            if 0.0 < t < 1.0:
                value = self.clipped(h + t * dh, g + t * dg)
                if value > 0.0:
                    return t, value, value * (1.0 + 1e-15)
        return _better_end(self, p, q)


class Product(Slack):
    """The product ψ = h g of a plane whose h is already 1 + m(y).

    What `sarawagi`, `binary`, `bisecting` and `angular` maximise; with it `convex_hull` and `exact` run on the
    same plane.

    Examples
    --------
    >>> from structopt.surrogates import Product
    >>> Product().value(5.0, 3.0)
    15.0
    """

    name = "product"
    h_lower = 0.0
    _shift = 0.0

    def factors(
        self, score: npt.ArrayLike, loss: Affine, truth: npt.ArrayLike
    ) -> tuple[tuple[FloatArray, float], tuple[FloatArray, float]]:
        """h = 1 + margin and g = task loss: slack rescaling as a product."""
        (coef, const), g = super().factors(score, loss, truth)
        return (coef, const + 1.0), g


class GeneralizedScaling(Surrogate):
    """Generalized scaling, ψ = h g^beta + g^alpha.

    Parameters
    ----------
    alpha, beta : float
        ``beta >= 0`` and ``0 <= alpha - beta <= 1``; otherwise ψ is not quasi-concave or not monotone. (The
        range printed in thesis 3.3.1 exchanges the two: MATH.md 4.)

    Examples
    --------
    >>> from structopt.surrogates import GeneralizedScaling
    >>> GeneralizedScaling(alpha=1, beta=0.5).value(-0.5, 4.0)
    3.0
    """

    name = "generalized"

    def __init__(self, alpha: float = 1.0, beta: float = 0.5) -> None:
        alpha, beta = float(alpha), float(beta)
        if not (beta >= 0.0 and 0.0 <= alpha - beta <= 1.0 and math.isfinite(alpha)):
            raise DeclarationError(
                f"GeneralizedScaling needs beta >= 0 and 0 <= alpha - beta <= 1, got alpha={alpha:g}, beta={beta:g}: "
                "outside that range h*g**beta + g**alpha is not quasi-concave and monotone, so no search is exact."
            )
        self.alpha = alpha
        self.beta = beta

    def psi(self, h: Any, g: Any) -> Any:
        return h * g**self.beta + g**self.alpha

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        a, b = self.alpha, self.beta
        g = np.maximum(g, 1e-300)  # g**(b - 1) at 0 is infinite; a search never asks there
        return g**b + 0.0 * h, (b * h * g ** (b - 1.0) if b else 0.0 * h) + (a * g ** (a - 1.0) if a else 0.0)

    def _parameters(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "beta": self.beta}


class BetaScaling(GeneralizedScaling):
    """Beta scaling, ψ = h g^beta + g: margin rescaling at beta = 0, slack rescaling at beta = 1.

    Examples
    --------
    >>> from structopt.surrogates import BetaScaling
    >>> BetaScaling(0.25).value(-0.5, 4.0).__round__(10)
    3.2928932188
    """

    name = "beta"

    def __init__(self, beta: float = 0.5) -> None:
        if not 0.0 <= beta <= 1.0:
            raise DeclarationError(
                f"BetaScaling needs 0 <= beta <= 1, got {beta!r}: 0 is margin and 1 is slack rescaling."
            )
        super().__init__(1.0, beta)

    def _parameters(self) -> dict[str, Any]:
        return {"beta": self.beta}


class LogLoss(Surrogate):
    """Loss scaled log loss, ψ = g log(1 + e^h).

    At h = 0 it is 0.693 g, not a bound on the task loss; ``bound=True`` divides by log 2, which makes it one.

    Examples
    --------
    >>> from structopt.surrogates import LogLoss
    >>> round(LogLoss().value(-0.5, 4.0), 10), round(LogLoss(bound=True).value(0.0, 3.0), 10)
    (1.8963079367, 3.0)
    """

    name = "log"

    def __init__(self, bound: bool = False) -> None:
        self.bound = bool(bound)
        self._scale = 1.0 / math.log(2.0) if bound else 1.0

    def psi(self, h: Any, g: Any) -> Any:
        return self._scale * g * np.logaddexp(0.0, h)

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return self._scale * g * expit(h), self._scale * np.logaddexp(0.0, h) + 0.0 * g

    def _parameters(self) -> dict[str, Any]:
        return {"bound": self.bound}


class ProbLoss(Surrogate):
    r"""ProbLoss, ψ = 2 g N(z) with :math:`z = h \sqrt{\pi / (2 g)}` and N the normal distribution function.

    The risk under Gaussian noise of every micro-label (thesis 3.3.2); its slope in h is at most sqrt(g).

    Parameters
    ----------
    convex : bool
        For h > 0 go on linearly, ψ = g + sqrt(g) h, which makes the trained objective convex.

    Examples
    --------
    >>> from structopt.surrogates import ProbLoss
    >>> round(ProbLoss().value(-0.5, 4.0), 10), ProbLoss(convex=True).value(0.5, 4.0)
    (3.0161242941, 5.0)
    """

    name = "prob"

    def __init__(self, convex: bool = False) -> None:
        self.convex = bool(convex)
        self.convex_in_h = self.convex

    def psi(self, h: Any, g: Any) -> Any:
        root = np.sqrt(g)
        # At g = 0 the loss is 0 whatever the margin; the floor keeps 0/0 away.
        values = 2.0 * g * ndtr(h * math.sqrt(math.pi / 2.0) / np.maximum(root, 1e-150))
        if not self.convex:
            return values
        return np.where(np.asarray(h) > 0.0, np.where(root > 0.0, g + root * h, 0.0), values)[()]

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        root = np.maximum(np.sqrt(g), 1e-150)
        z = np.clip(h * math.sqrt(math.pi / 2.0) / root, -1e8, 1e8)  # the square of 1e8 is finite
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        # d/dh 2 g N(z) = sqrt(2 pi g) phi(z) = sqrt(g) exp(-pi h^2 / (4 g))
        psi_h = root * math.sqrt(2.0 * math.pi) * density
        psi_g = 2.0 * ndtr(z) - z * density
        if not self.convex:
            return psi_h, psi_g
        right = np.asarray(h) > 0.0
        return np.where(right, root, psi_h)[()], np.where(right, 1.0 + 0.5 * h / root, psi_g)[()]

    def direction(self, h: float, g: float) -> float:
        # Far to the left both derivatives underflow; psi_g / psi_h -> -z / sqrt(2 pi g) * (1 + ...) stays finite.
        psi_h, psi_g = self.psi_gradient(h, g)
        if psi_h > 0.0:
            return max(0.0, float(psi_g) / float(psi_h))
        return math.inf if h > 0.0 else -0.5 * h / g

    def _parameters(self) -> dict[str, Any]:
        return {"convex": self.convex}


class MicroF1(Surrogate):
    """Micro-F1 surrogate, ψ = -h / g with h = Hamming + margin and g = -(\\|y\\| + \\|y_i\\|) < 0.

    Its contours are rays, so that the hull search is Dinkelbach's method (MATH.md 4).

    Examples
    --------
    >>> from structopt.surrogates import MicroF1
    >>> MicroF1().value(2.0, -4.0), MicroF1().gradient(2.0, -4.0)
    (0.5, (0.25, 0.125))
    """

    name = "micro_f1"
    h_lower = 0.0
    g_lower = -math.inf

    def inside(self, h: Any, g: Any) -> Any:
        return g < 0.0

    @property
    def domain(self) -> str:
        return "g < 0"

    def psi(self, h: Any, g: Any) -> Any:
        return -h / g

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return -1.0 / g + 0.0 * h, h / (g * g)

    def clipped(self, h: float, g: float) -> float:
        # |y| + |y_i| = 0: the loss is defined as 0; with a positive numerator the limit is infinite.
        if g >= 0.0:
            return math.inf if h > 1e-9 else 0.0
        return max(0.0, -h / g)

    def segment_maximum(self, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float, float]:
        return _better_end(self, p, q)

    def factors(
        self, score: npt.ArrayLike, loss: Affine, truth: npt.ArrayLike
    ) -> tuple[tuple[FloatArray, float], tuple[FloatArray, float]]:
        r"""h = Hamming + margin, g = -(\|y\| + \|y_i\|).

        `loss` must be the Hamming loss of a 0/1 truth: its coefficients +1 and -1 mark the variables that count.
        """
        coef, const = np.asarray(loss[0], dtype=float), float(loss[1])
        counted = coef != 0.0
        if not np.all(np.abs(coef[counted]) == 1.0):
            raise DeclarationError(
                "MicroF1 needs the Hamming loss (coefficients +1 where the truth is 0 and -1 where it is 1); "
                f"got the coefficient {coef[counted][np.abs(coef[counted]) != 1.0][0]:g}."
            )
        (h_coef, h_const), _ = super().factors(score, loss, truth)
        size = float(np.asarray(truth, dtype=float)[counted].sum())
        return (h_coef + coef, h_const + const), (-counted.astype(float), -size)

    def plane(self, oracle: Any, score: npt.ArrayLike, loss: Affine, truth: npt.ArrayLike, **options: Any) -> Plane:
        h, g = self.factors(score, loss, truth)
        if g[1] == 0.0:
            # With an empty truth the empty label has g = 0, where F1 is not defined (its loss is 0): leave it out.
            options["rows"] = [*options.get("rows", ()), (-g[0], 1.0, math.inf)]
        from structopt.plane import Plane

        return Plane(oracle, h=h, g=g, truth=np.asarray(truth, dtype=float), **options)


class _FunctionSurrogate(Surrogate):
    """A surrogate made of two functions; see `from_functions`."""

    def __init__(
        self,
        label: str,
        psi: Callable[[Any, Any], Any],
        gradient: Callable[[Any, Any], tuple[Any, Any]],
        convex_in_h: bool,
    ) -> None:
        self.label = label
        self._function = psi
        self._gradient = gradient
        self.convex_in_h = convex_in_h

    def psi(self, h: Any, g: Any) -> Any:
        return self._function(h, g)

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return self._gradient(h, g)

    def __repr__(self) -> str:
        return f"<surrogate {self.label!r}>"

    def __hash__(self) -> int:
        return hash((self.label, self._function, self._gradient))


def _better_end(surrogate: Surrogate, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float, float]:
    """Maximum of a ψ that is monotone along every segment."""
    first, last = surrogate.clipped(*p), surrogate.clipped(*q)
    return (0.0, first, first) if first >= last else (1.0, last, last)


_REGISTRY: dict[str, Callable[..., Surrogate]] = {
    cls.name: cls for cls in (Margin, Slack, Product, GeneralizedScaling, BetaScaling, LogLoss, ProbLoss, MicroF1)
}


def names() -> list[str]:
    """Names of every registered surrogate."""
    return sorted(_REGISTRY)


def get(surrogate: str | Surrogate, **parameters: Any) -> Surrogate:
    """A surrogate by name; an instance passes through.

    Examples
    --------
    >>> import structopt.surrogates as surrogates
    >>> surrogates.get("beta", beta=0.25)
    BetaScaling(beta=0.25)
    """
    if isinstance(surrogate, Surrogate):
        return surrogate
    if surrogate not in _REGISTRY:
        raise DeclarationError(
            f"There is no surrogate called {surrogate!r}. Registered: {', '.join(names())}. "
            "Add one with structopt.surrogates.register."
        )
    return _REGISTRY[surrogate](**parameters)


def from_functions(
    name: str,
    psi: Callable[[Any, Any], Any],
    gradient: Callable[[Any, Any], tuple[Any, Any]],
    *,
    convex_in_h: bool = True,
) -> Surrogate:
    """A surrogate on g >= 0 from a function and its gradient, both of arrays (h, g)."""
    return _FunctionSurrogate(name, psi, gradient, convex_in_h)


def register(surrogate: Surrogate | type[Surrogate], name: str | None = None, *, random_state: int = 0) -> None:
    """Let `get`, and with it every estimator, find a surrogate of your own by name.

    The numerical conformance check `structopt.testing.check_surrogate` runs first: a function that is not
    quasi-concave, not monotone on K_0 or whose gradient is wrong is refused, because every search would return
    wrong answers for it without a warning.

    Parameters
    ----------
    surrogate : Surrogate or subclass of it
        A class is called without arguments for the check and with `get`'s parameters later.
    name : str, optional
        Default: the surrogate's own name.
    random_state : int
        Seed of the check's random points.

    Examples
    --------
    >>> import structopt.surrogates as surrogates
    >>> root = surrogates.from_functions(
    ...     "root", lambda h, g: (1 + h) * g**0.5, lambda h, g: (g**0.5, 0.5 * (1 + h) / g**0.5))
    >>> surrogates.register(root)
    >>> surrogates.get("root").value(3.0, 4.0)
    8.0
    """
    from structopt.testing.surrogate import check_surrogate

    instance = surrogate() if isinstance(surrogate, type) else surrogate
    key = name or getattr(instance, "label", "") or instance.name
    if not key:
        raise DeclarationError(f"{instance!r} has no name: pass register(..., name='...').")
    if key in _REGISTRY and not isinstance(_REGISTRY[key], type):
        known = _REGISTRY[key]()
    else:
        known = None
    if key in _REGISTRY and known != instance:
        raise DeclarationError(f"A surrogate called {key!r} is registered already. Choose another name.")
    check_surrogate(instance, random_state=random_state)
    _REGISTRY[key] = surrogate if isinstance(surrogate, type) else lambda: instance
