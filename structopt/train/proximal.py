"""The proximal bundle method (BMRM Algorithm 1): the classical one, for comparison."""

from __future__ import annotations

import math
import os
import sys
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.programs.simplex_qp import SimplexQP
from structopt.risks.regularizers import L2, Regularizer
from structopt.risks.risk import Risk, check_lam, check_start
from structopt.train.bmrm import Point, check_cut, evaluate, first_bound
from structopt.train.bundle import IDLE_LIMIT, make_bundle
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.monitor import Callback, Monitor
from structopt.train.result import TrainResult
from structopt.train.run import Limits, Method, run
from structopt.train.warm import WarmStart

__all__ = ["CentredBundle", "ProximalModel", "check_centred", "proximal_bundle"]

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@checked
def proximal_bundle(
    risk: Risk,
    regularizer: Regularizer | None = None,
    *,
    lam: float,
    tol: float = 1e-3,
    zeta: float | None = None,
    serious_share: float = 0.1,
    max_passes: float | None = 10_000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    w0: Vector | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``J(w) = lam * regularizer(w) + risk(w)`` with cuts of J and a proximal term.

    Each pass minimises the maximum of the cuts of J plus ``zeta/2 ||w - centre||^2`` and moves the centre if J
    fell by at least `serious_share` of what the model predicted (a serious step); otherwise only the cut is kept (a
    null step).

    The method itself certifies nothing about the optimum (its gap contains the proximal term), so the lower bound is
    that of `bmrm`, from the same risk cuts. `bmrm` needs fewer passes (docs/mathematics/training#bundle-methods).

    Parameters
    ----------
    zeta : float, optional
        First weight of the proximal term, then adapted; `lam` by default.
    serious_share : float
        Share of the predicted decrease that makes a step serious, in (0, 1).
    risk, regularizer, lam, tol, max_passes, max_seconds, callback, checkpoint, verbose, w0, warm
        As in `bmrm`. The regulariser must be finite everywhere.

    Returns
    -------
    TrainResult

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.train import Risk, proximal_bundle
    >>> class Absolute(Risk):
    ...     lower_bound, n_features = 0.0, 1
    ...     def value_and_subgradient(self, w):
    ...         return abs(w[0] - 3.0), np.sign(w - 3.0)
    >>> result = proximal_bundle(Absolute(), lam=0.5, tol=1e-6)
    >>> result.converged, round(float(result.w[0]), 3)
    (True, 2.0)
    """
    lam = check_lam(lam)
    zeta = lam if zeta is None else float(zeta)
    if not (math.isfinite(zeta) and zeta > 0):
        raise DeclarationError(f"zeta must be positive, got {zeta!r}")
    regularizer, start = check_centred(risk, regularizer, serious_share, w0)
    model = ProximalModel(start, zeta, serious_share)
    method = CentredBundle("proximal_bundle", risk, regularizer, lam, model, {"zeta": zeta})
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm))


@checked
def check_centred(
    risk: Risk, regularizer: Regularizer | None, serious_share: float, w0: Vector | None
) -> tuple[Regularizer, Vector]:
    """The regulariser and the first centre of a bundle method with cuts of the whole objective."""
    regularizer = L2() if regularizer is None else regularizer
    if not 0.0 < serious_share < 1.0:
        raise DeclarationError(f"serious_share must lie in (0, 1), got {serious_share!r}")
    if not regularizer.everywhere:
        raise DeclarationError(f"{regularizer!r} is infinite outside the non-negative weights: use bmrm")
    return regularizer, check_start(w0, regularizer.start(risk.n_features))


class CentredBundle(Method):
    """A bundle method with cuts of J around a centre, and the certificate of `bmrm` from the same cuts of the risk."""

    patience = 500

    def __init__(
        self,
        name: str,
        risk: Risk,
        regularizer: Regularizer,
        lam: float,
        model: ProximalModel,
        options: dict[str, Any],
    ) -> None:
        self.name, self.risk, self.regularizer, self.lam, self.model = name, risk, regularizer, lam, model
        self.certificate = make_bundle(regularizer, risk.n_features, lam, float(risk.lower_bound))
        self.lower_bound = first_bound(risk, regularizer, lam)
        self.problem = {
            "risk": risk,
            "regularizer": regularizer.identity(),
            "lam": lam,
            **options,
            "serious_share": model.serious_share,
        }

    @property
    def n_weights(self) -> int:
        return self.risk.n_features

    def begin_at(self, monitor: Monitor, w: Vector) -> None:
        self.model.center = self.model.query = w

    def take_over(self, state: dict[str, Any], lam: float) -> None:
        self.certificate.restore(_certificate_state(state))

    def iterate(self, monitor: Monitor) -> None:
        w = self.model.query
        with monitor.part("risk"):
            cut, _ = evaluate(self.risk, Point(w, None))
        monitor.count(oracle_calls=len(self.risk), passes=1)
        center, height = self.model.center, self.model.height
        if math.isfinite(height):
            check_cut(self.risk, cut, w, center, height, self.lam * self.regularizer.value(center))
        objective = self.lam * self.regularizer.value(w) + cut.value
        monitor.offer(w, objective)
        with monitor.part("dual"):
            self.certificate.add(cut.subgradient, cut.offset(w))
            gap = monitor.absolute_gap
            tolerance = 0.1 * (gap if math.isfinite(gap) else abs(objective))
            monitor.bound(self.certificate.solve(tolerance).lower_bound)
            plane = objective - cut.value + cut.plane
            slope = cut.subgradient + self.lam * self.regularizer.subgradient(w)
            self.model.update(objective, plane, slope, monitor.absolute_gap, tolerance)

    def state(self) -> dict[str, Any]:
        certificate = {f"certificate.{name}": value for name, value in self.certificate.state().items()}
        return self.model.state() | certificate

    def restore(self, state: dict[str, Any]) -> None:
        self.model.restore(state)
        self.certificate.restore(_certificate_state(state))

    def info(self) -> dict[str, Any]:
        return {"n_cuts": self.model.qp.n_cuts, "serious": self.model.serious} | self.model.info()


def _certificate_state(state: dict[str, Any]) -> dict[str, Any]:
    return {name[12:]: value for name, value in state.items() if name.startswith("certificate.")}


class ProximalModel:
    """Cuts of J around a centre: ``max_i (<s_i, w - centre> + b_i) + zeta/2 ||w - centre||^2``."""

    _KEPT: ClassVar[tuple[str, ...]] = ("center", "query", "height", "promised", "serious", "nulls", "rows")

    def __init__(self, start: Vector, zeta: float, serious_share: float) -> None:
        self.center = start
        self.query = start
        self.serious_share = serious_share
        self.height = math.inf  # J at the centre
        self.promised = 0.0
        self.serious = 0
        self.nulls = 0
        self.qp = SimplexQP(zeta)
        self.rows: Matrix = np.empty((0, start.size))

    def update(self, objective: float, plane: float, slope: Vector, gap: float, tolerance: float) -> None:
        """Take in J at the query, move the centre if it paid, and find the next query."""
        self._add(plane, slope)
        fall = self.height - objective
        if math.isinf(self.height):
            self._begin(slope, gap)
            self._move(objective)
        elif fall >= self.serious_share * self.promised:
            self._move(objective)
            self.serious += 1
            self.nulls = 0
            if fall >= 0.5 * self.promised:
                self._reach_further()
        else:
            self.nulls += 1
            self._stay_closer()
        self._solve(0.1 * min(tolerance, self.promised) if self.promised > 0 else 0.1 * tolerance)
        active = np.flatnonzero(self.qp.alpha)
        self.query = self.center - self.qp.alpha[active] @ self.rows[active] / self.qp.lam
        kept = self.qp.idle < IDLE_LIMIT
        if not kept.all():
            self.qp.keep(kept)
            self.rows = self.rows[kept]

    # ---- what a method decides -------------------------------------------------------------------

    def _begin(self, slope: Vector, gap: float) -> None:
        """Know the slope at the first centre and the gap there."""

    def _reach_further(self) -> None:
        self.qp.lam *= 0.5  # the model is right this far out

    def _stay_closer(self) -> None:
        if self.nulls % 10 == 0:
            self.qp.lam *= 2.0

    def _solve(self, tolerance: float) -> None:
        solution = self.qp.solve(tolerance)
        self.promised = max(self.height - solution.value - solution.absolute_gap, 0.0)

    def info(self) -> dict[str, Any]:
        """What the method adds to its result."""
        return {"zeta": self.qp.lam}

    # ----------------------------------------------------------------------------------------------

    def _add(self, plane: float, slope: Vector) -> None:
        self.rows = np.vstack([self.rows, slope])
        self.qp.add(self.rows @ slope, plane + float(slope @ (self.center - self.query)))

    def _move(self, objective: float) -> None:
        self.qp.b[:] += self.rows @ (self.query - self.center)
        self.center, self.height = self.query, objective

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._KEPT} | {"zeta": self.qp.lam} | self.qp.state()

    def restore(self, state: dict[str, Any]) -> None:
        saved, d = Saved(state), self.center.size
        self.center, self.query = saved.array("center", (d,)), saved.array("query", (d,))
        self.height, self.promised = saved.number("height", finite=False), saved.number("promised", low=0.0)
        self.serious, self.nulls = saved.whole("serious"), saved.whole("nulls")
        self.qp.lam = saved.number("zeta", low=sys.float_info.min)
        self.qp.restore(state)
        self.rows = saved.array("rows", (self.qp.n_cuts, d))
