"""Longest path through a diagram, for one objective and for a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import kernel
from structopt._jit.lanes import LANES, everywhere, larger, load, plus, room, store, times
from structopt._jit.products import dot

__all__ = ["arc_weights", "best_label", "best_labels", "completions", "weight_lanes", "write_pairs"]

#: Type of array indices. Python allows negative indices, and testing signed ones takes as long as the sums.
_U = np.uint32


@kernel
def arc_weights(arrays: Any, c: Any) -> Any:
    """Return the value of each label of an arc."""
    _, _, _, label_ptr, label_variable, label_value, _ = arrays
    weight = np.empty(len(label_ptr) - 1)
    for k in range(len(weight)):
        total = 0.0
        for p in range(label_ptr[k], label_ptr[k + 1]):
            total += label_value[p] * c[_U(label_variable[p])]
        weight[k] = total
    return weight


@kernel
def weight_lanes(arrays: Any, C: Any, some: Any, costs: Any, weight: Any) -> None:
    """Compute `arc_weights` for `LANES` rows of `C`, one per lane; `costs` is scratch for the rows."""
    _, _, _, label_ptr, label_variable, label_value, _ = arrays
    for j in range(C.shape[1]):
        for k in range(LANES):
            costs[j * LANES + k] = C[some[k], j]
    for name in range(len(label_ptr) - 1):
        total = everywhere(0.0)
        for p in range(label_ptr[name], label_ptr[name + 1]):
            total = plus(total, times(everywhere(label_value[p]), load(costs, label_variable[p] * LANES)))
        store(weight, name * LANES, total)


@kernel
def completions(arrays: Any, weight: Any) -> Any:
    """Return the value of the best path from each node to the terminal."""
    ptr, head, label, _, _, _, _ = arrays
    n = len(ptr) - 1
    best = np.zeros(n)
    for v in range(n - 2, -1, -1):
        top = -np.inf
        for e in range(ptr[v], ptr[v + 1]):
            value = weight[_U(label[e])] + best[_U(head[e])]
            if value > top:
                top = value
        best[v] = top
    return best


@kernel
def write_pairs(arrays: Any, arc: int, z: Any) -> None:
    """Set the variables that an arc decides."""
    _, _, label, label_ptr, label_variable, label_value, _ = arrays
    for p in range(label_ptr[label[arc]], label_ptr[label[arc] + 1]):
        z[label_variable[p]] = label_value[p]


@kernel
def best_label(packed: Any, real: Any, c: Any, z: Any) -> float:
    """Write the best label to `z` and return its value; ties go to the first arcs."""
    n, n_arcs, n_labels = packed[0], packed[1], packed[2]
    first = 3 + n + 1
    ptr, head, label = packed[3:first], packed[first : first + n_arcs], packed[first + n_arcs : first + 2 * n_arcs]
    first += 2 * n_arcs
    label_ptr, label_variable = packed[first : first + n_labels + 1], packed[first + n_labels + 1 :]
    label_value, const = real[: len(label_variable)], real[len(label_variable) :]
    weight, best = np.empty(n_labels), np.empty(n)
    for k in range(n_labels):
        total = 0.0
        for p in range(label_ptr[k], label_ptr[k + 1]):
            total += label_value[p] * c[_U(label_variable[p])]
        weight[k] = total
    best[n - 1] = 0.0
    for v in range(n - 2, -1, -1):
        top = -np.inf
        for e in range(ptr[v], ptr[v + 1]):
            value = weight[_U(label[e])] + best[_U(head[e])]
            if value > top:
                top = value
        best[v] = top
    for j in range(len(z)):
        z[j] = const[j]
    v = 0
    while v < n - 1:
        # The maximum is computed again, so the comparison does not depend on how a stored value was rounded.
        top, at = -np.inf, ptr[v]
        for e in range(ptr[v], ptr[v + 1]):
            value = weight[_U(label[e])] + best[_U(head[e])]
            if value > top:
                top, at = value, e
        for p in range(label_ptr[label[at]], label_ptr[label[at] + 1]):
            z[label_variable[p]] = label_value[p]
        v = head[at]
    return dot(c, z)


@kernel
def _best_lanes(ptr: Any, head: Any, label: Any, weight: Any, best: Any) -> None:
    """Compute `completions` for `LANES` examples side by side."""
    n = len(ptr) - 1
    store(best, (n - 1) * LANES, everywhere(0.0))
    for v in range(n - 2, -1, -1):
        top = everywhere(-np.inf)
        for e in range(ptr[v], ptr[v + 1]):
            top = larger(plus(load(weight, label[e] * LANES), load(best, head[e] * LANES)), top)
        store(best, v * LANES, top)


@kernel
def best_labels(arrays: Any, C: Any, Z: Any, values: Any) -> None:
    """Write `best_label` for each row of `C`."""
    ptr, head, label, label_ptr, _, _, const = arrays
    n, n_variables = len(ptr) - 1, C.shape[1]
    costs, weight, best = room(n_variables), room(len(label_ptr) - 1), room(n)
    some = np.empty(LANES, np.int64)
    for start in range(0, len(C), LANES):
        stop = min(start + LANES, len(C))
        for k in range(LANES):
            some[k] = min(start + k, stop - 1)
        weight_lanes(arrays, C, some, costs, weight)
        _best_lanes(ptr, head, label, weight, best)
        for k in range(stop - start):
            z = Z[start + k]
            for j in range(n_variables):
                z[j] = const[j]
            v = 0
            while v < n - 1:
                highest, at = -np.inf, -1
                for e in range(ptr[v], ptr[v + 1]):
                    value = weight[_U(label[e]) * LANES + k] + best[_U(head[e]) * LANES + k]
                    if value > highest:
                        highest, at = value, e
                write_pairs(arrays, at, z)
                v = head[at]
            total = 0.0
            for j in range(n_variables):
                total += C[start + k, j] * z[j]
            values[start + k] = total
