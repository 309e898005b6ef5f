"""One-of-many groups on a forest: the local marginal polytope of chains and trees, as people write it.

Declared rows, in any order and sign::

    sum_s y[a, s] = 1                                  one state of every group
    sum_k p[s, k] = y[a, s],  sum_s p[s, k] = y[b, k]  the pair variables of an edge {a, b} have y as their marginals
    y[a, s] + y[b, k] <= 1                             a pair of states that may not meet, without a variable

A pair variable that is missing, or fixed to 0, forbids its pair. The first kind of row may be left out for a group
whose neighbour has it, because both sums equal the sum of the pair variables between them.

Why a dynamic program is exact: the groups, joined by their edges, form a forest, so that a labelling is chosen from
the leaves to the roots; on such graphs the marginal rows describe the convex hull of the labellings (junction trees
of width one), so the relaxation is integral, too. Rows ``y + y' <= 1`` do not describe the hull, and are taken only
where all states are integer variables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from structopt.recognize._kernels import components, signed_components
from structopt.recognize.grouping import BoolArray, IntArray
from structopt.recognize.normalize import NormalForm
from structopt.recognize.structure import GroupForest

__all__ = ["build_forest", "forest_blocks"]

_UNKNOWN, _STATE, _PAIR = 0, 1, 2
#: Pairs that an edge without pair variables may list.
_MOST_PAIRS = 2_000_000


class _Reading(NamedTuple):
    """A form read as groups on a forest; what belongs to blocks that are none is meaningless."""

    group: IntArray  # of every column, -1 for pair variables
    n_groups: int
    first: IntArray  # of every pair that may meet across an edge: its state in the one group ...
    second: IntArray  # ... and in the other
    column: IntArray  # and its pair variable, -1 if it has none
    conflicts: bool  # whether rows y + y' <= 1 were used


def forest_blocks(form: NormalForm) -> BoolArray:
    """Blocks whose rows are those of one-of-many groups on a forest, and no others."""
    passed, _ = _read(form)
    return passed


def build_forest(form: NormalForm) -> GroupForest:
    """Groups with parents before children, their states, and the pairs of states that may meet across an edge."""
    _, found = _read(form)
    assert found is not None
    n_groups = found.n_groups
    a, b = found.group[found.first], found.group[found.second]
    order, parent = _rooted(a, b, n_groups)
    place = np.empty(n_groups, dtype=np.int64)
    place[order] = np.arange(n_groups)

    states = np.flatnonzero(found.group >= 0)
    at = place[found.group[states]]
    by_group = np.argsort(at, kind="stable")
    column = states[by_group]
    state_ptr = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=n_groups))]).astype(np.int64)
    number = np.full(form.n_columns, -1, dtype=np.int64)  # of a state within its group
    number[column] = np.arange(column.size) - np.repeat(state_ptr[:-1], np.diff(state_ptr))

    above_is_first = parent[place[b]] == place[a]
    above = number[np.where(above_is_first, found.first, found.second)]
    below = number[np.where(above_is_first, found.second, found.first)]
    child = np.where(above_is_first, place[b], place[a])
    sorted_pairs = np.lexsort((below, above, child))
    pair_ptr = np.concatenate([[0], np.cumsum(np.bincount(child, minlength=n_groups))]).astype(np.int64)
    return GroupForest(
        state_ptr,
        column,
        parent,
        pair_ptr,
        above[sorted_pairs],
        below[sorted_pairs],
        found.column[sorted_pairs],
        not found.conflicts,
        bool(form.integer[column].all()),
    )


def _rooted(a: IntArray, b: IntArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """Groups, parents first, and the place of each one's parent, -1 at a root: the smallest group of its tree."""
    _, tree = components(a, b, n_groups)
    roots = np.unique(tree, return_index=True)[1]
    tails = np.concatenate([np.full(roots.size, n_groups), a, b])
    heads = np.concatenate([roots, b, a])
    graph = sp.coo_array((np.ones(tails.size, np.int8), (tails, heads)), shape=(n_groups + 1, n_groups + 1)).tocsr()
    found, above = breadth_first_order(graph, n_groups, directed=True, return_predecessors=True)
    order = found[1:].astype(np.int64)
    place = np.full(n_groups + 1, -1, dtype=np.int64)
    place[order] = np.arange(n_groups)
    return order, place[above[order]]


def _read(form: NormalForm) -> tuple[BoolArray, _Reading | None]:
    if "groups" not in form.memo:
        form.memo["groups"] = _attempt(form)
    known: tuple[BoolArray, _Reading | None] = form.memo["groups"]
    return known


def _attempt(form: NormalForm) -> tuple[BoolArray, _Reading | None]:
    whole = form.row_lower == form.row_upper
    once = form.unit & (form.minus == 0) & whole & (form.row_lower == 1)
    marginal = form.unit & whole & (form.row_lower == 0) & (np.minimum(form.plus, form.minus) == 1)
    conflict = form.unit & (form.minus == 0) & (form.plus == 2) & (form.row_upper == 1) & np.isneginf(form.row_lower)
    # Pair variables may be declared without an upper bound: their rows imply 1.
    bounded = (form.lower == 0) & (form.upper >= 1)
    passed = form.passing(once | marginal | conflict, bounded)
    # A block without marginals or conflicts is a simplex, and has been recognised before.
    passed &= np.bincount(form.row_block[marginal | conflict], minlength=form.n_blocks) > 0
    if not passed.any():
        return passed, None
    fail = _Failures(form, passed)

    kind, owner = _kinds(form, once, marginal, conflict)
    fail.columns(kind == _UNKNOWN)
    fail.rows(marginal & (owner < 0))
    state = kind == _STATE
    fail.columns(state & ~form.binary)
    in_once = np.bincount(form.column[once[form.row]], minlength=form.n_columns)
    fail.columns(in_once > 1)

    # Every pair variable is a member of two marginal rows, and in no other row.
    member = marginal[form.row] & (form.column != owner[form.row])
    fail.columns(
        (kind == _PAIR) & ((form.degree != 2) | (np.bincount(form.column[member], minlength=form.n_columns) != 2))
    )
    fail.entries(marginal[form.row] & member & (kind[form.column] != _PAIR))
    if not passed.any():
        return passed, None
    ends = _two_rows(form, member & passed[form.row_block[form.row]])
    pairs, row_a, row_b = ends

    group = np.full(form.n_columns, -1, dtype=np.int64)
    inside = once[form.row]
    group[form.column[inside]] = form.row[inside]
    _groups_of_neighbours(form, group, owner, marginal, pairs, row_a, row_b)
    fail.columns(state & (group < 0))
    if not passed.any():
        return passed, None
    kept = passed[form.column_block]
    numbers = np.unique(group[kept & (group >= 0)])
    number = np.full(max(int(group.max(initial=-1)), 0) + 1, -1, dtype=np.int64)
    number[numbers] = np.arange(numbers.size)
    group = np.where(kept & (group >= 0), number[np.maximum(group, 0)], -1)
    n_groups = numbers.size

    good = passed[form.column_block[pairs]]
    pairs, row_a, row_b = pairs[good], row_a[good], row_b[good]
    first, second = owner[row_a], owner[row_b]
    swap = group[first] > group[second]
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    fail.columns_at(pairs[group[first] == group[second]])
    _check_marginals(form, fail, group, owner, marginal, pairs, row_a, row_b)

    conflicts = conflict & passed[form.row_block]
    listed = _with_conflicts(form, fail, group, n_groups, conflicts, first, second, pairs)
    if listed is None:
        passed[:] = False
        return passed, None
    first, second, pairs = listed
    # A forest: as many edges between groups as groups minus trees, in every block.
    a, b = group[first], group[second]
    block_of = np.full(n_groups, -1, dtype=np.int64)
    block_of[group[group >= 0]] = form.column_block[group >= 0]
    edges = np.unique(np.minimum(a, b) * n_groups + np.maximum(a, b))
    edge_a, edge_b = edges // max(n_groups, 1), edges % max(n_groups, 1)
    _, tree = components(edge_a, edge_b, n_groups)
    n_edges = np.bincount(block_of[edge_a], minlength=form.n_blocks)
    n_in = np.bincount(block_of[block_of >= 0], minlength=form.n_blocks)
    n_trees = np.bincount(block_of[np.unique(tree, return_index=True)[1]], minlength=form.n_blocks)
    passed &= n_edges == n_in - n_trees
    if not passed.any():
        return passed, None
    return passed, _Reading(group, n_groups, first, second, pairs, bool(conflicts.any()))


class _Failures:
    """Takes blocks from `passed` by the rows, columns or entries that do not fit."""

    def __init__(self, form: NormalForm, passed: BoolArray) -> None:
        self._form, self._passed = form, passed

    def rows(self, wrong: BoolArray) -> None:
        self._passed[self._form.row_block[wrong]] = False

    def columns(self, wrong: BoolArray) -> None:
        self._passed[self._form.column_block[wrong]] = False

    def columns_at(self, columns: IntArray) -> None:
        self._passed[self._form.column_block[columns]] = False

    def entries(self, wrong: BoolArray) -> None:
        self._passed[self._form.row_block[self._form.row[wrong]]] = False


def _kinds(form: NormalForm, once: BoolArray, marginal: BoolArray, conflict: BoolArray) -> tuple[IntArray, IntArray]:
    """States and pair variables among the columns, and the state that each marginal row is of (-1: undetermined)."""
    kind = np.zeros(form.n_columns, dtype=np.int64)
    kind[form.column[(once | conflict)[form.row]]] = _STATE
    owner = np.full(form.n_rows, -1, dtype=np.int64)
    size = form.plus + form.minus
    several = marginal & (size > 2)
    alone = several[form.row] & ((form.value < 0) == (form.minus == 1)[form.row])
    owner[form.row[alone]] = form.column[alone]
    kind[form.column[several[form.row] & ~alone]] = _PAIR
    kind[owner[several]] = np.where(kind[owner[several]] == _PAIR, _UNKNOWN, _STATE)

    # p = y, where a state has one partner only: the rows do not say which is which, other rows of the two do.
    short = np.flatnonzero(marginal & (size == 2))
    if short.size:
        place = np.argsort(form.row, kind="stable")
        starts = np.searchsorted(form.row[place], short)
        u, v = form.column[place[starts]], form.column[place[starts + 1]]
        for _ in range(short.size + 1):
            before = kind.copy()
            kind[v[(kind[u] == _PAIR) & (kind[v] == _UNKNOWN)]] = _STATE
            kind[u[(kind[v] == _PAIR) & (kind[u] == _UNKNOWN)]] = _STATE
            kind[v[(kind[u] == _STATE) & (kind[v] == _UNKNOWN)]] = _PAIR
            kind[u[(kind[v] == _STATE) & (kind[u] == _UNKNOWN)]] = _PAIR
            if np.array_equal(before, kind):
                break
        mixed = kind[u] + kind[v] == _STATE + _PAIR
        mixed &= kind[u] != kind[v]
        owner[short[mixed]] = np.where(kind[u] == _STATE, u, v)[mixed]
    return kind, owner


def _two_rows(form: NormalForm, member: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
    """The pair variables, ascending, and the two rows that each is a member of."""
    order = np.argsort(form.column[member], kind="stable")
    column, row = form.column[member][order], form.row[member][order]
    return column[::2], row[::2], row[1::2]


def _groups_of_neighbours(
    form: NormalForm,
    group: IntArray,
    owner: IntArray,
    marginal: BoolArray,
    pairs: IntArray,
    row_a: IntArray,
    row_b: IntArray,
) -> None:
    """Complete `group` for states without a row ``sum y = 1``.

    Rows joined by their pair variables form an edge with two sides. If the states of one side are all of a group, the
    pair variables add up to 1, hence so do the states of the other side: they are a group, too.
    """
    if not pairs.size or not (group[owner[np.concatenate([row_a, row_b])]] < 0).any():
        return
    n = form.n_rows
    _, edge = components(row_a, row_b, n)
    broken, side = signed_components(row_a, row_b, np.ones(row_a.size, dtype=np.bool_), n)
    rows = np.flatnonzero(marginal & (owner >= 0) & ~broken)
    half = 2 * edge[rows] + side[rows]
    by_half = np.argsort(half, kind="stable")
    halves, starts = np.unique(half[by_half], return_index=True)
    states = {int(h): owner[part] for h, part in zip(halves, np.split(rows[by_half], starts[1:]), strict=True)}
    size = np.bincount(group[group >= 0], minlength=form.n_rows + halves.size + 1)
    fresh = form.n_rows
    waiting = [h for h in states if (group[states[h]] < 0).all()]
    while waiting:
        left = []
        for h in waiting:
            members, others = states[h], states.get(h ^ 1)
            if (group[members] >= 0).any():
                continue  # determined by another edge, or refused below
            known = -1 if others is None else int(group[others[0]])
            complete = known >= 0 and others is not None and bool((group[others] == known).all())
            if complete and others is not None and others.size == size[known] == np.unique(others).size:
                group[members] = fresh
                size[fresh] = members.size
                fresh += 1
            else:
                left.append(h)
        if len(left) == len(waiting):
            return
        waiting = left


def _check_marginals(
    form: NormalForm,
    fail: _Failures,
    group: IntArray,
    owner: IntArray,
    marginal: BoolArray,
    pairs: IntArray,
    row_a: IntArray,
    row_b: IntArray,
) -> None:
    """Every state of a group has one row for every edge of the group that has pair variables, and no pair has two."""
    rows = np.concatenate([row_a, row_b])
    there = owner[np.concatenate([row_b, row_a])]
    n_groups = int(group.max(initial=0)) + 1
    # The edge of a row: all its pair variables lead to the same group.
    target = np.full(form.n_rows, -1, dtype=np.int64)
    target[rows] = group[there]
    fail.rows(np.isin(np.arange(form.n_rows), rows[target[rows] != group[there]]))
    used = np.unique(rows)
    state, edge = owner[used], target[used]
    key = state * n_groups + edge
    unique, count = np.unique(key, return_counts=True)
    fail.columns_at(unique[count > 1] // n_groups)
    # All states of the group, once each.
    size = np.bincount(group[group >= 0], minlength=n_groups)
    edges, rows_of = np.unique(group[unique // n_groups] * n_groups + unique % n_groups, return_counts=True)
    short = edges[rows_of != size[edges // n_groups]] // n_groups
    fail.columns(np.isin(group, short) & (group >= 0))
    # Two pair variables for one pair of states would count it twice.
    first, second = owner[row_a], owner[row_b]
    code = np.minimum(first, second) * form.n_columns + np.maximum(first, second)
    _, where, count = np.unique(code, return_index=True, return_counts=True)
    fail.columns_at(pairs[where[count > 1]])


def _with_conflicts(
    form: NormalForm,
    fail: _Failures,
    group: IntArray,
    n_groups: int,
    conflicts: BoolArray,
    first: IntArray,
    second: IntArray,
    pairs: IntArray,
) -> tuple[IntArray, IntArray, IntArray] | None:
    """Leave out the pairs that rows ``y + y' <= 1`` forbid; an edge of such rows alone lists all its other pairs."""
    if not conflicts.any():
        return first, second, pairs
    inside = conflicts[form.row]
    order = np.argsort(form.row[inside], kind="stable")
    u, v = form.column[inside][order].reshape(-1, 2).T
    # The relaxation of such rows has fractional vertices: only integer states make the program exact.
    touched = np.zeros(form.n_blocks, dtype=bool)
    touched[form.column_block[u]] = True
    fail.columns(touched[form.column_block] & (group >= 0) & ~form.integer)
    swap = group[u] > group[v]
    u, v = np.where(swap, v, u), np.where(swap, u, v)
    across = (group[u] != group[v]) & (group[u] >= 0) & (group[v] >= 0)  # within a group the row says nothing new
    u, v = u[across], v[across]
    n = form.n_columns
    banned = np.unique(u * n + v)
    with_pairs = np.unique(group[first] * n_groups + group[second])
    edges = np.setdiff1d(np.unique(group[u] * n_groups + group[v]), with_pairs)
    size = np.bincount(group[group >= 0], minlength=n_groups)
    if int((size[edges // n_groups] * size[edges % n_groups]).sum()) > _MOST_PAIRS:
        return None
    members = np.split(np.argsort(group, kind="stable")[int((group < 0).sum()) :], np.cumsum(size)[:-1])
    more = [
        np.array(np.meshgrid(members[e // n_groups], members[e % n_groups], indexing="ij")).reshape(2, -1)
        for e in edges
    ]
    new_first, new_second = np.concatenate([np.zeros((2, 0), dtype=np.int64), *more], axis=1)
    first, second = np.concatenate([first, new_first]), np.concatenate([second, new_second])
    pairs = np.concatenate([pairs, np.full(new_first.size, -1, dtype=np.int64)])
    allowed = ~np.isin(first * n + second, banned)
    # Two groups of which no states may meet leave no label: a solver will name the rows.
    edge = group[first] * n_groups + group[second]
    empty = np.setdiff1d(edge, edge[allowed])
    fail.columns(np.isin(group, np.concatenate([empty // n_groups, empty % n_groups])) & (group >= 0))
    return first[allowed], second[allowed], pairs[allowed]
