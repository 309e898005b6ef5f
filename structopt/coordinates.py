"""The two coordinates of a label, h(z) and g(z), as affine functions of z over the box of a label space."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from structopt.compiled import CompiledSpace, FloatArray
from structopt.errors import DeclarationError, SpaceMismatch
from structopt.halfplane import Halfplane
from structopt.kernels.affine import ranges
from structopt.points import Bounds, Point

__all__ = ["Affine", "Coordinates"]

#: Coefficients and constant of an affine function of z.
Affine = tuple[npt.ArrayLike, float]


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
        The coefficients of h and of g in one array, so that a point, a cost vector and the box are one product each.
    h0, g0 : float
        The constants.
    box : (h_lower, h_upper, g_lower, g_upper)
    at_truth : (h, g)
        Of the variables' lower bounds, if there is no truth.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace()
    >>> y = space.binary("y", 3)
    >>> axes = Coordinates(([1.0, -2.0, -0.5], 1.0), ([1.0, 1.0, 1.0], 0.0), space.compiled)
    >>> axes.box, axes.lattice_step()
    ((-1.5, 2.0, 0.0, 3.0), 1.0)
    """

    __slots__ = ("_costs", "_space", "_weights", "at_truth", "both", "box", "g0", "h0")

    def __init__(self, h: Affine, g: Affine, space: CompiledSpace, truth: FloatArray | None = None) -> None:
        n = len(space.lower)
        self._space = space
        self.both = both = np.empty((2, n))
        self.h0 = h0 = _fill(both, 0, h, "h")
        self.g0 = g0 = _fill(both, 1, g, "g")
        self._weights = np.array((1.0, 1.0))
        self._costs = np.empty(n)
        # One pass for the check, the box and the truth: coordinates are made for every example of every pass.
        at = space.lower if truth is None else truth
        total, h_low, h_high, h_at, g_low, g_high, g_at = ranges(both, space.lower, space.upper, at)
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
        """``h + lam g`` (g for inf) as costs and a constant. The costs are overwritten by the next call."""
        if lam == math.inf:
            self._costs[:] = self.both[1]
            return self._costs, self.g0
        self._weights[1] = lam
        return self._weights.dot(self.both, out=self._costs), self.h0 + lam * self.g0

    def towards(self, d_h: float, d_g: float) -> tuple[FloatArray, float]:
        """``d_h h + d_g g`` as costs and a constant, for weights of any sign."""
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
        over = self.g0 % step if step else 0.0
        return Bounds(*self.box, over if 1e-9 < over < step - 1e-9 else step)

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


def _fill(both: FloatArray, number: int, function: Affine, name: str) -> float:
    """Write the coefficients into their row, and return the constant."""
    coef = np.asarray(function[0], dtype=float)
    if coef.ndim != 1 or len(coef) != both.shape[1]:
        raise SpaceMismatch(
            f"The coefficients of {name} have shape {coef.shape}; the space has {both.shape[1]} variables."
        )
    both[number] = coef
    return float(function[1])


def _refuse_infinite(coef: FloatArray, const: float, name: str) -> None:
    if not (np.isfinite(coef).all() and math.isfinite(const)):
        where = "constant" if not math.isfinite(const) else f"coefficient {int(np.argmin(np.isfinite(coef)))}"
        raise DeclarationError(f"The {where} of {name} is not finite; h and g need finite coefficients.")
