"""Bundles: the cuts of a risk and the minimiser of their maximum plus the regulariser.

    minimise over w   lam Omega(w) + max_i (<a_i, w> + b_i)                            BMRM (7)

One class per kind of dual: a quadratic program on the simplex (L2, quadratic forms), Newton steps on the simplex (any
regulariser with a smooth conjugate), a linear program (L1); interior.py adds a fourth.
All keep the cuts as rows, drop those idle for long, and
answer with a point whose lower bound is certified even if the inner solve was loose.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structopt.errors import DeclarationError, SolverFailed
from structopt.train.dual import SimplexQP
from structopt.train.linesearch import zero_of_increasing
from structopt.train.regularizers import QuadraticRegularizer, Regularizer

__all__ = ["Bundle", "ModelPoint", "make_bundle"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# TRAINERS.md 4.2: dropping cuts idle for 20 solves cost no passes.
_IDLE_LIMIT = 20


class ModelPoint(NamedTuple):
    """Minimiser of the model.

    Attributes
    ----------
    w : ndarray
        The point, exact to within the tolerance asked for.
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

    def _set_rows(self, rows: Matrix) -> None:
        n = rows.shape[0]
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
        kept = self.qp.idle < _IDLE_LIMIT
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
        self._set_rows(state["rows"])


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


class LinearBundle(Bundle):
    """Primal linear program of ``||w||_1``, by HiGHS, one persistent model.

        minimise   xi + sum(u + v),   xi >= (<a_i, u - v> + b_i) / lam,   u, v >= 0,   w = u - v

    With few cuts it is unbounded (MATH.md 9.1, erratum), hence ``xi >= floor``, or a box where no floor is known; a
    solution on the box gives no bound, and the box grows once cuts no longer move that solution.
    """

    def __init__(
        self,
        regularizer: Regularizer,
        n_features: int,
        lam: float,
        floor: float = -math.inf,
        max_cuts: int | None = None,
    ) -> None:
        super().__init__(regularizer, n_features, lam, floor, max_cuts)
        if max_cuts is not None:
            raise DeclarationError(
                "max_cuts needs a strongly convex regulariser: merged cuts need not converge with L1. Leave it out; "
                "idle cuts are dropped anyway."
            )
        self._b: list[float] = []
        self._idle = np.zeros(0, dtype=np.int64)
        self._box = math.inf if math.isfinite(floor) else 10.0
        self._value = -math.inf  # of the last model, and how many solves it has not moved
        self._settled = 0
        self._open()

    def _open(self) -> None:
        import highspy

        d = self._rows.shape[1]
        self._highs = highs = highspy.Highs()
        highs.silent()
        for name, value in (("threads", 1), ("random_seed", 0)):
            highs.setOptionValue(name, value)
        for name in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            highs.setOptionValue(name, 1e-10)
        highs.setOptionValue("solver", "simplex")
        highs.setOptionValue("presolve", "off")  # the warm basis is worth more
        bounded = math.isfinite(self.floor)
        # Without a floor a slope over lam by rounding gives no bound at all: keep a little inside.
        cost = np.full(2 * d + 1, 1.0 if bounded else 1.0 - 1e-8)
        cost[-1] = 1.0
        lower = np.zeros(2 * d + 1)
        lower[-1] = self.floor / self.lam if bounded else -highspy.kHighsInf
        upper = np.full(2 * d + 1, min(self._box, highspy.kHighsInf))
        upper[-1] = highspy.kHighsInf
        empty = np.zeros(0)
        none = np.zeros(0, dtype=np.int32)
        highs.addCols(2 * d + 1, cost, lower, upper, 0, none, none, empty)

    @property
    def n_cuts(self) -> int:
        return len(self._b)

    def add(self, a: Vector, b: float) -> None:
        if not (np.isfinite(a).all() and math.isfinite(b)):
            raise DeclarationError("a cut must be finite: the risk's value or subgradient overflowed")
        self._append_row(a)
        self._b.append(float(b))
        self._idle = np.append(self._idle, 0)
        self._add_row(a, b)

    def _add_row(self, a: Vector, b: float) -> None:
        import highspy

        support = np.flatnonzero(a)
        d = a.size
        index = np.concatenate([support, support + d, [2 * d]]).astype(np.int32)
        value = np.concatenate([-a[support] / self.lam, a[support] / self.lam, [1.0]])
        self._highs.addRow(b / self.lam, highspy.kHighsInf, index.size, index, value)

    def solve(self, tol: float) -> ModelPoint:
        import highspy

        highs = self._highs
        highs.run()
        if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            highs.clearSolver()  # forget a basis that went bad
            highs.run()
        status = highs.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise SolverFailed(
                f"HiGHS could not solve the L1 subproblem with {self.n_cuts} cuts; scale the features to "
                "about unit size",
                status=highs.modelStatusToString(status),
            )
        solution = highs.getSolution()
        columns = np.array(solution.col_value)
        d = self._rows.shape[1]
        w = columns[:d] - columns[d : 2 * d]
        alpha = np.maximum(np.array(solution.row_dual), 0.0)
        bound = self._bound(alpha)
        if math.isfinite(self._box):
            self._watch_box(w, self.lam * float(highs.getInfo().objective_function_value))
        self._idle = np.where(alpha > 1e-12, 0, self._idle + 1)
        self._drop_idle()
        return ModelPoint(w, bound)

    def _bound(self, alpha: Vector) -> float:
        total = float(alpha.sum())
        slope, offset = alpha @ self._rows[: self.n_cuts], float(alpha @ self._b)
        if math.isfinite(self.floor) and total <= 1.0:
            offset += (1.0 - total) * self.floor  # the rest of the weight is on the floor
        elif total > 0.0:
            slope, offset = slope / total, offset / total
        else:
            return -math.inf
        return self.regularizer.dual_point(slope, offset, self.lam, self.floor)[1]

    def _watch_box(self, w: Vector, value: float) -> None:
        """Double the box if it binds and the model has settled inside it."""
        self._settled = self._settled + 1 if value - self._value <= 1e-3 * max(1.0, abs(value)) else 0
        self._value = value
        if self._settled < 5 or not (np.abs(w) >= 0.999 * self._box).any():
            return
        self._box *= 2.0
        self._settled, self._value = 0, -math.inf
        for column in range(2 * self._rows.shape[1]):
            self._highs.changeColBounds(column, 0.0, self._box)

    def _drop_idle(self) -> None:
        kept = self._idle < _IDLE_LIMIT
        if kept.all():
            return
        gone = np.flatnonzero(~kept).astype(np.int32)
        self._highs.deleteRows(gone.size, gone)
        rows = self._rows[: self.n_cuts][kept]
        self._rows[: len(rows)] = rows
        self._b = [b for b, keep in zip(self._b, kept, strict=True) if keep]
        self._idle = self._idle[kept]

    def state(self) -> dict[str, NDArray[Any]]:
        basis = self._highs.getBasis()
        return {
            "rows": self._rows[: self.n_cuts].copy(),
            "b": np.array(self._b),
            "idle": self._idle.copy(),
            "box": np.array([self._box, self._value, self._settled]),
            "columns": np.array([int(s) for s in basis.col_status], dtype=np.int8),
            "basis": np.array([int(s) for s in basis.row_status], dtype=np.int8),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        import highspy

        self._set_rows(state["rows"])
        self._b = [float(b) for b in state["b"]]
        self._idle = state["idle"].astype(np.int64)
        self._box, self._value = float(state["box"][0]), float(state["box"][1])
        self._settled = int(state["box"][2])
        self._open()
        for a, b in zip(state["rows"], self._b, strict=True):
            self._add_row(a, b)
        basis = highspy.HighsBasis()
        basis.col_status = [highspy.HighsBasisStatus(int(s)) for s in state["columns"]]
        basis.row_status = [highspy.HighsBasisStatus(int(s)) for s in state["basis"]]
        self._highs.setBasis(basis)


def make_bundle(
    regularizer: Regularizer, n_features: int, lam: float, floor: float = -math.inf, max_cuts: int | None = None
) -> Bundle:
    """Return the bundle that suits a regulariser.

    Examples
    --------
    >>> from structopt.train.regularizers import L2
    >>> bundle = make_bundle(L2(), 2, 0.5)
    >>> bundle.add(np.array([1.0, 0.0]), 0.0)
    >>> bundle.add(np.array([-1.0, 2.0]), 1.0)
    >>> point = bundle.solve(1e-12)
    >>> point.w, round(point.lower_bound, 6)
    (array([-0.75, -1.25]), -0.21875)
    """
    from structopt.train.interior import InteriorBundle

    kinds: dict[str, type[Bundle]] = {
        "quadratic": QuadraticBundle,
        "smooth": SmoothBundle,
        "interior": InteriorBundle,
        "linear": LinearBundle,
    }
    return kinds[regularizer.kind](regularizer, n_features, lam, floor, max_cuts)
