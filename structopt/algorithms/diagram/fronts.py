"""Pareto fronts of two linear criteria over a diagram.

For a loss g with few levels (integral on every arc, or multiples of one number) the table F[v, k] holds the best h of a
completion of node v whose loss is its least one plus k: one pass, whatever psi(h, g) is maximised afterwards, and only
the winner's path is followed. For a real loss each node keeps its non-dominated pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import FloatArray, IntArray, fast, kernel
from structopt.algorithms.diagram.diagram import Diagram
from structopt.algorithms.diagram.longest_path import arc_weights, write_pairs
from structopt.algorithms.fronts import FrontPlan, Fronts

__all__ = ["DiagramFronts", "decode_levels", "front_chunk", "pareto_front", "quantum_of"]


class DiagramFronts(FrontPlan):
    """Tables of the best h by levels of the loss, for the examples of a data set.

    Parameters
    ----------
    diagram : Diagram
    G, g_const : ndarray
        Losses of the examples.
    quanta : ndarray, shape (n,)
        The number of which each example's losses are multiples (`quantum_of`).
    """

    def __init__(self, diagram: Diagram, G: FloatArray, g_const: FloatArray, quanta: FloatArray) -> None:
        self._diagram, self._G, self._g_const, self._quanta = diagram, G, g_const, quanta
        sizes, work = np.empty(len(G), dtype=np.int64), np.empty(len(G), dtype=np.int64)
        _table_sizes(diagram.arrays, G, quanta, sizes, work)
        self.sizes = sizes
        self.entries = sizes + 2 * diagram.n_nodes
        # Measured: nanoseconds of an inference in a batch, and of a front, for an example.
        inference = 2000.0 + 0.5 * diagram.n_arcs
        front = 2000.0 + 7.0 * diagram.n_arcs + 1.5 * (float(work.mean()) if len(G) else 0.0)
        self.cost = front / inference

    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        arrays, const = self._diagram.arrays, self._diagram.const
        H, G, quanta = np.ascontiguousarray(H), self._G[some], self._quanta[some]
        if not H.flags.writeable:  # another type for numba
            H = H.copy()
        chunk = front_chunk(arrays, H, G, quanta, int(self.sizes[some].sum()))
        _, tables, table_ptr, least, start = chunk
        levels = start[:, 1] if len(some) else np.empty(0, dtype=np.int64)
        ptr = np.concatenate([[0], np.cumsum(levels)])
        within = np.arange(ptr[-1]) - np.repeat(ptr[:-1], levels)
        h = tables[np.repeat(table_ptr[:-1], levels) + within] + np.repeat(H @ const + h_const, levels)
        losses = (np.repeat(least[:, 0], levels) + within) * np.repeat(quanta, levels)
        g = losses + np.repeat(G @ const + self._g_const[some], levels)

        def decode(places: IntArray) -> FloatArray:
            Z = np.empty(H.shape)
            decode_levels(arrays, H, G, quanta, chunk, places - ptr[:-1], Z)
            return Z

        return Fronts(ptr, h, g, decode)


@kernel
def _table_sizes(arrays: Any, G: Any, quanta: Any, sizes: Any, work: Any) -> None:
    """Entries of each example's table, and steps to fill it."""
    ptr, head = arrays[0], arrays[1]
    n = len(ptr) - 1
    least, start = np.empty(n, np.int64), np.empty(n + 1, np.int64)
    for i in range(len(G)):
        _levels(arrays, G[i], quanta[i], least, start)
        sizes[i] = start[n]
        work[i] = 0
        for e in range(len(head)):
            work[i] += start[head[e] + 1] - start[head[e]]


@kernel
def quantum_of(arrays: Any, g: Any) -> float:
    """The number of which the losses of all arcs are multiples: 1, the least of them, or 0 if there is none."""
    weight = arc_weights(arrays, g)
    whole, least = True, np.inf
    for k in range(len(weight)):
        # Levels beyond 1e6 make a table that is too long anyway, and still larger ones are no 64-bit integers.
        if weight[k] != np.rint(weight[k]) or abs(weight[k]) > 1e6:
            whole = False
        if weight[k] != 0.0 and abs(weight[k]) < least:
            least = abs(weight[k])
    if whole:
        return 1.0
    for k in range(len(weight)):
        level = weight[k] / least
        if abs(level - np.rint(level)) > 1e-9 or abs(level) > 1e6:
            return 0.0
    return least


@kernel
def _levels(arrays: Any, g: Any, quantum: float, least: Any, start: Any) -> Any:
    """Levels of the arcs' losses; writes each node's least level, and where its part of the table starts."""
    ptr, head, label, _, _, _, _ = arrays
    n = len(ptr) - 1
    weight = arc_weights(arrays, g)
    level = np.empty(len(weight), np.int64)
    for k in range(len(weight)):
        level[k] = np.int64(np.rint(weight[k] / quantum))
    most = np.zeros(n, np.int64)
    least[n - 1] = 0
    for v in range(n - 2, -1, -1):
        low, high = np.int64(1) << 60, -(np.int64(1) << 60)
        for e in range(ptr[v], ptr[v + 1]):
            low = min(low, level[label[e]] + least[head[e]])
            high = max(high, level[label[e]] + most[head[e]])
        least[v], most[v] = low, high
    start[0] = 0
    for v in range(n):
        start[v + 1] = start[v] + most[v] - least[v] + 1
    return level


# No NaN occurs, and no sum is reordered: without that promise the inner loop is not vectorised.
@fast("nnan", "nsz")
def _fill(ptr: Any, head: Any, label: Any, weight: Any, level: Any, least: Any, start: Any, table: Any) -> None:
    n = len(ptr) - 1
    for x in range(start[n]):
        table[x] = -np.inf
    table[start[n - 1]] = 0.0
    for v in range(n - 2, -1, -1):
        for e in range(ptr[v], ptr[v + 1]):
            w = head[e]
            gain = weight[label[e]]
            to = start[v] + level[label[e]] + least[w] - least[v]
            size = start[w + 1] - start[w]
            mine, rest = table[to : to + size], table[start[w] : start[w] + size]
            for k in range(size):
                mine[k] = max(mine[k], gain + rest[k])


@kernel
def front_chunk(arrays: Any, H: Any, G: Any, quanta: Any, max_entries: int) -> Any:
    """Tables of as many examples as fit into `max_entries`, at least one if it fits alone.

    Returns
    -------
    done : int
        Number of examples in the chunk; 0 if the first one does not fit.
    tables : float array
        One after the other.
    table_ptr : int64 array, shape (done + 1,)
    least, start : int64 arrays, shapes (done, n_nodes) and (done, n_nodes + 1)
    """
    ptr, head, label, _, _, _, _ = arrays
    n = len(ptr) - 1
    most = len(H)
    least, start = np.empty((most, n), np.int64), np.empty((most, n + 1), np.int64)
    table_ptr = np.zeros(most + 1, np.int64)
    tables = np.empty(min(max_entries, 1 << 14))
    done = 0
    for i in range(most):
        level = _levels(arrays, G[i], quanta[i], least[i], start[i])
        end = table_ptr[i] + start[i, n]
        if end > max_entries:
            break
        if end > len(tables):
            wider = np.empty(min(max(2 * len(tables), end), max(max_entries, end)))
            for x in range(table_ptr[i]):
                wider[x] = tables[x]
            tables = wider
        table_ptr[i + 1] = end
        weight = arc_weights(arrays, H[i])
        _fill(ptr, head, label, weight, level, least[i], start[i], tables[table_ptr[i] : end])
        done += 1
    return done, tables, table_ptr[: done + 1], least[:done], start[:done]


@kernel
def decode_levels(arrays: Any, H: Any, G: Any, quanta: Any, chunk: Any, chosen: Any, Z: Any) -> None:
    """The best label of a chosen level above the least loss, for each example of a chunk."""
    ptr, head, label, _, _, _, const = arrays
    n = len(ptr) - 1
    done, tables, table_ptr, least, start = chunk
    for i in range(done):
        weight, loss = arc_weights(arrays, H[i]), arc_weights(arrays, G[i])
        table = tables[table_ptr[i] : table_ptr[i + 1]]
        z = Z[i]
        for j in range(len(const)):
            z[j] = const[j]
        v, k = 0, chosen[i]
        while v < n - 1:
            top, at, rest = -np.inf, -1, np.int64(0)
            for e in range(ptr[v], ptr[v + 1]):
                w = head[e]
                level = np.int64(np.rint(loss[label[e]] / quanta[i]))
                left = k - (level + least[i, w] - least[i, v])
                if left < 0 or left >= start[i, w + 1] - start[i, w]:
                    continue
                value = weight[label[e]] + table[start[i, w] + left]
                if value > top:
                    top, at, rest = value, e, left
            write_pairs(arrays, at, z)
            v, k = head[at], rest


@kernel
def pareto_front(arrays: Any, h: Any, g: Any, max_pairs: int) -> Any:
    """Labels whose points (h, g) no other dominates, by falling h; no rows if more than `max_pairs` pairs turn up."""
    ptr, head, label, _, _, _, const = arrays
    n = len(ptr) - 1
    weight, loss = arc_weights(arrays, h), arc_weights(arrays, g)
    # Pairs of node v: first[v] : first[v] + size[v], by falling h and rising g, with the arc and the pair behind it.
    first, size = np.zeros(n, np.int64), np.zeros(n, np.int64)
    room = 1024
    value_h, value_g = np.empty(room), np.empty(room)
    by_arc, by_pair = np.empty(room, np.int64), np.empty(room, np.int64)
    value_h[0] = value_g[0] = 0.0
    size[n - 1] = 1
    count = 1
    a_h, a_g, b_h, b_g = np.empty(room), np.empty(room), np.empty(room), np.empty(room)
    a_arc, a_pair, b_arc, b_pair = (
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64),
    )  # fmt: skip
    for v in range(n - 2, -1, -1):
        most = 0
        for e in range(ptr[v], ptr[v + 1]):
            most += size[head[e]]
        if most > len(a_h):
            a_h, a_g, b_h, b_g = np.empty(2 * most), np.empty(2 * most), np.empty(2 * most), np.empty(2 * most)
            a_arc, a_pair = np.empty(2 * most, np.int64), np.empty(2 * most, np.int64)
            b_arc, b_pair = np.empty(2 * most, np.int64), np.empty(2 * most, np.int64)
        n_a = 0
        for e in range(ptr[v], ptr[v + 1]):
            w = head[e]
            gain_h, gain_g = weight[label[e]], loss[label[e]]
            x = y = n_b = 0
            last = -np.inf
            while x < n_a or y < size[w]:
                # The larger h next; of equal h the larger g, which leaves the other behind.
                take_a = y >= size[w]
                if not take_a and x < n_a:
                    other_h, other_g = gain_h + value_h[first[w] + y], gain_g + value_g[first[w] + y]
                    take_a = a_h[x] > other_h or (a_h[x] == other_h and a_g[x] >= other_g)
                if take_a:
                    new_h, new_g, arc, pair = a_h[x], a_g[x], a_arc[x], a_pair[x]
                    x += 1
                else:
                    pair = first[w] + y
                    new_h, new_g, arc = gain_h + value_h[pair], gain_g + value_g[pair], np.int64(e)
                    y += 1
                if new_g > last:
                    b_h[n_b], b_g[n_b], b_arc[n_b], b_pair[n_b] = new_h, new_g, arc, pair
                    last = new_g
                    n_b += 1
            a_h, b_h, a_g, b_g, a_arc, b_arc, a_pair, b_pair = b_h, a_h, b_g, a_g, b_arc, a_arc, b_pair, a_pair
            n_a = n_b
        if count + n_a > max_pairs:
            return np.empty((0, len(const)))
        if count + n_a > room:
            room = 2 * (count + n_a)
            wide_h, wide_g = np.empty(room), np.empty(room)
            wide_arc, wide_pair = np.empty(room, np.int64), np.empty(room, np.int64)
            for x in range(count):
                wide_h[x], wide_g[x], wide_arc[x], wide_pair[x] = value_h[x], value_g[x], by_arc[x], by_pair[x]
            value_h, value_g, by_arc, by_pair = wide_h, wide_g, wide_arc, wide_pair
        first[v], size[v] = count, n_a
        for x in range(n_a):
            value_h[count], value_g[count], by_arc[count], by_pair[count] = a_h[x], a_g[x], a_arc[x], a_pair[x]
            count += 1
    Z = np.empty((size[0], len(const)))
    for row in range(size[0]):
        z = Z[row]
        for j in range(len(const)):
            z[j] = const[j]
        v, pair = 0, first[0] + row
        while v < n - 1:
            write_pairs(arrays, by_arc[pair], z)
            v = head[by_arc[pair]]
            pair = by_pair[pair]
    return Z
