"""Scores and updates of node weights stored feature by feature, for sparse examples and many nodes.

The weights of one feature at all nodes lie together, so that an example reads one run of memory per non-zero feature
and not one cache line per feature and node (`sparse_steps` has the other order, which suits few columns). Weights are
dense, ``(features, nodes)``, or kept only where a node has met the feature: a CSR pattern ``(ptr, node)`` by feature.
"""

from __future__ import annotations

from typing import Any

from structopt.kernels._common import FloatArray, IntArray, kernel

__all__ = ["add_dense", "add_seen", "count_seen", "fill_seen", "score_dense", "score_seen"]


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
    example: Any, by_feature: Any, label_ptr: Any, label_node: Any, n_nodes: int, counts: IntArray, stamp: IntArray
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
