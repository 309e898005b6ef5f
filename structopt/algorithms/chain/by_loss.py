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
from structopt.algorithms.chain.loops import relax, score, transpose, workspace
from structopt.algorithms.chain.viterbi import EMPTY, NUMBERS
from structopt.algorithms.fronts import common_unit

__all__ = ["LossFronts", "LossUnits", "front_entries", "loss_front_batch", "loss_units", "sequence_scores"]


class LossUnits(NamedTuple):
    """Losses by position and state that count in units, one unit for each chain."""

    rows: IntArray  # the loss above the position's smallest, in units, by position and state
    unit: FloatArray  # a chain of e units has the loss ``base + unit * e``
    base: FloatArray
    levels: IntArray  # one more than the largest number of units of each chain


def loss_units(coef: FloatArray, ptr: IntArray) -> LossUnits | None:
    """Return losses of stacked chains in whole units, or None if the losses of a chain have no common unit.

    Every position has exactly one state, so that a position's smallest loss is a constant.
    """
    units = LossUnits(*_units(floats(coef, "losses", 2), ptr))
    return units if units.unit.all() else None


@kernel
def _units(coef: FloatArray, ptr: IntArray) -> tuple[IntArray, FloatArray, FloatArray, IntArray]:
    """Return the numbers of `LossUnits`; the unit of a chain is 0 if no fraction of its smallest loss divides all."""
    n = ptr.size - 1
    rows, unit, base, levels = np.zeros(coef.shape, np.int64), np.ones(n), np.zeros(n), np.ones(n, np.int64)
    rounding = 0.0
    for loss in coef.ravel():
        rounding = max(rounding, 1e-12 * abs(loss))
    for i in range(n):
        above, smallest = coef[ptr[i] : ptr[i + 1]].copy(), np.inf
        for r in range(len(above)):
            least = above[r].min()
            base[i] += least
            for s in range(coef.shape[1]):
                above[r, s] -= least
                if above[r, s] > rounding:
                    smallest = min(smallest, above[r, s])
                else:
                    above[r, s] = 0.0
        if smallest == np.inf:
            continue
        flat = above.ravel()
        for k in range(flat.size):
            flat[k] /= smallest
        part = common_unit(flat)
        unit[i] = smallest * part
        if part == 0.0:
            break
        for r in range(len(above)):
            most = 0
            for s in range(coef.shape[1]):
                rows[ptr[i] + r, s] = np.int64(np.rint(above[r, s] / part))
                most = max(most, rows[ptr[i] + r, s])
            levels[i] += most
    return rows, unit, base, levels


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
    unary, steps, stride = floats(U, "U", 2), floats(T, "T", T.ndim), T.ndim - 2
    if not stride:  # one matrix for all steps
        steps = steps[None]
    at = np.concatenate([[0], np.cumsum(front_entries(np.diff(ptr), levels, unary.shape[1]))])
    first = np.concatenate([[0], np.cumsum(levels)])
    table, values = np.empty(at[-1]), np.empty(first[-1])
    least = np.zeros(len(levels), dtype=np.int64) if lowest is None else np.asarray(lowest, dtype=np.int64)
    statuses: list[tuple[int, int]] = []

    def work(a: int, b: int) -> None:
        statuses.append(_fill(unary, ptr, steps, stride, init, loss, least, table, at, first, values, a, b))

    in_threads(work, len(levels), n_jobs)
    for status, index in statuses:
        if status:
            fail(status, NUMBERS, EMPTY, index)
    return LossFronts(first, values, (ptr, steps, stride, init, loss), (table, at))


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
    """Return the score of one sequence of each chain; one matrix of transitions serves all."""
    return _scores(floats(U, "U", 2), ptr, T[None], init, y)


@kernel
def _scores(U: FloatArray, ptr: IntArray, T: FloatArray, init: FloatArray, y: IntArray) -> FloatArray:
    values = np.empty(ptr.size - 1)
    for i in range(ptr.size - 1):
        values[i] = score(U[ptr[i] : ptr[i + 1]], T, 0, init, y[ptr[i] : ptr[i + 1]])
    return values
