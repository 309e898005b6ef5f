"""Products of feature rows, dense or CSR, with weights and each other; sums in any order, so that they vectorise."""

from __future__ import annotations

from typing import Any

from structopt._jit import any_order

__all__ = ["dense_add", "dense_dot", "rows_dot", "sparse_add", "sparse_dot"]


# The products take few arguments: passing more takes longer than a product of 128 terms.
@any_order
def dense_dot(X: Any, row: int, w: Any, at: int) -> float:
    x = X[row]
    v = w[at : at + x.size]  # j alone is known not to be negative, and so the loop vectorises
    total = 0.0
    for j in range(x.size):
        total += x[j] * v[j]
    return total


@any_order
def dense_add(X: Any, row: int, step: float, w: Any, at: int) -> None:
    x = X[row]
    v = w[at : at + x.size]
    for j in range(x.size):
        v[j] += step * x[j]


@any_order
def sparse_dot(data: Any, indices: Any, first: int, last: int, w: Any, at: int) -> float:
    total = 0.0
    for q in range(first, last):
        total += data[q] * w[at + indices[q]]
    return total


@any_order
def sparse_add(data: Any, indices: Any, first: int, last: int, step: float, w: Any, at: int) -> None:
    for q in range(first, last):
        w[at + indices[q]] += step * data[q]


@any_order
def rows_dot(X: Any, data: Any, indices: Any, indptr: Any, a: int, b: int) -> float:
    """<x_a, x_b>; indices of sparse rows are sorted."""
    total = 0.0
    if indptr.size > 1:
        p, q = indptr[a], indptr[b]
        while p < indptr[a + 1] and q < indptr[b + 1]:
            if indices[p] == indices[q]:
                total += data[p] * data[q]
                p += 1
                q += 1
            elif indices[p] < indices[q]:
                p += 1
            else:
                q += 1
    else:
        x, y = X[a], X[b]
        for j in range(x.size):
            total += x[j] * y[j]
    return total
