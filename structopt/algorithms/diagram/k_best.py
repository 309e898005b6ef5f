"""The k best labels of a diagram, by Lawler's cells (docs/mathematics/oracles#the-k-best-labels).

A cell is (an emitted path, a position on it, another arc there): the paths that follow the emitted one up to the
position and leave it by that arc. Its best member goes on by best arcs. Emitting it opens the next best arc at its
position, and the second best at every later one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import kernel
from structopt.algorithms.diagram.longest_path import arc_weights, completions, write_pairs

__all__ = ["k_best_labels", "pop", "push"]


@kernel
def push(keys: Any, cells: Any, size: int, key: float, cell: int) -> None:
    """Add a cell to a heap with the largest key, then the smallest cell, on top."""
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
    """Remove the top of a heap of `size` cells; the caller has read it."""
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
def _next_arc(ptr: Any, head: Any, label: Any, weight: Any, best: Any, v: int, arc: int) -> int:
    """The arc of a node that follows `arc` by value, then by number; the first one after -1; -1 if there is none."""
    limit = np.inf if arc < 0 else weight[label[arc]] + best[head[arc]]
    top, at = -np.inf, -1
    for e in range(ptr[v], ptr[v + 1]):
        value = weight[label[e]] + best[head[e]]
        if (value < limit or (value == limit and e > arc)) and value > top:
            top, at = value, e
    return at


@kernel
def k_best_labels(arrays: Any, c: Any, k: int) -> Any:
    """The `k` best labels (fewer if there are fewer), best first up to rounding."""
    ptr, head, label, _, _, _, const = arrays
    n = len(ptr) - 1
    if n == 1:
        only = np.empty((1, len(const)))
        only[0] = const
        return only
    weight = arc_weights(arrays, c)
    best = completions(arrays, weight)
    # Emitted paths, one after the other.
    path_ptr = np.zeros(k + 1, np.int64)
    arcs, n_arcs = np.empty(64, np.int64), 0
    room = 256
    keys, heap, size = np.empty(room), np.empty(room, np.int64), 0
    cell_path, cell_place, cell_arc = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    n_cells = 1
    cell_path[0], cell_place[0], cell_arc[0] = -1, 0, _next_arc(ptr, head, label, weight, best, 0, -1)
    push(keys, heap, size, best[0], 0)
    size += 1
    found = 0
    while found < k and size > 0:
        cell = heap[0]
        pop(keys, heap, size)
        size -= 1
        place = cell_place[cell]
        if n_arcs + n + place > len(arcs):
            longer = np.empty(2 * (n_arcs + n + place), np.int64)
            for x in range(n_arcs):
                longer[x] = arcs[x]
            arcs = longer
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
            # The arc e is taken at node v; what else could be taken here?
            other = _next_arc(ptr, head, label, weight, best, v, e)
            if other >= 0:
                if n_cells + 1 >= room:
                    wider = 2 * room
                    new_keys, new_heap = np.empty(wider), np.empty(wider, np.int64)
                    new_path, new_place = np.empty(wider, np.int64), np.empty(wider, np.int64)
                    new_arc = np.empty(wider, np.int64)
                    for x in range(room):
                        new_keys[x], new_heap[x] = keys[x], heap[x]
                        new_path[x], new_place[x], new_arc[x] = cell_path[x], cell_place[x], cell_arc[x]
                    keys, heap, cell_path, cell_place, cell_arc = new_keys, new_heap, new_path, new_place, new_arc
                    room = wider
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
            e = _next_arc(ptr, head, label, weight, best, v, -1)
        path_ptr[found] = first
        found += 1
        path_ptr[found] = n_arcs
    Z = np.empty((found, len(const)))
    for row in range(found):
        z = Z[row]
        for j in range(len(const)):
            z[j] = const[j]
        for x in range(path_ptr[row], path_ptr[row + 1]):
            write_pairs(arrays, arcs[x], z)
    return Z
