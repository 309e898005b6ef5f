"""Dual block-coordinate ascent over per-example working sets of planes (TRAINERS.md 4.1).

Plane k of example i is a label that was once most violated: ``level_ik - <w, psi_ik>`` bounds the example's surrogate
from below, with ``psi_ik = scale (phi(x_i, y_i) - phi(x_i, y_ik))``; the true label is an implicit plane of level 0. The
dual point has ``alpha_i`` on the simplex and ``w = 1/(lam n) sum alpha_ik psi_ik``. A visit moves mass between the planes
of one example by exact pair steps, and w with it.

Planes are kept as labels, not as feature vectors: a list of the *parts* in which the label differs from the truth.
Part ``r K + k`` of an example is column k of its r-th feature row; numbers from ``R K`` on are tied weights. Parts that
several planes share are scored once a visit.
"""

from __future__ import annotations

from typing import Any

from structopt.kernels._common import kernel

__all__ = ["ascend_cached", "ascend_new", "compact", "weights_of"]

# A pair step that gains less than this share of the example's gap is not worth the next one.
_WORTH = 1e-3
_DUST = 1e-13


@kernel
def _row_dot(sparse: bool, X: Any, data: Any, indices: Any, indptr: Any, row: int, w: Any, at: int) -> float:
    """<x_row, w[at : at + d]>."""
    total = 0.0
    if sparse:
        for q in range(indptr[row], indptr[row + 1]):
            total += data[q] * w[at + indices[q]]
    else:
        x = X[row]
        v = w[at : at + x.size]
        for j in range(x.size):
            total += x[j] * v[j]
    return total


@kernel
def _row_add(
    sparse: bool, X: Any, data: Any, indices: Any, indptr: Any, row: int, step: float, w: Any, at: int
) -> None:
    """w[at : at + d] += step x_row."""
    if sparse:
        for q in range(indptr[row], indptr[row + 1]):
            w[at + indices[q]] += step * data[q]
    else:
        x = X[row]
        v = w[at : at + x.size]
        for j in range(x.size):
            v[j] += step * x[j]


@kernel
def _rows_dot(sparse: bool, X: Any, data: Any, indices: Any, indptr: Any, a: int, b: int) -> float:
    """<x_a, x_b>; indices of sparse rows are sorted."""
    total = 0.0
    if sparse:
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


@kernel
def _score(part: int, i: int, features: Any, layout: Any, w: Any) -> float:
    sparse, X, data, indices, indptr, start = features
    K, d, table_at, tied_at = layout
    n_table = (start[i + 1] - start[i]) * K
    if part >= n_table:
        return w[tied_at[part - n_table]]
    return _row_dot(sparse, X, data, indices, indptr, start[i] + part // K, w, table_at + (part % K) * d)


@kernel
def _inner(p: int, q: int, i: int, features: Any, layout: Any, norms: Any) -> float:
    """<f_p, f_q> of two parts of one example; 0 unless they share the weight vector."""
    sparse, X, data, indices, indptr, start = features
    K = layout[0]
    n_table = (start[i + 1] - start[i]) * K
    if p >= n_table or q >= n_table:
        return 1.0 if p == q else 0.0
    if p % K != q % K:
        return 0.0
    if p == q:
        return norms[start[i] + p // K]
    return _rows_dot(sparse, X, data, indices, indptr, start[i] + p // K, start[i] + q // K)


@kernel
def _plane_score(
    begin: int, size: int, part: Any, value: Any, i: int, features: Any, layout: Any, w: Any, memo: Any
) -> float:
    score, stamp, now = memo
    total = 0.0
    for q in range(begin, begin + size):
        p = part[q]
        if stamp[p] != now[0]:
            stamp[p] = now[0]
            score[p] = _score(p, i, features, layout, w)
        total += value[q] * score[p]
    return total


@kernel
def _gram_row(i: int, slot: int, planes: Any, arena: Any, features: Any, layout: Any, norms: Any, memo: Any) -> None:
    """Inner products of the plane in `slot` with all planes of example i."""
    begin, size, _, _, _, gram = planes
    part, value = arena
    pull, stamp, now = memo
    now[0] += 1
    first, last = begin[i, slot], begin[i, slot] + size[i, slot]
    for k in range(begin.shape[1]):
        if begin[i, k] < 0:
            continue
        total = 0.0
        for q in range(begin[i, k], begin[i, k] + size[i, k]):
            p = part[q]
            if stamp[p] != now[0]:
                stamp[p] = now[0]
                inner = 0.0
                for r in range(first, last):
                    inner += value[r] * _inner(part[r], p, i, features, layout, norms)
                pull[p] = inner
            total += value[q] * pull[p]
        gram[i, slot, k] = total
        gram[i, k, slot] = total


@kernel
def _free_slot(i: int, begin: Any, alpha: Any, idle: Any) -> int:
    """An unused slot, else that of the plane that has been without mass for longest; -1 if all have mass."""
    best, oldest = -1, -1
    for k in range(begin.shape[1]):
        if begin[i, k] < 0:
            return k
        if alpha[i, k] == 0.0 and idle[i, k] > oldest:
            best, oldest = k, idle[i, k]
    return best


@kernel
def _merge_lightest(i: int, planes: Any, arena: Any, end: Any, memo: Any) -> int:
    """Join the two planes of least mass into their mixture, which leaves w and the bound as they are; free a slot.

    Needs room for both planes' parts behind ``end``; `memo` is scratch of the size of the example's parts.
    """
    begin, size, alpha, level, idle, gram = planes
    part, value = arena
    a, b = -1, -1
    for k in range(begin.shape[1]):
        if a < 0 or alpha[i, k] < alpha[i, a]:
            a, b = k, a
        elif b < 0 or alpha[i, k] < alpha[i, b]:
            b = k
    mass = alpha[i, a] + alpha[i, b]
    share_a, share_b = alpha[i, a] / mass, alpha[i, b] / mass
    place, stamp, now = memo
    now[0] += 1
    first = end[0]
    for k, share in ((a, share_a), (b, share_b)):
        for q in range(begin[i, k], begin[i, k] + size[i, k]):
            p = part[q]
            if stamp[p] != now[0]:
                stamp[p] = now[0]
                place[p] = end[0]
                part[end[0]] = p
                value[end[0]] = 0.0
                end[0] += 1
            value[int(place[p])] += share * value[q]
    saa, sbb, sab = gram[i, a, a], gram[i, b, b], gram[i, a, b]
    for k in range(begin.shape[1]):
        mixed = share_a * gram[i, a, k] + share_b * gram[i, b, k]
        gram[i, a, k] = mixed
        gram[i, k, a] = mixed
    gram[i, a, a] = share_a * share_a * saa + share_b * share_b * sbb + 2.0 * share_a * share_b * sab
    level[i, a] = share_a * level[i, a] + share_b * level[i, b]
    alpha[i, a] = mass
    begin[i, a], size[i, a], idle[i, a] = first, end[0] - first, 0
    begin[i, b], size[i, b], alpha[i, b], idle[i, b] = -1, 0, 0.0, 0
    return b


@kernel
def _pair_steps(i: int, planes: Any, g: Any, scale: float, n_steps: int, change: Any) -> bool:
    """Exact steps between the plane of largest slope and the one it gains most from; the truth is plane M.

    `g` holds the planes' heights at w and is kept up to date; `change` collects the moves of mass.
    """
    begin, _, alpha, _, _, gram = planes
    M = begin.shape[1]
    rest = 1.0
    for k in range(M):
        change[k] = 0.0
        if begin[i, k] >= 0:
            rest -= alpha[i, k]
    if rest < _DUST:
        rest = 0.0
    moved = False
    first_gain = 0.0
    for step in range(n_steps):
        u, top = M, 0.0
        for k in range(M):
            if begin[i, k] >= 0 and g[k] > top:
                u, top = k, g[k]
        best, v, move = 0.0, -1, 0.0
        for k in range(M + 1):
            mass = rest if k == M else (alpha[i, k] if begin[i, k] >= 0 else 0.0)
            if mass <= 0.0 or k == u:
                continue
            slope = top - (0.0 if k == M else g[k])
            if slope <= 0.0:
                continue
            bend = (0.0 if u == M else gram[i, u, u]) + (0.0 if k == M else gram[i, k, k])
            if u != M and k != M:
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
        if u == M:
            rest += move
        else:
            alpha[i, u] += move
            change[u] += move
        if v == M:
            rest = max(rest - move, 0.0)
        else:
            left = alpha[i, v] - move
            if left < _DUST:
                left = 0.0
            change[v] += left - alpha[i, v]
            alpha[i, v] = left
        for k in range(M):
            if begin[i, k] >= 0:
                bend = (0.0 if u == M else gram[i, k, u]) - (0.0 if v == M else gram[i, k, v])
                g[k] -= move * scale * bend
    return moved


@kernel
def _apply(
    i: int, planes: Any, arena: Any, change: Any, scale: float, features: Any, layout: Any, w: Any, memo: Any
) -> None:
    """w += scale * sum_k change_k psi_k, every part once."""
    begin, size, _, _, _, _ = planes
    part, value = arena
    delta, stamp, now = memo
    sparse, X, data, indices, indptr, start = features
    K, d, table_at, tied_at = layout
    now[0] += 1
    for k in range(begin.shape[1]):
        if change[k] == 0.0:
            continue
        for q in range(begin[i, k], begin[i, k] + size[i, k]):
            p = part[q]
            if stamp[p] != now[0]:
                stamp[p] = now[0]
                delta[p] = 0.0
            delta[p] += change[k] * value[q]
    n_table = (start[i + 1] - start[i]) * K
    for k in range(begin.shape[1]):
        if change[k] == 0.0:
            continue
        for q in range(begin[i, k], begin[i, k] + size[i, k]):
            p = part[q]
            step = scale * delta[p]
            if step == 0.0:
                continue
            delta[p] = 0.0
            if p >= n_table:
                w[tied_at[p - n_table]] += step
            else:
                _row_add(sparse, X, data, indices, indptr, start[i] + p // K, step, w, table_at + (p % K) * d)


@kernel
def _heights(i: int, planes: Any, arena: Any, features: Any, layout: Any, w: Any, memo: Any, g: Any) -> float:
    """Height of every plane of example i at w into `g`; returns the largest, at least 0 (the truth's)."""
    begin, size, _, level, _, _ = planes
    part, value = arena
    top = 0.0
    for k in range(begin.shape[1]):
        if begin[i, k] >= 0:
            g[k] = level[i, k] - _plane_score(begin[i, k], size[i, k], part, value, i, features, layout, w, memo)
            top = max(top, g[k])
    return top


@kernel
def _example_gap(i: int, planes: Any, g: Any, top: float) -> float:
    begin, _, alpha, _, _, _ = planes
    gap = top
    for k in range(begin.shape[1]):
        if begin[i, k] >= 0:
            gap -= alpha[i, k] * g[k]
    return max(gap, 0.0)


@kernel
def _retire(i: int, planes: Any, patience: int) -> None:
    """Forget planes that have had no mass for `patience` visits."""
    begin, size, alpha, _, idle, _ = planes
    for k in range(begin.shape[1]):
        if begin[i, k] < 0:
            continue
        if alpha[i, k] > 0.0:
            idle[i, k] = 0
            continue
        idle[i, k] += 1
        if idle[i, k] > patience:
            begin[i, k], size[i, k], idle[i, k] = -1, 0, 0


@kernel
def ascend_new(
    order: Any, at: int, new: Any, planes: Any, arena: Any, end: Any, features: Any, layout: Any, norms: Any,
    w: Any, scale: float, n_steps: int, patience: int, gap: Any, scratch: Any,
) -> int:  # fmt: skip
    """Oracle visits: offer each example its new plane, then move mass. Returns where in `order` room ran out, or its end.

    `new` is (level, pointer, part, value): the planes that the oracle found, as `arena` keeps them.
    """
    new_level, new_ptr, new_part, new_value = new
    begin, size, alpha, level, idle, _ = planes
    part, value = arena
    score, stamp, now, g, change = scratch
    for position in range(at, order.size):
        i = order[position]
        n_new = new_ptr[i + 1] - new_ptr[i]
        held = 0
        for k in range(begin.shape[1]):
            held += size[i, k]
        if end[0] + n_new + held > part.size:
            return position
        now[0] += 1
        top = _heights(i, planes, arena, features, layout, w, (score, stamp, now), g)
        height = new_level[i] - _plane_score(
            new_ptr[i], n_new, new_part, new_value, i, features, layout, w, (score, stamp, now)
        )
        if n_new > 0 and height > top + 1e-9 * max(1.0, abs(top)):
            slot = _free_slot(i, begin, alpha, idle)
            if slot < 0:
                slot = _merge_lightest(i, planes, arena, end, (score, stamp, now))
                now[0] += 1
                _heights(i, planes, arena, features, layout, w, (score, stamp, now), g)
            begin[i, slot], size[i, slot] = end[0], n_new
            alpha[i, slot], level[i, slot], idle[i, slot] = 0.0, new_level[i], 0
            for q in range(n_new):
                part[end[0]] = new_part[new_ptr[i] + q]
                value[end[0]] = new_value[new_ptr[i] + q]
                end[0] += 1
            _gram_row(i, slot, planes, arena, features, layout, norms, (score, stamp, now))
            g[slot] = height
            top = height
        gap[i] = _example_gap(i, planes, g, top)
        if _pair_steps(i, planes, g, scale, n_steps, change):
            _apply(i, planes, arena, change, scale, features, layout, w, (score, stamp, now))
        _retire(i, planes, patience)
    return order.size


@kernel
def ascend_cached(
    order: Any, planes: Any, arena: Any, features: Any, layout: Any, w: Any, scale: float, n_steps: int,
    threshold: float, gap: Any, scratch: Any,
) -> tuple[float, int]:  # fmt: skip
    """Visits without an oracle, of the examples whose last gap reached `threshold`; returns the sum of gaps, and visits."""
    score, stamp, now, g, change = scratch
    total, visits = 0.0, 0
    for position in range(order.size):
        i = order[position]
        if gap[i] < threshold:
            total += gap[i]
            continue
        now[0] += 1
        top = _heights(i, planes, arena, features, layout, w, (score, stamp, now), g)
        gap[i] = _example_gap(i, planes, g, top)
        total += gap[i]
        visits += 1
        if _pair_steps(i, planes, g, scale, n_steps, change):
            _apply(i, planes, arena, change, scale, features, layout, w, (score, stamp, now))
    return total, visits


@kernel
def compact(planes: Any, part: Any, value: Any, new_part: Any, new_value: Any) -> int:
    """Copy the parts of all living planes to the front of another arena; returns its end."""
    begin, size = planes[0], planes[1]
    end = 0
    for i in range(begin.shape[0]):
        for k in range(begin.shape[1]):
            if begin[i, k] < 0:
                continue
            first = begin[i, k]
            begin[i, k] = end
            for q in range(size[i, k]):
                new_part[end] = part[first + q]
                new_value[end] = value[first + q]
                end += 1
    return end


@kernel
def weights_of(planes: Any, arena: Any, features: Any, layout: Any, scale: float, w: Any, scratch: Any) -> float:
    """Add ``scale * sum alpha_ik psi_ik`` to w; returns ``sum alpha_ik level_ik``."""
    begin, _, alpha, level, _, _ = planes
    score, stamp, now, _, change = scratch
    total = 0.0
    for i in range(begin.shape[0]):
        for k in range(begin.shape[1]):
            change[k] = alpha[i, k] if begin[i, k] >= 0 else 0.0
            total += change[k] * level[i, k]
        _apply(i, planes, arena, change, scale, features, layout, w, (score, stamp, now))
    return total
