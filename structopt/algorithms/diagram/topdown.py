"""Top-down compilation: layers of exact states, one layer for each item.

A state holds the activities of all open rows after the decisions so far. Prefixes with equal states have equal
completions. Activities between the same thresholds of a row's *suffix sums*, the sums that later items can add, also
have equal completions. With the sorted suffix sums S, row ``lower <= a + s <= upper`` holds for the sums with index in
[#{s < lower - a}, #{s <= upper - a}). A representative of its class replaces a. A row leaves the state once every
suffix satisfies it. An arc is dropped if no suffix does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import assign, kernel
from structopt.algorithms.diagram.labels import add_label, grown, new_store, rehashed
from structopt.algorithms.diagram.program import extreme_activities
from structopt.algorithms.diagram.propagation import DEAD, NO_VALUE, POINT, UNCLEAR_VALUE, UNDETERMINED_BOX, propagate

__all__ = [
    "COMPILED",
    "EMPTY",
    "TOO_MANY_ARCS",
    "TOO_MANY_LABELS",
    "TOO_MANY_NODES",
    "TOO_MUCH_WORK",
    "TOO_WIDE",
    "suffix_sums",
    "top_down",
]

#: Results of a compilation.
COMPILED, EMPTY, TOO_MANY_NODES, TOO_WIDE, TOO_MANY_ARCS, TOO_MUCH_WORK = 0, 1, 2, 3, 4, 5
TOO_MANY_LABELS = 6

#: A row with more suffix sums keeps its activities unchanged.
_MOST_SUMS = 40_000
#: Replaces the activity of a row that every completion satisfies.
_SATISFIED = -(1 << 62)
_DROPPED = -(1 << 62) + 1
#: Numbers in a layer per allowed state (31 MB by default); with more open rows, fewer states are allowed.
_MOST_COLUMNS = 64
#: Odd constants of a 64-bit hash (splitmix64), as signed numbers.
_HASH_1, _HASH_2, _HASH_3 = -7046029254386353131, -4658895280553007687, -7723592293110705685
#: Most stored outcomes of one block's components, and numbers in them.
_MOST_OUTCOMES, _MOST_OUTCOME_NUMBERS = 1 << 19, 1 << 23


@kernel
def suffix_sums(order: Any, items: Any, rows: Any) -> Any:
    """Return the sums that later items can add to each touched row of each item."""
    n_touched, n_rows = len(items.touched), len(rows.lower)
    ptr, length = np.zeros(n_touched, np.int64), np.ones(n_touched, np.int64)
    least, most = np.zeros(n_touched, np.int64), np.zeros(n_touched, np.int64)
    reach = np.zeros(n_touched, np.int64)
    total_least, total_most = extreme_activities(order, items, n_rows)
    now_ptr, now_length = np.zeros(n_rows, np.int64), np.ones(n_rows, np.int64)
    now_least, now_most = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64)
    sums = np.zeros(1024, np.int64)
    n_sums = 1
    one, other = np.empty(2 * _MOST_SUMS + 2, np.int64), np.empty(2 * _MOST_SUMS + 2, np.int64)
    for place in range(len(order) - 1, -1, -1):
        i = order[place]
        first, last = items.touched_ptr[i], items.touched_ptr[i + 1]
        n_options = items.option_ptr[i + 1] - items.option_ptr[i]
        distinct = np.empty(n_options, np.int64)
        for k in range(last - first):
            r, t = items.touched[first + k], first + k
            if rows.component[r] >= 0:
                continue
            ptr[t], length[t], least[t], most[t] = now_ptr[r], now_length[r], now_least[r], now_most[r]
            reach[t] = total_most[r] - now_most[r]
            for o in range(n_options):
                distinct[o] = items.effects[items.effect_ptr[i] + o * (last - first) + k]
            distinct.sort()
            now_least[r] += distinct[0]
            now_most[r] += distinct[n_options - 1]
            if now_length[r] < 0:
                continue
            # A sum matters only if some activity before this item completes it to a bound.
            floor = rows.lower[r] - (total_most[r] - now_most[r])
            ceiling = rows.upper[r] - (total_least[r] - now_least[r])
            n_one = 0
            start, size = now_ptr[r], now_length[r]
            for o in range(n_options):
                e = distinct[o]
                if o > 0 and e == distinct[o - 1]:
                    continue
                # Merge the sums so far with the sums of this option, both ascending.
                n_other, x, y = 0, 0, 0
                while y < size and sums[start + y] + e < floor:
                    y += 1
                while (x < n_one or (y < size and sums[start + y] + e <= ceiling)) and n_other <= _MOST_SUMS:
                    if y >= size or sums[start + y] + e > ceiling:
                        value = one[x]
                        x += 1
                    elif x >= n_one or one[x] > sums[start + y] + e:
                        value = sums[start + y] + e
                        y += 1
                    else:
                        value = one[x]
                        if value == sums[start + y] + e:
                            y += 1
                        x += 1
                    other[n_other] = value
                    n_other += 1
                one, other = other, one
                n_one = n_other
                if n_one > _MOST_SUMS:
                    break
            if n_one > _MOST_SUMS:
                now_length[r] = -1
                continue
            if n_sums + n_one > len(sums):
                wider = np.empty(2 * (n_sums + n_one), np.int64)
                assign(wider[:n_sums], sums)
                sums = wider
            for x in range(n_one):
                sums[n_sums + x] = one[x]
            now_ptr[r], now_length[r] = n_sums, n_one
            n_sums += n_one
    return ptr, length, least, most, reach, sums[:n_sums].copy()


@kernel
def _class_of(a: int, low: int, up: int, sums: Any, ptr: int, length: int, least: int, most: int, reach: int) -> int:
    """Return `_SATISFIED`, `_DROPPED`, or the largest activity of the same class."""
    if a + most <= up and a + least >= low:
        return _SATISFIED
    if a + least > up or a + most < low:
        return _DROPPED
    if length < 0:
        return a
    left, right = 0, length  # sums up to up - a
    while left < right:
        middle = (left + right) >> 1
        if sums[ptr + middle] <= up - a:
            left = middle + 1
        else:
            right = middle
    fitting = left
    left, right = 0, fitting  # sums below low - a
    while left < right:
        middle = (left + right) >> 1
        if sums[ptr + middle] < low - a:
            left = middle + 1
        else:
            right = middle
    if fitting <= left:
        return _DROPPED
    # No prefix exceeds `reach`, and sums that are too small for all prefixes were left out.
    found = min(up - sums[ptr + fitting - 1], reach)
    if left > 0:
        found = min(found, low - sums[ptr + left - 1] - 1)
    return found  # type: ignore[no-any-return]


@kernel
def _mix(value: int, column: int) -> int:
    t = (value + column * _HASH_1) * _HASH_2
    t ^= t >> 32
    t *= _HASH_3
    return t ^ (t >> 29)


@kernel
def top_down(
    order: Any,
    items: Any,
    rows: Any,
    components: Any,
    max_nodes: int,
    max_width: int,
    max_arcs: int,
    max_work: int,
) -> Any:
    """Compile all layers of a block."""
    n_items, n_rows, n_components = len(order), len(rows.lower), len(components.kind)
    s_ptr, s_length, s_least, s_most, s_reach, sums = suffix_sums(order, items, rows)
    last = np.full(n_rows, -1, np.int64)
    for place in range(n_items):
        i = order[place]
        for t in range(items.touched_ptr[i], items.touched_ptr[i + 1]):
            last[items.touched[t]] = place
    fires = np.full(n_components, -1, np.int64)
    for c in range(n_components):
        for p in range(components.row_ptr[c], components.row_ptr[c + 1]):
            fires[c] = max(fires[c], last[components.rows[p]])
    for r in range(n_rows):
        if rows.component[r] >= 0:
            last[r] = fires[rows.component[r]]

    store = new_store()
    label_hash, _, _, _, label_counts = store
    label_table = np.full(256, -1, np.int32)
    longest = 1
    for c in range(n_components):
        longest += components.variable_ptr[c + 1] - components.variable_ptr[c]
    buffer_variable, buffer_value = np.empty(longest, np.int64), np.empty(longest, np.float64)

    # Stored results of propagation by kind and activities.
    n_outcomes = n_keys = n_values = 0
    some = n_components > 0
    outcome_hash = np.empty(_MOST_OUTCOMES if some else 1, np.int64)
    outcome_kind = np.empty(_MOST_OUTCOMES if some else 1, np.int64)
    outcome_key = np.empty(_MOST_OUTCOMES if some else 1, np.int64)
    outcome_ptr = np.empty(_MOST_OUTCOMES + 1 if some else 1, np.int64)
    outcome_ptr[0] = 0
    outcome_dead = np.empty(_MOST_OUTCOMES if some else 1, np.bool_)
    keys = np.empty(_MOST_OUTCOME_NUMBERS if some else 1, np.int64)
    outcome_variable = np.empty(_MOST_OUTCOME_NUMBERS if some else 1, np.int64)
    outcome_value = np.empty(_MOST_OUTCOME_NUMBERS if some else 1, np.float64)
    outcome_table = np.full(256, -1, np.int32)
    widest = 0
    for k in range(len(components.kind_row_ptr) - 1):
        widest = max(widest, components.kind_row_ptr[k + 1] - components.kind_row_ptr[k])
        widest = max(widest, components.kind_variable_ptr[k + 1] - components.kind_variable_ptr[k])
    activity, point = np.empty(widest, np.int64), np.empty(widest, np.float64)

    widths = np.zeros(n_items, np.int64)
    arc_ptr = np.empty(max_nodes + max_width + 2, np.int64)
    arc_head, arc_label = np.empty(max_arcs, np.int32), np.empty(max_arcs, np.int32)
    n_nodes = n_arcs = 0
    work = 0
    status = COMPILED
    states = np.empty((1, 0), np.int64)
    n_states = 1
    column = np.full(n_rows, -1, np.int64)
    open_rows, n_open = np.empty(n_rows, np.int64), 0
    column_row = np.empty(0, np.int64)
    touched_at = np.full(n_rows, -1, np.int64)
    table = np.full(64, -1, np.int32)

    for place in range(n_items):
        i = order[place]
        first, width = items.touched_ptr[i], items.touched_ptr[i + 1] - items.touched_ptr[i]
        n_options = items.option_ptr[i + 1] - items.option_ptr[i]
        base = items.effect_ptr[i]
        for k in range(width):
            r = items.touched[first + k]
            touched_at[r] = k
            if column[r] < 0:
                open_rows[n_open] = r
                n_open += 1
        # For each column of a new state: the old column, and the effect of each option.
        copy_from, copy_to, n_copies = np.empty(n_open, np.int64), np.empty(n_open, np.int64), 0
        class_k, class_from, class_to, n_classes = (
            np.empty(width, np.int64), np.empty(width, np.int64), np.empty(width, np.int64), 0,
        )  # fmt: skip
        exact_k, exact_from, exact_to, n_exact = (
            np.empty(width, np.int64), np.empty(width, np.int64), np.empty(width, np.int64), 0,
        )  # fmt: skip
        shared = np.full(states.shape[1], -1, np.int64)
        new_column = np.full(n_open, -1, np.int64)
        n_columns = 0
        for x in range(n_open):
            r = open_rows[x]
            k, closing = touched_at[r], last[r] == place
            if rows.component[r] < 0:
                if k < 0:
                    copy_from[n_copies], copy_to[n_copies] = column[r], n_columns
                    n_copies += 1
                else:
                    class_k[n_classes], class_from[n_classes] = k, column[r]
                    class_to[n_classes] = -1 if closing else n_columns
                    n_classes += 1
                if not closing:
                    new_column[x] = n_columns
                    n_columns += 1
            elif not closing:
                # Rows of components whose entries are equal so far share one column.
                if k < 0:
                    if shared[column[r]] < 0:
                        shared[column[r]] = n_columns
                        copy_from[n_copies], copy_to[n_copies] = column[r], n_columns
                        n_copies += 1
                        n_columns += 1
                    new_column[x] = shared[column[r]]
                else:
                    for y in range(n_exact):
                        same = exact_from[y] == column[r]
                        o = 0
                        while same and o < n_options:
                            effect = items.effects[base + o * width + k]
                            same = effect == items.effects[base + o * width + exact_k[y]]
                            o += 1
                        if same:
                            new_column[x] = exact_to[y]
                            break
                    if new_column[x] < 0:
                        exact_k[n_exact], exact_from[n_exact], exact_to[n_exact] = k, column[r], n_columns
                        new_column[x] = n_columns
                        n_exact += 1
                        n_columns += 1
        fired, n_fired = np.empty(n_components, np.int64), 0
        fired_rows = 0
        for c in range(n_components):
            if fires[c] == place:
                fired[n_fired] = c
                n_fired += 1
                fired_rows += components.row_ptr[c + 1] - components.row_ptr[c]

        # Searching the suffix sums of many rows takes longer, because they do not fit into the cache.
        classes = n_classes + 2 * max(0, n_classes - 64)
        work += n_states * n_options * (4 + classes + n_exact + fired_rows + n_columns // 8)
        if work > max_work:
            status = TOO_MUCH_WORK
            break
        option_label = np.empty(n_options, np.int32)
        for o in range(n_options):
            option = items.option_ptr[i] + o
            buffer_variable[0], buffer_value[0] = items.option_variable[option], items.option_value[option]
            label_table = grown(label_table, label_hash, label_counts)
            option_label[o] = add_label(
                store, label_table, buffer_variable, buffer_value, 0 if buffer_value[0] == 0.0 else 1
            )
        # Outcomes of the components that fire, one after the other: a combination is an earlier one and an outcome.
        most_combinations = 1
        if n_fired:
            most_combinations = min(n_options + n_states * n_options * n_fired, 1 << 22)
        combination_before = np.empty(most_combinations, np.int64)
        combination_outcome = np.empty(most_combinations, np.int64)
        combination_hash = np.empty(most_combinations, np.int64)
        combination_label = np.empty(most_combinations, np.int32)
        combination_table = np.full(256 if n_fired else 1, -1, np.int32)
        n_combinations = n_options if n_fired else 0
        if n_fired:
            for o in range(n_options):  # combinations without an earlier outcome are not in the table
                combination_before[o], combination_outcome[o], combination_hash[o] = -1, o, 0
                combination_label[o] = -1

        # The memory of a layer is limited, so fewer wide states are allowed.
        most_wide = min(max_width, _MOST_COLUMNS * max_width // max(1, n_columns))
        most_states = min(n_states * n_options, most_wide + 1)
        new_states = np.empty((most_states, n_columns), np.int64)
        new_hash = np.empty(most_states, np.int64)
        n_new = 0
        table[:] = -1
        scratch = np.empty(n_columns, np.int64)
        for s in range(n_states):
            arc_ptr[n_nodes + s] = n_arcs
            copied = 0
            for x in range(n_copies):
                value = states[s, copy_from[x]]
                scratch[copy_to[x]] = value
                copied += _mix(value, copy_to[x])
            for o in range(n_options):
                total, alive = copied, True
                for x in range(n_classes):
                    value = 0 if class_from[x] < 0 else states[s, class_from[x]]
                    if value != _SATISFIED:
                        k = class_k[x]
                        t = first + k
                        r = items.touched[t]
                        value = _class_of(
                            value + items.effects[base + o * width + k],
                            rows.lower[r], rows.upper[r], sums,
                            s_ptr[t], s_length[t], s_least[t], s_most[t], s_reach[t],
                        )  # fmt: skip
                        if value == _DROPPED:
                            alive = False
                            break
                    if class_to[x] >= 0:
                        scratch[class_to[x]] = value
                        total += _mix(value, class_to[x])
                if not alive:
                    continue
                for x in range(n_exact):
                    value = 0 if exact_from[x] < 0 else states[s, exact_from[x]]
                    value += items.effects[base + o * width + exact_k[x]]
                    scratch[exact_to[x]] = value
                    total += _mix(value, exact_to[x])
                label = option_label[o]
                combination = o
                for f in range(n_fired):
                    c = fired[f]
                    kind = components.kind[c]
                    begin, n_mine = components.row_ptr[c], components.row_ptr[c + 1] - components.row_ptr[c]
                    code = _mix(kind, 7)
                    for p in range(n_mine):
                        r = components.rows[begin + p]
                        value = 0 if column[r] < 0 else states[s, column[r]]
                        if touched_at[r] >= 0:
                            value += items.effects[base + o * width + touched_at[r]]
                        activity[p] = value
                        code += _mix(value, p)
                    slot = code & (len(outcome_table) - 1)
                    found = -1
                    while outcome_table[slot] >= 0:
                        m = outcome_table[slot]
                        if outcome_hash[m] == code and outcome_kind[m] == kind:
                            same = True
                            for p in range(n_mine):
                                if keys[outcome_key[m] + p] != activity[p]:
                                    same = False
                                    break
                            if same:
                                found = m
                                break
                        slot = (slot + 1) & (len(outcome_table) - 1)
                    if found < 0:
                        n_points = components.kind_variable_ptr[kind + 1] - components.kind_variable_ptr[kind]
                        if (
                            n_outcomes >= _MOST_OUTCOMES - 1
                            or n_keys + n_mine > _MOST_OUTCOME_NUMBERS
                            or n_values + n_points > _MOST_OUTCOME_NUMBERS
                        ):
                            status = TOO_MUCH_WORK
                            break
                        work += 2 * (n_mine + n_points)
                        ended = propagate(components, kind, activity, point)
                        found = n_outcomes
                        outcome_hash[found], outcome_kind[found], outcome_key[found] = code, kind, n_keys
                        outcome_dead[found] = ended == DEAD
                        for p in range(n_mine):
                            keys[n_keys + p] = activity[p]
                        n_keys += n_mine
                        if ended == POINT:
                            for p in range(n_points):
                                if point[p] != 0.0:
                                    outcome_variable[n_values], outcome_value[n_values] = p, point[p]
                                    n_values += 1
                        elif ended != DEAD:
                            outcome_variable[n_values] = 0
                            outcome_value[n_values] = NO_VALUE if ended == UNDETERMINED_BOX else UNCLEAR_VALUE
                            n_values += 1
                        n_outcomes += 1
                        outcome_ptr[n_outcomes] = n_values
                        outcome_table[slot] = found
                        if 2 * n_outcomes > len(outcome_table):
                            outcome_table = rehashed(outcome_hash, 0, n_outcomes, 4 * len(outcome_table))
                    if outcome_dead[found]:
                        alive = False
                        break
                    code = _mix(combination, 1) + _mix(found, 2)
                    slot = code & (len(combination_table) - 1)
                    after = -1
                    while combination_table[slot] >= 0:
                        m = combination_table[slot]
                        if combination_before[m] == combination and combination_outcome[m] == found:
                            after = m
                            break
                        slot = (slot + 1) & (len(combination_table) - 1)
                    if after < 0:
                        if n_combinations >= most_combinations:
                            status = TOO_MANY_LABELS
                            break
                        after = n_combinations
                        combination_before[after], combination_outcome[after] = combination, found
                        combination_hash[after], combination_label[after] = code, -1
                        combination_table[slot] = after
                        n_combinations += 1
                        if 2 * n_combinations > len(combination_table):
                            combination_table = rehashed(
                                combination_hash, n_options, n_combinations, 4 * len(combination_table)
                            )
                    combination = after
                if status != COMPILED:
                    break
                if not alive:
                    continue
                if n_fired:
                    if combination_label[combination] < 0:
                        option = items.option_ptr[i] + o
                        size = 0
                        if items.option_value[option] != 0.0:
                            buffer_variable[0] = items.option_variable[option]
                            buffer_value[0] = items.option_value[option]
                            size = 1
                        m = combination
                        for f in range(n_fired - 1, -1, -1):
                            c, found = fired[f], combination_outcome[m]
                            for p in range(outcome_ptr[found], outcome_ptr[found + 1]):
                                buffer_variable[size] = components.variables[
                                    components.variable_ptr[c] + outcome_variable[p]
                                ]
                                buffer_value[size] = outcome_value[p]
                                size += 1
                            m = combination_before[m]
                        label_table = grown(label_table, label_hash, label_counts)
                        label = add_label(store, label_table, buffer_variable, buffer_value, size)
                        if label < 0:
                            status = TOO_MANY_LABELS
                            break
                        combination_label[combination] = label
                    label = combination_label[combination]
                slot = total & (len(table) - 1)
                head = -1
                while table[slot] >= 0:
                    m = table[slot]
                    if new_hash[m] == total:
                        same = True
                        for x in range(n_columns):
                            if new_states[m, x] != scratch[x]:
                                same = False
                                break
                        if same:
                            head = m
                            break
                    slot = (slot + 1) & (len(table) - 1)
                if head < 0:
                    if n_new >= most_wide:
                        status = TOO_WIDE
                        break
                    head = n_new
                    for x in range(n_columns):
                        new_states[head, x] = scratch[x]
                    new_hash[head] = total
                    table[slot] = head
                    n_new += 1
                    if 2 * n_new > len(table):
                        table = rehashed(new_hash, 0, n_new, 4 * len(table))
                if n_arcs >= max_arcs:
                    status = TOO_MANY_ARCS
                    break
                arc_head[n_arcs] = n_nodes + n_states + head
                arc_label[n_arcs] = label
                n_arcs += 1
            if status != COMPILED:
                break
        kept = 0
        column_row = np.empty(n_columns, np.int64)
        for x in range(n_open):
            r = open_rows[x]
            column[r] = new_column[x]
            touched_at[r] = -1
            if new_column[x] >= 0:
                column_row[new_column[x]] = r
                open_rows[kept] = r
                kept += 1
        n_open = kept
        widths[place] = n_new
        n_nodes += n_states
        states, n_states = new_states, n_new
        if status == COMPILED and n_nodes + n_new > max_nodes:
            status = TOO_MANY_NODES
        if status == COMPILED and n_new == 0:
            status = EMPTY
        if status != COMPILED:
            widths = widths[: place + 1]
            break
    if status == COMPILED:
        arc_ptr[n_nodes] = n_arcs  # the terminal
        arc_ptr[n_nodes + 1] = n_arcs
        n_nodes += 1
    column_values = np.zeros(len(column_row), np.int64)
    if status != COMPILED and status != EMPTY and states.shape[1] == len(column_row):
        some_states = min(n_states, 20_000)
        for x in range(len(column_row)):
            values = np.sort(states[:some_states, x].copy())
            n_values = 0
            for s in range(some_states):
                if s == 0 or values[s] != values[s - 1]:
                    n_values += 1
            column_values[x] = n_values
    return (
        status,
        widths,
        arc_ptr[: n_nodes + 1].copy(),
        arc_head[:n_arcs].copy(),
        arc_label[:n_arcs].copy(),
        store,
        label_table,
        column_row,
        column_values,
    )
