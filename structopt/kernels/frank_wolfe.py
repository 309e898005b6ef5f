"""Two visits over the arrays of `structopt.kernels.working_sets` that take no pair steps.

`frank_wolfe` keeps one plane per example, the mixture of all labels that it has moved to (Lacoste-Julien et al. 2013).
`remember` and `highest` use the working sets as a cache of labels from which a cut is composed (one-slack).
"""

from __future__ import annotations

from typing import Any

from structopt.kernels._common import kernel
from structopt.kernels.working_sets import _apply, _drop, _gram_row, _heights, _merge_lightest, _plane_score

__all__ = ["frank_wolfe", "highest", "remember"]


@kernel
def _append(i: int, first: int, last: int, found: Any, level_new: float, planes: Any, arena: Any, end: Any) -> None:
    """Put the plane ``found[first:last]`` into the next slot of example i, without mass."""
    count, begin, size, alpha, level, idle, _ = planes
    slot = count[i]
    count[i] += 1
    begin[i, slot], size[i, slot] = end[0], last - first
    alpha[i, slot], level[i, slot], idle[i, slot] = 0.0, level_new, 0
    part, row, place, value = arena
    new_part, new_row, new_at, new_value = found
    for q in range(first, last):
        part[end[0]], row[end[0]], place[end[0]], value[end[0]] = new_part[q], new_row[q], new_at[q], new_value[q]
        end[0] += 1


@kernel
def frank_wolfe(
    order: Any, at: int, shift: int, new: Any, planes: Any, arena: Any, end: Any, features: Any, w: Any, scale: float,
    gap: Any, scratch: Any,
) -> int:  # fmt: skip
    """One exact step of each example from its mixture towards the label found.

    The arguments are those of `working_sets.ascend_new`; working sets have two slots. Returns the place in `order`
    where room ran out, or its end.
    """
    new_level, new_ptr, new_part, new_row, new_at, new_value = new
    found = (new_part, new_row, new_at, new_value)
    count, begin, size, alpha, level, idle, gram = planes
    memo, stamp, now, g, change = scratch
    for position in range(at, order.size):
        i = order[position]
        first, last = new_ptr[i - shift], new_ptr[i - shift + 1]
        held = size[i, 0] if count[i] > 0 else 0
        if end[0] + 2 * (last - first) + held > arena[0].size:
            return position
        if count[i] == 0:  # all mass on the truth: the empty plane
            count[i] = 1
            begin[i, 0], size[i, 0], alpha[i, 0], level[i, 0], idle[i, 0], gram[i, 0, 0] = end[0], 0, 1.0, 0.0, 0, 0.0
        now[0] += 1
        _heights(i, planes, arena, features, w, memo, stamp, now[0], g)
        height = new_level[i - shift] - _plane_score(first, last, found, features, w, memo, stamp, now[0])
        slope = height - g[0]
        gap[i] = max(slope, 0.0)
        if slope <= 0.0:
            continue
        _append(i, first, last, found, new_level[i - shift], planes, arena, end)
        now[0] += 1
        _gram_row(i, 1, planes, arena, features, memo, stamp, now[0])
        bend = max(gram[i, 0, 0] + gram[i, 1, 1] - 2.0 * gram[i, 0, 1], 0.0) * scale
        t = 1.0 if bend <= slope else slope / bend
        change[0], change[1] = -t, t
        now[0] += 1
        _apply(i, planes, arena, change, scale, features, w, memo, stamp, now[0])
        alpha[i, 0], alpha[i, 1] = 1.0 - t, t
        if t == 1.0:
            _drop(i, 0, planes)
        else:
            now[0] += 1
            _merge_lightest(i, planes, arena, end, memo, stamp, now[0])
        alpha[i, 0] = 1.0
    return order.size  # type: ignore[no-any-return]


@kernel
def remember(
    at: int, first_example: int, last_example: int, new: Any, planes: Any, arena: Any, end: Any, features: Any, w: Any,
    scratch: Any,
) -> int:  # fmt: skip
    """Offer each example a label; one that was not yet known at w replaces the label unused for longest.

    Returns the example at which room ran out, or `last_example`.
    """
    new_level, new_ptr, new_part, new_row, new_at, new_value = new
    found = (new_part, new_row, new_at, new_value)
    count, begin, _, _, _, idle, _ = planes
    memo, stamp, now, g, _ = scratch
    for i in range(at, last_example):
        first, last = new_ptr[i - first_example], new_ptr[i - first_example + 1]
        if end[0] + last - first > arena[0].size:
            return i
        now[0] += 1
        top = _heights(i, planes, arena, features, w, memo, stamp, now[0], g)
        level = new_level[i - first_example]
        height = level - _plane_score(first, last, found, features, w, memo, stamp, now[0])
        if last == first or height <= top + 1e-9 * max(1.0, abs(top)):
            continue
        if count[i] == begin.shape[1]:
            oldest = 0
            for k in range(1, count[i]):
                if idle[i, k] > idle[i, oldest]:
                    oldest = k
            _drop(i, oldest, planes)
        _append(i, first, last, found, level, planes, arena, end)
    return last_example


@kernel
def highest(planes: Any, arena: Any, features: Any, w: Any, scale: float, a: Any, scratch: Any) -> tuple[float, float]:
    """The highest known plane of every example at w: the sums of heights and of levels; ``a -= scale sum psi``."""
    count, _, _, _, level, idle, _ = planes
    memo, stamp, now, g, change = scratch
    heights, levels = 0.0, 0.0
    for i in range(count.size):
        now[0] += 1
        _heights(i, planes, arena, features, w, memo, stamp, now[0], g)
        best, top = -1, 0.0
        for k in range(count[i]):
            change[k] = 0.0
            idle[i, k] += 1
            if g[k] > top:
                best, top = k, g[k]
        if best < 0:
            continue
        idle[i, best] = 0
        change[best] = -1.0
        heights += top
        levels += level[i, best]
        now[0] += 1
        _apply(i, planes, arena, change, scale, features, a, memo, stamp, now[0])
    return heights, levels
