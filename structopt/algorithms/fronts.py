"""Fronts of two criteria for many examples at once: points (h, g) in arrays, one label per example decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from structopt._jit import FloatArray, IntArray, kernel

__all__ = ["Fronts", "places_of_largest"]


@dataclass(frozen=True, eq=False)
class Fronts:
    """Points of every example that hold the maximum of each ``psi(h, g)`` that decreases in neither.

    Attributes
    ----------
    ptr : ndarray of int, shape (n + 1,)
        The points of example i are ``ptr[i]:ptr[i + 1]``.
    h, g : ndarray
        Their coordinates; ``h = -inf`` where there is no label.
    decode : callable
        From the place of one point of every example to the labels, in the compact form of their family. Place -1 stands
        for the ground truth, where the front was made for one.

    Examples
    --------
    >>> import numpy as np
    >>> front = Fronts(np.array([0, 2, 3]), np.array([1.0, 0.5, 2.0]), np.array([1.0, 4.0, 1.0]), decode=lambda k: k)
    >>> front.best(front.h * front.g)
    array([1, 2])
    """

    ptr: IntArray
    h: FloatArray
    g: FloatArray
    decode: Callable[[IntArray], Any] = field(repr=False)

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def best(self, values: FloatArray) -> IntArray:
        """The place of the largest value of each example; the first of equal ones."""
        return places_of_largest(self.ptr, np.ascontiguousarray(values, dtype=np.float64))


@kernel
def places_of_largest(ptr: IntArray, values: FloatArray) -> IntArray:
    """For every segment the place of its largest value, -1 if it is empty."""
    places = np.full(ptr.size - 1, -1)
    for i in range(ptr.size - 1):
        best = -np.inf
        for k in range(ptr[i], ptr[i + 1]):
            if values[k] > best:
                best = values[k]
                places[i] = k
    return places
