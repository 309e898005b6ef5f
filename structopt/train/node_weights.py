"""Node weights of `hierarchical_sgd`: dense, or on the pattern of nodes that occur with a feature.

They are stored feature by feature: the weights of one feature at all nodes lie together, so that a sparse example reads
one run of memory per non-zero feature and not one cache line per feature and node (`structopt.train.sgd` has the other
order, which suits few columns). Weights are dense, ``(features, nodes)``, or kept only where a node has met the
feature: a CSR pattern ``(ptr, node)`` by feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, inlined, kernel
from structopt._jit.threads import in_threads
from structopt.space.compiled import FloatArray

__all__ = ["AllWeights", "Pattern", "SeenWeights", "Weights", "leaf_steps", "seen_features"]

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


#: Weights that are averaged at a time: the temporaries of a large model in float64 would not fit.
_CHUNK = 1 << 20


class Weights(Protocol):
    """Weights v, and u for their mean; both in the order of the store."""

    v: Any
    u: Any

    def scores(self, weights: Any, X: sp.csr_array, scale: float, n_jobs: int) -> Any:
        """``scale <x, weights_k>`` of all rows x and nodes k."""

    def add(self, parts: Parts, weight: FloatArray, X: sp.csr_array, share: float) -> None:
        """``v += delta`` and ``u += share delta`` for the step delta of a mini-batch."""

    def mean(self, share: float, total: float) -> FloatArray:
        """``(share v - u) / total`` as a vector."""

    def to_vector(self, weights: Any) -> FloatArray:
        """Weights of the store as the vector that the trainer returns; read-only, so that nobody has to copy it."""

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

    def mean(self, share: float, total: float) -> FloatArray:
        w = np.empty(self.v.size)
        mean_by_node(self.v, self.u, share, total, w.reshape(self.shape[::-1]))
        w.setflags(write=False)
        return w

    def to_vector(self, weights: Any) -> FloatArray:
        w = np.array(weights.T, dtype=np.float64, order="C").reshape(-1)
        w.setflags(write=False)
        return w

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

    def mean(self, share: float, total: float) -> FloatArray:
        w = np.empty(self.v.size)
        for at in range(0, w.size, _CHUNK):
            part = slice(at, at + _CHUNK)
            w[part] = (share * self.v[part].astype(np.float64) - self.u[part]) / total
        w.setflags(write=False)
        return w

    def to_vector(self, weights: Any) -> FloatArray:
        w = np.array(weights, dtype=np.float64)
        w.setflags(write=False)
        return w

    def from_vector(self, w: FloatArray) -> Any:
        return np.array(w, dtype=self.v.dtype)


@kernel
def mean_by_node(v: Any, u: Any, share: float, total: float, mean: FloatArray) -> None:
    """``(share v - u) / total``, transposed in tiles that fit into the cache."""
    n_features, n_nodes = v.shape
    tile = 32
    for a in range(0, n_features, tile):
        for b in range(0, n_nodes, tile):
            for k in range(b, min(b + tile, n_nodes)):
                for j in range(a, min(a + tile, n_features)):
                    mean[k, j] = (share * v[j, k] - u[j, k]) / total


@kernel
def score_dense(data: Any, indices: Any, indptr: Any, v: Any, scale: Any, scores: Any, first: int, last: int) -> None:
    """``scale <x_r, v_k>`` of the CSR rows ``first ... last - 1`` and all nodes k."""
    n_nodes = v.shape[1]
    for r in range(first, last):
        own = scores[r]
        own[:] = 0
        for q in range(indptr[r], indptr[r + 1]):
            x, row = scale * data[q], v[indices[q]]
            for k in range(n_nodes):
                own[k] += x * row[k]


@kernel
def score_seen(
    data: Any, indices: Any, indptr: Any, ptr: Any, node: Any, v: Any, scale: Any, scores: Any, first: int, last: int
) -> None:
    """`score_dense` for weights on a pattern."""
    for r in range(first, last):
        own = scores[r]
        own[:] = 0
        for q in range(indptr[r], indptr[r + 1]):
            x, j = scale * data[q], indices[q]
            for e in range(ptr[j], ptr[j + 1]):
                own[node[e]] += x * v[e]


@kernel
def add_dense(
    parts: Any, weight: FloatArray, data: Any, indices: Any, indptr: Any, v: Any, u: Any, share: float
) -> None:
    """``v += delta`` and ``u += share delta``, where delta is the sum of ``weight_r value x_r`` over parts (r, k)."""
    part_ptr, column, value = parts
    for r in range(weight.size):
        if weight[r] == 0.0 or part_ptr[r] == part_ptr[r + 1]:
            continue
        for q in range(indptr[r], indptr[r + 1]):
            j = indices[q]
            x = weight[r] * data[q]
            for p in range(part_ptr[r], part_ptr[r + 1]):
                delta = x * value[p]
                v[j, column[p]] += delta
                u[j, column[p]] += share * delta


@kernel
def add_seen(
    parts: Any, weight: FloatArray, data: Any, indices: Any, indptr: Any, ptr: Any, node: Any, v: Any, u: Any,
    share: float,
) -> None:  # fmt: skip
    """`add_dense` for weights on a pattern; what falls outside it is left out."""
    part_ptr, column, value = parts
    for r in range(weight.size):
        if weight[r] == 0.0 or part_ptr[r] == part_ptr[r + 1]:
            continue
        for q in range(indptr[r], indptr[r + 1]):
            j = indices[q]
            x = weight[r] * data[q]
            low = ptr[j]
            for p in range(part_ptr[r], part_ptr[r + 1]):
                # Parts come by ascending node: the search goes on where the last one ended.
                high = ptr[j + 1]
                while low < high:
                    middle = (low + high) // 2
                    if node[middle] < column[p]:
                        low = middle + 1
                    else:
                        high = middle
                if low < ptr[j + 1] and node[low] == column[p]:
                    delta = x * value[p]
                    v[low] += delta
                    u[low] += share * delta


@kernel
def count_seen(
    example: Any, by_feature: Any, label_ptr: Any, label_node: Any, counts: IntArray, stamp: IntArray
) -> None:
    """Number of nodes that have met each feature, into `counts`.

    The examples with feature j are ``example[by_feature[j]:by_feature[j + 1]]``; `stamp` has an entry per node, -1.
    """
    for j in range(counts.size):
        for q in range(by_feature[j], by_feature[j + 1]):
            i = example[q]
            for p in range(label_ptr[i], label_ptr[i + 1]):
                k = label_node[p]
                if stamp[k] != j:
                    stamp[k] = j
                    counts[j] += 1


@kernel
def fill_seen(
    example: Any, by_feature: Any, label_ptr: Any, label_node: Any, ptr: Any, node: Any, stamp: IntArray
) -> None:
    """The nodes that have met each feature, ascending, into ``node[ptr[j]:ptr[j + 1]]``."""
    for j in range(ptr.size - 1):
        at = ptr[j]
        for q in range(by_feature[j], by_feature[j + 1]):
            i = example[q]
            for p in range(label_ptr[i], label_ptr[i + 1]):
                k = label_node[p]
                if stamp[k] != j:
                    stamp[k] = j
                    node[at] = k
                    at += 1
        node[ptr[j] : at].sort()


@inlined
def _find(node: Any, low: int, high: int, wanted: int) -> int:
    """The place of `wanted` in the ascending ``node[low:high]``, or -1."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if node[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and node[low] == wanted else -1


@kernel
def leaf_steps(
    order: IntArray, rows: Any, truth: IntArray, tree: Any, error: Any, layout: Any, v: Any, u: Any, t: int,
    step: FloatArray,
) -> float:  # fmt: skip
    """Steps of one example each, over single leaves of a tree: score, best leaf, update in one go.

    Parameters
    ----------
    order : examples to visit
    rows : (data, indices, indptr) of all examples
    truth : the leaf of each example, as a node
    tree : (parent, leaf, factor), parents before children; leaf is 0/1, node k scores ``factor_k <v_k, x>``
    error : (weight, rooted, divided): the error between two leaves is the sum of the weights of the nodes that only
        one path has, or its root; it is added to the score difference, or divides it
    layout : (ptr, node) of a pattern; an empty `ptr` for all weights
    v, u : the weights and their mean, flat (`structopt.train.sgd`, Notes)
    t : steps so far
    step : 1 / lam, times the weight of each example

    Returns
    -------
    float
        The sum of the levels of the cuts found, each times its step.
    """
    data, indices, indptr = rows
    parent, leaf, factor = tree
    weight, rooted, divided = error
    ptr, node = layout
    n_nodes = parent.size
    score, total = np.zeros(n_nodes, v.dtype), np.zeros(n_nodes)
    path, shared, mine = np.zeros(n_nodes), np.zeros(n_nodes), np.zeros(n_nodes, np.bool_)
    changed, change = np.empty(n_nodes, np.int64), np.empty(n_nodes)
    for k in range(n_nodes):
        total[k] = weight[k] + (total[parent[k]] if parent[k] >= 0 else 0.0)
    levels = 0.0
    for i in order:
        score[:] = 0
        for q in range(indptr[i], indptr[i + 1]):
            x, j = data[q], indices[q]
            if ptr.size:
                for e in range(ptr[j], ptr[j + 1]):
                    score[node[e]] += x * v[e]
            else:
                row = v[j * n_nodes : (j + 1) * n_nodes]
                for k in range(n_nodes):
                    score[k] += x * row[k]
        own = truth[i]
        k = own
        while k >= 0:
            mine[k] = True
            k = parent[k]
        scale = 1.0 / t if t else 0.0
        for k in range(n_nodes):
            above = parent[k]
            path[k] = scale * factor[k] * score[k]
            shared[k] = weight[k] if mine[k] else 0.0
            if above >= 0:
                path[k] += path[above]
                shared[k] += shared[above]
        best, best_value, best_error = own, 0.0, 1.0
        for k in range(n_nodes):
            if not leaf[k] or k == own:
                continue
            differ = total[k] + total[own] - 2.0 * shared[k]
            if differ <= 1e-14 * (total[k] + total[own]):
                differ = 0.0
            far = np.sqrt(differ) if rooted else differ
            if divided:
                value = 1.0 + (path[k] - path[own]) / far if far > 0.0 else 0.0
            else:
                value = path[k] - path[own] + far
            if value > best_value:
                best, best_value, best_error = k, value, far
        share = float(t)
        t += 1
        if best != own:
            levels += step[i] * (1.0 if divided else best_error)
            size = 0
            by = step[i] / best_error if divided else step[i]
            k = best
            while k >= 0 and not mine[k]:
                changed[size], change[size] = k, -by * factor[k]
                size += 1
                k = parent[k]
            meeting = k
            k = own
            while k != meeting:
                changed[size], change[size] = k, by * factor[k]
                size += 1
                k = parent[k]
            for q in range(indptr[i], indptr[i + 1]):
                x, j = data[q], indices[q]
                for c in range(size):
                    at = _find(node, ptr[j], ptr[j + 1], changed[c]) if ptr.size else j * n_nodes + changed[c]
                    if at >= 0:
                        delta = x * change[c]
                        v[at] += delta
                        u[at] += share * delta
        k = own
        while k >= 0:
            mine[k] = False
            k = parent[k]
    return levels
