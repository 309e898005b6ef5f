"""ψ and its gradient as compiled scalars: what the kernels of a search evaluate (docs/mathematics/searches).

A kernel gets a surrogate as a *form*, a vector of eight numbers: a code that says which formula, its two parameters,
the least g of its domain, and for a function of the user's own the addresses of machine code. So every kernel is
compiled once, whatever the surrogate and its parameters. The addresses are those of functions that numba compiled
(`from_numba`) or of a bridge into the interpreter (`from_python`): a ψ in Python goes through the same kernels as all
others, only slower.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba.core import types
from numba.core.errors import NumbaError
from numba.extending import intrinsic

from structopt._jit import FloatArray, inner, kernel
from structopt.errors import DeclarationError

if TYPE_CHECKING:
    from structopt.surrogates.base import Surrogate

__all__ = [
    "FLAT",
    "GENERALIZED",
    "LOG",
    "MARGIN",
    "OWN",
    "PROB",
    "PROB_CONVEX",
    "PRODUCT",
    "RATIO",
    "ROUNDED",
    "WIDENED",
    "Form",
    "clipped",
    "clipped_all",
    "direction",
    "form",
    "from_numba",
    "from_python",
    "gradient",
    "segment_maximum",
    "segment_search",
]

#: Formulas: h + g; (h + p) g; h g^q + g^p; p g log(1 + e^h); ProbLoss of p h and its convex variant; -h / g; a function
#: of the user's own.
MARGIN, PRODUCT, GENERALIZED, LOG, PROB, PROB_CONVEX, RATIO, OWN = range(8)
_CODE, _P, _Q, _G_LOWER, _VALUE_AT, _H_SLOPE_AT, _G_SLOPE_AT, _DIRECTION_AT = range(8)
_ROOT_HALF_PI, _ROOT_TWO_PI, _ROOT_HALF = math.sqrt(math.pi / 2.0), math.sqrt(2.0 * math.pi), math.sqrt(0.5)
#: A bracket of t this narrow is a point.
FLAT = 1e-13
#: Factor of a bound on ψ along a segment: the kernels' ψ and NumPy's differ by up to 4.4e-14.
WIDENED = 1.0 + 1e-13
#: A coordinate of a point of a segment is rounded by less than this share of its ends' absolute values, added up. They
#: may be much larger than the coordinate.
ROUNDED = 1e-15
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)


class Form:
    """The eight numbers of a surrogate, and whatever must live as long as they do.

    Attributes
    ----------
    numbers : ndarray, shape (8,)
    """

    __slots__ = ("_alive", "_errors", "numbers")

    def __init__(self, numbers: FloatArray, alive: tuple[Any, ...] = (), errors: list[BaseException] | None = None):
        self.numbers = numbers
        self._alive = alive
        self._errors = errors

    def check(self) -> None:
        """Raise what a ψ in Python raised inside a kernel, which could not."""
        if self._errors:
            error = self._errors[0]
            self._errors.clear()
            raise error


def form(code: int, p: float = 0.0, q: float = 0.0, g_lower: float = 0.0) -> Form:
    """The form of a formula that the kernels know."""
    return Form(np.array([code, p, q, g_lower, 0.0, 0.0, 0.0, 0.0]))


def from_numba(psi: Any, gradient: Any, g_lower: float = 0.0, name: str = "psi") -> Form:
    """The form of two functions that numba compiles: ψ(h, g) and its gradient, of two floats.

    Parameters
    ----------
    psi : numba dispatcher
        ``psi(h, g) -> float``.
    gradient : numba dispatcher
        ``gradient(h, g) -> (float, float)``.
    g_lower : float
        ψ counts as 0 below.
    name : str
        For the message where ψ is NaN. At ``g = 0`` it counts as 0, as 0 log 0 does.
    """
    errors: list[BaseException] = []

    def tell(h: float, g: float) -> float:
        """Called by machine code, which can neither raise nor say what is wrong: what psi does there is tried again."""
        try:
            psi(h, g)
            gradient(h, g)
        except BaseException as error:
            errors.append(error)
        else:
            errors.append(DeclarationError(f"{name} is nan at (h, g) = ({h:g}, {g:g})."))
        return 0.0

    told = _PROTOTYPE(tell)
    address, least = ctypes.cast(told, ctypes.c_void_p).value or 0, max(g_lower, 0.0)

    # An error that leaves a function of C is lost, and what it returns is anything.
    def value(h: float, g: float) -> Any:
        found = math.nan
        try:
            found = psi(h, g)
        except Exception:
            found = math.nan
        if found != found and abs(h) < math.inf and least < g < math.inf:
            return _call(address, h, g)
        return found

    def slope(k: int) -> Any:
        def derivative(h: float, g: float) -> Any:
            found, failed = math.nan, False
            try:
                found = gradient(h, g)[k]
            except Exception:
                failed = True
            if failed and abs(h) < math.inf and least < g < math.inf:
                return _call(address, h, g)
            return found

        return derivative

    scalar = types.float64(types.float64, types.float64)
    try:
        made = (numba.cfunc(scalar)(value), numba.cfunc(scalar)(slope(0)), numba.cfunc(scalar)(slope(1)))
    except NumbaError as error:
        raise DeclarationError(
            f"{name} cannot be called with two floats: psi(h, g) must return a float, gradient(h, g) two of them. "
            f"numba says: {' '.join(str(error).split())[:200]}"
        ) from error
    addresses = [float(f.address) for f in made]
    return Form(np.array([OWN, 0.0, 0.0, g_lower, *addresses, 0.0]), (*made, told), errors)


def from_python(surrogate: Surrogate) -> Form:
    """The form of a surrogate written in Python: its methods, called from inside the kernels."""
    errors: list[BaseException] = []

    def guarded(function: Callable[[float, float], Any]) -> Any:
        def call(h: float, g: float) -> float:
            try:
                return float(function(h, g))
            except BaseException as error:
                errors.append(error)
                return math.nan

        return _PROTOTYPE(call)

    made = (
        guarded(surrogate.clipped),
        guarded(lambda h, g: surrogate.slopes(h, g)[0]),
        guarded(lambda h, g: surrogate.slopes(h, g)[1]),
        guarded(surrogate.direction),
    )
    addresses = [float(ctypes.cast(f, ctypes.c_void_p).value or 0) for f in made]
    return Form(np.array([OWN, 0.0, 0.0, -math.inf, *addresses]), made, errors)


if numba.config.DISABLE_JIT:

    def _call(address: int, h: float, g: float) -> float:
        return float(_PROTOTYPE(int(address))(h, g))

else:

    @intrinsic  # type: ignore[untyped-decorator, unused-ignore]
    def _call(typingctx: Any, address: Any, h: Any, g: Any) -> Any:
        """Call a function of two floats at an address."""

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            number = context.get_value_type(types.float64)
            kind = type(builder.function.function_type)(number, [number, number])
            return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

        return types.float64(types.int64, types.float64, types.float64), emit


@inner
def _softplus(h: float) -> float:
    """log(1 + e^h) without overflow."""
    return max(h, 0.0) + math.log1p(math.exp(-abs(h)))


@inner
def _power(g: float, exponent: float) -> float:
    """``g ** exponent``, of which the usual exponents need no logarithm."""
    if exponent == 1.0:
        return g
    if exponent == 0.5:
        return math.sqrt(g)
    if exponent == 0.0:
        return 1.0
    power: float = g**exponent
    return power


@kernel
def clipped(f: FloatArray, h: float, g: float) -> float:
    """max(0, ψ), and 0 outside the domain: `Surrogate.clipped`."""
    code = int(f[_CODE])
    value = 0.0
    if code == RATIO:
        if g >= 0.0:
            return math.inf if h > 1e-9 else 0.0
        value = -h / g
    elif g >= f[_G_LOWER]:
        if code == PRODUCT:
            value = (h + f[_P]) * g if g > 0.0 else 0.0
        elif code == MARGIN:
            value = h + g
        elif code == GENERALIZED:
            value = h * _power(g, f[_Q]) + _power(g, f[_P])
        elif code == LOG:
            value = f[_P] * g * _softplus(h)
        elif code == OWN:
            value = _call(int(f[_VALUE_AT]), h, g)
        elif g > 0.0:
            root = math.sqrt(g)
            if code == PROB_CONVEX and h > 0.0:
                value = g + root * f[_P] * h
            else:
                value = g * math.erfc(-f[_P] * h * _ROOT_HALF_PI * _ROOT_HALF / root)
    return value if value > 0.0 else 0.0


@kernel
def gradient(f: FloatArray, h: float, g: float) -> Any:
    """The partial derivatives of ψ in h and in g, in its domain: `Surrogate.psi_gradient`."""
    code = int(f[_CODE])
    if code == PRODUCT:
        return g, h + f[_P]
    if code == MARGIN:
        return 1.0, 1.0
    if code == RATIO:
        return -1.0 / g, h / (g * g)
    if code == LOG:
        tail = math.exp(-abs(h))
        return f[_P] * g * ((1.0 if h >= 0.0 else tail) / (1.0 + tail)), f[_P] * _softplus(h)
    if code == OWN:
        return _call(int(f[_H_SLOPE_AT]), h, g), _call(int(f[_G_SLOPE_AT]), h, g)
    if code == GENERALIZED:
        a, b = f[_P], f[_Q]
        g = max(g, 1e-300)  # g^(b - 1) at 0 is infinite
        power = _power(g, b)
        return power, (b * h * power + a * _power(g, a)) / g
    root = max(math.sqrt(max(g, 0.0)), 1e-150)
    h *= f[_P]
    if code == PROB_CONVEX and h > 0.0:
        return f[_P] * root, 1.0 + 0.5 * h / root
    z = min(max(h * _ROOT_HALF_PI / root, -1e8), 1e8)  # the square of 1e8 is finite
    density = math.exp(-0.5 * z * z) / _ROOT_TWO_PI
    return f[_P] * root * _ROOT_TWO_PI * density, math.erfc(-z * _ROOT_HALF) - z * density


@kernel
def direction(f: FloatArray, h: float, g: float) -> float:
    """The λ of the contour's tangent, ψ_g / ψ_h in [0, inf]: `Surrogate.direction`."""
    code = int(f[_CODE])
    if code == OWN and f[_DIRECTION_AT] != 0.0:
        return _call(int(f[_DIRECTION_AT]), h, g)
    slope_h, slope_g = gradient(f, h, g)
    if not slope_h > 0.0:
        # Far to the left both derivatives of ProbLoss underflow; their quotient does not.
        if code in (PROB, PROB_CONVEX) and h <= 0.0 and g > 0.0:
            return -0.5 * h / g
        return math.inf
    quotient: float = max(0.0, slope_g) / slope_h
    return quotient


@inner
def _corner(f: FloatArray, h0: float, g0: float, dh: float, dg: float, low: float, high: float) -> float:
    """ψ at the upper right corner of a piece of a segment: by monotonicity no point of the piece exceeds it."""
    return clipped(f, max(h0 + low * dh, h0 + high * dh), max(g0 + low * dg, g0 + high * dg))


@kernel
def _positive_place(f: FloatArray, h0: float, g0: float, dh: float, dg: float) -> float:
    """A t with ψ > 0 where both ends have none; -1 if ψ is positive nowhere, up to pieces of 2^-32."""
    left, width = np.empty(16), 1.0
    left[0] = 0.0
    n = 1
    next_left, corner = np.empty(256), np.empty(256)
    for _ in range(8):
        width /= 16.0
        m = 0
        for k in range(n):
            for j in range(16):
                t = left[k] + j * width
                right: float = t + width
                if clipped(f, h0 + right * dh, g0 + right * dg) > 0.0:
                    return right
                bound = _corner(f, h0, g0, dh, dg, t, t + width)
                if bound > 0.0:
                    next_left[m], corner[m] = t, bound
                    m += 1
        if m == 0:
            return -1.0
        n = min(m, 16)
        for k in range(n):
            best = k
            if m > 16:  # the highest corners, by selection: numba compiles a sort for more than a second
                for j in range(m):
                    if corner[j] > corner[best]:
                        best = j
                corner[best] = -1.0
            left[k] = next_left[best]
    return -1.0


@kernel
def segment_maximum(f: FloatArray, h0: float, g0: float, h1: float, g1: float) -> Any:
    """Return the maximum of `clipped` on the segment ``(1 - t) p + t q``, as `Surrogate.segment_maximum` does.

    Returns
    -------
    t, value, upper : float
        The best place found, its value, and a bound on ψ along the segment.

    """
    t, value, upper = segment_search(f, h0, g0, clipped(f, h0, g0), h1, g1, clipped(f, h1, g1), 1e-14)
    return t, value, widened(f, t, upper, h0, g0, h1, g1)


@inner
def widened(f: FloatArray, t: float, upper: float, h0: float, g0: float, h1: float, g1: float) -> float:
    """Return a bound that also holds if the best point of a segment, the one at `t`, is rounded."""
    h = h0 + t * (h1 - h0) + ROUNDED * (abs(h0) + abs(h1))
    g = g0 + t * (g1 - g0) + ROUNDED * (abs(g0) + abs(g1))
    if int(f[_CODE]) == RATIO and g >= 0.0:  # a quotient is infinite there
        return upper * WIDENED
    return max(upper, clipped(f, h, g)) * WIDENED


@kernel
def segment_search(
    f: FloatArray, h0: float, g0: float, first: float, h1: float, g1: float, last: float, rtol: float
) -> Any:
    """`segment_maximum` from the values at the two ends, to a relative accuracy of the upper bound.

    Notes
    -----
    Where ψ is positive it is unimodal along the segment, and the sign of its derivative says on which side of a place
    the maximum lies. That zero is enclosed by the Illinois method, with halving where that is slow.
    """
    code = int(f[_CODE])
    dh, dg = h1 - h0, g1 - g0
    if code == PRODUCT:
        # A parabola in t.
        bend = dh * dg
        if bend < 0.0:
            t = -((h0 + f[_P]) * dg + g0 * dh) / (2.0 * bend)
            if 0.0 < t < 1.0:
                best_h, best_g = h0 + f[_P] + t * dh, g0 + t * dg
                if best_h > 0.0 and best_g > 0.0:
                    return t, best_h * best_g, best_h * best_g
    if code in (PRODUCT, MARGIN, RATIO) or (dh >= 0.0 and dg >= 0.0) or (dh <= 0.0 and dg <= 0.0):
        return (0.0, first, first) if first >= last else (1.0, last, last)
    best_t, best = (0.0, first) if first >= last else (1.0, last)
    if best <= 0.0:
        best_t = _positive_place(f, h0, g0, dh, dg)
        if best_t < 0.0:
            return 0.0, 0.0, 0.0
        best = clipped(f, h0 + best_t * dh, g0 + best_t * dg)
    low, high = 0.0, 1.0
    slope_low, slope_high = math.nan, math.nan
    if first > 0.0:
        slope_h, slope_g = gradient(f, h0, g0)
        slope_low = slope_h * dh + slope_g * dg
        if slope_low < 0.0:
            return 0.0, first, first
    if last > 0.0:
        slope_h, slope_g = gradient(f, h1, g1)
        slope_high = slope_h * dh + slope_g * dg
        if slope_high > 0.0:
            return 1.0, last, last
    side, slow = 0, 0
    for _ in range(200):
        width = high - low
        if width <= FLAT or _corner(f, h0, g0, dh, dg, low, high) <= best * (1.0 + rtol):
            break
        t = 0.5 * (low + high)
        if slow < 3 and slope_low > slope_high and math.isfinite(slope_low - slope_high):
            t = low + width * (slope_low / (slope_low - slope_high))
            # Not closer to an end than rounding allows: the bracket must shrink from both sides.
            t = min(max(t, low + 0.25 * FLAT), high - 0.25 * FLAT)
        h, g = h0 + t * dh, g0 + t * dg
        value = clipped(f, h, g)
        slope = 0.0
        if value > 0.0:
            if value > best:
                best_t, best = t, value
            slope_h, slope_g = gradient(f, h, g)
            slope = slope_h * dh + slope_g * dg
        if value <= 0.0 or slope == 0.0 or slope != slope:
            # No slope to go by: towards the best place known.
            if t == best_t:
                low, high = max(low, t - 0.5 * FLAT), min(high, t + 0.5 * FLAT)
            elif t < best_t:
                low, slope_low = t, math.nan
            else:
                high, slope_high = t, math.nan
        elif slope > 0.0:
            low, slope_low = t, slope
            if side == 1:
                slope_high *= 0.5
            side = 1
        else:
            high, slope_high = t, slope
            if side == -1:
                slope_low *= 0.5
            side = -1
        slow = 0 if slow >= 3 else slow + 1 if high - low > 0.5 * width else 0
    return best_t, best, max(best, _corner(f, h0, g0, dh, dg, low, high))


@kernel
def clipped_all(f: FloatArray, h: FloatArray, g: FloatArray, out: FloatArray) -> None:
    """`clipped` of flat arrays."""
    for k in range(out.size):
        out[k] = clipped(f, h[k], g[k])
