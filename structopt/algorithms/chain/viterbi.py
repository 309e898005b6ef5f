"""Chains: Viterbi, the k best and forward-backward sums (docs/mathematics/oracles).

A label of a chain of length L over S states has the score

    init[y_0] + sum_t U[t, y_t] + sum_t T[y_t, y_{t+1}]

`T` is one (S, S) matrix, or one per step, (L - 1, S, S); in a batch those are stacked like `U`, chain after chain.
``-inf`` anywhere forbids. Ties: the lexicographically smallest label (up to the rounding of equal sums).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt._jit import FloatArray, IntArray, as_array, fail, floats, integers
from structopt.algorithms.chain import loops, sums
from structopt.errors import DeclarationError

__all__ = ["k_best", "marginals_batch", "viterbi_batch"]

NUMBERS = "a chain score is NaN or +inf; scores are finite, or -inf where a state or transition is forbidden."
EMPTY = "every state sequence of this chain is forbidden; allow a transition or an initial state."


def viterbi_batch(
    U: npt.ArrayLike, ptr: npt.ArrayLike, T: npt.ArrayLike, init: npt.ArrayLike | None = None
) -> tuple[IntArray, FloatArray]:
    """The best state sequences of chains and their scores; chain i is ``U[ptr[i]:ptr[i + 1]]``."""
    unary, bounds, steps, stride, start = _check(U, ptr, T, init)
    y, values, status, index = loops.viterbi_batch(unary, bounds, steps, stride, start)
    if status:
        fail(status, NUMBERS, EMPTY, index)
    return y, values


def k_best(
    U: npt.ArrayLike, T: npt.ArrayLike, k: int, init: npt.ArrayLike | None = None
) -> tuple[IntArray, FloatArray]:
    """Return the k best state sequences, best first, and their scores; fewer if the chain has fewer.

    Lawler's cells on the table of one backward pass (docs/mathematics/oracles#chains-and-segments), O(L S^2 + k L S).
    """
    unary, _, steps, stride, start = _check(U, None, T, init)
    if k < 1:
        raise DeclarationError(f"k must be at least 1, not {k}.")
    labels, values, status = loops.k_best(unary, steps, stride, start, k)
    if status:
        fail(status, NUMBERS, EMPTY)
    # Cells sum a prefix in another order than the table: the last bit may disagree with c . z.
    order = np.argsort(-values, kind="stable")
    return labels[order], values[order]


def marginals_batch(
    U: npt.ArrayLike, ptr: npt.ArrayLike, T: npt.ArrayLike, init: npt.ArrayLike | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log Z, ``P(y_t = s)`` and the expected uses of each transition under ``exp(score) / Z`` of many chains."""
    unary, bounds, steps, stride, start = _check(U, ptr, T, init)
    log_z, node, transitions, status, index = sums.marginals_batch(unary, bounds, steps, stride, start)
    if status:
        fail(status, NUMBERS, EMPTY, index)
    return log_z, node, transitions


def _check(
    U: npt.ArrayLike, ptr: npt.ArrayLike | None, T: npt.ArrayLike, init: npt.ArrayLike | None
) -> tuple[FloatArray, IntArray, FloatArray, int, FloatArray]:
    unary = floats(U, "U", 2)
    bounds = check_ptr([0, len(unary)] if ptr is None else ptr, len(unary))
    if not unary.shape[1]:
        raise DeclarationError("A chain needs at least one state.")
    steps, stride = check_transitions(T, unary.shape[1], len(unary) - len(bounds) + 1)
    return unary, bounds, steps, stride, check_init(init, unary.shape[1])


def check_ptr(ptr: npt.ArrayLike, n_rows: int) -> IntArray:
    """The bounds of stacked sequences, each of at least one position."""
    bounds = integers(ptr, "ptr", 1)
    if len(bounds) < 1 or bounds[0] != 0 or bounds[-1] != n_rows or (np.diff(bounds) < 1).any():
        raise DeclarationError(f"ptr must rise from 0 to the {n_rows} stacked rows, by at least one position each.")
    return bounds


def check_transitions(T: npt.ArrayLike, n_states: int, n_steps: int) -> tuple[FloatArray, int]:
    """Transitions as (steps, S, S) and how far step t + 1 is from step t: 0 for one shared matrix."""
    given = as_array(T, "T")
    shared = given.ndim == 2
    steps = floats(given[None] if shared else given, "T", 3)
    if steps.shape[1] != n_states or steps.shape[2] != n_states:
        raise DeclarationError(f"U has {n_states} states, so T must be {n_states} x {n_states}; it is {given.shape}.")
    if not shared and steps.shape[0] != n_steps:
        raise DeclarationError(f"T has {steps.shape[0]} steps; the chains have {n_steps}.")
    return steps, 0 if shared else 1


def check_init(init: npt.ArrayLike | None, n_states: int) -> FloatArray:
    """Scores of the first state, zero by default."""
    if init is None:
        return np.zeros(n_states)
    start = floats(init, "init", 1)
    if start.shape[0] != n_states:
        raise DeclarationError(f"init has {start.shape[0]} states; U has {n_states}.")
    return start
