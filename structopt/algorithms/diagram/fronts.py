"""Pareto fronts of two linear criteria over a diagram.

If all losses are multiples of one number, a table holds F[v, k]: the best h of a completion of node v whose loss
exceeds the least one by k levels. One pass fills the table for every psi(h, g), and only the path of the maximizer is
decoded. For other losses each node stores its non-dominated pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from structopt._jit import FloatArray, IntArray, assign, choices, floats, kernel
from structopt._jit.choices import (
    CHOSEN,
    FAILED,
    G_CONST,
    H_CONST,
    LEAST,
    MIXES,
    N_NUMBERS,
    N_ROOM,
    QUANTUM,
    SECOND,
    SHARE,
    SLOPE,
    UNIT,
    UPPER,
    VALUE,
    LevelChoice,
    choose,
)
from structopt._jit.lanes import (
    EVERY_LANE,
    LANES,
    everywhere,
    lanes_equal,
    larger,
    load,
    lowest_lane,
    minus,
    plus,
    room,
    smaller,
    store,
    store_whole,
    where,
)
from structopt.algorithms.diagram.diagram import Diagram
from structopt.algorithms.diagram.k_best import longer
from structopt.algorithms.diagram.longest_path import arc_weights, weight_lanes, write_pairs
from structopt.algorithms.fronts import FrontPlan, Fronts, MostViolated, common_unit
from structopt.errors import DeclarationError

__all__ = [
    "DiagramFronts",
    "LossLevels",
    "decode_levels",
    "front_chunk",
    "loss_levels",
    "pareto_front",
    "quanta_of",
]

#: Losses of examples as levels: the loss of each example, the shifts of arcs, the least level of each loss, the first
#: table row of each node, and an exponent. The shift of an arc is the number of levels by which it exceeds the least
#: completion of its tail. Arc e of loss l has entry ``e * LANES + l % LANES`` of row ``l // LANES``. Levels count
#: multiples of 2^exponent, which divides all differences of losses (2 for Hamming losses of one-of-many groups).
LossLevels = tuple[IntArray, IntArray, FloatArray, IntArray, int]

#: Fewest examples for which sixteen lanes, some of them unused, are faster than one example at a time.
_FEW = 5
#: Numbers in the tables of a chunk of examples (1 MB), if sixteen examples need less.
_CHUNK = 1 << 17
#: Most numbers of loss levels that a plan stores (64 MB), and numbers in the tables of a chunk (64 MB).
_KEPT_LEVELS, _MOST_ENTRIES = 1 << 24, 1 << 23

#: Type of array indices; see `structopt.algorithms.diagram.longest_path`.
_U = np.uint64
#: Most levels that shifts can hold: 32-bit integers.
_MOST_LEVELS = 1 << 30


class DiagramFronts(FrontPlan):
    """Tables of the best h by level of the loss, for the examples of a data set."""

    def __init__(self, diagram: Diagram, G: FloatArray, g_const: FloatArray, quanta: FloatArray) -> None:
        self._diagram, self._G, self._g_const, self._quanta = diagram, G, g_const, quanta
        # Examples with equal ground truth have equal losses.
        _, first, loss = np.unique(np.column_stack([G, quanta]), axis=0, return_index=True, return_inverse=True)
        self._loss = loss.astype(np.int64).ravel()
        # One example of each loss comes first, in the order of the stored shifts. The others follow, sorted by loss,
        # because a block of few losses needs copies of the shifts.
        other = np.ones(len(G), dtype=bool)
        other[first] = False
        self._order = np.lexsort((self._loss, other))
        keep = len(first) * diagram.n_arcs <= _KEPT_LEVELS
        levels: LossLevels = loss_levels(diagram.arrays, G[first], quanta[first], keep)
        self._levels = levels if keep else None
        self.kept = len(first) * diagram.n_arcs if keep else 0
        self._loss_in_order = self._loss[self._order]
        self._g_at_const = g_const + G @ diagram.const if diagram.const.any() else g_const
        start = levels[3]
        self.size = int(start[-1])
        self.entries = np.full(len(G), 3 * diagram.n_nodes + start[1])
        # Measured nanoseconds per example of an inference in a batch, and of a front.
        work = float(np.diff(start)[diagram.head].sum())
        alone = len(first) / max(1, len(G))
        fill = 0.3 * diagram.n_arcs + (0.3 + 0.1 * alone) * work
        if len(G) * self.size > _CHUNK:
            fill *= 2.0  # tables are filled again for decoding
        self.cost = (2000.0 + fill + (0.0 if keep else 2.0 * diagram.n_arcs)) / (2000.0 + 0.3 * diagram.n_arcs)

    def forget(self) -> None:
        if self._levels is not None:
            self._levels, self.kept = None, 0
            self.cost += 2.0 * self._diagram.n_arcs / (2000.0 + 0.3 * self._diagram.n_arcs)

    def _chunks(self, H: FloatArray, levels: LossLevels, best: FloatArray, ptr: IntArray) -> Iterator[Any]:
        """Yield tables of as many examples as fit into the cache, and write their fronts to `best`."""
        first = 0
        while first < len(H):
            own = (levels[0][first:], *levels[1:])
            # Full lanes save more time than the cache.
            chunk = front_chunk(
                self._diagram.arrays, H[first:], own, max(_CHUNK, min(_MOST_ENTRIES, 2 * LANES * self.size))
            )
            if not chunk[0]:
                chunk = front_chunk(self._diagram.arrays, H[first : first + 1], own, 2 * self.size)
            last = first + chunk[0]
            _copy_fronts(chunk, ptr[first : last + 1], best)
            yield first, last, chunk
            first = last

    def most_violated(self, H: FloatArray, h_const: FloatArray, choice: LevelChoice) -> MostViolated | None:
        if self._levels is None:
            return None
        const = self._diagram.const
        h, g = h_const + choice.h_offset, self._g_at_const.copy()
        if self._g_at_const is not self._g_const:
            h += H @ const
        H = floats(H, "H", 2)
        found = MostViolated(np.empty(H.shape), h, g, *np.empty((3, len(H))))
        failed = choose_levels(
            self._diagram.arrays, H, self._order, (self._loss_in_order, *self._levels[1:]), self._quanta,
            choice.address, choice.form, choice.mixes, *found,
        )  # fmt: skip
        choice.check()
        if failed:
            raise DeclarationError("The surrogate cannot be computed: it raised inside a compiled search.")
        return found

    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        arrays, const = self._diagram.arrays, self._diagram.const
        G, quanta = self._G[some], self._quanta[some]
        # Examples of equal loss become neighbours.
        order = np.argsort(self._loss[some], kind="stable")
        H = floats(H[order], "H", 2)
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
        g = (np.repeat(least[loss][rank], size) + (within << exponent)) * np.repeat(quanta, size)
        g += np.repeat(G @ const + self._g_const[some], size)

        def decode(chosen: IntArray) -> FloatArray:
            Z, places = np.empty(H.shape), (chosen - ptr[:-1])[order]
            # Filling the tables of several chunks again is faster than storing them.
            alone = kept is not None and kept[0] == 0
            again: Iterable[Any] = [kept] if alone else self._chunks(H, levels, best, own_ptr)
            for first, last, chunk in again:
                own = (loss[first:last], *levels[1:])
                decode_levels(arrays, H[first:last], own, chunk, places[first:last], Z[first:last])
            return np.asarray(Z[rank])

        return Fronts(ptr, h, g, decode)


@kernel
def _copy_fronts(chunk: Any, ptr: Any, best: Any) -> None:
    """Copy the root's rows of the tables to `best`."""
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
    """Return for each row the `common_unit` of the losses of arcs."""
    quanta = np.empty(len(G))
    for i in range(len(G)):
        quanta[i] = quanta[i - 1] if i and _same(G[i], G[i - 1]) else common_unit(arc_weights(arrays, G[i]))
    return quanta


@kernel
def _measure(arrays: Any, level: Any, low: Any, high: Any, span: Any, shifts: Any) -> None:
    """Compute the shifts of arcs for sixteen losses, and extend `span` to the range of each node."""
    ptr, head, label, _, _, _, _ = arrays
    n = len(ptr) - 1
    store(low, (n - 1) * LANES, everywhere(0.0))
    store(high, (n - 1) * LANES, everywhere(0.0))
    for v in range(n - 2, -1, -1):
        low_v, high_v = everywhere(np.inf), everywhere(-np.inf)
        for e in range(ptr[v], ptr[v + 1]):
            own = load(level, label[e] * LANES)
            low_v = smaller(plus(own, load(low, head[e] * LANES)), low_v)
            high_v = larger(plus(own, load(high, head[e] * LANES)), high_v)
        for e in range(ptr[v], ptr[v + 1]):
            own = load(level, label[e] * LANES)
            store_whole(shifts, e * LANES, minus(plus(own, load(low, head[e] * LANES)), low_v))
        store(low, v * LANES, low_v)
        store(high, v * LANES, high_v)
        store(span, v * LANES, larger(minus(high_v, low_v), load(span, v * LANES)))


@kernel
def loss_levels(arrays: Any, G: Any, quanta: Any, keep: bool = True) -> Any:
    """Return the `LossLevels` of examples; without `keep`, the shifts are not stored."""
    n, n_arcs, n_labels = len(arrays[0]) - 1, len(arrays[1]), len(arrays[3]) - 1
    loss, first = np.zeros(len(G), np.int64), np.zeros(len(G), np.int64)
    count = 0
    for i in range(len(G)):
        if i == 0 or quanta[i] != quanta[i - 1] or not _same(G[i], G[i - 1]):
            first[count] = i
            count += 1
        loss[i] = count - 1
    blocks = (count + LANES - 1) // LANES
    kept = blocks if keep else 1
    shifts, least = _shifts(kept, n_arcs), np.empty(count)
    costs, level, low, high, span = room(G.shape[1]), room(n_labels), room(n), room(n), room(n)
    for v in range(n):
        store(span, v * LANES, everywhere(0.0))
    some = np.empty(LANES, np.int64)
    bits = np.int32(0)
    for block in range(blocks):
        for k in range(LANES):
            some[k] = first[min(block * LANES + k, count - 1)]
        weight_lanes(arrays, G, some, costs, level)
        for name in range(n_labels):
            for k in range(LANES):
                level[name * LANES + k] = np.rint(level[name * LANES + k] / quanta[some[k]])
        own = shifts[block if keep else 0]
        _measure(arrays, level, low, high, span, own)
        for x in range(n_arcs * LANES):
            bits |= own[x]
        for k in range(min(LANES, count - block * LANES)):
            least[block * LANES + k] = low[k]
    for k in range(LANES):
        if span[k] >= _MOST_LEVELS:  # the shifts may not fit, and the root's table is too long anyway
            bits = np.int32(1)
    exponent = 0
    while bits and not (bits >> exponent) & 1:
        exponent += 1
    if exponent:
        for block in range(kept):
            for x in range(n_arcs * LANES):
                shifts[block, x] >>= exponent
    start = np.zeros(n + 1, np.int64)
    for v in range(n):
        most = 0.0
        for k in range(LANES):
            most = max(most, span[v * LANES + k])
        start[v + 1] = start[v] + (np.int64(most) >> exponent) + 1
    return loss, shifts, least, start, exponent


@kernel
def _shifts(blocks: int, n_arcs: int) -> Any:
    """Allocate the shifts of `blocks` times sixteen losses."""
    return room((blocks * n_arcs + 1) // 2).view(np.int32)[: blocks * n_arcs * LANES].reshape(blocks, n_arcs * LANES)


@kernel
def _fill(arrays: Any, weight: Any, shifts: Any, own: int, start: Any, table: Any) -> None:
    """Fill the table of one example whose loss is lane `own` of the shifts."""
    ptr, head, label, _, _, _, _ = arrays
    n = len(ptr) - 1
    for x in range(len(table)):
        table[x] = -np.inf
    table[start[n - 1]] = 0.0
    for v in range(n - 2, -1, -1):
        for e in range(ptr[v], ptr[v + 1]):
            source, gain, to = start[head[e]], weight[label[e]], start[v] + shifts[e * LANES + own]
            # A loss has no labels beyond its own levels.
            for x in range(min(start[head[e] + 1] - source, start[v + 1] - to)):
                at = _U(to + x)  # not negative: see `longest_path`
                value = gain + table[_U(source + x)]
                table[at] = value if value > table[at] else table[at]


@kernel
def _fill_lanes(arrays: Any, weight: Any, shifts: Any, start: Any, table: Any) -> None:
    """Fill the tables of sixteen examples, one per lane."""
    ptr, head, label, _, _, _, _ = arrays
    n = len(ptr) - 1
    none = everywhere(-np.inf)
    store(table, start[n - 1] * LANES, everywhere(0.0))
    for v in range(n - 2, -1, -1):
        first, end = start[v], start[v + 1]
        written = first
        for e in range(ptr[v], ptr[v + 1]):
            source, rows = start[head[e]], start[head[e] + 1] - start[head[e]]
            gain = load(weight, label[e] * LANES)
            left, shift = EVERY_LANE, np.int64(0)
            while left:
                here, next_one = lanes_equal(shifts, e * LANES, shift), lanes_equal(shifts, e * LANES, shift + 1)
                if here | next_one:
                    left &= ~(here | next_one)
                    gain_here, gain_next = where(here, gain, none), where(next_one, gain, none)
                    to = first + shift
                    inside = to + min(rows, end - to)
                    while written < to:
                        store(table, written * LANES, none)
                        written += 1
                    before, x, y = none, to * LANES, source * LANES
                    for _ in range(min(inside, written) - to):
                        rest = load(table, y)
                        value = larger(plus(gain_here, rest), plus(gain_next, before))
                        store(table, x, larger(value, load(table, x)))
                        before = rest
                        x += LANES
                        y += LANES
                    for _ in range(inside - written):
                        rest = load(table, y)
                        store(table, x, larger(plus(gain_here, rest), plus(gain_next, before)))
                        before = rest
                        x += LANES
                        y += LANES
                    if inside < written:
                        store(table, x, larger(plus(gain_next, before), load(table, x)))
                    elif inside < end:
                        store(table, x, plus(gain_next, before))
                        written = inside + 1
                    else:
                        written = end
                # Trying small shifts is faster than searching for them.
                if shift < 4:
                    shift += 2
                elif left:
                    shift = np.int64(shifts[e * LANES + lowest_lane(left)])
        while written < end:
            store(table, written * LANES, none)
            written += 1


@kernel
def _shifts_of_lanes(levels: Any, first: int, count: int, copies: Any) -> Any:
    """Return the shifts of examples by lane: the stored ones if they are neighbours, or copies."""
    loss, shifts, _, _, _ = levels
    beside = loss[first] % LANES == 0
    for k in range(count):
        beside = beside and loss[first + k] == loss[first] + k
    if beside:
        return shifts[loss[first] // LANES]
    flat, source = shifts.ravel(), np.empty(LANES, np.int64)
    for k in range(LANES):
        at = loss[first + min(k, count - 1)]
        source[k] = at // LANES * len(copies) + at % LANES
    for e in range(len(copies) // LANES):
        for k in range(LANES):
            copies[e * LANES + k] = flat[_U(source[k] + e * LANES)]
    return copies


@kernel
def _fill_some(
    arrays: Any,
    H: Any,
    order: Any,
    levels: Any,
    first: int,
    count: int,
    scratch: Any,
    known: int,
    wide: bool,
    table: Any,
) -> int:
    """Fill the table of `count` examples from `first` on, and return the loss whose shifts all lanes of the scratch
    hold, or -1.
    """
    loss, shifts, _, start, _ = levels
    costs, weight, copies, some = scratch
    if not wide:
        alone = arc_weights(arrays, H[order[first]])
        for name in range(len(alone)):
            weight[name] = alone[name]
        _fill(arrays, weight, shifts[loss[first] // LANES], loss[first] % LANES, start, table)
        return -1
    for k in range(LANES):
        some[k] = order[first + min(k, count - 1)]
    weight_lanes(arrays, H, some, costs, weight)
    same: Any = True
    for k in range(count):
        same = same and loss[first] == loss[first + k]
    if same and loss[first] == known:
        _fill_lanes(arrays, weight, copies, start, table)
        return known
    _fill_lanes(arrays, weight, _shifts_of_lanes(levels, first, count, copies), start, table)
    # The shifts of a single example may be stored ones that hold its loss in one lane only.
    return loss[first] if same and count > 1 else -1


@kernel
def _scratch(arrays: Any, n_variables: int) -> Any:
    return room(n_variables), room(len(arrays[3]) - 1), _shifts(1, len(arrays[1]))[0], np.empty(LANES, np.int64)


@kernel
def front_chunk(arrays: Any, H: Any, levels: Any, max_entries: int) -> Any:
    """Return tables of as many examples as fit into `max_entries`, and the place and step of each example's table."""
    # Entry x of the table of example i is tables[places[i] + x * steps[i]].
    start = levels[3]
    rows = start[-1]
    count = min(len(H), max_entries // rows)
    # Lanes are used for all examples, for the full blocks, or for none.
    blocks = (count + LANES - 1) // LANES
    if count % LANES and (count % LANES < _FEW or blocks * LANES * rows > max_entries):
        blocks -= 1
    in_lanes = min(count, blocks * LANES)
    places, steps = np.empty(count, np.int64), np.empty(count, np.int64)
    tables = room((blocks * LANES + count - in_lanes) * rows // LANES + 1)
    scratch, order = _scratch(arrays, H.shape[1]), np.arange(count)
    known = -1
    for done in range(0, in_lanes, LANES):
        columns = min(LANES, in_lanes - done)
        table = tables[done * rows : (done + LANES) * rows]
        known = _fill_some(arrays, H, order, levels, done, columns, scratch, known, True, table)
        for k in range(columns):
            places[done + k], steps[done + k] = done * rows + k, LANES
    for done in range(in_lanes, count):
        places[done], steps[done] = (blocks * LANES + done - in_lanes) * rows, 1
        _fill_some(arrays, H, order, levels, done, 1, scratch, -1, False, tables[places[done] : places[done] + rows])
    return count, tables, places, steps


@kernel
def choose_levels(
    arrays: Any,
    H: Any,
    order: Any,
    levels: Any,
    quanta: Any,
    address: int,
    form: Any,
    mixes: bool,
    Z: Any,
    h: Any,
    g: Any,
    value: Any,
    slope: Any,
    upper: Any,
) -> bool:
    """Choose each example's maximizer of psi with the compiled function at an address; return whether one failed."""
    # `h` and `g` hold the criteria at the constants of the diagram. One table, which stays in the cache, serves all.
    loss, _, least, start, exponent = levels
    wide = len(H) >= _FEW and start[-1] * LANES <= _MOST_ENTRIES
    step = LANES if wide else 1
    table = room(start[-1] if wide else start[-1] // LANES + 1)
    scratch = _scratch(arrays, H.shape[1])
    weights = scratch[1]
    # A second label is mixed with the first.
    work, second = np.empty(N_NUMBERS + N_ROOM * start[1]), np.empty(H.shape[1])
    work[MIXES], work[UNIT], work[CHOSEN] = 1.0 if mixes else 0.0, 2.0**exponent, -1.0
    known = -1
    failed = 0.0
    for done in range(0, len(H), step):
        columns = min(step, len(H) - done)
        known = _fill_some(arrays, H, order, levels, done, columns, scratch, known, wide, table[: start[-1] * step])
        for k in range(columns):
            i, own = order[done + k], loss[done + k]
            work[H_CONST], work[G_CONST], work[LEAST] = h[i], g[i], least[own]
            work[QUANTUM] = quanta[i]
            choose(address, form, table, k, step, start[1], work)
            failed = max(failed, work[FAILED])
            h[i], g[i], value[i] = work[choices.H], work[choices.G], work[VALUE]
            slope[i], upper[i] = work[SLOPE], work[UPPER]
            share = work[SHARE]
            for part in range(2 if share > 0.0 else 1):
                z = second if part else Z[i]
                assign(z, arrays[6])
                level: Any = np.int64(work[SECOND if part else CHOSEN])
                if level >= 0:
                    _follow(arrays, weights[k:], step, levels, own, table[k:], level, z)
            if share > 0.0:
                for j in range(len(second)):
                    Z[i, j] += share * (second[j] - Z[i, j])
    return failed > 0.0


@kernel
def _follow(arrays: Any, weight: Any, step: int, levels: Any, loss: int, table: Any, level: int, z: Any) -> None:
    """Write the pairs of the best label of a level; weights and entries of the table are `step` apart."""
    ptr, head, label, _, _, _, _ = arrays
    shifts, own, start = levels[1][loss // LANES], loss % LANES, levels[3]
    v, k = 0, np.int64(level)
    while v < len(ptr) - 2:
        top, at = -np.inf, -1
        rest: Any = np.int64(0)
        for e in range(ptr[v], ptr[v + 1]):
            w = _U(head[e])
            left = k - shifts[_U(e * LANES + own)]
            if left < 0 or left >= start[w + _U(1)] - start[w]:
                continue
            value = weight[_U(label[_U(e)] * step)] + table[_U((start[w] + left) * step)]
            if value > top:
                top, at, rest = value, e, left
        write_pairs(arrays, at, z)
        v, k = head[at], rest


@kernel
def decode_levels(arrays: Any, H: Any, levels: Any, chunk: Any, chosen: Any, Z: Any) -> None:
    """Write the best label of the chosen level for each example of a chunk."""
    ptr, head, label, _, _, _, const = arrays
    all_losses, all_shifts, _, start, _ = levels
    done, tables, places, steps = chunk
    # The loop of `_follow`, since a call for each example takes a tenth of the time.
    for i in range(done):
        weight = arc_weights(arrays, H[i])
        loss, place, step, z = all_losses[i], places[i], steps[i], Z[i]
        shifts, own = all_shifts[loss // LANES], loss % LANES
        assign(z, const)
        v, k = 0, chosen[i]
        while v < len(ptr) - 2:
            top, at = -np.inf, -1
            rest: Any = np.int64(0)
            for e in range(ptr[v], ptr[v + 1]):
                w = _U(head[e])
                left = k - shifts[_U(e * LANES + own)]
                if left < 0 or left >= start[w + _U(1)] - start[w]:
                    continue
                value = weight[_U(label[_U(e)])] + tables[_U(place + (start[w] + left) * step)]
                if value > top:
                    top, at, rest = value, e, left
            write_pairs(arrays, at, z)
            v, k = head[at], rest


@kernel
def pareto_front(arrays: Any, h: Any, g: Any, max_pairs: int) -> Any:
    """Return the non-dominated labels by decreasing h, or no rows if there are more than `max_pairs` pairs."""
    ptr, head, label, _, _, _, const = arrays
    n = len(ptr) - 1
    weight, loss = arc_weights(arrays, h), arc_weights(arrays, g)
    # Pairs of node v are first[v] : first[v] + size[v], by decreasing h and increasing g, with their arcs and next
    # pairs.
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
                # Take the larger h first, and among equal h the larger g, which dominates the other.
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
            value_h, value_g = longer(value_h, room), longer(value_g, room)
            by_arc, by_pair = longer(by_arc, room), longer(by_pair, room)
        first[v], size[v] = count, n_a
        for x in range(n_a):
            value_h[count], value_g[count], by_arc[count], by_pair[count] = a_h[x], a_g[x], a_arc[x], a_pair[x]
            count += 1
    Z = np.empty((size[0], len(const)))
    for row in range(size[0]):
        z = Z[row]
        assign(z, const)
        v, pair = 0, first[0] + row
        while v < n - 1:
            write_pairs(arrays, by_arc[pair], z)
            v = head[by_arc[pair]]
            pair = by_pair[pair]
    return Z
