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
    differing_rows,
    group_by,
    pattern,
    repeated_in_rows,
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


def _pair_rows(form: NormalForm) -> tuple[BoolArray, BoolArray]:
    """Rows ``p >= y_j + y_k - 1`` in either sign, and which of them are written negated."""
    flipped = form.plus == 2
    low = np.where(flipped, -form.row_upper, form.row_lower)
    high = np.where(flipped, -form.row_lower, form.row_upper)
    # An upper side of 0 or more is implied by p <= y_j.
    rows = form.unit & (form.plus + form.minus == 3) & ((form.plus == 1) | flipped) & (low == -1) & (high >= 0)
    return rows, flipped


def _pair_entries(form: NormalForm) -> tuple[BoolArray, BoolArray]:
    """Entries of the pair rows at their p, and at their two labels."""
    rows, flipped = _pair_rows(form)
    in_rows = rows[form.row]
    at_pair = in_rows & ((form.value > 0) != flipped[form.row])
    return at_pair, in_rows & ~at_pair


def pairwise_blocks(form: NormalForm) -> BoolArray:
    """``p >= y_j + y_k - 1, p <= y_j, p <= y_k``, each pair of labels once, all in [0, 1]."""
    n = form.n_columns
    rows, _ = _pair_rows(form)
    at_pair, at_label = _pair_entries(form)
    is_pair, is_label = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    is_pair[form.column[at_pair]] = True
    is_label[form.column[at_label]] = True
    if not is_pair.any():
        return np.zeros(form.n_blocks, dtype=bool)
    short = closure_rows(form) & (form.row_lower != form.row_upper)
    columns = np.where(is_pair, (form.lower == 0) & (form.upper >= 1) & ~is_label, form.binary)
    passed = form.passing(rows | short, columns)

    # The (p, y) couples of the long rows and of the rows p <= y must be the same set, two for each p.
    p_of_row = np.zeros(form.n_rows, dtype=np.int64)
    p_of_row[form.row[at_pair]] = form.column[at_pair]
    couples = pattern(p_of_row[form.row[at_label]], form.column[at_label], n, n)
    short_couples = pattern(*closure_arcs(form, short), n, n)
    passed[form.column_block[differing_rows(couples, short_couples)]] = False
    labels_of = np.diff(couples.indptr)
    passed[form.column_block[is_pair & (labels_of != 2)]] = False
    if not passed.any():
        return passed
    sound = np.repeat(passed[form.column_block], labels_of)
    ends = couples.indices[sound].reshape(-1, 2).astype(np.int64)  # ascending
    # A second p for the same two labels is not what the oracle expects.
    passed[form.column_block[repeated_in_rows(pattern(ends[:, 0], ends[:, 1], n, n))]] = False
    _reject_mixed_integrality(form, is_pair, ends, passed)
    return passed


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
    n = form.n_columns
    at_pair, at_label = _pair_entries(form)
    pair_by_row = form.column[at_pair]
    ends = form.column[at_label].reshape(-1, 2)  # ascending within a row: entries are sorted
    pair, first = np.unique(pair_by_row, return_index=True)
    ends = np.sort(ends[first], axis=1)
    is_pair = np.zeros(n, dtype=bool)
    is_pair[pair] = True
    position = np.cumsum(~is_pair) - 1
    forest = bool(_forest_blocks(form, ends).all())
    return Pairwise(
        np.flatnonzero(~is_pair),
        pair,
        position[ends[:, 0]],
        position[ends[:, 1]],
        bool(form.integer.any()),
        forest,
    )
