"""Weights of the nodes from the hierarchy alone: thesis (6.6), (6.7) and (6.8)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt._jit import FloatArray, IntArray, kernel
from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy
from structopt.hierarchy.input import node_values
from structopt.norms._interior import Certified, Expansion, certified, interior_point, newton_step

__all__ = ["included_nodes", "maxmin", "normalization"]


@checked
def normalization(
    hierarchy: Hierarchy,
    rho: float = 2.0,
    root: bool = False,
    tolerance: float | None = None,
    *,
    weights: Any = None,
    directional: bool = False,
) -> FloatArray:
    """Node weights of the smallest p-norm that give every leaf's path the total 1, thesis (6.6).

    Minimises ``sum_n weights_n alpha_n ** rho`` over ``alpha >= 0`` whose sum over each leaf and its ancestors is 1.

    Parameters
    ----------
    hierarchy : Hierarchy
    rho : float
        More than 1. Near 1 all weight moves to the highest nodes (docs/mathematics/hierarchies#normalisation).
    root : bool
        Whether a single root gets a weight. If every label contains the root, its weight changes no decision. The
        default gives it 0 and distributes the whole sum over the other nodes. Set it to True for closures, which
        include the empty label. Several roots, and a root that is a leaf, always get a weight.
    tolerance : float, optional
        Let the sums lie between 1 and this number T, thesis (6.8); the paper takes 1.5 on DAGs, where sums of exactly 1
        can force most weights to 0.
    weights : array_like or mapping, optional
        A positive factor for each node, 1 by default. ``MinimalGraph.weights(rho)`` makes the answer the same whether
        nodes are duplicated or not.
    directional : bool
        Let no child weigh less than one of its parents, the directional constraints of thesis (6.7): more of the
        weight is at the leaves.

    Returns
    -------
    ndarray
        alpha, in the order of ``hierarchy.nodes``.

    Raises
    ------
    SolverFailed
        If on a DAG, or with `tolerance` or `directional`, the optimum could not be proved to a relative gap of 1e-8.

    Notes
    -----
    Trees and forests have a closed form in O(nodes) without `tolerance` and `directional`. Otherwise an interior-point
    method runs until a dual bound meets its value. Its equations are sparse over the inner nodes: a DAG of 50,000 nodes
    takes seconds and 0.4 GiB where second parents are near the first ones, or anywhere for a quarter of the leaves;
    anywhere for half of them the factors fill up, and minutes are not enough.

    Examples
    --------
    >>> import structopt as so
    >>> from structopt import norms
    >>> h = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)])
    >>> norms.normalization(h, root=True)
    array([0.625, 0.25 , 0.375, 0.125, 0.125])
    >>> norms.normalization(h).round(4)
    array([0.    , 0.6667, 1.    , 0.3333, 0.3333])
    >>> norms.normalization(h, directional=True).round(4)
    array([0. , 0.5, 1. , 0.5, 0.5])
    """
    rho = _checked_rho(rho)
    own = _positive(hierarchy, weights)
    included = included_nodes(hierarchy, root)
    if tolerance is None or tolerance == 1:
        if hierarchy.is_tree and not directional:
            return _tree_weights(hierarchy.parent_of.copy(), included, np.log(own), rho)
        return certified(_equal_sums(hierarchy, included, own, rho, directional), "normalization").x
    if not 1 < tolerance < np.inf:
        raise DeclarationError(
            f"tolerance is the largest sum allowed on a path, a number from 1 on; got {tolerance!r}."
        )
    return certified(_loose_sums(hierarchy, included, own, rho, float(tolerance), directional), "normalization").x


@checked
def maxmin(hierarchy: Hierarchy, root: bool = False) -> FloatArray:
    """Node weights whose smallest is as large as possible, no child below its parent, thesis (6.7).

    Parameters
    ----------
    hierarchy : Hierarchy
    root : bool
        Whether a single root gets a weight; otherwise it gets 0. Set it to True for closures, as in `normalization`.

    Returns
    -------
    ndarray
        alpha, in the order of ``hierarchy.nodes``. Of the many optima the one with equal weights on all inner nodes:
        t = 1 / (nodes on the longest path to a leaf), each leaf takes the remainder to 1.

    Examples
    --------
    >>> import structopt as so
    >>> from structopt import norms
    >>> norms.maxmin(so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4)]), root=True).round(4)
    array([0.3333, 0.3333, 0.6667, 0.3333, 0.3333])
    """
    included = included_nodes(hierarchy, root)
    size = hierarchy.closure @ included.astype(np.float64)
    smallest = 1.0 / size.max()
    alpha = np.where(included, smallest, 0.0)
    alpha[hierarchy.leaf_index] = 1.0 - smallest * (size - 1.0)
    return alpha


@checked
def included_nodes(hierarchy: Hierarchy, root: bool) -> Any:
    """0/1 row of the nodes that take weight: all but a single inner root, unless that is wanted."""
    if not isinstance(hierarchy, Hierarchy):
        raise DeclarationError(f"hierarchy must be a structopt.Hierarchy, got {type(hierarchy).__name__}.")
    included = np.ones(len(hierarchy), np.bool_)
    top = hierarchy.root_index
    if not root and top.size == 1 and not hierarchy.is_leaf[top[0]]:
        included[top] = False
    return included


def _checked_rho(rho: float) -> float:
    if not 1 < rho < np.inf:
        raise DeclarationError(f"rho must be a number above 1, got {rho!r}; for rho = 1 use maxmin (thesis (6.7)).")
    return float(rho)


def _positive(hierarchy: Hierarchy, weights: Any) -> FloatArray:
    if weights is None:
        return np.ones(len(hierarchy))
    own = node_values(hierarchy, weights, "weights")
    if not (own > 0).all():
        k = int(np.argmin(own > 0))
        raise DeclarationError(f"weights must be positive; that of {hierarchy.nodes[k]!r} is {own[k]}.")
    return own


@kernel
def _tree_weights(parent: IntArray, included: Any, log_weight: FloatArray, rho: float) -> FloatArray:
    """The closed form with a factor w on each node: k = r / (1 + r), r = (S / w)^q, c = S / (1 + r)^(rho - 1).

    All in logarithms: near rho = 1 the power q is huge, far from it the costs c shrink geometrically with depth.
    """
    n = parent.size
    q = 1.0 / (rho - 1.0)
    log_sum = np.full(n, -np.inf)  # log S
    log_ratio = np.full(n, np.inf)  # log r; leaves take all
    for v in range(n - 1, -1, -1):
        cost = log_weight[v]
        if log_sum[v] > -np.inf:
            cost = log_sum[v]
            if included[v]:
                log_ratio[v] = q * (log_sum[v] - log_weight[v])
                cost -= (rho - 1.0) * np.logaddexp(0.0, log_ratio[v])
            else:
                log_ratio[v] = -np.inf
        p = parent[v]
        if p >= 0:
            log_sum[p] = np.logaddexp(log_sum[p], cost)
    alpha = np.empty(n)
    budget = np.empty(n)  # what remains below a node
    for v in range(n):
        mine = budget[parent[v]] if parent[v] >= 0 else 1.0
        alpha[v] = mine / (1.0 + np.exp(-log_ratio[v]))
        budget[v] = mine / (1.0 + np.exp(log_ratio[v]))
    return alpha


def _equal_sums(
    hierarchy: Hierarchy, included: Any, weight: FloatArray, rho: float, directional: bool = False
) -> Certified:
    """(6.6). A leaf is on its own path only: its weight is what the inner nodes leave of 1."""
    leaf, inner = hierarchy.leaf_index, np.flatnonzero(included & ~hierarchy.is_leaf)
    B = sp.csr_array(hierarchy.closure[:, inner])
    at_inner, at_leaf, n_leaves = weight[inner], weight[leaf], leaf.size
    rows, limits = B, np.ones(n_leaves)
    start = np.full(inner.size, 0.5 / max(1, int(np.diff(B.indptr).max(initial=0))))
    if directional:
        # alpha_parent - alpha_child <= 0, where a child that is a leaf has 1 - B x.
        over = _directional_rows(hierarchy, included)
        below = sp.csr_array(over[:, inner] - over[:, leaf] @ B)
        rows, limits = sp.csr_array(sp.vstack([B, below])), np.concatenate([limits, -over[:, leaf].sum(axis=1)])
        start = _rising_start(hierarchy, inner, B)
    transposed = sp.csr_array(rows.T)

    def expand(x: FloatArray, slack: FloatArray) -> Expansion:
        rest = slack[:n_leaves]
        slope, bend = rho * at_inner * x ** (rho - 1), rho * at_leaf * rest ** (rho - 1)
        own = np.zeros((2, slack.size))
        own[:, :n_leaves] = bend, (rho - 1) * bend / rest
        return Expansion(slope, (rho - 1) * slope / x, own[0], own[1])

    def bound(x: FloatArray, slack: FloatArray, mu: FloatArray) -> tuple[float, float]:
        mu = np.concatenate([mu[:n_leaves], np.maximum(mu[n_leaves:], 0.0)])
        prices = -np.concatenate([transposed @ mu, mu[:n_leaves]])
        value = float(at_inner @ x**rho + at_leaf @ slack[:n_leaves] ** rho)
        return value, _dual_bound(-float(mu @ limits), prices, np.concatenate([at_inner, at_leaf]), rho)

    found = interior_point(expand, bound, rows, limits, start)
    alpha = np.zeros(len(hierarchy))
    alpha[inner], alpha[leaf] = found.x, found.slack[:n_leaves]
    return found._replace(x=alpha)


def _loose_sums(
    hierarchy: Hierarchy, included: Any, weight: FloatArray, rho: float, most: float, directional: bool = False
) -> Certified:
    """(6.8): the sums lie between 1 and `most`."""
    leaf, inner = hierarchy.leaf_index, np.flatnonzero(included & ~hierarchy.is_leaf)
    B = sp.csr_array(hierarchy.closure[:, inner])
    Bt, n_leaves, k = sp.csr_array(B.T), leaf.size, inner.size
    A = sp.csr_array(sp.hstack([B, sp.eye_array(n_leaves)]))
    nodes = np.concatenate([inner, leaf])
    own = weight[nodes]
    over = sp.csr_array(_directional_rows(hierarchy, included)[:, nodes] if directional else (0, nodes.size))
    over_t = sp.csr_array(over.T)

    def expand(x: FloatArray, slack: FloatArray) -> Expansion:
        slope = rho * own * x ** (rho - 1)
        return Expansion(slope, (rho - 1) * slope / x)

    def bound(x: FloatArray, slack: FloatArray, mu: FloatArray) -> tuple[float, float]:
        price = mu[n_leaves : 2 * n_leaves] - mu[:n_leaves]
        gain = float(np.where(price > 0, price, most * price).sum())
        prices = np.concatenate([Bt @ price, price]) - over_t @ np.maximum(mu[2 * n_leaves :], 0.0)
        return float(own @ x**rho), _dual_bound(gain, prices, own, rho)

    def step(curvature: FloatArray, rows: FloatArray, right: FloatArray) -> FloatArray | None:
        # Each leaf is on one path only and is eliminated first: far fewer and sparser equations remain.
        width, own_leaf = rows[:n_leaves] + rows[n_leaves:], curvature[k:]
        share = width / (own_leaf + width)
        at_inner = newton_step(curvature[:k], own_leaf * share, B, Bt, right[:k] - Bt @ (share * right[k:]))
        if at_inner is None:
            return None
        return np.concatenate([at_inner, right[k:] / (own_leaf + width) - share * (B @ at_inner)])

    start = np.full(k, 0.5 / max(1, int(np.diff(B.indptr).max(initial=0))))
    if directional:
        start = _rising_start(hierarchy, inner, B)
    start = np.concatenate([start, 0.5 * (1 + most) - B @ start])
    rows = sp.csr_array(sp.vstack([A, -A, over]))
    limits = np.concatenate([np.full(n_leaves, most), -np.ones(n_leaves), np.zeros(over.shape[0])])
    found = interior_point(expand, bound, rows, limits, start, None if directional else step)
    alpha = np.zeros(len(hierarchy))
    alpha[inner], alpha[leaf] = found.x[:k], found.x[k:]
    return found._replace(x=alpha)


def _directional_rows(hierarchy: Hierarchy, included: Any) -> sp.csr_array:
    """Rows ``alpha_parent - alpha_child`` of the edges between nodes that take weight (thesis (6.7))."""
    edges = np.flatnonzero(included[hierarchy.parent])
    parent, child = hierarchy.parent[edges], hierarchy.child[edges]
    row, one = np.arange(edges.size), np.ones(edges.size)
    entries = (np.concatenate([one, -one]), (np.tile(row, 2), np.concatenate([parent, child])))
    return sp.csr_array(entries, shape=(edges.size, len(hierarchy)))


def _rising_start(hierarchy: Hierarchy, inner: IntArray, B: sp.csr_array) -> FloatArray:
    """Weights of the inner nodes that grow with the level and leave more than half of 1 to each leaf."""
    level: FloatArray = 1.0 + hierarchy.level[inner].astype(np.float64)
    return np.asarray(0.25 * level / max(1.0, float((B @ level).max(initial=0.0))))


def _dual_bound(gain: float, prices: FloatArray, weight: FloatArray, rho: float) -> float:
    """The largest ``t gain - sum_n f*(t prices_n)`` over t >= 0, f*(s) = sup over a >= 0 of ``s a - weight a^rho``.

    Any prices ``A' mu`` of the leaves give a lower bound of (6.6) in this way.
    """
    ratio = np.maximum(prices, 0.0) / (rho * weight)
    top = ratio.max(initial=0.0)
    if gain <= 0 or top == 0:
        return 0.0
    # Scaled so that no power overflows: with q = 1/(rho - 1), f*(s) = (1 - 1/rho) s (s / (rho weight))^q.
    ratio, gain = ratio / top, gain / top
    cost = (rho - 1) * float(weight @ ratio ** (rho / (rho - 1)))
    power = rho / (rho - 1)
    # t gain - t^power cost is largest where power cost t^(1/(rho-1)) = gain.
    t = (gain / (power * cost)) ** (rho - 1)
    return float(t * gain / rho)
