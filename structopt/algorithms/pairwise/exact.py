"""The best integral label of a pairwise model: persistency, then branch and enumerate (docs/mathematics/oracles).

Roof duality bounds a node of the search and fixes every label that it decides; the undecided labels are enumerated if
they are few and branched on otherwise. All in integers, so that bounds prune exactly, without a tolerance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import assign, kernel
from structopt.algorithms.maxflow import adjacency
from structopt.algorithms.pairwise.enumeration import best_code, code_bits
from structopt.algorithms.pairwise.roof import fewest_halves, fill_network, roof_labels, roof_scratch

__all__ = ["ENUMERATE_AT", "best_label", "coupling_matrix", "integral_value", "rounded_label"]

#: With at most this many free labels enumeration is quicker than one more bound.
ENUMERATE_AT = 16
#: Relaxations after which a search stops without a proof.
_MOST_NODES = 2000

_FREE = -1


@kernel
def coupling_matrix(n: int, i: Any, j: Any, pair: Any) -> Any:
    """The couplings as a symmetric matrix; parallel edges add up, as they do for integral labels."""
    coupling = np.zeros((n, n), pair.dtype)
    for e in range(pair.size):
        coupling[i[e], j[e]] += pair[e]
        coupling[j[e], i[e]] += pair[e]
    return coupling


@kernel
def integral_value(i: Any, j: Any, unary: Any, pair: Any, y: Any) -> Any:
    """``c.z`` of a 0/1 label with p = y_i y_j."""
    value = unary[0] * 0
    for v in range(unary.size):
        if y[v] == 1:
            value += unary[v]
    for e in range(pair.size):
        if y[i[e]] == 1 and y[j[e]] == 1:
            value += pair[e]
    return value


@kernel
def _restrict(i: Any, j: Any, unary: Any, pair: Any, label: Any) -> tuple[Any, Any, Any, Any, Any]:
    """The model on the free labels: their numbers, fields and edges, the fixed ones absorbed."""
    n = unary.size
    number = np.empty(n, np.int32)
    free = np.empty(n, np.int32)
    count = 0
    for v in range(n):
        number[v] = -1
        if label[v] == _FREE:
            number[v] = count
            free[count] = v
            count += 1
    field = np.empty(count, np.int64)
    for v in range(count):
        field[v] = unary[free[v]]
    a_kept = np.empty(pair.size, np.int32)
    b_kept = np.empty(pair.size, np.int32)
    weights = np.empty(pair.size, np.int64)
    kept = 0
    for e in range(pair.size):
        a, b = number[i[e]], number[j[e]]
        if a >= 0 and b >= 0:
            if pair[e] != 0:
                a_kept[kept], b_kept[kept] = a, b
                weights[kept] = pair[e]
                kept += 1
        elif a >= 0:
            if label[j[e]] == 1:
                field[a] += pair[e]
        elif b >= 0 and label[i[e]] == 1:
            field[b] += pair[e]
    return free[:count], field, a_kept[:kept], b_kept[:kept], weights[:kept]


@kernel
def _roof(field: Any, i: Any, j: Any, weights: Any) -> tuple[Any, Any]:
    """``2 y`` of the relaxation with the fewest halves, and twice its value."""
    n = field.size
    m = weights.size
    ptr, slot_i, slot_j = adjacency(n, i, j)
    doubled = np.empty(2 * n + 1, np.int32)
    for v in range(n + 1):
        doubled[v] = ptr[v]
        doubled[n + v] = ptr[v] + 2 * m
    edges = np.empty((m, 4), np.int32)
    for e in range(m):
        edges[e, 0], edges[e, 1], edges[e, 2], edges[e, 3] = i[e], j[e], slot_i[e], slot_j[e]
    work = roof_scratch(n, m)
    fill_network(n, edges, field, weights, work[0], work[1], work[2], work[3])
    y2 = np.empty(n, np.int8)
    roof_labels(n, doubled, True, work, y2)
    fewest_halves(n, doubled, work, y2)
    bound = np.int64(0)
    for v in range(n):
        bound += field[v] * y2[v]
    for e in range(m):
        a, b = y2[i[e]], y2[j[e]]
        bound += weights[e] * (min(a, b) if weights[e] >= 0 else max(0, a + b - 2))
    return y2, bound


@kernel
def rounded_label(field: Any, coupling: Any) -> Any:
    """A good label: the sign of the field at 1/2 everywhere, then single flips while one gains."""
    n = field.size
    y = np.empty(n, np.int8)
    gain = np.empty(n, np.int64)
    for v in range(n):
        twice = 2 * field[v]
        for u in range(n):
            twice += coupling[v, u]
        y[v] = 1 if twice > 0 else 0
    for v in range(n):
        gain[v] = field[v]
        for u in range(n):
            if y[u] == 1:
                gain[v] += coupling[v, u]
    while True:
        best = np.int64(0)
        flip = -1
        for v in range(n):
            gained = -gain[v] if y[v] == 1 else gain[v]
            if gained > best:
                best = gained
                flip = v
        if flip < 0:
            return y
        sign = -1 if y[flip] == 1 else 1
        y[flip] = 1 - y[flip]
        for v in range(n):
            gain[v] += sign * coupling[v, flip]


@kernel
def _strongest(coupling: Any) -> int:
    """The label with the largest sum of |couplings|, the first of equals."""
    strongest = 0
    most = np.int64(-1)
    for v in range(coupling.shape[0]):
        total = np.int64(0)
        for u in range(coupling.shape[0]):
            total += abs(coupling[v, u])
        if total > most:
            most = total
            strongest = v
    return strongest


@kernel
def best_label(i: Any, j: Any, unary: Any, pair: Any, best: Any) -> bool:
    """Search the best label of integer coefficients depth first, into ``best``; return whether it is proved best."""
    n = unary.size
    label = np.empty(n, np.int8)
    trial = np.empty(n, np.int8)
    stack = np.empty((min(n, 32) + 2, n), np.int8)
    stack[0, :] = _FREE
    height = 1
    best[:] = 0
    best_value = np.int64(0)
    nodes = 0
    while height > 0:
        height -= 1
        assign(label, stack[height])
        free, field, a, b, weights = _restrict(i, j, unary, pair, label)
        if free.size > ENUMERATE_AT:
            nodes += 1
            if nodes > _MOST_NODES:
                return False
            y2, bound = _roof(field, a, b, weights)
            fixed = np.int64(0)
            for v in range(n):
                trial[v] = 0 if label[v] == _FREE else label[v]
            fixed = integral_value(i, j, unary, pair, trial)
            if 2 * fixed + bound <= 2 * best_value:
                continue
            # Persistency: some best label of this node has the decided values.
            for v in range(free.size):
                if y2[v] != 1:
                    label[free[v]] = y2[v] >> 1
            free, field, a, b, weights = _restrict(i, j, unary, pair, label)
        assign(trial, label)
        k = free.size
        if k > 0:
            coupling = coupling_matrix(k, a, b, weights)
            inner = np.empty(k, np.int8)
            if k <= ENUMERATE_AT:
                code, _ = best_code(field, coupling)
                code_bits(code, k, inner)
            else:
                assign(inner, rounded_label(field, coupling))
            for v in range(k):
                trial[free[v]] = inner[v]
        value = integral_value(i, j, unary, pair, trial)
        if value > best_value:
            best_value = value
            assign(best, trial)
        if k > ENUMERATE_AT:
            v = _strongest(coupling)
            likely = inner[v]
            if height + 2 > stack.shape[0]:
                taller = np.empty((2 * stack.shape[0], n), np.int8)
                taller[:height] = stack[:height]
                stack = taller
            label[free[v]] = 1 - likely
            assign(stack[height], label)
            label[free[v]] = likely
            assign(stack[height + 1], label)
            height += 2
    return True
