"""`Surrogate`: a function ψ(h, g) that a search can maximise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from structopt.checks import checked, converted, shown
from structopt.errors import DeclarationError
from structopt.plane import Plane
from structopt.plane.coordinates import Affine
from structopt.space.compiled import FloatArray
from structopt.surrogates.compiled import ROUNDED, WIDENED, Form, from_python

__all__ = ["Affine", "Surrogate", "better_end"]

_SECTION = np.linspace(0.0, 1.0, 65)
#: What a compiled form stands for.
_FORMULA = ("psi", "psi_gradient", "inside", "clipped", "direction", "segment_maximum")


class Surrogate(ABC):
    r"""A function :math:`\psi(h, g)`, quasi-concave and monotone where it is positive.

    A subclass writes `psi` and `psi_gradient` for points inside the domain; both get floats or arrays. The searches
    call them from compiled code; a subclass whose formula the kernels know overrides `compiled_form`, too.

    Attributes
    ----------
    name : str
        The name under which `get` finds it.
    h_lower, g_lower : float
        :math:`\psi > 0` only for ``h >= h_lower`` and ``g >= g_lower``; ``g < g_lower`` is outside the domain.
    h_offset : float
        What `factors` adds to the margin to make h.
    product_shift : float
        What the searches for the largest product add to the h of `plane`; see `Plane`.
    counts : bool
        Whether `plane` takes ``counted=``, the variables that the task loss counts.
    convex_in_h : bool
        Whether the trained objective is convex in the weights (docs/mathematics/surrogates#training-with-a-surrogate).
    """

    name: ClassVar[str] = ""
    h_lower: ClassVar[float] = -math.inf
    g_lower: ClassVar[float] = 0.0
    h_offset: ClassVar[float] = 0.0
    product_shift: ClassVar[float] = 0.0
    counts: ClassVar[bool] = False
    convex_in_h: bool = True

    @abstractmethod
    def psi(self, h: Any, g: Any) -> Any:
        """The value at points of the domain.

        Parameters
        ----------
        h : float or ndarray
            Margin errors.
        g : float or ndarray
            Task losses.

        Returns
        -------
        float or ndarray
        """

    @abstractmethod
    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        """The partial derivatives in h and in g at points of the domain.

        Parameters
        ----------
        h : float or ndarray
            Margin errors.
        g : float or ndarray
            Task losses.

        Returns
        -------
        tuple
            The derivatives by h and by g.
        """

    def compiled_form(self) -> Form | None:
        """ψ as machine code (`structopt.surrogates.compiled`), or None where it is written in Python.

        Returns
        -------
        Form or None
        """
        return None

    @cached_property
    def form(self) -> Form:
        """What the kernels of the searches evaluate.

        A compiled form counts only if no subclass has overridden the functions that it stands for.
        """
        stands = _owner(type(self), "compiled_form")
        if all(issubclass(stands, _owner(type(self), name)) for name in _FORMULA):
            made = self.compiled_form()
            if made is not None:
                return made
        return from_python(self)

    def inside(self, h: Any, g: Any) -> Any:
        """Whether the points are in the domain.

        Parameters
        ----------
        h : float or ndarray
            Margin errors.
        g : float or ndarray
            Task losses.

        Returns
        -------
        bool or ndarray of bool
        """
        return g >= self.g_lower

    def value(self, h: npt.ArrayLike, g: npt.ArrayLike) -> Any:
        r""":math:`\psi(h, g)` of a point or of arrays of points; a point outside the domain is an error.

        Parameters
        ----------
        h : float or ndarray
            Margin errors.
        g : float or ndarray
            Task losses.

        Returns
        -------
        float or ndarray
        """
        return self._checked(self.psi, h, g)

    def gradient(self, h: npt.ArrayLike, g: npt.ArrayLike) -> tuple[Any, Any]:
        r""":math:`(\psi_h, \psi_g)` of a point or of arrays of points.

        Parameters
        ----------
        h : float or ndarray
            Margin errors.
        g : float or ndarray
            Task losses.

        Returns
        -------
        tuple
            The derivatives by h and by g.
        """
        psi_h, psi_g = self._checked(self.psi_gradient, h, g)
        return psi_h, psi_g

    def _checked(self, function: Callable[[Any, Any], Any], h: npt.ArrayLike, g: npt.ArrayLike) -> Any:
        h_values, g_values = converted("h", h), converted("g", g)
        try:
            h_values, g_values = np.broadcast_arrays(h_values, g_values)
        except ValueError:
            raise DeclarationError(f"h has shape {h_values.shape} and g {g_values.shape}: they do not match.") from None
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
        """The domain as text."""
        return f"g >= {self.g_lower:g}"

    def clipped(self, h: float, g: float) -> float:
        r""":math:`\max(0, \psi)`, and 0 outside the domain: the function that a search maximises.

        Superlevel sets above 0 are the same as those of ψ, so they stay convex and closed upwards.

        Parameters
        ----------
        h : float
            Margin error.
        g : float
            Task loss.

        Returns
        -------
        float
        """
        if not self.inside(h, g):
            return 0.0
        value = self._number(self.psi(h, g), h, g)
        if math.isnan(value):
            self._refuse_nan(h, g)
        return max(0.0, value)

    def _number(self, value: Any, h: float, g: float) -> float:
        """What a user's own function returned for floats."""
        try:
            return float(value)
        except (TypeError, ValueError):
            raise DeclarationError(
                f"psi of {self!r} at (h, g) = ({h:g}, {g:g}) is {shown(value)}; it must be a number."
            ) from None

    def slopes(self, h: float, g: float) -> tuple[float, float]:
        """`psi_gradient` at one point, as two floats.

        Parameters
        ----------
        h : float
            Margin error.
        g : float
            Task loss.

        Returns
        -------
        tuple of float
        """
        found = self.psi_gradient(h, g)
        try:
            psi_h, psi_g = found
            return float(psi_h), float(psi_g)
        except (TypeError, ValueError):
            raise DeclarationError(
                f"The gradient of {self!r} at (h, g) = ({h:g}, {g:g}) is {shown(found)}; it must be two numbers."
            ) from None

    def _refuse_nan(self, h: Any, g: Any) -> None:
        """NaN is no number that a bound could hold for; at g = 0 it counts as 0, as 0 log 0 does."""
        h, g = np.broadcast_arrays(h, g)
        wrong = np.isfinite(h) & np.isfinite(g) & (g > max(self.g_lower, 0.0))
        if wrong.any():
            at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            raise DeclarationError(f"{self!r} is nan at (h, g) = ({h[at]:g}, {g[at]:g}).")

    def refuse_infinite(self, value: Any, h: Any, g: Any) -> None:
        """Refuse labels of infinite value: no other is compared with them, and no risk is made of them.

        Bounds may be infinite, and micro-F1 is where nothing is on.

        Parameters
        ----------
        value, h, g : float or ndarray
            ψ of labels, and the labels in the plane.
        """
        wrong = np.isposinf(value)
        if wrong.any() and not self.counts:
            at = int(np.argmax(wrong))
            h, g = np.ravel(h)[at], np.ravel(g)[at]
            raise DeclarationError(f"{self!r} is inf at (h, g) = ({h:g}, {g:g}), where a label is.")

    def direction(self, h: float, g: float) -> float:
        r"""The λ of the contour's tangent at a point with ψ > 0: :math:`\psi_g / \psi_h`, in [0, inf].

        Parameters
        ----------
        h : float
            Margin error.
        g : float
            Task loss.

        Returns
        -------
        float
        """
        psi_h, psi_g = (max(0.0, slope) for slope in self.slopes(h, g))
        return psi_g / psi_h if psi_h > 0.0 else math.inf

    def segment_maximum(self, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float, float]:
        """Maximum of `clipped` on the segment ``(1 - t) p + t q``.

        Parameters
        ----------
        p : (h, g)
            One end.
        q : (h, g)
            The other end.

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
        for _ in range(10):
            t = low + (high - low) * _SECTION
            values = self.clipped_array(p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1]))
            best = int(np.argmax(values))
            low, high = float(t[max(best - 1, 0)]), float(t[min(best + 1, 64)])
            if high - low <= 1e-13:
                break
        t_best = float(t[best])
        upper = max(float(values[best]), self._corner(p, q, low, high))
        return t_best, float(values[best]), self._widened(p, q, t_best, upper)

    def _bracket(self, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float]:
        """An interval of t that holds the maximum, found even where ψ is positive on a short piece only."""
        low = np.zeros(1)
        width = 1.0
        for _ in range(8):
            width /= 16.0
            left = (low[:, None] + width * np.arange(16)).ravel()
            right = left + width
            values = self.clipped_array(p[0] + right * (q[0] - p[0]), p[1] + right * (q[1] - p[1]))
            if values.max() > 0.0:
                centre = float(right[int(np.argmax(values))])
                return max(0.0, centre - width), min(1.0, centre + width)
            first = self.clipped(*p)
            if first > 0.0:
                return 0.0, width
            corners = self.clipped_array(
                p[0] + np.where(q[0] > p[0], right, left) * (q[0] - p[0]),
                p[1] + np.where(q[1] > p[1], right, left) * (q[1] - p[1]),
            )
            keep = np.argsort(-corners, kind="stable")[:16]
            low = left[keep[corners[keep] > 0.0]]
            if not low.size:
                return 0.0, 0.0
        return float(low.min()), float(low.max()) + width

    def clipped_array(self, h: FloatArray, g: FloatArray) -> FloatArray:
        """``max(psi, 0)`` of many points, 0 outside the domain.

        Parameters
        ----------
        h : ndarray
            Margin errors.
        g : ndarray
            Task losses.

        Returns
        -------
        ndarray
        """
        inside = self.inside(h, g)
        if not np.all(inside):
            values = np.zeros(h.shape)
            values[inside] = self.psi(h[inside], g[inside])
        else:
            values = np.asarray(self.psi(h, g), dtype=float)
        unknown = np.isnan(values)
        if unknown.any():
            self._refuse_nan(h[unknown], g[unknown])
            values = np.where(unknown, 0.0, values)
        return np.maximum(values, 0.0)

    def _widened(self, p: tuple[float, float], q: tuple[float, float], t: float, upper: float) -> float:
        """Return a bound that also holds if the best point of a segment, the one at `t`, is rounded."""
        h, g = (a + t * (b - a) + ROUNDED * (abs(a) + abs(b)) for a, b in zip(p, q, strict=True))
        return max(upper, self.clipped(h, g)) * WIDENED

    def _corner(self, p: tuple[float, float], q: tuple[float, float], low: float, high: float) -> float:
        h = max(p[0] + low * (q[0] - p[0]), p[0] + high * (q[0] - p[0]))
        g = max(p[1] + low * (q[1] - p[1]), p[1] + high * (q[1] - p[1]))
        return self.clipped(h, g)

    def factors(
        self, score: npt.ArrayLike, loss: Affine, truth: npt.ArrayLike
    ) -> tuple[tuple[FloatArray, float], tuple[FloatArray, float]]:
        """h and g as affine functions of z: the margin ``score . (z - truth)`` plus `h_offset`, and the task loss.

        Parameters
        ----------
        score : ndarray
            Scores of the variables.
        loss : (coef, const)
            The task loss.
        truth : ndarray
            The ground truth.

        Returns
        -------
        h, g
            (coef, const) each
        """
        c, z = np.asarray(score, dtype=float), np.asarray(truth, dtype=float)
        return (c, self.h_offset - float(c.dot(z))), (np.asarray(loss[0], dtype=float), float(loss[1]))

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

        Returns
        -------
        Plane
        """
        h, g = self.factors(score, loss, truth)
        options.setdefault("product_shift", self.product_shift)
        return Plane(oracle, h, g, truth=truth, **options)

    def _parameters(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in self._parameters().items())
        return f"{type(self).__name__}({shown})"

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "form"}  # addresses of this process

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Surrogate) and type(self) is type(other) and self.__getstate__() == other.__getstate__()
        )

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted(self._parameters().items()))))


def _owner(kind: type, name: str) -> type:
    """The class that defines an attribute."""
    return next(base for base in kind.__mro__ if name in vars(base))


@checked
def better_end(surrogate: Surrogate, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float, float]:
    """Return the maximum on a segment of a ψ that is monotone along every segment."""
    first, last = surrogate.clipped(*p), surrogate.clipped(*q)
    t, best = (0.0, first) if first >= last else (1.0, last)
    return t, best, surrogate._widened(p, q, t, best)
