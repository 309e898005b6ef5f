"""Compiled max-sum kernels of chains.

Conventions: `T` is (steps, S, S); step t of a chain is ``T[stride * t]``, and stride 0 means one shared matrix. Tables
are padded to a multiple of four states with ``-inf``: padded states never win, and the inner loops have neither
remainders nor branches.
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
    assign,
    kernel,
    unusable,
)
from structopt.algorithms.diagram.k_best import pop, push

__all__ = ["best_points", "k_best", "relax", "score", "transpose", "viterbi_batch", "workspace"]


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
def _backward(U: FloatArray, T: FloatArray, stride: int, TT: FloatArray, B: FloatArray) -> None:
    """``B[t, s]`` = best score of the positions t.. that starts in s (docs/mathematics/oracles#chains-and-segments)."""
    length, n_states = U.shape
    last = length - 1
    for s in range(n_states):
        B[last, s] = U[last, s]
    for s in range(n_states, B.shape[1]):
        B[last, s] = -np.inf
    for t in range(last - 1, -1, -1):
        if stride:
            transpose(T[t], TT)
        relax(TT, B[t + 1], B[t])
        for s in range(n_states):
            B[t, s] += U[t, s]


@kernel
def _follow(B: FloatArray, T: FloatArray, stride: int, t: int, y: IntArray) -> None:
    """Decode forward from the state at position t; the first maximal state wins."""
    n_states = T.shape[1]
    for q in range(t + 1, y.size):
        row = T[stride * (q - 1), y[q - 1]]
        below = B[q]
        best, arg = row[0] + below[0], 0
        for k in range(1, n_states):
            v = row[k] + below[k]
            if v > best:
                best, arg = v, k
        y[q] = arg


@kernel
def score(U: FloatArray, T: FloatArray, stride: int, init: FloatArray, y: IntArray) -> float:
    """Return the score of a sequence."""
    value: float = init[y[0]] + U[0, y[0]]
    for t in range(1, y.size):
        value += U[t, y[t]] + T[stride * (t - 1), y[t - 1], y[t]]
    return value


@kernel
def _decode(U: FloatArray, T: FloatArray, stride: int, init: FloatArray, B: FloatArray, y: IntArray) -> float:
    best, arg = -np.inf, -1
    for s in range(init.size):
        v = init[s] + B[0, s]
        if v > best:
            best, arg = v, s
    if arg < 0:
        return best
    y[0] = arg
    _follow(B, T, stride, 0, y)
    return score(U, T, stride, init, y)


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
        _backward(U, T, 1, TT, B)
        values[row] = _decode(U, T, 1, init, B, y)
        if values[row] == -np.inf:
            return row
        for t in range(length):
            Z[row, t * n_states + y[t]] = 1.0
        for t in range(length - 1):
            Z[row, n_unary + (t * n_states + y[t]) * n_states + y[t + 1]] = 1.0
    return -1


@kernel
def viterbi_batch(
    U: FloatArray, ptr: IntArray, T: FloatArray, init: FloatArray
) -> tuple[IntArray, FloatArray, int, int]:
    n = ptr.size - 1
    y = np.empty(U.shape[0], np.int64)
    values = np.empty(n)
    if unusable(T.ravel()) or unusable(init):
        return y, values, BAD_NUMBER, -1
    longest = 0
    for i in range(n):
        longest = max(longest, ptr[i + 1] - ptr[i])
    TT, B = workspace(T, 0, longest)
    for i in range(n):
        own = U[ptr[i] : ptr[i + 1]]
        if unusable(own.ravel()):
            return y, values, BAD_NUMBER, i
        _backward(own, T, 0, TT, B)
        values[i] = _decode(own, T, 0, init, B, y[ptr[i] : ptr[i + 1]])
        if values[i] == -np.inf:
            return y, values, INFEASIBLE, i
    return y, values, SOLVED, -1


@kernel
def _next_state(row: FloatArray, below: FloatArray, state: int) -> int:
    """Return the state that follows `state` in the order of values, the best one after -1, or -1 at the end."""
    limit = np.inf if state < 0 else row[state] + below[state]
    top, at = -np.inf, -1
    for s in range(row.size):
        v = row[s] + below[s]
        if (v < limit or (v == limit and s > state)) and v > top:
            top, at = v, s
    return at


@kernel
def k_best(U: FloatArray, T: FloatArray, init: FloatArray, k: int) -> tuple[IntArray, FloatArray, int]:
    """Emit the best sequences of Lawler's cells, as `structopt.algorithms.diagram.k_best` does."""
    length, n_states = U.shape
    if unusable(U.ravel()) or unusable(T.ravel()) or unusable(init):
        return np.empty((0, length), np.int64), np.empty(0), BAD_NUMBER
    TT, B = workspace(T, 1, length)
    _backward(U, T, 1, TT, B)

    # k may be far above the number of sequences: do not allocate for more than there are.
    if length * math.log(n_states) < 40.0:
        k = min(k, int(float(n_states) ** length + 0.5))
    capacity = k * length + 1
    emitted, values = np.empty((k, length), np.int64), np.empty(k)
    keys, heap = np.empty(capacity), np.empty(capacity, np.int64)
    parent, position, state = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64), np.empty(capacity, np.int64)
    state[0] = _next_state(init, B[0], -1)
    if state[0] < 0:
        return emitted[:0].copy(), values[:0].copy(), INFEASIBLE
    push(keys, heap, 0, init[state[0]] + B[0, state[0]], 0)
    waiting, made, count = 1, 1, 0
    while waiting and count < k:
        cell = heap[0]
        pop(keys, heap, waiting)
        waiting -= 1
        y, t = emitted[count], position[cell]
        assign(y[:t], emitted[parent[cell], :t])
        y[t] = state[cell]
        _follow(B, T, 1, t, y)
        values[count] = score(U, T, 1, init, y)
        prefix, row = 0.0, init
        for q in range(length):
            other = _next_state(row, B[q], y[q]) if q >= t else -1
            if other >= 0:
                parent[made], position[made], state[made] = count, q, other
                push(keys, heap, waiting, prefix + (row[other] + B[q, other]), made)
                waiting += 1
                made += 1
            prefix += row[y[q]] + U[q, y[q]]
            if q < length - 1:
                row = T[q, y[q]]
        count += 1
    return emitted[:count].copy(), values[:count].copy(), SOLVED
