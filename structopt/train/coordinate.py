"""Dual coordinate descent with shrinking for the hinge and the squared hinge, to a certified gap."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.risks.risk import Risk, check_lam
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.kernels import coordinate as loops
from structopt.train.monitor import Callback, Monitor
from structopt.train.result import TrainResult
from structopt.train.run import Limits, Method, run
from structopt.train.warm import WarmStart

__all__ = ["coordinate_descent"]

Vector = NDArray[np.float64]

# A visit takes about as long as an evaluation, so not every pass is certified (15% of the time became 6%).
_CERTIFY_EVERY = 3

# All examples come back when those still active account for less than this share of the gap.
_REACTIVATE_BELOW = 0.3

_EPS = float(np.finfo(np.float64).eps)


@checked
def coordinate_descent(
    risk: Risk,
    *,
    lam: float,
    tol: float = 1e-3,
    shrinking: bool = True,
    max_passes: float | None = 10_000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    random_state: int = 0,
    w0: Vector | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``lam/2 ||w||^2 + risk(w)`` for a `Hinge` or `SquaredHinge` risk, one dual variable at a time.

    With ``w = 1/(lam m) sum alpha_i y_i x_i`` any dual variables ``alpha_i`` in [0, 1] give the lower bound
    ``mean(alpha_i) - lam/2 ||w||^2`` of the hinge, and in [0, inf) ``mean(alpha_i - alpha_i^2/2) - lam/2 ||w||^2`` of
    its square (weighted means, where the examples have weights); each visit maximises the bound over one of them. On
    sparse data this is the fastest certified method, on dense data line-search `bmrm` is
    (docs/mathematics/training#dual-coordinate-ascent).

    Parameters
    ----------
    risk : Hinge or SquaredHinge
        Of `structopt.risks`; dense or sparse features.
    lam : float
        Weight of the L2 regulariser, positive.
    tol : float
        Relative gap ``(best objective - lower bound) / |best objective|`` at which to stop.
    shrinking : bool
        Put examples aside that seem to stay at a bound of their box. The bound stays valid; the objective is always
        evaluated on all examples.
    max_passes, max_seconds : float, optional
        Limits. A pass over fewer active examples counts as the share that it visits.
    callback : callable, optional
        Called with the `TrainResult` so far after each certified evaluation; a true answer stops.
    checkpoint : path or Checkpoint, optional
        Written atomically; if the file exists the run resumes from it, to the same iterates.
    verbose : bool
        Show a progress bar with the certified gap.
    random_state : int
        Seed of the order of the visits.
    w0, warm
        As in `bmrm`.

    Returns
    -------
    TrainResult
        ``info["dual"]`` holds the dual variables of the last point, ``info["active"]`` how many were not put aside.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan. A dual coordinate descent method for large-scale linear SVM. ICML 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.risks import Hinge
    >>> from structopt.train.coordinate import coordinate_descent
    >>> X, y = np.array([[2.0], [1.0], [-1.0], [-3.0]]), np.array([1, 1, -1, -1])
    >>> result = coordinate_descent(Hinge(X, y), lam=0.1, tol=1e-9)     # the margin 1 is met with w = 1
    >>> result.converged, result.w.round(6), round(result.objective, 6)
    (True, array([1.]), 0.05)
    """
    lam = check_lam(lam)
    method = _Descent(risk, lam, bool(shrinking), _seed(random_state))
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm, w0))


class _Descent(Method):
    name = "coordinate descent"
    patience = 100

    def __init__(self, risk: Risk, lam: float, shrinking: bool, seed: int) -> None:
        self.dual, self.shrinking = _Dual(risk, lam, seed), shrinking
        self.problem = {"risk": risk, "lam": lam, "shrinking": shrinking, "random_state": seed}

    @property
    def n_weights(self) -> int:
        return self.dual.w.size

    def begin_at(self, monitor: Monitor, w: Vector) -> None:
        dual = self.dual
        with monitor.part("certificate"):
            if not dual.alpha.any():
                dual.guess(w)
            dual.rebuild()
            _, bound = dual.certify()
            monitor.offer(w, dual.objective_at(w))
        monitor.count(oracle_calls=dual.size, passes=1)
        monitor.bound(bound)

    def take_over(self, state: dict[str, Any], lam: float) -> None:
        self.dual.alpha = np.array(state["alpha"])

    def iterate(self, monitor: Monitor) -> None:
        dual = self.dual
        with monitor.part("descent"):
            self._descend(monitor)
        with monitor.part("certificate"):
            objective, bound = dual.certify()
            if dual.drift > 0.1 * max(objective - bound, _EPS * abs(objective)):
                dual.rebuild()
                objective, bound = dual.certify()
        monitor.offer(dual.w, objective)
        monitor.bound(bound)

    def _descend(self, monitor: Monitor) -> None:
        """Passes up to the next certificate; all examples are active again once the active ones are near optimal."""
        dual, gap, visits, passes = self.dual, monitor.absolute_gap, 0, 0
        # Passes over few active examples are cheaper than the certificate: at least one data set's worth of visits.
        while passes < _CERTIFY_EVERY or visits < dual.size:
            visited = dual.n_active
            violation = dual.descend(self.shrinking)
            visits, passes = visits + visited, passes + 1
            reactivated = visited < dual.size and violation < _REACTIVATE_BELOW * gap
            if reactivated:
                dual.activate()
            if reactivated or violation <= 0.5 * monitor.tol * monitor.objective or monitor.out_of_time:
                break
        monitor.count(oracle_calls=visits, passes=visits / dual.size)

    def state(self) -> dict[str, Any]:
        return self.dual.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.dual.restore(state)

    def info(self) -> dict[str, Any]:
        return {"dual": self.dual.alpha, "active": self.dual.n_active}


class _Dual:
    """The dual point, its weights, and which examples are active."""

    def __init__(self, risk: Risk, lam: float, seed: int) -> None:
        self._risk, squared = _check_risk(risk)
        self._lam, self.seed = lam, seed
        self.size = len(risk)
        self._shares: Vector = self._risk.shares  # of the examples in the risk; 1/m without weights
        self._step = self._shares / lam
        self._ridge = 1.0 if squared else 0.0
        self._upper = math.inf if squared else 1.0
        matrix = self._risk._features.matrix
        if sp.issparse(matrix):
            self._rows: tuple[Any, ...] = (matrix.data, matrix.indices, matrix.indptr)
            self._pass: Any = loops.descend_csr
            self._norms = loops.squared_norms_csr(matrix.data, matrix.indptr)
        else:
            # In float64, whatever the risk keeps: another type would be another kernel to compile.
            rows = np.ascontiguousarray(matrix, dtype=np.float64)
            self._rows = (rows if rows.flags.writeable else rows.copy(),)
            self._pass = loops.descend_dense
            self._norms = loops.squared_norms_dense(*self._rows)
        self.alpha: Vector = np.zeros(self.size)
        self.w: Vector = np.zeros(risk.n_features)
        self._order = np.arange(self.size)
        self.n_active = self.size
        self._bounds = np.array([-math.inf, math.inf])
        self._passes = 0
        self._changes = 0

    def descend(self, shrinking: bool) -> float:
        """One pass; return the sum of the gaps of the visited examples, each as it was before its visit."""
        bounds = self._bounds if shrinking else np.array([-math.inf, math.inf])
        seed = self.seed * 1_000_003 + self._passes
        self.n_active, violation, changes = self._pass(
            *self._rows, self._risk.y, self._norms, self._step, self._upper, self._ridge, self.w, self.alpha,
            self._order, self.n_active, bounds, seed,
        )  # fmt: skip
        self._passes += 1
        self._changes += changes
        return float(violation * self._lam)

    def activate(self) -> None:
        """Take all examples back."""
        self.n_active = self.size
        self._bounds[:] = -math.inf, math.inf

    def guess(self, w: Vector) -> None:
        """The dual variables that belong to `w` if it is optimal: the derivatives of the losses there."""
        slack = 1.0 - self._risk.y * self._risk.predictions(w)
        self.alpha = np.maximum(slack, 0.0) if self._ridge else np.where(slack > 0.0, 1.0, 0.0)

    def objective_at(self, w: Vector) -> float:
        """The objective of any weights."""
        return 0.5 * self._lam * float(w @ w) + float(self._risk.loss(self._risk.predictions(w))[0])

    def certify(self) -> tuple[float, float]:
        """Return the objective on all examples and the dual bound."""
        norm = 0.5 * self._lam * float(self.w @ self.w)
        objective = self.objective_at(self.w)
        gain = float(self._shares @ (self.alpha - 0.5 * self._ridge * self.alpha**2))
        return objective, gain - norm - self.drift

    @property
    def drift(self) -> float:
        """How far increments of w may have carried ``lam/2 ||w||^2`` from that of the dual point."""
        return self._lam * float(self.w @ self.w) * _EPS * self._changes

    def rebuild(self) -> None:
        """Compute the weights anew from the dual point."""
        self.w = self._risk.pull_back(self._risk.y * self.alpha * self._step)
        self._changes = 0

    def state(self) -> dict[str, Any]:
        return {
            "w": self.w,
            "alpha": self.alpha,
            "order": self._order,
            "n_active": self.n_active,
            "bounds": self._bounds,
            "pass": self._passes,
            "changes": self._changes,
        }

    def restore(self, state: dict[str, Any]) -> None:
        saved = Saved(state)
        w, alpha = saved.array("w", self.w.shape), saved.array("alpha", (self.size,), 0.0, self._upper)
        order = saved.indices("order", (self.size,))
        if not np.array_equal(np.sort(order), np.arange(self.size)):
            raise DeclarationError("order is not a permutation of the examples")
        expected = self._risk.pull_back(self._risk.y * alpha * self._step)
        if np.abs(w - expected).max(initial=0.0) > 1e-6 * np.abs(expected).max(initial=0.0):
            raise DeclarationError("w are not the weights of the dual point alpha")
        self.w, self.alpha, self._order = w, alpha, order
        self._bounds, self.n_active = saved.array("bounds", (2,), finite=False), saved.whole("n_active", 0, self.size)
        self._passes, self._changes = saved.whole("pass"), saved.whole("changes")


def _check_risk(risk: Risk) -> tuple[Any, bool]:
    from structopt.risks.scalar import Hinge, SquaredHinge  # here, because the risks import structopt.train

    if isinstance(risk, Hinge | SquaredHinge):
        return risk, isinstance(risk, SquaredHinge)
    raise DeclarationError(
        f"coordinate_descent minimises Hinge and SquaredHinge risks, not {type(risk).__name__}; use train.bmrm."
    )


def _seed(random_state: int) -> int:
    if not isinstance(random_state, int | np.integer) or random_state < 0:
        raise DeclarationError(f"random_state must be an integer of at least 0, got {random_state!r}.")
    return int(random_state)
