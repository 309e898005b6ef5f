"""The relaxation of a binary pairwise model by all cycle inequalities, where roof duality leaves few labels open.

Every label that roof duality decides may stay so (docs/mathematics/oracles#cycle-inequalities). On the k undecided
labels and one more node that is always 0, let x say for every pair how much its ends differ. With the cycle
inequalities these are the points of the metric polytope of k + 1 nodes: any three nodes a, b, c satisfy
``x_ab <= x_ac + x_bc`` and ``x_ab + x_ac + x_bc <= 2`` (Barahona and Mahjoub, *On the cut polytope*, 1986). With a good
label exchanged for 0, the dual simplex method starts at the bounds 0 and 1 and enters violated triangles. At first many
are violated by 1, and what a pivot gains is what the triangle can move: a pair that wants to differ (a demand) is taken
along two that want to be equal (capacities), as in a flow, until one of the three is used up. So a violation counts
by the smallest of the three amounts that are left; 40 % fewer pivots than by the largest violation.

If the relaxation is tight, the value ends at 0, and the label is proved best.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import FloatArray, assign, inner, kernel
from structopt.algorithms.pairwise.enumeration import best_code, code_bits
from structopt.algorithms.pairwise.exact import rounded_label

__all__ = ["MOST_OPEN", "metric_polytope", "tighten_rows"]

#: Labels that roof duality leaves open, above which a sparse simplex method is quicker (20: 210 variables).
MOST_OPEN = 20
#: Labels up to which the best start is found by listing all; beyond, single flips improve one.
_LISTED = 14
#: Violation of a triangle and pivot that count as none; gap, relative to the coefficients, that counts as closed.
_NONE, _CLOSED = 1e-9, 1e-9
#: Pivots without progress after which the first column enters (Bland's rule), and pivots per variable.
_STALLED, _PIVOTS = 30, 40
#: A triangle counts as if it could move at least this share of the mean coefficient.
_LEAST_MOVE = 0.01


@inner
def _promising(x: FloatArray, left: FloatArray, least: float, any_one: bool) -> tuple[int, int]:
    """The two first nodes of the violated triangle that promises most, or of the first violated one; -1 if none is."""
    n = len(x)
    most, first, second = 0.0, -1, -1
    for a in range(n - 2):
        for b in range(a + 1, n - 1):
            p, room, best = x[a, b], left[a, b], 0.0
            for d in range(b + 1, n):  # without a branch
                q, r = x[a, d], x[b, d]
                total = p + q + r
                violation = max(total - 2.0, 2.0 * max(p, max(q, r)) - total) - _NONE
                best = max(best, violation * (least + min(room, min(left[a, d], left[b, d]))))
            if best > most:
                most, first, second = best, a, b
                if any_one:
                    return first, second
    return first, second


@kernel
def metric_polytope(cost: FloatArray, x: FloatArray) -> float:
    """Maximise over the metric polytope of ``len(cost)`` nodes; write the vertex into `x` and return an upper bound."""
    n = len(cost)
    m = n * (n - 1) // 2
    number, ends = np.zeros((n, n), dtype=np.int64), np.zeros((m, 2), dtype=np.int64)
    c = np.empty(m)
    e = 0
    for a in range(n):
        for b in range(a + 1, n):
            number[a, b] = number[b, a] = e
            ends[e, 0], ends[e, 1] = a, b
            c[e] = cost[a, b]
            e += 1
    # Basic columns are inequalities sum_k sign_k x[edge_k] <= limit: at first the bounds 0 and 1.
    edge, sign, limit = np.zeros((m, 3), dtype=np.int64), np.zeros((m, 3)), np.zeros(m)
    inverse = np.zeros((m, m))  # transposed: row e has the entries of edge e in all rows of the inverse
    weight, direction = np.abs(c), np.empty(m)
    # The point, and the weight of the bound of each pair while that is basic, above the diagonal.
    point, left, bound_of = np.zeros((n, n)), np.zeros((n, n)), np.arange(m)
    for e in range(m):
        edge[e, 0] = e
        sign[e, 0] = inverse[e, e] = 1.0 if c[e] > 0 else -1.0
        limit[e] = 1.0 if c[e] > 0 else 0.0
        point[ends[e, 0], ends[e, 1]] = limit[e]
        left[ends[e, 0], ends[e, 1]] = weight[e]
    scale = weight.sum()
    # With coefficients of a subnormal sum a product of violation and room would vanish.
    least = max(_LEAST_MOVE * scale / max(m, 1), 1e-280)
    stalled, finished = 0, False
    for _ in range(_PIVOTS * m + 100):
        in_a, in_b = _promising(point, left, least, stalled > _STALLED)
        worst, most, kind, in_c = 0.0, 0.0, -1, -1
        if in_a >= 0:
            p, room = point[in_a, in_b], left[in_a, in_b]
            for d in range(in_b + 1, n):
                q, r = point[in_a, d], point[in_b, d]
                total, largest = p + q + r, max(p, q, r)
                violation = max(total - 2.0, 2.0 * largest - total)
                gain = (violation - _NONE) * (least + min(room, left[in_a, d], left[in_b, d]))
                if gain > most:
                    worst, most, in_c = violation, gain, d
                    if total - 2.0 >= 2.0 * largest - total:
                        kind = 3
                    else:
                        kind = 0 if p == largest else (1 if q == largest else 2)
                    if stalled > _STALLED:
                        break
        if kind < 0:
            finished = True
            break
        e0, e1, e2 = number[in_a, in_b], number[in_a, in_c], number[in_b, in_c]
        s0 = 1.0 if kind == 0 or kind == 3 else -1.0
        s1 = 1.0 if kind == 1 or kind == 3 else -1.0
        s2 = 1.0 if kind == 2 or kind == 3 else -1.0
        for k in range(m):
            direction[k] = s0 * inverse[e0, k] + s1 * inverse[e1, k] + s2 * inverse[e2, k]
        leaving, step = -1, np.inf
        for k in range(m):
            if direction[k] > _NONE:
                ratio = max(weight[k], 0.0) / direction[k]
                if ratio < step or (ratio == step and stalled <= _STALLED and direction[k] > direction[leaving]):
                    step, leaving = ratio, k
        if leaving < 0:
            break
        stalled = 0 if step > 1e-14 * scale else stalled + 1
        pivot = direction[leaving]
        for e in range(m):
            entry = inverse[e, leaving]
            if entry != 0.0:
                entry /= pivot
                for k in range(m):
                    inverse[e, k] -= entry * direction[k]
                inverse[e, leaving] = entry
                point[ends[e, 0], ends[e, 1]] -= worst * entry
        for k in range(m):
            weight[k] -= step * direction[k]
        weight[leaving] = step
        if sign[leaving, 1] == 0.0:
            bound_of[edge[leaving, 0]] = -1
        for e in range(m):
            left[ends[e, 0], ends[e, 1]] = weight[bound_of[e]] if bound_of[e] >= 0 else 0.0
        edge[leaving, 0], edge[leaving, 1], edge[leaving, 2] = e0, e1, e2
        sign[leaving, 0], sign[leaving, 1], sign[leaving, 2] = s0, s1, s2
        limit[leaving] = 2.0 if kind == 3 else 0.0
    for a in range(n):
        x[a, a] = 0.0
        for b in range(a + 1, n):
            x[a, b] = x[b, a] = min(1.0, max(0.0, point[a, b]))
    if not finished:
        return np.inf
    # The weights are a proof: the rest of the coefficients counts in full, since x <= 1.
    bound = 0.0
    for k in range(m):
        bound += limit[k] * weight[k] if weight[k] > 0 else -3.0 * weight[k]
        for t in range(3):
            if sign[k, t] != 0.0:
                c[edge[k, t]] -= sign[k, t] * weight[k]
    return bound + float(np.abs(c).sum())


@kernel
def _start(field: FloatArray, coupling: FloatArray, y: Any) -> None:
    """Write a good label: the best of few, else that of `rounded_label`."""
    k = len(field)
    scale = 2.0**48 / max(1e-300, np.abs(field).sum() + np.abs(coupling).sum())
    fields, couplings = (field * scale).astype(np.int64), (coupling * scale).astype(np.int64)
    if k <= _LISTED:
        code, _ = best_code(fields, couplings)
        code_bits(code, k, y)
    else:
        assign(y, rounded_label(fields, couplings))


@kernel
def _tighten(i: Any, j: Any, unary: FloatArray, pair: FloatArray, y: FloatArray, p: FloatArray) -> float:
    """Replace a point of roof duality by one of the cycle relaxation; return what its bound adds, infinite if open."""
    n = len(unary)
    place = np.full(n, -1)
    k = 0
    for v in range(n):
        if y[v] == 0.5:
            place[v] = k
            k += 1
    field, coupling = np.zeros(k), np.zeros((k, k))
    for v in range(n):
        if place[v] >= 0:
            field[place[v]] += unary[v]
    for e in range(len(pair)):
        a, b = place[i[e]], place[j[e]]
        if a >= 0 and b >= 0:
            coupling[a, b] += pair[e]
            coupling[b, a] += pair[e]
        elif a >= 0 and y[j[e]] == 1.0:
            field[a] += pair[e]
        elif b >= 0 and y[i[e]] == 1.0:
            field[b] += pair[e]
    label = np.zeros(k, dtype=np.int8)
    _start(field, coupling, label)
    # u y_a + J y_a y_b in terms of x_0a = y_a and x_ab, with the label exchanged for 0.
    cost, x = np.zeros((k + 1, k + 1)), np.empty((k + 1, k + 1))
    scale = 0.0
    for a in range(k):
        cost[0, a + 1] = field[a] + 0.5 * coupling[a].sum()
        if label[a] == 1:
            cost[0, a + 1] *= -1.0
        cost[a + 1, 0] = cost[0, a + 1]
        scale += abs(cost[0, a + 1])
        for b in range(a):
            half = 0.5 * coupling[a, b] if label[a] != label[b] else -0.5 * coupling[a, b]
            cost[a + 1, b + 1] = cost[b + 1, a + 1] = half
            scale += abs(half)
    bound = metric_polytope(cost, x)
    if bound == np.inf:
        return np.inf
    value = 0.0
    for a in range(k + 1):
        for b in range(a):
            value += cost[a, b] * x[a, b]
    if bound - value > _CLOSED * scale:
        return np.inf  # the pivots were too inexact
    whole = value <= _CLOSED * scale
    for v in range(n):
        if place[v] >= 0:
            a = place[v]
            share = 0.0 if whole else x[0, a + 1]
            if abs(share - round(share)) <= _NONE:
                share = float(round(share))
            y[v] = 1.0 - share if label[a] == 1 else share
    for e in range(len(pair)):
        a, b = place[i[e]], place[j[e]]
        first, second = y[i[e]], y[j[e]]
        low, up = max(0.0, first + second - 1.0), min(first, second)
        if a >= 0 and b >= 0 and not whole:
            differ = x[a + 1, b + 1] if label[a] == label[b] else 1.0 - x[a + 1, b + 1]
            both = 0.5 * (first + second - differ)
            p[e] = low if both < low + _NONE else (up if both > up - _NONE else both)
        else:
            p[e] = first * second
    return bound - (0.0 if whole else value)


@kernel
def tighten_rows(
    i: Any, j: Any, U: FloatArray, P: FloatArray, first: int, last: int, Z: FloatArray, values: FloatArray,
    bounds: FloatArray,
) -> None:  # fmt: skip
    """Tighten the points ``(y, p)`` of the rows ``first .. last-1``; a bound is infinite where one stays as it was.

    P may have one row for all.
    """
    n = U.shape[1]
    for k in range(first, last):
        y, p = Z[k, :n], Z[k, n:]
        n_open = 0
        for v in range(n):
            n_open += y[v] == 0.5
        bounds[k] = values[k]
        if n_open == 0:
            continue
        pair = P[k if P.shape[0] > 1 else 0]
        above = np.inf if n_open > MOST_OPEN else _tighten(i, j, U[k], pair, y, p)
        bounds[k] = np.inf
        if above < np.inf:
            value = 0.0
            for v in range(n):
                value += U[k, v] * y[v]
            for e in range(len(pair)):
                value += pair[e] * p[e]
            values[k], bounds[k] = value, value + max(above, 0.0)
