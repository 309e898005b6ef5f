"""Grouping of entries by small integers in linear time, without a sort."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from structopt.space.compiled import FloatArray

__all__ = [
    "BoolArray",
    "IntArray",
    "breadth_first",
    "group_by",
    "repeated_pairs",
    "repeated_rows",
]

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


def repeated_pairs(a: IntArray, b: IntArray, n: int) -> IntArray:
    """First numbers of the pairs (a, b) that occur more than once; b is below n."""
    code = np.sort(a * n + b)
    return np.asarray(code[1:][code[1:] == code[:-1]] // max(n, 1))


def breadth_first(a: IntArray, b: IntArray, roots: IntArray, start: int) -> tuple[IntArray, IntArray]:
    """Nodes that edges ``a - b`` join to the roots, breadth first, and from which node each one is reached.

    The last node, `start`, stands above the roots; a node that is not reached has a negative number.
    """
    tails = np.concatenate([np.full(roots.size, start), a, b])
    heads = np.concatenate([roots, b, a])
    graph = sp.coo_array((np.ones(tails.size, np.int8), (tails, heads)), shape=(start + 1, start + 1)).tocsr()
    order, above = breadth_first_order(graph, start, directed=True, return_predecessors=True)
    return order[1:].astype(np.int64), above.astype(np.int64)


def repeated_rows(
    row: IntArray, column: IntArray, value: FloatArray, some: BoolArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Rows among `some` that repeat an earlier one up to their sign, these earlier rows, and the signs.

    Entries are 1 or -1, in row order, the columns of a row ascending.
    """
    count = np.bincount(row, minlength=some.size)
    start = np.concatenate([[0], np.cumsum(count)])
    rows = np.flatnonzero(some & (count > 1))
    # Rows that repeat one another are as long and begin and end in the same columns: in most spaces no two do.
    ends = column[start[rows]] * (1 + int(column.max(initial=0))) + column[start[rows + 1] - 1]
    _, number, times = np.unique(
        ends * (1 + int(count.max(initial=0))) + count[rows], return_inverse=True, return_counts=True
    )
    rows = rows[times[number] > 1]
    if not rows.size:
        return rows, rows, np.zeros(0)
    sign = value[start[rows]]
    # Rows of equal sums of random numbers are compared entry by entry.
    weight = np.random.default_rng(0).integers(1, 2**62, size=int(column.max()) + 1, dtype=np.int64)
    entries = _spans(start[rows], count[rows])
    relative = value[entries] * np.repeat(sign, count[rows])
    sums = np.add.reduceat(weight[column[entries]] * relative.astype(np.int64), np.cumsum(count[rows]) - count[rows])
    order = np.lexsort((rows, sums, count[rows]))
    rows, sign, sums = rows[order], sign[order], sums[order]
    first = np.append(True, (sums[1:] != sums[:-1]) | (count[rows[1:]] != count[rows[:-1]]))
    head = np.flatnonzero(first)[np.cumsum(first) - 1]
    later = np.flatnonzero(~first)
    rows, kept, turned = rows[later], rows[head[later]], sign[later] * sign[head[later]]
    a, b = _spans(start[rows], count[rows]), _spans(start[kept], count[rows])
    differ = (column[a] != column[b]) | (value[a] != value[b] * np.repeat(turned, count[rows]))
    equal = np.bincount(np.repeat(np.arange(rows.size), count[rows]), differ, rows.size) == 0
    return rows[equal], kept[equal], turned[equal]


def _spans(start: IntArray, length: IntArray) -> IntArray:
    """Return ``start[k], ..., start[k] + length[k] - 1`` for every k."""
    return np.arange(length.sum()) + np.repeat(start - np.cumsum(length) + length, length)
