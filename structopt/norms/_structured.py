"""The shared norm of a hierarchy: ``min tr(U' (A diag(alpha) A')^-1 U)`` over weights with path sums of at most 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from scipy.optimize import linprog
from scipy.sparse.linalg import splu

from structopt._jit import FloatArray
from structopt.errors import SolverFailed
from structopt.hierarchy import Hierarchy
from structopt.norms._interior import Expansion, interior_point
from structopt.norms.shared import shared_alpha

__all__ = ["alternate", "newton"]

#: Upper and lower bound of the squared norm, alpha, and the multipliers Z of ``path sums = class vectors``.
Solution = tuple[float, float, FloatArray, FloatArray]


def newton(U: FloatArray, hierarchy: Hierarchy, rtol: float) -> Solution:
    """Interior-point method in alpha; dense in the nodes."""
    A = hierarchy.closure
    dense = A.toarray()
    some_leaf = dense.argmax(axis=0)  # a path through every node

    last: list[Any] = [None, None]  # value and slope are evaluated at the same point

    def solve(alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        if last[0] is not alpha:
            # R'R = A diag(alpha) A' without forming the product: weights go to 0 and would lose half their digits.
            R = np.asarray(np.linalg.qr(np.sqrt(alpha)[:, None] * dense.T, mode="r"))
            last[:] = alpha, (R, solve_triangular(R, U, trans="T", check_finite=False))
        return last[1]  # type: ignore[no-any-return]

    def multipliers(R: FloatArray, half: FloatArray) -> FloatArray:
        return np.asarray(solve_triangular(R, half, check_finite=False))

    def expand(alpha: FloatArray, slack: FloatArray) -> Expansion:
        R, half = solve(alpha)
        pulled = dense.T @ multipliers(R, half)
        Q = solve_triangular(R, dense, trans="T", check_finite=False)
        return Expansion(-(pulled**2).sum(axis=1), 2 * (Q.T @ Q) * (pulled @ pulled.T))

    def bound(alpha: FloatArray, slack: FloatArray, mu: FloatArray) -> tuple[float, float]:
        R, half = solve(alpha)
        value = float((half**2).sum())
        gains = ((dense.T @ multipliers(R, half)) ** 2).sum(axis=1)
        # Prices of the paths that cover the gain of every node bound it; the interior-point multipliers nearly do. What
        # a node lacks is made up for by a factor on all prices, or by a surcharge on one path through it: where a class
        # vector is 0 both its gain and its price vanish, and their ratio means nothing.
        covered = dense.T @ mu
        surcharge = np.zeros(mu.size)
        np.maximum.at(surcharge, some_leaf, gains - covered)
        price = min(float(mu.sum()) * float((gains / covered).max()), float((mu + surcharge).sum()))
        return value, value**2 / price

    start = np.full(len(hierarchy), 0.9 / np.diff(A.indptr).max())
    start[hierarchy.leaf_index] += 0.95 - A @ start
    found = interior_point(expand, bound, A, np.ones(A.shape[0]), start)
    R, half = solve(found.x)
    return found.value, found.lower, found.x, multipliers(R, half)


def alternate(U: FloatArray, hierarchy: Hierarchy, rtol: float, rounds: int = 2000) -> Solution:
    """Best vectors for the weights, best weights for the vectors, in turn; sparse in the nodes."""
    A = hierarchy.closure
    alpha = np.full(len(hierarchy), 1.0 / np.diff(A.indptr).max())
    alpha[hierarchy.leaf_index] += 1.0 - A @ alpha
    lower = 0.0
    for k in range(rounds):
        Z = _multipliers(U, hierarchy, alpha)
        value = float((Z * U).sum())
        gains = ((A.T @ Z) ** 2).sum(axis=1)
        if k % 10 == 0:
            lower = max(lower, value**2 / _largest_gain(gains, hierarchy))
            if value - lower <= rtol * value:
                break
        # A weight of 0 could never grow again.
        alpha = shared_alpha(alpha**2 * gains, hierarchy, floor=1e-12)
    return value, lower, alpha, Z


def _multipliers(U: FloatArray, hierarchy: Hierarchy, alpha: FloatArray) -> FloatArray:
    """``(A diag(alpha) A')^-1 U`` with the leaves eliminated: the Schur complement over the inner nodes is sparse."""
    inner = np.flatnonzero(~hierarchy.is_leaf & (alpha > 0))
    B = sp.csc_array(hierarchy.closure[:, inner])
    at_leaf = 1.0 / alpha[hierarchy.leaf_index]
    weighted = sp.csr_array(B.T) * at_leaf[None, :]
    schur = sp.csc_array(sp.diags_array(1.0 / alpha[inner]) + weighted @ B)
    right = weighted @ U
    inside = splu(schur, permc_spec="MMD_AT_PLUS_A").solve(right) if inner.size else right
    return np.asarray(at_leaf[:, None] * (U - B @ inside))


def _largest_gain(gains: FloatArray, hierarchy: Hierarchy) -> float:
    """``max gains . alpha`` over all weights with path sums of at most 1."""
    if hierarchy.is_tree:
        best = gains.copy()
        below = np.zeros(len(hierarchy))
        up = hierarchy.parent_of
        for v in range(len(hierarchy) - 1, -1, -1):
            best[v] = max(best[v], below[v])
            if up[v] >= 0:
                below[up[v]] += best[v]
        return float(best[hierarchy.root_index].sum())
    answer = linprog(-gains, A_ub=hierarchy.closure, b_ub=np.ones(hierarchy.leaf_index.size), method="highs")
    if answer.status != 0:
        raise SolverFailed("HiGHS did not solve the linear program of the lower bound.", status=answer.message)
    # Scaled prices of the rows are feasible in the dual: a bound that holds whatever HiGHS's tolerances are.
    price = np.maximum(-answer.ineqlin.marginals, 0.0) + 1e-12 * gains.max()
    return float(price.sum() * np.maximum(1.0, (gains / (hierarchy.closure.T @ price)).max()))
