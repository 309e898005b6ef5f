"""Compiled sum-product kernels of chains: forward-backward in the log domain.

The maximum is shifted out of every sum; a row of ``-inf`` gives ``-inf``, not NaN. Step t of a chain whose first
step is `t0` is ``T[stride * (t0 + t)]``, as in `_chain`.
"""

from __future__ import annotations

import math

import numpy as np

from structopt._jit import BAD_NUMBER, INFEASIBLE, SOLVED, FloatArray, IntArray, kernel, unusable

__all__ = ["marginals", "marginals_batch"]


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
    if unusable(U.ravel()) or unusable(T.ravel()) or unusable(init):
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
    if unusable(T.ravel()) or unusable(init):
        return log_z, node, transitions, BAD_NUMBER, -1
    longest = 0
    for i in range(n):
        longest = max(longest, ptr[i + 1] - ptr[i])
    A, B = np.empty((longest, n_states)), np.empty((longest, n_states))
    for i in range(n):
        first, end = ptr[i], ptr[i + 1]
        t0 = first - i
        if unusable(U[first:end].ravel()):
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
