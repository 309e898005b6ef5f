"""Interior points for a bundle whose regulariser is smooth but its conjugate is not (squared Lp norms, p > 2)."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from structopt.train.bundle import ModelPoint, SimplexBundle

__all__ = ["InteriorBundle"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Added to the Hessian of Omega, which is singular where weights are 0; it damps steps, not the solution.
_RIDGE = 1e-8


class InteriorBundle(SimplexBundle):
    """Primal-dual interior points on ``lam Omega(w) + xi`` subject to ``<a_i, w> + b_i <= xi``.

    The weights of the cuts are the multipliers. The point is the primal one: for q near 1 recovering it from the
    multipliers would magnify their rounding errors, w being of the order of ``mu^(q - 1)``. The bound is that of the
    multipliers.
    """

    def _gram_row(self, a: Vector) -> Vector:
        return np.zeros(self.n_cuts + 1)

    def solve(self, tol: float) -> ModelPoint:
        n = self.n_cuts
        rows, b = self._rows[:n], self.qp.b
        w, alpha = self._start(rows, b)
        xi = self._ceiling(rows @ w + b)
        point, value, bound = w, math.inf, -math.inf
        for _ in range(80):
            value_here = self.lam * self.regularizer.value(w) + float((rows @ w + b).max())
            if value_here < value:
                point, value = w, value_here
            weight = alpha / alpha.sum()
            bound = max(bound, self._bound(weight))
            if value - bound <= max(tol, 1e-13 * abs(value)):
                break
            moved = self._newton(rows, b, w, xi, alpha)
            if moved is None:
                break
            w, xi, alpha = moved
        self._keep_weights(alpha)
        self._drop_idle()
        return ModelPoint(point, bound)

    def _start(self, rows: Matrix, b: Vector) -> tuple[Vector, Vector]:
        """A point well inside: the last weights mixed with uniform ones, and a w of the size they suggest."""
        n = b.size
        alpha = 0.9 * self.qp.alpha + 0.1 / n
        return self.regularizer.conjugate_gradient((alpha @ rows) / -self.lam), alpha

    @staticmethod
    def _ceiling(scores: Vector) -> float:
        spread = float(scores.max() - scores.min())
        size = float(np.abs(scores).max())
        return float(scores.max()) + 0.1 * spread + 1e-3 * (size if size > 0.0 else 1.0)

    def _bound(self, weight: Vector) -> float:
        return self.regularizer.dual_point(weight @ self._rows[: weight.size], float(weight @ self.qp.b), self.lam)[1]

    def _newton(
        self, rows: Matrix, b: Vector, w: Vector, xi: float, alpha: Vector
    ) -> tuple[Vector, float, Vector] | None:
        """One primal-dual step towards a tenth of the present complementarity; None at the limit of rounding."""
        slack = xi - rows @ w - b
        center = 0.1 * float(alpha @ slack) / b.size
        solve = self._hessian_solver(w)
        stationarity = self.lam * self.regularizer.subgradient(w) + alpha @ rows
        system = rows @ solve(rows.T)
        system[np.diag_indices_from(system)] += slack / alpha
        try:
            factor = scipy.linalg.cho_factor(system)
        except (scipy.linalg.LinAlgError, ValueError):
            return None
        right = center / alpha - slack - rows @ solve(stationarity)
        first, ones = scipy.linalg.cho_solve(factor, right), scipy.linalg.cho_solve(factor, np.ones(b.size))
        d_xi = (float(first.sum()) - (1.0 - float(alpha.sum()))) / float(ones.sum())
        d_alpha = first - d_xi * ones
        d_w = -solve(stationarity + d_alpha @ rows)
        falling = d_alpha < 0
        step = min(1.0, 0.99 * float((alpha[falling] / -d_alpha[falling]).min(initial=np.inf)))
        before = self._residual(rows, b, w, xi, alpha, center)
        for _ in range(40):
            new = (w + step * d_w, xi + step * d_xi, alpha + step * d_alpha)
            inside = (new[1] - rows @ new[0] - b > 0).all()
            if inside and self._residual(rows, b, *new, center) <= (1.0 - 0.01 * step) * before:
                return new
            step *= 0.5
        return None

    def _hessian_solver(self, w: Vector):  # type: ignore[no-untyped-def]
        """Return x -> (lam Hessian)^-1 x by Sherman-Morrison; x may have columns."""
        diagonal, factor, vector = self.regularizer.curvature(w)
        inverse = 1.0 / (diagonal + _RIDGE)
        image = inverse * vector
        denominator = 1.0 + factor * float(vector @ image)

        def solve(x: Matrix) -> Matrix:
            scaled = inverse[:, None] * x if x.ndim == 2 else inverse * x
            correction = np.multiply.outer(image, (factor / denominator) * (image @ x))
            return np.asarray((scaled - correction) / self.lam, dtype=np.float64)

        return solve

    def _residual(self, rows: Matrix, b: Vector, w: Vector, xi: float, alpha: Vector, center: float) -> float:
        stationarity = self.lam * self.regularizer.subgradient(w) + alpha @ rows
        complementarity = alpha * (xi - rows @ w - b) - center
        rest = 1.0 - float(alpha.sum())
        return math.sqrt(float(stationarity @ stationarity + complementarity @ complementarity) + rest * rest)

    def _keep_weights(self, alpha: Vector) -> None:
        # Interior points are positive everywhere; without a threshold no cut would ever be idle.
        kept = np.where(alpha > 1e-7 * alpha.sum(), alpha, 0.0)
        self.qp.alpha[:] = kept / kept.sum()
        self.qp.idle[:] = np.where(kept > 0.0, 0, self.qp.idle + 1)
