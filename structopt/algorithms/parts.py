"""Inference from the scores of parts, for many examples at a time.

A `PartSolver` belongs to one kind of structure. It takes tables of scores in place of objective coefficients, so long
chains never become points. Its labels have the compact form of the kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from structopt._jit import FloatArray, IntArray
from structopt.algorithms.fronts import Fronts

__all__ = [
    "AddedLoss",
    "Best",
    "Losses",
    "Maxima",
    "PartFronts",
    "PartSolver",
    "Parts",
    "best_or_truth",
    "with_truth",
]


class Losses(Protocol):
    """The linear task losses of all examples of a data set."""

    @property
    def const(self) -> FloatArray:
        """The constant of each example."""

    @property
    def coef(self) -> FloatArray:
        """All coefficients as one array."""

    def rows(self, some: IntArray | None) -> FloatArray:
        """Return the coefficients of some rows (None: all)."""

    def products(self, matrix: Any, some: IntArray) -> FloatArray:
        """Return the products of the rows of a sparse matrix with the coefficients of some rows."""


class AddedLoss(Protocol):
    """The weighted losses of the examples of `Parts`."""

    def added(self, scores: Any, out: FloatArray | None = None) -> FloatArray:
        """Return scores plus the weighted coefficients."""

    def stored(self) -> tuple[Any, IntArray, FloatArray] | None:
        """Return the sparse rows that are all coefficients, with their numbers and weights; None for other losses."""

    def outer(self) -> tuple[FloatArray, FloatArray]:
        """Return two numbers per row whose products are the coefficients."""


class Parts(NamedTuple):
    """Scores of the parts of some examples."""

    scores: FloatArray  # rows of the first feature term, example by example; one flat array if the solver is `flat`
    ptr: IntArray  # the rows of the k-th of these examples are ``ptr[k]:ptr[k + 1]``
    examples: IntArray  # numbers of the examples, increasing
    rows: IntArray | None = None  # numbers of the rows among those of all examples; None for all
    others: Sequence[FloatArray] = ()  # rows of the other terms, one per example
    loss: AddedLoss | None = None  # losses that the solver adds; in other cases the scores contain the losses
    n_jobs: int = 1


class Maxima(NamedTuple):
    """The best labels of some examples."""

    labels: Any  # in the compact form of the batch's codec
    values: FloatArray  # scores plus weighted losses, without the losses' constants
    bounds: FloatArray | None = None  # no label has a larger value; None if the labels are proved best


class Best(NamedTuple):
    """The most violated labels of some examples, with their margins and losses (0 if the ground truth is best)."""

    labels: Any
    margin: FloatArray
    loss: FloatArray


class PartFronts(ABC):
    """Fronts of examples whose losses are known, for scores that come later."""

    #: Work of the fronts of all examples in batch inferences, roughly.
    cost: float
    #: Numbers that the front of each example keeps in memory.
    entries: IntArray

    @abstractmethod
    def fronts(self, parts: Parts, truth: Any, between: tuple[FloatArray, FloatArray] | None = None) -> Fronts:
        """Return the fronts of (margin, loss); place -1 decodes to the ground truth.

        `truth` are the ground truths of all examples. If limits of the losses are given for each example of `parts`,
        points of other losses may be missing.
        """

    def best_products(self, parts: Parts, truth: Any) -> Best | None:
        """Return the label of largest ``(1 + margin) * loss`` of every example; None if a front is as fast."""
        return None


class PartSolver(ABC):
    """The best labels of examples of any sizes, from the scores of their parts."""

    #: Numbers that are held per row of scores, and in one call: a solver that expands the scores sets a limit.
    width: int = 1
    most_entries: int = 1 << 62
    #: Whether threads share the examples of one call.
    splits = True
    #: Whether scores are one flat array.
    flat = False
    #: Whether `Parts.loss` is given, in place of scores that contain the losses.
    adds_loss = False

    @abstractmethod
    def maximize_parts(self, parts: Parts) -> Maxima:
        """Return the best label of every example."""

    def front_plan(self, losses: Losses, ptr: IntArray) -> PartFronts | None:
        """Return the fronts for these losses, whose rows begin at `ptr`; None if a search takes less time."""
        return None


def best_or_truth(found: tuple[FloatArray, FloatArray, FloatArray] | None, truth: FloatArray) -> Best | None:
    """Return most violated points with their margins and losses, the ground truths in place of those of loss 0."""
    if found is None:
        return None
    labels, margin, loss = found
    idle = loss == 0.0
    if idle.any():
        labels[idle] = truth[idle]
    return Best(labels, margin, loss)


def with_truth(front: Fronts, truth: FloatArray) -> Fronts:
    """Return fronts of points that decode place -1 to the ground truths of their examples."""

    def decode(places: IntArray) -> FloatArray:
        idle = places < 0
        points: FloatArray = front.decode(np.where(idle, front.ptr[:-1], places))
        if idle.any():
            points[idle] = truth[idle]
        return points

    return Fronts(front.ptr, front.h, front.g, decode)
