"""Structures that are read off row by row: box, simplices, cardinality groups, closure, pairwise polytope.

For each kind there is a test, ``*_blocks(form)``, which marks the blocks of a `NormalForm` that have the
structure, and a builder, which makes the index arrays for a form all of whose blocks passed. Tests never loop over
blocks, so that ten thousand small blocks take no more time than one large one.
"""

from __future__ import annotations

import numpy as np

from structopt._jit.graphs import topological_order
from structopt.recognize.classes import without_cycle
from structopt.recognize.grouping import (
    BoolArray,
    IntArray,
    group_by,
    repeated_pairs,
)
from structopt.recognize.normalize import NormalForm
from structopt.recognize.records import Box, Cardinality, Closure, Pairwise

__all__ = [
    "box_blocks",
    "build_box",
    "build_cardinality",
    "build_closure",
    "build_pairwise",
    "cardinality_blocks",
    "closure_arcs",
    "closure_blocks",
    "closure_rows",
    "forest_order",
    "pairwise_blocks",
    "read_factors",
    "simplices_blocks",
]


def box_blocks(form: NormalForm) -> BoolArray:
    """Columns that no row mentions, with finite bounds (integral ones where the column is integer)."""
    finite = np.isfinite(form.lower) & np.isfinite(form.upper)
    return form.passing(np.zeros(form.n_rows, dtype=bool), finite & (form.whole_columns | ~form.integer))


def build_box(form: NormalForm) -> Box:
    """Bounds of the columns."""
    return Box(form.lower, form.upper)


def cardinality_blocks(form: NormalForm) -> BoolArray:
    """Rows ``L <= sum <= U`` of 0/1 columns, at most one row a column; an interval matrix."""
    # The normal form has dropped sides that are implied, so a finite side that cannot hold is a conflict there.
    rows = form.unit & (form.minus == 0) & form.whole_rows
    rows &= (form.row_lower <= form.row_upper) & (form.row_upper >= 0) & (form.row_lower <= form.plus)
    return form.passing(rows, form.binary & (form.degree <= 1))


def simplices_blocks(form: NormalForm) -> BoolArray:
    """Cardinality groups with bounds (1, 1) or (0, 1)."""
    rows = form.unit & (form.minus == 0) & (form.row_upper == 1)
    rows &= (form.row_lower == 1) | np.isneginf(form.row_lower)
    return form.passing(rows, form.binary & (form.degree <= 1))


def build_cardinality(form: NormalForm) -> Cardinality:
    """Groups and how many members they may have."""
    group = np.full(form.n_columns, -1, dtype=np.int64)
    group[form.column] = form.row
    ptr = np.concatenate([[0], np.cumsum(form.plus)]).astype(np.int64)
    lower, upper = np.maximum(form.row_lower, 0), np.minimum(form.row_upper, form.plus)
    return Cardinality(group, ptr, form.column, lower.astype(np.int64), upper.astype(np.int64))


def closure_rows(form: NormalForm) -> BoolArray:
    """Rows ``y_child <= y_parent`` or ``y_a == y_b``: one +1, one -1, and a bound 0 on one side or both."""
    low, high = form.row_lower, form.row_upper
    sides = (np.isneginf(low) & (high == 0)) | ((low == 0) & (np.isposinf(high) | (high == 0)))
    return np.asarray(form.unit & (form.plus == 1) & (form.minus == 1) & sides)


def closure_arcs(form: NormalForm, rows: BoolArray) -> tuple[IntArray, IntArray]:
    """(child, parent) columns of the given `closure_rows`; an equality gives both directions."""
    entries = rows[form.row]
    column, positive = form.column[entries], form.value[entries] > 0
    plus, minus = column[positive], column[~positive]  # both in row order
    upper, lower = form.row_upper[rows] == 0, form.row_lower[rows] == 0
    child = np.concatenate([plus[upper], minus[lower]])
    parent = np.concatenate([minus[upper], plus[lower]])
    return child, parent


def closure_blocks(form: NormalForm) -> BoolArray:
    """Only closure rows over 0/1 columns: the transpose is a network matrix."""
    return form.passing(closure_rows(form), form.binary)


def build_closure(form: NormalForm) -> Closure:
    """Arcs of the rows."""
    child, parent = closure_arcs(form, np.ones(form.n_rows, dtype=bool))
    return Closure(child, parent, bool(form.integer.all()))


def forest_order(child: IntArray, parent: IntArray, n: int) -> tuple[IntArray, IntArray] | None:
    """Nodes parents first and the parents' positions, or None if a node has two parents or there is a cycle."""
    above = np.full(n, -1, dtype=np.int64)
    above[child] = parent
    if (above[child] != parent).any():
        return None
    below = np.flatnonzero(above >= 0)
    by_parent, ptr = group_by(above[below], n)
    order = topological_order(ptr, below[by_parent])
    position = np.full(n + 1, -1, dtype=np.int64)  # the last one is that of no parent
    position[order] = np.arange(order.size)
    return (order, position[above[order]]) if order.size == n else None


def pairwise_blocks(form: NormalForm) -> BoolArray:
    """``p >= y_j + y_k - 1, p <= y_j, p <= y_k``, each pair of labels once, all in [0, 1]."""
    return form.once(_read_pairs)[0]


def _read_pairs(form: NormalForm) -> tuple[BoolArray, IntArray, IntArray]:
    """Blocks that pass, the columns of their pairs, and the columns of the two labels of each pair."""
    n = form.n_columns
    flipped = form.plus == 2
    low = np.where(flipped, -form.row_upper, form.row_lower)
    high = np.where(flipped, -form.row_lower, form.row_upper)
    # Rows p >= y_j + y_k - 1 in either sign. An upper side of 0 or more is implied by p <= y_j.
    rows = form.unit & (form.plus + form.minus == 3) & ((form.plus == 1) | flipped) & (low == -1) & (high >= 0)
    in_rows = rows[form.row]
    at_pair = in_rows & ((form.value > 0) != flipped[form.row])
    p, labels = form.column[at_pair], form.column[in_rows & ~at_pair].reshape(-1, 2)
    ends = np.full((n, 2), -1, dtype=np.int64)
    if not p.size:
        return np.zeros(form.n_blocks, dtype=bool), p, ends[p]
    is_pair = np.zeros(n, dtype=bool)
    is_pair[p] = True
    short = closure_rows(form) & (form.row_lower != form.row_upper)
    passed = form.passing(rows | short, np.where(is_pair, (form.lower == 0) & (form.upper >= 1), form.binary))
    passed[form.column_block[labels[is_pair[labels]]]] = False
    read_factors(form, passed, ends, p, labels, *closure_arcs(form, short))
    pair = np.flatnonzero(is_pair & passed[form.column_block])
    ends = ends[pair]
    # A second p for the same two labels is not what the oracle expects.
    passed[form.column_block[repeated_pairs(ends[:, 0], ends[:, 1], n)]] = False
    _reject_mixed_integrality(form, is_pair, ends, passed)
    return passed, pair, ends


def read_factors(
    form: NormalForm, passed: BoolArray, ends: IntArray, p: IntArray, labels: IntArray, q: IntArray, label: IntArray
) -> None:
    """Write the factors of products into `ends`, a row per column, by rows ``p >= y + y' - 1`` and ``q <= y``.

    Blocks fail if two rows disagree on the factors of a column, which are given if its first entry in `ends` is not
    -1, or if some row of a product is missing whose factors are not given.
    """
    given = ends[:, 0] >= 0
    new = ~given[p]
    ends[p[new]] = labels[new]
    passed[form.column_block[p[(ends[p] != labels).any(axis=1)]]] = False
    is_end = ends[q] == label[:, None]
    passed[form.column_block[q[~is_end.any(axis=1)]]] = False
    below = np.zeros(ends.shape, dtype=bool)
    row, end = np.nonzero(is_end)
    below[q[row], end] = True
    passed[form.column_block[~given & (ends[:, 0] >= 0) & ~below.all(axis=1)]] = False


def _reject_mixed_integrality(form: NormalForm, is_pair: BoolArray, ends: IntArray, passed: BoolArray) -> None:
    """Neither oracle fits if some labels are integer and others not, unless a forest makes all vertices integral."""

    def count(mask: BoolArray) -> IntArray:
        return np.bincount(form.column_block[mask], minlength=form.n_blocks)

    integers = count(form.integer)
    mixed = passed & (integers > 0) & (count(form.integer & ~is_pair) != count(~is_pair))
    if mixed.any():
        passed &= ~mixed | _forest_blocks(form, ends)


def _forest_blocks(form: NormalForm, ends: IntArray) -> BoolArray:
    """Blocks in which the pairs of labels form a forest."""
    return without_cycle(ends[:, 0].copy(), ends[:, 1].copy(), form.column_block, form.n_blocks)


def build_pairwise(form: NormalForm) -> Pairwise:
    """Labels, pairs and their ends."""
    _, pair, ends = form.once(_read_pairs)
    is_label = np.ones(form.n_columns, dtype=bool)
    is_label[pair] = False
    position = np.cumsum(is_label) - 1
    return Pairwise(
        np.flatnonzero(is_label),
        pair,
        position[ends[:, 0]],
        position[ends[:, 1]],
        bool(form.integer.any()),
        bool(_forest_blocks(form, ends).all()),
    )
