"""Maximum spanning arborescences: dependency trees (docs/mathematics/oracles#arborescences).

Node 0 is the root; ``W[h, m]`` is the score of the arc from head h to modifier m; column 0 and the diagonal are not
read. A label gives the heads of the nodes 1 .. N - 1. ``-inf`` forbids an arc. Ties: the smallest head at every choice
of the algorithm, which is deterministic but no rule about the label.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt._jit import FloatArray, IntArray, fail, floats, integers
from structopt.algorithms.arborescence.loops import branch, solve, solve_batch
from structopt.algorithms.lawler import BoolArray, best_first, no_good_labels
from structopt.algorithms.lawler import k_best as lawler_k_best
from structopt.errors import DeclarationError

__all__ = ["arborescence", "arborescence_batch", "k_best"]

_NUMBERS = "an arc's score is NaN or +inf; scores are finite, or -inf where an arc is forbidden."
_EMPTY = "no arborescence avoids the forbidden arcs: some node cannot be reached from the root under these rules."


def arborescence(W: npt.ArrayLike, single_root: bool = False, projective: bool = False) -> tuple[IntArray, float]:
    """The best arborescence: Chu-Liu/Edmonds, or Eisner's algorithm if it must be projective.

    Parameters
    ----------
    W : array_like, shape (N, N)
        Scores by head and modifier.
    single_root : bool
        Whether exactly one node has the root as its head.
    projective : bool
        Whether arcs must not cross, with the nodes on a line and the root in front.

    Returns
    -------
    heads : ndarray of int64, shape (N - 1,)
        Head of node 1, 2, ...
    value : float

    Examples
    --------
    >>> W = np.zeros((4, 4))
    >>> W[0, 1:] = 5, 20, 18
    >>> W[1, 2:], W[2, [1, 3]], W[3, [1, 2]] = (11, 4), (10, 5), (9, 8)
    >>> heads, value = arborescence(W)
    >>> heads.tolist(), value
    ([2, 0, 0], 48.0)
    >>> heads, value = arborescence(W, single_root=True)
    >>> heads.tolist(), value
    ([3, 1, 0], 38.0)
    """
    scores = _check(W)
    heads, value, status = solve(scores, single_root, projective)
    if status:
        fail(status, _NUMBERS, _EMPTY)
    return heads, value


def arborescence_batch(
    W: npt.ArrayLike, sizes: npt.ArrayLike, single_root: bool = False, projective: bool = False
) -> tuple[IntArray, FloatArray]:
    """`arborescence` for many matrices of any size.

    Parameters
    ----------
    W : array_like, shape (sum of sizes squared,)
        The matrices, each flattened row by row, one after the other.
    sizes : array_like of int, shape (n,)
        Number of nodes of each, with the root.

    Returns
    -------
    heads : ndarray of int64, shape (sum of (size - 1),)
    values : ndarray, shape (n,)
    """
    scores, counts = floats(W, "W", 1), integers(sizes, "sizes", 1)
    # Squared in Python's integers, which do not overflow: a large size must not seem to fit.
    needed = sum(size * size for size in counts.tolist())
    if (counts < 1).any() or needed != scores.size:
        raise DeclarationError(f"W has {scores.size} entries; sizes, all of them positive, needs {needed}.")
    heads, values, status, index = solve_batch(scores, counts, single_root, projective)
    if status:
        fail(status, _NUMBERS, _EMPTY, index)
    return heads, values


def k_best(
    W: npt.ArrayLike,
    k: int,
    single_root: bool = False,
    projective: bool = False,
    forbid: npt.ArrayLike | None = None,
) -> tuple[IntArray, FloatArray]:
    """The k best arborescences that are not in a list of excluded ones, best first.

    Lawler's cells over the modifiers 1, 2, ...: N solves for each label.

    Returns
    -------
    heads : ndarray of int64, shape (m, N - 1), m <= k
    values : ndarray, shape (m,)

    Examples
    --------
    >>> W = np.array([[0, 5.0, 1], [0, 0, 2], [0, 4, 0]])
    >>> heads, values = k_best(W, 3)
    >>> heads.tolist(), values.tolist()
    ([[0, 1], [0, 0], [2, 0]], [7.0, 6.0, 5.0])
    """
    scores = _check(W)
    heads, value = arborescence(scores, single_root, projective)

    def cells(label: IntArray, position: int, forbidden: BoolArray) -> tuple[IntArray, FloatArray, IntArray]:
        return branch(scores, label, position, forbidden, single_root, projective)

    no_goods = no_good_labels(forbid, len(heads))
    labels, values = lawler_k_best(best_first(heads, value, cells, len(scores)), k, no_goods)
    return np.array(labels, dtype=np.int64).reshape(len(labels), len(heads)), values


def _check(W: npt.ArrayLike) -> FloatArray:
    scores = floats(W, "W", 2)
    if scores.shape[0] != scores.shape[1] or not scores.size:
        raise DeclarationError(f"W must be square with the root as node 0; it has shape {scores.shape}.")
    return scores
