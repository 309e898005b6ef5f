"""Compiled kernels of pairwise models: from float64 coefficients to integers, roof duality, and back.

Each function is one call from Python. Scratch is made once a call: a batch reuses it and threads do not share it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import assign, kernel
from structopt.algorithms.maxflow import NOT_FINITE, integer_exponent, integer_scale, rescale_flow, to_integers
from structopt.algorithms.pairwise.enumeration import best_code, best_product_code, code_bits, pareto_codes
from structopt.algorithms.pairwise.exact import best_label, coupling_matrix, integral_value
from structopt.algorithms.pairwise.halves import half_score
from structopt.algorithms.pairwise.roof import (
    clip_flow,
    decide_labels,
    fewest_halves,
    fill_cut,
    fill_network,
    pull_flow,
    reduced_graph,
    roof_labels,
    roof_scratch,
    slot_ends,
)

__all__ = [
    "exact_rows",
    "front_rows",
    "product_rows",
    "relax_rows",
]

# Sum of |integer coefficients| stays below 2^60, hence every excess and residual below 2^62 (docs/mathematics/oracles).
_BITS = 60
# The labels that are left are solved by themselves where at most this part of all couplings is theirs.
_FEW_LEFT = 4


@kernel
def _answer(edges: Any, unary: Any, pair: Any, y2: Any, y: Any, p: Any) -> float:
    """Write y and the best p for it; return ``c.z``."""
    value = 0.0
    for v in range(unary.size):
        y[v] = 0.5 * y2[v]
        value += unary[v] * y[v]
    for e in range(pair.size):
        a, b = y[edges[e, 0]], y[edges[e, 1]]
        p[e] = min(a, b) if pair[e] >= 0 else max(0.0, a + b - 1.0)
        value += pair[e] * p[e]
    return value


@kernel
def _solve(
    n: int, ptr: Any, edges: Any, U: Any, P: Any, warm: bool,
    flow: Any, negative: Any, exponents: Any, index: int, exponent: int, work: Any, y2: Any,
) -> None:  # fmt: skip
    """Roof duality of integer coefficients, from the flow that was kept where `warm`."""
    head, rev, res, ex, _ = work
    doubled = False
    for e in range(P.size):
        if P[e] < 0:
            doubled = True
            break
    if doubled:
        fill_network(n, edges, U, P, head, rev, res, ex)
    else:
        fill_cut(n, edges, U, P, head, rev, res, ex)
    copies = 2 if doubled else 1
    if warm:
        kept = flow[index]
        # After a change of sign the slots lead elsewhere and the flow means nothing.
        for e in range(P.size):
            if (P[e] < 0) != negative[index, e]:
                negative[index, e] = P[e] < 0
                kept[2 * e] = 0
                kept[2 * e + 1] = 0
        if exponent != exponents[index]:
            rescale_flow(kept, exponent - exponents[index])
            exponents[index] = exponent
        clip_flow(n, copies, edges, P, kept, head, rev, res, ex)
    roof_labels(n, ptr, doubled, work, y2)
    if warm:
        pull_flow(copies, edges, P, res, flow[index])
    if doubled:
        fewest_halves(n, ptr, work, y2)


@kernel
def _sums_of_couplings(edges: Any, P: Any, gains: Any, losses: Any) -> None:
    """For each label the sum of its positive couplings, and of its negative ones."""
    for v in range(gains.size):
        gains[v] = losses[v] = 0
    for e in range(P.size):
        a, b = edges[e, 0], edges[e, 1]
        gains[a] += max(P[e], 0)
        gains[b] += max(P[e], 0)
        losses[a] += min(P[e], 0)
        losses[b] += min(P[e], 0)


@kernel
def _solve_left(
    n: int, ptr: Any, edge: Any, end: Any, unary: Any, pair: Any, flow: Any, negative: Any, exponents: Any,
    work: Any, y2: Any, free: Any, count: int,
) -> None:  # fmt: skip
    """Roof duality of the labels that are not decided."""
    left_ptr, left_edges, own, couplings = reduced_graph(n, ptr, edge, end, unary, pair, y2, free, count)
    answer = np.empty(count, np.int8)
    _solve(count, left_ptr, left_edges, own, couplings, False, flow, negative, exponents, 0, 0, work, answer)
    for k in range(count):
        y2[free[k]] = answer[k]


@kernel
def relax_rows(
    ptr: Any, edges: Any, U: Any, P: Any, warm: bool, flow: Any, negative: Any, exponents: Any,
    owner: Any, first: int, last: int, twice: Any, Z: Any, values: Any,
) -> None:  # fmt: skip
    """Relax the rows ``first .. last-1``; row k owns row ``owner[k]`` of the warm state.

    The labels go to `twice`, as ``2 y``, and the points ``(y, p)`` to Z if that has columns. P may have one row for
    all. Values are NaN if a coefficient is not finite.
    """
    n, m = U.shape[1], P.shape[1]
    unary, pair, free = np.empty(n, np.int64), np.empty(m, np.int64), np.empty(n, np.int32)
    labels_only = Z.shape[1] == 0
    attracts = np.empty(m if labels_only else 0, np.bool_)
    gains, losses = np.empty(n, np.int64), np.empty(n, np.int64)
    edge, end = slot_ends(2 * m, edges)
    work = roof_scratch(n, m)
    total, rounded = 0.0, NOT_FINITE  # of the couplings: their sum, and by which power of two they were rounded
    for k in range(first, last):
        couplings = P[k if P.shape[0] > 1 else 0]
        if k == first or P.shape[0] > 1:
            total, rounded = 0.0, NOT_FINITE
            for e in range(m):
                total += abs(couplings[e])
            for e in range(attracts.size):
                attracts[e] = couplings[e] >= 0
        y2 = twice[k]
        size = total
        for v in range(n):
            size += abs(U[k, v])
        exponent = integer_scale(size, _BITS) if np.isfinite(size) else integer_exponent(U[k], couplings, _BITS)
        if exponent == NOT_FINITE:
            values[k] = np.nan
            continue
        to_integers(U[k], exponent, unary)
        if exponent != rounded:
            to_integers(couplings, exponent, pair)
            _sums_of_couplings(edges, pair, gains, losses)
            rounded = exponent
        count = decide_labels(n, ptr, edge, end, unary, pair, gains, losses, y2, free)
        if count:
            n_left = 0
            for j in range(count):
                n_left += ptr[free[j] + 1] - ptr[free[j]]
            # A flow that was kept is worth more than leaving out a few labels.
            if not warm or _FEW_LEFT * n_left <= 2 * m:
                _solve_left(n, ptr, edge, end, unary, pair, flow, negative, exponents, work, y2, free, count)
            else:
                _solve(n, ptr, edges, unary, pair, warm, flow, negative, exponents, owner[k], exponent, work, y2)
        if labels_only:
            values[k] = half_score(ptr, edge, end, y2, attracts, U[k], couplings)
        else:
            values[k] = _answer(edges, U[k], couplings, y2, Z[k, :n], Z[k, n:])


@kernel
def exact_rows(
    i: Any, j: Any, U: Any, P: Any, first: int, last: int, Y: Any, values: Any, proved: Any
) -> None:  # fmt: skip
    """The best 0/1 labels of the rows ``first .. last-1``; the value is NaN if a coefficient is not finite.

    If `proved` is None, the few labels are enumerated. That is compiled without the search, which takes many seconds.
    """
    n = U.shape[1]
    unary = np.empty(n, np.int64)
    pair = np.empty(P.shape[1], np.int64)
    best = np.zeros(n, np.int8)
    for k in range(first, last):
        exponent = integer_exponent(U[k], P[k], _BITS)
        if exponent == NOT_FINITE:
            values[k] = np.nan
            continue
        to_integers(U[k], exponent, unary)
        to_integers(P[k], exponent, pair)
        if proved is not None:
            proved[k] = best_label(i, j, unary, pair, best)
        elif n > 0:
            code, _ = best_code(unary, coupling_matrix(n, i, j, pair))
            code_bits(code, n, best)
        for v in range(n):
            Y[k, v] = best[v]
        values[k] = integral_value(i, j, U[k], P[k], best)


@kernel
def product_rows(
    i: Any, j: Any, U: Any, pair: Any, h_const: Any, G: Any, g_const: Any, first: int, last: int, Y: Any, h: Any, g: Any
) -> None:
    """The label with the largest ``h(y) g(y)`` for rows ``first:last``; one vector of pair coefficients, none in g."""
    n = U.shape[1]
    coupling = coupling_matrix(n, i, j, pair)
    none = np.zeros((n, n))
    for k in range(first, last):
        code_bits(best_product_code(U[k], coupling, h_const[k], G[k], none, g_const[k]), n, Y[k])
        h[k], g[k] = h_const[k], g_const[k]
        for label in range(n):
            h[k] += U[k, label] * Y[k, label]
            g[k] += G[k, label] * Y[k, label]
        for e in range(pair.size):
            h[k] += pair[e] * Y[k, i[e]] * Y[k, j[e]]


@kernel
def front_rows(
    i: Any, j: Any, U: Any, pair: Any, h_const: Any, G: Any, g_pair: Any, g_const: Any, first: int, last: int,
    counts: Any,
) -> Any:  # fmt: skip
    """Codes, h and g of the labels that no other dominates, row by row; `g_pair` may have no rows."""
    n = U.shape[1]
    losses = np.zeros((n, n))
    size = 16 * (last - first) + 16
    codes, h, g = np.empty(size, np.int64), np.empty(size), np.empty(size)
    end = 0
    y = np.empty(n)
    for k in range(first, last):
        if len(g_pair):
            losses = coupling_matrix(n, i, j, g_pair[k])
        found = pareto_codes(U[k], coupling_matrix(n, i, j, pair[k]), h_const[k], G[k], losses, g_const[k])
        counts[k] = found.size
        if end + found.size > size:
            size = 2 * (end + found.size)
            more_codes, more_h, more_g = np.empty(size, np.int64), np.empty(size), np.empty(size)
            assign(more_codes[:end], codes)
            assign(more_h[:end], h)
            assign(more_g[:end], g)
            codes, h, g = more_codes, more_h, more_g
        for code in found:
            code_bits(code, n, y)
            across, up = h_const[k], g_const[k]
            for label in range(n):
                across += U[k, label] * y[label]
                up += G[k, label] * y[label]
            for e in range(pair.shape[1]):
                across += pair[k, e] * y[i[e]] * y[j[e]]
                up += losses[i[e], j[e]] * y[i[e]] * y[j[e]] if len(g_pair) else 0.0
            codes[end], h[end], g[end] = code, across, up
            end += 1
    return codes[:end], h[:end], g[:end]
