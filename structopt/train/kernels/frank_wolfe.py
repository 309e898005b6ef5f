"""Two visits over the arrays of `structopt.train.kernels.cuts` that take no pair steps.

`frank_wolfe` keeps one cut per example, the mixture of all labels that it has moved to (Lacoste-Julien et al. 2013).
`remember` and `highest` use the working sets as a cache of labels from which a cut is composed (one-slack).
"""

from __future__ import annotations

from typing import Any

from structopt._jit import in_place
from structopt.train.kernels.cuts import (
    add_planes,
    append,
    drop,
    fresh_score,
    gram_row,
    heights,
    is_news,
    locate,
    merge_lightest,
    reserve,
    scores,
    tidy,
)

__all__ = ["frank_wolfe", "highest", "remember"]


@in_place
def frank_wolfe(
    order: Any, at: int, shift: int, new: Any, planes: Any, arena: Any, unions: Any, ends: Any, features: Any, w: Any,
    scale: float, gap: Any, scratch: Any,
) -> int:  # fmt: skip
    """One exact step of each example from its mixture towards the label found.

    The arguments are those of `working_sets.ascend`; working sets have two slots. Returns the place in `order`
    where room ran out, or its end.
    """
    new_level, new_ptr, new_part, new_row, new_at, new_value = new
    found = (new_part, new_row, new_at, new_value)
    count, begin, size, alpha, level, idle, gram = planes
    used, g, change = unions[1], scratch[5], scratch[6]
    for position in range(at, order.size):
        i = order[position]
        first, last = new_ptr[i - shift], new_ptr[i - shift + 1]
        if not reserve(i, last - first, planes, arena, unions, ends):
            return position
        if count[i] == 0:  # all mass on the ground truth: the empty cut
            count[i] = 1
            begin[i, 0], size[i, 0], alpha[i, 0], level[i, 0], idle[i, 0], gram[i, 0, 0] = ends[0], 0, 1.0, 0.0, 0, 0.0
        n_parts = locate(i, first, last, found, unions, scratch)
        scores(i, n_parts, unions, features, w, scratch)
        heights(i, planes, arena, scratch)
        slope = new_level[i - shift] - fresh_score(first, last, new_value, scratch) - g[0]
        gap[i] = max(slope, 0.0)
        if slope <= 0.0:
            continue
        used[i] = n_parts
        append(i, first, last, new_value, new_level[i - shift], planes, arena, ends, scratch)
        gram_row(i, 1, planes, arena, unions, features, scratch)
        bend = max(gram[i, 0, 0] + gram[i, 1, 1] - 2.0 * gram[i, 0, 1], 0.0) * scale
        t = 1.0 if bend <= slope else slope / bend
        change[0], change[1] = -t, t
        add_planes(i, planes, arena, unions, features, scale, w, scratch)
        alpha[i, 0], alpha[i, 1] = 1.0 - t, t
        if t == 1.0:
            drop(i, 0, planes)
            tidy(i, planes, arena, unions, scratch)
        else:
            merge_lightest(i, planes, arena, ends, unions, scratch)
        alpha[i, 0] = 1.0
    return order.size  # type: ignore[no-any-return]


@in_place
def remember(
    at: int, first_example: int, last_example: int, new: Any, planes: Any, arena: Any, unions: Any, ends: Any,
    features: Any, w: Any, scratch: Any,
) -> int:  # fmt: skip
    """Offer each example a label; one that was not yet known at w replaces the label unused for longest.

    Returns the example at which room ran out, or `last_example`.
    """
    new_level, new_ptr, new_part, new_row, new_at, new_value = new
    found = (new_part, new_row, new_at, new_value)
    count, slots, idle, used = planes[0], planes[1].shape[1], planes[5], unions[1]
    for i in range(at, last_example):
        first, last = new_ptr[i - first_example], new_ptr[i - first_example + 1]
        if not reserve(i, last - first, planes, arena, unions, ends):
            return i
        n_parts = locate(i, first, last, found, unions, scratch)
        scores(i, n_parts, unions, features, w, scratch)
        top = heights(i, planes, arena, scratch)
        level = new_level[i - first_example]
        height = level - fresh_score(first, last, new_value, scratch)
        if not is_news(height, top, level):
            continue
        if count[i] == slots:
            oldest = 0
            for k in range(1, count[i]):
                if idle[i, k] > idle[i, oldest]:
                    oldest = k
            drop(i, oldest, planes)
        used[i] = n_parts
        append(i, first, last, new_value, level, planes, arena, ends, scratch)
        tidy(i, planes, arena, unions, scratch)
    return last_example


@in_place
def highest(
    planes: Any, arena: Any, unions: Any, features: Any, w: Any, scale: float, a: Any, scratch: Any
) -> tuple[float, float]:
    """The highest known cut of every example at w: the sums of heights and of levels; ``a -= scale sum psi``."""
    count, level, idle = planes[0], planes[4], planes[5]
    used, g, change = unions[1], scratch[5], scratch[6]
    total, levels = 0.0, 0.0
    for i in range(count.size):
        scores(i, used[i], unions, features, w, scratch)
        heights(i, planes, arena, scratch)
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
        total += top
        levels += level[i, best]
        add_planes(i, planes, arena, unions, features, scale, a, scratch)
    return total, levels
