"""Piecewise linear functions of one variable, their convex envelopes, and sums of them.

Functions are kept in CSR form: function j has the break points ``points[ptr[j]:ptr[j + 1]]``, ascending, and its values
there in `heights`. It is linear in between.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt._jit import FloatArray, IntArray, kernel

__all__ = ["absolute_sums", "all_convex", "coarse", "envelopes", "interpolate", "pieces", "refine"]

BoolArray = npt.NDArray[np.bool_]


@kernel
def absolute_sums(
    truths: FloatArray, order: IntArray, weights: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """``phi_j(t) = sum_i weights_i |t - truths_ji|`` on ``[low_j, high_j]``.

    `truths` has a row for each variable, ascending; `order` has the example of each entry.
    """
    d, m = truths.shape
    points = np.empty(d * (m + 2))
    heights = np.empty(d * (m + 2))
    ptr = np.zeros(d + 1, np.int64)
    total = weights.sum()
    k = 0
    for j in range(d):
        value = 0.0
        for i in range(m):
            value += weights[order[j, i]] * (truths[j, i] - low[j])
        points[k], heights[k] = low[j], value
        slope = -total
        k += 1
        for i in range(m):
            if weights[order[j, i]] == 0.0:  # no bend here: of the nearest neighbours' weights most are zero
                continue
            t = truths[j, i]
            if t > points[k - 1]:
                points[k] = t
                heights[k] = heights[k - 1] + slope * (t - points[k - 1])
                k += 1
            slope += 2.0 * weights[order[j, i]]
        if high[j] > points[k - 1]:
            points[k] = high[j]
            heights[k] = heights[k - 1] + slope * (high[j] - points[k - 1])
            k += 1
        ptr[j + 1] = k
    return points[:k].copy(), heights[:k].copy(), ptr


@kernel
def _at(points: FloatArray, heights: FloatArray, t: float) -> float:
    """A piecewise linear function at one point, held constant beyond its ends."""
    k = np.searchsorted(points, t)
    value: float = heights[k] if k < points.size else heights[-1]
    if 0 < k < points.size:
        part = (t - points[k - 1]) / (points[k] - points[k - 1])
        value = heights[k - 1] + part * (heights[k] - heights[k - 1])
    return value


@kernel
def interpolate(points: FloatArray, heights: FloatArray, ptr: IntArray, y: FloatArray) -> FloatArray:
    """Every function at its own point."""
    found = np.empty(y.size)
    for j in range(y.size):
        found[j] = _at(points[ptr[j] : ptr[j + 1]], heights[ptr[j] : ptr[j + 1]], y[j])
    return found


@kernel
def _hull(points: FloatArray, heights: FloatArray, low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """The lower convex hull of a piecewise linear function on an interval."""
    inside = (points > low) & (points < high)
    t = np.empty(inside.sum() + 2)
    f = np.empty(t.size)
    t[0], f[0] = low, _at(points, heights, low)
    t[1:-1], f[1:-1] = points[inside], heights[inside]
    t[-1], f[-1] = high, _at(points, heights, high)
    top = 0
    for k in range(1, t.size):
        while top > 0 and (f[top] - f[top - 1]) * (t[k] - t[top - 1]) >= (f[k] - f[top - 1]) * (t[top] - t[top - 1]):
            top -= 1
        top += 1
        t[top], f[top] = t[k], f[k]
    return t[: top + 1], f[: top + 1]


@kernel
def envelopes(
    points: FloatArray, heights: FloatArray, ptr: IntArray, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """The convex envelope of every function on its own interval."""
    d = low.size
    t = np.empty(points.size + 2 * d)
    f = np.empty(t.size)
    new = np.zeros(d + 1, np.int64)
    for j in range(d):
        hull, value = _hull(points[ptr[j] : ptr[j + 1]], heights[ptr[j] : ptr[j + 1]], low[j], high[j])
        new[j + 1] = new[j] + hull.size
        t[new[j] : new[j + 1]] = hull
        f[new[j] : new[j + 1]] = value
    return t[: new[d]].copy(), f[: new[d]].copy(), new


@kernel
def coarse(ptr: IntArray, n_pieces: int) -> BoolArray:
    """About `n_pieces` of each function's break points, evenly by number, the ends among them."""
    chosen = np.zeros(ptr[-1], np.bool_)
    for j in range(ptr.size - 1):
        last = ptr[j + 1] - ptr[j] - 1
        steps = min(n_pieces, last)
        chosen[ptr[j]] = True
        for k in range(1, steps + 1):
            chosen[ptr[j] + k * last // steps] = True
    return chosen


@kernel
def refine(points: FloatArray, ptr: IntArray, chosen: BoolArray, y: FloatArray, parts: int) -> bool:
    """Split the chosen pieces that hold or touch ``y_j`` into `parts`; False if all of them are whole edges already.

    A minimum over chords of a convex function is one over the function itself once the pieces beside it are edges.
    """
    changed = False
    for j in range(ptr.size - 1):
        first, stop = ptr[j], ptr[j + 1]
        room = 1e-9 * (points[stop - 1] - points[first])
        left = first
        for right in range(first + 1, stop):
            if not chosen[right]:
                continue
            if points[left] - room <= y[j] <= points[right] + room and right - left > 1:
                changed = True
                for k in range(1, parts):
                    chosen[left + k * (right - left) // parts] = True
            left = right
    return changed


@kernel
def pieces(
    points: FloatArray, heights: FloatArray, ptr: IntArray, chosen: BoolArray, room: int
) -> tuple[FloatArray, FloatArray, int]:
    """Widths and slopes of the chords between the chosen break points, padded with zeros to `room` a function.

    The third answer is the largest number of chords of a function; beyond `room` the tables are not filled.
    """
    d = ptr.size - 1
    width = np.zeros((d, room))
    slope = np.zeros((d, room))
    most = 0
    for j in range(d):
        left, n = ptr[j], 0
        for right in range(ptr[j] + 1, ptr[j + 1]):
            if chosen[right] and points[right] > points[left]:
                if n < room:
                    width[j, n] = points[right] - points[left]
                    slope[j, n] = (heights[right] - heights[left]) / width[j, n]
                n += 1
                left = right
        most = max(most, n)
    return width, slope, most


@kernel
def all_convex(points: FloatArray, heights: FloatArray, ptr: IntArray) -> bool:
    """Whether no slope of any function is smaller than the one before it."""
    for j in range(ptr.size - 1):
        for k in range(ptr[j] + 1, ptr[j + 1] - 1):
            left = (heights[k] - heights[k - 1]) * (points[k + 1] - points[k])
            right = (heights[k + 1] - heights[k]) * (points[k] - points[k - 1])
            if left > right + 1e-12 * (abs(left) + abs(right)):
                return False
    return True
