"""Dual block-coordinate ascent over per-example working sets of planes (TRAINERS.md 4.1).

Plane k of example i is a label that was once most violated: ``level_ik - <w, psi_ik>`` bounds the example's surrogate
from below, with ``psi_ik = scale (phi(x_i, y_i) - phi(x_i, y_ik))``; the true label is an implicit plane of level 0.
The dual point has ``alpha_i`` on the simplex and ``w = 1/(lam n) sum alpha_ik psi_ik``. A visit moves mass between the
planes of one example by exact pair steps, and w with it.

Planes are kept as labels, not as feature vectors: a list of the *parts* in which the label differs from the truth,
in an arena of four arrays:

    part   number of the part within its example, for scoring parts that several planes share only once
    row    its feature row, or -1 for a tied weight (whose feature is the constant 1)
    at     where its weight vector (or tied weight) begins in w; parts with another `at` are orthogonal
    value  how often the truth has it more than the label, times the scale

The planes of an example stand in its first ``count`` slots.
"""

from __future__ import annotations

from typing import Any

from structopt.kernels._common import any_order, inlined, kernel

__all__ = ["ascend_cached", "ascend_new", "compact", "weights_of"]

# A pair step that gains less than this share of the first one ends the visit.
_WORTH = 1e-3
_DUST = 1e-13


# The dense products take two arrays and nothing else: a longer argument list costs more than a product of 128 terms.
@any_order
def _dense_dot(X: Any, row: int, w: Any, at: int) -> float:
    x = X[row]
    v = w[at : at + x.size]  # j alone is known not to be negative, and so the loop vectorises
    total = 0.0
    for j in range(x.size):
        total += x[j] * v[j]
    return total


@any_order
def _dense_add(X: Any, row: int, step: float, w: Any, at: int) -> None:
    x = X[row]
    v = w[at : at + x.size]
    for j in range(x.size):
        v[j] += step * x[j]


@any_order
def _sparse_dot(data: Any, indices: Any, first: int, last: int, w: Any, at: int) -> float:
    total = 0.0
    for q in range(first, last):
        total += data[q] * w[at + indices[q]]
    return total


@any_order
def _sparse_add(data: Any, indices: Any, first: int, last: int, step: float, w: Any, at: int) -> None:
    for q in range(first, last):
        w[at + indices[q]] += step * data[q]


@inlined
def _score(X: Any, data: Any, indices: Any, indptr: Any, row: int, at: int, w: Any) -> float:
    """<w, f> of a part."""
    if row < 0:
        found = w[at]
    elif indptr.size > 1:
        found = _sparse_dot(data, indices, indptr[row], indptr[row + 1], w, at)
    else:
        found = _dense_dot(X, row, w, at)
    return found  # type: ignore[no-any-return]


@inlined
def _add(X: Any, data: Any, indices: Any, indptr: Any, row: int, at: int, step: float, w: Any) -> None:
    """w += step f."""
    if row < 0:
        w[at] += step
    elif indptr.size > 1:
        _sparse_add(data, indices, indptr[row], indptr[row + 1], step, w, at)
    else:
        _dense_add(X, row, step, w, at)


@any_order
def _rows_dot(X: Any, data: Any, indices: Any, indptr: Any, a: int, b: int) -> float:
    """<x_a, x_b>; indices of sparse rows are sorted."""
    total = 0.0
    if indptr.size > 1:
        p, q = indptr[a], indptr[b]
        while p < indptr[a + 1] and q < indptr[b + 1]:
            if indices[p] == indices[q]:
                total += data[p] * data[q]
                p += 1
                q += 1
            elif indices[p] < indices[q]:
                p += 1
            else:
                q += 1
    else:
        x, y = X[a], X[b]
        for j in range(x.size):
            total += x[j] * y[j]
    return total


@inlined
def _plane_score(first: int, last: int, arena: Any, features: Any, w: Any, memo: Any, stamp: Any, now: int) -> float:
    part, row, at, value = arena
    X, data, indices, indptr, _ = features
    total = 0.0
    for q in range(first, last):
        p = part[q]
        if stamp[p] != now:
            stamp[p] = now
            memo[p] = _score(X, data, indices, indptr, row[q], at[q], w)
        total += value[q] * memo[p]
    return total


@inlined
def _heights(i: int, planes: Any, arena: Any, features: Any, w: Any, memo: Any, stamp: Any, now: int, g: Any) -> float:
    """Height of every plane of example i at w into `g`; returns the largest, at least 0 (the truth's)."""
    count, begin, size, _, level, _, _ = planes
    top = 0.0
    for k in range(count[i]):
        first = begin[i, k]
        g[k] = level[i, k] - _plane_score(first, first + size[i, k], arena, features, w, memo, stamp, now)
        top = max(top, g[k])
    return top


@kernel
def _gram_row(i: int, slot: int, planes: Any, arena: Any, features: Any, memo: Any, stamp: Any, now: int) -> None:
    """Inner products of the plane in `slot` with all planes of example i."""
    count, begin, size, _, _, _, gram = planes
    part, row, at, value = arena
    X, data, indices, indptr, norms = features
    first, last = begin[i, slot], begin[i, slot] + size[i, slot]
    for k in range(count[i]):
        total = 0.0
        for q in range(begin[i, k], begin[i, k] + size[i, k]):
            p = part[q]
            if stamp[p] != now:
                stamp[p] = now
                inner = 0.0
                for r in range(first, last):
                    if at[r] != at[q]:
                        continue
                    if row[q] < 0:
                        inner += value[r]
                    elif row[r] == row[q]:
                        inner += value[r] * norms[row[q]]
                    else:
                        inner += value[r] * _rows_dot(X, data, indices, indptr, row[r], row[q])
                memo[p] = inner
            total += value[q] * memo[p]
        gram[i, slot, k] = total
        gram[i, k, slot] = total


@kernel
def _drop(i: int, k: int, planes: Any) -> None:
    """Forget plane k; the last plane takes its slot."""
    count, begin, size, alpha, level, idle, gram = planes
    last = count[i] - 1
    if k != last:
        begin[i, k], size[i, k] = begin[i, last], size[i, last]
        alpha[i, k], level[i, k], idle[i, k] = alpha[i, last], level[i, last], idle[i, last]
        for j in range(last):
            gram[i, k, j] = gram[i, last, j]
            gram[i, j, k] = gram[i, j, last]
        gram[i, k, k] = gram[i, last, last]
    alpha[i, last] = 0.0
    count[i] = last


@kernel
def _make_slot(i: int, planes: Any, arena: Any, end: Any, memo: Any, stamp: Any, now: int) -> bool:
    """Free a slot in a full working set; returns whether planes were merged (their heights are then stale)."""
    count, _, _, alpha, _, idle, _ = planes
    oldest = -1
    for k in range(count[i]):
        if alpha[i, k] == 0.0 and (oldest < 0 or idle[i, k] > idle[i, oldest]):
            oldest = k
    if oldest >= 0:
        _drop(i, oldest, planes)
        return True
    _merge_lightest(i, planes, arena, end, memo, stamp, now)
    return True


@kernel
def _merge_lightest(i: int, planes: Any, arena: Any, end: Any, memo: Any, stamp: Any, now: int) -> None:
    """Join the two planes of least mass into their mixture, which leaves w and the bound as they are.

    Needs room for both planes' parts behind ``end``.
    """
    count, begin, size, alpha, level, idle, gram = planes
    part, row, at, value = arena
    a, b = 0, 1
    if alpha[i, 1] < alpha[i, 0]:
        a, b = 1, 0
    for k in range(2, count[i]):
        if alpha[i, k] < alpha[i, a]:
            a, b = k, a
        elif alpha[i, k] < alpha[i, b]:
            b = k
    mass = alpha[i, a] + alpha[i, b]
    share_a, share_b = alpha[i, a] / mass, alpha[i, b] / mass
    first = end[0]
    for k, share in ((a, share_a), (b, share_b)):
        for q in range(begin[i, k], begin[i, k] + size[i, k]):
            p = part[q]
            if stamp[p] != now:
                stamp[p] = now
                memo[p] = end[0]
                part[end[0]], row[end[0]], at[end[0]], value[end[0]] = p, row[q], at[q], 0.0
                end[0] += 1
            value[int(memo[p])] += share * value[q]
    own = share_a * share_a * gram[i, a, a] + share_b * share_b * gram[i, b, b] + 2 * share_a * share_b * gram[i, a, b]
    for k in range(count[i]):
        mixed = share_a * gram[i, a, k] + share_b * gram[i, b, k]
        gram[i, a, k] = mixed
        gram[i, k, a] = mixed
    gram[i, a, a] = own
    level[i, a] = share_a * level[i, a] + share_b * level[i, b]
    alpha[i, a] = mass
    begin[i, a], size[i, a], idle[i, a] = first, end[0] - first, 0
    alpha[i, b] = 0.0
    _drop(i, b, planes)


@inlined
def _pair_steps(i: int, planes: Any, g: Any, scale: float, n_steps: int, change: Any) -> bool:
    """Exact steps between the highest plane and the one from which moving mass gains most; plane `count` is the truth.

    `g` holds the planes' heights at w and is kept up to date; `change` collects the moves of mass.
    """
    count, _, _, alpha, _, _, gram = planes
    n = count[i]
    rest = 1.0
    for k in range(n):
        change[k] = 0.0
        rest -= alpha[i, k]
    if rest < _DUST:
        rest = 0.0
    moved = False
    first_gain = 0.0
    for step in range(n_steps):
        u, top = n, 0.0
        for k in range(n):
            if g[k] > top:
                u, top = k, g[k]
        own = 0.0 if u == n else gram[i, u, u]
        best, v, move = 0.0, -1, 0.0
        if u != n and rest > 0.0:
            bend = own * scale
            move = rest if bend * rest <= top else top / bend
            best, v = move * top - 0.5 * move * move * bend, n
        for k in range(n):
            mass = alpha[i, k]
            slope = top - g[k]
            if mass <= 0.0 or k == u or slope <= 0.0:
                continue
            bend = own + gram[i, k, k]
            if u != n:
                bend -= 2.0 * gram[i, u, k]
            bend = max(bend, 0.0) * scale
            t = mass if bend * mass <= slope else slope / bend
            gain = t * slope - 0.5 * t * t * bend
            if gain > best:
                best, v, move = gain, k, t
        if v < 0 or best <= _WORTH * first_gain:
            break
        if step == 0:
            first_gain = best
        moved = True
        if u == n:
            rest += move
        else:
            alpha[i, u] += move
            change[u] += move
        if v == n:
            rest = max(rest - move, 0.0)
        else:
            left = alpha[i, v] - move
            if left < _DUST:
                left = 0.0
            change[v] += left - alpha[i, v]
            alpha[i, v] = left
        for k in range(n):
            bend = (0.0 if u == n else gram[i, u, k]) - (0.0 if v == n else gram[i, v, k])
            g[k] -= move * scale * bend
    return moved


@inlined
def _apply(
    i: int, planes: Any, arena: Any, change: Any, scale: float, features: Any, w: Any, memo: Any, stamp: Any, now: int
) -> None:
    """w += scale * sum_k change_k psi_k, every part once."""
    count, begin, size, _, _, _, _ = planes
    part, row, at, value = arena
    X, data, indices, indptr, _ = features
    for k in range(count[i]):
        if change[k] != 0.0:
            for q in range(begin[i, k], begin[i, k] + size[i, k]):
                p = part[q]
                if stamp[p] != now:
                    stamp[p] = now
                    memo[p] = 0.0
                memo[p] += change[k] * value[q]
    for k in range(count[i]):
        if change[k] != 0.0:
            for q in range(begin[i, k], begin[i, k] + size[i, k]):
                step = scale * memo[part[q]]
                if step != 0.0:
                    memo[part[q]] = 0.0
                    _add(X, data, indices, indptr, row[q], at[q], step, w)


@inlined
def _example_gap(i: int, planes: Any, g: Any, top: float) -> float:
    count, _, _, alpha, _, _, _ = planes
    gap = top
    for k in range(count[i]):
        gap -= alpha[i, k] * g[k]
    return max(gap, 0.0)


@kernel
def _retire(i: int, planes: Any, patience: int) -> None:
    """Forget planes that have had no mass for `patience` oracle visits."""
    count, _, _, alpha, _, idle, _ = planes
    for k in range(count[i] - 1, -1, -1):
        if alpha[i, k] > 0.0:
            idle[i, k] = 0
            continue
        idle[i, k] += 1
        if idle[i, k] > patience:
            _drop(i, k, planes)


@kernel
def ascend_new(
    order: Any, at: int, shift: int, new: Any, planes: Any, arena: Any, end: Any, features: Any, w: Any,
    scale: float, n_steps: int, patience: int, gap: Any, scratch: Any,
) -> int:  # fmt: skip
    """Oracle visits: offer each example its new plane, then move mass.

    `new` is (level, pointer, part, row, at, value): the planes that the oracle found for the examples from `shift` on,
    in the form of the arena. Returns the place in `order` where room ran out, or its end.
    """
    new_level, new_ptr, new_part, new_row, new_at, new_value = new
    found = (new_part, new_row, new_at, new_value)
    count, begin, size, alpha, level, idle, _ = planes
    part, row, place, value = arena
    memo, stamp, now, g, change = scratch
    for position in range(at, order.size):
        i = order[position]
        first, last = new_ptr[i - shift], new_ptr[i - shift + 1]
        n_new = last - first
        held = 0
        for k in range(count[i]):
            held += size[i, k]
        if end[0] + n_new + held > part.size:
            return position
        now[0] += 1
        top = _heights(i, planes, arena, features, w, memo, stamp, now[0], g)
        height = new_level[i - shift] - _plane_score(first, last, found, features, w, memo, stamp, now[0])
        if n_new > 0 and height > top + 1e-9 * max(1.0, abs(top)):
            if count[i] == begin.shape[1]:
                now[0] += 1
                _make_slot(i, planes, arena, end, memo, stamp, now[0])
                now[0] += 1
                _heights(i, planes, arena, features, w, memo, stamp, now[0], g)
            slot = count[i]
            count[i] += 1
            begin[i, slot], size[i, slot] = end[0], n_new
            alpha[i, slot], level[i, slot], idle[i, slot] = 0.0, new_level[i - shift], 0
            for q in range(first, last):
                part[end[0]], row[end[0]] = new_part[q], new_row[q]
                place[end[0]], value[end[0]] = new_at[q], new_value[q]
                end[0] += 1
            now[0] += 1
            _gram_row(i, slot, planes, arena, features, memo, stamp, now[0])
            g[slot] = height
            top = height
        gap[i] = _example_gap(i, planes, g, top)
        if _pair_steps(i, planes, g, scale, n_steps, change):
            now[0] += 1
            _apply(i, planes, arena, change, scale, features, w, memo, stamp, now[0])
        _retire(i, planes, patience)
    return order.size  # type: ignore[no-any-return]


@kernel
def ascend_cached(
    order: Any, planes: Any, arena: Any, features: Any, w: Any, scale: float, n_steps: int, threshold: float,
    gap: Any, scratch: Any,
) -> tuple[float, int]:  # fmt: skip
    """Visits without an oracle, of the examples whose last gap reached `threshold`; the sum of gaps, and the visits."""
    memo, stamp, now, g, change = scratch
    total, visits = 0.0, 0
    for position in range(order.size):
        i = order[position]
        if gap[i] < threshold:
            total += gap[i]
            continue
        now[0] += 1
        top = _heights(i, planes, arena, features, w, memo, stamp, now[0], g)
        gap[i] = _example_gap(i, planes, g, top)
        total += gap[i]
        visits += 1
        if _pair_steps(i, planes, g, scale, n_steps, change):
            now[0] += 1
            _apply(i, planes, arena, change, scale, features, w, memo, stamp, now[0])
    return total, visits


@kernel
def compact(planes: Any, arena: Any, target: Any) -> int:
    """Copy the parts of all living planes to the front of another arena; returns its end."""
    count, begin, size = planes[0], planes[1], planes[2]
    part, row, at, value = arena
    new_part, new_row, new_at, new_value = target
    end = 0
    for i in range(begin.shape[0]):
        for k in range(count[i]):
            first = begin[i, k]
            begin[i, k] = end
            for q in range(first, first + size[i, k]):
                new_part[end], new_row[end], new_at[end], new_value[end] = part[q], row[q], at[q], value[q]
                end += 1
    return end


@kernel
def weights_of(planes: Any, arena: Any, features: Any, scale: float, w: Any, scratch: Any) -> float:
    """Add ``scale * sum alpha_ik psi_ik`` to w; returns ``sum alpha_ik level_ik``."""
    count, _, _, alpha, level, _, _ = planes
    memo, stamp, now, _, change = scratch
    total = 0.0
    for i in range(count.size):
        for k in range(count[i]):
            change[k] = alpha[i, k]
            total += alpha[i, k] * level[i, k]
        now[0] += 1
        _apply(i, planes, arena, change, scale, features, w, memo, stamp, now[0])
    return total
