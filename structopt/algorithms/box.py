"""Boxes: variables with bounds and no rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from structopt._jit.products import dot
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.counting import counting_plan
from structopt.algorithms.fronts import FrontPlan
from structopt.algorithms.question import per_question
from structopt.recognize import Box, Record
from structopt.space.compiled import FloatArray

__all__ = ["BoxAlgorithm"]


class BoxAlgorithm(Algorithm):
    """Every variable at its upper bound where its coefficient is positive, else at its lower bound."""

    name = "signs"
    steps = per_question(argmax="variables")

    def __init__(self, lower: FloatArray, upper: FloatArray) -> None:
        self._lower, self._upper = lower, upper
        ends = np.concatenate([lower, upper])
        self._binary = not lower.any() and bool((upper == 1.0).all())
        self.integral = bool((ends == np.rint(ends)).all())

    @classmethod
    def of_record(cls, record: Record, n: int) -> BoxAlgorithm:
        assert isinstance(record, Box)
        return cls(record.lower, record.upper)

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        z = np.where(c > 0, self._upper, self._lower)
        value = dot(c, z)
        return Optimum(z, value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        Z = (C > 0).astype(np.float64) if self._binary else np.asarray(np.where(C > 0, self._upper, self._lower))
        return Solutions.of_labels(C, Z)

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        return counting_plan(G, g_const) if self._binary else None
