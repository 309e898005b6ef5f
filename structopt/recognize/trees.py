"""The needed-child program on trees: a chosen internal node needs a chosen child (docs/mathematics/hierarchies).

Declared rows: ``z_child <= z_parent`` for every arc, ``sum of children >= z_node`` for every internal node, and
either a fixed root or ``sum of tops >= 1``. The normal form has substituted the fixed root, so that both
declarations read "sum of tops >= 1" here.

Why the LP is integral: with ``z_parent = t`` the children range over t times {z in [0, 1]^k : sum z >= 1}, whose
vertices are integral. By induction from the leaves the value of a subtree is t times that of its best labelling.
"""

from __future__ import annotations

import numpy as np

from structopt.recognize.grouping import BoolArray, IntArray, breadth_first
from structopt.recognize.normalize import NormalForm
from structopt.recognize.patterns import closure_arcs, closure_rows
from structopt.recognize.records import Tree

__all__ = ["build_tree", "tree_blocks"]


#: A form read as trees, whether it is one or not; node n + b is the virtual root of block b. Child and parent of the
#: rows ``z_child <= z_parent``; node and child of every child entry of a cover row; columns of the rows
#: ``sum of tops >= 1``; the lower end of every edge; the node above every column, -1 if no root leads to it; columns
#: and virtual roots, parents first.
_Reading = tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]


def tree_blocks(form: NormalForm) -> BoolArray:
    """Blocks that are one tree each, with every row of the program present and no other."""
    n = form.n_columns
    arcs, covers, tops = closure_rows(form), _cover_rows(form), _top_rows(form)
    passed = form.passing(arcs | covers | tops, form.binary)
    passed &= np.bincount(form.row_block[tops], minlength=form.n_blocks) == 1
    if not passed.any():
        return passed
    child, parent, owner, member, top, edge, above, _ = form.once(_read)

    # A tree: every column reached from its virtual root, and as many edges as columns.
    passed[form.column_block[above < 0]] = False
    count = np.bincount(form.column_block[edge], minlength=form.n_blocks)
    passed &= count == np.bincount(form.column_block, minlength=form.n_blocks)

    # A node with several children has one cover row, which holds just them: the edges of a second row would have
    # been too many. Tops hang from the virtual root.
    children = np.bincount(above[above >= 0], minlength=n + form.n_blocks)
    passed[form.column_block[member[above[member] != owner]]] = False
    covered = np.bincount(owner, minlength=n)
    passed[form.column_block[covered != np.where(children[:n] >= 2, children[:n], 0)]] = False
    passed[form.column_block[top[above[top] < n]]] = False

    # Arcs: every column below another has its arc; an only child also has the reverse one. No arc occurs twice, because
    # the normal form has no repeated rows.
    below = np.flatnonzero((above >= 0) & (above < n))
    only = below[children[above[below]] == 1]
    want = np.concatenate([below, above[only]]) * n + np.concatenate([above[below], only])
    passed[form.column_block[np.setxor1d(child * n + parent, want, assume_unique=True) // max(n, 1)]] = False
    return passed


def build_tree(form: NormalForm) -> Tree:
    """Nodes with parents before children, one virtual root for each block."""
    n = form.n_columns
    *_, above, order = form.once(_read)
    position = np.full(n + form.n_blocks, -1, dtype=np.int64)
    position[order] = np.arange(order.size)
    real = order < n
    parent = np.full(order.size, -1, dtype=np.int64)
    parent[real] = position[above[order[real]]]
    return Tree(np.where(real, order, -1), parent, bool(form.integer.all()))


def _read(form: NormalForm) -> _Reading:
    n = form.n_columns
    covers, tops = _cover_rows(form), _top_rows(form)
    child, parent = closure_arcs(form, closure_rows(form))
    owner, member = _cover_entries(form, covers)
    top = form.column[tops[form.row]]
    # An only child equals its parent, and the rows do not say which is which: both arcs are there, so the edge is
    # taken undirected and turned away from the root by the search.
    low, high = closure_arcs(form, closure_rows(form) & (form.row_lower == form.row_upper))
    a = np.concatenate([n + form.column_block[top], owner, low[low < high]])
    b = np.concatenate([top, member, high[low < high]])
    order, above = breadth_first(a, b, n + np.unique(form.row_block[tops]), n + form.n_blocks)
    above = np.maximum(above[:n], -1)
    return child, parent, owner, member, top, b, above, order


def _cover_rows(form: NormalForm) -> BoolArray:
    """Rows ``sum of two or more children - z_node >= 0`` in either sign."""
    straight = (form.minus == 1) & (form.plus >= 2) & (form.row_lower == 0) & np.isposinf(form.row_upper)
    negated = (form.plus == 1) & (form.minus >= 2) & (form.row_upper == 0) & np.isneginf(form.row_lower)
    return np.asarray(form.unit & (straight | negated))


def _top_rows(form: NormalForm) -> BoolArray:
    """Rows ``sum of tops >= 1``."""
    return np.asarray(form.unit & (form.minus == 0) & (form.row_lower == 1) & np.isposinf(form.row_upper))


def _cover_entries(form: NormalForm, covers: BoolArray) -> tuple[IntArray, IntArray]:
    """(node, child) of every child entry of a cover row; the node has the sign that occurs once."""
    inside = covers[form.row]
    at_node = inside & ((form.value < 0) == (form.minus == 1)[form.row])
    node = np.zeros(form.n_rows, dtype=np.int64)
    node[form.row[at_node]] = form.column[at_node]
    member = inside & ~at_node
    return node[form.row[member]], form.column[member]
