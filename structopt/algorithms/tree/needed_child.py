"""Declared forests in which a chosen internal node needs a chosen child."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray
from structopt._jit.products import dot
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.fronts import FrontPlan
from structopt.algorithms.question import Question
from structopt.algorithms.tree.front import TreeFrontPlan
from structopt.algorithms.tree.labels import k_best, needed_child, needed_child_batch
from structopt.recognize import Record, Tree
from structopt.space.compiled import FloatArray

__all__ = ["NeededChildForest"]


class NeededChildForest(Algorithm):
    """A chosen internal node needs a chosen child, in one tree or several: the O(n) dynamic program.

    The virtual roots of all trees are chosen. (Without `every_root` some root would do, and all trees but one could
    stay empty.)

    Parameters
    ----------
    parent, column : ndarray of int
        Parent and column of every node; see `structopt.recognize.Tree`.
    n : int
        Number of variables.
    """

    name = "tree dynamic program"
    answers = Question.ARGMAX | Question.K_BEST | Question.OUTSIDE

    def __init__(self, parent: IntArray, column: IntArray, n: int) -> None:
        self._parent = np.ascontiguousarray(parent, dtype=np.int64)
        self._real = np.flatnonzero(column >= 0)
        self._column = column[self._real]
        self._n = n

    @classmethod
    def of_record(cls, record: Record, n: int) -> NeededChildForest:
        assert isinstance(record, Tree)
        return cls(record.parent, record.column, n)

    def _gains(self, C: FloatArray) -> FloatArray:
        gains = np.zeros((len(self._parent), *C.shape[1:]))
        gains[self._real] = C[self._column]
        return gains

    def _points(self, chosen: npt.NDArray[np.bool_]) -> FloatArray:
        Z = np.zeros((len(chosen), self._n))
        Z[:, self._column] = chosen[:, self._real]
        return Z

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        chosen, _ = needed_child(self._gains(c), self._parent, every_root=True)
        z = self._points(chosen[None, :])[0]
        value = dot(c, z)
        return Optimum(z, value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        chosen, _ = needed_child_batch(self._gains(np.ascontiguousarray(C.T)), self._parent, every_root=True)
        return Solutions.of_labels(C, self._points(chosen.T))

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        if k < 1:
            return Solutions.stacked([], self._n)
        chosen, _ = k_best(self._gains(c), self._parent, k, every_root=True)
        return Solutions.of_labels(c, self._points(chosen))

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        # Of one tree the root is chosen anyway; of several, some could stay empty.
        if (self._parent < 0).sum() != 1:
            return None
        return TreeFrontPlan.of(self._parent, self._real, self._column, G, g_const)
