"""Preferences between pairs of examples, BMRM Algorithm 9."""

from __future__ import annotations

import copy
import zlib
from typing import Any, Self

import numpy as np

from structopt.errors import DeclarationError
from structopt.risks._base import FeatureRisk
from structopt.risks._features import FloatArray, finite_vector, shard_rows
from structopt.risks._piecewise import scalar_line_minimum
from structopt.risks.risk import LinearRisk
from structopt.risks.sample_weight import relative_weights

__all__ = ["Preference"]


class Preference(FeatureRisk, LinearRisk):
    """Mean over pairs (i, j), "j should rank above i", of ``cost max(0, 1 + f_i - f_j)``.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    pairs : array of shape (n_pairs, 2)
        Rows (i, j): example j is preferred to example i.
    cost : array of shape (n_pairs,), optional
        Cost of breaking each preference, at least 0. Default: 1.
    sample_weight : array of shape (m,), optional
        Weights of the examples, not negative; a pair counts by the product of its two. Equal by default. The attribute
        `cost` has them, too: costs times the pairs' weights over their mean.

    Notes
    -----
    ``len`` counts pairs, and `shard` shares them out.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Preference
    >>> risk = Preference([[1.0], [2.0], [0.0]], [(0, 1), (1, 2)])
    >>> risk
    <Preference: 2 pairs, 1 features>
    >>> value, subgradient = risk(np.array([0.5]))
    >>> value, subgradient
    (1.25, array([0.5]))
    """

    def __init__(self, X: Any, pairs: Any, cost: Any = None, *, sample_weight: Any = None) -> None:
        super().__init__(X)
        self.pairs = self._check_pairs(pairs)
        self.cost = (
            np.ones(len(self.pairs)) if cost is None else finite_vector(cost, "cost", len(self.pairs), "Preference")
        )
        if np.any(self.cost < 0.0):
            raise DeclarationError("Preference: costs must not be negative, or the risk would not be convex.")
        if sample_weight is not None:
            weight = relative_weights(sample_weight, len(self._features), "Preference")
            product = None if weight is None else weight[self.pairs].prod(axis=1)
            if product is not None and not product.any():
                raise DeclarationError("Preference: no pair has two examples with a weight above 0.")
            self.cost = self.cost if product is None else self.cost * (product / product.mean())
        self._scale = 1.0 / len(self.pairs)

    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        slack = 1.0 + f[self.pairs[:, 0]] - f[self.pairs[:, 1]]
        broken = np.where(slack > 0.0, self._scale * self.cost, 0.0)
        size = len(self._features)
        derivative = np.zeros(size)
        derivative += np.bincount(self.pairs[:, 0], broken, size)
        derivative -= np.bincount(self.pairs[:, 1], broken, size)
        return float(broken @ slack), derivative

    def line_step(self, f: FloatArray, df: FloatArray, slope: float, curvature: float) -> float:
        # In terms of g = cost (f_i - f_j) each term is max(0, cost + g), with its corner at -cost.
        lower, upper = self.pairs[:, 0], self.pairs[:, 1]
        g, dg = self.cost * (f[lower] - f[upper]), self.cost * (df[lower] - df[upper])
        corners, left = -self.cost[np.newaxis], np.zeros(len(self))
        return float(scalar_line_minimum(g, dg, corners, np.ones(1), left, self._scale, slope, curvature))

    def shard(self, k: int, n: int) -> Self:
        rows = shard_rows(k, n, len(self), type(self).__name__)
        part = copy.copy(self)
        part.is_part = True
        part.pairs = np.ascontiguousarray(self.pairs[rows])
        part.cost = np.ascontiguousarray(self.cost[rows])
        return part

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return f"<{self._name()}: {len(self)} pairs, {self.n_features} features>"

    def _checksum(self) -> int:
        return zlib.crc32(self.cost.tobytes(), zlib.crc32(self.pairs.tobytes()))

    def _check_pairs(self, pairs: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
        array = np.asarray(pairs)
        if array.size == 0:
            raise DeclarationError("Preference: there is no pair to compare; pass at least one row (i, j).")
        if array.ndim != 2 or array.shape[1] != 2:
            raise DeclarationError(f"Preference: pairs has shape {array.shape}; pass rows (i, j), j preferred to i.")
        if array.dtype.kind not in "iu":
            raise DeclarationError(f"Preference: pairs must hold row numbers of X; they have dtype {array.dtype}.")
        bad = np.flatnonzero(((array < 0) | (array >= len(self._features))).any(axis=1))
        if bad.size:
            raise DeclarationError(
                f"Preference: pair {int(bad[0])} is {tuple(array[bad[0]].tolist())}; X has {len(self._features)} rows."
            )
        same = np.flatnonzero(array[:, 0] == array[:, 1])
        if same.size:
            raise DeclarationError(
                f"Preference: pair {int(same[0])} compares example {int(array[same[0], 0])} with itself."
            )
        return np.ascontiguousarray(array, dtype=np.int64)
