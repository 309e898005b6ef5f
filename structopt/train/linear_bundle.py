"""The bundle subproblem of the L1 norm: a linear program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from structopt.checks import floats, integers, number, whole
from structopt.errors import DeclarationError, SolverFailed
from structopt.programs.linear import BASIC, Basis, LinearProgram, LinearSolution
from structopt.programs.simplex_qp import power_of_two
from structopt.risks.regularizers import Regularizer
from structopt.train.bundle import IDLE_LIMIT, Bundle, ModelPoint

__all__ = ["LinearBundle"]

Vector = NDArray[np.float64]


class LinearBundle(Bundle):
    """Primal linear program of ``||w||_1``, by HiGHS, from the last basis.

        minimise   xi + sum(u + v),   xi >= (<a_i, u - v> + b_i) / lam,   u, v >= 0,   w = u - v

    With few cuts it is unbounded (docs/mathematics/risks#regularisers), hence ``xi >= floor``, or a box where no floor
    is known; a solution on the box gives no bound, and the box grows once cuts no longer move that solution.
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
        self._unmoved = 0
        self._program = LinearProgram()
        self._basis: Basis | None = None

    @property
    def n_cuts(self) -> int:
        return len(self._b)

    @property
    def _unit(self) -> float:
        """The size of the cuts' offsets, as a power of two."""
        return power_of_two(max(map(abs, self._b), default=0.0))

    def add(self, a: Vector, b: float) -> None:
        if not (np.isfinite(a).all() and math.isfinite(b)):
            raise DeclarationError(
                "a cut must be finite: the risk's value or subgradient overflowed; scale the features to unit size"
            )
        self._append_row(a)
        self._b.append(float(b))
        self._idle = np.append(self._idle, 0)
        if self._basis is not None:
            columns, rows = self._basis
            self._basis = columns, np.append(rows, np.int8(BASIC))

    def _solution(self) -> LinearSolution:
        """The optimum of the program, from the kept basis."""
        n, d = self.n_cuts, self._rows.shape[1]
        bounded = math.isfinite(self.floor)
        # Without a floor a slope over lam by rounding gives no bound at all: keep a little inside.
        cost = np.full(2 * d + 1, 1.0 if bounded else 1.0 - 1e-8)
        cost[-1] = 1.0
        # In units of the risk, since HiGHS's tolerances are absolute; a power of two, which rounds nothing.
        unit = self._unit * self.lam
        lower, upper = np.zeros(2 * d + 1), np.full(2 * d + 1, self._box / self._unit)
        lower[-1] = self.floor / unit if bounded else -math.inf
        upper[-1] = math.inf
        scaled = self._rows[:n] / self.lam
        rows = scipy.sparse.csr_array(np.hstack([-scaled, scaled, np.ones((n, 1))]))
        try:
            return self._program.solve(cost, rows, np.array(self._b) / unit, lower, upper, self._basis)
        except SolverFailed as error:
            raise SolverFailed(
                f"HiGHS could not solve the L1 subproblem with {n} cuts; scale the features to about unit size",
                status=error.status,
            ) from error

    def solve(self, tol: float) -> ModelPoint:
        solution = self._solution()
        self._basis = solution.basis
        columns = self._unit * solution.x
        d = self._rows.shape[1]
        w = columns[:d] - columns[d : 2 * d]
        alpha = np.maximum(solution.row_duals, 0.0)
        bound = self._bound(alpha)
        if math.isfinite(self._box):
            self._watch_box(w, self._unit * self.lam * solution.value)
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
        """Double the box if it binds and the model has converged inside it."""
        size = max(abs(value), *np.abs(self._b))
        self._unmoved = self._unmoved + 1 if value - self._value <= 1e-3 * size else 0
        self._value = value
        if self._unmoved < 5 or not (np.abs(w) >= 0.999 * self._box).any():
            return
        self._box *= 2.0
        self._unmoved, self._value = 0, -math.inf

    def _drop_idle(self) -> None:
        kept = self._idle < IDLE_LIMIT
        if kept.all():
            return
        assert self._basis is not None
        if (self._basis[1][~kept] == BASIC).all():
            self._basis = self._basis[0], self._basis[1][kept]
        else:
            self._basis = None  # a dropped row held a column in the basis: start cold
        rows = self._rows[: self.n_cuts][kept]
        self._rows[: len(rows)] = rows
        self._b = [b for b, keep in zip(self._b, kept, strict=True) if keep]
        self._idle = self._idle[kept]

    def state(self) -> dict[str, NDArray[Any]]:
        columns, rows = (np.zeros(0, dtype=np.int8),) * 2 if self._basis is None else self._basis
        return {
            "rows": self._rows[: self.n_cuts].copy(),
            "b": np.array(self._b),
            "idle": self._idle.copy(),
            "box": np.array([self._box, self._value, self._unmoved]),
            "basic_columns": columns,
            "basic_rows": rows,
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        b = floats("b", state["b"], ndim=1)
        n, d = b.size, self._rows.shape[1]
        self._set_rows(state["rows"], n)
        self._b = b.tolist()
        self._idle = integers("idle", state["idle"], (n,), 0).astype(np.int64)
        box, value, unmoved = floats("box", state["box"], (3,), finite=False).tolist()
        self._box, self._value = number("box", box, above=0.0), value
        self._unmoved = whole("box", int(unmoved) if math.isfinite(unmoved) else unmoved, 0)
        self._basis = None
        if np.size(state["basic_columns"]):
            columns = integers("basic_columns", state["basic_columns"], (2 * d + 1,), 0, 4)
            rows = integers("basic_rows", state["basic_rows"], (n,), 0, 4)
            if np.count_nonzero(columns == BASIC) + np.count_nonzero(rows == BASIC) != n:
                raise DeclarationError("basic_columns and basic_rows are not a basis")
            self._basis = columns.astype(np.int8), rows.astype(np.int8)
