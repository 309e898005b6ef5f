"""Many planes at once: the λ-oracles of a whole data set, queried together (docs/mathematics/searches).

A batch search sees a `PlaneBatch` as a search sees a `SearchPlane`: points and bounds, no label space and no solver.
One query is for some of the planes, each at its own λ. Labels stay with the planes; a search refers to them by number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from structopt.errors import DeclarationError
from structopt.plane.points import Point, SearchPlane
from structopt.space.compiled import FloatArray

__all__ = ["BatchAnswers", "BatchBox", "PlaneBatch", "PlaneFronts", "PlaneList"]

IndexArray = npt.NDArray[np.intp]


class BatchBox(NamedTuple):
    """Boxes that hold every label of each plane, and the levels of g.

    Labels of plane i have ``g = g_offset[i] + k * g_step[i]`` for integers k; step 0 means that there are no levels.
    """

    h_lower: FloatArray
    h_upper: FloatArray
    g_lower: FloatArray
    g_upper: FloatArray
    g_step: FloatArray
    g_offset: FloatArray


class BatchAnswers(NamedTuple):
    """The answers of some planes: where each label lies, the proved maximum of ``h + λ g``, and the label's number."""

    h: FloatArray
    g: FloatArray
    bound: FloatArray
    number: IndexArray


class PlaneFronts(NamedTuple):
    """Pareto fronts of some planes: points that hold the maximum of every ψ that decreases neither in h nor in g.

    Attributes
    ----------
    planes : ndarray of int
        Which planes, increasing.
    start : ndarray of int
        The points of the k-th of them are ``start[k]:start[k + 1]``, at least one.
    h, g : ndarray
    take : callable
        Registers the labels of one point of each of these planes, given by their places, and returns their numbers.
        Place -1 stands for any label.
    """

    planes: IndexArray
    start: IndexArray
    h: FloatArray
    g: FloatArray
    take: Callable[[IndexArray], IndexArray]


class PlaneBatch(Protocol):
    """The interface of a batch search to the labels."""

    @property
    def n(self) -> int:
        """Number of planes."""
        ...

    @property
    def convex(self) -> bool:
        """Whether mixtures of labels are labels (a relaxed space)."""
        ...

    @property
    def tolerance(self) -> float:
        """Relative accuracy of ``h + λ g`` at an answer."""
        ...

    def box(self) -> BatchBox:
        """Boxes that hold every label."""
        ...

    def known(self) -> tuple[FloatArray, FloatArray]:
        """h and g of labels known without a query, ``(n_known, n)``; NaN where a plane has none.

        Row k holds labels of number k.
        """
        ...

    def query(self, some: IndexArray, lam: FloatArray) -> BatchAnswers:
        """The labels that maximise ``h + lam g`` in some planes (increasing), each at its own λ in [0, inf]."""
        ...

    def fronts(self, some: IndexArray, low: FloatArray, high: FloatArray) -> Iterator[PlaneFronts]:
        """The fronts of those of some planes where they can be listed without a search, a block of planes at a time.

        Only labels with ``low <= g <= high`` matter, limits for each of these planes; others may be left out.
        """
        ...

    def plane(self, i: int) -> SearchPlane:
        """One plane by itself."""
        ...

    def add(self, some: IndexArray, labels: Sequence[Any]) -> IndexArray:
        """Register labels of single planes, one for each of some planes; returns their numbers."""
        ...


class PlaneList:
    """Planes of any kind as a batch: each is queried by itself.

    Parameters
    ----------
    planes : sequence of SearchPlane

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.plane import PointPlane
    >>> planes = PlaneList([PointPlane([(1, 8), (3, 4)]), PointPlane([(5, 3), (8, 1)])])
    >>> planes.query(np.array([0, 1]), np.array([1.0, 1.0])).h
    array([1., 8.])
    """

    def __init__(self, planes: Sequence[SearchPlane]) -> None:
        self.planes = list(planes)
        self.n = len(self.planes)
        self.convex = bool(self.planes and self.planes[0].convex)
        if any(plane.convex != self.convex for plane in self.planes):
            raise DeclarationError(
                "Some of these planes are relaxed and others are not: search them in two batches, since of the first "
                "mixtures are labels."
            )
        self.tolerance = max((plane.tolerance for plane in self.planes), default=0.0)
        #: Labels by plane and number; number 0 is the ground truth.
        self.labels: list[list[Any]] = [[plane.truth] for plane in self.planes]

    def box(self) -> BatchBox:
        bounds = np.array([plane.bounds[:4] for plane in self.planes], dtype=float).reshape(-1, 4)
        h_lower, h_upper, g_lower, g_upper = (np.ascontiguousarray(side) for side in bounds.T)
        return BatchBox(h_lower, h_upper, g_lower, g_upper, np.zeros(self.n), np.zeros(self.n))

    def known(self) -> tuple[FloatArray, FloatArray]:
        truths = [None if p.truth is None else p.evaluate(p.truth) for p in self.planes]
        points = [Point(math.nan, 0.0) if point is None else point for point in truths]
        return np.array([[p.h for p in points]]), np.array([[p.g for p in points]])

    def query(self, some: IndexArray, lam: FloatArray) -> BatchAnswers:
        points = []
        for i, value in zip(some.tolist(), lam.tolist(), strict=True):
            point = self.planes[i].query(value, ties=False)
            assert point is not None  # a free query of a space that has labels
            points.append(point)
        h, g, bound = (np.array([getattr(p, name) for p in points]) for name in ("h", "g", "bound"))
        return BatchAnswers(h, g, bound, self.add(some, [p.label for p in points]))

    def fronts(self, some: IndexArray, low: FloatArray, high: FloatArray) -> Iterator[PlaneFronts]:
        for i in some.tolist():
            points = self.planes[i].front()
            if points:
                yield self._front_of(np.array([i]), points)

    def _front_of(self, plane: IndexArray, points: Sequence[Point]) -> PlaneFronts:
        h, g = np.array([p.h for p in points]), np.array([p.g for p in points])

        def take(places: IndexArray) -> IndexArray:
            return self.add(plane, [points[k].label for k in places.tolist()])

        return PlaneFronts(plane, np.array([0, len(points)]), h, g, take)

    def plane(self, i: int) -> SearchPlane:
        return self.planes[i]

    def add(self, some: IndexArray, labels: Sequence[Any]) -> IndexArray:
        for i, label in zip(some.tolist(), labels, strict=True):
            self.labels[i].append(label)
        return np.array([len(self.labels[i]) - 1 for i in some.tolist()], dtype=np.intp)
