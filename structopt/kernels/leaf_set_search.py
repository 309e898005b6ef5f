"""Sets of leaves in a DAG: a label and its proof in turn, and what to ask a linear program where they do not meet.

Arguments as in `leaf_set_prices`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt.kernels._common import assign, kernel
from structopt.kernels.leaf_set_prices import IN, OPEN, OUT, ease_of, sweep

__all__ = ["label_and_proof", "open_more", "open_undecided", "value_of"]


@kernel
def label_and_proof(
    up_ptr: Any, up: Any, down_ptr: Any, kid: Any, rho: Any, needy: Any, alt: Any, state: Any, x: Any, priced: Any,
    lam: Any, mu: Any, g: Any, room: Any, ease: Any, paid: Any, value: Any, s: Any, largest: float, gap: float,
    rounds: int,
) -> tuple[float, float]:  # fmt: skip
    """Labels and sweeps in turn; the best value found, in `x`, `s` and `state`, and the least bound.

    Each label is what the last sweep's prices advise, each sweep starts from the last label. It stops where they meet
    within `gap`, relative to the `largest` gain and those of the label, or after so many rounds.
    """
    n = rho.size
    for v in range(n):
        state[v] = OUT
        x[v] = 0.0
        priced[v] = False
        room[v] = -rho[v]
    ease_of(up_ptr, up, state, room, ease)
    bound = sweep(
        up_ptr, up, down_ptr, kid, rho, needy, alt, state, x, priced, lam, mu, g, room, ease, paid, value
    )  # fmt: skip
    best_value = -np.inf
    best = np.empty_like(state)
    for _ in range(rounds):
        _advised_label(up_ptr, up, down_ptr, kid, needy, alt, value, state)
        size = largest
        for v in range(n):
            x[v] = 1.0 if state[v] == IN else 0.0
            size += abs(rho[v]) * x[v]
        proved = sweep(
            up_ptr, up, down_ptr, kid, rho, needy, alt, state, x, priced, lam, mu, g, room, ease, paid, value
        )  # fmt: skip
        bound = min(bound, proved)
        found = value_of(down_ptr, kid, rho, needy, alt, x, s)
        if found > best_value:
            best_value = found
            assign(best, state)
        if bound - best_value <= gap * size:
            break
    assign(state, best)
    for v in range(n):
        x[v] = 1.0 if state[v] == IN else 0.0
    return value_of(down_ptr, kid, rho, needy, alt, x, s), bound


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


@kernel
def open_more(
    up_ptr: Any, up: Any, down_ptr: Any, kid: Any, arc: Any, needy: Any, paid: Any, state: Any, lam: Any, g: Any,
    tolerance: float,
) -> int:  # fmt: skip
    """Open the nodes whose reduced gains have the wrong sign, with what they go together with; how many are new.

    A node outside that is worth something: with those that made it so, or the child that it would need, and all nodes
    above them. A node inside that is not worth it: with all inside below it. So no open node is ever below one that is
    out, and no node that is in below an open one. `arc` numbers the arcs to the children.
    """
    n = state.size
    stack = np.empty(n, np.int64)
    opened = 0
    for v in range(1, n):
        was = state[v]
        if not (was == OUT and g[v] > tolerance) and not (was == IN and g[v] < -tolerance):
            continue
        state[v] = OPEN
        stack[0], count = v, 1
        while count:
            count -= 1
            opened += 1
            w = stack[count]
            best = -1
            for k in range(down_ptr[w], down_ptr[w + 1]):
                c = kid[k]
                if state[c] == was and (was == IN or lam[arc[k]] > 0.0):
                    state[c] = OPEN
                    stack[count] = c
                    count += 1
                if best < 0 or g[c] > g[best]:
                    best = c
            if was == OUT and needy[w] and not paid[w] and best >= 0 and state[best] == OUT:
                state[best] = OPEN
                stack[count] = best
                count += 1
    return opened + _open_above(up_ptr, up, state)


@kernel
def open_undecided(up_ptr: Any, up: Any, state: Any, g: Any, slack: float) -> int:
    """Open all nodes but those that every label within `slack` of the bound agrees on; how many are new.

    A label that differs from the sign of ``g_n`` at node n loses at least ``|g_n|`` against the bound.
    """
    opened = 0
    for v in range(1, state.size):
        # All below a node that is not sure to be in are not sure, either.
        unsure = abs(g[v]) <= slack
        for e in range(up_ptr[v], up_ptr[v + 1]):
            unsure |= state[v] == IN and state[up[e]] == OPEN
        if unsure and state[v] != OPEN:
            state[v] = OPEN
            opened += 1
    return opened + _open_above(up_ptr, up, state)


@kernel
def _open_above(up_ptr: Any, up: Any, state: Any) -> int:
    opened = 0
    for v in range(state.size - 1, 0, -1):
        if state[v] == OPEN:
            for e in range(up_ptr[v], up_ptr[v + 1]):
                if state[up[e]] == OUT:
                    state[up[e]] = OPEN
                    opened += 1
    return opened
