"""Structures with at most two entries +-1 a column: assignment, path in a DAG, flow (docs/mathematics/oracles)."""

from __future__ import annotations

import numpy as np

from structopt._jit.graphs import topological_order
from structopt.recognize._kernels import reachable
from structopt.recognize.classes import row_classes, two_ends
from structopt.recognize.grouping import BoolArray, IntArray, group_by, repeated_pairs
from structopt.recognize.normalize import NormalForm
from structopt.recognize.records import Assignment, Path
from structopt.space.compiled import FloatArray

__all__ = [
    "are_paths",
    "assignment_blocks",
    "build_assignment",
    "build_path",
    "flow_blocks",
    "path_blocks",
]


def _classes(form: NormalForm) -> tuple[BoolArray, BoolArray]:
    return row_classes(form.row, form.column, form.value, form.n_rows, form.n_columns)


def assignment_blocks(form: NormalForm) -> BoolArray:
    """Rows ``sum = 1`` or ``sum <= 1`` of 0/1 columns, one or two rows a column, rows 2-colourable.

    A column with one row has lost its other end because no other column needed it: it gets a private node.
    """
    rows = form.unit & (form.minus == 0) & (form.row_upper == 1)
    rows &= (form.row_lower == 1) | np.isneginf(form.row_lower)
    passed = form.passing(rows, form.binary & (form.degree >= 1) & (form.degree <= 2))
    if not passed.any():
        return passed
    passed[form.row_block[form.once(_classes)[0]]] = False
    # The oracle holds one score for each pair.
    _, first, last = two_ends(form.column, form.n_columns)
    passed[form.row_block[repeated_pairs(form.row[first], form.row[last], form.n_rows)]] = False  # rows ascend
    return passed


def build_assignment(form: NormalForm) -> Assignment:
    """Left and right node of every column, numbered block by block."""
    form = form.split()
    m, n = form.n_rows, form.n_columns
    columns, first, last = two_ends(form.column, n)
    side = form.once(_classes)[1].astype(np.int64)
    single = np.flatnonzero(form.degree == 1)
    row_of = np.zeros(n, dtype=np.int64)
    row_of[form.column] = form.row
    # Nodes: the rows, then a private node for every column with one row, on the other side of that row.
    node_side = np.concatenate([side, 1 - side[row_of[single]]])
    node_block = np.concatenate([form.row_block, form.column_block[single]])
    required = np.concatenate([form.row_lower == 1, np.zeros(single.size, dtype=bool)])
    ends = np.zeros((n, 2), dtype=np.int64)
    ends[columns, 0], ends[columns, 1] = form.row[first], form.row[last]
    ends[single, 0], ends[single, 1] = row_of[single], m + np.arange(single.size)

    size = np.bincount(node_block * 2 + node_side, minlength=2 * form.n_blocks).reshape(-1, 2)
    swap = size[:, 1] < size[:, 0]
    node_side = node_side ^ swap[node_block]
    size = np.where(swap[:, None], size[:, ::-1], size)
    number, needed = np.zeros(node_side.size, dtype=np.int64), []
    for s in (0, 1):
        nodes = np.flatnonzero(node_side == s)
        nodes = nodes[group_by(node_block[nodes], form.n_blocks)[0]]
        number[nodes] = np.arange(nodes.size)
        needed.append(required[nodes])
    on_left = node_side[ends[:, 0]] == 0
    left = np.where(on_left, ends[:, 0], ends[:, 1])
    right = np.where(on_left, ends[:, 1], ends[:, 0])
    ptr = np.vstack([np.zeros((1, 2), dtype=np.int64), np.cumsum(size, axis=0)])
    return Assignment(number[left], number[right], needed[0], needed[1], ptr[:, 0].copy(), ptr[:, 1].copy())


def flow_blocks(form: NormalForm) -> BoolArray:
    """Network matrices: +-1 entries, at most two a column, Heller-Tompkins classes exist."""
    passed = form.passing(form.unit, form.degree <= 2)
    if passed.any():
        odd, _ = form.once(_classes)
        passed[form.row_block[odd]] = False
    return passed


#: An equality network: tails and heads of the arcs, outflow and block of every node, nodes in topological order, and
#: the arcs by tail: pointers and arcs.
_UnitNetwork = tuple[IntArray, IntArray, FloatArray, IntArray, IntArray, IntArray, IntArray]


def _unit_network(form: NormalForm) -> _UnitNetwork:
    """Read an equality network.

    Nodes are the rows, those of one class negated, then one root for each block with a column that lacks an end.
    """
    m, n = form.n_rows, form.n_columns
    negated = form.once(_classes)[1]
    out = (form.value > 0) != negated[form.row]
    tail, head = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    tail[form.column[out]] = form.row[out]
    head[form.column[~out]] = form.row[~out]
    lacking = np.unique(form.column_block[(tail < 0) | (head < 0)])
    root = np.zeros(form.n_blocks, dtype=np.int64)
    root[lacking] = m + np.arange(lacking.size)
    tail = np.where(tail < 0, root[form.column_block], tail)
    head = np.where(head < 0, root[form.column_block], head)
    block = np.concatenate([form.row_block, lacking])
    # A root sends what the others of its block receive.
    supply = np.where(negated, -form.row_upper, form.row_lower)
    total = np.bincount(form.row_block, weights=supply, minlength=form.n_blocks)
    arc, ptr = group_by(tail, block.size)
    return tail, head, np.append(supply, -total[lacking]), block, topological_order(ptr, head[arc]), ptr, arc


def path_blocks(form: NormalForm) -> BoolArray:
    """Unit flow from one node to one other in an acyclic graph with capacities of at least 1.

    Flow conservation in node-arc form, in any row signs and with one redundant row possibly missing. In an acyclic
    graph every unit flow is a mixture of paths, so the vertices are the paths and capacities >= 1 never bind.
    """
    equal = (form.row_lower == form.row_upper) & (np.abs(form.row_lower) <= 1) & form.whole_rows
    columns = (form.degree >= 1) & (form.lower == 0) & (form.upper >= 1)
    passed = form.passing(equal, columns)
    if passed.any():
        passed &= flow_blocks(form)
    if not passed.any():
        return passed
    inner = form.select(passed)
    _, head, supply, block, order, ptr, arc = inner.once(_unit_network)

    def count(mask: BoolArray) -> IntArray:
        return np.bincount(block[mask], minlength=inner.n_blocks)

    good = (count(supply == 1) == 1) & (count(supply == -1) == 1) & (count(np.abs(supply) > 1) == 0)
    cyclic = np.ones(block.size, dtype=bool)  # on or behind a cycle
    cyclic[order] = False
    good[block[cyclic]] = False
    reached = reachable(ptr, head[arc], order, supply == 1)
    good[block[(supply == -1) & ~reached]] = False
    passed[np.flatnonzero(passed)[~good]] = False
    return passed


def build_path(form: NormalForm) -> Path:
    """Arcs by tail, topological order, sources and sinks."""
    tail, head, supply, block, order, ptr, arc = form.once(_unit_network)
    ends = (np.flatnonzero(supply == sign) for sign in (1, -1))
    sources, sinks = (nodes[group_by(block[nodes], form.n_blocks)[0]] for nodes in ends)
    integer = are_paths(tail, head, form.integer)
    return Path(tail, head, order, ptr, arc, sources, sinks, integer)


def are_paths(tail: IntArray, head: IntArray, integer: BoolArray) -> bool:
    """Return whether every unit flow is a path if its values on the integer arcs are integers.

    Such a flow is a mixture of paths that agree in the integer arcs. They are one path if no two of the other arcs
    follow each other or are parallel.
    """
    if integer.all():
        return True
    tail, head = tail[~integer], head[~integer]
    return not np.isin(tail, head).any() and np.unique(np.stack([tail, head]), axis=1).shape[1] == tail.size
