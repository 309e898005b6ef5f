"""The k best labels of a diagram, by Lawler's cells (docs/mathematics/oracles#the-k-best-labels).

A cell is an emitted path, a position on it, and another arc at that position. It contains the paths that follow the
emitted one up to the position and then take the arc. The best path of a cell continues along best arcs. Emitting it
opens the next best arc at its position, and the second best arc at every later position.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import assign, kernel
from structopt.algorithms.diagram.longest_path import arc_weights, completions, write_pairs

__all__ = ["k_best_labels", "longer", "next_arc", "pop", "push"]


@kernel
def push(keys: Any, cells: Any, size: int, key: float, cell: int) -> None:
    """Add a cell to a heap ordered by largest key, then smallest cell."""
    k = size
    while k > 0:
        parent = (k - 1) >> 1
        if keys[parent] > key or (keys[parent] == key and cells[parent] < cell):
            break
        keys[k], cells[k] = keys[parent], cells[parent]
        k = parent
    keys[k], cells[k] = key, cell


@kernel
def pop(keys: Any, cells: Any, size: int) -> None:
    """Remove the top of a heap of `size` cells, which the caller has read."""
    key, cell = keys[size - 1], cells[size - 1]
    size -= 1
    k = 0
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        if child + 1 < size and (
            keys[child + 1] > keys[child] or (keys[child + 1] == keys[child] and cells[child + 1] < cells[child])
        ):
            child += 1
        if key > keys[child] or (key == keys[child] and cell < cells[child]):
            break
        keys[k], cells[k] = keys[child], cells[child]
        k = child
    keys[k], cells[k] = key, cell


@kernel
def longer(array: Any, size: int) -> Any:
    """Return a copy of an array with room for `size` entries."""
    wider = np.empty(size, array.dtype)
    for k in range(len(array)):
        wider[k] = array[k]
    return wider


@kernel
def next_arc(ptr: Any, head: Any, label: Any, weight: Any, best: Any, v: int, arc: int) -> int:
    """Return the arc of a node that follows `arc` in the order of values, the best one after -1, or -1 at the end."""
    limit = np.inf if arc < 0 else weight[label[arc]] + best[head[arc]]
    top, at = -np.inf, -1
    for e in range(ptr[v], ptr[v + 1]):
        value = weight[label[e]] + best[head[e]]
        if (value < limit or (value == limit and e > arc)) and value > top:
            top, at = value, e
    return at


@kernel
def k_best_labels(arrays: Any, c: Any, k: int) -> Any:
    """Return the `k` best labels, or all if there are fewer; best first up to rounding."""
    ptr, head, label, _, _, _, const = arrays
    n = len(ptr) - 1
    if n == 1:
        only = np.empty((1, len(const)))
        assign(only[0], const)
        return only
    weight = arc_weights(arrays, c)
    best = completions(arrays, weight)
    # Emitted paths, concatenated.
    path_ptr = np.zeros(k + 1, np.int64)
    arcs, n_arcs = np.empty(64, np.int64), 0
    room = 256
    keys, heap, size = np.empty(room), np.empty(room, np.int64), 0
    cell_path, cell_place, cell_arc = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    n_cells = 1
    cell_path[0], cell_place[0], cell_arc[0] = -1, 0, next_arc(ptr, head, label, weight, best, 0, -1)
    push(keys, heap, size, best[0], 0)
    size += 1
    found = 0
    while found < k and size > 0:
        cell = heap[0]
        pop(keys, heap, size)
        size -= 1
        place = cell_place[cell]
        if n_arcs + n + place > len(arcs):
            arcs = longer(arcs, 2 * (n_arcs + n + place))
        first = n_arcs
        prefix = 0.0
        v = 0
        for x in range(place):
            e = arcs[path_ptr[cell_path[cell]] + x]
            arcs[n_arcs] = e
            n_arcs += 1
            prefix += weight[label[e]]
            v = head[e]
        e = cell_arc[cell]
        position = place
        while True:
            # The path takes arc e at node v; a new cell takes the next best arc instead.
            other = next_arc(ptr, head, label, weight, best, v, e)
            if other >= 0:
                if n_cells + 1 >= room:
                    room *= 2
                    keys, heap = longer(keys, room), longer(heap, room)
                    cell_path, cell_place = longer(cell_path, room), longer(cell_place, room)
                    cell_arc = longer(cell_arc, room)
                cell_path[n_cells], cell_place[n_cells], cell_arc[n_cells] = found, position, other
                push(keys, heap, size, prefix + (weight[label[other]] + best[head[other]]), n_cells)
                size += 1
                n_cells += 1
            arcs[n_arcs] = e
            n_arcs += 1
            prefix += weight[label[e]]
            v = head[e]
            position += 1
            if v == n - 1:
                break
            e = next_arc(ptr, head, label, weight, best, v, -1)
        path_ptr[found] = first
        found += 1
        path_ptr[found] = n_arcs
    Z = np.empty((found, len(const)))
    for row in range(found):
        z = Z[row]
        assign(z, const)
        for x in range(path_ptr[row], path_ptr[row + 1]):
            write_pairs(arrays, arcs[x], z)
    return Z
