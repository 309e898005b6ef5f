"""Dual block-coordinate ascent over per-example working sets: the default for structured and multiclass problems.

One *oracle pass* asks every example for its most violated label, which joins the example's working set as a plane;
*cached passes* in between move mass among the planes already known, at a few microseconds an example. Exact pair steps
within a working set are what make it converge (TRAINERS.md 4.1): plain Frank-Wolfe steps stall.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from structopt.compiled import FloatArray
from structopt.errors import DeclarationError
from structopt.train.checkpoint import Checkpoint
from structopt.train.monitor import Callback, Monitor
from structopt.train.multiclass import is_multiclass, multiclass_ascent
from structopt.train.result import TrainResult
from structopt.train.risk import check_lam
from structopt.train.structured import StructuredRisk, Violations
from structopt.train.working_sets import WorkingSets, check_risk

__all__ = ["block_ascent"]

# Cached passes end early once they have closed this share of the gap that the oracle pass saw.
_CACHED_ENOUGH = 0.3


def block_ascent(
    risk: StructuredRisk,
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
) -> TrainResult:
    """Minimise ``lam/2 ||w||^2 + risk(w)`` by ascent in its dual, one example's planes at a time.

    Parameters
    ----------
    risk : StructuredRisk
        With a surrogate that is convex in the weights.
    lam : float
        Weight of the regulariser, positive.
    tol : float
        Relative gap ``(objective - lower bound) / |objective|`` at which to stop.
    cached_passes : int
        At most so many passes over the working sets after each oracle pass; few pay where the oracle is fast, up to 30
        where it is slow.
    planes : int
        Size of a working set.
    max_passes, max_seconds, callback, checkpoint, verbose
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
    lam = check_lam(lam)
    check_risk(risk, "block_ascent")
    if cached_passes < 0 or planes < 2:
        raise DeclarationError("cached_passes must be at least 0 and planes at least 2.")
    if is_multiclass(risk):  # exact block steps instead of pair steps
        return multiclass_ascent(
            risk, lam=lam, tol=tol, cached_passes=cached_passes, max_passes=max_passes, max_seconds=max_seconds,
            callback=callback, checkpoint=checkpoint, verbose=verbose, random_state=random_state,
        )  # fmt: skip
    rng = np.random.default_rng(random_state)
    n = len(risk)
    sets = WorkingSets(risk, rng.permutation(n), planes)
    w = np.zeros(risk.n_features)
    scale = 1.0 / (lam * n)
    problem = {"risk": risk.fingerprint(), "lam": lam, "planes": planes, "cached_passes": cached_passes}
    with Monitor(
        "block ascent",
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
        certify = True  # the first pass costs nothing more at fixed weights
        if state is not None:
            certify = _load(state, sets, rng, w)
        while monitor.running:
            found = sets.evaluate(monitor, w, lam) if certify else None
            monitor.count(oracle_calls=n, passes=1)
            gap = _oracle_pass(monitor, sets, found, w, scale, rng)
            with monitor.part("block steps"):
                for _ in range(1 if monitor.passes <= 2 else cached_passes):
                    if sets.ascend_cached(w, scale, rng) < _CACHED_ENOUGH * gap or monitor.out_of_time:
                        break
                # w anew from the dual point, so that the bound is of exactly this w.
                low = sets.rebuild(w, scale) / n - 0.5 * lam * float(w @ w)
            monitor.bound(low)
            # A stale gap tells when to certify, never that the gap is closed (TRAINERS.md 5).
            certify = gap / n <= 1.2 * max(tol, 1e-12) * abs(low) or monitor.passes % 10 == 0
            if monitor.passes + 1 >= monitor.max_passes:
                certify = True
            monitor.record(partial(_save, sets, rng, w, certify))
        if not np.isfinite(monitor.objective) or monitor.stopped in ("time", "callback"):
            sets.evaluate(monitor, w, lam)
    return monitor.result(planes=int(sets.count.sum()))


def _oracle_pass(
    monitor: Monitor,
    sets: WorkingSets,
    found: Sequence[Violations] | None,
    w: FloatArray,
    scale: float,
    rng: np.random.Generator,
) -> float:
    """Ask the groups in turn (unless they have been asked already) and ascend; returns the sum of the gaps seen."""
    gap = 0.0
    for k in rng.permutation(len(sets.groups)):
        with monitor.part("oracle"):
            violations = sets.groups[k].violations(w) if found is None else found[k]
        with monitor.part("block steps"):
            gap += sets.ascend(k, violations, w, scale, rng)
    return gap


def _save(sets: WorkingSets, rng: np.random.Generator, w: FloatArray, certify: bool) -> dict[str, Any]:
    return {"w": w, "certify": certify, "random": rng.bit_generator.state, **sets.state()}


def _load(state: dict[str, Any], sets: WorkingSets, rng: np.random.Generator, w: FloatArray) -> bool:
    w[:] = state["w"]
    rng.bit_generator.state = state["random"]
    sets.restore(state)
    return bool(state["certify"])
