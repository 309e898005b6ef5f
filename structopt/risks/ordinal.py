"""Ordinal regression: pairs of examples of different level, BMRM Algorithm 8."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from structopt.errors import DeclarationError
from structopt.kernels._common import kernel
from structopt.risks._base import FeatureRisk
from structopt.risks._features import FloatArray, IntArray, finite_vector
from structopt.risks._order import ascending

__all__ = ["Ordinal"]


class Ordinal(FeatureRisk):
    """Mean over pairs with ``y_i < y_j`` of ``C(y_i, y_j) max(0, 1 + f_i - f_j)``.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : array of shape (m,)
        Levels: any numbers, at least two different ones. More is better.
    cost : "constant", "linear" or array of shape (n_levels, n_levels)
        ``C``: 1, the difference ``y_j - y_i``, or a table indexed by the levels in ascending order (the part above the
        diagonal is used).

    Notes
    -----
    With n levels a table costs O(m log m + m n); the named costs cost O(m log m) for any number of levels.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Ordinal
    >>> risk = Ordinal([[1.0], [2.0], [0.0], [3.0]], [3, 2, 1, 2], cost="linear")
    >>> value, subgradient = risk(np.array([0.4]))
    >>> round(value, 12), subgradient
    (0.92, array([-0.2]))
    """

    _parameters: ClassVar[tuple[str, ...]] = ("cost",)

    def __init__(self, X: Any, y: Any, cost: Any = "constant") -> None:
        super().__init__(X)
        self.y = finite_vector(y, "y", len(self), "Ordinal")
        self.levels, level = np.unique(self.y, return_inverse=True)
        if self.levels.size < 2:
            raise DeclarationError(
                f"Ordinal: every target is {self.levels[0]:g}, so there is no pair to compare; pass two levels or more."
            )
        self._level = level.astype(np.int64)
        self._counts = np.bincount(self._level).astype(np.float64)
        self._scale = 2.0 / (float(len(self)) ** 2 - float(self._counts @ self._counts))
        self.cost = cost if isinstance(cost, str) else self._check_cost(cost)
        if isinstance(cost, str) and cost not in ("constant", "linear"):
            raise DeclarationError(f"Ordinal: cost must be 'constant', 'linear' or a table, got {cost!r}.")

    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        derivative = np.zeros(len(self))
        order = ascending(f)
        if isinstance(self.cost, str):
            linear = self.cost == "linear"
            value = _scan_sums(order, f, self._level, self._counts, self.levels, linear, derivative)
        else:
            value = _scan_table(order, f, self._level, self._counts, self.cost, derivative)
        return max(float(value), 0.0) * self._scale, derivative * self._scale

    def _check_cost(self, cost: Any) -> FloatArray:
        table = np.array(cost, dtype=np.float64)
        n = self.levels.size
        if table.shape != (n, n):
            raise DeclarationError(f"Ordinal: cost has shape {table.shape}; y has {n} levels, pass ({n}, {n}).")
        used = table[np.triu_indices(n, 1)]
        if not np.all(np.isfinite(used)) or np.any(used < 0.0):
            raise DeclarationError("Ordinal: costs above the diagonal must be finite and not negative.")
        return np.triu(table, 1)


@kernel
def _scan_table(
    order: IntArray, f: FloatArray, level: IntArray, counts: FloatArray, cost: FloatArray, derivative: FloatArray
) -> float:
    """Visit ``f - 1/2`` (the better of a pair) and ``f + 1/2`` (the worse) in ascending order.

    Both lists have the order of f, so they are merged, not sorted. Any order of ties gives a valid cut: a pair is
    counted for both of its examples or for neither.
    """
    worse_ahead = counts.copy()
    better_behind = np.zeros(counts.size)
    value = 0.0
    p, q = 0, 0
    while q < order.size:
        if p < order.size and f[order[p]] - 0.5 < f[order[q]] + 0.5:
            j = order[p]
            p += 1
            weight = 0.0
            for a in range(level[j]):
                weight += cost[a, level[j]] * worse_ahead[a]
            better_behind[level[j]] += 1.0
            derivative[j] -= weight
            value -= weight * (f[j] - 0.5)
        else:
            j = order[q]
            q += 1
            weight = 0.0
            for b in range(level[j] + 1, counts.size):
                weight += cost[level[j], b] * better_behind[b]
            worse_ahead[level[j]] -= 1.0
            derivative[j] += weight
            value += weight * (f[j] + 0.5)
    return value


@kernel
def _add(tree: FloatArray, position: int, amount: float) -> None:
    position += 1
    while position < tree.size:
        tree[position] += amount
        position += position & -position


@kernel
def _sum_below(tree: FloatArray, position: int) -> float:
    total = 0.0
    while position > 0:
        total += tree[position]
        position -= position & -position
    return total


@kernel
def _scan_sums(
    order: IntArray,
    f: FloatArray,
    level: IntArray,
    counts: FloatArray,
    levels: FloatArray,
    linear: bool,
    derivative: FloatArray,
) -> float:
    """As `_scan_table` for C = 1 or C = y_j - y_i: sums of counts and levels in Fenwick trees, O(log n) each."""
    n = counts.size
    ahead = np.zeros(n + 1)
    ahead_levels = np.zeros(n + 1)
    behind = np.zeros(n + 1)
    behind_levels = np.zeros(n + 1)
    # Levels are measured from their middle, so that the difference of two sums does not cancel.
    origin = 0.5 * (levels[0] + levels[n - 1])
    for k in range(n):
        _add(ahead, k, counts[k])
        _add(ahead_levels, k, counts[k] * (levels[k] - origin))
    all_behind = 0.0
    all_behind_levels = 0.0
    value = 0.0
    p, q = 0, 0
    while q < order.size:
        if p < order.size and f[order[p]] - 0.5 < f[order[q]] + 0.5:
            j = order[p]
            p += 1
            height = levels[level[j]] - origin
            weight = _sum_below(ahead, level[j])
            if linear:
                weight = height * weight - _sum_below(ahead_levels, level[j])
            _add(behind, level[j], 1.0)
            _add(behind_levels, level[j], height)
            all_behind += 1.0
            all_behind_levels += height
            derivative[j] -= weight
            value -= weight * (f[j] - 0.5)
        else:
            j = order[q]
            q += 1
            height = levels[level[j]] - origin
            weight = all_behind - _sum_below(behind, level[j] + 1)
            if linear:
                weight = all_behind_levels - _sum_below(behind_levels, level[j] + 1) - height * weight
            _add(ahead, level[j], -1.0)
            _add(ahead_levels, level[j], -height)
            derivative[j] += weight
            value += weight * (f[j] + 0.5)
    return value
