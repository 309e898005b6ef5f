"""Ordinal regression: pairs of examples of different level, BMRM Algorithm 8."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from structopt._jit import kernel
from structopt.checks import converted
from structopt.errors import DeclarationError
from structopt.risks._base import FeatureRisk
from structopt.risks._features import FloatArray, IntArray, finite_vector
from structopt.risks._order import ascending
from structopt.risks.sample_weight import relative_weights

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
    sample_weight : array of shape (m,), optional
        Weights of the examples, not negative; a pair counts by the product of its two. Equal by default.

    Notes
    -----
    With n levels a table takes O(m log m + m n) time; the named costs take O(m log m) for any number of levels.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Ordinal
    >>> risk = Ordinal([[1.0], [2.0], [0.0], [3.0]], [3, 2, 1, 2], cost="linear")
    >>> value, subgradient = risk(np.array([0.4]))
    >>> round(value, 12), subgradient
    (0.92, array([-0.2]))
    """

    is_mean = False  # pairs across parts count
    _parameters: ClassVar[tuple[str, ...]] = ("cost",)

    def __init__(self, X: Any, y: Any, cost: Any = "constant", *, sample_weight: Any = None) -> None:
        super().__init__(X)
        self.y = finite_vector(y, "y", len(self), "Ordinal")
        self.levels, level = np.unique(self.y, return_inverse=True)
        if self.levels.size < 2:
            raise DeclarationError(
                f"Ordinal: every target is {self.levels[0]:g}, so there is no pair to compare; pass two levels or more."
            )
        self._level = level.astype(np.int64)
        self._weight = relative_weights(sample_weight, len(self), "Ordinal")
        own = np.ones(len(self)) if self._weight is None else self._weight
        self._counts = np.asarray(np.bincount(self._level, weights=own), dtype=np.float64)
        if np.count_nonzero(self._counts) < 2:
            raise DeclarationError("Ordinal: all examples with a weight above 0 have one level; there is no pair.")
        self._scale = 2.0 / (float(self._counts.sum()) ** 2 - float(self._counts @ self._counts))
        self.cost = cost if isinstance(cost, str) else self._check_cost(cost)
        if isinstance(cost, str) and cost not in ("constant", "linear"):
            raise DeclarationError(f"Ordinal: cost must be 'constant', 'linear' or a table, got {cost!r}.")

    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        order = ascending(f)
        ordered, level = f[order], self._level[order]
        own = np.ones(len(self)) if self._weight is None else self._weight[order]
        if isinstance(self.cost, str):
            counts = _scan_sums(ordered, level, own, self._counts, self.levels, self.cost == "linear")
        else:
            counts = _scan_table(ordered, level, own, self._counts, self.cost)
        better, worse = counts[0] * self._scale, counts[1] * self._scale
        value = float(worse @ (ordered + 0.5) - better @ (ordered - 0.5))
        derivative = np.empty_like(f)
        derivative[order] = worse - better
        return max(value, 0.0), derivative

    def _check_cost(self, cost: Any) -> FloatArray:
        table = np.array(converted("Ordinal: cost", cost))
        n = self.levels.size
        if table.shape != (n, n):
            raise DeclarationError(f"Ordinal: cost has shape {table.shape}; y has {n} levels, pass ({n}, {n}).")
        used = table[np.triu_indices(n, 1)]
        if not np.all(np.isfinite(used)) or np.any(used < 0.0):
            raise DeclarationError("Ordinal: costs above the diagonal must be finite and not negative.")
        return np.triu(table, 1)


@kernel
def _scan_table(f: FloatArray, level: IntArray, weight: FloatArray, counts: FloatArray, cost: FloatArray) -> FloatArray:
    """Weight of each example as the better (row 0) and the worse (row 1) of its pairs of positive loss.

    Visits ``f - 1/2`` (the better role) and ``f + 1/2`` (the worse) in ascending order. Both lists have the order
    of f, so they are merged, not sorted. Any order of ties gives a valid cut: a pair is counted for both of its
    examples or for neither.
    """
    result = np.zeros((2, f.size))
    worse_ahead = counts.copy()
    better_behind = np.zeros(counts.size)
    p, q = 0, 0
    while q < f.size:
        if p < f.size and f[p] - 0.5 < f[q] + 0.5:
            own = level[p]
            for a in range(own):
                result[0, p] += weight[p] * cost[a, own] * worse_ahead[a]
            better_behind[own] += weight[p]
            p += 1
        else:
            own = level[q]
            for b in range(own + 1, counts.size):
                result[1, q] += weight[q] * cost[own, b] * better_behind[b]
            worse_ahead[own] -= weight[q]
            q += 1
    return result


@kernel
def _add(tree: FloatArray, position: int, amount: float, height: float) -> None:
    position += 1
    while position < tree.shape[0]:
        tree[position, 0] += amount
        tree[position, 1] += amount * height
        position += position & -position


@kernel
def _costs_below(tree: FloatArray, position: int, height: float, linear: bool) -> float:
    """Sum over the levels below `position` of C = 1 or ``C = height - level``, times their counts."""
    count, heights = 0.0, 0.0
    while position > 0:
        count += tree[position, 0]
        heights += tree[position, 1]
        position -= position & -position
    return height * count - heights if linear else count


@kernel
def _scan_sums(
    f: FloatArray, level: IntArray, weight: FloatArray, counts: FloatArray, levels: FloatArray, linear: bool
) -> FloatArray:
    """As `_scan_table` for C = 1 or C = y_j - y_i: sums over levels in Fenwick trees, O(log n) each."""
    result = np.zeros((2, f.size))
    n = counts.size
    # Levels are measured from their middle, so that the difference of two sums cancels little. The tree of the
    # better ones is stored upside down, because its queries are sums over the levels above.
    origin = 0.5 * (levels[0] + levels[n - 1])
    worse_ahead = np.zeros((n + 1, 2))
    better_behind = np.zeros((n + 1, 2))
    for k in range(n):
        _add(worse_ahead, k, counts[k], levels[k] - origin)
    p, q = 0, 0
    while q < f.size:
        if p < f.size and f[p] - 0.5 < f[q] + 0.5:
            own, height = level[p], levels[level[p]] - origin
            result[0, p] = weight[p] * _costs_below(worse_ahead, own, height, linear)
            _add(better_behind, n - 1 - own, weight[p], -height)
            p += 1
        else:
            own, height = level[q], levels[level[q]] - origin
            result[1, q] = weight[q] * _costs_below(better_behind, n - 1 - own, -height, linear)
            _add(worse_ahead, own, -weight[q], height)
            q += 1
    return result
