"""Two affine functions over a box, in one pass."""

from __future__ import annotations

from typing import Any

from structopt.kernels._common import FloatArray, any_order

__all__ = ["ranges"]


@any_order
def ranges(coef: FloatArray, lower: FloatArray, upper: FloatArray, z: FloatArray) -> Any:
    """The ranges of two linear functions over a box, and their values at a point.

    Parameters
    ----------
    coef : ndarray, shape (2, n)
    lower, upper : ndarray, shape (n,)
        The box; its sides may be infinite.
    z : ndarray, shape (n,)

    Returns
    -------
    total : float
        The sum of all coefficients: finite if they are (up to overflow).
    low_0, high_0, at_0, low_1, high_1, at_1 : float
    """
    total = 0.0
    low_0, high_0, at_0, low_1, high_1, at_1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(len(z)):
        a, b = coef[0, j], coef[1, j]
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
