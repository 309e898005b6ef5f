"""The best state sequence for every value of the loss, of many chains at once (docs/mathematics/oracles).

``B[t, e, s]`` is the best score of the positions t.. of a chain that starts in s and has loss exactly e, in units. For
every psi(h, g) that does not decrease in h, ``max_e psi(max_s init[s] + B[0, e, s], e)`` is its maximum over all
sequences: exact slack rescaling, and every other surrogate, without a search.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from structopt._jit import BAD_NUMBER, SOLVED, FloatArray, IntArray, fail, floats, kernel, unusable
from structopt._jit.threads import in_threads
from structopt.algorithms.chain.loops import relax, transpose, workspace
from structopt.algorithms.chain.viterbi import EMPTY, NUMBERS, check_init, check_transitions

__all__ = ["LossFronts", "LossUnits", "front_entries", "loss_front_batch", "loss_units", "sequence_scores"]

# Losses that are multiples of one of these fractions of a chain's smallest loss are counted in whole units.
_FRACTIONS = range(1, 13)


class LossUnits(NamedTuple):
    """Losses by position and state that count in units, one unit for each chain."""

    rows: IntArray  # the loss above the position's smallest, in units, by position and state
    unit: FloatArray  # a chain of e units has the loss ``base + unit * e``
    base: FloatArray
    levels: IntArray  # one more than the largest number of units of each chain


def loss_units(coef: FloatArray, ptr: IntArray) -> LossUnits | None:
    """Losses of stacked chains in whole units, or None if they do not count in any.

    Every position has exactly one state, so that a position's smallest loss is a constant.
    """
    losses, bounds = np.ascontiguousarray(coef, dtype=np.float64), np.ascontiguousarray(ptr, dtype=np.int64)
    n = len(ptr) - 1
    least, base, smallest, levels = np.empty(len(losses)), np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    rows = np.empty(losses.shape, dtype=np.int64)
    _least(losses, bounds, least, base, smallest)
    for parts in _FRACTIONS:
        if _count_units(losses, bounds, least, smallest, parts, rows, levels):
            return LossUnits(rows, smallest / parts, base, levels)
    return None


@kernel
def _least(coef: FloatArray, ptr: IntArray, least: FloatArray, base: FloatArray, smallest: FloatArray) -> None:
    """The smallest loss of every position, their sum over each chain, and the smallest loss above them of a chain."""
    largest = 0.0
    for r in range(coef.shape[0]):
        least[r] = coef[r, 0]
        for loss in coef[r]:
            least[r], largest = min(least[r], loss), max(largest, abs(loss))
    for i in range(base.size):
        base[i], smallest[i] = 0.0, np.inf
        for r in range(ptr[i], ptr[i + 1]):
            base[i] += least[r]
            for loss in coef[r]:
                if loss - least[r] > 1e-12 * largest:
                    smallest[i] = min(smallest[i], loss - least[r])
        if smallest[i] == np.inf:
            smallest[i] = 1.0


@kernel
def _count_units(
    coef: FloatArray,
    ptr: IntArray,
    least: FloatArray,
    smallest: FloatArray,
    parts: int,
    rows: IntArray,
    levels: IntArray,
) -> bool:
    """Fill in losses in units of ``smallest / parts``; False if one is not a whole number of them."""
    for i in range(levels.size):
        levels[i] = 1
        for r in range(ptr[i], ptr[i + 1]):
            most = 0
            for s in range(coef.shape[1]):
                units = (coef[r, s] - least[r]) / smallest[i] * parts
                whole = np.rint(units)
                if not abs(units - whole) <= 1e-9 * max(whole, 1.0):
                    return False
                rows[r, s] = np.int64(whole)
                most = max(most, rows[r, s])
            levels[i] += most
    return True


def front_entries(lengths: IntArray, levels: IntArray, n_states: int) -> IntArray:
    """Entries of the tables of each chain's front."""
    return lengths * levels * ((n_states + 3) & ~3)


@dataclass(frozen=True, eq=False)
class LossFronts:
    """The best scores by loss of many chains: those of chain i are ``values[ptr[i]:ptr[i + 1]]``, from 0 units on.

    A score is ``-inf`` where no sequence has that loss.
    """

    ptr: IntArray
    values: FloatArray
    _chains: tuple[IntArray, FloatArray, int, FloatArray, IntArray]
    _tables: tuple[FloatArray, IntArray]

    def decode(self, level: IntArray, chain: IntArray | None = None) -> IntArray:
        """Return the best sequences of numbers of units, stacked, -1 if there is none; of every chain by default."""
        bounds, steps, stride, start, loss = self._chains
        table, at = self._tables
        chosen = np.arange(len(level)) if chain is None else chain
        y = np.full(int((bounds[chosen + 1] - bounds[chosen]).sum()), -1)
        level = np.ascontiguousarray(level)
        _follow(bounds, steps, stride, start, loss, table, at, np.diff(self.ptr), chosen, level, y)
        return y


def loss_front_batch(
    U: FloatArray,
    ptr: IntArray,
    T: FloatArray,
    loss: IntArray,
    levels: IntArray,
    init: FloatArray,
    n_jobs: int = 1,
    lowest: IntArray | None = None,
) -> LossFronts:
    """The best score for every number of units of loss below `levels` and from `lowest` on, of every chain.

    What the positions before cannot make up for is not computed: of a few levels near either end the table is a narrow
    band.
    """
    unary = floats(U, "U", 2)
    n_states = unary.shape[1]
    steps, stride = check_transitions(T, n_states, len(unary) - len(ptr) + 1)
    start = check_init(init, n_states)
    at = np.concatenate([[0], np.cumsum(front_entries(np.diff(ptr), levels, n_states))])
    first = np.concatenate([[0], np.cumsum(levels)])
    table, values = np.empty(at[-1]), np.empty(first[-1])
    least = np.zeros(len(levels), dtype=np.int64) if lowest is None else np.asarray(lowest, dtype=np.int64)
    statuses: list[tuple[int, int]] = []

    def work(a: int, b: int) -> None:
        statuses.append(_fill(unary, ptr, steps, stride, start, loss, least, table, at, first, values, a, b))

    in_threads(work, len(levels), n_jobs)
    for status, index in statuses:
        if status:
            fail(status, NUMBERS, EMPTY, index)
    return LossFronts(first, values, (ptr, steps, stride, start, loss), (table, at))


@kernel
def _fill(
    U: FloatArray,
    ptr: IntArray,
    T: FloatArray,
    stride: int,
    init: FloatArray,
    loss: IntArray,
    lowest: IntArray,
    table: FloatArray,
    at: IntArray,
    first: IntArray,
    values: FloatArray,
    begin: int,
    end: int,
) -> tuple[int, int]:
    n_states = U.shape[1]
    if unusable(T.ravel()) or unusable(init):
        return BAD_NUMBER, -1
    TT, scratch = workspace(T, stride, 1)
    width = TT.shape[0]
    above = scratch[0]
    for i in range(begin, end):
        low, length = ptr[i], ptr[i + 1] - ptr[i]
        if unusable(U[low : low + length].ravel()):
            return BAD_NUMBER, i
        size = first[i + 1] - first[i]
        B = table[at[i] : at[i + 1]].reshape(length, size, width)
        B[:] = -np.inf
        before = 0  # what the positions before t may lose at most
        for t in range(length - 1):
            before += loss[low + t].max()
        room = 0
        for s in range(n_states):
            e = loss[low + length - 1, s]
            room = max(room, e)
            if e < size:
                B[length - 1, e, s] = U[low + length - 1, s]
        for t in range(length - 2, -1, -1):
            if stride:
                transpose(T[low - i + t], TT)
            for e in range(max(0, lowest[i] - before), min(room, size - 1) + 1):
                relax(TT, B[t + 1, e], above)
                for s in range(n_states):
                    here = e + loss[low + t, s]
                    if here < size:
                        B[t, here, s] = U[low + t, s] + above[s]
            most = loss[low + t].max()
            before -= most
            room += most
        for e in range(size):
            best = -np.inf
            if e < lowest[i]:
                values[first[i] + e] = best
                continue
            for s in range(n_states):
                best = max(best, init[s] + B[0, e, s])
            values[first[i] + e] = best
    return SOLVED, -1


@kernel
def _follow(
    ptr: IntArray,
    T: FloatArray,
    stride: int,
    init: FloatArray,
    loss: IntArray,
    table: FloatArray,
    at: IntArray,
    sizes: IntArray,
    chain: IntArray,
    level: IntArray,
    y: IntArray,
) -> None:
    n_states, first = loss.shape[1], 0
    for k in range(level.size):
        i = chain[k]
        low, length = ptr[i], ptr[i + 1] - ptr[i]
        width = (at[i + 1] - at[i]) // (length * sizes[i])
        B = table[at[i] : at[i + 1]].reshape(length, sizes[i], width)
        row = init
        rest = level[k]
        for t in range(length):
            best, arg = -np.inf, -1
            for s in range(n_states):
                v = row[s] + B[t, rest, s]
                if v > best:
                    best, arg = v, s
            if arg < 0:
                break
            y[first + t] = arg
            rest -= loss[low + t, arg]
            if t < length - 1:
                row = T[stride * (low - i + t), arg]
        first += length


def sequence_scores(U: FloatArray, ptr: IntArray, T: FloatArray, init: FloatArray, y: IntArray) -> FloatArray:
    """The score of one sequence of every chain; one matrix of transitions serves all."""
    return _scores(np.ascontiguousarray(U), ptr, np.ascontiguousarray(T), np.ascontiguousarray(init), y)


@kernel
def _scores(U: FloatArray, ptr: IntArray, T: FloatArray, init: FloatArray, y: IntArray) -> FloatArray:
    values = np.empty(ptr.size - 1)
    for i in range(ptr.size - 1):
        value = init[y[ptr[i]]] + U[ptr[i], y[ptr[i]]]
        for t in range(ptr[i] + 1, ptr[i + 1]):
            value += U[t, y[t]] + T[y[t - 1], y[t]]
        values[i] = value
    return values
