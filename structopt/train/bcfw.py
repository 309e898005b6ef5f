"""Block-coordinate Frank-Wolfe: the classical method without working sets (Lacoste-Julien et al. 2013)."""

from __future__ import annotations

import math
import os
from typing import Any, Literal

import numpy as np

from structopt.checks import checked, choice, seed
from structopt.risks.regularizers import Regularizer, check_l2
from structopt.risks.risk import check_lam
from structopt.risks.structured import StructuredRisk, Violations
from structopt.space.compiled import FloatArray
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.kernels.frank_wolfe import frank_wolfe
from structopt.train.monitor import Callback, Monitor
from structopt.train.result import TrainResult
from structopt.train.run import Limits, run
from structopt.train.warm import WarmStart
from structopt.train.working_sets import DualMethod, WorkingSets, check_risk

__all__ = ["bcfw"]


@checked
def bcfw(
    risk: StructuredRisk,
    regularizer: Regularizer | None = None,
    *,
    lam: float,
    tol: float = 1e-3,
    average: Literal["weighted", "none"] = "weighted",
    max_passes: float | None = 1000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    random_state: int = 0,
    w0: FloatArray | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``lam/2 ||w||^2 + risk(w)`` by Frank-Wolfe steps in the dual, one example at a time.

    Each step moves the dual point of one example towards its most violated label, with an exact line search. It needs
    no working sets and little memory, and stalls where `block_ascent` goes on
    (docs/mathematics/training#block-ascent).

    Parameters
    ----------
    risk : StructuredRisk
        With a surrogate that is convex in the weights.
    regularizer : L2, optional
        The dual steps are those of ``||w||^2 / 2``; for others take `structopt.train.bmrm`.
    lam : float
        Weight of the regulariser, positive.
    tol : float
        Relative gap ``(objective - lower bound) / |objective|`` at which to stop.
    average : {"weighted", "none"}
        Which weights are returned: the mean of the iterates weighted by t, which has the better objective, or the last.
    max_passes, max_seconds, callback, checkpoint, verbose, w0, warm
        As in `structopt.train.bmrm`; a pass is one oracle call per example.
    random_state : int
        Of the groups of examples and of the order of the visits.

    Returns
    -------
    TrainResult
        Certified: the objective by an oracle pass at fixed weights, the bound from the feasible dual point.

    References
    ----------
    Lacoste-Julien, Jaggi, Schmidt, Pletscher. Block-coordinate Frank-Wolfe optimization for structural SVMs. ICML 2013.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.train.bcfw import bcfw
    >>> X, y = np.array([[2.0], [1.0], [-3.0]]), ["up", "up", "down"]
    >>> risk = so.train.StructuredRisk(so.structures.Multiclass(["up", "down"]), X, y)
    >>> bcfw(risk, lam=0.1, tol=1e-2).converged
    True
    """
    check_l2(regularizer, "bcfw")
    lam = check_lam(lam)
    check_risk(risk, "bcfw")
    choice("average", average, ("weighted", "none"))
    method = _FrankWolfe(risk, lam, average, random_state)
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm, w0))


class _FrankWolfe(DualMethod):
    name = "bcfw"

    def __init__(self, risk: StructuredRisk, lam: float, average: str, random_state: int) -> None:
        rng = np.random.default_rng(seed("random_state", random_state))
        super().__init__(risk, _Mixtures(risk, rng.permutation(len(risk)), 2), lam, rng)
        self.average, self.mean, self.steps = average, np.zeros(risk.n_features), 0
        self.problem = {"risk": risk, "lam": lam, "average": average, "random_state": random_state}

    def start(self, monitor: Monitor) -> None:
        monitor.offer(self.w)  # an early Ctrl-C has weights to return

    def begin_at(self, monitor: Monitor, w: FloatArray) -> None:
        super().begin_at(monitor, w)
        self.mean[:] = self.w

    def iterate(self, monitor: Monitor) -> None:
        gap = 0.0
        with self.timed():
            for k in self.rng.permutation(len(self.sets.groups)):
                # What is left must do for one more pass: the certificate of the weights that are returned.
                monitor.check_time(1.1 * self.pass_seconds)
                with monitor.part("oracle"):
                    found = self.sets.groups[k].violations(self.w)
                with monitor.part("block steps"):
                    gap += self.sets.ascend(k, found, self.w, self.scale, self.rng)
                    self.mean += 2.0 / (self.steps + 2.0) * (self.w - self.mean)
                self.steps += 1
        monitor.count(oracle_calls=self.n, passes=1)
        with monitor.part("block steps"):
            low = self.rebuild()
        monitor.bound(low)
        # The sum of gaps at different weights decides when to certify; it is no certificate
        # (docs/mathematics/training#certificates).
        due = gap / self.n <= 1.5 * max(monitor.tol, 1e-12) * abs(low) or round(monitor.passes) % 10 == 0
        if due or monitor.passes + 1 >= monitor.max_passes:
            monitor.count(oracle_calls=self.n, passes=1)
            self.evaluate(monitor, self.chosen)

    @property
    def chosen(self) -> FloatArray:
        """The weights to evaluate."""
        return self.mean if self.average == "weighted" else self.w

    def finish(self, monitor: Monitor) -> None:
        if monitor.stopped == "time" or (monitor.stopped == "callback" and math.isinf(monitor.objective)):
            monitor.bound(self.rebuild())
            self.evaluate(monitor, self.chosen)
            monitor.count(oracle_calls=self.n, passes=1)
            monitor.record(self.state)

    def state(self) -> dict[str, Any]:
        return {"mean": self.mean, "steps": self.steps, **super().state()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        saved = Saved(state)
        self.mean[:], self.steps = saved.array("mean", self.mean.shape), saved.whole("steps")

    def info(self) -> dict[str, Any]:
        return {"parts": int(self.sets.size[:, 0].sum())}


class _Mixtures(WorkingSets):
    """One mixture of labels per example; the second slot is for the label to move to."""

    def ascend(self, k: int, violations: Violations, w: FloatArray, scale: float, rng: np.random.Generator) -> float:
        """One Frank-Wolfe step of every example of group `k`; returns the sum of the gaps met."""
        new = self._new_planes(k, violations)
        first, last = int(self.first[k]), int(self.first[k + 1])
        order = first + rng.permutation(last - first)

        def visit(at: int) -> int:
            return frank_wolfe(
                order, at, first, new, *self._storage, self._features, w, scale, self.gap, self._scratch
            )  # fmt: skip

        self._visit_all(visit, 0, len(order), new)
        return float(self.gap[first:last].sum())
