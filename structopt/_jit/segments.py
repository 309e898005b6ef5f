"""Sums over consecutive segments of an array, some of which may be empty."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["segment_sums"]


def segment_sums(values: Any, ptr: Any) -> Any:
    """Return the sum of ``values[ptr[i]:ptr[i + 1]]`` for each i; 0 for an empty segment.

    `numpy.add.reduceat` returns the next value for an empty segment and raises if the segment is the last one.

    Examples
    --------
    >>> segment_sums(np.array([1.0, 2.0, 4.0]), np.array([0, 0, 2, 3, 3]))
    array([0., 3., 4., 0.])
    """
    starts = np.asarray(ptr)[:-1]
    filled = starts < np.asarray(ptr)[1:]
    sums = np.zeros(len(starts))
    if filled.any():
        sums[filled] = np.add.reduceat(values, starts[filled])
    return sums
