"""The loops of `structopt.kernels.chain`, compiled.

Conventions: `T` is (steps, S, S); step t of a chain whose first step is `t0` is ``T[stride * (t0 + t)]``, so that
stride 0 means one shared matrix. Tables are padded to a multiple of four states with ``-inf``: padded states never
win, and the inner loops have neither remainders nor branches.
"""

from __future__ import annotations

import math

import numpy as np

from structopt.kernels._common import (
    BAD_NUMBER,
    INFEASIBLE,
    SOLVED,
    FloatArray,
    IntArray,
    kernel,
)

__all__ = ["k_best", "loss_front", "marginals", "marginals_batch", "viterbi", "viterbi_batch"]


@kernel
def _unusable(x: FloatArray) -> bool:
    """Whether a flat array holds NaN or +inf."""
    bad = False
    for i in range(x.size):
        bad |= not (x[i] < np.inf)
    return bad


@kernel
def _transpose(T: FloatArray, TT: FloatArray) -> None:
    """``TT[k, s] = T[s, k]`` inside the padding."""
    n_states = T.shape[0]
    for s in range(n_states):
        for k in range(n_states):
            TT[k, s] = T[s, k]


@kernel
def _padded(n_states: int) -> int:
    return (n_states + 3) & ~3


@kernel
def _relax(TT: FloatArray, below: FloatArray, out: FloatArray) -> None:
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
    """``B[t, s]`` = best score of the positions t.. that starts in s (ORACLES.md 5)."""
    n_states = U.shape[1]
    last = length - 1
    for s in range(n_states):
        B[last, s] = U[first + last, s]
    for s in range(n_states, B.shape[1]):
        B[last, s] = -np.inf
    for t in range(last - 1, -1, -1):
        if stride:
            _transpose(T[t0 + t], TT)
        _relax(TT, B[t + 1], B[t])
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
def _workspace(T: FloatArray, stride: int, length: int) -> tuple[FloatArray, FloatArray]:
    """The transposed transitions (already filled if shared) and the table of the longest chain."""
    width = _padded(T.shape[1])
    TT = np.full((width, width), -np.inf)
    if not stride:
        _transpose(T[0], TT)
    return TT, np.empty((length, width))


@kernel
def viterbi(U: FloatArray, T: FloatArray, stride: int, init: FloatArray) -> tuple[IntArray, float, int]:
    y = np.empty(U.shape[0], np.int64)
    if _unusable(U.ravel()) or _unusable(T.ravel()) or _unusable(init):
        return y, np.nan, BAD_NUMBER
    TT, B = _workspace(T, stride, y.size)
    _backward(U, 0, y.size, T, stride, 0, TT, B)
    value = _decode(U, 0, T, stride, 0, init, B, y)
    return y, value, SOLVED if value > -np.inf else INFEASIBLE


@kernel
def viterbi_batch(
    U: FloatArray, ptr: IntArray, T: FloatArray, stride: int, init: FloatArray
) -> tuple[IntArray, FloatArray, int, int]:
    n = ptr.size - 1
    y = np.empty(U.shape[0], np.int64)
    values = np.empty(n)
    if _unusable(T.ravel()) or _unusable(init):
        return y, values, BAD_NUMBER, -1
    longest = 0
    for i in range(n):
        longest = max(longest, ptr[i + 1] - ptr[i])
    TT, B = _workspace(T, stride, longest)
    for i in range(n):
        first, end = ptr[i], ptr[i + 1]
        if _unusable(U[first:end].ravel()):
            return y, values, BAD_NUMBER, i
        _backward(U, first, end - first, T, stride, first - i, TT, B)
        values[i] = _decode(U, first, T, stride, first - i, init, B, y[first:end])
        if values[i] == -np.inf:
            return y, values, INFEASIBLE, i
    return y, values, SOLVED, -1


# k best. A cell is the set of sequences that share `emitted[parent][:position]` and avoid the forbidden states at
# `position`; its value is the prefix's score plus the table's, so that no new Viterbi pass is needed.


@kernel
def _settle(
    cell: int,
    B: FloatArray,
    T: FloatArray,
    stride: int,
    init: FloatArray,
    emitted: IntArray,
    parent: IntArray,
    position: IntArray,
    prefix: FloatArray,
    forbidden: FloatArray,
    choice: IntArray,
    value: FloatArray,
) -> None:
    """Best allowed state at the cell's position and the cell's value."""
    t = position[cell]
    row = init if t == 0 else T[stride * (t - 1), emitted[parent[cell], t - 1]]
    best, arg = -np.inf, -1
    for s in range(init.size):
        # Forbidden states carry -inf, so that the test costs an addition.
        v = row[s] + B[t, s] + forbidden[cell, s]
        if v > best:
            best, arg = v, s
    choice[cell] = arg
    value[cell] = prefix[cell] + best


@kernel
def _write(
    cell: int,
    B: FloatArray,
    T: FloatArray,
    stride: int,
    emitted: IntArray,
    parent: IntArray,
    position: IntArray,
    choice: IntArray,
    y: IntArray,
) -> None:
    """The cell's best sequence."""
    t = position[cell]
    for q in range(t):
        y[q] = emitted[parent[cell], q]
    y[t] = choice[cell]
    _follow(B, T, stride, 0, t, y)


@kernel
def _smaller(a: IntArray, b: IntArray) -> bool:
    """Whether label a comes before label b."""
    for t in range(a.size):
        if a[t] != b[t]:
            return bool(a[t] < b[t])
    return False


@kernel
def k_best(
    U: FloatArray, T: FloatArray, stride: int, init: FloatArray, k: int, ban: IntArray
) -> tuple[IntArray, FloatArray, int]:
    length, n_states = U.shape
    kept = np.empty((0, length), np.int64)
    if _unusable(U.ravel()) or _unusable(T.ravel()) or _unusable(init):
        return kept, np.empty(0), BAD_NUMBER
    TT, B = _workspace(T, stride, length)
    _backward(U, 0, length, T, stride, 0, TT, B)

    # k may be far above the number of sequences: do not allocate for more than there are.
    emissions = k + ban.shape[0]
    if length * math.log(n_states) < 40.0:
        emissions = min(emissions, int(float(n_states) ** length + 0.5))
    capacity = emissions * length + 1
    emitted = np.empty((emissions, length), np.int64)
    parent = np.empty(capacity, np.int64)
    position = np.empty(capacity, np.int64)
    choice = np.empty(capacity, np.int64)
    prefix = np.empty(capacity)
    value = np.empty(capacity)
    forbidden = np.zeros((capacity, n_states))
    heap = np.empty(capacity, np.int64)
    left, right = np.empty(length, np.int64), np.empty(length, np.int64)

    parent[0], position[0], prefix[0] = 0, 0, 0.0
    _settle(0, B, T, stride, init, emitted, parent, position, prefix, forbidden, choice, value)
    if value[0] == -np.inf:
        return kept, np.empty(0), INFEASIBLE
    heap[0] = 0
    in_heap, cells, count, n_kept = 1, 1, 0, 0
    keep = np.empty(emissions, np.int64)
    score = np.empty(emissions)

    while in_heap and n_kept < k and count < emissions:
        cell = heap[0]
        in_heap -= 1
        moved = heap[in_heap]
        # Sift down.
        hole = 0
        while True:
            child = 2 * hole + 1
            if child >= in_heap:
                break
            if child + 1 < in_heap:
                a, b = heap[child], heap[child + 1]
                if value[b] > value[a]:
                    child += 1
                elif value[b] == value[a]:
                    _write(a, B, T, stride, emitted, parent, position, choice, left)
                    _write(b, B, T, stride, emitted, parent, position, choice, right)
                    if _smaller(right, left):
                        child += 1
            a = heap[child]
            if value[a] < value[moved]:
                break
            if value[a] == value[moved]:
                _write(a, B, T, stride, emitted, parent, position, choice, left)
                _write(moved, B, T, stride, emitted, parent, position, choice, right)
                if _smaller(right, left):
                    break
            heap[hole] = a
            hole = child
        if in_heap:
            heap[hole] = moved

        y = emitted[count]
        _write(cell, B, T, stride, emitted, parent, position, choice, y)
        banned = False
        for i in range(ban.shape[0]):
            same = True
            for t in range(length):
                if ban[i, t] != y[t]:
                    same = False
                    break
            banned |= same
        if not banned:
            keep[n_kept] = count
            score[n_kept] = _score(U, 0, T, stride, 0, init, y)
            n_kept += 1
        count += 1
        if n_kept == k or count == emissions:
            break

        run = prefix[cell]
        for q in range(position[cell], length):
            if q == position[cell]:
                fresh = cell
            else:
                fresh = cells
                cells += 1
                parent[fresh], position[fresh], prefix[fresh] = count - 1, q, run
            forbidden[fresh, y[q]] = -np.inf
            _settle(fresh, B, T, stride, init, emitted, parent, position, prefix, forbidden, choice, value)
            step = init[y[0]] if q == 0 else T[stride * (q - 1), y[q - 1], y[q]]
            run += step + U[q, y[q]]
            if value[fresh] == -np.inf:
                continue
            # Sift up.
            hole = in_heap
            in_heap += 1
            while hole:
                up = (hole - 1) >> 1
                a = heap[up]
                if value[a] > value[fresh]:
                    break
                if value[a] == value[fresh]:
                    _write(a, B, T, stride, emitted, parent, position, choice, left)
                    _write(fresh, B, T, stride, emitted, parent, position, choice, right)
                    if _smaller(left, right):
                        break
                heap[hole] = a
                hole = up
            heap[hole] = fresh

    kept = np.empty((n_kept, length), np.int64)
    for i in range(n_kept):
        kept[i] = emitted[keep[i]]
    return kept, score[:n_kept].copy(), SOLVED


# Sums in logs. The maximum is shifted out of every sum; a row of -inf gives -inf, not NaN.


@kernel
def _log_sum(terms: FloatArray) -> float:
    top = -np.inf
    for i in range(terms.size):
        top = max(top, terms[i])
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(terms.size):
        total += math.exp(terms[i] - top)
    return top + math.log(total)


@kernel
def _sums(
    U: FloatArray,
    first: int,
    length: int,
    T: FloatArray,
    stride: int,
    t0: int,
    init: FloatArray,
    A: FloatArray,
    B: FloatArray,
) -> float:
    """``A[t, s]`` = log of the sum over prefixes that end in s at t (with U[t, s]), ``B`` over suffixes after t."""
    n_states = U.shape[1]
    terms = np.empty(n_states)
    for s in range(n_states):
        A[0, s] = init[s] + U[first, s]
        B[length - 1, s] = 0.0
    for t in range(1, length):
        step = T[stride * (t0 + t - 1)]
        for k in range(n_states):
            for s in range(n_states):
                terms[s] = A[t - 1, s] + step[s, k]
            A[t, k] = _log_sum(terms) + U[first + t, k]
    for t in range(length - 2, -1, -1):
        step = T[stride * (t0 + t)]
        for s in range(n_states):
            for k in range(n_states):
                terms[k] = step[s, k] + U[first + t + 1, k] + B[t + 1, k]
            B[t, s] = _log_sum(terms)
    return _log_sum(A[length - 1])


@kernel
def _pair(
    U: FloatArray,
    first: int,
    t: int,
    step: FloatArray,
    A: FloatArray,
    B: FloatArray,
    log_z: float,
    out: FloatArray,
) -> None:
    """Add ``P(y_t = s, y_{t+1} = k)`` to `out`."""
    n_states = U.shape[1]
    for s in range(n_states):
        if A[t, s] == -np.inf:
            continue
        for k in range(n_states):
            out[s, k] += math.exp(A[t, s] + step[s, k] + U[first + t + 1, k] + B[t + 1, k] - log_z)


@kernel
def marginals(U: FloatArray, T: FloatArray, stride: int, init: FloatArray) -> tuple[float, FloatArray, FloatArray, int]:
    length, n_states = U.shape
    node = np.empty((length, n_states))
    pair = np.zeros((length - 1, n_states, n_states))
    if _unusable(U.ravel()) or _unusable(T.ravel()) or _unusable(init):
        return np.nan, node, pair, BAD_NUMBER
    A, B = np.empty((length, n_states)), np.empty((length, n_states))
    log_z = _sums(U, 0, length, T, stride, 0, init, A, B)
    if log_z == -np.inf:
        return log_z, node, pair, INFEASIBLE
    for t in range(length):
        for s in range(n_states):
            node[t, s] = math.exp(A[t, s] + B[t, s] - log_z)
    for t in range(length - 1):
        _pair(U, 0, t, T[stride * t], A, B, log_z, pair[t])
    return log_z, node, pair, SOLVED


@kernel
def marginals_batch(
    U: FloatArray, ptr: IntArray, T: FloatArray, stride: int, init: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, int, int]:
    n, n_states = ptr.size - 1, U.shape[1]
    log_z = np.empty(n)
    node = np.empty(U.shape)
    transitions = np.zeros((n, n_states, n_states))
    if _unusable(T.ravel()) or _unusable(init):
        return log_z, node, transitions, BAD_NUMBER, -1
    longest = 0
    for i in range(n):
        longest = max(longest, ptr[i + 1] - ptr[i])
    A, B = np.empty((longest, n_states)), np.empty((longest, n_states))
    for i in range(n):
        first, end = ptr[i], ptr[i + 1]
        t0 = first - i
        if _unusable(U[first:end].ravel()):
            return log_z, node, transitions, BAD_NUMBER, i
        log_z[i] = _sums(U, first, end - first, T, stride, t0, init, A, B)
        if log_z[i] == -np.inf:
            return log_z, node, transitions, INFEASIBLE, i
        for t in range(end - first):
            for s in range(n_states):
                node[first + t, s] = math.exp(A[t, s] + B[t, s] - log_z[i])
        for t in range(end - first - 1):
            _pair(U, first, t, T[stride * (t0 + t)], A, B, log_z[i], transitions[i])
    return log_z, node, transitions, SOLVED, -1


@kernel
def loss_front(
    U: FloatArray, T: FloatArray, stride: int, init: FloatArray, loss: IntArray
) -> tuple[FloatArray, IntArray, int]:
    """``B[t, e, s]`` = best score of the positions t.. that starts in s and has loss exactly e."""
    length, n_states = U.shape
    room = np.zeros(length + 1, np.int64)
    for t in range(length - 1, -1, -1):
        room[t] = room[t + 1] + loss[t].max()
    size = room[0] + 1
    values = np.full(size, -np.inf)
    labels = np.full((size, length), -1, np.int64)
    if _unusable(U.ravel()) or _unusable(T.ravel()) or _unusable(init):
        return values, labels, BAD_NUMBER

    TT, scratch = _workspace(T, stride, 1)
    width = TT.shape[0]
    above = scratch[0]
    B = np.full((length, size, width), -np.inf)
    for s in range(n_states):
        B[length - 1, loss[length - 1, s], s] = U[length - 1, s]
    for t in range(length - 2, -1, -1):
        if stride:
            _transpose(T[t], TT)
        for e in range(room[t + 1] + 1):
            _relax(TT, B[t + 1, e], above)
            for s in range(n_states):
                B[t, e + loss[t, s], s] = U[t, s] + above[s]

    status = INFEASIBLE
    for e in range(size):
        row = init
        rest = e
        for t in range(length):
            best, arg = -np.inf, -1
            for s in range(n_states):
                v = row[s] + B[t, rest, s]
                if v > best:
                    best, arg = v, s
            if arg < 0:
                break
            labels[e, t] = arg
            rest -= loss[t, arg]
            row = T[stride * t, arg] if t < length - 1 else row
        if labels[e, 0] >= 0:
            values[e] = _score(U, 0, T, stride, 0, init, labels[e])
            status = SOLVED
    return values, labels, status
