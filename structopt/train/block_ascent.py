"""Dual block-coordinate ascent over per-example working sets: the default for structured and multiclass problems.

One *oracle pass* finds the most violated label of every example, which joins the example's working set as a cut;
*cached passes* in between move mass among the cuts already known, at a few microseconds an example. Exact pair steps
within a working set are what make it converge (docs/mathematics/training#block-ascent): plain
Frank-Wolfe steps stall.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from structopt.checks import checked, seed, whole
from structopt.risks.regularizers import Regularizer, check_l2
from structopt.risks.risk import check_lam
from structopt.risks.structured import StructuredRisk, Violations
from structopt.risks.watch import CACHED_VISIT
from structopt.space.compiled import FloatArray
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.monitor import Callback, Monitor
from structopt.train.multiclass import is_multiclass, multiclass_ascent
from structopt.train.result import TrainResult
from structopt.train.run import Limits, run
from structopt.train.warm import WarmStart
from structopt.train.working_sets import DualMethod, WorkingSets, check_risk, working_set_size

__all__ = ["block_ascent"]

# Cached passes end early once the gap left is below this share of what the oracle pass saw.
_CACHED_ENOUGH = 0.4
# The first cuts are of labels far from those that count in the end: few passes over them.
_FIRST_CACHED = 3
# A bound needs w anew from the dual point: every so many passes, and whenever the next one certifies.
_BOUND_EVERY = 3
# Passes from one certificate to the next, and before the early ones: a run that is stopped has something to return.
_CERTIFY_EVERY, _EARLY = 10, (2, 5)
# A pass through the oracles is expensive from so many passes over the working sets on.
_EXPENSIVE = 20.0
# Progress is slow where the gap is more than this share of what it was at the last certificate.
_SLOW = 0.5


@checked
def block_ascent(
    risk: StructuredRisk,
    regularizer: Regularizer | None = None,
    *,
    lam: float,
    tol: float = 1e-3,
    cached_passes: int = 20,
    cached_labels: int | None = None,
    max_passes: float | None = 1000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    random_state: int = 0,
    w0: FloatArray | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``lam/2 ||w||^2 + risk(w)`` by ascent in its dual, one example's cuts at a time.

    Where a pass through the oracles takes far longer than one over the working sets and ``lam n`` is below 1, or where
    ten passes do not halve the gap, it continues with the rounds of `n_slack` and the same cuts
    (docs/mathematics/training#proximal-rounds).

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
    cached_passes : int
        At most so many passes over the working sets after each oracle pass; few pay where the oracle is fast, 60 where
        it is slow (slack rescaling of sequences) or ``lam n`` is below 1.
    cached_labels : int, optional
        Labels kept per example, as cutting planes of its surrogate: the size of a working set. By default 20, and up to
        300 in all if there are few examples.
    max_passes, max_seconds, callback, checkpoint, verbose, w0, warm
        As in `structopt.train.bmrm`; a pass is one oracle call per example.
    random_state : int
        Order of the visits.

    Returns
    -------
    TrainResult
        Certified: the objective by an oracle pass at fixed weights, the bound from the feasible dual point.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> y = (X @ rng.normal(size=(3, 4))).argmax(axis=1)
    >>> risk = so.train.StructuredRisk(so.structures.Multiclass(4), X, y)
    >>> result = so.train.block_ascent(risk, lam=0.01, tol=1e-4)
    >>> result.converged
    True
    """
    check_l2(regularizer, "block_ascent")
    lam = check_lam(lam)
    check_risk(risk, "block_ascent")
    whole("cached_passes", cached_passes, 0)
    size = working_set_size(cached_labels, len(risk), 20)
    if is_multiclass(risk):  # exact block steps instead of pair steps
        return multiclass_ascent(
            risk, lam=lam, tol=tol, cached_passes=cached_passes, max_passes=max_passes, max_seconds=max_seconds,
            callback=callback, checkpoint=checkpoint, verbose=verbose, random_state=random_state, w0=w0,
            warm=warm,
        )  # fmt: skip
    method = _BlockAscent(risk, lam, cached_passes, size, random_state)
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm, w0))


class _BlockAscent(DualMethod):
    name = "block ascent"

    def __init__(
        self, risk: StructuredRisk, lam: float, cached_passes: int, cached_labels: int, random_state: int
    ) -> None:
        rng = np.random.default_rng(seed("random_state", random_state))
        super().__init__(risk, WorkingSets(risk, rng.permutation(len(risk)), cached_labels), lam, rng)
        self.cached_passes = cached_passes
        self.certify = True  # the next pass evaluates all oracles at one w
        self.almost_done = False  # by the estimated gap the next certificate is the last: evaluate at w itself
        self.rounds = False  # oracles so expensive, or progress so slow, that each round solves the restricted dual
        self.last_gap = math.inf  # the certified gap some passes ago
        self.problem = {
            "risk": risk,
            "lam": lam,
            "cached_labels": cached_labels,
            "cached_passes": cached_passes,
            "random_state": random_state,
        }

    def begin_at(self, monitor: Monitor, w: FloatArray) -> None:
        super().begin_at(monitor, w)
        self.certify = True

    def iterate(self, monitor: Monitor) -> None:
        if self.rounds:
            self.round(monitor)
            return
        found = self._certify(monitor) if self.certify else None
        number = monitor.passes + 1
        gap = self._oracle_pass(monitor, found)
        monitor.count(oracle_calls=self.n, passes=1)
        with monitor.part("block steps"):
            most = self.cached_passes if number > 2 else min(self.cached_passes, _FIRST_CACHED)
            for _ in range(most):
                left = self.sets.ascend_cached(self.w, self.scale, self.rng)
                if left < _CACHED_ENOUGH * gap or monitor.out_of_time:
                    break
        # The sum of gaps at different weights decides when to certify; it is no certificate
        # (docs/mathematics/training#certificates).
        self.almost_done = gap / self.n <= 1.2 * max(monitor.tol, 1e-12) * monitor.lower_bound
        self.certify = self.almost_done or number % _CERTIFY_EVERY == 0 or number + 1 >= monitor.max_passes
        self.certify |= number in _EARLY
        if self.certify or number % _BOUND_EVERY == 0:
            self._bound(monitor)
        if number % _CERTIFY_EVERY == 1:  # right after a certificate
            self._choose(monitor)

    def _certify(self, monitor: Monitor) -> list[Violations]:
        theta = 1.0 if self.almost_done or self.improved else 0.5
        return self.evaluate(monitor, self.candidate(monitor, theta))

    def _choose(self, monitor: Monitor) -> None:
        """Go over to rounds where few oracle calls count for more than fresh weights, or these do not help."""
        expensive = self.pass_work > _EXPENSIVE * CACHED_VISIT * self.n
        slow = monitor.passes > 1 and monitor.gap > _SLOW * self.last_gap
        self.rounds = (expensive and self.lam * self.n < 1.0) or slow
        self.last_gap = monitor.gap

    def _bound(self, monitor: Monitor) -> None:
        with monitor.part("block steps"):
            low = self.rebuild()
        monitor.bound(low)

    def _oracle_pass(self, monitor: Monitor, found: list[Violations] | None) -> float:
        """Evaluate the groups in turn (unless done already) and ascend; returns the sum of the gaps."""
        if found is not None:
            with monitor.part("block steps"):
                return self.ascend(found, self.rng.permutation(len(found)))
        gap = 0.0
        with self.timed():
            for k in self.rng.permutation(len(self.sets.groups)):
                # What is left must do for one more pass: the certificate of the weights that are returned.
                monitor.check_time(1.1 * self.pass_seconds)
                with monitor.part("oracle"):
                    violations = self.sets.groups[k].violations(self.w)
                with monitor.part("block steps"):
                    gap += self.sets.ascend(k, violations, self.w, self.scale, self.rng)
        return gap

    def finish(self, monitor: Monitor) -> None:
        if not np.isfinite(monitor.objective) or monitor.stopped in ("time", "callback"):
            self._bound(monitor)
            if not self.rounds or not np.isfinite(monitor.objective):  # a round has evaluated its point
                self._certify(monitor)
                monitor.count(oracle_calls=self.n, passes=1)
                monitor.record(self.state)

    def state(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("certify", "almost_done", "rounds")}
        return {**own, "last_gap": float(self.last_gap), **super().state()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        saved = Saved(state)
        for name in ("certify", "almost_done", "rounds"):
            setattr(self, name, saved.flag(name))
        self.last_gap = saved.number("last_gap", finite=False)

    def info(self) -> dict[str, Any]:
        return {"planes": int(self.sets.count.sum()), "rounds": self.rounds}
