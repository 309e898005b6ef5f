"""Chains: Viterbi, the k best, forward-backward sums and the loss-indexed Pareto front (docs/mathematics/oracles).

A label of a chain of length L over S states has the score

    init[y_0] + sum_t U[t, y_t] + sum_t T[y_t, y_{t+1}]

`T` is one (S, S) matrix, or one per step, (L - 1, S, S); in a batch those are stacked like `U`, chain after chain.
``-inf`` anywhere forbids. Ties: the lexicographically smallest label (up to the rounding of equal sums).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt._jit import FloatArray, IntArray, as_array, check_front, fail, floats, integers
from structopt.algorithms.chain import loops, sums
from structopt.errors import DeclarationError

__all__ = ["in_units", "k_best", "loss_front", "marginals_batch", "viterbi", "viterbi_batch"]

NUMBERS = "a chain score is NaN or +inf; scores are finite, or -inf where a state or transition is forbidden."
# Losses that are multiples of one of these fractions of the smallest loss are counted in whole units.
_FRACTIONS = range(1, 13)
EMPTY = "every state sequence of this chain is forbidden; allow a transition or an initial state."


def viterbi(U: npt.ArrayLike, T: npt.ArrayLike, init: npt.ArrayLike | None = None) -> tuple[IntArray, float]:
    """The best state sequence of one chain and its score.

    Parameters
    ----------
    U : array_like, shape (L, S)
        Scores of the states by position.
    T : array_like, shape (S, S) or (L - 1, S, S)
        Scores of the transitions, row = from.
    init : array_like, shape (S,), optional
        Scores of the first state.

    Returns
    -------
    y : ndarray of int64, shape (L,)
    value : float

    Examples
    --------
    >>> y, value = viterbi([[1, 0], [0, 0.5], [0.2, 0]], [[0.5, -1], [0, 0.3]])
    >>> y.tolist(), round(value, 12)
    ([0, 0, 0], 2.2)
    """
    unary, steps, stride, start = _check(U, T, init)
    y, value, status = loops.viterbi(unary, steps, stride, start)
    if status:
        fail(status, NUMBERS, EMPTY)
    return y, value


def viterbi_batch(
    U: npt.ArrayLike, ptr: npt.ArrayLike, T: npt.ArrayLike, init: npt.ArrayLike | None = None
) -> tuple[IntArray, FloatArray]:
    """`viterbi` for many chains in one call.

    Parameters
    ----------
    U : array_like, shape (sum of lengths, S)
        The chains, one after the other.
    ptr : array_like of int, shape (n + 1,)
        Chain i is ``U[ptr[i]:ptr[i + 1]]``.
    T : array_like, shape (S, S) or (sum of (length - 1), S, S)
        Shared by all chains, or one matrix per step.
    init : array_like, shape (S,), optional

    Returns
    -------
    y : ndarray of int64, shape (sum of lengths,)
    values : ndarray, shape (n,)

    Examples
    --------
    >>> y, values = viterbi_batch([[1, 0], [0, 0.5], [0.2, 0], [0, 1]], [0, 3, 4], [[0.5, -1], [0, 0.3]])
    >>> y.tolist(), values.round(12).tolist()
    ([0, 0, 0, 1], [2.2, 1.0])
    """
    unary, bounds, steps, stride, start = _check_batch(U, ptr, T, init)
    y, values, status, index = loops.viterbi_batch(unary, bounds, steps, stride, start)
    if status:
        fail(status, NUMBERS, EMPTY, index)
    return y, values


def k_best(
    U: npt.ArrayLike,
    T: npt.ArrayLike,
    k: int,
    init: npt.ArrayLike | None = None,
    forbid: npt.ArrayLike | None = None,
) -> tuple[IntArray, FloatArray]:
    """The k best state sequences that are not in a list of excluded ones, best first.

    Lawler's cells on the table of one backward pass (docs/mathematics/oracles#chains-and-segments), O(L S^2 + k L S).

    Parameters
    ----------
    U, T, init :
        As in `viterbi`.
    k : int
        How many; fewer are returned if the chain has fewer.
    forbid : array_like of int, shape (n_no_goods, L), optional
        Sequences to leave out.

    Returns
    -------
    labels : ndarray of int64, shape (m, L), m <= k
    values : ndarray, shape (m,)

    Examples
    --------
    >>> labels, values = k_best([[1, 0], [0, 0.5], [0.2, 0]], [[0.5, -1], [0, 0.3]], 2, forbid=[[0, 0, 0]])
    >>> labels.tolist(), values.round(12).tolist()
    ([[1, 1, 1], [1, 1, 0]], [1.1, 1.0])
    """
    unary, steps, stride, start = _check(U, T, init)
    if k < 1:
        raise DeclarationError(f"k must be at least 1, not {k}.")
    length = unary.shape[0]
    no_goods = np.empty((0, length), np.int64) if forbid is None else integers(forbid, "forbid", 2)
    if no_goods.shape[1] != length:
        raise DeclarationError(f"forbid has sequences of length {no_goods.shape[1]}; the chain has length {length}.")
    labels, values, status = loops.k_best(unary, steps, stride, start, k, no_goods)
    if status:
        fail(status, NUMBERS, EMPTY)
    # Cells sum a prefix in another order than the table: the last bit may disagree with c . z.
    order = np.argsort(-values, kind="stable")
    return labels[order], values[order]


def marginals_batch(
    U: npt.ArrayLike, ptr: npt.ArrayLike, T: npt.ArrayLike, init: npt.ArrayLike | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log-partition functions and marginals of the distributions proportional to exp(score) of many chains.

    Returns
    -------
    log_z : ndarray, shape (n,)
    node : ndarray, shape (sum of lengths, S)
        ``P(y_t = s)``.
    transitions : ndarray, shape (n, S, S)
        Expected number of times that each transition is used.

    Examples
    --------
    >>> log_z, node, _ = marginals_batch([[1, 0], [0, 0.5], [0.2, 0]], [0, 3], [[0.5, -1], [0, 0.3]])
    >>> round(float(log_z[0]), 9), round(float(node[0, 0]), 7)
    (3.136237783, 0.6479106)
    """
    unary, bounds, steps, stride, start = _check_batch(U, ptr, T, init)
    log_z, node, transitions, status, index = sums.marginals_batch(unary, bounds, steps, stride, start)
    if status:
        fail(status, NUMBERS, EMPTY, index)
    return log_z, node, transitions


def loss_front(
    U: npt.ArrayLike, T: npt.ArrayLike, loss: npt.ArrayLike, init: npt.ArrayLike | None = None
) -> tuple[FloatArray, IntArray]:
    """The best score for every value of an integer loss (docs/mathematics/oracles#loss-indexed-pareto-fronts).

    For every psi(h, g) that does not decrease in h, ``max_e psi(values[e], e)`` is the exact maximum of psi over
    all sequences: most-violated labels of slack rescaling and every bi-criteria surrogate without a search.

    Parameters
    ----------
    U, T, init :
        As in `viterbi`.
    loss : array_like of int, shape (L,) or (L, S)
        The true sequence, for the Hamming loss; or the loss of each state at each position, integers >= 0.

    Returns
    -------
    values : ndarray, shape (E + 1,)
        ``values[e]`` is the best score with loss exactly e; ``-inf`` where there is none.
    labels : ndarray of int64, shape (E + 1, L)
        A sequence that attains it; -1 where there is none.

    Examples
    --------
    >>> values, labels = loss_front([[1, 0], [0, 0.5], [0.2, 0]], [[0.5, -1], [0, 0.3]], [0, 0, 0])
    >>> values.round(12).tolist(), labels.tolist()
    ([2.2, 0.7, 1.0, 1.1], [[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1]])
    """
    unary, steps, stride, start = _check(U, T, init)
    table = _loss_table(loss, *unary.shape)
    check_front(table.max(axis=1), unary.size)
    values, labels, status = loops.loss_front(unary, steps, stride, start, table)
    if status:
        fail(status, NUMBERS, EMPTY)
    return values, labels


def in_units(g: FloatArray, present: npt.NDArray[np.bool_] | None = None) -> IntArray | None:
    """A loss by position and state as whole numbers from 0, or None if it does not count in units.

    Every position has exactly one state, so that a position's smallest loss is a constant and may be left out. States
    that are not `present` count 0.

    Examples
    --------
    >>> in_units(np.array([[0.5, 0.0], [1.0, 2.5]])).tolist()
    [[1, 0], [0, 3]]
    """
    known = np.ones(g.shape, dtype=np.bool_) if present is None else present
    above = np.where(known, g - np.where(known, g, np.inf).min(axis=1, keepdims=True), 0.0)
    smallest = above[above > 1e-12 * np.abs(g).max(initial=0.0)].min(initial=np.inf)
    if not np.isfinite(smallest):
        return np.zeros(g.shape, dtype=np.int64)
    for parts in _FRACTIONS:
        units = above * (parts / smallest)
        whole = np.rint(units)
        if (np.abs(units - whole) <= 1e-9 * np.maximum(whole, 1.0)).all():
            return np.asarray(whole, dtype=np.int64)
    return None


def _loss_table(loss: npt.ArrayLike, length: int, n_states: int) -> IntArray:
    given = as_array(loss, "loss")
    if given.ndim == 1:
        truth = integers(given, "loss", 1)
        if truth.shape[0] != length or (truth < 0).any() or (truth >= n_states).any():
            raise DeclarationError(f"The true sequence must hold {length} states in 0..{n_states - 1}.")
        table: IntArray = (np.arange(n_states) != truth[:, None]).astype(np.int64)
        return table
    table = integers(given, "loss", 2)
    if table.shape != (length, n_states) or (table < 0).any():
        raise DeclarationError(f"loss must hold integers >= 0 in shape ({length}, {n_states}).")
    return table


def _check(
    U: npt.ArrayLike, T: npt.ArrayLike, init: npt.ArrayLike | None
) -> tuple[FloatArray, FloatArray, int, FloatArray]:
    unary = floats(U, "U", 2)
    length, n_states = unary.shape
    if not length or not n_states:
        raise DeclarationError("A chain needs at least one position and one state.")
    steps, stride = check_transitions(T, n_states, length - 1)
    return unary, steps, stride, check_init(init, n_states)


def _check_batch(
    U: npt.ArrayLike, ptr: npt.ArrayLike, T: npt.ArrayLike, init: npt.ArrayLike | None
) -> tuple[FloatArray, IntArray, FloatArray, int, FloatArray]:
    unary = floats(U, "U", 2)
    bounds = check_ptr(ptr, len(unary))
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
