"""Two affine functions h and g over a box: their ranges, their blends, and a label's place in their plane.

Each is one compiled pass, because right after a solver's run every further function is paid for by cache misses.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from structopt._jit import FloatArray, any_order, kernel

__all__ = ["blend", "locate", "mixture", "ranges"]


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
