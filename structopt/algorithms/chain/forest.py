"""Compiled kernels on a forest of one-of-many groups: the best label, expectations and their derivatives, samples.

Arrays are those of `structopt.recognize.GroupForest`, with the pairs of each group sorted by the state of the parent.
Parents come before children: a loop over the groups goes from the roots to the leaves. Ties: the first state of a root,
then the first pair of every edge.
"""

from __future__ import annotations

import math

import numpy as np

from structopt._jit import FloatArray, IntArray, kernel

__all__ = ["Arrays", "best_states", "draw_states", "expectations"]

#: state_ptr, column, parent, pair_ptr, above, below, pair.
Arrays = tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]


@kernel
def best_states(C: FloatArray, arrays: Arrays, Z: FloatArray, values: FloatArray) -> int:
    """Write the best label of every row of `C` into `Z` (zeros), and its value; return the first row without, or -1.

    From the leaves to the roots every state collects, for each child, its best pair with a state of the child. From
    the roots down these pairs are followed.
    """
    state_ptr, column, parent, pair_ptr, above, below, pair = arrays
    n_groups, n_states = parent.size, column.size
    score = np.empty(n_states)
    # The best pair of every state of g's parent with a state of g is at reach[g] + state.
    reach = np.zeros(n_groups + 1, dtype=np.int64)
    for g in range(n_groups):
        size = state_ptr[parent[g] + 1] - state_ptr[parent[g]] if parent[g] >= 0 else 0
        reach[g + 1] = reach[g] + size
    value, choice = np.empty(reach[n_groups]), np.empty(reach[n_groups], dtype=np.int64)
    state = np.empty(n_groups, dtype=np.int64)
    for row in range(len(C)):
        c, z = C[row], Z[row]
        for s in range(n_states):
            score[s] = c[column[s]]
        for g in range(n_groups - 1, -1, -1):
            if parent[g] < 0:
                continue
            for k in range(reach[g], reach[g + 1]):
                value[k], choice[k] = -np.inf, -1
            first = state_ptr[g]
            for q in range(pair_ptr[g], pair_ptr[g + 1]):
                total = score[first + below[q]]
                if pair[q] >= 0:
                    total += c[pair[q]]
                k = reach[g] + above[q]
                if total > value[k]:
                    value[k], choice[k] = total, q
            start = state_ptr[parent[g]]
            for k in range(reach[g], reach[g + 1]):
                score[start + k - reach[g]] += value[k]
        values[row] = 0.0
        for g in range(n_groups):
            if parent[g] < 0:
                best, top = -1, -np.inf
                for s in range(state_ptr[g], state_ptr[g + 1]):
                    if score[s] > top:
                        best, top = s, score[s]
                if best < 0:
                    return row
                state[g] = best - state_ptr[g]
            else:
                q = choice[reach[g] + state[parent[g]]]
                state[g] = below[q]
                if pair[q] >= 0:
                    z[pair[q]] = 1.0
                    values[row] += c[pair[q]]
            chosen = column[state_ptr[g] + state[g]]
            z[chosen] = 1.0
            values[row] += c[chosen]
    return -1


@kernel
def _conditionals(c: FloatArray, arrays: Arrays, score: FloatArray, share: FloatArray) -> float:
    """Write ``P(pair | state of the parent)`` to `share`, ``P(state)`` of the roots to `score`; return log Z.

    In the log domain: the maximum is shifted out of every sum, and a sum of no terms is ``-inf``.
    """
    state_ptr, column, parent, pair_ptr, above, below, pair = arrays
    log_z = 0.0
    for s in range(column.size):
        score[s] = c[column[s]]
    for g in range(parent.size - 1, -1, -1):
        first, end = state_ptr[g], state_ptr[g + 1]
        if parent[g] < 0:
            top, total = -np.inf, 0.0
            for s in range(first, end):
                top = max(top, score[s])
            if top == -np.inf:
                return top
            for s in range(first, end):
                score[s] = math.exp(score[s] - top)
                total += score[s]
            for s in range(first, end):
                score[s] /= total
            log_z += top + math.log(total)
            continue
        q = pair_ptr[g]
        for s in range(state_ptr[parent[g]], state_ptr[parent[g] + 1]):
            begin, top, total = q, -np.inf, 0.0
            while q < pair_ptr[g + 1] and above[q] == s - state_ptr[parent[g]]:
                share[q] = score[first + below[q]]
                if pair[q] >= 0:
                    share[q] += c[pair[q]]
                top = max(top, share[q])
                q += 1
            for r in range(begin, q):
                share[r] = math.exp(share[r] - top) if top > -np.inf else 0.0
                total += share[r]
            if top > -np.inf:
                for r in range(begin, q):
                    share[r] /= total
                top += math.log(total)
            score[s] += top
    return log_z


@kernel
def expectations(C: FloatArray, V: FloatArray | None, arrays: Arrays, mean: FloatArray, log_z: FloatArray) -> int:
    """Write the mean label under ``exp(c . z)`` into `mean` (zeros), and log Z; return the first row without, or -1.

    If `V` is not None, the derivative of the mean label along the rows of `V` takes the place of the label.
    """
    state_ptr, column, parent, pair_ptr, above, below, pair = arrays
    n_states = column.size
    score, slope, moved = np.empty(n_states), np.empty(n_states), np.empty(n_states)
    share, lift = np.empty(pair.size), np.empty(pair.size)
    for row in range(len(C)):
        log_z[row] = _conditionals(C[row], arrays, score, share)
        if log_z[row] == -np.inf:
            return row
        if V is not None:
            _lifts(V[row], arrays, share, slope, lift)
        for g in range(parent.size):
            first, end = state_ptr[g], state_ptr[g + 1]
            if parent[g] < 0:
                if V is not None:
                    centre = 0.0
                    for s in range(first, end):
                        centre += score[s] * slope[s]
                    for s in range(first, end):
                        moved[s] = score[s] * (slope[s] - centre)
            else:
                start = state_ptr[parent[g]]
                for s in range(first, end):
                    score[s] = moved[s] = 0.0
                for q in range(pair_ptr[g], pair_ptr[g + 1]):
                    p = score[start + above[q]] * share[q]
                    score[first + below[q]] += p
                    if V is not None:
                        p = share[q] * moved[start + above[q]] + p * lift[q]
                        moved[first + below[q]] += p
                    if pair[q] >= 0:
                        mean[row, pair[q]] = p
            for s in range(first, end):
                mean[row, column[s]] = score[s] if V is None else moved[s]
    return -1


@kernel
def _lifts(v: FloatArray, arrays: Arrays, share: FloatArray, slope: FloatArray, lift: FloatArray) -> None:
    """Write the derivatives of the logarithms of sums by state, and by pair what it exceeds that of its state by."""
    state_ptr, column, parent, pair_ptr, above, below, pair = arrays
    for s in range(column.size):
        slope[s] = v[column[s]]
    # The derivative of a logarithm of a sum is the mean of those of its terms.
    for g in range(parent.size - 1, -1, -1):
        if parent[g] < 0:
            continue
        first, q = state_ptr[g], pair_ptr[g]
        for s in range(state_ptr[parent[g]], state_ptr[parent[g] + 1]):
            begin, mean = q, 0.0
            while q < pair_ptr[g + 1] and above[q] == s - state_ptr[parent[g]]:
                lift[q] = slope[first + below[q]]
                if pair[q] >= 0:
                    lift[q] += v[pair[q]]
                mean += share[q] * lift[q]
                q += 1
            for r in range(begin, q):
                lift[r] -= mean
            slope[s] += mean


@kernel
def draw_states(c: FloatArray, arrays: Arrays, uniform: FloatArray, Z: FloatArray) -> int:
    """Write a label drawn from ``exp(c . z)`` into every row of `Z` (zeros), by uniform numbers per row and group."""
    state_ptr, column, parent, pair_ptr, above, below, pair = arrays
    score, share = np.empty(column.size), np.empty(pair.size)
    if _conditionals(c, arrays, score, share) == -np.inf:
        return 0
    states = np.empty(uniform.shape, dtype=np.int64)
    for g in range(parent.size):
        root = parent[g] < 0
        size = 1 if root else state_ptr[parent[g] + 1] - state_ptr[parent[g]]
        begin = np.full(size + 1, pair_ptr[g + 1])  # where the pairs of each state of the parent begin
        for q in range(pair_ptr[g + 1] - 1, pair_ptr[g] - 1, -1):
            begin[above[q]] = q
        for s in range(size - 1, -1, -1):
            begin[s] = min(begin[s], begin[s + 1])
        for row in range(len(Z)):
            left, chosen = uniform[row, g], -1
            if root:
                first, end = state_ptr[g], state_ptr[g + 1]
            else:
                first, end = begin[states[row, parent[g]]], begin[states[row, parent[g]] + 1]
            for k in range(first, end):
                p = score[k] if root else share[k]
                if p > 0.0:
                    chosen = k  # the last one with a positive share takes the rounding error
                left -= p
                if left < 0.0:
                    break
            if not root and pair[chosen] >= 0:
                Z[row, pair[chosen]] = 1.0
            states[row, g] = chosen - state_ptr[g] if root else below[chosen]
            Z[row, column[state_ptr[g] + states[row, g]]] = 1.0
    return -1
