"""Compiled sum-product kernels of chains: forward-backward, with scaled numbers or in the log domain.

Exponentials are scaled to a sum of 1 at every position, which is five times as fast as logarithms. Chains in which
they would underflow (see `_scaled_sums`) are summed in the log domain. There the maximum is shifted out of every sum,
and a row of ``-inf`` gives ``-inf``, not NaN.
"""

from __future__ import annotations

import math

import numpy as np

from structopt._jit import BAD_NUMBER, INFEASIBLE, SOLVED, FloatArray, IntArray, assign, kernel, unusable

__all__ = ["marginals_batch"]

# Factors of one step are at least e^-115 = 1e-50 of the largest, and numbers at least 1e-200: no product underflows.
_SPREAD, _SMALL = 115.0, 1e-200


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
def _log_sums(
    U: FloatArray, T: FloatArray, init: FloatArray, A: FloatArray, B: FloatArray, node: FloatArray, pairs: FloatArray
) -> float:
    """Return log Z of one chain in the log domain, and write marginals and summed pairs (zeros)."""
    length, n_states = U.shape
    terms = np.empty(n_states)
    # The log of the sum over prefixes that end in s at t is A[t, s], with U[t, s]; B[t, s] over suffixes after t.
    for s in range(n_states):
        A[0, s] = init[s] + U[0, s]
        B[length - 1, s] = 0.0
    for t in range(1, length):
        for k in range(n_states):
            for s in range(n_states):
                terms[s] = A[t - 1, s] + T[s, k]
            A[t, k] = _log_sum(terms) + U[t, k]
    for t in range(length - 2, -1, -1):
        for s in range(n_states):
            for k in range(n_states):
                terms[k] = T[s, k] + U[t + 1, k] + B[t + 1, k]
            B[t, s] = _log_sum(terms)
    log_z = _log_sum(A[length - 1])
    if log_z > -np.inf:
        for t in range(length):
            for s in range(n_states):
                node[t, s] = math.exp(A[t, s] + B[t, s] - log_z)
                if t < length - 1 and A[t, s] > -np.inf:
                    for k in range(n_states):
                        pairs[s, k] += math.exp(A[t, s] + T[s, k] + U[t + 1, k] + B[t + 1, k] - log_z)
    return log_z


@kernel
def _exponentials(scores: FloatArray, out: FloatArray) -> tuple[float, float]:
    """``exp(score - largest)``; also returns the largest score and its distance to the smallest finite one."""
    top, bottom = -np.inf, np.inf
    for i in range(scores.size):
        top = max(top, scores[i])
        if scores[i] > -np.inf:
            bottom = min(bottom, scores[i])
    if top == -np.inf:
        out[:] = 0.0
        return 0.0, np.inf
    for i in range(scores.size):
        out[i] = math.exp(scores[i] - top)
    return top, top - bottom


@kernel
def _scale(row: FloatArray) -> float:
    """Divide by the sum, which is returned; 0 if some entry is so small that later products could underflow."""
    total, least = 0.0, np.inf
    for s in range(row.size):
        total += row[s]
        if row[s] > 0.0:
            least = min(least, row[s])
    if total == 0.0 or not least > _SMALL * total:
        return 0.0
    for s in range(row.size):
        row[s] /= total
    return total


@kernel
def _scaled_sums(
    U: FloatArray,
    E: FloatArray,
    ET: FloatArray,
    spread: float,
    shift: float,
    start: FloatArray,
    A: FloatArray,
    node: FloatArray,
    pairs: FloatArray,
    scratch: FloatArray,
) -> float:
    """``log Z`` less the shift of the start, marginals and summed pairs of one chain; NaN if numbers may underflow.

    `E` holds the exponentials of the steps less their largest score `shift`, `ET` its transpose. An entry that is not 0
    by the rules never becomes 0 unnoticed: it would have been below `_SMALL` first.
    """
    length, n_states = U.shape
    log_z = 0.0
    for t in range(length):
        top, width = _exponentials(U[t], node[t])
        if not width + spread <= _SPREAD:
            return np.nan
        row = A[t]
        if t == 0:
            for k in range(n_states):
                row[k] = start[k] * node[0, k]
        else:
            row[:] = 0.0
            for s in range(n_states):
                weight = A[t - 1, s]
                for k in range(n_states):
                    row[k] += weight * E[s, k]
            for k in range(n_states):
                row[k] *= node[t, k]
            log_z += shift
        total = _scale(row)
        if total == 0.0:
            return np.nan
        log_z += top + math.log(total)
    B, v, raw = scratch[0], scratch[1], scratch[2]
    B[:] = 1.0
    for t in range(length - 2, -1, -1):
        for k in range(n_states):
            v[k] = node[t + 1, k] * B[k]
        raw[:] = 0.0
        for k in range(n_states):
            weight = v[k]
            for s in range(n_states):
                raw[s] += weight * ET[k, s]
        overlap = 0.0
        for s in range(n_states):
            overlap += A[t, s] * raw[s]
        if not overlap > _SMALL:
            return np.nan
        # The marginals of position t + 1 take the place of its exponentials, which are not needed any more.
        _posterior(A[t + 1], B, node[t + 1])
        for s in range(n_states):
            weight = A[t, s] / overlap
            for k in range(n_states):
                pairs[s, k] += weight * v[k]
        assign(B, raw)
        if _scale(B) == 0.0:
            return np.nan
    _posterior(A[0], B, node[0])
    for s in range(n_states):
        for k in range(n_states):
            pairs[s, k] *= E[s, k]
    return log_z


@kernel
def _posterior(a: FloatArray, b: FloatArray, out: FloatArray) -> None:
    total = 0.0
    for s in range(a.size):
        out[s] = a[s] * b[s]
        total += out[s]
    for s in range(a.size):
        out[s] /= total


@kernel
def marginals_batch(
    U: FloatArray, ptr: IntArray, T: FloatArray, init: FloatArray
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
    E, start, scratch = np.empty((n_states, n_states)), np.empty(n_states), np.empty((3, n_states))
    start_shift, start_spread = _exponentials(init, start)
    shift, spread = _exponentials(T.ravel(), E.ravel())
    ET = E.T.copy()
    for i in range(n):
        own, mine = U[ptr[i] : ptr[i + 1]], node[ptr[i] : ptr[i + 1]]
        if unusable(own.ravel()):
            return log_z, node, transitions, BAD_NUMBER, i
        log_z[i] = start_shift + _scaled_sums(
            own, E, ET, spread + start_spread, shift, start, A, mine, transitions[i], scratch
        )
        if np.isnan(log_z[i]):
            transitions[i] = 0.0
            log_z[i] = _log_sums(own, T, init, A, B, mine, transitions[i])
            if log_z[i] == -np.inf:
                return log_z, node, transitions, INFEASIBLE, i
    return log_z, node, transitions, SOLVED, -1
