"""Pareto fronts of two linear criteria over a diagram.

For a loss g with few levels (integral on every arc, or multiples of one number) the table F[v, k] holds the best h of a
completion of node v whose loss is its least one plus k: one pass, whatever psi(h, g) is maximised afterwards, and only
the winner's path is followed. For a real loss each node keeps its non-dominated pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from structopt._jit import FloatArray, IntArray, fast, kernel
from structopt.algorithms.diagram.diagram import Diagram
from structopt.algorithms.diagram.longest_path import arc_weights, weight_columns, write_pairs
from structopt.algorithms.fronts import FrontPlan, Fronts

__all__ = [
    "LEVELS_AT_ONCE",
    "DiagramFronts",
    "LossLevels",
    "decode_levels",
    "front_chunk",
    "loss_levels",
    "maximize_levels",
    "pareto_front",
    "quanta_of",
]

#: Losses of examples as levels: each example's loss; of every loss the levels of the arcs' labels and the least level
#: of each node; where the nodes' parts of a table start, which have room for any of the losses; and a power of two, as
#: its exponent, of which all differences of levels are multiples (2 for Hamming over one-of-many groups): tables have
#: rows for these alone.
LossLevels = tuple[IntArray, IntArray, IntArray, IntArray, int]

#: Examples that go through the diagram side by side, at most.
_COLUMNS = 32
#: Instead of the h of no label: a surrogate need not take -inf.
_LOWEST = -1e300
#: Numbers in the tables of a chunk of examples (1 MB).
_CHUNK = 1 << 17
#: Numbers of loss levels that a plan keeps (64 MB), and those of a batch that is solved once (8 MB).
_KEPT_LEVELS, LEVELS_AT_ONCE = 1 << 23, 1 << 20


class DiagramFronts(FrontPlan):
    """Tables of the best h by levels of the loss, for the examples of a data set.

    Parameters
    ----------
    diagram : Diagram
    G, g_const : ndarray
        Losses of the examples.
    quanta : ndarray, shape (n,)
        The number of which each example's losses are multiples (`quanta_of`).
    """

    def __init__(self, diagram: Diagram, G: FloatArray, g_const: FloatArray, quanta: FloatArray) -> None:
        self._diagram, self._G, self._g_const, self._quanta = diagram, G, g_const, quanta
        # Examples of the same ground truth have the same loss.
        _, first, loss = np.unique(np.column_stack([G, quanta]), axis=0, return_index=True, return_inverse=True)
        self._loss = loss.astype(np.int64).ravel()
        keep = len(first) * (diagram.n_nodes + diagram.n_labels) <= _KEPT_LEVELS
        levels: LossLevels = loss_levels(diagram.arrays, G[first], quanta[first], keep)
        self._levels = levels if keep else None
        start = levels[3]
        self.size = int(start[-1])
        self.entries = np.full(len(G), 3 * diagram.n_nodes + start[1])
        # Measured: nanoseconds of an inference in a batch, and of a front, for an example.
        work = float(np.diff(start)[diagram.head].sum())
        alone = len(first) / max(1, len(G))
        fill = diagram.n_arcs + (0.6 + 0.5 * alone) * work
        if len(G) * self.size > _CHUNK:
            fill *= 2.0  # tables are made again for decoding
        self.cost = (2000.0 + fill + (0.0 if keep else 4.0 * diagram.n_arcs)) / (2000.0 + 0.5 * diagram.n_arcs)

    def _chunks(self, H: FloatArray, levels: LossLevels, best: FloatArray, ptr: IntArray) -> Iterator[Any]:
        """Tables of examples, as many at a time as stay in the cache; their fronts are written to `best`."""
        first = 0
        while first < len(H):
            own = (levels[0][first:], *levels[1:])
            # Columns are worth more than the cache.
            chunk = front_chunk(self._diagram.arrays, H[first:], own, max(_CHUNK, min(_KEPT_LEVELS, 32 * self.size)))
            if not chunk[0]:
                chunk = front_chunk(self._diagram.arrays, H[first : first + 1], own, 2 * self.size)
            last = first + chunk[0]
            _copy_fronts(chunk, ptr[first : last + 1], best)
            yield first, last, chunk
            first = last

    def best_products(self, H: FloatArray, h_const: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        if self._levels is None:
            return None
        order = np.argsort(self._loss, kind="stable")
        levels = (self._loss[order], *self._levels[1:])
        H = np.ascontiguousarray(H[order])
        const = self._diagram.const
        Z, h, g = np.empty(H.shape), h_const[order] + H @ const, self._g_const[order] + self._G[order] @ const
        largest_products(self._diagram.arrays, H, levels, self._quanta[order], Z, h, g)
        found = np.empty(H.shape), np.empty(len(H)), np.empty(len(H))
        for sorted_points, points in zip((Z, h, g), found, strict=True):
            points[order] = sorted_points
        return found

    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        arrays, const = self._diagram.arrays, self._diagram.const
        G, quanta = self._G[some], self._quanta[some]
        # Examples of one loss as neighbours.
        order = np.argsort(self._loss[some], kind="stable")
        H = np.ascontiguousarray(H[order])
        if not H.flags.writeable:  # another type for numba
            H = H.copy()
        if self._levels is None:
            levels = loss_levels(arrays, G[order], quanta[order])
        else:
            levels = (self._loss[some][order], *self._levels[1:])
        loss, _, least, start, exponent = levels
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        size = np.full(len(some), start[1])
        own_ptr = np.concatenate([[0], np.cumsum(size)])
        best = np.empty(own_ptr[-1])
        kept = None
        for chunk in self._chunks(H, levels, best, own_ptr):
            kept = chunk
        ptr = own_ptr
        within = np.arange(ptr[-1]) - np.repeat(ptr[:-1], size)
        h = best[np.repeat(own_ptr[:-1][rank], size) + within] + np.repeat((H @ const)[rank] + h_const, size)
        g = (np.repeat(least[loss, 0][rank], size) + (within << exponent)) * np.repeat(quanta, size)
        g += np.repeat(G @ const + self._g_const[some], size)

        def decode(chosen: IntArray) -> FloatArray:
            Z, places = np.empty(H.shape), (chosen - ptr[:-1])[order]
            # Tables of several chunks are faster made again in the cache than kept in memory.
            alone = kept is not None and kept[0] == 0
            again: Iterable[Any] = [kept] if alone else self._chunks(H, levels, best, own_ptr)
            for first, last, chunk in again:
                own = (loss[first:last], *levels[1:])
                decode_levels(arrays, H[first:last], own, chunk, places[first:last], Z[first:last])
            return np.asarray(Z[rank])

        return Fronts(ptr, h, g, decode)


def maximize_levels(
    diagram: Diagram,
    psi: Callable[[FloatArray, FloatArray], FloatArray],
    H: FloatArray,
    h_const: FloatArray,
    G: FloatArray,
    g_const: FloatArray,
    quanta: FloatArray,
    levels: LossLevels,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The label of the largest ``psi(h, g)`` of each example, its h and its g, by tables of losses that have levels.

    Tables are dropped once their winners are decoded: a chunk of them stays in the cache.
    """
    arrays, const = diagram.arrays, diagram.const
    loss, level, least, start, exponent = levels
    steps_up = np.arange(start[1])
    Z, h_best, g_best = np.empty(H.shape), np.empty(len(H)), np.empty(len(H))
    h_base = h_const + H @ const if const.any() else h_const
    g_base = g_const + G @ const if const.any() else g_const
    # At least sixteen examples side by side: columns are worth more than the cache.
    room = max(_CHUNK, 16 * int(start[-1] + start[1]))
    done = 0
    while done < len(H):
        own = (loss[done:], level, least, start, exponent)
        chunk = front_chunk(arrays, H[done:], own, room)
        count, tables, places, steps = chunk
        here = slice(done, done + count)
        h = tables[places[:, None] + steps_up * steps[:, None]]
        h += h_base[here, None]
        g = (least[own[0][:count], :1] + (steps_up << exponent)) * quanta[here, None] + g_base[here, None]
        values = np.where(h > -np.inf, psi(np.maximum(h, _LOWEST), g), -np.inf)
        chosen = values.argmax(axis=1)
        decode_levels(arrays, H[here], own, chunk, chosen, Z[here])
        winners = np.arange(count)
        h_best[here], g_best[here] = h[winners, chosen], g[winners, chosen]
        done += count
    return Z, h_best, g_best


@kernel
def _copy_fronts(chunk: Any, ptr: Any, best: Any) -> None:
    """The tables' parts of the root."""
    done, tables, places, steps = chunk
    for i in range(done):
        for x in range(ptr[i + 1] - ptr[i]):
            best[ptr[i] + x] = tables[places[i] + x * steps[i]]


@kernel
def _same(a: Any, b: Any) -> bool:
    same = True
    for j in range(len(a)):
        same = same and a[j] == b[j]
    return same


@kernel
def quanta_of(arrays: Any, G: Any) -> Any:
    """For every row the number of which the losses of all arcs are multiples: 1, the least of them, or 0 for none."""
    quanta = np.empty(len(G))
    for i in range(len(G)):
        quanta[i] = quanta[i - 1] if i and _same(G[i], G[i - 1]) else _quantum(arc_weights(arrays, G[i]))
    return quanta


@kernel
def _quantum(weight: Any) -> float:
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
def _ranges(arrays: Any, level: Any, low: Any, high: Any) -> int:
    """The least and largest level of each node's completions, a column for each loss; the bits in which they differ."""
    ptr, head, label, _, _, _, _ = arrays
    n, columns = low.shape
    for k in range(columns):
        low[n - 1, k] = high[n - 1, k] = 0
    for v in range(n - 2, -1, -1):
        low_v, high_v = low[v], high[v]
        for k in range(columns):
            low_v[k], high_v[k] = np.int64(1) << 60, -(np.int64(1) << 60)
        for e in range(ptr[v], ptr[v + 1]):
            own, low_w, high_w = level[label[e]], low[head[e]], high[head[e]]
            for k in range(columns):
                low_v[k] = min(low_v[k], own[k] + low_w[k])
            for k in range(columns):
                high_v[k] = max(high_v[k], own[k] + high_w[k])
    bits: Any = np.int64(0)
    for v in range(n - 2, -1, -1):
        low_v = low[v]
        for e in range(ptr[v], ptr[v + 1]):
            own, low_w = level[label[e]], low[head[e]]
            for k in range(columns):
                bits |= own[k] + low_w[k] - low_v[k]
    return bits  # type: ignore[no-any-return]


@kernel
def loss_levels(arrays: Any, G: Any, quanta: Any, keep: bool = True) -> Any:
    """`LossLevels` of examples; neighbours with equal rows share them. Without `keep` only the parts of a table."""
    n, n_labels = len(arrays[0]) - 1, len(arrays[3]) - 1
    loss, first = np.zeros(len(G), np.int64), np.zeros(len(G), np.int64)
    count = 0
    for i in range(len(G)):
        if i == 0 or quanta[i] != quanta[i - 1] or not _same(G[i], G[i - 1]):
            first[count] = i
            count += 1
        loss[i] = count - 1
    kept = count if keep else 0
    level, least = np.empty((kept, n_labels), np.int64), np.empty((kept, n), np.int64)
    size, start = np.zeros(n, np.int64), np.zeros(n + 1, np.int64)
    bits = np.int64(0)
    for done in range(0, count, _COLUMNS):
        some = first[done : min(count, done + _COLUMNS)]
        columns = len(some)
        weight = weight_columns(arrays, G[some])
        own = np.empty((n_labels, columns), np.int64)
        low, high = np.empty((n, columns), np.int64), np.empty((n, columns), np.int64)
        for name in range(n_labels):
            for k in range(columns):
                own[name, k] = np.int64(np.rint(weight[name, k] / quanta[some[k]]))
        bits |= _ranges(arrays, own, low, high)
        for v in range(n):
            for k in range(columns):
                size[v] = max(size[v], high[v, k] - low[v, k] + 1)
        if keep:
            for k in range(columns):
                for v in range(n):
                    least[done + k, v] = low[v, k]
                for name in range(n_labels):
                    level[done + k, name] = own[name, k]
    exponent = 0
    while bits and not (bits >> exponent) & 1:
        exponent += 1
    for v in range(n):
        start[v + 1] = start[v] + ((size[v] - 1) >> exponent) + 1
    return loss, level, least, start, exponent


# No NaN occurs, and no sum is reordered: without that promise the inner loop is not vectorised.
@fast("nnan", "nsz")
def _fill(
    ptr: Any, head: Any, label: Any, weight: Any, level: Any, least: Any, start: Any, exponent: int, table: Any
) -> None:
    """Tables of examples of one loss, a column each."""
    # Not a constant: a loop of few known steps is unrolled, and then not vectorised.
    columns = table.shape[1]
    n = len(ptr) - 1
    _clear(start, table)
    for v in range(n - 2, -1, -1):
        for e in range(ptr[v], ptr[v + 1]):
            w = head[e]
            gain = weight[label[e]]
            to = start[v] + ((level[label[e]] + least[w] - least[v]) >> exponent)
            for x in range(min(start[w + 1] - start[w], start[v + 1] - to)):
                mine, rest = table[to + x], table[start[w] + x]
                for k in range(columns):
                    mine[k] = max(mine[k], gain[k] + rest[k])


@fast("nnan", "nsz")
def _fill_each(
    ptr: Any, head: Any, label: Any, weight: Any, level: Any, least: Any, start: Any, exponent: int, table: Any
) -> None:
    """Tables of examples of different losses, a column each: the same steps, to other rows."""
    columns = table.shape[1]
    n = len(ptr) - 1
    _clear(start, table)
    flat = table.ravel()
    to = np.empty(columns, np.int64)
    for v in range(n - 2, -1, -1):
        low = least[v]
        for e in range(ptr[v], ptr[v + 1]):
            w = head[e]
            gain, own, rest_low = weight[label[e]], level[label[e]], least[w]
            for k in range(columns):
                to[k] = (start[v] + ((own[k] + rest_low[k] - low[k]) >> exponent)) * columns + k
            for x in range(start[w + 1] - start[w]):
                rest = table[start[w] + x]
                for k in range(columns):
                    # Beyond a loss's own levels there are no labels: what lands on the next node's part is -inf.
                    at = np.uint64(to[k] + x * columns)  # not negative: see `longest_path`
                    flat[at] = max(flat[at], gain[k] + rest[k])


@kernel
def _clear(start: Any, table: Any) -> None:
    """No label anywhere, except the empty one of the terminal."""
    n = len(start) - 1
    for x in range(len(table)):
        row = table[x]
        for k in range(len(row)):
            row[k] = -np.inf
    row = table[start[n - 1]]
    for k in range(len(row)):
        row[k] = 0.0


@kernel
def front_chunk(arrays: Any, H: Any, levels: Any, max_entries: int) -> Any:
    """Tables of as many examples as fit into `max_entries`, at least one if it fits alone.

    Returns
    -------
    done : int
        Number of examples in the chunk; 0 if the first one does not fit.
    tables : float array
    places, steps : int64 arrays, shape (done,)
        Entry x of the table of example i is ``tables[places[i] + x * steps[i]]``: neighbours of one loss are side by
        side.
    """
    start = levels[3]
    # An arc into a node with more room than its own levels need may reach beyond the last part of the table.
    rows = start[-1] + start[1]
    count = min(len(H), max_entries // rows)
    places, steps = np.empty(count, np.int64), np.empty(count, np.int64)
    tables = np.empty(count * rows)
    most = max(8, min(_COLUMNS, _CHUNK // rows))
    for done in range(0, count, most):
        columns = min(most, count - done)
        table = tables[done * rows : (done + columns) * rows].reshape(rows, columns)
        _fill_columns(arrays, weight_columns(arrays, H[done : done + columns]), levels, done, table)
        for k in range(columns):
            places[done + k], steps[done + k] = done * rows + k, columns
    return count, tables, places, steps


@kernel
def _fill_columns(arrays: Any, weights: Any, levels: Any, first: int, table: Any) -> None:
    """The table of some examples from the `first` one on, of which `weights` has a column each."""
    ptr, head, label, _, _, _, _ = arrays
    loss, level, least, start, exponent = levels
    n, (n_labels, columns) = len(ptr) - 1, weights.shape
    same = True
    for k in range(columns):
        same = same and loss[first + k] == loss[first]
    if same:
        _fill(ptr, head, label, weights, level[loss[first]], least[loss[first]], start, exponent, table)
        return
    low, own = np.empty((n, columns), np.int64), np.empty((n_labels, columns), np.int64)
    for k in range(columns):
        at = loss[first + k]
        for v in range(n):
            low[v, k] = least[at, v]
        for name in range(n_labels):
            own[name, k] = level[at, name]
    _fill_each(ptr, head, label, weights, own, low, start, exponent, table)


@kernel
def largest_products(arrays: Any, H: Any, levels: Any, quanta: Any, Z: Any, h: Any, g: Any) -> None:
    """The label of largest ``(1 + h) g`` of each example; zeros for h and g where none is positive.

    `h` and `g` hold what the criteria are at the constants of the diagram. All examples go through one table, which
    stays in the cache: columns side by side, filled, searched for the best level, and decoded.
    """
    loss, _, least, start, exponent = levels
    rows = start[-1] + start[1]
    most = max(8, min(_COLUMNS, _CHUNK // rows))
    room = np.empty(rows * most)
    for done in range(0, len(H), most):
        columns = min(most, len(H) - done)
        table = room[: rows * columns].reshape(rows, columns)
        weights = weight_columns(arrays, H[done : done + columns])
        _fill_columns(arrays, weights, levels, done, table)
        for k in range(columns):
            i = done + k
            best: Any = 0.0
            at: Any = np.int64(-1)
            for x in range(start[1]):
                if table[x, k] > -np.inf:
                    value = (1.0 + h[i] + table[x, k]) * (g[i] + (least[loss[i], 0] + (x << exponent)) * quanta[i])
                    if value > best:
                        best, at = value, np.int64(x)
            if at < 0:
                h[i] = g[i] = 0.0
                Z[i] = arrays[6]
                continue
            h[i] += table[at, k]
            g[i] += (least[loss[i], 0] + (at << exponent)) * quanta[i]
            _decode(arrays, weights[:, k], levels, loss[i], table[:, k], at, Z[i])


@kernel
def decode_levels(arrays: Any, H: Any, levels: Any, chunk: Any, chosen: Any, Z: Any) -> None:
    """The best label of a chosen level above the least loss, for each example of a chunk."""
    loss = levels[0]
    done, tables, places, steps = chunk
    for i in range(done):
        table = tables[places[i] :: steps[i]]
        _decode(arrays, arc_weights(arrays, H[i]), levels, loss[i], table, chosen[i], Z[i])


@kernel
def _decode(arrays: Any, weight: Any, levels: Any, loss: int, table: Any, chosen: int, z: Any) -> None:
    """The best label of a level, by one column of a table."""
    ptr, head, label, _, _, _, const = arrays
    n = len(ptr) - 1
    _, level, least, start, exponent = levels
    for j in range(len(const)):
        z[j] = const[j]
    v, k = 0, chosen
    while v < n - 1:
        top, at = -np.inf, -1
        rest: Any = np.int64(0)
        for e in range(ptr[v], ptr[v + 1]):
            w = head[e]
            left = k - ((level[loss, label[e]] + least[loss, w] - least[loss, v]) >> exponent)
            if left < 0 or left >= start[w + 1] - start[w]:
                continue
            value = weight[label[e]] + table[start[w] + left]
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
