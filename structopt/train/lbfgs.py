"""L-BFGS for smooth risks with a quadratic regulariser, to a certified gap.

Each evaluation of the risk is a cutting plane, too: with the regulariser it gives a lower bound, and where the gradient
of the objective vanishes the two meet. The trainer holds its curvature pairs itself and does not call SciPy's L-BFGS-B,
which keeps them to itself: a run resumed from a checkpoint without them would take other steps.
"""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.risks.regularizers import L2, QuadraticRegularizer, Regularizer
from structopt.risks.risk import Risk, check_lam, check_start
from structopt.train.bmrm import Point, check_cut, evaluate, first_bound
from structopt.train.bundle import make_bundle
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.monitor import Callback, Monitor
from structopt.train.result import TrainResult
from structopt.train.run import Limits, Method, run
from structopt.train.warm import WarmStart

__all__ = ["lbfgs"]

Vector = NDArray[np.float64]

# Curvature pairs kept: of many weights fewer, so that they take no more than so many bytes. With 40 pairs a conditional
# random field of words took two thirds of the passes that it took with SciPy's 10.
_LEAST_PAIRS, _PAIRS, _PAIR_BYTES = 10, 40, 1 << 28
# Cuts whose mixture certifies: the zero cut, an aggregate and the last ones.
_CUTS = 6
# Armijo's and Wolfe's constants (Nocedal and Wright, 3.1), and the trials of one line search.
_DECREASE, _FLATTER, _TRIALS = 1e-4, 0.9, 30
_EPS = float(np.finfo(np.float64).eps)


@checked
def lbfgs(
    risk: Risk,
    regularizer: Regularizer | None = None,
    *,
    lam: float,
    tol: float = 1e-3,
    max_passes: float | None = 10_000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    w0: Vector | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``J(w) = lam/2 ||w||^2 + risk(w)`` for a smooth risk with a limited-memory quasi-Newton method.

    J is strongly convex, so that ``J(w) - min J <= ||grad J(w)||^2 / (2 lam)``: the gradient certifies. The bound that
    is reported is at least as good, because it is that of the best mixture of the last cutting planes
    (docs/mathematics/training#smooth-risks).

    Parameters
    ----------
    risk : Risk
        Convex and differentiable (``risk.is_smooth``): conditional random fields, logistic, softmax, least squares, ...
    regularizer : L2 or Quadratic, optional
        L2 by default. Others are not strongly convex or not smooth; take `structopt.train.bmrm`.
    lam : float
        Weight of the regulariser, positive. All weights are regularised: without that there is no certificate, so a
        free intercept must be a feature that is constant (the larger the constant, the freer).
    tol : float
        Relative gap ``(best objective - lower bound) / |best objective|`` at which to stop. 0: as far as float64 goes.
    max_passes, max_seconds, callback, checkpoint, verbose, w0, warm
        As in `structopt.train.bmrm`; a pass is one evaluation of the risk, and an iteration takes one or two.

    Returns
    -------
    TrainResult

    References
    ----------
    Nocedal, Wright. Numerical Optimization, 2nd edition, Algorithms 7.4 and 7.5.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> risk = so.risks.Logistic([[2.0], [1.0], [-1.0], [-3.0]], [1, 1, -1, -1])
    >>> result = so.train.lbfgs(risk, lam=0.1, tol=1e-8)
    >>> result.converged, round(float(result.w[0]), 4)
    (True, 1.3949)
    """
    regularizer = L2() if regularizer is None else regularizer
    lam = check_lam(lam)
    if not isinstance(regularizer, QuadraticRegularizer):
        raise DeclarationError(f"lbfgs needs a quadratic regulariser, L2 or Quadratic, not {regularizer!r}; use bmrm.")
    if not getattr(risk, "is_smooth", False):
        raise DeclarationError(
            f"lbfgs needs a smooth risk, and {type(risk).__name__} has kinks; use bmrm. (A risk of your own that is "
            "differentiable everywhere says so with the attribute is_smooth = True.)"
        )
    method = _Lbfgs(risk, regularizer, lam, check_start(w0, regularizer.start(risk.n_features)))
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm))


class _Step(NamedTuple):
    """A point with objective and gradient."""

    w: Vector
    objective: float
    gradient: Vector


class _Lbfgs(Method):
    name = "lbfgs"
    patience = 100

    def __init__(self, risk: Risk, regularizer: QuadraticRegularizer, lam: float, start: Vector) -> None:
        self.risk, self.regularizer, self.lam = risk, regularizer, lam
        self.bundle = make_bundle(regularizer, risk.n_features, lam, float(risk.lower_bound), _CUTS)
        self.start_at = start
        self.here: _Step | None = None  # nothing evaluated yet
        self.pairs = min(max(_PAIR_BYTES // (16 * max(risk.n_features, 1)), _LEAST_PAIRS), _PAIRS)
        self.moves: list[Vector] = []
        self.turns: list[Vector] = []  # changes of the gradient
        self.lower_bound = first_bound(risk, regularizer, lam)
        self.problem = {"risk": risk, "regularizer": regularizer.identity(), "lam": lam}

    @property
    def n_weights(self) -> int:
        return self.risk.n_features

    def begin_at(self, monitor: Monitor, w: Vector) -> None:
        self.start_at = w

    def take_over(self, state: dict[str, Any], lam: float) -> None:
        self.bundle.restore(_bundle_state(state))  # cuts of the risk; curvature pairs depend on lam

    def iterate(self, monitor: Monitor) -> None:
        if self.here is None:
            self.here = self._evaluate(monitor, self.start_at)
            return
        with monitor.part("steps"):
            direction = self._direction(self.here.gradient)
        found = self._line_search(monitor, self.here, direction)
        if found is None:
            if self._over(monitor):
                return  # in the middle of a line search, which a resumed run begins again
            if not self.moves:
                monitor.stop("stalled")  # not even the steepest descent goes down: rounding errors
            self.moves, self.turns = [], []
            return
        self._remember(found.w - self.here.w, found.gradient - self.here.gradient)
        self.here = found

    def _evaluate(self, monitor: Monitor, w: Vector) -> _Step:
        """Objective and gradient at `w`, which the monitor gets with the bound that they give."""
        with monitor.part("risk"):
            cut, _ = evaluate(self.risk, Point(w, None))
        monitor.count(oracle_calls=len(self.risk), passes=1)
        if self.here is not None:
            penalty = self.lam * self.regularizer.value(self.here.w)
            check_cut(self.risk, cut, w, self.here.w, self.here.objective, penalty)
        objective = self.lam * self.regularizer.value(w) + cut.value
        monitor.offer(w, objective)
        with monitor.part("dual"):
            offset = cut.offset(w)
            monitor.bound(self.regularizer.dual_point(cut.subgradient, offset, self.lam)[1])
            self.bundle.add(cut.subgradient, offset)
            monitor.bound(self.bundle.solve(0.1 * monitor.absolute_gap).lower_bound)
        return _Step(w, objective, cut.subgradient + self.lam * self.regularizer.product(w))

    def _direction(self, gradient: Vector) -> Vector:
        """The gradient times the inverse Hessian that the pairs approximate (Algorithm 7.4), with its sign changed."""
        q = -gradient
        if not self.moves:
            # Nothing is known about the curvature: a step of length 1, or a Newton step of the regulariser if shorter.
            return q / max(float(np.linalg.norm(q)), self.lam, _EPS)
        shares = []
        for move, turn in zip(reversed(self.moves), reversed(self.turns), strict=True):
            shares.append(float(move @ q) / float(move @ turn))
            q -= shares[-1] * turn
        q *= float(self.moves[-1] @ self.turns[-1]) / float(self.turns[-1] @ self.turns[-1])
        for move, turn, share in zip(self.moves, self.turns, reversed(shares), strict=True):
            q += (share - float(turn @ q) / float(move @ turn)) * move
        return q

    def _line_search(self, monitor: Monitor, here: _Step, direction: Vector) -> _Step | None:
        """A point along `direction` that meets Wolfe's conditions; None where rounding errors or a limit forbid it.

        The derivative along the line does not decrease: secant steps, within the bracket once there is one.
        """
        slope = float(here.gradient @ direction)
        if not slope < 0.0:
            return None
        low, at_low, high, at_high = 0.0, slope, math.inf, math.inf
        rounding = 4.0 * _EPS * abs(here.objective)
        t = 1.0
        for _ in range(_TRIALS):
            trial = self._evaluate(monitor, here.w + t * direction)
            at = float(trial.gradient @ direction)
            if trial.objective > here.objective + _DECREASE * t * slope + rounding:
                high, at_high = t, max(at, 0.0)
            elif at < _FLATTER * slope:
                low, at_low = t, at
            else:
                return trial
            if self._over(monitor):
                return None
            monitor.check_time()
            if math.isinf(high):
                # Where the derivative would be 0, were it linear.
                t *= min(max(slope / (slope - at_low), 2.0), 10.0) if at_low > slope else 10.0
            else:
                share = at_low / (at_low - at_high)
                t = low + (high - low) * min(max(share, 0.1), 0.9)
        return None

    @staticmethod
    def _over(monitor: Monitor) -> bool:
        return monitor.gap <= monitor.tol or monitor.passes >= monitor.max_passes

    def _remember(self, move: Vector, turn: Vector) -> None:
        if float(move @ turn) > _EPS * float(turn @ turn):  # J is strongly convex: only rounding can fail this
            self.moves = [*self.moves[1 - self.pairs :], move]
            self.turns = [*self.turns[1 - self.pairs :], turn]

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = {f"bundle.{name}": value for name, value in self.bundle.state().items()}
        if self.here is None:
            return state | {"w": self.start_at}
        state |= {"w": self.here.w, "objective": self.here.objective, "gradient": self.here.gradient}
        if self.moves:
            state |= {"moves": np.array(self.moves), "turns": np.array(self.turns)}
        return state

    def restore(self, state: dict[str, Any]) -> None:
        self.bundle.restore(_bundle_state(state))
        saved, d = Saved(state), self.n_weights
        self.start_at = saved.array("w", (d,))
        if "gradient" in saved:
            self.here = _Step(self.start_at, saved.number("objective"), saved.array("gradient", (d,)))
        self.moves, self.turns = [], []
        if "moves" in saved:
            moves = saved.array("moves")
            if moves.ndim != 2 or not 0 < len(moves) <= self.pairs:
                raise DeclarationError(f"moves must have 1 to {self.pairs} rows")
            self.moves, self.turns = list(moves), list(saved.array("turns", (len(moves), d)))
            if moves.shape[1] != d or any(not move @ turn > 0.0 for move, turn in zip(moves, self.turns, strict=True)):
                raise DeclarationError("moves and turns are not curvature pairs")

    def fallback(self) -> Vector:
        return self.start_at

    def info(self) -> dict[str, Any]:
        return {"n_pairs": len(self.moves), "n_cuts": self.bundle.n_cuts}


def _bundle_state(state: dict[str, Any]) -> dict[str, Any]:
    return {name[7:]: value for name, value in state.items() if name.startswith("bundle.")}
