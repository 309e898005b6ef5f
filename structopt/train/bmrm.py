"""Bundle methods for regularised risk minimisation (BMRM Algorithms 2, 3 and 4), to a certified gap."""

from __future__ import annotations

import math
import os
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structopt.checks import checked
from structopt.errors import DeclarationError, SolverFailed
from structopt.risks.regularizers import L2, QuadraticRegularizer, Regularizer
from structopt.risks.risk import Cut, LinearRisk, Risk, check_lam, check_start
from structopt.train.bundle import make_bundle
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.monitor import Callback, Monitor
from structopt.train.result import TrainResult
from structopt.train.run import Limits, Method, run
from structopt.train.warm import WarmStart

__all__ = ["Point", "bmrm", "evaluate", "first_bound"]

Vector = NDArray[np.float64]

# The subproblem is solved to this share of the outer gap (at most 3% more passes).
_LOOSENESS = 0.1
# A cut above a known value by more than this share of the terms is an error of the risk, not of rounding.
_ABOVE = 1e-6

# Improving queries in a row after which theta doubles with each further one: the point then lags behind a model that
# is already right, and a fixed theta would close the gap by no more than a tenth per pass.
_STRETCH_AFTER = 3


class Point(NamedTuple):
    """Weights, with their predictions where the risk is linear in these."""

    w: Vector
    f: Vector | None

    def towards(self, other: Point, t: float) -> Point:
        f = None if self.f is None or other.f is None else (1.0 - t) * self.f + t * other.f
        return Point((1.0 - t) * self.w + t * other.w, f)


@checked
def bmrm(
    risk: Risk,
    regularizer: Regularizer | None = None,
    *,
    lam: float,
    tol: float = 1e-3,
    theta: float = 0.1,
    line_search: bool | Literal["auto"] = "auto",
    max_cuts: int | None = None,
    max_passes: float | None = 10_000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    w0: Vector | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``lam * regularizer(w) + risk(w)`` with cutting planes of the risk.

    Each pass adds the cut of the risk at a point near the best one, ``(1 - theta) w_best + theta w_t``, where w_t
    minimises the regulariser plus the maximum of the cuts. The minimum of that model, from a feasible dual
    point, is the certified lower bound (docs/mathematics/training#bundle-methods).

    Parameters
    ----------
    risk : Risk
        Convex; its `lower_bound` (0 if it cannot be negative) improves the early steps.
    regularizer : Regularizer, optional
        L2 by default.
    lam : float
        Weight of the regulariser, positive.
    tol : float
        Relative gap ``(best objective - lower bound) / |best objective|`` at which to stop. 0: as far as float64 goes.
    theta : float
        Where the next cut is taken, in (0, 1]. 1 is Algorithm 2; 0.1 needs 1.2 to 6 times fewer passes
        (docs/mathematics/training#bundle-methods).
    line_search : bool or "auto"
        Move the best point by an exact line search towards w_t (Algorithm 3). "auto": if the risk offers one and the
        regulariser is quadratic.
    max_cuts : int, optional
        Keep at most so many cuts by merging the lightest (Algorithm 4); 2 is its closed form.
    max_passes, max_seconds : float, optional
        Limits.
    callback : callable, optional
        Called with the `TrainResult` so far after each pass; a true answer stops.
    checkpoint : path or Checkpoint, optional
        Written atomically; if the file exists the run resumes from it, to the same iterates.
    verbose : bool
        Show a progress bar with the certified gap.
    w0 : ndarray, optional
        Weights to begin at, where the first cut is taken; by default the minimiser of the regulariser. All trainers
        take it, and return nothing worse than these weights where they evaluate them.
    warm : WarmStart, optional
        Begin where the last run with this object ended, and keep there where this one ends. All trainers take it; it
        comes before `w0`.

    Returns
    -------
    TrainResult
        The best weights evaluated (not the last: docs/mathematics/training#bundle-methods), their certificate, and the
        history.

    References
    ----------
    Teo, Vishwanathan, Smola, Le. Bundle methods for regularized risk minimization. JMLR 11, 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.train import Risk, bmrm
    >>> class Absolute(Risk):
    ...     lower_bound, n_features = 0.0, 1
    ...     def value_and_subgradient(self, w):
    ...         return abs(w[0] - 3.0), np.sign(w - 3.0)
    >>> result = bmrm(Absolute(), lam=0.5, tol=1e-6)       # minimum of w^2/4 + |w - 3| is at 2
    >>> result.converged, round(float(result.w[0]), 1), round(result.objective, 4)
    (True, 2.0, 2.0)
    """
    regularizer = L2() if regularizer is None else regularizer
    lam = check_lam(lam)
    if not 0.0 < theta <= 1.0:
        raise DeclarationError(f"theta must lie in (0, 1], got {theta!r}")
    search = _choose_search(line_search, risk, regularizer)
    start = check_start(w0, regularizer.start(risk.n_features))
    regularizer.check(start)
    method = _Bmrm(risk, regularizer, lam, theta, search, max_cuts, start)
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm))


class _Bmrm(Method):
    name = "bmrm"
    patience = 500

    def __init__(
        self,
        risk: Risk,
        regularizer: Regularizer,
        lam: float,
        theta: float,
        search: bool,
        max_cuts: int | None,
        start: Vector,
    ) -> None:
        self.risk, self.regularizer, self.lam, self.theta, self.search = risk, regularizer, lam, theta, search
        self.bundle = make_bundle(regularizer, risk.n_features, lam, float(risk.lower_bound), max_cuts)
        self.center = self.query = Point(start, None)
        self.height = math.inf  # objective at the centre
        self.improving = 0  # queries in a row that improved on it
        self.lower_bound = first_bound(risk, regularizer, lam)
        self.problem = {
            "risk": risk,
            "regularizer": regularizer.identity(),
            "lam": lam,
            "theta": theta,
            "line_search": search,
            "max_cuts": max_cuts,
        }

    @property
    def n_weights(self) -> int:
        return self.risk.n_features

    def begin_at(self, monitor: Monitor, w: Vector) -> None:
        self.regularizer.check(w)
        self.center = self.query = Point(w, None)

    def take_over(self, state: dict[str, Any], lam: float) -> None:
        self.bundle.restore(_bundle_state(state))  # cuts of the risk, which does not depend on lam

    def iterate(self, monitor: Monitor) -> None:
        with monitor.part("risk"):
            cut, self.query = evaluate(self.risk, self.query)
        monitor.count(oracle_calls=len(self.risk), passes=1)
        query = self.query
        if math.isfinite(self.height):
            check_cut(
                self.risk, cut, query.w, self.center.w, self.height, self.lam * self.regularizer.value(self.center.w)
            )
        objective = self.lam * self.regularizer.value(query.w) + cut.value
        monitor.offer(query.w, objective)
        self.improving = self.improving + 1 if objective < self.height else 0
        if self.improving:
            self.center, self.height = query, objective
        with monitor.part("dual"):
            self.bundle.add(cut.subgradient, cut.offset(query.w))
            gap = monitor.absolute_gap
            model = self.bundle.solve(_LOOSENESS * (gap if math.isfinite(gap) else abs(objective)))
        monitor.bound(model.lower_bound)
        target = Point(model.w, None)
        if self.search:
            with monitor.part("line search"):
                target = self._line_search(target)
            monitor.offer(self.center.w, self.height)
            self.improving = 0  # the line search keeps up by itself
        stretch = 2.0 ** max(0, self.improving - _STRETCH_AFTER)
        self.query = self.center.towards(target, min(1.0, self.theta * stretch))

    def _line_search(self, target: Point) -> Point:
        """Minimise the objective from the centre towards the target and move there; return the target."""
        target, self.center, self.height = _line_search(
            self.risk, self.regularizer, self.lam, self.center, target, self.height
        )
        return target

    def state(self) -> dict[str, Any]:
        points = (("center", self.center), ("query", self.query))
        state: dict[str, Any] = {name: point.w for name, point in points}
        # Predictions are kept too: multiplied again they would differ in the last bit from the interpolated ones.
        state |= {f"{name}.f": point.f for name, point in points if point.f is not None}
        state |= {"height": self.height, "run": self.improving}
        return state | {f"bundle.{name}": value for name, value in self.bundle.state().items()}

    def restore(self, state: dict[str, Any]) -> None:
        saved = Saved(state)
        self.center, self.query = (self._saved_point(saved, name) for name in ("center", "query"))
        self.height, self.improving = saved.number("height", finite=False), saved.whole("run", high=1000)
        self.bundle.restore(_bundle_state(state))

    def _saved_point(self, saved: Saved, name: str) -> Point:
        w = saved.array(name, (self.n_weights,))
        self.regularizer.check(w)
        if f"{name}.f" not in saved or not isinstance(self.risk, LinearRisk):
            return Point(w, None)
        expected = self.risk.predictions(w)
        f = saved.array(f"{name}.f", expected.shape)
        if np.abs(f - expected).max(initial=0.0) > 1e-6 * max(np.abs(expected).max(initial=0.0), 1.0):
            raise DeclarationError(f"{name}.f are not the predictions of {name}")
        return Point(w, f)

    def cut_model(self) -> dict[str, Any]:
        state = self.bundle.state()
        names = {"rows": "cuts", "b": "offsets", "alpha": "alpha"}  # the linear bundle keeps no alpha
        return {names[name]: array for name, array in state.items() if name in names}

    def info(self) -> dict[str, Any]:
        return {"n_cuts": self.bundle.n_cuts, "line_search": self.search}


def check_cut(risk: Risk, cut: Cut, w: Vector, known: Vector, objective: float, penalty: float) -> None:
    """Raise if the cut taken at `w` lies above the risk's value at a known point, as with a slope of the wrong sign.

    That value is the objective at the point without the penalty of the regulariser.
    """
    value = objective - penalty
    height = cut.plane + float(cut.subgradient @ (known - w))
    # Terms that cancel round by their own size, which may be far above that of the heights.
    size = abs(objective) + abs(penalty) + abs(cut.plane) + float(np.abs(cut.subgradient) @ (np.abs(known) + np.abs(w)))
    if height > value + _ABOVE * size:
        raise DeclarationError(
            f"{type(risk).__name__} is not convex, or its subgradient is wrong (perhaps its sign): the cut taken at "
            f"||w|| = {float(np.linalg.norm(w)):.3g} has height {height:.6g} at a point whose value is {value:.6g}. A "
            "cut must not exceed the risk at any point; compare the subgradient with finite differences of the value."
        )


def _bundle_state(state: dict[str, Any]) -> dict[str, Any]:
    return {name[7:]: value for name, value in state.items() if name.startswith("bundle.")}


@checked
def first_bound(risk: Risk, regularizer: Regularizer, lam: float) -> float:
    """The bound on the objective that the risk's own lower bound gives."""
    floor = float(risk.lower_bound)
    return regularizer.dual_point(np.zeros(risk.n_features), floor, lam)[1] if math.isfinite(floor) else -math.inf


def _choose_search(line_search: bool | str, risk: Risk, regularizer: Regularizer) -> bool:
    if line_search not in (True, False, "auto"):
        raise DeclarationError(f"line_search must be True, False or 'auto', got {line_search!r}")
    possible = isinstance(regularizer, L2 if not isinstance(risk, LinearRisk) else QuadraticRegularizer)
    if line_search == "auto":
        return possible and risk.has_line_search
    if line_search and not (possible and risk.has_line_search):
        raise DeclarationError(
            f"no exact line search for {type(risk).__name__} with {regularizer!r}: it needs a risk with "
            "line_search() and the L2 regulariser. Use line_search='auto'."
        )
    return bool(line_search)


@checked
def evaluate(risk: Risk, point: Point) -> tuple[Cut, Point]:
    """Return the cut at a point, and the point with its predictions; one product forward at most, one back."""
    if isinstance(risk, LinearRisk):
        if point.f is None:
            point = Point(point.w, risk.predictions(point.w))
        assert point.f is not None
        value, derivative = risk.loss(point.f)
        # The plane is one of the predictions as they are, rounded or not; only this product rounds.
        lean, size = float(np.vdot(derivative, point.f)), float(np.vdot(np.abs(derivative), np.abs(point.f)))
        intercept = float(value) - lean - 16.0 * float(np.finfo(np.float64).eps) * (abs(float(value)) + size)
        cut = Cut(float(value), risk.pull_back(derivative), float(value), intercept)
    else:
        cut = risk.cut(point.w)
    a = np.asarray(cut.subgradient, dtype=np.float64)
    if a.shape != point.w.shape:
        raise DeclarationError(f"{type(risk).__name__} gave a subgradient of shape {a.shape}, not {point.w.shape}")
    if not (math.isfinite(cut.value) and math.isfinite(cut.plane) and np.isfinite(a).all()):
        raise SolverFailed(
            f"{type(risk).__name__} is not finite at ||w|| = {float(np.linalg.norm(point.w)):.3g}: value {cut.value}. "
            "Check the data for NaN; a loss that overflows must be extended linearly (docs/mathematics/risks)."
        )
    return Cut(cut.value, a, cut.plane, cut.intercept), point


def _line_search(
    risk: Risk, regularizer: Regularizer, lam: float, center: Point, target: Point, height: float
) -> tuple[Point, Point, float]:
    """Minimise the objective from the centre towards the target; return target, centre and its height."""
    direction = target.w - center.w
    if isinstance(risk, LinearRisk):
        assert isinstance(regularizer, QuadraticRegularizer) and center.f is not None
        target = Point(target.w, risk.predictions(target.w))
        assert target.f is not None
        slope, curvature = regularizer.along(center.w, direction)
        t = risk.line_step(center.f, target.f - center.f, lam * slope, lam * curvature)
        moved = center.towards(target, t)
        assert moved.f is not None
        value = risk.loss(moved.f)[0] if t > 0.0 else math.inf
    else:
        found = risk.line_search(center.w, direction, lam)
        if found is None:
            return target, center, height
        t, value = found
        moved = center.towards(target, t)
    objective = lam * regularizer.value(moved.w) + value
    return (target, moved, objective) if t > 0.0 and objective < height else (target, center, height)
