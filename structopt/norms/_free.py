"""The shared norm without a structure: ``max tr (U' diag(d) U)^(1/2)`` over the simplex."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from structopt._jit import FloatArray
from structopt.norms._interior import Expansion, interior_point

__all__ = ["free_factor"]

# Entries of the matrix whose product with itself is the Hessian.
_NEWTON_ENTRIES = 5_000_000


def free_factor(U: FloatArray, rtol: float) -> tuple[float, float, FloatArray]:
    """Upper bound, lower bound and the weights d of the classes; U has full column rank."""
    squares = (U**2).sum(axis=1)
    used = np.flatnonzero(squares > 0)  # a class with a zero vector adds nothing
    rows = U[used]
    weight = squares[used] / squares[used].sum()  # the optimum if no two classes share a direction
    upper, lower = bounds(rows, weight)
    rounds = 30 if _small(rows) else 20_000
    for _ in range(rounds):
        # Minimising over one factor and then over the other: ascent of the dual, exact in one round without sharing.
        moved = weight * _leverage(rows, weight)[0] ** 2
        weight = moved / moved.sum()
        upper, lower = bounds(rows, weight)
        if upper - lower <= 0.5 * rtol * upper:
            break
    if upper - lower > 0.5 * rtol * upper and _small(rows):
        upper, lower, weight = _newton(rows, weight)
    full = np.zeros(U.shape[0])
    full[used] = weight
    return upper, lower, full


def bounds(U: FloatArray, weight: FloatArray) -> tuple[float, float]:
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


def _newton(U: FloatArray, weight: FloatArray) -> tuple[float, float, FloatArray]:
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
        upper, lower = bounds(U, total)
        return -lower, -upper

    start = 0.9 * weight + 0.09 / n
    found = interior_point(expand, bound, sp.csr_array(np.ones((1, n))), np.ones(1), 0.99 * start / start.sum())
    d = found.x / found.x.sum()
    upper, lower = bounds(U, d)
    return upper, max(lower, -found.value), d
