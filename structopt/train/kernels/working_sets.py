"""Dual block-coordinate ascent over per-example working sets of cuts (docs/mathematics/training#block-ascent).

The dual point has ``alpha_i`` on the simplex of example i's cuts (`structopt.train.kernels.cuts`) and the ground
truth, and ``w = 1/(lam n) sum alpha_ik psi_ik``. A visit moves mass between the cuts of one example by exact pair
steps, and w with it.
"""

from __future__ import annotations

from typing import Any

from structopt._jit import in_place, inner
from structopt.train.kernels.cuts import (
    add_planes,
    append,
    drop,
    fresh_score,
    give_back,
    gram_row,
    heights,
    is_news,
    locate,
    make_slot,
    reserve,
    scores,
    tidy,
)

__all__ = ["ascend"]

# A pair step that gains less than this share of the first one ends the visit.
_WORTH = 1e-3
# Mass below this is rounding error.
_DUST = 1e-13
_TINY = 1e-300


@inner
def _pair_steps(i: int, planes: Any, scale: float, n_steps: int, scratch: Any) -> bool:
    """Exact steps between the highest cut and the one whose mass gains most by moving; cut `count` is the ground truth.

    `g` holds the cuts' heights at w and is kept up to date; `change` collects the moves of mass.
    """
    count, alphas, grams = planes[0], planes[3], planes[6]
    g, change, truth = scratch[5], scratch[6], scratch[7]
    n = count[i]
    alpha, gram = alphas[i], grams[i]
    rest = 1.0
    u, top = n, 0.0
    for k in range(n):
        change[k] = 0.0
        rest -= alpha[k]
        if g[k] > top:
            u, top = k, g[k]
    if rest < _DUST:
        rest = 0.0
    moved = False
    first_gain = 0.0
    for step in range(n_steps):
        row_u = truth if u == n else gram[u]
        own = row_u[u]
        # Cuts without mass, or as high as the highest, gain nothing: t = 0. There is no branch for it, which the
        # processor would mispredict.
        bend = own * scale
        move = min(rest, top / (bend + _TINY))
        best, v = move * (top - 0.5 * move * bend), n
        for k in range(n):
            slope = top - g[k]
            bend = max(own + gram[k, k] - 2.0 * row_u[k], 0.0) * scale
            t = min(alpha[k], slope / (bend + _TINY))
            gain = t * (slope - 0.5 * t * bend)
            if gain > best:
                best, v, move = gain, k, t
        if best <= _WORTH * first_gain:
            break
        if step == 0:
            first_gain = best
        moved = True
        if u == n:
            rest += move
        else:
            alpha[u] += move
            change[u] += move
        if v == n:
            rest = max(rest - move, 0.0)
        else:
            left = alpha[v] - move
            if left < _DUST:
                left = 0.0
            change[v] += left - alpha[v]
            alpha[v] = left
        row_v = truth if v == n else gram[v]
        drift = move * scale
        u, top = n, 0.0
        for k in range(n):
            g[k] -= drift * (row_u[k] - row_v[k])
            if g[k] > top:
                u, top = k, g[k]
    return moved


@inner
def _example_gap(i: int, planes: Any, g: Any, top: float) -> float:
    """``max_k g_k - sum_k alpha_k g_k``."""
    count, alpha = planes[0], planes[3]
    gap = top
    for k in range(count[i]):
        gap -= alpha[i, k] * g[k]
    return max(gap, 0.0)


@inner
def _retire(i: int, planes: Any, patience: int) -> None:
    """Forget cuts that have had no mass for `patience` oracle visits."""
    count, alpha, idle = planes[0], planes[3], planes[5]
    for k in range(count[i] - 1, -1, -1):
        if alpha[i, k] > 0.0:
            idle[i, k] = 0
            continue
        idle[i, k] += 1
        if idle[i, k] > patience:
            drop(i, k, planes)


@in_place
def ascend(
    order: Any, at: int, threshold: float, offered: bool, shift: int, new: Any, planes: Any, arena: Any, unions: Any,
    ends: Any, features: Any, w: Any, scale: float, n_steps: int, patience: int, gap: Any, scratch: Any,
) -> int:  # fmt: skip
    """Move mass among the cuts of each example whose last gap reached `threshold`.

    If there are `offered` cuts, `new` is (level, pointer, part, row, at, value) of the labels that the oracle found
    for the examples from `shift` on (see `differences`). Returns the place in `order` at which room ran out, or its
    end. Visits with and without an oracle share one kernel, because its compilation delays the first fit.
    """
    new_level, new_ptr, new_part, new_row, new_at, new_value = new
    found = (new_part, new_row, new_at, new_value)
    count, slots, used = planes[0], planes[1].shape[1], unions[1]
    g = scratch[5]
    for position in range(at, order.size):
        i = order[position]
        if gap[i] < threshold:
            continue
        first, last, n_parts = 0, 0, used[i]
        if offered:
            first, last = new_ptr[i - shift], new_ptr[i - shift + 1]
            if not reserve(i, last - first, planes, arena, unions, ends):
                return position
            n_parts = locate(i, first, last, found, unions, scratch)
        scores(i, n_parts, unions, features, w, scratch)
        top = heights(i, planes, arena, scratch)
        if offered:  # a label with the features of the true label and a loss is a cut without parts
            height = new_level[i - shift] - fresh_score(first, last, new_value, scratch)
            if is_news(height, top, new_level[i - shift]):
                if count[i] == slots:
                    make_slot(i, planes, arena, ends, unions, scratch)
                    heights(i, planes, arena, scratch)
                used[i] = n_parts
                slot = append(i, first, last, new_value, new_level[i - shift], planes, arena, ends, scratch)
                gram_row(i, slot, planes, arena, unions, features, scratch)
                g[slot] = height
                top = height
        gap[i] = _example_gap(i, planes, g, top)
        if _pair_steps(i, planes, scale, n_steps, scratch):
            add_planes(i, planes, arena, unions, features, scale, w, scratch)
        if offered:
            _retire(i, planes, patience)
            tidy(i, planes, arena, unions, scratch)
            give_back(i, unions, ends)
    return order.size  # type: ignore[no-any-return]
