"""The best label: the longest path through a diagram, for one objective and for a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import fast, kernel
from structopt._jit.products import dot

__all__ = ["arc_weights", "best_label", "best_labels", "completions", "weight_columns", "write_pairs"]

#: The type of numbers of nodes, labels and variables where arrays are indexed by them: whether a number is negative,
#: which Python allows, is otherwise asked each time, and takes as long as the sums.
_U = np.uint32

#: Examples of a batch that go through the diagram side by side.
_COLUMNS = 16


@kernel
def arc_weights(arrays: Any, c: Any) -> Any:
    """What each label of an arc is worth."""
    _, _, _, label_ptr, label_variable, label_value, _ = arrays
    weight = np.empty(len(label_ptr) - 1)
    for k in range(len(weight)):
        total = 0.0
        for p in range(label_ptr[k], label_ptr[k + 1]):
            total += label_value[p] * c[_U(label_variable[p])]
        weight[k] = total
    return weight


@kernel
def weight_columns(arrays: Any, C: Any) -> Any:
    """`arc_weights` of every row of `C`, a column each."""
    _, _, _, label_ptr, label_variable, label_value, _ = arrays
    columns, n_variables = C.shape
    costs = np.empty((n_variables, columns))
    for k in range(columns):
        for j in range(n_variables):
            costs[j, k] = C[k, j]
    weight = np.zeros((len(label_ptr) - 1, columns))
    for name in range(len(weight)):
        row = weight[name]
        for p in range(label_ptr[name], label_ptr[name + 1]):
            value, cost = label_value[p], costs[label_variable[p]]
            for k in range(columns):
                row[k] += value * cost[k]
    return weight


@kernel
def completions(arrays: Any, weight: Any) -> Any:
    """The value of the best path from each node to the terminal."""
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
    """Write the best label to `z` and return its value; of equal ones that of the first arcs.

    All in one function on few arrays (`Diagram.packed`): calls of microseconds are the most frequent ones.
    """
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
        # The maximum is found again, rather than looked up: no expression has to round alike twice.
        top, at = -np.inf, ptr[v]
        for e in range(ptr[v], ptr[v + 1]):
            value = weight[_U(label[e])] + best[_U(head[e])]
            if value > top:
                top, at = value, e
        for p in range(label_ptr[label[at]], label_ptr[label[at] + 1]):
            z[label_variable[p]] = label_value[p]
        v = head[at]
    return dot(c, z)


# Costs are finite: no NaN occurs, and no sum is reordered.
@fast("nnan", "nsz")
def _best_columns(ptr: Any, head: Any, label: Any, weight: Any, best: Any, top: Any) -> None:
    """`completions` of `_COLUMNS` examples side by side."""
    n = len(ptr) - 1
    for k in range(_COLUMNS):
        best[n - 1, k] = 0.0
    for v in range(n - 2, -1, -1):
        for k in range(_COLUMNS):
            top[k] = -np.inf
        for e in range(ptr[v], ptr[v + 1]):
            own = weight[_U(label[e])]
            rest = best[_U(head[e])]
            for k in range(_COLUMNS):
                top[k] = max(top[k], own[k] + rest[k])
        for k in range(_COLUMNS):
            best[v, k] = top[k]


@kernel
def best_labels(arrays: Any, C: Any, Z: Any, values: Any) -> None:
    """`best_label` for every row of `C`."""
    ptr, head, label, label_ptr, label_variable, label_value, const = arrays
    n, n_variables, n_labels = len(ptr) - 1, C.shape[1], len(label_ptr) - 1
    costs = np.zeros((n_variables, _COLUMNS))
    weight, best = np.empty((n_labels, _COLUMNS)), np.empty((n, _COLUMNS))
    top = np.empty(_COLUMNS)
    for start in range(0, len(C), _COLUMNS):
        stop = min(start + _COLUMNS, len(C))
        for k in range(stop - start):
            for j in range(n_variables):
                costs[j, k] = C[start + k, j]
        for name in range(n_labels):
            row = weight[name]
            for k in range(_COLUMNS):
                row[k] = 0.0
            for p in range(label_ptr[name], label_ptr[name + 1]):
                value, cost = label_value[p], costs[label_variable[p]]
                for k in range(_COLUMNS):
                    row[k] += value * cost[k]
        _best_columns(ptr, head, label, weight, best, top)
        for k in range(stop - start):
            z = Z[start + k]
            for j in range(n_variables):
                z[j] = const[j]
            v = 0
            while v < n - 1:
                highest, at = -np.inf, -1
                for e in range(ptr[v], ptr[v + 1]):
                    value = weight[label[e], k] + best[head[e], k]
                    if value > highest:
                        highest, at = value, e
                write_pairs(arrays, at, z)
                v = head[at]
            total = 0.0
            for j in range(n_variables):
                total += C[start + k, j] * z[j]
            values[start + k] = total
