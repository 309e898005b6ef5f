"""The balanced and the unbalanced synthetic set of NHSVM 8.1 and thesis 6.8.1."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.utils import Bunch, check_random_state

from structopt._jit import FloatArray
from structopt.checks import checked, seed, whole
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy

__all__ = ["synthetic_hierarchy"]

#: Levels, examples and features of the papers.
_PAPER = {"balanced": (4, 15_000, 1000), "unbalanced": (10, 10_000, 1000)}


@checked
def synthetic_hierarchy(
    kind: Literal["balanced", "unbalanced"] = "balanced",
    *,
    n_samples: int | None = None,
    n_features: int | None = None,
    depth: int | None = None,
    random_state: Any = None,
) -> Bunch:
    """Examples in a binary hierarchy, with its leaves as classes.

    ``"balanced"``: in a complete binary tree every node has a weight vector; weights and examples are standard normal,
    and an example belongs to the leaf with the largest sum of ``W_n . x`` over its path. ``"unbalanced"``: examples are
    normal, scaled to norm 1; a random hyperplane through the origin cuts the space in two, another one of the two
    parts, and so on, which makes a tree that grows in one direction only.

    Parameters
    ----------
    kind : {"balanced", "unbalanced"}
    n_samples, n_features : int, optional
        By default those of the paper: 15,000 and 10,000 examples, 1000 features.
    depth : int, optional
        Levels of the tree, the root included: 4 (15 nodes, 8 leaves) and 10 (19 nodes, 10 leaves) by default.
    random_state : int, RandomState or None

    Returns
    -------
    Bunch
        ``X`` (n_samples, n_features), ``y`` (names of leaves), ``hierarchy``, ``weights`` (one row for each of
        ``hierarchy.nodes``, or normals of the hyperplanes by inner node, top down), ``kind``, ``DESCR``.

    Notes
    -----
    The papers are inconsistent: the text has 15,000 balanced examples, their table 8K, and the index set
    of the weights is printed ``[2^3 - 1]`` where 15 nodes need ``[2^4 - 1]``. For the unbalanced tree the table has
    19 nodes and 11 leaves, but a binary tree of 19 nodes has 10. Levels are counted as for the balanced tree.

    Examples
    --------
    >>> from structopt import data
    >>> toy = data.synthetic_hierarchy("unbalanced", n_samples=100, n_features=5, random_state=0)
    >>> toy.hierarchy
    <Hierarchy: tree of 19 nodes, 10 leaves, depth 9>
    >>> toy.X.shape, toy.y[:5]
    ((100, 5), array([...]))
    """
    if kind not in _PAPER:
        raise DeclarationError(f"kind must be 'balanced' or 'unbalanced', got {kind!r}.")
    levels, n, d = _PAPER[kind]
    levels = _size("depth", depth, levels, 2)
    n, d = _size("n_samples", n_samples, n, 1), _size("n_features", n_features, d, 1)
    rng = check_random_state(seed("random_state", random_state))
    return (_balanced if kind == "balanced" else _unbalanced)(levels, n, d, rng)


def _size(name: str, given: int | None, default: int, least: int) -> int:
    if given is None:
        return default
    return whole(name, given, least, 2**31 - 1)


def _balanced(depth: int, n: int, d: int, rng: np.random.RandomState) -> Bunch:
    n_nodes = 2**depth - 1
    # Numbered like a heap from 1: the children of k are 2k and 2k + 1, the parent is k // 2.
    h = Hierarchy([(k // 2, k) for k in range(2, n_nodes + 1)])
    W = rng.standard_normal((n_nodes, d))
    X = rng.standard_normal((n, d))
    return _bunch("balanced", X, _best_leaves(X, W, h), h, W)


def _best_leaves(X: FloatArray, W: FloatArray, h: Hierarchy) -> Any:
    potential = X @ (h.closure @ W).T
    return np.array(h.leaves)[potential.argmax(axis=1)]


def _unbalanced(depth: int, n: int, d: int, rng: np.random.RandomState) -> Bunch:
    cuts = depth - 1
    # Inner nodes are the odd numbers; node k has the leaf k + 1 and the part k + 2 that is cut again.
    h = Hierarchy([(k, k + step) for k in range(1, 2 * cuts, 2) for step in (1, 2)])
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    normals = rng.standard_normal((cuts, d))
    outside = X @ normals.T > 0
    first = np.where(outside.any(axis=1), outside.argmax(axis=1), cuts)
    y = np.where(first < cuts, 2 * first + 2, 2 * cuts + 1)
    return _bunch("unbalanced", X, y, h, normals)


def _bunch(kind: str, X: FloatArray, y: Any, h: Hierarchy, weights: FloatArray) -> Bunch:
    text = f"The {kind} synthetic set of NHSVM 8.1: {X.shape[0]} examples, {X.shape[1]} features, {len(h)} nodes."
    return Bunch(X=X, y=y, hierarchy=h, weights=weights, kind=kind, DESCR=text)
