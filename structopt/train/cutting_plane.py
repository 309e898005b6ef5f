"""Cutting planes for structured machines: one slack variable for all examples together, or one for each."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from structopt.checks import checked, seed, whole
from structopt.errors import DeclarationError
from structopt.risks.regularizers import L2, Regularizer, check_l2
from structopt.risks.risk import check_lam
from structopt.risks.structured import StructuredRisk, Violations, check_scale
from structopt.space.compiled import FloatArray
from structopt.train.bundle import QuadraticBundle
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.kernels.frank_wolfe import highest, remember
from structopt.train.monitor import Callback, Monitor
from structopt.train.result import TrainResult
from structopt.train.run import Limits, Method, run
from structopt.train.warm import WarmStart
from structopt.train.working_sets import MOST_CACHED, DualMethod, WorkingSets, check_risk, working_set_size

__all__ = ["n_slack", "one_slack"]

# A subproblem is solved to this share of the outer gap (docs/mathematics/training#bundle-methods).
_LOOSENESS = 0.1
# Cuts from the cache before the oracle is called again, should the test below keep succeeding.
_MOST_CACHED = 100


@checked
def one_slack(
    risk: StructuredRisk,
    regularizer: Regularizer | None = None,
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
    w0: FloatArray | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``lam/2 ||w||^2 + risk(w)`` with cutting planes of the whole risk, some of them from a cache of labels.

    `bmrm` for expensive oracles: before an oracle pass, a cut is composed of labels found earlier, the
    highest at w of each example. Where this cut is deep enough it does as well.

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
    theta : float
        Where the next cut is taken, ``(1 - theta) w_best + theta w_t``, in (0, 1].
    cached_labels : int
        Labels kept per example; 0 calls the oracle every time.
    max_passes, max_seconds, callback, checkpoint, verbose, w0, warm
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
    >>> X, y = np.array([[2.0], [1.0], [-3.0]]), ["up", "up", "down"]
    >>> risk = so.train.StructuredRisk(so.structures.Multiclass(["up", "down"]), X, y)
    >>> one_slack(risk, lam=0.1).converged
    True
    """
    check_l2(regularizer, "one_slack")
    lam = check_lam(lam)
    if not isinstance(risk, StructuredRisk) or not risk.is_convex:
        raise DeclarationError(f"one_slack needs a StructuredRisk with a convex surrogate, got {risk!r}; use sgd.")
    if not 0.0 < theta <= 1.0:
        raise DeclarationError(f"theta must lie in (0, 1], got {theta!r}.")
    whole("cached_labels", cached_labels, 0, MOST_CACHED)
    method = _OneSlack(risk, lam, theta, cached_labels)
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm, w0))


class _OneSlack(Method):
    name = "one-slack"
    patience = 500

    def __init__(self, risk: StructuredRisk, lam: float, theta: float, cached_labels: int) -> None:
        check_scale(risk, lam)
        self.lam, self.theta, self.n = lam, theta, len(risk)
        self.cache = _LabelCache(risk, cached_labels) if cached_labels else None
        self.parts: Sequence[StructuredRisk] = [risk] if self.cache is None else self.cache.groups
        self.model = _Model(L2(), risk.n_features, lam, 0.0)
        self.query, self.best = np.zeros(risk.n_features), np.zeros(risk.n_features)
        self.cached_cuts = 0
        self.problem = {"risk": risk, "lam": lam, "theta": theta, "cached_labels": cached_labels}

    @property
    def n_weights(self) -> int:
        return len(self.query)

    def begin_at(self, monitor: Monitor, w: FloatArray) -> None:
        self.query, self.best = w, w.copy()

    def take_over(self, state: dict[str, Any], lam: float) -> None:
        self.model.restore(_part_of(state, "model."))  # cuts and labels, which do not depend on lam
        if self.cache is not None:
            self.cache.restore(_part_of(state, "cache."))

    def iterate(self, monitor: Monitor) -> None:
        with monitor.part("oracle"):
            cut, found = _oracle_cut(self.parts, self.query, monitor)
        monitor.count(oracle_calls=self.n, passes=1)
        if monitor.offer(self.query, 0.5 * self.lam * float(self.query @ self.query) + cut.value):
            self.best = self.query.copy()
        if self.cache is not None:
            with monitor.part("cache"):
                self.cache.remember(found, self.query)
        self._add(monitor, cut)
        if self.cache is not None and monitor.gap > monitor.tol:
            self._use_cache(monitor, self.cache)

    def _use_cache(self, monitor: Monitor, cache: _LabelCache) -> None:
        """Cuts of known labels, as long as they are deep."""
        for _ in range(_MOST_CACHED):
            with monitor.part("cache"):
                cut = cache.cut(self.query)
            # At theta the query sees at most about theta of the gap: a test of a fixed depth would never fire
            # (docs/mathematics/training#bundle-methods).
            deep = cut.value - self.model.value(self.query) > self.theta / 3.0 * monitor.absolute_gap
            if not deep or monitor.out_of_time:
                break
            self.cached_cuts += 1
            self._add(monitor, cut)

    def _add(self, monitor: Monitor, cut: _Composed) -> None:
        """Add a cut, minimise the model, and say where to look next."""
        with monitor.part("dual"):
            self.model.add(cut.slope, cut.offset)
            gap = monitor.absolute_gap
            point = self.model.solve(_LOOSENESS * (gap if math.isfinite(gap) else abs(cut.value)))
        monitor.bound(point.lower_bound)
        self.query = (1.0 - self.theta) * self.best + self.theta * point.w

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"query": self.query, "best": self.best, "cached_cuts": self.cached_cuts}
        state |= {f"model.{name}": value for name, value in self.model.state().items()}
        if self.cache is None:
            return state
        return state | {f"cache.{name}": value for name, value in self.cache.state().items()}

    def restore(self, state: dict[str, Any]) -> None:
        saved, shape = Saved(state), self.query.shape
        self.query, self.best = saved.array("query", shape), saved.array("best", shape)
        self.cached_cuts = saved.whole("cached_cuts")
        self.take_over(state, self.lam)

    def info(self) -> dict[str, Any]:
        return {"n_cuts": self.model.n_cuts, "cached_cuts": self.cached_cuts}


def _part_of(state: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name[len(prefix) :]: value for name, value in state.items() if name.startswith(prefix)}


@checked
def n_slack(
    risk: StructuredRisk,
    regularizer: Regularizer | None = None,
    *,
    lam: float,
    tol: float = 1e-3,
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
    """Minimise ``lam/2 ||w||^2 + risk(w)`` with cutting planes of every example's surrogate.

    Each round evaluates all oracles at one w and then minimises the maximum of all cuts found so far, with a proximal
    term around the best point (docs/mathematics/training#proximal-rounds), by block steps. Few rounds, much work in
    each: for oracles so expensive that nothing else counts, or that answer best in one large batch; `block_ascent`
    begins with fresher weights, and goes over to such rounds where they are better.

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
    cached_labels : int, optional
        Labels kept per example, as cutting planes of its surrogate; those without mass make room, then the
        lightest are merged. By default 30, and up to 300 in all if there are few examples.
    max_passes, max_seconds, callback, checkpoint, verbose, w0, warm
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
    >>> X, y = np.array([[2.0], [1.0], [-3.0]]), ["up", "up", "down"]
    >>> risk = so.train.StructuredRisk(so.structures.Multiclass(["up", "down"]), X, y)
    >>> n_slack(risk, lam=0.1, tol=1e-6).converged
    True
    """
    check_l2(regularizer, "n_slack")
    lam = check_lam(lam)
    check_risk(risk, "n_slack")
    size = working_set_size(cached_labels, len(risk), 30)
    method = _NSlack(risk, lam, size, random_state)
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm, w0))


class _NSlack(DualMethod):
    name = "n-slack"
    patience = 100

    def __init__(self, risk: StructuredRisk, lam: float, cached_labels: int, random_state: int) -> None:
        rng = np.random.default_rng(seed("random_state", random_state))
        super().__init__(risk, WorkingSets(risk, rng.permutation(len(risk)), cached_labels), lam, rng)
        self.problem = {
            "risk": risk,
            "lam": lam,
            "cached_labels": cached_labels,
            "random_state": random_state,
        }

    def iterate(self, monitor: Monitor) -> None:
        self.round(monitor)

    def info(self) -> dict[str, Any]:
        return {"planes": int(self.sets.count.sum())}


class _Composed(NamedTuple):
    """A cut of the risk composed of one cut of each example: its height at w, slope and offset."""

    value: float
    slope: FloatArray
    offset: float


class _Model(QuadraticBundle):
    """The cuts so far."""

    def value(self, w: FloatArray) -> float:
        """The maximum of the cuts at `w`."""
        return float((self._rows[: self.n_cuts] @ w + self.qp.b).max(initial=-math.inf))


def _oracle_cut(
    parts: Sequence[StructuredRisk], w: FloatArray, monitor: Monitor | None = None
) -> tuple[_Composed, list[Violations]]:
    """The cut of the most violated labels, which are returned too."""
    found = []
    for part in parts:
        if monitor is not None:
            monitor.check_time()
        found.append(part.violations(w))
    value, offset, slope = 0.0, 0.0, np.zeros(len(w))
    for part, violations in zip(parts, found, strict=True):
        value += float(violations.upper.sum())
        offset += float(violations.level.sum())
        slope += part.batch.joint(violations.labels, violations.scale) - part.batch.joint(part.truth, violations.scale)
    n = sum(len(part) for part in parts)
    return _Composed(value / n, slope / n, offset / n), found


class _LabelCache(WorkingSets):
    """The labels that the oracle returned recently, as working sets without mass."""

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
