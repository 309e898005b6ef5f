"""Stochastic subgradients over shards: every shard takes the steps of a pass, and the weights are averaged.

A rough answer in few passes, and the only one for surrogates that are not convex. It has no certificate: the mean of
iterates of different shards belongs to no dual point that anybody knows.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structopt.checks import checked, seed
from structopt.distributed.block_ascent import check_shards, structured
from structopt.distributed.risk import ShardedRisk
from structopt.distributed.shards import Shard
from structopt.risks.regularizers import Regularizer, check_l2
from structopt.risks.risk import check_lam
from structopt.risks.structured import check_scale
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.monitor import Callback, Monitor
from structopt.train.result import TrainResult
from structopt.train.run import Limits, Method, run
from structopt.train.sgd import _Iterate, _MiniBatch, check_batch_size, default_batch_size
from structopt.train.warm import WarmStart

__all__ = ["sgd"]

Vector = NDArray[np.float64]


@checked
def sgd(
    risk: ShardedRisk,
    regularizer: Regularizer | None = None,
    *,
    lam: float,
    tol: float = 0.0,
    max_passes: float | None = 30,
    batch_size: int | None = None,
    certify: bool = True,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    random_state: int = 0,
    w0: Vector | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Lower ``lam/2 ||w||^2 + risk(w)`` by Pegasos steps in every shard, averaged after each pass.

    There is no certificate: the lower bound of the result is that of the risk itself (0), and
    ``info["certified"]`` is False. Take `block_ascent` for one.

    Parameters
    ----------
    risk : ShardedRisk
        Whose shards are `StructuredRisk` objects, with any surrogate.
    regularizer : L2, optional
        The steps are those of ``||w||^2 / 2``.
    lam : float
        Weight of the regulariser, positive.
    tol : float
        Relative gap that counts as converged; the run itself ends by its limits only.
    max_passes : float
        Passes over the data.
    batch_size : int, optional
        Examples per step; half the root of the number of a shard's examples by default.
    certify : bool
        Spend one more pass on the objective at the returned weights; without it the objective is unknown (``inf``).
    max_seconds, callback, checkpoint, verbose, w0, warm
        As in `structopt.train.bmrm`.
    random_state : int
        Which examples go together, and the order of the steps.

    Returns
    -------
    TrainResult
        The mean over passes, weighted by their number, of the mean over shards of the last iterates.

    References
    ----------
    McDonald, Hall, Mann. Distributed training strategies for the structured perceptron. NAACL 2010.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.distributed import ShardedRisk, sgd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> y = (X @ rng.normal(size=(3, 4))).argmax(axis=1)
    >>> def load(k, n):
    ...     return so.train.StructuredRisk(so.structures.Multiclass(4), X[k::n], y[k::n])
    >>> with ShardedRisk(load, 4, client="sequential") as risk:
    ...     result = sgd(risk, lam=0.1, max_passes=10)
    ...     better = result.objective < risk(np.zeros(12))[0]
    >>> bool(better), result.info["certified"]
    (True, False)
    """
    check_l2(regularizer, "sgd")
    lam = check_lam(lam)
    check_shards(risk, "sgd")
    method = _Averaging(risk, lam, batch_size, certify, seed("random_state", random_state))
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm, w0))


class _Averaging(Method):
    name = "distributed sgd"

    def __init__(self, risk: ShardedRisk, lam: float, batch_size: int | None, certify: bool, random_state: int) -> None:
        self.risk, self.lam, self.certify, self.n = risk, lam, certify, len(risk)
        self.needs_objective = certify
        self.batch_size, self.random_state = batch_size, random_state
        masses = np.array([0.0 if info is None else info.mass for info in risk.infos])
        self.shares = masses / masses.sum()
        self.w: Vector = np.zeros(risk.n_features)
        self.mean: Vector = np.zeros(risk.n_features)
        self.number = 0  # of passes that led here
        self.evaluated = -1
        self.lower_bound = float(risk.lower_bound)
        self.problem = {"risk": risk, "lam": lam, "batch_size": batch_size, "random_state": random_state}

    @property
    def n_weights(self) -> int:
        return self.w.size

    def begin_at(self, monitor: Monitor, w: Vector) -> None:
        """Go on after the passes that led here, or, where these are not known, as if one had led to `w`."""
        if self.certify:
            self._evaluate(monitor, w)
        else:
            monitor.offer(w)
        if not self.number:
            self.w, self.mean, self.number = np.array(w), np.array(w), 1

    def take_over(self, state: dict[str, Any], lam: float) -> None:
        self.restore(state)
        self.evaluated = -1

    def iterate(self, monitor: Monitor) -> None:
        with monitor.part("steps"):
            own = [(share,) for share in self.shares]
            options = (self.lam, self.number, self.batch_size, self.random_state)
            self.w = self.risk.shards.sum(_steps, np.add, self.w, *options, own=own, size=self.w.nbytes)
        self.number += 1
        self.mean += (self.w - self.mean) * 2.0 / (self.number + 1)
        monitor.count(oracle_calls=self.n, passes=1)
        monitor.offer(self.mean)

    def finish(self, monitor: Monitor) -> None:
        if self.certify and self.number > self.evaluated and not monitor.out_of_time:
            self._evaluate(monitor, self.mean)
            self.evaluated = self.number
            monitor.record(self.state)

    def _evaluate(self, monitor: Monitor, w: Vector) -> None:
        with monitor.part("certify"):
            found = self.risk.shards.map(_upper, w, own=[(weight,) for weight in self.risk.weights])
        monitor.count(oracle_calls=self.n, passes=1)
        monitor.offer(w, 0.5 * self.lam * float(w @ w) + math.fsum(part for part in found if part is not None))

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("w", "mean", "number", "evaluated")}

    def restore(self, state: dict[str, Any]) -> None:
        saved, shape = Saved(state), self.w.shape
        self.w, self.mean = saved.array("w", shape), saved.array("mean", shape)
        self.number, self.evaluated = saved.whole("number", high=1 << 40), saved.whole("evaluated", -1)

    def info(self) -> dict[str, Any]:
        return {"shards": int((self.shares > 0).sum()), "certified": False}


# ---- on a worker -----------------------------------------------------------------------------------


def _steps(
    shard: Shard, w: Vector, lam: float, number: int, batch_size: int | None, random_state: int, share: float
) -> Vector:
    """The shard's share of the mean of all weights after a pass from `w`, which `number` passes have led to."""
    risk, _ = structured(shard.risk)
    n = len(risk)
    size = default_batch_size(n) if batch_size is None else check_batch_size(batch_size, n)
    key = (lam, size, random_state)
    kept = shard.memory.get("sgd")
    if kept is None or kept[0] != key:
        check_scale(risk, lam)
        order = np.random.default_rng([random_state, shard.k]).permutation(n)
        kept = key, [_MiniBatch(risk, part) for part in np.array_split(order, math.ceil(n / size))]
        shard.memory["sgd"] = kept
    batches = kept[1]
    iterate = _Iterate(w.size, lam, "none")
    iterate.restart(w, number * len(batches))
    # The order depends on the pass alone, not on what the shard remembers: it may be another worker's by now.
    for k in np.random.default_rng([random_state, shard.k, number]).permutation(len(batches)):
        batches[k].step(batches[k].violations(iterate), iterate, len(batches) / n)
    return share * iterate.result()


def _upper(shard: Shard, w: Vector, weight: float) -> float:
    """The shard's share of the risk at `w`, or an upper bound of it."""
    risk, inner = structured(shard.risk)
    return weight * inner * float(risk.violations(w).upper.mean())
