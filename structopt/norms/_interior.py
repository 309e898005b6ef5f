"""A primal-dual interior-point method for ``min F(x) + f(s), C x + s = e, x >= 0, s >= 0``, stopped by a certified gap.

All convex programs of this package have this form with a separable f, a known interior point and a dual bound that any
multipliers give (weak duality), so that the answer comes with a certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import splu

from structopt._jit import FloatArray
from structopt.errors import SolverFailed

__all__ = [
    "ACCEPTED",
    "AIM",
    "Certified",
    "Expansion",
    "better",
    "certified",
    "interior_point",
    "longest",
    "newton_step",
    "with_transpose",
]

#: Relative gap at which iteration stops; what is still accepted when rounding errors end it earlier.
AIM, ACCEPTED = 1e-14, 1e-8

# Below this size a dense Cholesky factor is faster than a sparse one; below so many entries the rows are, too.
_DENSE, _DENSE_ENTRIES = 400, 20_000


class Expansion(NamedTuple):
    """Slope and curvature of F and of f; `curvature` is a diagonal or a matrix, those of f are diagonals."""

    slope: FloatArray
    curvature: FloatArray
    slack_slope: FloatArray | float = 0.0
    slack_curvature: FloatArray | float = 0.0


class Certified(NamedTuple):
    """The best point and the best bound that were found; ``lower <= optimum <= value``."""

    x: FloatArray
    slack: FloatArray
    value: float
    lower: float

    @property
    def gap(self) -> float:
        return (self.value - self.lower) / max(abs(self.value), np.finfo(float).tiny)


#: ``(x, slack) -> Expansion``
Expand = Callable[[FloatArray, FloatArray], Expansion]
#: ``(x, slack, multipliers of the equations) -> (value, lower bound)``
Bound = Callable[[FloatArray, FloatArray, FloatArray], tuple[float, float]]

#: Rows C of the equations, a csr_array, or an ndarray where that is faster.
Rows = Any
#: ``(curvature, weights of the rows, right side) -> step``
Step = Callable[[FloatArray, FloatArray, FloatArray], FloatArray | None]


def interior_point(
    expand: Expand,
    bound: Bound,
    C: Rows,
    e: FloatArray,
    start: FloatArray,
    step_of: Step | None = None,
    max_iter: int = 200,
) -> Certified:
    """Minimise a smooth convex F from a strictly feasible `start` (Boyd and Vandenberghe, section 11.7).

    `step_of` replaces `newton_step` where the caller has a faster way to solve its equations.
    """
    x = start.astype(np.float64)
    C, Ct = with_transpose(C)
    slack = e - C @ x
    now = expand(x, slack)
    # Multipliers of a common complementarity product, in the unit of the objective's slope.
    tau = float(np.abs(now.slope) @ x + np.sum(np.abs(now.slack_slope) * slack)) / (x.size + slack.size) + 1e-300
    nu, lam = tau / x, tau / slack
    # The price of an equation is a variable of its own, not computed from f's slope: where f is steep that is far more
    # stable.
    mu = lam - now.slack_slope
    best = Certified(x, slack, np.inf, -np.inf)
    idle = 0
    for _ in range(max_iter):
        previous = best.gap if np.isfinite(best.value) else np.inf
        best = better(best, x, slack, *bound(x, slack, mu))
        # The bound is loose until the multipliers have converged; only a stall after that is due to rounding.
        idle = 0 if best.gap < 0.9 * previous or best.gap > ACCEPTED else idle + 1
        if best.gap <= AIM or idle > 8:
            break
        tau = 0.1 * (x @ nu + slack @ lam) / (x.size + slack.size)
        with np.errstate(over="ignore", invalid="ignore"):
            right = tau / x - now.slope - Ct @ (tau / slack - now.slack_slope)
            curvature = now.curvature + (nu / x if now.curvature.ndim == 1 else np.diag(nu / x))
            weight = now.slack_curvature + lam / slack
            dx = newton_step(curvature, weight, C, Ct, right) if step_of is None else step_of(curvature, weight, right)
        if dx is None or not np.isfinite(dx).all():
            break
        ds = -(C @ dx)
        dnu, dlam = (tau - nu * dx) / x - nu, (tau - lam * ds) / slack - lam
        dmu = lam + dlam - mu - now.slack_slope - now.slack_curvature * ds
        pairs = ((x, dx), (slack, ds), (nu, dnu), (lam, dlam))
        step = 0.99 * min(1 / 0.99, *(longest(v, dv) for v, dv in pairs))
        norm = _residual(now, Ct, [x, slack, nu, lam, mu], tau)
        for _halving in range(30):
            moved = [v + step * dv for v, dv in (*pairs, (mu, dmu))]
            if all((v > 0).all() for v in moved[:4]):
                then = expand(moved[0], moved[1])
                if _residual(then, Ct, moved, tau) <= (1 - 0.01 * step) * norm:
                    break
            step /= 2
        else:
            break
        (x, slack, nu, lam, mu), now = moved, then
    return best


def certified(found: Certified, what: str) -> Certified:
    """`found`, or an error if its gap is too wide to be called an optimum."""
    if not found.gap <= ACCEPTED:
        raise SolverFailed(
            f"{what}: the interior-point method stopped at a relative gap of {found.gap:.1e}; not {ACCEPTED:.0e}.",
            status="gap",
            partial=found.x,
        )
    return found


def better(best: Certified, x: FloatArray, slack: FloatArray, value: float, lower: float) -> Certified:
    """The better point with the better bound."""
    lower = max(best.lower, lower if np.isfinite(lower) else -np.inf)
    if value < best.value:
        return Certified(x, slack, value, lower)
    return best._replace(lower=lower)


def with_transpose(C: Rows) -> tuple[Rows, Rows]:
    """C and its transpose, as they are multiplied fastest."""
    if C.shape[0] * C.shape[1] <= _DENSE_ENTRIES:
        dense = C.toarray() if sp.issparse(C) else np.asarray(C)
        return dense, np.ascontiguousarray(dense.T)
    return C, sp.csr_array(C.T)


def newton_step(curvature: FloatArray, weight: FloatArray, C: Rows, Ct: Rows, right: FloatArray) -> FloatArray | None:
    """Solve ``(curvature + C' diag(weight) C) dx = right``; None if the matrix is numerically singular.

    `curvature` is a diagonal or a matrix.
    """
    middle = (Ct * weight[None, :]) @ C
    diagonal = middle.diagonal() + (curvature if curvature.ndim == 1 else curvature.diagonal())
    # Weights of the barrier spread over many magnitudes; a unit diagonal removes that.
    scale = 1 / np.sqrt(diagonal)
    if not np.isfinite(scale).all():
        return None
    if curvature.ndim == 2 or right.size <= _DENSE:
        K = middle.toarray() if sp.issparse(middle) else middle
        K += curvature if curvature.ndim == 2 else np.diag(curvature)
        K *= scale[:, None] * scale
        # Along directions in which the optimum is not unique only rounding errors are left; a ridge damps them.
        for ridge in (0.0, 1e-15, 1e-13, 1e-11):
            K[np.diag_indices_from(K)] += ridge
            try:
                factor = cho_factor(K, check_finite=False)
            except np.linalg.LinAlgError:
                continue
            return np.asarray(scale * cho_solve(factor, scale * right, check_finite=False))
        return None
    S = sp.diags_array(scale)
    sparse = sp.csc_array(S @ (sp.csr_array(middle) + sp.diags_array(curvature)) @ S)
    try:
        lu = splu(sparse, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:
        return None
    return np.asarray(scale * lu.solve(scale * right))


def longest(v: FloatArray, dv: FloatArray) -> float:
    """The longest step that keeps v non-negative."""
    down = dv < 0
    return float((v[down] / -dv[down]).min(initial=np.inf))


def _residual(at: Expansion, Ct: Rows, point: list[FloatArray], tau: float) -> float:
    """Norm of the optimality conditions with products of complementary pairs at tau."""
    x, slack, nu, lam, mu = point
    parts = (at.slope + Ct @ mu - nu, at.slack_slope + mu - lam, x * nu - tau, slack * lam - tau)
    return float(np.sqrt(sum(part @ part for part in parts)))
