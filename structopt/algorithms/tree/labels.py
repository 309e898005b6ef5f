"""Labels of a tree or forest by dynamic programs, O(nodes) (docs/mathematics/oracles, docs/mathematics/hierarchies).

Nodes are numbered parent before child; ``parent[i] < i``, and -1 marks a root. Two kinds of label:

- *needed child*: a set of nodes in which a chosen node's parent is chosen, a chosen internal node has a chosen child,
  and some root is chosen (or, with `every_root`, all of them: independent trees side by side); ties leave children
  of value 0 out unless one is needed, then the first best is taken;
- *single leaf*: one leaf with all its ancestors; the first best leaf on ties.

Batches are in (nodes, examples) layout, so that the inner loop runs over examples and vectorises.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import numpy.typing as npt

from structopt._jit import BAD_NUMBER, SOLVED, FloatArray, IntArray, fail, floats, integers, kernel
from structopt.algorithms.lawler import BoolArray, best_first, no_good_labels
from structopt.algorithms.lawler import k_best as lawler_k_best
from structopt.errors import DeclarationError

__all__ = ["best_leaf_batch", "k_best", "needed_child", "needed_child_batch"]

_NUMBERS = "a node's gain is not finite."
_ORDER = "parent must have one entry a node, with parent[i] < i and -1 at a root: number parents before children."
_PARENTS = 2
# Examples at a time: four tables of this width fit the cache for a few thousand nodes.
_BLOCK = 16


def needed_child(gain: npt.ArrayLike, parent: npt.ArrayLike, *, every_root: bool = False) -> tuple[BoolArray, float]:
    """The best set of nodes in which every chosen internal node has a chosen child.

    Parameters
    ----------
    gain : array_like, shape (n,)
        Gain r of choosing each node.
    parent : array_like of int, shape (n,)
    every_root : bool
        Whether all roots are chosen, as in several trees side by side; otherwise at least one of them is.

    Returns
    -------
    chosen : ndarray of bool, shape (n,)
    value : float

    Examples
    --------
    >>> chosen, value = needed_child([-1, 0.5, -2, -0.3, -0.4], [-1, 0, 0, 1, 1])
    >>> np.flatnonzero(chosen).tolist(), round(value, 12)
    ([0, 1, 3], -0.8)
    >>> needed_child([3, -2], [-1, -1])[1], needed_child([3, -2], [-1, -1], every_root=True)[1]
    (3.0, 1.0)
    """
    r, up = floats(gain, "gain", 1), integers(parent, "parent", 1)
    chosen, value, status = _needed_child(r, up, every_root)
    if status:
        fail_tree(status)
    return chosen, value


def needed_child_batch(
    gain: npt.ArrayLike, parent: npt.ArrayLike, *, every_root: bool = False
) -> tuple[BoolArray, FloatArray]:
    """`needed_child` for the columns of `gain`.

    Parameters
    ----------
    gain : array_like, shape (n, n_examples)
    parent : array_like of int, shape (n,)
    every_root : bool
        As in `needed_child`.

    Returns
    -------
    chosen : ndarray of bool, shape (n, n_examples)
    values : ndarray, shape (n_examples,)

    Examples
    --------
    >>> gain = np.array([[-1, 0.2], [0.5, -3], [-2, 1], [-0.3, 1], [-0.4, 2]])
    >>> needed_child_batch(gain, [-1, 0, 0, 1, 1])[1].round(12).tolist()
    [-0.8, 1.2]
    """
    r, up = floats(gain, "gain", 2), integers(parent, "parent", 1)
    chosen, values, status = _needed_child_batch(r, up, every_root)
    if status:
        fail_tree(status)
    return chosen, values


def best_leaf_batch(gain: npt.ArrayLike, parent: npt.ArrayLike) -> tuple[IntArray, FloatArray]:
    """Return the leaf whose path from a root has the largest sum of gains, and that sum, for each column of `gain`.

    Parameters
    ----------
    gain : array_like, shape (n, n_examples)
    parent : array_like of int, shape (n,)

    Returns
    -------
    leaves : ndarray of int64, shape (n_examples,)
    values : ndarray, shape (n_examples,)

    Examples
    --------
    >>> leaves, values = best_leaf_batch([[0.25], [1], [0], [0.5], [2]], [-1, 0, 0, 1, 1])
    >>> leaves.tolist(), values.tolist()
    ([4], [3.25])
    """
    r, up = floats(gain, "gain", 2), integers(parent, "parent", 1)
    leaves, values, status = _best_leaf_batch(r, up)
    if status:
        fail_tree(status)
    return leaves, values


def k_best(
    gain: npt.ArrayLike,
    parent: npt.ArrayLike,
    k: int,
    forbid: npt.ArrayLike | None = None,
    *,
    every_root: bool = False,
) -> tuple[BoolArray, FloatArray]:
    """The k best needed-child sets that are not in a list of excluded ones, best first; O(n^2) for each.

    Parameters
    ----------
    gain, parent :
        As in `needed_child`.
    k : int
    forbid : array_like, shape (n_no_goods, n), optional
        0/1 rows to leave out.
    every_root : bool
        As in `needed_child`.

    Returns
    -------
    chosen : ndarray of bool, shape (m, n), m <= k
    values : ndarray, shape (m,)

    Examples
    --------
    >>> chosen, values = k_best([-1, 0.5, -2, -0.3, -0.4], [-1, 0, 0, 1, 1], 3)
    >>> values.round(12).tolist()
    [-0.8, -0.9, -1.2]
    """
    r, up = floats(gain, "gain", 1), integers(parent, "parent", 1)
    first, value = needed_child(r, up, every_root=every_root)

    def branch(label: IntArray, position: int, forbidden: BoolArray) -> tuple[IntArray, FloatArray, IntArray]:
        return _branch(r, up, label, position, forbidden, every_root)

    no_goods = no_good_labels(forbid, len(r))
    labels, values = lawler_k_best(best_first(first.astype(np.int64), value, branch, 2), k, no_goods)
    chosen = np.array(labels, dtype=np.bool_).reshape(len(labels), len(r))
    return chosen, values


def fail_tree(status: int) -> NoReturn:
    """Raise the error of a kernel's status."""
    if status == _PARENTS:
        raise DeclarationError(_ORDER)
    fail(BAD_NUMBER, _NUMBERS, "")


@kernel
def refused(r: FloatArray, parent: IntArray) -> int:
    """Status of the input; the arrays are indexed by `parent` without further checks."""
    n = parent.size
    if r.shape[0] != n or n == 0:
        return _PARENTS
    wrong = False
    for i in range(n):
        wrong |= parent[i] >= i or parent[i] < -1
    if wrong:
        return _PARENTS
    flat = r.ravel()
    bad = False
    for i in range(flat.size):
        bad |= not (abs(flat[i]) < np.inf)
    return BAD_NUMBER if bad else SOLVED


@kernel
def _needed_child(r: FloatArray, parent: IntArray, every_root: bool) -> tuple[BoolArray, float, int]:
    n = parent.size
    chosen = np.empty(n, np.bool_)
    status = refused(r, parent)
    if status:
        return chosen, np.nan, status
    # Slot n is a virtual root of gain 0 above every root: a forest is a tree, and with one root that root is needed.
    x, s, m = np.empty(n), np.zeros(n + 1), np.full(n + 1, -np.inf)
    for i in range(n - 1, -1, -1):
        p = parent[i] if parent[i] >= 0 else n
        below = s[i] if s[i] > 0.0 else m[i]
        v = r[i] + (0.0 if m[i] == -np.inf else below)
        x[i] = v
        s[p] += v if v > 0.0 else 0.0
        m[p] = v if v > m[p] else m[p]
    value = 0.0
    for i in range(n):
        p = parent[i] if parent[i] >= 0 else n
        above = True if p == n else chosen[p]
        pick = s[p] <= 0.0 and x[i] == m[p]
        # Only the first best child is picked: no later one equals +inf.
        m[p] = np.inf if pick else m[p]
        chosen[i] = above and (x[i] > 0.0 or pick or (p == n and every_root))
        value += r[i] if chosen[i] else 0.0
    return chosen, value, SOLVED


@kernel
def _needed_child_batch(r: FloatArray, parent: IntArray, every_root: bool) -> tuple[BoolArray, FloatArray, int]:
    """The passes of `_needed_child`, each a short loop over examples with few arrays, so that it vectorises."""
    n, total = r.shape
    chosen = np.empty((n, total), np.bool_)
    values = np.zeros(total)
    status = refused(r, parent)
    if status:
        return chosen, values, status
    width = max(1, min(_BLOCK, total))
    x, s, m = np.empty((n, width)), np.empty((n + 1, width)), np.empty((n + 1, width))
    # The child that is taken if none is positive; kept as a float, since mixed types do not vectorise.
    spare = np.full((n + 1, width), -1.0)
    for first in range(0, total, width):
        size = min(width, total - first)
        s[:] = 0.0
        m[:] = -np.inf
        for i in range(n - 1, -1, -1):
            p = parent[i] if parent[i] >= 0 else n
            for e in range(size):
                below = s[i, e] if s[i, e] > 0.0 else m[i, e]
                v = r[i, first + e] + (0.0 if m[i, e] == -np.inf else below)
                x[i, e] = v
                s[p, e] += v if v > 0.0 else 0.0
                m[p, e] = v if v > m[p, e] else m[p, e]
        for i in range(n - 1, -1, -1):
            p = parent[i] if parent[i] >= 0 else n
            number = float(i)
            for e in range(size):
                spare[p, e] = number if x[i, e] == m[p, e] else spare[p, e]
        for i in range(n + 1):
            for e in range(size):
                spare[i, e] = -1.0 if s[i, e] > 0.0 else spare[i, e]
        taken = s  # no longer needed as sums
        taken[n] = 1.0
        for i in range(n):
            p = parent[i] if parent[i] >= 0 else n
            number = float(i)
            for e in range(size):
                taken[i, e] = taken[p, e] if (x[i, e] > 0.0) | (spare[p, e] == number) else 0.0
            if p == n and every_root:
                taken[i, :size] = 1.0
            for e in range(size):
                values[first + e] += r[i, first + e] * taken[i, e]
        for i in range(n):
            for e in range(size):
                chosen[i, first + e] = taken[i, e] != 0.0
    return chosen, values, SOLVED


@kernel
def _best_leaf_batch(r: FloatArray, parent: IntArray) -> tuple[IntArray, FloatArray, int]:
    n, total = r.shape
    leaves = np.empty(total, np.int64)
    values = np.full(total, -np.inf)
    status = refused(r, parent)
    if status:
        return leaves, values, status
    leaf = np.ones(n, np.bool_)
    for i in range(n):
        if parent[i] >= 0:
            leaf[parent[i]] = False
    path = np.empty((n, total))
    for i in range(n):
        for e in range(total):
            path[i, e] = r[i, e] + (path[parent[i], e] if parent[i] >= 0 else 0.0)
        if leaf[i]:
            for e in range(total):
                if path[i, e] > values[e]:
                    values[e] = path[i, e]
                    leaves[e] = i
    return leaves, values, SOLVED


@kernel
def _constrained(r: FloatArray, parent: IntArray, label: IntArray, q: int, out: IntArray, every_root: bool) -> float:
    """Best set that agrees with `label` before node q and differs from it at q; -inf if there is none.

    Nodes up to q are fixed. A fixed 1 is *owed* to its parent; a fixed 0 is never offered to it.
    """
    n = parent.size
    s, m = np.zeros(n + 1), np.full(n + 1, -np.inf)
    owed, inner = np.zeros(n + 1, np.bool_), np.zeros(n + 1, np.bool_)
    x = np.empty(n)
    for i in range(n):
        out[i] = label[i] if i < q else (1 - label[i] if i == q else -1)
        inner[parent[i] if parent[i] >= 0 else n] = True
        if every_root and parent[i] < 0:
            if i == q:  # the label had it chosen
                return -np.inf
            out[i] = 1
    for i in range(n - 1, -1, -1):
        p = parent[i] if parent[i] >= 0 else n
        x[i] = r[i]
        if inner[i]:
            x[i] += s[i] if owed[i] or s[i] > 0.0 else m[i]
        if out[i] == 1:
            if p < n and out[p] == 0:
                return -np.inf
            owed[p] = True
            s[p] += x[i]
        elif out[i] == -1:
            if x[i] > 0.0:
                s[p] += x[i]
            m[p] = max(m[p], x[i])
    if not (owed[n] or s[n] > 0.0 or m[n] > -np.inf):
        return -np.inf
    value, dead = 0.0, False
    for i in range(n):
        p = parent[i] if parent[i] >= 0 else n
        if out[i] == -1:
            take = False
            if p == n or out[p] == 1:
                take = x[i] > 0.0
                # s > 0 only from free children here, as nothing is owed.
                if not owed[p] and s[p] <= 0.0 and x[i] == m[p] and m[p] > -np.inf:
                    take = True
                    m[p] = np.inf
            out[i] = 1 if take else 0
        # A chosen internal node all of whose children are fixed at 0 is a dead end.
        dead |= out[i] == 1 and x[i] == -np.inf
        value += r[i] if out[i] == 1 else 0.0
    return -np.inf if dead else value


@kernel
def _branch(
    r: FloatArray, parent: IntArray, label: IntArray, position: int, forbidden: BoolArray, every_root: bool
) -> tuple[IntArray, FloatArray, IntArray]:
    n = parent.size
    labels = np.empty((n - position, n), np.int64)
    values = np.empty(n - position)
    positions = np.arange(position, n)
    for i in range(n - position):
        dead = i == 0 and forbidden[0] and forbidden[1]
        values[i] = -np.inf if dead else _constrained(r, parent, label, position + i, labels[i], every_root)
    return labels, values, positions
