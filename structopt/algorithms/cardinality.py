"""Simplices and groups of 0/1 variables with a bounded number of ones (docs/mathematics/oracles#groups).

Every variable is in at most one group; those in none are free, 1 where the objective coefficient is positive. Ties: the
smallest number of ones, and among equal coefficients the variables that their group lists first.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from structopt._jit import FloatArray, IntArray, kernel
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.counting import counting_plan
from structopt.algorithms.fronts import FrontPlan
from structopt.algorithms.lawler import BoolArray
from structopt.algorithms.question import per_question
from structopt.errors import DeclarationError
from structopt.recognize import Cardinality, Record

__all__ = ["CardinalityAlgorithm"]


class CardinalityAlgorithm(Algorithm):
    """The best 0/1 vectors with ``lower[i] <= sum(z[columns[ptr[i]:ptr[i + 1]]]) <= upper[i]`` for every group i."""

    name = "top-k"
    steps = per_question(argmax="variables")

    def __init__(self, record: Cardinality) -> None:
        self._groups = record.ptr, record.order, record.lower, record.upper

    @classmethod
    def of_record(cls, record: Record, n: int) -> CardinalityAlgorithm:
        assert isinstance(record, Cardinality)
        return cls(record)

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        Z, values = self._choose(c[None, :])
        value = values.item(0)
        return Optimum(Z[0], value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        Z, values = self._choose(C)
        return Solutions(Z, values, values)

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        _, members, low, high = self._groups
        one_group = len(low) == 1 and len(members) == G.shape[1]
        return counting_plan(G, g_const, (int(low[0]), int(high[0]))) if one_group else None

    def _choose(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        chosen, values, finite = choose_rows(np.ascontiguousarray(C), *self._groups)
        if not finite:
            row, j = (int(i) for i in np.argwhere(~np.isfinite(C))[0])
            raise DeclarationError(
                f"Coefficient {j} of example {row} of the batch is {C[row, j]}; coefficients must be finite."
            )
        return chosen.astype(np.float64), values


@kernel
def choose_rows(
    C: FloatArray, ptr: IntArray, columns: IntArray, lower: IntArray, upper: IntArray
) -> tuple[BoolArray, FloatArray, bool]:
    """The best label of every row of `C`, and its value; the last answer says whether all numbers were finite."""
    count, n = C.shape
    z = np.empty((count, n), np.bool_)
    values = np.zeros(count)
    scratch = np.empty(columns.size)
    for e in range(count):
        c, out = C[e], z[e]
        bad = False
        for j in range(n):
            bad |= not (abs(c[j]) < np.inf)
            out[j] = c[j] > 0.0
        if bad:
            return z, values, False
        for g in range(ptr.size - 1):
            first, size = ptr[g], ptr[g + 1] - ptr[g]
            positive = 0
            for q in range(first, first + size):
                positive += out[columns[q]]
            # The prefix sums of the sorted coefficients rise as long as these are positive: the best number is a clip.
            best = min(max(positive, lower[g]), min(upper[g], size))
            if best != positive:
                _take(c, columns[first : first + size], best, scratch[:size], out)
        for j in range(n):
            values[e] += c[j] if out[j] else 0.0
    return z, values, True


@kernel
def _take(c: FloatArray, group: IntArray, k: int, scratch: FloatArray, out: BoolArray) -> None:
    """Set the k largest of a group, the first ones among equals, without sorting it."""
    size = group.size
    if k == 0:
        for q in range(size):
            out[group[q]] = False
        return
    for q in range(size):
        scratch[q] = c[group[q]]
    threshold = _kth_largest(scratch, k)
    spare = k
    for q in range(size):
        above = c[group[q]] > threshold
        out[group[q]] = above
        spare -= above
    for q in range(size):
        if spare and c[group[q]] == threshold:
            out[group[q]] = True
            spare -= 1


@kernel
def _kth_largest(x: FloatArray, k: int) -> float:
    """Hoare's selection; `x` is permuted. (numba's `np.partition` takes several seconds to compile.)"""
    left, right, want = 0, x.size - 1, k - 1
    while left < right:
        pivot = x[(left + right) // 2]
        i, j = left, right
        while i <= j:
            while x[i] > pivot:
                i += 1
            while x[j] < pivot:
                j -= 1
            if i <= j:
                x[i], x[j] = x[j], x[i]
                i += 1
                j -= 1
        if want <= j:
            right = j
        elif want >= i:
            left = i
        else:
            break
    return float(x[want])
