"""Labels of arcs: lists of (variable, value), each list stored once.

Items come in one order along a path, so equal sets of pairs are equal lists. Arrays have their maximum length from the
start, because memory is only allocated when it is written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import kernel

__all__ = ["MOST_LABELS", "MOST_PAIRS", "add_label", "grown", "joined_label", "new_store"]

MOST_LABELS, MOST_PAIRS = 1 << 20, 1 << 23
_HASH_1, _HASH_2 = -4658895280553007687, -7723592293110705685


@kernel
def new_store() -> Any:
    """Return an empty store of hashes, pointers, variables, values and counts; label 0 is the empty list."""
    hashes = np.empty(MOST_LABELS, np.int64)
    ptr = np.empty(MOST_LABELS + 1, np.int64)
    variables = np.empty(MOST_PAIRS, np.int32)
    values = np.empty(MOST_PAIRS, np.float64)
    counts = np.zeros(2, np.int64)
    hashes[0] = 0
    ptr[0] = ptr[1] = 0
    counts[0] = 1
    return hashes, ptr, variables, values, counts


@kernel
def grown(table: Any, hashes: Any, counts: Any) -> Any:
    """Return the hash table, enlarged if one more label would fill it by more than half."""
    if 2 * (counts[0] + 1) <= len(table):
        return table
    return rehashed(hashes, 1, counts[0], 4 * len(table))


@kernel
def rehashed(hashes: Any, first: int, end: int, size: int) -> Any:
    """Return a hash table of the indices ``first:end`` into `hashes`, with open addressing."""
    table = np.full(size, -1, np.int32)
    for k in range(first, end):
        slot = hashes[k] & (size - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        table[slot] = k
    return table


@kernel
def add_label(store: Any, table: Any, variables: Any, values: Any, n: int) -> int:
    """Return the number of a label, which is added if it is new; -1 if the store is full."""
    hashes, ptr, stored_variables, stored_values, counts = store
    if n == 0:
        return 0
    code = np.int64(n)
    for k in range(n):
        # Different values with equal hashes are compared below.
        digits = values[k] * 65536.0
        code = (code ^ (variables[k] * _HASH_1 + (np.int64(digits) if abs(digits) < 9e18 else 0))) * _HASH_2
        code ^= code >> 31
    slot = code & (len(table) - 1)
    while table[slot] >= 0:
        m = table[slot]
        if hashes[m] == code and ptr[m + 1] - ptr[m] == n:
            same = True
            for k in range(n):
                if stored_variables[ptr[m] + k] != variables[k] or stored_values[ptr[m] + k] != values[k]:
                    same = False
                    break
            if same:
                return m  # type: ignore[no-any-return]
        slot = (slot + 1) & (len(table) - 1)
    m = counts[0]
    if m >= MOST_LABELS or counts[1] + n > MOST_PAIRS:
        return -1
    table[slot] = m
    hashes[m] = code
    for k in range(n):
        stored_variables[counts[1] + k] = variables[k]
        stored_values[counts[1] + k] = values[k]
    counts[0] += 1
    counts[1] += n
    ptr[m + 1] = counts[1]
    return m  # type: ignore[no-any-return]


@kernel
def joined_label(store: Any, table: Any, one: int, other: int, variables: Any, values: Any) -> int:
    """Return the label of the pairs of `one` followed by the pairs of `other`; -1 if the store is full."""
    _, ptr, stored_variables, stored_values, _ = store
    if one == 0:
        return other
    if other == 0:
        return one
    n = 0
    for label in (one, other):
        for p in range(ptr[label], ptr[label + 1]):
            variables[n], values[n] = stored_variables[p], stored_values[p]
            n += 1
    return add_label(store, table, variables, values, n)
