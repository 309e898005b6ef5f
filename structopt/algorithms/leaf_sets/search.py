"""Sets of leaves in a DAG: alternating improvement of a label and of an upper bound, until they agree.

Arguments as in `leaf_set_prices`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import assign, kernel
from structopt.algorithms.leaf_sets.prices import IN, OUT, ease_of, sweep

__all__ = ["label_and_proof", "value_of"]


@kernel
def label_and_proof(
    up_ptr: Any, up: Any, down_ptr: Any, kid: Any, rho: Any, needy: Any, alt: Any, state: Any, lam: Any, mu: Any,
    g: Any, room: Any, ease: Any, paid: Any, value: Any, x: Any, s: Any, largest: float, gap: float, rounds: int,
) -> float:  # fmt: skip
    """Labels and sweeps in turn; the bound that proves the best label, in `x` and `s`, to be optimal, or inf.

    Each label is what the last sweep's prices advise, each sweep starts from the last label. It stops where the best
    value and the least bound meet within `gap`, relative to the `largest` gain and those of the label, or after so many
    rounds.
    """
    n = rho.size
    for v in range(n):
        state[v] = OUT
        room[v] = -rho[v]
    ease_of(up_ptr, up, state, room, ease)
    bound = sweep(up_ptr, up, down_ptr, kid, rho, needy, alt, state, lam, mu, g, room, ease, paid, value)
    best_value = -np.inf
    best = np.empty_like(state)
    proved = np.inf
    for _ in range(rounds):
        _advised_label(up_ptr, up, down_ptr, kid, needy, alt, value, state)
        size = largest
        for v in range(n):
            x[v] = 1.0 if state[v] == IN else 0.0
            size += abs(rho[v]) * x[v]
        found = value_of(down_ptr, kid, rho, needy, alt, x, s)
        if found > best_value:
            best_value = found
            assign(best, state)
        least = sweep(up_ptr, up, down_ptr, kid, rho, needy, alt, state, lam, mu, g, room, ease, paid, value)
        bound = min(bound, least)
        if bound - best_value <= gap * size:
            proved = bound
            break
    for v in range(n):
        x[v] = 1.0 if best[v] == IN else 0.0
    value_of(down_ptr, kid, rho, needy, alt, x, s)
    return proved


@kernel
def value_of(down_ptr: Any, kid: Any, rho: Any, needy: Any, alt: Any, x: Any, s: Any) -> float:
    """The value of a point of the core; `s` becomes what its needy nodes take of their children outside."""
    total = 0.0
    for v in range(x.size):
        total += rho[v] * x[v]
        s[v] = 0.0
        if needy[v]:
            lacks = x[v]
            for k in range(down_ptr[v], down_ptr[v + 1]):
                lacks -= x[kid[k]]
            if lacks > 0.0 and alt[v] > -np.inf:
                s[v] = lacks
                total += alt[v] * lacks
    return total


@kernel
def _advised_label(up_ptr: Any, up: Any, down_ptr: Any, kid: Any, needy: Any, alt: Any, value: Any, state: Any) -> None:
    """Write a label into `state` (IN, OUT): on a tree, what its dynamic program would choose.

    A node is in if all its parents are and it is worth something, or if one needs it; then so is all above it, each
    with a child that is in.
    """
    n = state.size
    for v in range(n):
        state[v] = OUT
    state[0] = IN
    for v in range(1, n):
        _take_if_worthy(v, up_ptr, up, value, state)
    stack = np.empty(n, np.int64)
    for v in range(n):
        _take_if_worthy(v, up_ptr, up, value, state)
        if state[v] != IN or not needy[v]:
            continue
        best, price, satisfied = -1, alt[v], False
        for k in range(down_ptr[v], down_ptr[v + 1]):
            c = kid[k]
            satisfied |= state[c] == IN
            worth = value[c]
            for e in range(up_ptr[c], up_ptr[c + 1]):
                if state[up[e]] == OUT:
                    worth += min(0.0, value[up[e]])
            if worth > price or (best < 0 and price == -np.inf):
                best, price = c, worth
        if satisfied or best < 0:
            continue
        state[best] = IN
        stack[0], count = best, 1
        while count:
            count -= 1
            c = stack[count]
            for e in range(up_ptr[c], up_ptr[c + 1]):
                if state[up[e]] == OUT:
                    state[up[e]] = IN
                    stack[count] = up[e]
                    count += 1


@kernel
def _take_if_worthy(v: int, up_ptr: Any, up: Any, value: Any, state: Any) -> None:
    if state[v] == OUT and value[v] > 0.0:
        for e in range(up_ptr[v], up_ptr[v + 1]):
            if state[up[e]] == OUT:
                return
        state[v] = IN
