"""The best node weights for given node vectors: thesis (6.23), the corrected Algorithm 5."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt._hierarchy_input import node_values
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy
from structopt.kernels._common import FloatArray, IntArray, kernel
from structopt.norms._interior import Certified, Expansion, certified, interior_point
from structopt.norms.normalization import included_nodes

__all__ = ["shared_alpha"]


def shared_alpha(squared_norms: Any, hierarchy: Hierarchy, *, root: bool = True, floor: float = 0.0) -> FloatArray:
    """Node weights that minimise ``sum_n squared_norms_n / alpha_n``, thesis (6.23).

    Subject to ``alpha >= 0`` and a sum of at most 1 over each leaf and its ancestors, with 0 / 0 = 0.

    Parameters
    ----------
    squared_norms : array_like or mapping
        ``||U_n||^2`` for each node, in the order of ``hierarchy.nodes`` or by name.
    hierarchy : Hierarchy
    root : bool
        Whether a single root takes part; otherwise it gets 0 and its children share nothing.
    floor : float
        Raise all weights to this number and rescale them to sums of at most 1. A weight of 0 can never come back when
        vectors and weights are optimised in turn; 1e-8 lets it (MATH.md 7).

    Returns
    -------
    ndarray
        alpha, in the order of ``hierarchy.nodes``; all sums are 1 without `floor`: what a path does not need goes to
        its leaf.

    Raises
    ------
    SolverFailed
        If on a DAG the optimum could not be proved to a relative gap of 1e-8.

    Notes
    -----
    Closed form in O(nodes) on trees and forests (MATH.md 7), certified interior-point method on DAGs.

    Examples
    --------
    >>> import structopt as so
    >>> from structopt import norms
    >>> h = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)])
    >>> alpha = norms.shared_alpha([1, 4, 9, 1, 4], h)
    >>> alpha.round(5)
    array([0.16153, 0.39587, 0.83847, 0.4426 , 0.4426 ])
    >>> ([1, 4, 9, 1, 4] / alpha).sum().round(5)
    np.float64(38.32585)
    """
    included = included_nodes(hierarchy, root)
    squares = node_values(hierarchy, squared_norms, "squared_norms")
    if not 0 <= floor < 1:
        raise DeclarationError(f"floor must be a number in [0, 1), got {floor!r}.")
    if hierarchy.is_tree:
        alpha = _tree_alpha(hierarchy.parent_of.copy(), included, np.sqrt(squares))
    else:
        alpha = certified(_dag_alpha(hierarchy, included, squares), "shared_alpha").x
    if floor > 0:
        alpha = np.where(included, np.maximum(alpha, floor), 0.0)
        alpha /= (hierarchy.closure @ alpha).max()
    return alpha


@kernel
def _tree_alpha(parent: IntArray, included: Any, norm: FloatArray) -> FloatArray:
    n = parent.size
    below = np.zeros(n)  # S: optimal cost of the children, each with budget 1
    share = np.ones(n)  # E
    leaf = np.ones(n, np.bool_)
    for v in range(n - 1, -1, -1):
        cost = norm[v]  # sqrt T
        if not leaf[v]:
            rest = np.sqrt(below[v])
            own = norm[v] if included[v] else 0.0
            cost = own + rest
            share[v] = own / cost if cost > 0 else 0.0
        p = parent[v]
        if p >= 0:
            leaf[p] = False
            below[p] += cost * cost
    alpha = np.empty(n)
    budget = np.empty(n)
    for v in range(n):
        mine = budget[parent[v]] if parent[v] >= 0 else 1.0
        alpha[v] = mine * share[v]
        budget[v] = mine * (1.0 - share[v])
    return alpha


def _dag_alpha(hierarchy: Hierarchy, included: Any, squares: FloatArray) -> Certified:
    """Over the inner nodes that have a vector; each leaf takes the rest of its path."""
    largest = squares[included].max()
    alpha = np.zeros(len(hierarchy))
    leaf = hierarchy.leaf_index
    inner = np.flatnonzero(included & ~hierarchy.is_leaf & (squares > 0))
    if not inner.size:
        alpha[leaf] = 1.0
        return Certified(alpha, alpha[leaf], float(squares[leaf].sum()), float(squares[leaf].sum()))
    B = sp.csr_array(hierarchy.closure[:, inner])
    Bt = sp.csr_array(B.T)
    at_inner, at_leaf = squares[inner] / largest, squares[leaf] / largest

    def expand(x: FloatArray, rest: FloatArray) -> Expansion:
        return Expansion(-at_inner / x**2, 2 * at_inner / x**3, -at_leaf / rest**2, 2 * at_leaf / rest**3)

    def bound(x: FloatArray, rest: FloatArray, prices: FloatArray) -> tuple[float, float]:
        # Weak duality for prices mu of the paths: sum 2 sqrt(N_n (A' mu)_n) - sum mu, at the best multiple of mu.
        mu = np.maximum(prices, 0.0)
        root_sum = float(np.sqrt(at_inner * (Bt @ mu)).sum() + np.sqrt(at_leaf * mu).sum())
        return float((at_inner / x).sum() + (at_leaf / rest).sum()), root_sum**2 / max(float(mu.sum()), 1e-300)

    start = np.full(inner.size, 0.5 / max(1, int(np.diff(B.indptr).max())))
    found = interior_point(expand, bound, B, np.ones(leaf.size), start)
    alpha[inner], alpha[leaf] = found.x, found.slack
    return Certified(alpha, found.slack, found.value * largest, found.lower * largest)
