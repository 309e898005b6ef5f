"""Cutting planes for structured machines: one slack variable for all examples together, or one for each."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from structopt.compiled import FloatArray
from structopt.errors import DeclarationError
from structopt.kernels.frank_wolfe import highest, remember
from structopt.train.bundle import QuadraticBundle
from structopt.train.checkpoint import Checkpoint
from structopt.train.monitor import Callback, Monitor
from structopt.train.regularizers import L2
from structopt.train.result import TrainResult
from structopt.train.risk import check_lam
from structopt.train.structured import StructuredRisk, Violations
from structopt.train.working_sets import WorkingSets, check_risk, has_one_table

__all__ = ["n_slack", "one_slack"]

# A subproblem is solved to this share of the outer gap (TRAINERS.md 1.6).
_LOOSENESS = 0.1
# Cuts from the cache before the oracle is asked again, should the test below keep firing.
_MOST_CACHED = 100
# Passes over the working sets before the next round of oracles, should the restricted dual converge slowly.
_MOST_INNER = 500


def one_slack(
    risk: StructuredRisk,
    *,
    lam: float,
    tol: float = 1e-3,
    theta: float = 0.3,
    cached_labels: int = 10,
    max_passes: float | None = 10_000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
) -> TrainResult:
    """Minimise ``lam/2 ||w||^2 + risk(w)`` with cutting planes of the whole risk, some of them from a cache of labels.

    `bmrm` for expensive oracles: before the oracle is asked, a cut is composed of labels that it gave earlier, the
    highest at w of each example. Where this cut is deep enough it does as well.

    Parameters
    ----------
    risk : StructuredRisk
        With a surrogate that is convex in the weights.
    lam : float
        Weight of the regulariser, positive.
    tol : float
        Relative gap ``(objective - lower bound) / |objective|`` at which to stop.
    theta : float
        Where the next cut is taken, ``(1 - theta) w_best + theta w_t``, in (0, 1].
    cached_labels : int
        Labels kept per example; 0 asks the oracle every time. Models with several tables of features have no cache.
    max_passes, max_seconds, callback, checkpoint, verbose
        As in `structopt.train.bmrm`; a pass is one oracle call per example, cuts from the cache are free.

    Returns
    -------
    TrainResult
        Certified by the feasible dual point of the cuts.

    References
    ----------
    Joachims, Finley, Yu. Cutting-plane training of structural SVMs. Machine Learning 77, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.train.cutting_plane import one_slack
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> y = (X @ rng.normal(size=(3, 4))).argmax(axis=1)
    >>> risk = so.train.StructuredRisk(so.structures.Multiclass(4), X, y)
    >>> one_slack(risk, lam=0.1).converged
    True
    """
    lam = check_lam(lam)
    if not isinstance(risk, StructuredRisk) or not risk.is_convex:
        raise DeclarationError(f"one_slack needs a StructuredRisk with a convex surrogate, got {risk!r}; use sgd.")
    if not 0.0 < theta <= 1.0:
        raise DeclarationError(f"theta must lie in (0, 1], got {theta!r}.")
    if cached_labels < 0:
        raise DeclarationError(f"cached_labels must be at least 0, got {cached_labels!r}.")
    cache = _LabelCache(risk, cached_labels) if cached_labels and has_one_table(risk) else None
    parts: Sequence[StructuredRisk] = [risk] if cache is None else cache.groups
    model = _Model(L2(), risk.n_features, lam, 0.0)
    n = len(risk)
    query, best = np.zeros(risk.n_features), np.zeros(risk.n_features)
    problem = {"risk": risk.fingerprint(), "lam": lam, "theta": theta, "cached_labels": cached_labels}
    with Monitor(
        "one-slack",
        tol=tol,
        max_passes=max_passes,
        max_seconds=max_seconds,
        callback=callback,
        checkpoint=checkpoint,
        verbose=verbose,
        lower_bound=0.0,
        problem=problem,
        patience=500,
    ) as monitor:
        state = monitor.resume()
        cached_cuts = 0
        if state is not None:
            cached_cuts = _load(state, model, cache, query, best)
        while monitor.running:
            with monitor.part("oracle"):
                cut, found = _oracle_cut(parts, query)
            monitor.count(oracle_calls=n, passes=1)
            if monitor.offer(query, 0.5 * lam * float(query @ query) + cut.value):
                best[:] = query
            if cache is not None:
                with monitor.part("cache"):
                    cache.remember(found, query)
            query = _next_query(monitor, model, cut, best, theta)
            for _ in range(_MOST_CACHED if cache is not None and monitor.gap > tol else 0):
                assert cache is not None
                with monitor.part("cache"):
                    cut = cache.cut(query)
                # At theta the query sees at most about theta of the gap: a test of a fixed depth would never fire
                # (TRAINERS.md 4.2).
                deep = cut.value - model.value(query) > _depth(theta) * monitor.absolute_gap
                if not deep or monitor.out_of_time:
                    break
                cached_cuts += 1
                query = _next_query(monitor, model, cut, best, theta)
            monitor.record(partial(_save, model, cache, query, best, cached_cuts))
    return monitor.result(n_cuts=model.n_cuts, cached_cuts=cached_cuts)


def n_slack(
    risk: StructuredRisk,
    *,
    lam: float,
    tol: float = 1e-3,
    planes: int = 30,
    max_passes: float | None = 1000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    random_state: int = 0,
) -> TrainResult:
    """Minimise ``lam/2 ||w||^2 + risk(w)`` with cutting planes of every example's surrogate.

    Each round asks all oracles at one w and then solves the dual over all planes found so far, by block steps in the
    space of the weights, to a tenth of the gap. Few rounds, much work in each: for oracles so expensive that nothing
    else counts, or that answer best in one large batch; otherwise `block_ascent` is faster.

    Parameters
    ----------
    risk : StructuredRisk
        With a surrogate that is convex in the weights.
    lam : float
        Weight of the regulariser, positive.
    tol : float
        Relative gap ``(objective - lower bound) / |objective|`` at which to stop.
    planes : int
        Size of a working set; planes without mass make room, then the lightest are merged.
    max_passes, max_seconds, callback, checkpoint, verbose
        As in `structopt.train.bmrm`; a pass is one oracle call per example.
    random_state : int
        Order of the block steps.

    Returns
    -------
    TrainResult
        Certified in every round: the objective by its oracles, the bound from the feasible dual point.

    References
    ----------
    Tsochantaridis, Joachims, Hofmann, Altun. Large margin methods for structured and interdependent output variables.
    JMLR 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.train.cutting_plane import n_slack
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> y = (X @ rng.normal(size=(3, 4))).argmax(axis=1)
    >>> risk = so.train.StructuredRisk(so.structures.Multiclass(4), X, y)
    >>> n_slack(risk, lam=0.1, tol=1e-6).converged
    True
    """
    lam = check_lam(lam)
    check_risk(risk, "n_slack")
    if planes < 2:
        raise DeclarationError(f"planes must be at least 2, got {planes!r}.")
    rng = np.random.default_rng(random_state)
    n = len(risk)
    sets = WorkingSets(risk, rng.permutation(n), planes)
    w = np.zeros(risk.n_features)
    scale = 1.0 / (lam * n)
    problem = {"risk": risk.fingerprint(), "lam": lam, "planes": planes, "random_state": random_state}
    with Monitor(
        "n-slack",
        tol=tol,
        max_passes=max_passes,
        max_seconds=max_seconds,
        callback=callback,
        checkpoint=checkpoint,
        verbose=verbose,
        lower_bound=0.0,
        problem=problem,
        patience=100,
    ) as monitor:
        state = monitor.resume()
        if state is not None:
            w[:] = state["w"]
            rng.bit_generator.state = state["random"]
            sets.restore(state)
        while monitor.running:
            found = sets.evaluate(monitor, w, lam)
            monitor.count(oracle_calls=n, passes=1)
            with monitor.part("block steps"):
                low = _solve_restricted(monitor, sets, found, w, scale, lam, rng)
            monitor.bound(low)
            monitor.record(lambda: {"w": w, "random": rng.bit_generator.state, **sets.state()})
    return monitor.result(planes=int(sets.count.sum()))


def _solve_restricted(
    monitor: Monitor,
    sets: WorkingSets,
    found: list[Violations],
    w: FloatArray,
    scale: float,
    lam: float,
    rng: np.random.Generator,
) -> float:
    """Add the labels found and ascend until the restricted dual is solved to a share of the gap; returns the bound."""
    n = len(sets.gap)
    for k in range(len(sets.groups)):
        sets.ascend(k, found[k], w, scale, rng)
    enough = _LOOSENESS * n * monitor.absolute_gap
    for _ in range(_MOST_INNER):
        # Gaps of examples that were left out are stale: the sum counts only if all have been visited.
        if sets.ascend_cached(w, scale, rng) <= enough and sets.ascend_cached(w, scale, rng, worth=0.0) <= enough:
            break
        if monitor.out_of_time:
            break
    return sets.rebuild(w, scale) / n - 0.5 * lam * float(w @ w)


class _Composed(NamedTuple):
    """A cut of the risk composed of one plane per example: its height at w, slope and offset."""

    value: float
    slope: FloatArray
    offset: float


class _Model(QuadraticBundle):
    """The cuts so far."""

    def value(self, w: FloatArray) -> float:
        """The maximum of the cuts at `w`."""
        return float((self._rows[: self.n_cuts] @ w + self.qp.b).max(initial=-math.inf))


def _depth(theta: float) -> float:
    return theta / 3.0


def _oracle_cut(parts: Sequence[StructuredRisk], w: FloatArray) -> tuple[_Composed, list[Violations]]:
    """The cut of the most violated labels, which are returned too."""
    found = [part.violations(w) for part in parts]
    value, offset, slope = 0.0, 0.0, np.zeros(len(w))
    for part, violations in zip(parts, found, strict=True):
        value += float(violations.upper.sum())
        offset += float(violations.level.sum())
        slope += part.batch.joint(violations.labels, violations.scale) - part.batch.joint(part.truth, violations.scale)
    n = sum(len(part) for part in parts)
    return _Composed(value / n, slope / n, offset / n), found


def _next_query(monitor: Monitor, model: _Model, cut: _Composed, best: FloatArray, theta: float) -> FloatArray:
    """Add a cut, minimise the model, and say where to look next."""
    with monitor.part("dual"):
        model.add(cut.slope, cut.offset)
        gap = monitor.absolute_gap
        point = model.solve(_LOOSENESS * (gap if math.isfinite(gap) else abs(cut.value)))
    monitor.bound(point.lower_bound)
    return (1.0 - theta) * best + theta * point.w


class _LabelCache(WorkingSets):
    """The labels that the oracle gave of late, as working sets without mass."""

    def __init__(self, risk: StructuredRisk, n_labels: int) -> None:
        super().__init__(risk, np.arange(len(risk)), n_labels)

    def remember(self, found: Sequence[Violations], w: FloatArray) -> None:
        """Keep the labels that are above all known ones at `w`."""
        for k, violations in enumerate(found):
            new = self._new_planes(k, violations)
            first, last = int(self.first[k]), int(self.first[k + 1])

            def visit(at: int, first: int = first, last: int = last, new: Any = new) -> int:
                return remember(at, first, last, new, *self._storage, self._features, w, self._scratch)

            self._visit_all(visit, first, last, new)

    def cut(self, w: FloatArray) -> _Composed:
        """The cut of the highest known label of every example."""
        n = len(self.gap)
        slope = np.zeros(len(w))
        value, offset = highest(
            self.planes, self._arena, self._unions, self._features, w, 1.0 / n, slope, self._scratch
        )
        return _Composed(value / n, slope, offset / n)


def _save(
    model: _Model, cache: _LabelCache | None, query: FloatArray, best: FloatArray, cached_cuts: int
) -> dict[str, Any]:
    state: dict[str, Any] = {"query": query, "best": best, "cached_cuts": cached_cuts}
    state |= {f"model.{name}": value for name, value in model.state().items()}
    return state if cache is None else state | {f"cache.{name}": value for name, value in cache.state().items()}


def _load(state: dict[str, Any], model: _Model, cache: _LabelCache | None, query: FloatArray, best: FloatArray) -> int:
    query[:], best[:] = state["query"], state["best"]
    model.restore({name[6:]: value for name, value in state.items() if name.startswith("model.")})
    if cache is not None:
        cache.restore({name[6:]: value for name, value in state.items() if name.startswith("cache.")})
    return int(state["cached_cuts"])
