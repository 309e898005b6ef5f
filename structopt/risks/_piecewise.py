"""Exact minimum along a line of piecewise-linear losses plus a parabola (TRAINERS.md 4.3).

All minimise ``slope t + curvature/2 t^2 + loss(f + t df)`` over ``t >= 0``.
"""

from __future__ import annotations

import numpy as np

from structopt.kernels._common import kernel
from structopt.risks._features import FloatArray, IntArray

__all__ = ["scalar_line_minimum", "table_line_minimum"]


@kernel
def scalar_line_minimum(
    f: FloatArray,
    df: FloatArray,
    corners: FloatArray,
    jumps: FloatArray,
    left: FloatArray,
    scale: float,
    slope: float,
    curvature: float,
) -> float:
    """Line minimum for a sum of functions of one variable, in O(n) expected time by selection.

    Function i has slope ``left[i]`` at minus infinity and its slope jumps by ``jumps[k]`` at ``corners[k, i]``.
    Along the line each corner ahead is a break point that raises the slope of the sum.
    """
    steps = np.empty(f.size * jumps.size)
    raises = np.empty(f.size * jumps.size)
    size = 0
    for i in range(f.size):
        d = df[i]
        rate = left[i]
        for k in range(jumps.size):
            ahead = corners[k, i] - f[i]
            if ahead < 0.0 or (ahead == 0.0 and d > 0.0):
                rate += jumps[k]
            if ahead * d > 0.0:
                steps[size] = ahead / d
                raises[size] = jumps[k] * abs(d) * scale
                size += 1
        slope += scale * rate * d
    if slope >= 0.0:
        return 0.0
    return _sign_change(steps, raises, size, slope, curvature)


@kernel
def _sign_change(steps: FloatArray, raises: FloatArray, size: int, slope: float, curvature: float) -> float:
    """Where ``slope + curvature t + sum of raises with step <= t`` reaches zero; quickselect, in place."""
    low, high = 0, size
    floor, ceiling = 0.0, np.inf
    seed = 12345
    while low < high:
        seed = (1103515245 * seed + 12345) % 2147483648
        pivot = steps[low + seed % (high - low)]
        less, i, greater = low, low, high  # three-way partition: equal break points must leave together
        below = 0.0
        equal = 0.0
        while i < greater:
            step = steps[i]
            if step < pivot:
                below += raises[i]
                steps[i], steps[less] = steps[less], step
                raises[i], raises[less] = raises[less], raises[i]
                less += 1
                i += 1
            elif step > pivot:
                greater -= 1
                steps[i], steps[greater] = steps[greater], step
                raises[i], raises[greater] = raises[greater], raises[i]
            else:
                equal += raises[i]
                i += 1
        before = slope + below + curvature * pivot
        if before >= 0.0:
            high, ceiling = less, pivot
        elif before + equal >= 0.0:
            return float(pivot)
        else:
            slope += below + equal
            low, floor = greater, pivot
    if curvature <= 0.0:
        return floor if ceiling == np.inf else ceiling
    return float(min(max(-slope / curvature, floor), ceiling))


@kernel
def _steepest(
    scores: FloatArray,
    moves: FloatArray,
    i: int,
    label: int,
    delta: FloatArray,
    gamma: FloatArray,
    t: float,
    sign: float,
) -> tuple[int, float]:
    """Highest line of example i at `t` and its slope; of equal ones the largest ``sign * slope``."""
    best, rate, height = label, 0.0, delta[label, label]
    base, lift = scores[i, label], moves[i, label]
    for k in range(scores.shape[1]):
        gain = gamma[label, k]
        slope = gain * (moves[i, k] - lift)
        value = gain * (scores[i, k] - base) + delta[label, k] + t * slope
        if value > height or (value == height and sign * slope > sign * rate):
            best, rate, height = k, slope, value
    return best, rate


@kernel
def table_line_minimum(
    scores: FloatArray,
    moves: FloatArray,
    labels: IntArray,
    delta: FloatArray,
    gamma: FloatArray,
    scale: float,
    slope: float,
    curvature: float,
) -> float:
    """Line minimum for ``scale * sum_i max_k gamma (s_ik - s_iy) + delta`` by a bracketed secant.

    An example whose highest line is the same at both ends of the bracket is linear inside it: it leaves the list, so
    that the trials after the first few cost next to nothing (one full pass cost a third of the time before).
    """
    n = labels.size
    active = np.arange(n)
    first = np.empty(n, np.int64)
    last = np.empty(n, np.int64)
    middle = np.empty(n, np.int64)
    low, at_low = 0.0, slope
    for i in range(n):
        first[i], rate = _steepest(scores, moves, i, labels[i], delta, gamma, 0.0, 1.0)
        at_low += scale * rate
    if at_low >= 0.0:
        return 0.0
    fixed = slope  # slope of the parabola's linear part and of the examples that left
    high, at_high, bracketed = 1.0, 0.0, False
    t = 1.0
    left, right = at_low, 0.0
    for _ in range(200):
        up = fixed + curvature * t
        down = up
        for p in range(active.size):
            i = active[p]
            middle[i], rate = _steepest(scores, moves, i, labels[i], delta, gamma, t, 1.0)
            up += scale * rate
        if up < 0.0:  # the minimum lies beyond t
            low, at_low, left = t, up, up
            for p in range(active.size):
                first[active[p]] = middle[active[p]]
            if not bracketed:
                if t > 1e12:
                    return t
                t *= 4.0
                continue
            right *= 0.5
        else:
            for p in range(active.size):
                i = active[p]
                middle[i], rate = _steepest(scores, moves, i, labels[i], delta, gamma, t, -1.0)
                down += scale * rate
            if down <= 0.0:  # t is a corner, or flat: zero is a subgradient
                return t
            high, at_high, right, bracketed = t, down, down, True
            for p in range(active.size):
                last[active[p]] = middle[active[p]]
            left *= 0.5
        size = 0
        for p in range(active.size):
            i = active[p]
            if first[i] == last[i]:
                label = labels[i]
                fixed += scale * gamma[label, first[i]] * (moves[i, first[i]] - moves[i, label])
            else:
                active[size] = i
                size += 1
        active = active[:size]
        if size == 0:
            return min(max(-fixed / curvature, low), high) if curvature > 0.0 else high
        if high - low <= 1e-14 * high:
            break
        t = low + (high - low) * min(max(left / (left - right), 0.05), 0.95)
    return high if at_high <= -at_low else low
