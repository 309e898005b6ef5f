"""Scores and updates restricted to the non-zero features of the current examples (stochastic trainers).

Weights are one flat vector; column k of a term has the ``d`` weights from ``at + k d`` on.
"""

from __future__ import annotations

from typing import Any

from structopt._jit import FloatArray, kernel

__all__ = ["add_parts", "score_rows"]


@kernel
def score_rows(
    data: Any, indices: Any, indptr: Any, v: FloatArray, at: int, d: int, scale: float, scores: FloatArray
) -> None:
    """``scale <x_r, v_k>`` of every CSR row and column into `scores`, without reading any other weight."""
    for r in range(scores.shape[0]):
        for k in range(scores.shape[1]):
            first = at + k * d
            total = 0.0
            for q in range(indptr[r], indptr[r + 1]):
                total += data[q] * v[first + indices[q]]
            scores[r, k] = scale * total


@kernel
def add_parts(
    parts: Any, weight: FloatArray, features: Any, at: int, d: int, v: FloatArray, u: FloatArray, share: float
) -> None:
    """``v += delta`` and ``u += share delta``, where delta is the sum of ``weight_r value x_r`` over parts (r, k).

    `parts` is a table of part values as (indptr, columns, values), `weight` has an entry per feature row, `features` is
    (sparse, X, data, indices, indptr), the unused ones empty.
    """
    part_ptr, column, value = parts
    sparse, X, data, indices, indptr = features
    for r in range(weight.size):
        if weight[r] == 0.0:
            continue
        for p in range(part_ptr[r], part_ptr[r + 1]):
            step = weight[r] * value[p]
            first = at + column[p] * d
            if sparse:
                for q in range(indptr[r], indptr[r + 1]):
                    delta = step * data[q]
                    v[first + indices[q]] += delta
                    u[first + indices[q]] += share * delta
            else:
                for j in range(d):
                    delta = step * X[r, j]
                    v[first + j] += delta
                    u[first + j] += share * delta
