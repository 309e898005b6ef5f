"""Base classes of risks of predictions ``X w``: products with X, names, shards."""

from __future__ import annotations

import copy
import zlib
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from structopt.risks._features import Features, FloatArray, shard_rows
from structopt.risks.identity import digest
from structopt.risks.risk import LinearRisk, Risk, check_weights
from structopt.risks.sample_weight import checksum, relative_weights

__all__ = ["FeatureRisk", "SeparableRisk"]


class FeatureRisk(Risk):
    """A risk of predictions ``f = X w``: one product forward, one back.

    Derived directly by risks whose `loss` takes a sort or an assignment; those with a loss of O(n) derive from
    `SeparableRisk`, which trainers search along lines.
    """

    lower_bound = 0.0

    #: Names of the attributes that distinguish two risks of one class.
    _parameters: ClassVar[tuple[str, ...]] = ()
    #: Weights of the examples divided by their mean; None where all are equal.
    _weight: FloatArray | None = None

    def __init__(self, X: Any) -> None:
        self._features = Features(X, type(self).__name__)
        self.n_features = self._features.n_columns

    @abstractmethod
    def loss(self, f: FloatArray) -> tuple[float, FloatArray]:
        """Return the risk at predictions `f` and its derivative, of the shape of `f`.

        Parameters
        ----------
        f : ndarray
            Predictions.

        Returns
        -------
        value, derivative : float and ndarray
        """

    def predictions(self, w: FloatArray) -> FloatArray:
        """Return ``X w``."""
        return self._features.forward(self._checked(w))

    def pull_back(self, derivative: FloatArray) -> FloatArray:
        """Return ``X' derivative``, a subgradient with respect to the weights."""
        return self._features.back(derivative).ravel()

    def value_and_subgradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        value, derivative = self.loss(self.predictions(w))
        return value, self.pull_back(derivative)

    def __len__(self) -> int:
        return len(self._features)

    def fingerprint(self) -> str:
        size = f"{len(self)} examples, {self.n_features} features"
        return f"{self._name()}({size}, targets {self._checksum():08x}{checksum(self._weight)})"

    def identity(self) -> dict[str, Any]:
        """Hashes of the features, and of targets, weights and settings."""
        other = {name: value for name, value in vars(self).items() if name != "_features"}
        return {"risk": self.fingerprint(), "X": digest(self._features.matrix), "targets and settings": digest(other)}

    def __repr__(self) -> str:
        return f"<{self._name()}: {len(self)} examples, {self.n_features} features>"

    def _name(self) -> str:
        settings = ", ".join(f"{name}={_brief(getattr(self, name))}" for name in self._parameters)
        return f"{type(self).__name__}({settings})" if settings else type(self).__name__

    def _checksum(self) -> int:
        target = getattr(self, "y", None)
        return 0 if target is None else zlib.crc32(np.ascontiguousarray(target).tobytes())

    def _checked(self, w: FloatArray) -> FloatArray:
        return check_weights(w, self.n_features, type(self).__name__)


class SeparableRisk(FeatureRisk, LinearRisk):
    """A mean over examples of a convex function of each row of ``f``, weighted by ``sample_weight`` if it is given."""

    #: Targets, one entry or row per example.
    y: Any

    def __init__(self, X: Any, sample_weight: Any = None) -> None:
        super().__init__(X)
        self._scale = 1.0 / len(self)
        self._weight = relative_weights(sample_weight, len(self), type(self).__name__)

    @property
    def shares(self) -> FloatArray:
        """The factor of each example's loss in the risk; they add up to 1 unless this is a shard."""
        return np.full(len(self), self._scale) if self._weight is None else self._scale * self._weight

    def shard(self, k: int, n: int) -> Self:
        rows = shard_rows(k, n, len(self), type(self).__name__)
        part = copy.copy(self)  # keeps _scale: the parts add up to this risk
        part.is_part = True
        part._features = self._features.rows(rows)
        part._select(rows)
        return part

    def _select(self, rows: slice) -> None:
        """Keep the targets and weights of `rows`."""
        self.y = np.ascontiguousarray(self.y[rows])
        if self._weight is not None:
            self._weight = np.ascontiguousarray(self._weight[rows])


def _brief(value: Any) -> str:
    """A setting as a short text; a table by its checksum."""
    return f"table {zlib.crc32(value.tobytes()):08x}" if isinstance(value, np.ndarray) else repr(value)
