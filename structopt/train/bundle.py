"""Bundles: the cuts of a risk and the minimiser of their maximum plus the regulariser.

    minimise over w   lam Omega(w) + max_i (<a_i, w> + b_i)                            BMRM (7)

One class per kind of dual: a quadratic program on the simplex (L2, quadratic forms) and Newton steps on the simplex
(any regulariser with a smooth conjugate) here, interior points in interior_bundle.py, a linear program (L1) in
linear_bundle.py. All keep the cuts as rows, drop those idle for long, and answer with a point whose lower bound is
certified even if the inner solve was loose.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structopt.checks import floats
from structopt.errors import DeclarationError
from structopt.programs.simplex_qp import SimplexQP
from structopt.risks.linesearch import zero_of_increasing
from structopt.risks.regularizers import QuadraticRegularizer, Regularizer

__all__ = ["Bundle", "ModelPoint", "make_bundle"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Dropping cuts that were idle for 20 solves took no more passes.
IDLE_LIMIT = 20


class ModelPoint(NamedTuple):
    """Minimiser of the model.

    Attributes
    ----------
    w : ndarray
        The point, exact to within the given tolerance.
    lower_bound : float
        A certified lower bound of the regularised risk.
    """

    w: Vector
    lower_bound: float


class Bundle(ABC):
    """Cuts kept as rows, with weights on the simplex.

    Parameters
    ----------
    regularizer : Regularizer
    n_features : int
    lam : float
    floor : float
        Constant lower bound of the risk. If finite it is the first cut, ``a = 0, b = floor``: the early bounds
        are then not hugely negative, and the early steps not hugely long.
    max_cuts : int, optional
        Bundle size; the lightest cuts are merged to stay below it (BMRM Algorithm 4).
    """

    def __init__(
        self,
        regularizer: Regularizer,
        n_features: int,
        lam: float,
        floor: float = -math.inf,
        max_cuts: int | None = None,
    ) -> None:
        if max_cuts is not None and max_cuts < 2:
            raise DeclarationError(f"max_cuts must be at least 2 (an aggregate and the newest cut), got {max_cuts!r}")
        self.regularizer = regularizer
        self.lam = lam
        self.floor = floor
        self.max_cuts = max_cuts
        self._rows: Matrix = np.empty((16, n_features))

    @property
    @abstractmethod
    def n_cuts(self) -> int:
        """Number of cuts held."""

    @abstractmethod
    def add(self, a: Vector, b: float) -> None:
        """Add the cut ``<a, w> + b``."""

    @abstractmethod
    def solve(self, tol: float) -> ModelPoint:
        """Minimise the model to an absolute gap of `tol`."""

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that a checkpoint needs."""

    @abstractmethod
    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""

    def _append_row(self, a: Vector) -> None:
        n = self.n_cuts
        if n == self._rows.shape[0]:
            grown = np.empty((2 * n, self._rows.shape[1]))
            grown[:n] = self._rows
            self._rows = grown
        self._rows[n] = a

    def _set_rows(self, rows: Matrix, n: int) -> None:
        rows = floats("rows", rows, (n, self._rows.shape[1]))
        self._rows = np.empty((max(16, 1 << max(n - 1, 0).bit_length()), rows.shape[1]))
        self._rows[:n] = rows

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.n_cuts} cuts, {self.regularizer!r}, lam={self.lam:g}>"


class SimplexBundle(Bundle):
    """What the quadratic and the smooth bundle share: weights in a `SimplexQP`, merging, dropping."""

    def __init__(
        self,
        regularizer: Regularizer,
        n_features: int,
        lam: float,
        floor: float = -math.inf,
        max_cuts: int | None = None,
    ) -> None:
        super().__init__(regularizer, n_features, lam, floor, max_cuts)
        self.qp = SimplexQP(lam)
        if math.isfinite(floor):
            self.add(np.zeros(n_features), floor)

    @property
    def n_cuts(self) -> int:
        return self.qp.n_cuts

    def add(self, a: Vector, b: float) -> None:
        self._make_room()
        self._append_row(a)
        self.qp.add(self._gram_row(a), b)

    @abstractmethod
    def _gram_row(self, a: Vector) -> Vector:
        """Inner products of a new cut, not yet counted, with the cuts present and itself."""

    def _make_room(self) -> None:
        if self.max_cuts is None or self.n_cuts < self.max_cuts:
            return
        # Merging two cuts keeps the dual point, hence the bound; for max_cuts = 2 this is Algorithm 4, and the
        # pair step of the QP that follows is its closed form (14).
        lightest = np.sort(np.argsort(self.qp.alpha, kind="stable")[:2])
        share = self.qp.merge(lightest)
        self._rows[lightest[0]] = share @ self._rows[lightest]
        last = int(lightest[1])
        self._rows[last : self.n_cuts] = self._rows[last + 1 : self.n_cuts + 1]

    def _drop_idle(self) -> None:
        kept = self.qp.idle < IDLE_LIMIT
        if not kept.all():
            rows = self._rows[: self.n_cuts][kept]
            self._rows[: len(rows)] = rows
            self.qp.keep(kept)

    def _affine(self) -> tuple[Vector, float]:
        """Return slope and offset of the weighted mean of the cuts."""
        active = np.flatnonzero(self.qp.alpha)
        weight = self.qp.alpha[active]
        return weight @ self._rows[active], float(weight @ self.qp.b[active])

    def _model_point(self) -> ModelPoint:
        slope, offset = self._affine()
        return ModelPoint(*self.regularizer.dual_point(slope, offset, self.lam, self.floor))

    def state(self) -> dict[str, NDArray[Any]]:
        return {"rows": self._rows[: self.n_cuts].copy(), **self.qp.state()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.qp.restore(state)
        self._set_rows(state["rows"], self.n_cuts)


class QuadraticBundle(SimplexBundle):
    """Dual of ``1/2 w' B w``: a quadratic program with the Gram matrix ``a_i' B^-1 a_j``."""

    regularizer: QuadraticRegularizer

    def _gram_row(self, a: Vector) -> Vector:
        return self._rows[: self.n_cuts + 1] @ self.regularizer.solve(a)

    def solve(self, tol: float) -> ModelPoint:
        self.qp.solve(tol)
        point = self._model_point()
        self._drop_idle()
        return point


class SmoothBundle(SimplexBundle):
    """Dual of any regulariser with a smooth conjugate, by Newton steps on the simplex.

    At weights alpha the model is replaced by its second-order expansion, a quadratic program for the pair ascent,
    and an exact line search makes the step safe. The duality gap ``max_i g_i - alpha.g``, with
    ``g_i = <a_i, w> + b_i``, certifies.
    """

    def _gram_row(self, a: Vector) -> Vector:
        return np.zeros(self.n_cuts + 1)  # the curvature depends on alpha: no fixed Gram matrix

    def solve(self, tol: float) -> ModelPoint:
        n = self.n_cuts
        rows, b, alpha = self._rows[:n], self.qp.b, self.qp.alpha
        best_gap, failures = math.inf, 0
        for _ in range(100):
            slope = alpha @ rows
            w = self.regularizer.conjugate_gradient(slope / -self.lam)
            g = rows @ w + b
            gap = float(g.max() - alpha @ g)
            failures = 0 if gap < 0.9 * best_gap else failures + 1
            best_gap = min(best_gap, gap)
            # Below rounding, or without progress for long, the point is as good as it gets; its bound holds anyway.
            if gap <= max(tol, 1e-14 * float(np.abs(g).max())) or failures > 20:
                break
            target = self._newton_target(alpha, slope, g, gap) if failures < 10 else None
            if target is None or not self._advance(alpha, target, slope, rows, b):
                target = alpha.copy()
                donors = np.flatnonzero(alpha)
                donor = donors[np.argmin(g[donors])]
                target[g.argmax()] += target[donor]
                target[donor] = 0.0
                if not self._advance(alpha, target, slope, rows, b):
                    break
        self.qp.idle[:] = np.where(alpha > 0.0, 0, self.qp.idle + 1)
        point = self._model_point()
        self._drop_idle()
        return point

    def _newton_target(self, alpha: Vector, slope: Vector, g: Vector, gap: float) -> Vector | None:
        """Maximise the second-order expansion over the active cuts and the most violated ones."""
        violated = np.argsort(-g)[:10]
        chosen = np.union1d(np.flatnonzero(alpha), violated[g[violated] > alpha @ g])
        rows = self._rows[chosen]
        diagonal, factor, vector = self.regularizer.conjugate_curvature(slope / -self.lam)
        gram = (rows * diagonal) @ rows.T
        if factor:
            image = rows @ vector
            gram += factor * np.outer(image, image)
        if not np.isfinite(gram).all():
            return None
        local = SimplexQP(self.lam)
        n = chosen.size
        local.restore(
            {
                "gram": gram,
                "b": g[chosen] + gram @ alpha[chosen] / self.lam,
                "alpha": alpha[chosen],
                "block": np.zeros(n, dtype=np.int64),
                "idle": np.zeros(n, dtype=np.int64),
            }
        )
        local.solve(1e-3 * gap)
        target = np.zeros_like(alpha)
        target[chosen] = local.alpha
        return target

    def _advance(self, alpha: Vector, target: Vector, slope: Vector, rows: Matrix, b: Vector) -> bool:
        """Move alpha towards target by an exact line search; return whether it moved."""
        step = target - alpha
        turn, rise = step @ rows, float(b @ step)

        def descent(t: float) -> float:
            w = self.regularizer.conjugate_gradient((slope + t * turn) / -self.lam)
            return -float(w @ turn) - rise

        t = zero_of_increasing(descent, limit=1.0, tolerance=1e-4, trials=30)
        if t <= 0.0:
            return False
        alpha[:] = target if t == 1.0 else np.maximum(alpha + t * step, 0.0)
        alpha[alpha < 1e-13] = 0.0
        alpha /= alpha.sum()
        return True


def make_bundle(
    regularizer: Regularizer, n_features: int, lam: float, floor: float = -math.inf, max_cuts: int | None = None
) -> Bundle:
    """Return the bundle that suits a regulariser.

    Examples
    --------
    >>> from structopt.risks.regularizers import L2
    >>> bundle = make_bundle(L2(), 2, 0.5)
    >>> bundle.add(np.array([1.0, 0.0]), 0.0)
    >>> bundle.add(np.array([-1.0, 2.0]), 1.0)
    >>> point = bundle.solve(1e-12)
    >>> point.w, round(point.lower_bound, 6)
    (array([-0.75, -1.25]), -0.21875)
    """
    from structopt.train.interior_bundle import InteriorBundle
    from structopt.train.linear_bundle import LinearBundle

    kinds: dict[str, type[Bundle]] = {
        "quadratic": QuadraticBundle,
        "smooth": SmoothBundle,
        "interior": InteriorBundle,
        "linear": LinearBundle,
    }
    return kinds[regularizer.kind](regularizer, n_features, lam, floor, max_cuts)
