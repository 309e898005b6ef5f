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
import scipy.sparse as sp

from structopt.recognize._kernels import components
from structopt.recognize.classes import without_cycle
from structopt.recognize.grouping import BoolArray, IntArray, breadth_first, repeated_pairs
from structopt.recognize.normalize import NormalForm
from structopt.recognize.patterns import read_factors
from structopt.recognize.records import GroupForest
from structopt.space.compiled import FloatArray

__all__ = ["build_forest", "forest_blocks"]

_UNKNOWN, _STATE, _PAIR = 0, 1, 2
#: Pairs that an edge without pair variables may list.
_MOST_PAIRS = 2_000_000


#: A form read as groups on a forest: the group of every column (-1 for pair variables), the number of groups, of every
#: pair that may meet across an edge its two states and its pair variable (-1 if it has none), and whether the rows
#: describe the hull, because they are marginals only. Entries of blocks that fail are undefined.
_Reading = tuple[IntArray, int, IntArray, IntArray, IntArray, bool]


def forest_blocks(form: NormalForm) -> BoolArray:
    """Blocks whose rows are those of one-of-many groups on a forest, and no others."""
    return form.once(_read)[0]


def build_forest(form: NormalForm) -> GroupForest:
    """Groups with parents before children, their states, and the pairs of states that may meet across an edge."""
    _, found = form.once(_read)
    assert found is not None
    group, n_groups, first, second, pairs, hull = found
    a, b = group[first], group[second]
    # The root of a tree is its smallest group.
    _, tree = components(a, b, n_groups)
    order, above = breadth_first(a, b, np.unique(tree, return_index=True)[1], n_groups)
    place = np.full(n_groups + 1, -1, dtype=np.int64)
    place[order] = np.arange(n_groups)
    parent = place[above[order]]

    states = np.flatnonzero(group >= 0)
    at = place[group[states]]
    column = states[np.argsort(at, kind="stable")]
    state_ptr = np.append(0, np.cumsum(np.bincount(at, minlength=n_groups)))
    number = np.full(form.n_columns, -1, dtype=np.int64)  # of a state within its group
    number[column] = np.arange(column.size) - np.repeat(state_ptr[:-1], np.diff(state_ptr))

    above_is_first = parent[place[b]] == place[a]
    above = number[np.where(above_is_first, first, second)]
    below = number[np.where(above_is_first, second, first)]
    child = np.where(above_is_first, place[b], place[a])
    sorted_pairs = np.lexsort((below, above, child))
    return GroupForest(
        state_ptr,
        column,
        parent,
        np.append(0, np.cumsum(np.bincount(child, minlength=n_groups))),
        above[sorted_pairs],
        below[sorted_pairs],
        pairs[sorted_pairs],
        hull,
        bool(form.integer[column].all()),
    )


def _read(form: NormalForm) -> tuple[BoolArray, _Reading | None]:
    # Pair variables may be declared without an upper bound: their rows imply 1.
    bounded = (form.lower == 0) & (form.upper >= 1)
    whole = form.row_lower == form.row_upper
    once = form.unit & (form.minus == 0) & whole & (form.row_lower == 1)
    marginal = form.unit & whole & (form.row_lower == 0) & (np.minimum(form.plus, form.minus) == 1)
    passed = form.passing(form.unit & (~whole | once | marginal), bounded)
    if not passed.any():
        return passed, None
    # Rows a z >= b are read as -a z <= -b.
    turned = np.isfinite(form.row_lower) & np.isposinf(form.row_upper)
    value, upper = (
        np.where(turned[form.row], -form.value, form.value),
        np.where(turned, -form.row_lower, form.row_upper),
    )
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
    passed[form.row_block[marginal & (owner < 0)]] = False
    state, is_pair = kind == _STATE, kind == _PAIR
    passed[form.column_block[(kind == _UNKNOWN) | (state & ~form.binary)]] = False
    # Rows `once` are over the states of a group, or over all pair variables of an edge.
    members = np.bincount(form.row[is_pair[form.column]], minlength=form.n_rows)
    total = once & (members == plus)
    once &= ~total
    # p <= y, where p is a pair variable; other rows of this form are between states.
    link = follow & (plus == 1) & (minus == 1) & (members == 1)
    link &= np.bincount(form.row[is_pair[form.column] & (value > 0)], minlength=form.n_rows) == 1
    follow &= ~link
    passed[form.row_block[form.row[(once | clique | follow)[form.row] & is_pair[form.column]]]] = False

    # A pair variable is a member of two marginal rows, or of none, and then a product of two states.
    member = marginal[form.row] & (form.column != owner[form.row])
    passed[form.row_block[form.row[marginal[form.row] & (member != is_pair[form.column])]]] = False
    times = np.bincount(form.column[member], minlength=form.n_columns)
    passed[form.column_block[is_pair & (times != 2) & (times != 0)]] = False
    if not passed.any():
        return passed, None
    member &= passed[form.row_block[form.row]]
    by_pair = np.argsort(form.column[member], kind="stable").reshape(-1, 2)
    pairs, (row_a, row_b) = form.column[member][by_pair[:, 0]], form.row[member][by_pair].T
    first, second = owner[row_a], owner[row_b]

    group, n_groups = _groups(form, state & passed[form.column_block], once, owner, row_a, row_b)
    passed[form.column_block[pairs[group[first] == group[second]]]] = False
    _check_marginals(form, passed, group, n_groups, owner, row_a, row_b)
    _check_sums(form, passed, group, n_groups, once, total, pairs, first, second)
    products = _products(form, passed, value, product, link, pairs, first, second)
    rules = (clique | follow) & passed[form.row_block]
    listed = _with_rules(form, passed, group, n_groups, value, rules, (first, second, pairs), products)
    if listed is None:
        return np.zeros_like(passed), None
    first, second, pairs = listed
    low, high = np.minimum(group[first], group[second]), np.maximum(group[first], group[second])
    edge_a, edge_b = np.divmod(np.unique(low * n_groups + high), max(n_groups, 1))
    passed &= without_cycle(edge_a, edge_b, _blocks_of_groups(form, group, n_groups), form.n_blocks)
    if not passed.any():
        return passed, None
    return passed, (group, n_groups, first, second, pairs, not (rules.any() or products[0].size))


def _blocks_of_groups(form: NormalForm, group: IntArray, n_groups: int) -> IntArray:
    block = np.zeros(n_groups, dtype=np.int64)
    block[group[group >= 0]] = form.column_block[group >= 0]
    return block


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
    short = marginal & (size == 2)
    u, v = form.column[short[form.row]].reshape(-1, 2).T
    for _ in range(u.size + 1):
        before = kind.copy()
        for known, other in ((u, v), (v, u)):
            new = (kind[known] != _UNKNOWN) & (kind[other] == _UNKNOWN)
            kind[other[new]] = _STATE + _PAIR - kind[known[new]]
        if np.array_equal(before, kind):
            break
    owner[short] = np.where(kind[u] + kind[v] != _STATE + _PAIR, -1, np.where(kind[u] == _STATE, u, v))
    return kind, owner


def _groups(
    form: NormalForm, state: BoolArray, once: BoolArray, owner: IntArray, row_a: IntArray, row_b: IntArray
) -> tuple[IntArray, int]:
    """The group of every column in `state`, -1 for others, and the number of groups.

    Marginal rows joined by their pair variables form an edge with two sides. The states of a side are of one group, as
    those of a row `once` are.
    """
    n, m = form.n_columns, form.n_rows
    inside = once[form.row]
    rows = np.flatnonzero(owner >= 0)
    # Nodes are the columns, the rows, and copies of the rows that stand for the other sides of their edges.
    a = np.concatenate([form.column[inside], owner[rows], n + row_a, n + row_b])
    b = np.concatenate([n + form.row[inside], n + rows, n + m + row_b, n + m + row_a])
    _, label = components(a, b, n + 2 * m)
    group = np.full(n, -1, dtype=np.int64)
    numbers, group[state] = np.unique(label[:n][state], return_inverse=True)
    return group, numbers.size


def _check_marginals(
    form: NormalForm,
    passed: BoolArray,
    group: IntArray,
    n_groups: int,
    owner: IntArray,
    row_a: IntArray,
    row_b: IntArray,
) -> None:
    """Every state of a group has one row for every edge of the group that has pair variables, and no pair has two."""
    rows, there = np.concatenate([row_a, row_b]), group[owner[np.concatenate([row_b, row_a])]]
    # The edge of a row: all its pair variables lead to the same group.
    target = np.full(form.n_rows, -1, dtype=np.int64)
    target[rows] = there
    passed[form.row_block[rows[target[rows] != there]]] = False
    used = np.flatnonzero(target >= 0)
    keys, times = np.unique(owner[used] * n_groups + target[used], return_counts=True)
    passed[form.column_block[keys[times > 1] // n_groups]] = False
    # All states of the group, once each.
    sides, count = np.unique(group[keys // n_groups] * n_groups + keys % n_groups, return_counts=True)
    short = count != np.bincount(group[group >= 0], minlength=n_groups)[sides // n_groups]
    passed[_blocks_of_groups(form, group, n_groups)[sides[short] // n_groups]] = False
    # Two pair variables for one pair of states would count it twice.
    first, second = owner[row_a], owner[row_b]
    twice = repeated_pairs(np.minimum(first, second), np.maximum(first, second), form.n_columns)
    passed[form.column_block[twice]] = False


def _check_sums(
    form: NormalForm,
    passed: BoolArray,
    group: IntArray,
    n_groups: int,
    once: BoolArray,
    total: BoolArray,
    pairs: IntArray,
    first: IntArray,
    second: IntArray,
) -> None:
    """Rows `once` are over whole groups and rows `total` over whole edges, and every group has the sum 1 by one.

    The pair variables of an edge add up to the same number as the states of either group.
    """
    edge = np.full(form.n_columns, -1, dtype=np.int64)
    edge[pairs] = np.minimum(group[first], group[second]) * n_groups + np.maximum(group[first], group[second])
    _, joined = components(group[first], group[second], n_groups)
    sure = np.zeros(n_groups, dtype=bool)
    for rows, of_column in ((once, group), (total, edge)):
        inside = rows[form.row]
        row, owner = form.row[inside], of_column[form.column[inside]]
        owner_of_row = np.full(form.n_rows, -1, dtype=np.int64)
        owner_of_row[row] = owner
        passed[form.row_block[row[(owner < 0) | (owner != owner_of_row[row])]]] = False
        whole = np.flatnonzero(rows & passed[form.row_block])
        known, size = np.unique(of_column, return_counts=True)
        wrong = form.plus[whole] != size[np.searchsorted(known, owner_of_row[whole])]
        passed[form.row_block[whole[wrong]]] = False
        sure[joined[owner_of_row[whole] % max(n_groups, 1)]] = True
    unsure = (group >= 0) & ~sure[joined[group]]
    passed[form.column_block[unsure]] = False


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
    ends = np.full((form.n_columns, 2), -1, dtype=np.int64)
    ends[pairs] = np.sort(np.stack([first, second], axis=1), axis=1)
    single = ends[:, 0] < 0
    positive = value > 0
    above, below = product[form.row], link[form.row]
    p, states = form.column[above & ~positive], form.column[above & positive].reshape(-1, 2)
    q, state = form.column[below & positive], form.column[below & ~positive]
    read_factors(form, passed, ends, p, states, q, state)
    columns = np.flatnonzero(single & (ends[:, 0] >= 0) & passed[form.column_block])
    return ends[columns, 0], ends[columns, 1], columns


def _with_rules(
    form: NormalForm,
    passed: BoolArray,
    group: IntArray,
    n_groups: int,
    value: FloatArray,
    rules: BoolArray,
    marginal_pairs: tuple[IntArray, IntArray, IntArray],
    products: tuple[IntArray, IntArray, IntArray],
) -> tuple[IntArray, IntArray, IntArray] | None:
    """The pairs of states that may meet: those of marginal rows, and all others across an edge of rules or products.

    Edges that have no marginal rows list all their pairs. None if there are too many of them.
    """
    if not rules.any() and not products[2].size:
        return marginal_pairs
    n = form.n_columns
    forbidden = _forbidden(form, passed, group, n_groups, value, rules)
    if forbidden is None:
        return None
    p_column = products[2]
    passed[form.column_block[p_column[group[products[0]] == group[products[1]]]]] = False
    # The relaxation of rules and products has fractional vertices: only integer states make the program exact.
    touched = np.zeros(form.n_blocks, dtype=bool)
    touched[form.row_block[rules]] = True
    touched[form.column_block[p_column]] = True
    passed[form.column_block[touched[form.column_block] & (group >= 0) & ~form.integer]] = False

    def coded(x: IntArray, y: IntArray) -> tuple[IntArray, IntArray]:
        """Numbers of edges and of pairs of states, the state of the smaller group first."""
        swap = group[x] > group[y]
        x, y = np.where(swap, y, x), np.where(swap, x, y)
        return group[x] * n_groups + group[y], x * n + y

    edge, code = coded(*marginal_pairs[:2])
    p_edge, p_code = coded(*products[:2])
    forbidden_edge, forbidden_code = coded(*forbidden)
    # A product in addition to marginal rows would be a second variable of its pair.
    passed[form.column_block[p_column[np.isin(p_edge, edge)]]] = False
    edges = np.setdiff1d(np.concatenate([forbidden_edge, p_edge]), edge)
    size = np.bincount(group[group >= 0], minlength=n_groups)
    a, b = np.divmod(edges, max(n_groups, 1))
    if int((size[a] * size[b]).sum()) > _MOST_PAIRS:
        return None
    members = np.split(np.argsort(group, kind="stable")[int((group < 0).sum()) :], np.cumsum(size)[:-1])
    listed = [np.add.outer(members[i] * n, members[j]).ravel() for i, j in zip(a, b, strict=True)]
    # The variable of a pair is that of the product, which comes first.
    codes = np.concatenate([p_code, *listed])
    variable = np.concatenate([p_column, np.full(codes.size - p_code.size, -1)])
    new, at = np.unique(codes, return_index=True)
    passed[form.column_block[np.setdiff1d(p_column, variable[at])]] = False  # a second variable of the same pair
    code, pairs = np.concatenate([code, new]), np.concatenate([marginal_pairs[2], variable[at]])
    # A forbidden product is 0 by its rows, whatever its coefficient: it has no place among the pairs that may meet.
    allowed = ~np.isin(code, forbidden_code)
    first, second = np.divmod(code, n)
    # Two groups of which no states may meet leave no label: a solver will name the rows.
    edge = group[first] * n_groups + group[second]
    empty = np.setdiff1d(edge, edge[allowed]) // max(n_groups, 1)
    passed[_blocks_of_groups(form, group, n_groups)[empty]] = False
    return first[allowed], second[allowed], pairs[allowed]


def _forbidden(
    form: NormalForm, passed: BoolArray, group: IntArray, n_groups: int, value: FloatArray, rules: BoolArray
) -> IntArray | None:
    """Pairs of states of different groups that may not meet; None if they are too many to list.

    No two states of a row ``sum of states <= 1`` meet. Those of ``sum of states <= sum of states of one other group``
    meet no state of this group that is left out.
    """
    if not rules.any():
        return np.zeros((2, 0), dtype=np.int64)
    rows, shape = np.flatnonzero(rules), (np.count_nonzero(rules), form.n_columns)
    entries = rules[form.row]
    row, column, sign = (np.cumsum(rules) - 1)[form.row[entries]], form.column[entries], value[entries]
    positive = sign > 0
    lead, source = np.full(rows.size, -1), np.full(rows.size, -1)
    lead[row[positive]], source[row[~positive]] = group[column[positive]], group[column[~positive]]
    follow = source >= 0
    leaders = sp.csr_array((sign[positive], (row[positive], column[positive])), shape=shape)
    # The states of each group, and at last of none.
    states = np.argsort(group, kind="stable")[int((group < 0).sum()) :]
    ptr = np.cumsum(np.bincount(group + 1, minlength=n_groups + 2))
    ptr = np.append(ptr[:-1], ptr[-2:-1])
    members = sp.csr_array((np.ones(states.size), states, ptr - ptr[0]), shape=(n_groups + 1, form.n_columns))
    # What they do not meet: the source group less the states that the row names, or one another.
    named = ~positive | ~follow[row]
    others = members[source] + sp.csr_array((sign[named], (row[named], column[named])), shape=shape)
    others.eliminate_zeros()
    mixed = follow[row] & positive & ((group[column] != lead[row]) | (group[column] == source[row]))
    wrong = np.concatenate([row[mixed], np.repeat(np.arange(rows.size), np.diff(others.indptr))[others.data != 1]])
    passed[form.row_block[rows[wrong]]] = False
    if (np.diff(leaders.indptr) * np.diff(others.indptr) / np.where(follow, 1, 2)).sum() > _MOST_PAIRS:
        return None
    u, v = (leaders.T @ others).nonzero()
    across = group[u] != group[v]  # within a group the row says nothing new
    return np.stack([u[across], v[across]]).astype(np.int64)
