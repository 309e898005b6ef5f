"""Compiled max-sum kernels of chains.

Conventions: `T` is (steps, S, S); step t of a chain whose first step is `t0` is ``T[stride * (t0 + t)]``, so that
stride 0 means one shared matrix. Tables are padded to a multiple of four states with ``-inf``: padded states never
win, and the inner loops have neither remainders nor branches.
"""

from __future__ import annotations

import math

import numpy as np

from structopt._jit import (
    BAD_NUMBER,
    INFEASIBLE,
    SOLVED,
    FloatArray,
    IntArray,
    kernel,
    unusable,
)

__all__ = ["best_points", "k_best", "relax", "transpose", "viterbi_batch", "workspace"]


@kernel
def transpose(T: FloatArray, TT: FloatArray) -> None:
    """``TT[k, s] = T[s, k]`` inside the padding."""
    n_states = T.shape[0]
    for s in range(n_states):
        for k in range(n_states):
            TT[k, s] = T[s, k]


@kernel
def _padded(n_states: int) -> int:
    return (n_states + 3) & ~3


@kernel
def relax(TT: FloatArray, below: FloatArray, out: FloatArray) -> None:
    """``out[s] = max_k TT[k, s] + below[k]``, four k at a time so that `out` is loaded and stored once for four."""
    width = TT.shape[0]
    for s in range(width):
        out[s] = -np.inf
    for k in range(0, width, 4):
        b0, b1, b2, b3 = below[k], below[k + 1], below[k + 2], below[k + 3]
        r0, r1, r2, r3 = TT[k], TT[k + 1], TT[k + 2], TT[k + 3]
        for s in range(width):
            v0, v1, v2, v3 = r0[s] + b0, r1[s] + b1, r2[s] + b2, r3[s] + b3
            v0 = v0 if v0 > v1 else v1
            v2 = v2 if v2 > v3 else v3
            v0 = v0 if v0 > v2 else v2
            out[s] = v0 if v0 > out[s] else out[s]


@kernel
def _backward(
    U: FloatArray, first: int, length: int, T: FloatArray, stride: int, t0: int, TT: FloatArray, B: FloatArray
) -> None:
    """``B[t, s]`` = best score of the positions t.. that starts in s (docs/mathematics/oracles#chains-and-segments)."""
    n_states = U.shape[1]
    last = length - 1
    for s in range(n_states):
        B[last, s] = U[first + last, s]
    for s in range(n_states, B.shape[1]):
        B[last, s] = -np.inf
    for t in range(last - 1, -1, -1):
        if stride:
            transpose(T[t0 + t], TT)
        relax(TT, B[t + 1], B[t])
        for s in range(n_states):
            B[t, s] += U[first + t, s]


@kernel
def _follow(B: FloatArray, T: FloatArray, stride: int, t0: int, t: int, y: IntArray) -> None:
    """Decode forward from the state at position t; the first maximal state wins."""
    n_states = T.shape[1]
    for q in range(t + 1, y.size):
        row = T[stride * (t0 + q - 1), y[q - 1]]
        below = B[q]
        best, arg = row[0] + below[0], 0
        for k in range(1, n_states):
            v = row[k] + below[k]
            if v > best:
                best, arg = v, k
        y[q] = arg


@kernel
def _score(U: FloatArray, first: int, T: FloatArray, stride: int, t0: int, init: FloatArray, y: IntArray) -> float:
    value: float = init[y[0]] + U[first, y[0]]
    for t in range(1, y.size):
        value += U[first + t, y[t]] + T[stride * (t0 + t - 1), y[t - 1], y[t]]
    return value


@kernel
def _decode(
    U: FloatArray,
    first: int,
    T: FloatArray,
    stride: int,
    t0: int,
    init: FloatArray,
    B: FloatArray,
    y: IntArray,
) -> float:
    best, arg = -np.inf, -1
    for s in range(init.size):
        v = init[s] + B[0, s]
        if v > best:
            best, arg = v, s
    if arg < 0:
        return best
    y[0] = arg
    _follow(B, T, stride, t0, 0, y)
    return _score(U, first, T, stride, t0, init, y)


@kernel
def workspace(T: FloatArray, stride: int, length: int) -> tuple[FloatArray, FloatArray]:
    """The transposed transitions (already filled if shared) and the table of the longest chain."""
    width = _padded(T.shape[1])
    TT = np.full((width, width), -np.inf)
    if not stride:
        transpose(T[0], TT)
    return TT, np.empty((length, width))


@kernel
def best_points(
    C: FloatArray, length: int, forbidden: FloatArray, init: FloatArray, Z: FloatArray, values: FloatArray
) -> int:
    """Write the best label of every row of `C` into `Z` (zeros), and its value; return the first row without, or -1.

    A row begins with the scores by position and state, then those of transitions ``[step, from, to]``. `forbidden` is
    added to the latter: a matrix for each step, one for all, or none.
    """
    n_states = init.size
    n_unary, n_pair = length * n_states, (length - 1) * n_states * n_states
    masked = np.empty((length - 1 if forbidden.size else 0, n_states, n_states))
    stride = 0 if forbidden.shape[0] == 1 else 1
    TT, B = workspace(masked, 1, length)
    y = np.empty(length, np.int64)
    for row in range(len(C)):
        U = C[row, :n_unary].reshape(length, n_states)
        T = C[row, n_unary : n_unary + n_pair].reshape(length - 1, n_states, n_states)
        if forbidden.size:
            for t in range(length - 1):
                for s in range(n_states):
                    for k in range(n_states):
                        masked[t, s, k] = T[t, s, k] + forbidden[stride * t, s, k]
            T = masked
        _backward(U, 0, length, T, 1, 0, TT, B)
        values[row] = _decode(U, 0, T, 1, 0, init, B, y)
        if values[row] == -np.inf:
            return row
        for t in range(length):
            Z[row, t * n_states + y[t]] = 1.0
        for t in range(length - 1):
            Z[row, n_unary + (t * n_states + y[t]) * n_states + y[t + 1]] = 1.0
    return -1


@kernel
def viterbi_batch(
    U: FloatArray, ptr: IntArray, T: FloatArray, stride: int, init: FloatArray
) -> tuple[IntArray, FloatArray, int, int]:
    n = ptr.size - 1
    y = np.empty(U.shape[0], np.int64)
    values = np.empty(n)
    if unusable(T.ravel()) or unusable(init):
        return y, values, BAD_NUMBER, -1
    longest = 0
    for i in range(n):
        longest = max(longest, ptr[i + 1] - ptr[i])
    TT, B = workspace(T, stride, longest)
    for i in range(n):
        first, end = ptr[i], ptr[i + 1]
        if unusable(U[first:end].ravel()):
            return y, values, BAD_NUMBER, i
        _backward(U, first, end - first, T, stride, first - i, TT, B)
        values[i] = _decode(U, first, T, stride, first - i, init, B, y[first:end])
        if values[i] == -np.inf:
            return y, values, INFEASIBLE, i
    return y, values, SOLVED, -1


# k best. A cell is the set of sequences that share `emitted[parent][:position]` and avoid the forbidden states at
# `position`; its value is the prefix's score plus the table's, so that no new Viterbi pass is needed.
# `cells` = (emitted, parent, position, choice, value): the labels so far, then one entry a cell.

_Cells = tuple[IntArray, IntArray, IntArray, IntArray, FloatArray]


@kernel
def _best_state(
    cell: int,
    prefix: float,
    forbidden: FloatArray,
    B: FloatArray,
    T: FloatArray,
    stride: int,
    init: FloatArray,
    cells: _Cells,
) -> None:
    """Best allowed state at the cell's position and the cell's value."""
    emitted, parent, position, choice, value = cells
    t = position[cell]
    row = init if t == 0 else T[stride * (t - 1), emitted[parent[cell], t - 1]]
    best, arg = -np.inf, -1
    for s in range(init.size):
        # Forbidden states carry -inf, so that the test is an addition.
        v = row[s] + B[t, s] + forbidden[cell, s]
        if v > best:
            best, arg = v, s
    choice[cell] = arg
    value[cell] = prefix + best


@kernel
def _write(cell: int, B: FloatArray, T: FloatArray, stride: int, cells: _Cells, y: IntArray) -> None:
    """The cell's best sequence."""
    emitted, parent, position, choice, _ = cells
    t = position[cell]
    for q in range(t):
        y[q] = emitted[parent[cell], q]
    y[t] = choice[cell]
    _follow(B, T, stride, 0, t, y)


@kernel
def _before(a: int, b: int, B: FloatArray, T: FloatArray, stride: int, cells: _Cells, pair: IntArray) -> bool:
    """Whether cell a is emitted before cell b: by value, then by their labels, which are written only on a tie."""
    value = cells[4]
    if value[a] != value[b]:
        return bool(value[a] > value[b])
    _write(a, B, T, stride, cells, pair[0])
    _write(b, B, T, stride, cells, pair[1])
    for t in range(pair.shape[1]):
        if pair[0, t] != pair[1, t]:
            return bool(pair[0, t] < pair[1, t])
    return False


@kernel
def _push(
    heap: IntArray, size: int, cell: int, B: FloatArray, T: FloatArray, stride: int, cells: _Cells, pair: IntArray
) -> None:
    hole = size
    while hole:
        up = (hole - 1) >> 1
        if not _before(cell, heap[up], B, T, stride, cells, pair):
            break
        heap[hole] = heap[up]
        hole = up
    heap[hole] = cell


@kernel
def _pop(heap: IntArray, size: int, B: FloatArray, T: FloatArray, stride: int, cells: _Cells, pair: IntArray) -> int:
    """Take the first of `size` cells; the last one sinks from the top."""
    top = heap[0]
    size -= 1
    moved, hole = heap[size], 0
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and _before(heap[child + 1], heap[child], B, T, stride, cells, pair):
            child += 1
        if _before(moved, heap[child], B, T, stride, cells, pair):
            break
        heap[hole] = heap[child]
        hole = child
    heap[hole] = moved
    return int(top)


@kernel
def k_best(U: FloatArray, T: FloatArray, stride: int, init: FloatArray, k: int) -> tuple[IntArray, FloatArray, int]:
    length, n_states = U.shape
    if unusable(U.ravel()) or unusable(T.ravel()) or unusable(init):
        return np.empty((0, length), np.int64), np.empty(0), BAD_NUMBER
    TT, B = workspace(T, stride, length)
    _backward(U, 0, length, T, stride, 0, TT, B)

    # k may be far above the number of sequences: do not allocate for more than there are.
    if length * math.log(n_states) < 40.0:
        k = min(k, int(float(n_states) ** length + 0.5))
    capacity = k * length + 1
    emitted, score = np.empty((k, length), np.int64), np.empty(k)
    parent, position = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    choice, value = np.empty(capacity, np.int64), np.empty(capacity)
    cells = (emitted, parent, position, choice, value)
    prefix = np.zeros(capacity)
    forbidden = np.zeros((capacity, n_states))
    heap, pair = np.empty(capacity, np.int64), np.empty((2, length), np.int64)

    _best_state(0, 0.0, forbidden, B, T, stride, init, cells)
    if value[0] == -np.inf:
        return emitted[:0].copy(), score[:0].copy(), INFEASIBLE
    heap[0] = 0
    waiting, made, count = 1, 1, 0
    while waiting and count < k:
        cell = _pop(heap, waiting, B, T, stride, cells, pair)
        waiting -= 1
        y = emitted[count]
        _write(cell, B, T, stride, cells, y)
        score[count] = _score(U, 0, T, stride, 0, init, y)
        count += 1
        if count == k:
            break
        run = prefix[cell]
        for q in range(position[cell], length):
            fresh = cell
            if q > position[cell]:
                fresh = made
                made += 1
                parent[fresh], position[fresh], prefix[fresh] = count - 1, q, run
            forbidden[fresh, y[q]] = -np.inf
            _best_state(fresh, prefix[fresh], forbidden, B, T, stride, init, cells)
            if value[fresh] > -np.inf:
                _push(heap, waiting, fresh, B, T, stride, cells, pair)
                waiting += 1
            run += U[q, y[q]] + (init[y[0]] if q == 0 else T[stride * (q - 1), y[q - 1], y[q]])
    return emitted[:count].copy(), score[:count].copy(), SOLVED
