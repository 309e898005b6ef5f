"""Block ascent for one class out of several: exact block steps over the classes that matter."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.checks import checked, seed
from structopt.errors import DeclarationError
from structopt.risks.risk import Risk, check_lam
from structopt.risks.structured import StructuredRisk, check_scale
from structopt.space.compiled import FloatArray
from structopt.surrogates import Margin
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.kernels.multiclass import ascend_active, ascend_all, surrogate_sum, weights_of_dual
from structopt.train.monitor import Callback, Monitor
from structopt.train.proximal_term import ProximalTerm
from structopt.train.result import TrainResult
from structopt.train.run import Limits, Method, run
from structopt.train.warm import WarmStart

__all__ = ["is_multiclass", "multiclass_ascent"]

# Examples below this share of the mean gap are left out of cached passes.
_WORTH_A_VISIT = 0.1
# Cached passes end once they have closed this share of the gap that the full pass saw.
_CACHED_ENOUGH = 0.1
# Passes from one certificate to the next at most. Where the gap is still more than this share of what it was at the
# last one, rounds with a proximal term follow.
_CERTIFY_EVERY, _SLOW = 10, 0.5
# Full passes of a round at most.
_MOST_INNER = 20


@checked
def is_multiclass(risk: Risk) -> bool:
    """Whether `multiclass_ascent` can train this risk: one class per example, margin rescaling."""
    return isinstance(risk, StructuredRisk) and risk.batch.one_of_many and isinstance(risk.surrogate, Margin)


@checked
def multiclass_ascent(
    risk: StructuredRisk,
    *,
    lam: float,
    tol: float = 1e-3,
    cached_passes: int = 20,
    max_passes: float | None = 1000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    random_state: int = 0,
    w0: FloatArray | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``lam/2 ||w||^2 + risk(w)`` of a multiclass model (Crammer and Singer, any cost matrix).

    What `block_ascent` runs for `structures.Multiclass` with margin rescaling. Full passes look at all classes; cached
    passes in between only at the classes that have mass. Where ten passes do not halve the gap, rounds with a proximal
    term follow (docs/mathematics/training#proximal-rounds).

    Parameters
    ----------
    risk : StructuredRisk
        Of a `structures.Multiclass` model, dense or sparse X, with the margin surrogate.
    lam : float
        Weight of the regulariser, positive.
    tol : float
        Relative gap ``(objective - lower bound) / |objective|`` at which to stop.
    cached_passes : int
        At most so many passes over the active classes after each full pass.
    max_passes, max_seconds, callback, checkpoint, verbose, w0, warm
        As in `structopt.train.bmrm`; a pass scores all classes of every example.
    random_state : int
        Order of the visits.

    Returns
    -------
    TrainResult
        Certified: the objective by a pass at fixed weights, the bound from the feasible dual point.

    References
    ----------
    Keerthi, Sundararajan, Chang, Hsieh, Lin. A sequential dual method for large scale multi-class linear SVMs.
    KDD 2008.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.train.multiclass import multiclass_ascent
    >>> X, y = np.array([[2.0], [1.0], [-3.0]]), ["up", "up", "down"]
    >>> risk = so.train.StructuredRisk(so.structures.Multiclass(["up", "down"]), X, y)
    >>> result = multiclass_ascent(risk, lam=0.01, tol=1e-6)
    >>> result.converged, result.w.shape
    (True, (2,))
    """
    lam = check_lam(lam)
    if not is_multiclass(risk):
        raise DeclarationError(f"multiclass_ascent needs a Multiclass model with margin rescaling, got {risk!r}.")
    if cached_passes < 0:
        raise DeclarationError(f"cached_passes must be at least 0, got {cached_passes!r}.")
    method = _Multiclass(risk, lam, cached_passes, random_state)
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm, w0))


class _Multiclass(Method):
    name = "multiclass ascent"
    patience = 100

    def __init__(self, risk: StructuredRisk, lam: float, cached_passes: int, random_state: int) -> None:
        check_scale(risk, lam)
        self.dual, self.cached_passes = _Dual(risk, lam), cached_passes
        self.rng = np.random.default_rng(seed("random_state", random_state))
        self.risk = risk
        # Whether there are rounds; the certified gap when this was last considered, and the pass of the next time.
        self.rounds, self.last_gap, self.next_look = False, 1.0, float(_CERTIFY_EVERY)
        self.problem = {
            "risk": risk,
            "lam": lam,
            "cached_passes": cached_passes,
            "random_state": random_state,
        }

    def start(self, monitor: Monitor) -> None:
        self._certify(monitor)

    @property
    def n_weights(self) -> int:
        return self.dual.W.size

    def begin_at(self, monitor: Monitor, w: FloatArray) -> None:
        dual = self.dual
        with monitor.part("certify"):
            dual.set_weights(w)
            objective = dual.objective()
            if not dual.moved:
                dual.guess()
            low = dual.rebuild()
        monitor.count(oracle_calls=dual.n, passes=1)
        monitor.offer(w, objective)
        monitor.bound(low)

    def take_over(self, state: dict[str, Any], lam: float) -> None:
        self.dual.restore(state)

    def iterate(self, monitor: Monitor) -> None:
        if self.rounds:
            self._round(monitor)
            return
        dual = self.dual
        monitor.count(oracle_calls=dual.n, passes=1)
        with monitor.part("block steps"):
            seen = self._ascend(monitor, 1 if monitor.passes <= 2 else self.cached_passes)
            low = dual.rebuild()
        monitor.bound(low)
        # The sum of gaps at different weights decides when to certify; it is no certificate
        # (docs/mathematics/training#certificates).
        due = seen <= 2.0 * max(monitor.tol, 1e-12) * abs(low) or monitor.passes % _CERTIFY_EVERY == 0
        if due or monitor.passes >= monitor.max_passes or monitor.out_of_time:
            self._certify(monitor)
            if monitor.passes >= self.next_look:
                self.rounds = monitor.gap > _SLOW * self.last_gap
                self.last_gap, self.next_look = monitor.gap, monitor.passes + _CERTIFY_EVERY

    def _round(self, monitor: Monitor) -> None:
        """Certify, then ascend with a proximal term around the best weights (see `DualMethod.round`)."""
        dual = self.dual
        if not dual.term.kappa:
            assert monitor.w is not None
            dual.set_weights(monitor.w)
        improved, w = self._certify(monitor), dual.weights()
        assert monitor.w is not None
        with monitor.part("block steps"):
            dual.term.adapt(monitor.absolute_gap, improved, lambda: dual.lam * w + self.risk(w)[1])
            dual.term.move_to(dual.arranged(monitor.w), monitor.objective)
            low = dual.rebuild()
            for _ in range(_MOST_INNER):
                monitor.count(oracle_calls=dual.n, passes=1)
                seen = self._ascend(monitor, self.cached_passes)
                low = dual.rebuild()
                if seen <= dual.term.enough or monitor.out_of_time or monitor.passes >= monitor.max_passes:
                    break
        monitor.bound(low)

    def _ascend(self, monitor: Monitor, cached_passes: int) -> float:
        """A full pass and cached ones; returns the sum of the gaps that the full one met."""
        dual = self.dual
        seen = dual.full_pass(self.rng.permutation(dual.n))
        for _ in range(cached_passes):
            if dual.cached_pass(self.rng.permutation(dual.n)) < _CACHED_ENOUGH * seen or monitor.out_of_time:
                break
        return seen

    def _certify(self, monitor: Monitor) -> bool:
        """Whether the objective at the present weights is the best so far."""
        with monitor.part("certify"):
            objective = self.dual.objective()
        monitor.count(oracle_calls=self.dual.n, passes=1)
        return monitor.offer(self.dual.weights(), objective)

    def state(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("rounds", "last_gap", "next_look")}
        random = {"random": self.rng.bit_generator.state}
        return {**self.dual.state(), **self.dual.term.state(), **own, **random}

    def restore(self, state: dict[str, Any]) -> None:
        self.dual.restore(state)
        saved = Saved(state)
        self.dual.term.restore(state, self.dual.W.shape)
        self.rounds = saved.flag("rounds")
        self.last_gap, self.next_look = saved.number("last_gap", finite=False), saved.number("next_look")
        saved.random("random", self.rng)

    def info(self) -> dict[str, Any]:
        return {"active": float(self.dual.n_active.mean()), "rounds": self.rounds}


class _Dual:
    """The dual point of a multiclass problem and its weights, in the arrays of the kernels."""

    def __init__(self, risk: StructuredRisk, lam: float) -> None:
        batch = risk.batch
        self.lam, self.n = lam, batch.n
        self.term = ProximalTerm(lam)
        # The factor of an example's surrogate in the risk; over the curvature it is the step of the block.
        self.factor = np.full(batch.n, 1.0) if risk.weight is None else np.array(risk.weight)
        self.factor /= batch.n
        rows, K = batch.rows[0], batch.columns[0]
        self.truth = np.asarray(risk.truth.native, dtype=np.int64)
        # The loss of an example depends on its class only; classes without examples are never looked up. The 0/1 loss
        # needs no table.
        explicit = not risk.loss.is_sparse
        self.costs = np.zeros((K, K) if explicit else (0, 0))
        if explicit:
            self.costs[self.truth] = risk.loss.coef + risk.loss.const[:, None]
        self.sparse = sp.issparse(rows)
        self.features, self.norms = _features(rows)
        d = int(rows.shape[1])
        self.W = np.zeros((d, K) if self.sparse else (K, d))
        self.alpha = np.zeros((self.n, K))
        self.alpha[np.arange(self.n), self.truth] = 1.0
        self.active = np.zeros((self.n, K), dtype=np.int32)
        self.active[:, 0] = self.truth
        self.n_active = np.ones(self.n, dtype=np.int64)
        self.gap = np.zeros(self.n)
        self._scratch = (np.zeros(K), np.zeros(K), np.zeros(K), np.zeros(K, dtype=np.int32))

    def full_pass(self, order: Any) -> float:
        """Visit all classes of all examples; returns their parts in the gap of the objective, as they were met."""
        curvature = self.term.curvature
        return curvature * float(
            ascend_all(
                order, self.truth, self.costs, self.features, self.norms, self.factor / curvature, self.W, self.alpha,
                self.active, self.n_active, self.gap, self._scratch,
            )
        )  # fmt: skip

    def cached_pass(self, order: Any) -> float:
        """Visit the active classes of the examples with a gap worth it; returns the sum of the gaps likewise."""
        threshold = _WORTH_A_VISIT * float(self.gap.mean())
        curvature = self.term.curvature
        return curvature * float(
            ascend_active(
                order, self.truth, self.costs, self.features, self.norms, self.factor / curvature, self.W, self.alpha,
                self.active, self.n_active, self.gap, threshold, self._scratch,
            )
        )  # fmt: skip

    def rebuild(self) -> float:
        """W anew from the dual point; returns the bound of exactly this point, without the proximal term."""
        self.W[:] = 0.0
        total = weights_of_dual(
            self.truth, self.costs, self.features, self.factor / self.lam, self.W, self.alpha, self.active,
            self.n_active, self._scratch,
        )  # fmt: skip
        low = self.lam * float(total) - 0.5 * self.lam * float(np.vdot(self.W, self.W))
        self.term.pull(self.W, low)
        return low

    def objective(self) -> float:
        """The objective at W."""
        risk = surrogate_sum(self.truth, self.costs, self.features, self.factor, self.W, self._scratch)
        return 0.5 * self.lam * float(np.vdot(self.W, self.W)) + float(risk)

    @property
    def moved(self) -> bool:
        """Whether any mass has left the true classes."""
        return bool((self.n_active > 1).any())

    def set_weights(self, w: FloatArray) -> None:
        """Undo `weights`; the dual point stays."""
        self.W[...] = self.arranged(w)

    def arranged(self, w: FloatArray) -> FloatArray:
        """A weight vector of the model in the form of W."""
        by_class = w.reshape(self.alpha.shape[1], -1)
        return by_class.T if self.sparse else by_class

    def guess(self) -> None:
        """All mass of every example on its most violated class at W: the dual point that belongs to it if optimal."""
        sparse, X, data, indices, indptr = self.features
        d = self.W.shape[0] if sparse else self.W.shape[1]
        rows = sp.csr_array((data, indices, indptr), shape=(self.n, d)) if sparse else X
        scores, every = np.asarray(rows @ (self.W if sparse else self.W.T), dtype=np.float64), np.arange(self.n)
        if self.costs.size:
            scores += self.costs[self.truth]
        else:
            scores[every, self.truth] -= 1.0
        best = np.argmax(scores, axis=1)
        self.alpha[:] = 0.0
        self.alpha[every, best] = 1.0
        self.active[:, 0], self.active[:, 1] = np.minimum(best, self.truth), np.maximum(best, self.truth)
        self.n_active[:] = np.where(best == self.truth, 1, 2)

    def weights(self) -> FloatArray:
        """W as the model's weight vector, class by class."""
        return np.ascontiguousarray(self.W.T if self.sparse else self.W).ravel()

    def state(self) -> dict[str, Any]:
        """Everything that later visits depend on."""
        names = ("W", "alpha", "active", "n_active", "gap")
        return {name: getattr(self, name) for name in names}

    def restore(self, state: dict[str, Any]) -> None:
        """Undo `state`."""
        saved, (n, K) = Saved(state), self.alpha.shape
        self.W[...], self.gap[...] = saved.array("W", self.W.shape), saved.array("gap", (n,))
        alpha, active = saved.array("alpha", (n, K), 0.0), saved.indices("active", (n, K), 0, K - 1)
        n_active = saved.indices("n_active", (n,), 1, K)
        listed = np.arange(K) < n_active[:, None]
        times = np.zeros((n, K), dtype=np.int64)
        np.add.at(times, (np.repeat(np.arange(n), n_active), active[listed]), 1)
        if (times > 1).any() or (times[np.arange(n), self.truth] != 1).any():
            raise DeclarationError("active classes must differ, and the true one must be among them")
        if (alpha[times == 0] != 0.0).any() or (np.abs(alpha.sum(axis=1) - 1.0) > 1e-9).any():
            raise DeclarationError("alpha is not a dual point: the masses of an example must sum to 1")
        self.alpha[...], self.active[...], self.n_active[...] = alpha, active, n_active


def _features(rows: Any) -> tuple[tuple[bool, Any, Any, Any, Any], FloatArray]:
    """Feature rows in the form of the kernels, and their squared norms."""
    if sp.issparse(rows):
        norms = np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
        return (True, np.zeros((0, 0), dtype=rows.dtype), rows.data, rows.indices, rows.indptr), norms
    dense = np.ascontiguousarray(rows)
    dense = dense if dense.flags.writeable else dense.copy()  # a read-only array is another type for numba
    empty = np.zeros(0, dtype=np.int32)
    norms = np.einsum("ij,ij->i", dense, dense, dtype=np.float64)
    return (False, dense, np.zeros(0, dtype=dense.dtype), empty, empty), norms
