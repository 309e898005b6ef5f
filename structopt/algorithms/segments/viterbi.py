"""Semi-Markov segmentations with segments of bounded length (docs/mathematics/oracles#chains-and-segments).

A label of n positions is a sequence of segments (start, length, state) that cover them; its score is

    init[s_1] + sum over segments of seg[start, length - 1, state] + sum over neighbours of T[s, s']

``-inf`` forbids; entries beyond the end (``start + length > n``) are not read. Two neighbours may have the same state.
Ties: the shortest segment first, then the smallest state, from left to right.
"""

from __future__ import annotations

import numpy as np

from structopt._jit import (
    BAD_NUMBER,
    INFEASIBLE,
    SOLVED,
    FloatArray,
    IntArray,
    fail,
    floats,
    kernel,
    unusable,
)
from structopt.algorithms.chain.loops import relax, workspace

__all__ = ["viterbi_batch"]

_NUMBERS = "a segment or transition score is NaN or +inf; scores are finite, or -inf where forbidden."
_EMPTY = "every segmentation is forbidden; allow a longer segment, a transition or an initial state."


def viterbi_batch(seg: FloatArray, ptr: IntArray, T: FloatArray, init: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the best segmentations, ``(length - 1) * S + state`` where a segment starts and -1 inside, and scores."""
    codes, values, status, index = _viterbi_batch(floats(seg, "seg", 3), ptr, T, init)
    if status:
        fail(status, _NUMBERS, _EMPTY, index)
    return codes, values


# A segmentation as decisions: code[start] = (length - 1) S + state, and -1 inside a segment. Two codes that agree up to
# a start differ there, so the lexicographic order of codes is the rule for ties.


@kernel
def _fill(
    seg: FloatArray,
    first: int,
    n: int,
    TT: FloatArray,
    B: FloatArray,
    M: FloatArray,
    chosen: IntArray,
) -> bool:
    """``B[t, s]``: best score of the positions t.. whose first segment has state s, without the transition into it;
    ``M[t, s]``: the same after a segment of state s. `chosen` is the shortest best length. False on NaN or +inf."""
    max_length, n_states = seg.shape[1], seg.shape[2]
    bad = False
    M[n] = 0.0
    for t in range(n - 1, -1, -1):
        B[t] = -np.inf
        for s in range(n_states):
            chosen[t, s] = 1
        for l in range(1, min(max_length, n - t) + 1):
            for s in range(n_states):
                score = seg[first + t, l - 1, s]
                bad |= not (score < np.inf)
                v = score + M[t + l, s]
                better = v > B[t, s]
                B[t, s] = v if better else B[t, s]
                chosen[t, s] = l if better else chosen[t, s]
        if t:
            relax(TT, B[t], M[t])
    return not bad


@kernel
def _pick(row: FloatArray, best_from: FloatArray, chosen: IntArray) -> int:
    """State of the best first segment: on ties the shortest, then the smallest state; -1 if all are forbidden."""
    best, arg = -np.inf, -1
    for s in range(row.size):
        v = row[s] + best_from[s]
        if v > best or (v == best and arg >= 0 and chosen[s] < chosen[arg]):
            best, arg = v, s
    return arg


@kernel
def _follow(T: FloatArray, init: FloatArray, B: FloatArray, chosen: IntArray, code: IntArray) -> bool:
    """Decode the best segmentation. False if all are forbidden."""
    n, n_states = code.size, init.size
    row, t = init, 0
    while t < n:
        s = _pick(row, B[t], chosen[t])
        if s < 0:
            return False
        l = chosen[t, s]
        code[t] = (l - 1) * n_states + s
        for q in range(t + 1, t + l):
            code[q] = -1
        t += l
        if t < n:
            row = T[s]
    return True


@kernel
def _score(seg: FloatArray, first: int, T: FloatArray, init: FloatArray, code: IntArray) -> float:
    n_states = init.size
    value, before = 0.0, -1
    for t in range(code.size):
        if code[t] < 0:
            continue
        s = code[t] % n_states
        value += seg[first + t, code[t] // n_states, s]
        value += init[s] if t == 0 else T[before, s]
        before = s
    return value


@kernel
def _viterbi_batch(
    seg: FloatArray, ptr: IntArray, T: FloatArray, init: FloatArray
) -> tuple[IntArray, FloatArray, int, int]:
    count = ptr.size - 1
    codes = np.empty(seg.shape[0], np.int64)
    values = np.empty(count)
    longest = 0
    for i in range(count):
        longest = max(longest, ptr[i + 1] - ptr[i])
    if unusable(T.ravel()) or unusable(init):
        return codes, values, BAD_NUMBER, -1
    TT, M = workspace(T[None], 0, longest + 1)
    B = np.empty((longest, TT.shape[0]))
    chosen = np.empty((longest, init.size), np.int64)
    for i in range(count):
        first, n = ptr[i], ptr[i + 1] - ptr[i]
        if not _fill(seg, first, n, TT, B, M, chosen):
            return codes, values, BAD_NUMBER, i
        code = codes[first : first + n]
        if not _follow(T, init, B, chosen, code):
            return codes, values, INFEASIBLE, i
        values[i] = _score(seg, first, T, init, code)
    return codes, values, SOLVED, -1
