"""The needed-child program on trees: a chosen internal node needs a chosen child (MATH.md 6.5).

Declared rows: ``z_child <= z_parent`` for every arc, ``sum of children >= z_node`` for every internal node, and
either a fixed root or ``sum of tops >= 1``. The normal form has substituted the fixed root, so that both
declarations read "sum of tops >= 1" here.

Why the LP is integral: with ``z_parent = t`` the children range over t times {z in [0, 1]^k : sum z >= 1}, whose
vertices are integral. By induction from the leaves the value of a subtree is t times that of its best labelling.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from structopt.recognize.grouping import BoolArray, IntArray, differing_rows, pattern
from structopt.recognize.normalize import NormalForm
from structopt.recognize.patterns import closure_arcs, closure_rows
from structopt.recognize.structure import Tree

__all__ = ["build_tree", "tree_blocks"]


def tree_blocks(form: NormalForm) -> BoolArray:
    """Blocks that are one tree each, with every row of the program present and no other."""
    n = form.n_columns
    arcs, covers, tops = closure_rows(form), _cover_rows(form), _top_rows(form)
    passed = form.passing(arcs | covers | tops, form.binary)
    passed &= np.bincount(form.row_block[tops], minlength=form.n_blocks) == 1
    if not passed.any():
        return passed
    child, parent = closure_arcs(form, arcs)
    edges_a, edges_b = _edges(form, covers, tops, child, parent)
    above, _ = _parents(form, edges_a, edges_b, passed)
    columns = np.arange(n)

    # A tree: every column reached from its virtual root (node n + block), and as many edges as columns.
    passed[form.column_block[above < 0]] = False
    count = np.bincount(form.column_block[edges_b], minlength=form.n_blocks)
    passed &= count == np.bincount(form.column_block, minlength=form.n_blocks)

    # Cover rows hold exactly the children of their node.
    children = np.bincount(above[above >= 0], minlength=n + form.n_blocks)
    owner, member, size = _cover_entries(form, covers)
    passed[form.column_block[member[above[member] != owner]]] = False
    covered = np.bincount(owner, minlength=n)
    needs = np.where(children[:n] >= 2, children[:n], 0)
    passed[form.column_block[covered != needs]] = False
    passed[form.row_block[covers][size != children[_owners(form, covers)]]] = False
    top_entries = tops[form.row]
    top = form.column[top_entries]
    passed[form.column_block[top[above[top] < n]]] = False

    # Arcs: every column below another has its arc; an only child also has the reverse one.
    below = columns[(above >= 0) & (above < n)]
    only = below[children[above[below]] == 1]
    want = pattern(np.concatenate([below, above[only]]), np.concatenate([above[below], only]), n, n)
    passed[form.column_block[differing_rows(pattern(child, parent, n, n), want)]] = False
    return passed


def build_tree(form: NormalForm) -> Tree:
    """Nodes with parents before children, one virtual root for each block."""
    arcs, covers, tops = closure_rows(form), _cover_rows(form), _top_rows(form)
    child, parent = closure_arcs(form, arcs)
    n = form.n_columns
    edges = _edges(form, covers, tops, child, parent)
    above, order = _parents(form, *edges, np.ones(form.n_blocks, dtype=bool))
    position = np.full(n + form.n_blocks, -1, dtype=np.int64)
    position[order] = np.arange(order.size)
    real = order < n
    result = np.full(order.size, -1, dtype=np.int64)
    result[real] = position[above[order[real]]]
    return Tree(np.where(real, order, -1), result)


def _cover_rows(form: NormalForm) -> BoolArray:
    """Rows ``sum of two or more children - z_node >= 0`` in either sign."""
    straight = (form.minus == 1) & (form.plus >= 2) & (form.row_lower == 0) & np.isposinf(form.row_upper)
    negated = (form.plus == 1) & (form.minus >= 2) & (form.row_upper == 0) & np.isneginf(form.row_lower)
    return np.asarray(form.unit & (straight | negated))


def _top_rows(form: NormalForm) -> BoolArray:
    """Rows ``sum of tops >= 1``."""
    return np.asarray(form.unit & (form.minus == 0) & (form.row_lower == 1) & np.isposinf(form.row_upper))


def _owner_entries(form: NormalForm, covers: BoolArray) -> BoolArray:
    """Entries of cover rows at the node itself, which has the sign that occurs once."""
    return np.asarray(covers[form.row] & ((form.value < 0) == (form.minus == 1)[form.row]))


def _owners(form: NormalForm, covers: BoolArray) -> IntArray:
    """The node of every cover row, in row order."""
    return form.column[_owner_entries(form, covers)]


def _cover_entries(form: NormalForm, covers: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
    """(node, child) of every child entry of a cover row, and the number of children by cover row."""
    at_owner = _owner_entries(form, covers)
    member = covers[form.row] & ~at_owner
    node = np.zeros(form.n_rows, dtype=np.int64)
    node[form.row[at_owner]] = form.column[at_owner]
    size = np.bincount(form.row[member], minlength=form.n_rows)[covers]
    return node[form.row[member]], form.column[member], size


def _edges(
    form: NormalForm, covers: BoolArray, tops: BoolArray, child: IntArray, parent: IntArray
) -> tuple[IntArray, IntArray]:
    """Undirected edges of the tree; the second end is always a column, the first may be a virtual root.

    An only child equals its parent, and the rows do not say which is which: both arcs are there, so the edge is
    taken here and directed later, away from the root.
    """
    n = form.n_columns
    owner, member, _ = _cover_entries(form, covers)
    entries = tops[form.row]
    top = form.column[entries]
    arcs = pattern(child, parent, n, n)
    mutual = sp.triu(arcs.multiply(arcs.T), format="coo")
    first = np.concatenate([n + form.column_block[top], owner, mutual.row])
    return first, np.concatenate([top, member, mutual.col])


def _parents(form: NormalForm, a: IntArray, b: IntArray, blocks: BoolArray) -> tuple[IntArray, IntArray]:
    """The node above every column (-1 if not reached), and columns and virtual roots parents first."""
    n = form.n_columns
    start = n + form.n_blocks  # joins the virtual roots of the blocks
    roots = n + np.flatnonzero(blocks)
    tails, heads = np.concatenate([np.full(roots.size, start), a, b]), np.concatenate([roots, b, a])
    graph = sp.coo_array((np.ones(tails.size, np.int8), (tails, heads)), shape=(start + 1, start + 1)).tocsr()
    order, above = breadth_first_order(graph, start, directed=True, return_predecessors=True)
    above = np.where(above[:n] < 0, -1, above[:n]).astype(np.int64)
    return above, order[1:].astype(np.int64)
