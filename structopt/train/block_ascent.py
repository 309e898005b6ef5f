"""Dual block-coordinate ascent over per-example working sets: the default for structured and multiclass problems.

One *oracle pass* asks every example for its most violated label, which joins the example's working set as a plane;
*cached passes* in between move mass among the planes already known, at a few microseconds an example. Exact pair steps
within a working set are what make it converge (TRAINERS.md 4.1): plain Frank-Wolfe steps stall.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from structopt.compiled import FloatArray
from structopt.errors import DeclarationError
from structopt.train.checkpoint import Checkpoint
from structopt.train.monitor import Callback, Monitor
from structopt.train.multiclass import is_multiclass, multiclass_ascent
from structopt.train.regularizers import Regularizer, check_l2
from structopt.train.result import TrainResult
from structopt.train.risk import check_lam
from structopt.train.run import Limits, run
from structopt.train.structured import StructuredRisk, Violations
from structopt.train.warm import WarmStart
from structopt.train.working_sets import DualMethod, WorkingSets, check_risk

__all__ = ["block_ascent"]

# Cached passes end early once the gap left is below this share of what the oracle pass saw.
_CACHED_ENOUGH = 0.4
# The first planes are of labels far from those that count in the end: few passes over them.
_FIRST_CACHED = 3
# A bound needs w anew from the dual point: every so many passes, and whenever the next one certifies.
_BOUND_EVERY = 3


def block_ascent(
    risk: StructuredRisk,
    regularizer: Regularizer | None = None,
    *,
    lam: float,
    tol: float = 1e-3,
    cached_passes: int = 20,
    planes: int = 20,
    max_passes: float | None = 1000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    random_state: int = 0,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``lam/2 ||w||^2 + risk(w)`` by ascent in its dual, one example's planes at a time.

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
    planes : int
        Size of a working set.
    max_passes, max_seconds, callback, checkpoint, verbose, warm
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
    if cached_passes < 0 or planes < 2:
        raise DeclarationError("cached_passes must be at least 0 and planes at least 2.")
    if is_multiclass(risk):  # exact block steps instead of pair steps
        return multiclass_ascent(
            risk, lam=lam, tol=tol, cached_passes=cached_passes, max_passes=max_passes, max_seconds=max_seconds,
            callback=callback, checkpoint=checkpoint, verbose=verbose, random_state=random_state, warm=warm,
        )  # fmt: skip
    method = _BlockAscent(risk, lam, cached_passes, planes, random_state)
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm))


class _BlockAscent(DualMethod):
    name = "block ascent"

    def __init__(self, risk: StructuredRisk, lam: float, cached_passes: int, planes: int, random_state: int) -> None:
        rng = np.random.default_rng(random_state)
        super().__init__(risk, WorkingSets(risk, rng.permutation(len(risk)), planes), lam, rng)
        self.cached_passes = cached_passes
        self.certify = False  # the next pass asks all oracles at one w
        self.problem = {
            "risk": risk,
            "lam": lam,
            "planes": planes,
            "cached_passes": cached_passes,
            "random_state": random_state,
        }

    def start(self, monitor: Monitor) -> None:
        if monitor.max_passes <= 1:
            self.certify = True
            monitor.offer(self.w)
            return
        monitor.count(oracle_calls=self.n, passes=1)
        self.evaluate(monitor, self.w)  # an early Ctrl-C has weights to return, and their gap

    def begin_at(self, monitor: Monitor, w: FloatArray) -> None:
        super().begin_at(monitor, w)
        self.certify = True

    def iterate(self, monitor: Monitor) -> None:
        found = self.evaluate(monitor, self.w) if self.certify else None
        monitor.count(oracle_calls=self.n, passes=1)
        gap = self._oracle_pass(monitor, found)
        with monitor.part("block steps"):
            most = self.cached_passes if monitor.passes > 2 else min(self.cached_passes, _FIRST_CACHED)
            for _ in range(most):
                left = self.sets.ascend_cached(self.w, self.scale, self.rng)
                if left < _CACHED_ENOUGH * gap or monitor.out_of_time:
                    break
        # A stale gap tells when to certify, never that the gap is closed (TRAINERS.md 5).
        self.certify = gap / self.n <= 1.2 * max(monitor.tol, 1e-12) * monitor.lower_bound or monitor.passes % 10 == 0
        self.certify |= monitor.passes + 1 >= monitor.max_passes
        if self.certify or monitor.passes % _BOUND_EVERY == 0:
            self._bound(monitor)

    def _bound(self, monitor: Monitor) -> None:
        with monitor.part("block steps"):
            low = self.rebuild()
        monitor.bound(low)

    def _oracle_pass(self, monitor: Monitor, found: Sequence[Violations] | None) -> float:
        """Ask the groups in turn (unless they have been asked already) and ascend; returns the sum of the gaps seen."""
        gap = 0.0
        for k in self.rng.permutation(len(self.sets.groups)):
            with monitor.part("oracle"):
                violations = self.sets.groups[k].violations(self.w) if found is None else found[k]
            with monitor.part("block steps"):
                gap += self.sets.ascend(k, violations, self.w, self.scale, self.rng)
        return gap

    def finish(self, monitor: Monitor) -> None:
        if not np.isfinite(monitor.objective) or monitor.stopped in ("time", "callback"):
            self._bound(monitor)
            self.evaluate(monitor, self.w)

    def state(self) -> dict[str, Any]:
        return {"certify": self.certify, **super().state()}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.certify = bool(state["certify"])

    def info(self) -> dict[str, Any]:
        return {"planes": int(self.sets.count.sum())}
