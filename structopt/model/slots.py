"""Labels of a data set as whole numbers, one per slot: a class, a state per position, a head per token.

`Slots` is the encoder. A model that derives from `SlotModel` supplies the arrays that say where the parts of slots are,
and how a label in the user's form becomes numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, in_place, inlined, kernel
from structopt.losses import TaskLoss
from structopt.model.codec import BatchCodec, StackedLabels, csr_table, spread_rows, taken_labels
from structopt.model.data_set import DataSet
from structopt.model.loss_batch import Counts, Entries, LossBatch, counts_of, ranges
from structopt.model.model import Model
from structopt.space.compiled import FloatArray

__all__ = ["CHOICE", "EACH", "FIRST", "MEAN", "SPAN", "STEP", "SlotMap", "SlotModel", "Slots"]

#: Which part of a feature term a slot stands for.
#:
#: - `CHOICE`: see `SlotMap`.
#: - `SPAN`: the state of the latest number. `MEAN`: the same, divided by the number of positions of its segment.
#: - Tied weights, with a row per example. `STEP`: the states of the number before and of the slot's own. `FIRST`: the
#:   state of the first slot. `EACH`: the number itself.
CHOICE, SPAN, MEAN, STEP, FIRST, EACH = range(6)


#: Arrays of a `SlotMap` for kernels: ptr, base, stride, width, states, shares.
Arrays = tuple[IntArray, IntArray, IntArray, int, int, FloatArray]


class SlotMap(NamedTuple):
    """Where the slots of examples are, and which parts they stand for.

    Attributes
    ----------
    ptr : ndarray of int, shape (n + 1,)
        The slots of example i are ``ptr[i]:ptr[i + 1]``.
    base, stride : ndarray of int
        Slot s with the number ``k = a * width + b`` stands for part ``base[s] + a * stride[s] + b`` of the first term.
    width : int
        Columns of the table of the first term.
    sizes : sequence
        Facts about each example for `SlotModel._slots_of`.
    kinds : tuple of int
        `CHOICE`, `SPAN`, ... for each feature term.
    states : int
        The state of number k is ``k % states``; a segment has ``k // states + 1`` positions.
    shares : ndarray, optional
        The value of the part of each slot in the first term; 1 by default.
    """

    ptr: IntArray
    base: IntArray
    stride: IntArray
    width: int
    sizes: Sequence[Any]
    kinds: tuple[int, ...] = (CHOICE,)
    states: int = 1
    shares: FloatArray = np.empty(0)


class SlotModel(Model, ABC):
    """A model whose labels are whole numbers, one per slot, for its own algorithms; -1 stands for none."""

    #: Whether a label is one class out of K, and its losses are ``(n, K)``, by class.
    _one_of_many = False

    @abstractmethod
    def _slot_map(self, data: DataSet) -> SlotMap:
        """Return the slots of a data set and their parts."""

    @abstractmethod
    def _slots_of(self, label: Any, size: Any) -> IntArray:
        """Return the numbers of one label of an example of this size, checked."""

    @abstractmethod
    def _slots_at(self, Z: Iterable[Any], sizes: Sequence[Any]) -> IntArray:
        """Return the numbers of points, one per example."""

    def _all_slots(self, Y: Any, ptr: IntArray, sizes: Sequence[Any]) -> IntArray | None:
        """Return the numbers of all labels, checked together; None if they must be read one by one."""
        return None

    def _labels_of_slots(self, slots: IntArray, ptr: IntArray) -> list[Any]:
        """Return labels in the user's form; None for examples without a label, if the numbers show it."""
        return np.split(slots, ptr[1:-1])

    def _task_of(self, size: Any) -> TaskLoss:
        """Return the task loss, on 0/1 parts, of examples of this size."""
        raise NotImplementedError

    def _slot_losses(self, codec: Slots, truth: IntArray, given: Any) -> LossBatch:
        """Return the losses of ground truths; by default flat ones, a coefficient per part.

        `given` are the labels in the user's form if `_loss_needs_labels`.
        """
        start, sizes, ones, groups = codec.start, codec.map.sizes, codec.parts(truth), codec.data.same_space
        ones = ones[ones >= 0]
        if len(groups) == 1:
            known = self._task_of(sizes[0])._linear_ones(ones, codec.n, int(start[-1]) // codec.n)
            if known is not None:
                return LossBatch(*known, start)
        block = np.zeros(int(start[-1]))
        block[ones] = 1.0
        coef, const = np.empty(len(block)), np.empty(codec.n)
        for group in groups:
            rows = start[group][:, None] + np.arange(start[group[0] + 1] - start[group[0]])
            coef[rows], const[group] = self._task_of(sizes[group[0]]).linear_batch(block[rows])
        return LossBatch(coef, const, start)

    def _slot_counts(self, codec: Slots, truth: IntArray) -> Counts | None:
        """Return what micro-F1 counts, in the layout of the losses."""
        self.counted(codec.data.input(0))  # rejects losses that are not counts
        start, parts = codec.start, codec.parts(truth)
        weights, block = np.empty(int(start[-1])), np.zeros(int(start[-1]))
        for group in codec.data.same_space:
            size = int(start[group[0] + 1] - start[group[0]])
            counted = self._task_of(codec.map.sizes[group[0]]).counted(size)
            weights[start[group][:, None] + np.arange(size)] = counted
        block[parts[parts >= 0]] = 1.0
        return counts_of(block, weights, start)

    def _slot_entries(self, codec: Slots, slots: IntArray) -> Entries:
        """Return labels as entries of the losses."""
        return Entries(codec.slots, codec.parts(slots))

    def _batch_codec(self, data: DataSet) -> BatchCodec[Any]:
        # Numbers instead of points, unless a solver was chosen.
        return Slots(data) if self._solves_itself else super()._batch_codec(data)


class Slots(BatchCodec[IntArray]):
    """One whole number for each slot of each example, in one flat array; -1 stands for none.

    Scores, losses and gradients of labels never touch points.
    """

    def __init__(self, data: DataSet) -> None:
        super().__init__(data)
        self.model = cast("SlotModel", data.model)
        self.map = self.model._slot_map(data)
        self.slots = self.label_ptr = self.map.ptr
        self.one_of_many = self.model._one_of_many
        #: Where the parts of each example begin in the first term.
        self.start: IntArray = data.starts[0].astype(np.int64) * self.map.width

    def encode(self, Y: Any) -> IntArray:
        sizes = self.map.sizes
        together = self.model._all_slots(Y, self.slots, sizes)
        if together is not None:
            return together
        # One by one: the wrong labels are named.
        found = self.encode_each(Y, lambda label, i: self.model._slots_of(label, sizes[i]))
        return np.concatenate(found).astype(np.int64, copy=False)

    def decode(self, labels: IntArray) -> list[Any]:
        return self.model._labels_of_slots(labels, self.slots)

    def from_points(self, Z: Any) -> IntArray:
        return self.model._slots_at(Z, self.map.sizes)

    def spread(self, parts: Sequence[IntArray], some: IntArray | None) -> IntArray:
        rows = some if some is None or self.one_of_many else ranges(self.slots[some], self.slots[some + 1])
        found: IntArray = spread_rows(parts, rows, int(self.slots[-1]), -1)
        return found

    def mixture(self, labels: Sequence[IntArray | None], numbers: IntArray, shares: FloatArray) -> IntArray | None:
        return None if shares[1].any() else taken_labels(labels, numbers[0], self._owner)

    @cached_property
    def _owner(self) -> IntArray:
        """The example of every slot."""
        return np.repeat(np.arange(self.n), np.diff(self.slots))

    # ---- parts -----------------------------------------------------------------------------------

    def tables(self, labels: IntArray) -> list[sp.csr_array]:
        return [self._table(t, labels) for t in range(len(self.map.kinds))]

    def _table(self, t: int, labels: IntArray) -> sp.csr_array:
        kind, columns = self.map.kinds[t], self.data.columns[t]
        parts, values = np.empty(len(labels), dtype=np.int64), np.empty(len(labels))
        found, ordered = _find_parts(kind, columns, parts, values, self._arrays, labels)
        parts, values = parts[:found], values[:found]
        if kind > MEAN:
            return _counted(parts if ordered else np.sort(parts), self.n, columns)
        n_rows = int(self.data.starts[t][-1])
        if not ordered and not self.map.shares.size:
            parts = np.sort(parts)  # all values are 1
        elif not ordered:
            # Faster than a sort: every row has at most one part.
            at = np.full(n_rows, -1)
            at[parts // columns] = np.arange(found)
            order = at[at >= 0]
            parts, values = parts[order], values[order]
        indices, indptr = np.empty(found, dtype=np.int32), np.empty(n_rows + 1, dtype=np.int32)
        if n_rows >= 2**31 - 1:
            indices, indptr = indices.astype(np.int64), indptr.astype(np.int64)
        _fill_pointers(parts, columns, indices, indptr)
        return csr_table(values, indices, indptr, (n_rows, columns))

    @property
    def _arrays(self) -> Arrays:
        own = self.map
        return own.ptr, own.base, own.stride, own.width, own.states, own.shares

    def parts(self, labels: IntArray) -> IntArray:
        """Return the part of every slot in the first term, -1 for none."""
        parts = np.empty(len(labels), dtype=np.int64)
        _every_part(parts, self._arrays, labels)
        return parts

    def scores(self, tables: Sequence[FloatArray], labels: IntArray) -> FloatArray | None:
        for table, start, columns in zip(tables, self.data.starts, self.data.columns, strict=True):
            if table.shape != (start[-1], columns) or table.dtype != np.float64:
                return None
        total = np.zeros(self.n)
        for kind, table in zip(self.map.kinds, tables, strict=True):
            # One row that is shown for all examples is read once.
            shared = table.strides[0] == 0 and kind > MEAN
            rows = np.ascontiguousarray(table[:1] if shared else table)
            _add_scores(kind, rows.reshape(-1), 0 if shared else rows.shape[1], total, self._arrays, labels)
        return total

    def add_parts(
        self, t: int, labels: IntArray, weights: FloatArray, out: FloatArray, truth: IntArray | None = None
    ) -> bool:
        factors = np.ascontiguousarray(weights, dtype=np.float64)
        # A single row takes the sums of all examples.
        folded = len(out) < int(self.data.starts[t][-1])
        flat, columns = out.reshape(-1), self.data.columns[t]
        true = labels[:0] if truth is None else truth
        _add_changes(self.map.kinds[t], columns, folded, true, factors, flat, self._arrays, labels)
        return True

    # ---- losses ----------------------------------------------------------------------------------

    def losses(self, truth: IntArray, given: Any = None) -> LossBatch:
        return self.model._slot_losses(self, truth, given)

    def loss_parts(self, labels: IntArray) -> Entries:
        return self.model._slot_entries(self, labels)

    def counts(self, truth: IntArray) -> Counts | None:
        return self.model._slot_counts(self, truth)


def stacked_numbers(Y: Any, ptr: IntArray) -> npt.NDArray[Any] | None:
    """Return labels that were given as one array of whole numbers, if they begin at `ptr`."""
    fits = isinstance(Y, StackedLabels) and Y.flat.dtype.kind in "iu" and Y.begins_at(ptr)
    return Y.flat if fits else None


def _counted(keys: IntArray, n: int, width: int) -> sp.csr_array:
    """Return a sparse (n, width) table that counts keys ``row * width + column``, which increase."""
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if keys.size else np.empty(0, np.int64)
    counts = np.diff(first, append=keys.size).astype(np.float64)
    row, column = np.divmod(keys[first], width)
    indptr = np.zeros(n + 1, dtype=np.int32)
    np.cumsum(np.bincount(row, minlength=n), out=indptr[1:])
    return csr_table(counts, column.astype(np.int32), indptr, (n, width))


@inlined
def _part(kind: int, base: IntArray, stride: IntArray, width: int, states: int, s: int, before: int, k: int) -> int:
    """Return the part of slot s with number k, if `before` is the latest number before it; -1 for none."""
    if SPAN <= kind <= MEAN:
        at = k if k >= 0 else before
        return int(base[s]) + at % states if at >= 0 else -1
    if k < 0:
        return -1
    if kind == CHOICE:
        # Most numbers need no division, which would take most of the time.
        if k < width:
            return int(base[s]) + k
        row, column = (k, 0) if width == 1 else divmod(k, width)
        return int(base[s]) + row * int(stride[s]) + column
    if kind == EACH:
        return k
    state = k if k < states else k % states
    if kind == FIRST:
        return state if before < 0 else -1
    return (before if before < states else before % states) * states + state if before >= 0 else -1


@inlined
def _value(kind: int, states: int, shares: FloatArray, s: int, before: int, k: int) -> float:
    """Return the value of the part of slot s."""
    if kind == MEAN:
        return 1.0 / ((k if k >= 0 else before) // states + 1)
    return float(shares[s]) if kind == CHOICE and shares.size else 1.0


@in_place
def _every_part(parts: IntArray, arrays: Arrays, labels: IntArray) -> None:
    _, base, stride, width, states, _ = arrays
    for s in range(labels.size):
        parts[s] = _part(CHOICE, base, stride, width, states, s, -1, labels[s])


@in_place
def _find_parts(
    kind: int, columns: int, parts: IntArray, values: FloatArray, arrays: Arrays, labels: IntArray
) -> tuple[int, bool]:
    """Write the parts of labels and their values; return how many there are, and whether the parts increase."""
    ptr, base, stride, width, states, shares = arrays
    found, ordered, last = 0, True, -1
    for i in range(ptr.size - 1):
        offset = i * columns if kind > MEAN else 0
        before = -1
        for s in range(ptr[i], ptr[i + 1]):
            k = labels[s]
            part = _part(kind, base, stride, width, states, s, before, k)
            if part >= 0:
                parts[found], values[found] = offset + part, _value(kind, states, shares, s, before, k)
                ordered &= parts[found] >= last
                last = parts[found]
                found += 1
            if kind == FIRST:
                break
            if k >= 0:
                before = k
    return found, ordered


@kernel
def _fill_pointers(parts: IntArray, columns: int, indices: Any, indptr: Any) -> None:
    """Write the columns of parts that increase, and where the rows begin."""
    # Long constant runs: written at the speed of memory, where a cumulative sum would take longer for small subsets.
    at = 0
    for k in range(parts.size):
        if parts[k] >= (at + 1) * columns:
            row = parts[k] // columns
            indptr[at:row] = k
            at = row
        # Without gaps, as in sequences, this takes no division.
        indices[k] = parts[k] - at * columns
        indptr[at] = k
        at += 1
    indptr[at:] = parts.size


@inlined
def _score_loop(kind: int, flat: FloatArray, step: int, total: FloatArray, arrays: Arrays, labels: IntArray) -> None:
    """Add the scores of the parts of every example; those of example i begin at ``step * i`` if weights are tied."""
    ptr, base, stride, width, states, shares = arrays
    for i in range(total.size):
        own, before = 0.0, -1
        offset = step * i if kind > MEAN else 0
        for s in range(ptr[i], ptr[i + 1]):
            k = labels[s]
            part = _part(kind, base, stride, width, states, s, before, k)
            if part >= 0:
                own += _value(kind, states, shares, s, before, k) * flat[offset + part]
            if kind == FIRST:
                break
            if k >= 0:
                before = k
        total[i] += own


@in_place
def _add_scores(kind: int, flat: FloatArray, step: int, total: FloatArray, arrays: Arrays, labels: IntArray) -> None:
    """Call `_score_loop` with constants for frequent kinds: the loop then takes half the time."""
    if kind == CHOICE:
        _score_loop(CHOICE, flat, step, total, arrays, labels)
    elif kind == STEP:
        _score_loop(STEP, flat, step, total, arrays, labels)
    else:
        _score_loop(kind, flat, step, total, arrays, labels)


@inlined
def _change_loop(
    kind: int,
    columns: int,
    folded: bool,
    truth: IntArray,
    weights: FloatArray,
    out: FloatArray,
    arrays: Arrays,
    labels: IntArray,
) -> None:
    """Add the parts of labels, times weights, less the parts of the ground truths that they do not share, if given."""
    ptr, base, stride, width, states, shares = arrays
    for i in range(weights.size):
        w = weights[i]
        if w == 0.0:
            continue
        before, before_true = -1, -1
        offset = i * columns if kind > MEAN and not folded else 0
        for s in range(ptr[i], ptr[i + 1]):
            k, true = labels[s], truth[s] if truth.size else -1
            part = _part(kind, base, stride, width, states, s, before, k)
            part_true = _part(kind, base, stride, width, states, s, before_true, true) if truth.size else -1
            value, value_true = 1.0, 1.0
            if part >= 0:
                value = _value(kind, states, shares, s, before, k)
            if part_true >= 0:
                value_true = _value(kind, states, shares, s, before_true, true)
            if part != part_true or value != value_true:
                if part >= 0:
                    out[offset + (part % columns if folded else part)] += w * value
                if part_true >= 0:
                    out[offset + (part_true % columns if folded else part_true)] -= w * value_true
            if kind == FIRST:
                break
            before = k if k >= 0 else before
            before_true = true if true >= 0 else before_true


@in_place
def _add_changes(
    kind: int,
    columns: int,
    folded: bool,
    truth: IntArray,
    weights: FloatArray,
    out: FloatArray,
    arrays: Arrays,
    labels: IntArray,
) -> None:
    """Call `_change_loop` with constants for frequent kinds."""
    if kind == CHOICE:
        _change_loop(CHOICE, columns, folded, truth, weights, out, arrays, labels)
    elif kind == STEP:
        _change_loop(STEP, columns, folded, truth, weights, out, arrays, labels)
    else:
        _change_loop(kind, columns, folded, truth, weights, out, arrays, labels)
