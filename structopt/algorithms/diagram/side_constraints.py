"""Best-first search for the best label within extra rows ``lower <= A z <= upper``.

A partial path has two bounds: its value plus the best completion, and the same for the Lagrangian ``c - mu A``. The
multipliers come from a few subgradient steps. A path is dropped if no completion satisfies the rows, by the least and
largest activities of completions. The first path that reaches the terminal is optimal. An exhausted search proves
infeasibility.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import assign, kernel
from structopt.algorithms.diagram.k_best import longer, next_arc, pop, push
from structopt.algorithms.diagram.longest_path import arc_weights, completions, write_pairs
from structopt.space.tolerance import row_holds

__all__ = ["FOUND", "GAVE_UP", "NO_LABEL", "best_within"]

FOUND, NO_LABEL, GAVE_UP = 0, 1, 2

_STEPS = 30


@kernel
def _holds(rows: Any, lower: Any, upper: Any, units: Any, tolerance: float, z: Any) -> bool:
    """Return whether a label satisfies dense rows."""
    for r in range(len(rows)):
        activity = size = 0.0
        for j in range(len(z)):
            term = rows[r, j] * z[j]
            activity += term
            size += abs(term)
        if not row_holds(activity, size, units[r], lower[r], upper[r], tolerance):
            return False
    return True


@kernel
def best_within(
    arrays: Any, c: Any, rows: Any, lower: Any, upper: Any, units: Any, tolerance: float, max_cells: int, z: Any
) -> int:
    """Write the best label within dense `rows` to `z`; return FOUND, NO_LABEL, or GAVE_UP after `max_cells` paths."""
    ptr, head, label, label_ptr, _, _, const = arrays
    n, m, n_labels = len(ptr) - 1, len(rows), len(label_ptr) - 1
    weight = arc_weights(arrays, c)
    best = completions(arrays, weight)
    # Activity of each arc label in each row, and least and largest activity of completions.
    row_weight = np.empty((m, n_labels))
    least, most = np.zeros((n, m)), np.zeros((n, m))
    low, up, base = np.empty(m), np.empty(m), np.zeros(m)
    for r in range(m):
        row_weight[r] = arc_weights(arrays, rows[r])
        most[:, r] = completions(arrays, row_weight[r])
        least[:, r] = -completions(arrays, -row_weight[r])
        size = 0.0
        for j in range(len(const)):
            base[r] += rows[r, j] * const[j]
            size += abs(rows[r, j] * const[j])
        # Largest tolerance of any label; `_holds` checks each label itself.
        room = tolerance * max(units[r], size + _most_size(arrays, rows[r])) * 1.001
        low[r], up[r] = lower[r] - room - base[r], upper[r] + room - base[r]

    multipliers = _multipliers(arrays, weight, best, row_weight, least, most, low, up)
    dual_weight = weight.copy()
    dual_start = 0.0
    for r in range(m):
        if multipliers[r] != 0.0:
            for k in range(n_labels):
                dual_weight[k] -= multipliers[r] * row_weight[r, k]
            dual_start += multipliers[r] * (up[r] if multipliers[r] > 0.0 else low[r])
    dual_best = completions(arrays, dual_weight)

    room_ = 1024
    keys, heap, size_ = np.empty(room_), np.empty(room_, np.int64), 0
    node, parent, by_arc = np.empty(room_, np.int64), np.empty(room_, np.int64), np.empty(room_, np.int64)
    value, dual, activity = np.empty(room_), np.empty(room_), np.empty((room_, m))
    node[0], parent[0], by_arc[0], value[0], dual[0] = 0, -1, -1, 0.0, dual_start
    for r in range(m):
        activity[0, r] = 0.0
        if least[0, r] > up[r] or most[0, r] < low[r]:
            return NO_LABEL
    n_cells = 1
    push(keys, heap, size_, min(best[0], dual_start + dual_best[0]), 0)
    size_ = 1
    while size_ > 0:
        cell = heap[0]
        pop(keys, heap, size_)
        size_ -= 1
        v = node[cell]
        if v == n - 1:
            assign(z, const)
            x = cell
            while parent[x] >= 0:
                write_pairs(arrays, by_arc[x], z)
                x = parent[x]
            if _holds(rows, lower, upper, units, tolerance, z):
                return FOUND
            continue
        degree = ptr[v + 1] - ptr[v]
        if n_cells + degree > max_cells:
            return GAVE_UP
        if n_cells + degree > room_:
            wider = 2 * (n_cells + degree)
            keys, heap = longer(keys, wider), longer(heap, wider)
            node, parent, by_arc = longer(node, wider), longer(parent, wider), longer(by_arc, wider)
            value, dual = longer(value, wider), longer(dual, wider)
            activities = np.empty((wider, m))
            for x in range(n_cells):
                assign(activities[x], activity[x])
            activity = activities
            room_ = wider
        for e in range(ptr[v], ptr[v + 1]):
            w, k = head[e], label[e]
            inside = True
            for r in range(m):
                now = activity[cell, r] + row_weight[r, k]
                activity[n_cells, r] = now
                if now + least[w, r] > up[r] or now + most[w, r] < low[r]:
                    inside = False
                    break
            if not inside:
                continue
            node[n_cells], parent[n_cells], by_arc[n_cells] = w, cell, e
            value[n_cells], dual[n_cells] = value[cell] + weight[k], dual[cell] + dual_weight[k]
            push(keys, heap, size_, min(value[n_cells] + best[w], dual[n_cells] + dual_best[w]), n_cells)
            size_ += 1
            n_cells += 1
    return NO_LABEL


@kernel
def _most_size(arrays: Any, row: Any) -> float:
    """Return the largest sum of absolute terms of a row over all labels."""
    _, _, _, label_ptr, label_variable, label_value, _ = arrays
    size = np.zeros(len(label_ptr) - 1)
    for k in range(len(size)):
        for p in range(label_ptr[k], label_ptr[k + 1]):
            size[k] += abs(label_value[p] * row[label_variable[p]])
    return completions(arrays, size)[0]  # type: ignore[no-any-return]


@kernel
def _multipliers(arrays: Any, weight: Any, best: Any, row_weight: Any, least: Any, most: Any, low: Any, up: Any) -> Any:
    """Return multipliers of the rows by subgradient steps on the Lagrangian; positive for upper bounds."""
    ptr, head, label, _, _, _, _ = arrays
    n, m, n_labels = len(ptr) - 1, len(row_weight), len(weight)
    spread = best[0] + completions(arrays, -weight)[0]
    scale, reach = np.zeros(m), np.zeros(m)
    for r in range(m):
        reach[r] = most[0, r] - least[0, r]
        scale[r] = spread / reach[r] if reach[r] > 0.0 else 0.0
    now, found = np.zeros(m), np.zeros(m)
    found_value = best[0]
    step = 0.5
    slope = np.empty(m)
    dual_weight = np.empty(n_labels)
    for _ in range(_STEPS):
        bound = 0.0
        assign(dual_weight, weight)
        for r in range(m):
            if now[r] != 0.0:
                for k in range(n_labels):
                    dual_weight[k] -= now[r] * row_weight[r, k]
                bound += now[r] * (up[r] if now[r] > 0.0 else low[r])
        value = completions(arrays, dual_weight)
        bound += value[0]
        if bound < found_value:
            found_value = bound
            assign(found, now)
        for r in range(m):
            slope[r] = 0.0
        v = 0
        while v < n - 1:
            e = next_arc(ptr, head, label, dual_weight, value, v, -1)
            for r in range(m):
                slope[r] += row_weight[r, label[e]]
            v = head[e]
        norm = 0.0
        for r in range(m):
            a = slope[r]
            if now[r] > 0.0:
                slope[r] = a - up[r]
            elif now[r] < 0.0:
                slope[r] = a - low[r]
            else:
                slope[r] = a - up[r] if a > up[r] else (a - low[r] if a < low[r] else 0.0)
            if reach[r] > 0.0:
                slope[r] /= reach[r]
            else:
                slope[r] = 0.0
            norm += slope[r] * slope[r]
        if norm == 0.0:
            break
        norm = np.sqrt(norm)
        for r in range(m):
            was = now[r]
            now[r] += step * scale[r] * slope[r] / norm
            # A multiplier that changes its sign is set to 0 first, because the active bound changes there.
            if was * now[r] < 0.0 or (now[r] > 0.0 and up[r] == np.inf) or (now[r] < 0.0 and low[r] == -np.inf):
                now[r] = 0.0
        step *= 0.85
    return found
