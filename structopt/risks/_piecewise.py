"""Exact minimum along a line of piecewise-linear losses plus a parabola (docs/mathematics/training#line-search).

All minimise ``slope t + curvature/2 t^2 + loss(f + t df)`` over ``t >= 0``.
"""

from __future__ import annotations

import numpy as np

from structopt._jit import kernel
from structopt.risks._features import FloatArray, IntArray

__all__ = ["scalar_line_minimum", "table_entry", "table_line_minimum"]


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
def table_entry(table: FloatArray, label: int, k: int) -> float:
    """Return ``table[label, k]``; an empty table is 0 on the diagonal and 1 elsewhere."""
    if table.size == 0:
        return 0.0 if k == label else 1.0
    return float(table[label, k])


@kernel
def _highest_lines(
    scores: FloatArray, moves: FloatArray, i: int, label: int, delta: FloatArray, gamma: FloatArray, t: float
) -> tuple[int, float, int, float]:
    """Highest line of example i at `t`: of equal ones the flattest and the steepest, with their slopes."""
    flat, down, steep, up, height = label, 0.0, label, 0.0, 0.0
    base, lift = scores[i, label], moves[i, label]
    for k in range(scores.shape[1]):
        gain = table_entry(gamma, label, k)
        slope = gain * (moves[i, k] - lift)
        value = gain * (scores[i, k] - base) + table_entry(delta, label, k) + t * slope
        if value > height:
            flat, down, steep, up, height = k, slope, k, slope, value
        elif value == height:
            if slope > up:
                steep, up = k, slope
            elif slope < down:
                flat, down = k, slope
    return flat, down, steep, up


@kernel
def table_line_minimum(
    scores: FloatArray,
    moves: FloatArray,
    labels: IntArray,
    delta: FloatArray,
    gamma: FloatArray,
    shares: FloatArray,
    slope: float,
    curvature: float,
) -> float:
    """Line minimum for ``sum_i shares_i (max_k gamma (s_ik - s_iy) + delta)`` by a bracketed secant.

    An example whose highest line is the same at both ends of the bracket is linear inside it and leaves the list, so
    that all but the first few trials take little time.
    """
    n = labels.size
    active = np.arange(n)
    at_low = np.empty(n, np.int64)  # the highest lines at the ends of the bracket
    at_high = np.full(n, -1)
    flat = np.empty(n, np.int64)
    steep = np.empty(n, np.int64)
    low, high = 0.0, np.inf
    left, right = 0.0, 0.0  # slopes at the ends, halved where the secant keeps to one side (Illinois)
    side = 0
    t = 0.0
    for _ in range(200):
        below = slope + curvature * t
        above = below
        for p in range(active.size):
            i = active[p]
            flat[p], down, steep[p], up = _highest_lines(scores, moves, i, labels[i], delta, gamma, t)
            below += shares[i] * down
            above += shares[i] * up
        if above >= 0.0 and (below <= 0.0 or t == 0.0):  # zero is a subgradient, or t = 0 is the end of the line
            return t
        if above < 0.0:
            if t > 1e12:
                return t
            low, left = t, above
            at_low[active] = steep[: active.size]
            right = 0.5 * right if side < 0 else right
            side = -1
        else:
            high, right = t, below
            at_high[active] = flat[: active.size]
            left = 0.5 * left if side > 0 else left
            side = 1
        if high == np.inf:
            t = max(1.0, 4.0 * t)
            continue
        size = 0
        for p in range(active.size):
            i = active[p]
            if at_low[i] == at_high[i]:
                gain = table_entry(gamma, labels[i], at_low[i])
                slope += shares[i] * gain * (moves[i, at_low[i]] - moves[i, labels[i]])
            else:
                active[size] = i
                size += 1
        active = active[:size]
        if size == 0:
            return min(max(-slope / curvature, low), high) if curvature > 0.0 else high
        if high - low <= 1e-14 * high:
            break
        t = low + (high - low) * min(max(left / (left - right), 0.03), 0.97)
    return low
