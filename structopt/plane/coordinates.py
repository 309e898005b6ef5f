"""The two coordinates of a label, h(z) and g(z), as affine functions of z over the box of a label space.

Their ranges, their blends and a label's place in their plane are one compiled pass each, because right after a solver's
run every further function is paid for by cache misses.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt._jit import any_order, kernel
from structopt.checks import converted, number, shown
from structopt.errors import DeclarationError, SpaceMismatch
from structopt.plane.halfplane import Halfplane
from structopt.plane.points import Bounds, Point
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["Affine", "Coordinates", "blend", "locate", "mixture", "ranges"]

#: Coefficients and constant of an affine function of z.
Affine = tuple[npt.ArrayLike, float]
_FLOAT64 = np.dtype(np.float64)


class Coordinates:
    """``h(z) = coef . z + const`` and the same for g, with what follows from them without a query.

    Parameters
    ----------
    h, g : (coef, const)
    space : CompiledSpace
        Its variables' bounds make the box of h and g.
    truth : ndarray, optional
        A label at which h and g are wanted often.

    Attributes
    ----------
    both : ndarray, shape (2, n_variables)
        The coefficients of h and of g in one array, so that a point, an objective and the box are one product each.
    h0, g0 : float
        The constants.
    box : (h_lower, h_upper, g_lower, g_upper)
    at_truth : (h, g)
        Of the variables' lower bounds, if there is no ground truth.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y = space.binary("y", 3)
    >>> axes = Coordinates(([1.0, -2.0, -0.5], 1.0), ([1.0, 1.0, 1.0], 0.0), space.compiled)
    >>> axes.box, axes.lattice_step()
    ((-1.5, 2.0, 0.0, 3.0), 1.0)
    """

    __slots__ = ("_costs", "_space", "at_truth", "both", "box", "g0", "h0")

    def __init__(self, h: Affine, g: Affine, space: CompiledSpace, truth: FloatArray | None = None) -> None:
        n = len(space.lower)
        self._space = space
        self.both = both = np.empty((2, n))
        self._costs = np.empty(n)
        if type(h) is not tuple or type(g) is not tuple or len(h) != 2 or len(g) != 2:
            h, g = _affine(h, "h"), _affine(g, "g")
        h0, g0 = h[1], g[1]
        if type(h0) is not float or type(g0) is not float:
            h0, g0 = number("The constant of h", h0), number("The constant of g", g0)
        self.h0, self.g0 = h0, g0
        # One pass for the check, the box and the ground truth: coordinates are made for every example of every pass.
        at = space.lower if truth is None else truth
        total, h_low, h_high, h_at, g_low, g_high, g_at = ranges(
            _coefficients(h, n, "h"), _coefficients(g, n, "g"), space.lower, space.upper, at, both
        )
        if not math.isfinite(total + h0 + g0):
            _refuse_infinite(both[0], h0, "h")  # overflow of the sum alone is forgiven
            _refuse_infinite(both[1], g0, "g")
        self.box = (h0 + h_low, h0 + h_high, g0 + g_low, g0 + g_high)
        self.at_truth = (h0 + h_at, g0 + g_at)

    @property
    def h(self) -> FloatArray:
        """Coefficients of h."""
        coef: FloatArray = self.both[0]
        return coef

    @property
    def g(self) -> FloatArray:
        """Coefficients of g."""
        coef: FloatArray = self.both[1]
        return coef

    def costs(self, lam: float) -> tuple[FloatArray, float]:
        """``h + lam g`` (g for inf) as coefficients and a constant. The array is overwritten by the next call."""
        blend(self.both, lam, self._costs)
        return self._costs, self.g0 if lam == math.inf else self.h0 + lam * self.g0

    def blend(self, lam: float) -> tuple[FloatArray, float]:
        """``h + lam g`` (g for inf) as coefficients and their squared norm. Overwritten by the next call."""
        return self._costs, blend(self.both, lam, self._costs)

    def locate(self, lam: float, z: FloatArray, bound: float) -> Point:
        """What a solver found for `blend`, as a label in the plane."""
        h, g, bound = locate(self.both, lam, z, bound)
        h0, g0 = self.h0, self.g0
        return Point(h + h0, g + g0, z, bound + (g0 if lam == math.inf else h0 + lam * g0))

    def towards(self, d_h: float, d_g: float) -> tuple[FloatArray, float]:
        """``d_h h + d_g g`` as coefficients and a constant, for weights of any sign."""
        return np.array((d_h, d_g)).dot(self.both), d_h * self.h0 + d_g * self.g0

    def point(self, z: FloatArray, bound: float) -> Point:
        """A label in the plane."""
        h, g = self.both.dot(z).tolist()
        return Point(h + self.h0, g + self.g0, z, bound)

    def row(self, side: Halfplane) -> tuple[FloatArray, float, float]:
        """A halfplane as a row of the label space; that of an axis is scaled by its largest coefficient."""
        coef, const = self.towards(side.a, side.b)
        least = side.least - const
        if side.a == 0.0 or side.b == 0.0:
            scale = float(np.abs(coef).max(initial=0.0)) or 1.0
            return coef / scale, least / scale, math.inf
        return coef, least, math.inf

    def bounds(self, step: float) -> Bounds:
        """The box, with the smallest positive g of a lattice of this step (0 if g is on none)."""
        return Bounds(*self.box, self.level_above(0.0, step) + 0.5 * step if step else 0.0)

    def level_above(self, g: float, step: float) -> float:
        """Return the middle between the smallest lattice value above `g` and the one before it.

        A lattice value within rounding of `g` is equal to `g`.
        """
        if not math.isfinite(g):
            return g
        return self.g0 + (math.floor((g - self.g0) / step + 1e-9) + 0.5) * step

    def lattice_step(self) -> float:
        """The step of g where labels only have values const + step * integer (Hamming: 1); 0 otherwise."""
        used = self.g != 0.0
        if not used.any() or not np.all(self._space.integrality[used]):
            return 0.0
        coef = np.abs(self.g[used])
        step = float(coef.min())
        quotients = coef / step
        return step if np.all(np.abs(quotients - np.rint(quotients)) <= 1e-9) else 0.0

    def scales(self) -> tuple[float, float]:
        """The largest coefficients of h and of g; 1 for a function without any."""
        h_scale, g_scale = np.abs(self.both).max(axis=1, initial=0.0).tolist()
        return h_scale or 1.0, g_scale or 1.0


def _affine(function: Any, name: str) -> Affine:
    if not isinstance(function, tuple | list) or len(function) != 2:
        raise DeclarationError(f"{name} must be a pair (coefficients, constant), got {shown(function)}.")
    return function[0], function[1]


def _coefficients(function: Affine, n: int, name: str) -> FloatArray:
    coef = function[0]
    if type(coef) is not np.ndarray or coef.dtype is not _FLOAT64 or not coef.flags.carray:
        # For numba a read-only array is another type: a copy is never one.
        coef = np.array(converted(f"The coefficients of {name}", coef))
    if coef.shape != (n,):
        raise SpaceMismatch(f"The coefficients of {name} have shape {coef.shape}; the space has {n} variables.")
    return coef


def _refuse_infinite(coef: FloatArray, const: float, name: str) -> None:
    if not (np.isfinite(coef).all() and math.isfinite(const)):
        where = "constant" if not math.isfinite(const) else f"coefficient {int(np.argmin(np.isfinite(coef)))}"
        raise DeclarationError(f"The {where} of {name} is not finite; h and g need finite coefficients.")


@any_order
def ranges(h: FloatArray, g: FloatArray, lower: FloatArray, upper: FloatArray, z: FloatArray, both: FloatArray) -> Any:
    """The ranges of two linear functions over a box, and their values at a point.

    Parameters
    ----------
    h, g : ndarray, shape (n,)
        Coefficients; copied into the two rows of `both`.
    lower, upper : ndarray, shape (n,)
        The box; its sides may be infinite.
    z : ndarray, shape (n,)
    both : ndarray, shape (2, n)

    Returns
    -------
    total : float
        The sum of all coefficients: finite if they are (up to overflow).
    low_0, high_0, at_0, low_1, high_1, at_1 : float
    """
    total = 0.0
    low_0, high_0, at_0, low_1, high_1, at_1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(len(z)):
        a, b = h[j], g[j]
        both[0, j], both[1, j] = a, b
        total += a + b
        # 0 * inf is NaN: a variable without a coefficient does not count.
        if a > 0.0:
            low_0, high_0, at_0 = low_0 + a * lower[j], high_0 + a * upper[j], at_0 + a * z[j]
        elif a < 0.0:
            low_0, high_0, at_0 = low_0 + a * upper[j], high_0 + a * lower[j], at_0 + a * z[j]
        if b > 0.0:
            low_1, high_1, at_1 = low_1 + b * lower[j], high_1 + b * upper[j], at_1 + b * z[j]
        elif b < 0.0:
            low_1, high_1, at_1 = low_1 + b * upper[j], high_1 + b * lower[j], at_1 + b * z[j]
    return total, low_0, high_0, at_0, low_1, high_1, at_1


@any_order
def blend(both: FloatArray, lam: float, costs: FloatArray) -> float:
    """Write ``h + lam g`` (g for inf) into `costs`; returns the square of its norm."""
    square = 0.0
    if lam == math.inf:
        for j in range(len(costs)):
            c = both[1, j]
            costs[j] = c
            square += c * c
    else:
        for j in range(len(costs)):
            c = both[0, j] + lam * both[1, j]
            costs[j] = c
            square += c * c
    return square


@any_order
def locate(both: FloatArray, lam: float, z: FloatArray, bound: float) -> Any:
    """The place of the label that a query for `lam` found.

    Returns
    -------
    h, g : float
        Without the constants.
    bound : float
        The solver's bound on ``h + lam g``, or where the two agree up to rounding, the label's own value.
    """
    h, g = 0.0, 0.0
    for j in range(len(z)):
        h += both[0, j] * z[j]
        g += both[1, j] * z[j]
    value = g if lam == math.inf else h + lam * g
    if not bound - value > 1e-9 * abs(value):
        return h, g, value
    size = 0.0
    for j in range(len(z)):
        size += abs(both[1, j] * z[j]) if lam == math.inf else abs((both[0, j] + lam * both[1, j]) * z[j])
    return h, g, bound if bound - value > 1e-13 * size else value


@kernel
def mixture(p: FloatArray, q: FloatArray, t: float) -> FloatArray:
    """``(1 - t) p + t q``."""
    mixed = np.empty(len(p))
    for j in range(len(p)):
        mixed[j] = (1.0 - t) * p[j] + t * q[j]
    return mixed
