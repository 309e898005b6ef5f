"""Semi-Markov segmentations with segments of bounded length (docs/mathematics/oracles#chains-and-segments).

A label of n positions is a sequence of segments (start, length, state) that cover them; its score is

    init[s_1] + sum over segments of seg[start, length - 1, state] + sum over neighbours of T[s, s']

``-inf`` forbids; what lies beyond the end (``start + length > n``) is not read. Two neighbours may have the same state.
Ties: the shortest segment first, then the smallest state, from left to right.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt._jit import (
    BAD_NUMBER,
    INFEASIBLE,
    SOLVED,
    FloatArray,
    IntArray,
    assign,
    fail,
    floats,
    integers,
    kernel,
    unusable,
)
from structopt.algorithms.chain.loops import relax, transpose, workspace
from structopt.algorithms.chain.viterbi import check_init, check_ptr, check_transitions
from structopt.algorithms.lawler import BoolArray, best_first
from structopt.algorithms.lawler import k_best as lawler_k_best
from structopt.errors import DeclarationError

__all__ = ["k_best", "viterbi_batch", "viterbi_points"]

_NUMBERS = "a segment or transition score is NaN or +inf; scores are finite, or -inf where forbidden."
_EMPTY = "every segmentation is forbidden; allow a longer segment, a transition or an initial state."


def viterbi_batch(
    seg: npt.ArrayLike, ptr: npt.ArrayLike, T: npt.ArrayLike, init: npt.ArrayLike | None = None
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the best segmentation and its score for each of many sequences.

    Parameters
    ----------
    seg : array_like, shape (positions of all sequences, max_length, S)
        ``seg[ptr[i]:ptr[i + 1]]`` is sequence i. ``seg[t, l - 1, s]`` is the score of a segment of state s over the
        positions t .. t + l - 1.
    ptr : array_like of int, shape (n + 1,)
    T : array_like, shape (S, S) or (number of boundaries, S, S)
        Scores of neighbouring states, one matrix for all boundaries between positions or one per boundary.
    init : array_like, shape (S,), optional
        Scores of the first segment's state.

    Returns
    -------
    segments : ndarray of int64, shape (number of segments, 2)
        Start (within its own sequence) and state.
    segment_ptr : ndarray of int64, shape (n + 1,)
        The segments of sequence i are ``segments[segment_ptr[i]:segment_ptr[i + 1]]``.
    values : ndarray, shape (n,)

    Examples
    --------
    >>> seg = [[[1, 0], [1.2, 0.4]], [[0, 0.5], [0.1, 1.5]], [[0.2, 0], [0, 0]]]
    >>> segments, _, values = viterbi_batch(seg, [0, 3], [[0.5, -1], [0, 0.3]])
    >>> segments.tolist(), values.round(12).tolist()
    ([[0, 0], [1, 0], [2, 0]], [2.2])
    """
    scores = floats(seg, "seg", 3)
    if not scores.size:
        raise DeclarationError("A segmentation needs at least one position, one length and one state.")
    bounds = check_ptr(ptr, len(scores))
    steps, stride = check_transitions(T, scores.shape[2], len(scores) - len(bounds) + 1)
    start = check_init(init, scores.shape[2])
    segments, segment_ptr, values, status, index = _viterbi_batch(scores, bounds, steps, stride, start)
    if status:
        fail(status, _NUMBERS, _EMPTY, index)
    return segments, segment_ptr, values


def k_best(
    seg: npt.ArrayLike,
    T: npt.ArrayLike,
    k: int,
    init: npt.ArrayLike | None = None,
    forbid: list[npt.ArrayLike] | None = None,
) -> tuple[list[IntArray], FloatArray]:
    """The k best segmentations that are not in a list of excluded ones, best first.

    Parameters
    ----------
    seg, T, init :
        As in `viterbi_batch`, for one sequence.
    k : int
    forbid : list of array_like of int, shape (m, 2), optional
        Segmentations to leave out.

    Returns
    -------
    segmentations : list of ndarray of int64, shape (m, 2)
    values : ndarray

    Examples
    --------
    >>> seg = [[[1, 0], [1.2, 0.4]], [[0, 0.5], [0.1, 1.5]], [[0.2, 0], [0, 0]]]
    >>> labels, values = k_best(seg, [[0.5, -1], [0, 0.3]], 2)
    >>> labels[1].tolist(), values.round(12).tolist()
    ([[0, 0], [2, 0]], [2.2, 1.9])
    """
    scores, steps, stride, start = _check(seg, T, init)
    n, max_length, n_states = scores.shape
    B, M, chosen, status = _tables(scores, steps, stride, start)
    code, value = np.empty(n, np.int64), 0.0
    if not status:
        value, status = _first(scores, steps, stride, start, B, chosen, code)
    if status:
        fail(status, _NUMBERS, _EMPTY)

    def branch(label: IntArray, position: int, forbidden: BoolArray) -> tuple[IntArray, FloatArray, IntArray]:
        return _branch(scores, steps, stride, start, B, M, chosen, label, position, forbidden)

    no_goods = {_encode(label, n, n_states) for label in forbid or ()}
    codes, values = lawler_k_best(best_first(code, value, branch, max_length * n_states), k, no_goods)
    return [_decode(label, n_states) for label in codes], values


def _check(
    seg: npt.ArrayLike, T: npt.ArrayLike, init: npt.ArrayLike | None
) -> tuple[FloatArray, FloatArray, int, FloatArray]:
    scores = floats(seg, "seg", 3)
    if not scores.size:
        raise DeclarationError("A segmentation needs at least one position, one length and one state.")
    n, _, n_states = scores.shape
    steps, stride = check_transitions(T, n_states, n - 1)
    return scores, steps, stride, check_init(init, n_states)


# A segmentation as decisions: code[start] = (length - 1) S + state, and -1 inside a segment. Two codes that agree up to
# a start differ there, so the lexicographic order of codes is the rule for ties.


def _encode(segments: npt.ArrayLike, n: int, n_states: int) -> tuple[int, ...]:
    pairs = integers(segments, "forbid", 2)
    if pairs.shape[1] != 2 or len(pairs) < 1 or pairs[0, 0] != 0 or (np.diff(pairs[:, 0], append=n) < 1).any():
        raise DeclarationError(f"An excluded segmentation has rows (start, state), starts rising from 0 to {n - 1}.")
    code = np.full(n, -1, np.int64)
    code[pairs[:, 0]] = (np.diff(pairs[:, 0], append=n) - 1) * n_states + pairs[:, 1]
    return tuple(code.tolist())


def _decode(code: IntArray, n_states: int) -> IntArray:
    starts = np.flatnonzero(code >= 0)
    return np.stack([starts, code[starts] % n_states], axis=1)


@kernel
def _fill(
    seg: FloatArray,
    first: int,
    n: int,
    T: FloatArray,
    stride: int,
    t0: int,
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
            if stride:
                transpose(T[t0 + t - 1], TT)
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
def _follow(
    T: FloatArray, stride: int, t0: int, init: FloatArray, B: FloatArray, chosen: IntArray, t: int, code: IntArray
) -> bool:
    """Decode from position t on (a start; the segment before it, if any, is in `code`). False if nothing is allowed.

    At the end, t = n, there is nothing left to decode, and no transition into it to read.
    """
    n, n_states = code.size, init.size
    row = init
    if 0 < t < n:
        before = t - 1
        while code[before] < 0:
            before -= 1
        row = T[stride * (t0 + t - 1), code[before] % n_states]
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
            row = T[stride * (t0 + t - 1), s]
    return True


@kernel
def _score(seg: FloatArray, first: int, T: FloatArray, stride: int, t0: int, init: FloatArray, code: IntArray) -> float:
    n_states = init.size
    value, before = 0.0, -1
    for t in range(code.size):
        if code[t] < 0:
            continue
        s = code[t] % n_states
        value += seg[first + t, code[t] // n_states, s]
        value += init[s] if t == 0 else T[stride * (t0 + t - 1), before, s]
        before = s
    return value


@kernel
def _tables(
    seg: FloatArray, T: FloatArray, stride: int, init: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray, int]:
    n = seg.shape[0]
    TT, M = workspace(T, stride, n + 1)
    B = np.empty((n, TT.shape[0]))
    chosen = np.empty((n, init.size), np.int64)
    if unusable(T.ravel()) or unusable(init) or not _fill(seg, 0, n, T, stride, 0, TT, B, M, chosen):
        return B, M, chosen, BAD_NUMBER
    return B, M, chosen, SOLVED


@kernel
def _first(
    seg: FloatArray,
    T: FloatArray,
    stride: int,
    init: FloatArray,
    B: FloatArray,
    chosen: IntArray,
    code: IntArray,
) -> tuple[float, int]:
    if not _follow(T, stride, 0, init, B, chosen, 0, code):
        return -np.inf, INFEASIBLE
    return _score(seg, 0, T, stride, 0, init, code), SOLVED


@kernel
def _list(code: IntArray, n_states: int, out: IntArray) -> int:
    m = 0
    for t in range(code.size):
        if code[t] >= 0:
            out[m, 0], out[m, 1] = t, code[t] % n_states
            m += 1
    return m


@kernel
def _viterbi_batch(
    seg: FloatArray, ptr: IntArray, T: FloatArray, stride: int, init: FloatArray
) -> tuple[IntArray, IntArray, FloatArray, int, int]:
    count = ptr.size - 1
    segments = np.empty((seg.shape[0], 2), np.int64)
    segment_ptr = np.zeros(count + 1, np.int64)
    values = np.empty(count)
    longest = 0
    for i in range(count):
        longest = max(longest, ptr[i + 1] - ptr[i])
    if unusable(T.ravel()) or unusable(init):
        return segments, segment_ptr, values, BAD_NUMBER, -1
    TT, M = workspace(T, stride, longest + 1)
    B = np.empty((longest, TT.shape[0]))
    chosen = np.empty((longest, init.size), np.int64)
    scratch = np.empty(longest, np.int64)
    for i in range(count):
        first, n = ptr[i], ptr[i + 1] - ptr[i]
        t0 = first - i
        if not _fill(seg, first, n, T, stride, t0, TT, B, M, chosen):
            return segments, segment_ptr, values, BAD_NUMBER, i
        code = scratch[:n]
        if not _follow(T, stride, t0, init, B, chosen, 0, code):
            return segments, segment_ptr, values, INFEASIBLE, i
        values[i] = _score(seg, first, T, stride, t0, init, code)
        segment_ptr[i + 1] = segment_ptr[i] + _list(code, init.size, segments[segment_ptr[i] :])
    return segments[: segment_ptr[count]], segment_ptr, values, SOLVED, -1


@kernel
def viterbi_points(
    C: FloatArray,
    max_length: int,
    at: IntArray,
    forbidden: FloatArray,
    init: FloatArray,
    Z: FloatArray,
    values: FloatArray,
) -> bool:
    """Write the best points and their values for the objectives in the rows of C; False if no label is allowed.

    ``at`` has the ends of the blocks segment, transition, initial and length. An absent block is empty.
    """
    n_states = init.size
    n = 1 + (at[1] - at[0]) // (n_states * n_states)
    seg, T = np.empty((n, max_length, n_states)), np.empty((max(1, n - 1), n_states, n_states))
    TT, M = workspace(T, 1, n + 1)
    B, chosen = np.empty((n, TT.shape[0])), np.empty((n, n_states), np.int64)
    code = np.empty(n, np.int64)
    has_initial, has_length = at[2] > at[1], at[3] > at[2]
    for i in range(C.shape[0]):
        q = 0
        for t in range(n):
            for l in range(min(max_length, n - t)):
                for s in range(n_states):
                    seg[t, l, s] = C[i, q]
                    if has_length:
                        seg[t, l, s] += C[i, at[2] + l * n_states + s]
                    if has_initial and t == 0:
                        seg[t, l, s] += C[i, at[1] + s]
                    q += 1
        for t in range(n - 1):
            for before in range(n_states):
                for s in range(n_states):
                    T[t, before, s] = C[i, q] + forbidden[before, s]
                    q += 1
        _fill(seg, 0, n, T, 1, 0, TT, B, M, chosen)
        if not _follow(T, 1, 0, init, B, chosen, 0, code):
            return False
        values[i] = _score(seg, 0, T, 1, 0, init, code)
        row, before, q = 0, -1, 0
        for t in range(n):
            if code[t] >= 0:
                l, s = code[t] // n_states, code[t] % n_states
                Z[i, (row + l) * n_states + s] = 1.0
                if before >= 0:
                    Z[i, at[0] + ((t - 1) * n_states + before) * n_states + s] = 1.0
                elif has_initial:
                    Z[i, at[1] + s] = 1.0
                if has_length:
                    Z[i, at[2] + l * n_states + s] += 1.0
                before = s
            row += min(max_length, n - t)
    return True


@kernel
def _branch(
    seg: FloatArray,
    T: FloatArray,
    stride: int,
    init: FloatArray,
    B: FloatArray,
    M: FloatArray,
    chosen: IntArray,
    label: IntArray,
    position: int,
    forbidden: BoolArray,
) -> tuple[IntArray, FloatArray, IntArray]:
    """The new cells of `lawler.best_first`: one for every start from `position` on."""
    n, max_length, n_states = seg.shape
    labels = np.empty((n - position, n), np.int64)
    values = np.full(n - position, -np.inf)
    positions = np.empty(n - position, np.int64)
    cells, before = 0, 0
    for q in range(position):
        if label[q] >= 0:
            before = label[q] % n_states
    for q in range(position, n):
        if label[q] < 0:
            continue
        row = init if q == 0 else T[stride * (q - 1), before]
        best, arg = -np.inf, -1
        for l in range(1, min(max_length, n - q) + 1):
            for s in range(n_states):
                code = (l - 1) * n_states + s
                if code == label[q] or (q == position and forbidden[code]):
                    continue
                v = row[s] + (seg[q, l - 1, s] + M[q + l, s])
                if v > best:
                    best, arg = v, code
        before = label[q] % n_states
        positions[cells] = q
        if arg >= 0:
            out = labels[cells]
            assign(out[:q], label)
            out[q] = arg
            end = q + arg // n_states + 1
            out[q + 1 : end] = -1
            _follow(T, stride, 0, init, B, chosen, end, out)
            values[cells] = _score(seg, 0, T, stride, 0, init, out)
        cells += 1
    return labels[:cells], values[:cells], positions[:cells]
