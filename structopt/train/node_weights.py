"""Storage of node weights of `hierarchical_sgd`: by feature, dense, or on the pattern of nodes that occur with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt._jit.threads import in_threads
from structopt.space.compiled import FloatArray
from structopt.train.kernels.node_weights import add_dense, add_seen, count_seen, fill_seen, score_dense, score_seen

__all__ = ["AllWeights", "Pattern", "SeenWeights", "Weights", "seen_features"]

#: Row pointers, nodes and factors of the label differences of a mini-batch.
Parts = tuple[Any, Any, FloatArray]


@dataclass(frozen=True, eq=False)
class Pattern:
    """Which nodes have a weight for each feature: ``node[ptr[j]:ptr[j + 1]]``, ascending."""

    ptr: IntArray
    node: npt.NDArray[np.int32]
    n_nodes: int

    @property
    def size(self) -> int:
        """Number of weights."""
        return int(self.ptr[-1])

    def matrix(self, w: FloatArray) -> sp.csc_array:
        """Weights in the order of the pattern as a matrix ``(nodes, features)``, on the arrays that are there."""
        return sp.csc_array((w, self.node, self.ptr), shape=(self.n_nodes, self.ptr.size - 1))

    def __repr__(self) -> str:
        return f"<Pattern: {self.size} weights of {self.ptr.size - 1} features at {self.n_nodes} nodes>"


def seen_features(X: sp.csr_array, labels: sp.csr_array, *, count_only: bool = False) -> Pattern | int:
    """The features that occur in an example of each node, or only how many such pairs there are.

    Parameters
    ----------
    X : csr_array, shape (examples, features)
    labels : csr_array, shape (examples, nodes)
    count_only : bool
        Return the number of weights without making room for them.
    """
    by_feature = sp.csc_array(X)
    source = by_feature.indices, by_feature.indptr, labels.indptr, labels.indices
    counts = np.zeros(X.shape[1], np.int64)
    count_seen(*source, counts, np.full(labels.shape[1], -1, np.int64))
    if count_only:
        return int(counts.sum())
    ptr = np.concatenate([[0], np.cumsum(counts)])
    node = np.empty(int(ptr[-1]), np.int32)
    fill_seen(*source, ptr, node, np.full(labels.shape[1], -1, np.int64))
    return Pattern(ptr, node, labels.shape[1])


class Weights(Protocol):
    """Weights v, and u for their mean; both in the order of the store."""

    v: Any
    u: Any

    def scores(self, weights: Any, X: sp.csr_array, scale: float, n_jobs: int) -> Any:
        """``scale <x, weights_k>`` of all rows x and nodes k."""

    def add(self, parts: Parts, weight: FloatArray, X: sp.csr_array, share: float) -> None:
        """``v += delta`` and ``u += share delta`` for the step delta of a mini-batch."""

    def to_vector(self, weights: Any) -> FloatArray:
        """Weights of the store as the vector that the trainer returns."""

    def from_vector(self, w: FloatArray) -> Any:
        """Undo `to_vector`."""


class AllWeights:
    """All weights, ``(features, nodes)``; as a vector node by node, as every model has them."""

    def __init__(self, n_features: int, n_nodes: int, dtype: Any) -> None:
        self.shape = (n_features, n_nodes)
        self.v, self.u = np.zeros(self.shape, dtype), np.zeros(self.shape, dtype)

    def scores(self, weights: Any, X: sp.csr_array, scale: float, n_jobs: int) -> Any:
        table = np.empty((X.shape[0], self.shape[1]), self.v.dtype)
        arrays = X.data, X.indices, X.indptr, weights, self.v.dtype.type(scale), table
        in_threads(lambda first, last: score_dense(*arrays, first, last), X.shape[0], n_jobs)
        return table

    def add(self, parts: Parts, weight: FloatArray, X: sp.csr_array, share: float) -> None:
        add_dense(parts, weight, X.data, X.indices, X.indptr, self.v, self.u, share)

    def to_vector(self, weights: Any) -> FloatArray:
        return np.array(weights.T, dtype=np.float64, order="C").ravel()

    def from_vector(self, w: FloatArray) -> Any:
        return np.array(w.reshape(self.shape[::-1]).T, dtype=self.v.dtype, order="C")


class SeenWeights:
    """Weights on a pattern; as a vector in its order."""

    def __init__(self, pattern: Pattern, dtype: Any) -> None:
        self.pattern = pattern
        self.v, self.u = np.zeros(pattern.size, dtype), np.zeros(pattern.size, dtype)

    def scores(self, weights: Any, X: sp.csr_array, scale: float, n_jobs: int) -> Any:
        table = np.empty((X.shape[0], self.pattern.n_nodes), self.v.dtype)
        known = self.pattern.ptr, self.pattern.node, weights, self.v.dtype.type(scale)
        arrays = X.data, X.indices, X.indptr, *known, table
        in_threads(lambda first, last: score_seen(*arrays, first, last), X.shape[0], n_jobs)
        return table

    def add(self, parts: Parts, weight: FloatArray, X: sp.csr_array, share: float) -> None:
        pattern = self.pattern
        add_seen(parts, weight, X.data, X.indices, X.indptr, pattern.ptr, pattern.node, self.v, self.u, share)

    def to_vector(self, weights: Any) -> FloatArray:
        return np.array(weights, dtype=np.float64)

    def from_vector(self, w: FloatArray) -> Any:
        return np.array(w, dtype=self.v.dtype)
