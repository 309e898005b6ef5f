"""The shared Frobenius norm of class vectors, structured by a hierarchy or free: thesis (6.19) and (6.20).

With a hierarchy it is ``min tr(U' (A diag(alpha) A')^-1 U)`` over weights with path sums of at most 1, without one
``max tr (U' diag(d) U)^(1/2)`` over the simplex; both by interior points, or by turns where that is too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular
from scipy.optimize import linprog
from scipy.sparse.linalg import splu

from structopt.checks import checked, converted
from structopt.errors import DeclarationError, SolverFailed
from structopt.hierarchy import Hierarchy
from structopt.norms._interior import Expansion, interior_point
from structopt.norms.minimal import minimal_graph
from structopt.norms.shared import shared_alpha
from structopt.space.compiled import FloatArray

__all__ = ["SharedNorm", "shared_frobenius"]

# Newton's method has a dense matrix over the nodes; beyond this size vectors and weights are optimised in turn.
_NEWTON_NODES = 1200


@dataclass(frozen=True, eq=False)
class SharedNorm:
    """A shared norm with its certificate: ``lower_bound <= the norm <= value``.

    Attributes
    ----------
    value : float
        What the factors below attain; an upper bound, and the norm up to the gap.
    lower_bound : float
        From a feasible point of the dual problem.
    alpha : ndarray or None
        With a hierarchy: the weights of the nodes, sums over paths at most 1.
    node_vectors : ndarray or None
        With a hierarchy: the vector of each node; their sums over paths are the class vectors, and
        ``sum_n ||node_vectors_n||^2 / alpha_n = value^2``.
    coefficients, factors : ndarray or None
        Without one: ``coefficients @ factors`` are the class vectors, rows of `coefficients` have norms of at most 1,
        and ``value`` is the Frobenius norm of `factors`.
    """

    value: float
    lower_bound: float
    alpha: FloatArray | None = None
    node_vectors: FloatArray | None = None
    coefficients: FloatArray | None = None
    factors: FloatArray | None = None

    @property
    def gap(self) -> float:
        """Relative distance of the two bounds."""
        return (self.value - self.lower_bound) / self.value if self.value else 0.0

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"SharedNorm(value={self.value:.9g}, gap={self.gap:.1e})"


@overload
@checked
def shared_frobenius(
    U: Any, hierarchy: Hierarchy | None = None, *, rtol: float | None = None, certificate: Literal[False] = False
) -> float: ...


@overload
@checked
def shared_frobenius(
    U: Any, hierarchy: Hierarchy | None = None, *, rtol: float | None = None, certificate: Literal[True]
) -> SharedNorm: ...


@checked
def shared_frobenius(
    U: Any, hierarchy: Hierarchy | None = None, *, rtol: float | None = None, certificate: bool = False
) -> float | SharedNorm:
    r"""The shared Frobenius norm of class vectors.

    Without a hierarchy ``min ||A||_{2,inf} ||V||_F`` over ``A V = U``, thesis (6.20); equally, the smallest
    ``sqrt(tr(U' G^+ U))`` over positive semidefinite G with a diagonal of at most 1. With one, A has the entry
    ``sqrt(alpha_n)`` where node n is on the path of class l and 0 elsewhere, thesis (6.19): the smallest
    ``sqrt(sum_n ||u_n||^2 / alpha_n)`` over node vectors with the class vectors as path sums and weights with path sums
    of at most 1.

    Parameters
    ----------
    U : array_like, shape (classes, d)
        With a hierarchy one row for each of ``hierarchy.leaves``, in that order.
    hierarchy : Hierarchy, optional
    rtol : float, optional
        Relative gap between value and lower bound to reach: 1e-8 by default, 1e-3 beyond the reach of Newton's method
        (see Notes).
    certificate : bool
        Return a `SharedNorm` with both bounds and the minimiser.

    Returns
    -------
    float or SharedNorm

    Raises
    ------
    SolverFailed
        If the gap stayed above `rtol`; ``error.partial`` is the `SharedNorm` that was reached.

    Notes
    -----
    The free norm is ``max tr (U' diag(d) U)^(1/2)`` over the simplex, a smooth concave problem with one variable a
    class: with ``H = (U' diag(d) U)^(1/2)`` any d gives the lower bound ``tr H`` and the factorisation
    ``(U H^-1/2) H^1/2``, thus the upper bound ``sqrt(tr H max_l u_l' H^-1 u_l)``. They meet at the optimum. The
    structured norm is a convex program in alpha alone, whose lower bound comes from ``Z = (A diag(alpha) A')^-1 U``. No
    semidefinite solver is needed.

    Up to about 1200 nodes (200 classes without a hierarchy) Newton's method reaches gaps of 1e-9 and below; beyond that
    vectors and weights are optimised in turn, which takes many rounds for a small `rtol`.

    Examples
    --------
    Classes that share one vector pay for it once:

    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt import norms
    >>> h = so.Hierarchy([("root", "a"), ("root", "b"), ("root", "c")])
    >>> U = np.tile([3.0, 4.0], (3, 1))
    >>> round(norms.shared_frobenius(U, h), 6), round(norms.shared_frobenius(U), 6), round(np.linalg.norm(U), 6)
    (5.0, 5.0, np.float64(8.660254))
    >>> norms.shared_frobenius([[1, 0], [1, 1], [0, 2]], h, certificate=True)
    SharedNorm(value=2.53518376, gap=...)
    """
    U = converted("U", U.toarray() if sp.issparse(U) else U)
    _check(U, hierarchy, rtol)
    if rtol is None:
        rtol = 1e-8 if hierarchy is None or len(hierarchy) <= _NEWTON_NODES else 1e-3
    size = float(np.abs(U).max(initial=0.0))
    found = _zero(U, hierarchy) if size == 0 else _scaled(_solve(U / size, hierarchy, rtol), size)
    if not found.gap <= rtol:
        raise SolverFailed(
            f"The shared norm lies between {found.lower_bound:.9g} and {found.value:.9g}, a relative gap of "
            f"{found.gap:.1e}; rtol={rtol:.0e} was requested. Use a larger one, or error.partial.",
            status="gap",
            partial=found,
        )
    return found if certificate else found.value


def _check(U: FloatArray, hierarchy: Hierarchy | None, rtol: float | None) -> None:
    if U.ndim != 2 or not U.shape[0]:
        raise DeclarationError(f"U has one row for each class, got an array of shape {U.shape}.")
    if not np.isfinite(U).all():
        raise DeclarationError(f"U has a NaN or an infinite entry in row {int(np.argwhere(~np.isfinite(U))[0, 0])}.")
    if rtol is not None and not rtol > 0:
        raise DeclarationError(f"rtol must be positive, got {rtol!r}.")
    if hierarchy is None:
        return
    if not isinstance(hierarchy, Hierarchy):
        raise DeclarationError(f"hierarchy must be a structopt.Hierarchy, got {type(hierarchy).__name__}.")
    if U.shape[0] != hierarchy.leaf_index.size:
        raise DeclarationError(
            f"U has {U.shape[0]} rows, the hierarchy {hierarchy.leaf_index.size} leaves; rows are class vectors in the "
            "order of hierarchy.leaves."
        )


def _solve(U: FloatArray, hierarchy: Hierarchy | None, rtol: float) -> SharedNorm:
    # Only inner products of the rows matter: work in a basis of their span.
    left, singular, basis = np.linalg.svd(U, full_matrices=False)
    kept = singular > 1e-15 * singular[0]
    rows, basis = left[:, kept] * singular[kept], basis[kept]
    if hierarchy is None:
        squared, lower, d = _free_factor(rows, rtol)
        return _free_norm(rows, basis, d, lower)
    method = _newton if len(hierarchy) <= _NEWTON_NODES else _alternate
    # Duplicates can share a weight in any proportion without effect: merged, the optimum is sharper.
    merged = minimal_graph(hierarchy)
    order = merged.hierarchy.indices(hierarchy.leaves)
    own = np.empty_like(rows)
    own[np.searchsorted(merged.hierarchy.leaf_index, order)] = rows
    squared, lower, alpha, Z = method(own, merged.hierarchy, rtol)
    vectors = alpha[:, None] * (merged.hierarchy.closure.T @ Z)
    each = (vectors / merged.sizes[:, None])[merged.group] @ basis
    return SharedNorm(float(np.sqrt(squared)), float(np.sqrt(lower)), merged.expand(alpha), each)


def _free_norm(rows: FloatArray, basis: FloatArray, d: FloatArray, lower: float) -> SharedNorm:
    """The factorisation ``(U H^-1/2) (H^1/2)``, scaled so that the longest row of the first factor has norm 1."""
    root, Q = _fourth_roots(rows, d)
    coefficients = (rows @ Q / root) @ Q.T
    longest = float(np.sqrt((coefficients**2).sum(axis=1).max()))
    factors = longest * (Q * root) @ Q.T @ basis
    return SharedNorm(float(np.linalg.norm(factors)), lower, coefficients=coefficients / longest, factors=factors)


def _fourth_roots(rows: FloatArray, d: FloatArray) -> tuple[FloatArray, FloatArray]:
    values, Q = np.linalg.eigh(rows.T @ (d[:, None] * rows))
    return values**0.25, Q


def _scaled(found: SharedNorm, size: float) -> SharedNorm:
    def times(array: FloatArray | None) -> FloatArray | None:
        return None if array is None else array * size

    return SharedNorm(
        found.value * size,
        found.lower_bound * size,
        found.alpha,
        times(found.node_vectors),
        found.coefficients,
        times(found.factors),
    )


def _zero(U: FloatArray, hierarchy: Hierarchy | None) -> SharedNorm:
    if hierarchy is None:
        return SharedNorm(0.0, 0.0, coefficients=np.zeros((U.shape[0], 1)), factors=np.zeros((1, U.shape[1])))
    alpha = hierarchy.is_leaf.astype(np.float64)
    return SharedNorm(0.0, 0.0, alpha, np.zeros((len(hierarchy), U.shape[1])))


#: Upper and lower bound of the squared norm, alpha, and the multipliers Z of ``path sums = class vectors``.
_Structured = tuple[float, float, FloatArray, FloatArray]


def _newton(U: FloatArray, hierarchy: Hierarchy, rtol: float) -> _Structured:
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


def _alternate(U: FloatArray, hierarchy: Hierarchy, rtol: float, rounds: int = 2000) -> _Structured:
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


# Entries of the matrix whose product with itself is the Hessian.
_NEWTON_ENTRIES = 5_000_000


def _free_factor(U: FloatArray, rtol: float) -> tuple[float, float, FloatArray]:
    """Upper bound, lower bound and the weights d of the classes; U has full column rank."""
    squares = (U**2).sum(axis=1)
    used = np.flatnonzero(squares > 0)  # a class with a zero vector adds nothing
    rows = U[used]
    weight = squares[used] / squares[used].sum()  # the optimum if no two classes share a direction
    upper, lower = _free_bounds(rows, weight)
    rounds = 30 if _small(rows) else 20_000
    for _ in range(rounds):
        # Minimising over one factor and then over the other: ascent of the dual, exact in one round without sharing.
        moved = weight * _leverage(rows, weight)[0] ** 2
        weight = moved / moved.sum()
        upper, lower = _free_bounds(rows, weight)
        if upper - lower <= 0.5 * rtol * upper:
            break
    if upper - lower > 0.5 * rtol * upper and _small(rows):
        upper, lower, weight = _free_newton(rows, weight)
    full = np.zeros(U.shape[0])
    full[used] = weight
    return upper, lower, full


def _free_bounds(U: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Upper and lower bound of the norm that weights on the simplex prove."""
    leverage, trace = _leverage(U, weight)
    return float(np.sqrt(trace * leverage.max())), trace


def _small(U: FloatArray) -> bool:
    n, r = map(int, U.shape)
    return n * r * (r + 1) // 2 <= _NEWTON_ENTRIES


def _spectrum(U: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Roots of the eigenvalues of ``U' diag(weight) U`` and U in the basis of eigenvectors."""
    # The singular values of the square root: no eigenvalue is lost to rounding.
    _, singular, basis = np.linalg.svd(np.sqrt(weight)[:, None] * U, full_matrices=False)
    return np.maximum(singular, 1e-300), U @ basis.T


def _leverage(U: FloatArray, weight: FloatArray) -> tuple[FloatArray, float]:
    """``u_l' H^-1 u_l`` and ``tr H`` for ``H = (U' diag(weight) U)^(1/2)``."""
    root, P = _spectrum(U, weight)
    return (P**2 / root).sum(axis=1), float(root.sum())


def _free_newton(U: FloatArray, weight: FloatArray) -> tuple[float, float, FloatArray]:
    n, r = U.shape
    first, second = np.triu_indices(r)
    twice = np.where(first == second, 1.0, 2.0)

    def expand(d: FloatArray, slack: FloatArray) -> Expansion:
        root, P = _spectrum(U, d)
        gradient = -0.5 * (P**2 / root).sum(axis=1)
        # Second derivative of tr M^(1/2): divided differences of M^(-1/2) / 2 in the basis of eigenvectors.
        a, b = root[first], root[second]
        feature = P[:, first] * P[:, second] * np.sqrt(twice / (2 * a * b * (a + b)))
        return Expansion(gradient, feature @ feature.T)

    def bound(d: FloatArray, slack: FloatArray, mu: FloatArray) -> tuple[float, float]:
        # Here the program is the dual: its objective bounds the norm from below, the factorisation from above.
        total = d / d.sum()
        upper, lower = _free_bounds(U, total)
        return -lower, -upper

    start = 0.9 * weight + 0.09 / n
    found = interior_point(expand, bound, sp.csr_array(np.ones((1, n))), np.ones(1), 0.99 * start / start.sum())
    d = found.x / found.x.sum()
    upper, lower = _free_bounds(U, d)
    return upper, max(lower, -found.value), d
