"""The area under the ROC curve, BMRM Algorithm 7."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from structopt._jit import kernel
from structopt.errors import DeclarationError
from structopt.risks._base import FeatureRisk
from structopt.risks._features import FloatArray, IntArray, shard_rows, signs
from structopt.risks._order import ascending
from structopt.risks.sample_weight import relative_weights

__all__ = ["ROCArea"]


class ROCArea(FeatureRisk):
    """Mean hinge over all pairs of a positive and a negative example, in O(m log m).

    ``R(w) = 1/(m+ m-) sum over y_i < y_j of max(0, 1 + f_i - f_j)``, an upper bound of one minus the area under the
    ROC curve, BMRM (27).

    Parameters
    ----------
    X : array or sparse matrix of shape (m, d)
        One feature vector per row.
    y : array of shape (m,)
        Labels -1 and +1, both present.
    sample_weight : array of shape (m,), optional
        Weights of the examples, not negative; a pair counts by the product of its two. Equal by default.

    Notes
    -----
    `shard` shares out the examples of the larger class; every part keeps all examples of the smaller one.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import ROCArea
    >>> risk = ROCArea([[1.0], [2.0], [0.0], [3.0]], [1, -1, -1, 1])
    >>> value, subgradient = risk(np.array([0.4]))
    >>> round(value, 12), subgradient
    (0.65, array([-0.25]))
    """

    is_mean = False  # pairs across parts count

    def __init__(self, X: Any, y: Any, *, sample_weight: Any = None) -> None:
        super().__init__(X)
        self.y = signs(y, len(self), type(self).__name__)
        self._weight = relative_weights(sample_weight, len(self), type(self).__name__)
        positives = int((self.y > 0).sum())
        if positives in (0, len(self)):
            raise DeclarationError(
                f"ROCArea: all {len(self)} labels are {'+1' if positives else '-1'}, so there is no pair to compare; "
                "pass examples of both classes."
            )
        masses = float(positives), float(len(self) - positives)
        if self._weight is not None:
            masses = float(self._weight[self.y > 0].sum()), float(self._weight[self.y < 0].sum())
            if not all(masses):
                raise DeclarationError("ROCArea: all examples with a weight above 0 are of one class.")
        self._scale = 1.0 / (masses[0] * masses[1])

    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        shifted = -0.5 * self.y
        shifted += f
        derivative = np.empty_like(shifted)
        signed = self.y if self._weight is None else self.y * self._weight
        _scan(ascending(shifted), signed, self._scale, derivative)
        return max(float(derivative @ shifted), 0.0), derivative

    def shard(self, k: int, n: int) -> Self:
        larger = np.flatnonzero(self.y == (1.0 if self.y.sum() > 0 else -1.0))
        kept = larger[shard_rows(k, n, larger.size, type(self).__name__)]
        rows = np.sort(np.concatenate([np.setdiff1d(np.arange(len(self)), larger, assume_unique=True), kept]))
        part = copy.copy(self)
        part.is_part = True
        part._features = self._features.rows(rows)
        part.y = self.y[rows]
        part._weight = None if self._weight is None else self._weight[rows]
        return part


@kernel
def _scan(order: IntArray, signed: FloatArray, scale: float, derivative: FloatArray) -> None:
    """Weigh, for each example, the pairs of positive loss that it is in; weights have the sign of the class."""
    negatives_ahead = 0.0
    for i in range(signed.size):
        negatives_ahead -= min(signed[i], 0.0)
    positives_behind = 0.0
    for p in range(order.size):
        i = order[p]  # the only accesses out of order: one number, one store
        weight = signed[i]
        if weight > 0.0:
            derivative[i] = -scale * weight * negatives_ahead
            positives_behind += weight
        else:
            derivative[i] = -scale * weight * positives_behind
            negatives_ahead += weight
