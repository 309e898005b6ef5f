"""Chains: Viterbi, the k best and forward-backward sums (docs/mathematics/oracles).

A label of a chain of length L over S states has the score

    init[y_0] + sum_t U[t, y_t] + sum_t T[y_t, y_{t+1}]

Chains of a batch are stacked: chain i is ``U[ptr[i]:ptr[i + 1]]``, and one matrix `T` serves all steps. ``-inf``
anywhere forbids. Ties: the best label is the lexicographically smallest one (up to the rounding of equal sums); others
of equal value are in no given order.
"""

from __future__ import annotations

import numpy as np

from structopt._jit import FloatArray, IntArray, fail, floats
from structopt.algorithms.chain import loops, sums

__all__ = ["k_best", "marginals_batch", "viterbi_batch"]

NUMBERS = "a chain score is NaN or +inf; scores are finite, or -inf where a state or transition is forbidden."
EMPTY = "every state sequence of this chain is forbidden; allow a transition or an initial state."


def viterbi_batch(U: FloatArray, ptr: IntArray, T: FloatArray, init: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the best state sequences of stacked chains, and their scores."""
    y, values, status, index = loops.viterbi_batch(floats(U, "U", 2), ptr, T[None], init)
    if status:
        fail(status, NUMBERS, EMPTY, index if len(ptr) > 2 else -1)
    return y, values


def k_best(U: FloatArray, T: FloatArray, k: int, init: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the k best state sequences of one chain, best first, and their scores; step t has the scores ``T[t]``.

    Lawler's cells on the table of one backward pass (docs/mathematics/oracles#chains-and-segments), O(L S^2 + k L S).
    """
    labels, values, status = loops.k_best(floats(U, "U", 2), floats(T, "T", 3), init, k)
    if status:
        fail(status, NUMBERS, EMPTY)
    # Cells sum a prefix in another order than the table: the last bit may disagree with c . z.
    order = np.argsort(-values, kind="stable")
    return labels[order], values[order]


def marginals_batch(
    U: FloatArray, ptr: IntArray, T: FloatArray, init: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log Z, ``P(y_t = s)`` and the expected uses of each transition under ``exp(score) / Z`` of many chains."""
    log_z, node, transitions, status, index = sums.marginals_batch(floats(U, "U", 2), ptr, T, init)
    if status:
        fail(status, NUMBERS, EMPTY, index)
    return log_z, node, transitions
