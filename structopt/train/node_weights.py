"""Where the node weights of `hierarchical_sgd` lie: by feature, all of them or on a pattern of nodes that met it."""

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
    count_seen(*source, labels.shape[1], counts, np.full(labels.shape[1], -1, np.int64))
    if count_only:
        return int(counts.sum())
    ptr = np.concatenate([[0], np.cumsum(counts)])
    node = np.empty(int(ptr[-1]), np.int32)
    fill_seen(*source, ptr, node, np.full(labels.shape[1], -1, np.int64))
    return Pattern(ptr, node, labels.shape[1])


class Weights(Protocol):
    """Weights v, and u for their mean."""

    v: Any
    u: Any

    def scores(self, X: sp.csr_array, scale: float, n_jobs: int) -> Any: ...
    def add(self, parts: Parts, weight: FloatArray, X: sp.csr_array, share: float) -> None: ...
    def matrix(self, w: Any) -> Any: ...
    def replace(self, w: Any) -> None: ...
    def release(self) -> None: ...


class _Arrays:
    v: Any
    u: Any

    def replace(self, w: Any) -> None:
        """Put other weights in the place of v; u is no longer needed."""
        self.u = self.u[:0]
        self.v[...] = w.reshape(self.v.shape)

    def release(self) -> None:
        """Forget the arrays of the run."""
        self.v, self.u = self.v[:0].copy(), self.u[:0].copy()


class AllWeights(_Arrays):
    """All weights, ``(features, nodes)``."""

    def __init__(self, n_features: int, n_nodes: int, dtype: Any) -> None:
        self.shape = (n_features, n_nodes)
        self.v, self.u = np.zeros(self.shape, dtype), np.zeros(self.shape, dtype)

    def scores(self, X: sp.csr_array, scale: float, n_jobs: int) -> Any:
        table = np.empty((X.shape[0], self.shape[1]), self.v.dtype)
        arrays = X.data, X.indices, X.indptr, self.v, self.v.dtype.type(scale), table
        in_threads(lambda first, last: score_dense(*arrays, first, last), X.shape[0], n_jobs)
        return table

    def add(self, parts: Parts, weight: FloatArray, X: sp.csr_array, share: float) -> None:
        add_dense(parts, weight, X.data, X.indices, X.indptr, self.v, self.u, share)

    def matrix(self, w: Any) -> Any:
        """The weights as ``(nodes, features)``: a view."""
        return w.reshape(self.shape).T


class SeenWeights(_Arrays):
    """Weights on a pattern."""

    def __init__(self, pattern: Pattern, dtype: Any) -> None:
        self.pattern = pattern
        self.v, self.u = np.zeros(pattern.size, dtype), np.zeros(pattern.size, dtype)

    def scores(self, X: sp.csr_array, scale: float, n_jobs: int) -> Any:
        table = np.empty((X.shape[0], self.pattern.n_nodes), self.v.dtype)
        weights = self.pattern.ptr, self.pattern.node, self.v, self.v.dtype.type(scale)
        arrays = X.data, X.indices, X.indptr, *weights, table
        in_threads(lambda first, last: score_seen(*arrays, first, last), X.shape[0], n_jobs)
        return table

    def add(self, parts: Parts, weight: FloatArray, X: sp.csr_array, share: float) -> None:
        pattern = self.pattern
        add_seen(parts, weight, X.data, X.indices, X.indptr, pattern.ptr, pattern.node, self.v, self.u, share)

    def matrix(self, w: Any) -> Any:
        """The weights as ``(nodes, features)``, sparse by column, on the arrays that are there."""
        shape = (self.pattern.n_nodes, self.pattern.ptr.size - 1)
        return sp.csc_array((w, self.pattern.node, self.pattern.ptr), shape=shape)
