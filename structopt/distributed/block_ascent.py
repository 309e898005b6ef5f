"""Block ascent over shards: each ascends its own dual blocks, and the weights are agreed on by consensus.

Bundle methods need ten times the passes of block ascent, and a pass over data on many workers is what costs. Here every
shard holds the working sets of its examples, and the driver the weights w. With ``v_k = 1/lam sum alpha psi`` over the
blocks of shard k, the dual value is ``sum_k l_k - lam/2 ||sum_k v_k||^2``. A round sends w to all shards; shard k takes
block steps in its own weights ``u_k = w + s (v_k - v_k at the start)``, which changes one number of the kernels, and
returns v_k. The next weights are those of ADMM for consensus with the penalty ``lam / s``
(docs/mathematics/training#block-ascent-over-shards). Every dual point is feasible, whatever weights it was found at:
the bound holds when shards are lost, late or out of date.
"""

from __future__ import annotations

import math
import os
import sys
import uuid
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structopt.checks import checked, seed, whole
from structopt.distributed.risk import ShardedRisk
from structopt.distributed.shards import Shard
from structopt.errors import DeclarationError
from structopt.risks.regularizers import Regularizer, check_l2
from structopt.risks.risk import Risk, check_lam
from structopt.risks.structured import StructuredRisk, _Weighted, check_scale
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.monitor import Callback, Monitor
from structopt.train.result import TrainResult
from structopt.train.run import Limits, Method, run
from structopt.train.warm import WarmStart
from structopt.train.working_sets import WorkingSets, check_risk, working_set_size

__all__ = ["block_ascent", "check_shards", "structured"]

Vector = NDArray[np.float64]

# The step s of the first round, over the number of shards: at K shards the penalty of the consensus is 16 lam / K.
_FIRST_STEP = 1.0 / 16.0
# Residuals of the consensus, that of the weights over that of the duals, between which the step stays; by which factor
# more than 1 it changes otherwise, and the rounds in which that is halved: a step that changes for ever need not
# converge (gaps of 1e-4 were not reached).
_RESIDUALS, _CHANGE, _HALF_LIFE = (0.125, 0.5), 0.5, 25
# As long as the estimated gap is larger than this share of the objective, oracles are asked at the weights of their
# shard, which are fresher; then at the common ones, and every pass is a certificate.
_FAR = 0.1
# Passes from one certificate to the next while the gap is large, and the early ones.
_CERTIFY_EVERY, _EARLY = 10, (2, 5)
# Passes over the working sets of a shard end once this share of the gap is left.
_ENOUGH = 0.4


@checked
def block_ascent(
    risk: ShardedRisk,
    regularizer: Regularizer | None = None,
    *,
    lam: float,
    tol: float = 1e-3,
    cached_passes: int = 10,
    cached_labels: int | None = None,
    rounds: int = 5,
    max_passes: float | None = 1000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    random_state: int = 0,
    w0: Vector | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``lam/2 ||w||^2 + risk(w)`` by ascent in its dual, every shard in the blocks of its own examples.

    The distributed form of `structopt.train.block_ascent`. The iterates depend on the number of shards, not on the
    workers. A shard that is lost with its worker is loaded again and begins at the last dual point that the driver has
    of it (where there is a checkpoint), or at the labels most violated at the present weights; the bound
    holds at every moment.

    Parameters
    ----------
    risk : ShardedRisk
        Whose shards are `StructuredRisk` objects with a surrogate that is convex in the weights, and stay on the
        workers between passes (``keep``).
    regularizer : L2, optional
        The dual steps are those of ``||w||^2 / 2``; for others take `structopt.train.bmrm`.
    lam : float
        Weight of the regulariser, positive.
    tol : float
        Relative gap ``(objective - lower bound) / |objective|`` at which to stop.
    cached_passes : int
        At most so many passes over the working sets after each oracle pass, shared out among the rounds.
    cached_labels : int, optional
        Labels kept per example, as cutting planes of its surrogate: the size of a working set. By default 20, and up to
        300 in all if there are few examples.
    rounds : int
        How often the weights are agreed on in each oracle pass: more save passes, and each sends the weights to all
        workers and back.
    max_passes, max_seconds, callback, checkpoint, verbose, w0, warm
        As in `structopt.train.bmrm`; a pass is one oracle call per example.
    random_state : int
        Order of the visits.

    Returns
    -------
    TrainResult
        Certified: the objective by an oracle pass over all shards at fixed weights, the bound from the feasible dual
        point of all shards. ``info["restarts"]`` counts shards that lost their duals, ``info["outdated"]``
        those that went on from an older state, since dask had copied them to another worker.

    References
    ----------
    Boyd, Parikh, Chu, Peleato, Eckstein. Distributed optimization and statistical learning via the alternating
    direction method of multipliers. Foundations and Trends in Machine Learning 3, 2011. Section 7.

    Ma, Smith, Jaggi, Jordan, Richtárik, Takáč. Adding vs. averaging in distributed primal-dual optimization. ICML 2015.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.distributed import ShardedRisk, block_ascent
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> y = (X @ rng.normal(size=(3, 4))).argmax(axis=1)
    >>> def load(k, n):
    ...     return so.train.StructuredRisk(so.structures.Multiclass(4), X[k::n], y[k::n])
    >>> with ShardedRisk(load, 4, client="sequential") as risk:    # client=None: worker processes
    ...     result = block_ascent(risk, lam=0.01, tol=1e-4)
    >>> result.converged
    True
    """
    check_l2(regularizer, "block_ascent")
    lam = check_lam(lam)
    whole("cached_passes", cached_passes, 0)
    size = working_set_size(cached_labels, len(risk), 20)
    whole("rounds", rounds, 1)
    check_shards(risk, "block_ascent")
    if risk.shards.keep is False:
        raise DeclarationError(
            "block_ascent keeps dual variables with the shards, and keep=False drops these after every pass: use "
            "keep=True with more workers or smaller shards, or bmrm, which needs a shard at a time."
        )
    method = _Consensus(risk, lam, cached_passes, size, rounds, seed("random_state", random_state))
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm, w0))


def check_shards(risk: ShardedRisk, trainer: str) -> None:
    """Refuse shards that have no labels per example, or do not stay."""
    for k, info in enumerate(risk.infos):
        if info is not None and not issubclass(info.kind, StructuredRisk | _Weighted):
            raise DeclarationError(
                f"{trainer} needs shards that are a StructuredRisk (labels per example), shard {k} is a "
                f"{info.kind.__name__}; use bmrm."
            )


class _Consensus(Method):
    """The driver: weights, step and certificate; dual variables are on the workers."""

    name = "distributed block ascent"
    patience = 100

    def __init__(
        self, risk: ShardedRisk, lam: float, cached_passes: int, cached_labels: int, rounds: int, random_state: int
    ) -> None:
        self.risk, self.lam, self.rounds = risk, lam, rounds
        self.n, self.parts = len(risk), sum(info is not None for info in risk.infos)
        self.cached = -(-cached_passes // rounds)  # passes over the working sets in each round
        # A name for the dual variables of this run, which lie with the shards.
        self.setup = _Setup(uuid.uuid4().hex, lam, cached_labels, random_state)
        self.w: Vector = np.zeros(risk.n_features)
        self.v: Vector = np.zeros(risk.n_features)  # of all shards at the last round: the weights of the dual point
        self.step = _FIRST_STEP * self.parts
        self.agreed = 0  # rounds after which the step was considered
        self.near = False  # whether each pass is a certificate
        self.round = 0
        self.restarts = self.outdated = 0
        self.held: list[dict[str, Any] | None] = [None] * len(risk.shards)  # the last duals that the driver has
        self.begun = False  # whether shards without dual variables have lost them
        self.placed = False  # whether shards have been given theirs
        self.pass_seconds = 0.0
        self.problem = {
            "risk": risk,
            "lam": lam,
            "cached_labels": cached_labels,
            "cached_passes": cached_passes,
            "rounds": rounds,
            "random_state": random_state,
        }

    @property
    def n_weights(self) -> int:
        return self.w.size

    # ---- iterations ------------------------------------------------------------------------------

    def start(self, monitor: Monitor) -> None:
        monitor.offer(self.w)  # evaluated in the second pass: the labels most violated at 0 are of little use

    def begin_at(self, monitor: Monitor, w: Vector) -> None:
        """Begin at the labels most violated at `w`, and where duals were taken over, at these."""
        self.w[:] = w
        self.begun = True  # shards without duals guess theirs
        found = self._ask(monitor, "oracle", _Task(self.round, 0.0, True, True, 0))
        monitor.count(oracle_calls=self.n, passes=1)
        monitor.offer(self.w, 0.5 * self.lam * float(self.w @ self.w) + found.value)
        self.v = found.v
        monitor.bound(self._dual_value(found))

    def take_over(self, state: dict[str, Any], lam: float) -> None:
        self.held = self._shard_states(state)  # mass and cuts, which do not depend on lam; w does

    def iterate(self, monitor: Monitor) -> None:
        number = int(monitor.passes) + 1
        last = number + 1 > monitor.max_passes
        certify = self.near or last or number in _EARLY or number % _CERTIFY_EVERY == 0
        # What is left must do for one more pass: the certificate of the weights that are returned.
        monitor.check_time(1.1 * self.pass_seconds if math.isfinite(monitor.objective) else 0.0)
        before = monitor.seconds
        found = self._ask(monitor, "oracle", _Task(self.round, self.step, True, certify, self.cached))
        self.pass_seconds = monitor.seconds - before
        self.begun = True
        monitor.count(oracle_calls=self.n, passes=1)
        if certify:
            monitor.offer(self.w, 0.5 * self.lam * float(self.w @ self.w) + found.value)
        self.near = found.gap <= _FAR * monitor.objective
        self._agree(monitor, found, adapt=False)
        for _ in range(self.rounds - 1):
            if monitor.gap <= monitor.tol or monitor.out_of_time:
                break
            self._agree(
                monitor, self._ask(monitor, "block steps", _Task(self.round, self.step, False, False, self.cached))
            )

    def _agree(self, monitor: Monitor, found: _Answer, adapt: bool = True) -> None:
        """The bound of a round, and the weights of the next one (Boyd et al. (7.6), with the multipliers lam v_k)."""
        monitor.bound(self._dual_value(found))
        K, s = self.parts, self.step
        # The minimum of lam/2 ||w||^2 + sum_k lam/(2s) ||u_k - w||^2 - lam <v_k, w>, where sum_k (u_k - w_old) is s
        # times the change of the sum of all v_k.
        w = (K * self.w + s * (2.0 * found.v - self.v)) / (K + s)
        if adapt:
            self._adapt(found, w)
        self.v, self.w = found.v, w

    def _adapt(self, found: _Answer, w: Vector) -> None:
        """Balance how far shards are from the common weights and how far these move, both relative (Wohlberg 2017)."""
        size, moved = float(w @ w), w - self.w
        apart = self.step * math.sqrt(found.change) / max(math.sqrt(self.parts * size), 1e-300)
        moves = math.sqrt(self.parts) * float(np.linalg.norm(moved)) / self.step / max(math.sqrt(found.size), 1e-300)
        self.agreed += 1
        factor = 1.0 + _CHANGE / (1.0 + self.agreed / _HALF_LIFE)
        if apart > _RESIDUALS[1] * moves:
            self.step /= factor
        elif apart < _RESIDUALS[0] * moves:
            self.step *= factor

    def _dual_value(self, found: _Answer) -> float:
        return found.level - 0.5 * self.lam * float(found.v @ found.v)

    def _ask(self, monitor: Monitor, part: str, task: _Task) -> _Answer:
        """One round over all shards; those that have lost their duals are asked once more, with what is known."""
        with monitor.part(part):
            shards, size = self.risk.shards, self.w.nbytes
            sent = shards.send(self.setup, self.w, task, self.begun)
            weights = [(weight,) for weight in self.risk.weights]
            found: _Answer = shards.sum(_ascend, _Answer.plus, sent, own=weights, size=size)
            if found.lost:
                self.restarts += len(found.lost) if self.placed else 0
                own = [
                    (weight, k in found.lost, self.held[k] if k in found.lost else None)
                    for k, (weight,) in enumerate(weights)
                ]
                found = found.plus(shards.sum(_restart, _Answer.plus, sent, own=own, size=size))
            self.placed = True
            self.round += 1
            self.outdated += found.outdated
            return found

    def finish(self, monitor: Monitor) -> None:
        if monitor.stopped not in ("time", "callback") or monitor.out_of_time:
            return
        found = self._ask(monitor, "oracle", _Task(self.round, self.step, True, True, 0))
        monitor.count(oracle_calls=self.n, passes=1)
        monitor.offer(self.w, 0.5 * self.lam * float(self.w @ self.w) + found.value)
        monitor.bound(self._dual_value(found))
        monitor.record(self.state)

    # ---- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything, dual variables included: these come from the workers, and the driver then has them."""
        found = self.risk.shards.map(_dual_state, self.setup)
        self.held = [new if new is not None else old for new, old in zip(found, self.held, strict=True)]
        duals = {
            f"shard{k}.{name}": value
            for k, state in enumerate(self.held)
            if state is not None
            for name, value in state.items()
        }
        own = {name: getattr(self, name) for name in ("w", "v", "step", "agreed", "near", "restarts", "begun")}
        return {**own, **duals}

    def restore(self, state: dict[str, Any]) -> None:
        saved, shape = Saved(state), self.w.shape
        self.w, self.v = saved.array("w", shape), saved.array("v", shape)
        self.step = saved.number("step", low=sys.float_info.min)
        self.near, self.begun = saved.flag("near"), saved.flag("begun")
        self.agreed, self.restarts = saved.whole("agreed"), saved.whole("restarts")
        self.held = self._shard_states(state)

    def _shard_states(self, state: dict[str, Any]) -> list[dict[str, Any] | None]:
        found: list[dict[str, Any] | None] = [None] * len(self.risk.shards)
        for name, value in state.items():
            if name.startswith("shard"):
                k, _, own = name.removeprefix("shard").partition(".")
                if not k.isdecimal() or int(k) >= len(found):
                    raise DeclarationError(f"there is no shard {k!r:.20}")
                found[int(k)] = {**(found[int(k)] or {}), own: value}
        return found

    def info(self) -> dict[str, Any]:
        return {"shards": self.parts, "step": self.step, "restarts": self.restarts, "outdated": self.outdated}


# ---- on a worker -----------------------------------------------------------------------------------


class _Setup(NamedTuple):
    """What does not change during a run, and its name."""

    run: str
    lam: float
    cached_labels: int
    random_state: int


class _Task(NamedTuple):
    """One round: its number and step; whether through the oracles, and all at the common weights; cached passes."""

    round: int
    step: float
    oracle: bool
    certify: bool
    cached: int


class _Answer(NamedTuple):
    """A shard's share in the dual point and in the certificate; shares of shards add up.

    ``v`` are the weights and ``level`` the linear part of its dual value, ``change`` and ``size`` the squared norms of
    the change of v in this round and of v, ``value`` its share of the risk at the common weights (an upper bound),
    ``gap`` that of the gap, as met. ``outdated`` counts shards whose duals were not those of the last round, ``lost``
    are those that have none of this run: their share is 0.
    """

    v: Vector
    level: float
    value: float
    gap: float
    change: float
    size: float
    outdated: int
    lost: tuple[int, ...] = ()

    @classmethod
    def of_nothing(cls, *lost: int) -> _Answer:
        """The share of a shard that has no duals, or is not asked."""
        return cls(np.zeros(()), 0.0, 0.0, 0.0, 0.0, 0.0, 0, lost)

    def plus(self, other: _Answer) -> _Answer:
        pairs: list[tuple[Any, Any]] = list(zip(self, other, strict=True))
        return _Answer(*(mine + theirs for mine, theirs in pairs))


class _Duals:
    """The working sets of a shard's examples."""

    def __init__(self, shard: Shard, setup: _Setup, weight: float) -> None:
        risk, inner = structured(shard.risk)
        check_risk(risk, "block_ascent")
        check_scale(risk, setup.lam)
        self.run, self.round = setup.run, 0
        self.rng = np.random.default_rng([setup.random_state, shard.k])
        self.sets = WorkingSets(risk, self.rng.permutation(len(risk)), setup.cached_labels)
        self.factor = weight * inner / len(risk)  # of an example's surrogate in the risk of all shards
        self.scale = self.factor / setup.lam  # what a unit of mass on a cut adds to v, over the slope of the cut

    def guess(self, w: Vector) -> None:
        """All mass of every example on its most violated label at `w`: optimal, were that unique at the optimum."""
        for k, group in enumerate(self.sets.groups):
            self.sets.ascend(k, group.violations(w), w.copy(), 0.0, self.rng)

    def ascend(self, w: Vector, task: _Task) -> _Answer:
        """Block steps from w in the shard's own weights, which move `task.step` times as far as v."""
        u, scale = w.copy(), task.step * self.scale
        value = gap = 0.0
        if task.oracle:
            value, gap = self._oracle_pass(w, u, task)
        first = gap
        for number in range(task.cached):
            # After a round of the others all gaps are out of date: everybody is visited once.
            everybody = number == 0 and not task.oracle
            left = self.sets.ascend_cached(u, scale, self.rng, **({"worth": 0.0} if everybody else {}))
            if everybody:
                gap = first = left
            elif left < _ENOUGH * first:
                break
        v = np.zeros_like(w)
        level = self.factor * self.sets.rebuild(v, self.scale)
        u -= w
        change = float(u @ u) / task.step**2 if task.step else 0.0
        # A copy of the shard, made for another worker, may have missed rounds: its dual point is as feasible as any.
        outdated = int(self.round != task.round)
        self.round = task.round + 1
        return _Answer(v, level, self.factor * value, self.factor * gap, change, float(v @ v), outdated)

    def _oracle_pass(self, w: Vector, u: Vector, task: _Task) -> tuple[float, float]:
        """The sum of the surrogates at w, if all oracles are asked there, and of the gaps."""
        value = gap = 0.0
        for k in self.rng.permutation(len(self.sets.groups)):
            found = self.sets.groups[k].violations(w if task.certify else u)
            value += float(found.upper.sum())
            if task.step:
                gap += self.sets.ascend(k, found, u, task.step * self.scale, self.rng)
        return value, gap

    def state(self) -> dict[str, Any]:
        """Copies: the driver may keep them while the next rounds go on, in this process too."""
        arrays = {name: np.array(array) for name, array in self.sets.state().items()}
        return {**arrays, "random": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        self.sets.restore(state)
        Saved(state).random("random", self.rng)


def structured(risk: Risk) -> tuple[StructuredRisk, float]:
    """The risk itself, and its factor if it was made by `Risk.shard`."""
    inner, factor = (risk.risk, risk.weight) if isinstance(risk, _Weighted) else (risk, 1.0)
    assert isinstance(inner, StructuredRisk)
    return inner, factor


def _duals(shard: Shard, setup: _Setup) -> _Duals | None:
    found = shard.memory.get("block_ascent")
    return found if found is not None and found.run == setup.run else None


def _ascend(shard: Shard, setup: _Setup, w: Vector, task: _Task, begun: bool, weight: float) -> _Answer:
    """One round of a shard; without duals of this run it says so, unless the run begins."""
    duals = _duals(shard, setup)
    if duals is None:
        if begun:
            return _Answer.of_nothing(shard.k)
        duals = shard.memory["block_ascent"] = _Duals(shard, setup, weight)
        duals.round = task.round
    return duals.ascend(w, task)


def _restart(
    shard: Shard,
    setup: _Setup,
    w: Vector,
    task: _Task,
    begun: bool,
    weight: float,
    wanted: bool,
    state: dict[str, Any] | None,
) -> _Answer:
    """One round of a shard that has lost its duals, from those that the driver sends, or from a guess."""
    if not wanted:
        return _Answer.of_nothing()
    duals = shard.memory["block_ascent"] = _Duals(shard, setup, weight)
    if state is None:
        duals.guess(w)
    else:
        duals.restore(state)
    duals.round = task.round
    return duals.ascend(w, task)


def _dual_state(shard: Shard, setup: _Setup) -> dict[str, Any] | None:
    duals = _duals(shard, setup)
    return None if duals is None else duals.state()
