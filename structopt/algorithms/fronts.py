"""Pareto fronts of two criteria for many examples at once: points (h, g) in arrays, one label per example decoded.

A `FrontPlan` is made once for the losses of a data set and evaluated in every pass with other scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from structopt._jit import FloatArray, IntArray, kernel
from structopt._jit.choices import LevelChoice

__all__ = [
    "FrontPlan",
    "Fronts",
    "ListedFronts",
    "MostViolated",
    "common_unit",
    "nondominated",
    "places_of_largest",
]

#: A unit is at least this fraction of the smallest loss, and no loss has more than this number of units.
_MOST_PARTS, _MOST_UNITS = 60, 1e6


@dataclass(frozen=True, eq=False)
class Fronts:
    """Points of every example that hold the maximum of each ``psi(h, g)`` that decreases in neither.

    `decode` goes from the place of one point of every example to the labels, in the compact form of their family. Place
    -1 stands for the ground truth, where the front was made for one.
    """

    ptr: IntArray  # the points of example i are ``ptr[i]:ptr[i + 1]``
    h: FloatArray  # -inf without a label
    g: FloatArray
    decode: Callable[[IntArray], Any] = field(repr=False)

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def best(self, values: FloatArray) -> IntArray:
        """The place of the largest value of each example; the first of equal ones."""
        n, width = len(self), len(values) // max(1, len(self))
        if width and self.ptr[-1] == n * width and self.ptr[1] == width and (np.diff(self.ptr) == width).all():
            return np.asarray(self.ptr[:-1] + values.reshape(n, width).argmax(axis=1))
        return places_of_largest(self.ptr, np.ascontiguousarray(values, dtype=np.float64))


class MostViolated(NamedTuple):
    """The label that a `LevelChoice` takes for every example, or mixture of two labels.

    The numbers are 0 if nothing is violated.
    """

    Z: FloatArray  # anything where nothing is violated
    h: FloatArray  # its place, `LevelChoice.h_offset` included
    g: FloatArray
    value: FloatArray  # ψ there, its derivative in h, and what it is nowhere above
    slope: FloatArray
    upper: FloatArray


class FrontPlan(ABC):
    """Makes the fronts of examples whose losses ``G_i . z + g_const_i`` are known, for scores that come later."""

    #: Work of the fronts of all examples in batch inferences, roughly.
    cost: float
    #: Numbers that the front of each example keeps in memory.
    entries: IntArray
    #: Numbers that are kept between calls and could be made again.
    kept: int = 0
    #: Whether `best_products` may answer.
    finds_products = False

    def forget(self) -> None:
        """Make the tables again in every call: a data set of many spaces has many plans."""
        return

    @abstractmethod
    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        """The fronts of `some` examples under ``h(z) = H_k . z + h_const_k``, with a row of `H` for each of them.

        Decoded labels are points ``z``.
        """

    def best_products(
        self, H: FloatArray, h_const: FloatArray, n_jobs: int = 1
    ) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """The label of largest ``(1 + h) g`` of every example, its h and its g; None if fronts take no longer.

        If no product is positive, h and g are 0 and the row of labels holds anything.
        """
        return None

    def most_violated(self, H: FloatArray, h_const: FloatArray, choice: LevelChoice) -> MostViolated | None:
        """The choice of every example, its tables dropped once it is decoded; None if fronts take no longer."""
        return None


class ListedFronts(FrontPlan):
    """All labels of a small space: products with every one of them."""

    finds_products = True
    # Losses of all labels are kept if they are no more than this.
    _KEPT = 1 << 22

    def __init__(self, labels: FloatArray, G: FloatArray, g_const: FloatArray) -> None:
        self._labels, self._G, self._g_const = labels, G, g_const
        self.cost = 1.0
        self.entries = np.full(len(G), 2 * len(labels))
        self._losses = self._losses_of(np.arange(len(G))) if len(G) * len(labels) <= self._KEPT else None

    def _losses_of(self, some: IntArray) -> FloatArray:
        return np.asarray(self._G[some] @ self._labels.T + self._g_const[some, None])

    def best_products(
        self, H: FloatArray, h_const: FloatArray, n_jobs: int = 1
    ) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        if self._losses is None:
            return None
        places, h, g = _largest_products(H @ self._labels.T, h_const, self._losses)
        return self._labels.take(places, axis=0), h, g

    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        points = H @ self._labels.T
        points += h_const[:, None]
        known = self._losses
        if known is None:
            losses = self._losses_of(some)
        else:
            losses = known if len(some) == len(known) else known[some]
        ptr = np.arange(len(some) + 1) * len(self._labels)
        return Fronts(ptr, points.ravel(), losses.ravel(), lambda places: self._labels[places - ptr[:-1]])


def nondominated(h: FloatArray, g: FloatArray) -> IntArray:
    """Return the places of points whose g is larger than at every point of larger h, by decreasing h."""
    order = np.lexsort((-g, -h))
    before = np.concatenate([[-np.inf], np.maximum.accumulate(g[order])[:-1]])
    return np.asarray(order[(g[order] > before) & (h[order] > -np.inf)])


@kernel
def common_unit(losses: FloatArray) -> float:
    """Return a number that divides all losses: 1, the smallest loss or a fraction of it; 0 if there is no such number.

    Sibling weights such as 1/2 and 1/3 are counted in sixths.

    Examples
    --------
    >>> common_unit(np.array([2.0, -3.0])), common_unit(np.array([0.5, 0.0, 1.5])), common_unit(np.array([1.0, 2**0.5]))
    (1.0, 0.5, 0.0)
    """
    whole, least = True, np.inf
    for loss in losses:
        if loss != np.rint(loss) or abs(loss) > _MOST_UNITS:
            whole = False
        if loss != 0.0 and abs(loss) < least:
            least = abs(loss)
    if whole:
        return 1.0
    for parts in range(1, _MOST_PARTS + 1):
        unit = least / parts
        fits = True
        for loss in losses:
            count = loss / unit
            if abs(count - np.rint(count)) > 1e-9 or abs(count) > _MOST_UNITS:
                fits = False
                break
        if fits:
            return unit
    return 0.0


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


@kernel
def _largest_products(H: FloatArray, h_const: FloatArray, G: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """For every row the place of the largest positive ``(1 + H + h_const) G`` with its factors h and g, else zeros."""
    n = len(H)
    places, h, g = np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(n)
    for i in range(n):
        best, shift = 0.0, 1.0 + h_const[i]
        for k in range(H.shape[1]):
            value = (H[i, k] + shift) * G[i, k]
            if value > best and G[i, k] > 0.0:
                best, places[i] = value, k
        if best > 0.0:
            h[i], g[i] = H[i, places[i]] + h_const[i], G[i, places[i]]
    return places, h, g
