"""One-dimensional minimisation of a convex function through the sign of its derivative."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["zero_of_increasing"]


def zero_of_increasing(
    derivative: Callable[[float], float], *, limit: float = math.inf, tolerance: float = 1e-7, trials: int = 60
) -> float:
    """Return the t in ``[0, limit]`` where a non-decreasing function changes sign.

    A bracketed secant (Illinois) iteration; the function may jump, as derivatives of piecewise linear functions do.
    Non-finite values count as positive: the function was left.

    Examples
    --------
    >>> round(zero_of_increasing(lambda t: t - 2.5), 6)
    2.5
    >>> zero_of_increasing(lambda t: t - 2.5, limit=1.0), zero_of_increasing(lambda t: t + 1)
    (1.0, 0.0)
    """
    at_low = derivative(0.0)
    if not at_low < 0.0:
        return 0.0
    low, high = 0.0, min(1.0, limit)
    at_high = derivative(high)
    while at_high < 0.0:
        if high >= min(limit, 1e15):
            return high
        low, at_low, high = high, at_high, min(4.0 * high, limit)
        at_high = derivative(high)
    left, right = at_low, at_high
    for _ in range(trials):
        if high - low <= tolerance * high or at_high == 0.0:
            break
        share = left / (left - right) if math.isfinite(right) else 0.5
        # A secant step, kept off the ends so that a jump of the derivative cannot stall it.
        t = low + (high - low) * min(max(share, 0.05), 0.95)
        at = derivative(t)
        if at < 0.0:
            low, at_low, left = t, at, at
            right *= 0.5
        else:
            high, at_high, right = t, at, at
            left *= 0.5
    return high if at_high <= -at_low else low
