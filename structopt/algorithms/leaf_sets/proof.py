"""Sets of leaves in a DAG: a label and dual prices that prove it optimal, by sweeps in O(nodes + arcs).

    max  sum_n r_n z_n
         z_c <= z_p                        for every arc p -> c       (multiplier lambda_pc >= 0)
         sum over children z_c >= z_n      for every internal n       (multiplier mu_n >= 0)

with node 0 above all roots, ``r_0 = 0``, ``z_0 = 1``: its second row is "some root" (docs/mathematics/hierarchies). Any
multipliers bound every feasible z, whoever found them: with the reduced gains

    g_n = r_n - mu_n + sum over parents p (mu_p - lambda_pn) + sum over children c lambda_nc

``r.z <= g.z <= g_0 + sum of max(0, g_n)``. A z with that value is optimal (complementary slackness: lambda_pc > 0 only
where ``z_p = z_c``, mu_n > 0 only where its row is tight, ``g_n > 0`` only where ``z_n = 1``, < 0 only where it is 0).

A sweep from the leaves up looks for such multipliers. A node that is out but worth something hands that to a parent
that is out, too, and pays for it (lambda); a node in hands what it has too much to parents that lack it. A node that
needs a child pays the cheapest one (mu). On a tree this is the dynamic program; with several parents the question is
how much to which, which the last sweep's ease decides. Labels and sweeps improve each other in turn, until the best
value and the least bound agree.

Nodes of the core (`structopt.algorithms.leaf_sets.core`) have gains `rho`; a `needy` one may pay for a child outside
instead, at `alt`. Parents of v are ``up[up_ptr[v]:up_ptr[v + 1]]``, arcs being numbered in this order; children
``kid[down_ptr[v]:...]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import assign, kernel

__all__ = ["IN", "OUT", "ease_of", "label_and_proof", "sweep", "value_of"]

#: States of a node in a label.
OUT, IN = 0, 1


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


@kernel
def ease_of(up_ptr: Any, up: Any, state: Any, room: Any, ease: Any) -> None:
    """The amount that each node can bear: itself, and through the best of its parents in the same state."""
    for v in range(room.size):
        most = 0.0
        for e in range(up_ptr[v], up_ptr[v + 1]):
            if state[up[e]] == state[v]:
                most = max(most, ease[up[e]])
        ease[v] = max(room[v], 0.0) + most


@kernel
def sweep(
    up_ptr: Any, up: Any, down_ptr: Any, kid: Any, rho: Any, needy: Any, alt: Any, state: Any, lam: Any, mu: Any,
    g: Any, room: Any, ease: Any, paid: Any, value: Any,
) -> float:  # fmt: skip
    """Multipliers that suit a label, `state`; the bound that they prove.

    `ease` is that of the last sweep, and becomes that of this one. On return `g` are the reduced gains, `value` what
    each node was worth before it was passed on, `paid` whether a child passed anything to it. `room`, by how much a
    node may yet rise, counts on its children's room, which other parents may use first: the choices rest on it, the
    bound does not.
    """
    n = rho.size
    for v in range(n):
        g[v] = rho[v]
        mu[v] = 0.0
        paid[v] = False
    for e in range(lam.size):
        lam[e] = 0.0
    for v in range(n - 1, -1, -1):
        spare, amount = 0.0, 0.0
        value[v] = g[v]
        if needy[v] and state[v] == IN:
            amount = _due(v, up_ptr, up, down_ptr, kid, -alt[v], state, g, room, ease)
        elif needy[v] and not paid[v]:
            spare = _least_room(v, up_ptr, up, down_ptr, kid, -alt[v], state, room, ease)
            value[v] -= spare
            # Node 0 is there whatever it is worth; others need only not be worth anything.
            amount = spare if v == 0 else max(0.0, min(g[v], spare))
            spare -= amount
        if amount > 0.0:
            _pay(v, amount, down_ptr, kid, mu, g, room)
        if g[v] > 0.0:
            _push(v, up_ptr, up, state, lam, g, ease, paid, True)
        room[v] = max(0.0, -g[v]) + spare if state[v] == OUT else 0.0
    # Down again: who was made worth something by what its parents paid, pays its own children or another parent.
    for v in range(1, n):
        if state[v] == OUT and g[v] > 0.0:
            if needy[v] and not paid[v]:
                spare = _least_room(v, up_ptr, up, down_ptr, kid, -alt[v] - mu[v], state, room, ease)
                amount = min(g[v], spare)
                if amount > 0.0:
                    _pay(v, amount, down_ptr, kid, mu, g, room)
            if g[v] > 0.0:
                _push(v, up_ptr, up, state, lam, g, ease, paid, False)
    for v in range(n):
        if state[v] == IN:
            room[v] = -g[v]
    ease_of(up_ptr, up, state, room, ease)
    bound: float = g[0]
    for v in range(1, n):
        bound += max(0.0, g[v])
    return bound


@kernel
def _push(n: int, up_ptr: Any, up: Any, state: Any, lam: Any, g: Any, ease: Any, paid: Any, hand_on: bool) -> None:
    """Hand a positive reduced gain to parents in the same state.

    Those that can bear most come first, until they are as badly off as the next. With `hand_on` parents take any
    amount, as they will hand it on themselves; otherwise what they lack.
    """
    first, last = up_ptr[n], up_ptr[n + 1]
    for _ in range(4 * (last - first)):
        most, next_most, chosen, count = -np.inf, -np.inf, -1, 0
        for e in range(first, last):
            p = up[e]
            if state[p] != state[n] or not (hand_on or g[p] < 0.0):
                continue
            count += 1
            if ease[p] > most:
                most, next_most, chosen = ease[p], most, e
            elif ease[p] > next_most:
                next_most = ease[p]
        if count == 0:
            return
        p = up[chosen]
        give = g[n]
        if count > 1:
            give = min(give, most - next_most + g[n] / count)
        if not hand_on:
            give = min(give, -g[p])
        _hand(n, chosen, p, give, lam, g, ease, paid)
        if not g[n] > 0.0:
            return
    if hand_on:
        for e in range(first, last):
            if state[up[e]] == state[n]:
                _hand(n, e, up[e], g[n], lam, g, ease, paid)
                return


@kernel
def _hand(n: int, e: int, p: int, give: float, lam: Any, g: Any, ease: Any, paid: Any) -> None:
    lam[e] += give
    g[p] += give
    g[n] = 0.0 if give == g[n] else g[n] - give
    ease[p] -= give
    paid[p] = True


@kernel
def _pay(n: int, amount: float, down_ptr: Any, kid: Any, mu: Any, g: Any, room: Any) -> None:
    """Raise mu: node n is worth less, its children more, and have less room for other parents."""
    mu[n] += amount
    g[n] -= amount
    for k in range(down_ptr[n], down_ptr[n + 1]):
        g[kid[k]] += amount
        room[kid[k]] -= amount


@kernel
def _room_for(c: int, n: int, up_ptr: Any, up: Any, state: Any, room: Any, ease: Any) -> float:
    """By how much a child may rise for its parent n: its own room, and what it can hand to another parent outside."""
    most = 0.0
    for e in range(up_ptr[c], up_ptr[c + 1]):
        if up[e] != n and state[up[e]] == OUT:
            most = max(most, ease[up[e]])
    found: float = room[c] + most
    return found


@kernel
def _least_room(
    n: int, up_ptr: Any, up: Any, down_ptr: Any, kid: Any, limit: float, state: Any, room: Any, ease: Any
) -> float:
    """By how much mu of a node outside can rise before a child is worth something."""
    for k in range(down_ptr[n], down_ptr[n + 1]):
        if room[kid[k]] < limit:
            limit = min(limit, _room_for(kid[k], n, up_ptr, up, state, room, ease))
    return max(limit, 0.0)


@kernel
def _due(
    n: int, up_ptr: Any, up: Any, down_ptr: Any, kid: Any, limit: float, state: Any, g: Any, room: Any, ease: Any
) -> float:
    """The amount that a node inside pays for the only child that it has, or for the one outside the core."""
    chosen, lacks, least = 0, 0.0, limit
    for k in range(down_ptr[n], down_ptr[n + 1]):
        c = kid[k]
        if state[c] == IN:
            chosen += 1
            lacks = -g[c]
        elif room[c] < least:
            least = min(least, _room_for(c, n, up_ptr, up, state, room, ease))
    if chosen == 0:
        return limit if limit < np.inf else 0.0
    return max(0.0, min(least, lacks)) if chosen == 1 else 0.0
