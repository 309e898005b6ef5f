"""Grouping of entries by small integers in linear time, without a sort."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

__all__ = ["BoolArray", "IntArray", "breadth_first", "differing_rows", "group_by", "pattern", "repeated_in_rows"]

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def group_by(key: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Stable order of `key` (integers below n) and where each value starts: a counting sort.

    >>> group_by(np.array([2, 0, 2, 1]), 3)
    (array([1, 3, 0, 2]), array([0, 1, 2, 4]))
    """
    # csr_tocsc is a stable counting sort by column; a matrix of one row may repeat its columns.
    one_row = sp.csr_array((np.arange(key.size), key, np.array([0, key.size])), shape=(1, max(n, 1)))
    by_column = one_row.tocsc()
    return by_column.data, by_column.indptr[: n + 1].astype(np.int64)


def pattern(row: IntArray, column: IntArray, n_rows: int, n_columns: int) -> sp.csr_array:
    """How often each (row, column) occurs, as a canonical sparse matrix."""
    ones = np.ones(row.size, dtype=np.int32)
    return sp.coo_array((ones, (row, column)), shape=(n_rows, n_columns)).tocsr()


def differing_rows(a: sp.csr_array, b: sp.csr_array) -> IntArray:
    """Rows in which two `pattern` matrices do not occupy the same places."""
    if np.array_equal(a.indptr, b.indptr) and np.array_equal(a.indices, b.indices):
        return np.zeros(0, dtype=np.int64)
    places = [sp.csr_array((np.ones(x.nnz, np.int8), x.indices, x.indptr), shape=x.shape) for x in (a, b)]
    difference = (places[0] - places[1]).tocoo()
    return np.unique(difference.row[difference.data != 0]).astype(np.int64)


def repeated_in_rows(a: sp.csr_array) -> IntArray:
    """Rows in which some (row, column) occurred more than once."""
    return np.unique(a.tocoo().row[a.data > 1]).astype(np.int64)


def breadth_first(a: IntArray, b: IntArray, roots: IntArray, start: int) -> tuple[IntArray, IntArray]:
    """Nodes that edges ``a - b`` join to the roots, breadth first, and from which node each one is reached.

    The last node, `start`, stands above the roots; a node that is not reached has a negative number.
    """
    tails = np.concatenate([np.full(roots.size, start), a, b])
    heads = np.concatenate([roots, b, a])
    graph = sp.coo_array((np.ones(tails.size, np.int8), (tails, heads)), shape=(start + 1, start + 1)).tocsr()
    order, above = breadth_first_order(graph, start, directed=True, return_predecessors=True)
    return order[1:].astype(np.int64), above.astype(np.int64)
