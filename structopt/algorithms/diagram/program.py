"""Input of the diagram compiler: items, their effects on integer rows, and continuous components.

An *item* is one decision: the value of an integer variable, or the choice among the 0/1 variables of a row ``sum = 1``.
Its possible values are its *options*. A *component* is a connected set of continuous variables, linked by shared rows.
Once all items of its rows are decided, bound propagation must leave at most one point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from structopt._jit import kernel
from structopt.errors import DiagramRefused, InfeasibleSpace
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.enumeration import propagated_bounds
from structopt.space.exact_rows import LARGEST_COEFFICIENT, ExactRows, exact_rows

__all__ = ["Components", "Items", "Program", "Rows", "extreme_activities", "program_of"]

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

#: Most values of one integer variable.
MOST_VALUES = 1000


class Items(NamedTuple):
    """Decisions with their options, and the effects of each option on rows.

    Item i has the options ``option_ptr[i]:option_ptr[i + 1]``. Option o sets variable ``option_variable[o]`` to
    ``option_value[o]``. Item i touches the rows ``touched[touched_ptr[i]:touched_ptr[i + 1]]``. Its k-th option adds
    ``effects[effect_ptr[i] + k * n_touched + t]`` to the t-th of these rows.
    """

    option_ptr: IntArray
    option_variable: IntArray
    option_value: FloatArray
    touched_ptr: IntArray
    touched: IntArray
    effect_ptr: IntArray
    effects: IntArray


class Rows(NamedTuple):
    """Integer rows; `component` is -1 for rows without continuous variables."""

    lower: IntArray
    upper: IntArray
    component: IntArray


class Components(NamedTuple):
    """Continuous variables by connected component; components with equal matrices and bounds are of one kind.

    Kind k has the rows ``kind_row_ptr[k]:kind_row_ptr[k + 1]`` of a CSR matrix and the variable bounds
    ``lower[kind_variable_ptr[k]:kind_variable_ptr[k + 1]]``. `scale` converts integer activities to the units of the
    rows.
    """

    kind: IntArray
    row_ptr: IntArray
    rows: IntArray
    variable_ptr: IntArray
    variables: IntArray
    kind_row_ptr: IntArray
    kind_variable_ptr: IntArray
    indptr: IntArray
    indices: IntArray
    data: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray
    scale: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False)
class Program:
    """Space that is ready for compilation."""

    space: CompiledSpace
    #: Values of the fixed variables; 0 for the others.
    const: FloatArray
    items: Items
    rows: Rows
    components: Components
    #: Rows of the space that the integer rows come from.
    row_source: IntArray
    #: Rows of the space with activities that only a tolerance accepts, unless other rows exclude them.
    unsure: IntArray
    #: Sets of items that share rows, ordered by their first variable.
    blocks: list[IntArray]
    #: All rows of the space, to check the rows that are not certified.
    exact: ExactRows

    def item_variables(self, item: int) -> IntArray:
        """Return the variables that an item decides."""
        options = slice(int(self.items.option_ptr[item]), int(self.items.option_ptr[item + 1]))
        return np.unique(self.items.option_variable[options])


def program_of(space: CompiledSpace) -> Program:
    """Return the integer rows, items and continuous components of a space."""
    if space.separations:
        raise DiagramRefused(f"{space!r} has lazy rows; a diagram needs all rows in advance.", "lazy rows")
    if not space.is_integral:
        raise DiagramRefused(f"{space!r} has no integer variables, so its labels are not a finite set.", "no integers")
    lower, upper = _bounds(space)
    matrix = space.matrix
    row_of = np.repeat(np.arange(space.n_rows), np.diff(matrix.indptr))
    magnitude = np.abs(matrix.data)
    extreme = np.flatnonzero((magnitude > LARGEST_COEFFICIENT) | (magnitude < 1.0 / LARGEST_COEFFICIENT))
    if extreme.size:
        name = space.row_names[int(row_of[extreme[0]])]
        raise DiagramRefused(
            f"Row {name} has the coefficient {matrix.data[extreme[0]]:g}; its multiples overflow. Multiply the "
            "row by a constant, or leave out a coefficient that is nearly 0.",
            "tolerance",
            rows=(name,),
        )
    exact = exact_rows(space, lower, upper)
    fixed = lower == upper
    const = np.where(fixed, lower, 0.0) + 0.0
    loose = ~space.integrality & ~fixed
    continuous_rows = np.zeros(space.n_rows, dtype=bool)
    continuous_rows[row_of[loose[matrix.indices]]] = True

    pure = np.flatnonzero(~continuous_rows)
    if (exact.lower[pure] > exact.upper[pure]).any():
        row = int(pure[np.argmax(exact.lower[pure] > exact.upper[pure])])
        raise InfeasibleSpace(f"Row {space.row_names[row]} allows no integer label.", (space.row_names[row],))
    free = space.integrality & ~fixed
    groups = _groups(space, exact, free, ~continuous_rows, lower, upper, row_of)
    items, kept, unsure = _items(space, exact, free, groups, continuous_rows, lower, upper, row_of)
    components = _components(space, exact, loose, continuous_rows, kept, lower, upper)
    component = np.full(len(kept), -1, dtype=np.int64)
    component[components.rows] = np.repeat(np.arange(len(components.kind)), np.diff(components.row_ptr))
    rows = Rows(exact.lower[kept], exact.upper[kept], component)
    return Program(space, const, items, rows, components, kept, unsure, _blocks(items, rows), exact)


def _bounds(space: CompiledSpace) -> tuple[FloatArray, FloatArray]:
    """Return bounds of all variables: integers for integer ones, with infinite bounds tightened by the rows."""
    integer = space.integrality
    lower, upper = space.lower + 0.0, space.upper + 0.0
    infinite = integer & ~(np.isfinite(lower) & np.isfinite(upper))
    if infinite.any():
        low, up = propagated_bounds(space)
        # The rows decide about labels within their tolerance; these bounds only make the search finite.
        lower = np.where(infinite, np.maximum(lower, np.floor(low) - 1.0), lower)
        upper = np.where(infinite, np.minimum(upper, np.ceil(up) + 1.0), upper)
        still = infinite & ~(np.isfinite(lower) & np.isfinite(upper))
        if still.any():
            name = space.variable_names[int(np.argmax(still))]
            raise DiagramRefused(f"Integer variable {name} is unbounded; give it bounds.", "unbounded")
    if (lower > upper).any():
        name = space.variable_names[int(np.argmax(lower > upper))]
        raise InfeasibleSpace(f"No value is left for variable {name}.", (name,))
    wide = integer & (upper - lower >= MOST_VALUES)
    if wide.any():
        j = int(np.argmax(wide))
        raise DiagramRefused(
            f"Integer variable {space.variable_names[j]} has {upper[j] - lower[j] + 1:.0f} values; a diagram takes "
            f"at most {MOST_VALUES}.",
            "domain",
        )
    return lower, upper


def _groups(
    space: CompiledSpace,
    exact: ExactRows,
    free: BoolArray,
    pure: BoolArray,
    lower: FloatArray,
    upper: FloatArray,
    row_of: IntArray,
) -> list[IntArray]:
    """Return disjoint sets of 0/1 variables that a row fixes to exactly one; the longest rows come first."""
    indptr, indices = space.matrix.indptr, space.matrix.indices
    entry = free[indices]
    binary = free & (lower == 0.0) & (upper == 1.0)
    sign = np.sign(exact.coefficients)
    wrong = entry & ((np.abs(exact.coefficients) != 1) | ~binary[indices])
    n_rows = space.n_rows
    n_wrong = np.bincount(row_of, wrong, n_rows)
    total = np.bincount(row_of, np.where(entry, sign, 0), n_rows)
    count = np.bincount(row_of, entry, n_rows)
    one = (exact.lower == exact.upper) & (np.abs(exact.upper) == 1) & (np.sign(exact.upper) == np.sign(total))
    rows = np.flatnonzero(pure & one & (n_wrong == 0) & (np.abs(total) == count) & (count >= 2))
    taken = np.zeros(space.n_variables, dtype=bool)
    groups: list[IntArray] = []
    for row in rows[np.argsort(-count[rows], kind="stable")].tolist():
        entries = slice(int(indptr[row]), int(indptr[row + 1]))
        members = indices[entries][entry[entries]].astype(np.int64)
        if not taken[members].any():
            taken[members] = True
            groups.append(members)
    return groups


def _items(
    space: CompiledSpace,
    exact: ExactRows,
    free: BoolArray,
    groups: list[IntArray],
    continuous_rows: BoolArray,
    lower: FloatArray,
    upper: FloatArray,
    row_of: IntArray,
) -> tuple[Items, IntArray, IntArray]:
    """Return the items, the rows that can fail or have continuous variables, and the unsure rows."""
    single = free.copy()
    for members in groups:
        single[members] = False
    parts = [*groups, *(np.array([j], dtype=np.int64) for j in np.flatnonzero(single))]
    parts.sort(key=lambda members: int(members[0]))
    option_of = np.zeros(space.n_variables, dtype=np.int64)
    counts = np.empty(len(parts), dtype=np.int64)
    variables: list[IntArray] = []
    values: list[FloatArray] = []
    for i, members in enumerate(parts):
        if len(members) > 1:
            # The last variable comes first, so arcs in this order give labels in lexicographic order.
            order = np.sort(members)[::-1]
            option_of[order] = np.arange(len(order))
            variables.append(order)
            values.append(np.ones(len(order)))
        else:
            j = int(members[0])
            values.append(np.arange(lower[j], upper[j] + 1.0) + 0.0)
            variables.append(np.full(len(values[-1]), j, dtype=np.int64))
        counts[i] = len(values[-1])
    option_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    option_value = np.concatenate([*values, np.empty(0)])
    option_variable = np.concatenate([*variables, np.empty(0, dtype=np.int64)])
    group = np.zeros(len(parts), dtype=np.bool_)
    group[[i for i, members in enumerate(parts) if len(members) > 1]] = True

    columns = sp.csc_array(
        (np.arange(1, len(row_of) + 1), (row_of, space.matrix.indices)), shape=space.matrix.shape
    )  # positions of entries by column; from 1, because a stored 0 might be dropped
    column_ptr = columns.indptr.astype(np.int64)
    places = columns.data.astype(np.int64) - 1
    members = np.concatenate([*parts, np.empty(0, dtype=np.int64)])
    member_ptr = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    arguments = (
        option_ptr, option_value, group, member_ptr, members, option_of, column_ptr, places, row_of, exact.coefficients,
    )  # fmt: skip
    every = Items(option_ptr, option_variable, option_value, *_effects(*arguments, np.arange(space.n_rows)))
    least, most = extreme_activities(np.arange(len(parts)), every, space.n_rows)
    can_fail = (most > exact.upper) | (least < exact.lower)
    # Components need all their rows, including rows without free integer variables.
    kept = np.flatnonzero(can_fail | continuous_rows)
    impossible = ~continuous_rows & ((least > exact.upper) | (most < exact.lower))
    if impossible.any():
        name = space.row_names[int(np.argmax(impossible))]
        raise InfeasibleSpace(f"No label satisfies row {name}.", (name,))
    number = np.full(space.n_rows, -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    touched_ptr, touched, effect_ptr, effects = _effects(*arguments, number)
    items = Items(option_ptr, option_variable, option_value, touched_ptr, touched, effect_ptr, effects)
    beyond = (most > exact.demand_upper) | (least < exact.demand_lower)
    unsure = np.flatnonzero(~continuous_rows & ~exact.certified & beyond)
    return items, kept, unsure


@kernel
def extreme_activities(order: Any, items: Any, n_rows: int) -> Any:
    """Return the least and the largest activity of each row if every one of some items is free."""
    least, most = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64)
    for i in order:
        first, width = items.touched_ptr[i], items.touched_ptr[i + 1] - items.touched_ptr[i]
        end = items.effect_ptr[i] + width * (items.option_ptr[i + 1] - items.option_ptr[i])
        for k in range(width):
            low = high = items.effects[items.effect_ptr[i] + k]
            for e in range(items.effect_ptr[i] + k, end, width):
                low, high = min(low, items.effects[e]), max(high, items.effects[e])
            least[items.touched[first + k]] += low
            most[items.touched[first + k]] += high
    return least, most


@kernel
def _effects(
    option_ptr: Any,
    option_value: Any,
    group: Any,
    member_ptr: Any,
    members: Any,
    option_of: Any,
    column_ptr: Any,
    places: Any,
    row_of: Any,
    coefficients: Any,
    number: Any,
) -> Any:
    """Return the rows that each item touches, and the effects of its options on these rows."""
    n_items = len(group)
    place = np.full(len(number), -1, np.int64)
    touched_ptr = np.zeros(n_items + 1, np.int64)
    effect_ptr = np.zeros(n_items + 1, np.int64)
    touched = np.empty(len(places), np.int64)
    n_all = 0
    for i in range(n_items):
        first = n_all
        for m in range(member_ptr[i], member_ptr[i + 1]):
            for p in range(column_ptr[members[m]], column_ptr[members[m] + 1]):
                r = number[row_of[places[p]]]
                if r >= 0 and coefficients[places[p]] != 0 and place[r] < first:
                    place[r] = n_all
                    touched[n_all] = r
                    n_all += 1
        touched[first:n_all].sort()
        touched_ptr[i + 1] = n_all
        effect_ptr[i + 1] = effect_ptr[i] + (n_all - first) * (option_ptr[i + 1] - option_ptr[i])
    effects = np.zeros(effect_ptr[n_items], np.int64)
    for i in range(n_items):
        first, width = touched_ptr[i], touched_ptr[i + 1] - touched_ptr[i]
        for k in range(width):
            place[touched[first + k]] = k
        for m in range(member_ptr[i], member_ptr[i + 1]):
            j = members[m]
            for p in range(column_ptr[j], column_ptr[j + 1]):
                r, a = number[row_of[places[p]]], coefficients[places[p]]
                if r < 0 or a == 0:
                    continue
                if group[i]:
                    effects[effect_ptr[i] + option_of[j] * width + place[r]] = a
                else:
                    for o in range(option_ptr[i + 1] - option_ptr[i]):
                        effects[effect_ptr[i] + o * width + place[r]] = a * np.int64(option_value[option_ptr[i] + o])
    return touched_ptr, touched[:n_all].copy(), effect_ptr[:n_items].copy(), effects


def _components(
    space: CompiledSpace,
    exact: ExactRows,
    loose: BoolArray,
    continuous_rows: BoolArray,
    kept: IntArray,
    lower: FloatArray,
    upper: FloatArray,
) -> Components:
    """Return the connected components of the continuous variables that are not fixed."""
    variables, rows = np.flatnonzero(loose), np.flatnonzero(continuous_rows)
    part = space.matrix[rows][:, variables]
    alone = np.flatnonzero(np.diff(part.tocsc().indptr) == 0)
    if alone.size:
        name = space.variable_names[int(variables[alone[0]])]
        raise DiagramRefused(
            f"Continuous variable {name} is in no row, so the integer variables do not determine it.",
            "not determined",
        )
    size = len(rows) + len(variables)
    graph = sp.coo_array(
        (np.ones(part.nnz), (part.tocoo().coords[0], part.tocoo().coords[1] + len(rows))), shape=(size, size)
    )
    n_parts, of = connected_components(graph, directed=False) if size else (0, np.empty(0, dtype=np.int64))
    number = np.full(space.n_rows, -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    by_row = np.argsort(of[: len(rows)], kind="stable")
    by_variable = np.argsort(of[len(rows) :], kind="stable")
    row_ptr = np.searchsorted(of[: len(rows)][by_row], np.arange(n_parts + 1))
    variable_ptr = np.searchsorted(of[len(rows) :][by_variable], np.arange(n_parts + 1))
    kinds: dict[bytes, int] = {}
    kind = np.empty(n_parts, dtype=np.int64)
    pieces: list[tuple[Any, ...]] = []
    local = np.empty(len(variables), dtype=np.int64)
    for c in range(n_parts):
        mine = by_row[row_ptr[c] : row_ptr[c + 1]]
        columns = by_variable[variable_ptr[c] : variable_ptr[c + 1]]
        local[columns] = np.arange(len(columns))
        entries = [slice(int(part.indptr[r]), int(part.indptr[r + 1])) for r in mine]
        source, names = rows[mine], variables[columns]
        piece = (
            np.concatenate([[0], np.cumsum([e.stop - e.start for e in entries])]).astype(np.int64),
            np.concatenate([local[part.indices[e]] for e in entries]).astype(np.int64),
            np.concatenate([part.data[e] for e in entries]),
            space.row_lower[source] - exact.shift[source],
            space.row_upper[source] - exact.shift[source],
            exact.scale[source],
            lower[names],
            upper[names],
        )
        key = b"|".join(np.asarray(array).tobytes() for array in piece)
        if key not in kinds:
            kinds[key] = len(kinds)
            pieces.append(piece)
        kind[c] = kinds[key]

    def joined(k: int, dtype: Any) -> Any:
        return np.concatenate([*(piece[k] for piece in pieces), np.empty(0)]).astype(dtype)

    starts = np.concatenate([[0], np.cumsum([piece[0][-1] for piece in pieces])]).astype(np.int64)
    indptr = [piece[0][:-1] + start for piece, start in zip(pieces, starts[:-1], strict=True)]
    return Components(
        kind=kind,
        row_ptr=row_ptr.astype(np.int64),
        rows=number[rows[by_row]],
        variable_ptr=variable_ptr.astype(np.int64),
        variables=variables[by_variable].astype(np.int64),
        kind_row_ptr=np.concatenate([[0], np.cumsum([len(piece[3]) for piece in pieces])]).astype(np.int64),
        kind_variable_ptr=np.concatenate([[0], np.cumsum([len(piece[6]) for piece in pieces])]).astype(np.int64),
        indptr=np.concatenate([*indptr, starts[-1:]]).astype(np.int64),
        indices=joined(1, np.int64),
        data=joined(2, np.float64),
        row_lower=joined(3, np.float64),
        row_upper=joined(4, np.float64),
        scale=joined(5, np.float64),
        lower=joined(6, np.float64),
        upper=joined(7, np.float64),
    )


def _blocks(items: Items, rows: Rows) -> list[IntArray]:
    """Return sets of items that no row connects."""
    n_items = len(items.option_ptr) - 1
    n_rows, n_components = len(rows.component), int(rows.component.max(initial=-1)) + 1
    size = n_items + n_rows + n_components
    if not n_items:
        return []
    item_of = np.repeat(np.arange(n_items), np.diff(items.touched_ptr))
    joined = np.flatnonzero(rows.component >= 0)
    start = np.concatenate([item_of, n_items + joined])
    end = np.concatenate([n_items + items.touched, n_items + n_rows + rows.component[joined]])
    graph = sp.coo_array((np.ones(len(start)), (start, end)), shape=(size, size))
    of = connected_components(graph, directed=False)[1][:n_items]
    order = np.argsort(of, kind="stable")
    cuts = np.flatnonzero(np.diff(of[order])) + 1
    blocks = np.split(order.astype(np.int64), cuts)
    return sorted(blocks, key=lambda block: int(block[0]))
