"""The shared Frobenius norm of class vectors, structured by a hierarchy or free: thesis (6.19) and (6.20)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp

from structopt.checks import checked, converted
from structopt.errors import DeclarationError, SolverFailed
from structopt.hierarchy import Hierarchy
from structopt.norms._free import free_factor
from structopt.norms._structured import alternate, newton
from structopt.norms.minimal import minimal_graph
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
        squared, lower, d = free_factor(rows, rtol)
        return _free_norm(rows, basis, d, lower)
    method = newton if len(hierarchy) <= _NEWTON_NODES else alternate
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
