"""One-of-many groups on a forest: chains and trees of groups, as people write them.

Declared rows, in any order and sign::

    sum_s y[a, s] = 1                                  one state of every group
    sum_k p[s, k] = y[a, s],  sum_s p[s, k] = y[b, k]  the pair variables of an edge {a, b} have y as their marginals
    sum_sk p[s, k] = 1                                 the pair variables of an edge add up
    p <= y[a, s],  p <= y[b, k],  p >= y[a, s] + y[b, k] - 1    a pair variable is the product of two states
    y[a, s] + y[b, k] + ... <= 1                       states that may not meet, without a variable
    y[b, k] + ... <= y[a, s] + ...                     states that only those of one other group may meet

A pair variable that is missing from marginal rows, or fixed to 0, forbids its pair. The first kind of row may be left
out for a group whose neighbour has it, or if the pair variables add up: both sums equal theirs. Products are implied by
marginal rows; alone, they say which pairs have a variable, and every other pair may meet without one.

Why a dynamic program is exact: the groups, joined by their edges, form a forest, so that a labelling is chosen from
the leaves to the roots; on such graphs the marginal rows describe the convex hull of the labellings (junction trees
of width one), so the relaxation is integral, too. The last three kinds of rows do not describe the hull, and are taken
only where all states are integer variables.
"""

from __future__ import annotations

import numpy as np

from structopt.recognize._kernels import components, signed_components
from structopt.recognize.grouping import BoolArray, IntArray, breadth_first
from structopt.recognize.normalize import NormalForm
from structopt.recognize.records import GroupForest
from structopt.space.compiled import FloatArray

__all__ = ["build_forest", "forest_blocks"]

_UNKNOWN, _STATE, _PAIR = 0, 1, 2
#: Pairs that an edge without pair variables may list.
_MOST_PAIRS = 2_000_000


#: A form read as groups on a forest: the group of every column (-1 for pair variables), the number of groups, of every
#: pair that may meet across an edge its two states and its pair variable (-1 if it has none), and whether rows other
#: than marginals were used, so that the rows do not describe the hull. Entries of other blocks have no meaning.
_Reading = tuple[IntArray, int, IntArray, IntArray, IntArray, bool]


def forest_blocks(form: NormalForm) -> BoolArray:
    """Blocks whose rows are those of one-of-many groups on a forest, and no others."""
    passed, _ = form.once(_read)
    return passed


def build_forest(form: NormalForm) -> GroupForest:
    """Groups with parents before children, their states, and the pairs of states that may meet across an edge."""
    _, found = form.once(_read)
    assert found is not None
    group, n_groups, first, second, pairs, rules = found
    a, b = group[first], group[second]
    order, parent = _rooted(a, b, n_groups)
    place = np.empty(n_groups, dtype=np.int64)
    place[order] = np.arange(n_groups)

    states = np.flatnonzero(group >= 0)
    at = place[group[states]]
    by_group = np.argsort(at, kind="stable")
    column = states[by_group]
    state_ptr = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=n_groups))]).astype(np.int64)
    number = np.full(form.n_columns, -1, dtype=np.int64)  # of a state within its group
    number[column] = np.arange(column.size) - np.repeat(state_ptr[:-1], np.diff(state_ptr))

    above_is_first = parent[place[b]] == place[a]
    above = number[np.where(above_is_first, first, second)]
    below = number[np.where(above_is_first, second, first)]
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
        pairs[sorted_pairs],
        not rules,
        bool(form.integer[column].all()),
    )


def _rooted(a: IntArray, b: IntArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """Groups, parents first, and the place of each one's parent, -1 at a root: the smallest group of its tree."""
    _, tree = components(a, b, n_groups)
    roots = np.unique(tree, return_index=True)[1]
    order, above = breadth_first(a, b, roots, n_groups)
    place = np.full(n_groups + 1, -1, dtype=np.int64)
    place[order] = np.arange(n_groups)
    return order, place[above[order]]


def _read(form: NormalForm) -> tuple[BoolArray, _Reading | None]:
    # Pair variables may be declared without an upper bound: their rows imply 1.
    bounded = (form.lower == 0) & (form.upper >= 1)
    whole = form.row_lower == form.row_upper
    once = form.unit & (form.minus == 0) & whole & (form.row_lower == 1)
    marginal = form.unit & whole & (form.row_lower == 0) & (np.minimum(form.plus, form.minus) == 1)
    passed = form.passing(form.unit & (~whole | once | marginal), bounded)
    if not passed.any():
        return passed, None
    value, upper = _as_upper_rows(form)
    inequality = form.unit & (np.isneginf(form.row_lower) != np.isposinf(form.row_upper))
    plus = np.bincount(form.row[value > 0], minlength=form.n_rows)
    minus = np.bincount(form.row[value < 0], minlength=form.n_rows)
    clique = inequality & (minus == 0) & (upper == 1)
    follow = inequality & (minus > 0) & (plus > 0) & (upper == 0)
    product = inequality & (plus == 2) & (minus == 1) & (upper == 1)
    passed = form.passing(once | marginal | clique | follow | product, bounded)
    # A block of rows `once` alone is a simplex, and has been recognised before.
    passed &= np.bincount(form.row_block[~once], minlength=form.n_blocks) > 0
    if not passed.any():
        return passed, None

    kind, owner = _kinds(form, value, once, marginal, clique, follow, product)
    passed[form.column_block[kind == _UNKNOWN]] = False
    passed[form.row_block[marginal & (owner < 0)]] = False
    state, is_pair = kind == _STATE, kind == _PAIR
    passed[form.column_block[state & ~form.binary]] = False
    # Rows `once` are over the states of a group, or over all pair variables of an edge.
    members = np.bincount(form.row[is_pair[form.column]], minlength=form.n_rows)
    total = once & (members == plus) & (members > 0)
    once &= ~total
    passed[form.column_block[np.bincount(form.column[once[form.row]], minlength=form.n_columns) > 1]] = False
    # p <= y, where p is a pair variable; other rows of this form are between states.
    link = follow & (plus == 1) & (minus == 1) & (members == 1)
    link &= np.bincount(form.row[is_pair[form.column] & (value > 0)], minlength=form.n_rows) == 1
    follow &= ~link
    passed[form.row_block[form.row[(once | clique | follow)[form.row] & is_pair[form.column]]]] = False

    # A pair variable is a member of two marginal rows, or of none, and then a product of two states.
    member = marginal[form.row] & (form.column != owner[form.row])
    passed[form.row_block[form.row[member & ~is_pair[form.column]]]] = False
    passed[form.row_block[form.row[marginal[form.row] & ~member & is_pair[form.column]]]] = False
    times = np.bincount(form.column[member], minlength=form.n_columns)
    passed[form.column_block[is_pair & (times != 2) & (times != 0)]] = False
    if not passed.any():
        return passed, None
    pairs, row_a, row_b = _two_rows(form, member & passed[form.row_block[form.row]])

    group = np.full(form.n_columns, -1, dtype=np.int64)
    inside = once[form.row]
    group[form.column[inside]] = form.row[inside]
    _groups_of_neighbours(form, passed, group, owner, marginal, total, pairs, row_a, row_b)
    passed[form.column_block[state & (group < 0)]] = False
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
    passed[form.column_block[pairs[group[first] == group[second]]]] = False
    _check_marginals(form, passed, group, owner, pairs, row_a, row_b)
    _check_totals(form, passed, group, owner, total, pairs, row_a, row_b)
    products = _products(form, passed, value, product, link, pairs, first, second)

    rules = passed[form.row_block]
    clique, follow = clique & rules, follow & rules
    listed = _with_rules(form, passed, group, n_groups, value, clique, follow, (first, second, pairs), products)
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
    hull = not (clique.any() or follow.any() or products[0].size)
    return passed, (group, n_groups, first, second, pairs, not hull)


def _as_upper_rows(form: NormalForm) -> tuple[FloatArray, FloatArray]:
    """Entries and right-hand sides with rows ``a z >= b`` written as ``-a z <= -b``."""
    turned = np.isfinite(form.row_lower) & np.isposinf(form.row_upper)
    return np.where(turned[form.row], -form.value, form.value), np.where(turned, -form.row_lower, form.row_upper)


def _kinds(
    form: NormalForm,
    value: FloatArray,
    once: BoolArray,
    marginal: BoolArray,
    clique: BoolArray,
    follow: BoolArray,
    product: BoolArray,
) -> tuple[IntArray, IntArray]:
    """States and pair variables among the columns, and the state that each marginal row is of (-1: undetermined)."""
    kind = np.zeros(form.n_columns, dtype=np.int64)
    owner = np.full(form.n_rows, -1, dtype=np.int64)
    size = form.plus + form.minus
    several = marginal & (size > 2)
    alone = several[form.row] & ((form.value < 0) == (form.minus == 1)[form.row])
    owner[form.row[alone]] = form.column[alone]
    kind[form.column[several[form.row] & ~alone]] = _PAIR
    # y + y' - p <= 1: the pair variable is the one with the other sign.
    kind[form.column[product[form.row] & (value < 0)]] = _PAIR
    # A row `once` over pair variables adds up an edge; every other one is over states, as the rules between states are.
    members = np.bincount(form.row[kind[form.column] == _PAIR], minlength=form.n_rows)
    states = (once & (members < form.plus + form.minus)) | clique
    states |= follow & (members == 0) & (size > 2)
    kind[form.column[states[form.row] & (kind[form.column] != _PAIR)]] = _STATE
    kind[form.column[product[form.row] & (value > 0)]] = _STATE
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
    passed: BoolArray,
    group: IntArray,
    owner: IntArray,
    marginal: BoolArray,
    total: BoolArray,
    pairs: IntArray,
    row_a: IntArray,
    row_b: IntArray,
) -> None:
    """Complete `group` for states without a row ``sum y = 1``.

    Rows joined by their pair variables form an edge with two sides. If the states of one side are all of a group, or a
    row `total` says it, the pair variables add up to 1, hence so do the states of both sides: they are groups.
    """
    if not pairs.size:
        passed[form.row_block[total]] = False
        return
    n = form.n_rows
    _, edge = components(row_a, row_b, n)
    edge_of = np.full(form.n_columns, -1, dtype=np.int64)
    edge_of[pairs] = edge[row_a]
    adds_up = _complete_edges(form, passed, total, edge_of, n)
    if not (group[owner[np.concatenate([row_a, row_b])]] < 0).any():
        return
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
            if adds_up[h // 2] and np.unique(members).size == members.size:
                group[members] = fresh
                size[fresh] = members.size
                fresh += 1
                continue
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


def _complete_edges(
    form: NormalForm, passed: BoolArray, total: BoolArray, edge_of: IntArray, n_edges: int
) -> BoolArray:
    """Edges whose pair variables are all once in some row `total`; a row with other columns fails."""
    complete = np.zeros(n_edges, dtype=bool)
    entries = total[form.row]
    row, edge = form.row[entries], edge_of[form.column[entries]]
    last = np.full(form.n_rows, -1, dtype=np.int64)
    last[row] = edge
    wrong = total & (last < 0)
    wrong[row[edge != last[row]]] = True
    size = np.bincount(edge_of[edge_of >= 0], minlength=n_edges)
    count = np.bincount(row, minlength=form.n_rows)
    wrong[total & (count != size[np.maximum(last, 0)])] = True
    passed[form.row_block[wrong]] = False
    complete[last[total & ~wrong]] = True
    return complete


def _check_totals(
    form: NormalForm,
    passed: BoolArray,
    group: IntArray,
    owner: IntArray,
    total: BoolArray,
    pairs: IntArray,
    row_a: IntArray,
    row_b: IntArray,
) -> None:
    """Rows `total` are implied if the marginal rows of their pair variables are those of two whole groups."""
    if not total.any() or not pairs.size:
        return
    _, edge = components(row_a, row_b, form.n_rows)
    n_rows = np.bincount(edge[np.unique(np.concatenate([row_a, row_b]))], minlength=form.n_rows)
    size = np.bincount(group[group >= 0], minlength=int(group.max(initial=0)) + 1)
    wanted = size[group[owner[row_a]]] + size[group[owner[row_b]]]
    partial = np.zeros(form.n_columns, dtype=bool)
    partial[pairs[n_rows[edge[row_a]] != wanted]] = True
    passed[form.row_block[form.row[total[form.row] & partial[form.column]]]] = False


def _products(
    form: NormalForm,
    passed: BoolArray,
    value: FloatArray,
    product: BoolArray,
    link: BoolArray,
    pairs: IntArray,
    first: IntArray,
    second: IntArray,
) -> tuple[IntArray, IntArray, IntArray]:
    """Pair variables that are products of two states by rows ``p <= y, p <= y', p >= y + y' - 1`` alone.

    For a pair variable with marginal rows these rows are implied: its two states must be theirs.
    """
    n = form.n_columns
    low, high = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    low[pairs], high[pairs] = np.minimum(first, second), np.maximum(first, second)
    with_marginals = np.zeros(n, dtype=bool)
    with_marginals[pairs] = True

    inside = product[form.row]
    order = np.argsort(form.row[inside & (value > 0)], kind="stable")
    ends = np.sort(form.column[inside & (value > 0)][order].reshape(-1, 2), axis=1)
    rows = np.flatnonzero(product)
    variable = np.zeros(form.n_rows, dtype=np.int64)
    variable[form.row[inside & (value < 0)]] = form.column[inside & (value < 0)]
    own = variable[rows]
    new = low[own] < 0
    low[own[new]], high[own[new]] = ends[new, 0], ends[new, 1]
    passed[form.row_block[rows[(low[own] != ends[:, 0]) | (high[own] != ends[:, 1])]]] = False

    upper = link[form.row]
    pair_of, state_of = np.full(form.n_rows, -1, dtype=np.int64), np.full(form.n_rows, -1, dtype=np.int64)
    pair_of[form.row[upper & (value > 0)]] = form.column[upper & (value > 0)]
    state_of[form.row[upper & (value < 0)]] = form.column[upper & (value < 0)]
    rows = np.flatnonzero(link)
    p, y = pair_of[rows], state_of[rows]
    passed[form.row_block[rows[(y != low[p]) & (y != high[p])]]] = False
    below_low, below_high, above = (np.zeros(n, dtype=bool) for _ in range(3))
    below_low[p[y == low[p]]] = True
    below_high[p[y == high[p]]] = True
    above[own] = True
    single = (low >= 0) & ~with_marginals
    passed[form.column_block[single & ~(below_low & below_high & above)]] = False
    columns = np.flatnonzero(single & passed[form.column_block])
    return low[columns], high[columns], columns


def _check_marginals(
    form: NormalForm,
    passed: BoolArray,
    group: IntArray,
    owner: IntArray,
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
    passed[form.row_block[np.isin(np.arange(form.n_rows), rows[target[rows] != group[there]])]] = False
    used = np.unique(rows)
    state, edge = owner[used], target[used]
    key = state * n_groups + edge
    unique, count = np.unique(key, return_counts=True)
    passed[form.column_block[unique[count > 1] // n_groups]] = False
    # All states of the group, once each.
    size = np.bincount(group[group >= 0], minlength=n_groups)
    edges, rows_of = np.unique(group[unique // n_groups] * n_groups + unique % n_groups, return_counts=True)
    short = edges[rows_of != size[edges // n_groups]] // n_groups
    passed[form.column_block[np.isin(group, short) & (group >= 0)]] = False
    # Two pair variables for one pair of states would count it twice.
    first, second = owner[row_a], owner[row_b]
    code = np.minimum(first, second) * form.n_columns + np.maximum(first, second)
    _, where, count = np.unique(code, return_index=True, return_counts=True)
    passed[form.column_block[pairs[where[count > 1]]]] = False


def _with_rules(
    form: NormalForm,
    passed: BoolArray,
    group: IntArray,
    n_groups: int,
    value: FloatArray,
    clique: BoolArray,
    follow: BoolArray,
    marginal_pairs: tuple[IntArray, IntArray, IntArray],
    products: tuple[IntArray, IntArray, IntArray],
) -> tuple[IntArray, IntArray, IntArray] | None:
    """The pairs of states that may meet: those of marginal rows, and all others across an edge of rules or products.

    Rules are rows ``sum of states <= 1`` (no two of them meet) and ``sum of states <= sum of states of one other
    group`` (they meet no state that is left out). Edges that have no marginal rows list all their pairs.
    """
    n = form.n_columns
    first, second, pairs = marginal_pairs
    forbidden = _forbidden_by_cliques(form, group, clique)
    more = _forbidden_by_followers(form, passed, group, n_groups, value, follow)
    if forbidden is None or more is None:
        return None
    u, v = np.concatenate([forbidden, more], axis=1)
    p_first, p_second, p_column = products
    passed[form.column_block[p_column[group[p_first] == group[p_second]]]] = False
    # The relaxation of rules and products has fractional vertices: only integer states make the program exact.
    touched = np.zeros(form.n_blocks, dtype=bool)
    touched[form.row_block[clique | follow]] = True
    touched[form.column_block[p_column]] = True
    passed[form.column_block[touched[form.column_block] & (group >= 0) & ~form.integer]] = False

    def ordered(x: IntArray, y: IntArray) -> tuple[IntArray, IntArray]:
        swap = group[x] > group[y]
        return np.where(swap, y, x), np.where(swap, x, y)

    first, second = ordered(first, second)
    p_first, p_second = ordered(p_first, p_second)
    u, v = ordered(u, v)
    if not u.size and not p_column.size:
        return first, second, pairs
    with_pairs = np.unique(group[first] * n_groups + group[second])
    wanted = np.concatenate([group[u] * n_groups + group[v], group[p_first] * n_groups + group[p_second]])
    edges = np.setdiff1d(wanted, with_pairs)
    # A product in addition to marginal rows would be a second variable of its pair.
    passed[form.column_block[p_column[np.isin(group[p_first] * n_groups + group[p_second], with_pairs)]]] = False
    size = np.bincount(group[group >= 0], minlength=n_groups)
    if int((size[edges // n_groups] * size[edges % n_groups]).sum()) > _MOST_PAIRS:
        return None
    members = np.split(np.argsort(group, kind="stable")[int((group < 0).sum()) :], np.cumsum(size)[:-1])
    listed = [
        np.array(np.meshgrid(members[e // n_groups], members[e % n_groups], indexing="ij")).reshape(2, -1)
        for e in edges
    ]
    new_first, new_second = np.concatenate([np.zeros((2, 0), dtype=np.int64), *listed], axis=1)
    code, p_code = new_first * n + new_second, p_first * n + p_second
    unique, where = np.unique(p_code, return_index=True)
    passed[form.column_block[np.delete(p_column, where)]] = False  # a second variable of the same pair
    new_pairs = np.full(new_first.size, -1, dtype=np.int64)
    if unique.size and code.size:
        place = np.minimum(np.searchsorted(unique, code), unique.size - 1)
        new_pairs = np.where(unique[place] == code, p_column[where][place], -1)
    first, second = np.concatenate([first, new_first]), np.concatenate([second, new_second])
    pairs = np.concatenate([pairs, new_pairs])
    forbidden_codes = np.unique(u * n + v)
    allowed = ~np.isin(first * n + second, forbidden_codes)
    # Two groups whose states may not meet leave no label: a solver will name the rows.
    edge = group[first] * n_groups + group[second]
    empty = np.setdiff1d(edge, edge[allowed])
    without = np.isin(group, np.concatenate([empty // n_groups, empty % n_groups])) & (group >= 0)
    passed[form.column_block[without]] = False
    # A forbidden product is 0 by its rows for any coefficient: it has no place among the pairs that may meet.
    return first[allowed], second[allowed], pairs[allowed]


def _forbidden_by_cliques(form: NormalForm, group: IntArray, clique: BoolArray) -> IntArray | None:
    """Pairs of states of different groups that share a row ``sum <= 1``; None if they are too many to list."""
    found = [np.zeros((2, 0), dtype=np.int64)]
    size = form.plus + form.minus
    if int((size[clique] * (size[clique] - 1) // 2).sum()) > _MOST_PAIRS:
        return None
    for m in np.unique(size[clique]).tolist():
        inside = (clique & (size == m))[form.row]
        order = np.argsort(form.row[inside], kind="stable")
        columns = form.column[inside][order].reshape(-1, m)
        i, j = np.triu_indices(m, 1)
        found.append(np.array([columns[:, i].ravel(), columns[:, j].ravel()]))
    u, v = np.concatenate(found, axis=1)
    across = (group[u] != group[v]) & (group[u] >= 0) & (group[v] >= 0)  # within a group the row says nothing new
    return np.array([u[across], v[across]])


def _forbidden_by_followers(
    form: NormalForm, passed: BoolArray, group: IntArray, n_groups: int, value: FloatArray, follow: BoolArray
) -> IntArray | None:
    """Pairs of states that rows ``sum of states <= sum of states of one other group`` forbid; None if too many."""
    entries = follow[form.row]
    row, column, positive = form.row[entries], form.column[entries], value[entries] > 0
    owner, source = np.full(form.n_rows, -1, dtype=np.int64), np.full(form.n_rows, -1, dtype=np.int64)
    owner[row[positive]], source[row[~positive]] = group[column[positive]], group[column[~positive]]
    other = np.where(positive, owner[row], source[row]) != group[column]
    wrong = np.zeros(form.n_rows, dtype=bool)
    wrong[row[other]] = True
    wrong |= follow & ((owner == source) | (owner < 0) | (source < 0))
    passed[form.row_block[wrong]] = False
    rows = np.flatnonzero(follow & ~wrong)
    size = np.bincount(group[group >= 0], minlength=n_groups)
    start = np.concatenate([[0], np.cumsum(size)])
    states = np.argsort(group, kind="stable")[int((group < 0).sum()) :]
    count = size[source[rows]]
    leading = np.bincount(row[positive], minlength=form.n_rows)[rows]
    if int((count * leading).sum()) > _MOST_PAIRS:
        return None
    # Every state of the source group, less those that the row names ...
    at = np.repeat(rows, count)
    offset = np.arange(at.size) - np.repeat(np.cumsum(count) - count, count)
    state = states[start[source[at]] + offset] if at.size else np.zeros(0, dtype=np.int64)
    named = np.isin(at * form.n_columns + state, row[~positive] * form.n_columns + column[~positive])
    at, state = at[~named], state[~named]
    # ... with every state on the other side of the row.
    order = np.argsort(row[positive], kind="stable")
    leaders, by_row = column[positive][order], row[positive][order]
    begin, end = np.searchsorted(by_row, at), np.searchsorted(by_row, at, side="right")
    times = end - begin
    state = np.repeat(state, times)
    place = np.arange(state.size) - np.repeat(np.cumsum(times) - times, times) + np.repeat(begin, times)
    return np.array([leaders[place], state]) if state.size else np.zeros((2, 0), dtype=np.int64)
