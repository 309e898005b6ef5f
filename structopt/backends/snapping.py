"""Rounding of a solver's integer values, and a check of rows and bounds afterwards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt._jit import FloatArray, IntArray, any_order, kernel

__all__ = ["FRACTIONAL", "HOLDS", "WORSE", "first_broken", "snap", "value_of"]

#: What `snap` answers besides the number of a broken row or bound.
HOLDS, FRACTIONAL, WORSE = -1, -2, -3


@kernel
def first_broken(
    z: FloatArray,
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    row_lower: FloatArray,
    row_upper: FloatArray,
    tolerance: float,
) -> int:
    """The first row that `z` leaves by more than `tolerance` of the size of its terms (or of its unit), or -1."""
    for i in range(len(row_lower)):
        activity = 0.0
        size = 0.0
        unit = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            term = data[k] * z[indices[k]]
            activity += term
            size += abs(term)
            unit = max(unit, abs(data[k]))
        # As `CompiledSpace.row_units` has it; NaN is outside of everything.
        room = tolerance * max(min(1.0, unit) if unit > 0.0 else 1.0, size)
        if not (activity >= row_lower[i] - room and activity <= row_upper[i] + room):
            return i
    return -1


@kernel
def snap(
    c: FloatArray,
    z: FloatArray,
    integer: npt.NDArray[np.bool_],
    lower: FloatArray,
    upper: FloatArray,
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    row_lower: FloatArray,
    row_upper: FloatArray,
    tolerance: float,
    rounding: float,
) -> int:
    """Round the integer entries of `z` in place, if the rounded point is still a label and worth as much.

    Entries that leave their bounds by less than the tolerance are put on them.

    Returns
    -------
    int
        HOLDS; FRACTIONAL if an entry is not within `tolerance` of an integer; WORSE if rounding loses more than
        `rounding` of the terms of ``c . z``; else the number of the first row that the rounded point breaks, or
        ``len(row_lower) + j`` if it leaves the bounds of variable j. In all but the first case `z` is left as it was.
    """
    n, m = len(z), len(row_lower)
    loss, size = 0.0, 0.0
    rounds = False
    for j in range(n):
        size += abs(c[j] * z[j])
        if integer[j]:
            nearest = np.rint(z[j])
            off = z[j] - nearest
            if not abs(off) <= tolerance:
                return FRACTIONAL
            if off != 0.0:
                rounds = True
                loss += c[j] * off
    if loss > rounding * size:
        return WORSE
    for j in range(n):
        room = tolerance * max(1.0, abs(z[j]))
        outside = max(lower[j] - z[j], z[j] - upper[j])
        if not outside <= room:
            return m + j
        rounds |= outside > 0.0
    kept = z.copy() if rounds else z
    for j in range(n):
        if integer[j]:
            z[j] = np.rint(z[j]) + 0.0  # no negative zeros
        if z[j] < lower[j]:
            z[j] = lower[j]
        elif z[j] > upper[j]:
            z[j] = upper[j]
    broken = first_broken(z, indptr, indices, data, row_lower, row_upper, tolerance)
    if broken >= 0 and rounds:
        for k in range(n):
            z[k] = kept[k]
    return broken  # HOLDS is -1, too


@any_order
def value_of(c: FloatArray, z: FloatArray, integer: npt.NDArray[np.bool_]) -> tuple[bool, float]:
    """Whether all integer entries of `z` are integers, and ``c . z``.

    One compiled pass, because right after a solver's run every further function is paid for by cache misses.
    """
    integral = True
    value = 0.0
    for j in range(len(z)):
        value += c[j] * z[j]
        if integer[j]:
            integral &= z[j] == np.rint(z[j])
    return integral, value
