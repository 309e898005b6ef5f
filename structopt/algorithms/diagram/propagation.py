"""Bound propagation over the rows of one component, which determines its continuous variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import kernel

__all__ = ["DEAD", "NO_VALUE", "POINT", "UNCLEAR", "UNCLEAR_VALUE", "UNDETERMINED_BOX", "propagate"]

#: Results: one point, no point, a box of points, or no point except within tolerances.
POINT, DEAD, UNDETERMINED_BOX, UNCLEAR = 0, 1, 2, 3

#: Values that mark a variable as undetermined, or determined by a tolerance. Arcs with such labels may turn out to be
#: on no path.
NO_VALUE, UNCLEAR_VALUE = 1e300, 2e300

_ROUNDS = 50
#: Smaller differences are rounding errors. The tolerance of rows might close gaps below `_CLEAR`.
_ROUNDING, _CLEAR = 1e-9, 1e-4


@kernel
def propagate(components: Any, kind: int, activity: Any, point: Any) -> int:
    """Propagate bounds for given integer activities of a component's rows, and write a unique point to `point`."""
    first_row, last_row = components.kind_row_ptr[kind], components.kind_row_ptr[kind + 1]
    first, n = components.kind_variable_ptr[kind], components.kind_variable_ptr[kind + 1]
    n -= first
    low, up = components.lower[first : first + n].copy(), components.upper[first : first + n].copy()
    moved = True
    rounds = 0
    while moved and rounds < _ROUNDS:
        moved = False
        rounds += 1
        for r in range(first_row, last_row):
            done = activity[r - first_row] / components.scale[r]
            most, least = components.row_upper[r] - done, components.row_lower[r] - done
            # Smallest and largest sum of the row's finite terms; infinite terms are counted.
            small = large = 0.0
            n_small = n_large = 0
            for p in range(components.indptr[r], components.indptr[r + 1]):
                a, j = components.data[p], components.indices[p]
                below, above = (a * low[j], a * up[j]) if a > 0.0 else (a * up[j], a * low[j])
                if below == -np.inf:
                    n_small += 1
                else:
                    small += below
                if above == np.inf:
                    n_large += 1
                else:
                    large += above
            for p in range(components.indptr[r], components.indptr[r + 1]):
                a, j = components.data[p], components.indices[p]
                below, above = (a * low[j], a * up[j]) if a > 0.0 else (a * up[j], a * low[j])
                # Extreme sums of the other terms.
                others_small = n_small - (1 if below == -np.inf else 0)
                others_large = n_large - (1 if above == np.inf else 0)
                new_low, new_up = low[j], up[j]
                if most < np.inf and others_small == 0:
                    end = (most - (small - (0.0 if below == -np.inf else below))) / a
                    if a > 0.0:
                        new_up = min(new_up, end)
                    else:
                        new_low = max(new_low, end)
                if least > -np.inf and others_large == 0:
                    end = (least - (large - (0.0 if above == np.inf else above))) / a
                    if a > 0.0:
                        new_low = max(new_low, end)
                    else:
                        new_up = min(new_up, end)
                # Changes within rounding are ignored; otherwise two bounds might approach each other endlessly.
                if new_up < up[j] - 1e-12 * max(1.0, abs(new_up)) or new_low > low[j] + 1e-12 * max(1.0, abs(new_low)):
                    moved = True
                    gap = new_low - new_up
                    size = max(1.0, max(abs(new_low), abs(new_up)))
                    if gap > _ROUNDING * size:
                        return DEAD if gap > _CLEAR * size else UNCLEAR
                    if gap > 0.0:
                        new_low = new_up = 0.5 * (new_low + new_up)
                    for end, was in ((0, low[j]), (1, up[j])):
                        now = new_low if end == 0 else new_up
                        if now == was:
                            continue
                        # Update the sums for the new bound.
                        if (end == 0) == (a > 0.0):
                            if was == -np.inf or was == np.inf:
                                n_small -= 1
                                small += a * now
                            else:
                                small += a * now - a * was
                        elif was == -np.inf or was == np.inf:
                            n_large -= 1
                            large += a * now
                        else:
                            large += a * now - a * was
                    low[j], up[j] = new_low, new_up
    for j in range(n):
        if not up[j] - low[j] <= _ROUNDING * max(1.0, abs(low[j])):
            return UNDETERMINED_BOX
        value = 0.5 * (low[j] + up[j])
        if abs(value - np.rint(value)) < _ROUNDING:
            value = np.rint(value) + 0.0
        point[j] = value
    worst = 0.0
    for r in range(first_row, last_row):
        total = activity[r - first_row] / components.scale[r]
        size = max(1.0, abs(total))
        for p in range(components.indptr[r], components.indptr[r + 1]):
            term = components.data[p] * point[components.indices[p]]
            total += term
            size = max(size, abs(term))
        worst = max(worst, (total - components.row_upper[r]) / size, (components.row_lower[r] - total) / size)
    if worst <= _ROUNDING:
        return POINT
    return DEAD if worst > _CLEAR else UNCLEAR
