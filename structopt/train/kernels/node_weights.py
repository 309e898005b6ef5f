"""Scores and updates of node weights stored feature by feature, for sparse examples and many nodes.

The weights of one feature at all nodes lie together, so that an example reads one run of memory per non-zero feature
and not one cache line per feature and node (`sparse_steps` has the other order, which suits few columns). Weights are
dense, ``(features, nodes)``, or kept only where a node has met the feature: a CSR pattern ``(ptr, node)`` by feature.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import FloatArray, IntArray, inlined, kernel

__all__ = ["add_dense", "add_seen", "count_seen", "fill_seen", "leaf_steps", "score_dense", "score_seen"]


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
