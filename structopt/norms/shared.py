"""The best node weights for given node vectors: thesis (6.23), the corrected Algorithm 5."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from structopt._jit import FloatArray, IntArray, kernel
from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy
from structopt.hierarchy.input import node_values
from structopt.norms._interior import ACCEPTED, AIM, Certified, better, certified, longest, newton_step, with_transpose
from structopt.norms.normalization import included_nodes

__all__ = ["shared_alpha"]


@checked
def shared_alpha(
    squared_norms: Any,
    hierarchy: Hierarchy,
    *,
    root: bool = True,
    floor: float = 0.0,
    shares: Literal["optimal", "published"] = "optimal",
) -> FloatArray:
    """Node weights that minimise ``sum_n squared_norms_n / alpha_n``, thesis (6.23).

    Subject to ``alpha >= 0`` and a sum of at most 1 over each leaf and its ancestors, with 0 / 0 = 0.

    Parameters
    ----------
    squared_norms : array_like or mapping
        ``||U_n||^2`` for each node, in the order of ``hierarchy.nodes`` or by name.
    hierarchy : Hierarchy
    root : bool
        Whether a single root gets a weight; otherwise it gets 0 and its children share nothing. Closures need True.
    floor : float
        Raise all weights to this number and rescale them to sums of at most 1. A weight of 0 can never come back when
        vectors and weights are optimised in turn; 1e-8 lets it (docs/mathematics/hierarchies#shared-norm).
    shares : {"optimal", "published"}
        ``"published"`` follows line 9 of NHSVM's Algorithm 1 as it is printed, which gives an inner node the share of
        its own norm *and* of the norm below it: at least half of what its ancestors left. These weights do not minimise
        the sum (docs/mathematics/hierarchies#shared-norm). Trees only.

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
    Closed form in O(nodes) on trees and forests, certified interior-point method on DAGs.

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
    >>> norms.shared_alpha([1, 4, 9, 1, 4], h, root=False, shares="published").round(3)
    array([0.   , 0.655, 1.   , 0.345, 0.345])
    """
    included = included_nodes(hierarchy, root)
    squares = node_values(hierarchy, squared_norms, "squared_norms")
    if not 0 <= floor < 1:
        raise DeclarationError(f"floor must be a number in [0, 1), got {floor!r}.")
    if shares not in ("optimal", "published"):
        raise DeclarationError(f"shares must be 'optimal' or 'published', got {shares!r}.")
    if shares == "published" and not hierarchy.is_tree:
        raise DeclarationError("shares='published' is a rule for trees; use shares='optimal' on this DAG.")
    if hierarchy.is_tree:
        lift = 1.0 if shares == "published" else 0.0
        alpha = _tree_alpha(hierarchy.parent_of.copy(), included, np.sqrt(squares), lift)
    else:
        alpha = certified(_dag_alpha(hierarchy, included, squares), "shared_alpha").x
    if floor > 0:
        alpha = np.where(included, np.maximum(alpha, floor), 0.0)
        alpha /= (hierarchy.closure @ alpha).max()
    return alpha


@kernel
def _tree_alpha(parent: IntArray, included: Any, norm: FloatArray, lift: float) -> FloatArray:
    """`lift` is the part of the norm below an inner node that counts for its share as its own: 0 at the optimum."""
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
            lifted = own + lift * rest if included[v] else 0.0
            share[v] = lifted / (lifted + rest) if cost > 0 else 0.0
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
    found = _inverse_program(B, squares[inner] / largest, squares[leaf] / largest)
    alpha[inner], alpha[leaf] = found.x, found.slack
    return Certified(alpha, found.slack, found.value * largest, found.lower * largest)


def _inverse_program(B: sp.csr_array, a: FloatArray, b: FloatArray, max_iter: int = 200) -> Certified:
    """Minimise ``sum a / x + sum b / s`` over ``B x + s = 1`` with a > 0, b >= 0, by a primal-dual method.

    With prices mu of the equations and ``g = B' mu`` the optimum has ``g x^2 = a`` and ``mu s^2 = b``, and Newton's
    method solves these products; the slopes ``a / x^2`` are, for a tiny a, uninformative far from the optimum. The
    terms are barriers of their own; only where b = 0 a barrier is added, ``mu s = tau`` with falling tau.
    """
    C, Ct = with_transpose(B)
    x = 0.9 * np.sqrt(a) / float((C @ np.sqrt(a) + np.sqrt(b)).max())
    s = 1.0 - C @ x
    tau = np.where(b > 0, 0.0, float((a / x).mean()))
    mu = (tau + b / s) / s
    best = Certified(x, s, np.inf, -np.inf)
    idle = 0
    for _ in range(max_iter):
        g, previous = Ct @ mu, best.gap if np.isfinite(best.value) else np.inf
        best = better(best, x, s, *_inverse_bounds(a, b, x, s, g, mu))
        idle = 0 if best.gap < 0.9 * previous or best.gap > ACCEPTED else idle + 1
        if best.gap <= AIM or idle > 4:
            break
        w = np.maximum(2 * mu - tau / s, mu) / s
        at_slack = (tau + b / s) / s - mu
        dx = newton_step(2 * g / x, w, C, Ct, a / x**2 - g - Ct @ at_slack)
        if dx is None or not np.isfinite(dx).all():
            break
        move = dx, -(C @ dx), at_slack + w * (C @ dx)
        step = _inverse_step((x, s, mu), move, (a, b), Ct, tau)
        x, s, mu = (v + step * dv for v, dv in zip((x, s, mu), move, strict=True))
        tau *= 0.1 if step > 0.5 else 1.0
    return best


_Point = tuple[FloatArray, FloatArray, FloatArray]


def _inverse_step(at: _Point, move: _Point, given: tuple[FloatArray, FloatArray], Ct: Any, tau: FloatArray) -> float:
    """A step that keeps all positive and lowers the residual of the equations, each in the unit of its variable."""
    (x, s, mu), (dx, ds, dmu), (a, b) = at, move, given

    def residual(t: float) -> float:
        y, r, price = x + t * dx, s + t * ds, mu + t * dmu
        of_x, of_s = ((Ct @ price) * y**2 - a) / x, (price * r**2 - tau * r - b) / s
        return float(of_x @ of_x + of_s @ of_s)

    step, now = min(1.0, 0.99 * min(longest(v, dv) for v, dv in zip(at, move, strict=True))), residual(0.0)
    while step > 1e-9 and not residual(step) <= (1 - 0.01 * step) * now:
        step /= 2
    return step


def _inverse_bounds(
    a: FloatArray, b: FloatArray, x: FloatArray, s: FloatArray, g: FloatArray, mu: FloatArray
) -> tuple[float, float]:
    """Weak duality: ``2 sum sqrt(a g) + 2 sum sqrt(b mu) - sum mu``, at the best multiple of mu."""
    root_sum = float(np.sqrt(a * g).sum() + np.sqrt(b * mu).sum())
    return float((a / x).sum() + (b / s).sum()), root_sum**2 / float(mu.sum())
