"""Tests of graphs: forests, and the two-colouring of signed rows.

A colouring proves the Heller-Tompkins condition (docs/mathematics/oracles#total-unimodularity).
"""

from __future__ import annotations

import numpy as np

from structopt.recognize._kernels import components
from structopt.recognize.grouping import BoolArray, IntArray
from structopt.space.compiled import FloatArray

__all__ = ["row_classes", "two_ends", "without_cycle"]


def two_ends(column: IntArray, n_columns: int) -> tuple[IntArray, IntArray, IntArray]:
    """The columns with two entries, and the positions of their two entries.

    >>> two_ends(np.array([0, 1, 1]), 2)
    (array([1]), array([1]), array([2]))
    """
    first, last = np.zeros(n_columns, dtype=np.int64), np.zeros(n_columns, dtype=np.int64)
    entries = np.arange(column.size)
    last[column] = entries  # where an index repeats, the last assignment stays
    first[column[::-1]] = entries[::-1]
    two = np.flatnonzero(np.bincount(column, minlength=n_columns) == 2)
    return two, first[two], last[two]


def row_classes(
    row: IntArray, column: IntArray, value: FloatArray, n_rows: int, n_columns: int
) -> tuple[BoolArray, BoolArray]:
    """Split the rows in two classes by the columns with two entries.

    Entries of equal sign require different classes, of opposite sign the same class. Returns the rows for which
    that is impossible (with all rows connected to them), and the class of every row.
    """
    _, first, last = two_ends(column, n_columns)
    a, b, different = row[first], row[last], n_rows * (value[first] == value[last])
    # A second copy of each row stands for the other class: rows joined to their own copies contradict themselves.
    ends = np.concatenate([b + different, b + n_rows - different])
    _, label = components(np.concatenate([a, a + n_rows]), ends, 2 * n_rows)
    here, there = label[:n_rows], label[n_rows:]
    return here == there, here > there


def without_cycle(a: IntArray, b: IntArray, block: IntArray, n_blocks: int) -> BoolArray:
    """Blocks of nodes that the distinct edges ``a - b`` join to forests: as many edges as nodes less trees."""
    count, label = components(a, b, block.size)
    some_node = np.zeros(count, dtype=np.int64)
    some_node[label] = np.arange(block.size)
    n_edges, n_nodes, n_trees = (np.bincount(x, minlength=n_blocks) for x in (block[a], block, block[some_node]))
    return np.asarray(n_edges == n_nodes - n_trees)
