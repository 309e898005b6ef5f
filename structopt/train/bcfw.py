"""Block-coordinate Frank-Wolfe: the classical method without working sets (Lacoste-Julien et al. 2013)."""

from __future__ import annotations

import math
import os
from functools import partial
from typing import Any

import numpy as np

from structopt.compiled import FloatArray
from structopt.kernels.frank_wolfe import frank_wolfe
from structopt.train.checkpoint import Checkpoint
from structopt.train.monitor import Callback, Monitor
from structopt.train.result import TrainResult
from structopt.train.risk import check_lam
from structopt.train.structured import StructuredRisk, Violations
from structopt.train.working_sets import WorkingSets, check_risk

__all__ = ["bcfw"]


def bcfw(
    risk: StructuredRisk,
    *,
    lam: float,
    tol: float = 1e-3,
    average: bool = True,
    max_passes: float | None = 1000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    random_state: int = 0,
) -> TrainResult:
    """Minimise ``lam/2 ||w||^2 + risk(w)`` by Frank-Wolfe steps in the dual, one example at a time.

    Each step moves the dual point of one example towards its most violated label, with an exact line search. It needs
    no working sets and little memory, and stalls where `block_ascent` goes on (TRAINERS.md 2).

    Parameters
    ----------
    risk : StructuredRisk
        With a surrogate that is convex in the weights.
    lam : float
        Weight of the regulariser, positive.
    tol : float
        Relative gap ``(objective - lower bound) / |objective|`` at which to stop.
    average : bool
        Evaluate the mean of the iterates weighted by their number, which has the better objective, instead of the last.
    max_passes, max_seconds, callback, checkpoint, verbose
        As in `structopt.train.bmrm`; a pass is one oracle call per example.
    random_state : int
        Which examples are asked together, and the order of the visits.

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
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> y = (X @ rng.normal(size=(3, 4))).argmax(axis=1)
    >>> risk = so.train.StructuredRisk(so.structures.Multiclass(4), X, y)
    >>> bcfw(risk, lam=0.1, tol=1e-2).converged
    True
    """
    lam = check_lam(lam)
    check_risk(risk, "bcfw")
    n = len(risk)
    rng = np.random.default_rng(random_state)
    mixtures = _Mixtures(risk, rng.permutation(n), 2)
    w = np.zeros(risk.n_features)
    mean = np.zeros(risk.n_features)
    scale = 1.0 / (lam * n)
    problem = {"risk": risk.fingerprint(), "lam": lam, "average": average}
    with Monitor(
        "bcfw",
        tol=tol,
        max_passes=max_passes,
        max_seconds=max_seconds,
        callback=callback,
        checkpoint=checkpoint,
        verbose=verbose,
        lower_bound=0.0,
        problem={**problem, "random_state": random_state},
    ) as monitor:
        state = monitor.resume()
        steps = 0
        if state is None:
            monitor.offer(w)  # an early Ctrl-C has weights to return
        else:
            steps = _load(state, mixtures, rng, w, mean)
        while monitor.running:
            monitor.count(oracle_calls=n, passes=1)
            gap = 0.0
            for k in rng.permutation(len(mixtures.groups)):
                with monitor.part("oracle"):
                    found = mixtures.groups[k].violations(w)
                with monitor.part("block steps"):
                    gap += mixtures.ascend(k, found, w, scale, rng)
                    mean += 2.0 / (steps + 2.0) * (w - mean)
                steps += 1
            with monitor.part("block steps"):
                low = mixtures.rebuild(w, scale) / n - 0.5 * lam * float(w @ w)
            monitor.bound(low)
            # A stale gap tells when to certify, never that the gap is closed (TRAINERS.md 5).
            due = gap / n <= 1.5 * max(tol, 1e-12) * abs(low) or round(monitor.passes) % 10 == 0
            if due or monitor.passes + 1 >= monitor.max_passes or monitor.out_of_time:
                monitor.count(oracle_calls=n, passes=1)
                mixtures.evaluate(monitor, mean if average else w, lam)
            monitor.record(partial(_save, mixtures, rng, w, mean, steps))
        if monitor.stopped == "callback" and math.isinf(monitor.objective):
            mixtures.evaluate(monitor, mean if average else w, lam)
    return monitor.result(parts=int(mixtures.size[:, 0].sum()))


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


def _save(mixtures: _Mixtures, rng: np.random.Generator, w: FloatArray, mean: FloatArray, steps: int) -> dict[str, Any]:
    return {"w": w, "mean": mean, "steps": steps, "random": rng.bit_generator.state, **mixtures.state()}


def _load(state: dict[str, Any], mixtures: _Mixtures, rng: np.random.Generator, w: FloatArray, mean: FloatArray) -> int:
    w[:], mean[:] = state["w"], state["mean"]
    rng.bit_generator.state = state["random"]
    mixtures.restore(state)
    return int(state["steps"])
