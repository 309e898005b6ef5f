"""Stochastic subgradient descent for many nodes and sparse features: weights by feature, only where they are needed.

The iterates are those of `structopt.train.sgd`; the difference is the layout of the weights in memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit.csr import checked_csr
from structopt.checks import checked, choice, seed
from structopt.errors import DeclarationError
from structopt.hierarchy.leaf_tree import LeafTree
from structopt.risks.regularizers import Regularizer, check_l2
from structopt.risks.risk import check_lam
from structopt.risks.structured import StructuredRisk, Violations, check_scale, difference
from structopt.space.compiled import FloatArray
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.monitor import Callback, Monitor
from structopt.train.node_weights import AllWeights, Pattern, SeenWeights, Weights, leaf_steps, seen_features
from structopt.train.result import TrainResult
from structopt.train.run import Limits, Method, run
from structopt.train.sgd import check_batch_size, default_batch_size
from structopt.train.warm import WarmStart

__all__ = ["Pattern", "hierarchical_sgd", "seen_features"]

# Entries of a temporary: whole ones would be as large as the weights.
_CHUNK = 1 << 20
# Examples between two looks at the clock and at Ctrl-C.
_SLAB = 1024
# Examples whose labels are found at a time for the objective.
_EVALUATED = 256


@checked
def hierarchical_sgd(
    risk: StructuredRisk,
    regularizer: Regularizer | None = None,
    *,
    lam: float,
    tol: float = 0.0,
    max_passes: float | None = 30,
    batch_size: int | None = None,
    support: Literal["all", "seen"] = "all",
    everywhere: Sequence[int] = (),
    dtype: Any = np.float64,
    certify: bool = True,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    random_state: int = 0,
    w0: FloatArray | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``lam/2 ||W||^2 + risk(W)`` over node weights, for sparse examples.

    Parameters
    ----------
    risk : StructuredRisk
        Of a model with one row of features per example and one weight vector per node (`HierarchicalLabels`,
        `Multiclass`, ...), with any surrogate.
    regularizer : L2, optional
        The steps are those of ``||w||^2 / 2``.
    lam : float
        Weight of the regulariser, positive.
    tol : float
        Relative gap that counts as converged; the run itself ends by its limits only.
    max_passes : float
        Passes over the data.
    batch_size : int, optional
        Examples per step. By default 1 for single leaves of a tree, which one compiled loop visits, and half the root
        of their number elsewhere; in a first pass fresh weights are worth much.
    support : {"all", "seen"}
        Keep all weights, or only those of the features that occur in some example of the node; the others are 0.
    everywhere : sequence of int
        With ``support="seen"``: features whose weights every node keeps, also one without examples (the constant).
    dtype : float64 or float32
        Of the weights while they are learned. There is a lower bound in float64 only: rounding would invalidate it.
    certify : bool
        Spend one more pass on the objective at the returned weights; without it the objective is unknown (``inf``).
    max_seconds, callback, checkpoint, verbose, w0, warm
        As in `structopt.train.bmrm`.
    random_state : int
        Which examples go together, and the order of the steps.

    Returns
    -------
    TrainResult
        With ``support="seen"``, ``result.info["pattern"].matrix(result.w)`` has the weights as a sparse matrix
        ``(nodes, features)``.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> import structopt as so
    >>> model = so.structures.HierarchicalLabels(so.Hierarchy([("animal", "cat"), ("animal", "dog")]))
    >>> risk = so.train.StructuredRisk(model, sp.csr_array(np.eye(4)), ["cat", "cat", "dog", "dog"])
    >>> W = so.train.hierarchical_sgd(risk, lam=0.1, max_passes=5).w.reshape(3, 4)
    >>> bool((W[1] == -W[2]).all())
    True
    """
    check_l2(regularizer, "hierarchical_sgd")
    lam = check_lam(lam)
    choice("support", support, ("all", "seen"))
    method = _HierarchicalSgd(risk, lam, batch_size, support, everywhere, dtype, certify, random_state)
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm, w0))


class _HierarchicalSgd(Method):
    """Pegasos steps on the mini-batches of one data set; the iterate is ``v / t`` (Notes of `structopt.train.sgd`)."""

    name = "hierarchical_sgd"

    def __init__(
        self,
        risk: StructuredRisk,
        lam: float,
        batch_size: int | None,
        support: str,
        everywhere: Sequence[int],
        dtype: Any,
        certify: bool,
        random_state: int,
    ) -> None:
        check_scale(risk, lam)
        batch, n = risk.batch, len(risk)
        if len(batch.rows) != 1 or batch.rows[0].shape[0] != n:
            raise DeclarationError(
                f"hierarchical_sgd needs a model with one row of features per example; {risk.model!r} has others. "
                "Use sgd."
            )
        rows = batch.rows[0]
        self.X = checked_csr(rows if sp.issparse(rows) else sp.csr_array(rows), "X", dtype)
        self.risk, self.lam, self.certify, self.n = risk, lam, certify, n
        self.needs_objective = certify
        self.n_jobs = risk.n_jobs if risk.n_jobs > 0 else os.cpu_count() or 1
        tree = _leaf_tree(risk)
        default = 1 if tree is not None else default_batch_size(n)
        self.size = default if batch_size is None else check_batch_size(batch_size, n)
        self.rng = np.random.default_rng(seed("random_state", random_state))
        self.order = self.rng.permutation(n)
        self.leaves = _LeafSteps(risk, tree, lam) if tree is not None and self.size == 1 else None
        self.groups: Any = self.order
        if self.leaves is None:
            self.groups = np.array_split(self.order, math.ceil(n / self.size))
        self.pattern = None if support == "all" else _pattern(self.X, risk.truth.tables[0], everywhere)
        self.store: Weights = (
            AllWeights(self.X.shape[1], batch.columns[0], dtype)
            if self.pattern is None
            else SeenWeights(self.pattern, dtype)
        )
        self.t = 0
        self.share = 0.0
        self.levels = 0.0  # sum of the cuts' levels so far
        self.whole = True  # every example has been visited equally often
        self.evaluated = -1  # the step after which the objective was evaluated
        self.lower_bound = float(risk.lower_bound)
        self.problem = {
            "risk": risk,
            "lam": lam,
            "batch_size": self.size,
            "support": support,
            "everywhere": [int(j) for j in everywhere],
            "dtype": str(np.dtype(dtype)),
            "random_state": random_state,
        }

    @property
    def n_weights(self) -> int:
        return int(self.store.v.size)

    def fallback(self) -> FloatArray:
        return np.zeros(self.n_weights)

    def begin_at(self, monitor: Monitor, w: FloatArray) -> None:
        """Go on after the steps that led here, or, where these are not known, as if one pass had led to `w`."""
        stored = self.store.from_vector(w)
        if self.certify:  # the result is then never worse than the start
            self._evaluate(monitor, stored)
        else:
            monitor.offer(w)
        if self.t == 0:
            self.t, self.share = len(self.groups), float(len(self.groups))
            self.whole = False  # no dual point is known that belongs to w
            # The mean is (share v - u) / total: u is what makes it w.
            self.store.v[...] = self.t * stored
            self.store.u[...] = (self.t * self.t - 0.5 * self.t * (self.t + 1)) * stored

    def take_over(self, state: dict[str, Any], lam: float) -> None:
        self.restore(state)
        self.store.v *= lam / self.lam  # the mixture of cuts is the same, its weights are not
        self.store.u *= lam / self.lam
        self.evaluated = -1

    def iterate(self, monitor: Monitor) -> None:
        try:
            (self._visit_groups if self.leaves is None else self._visit_leaves)(monitor)
        except KeyboardInterrupt:
            monitor.offer(
                self.store.mean(self.share, self._total())
            )  # a pass may take half an hour: what it learned is kept
            raise
        monitor.count(passes=monitor.oracle_calls / self.n - monitor.passes)
        if self.whole and self.store.v.dtype == np.float64 and self.risk.is_convex:
            monitor.bound(self._dual_value())
        monitor.offer(self.store.mean(self.share, self._total()))

    def _visit_groups(self, monitor: Monitor) -> None:
        weight = len(self.groups) / self.n
        for k in self.rng.permutation(len(self.groups)):
            with monitor.part("oracle and steps"):
                self._step(self.groups[k], weight)
            monitor.count(oracle_calls=len(self.groups[k]))
            if self._must_end(monitor):
                return

    def _visit_leaves(self, monitor: Monitor) -> None:
        assert self.leaves is not None
        visits = self.order[self.rng.permutation(self.n)].astype(np.int64)
        for at in range(0, self.n, _SLAB):
            part = visits[at : at + _SLAB]
            with monitor.part("oracle and steps"):
                self.levels += self.lam * self.leaves.visit(part, self.X, self.store, self.pattern, self.t)
            self.t += part.size
            self.share = float(self.t)
            monitor.count(oracle_calls=part.size)
            if self._must_end(monitor):
                return

    def _must_end(self, monitor: Monitor) -> bool:
        """Whether what is left of the time must do for the certificate of the weights that are returned."""
        asked = monitor.parts["oracle and steps"] / max(monitor.oracle_calls, 1)
        if monitor.seconds_left > (1.1 * asked * self.n if self.certify else 0.0):
            return False
        self.whole = self.whole and self.t % len(self.groups) == 0
        monitor.stop("time")
        return True

    def _violations(
        self, examples: npt.NDArray[np.intp], weights: Any, scale: float
    ) -> tuple[sp.csr_array, StructuredRisk, Violations]:
        X, part = self.X[examples], self.risk.part(examples)
        return X, part, part.violations_of([self.store.scores(weights, X, scale, self.n_jobs)])

    def _step(self, examples: npt.NDArray[np.intp], weight: float) -> None:
        """One step along the subgradient of ``weight * sum of these examples' surrogates``."""
        X, part, found = self._violations(examples, self.store.v, 1.0 / self.t if self.t else 0.0)
        (table,) = difference(part.truth, found.labels)
        table.sort_indices()  # `add_seen` searches forwards
        parts = (table.indptr.astype(np.int64), table.indices.astype(np.int64), table.data)
        self.store.add(parts, found.scale * (weight / self.lam), X, self.share)
        self.levels += float(found.level.sum())
        self.t += 1
        self.share += 1.0

    def _total(self) -> float:
        return max(0.5 * self.t * (self.t + 1), 1.0)

    def _mean(self) -> Any:
        """The mean of the iterates weighted by t, as the store has weights."""
        total = self._total()
        mean = np.empty_like(self.store.v)
        v, u, flat = self.store.v.reshape(-1), self.store.u.reshape(-1), mean.reshape(-1)
        for at in range(0, v.size, _CHUNK):
            part = slice(at, at + _CHUNK)
            flat[part] = (self.share * v[part].astype(np.float64) - u[part]) / total
        return mean

    def _dual_value(self) -> float:
        """Value of the feasible dual point of whole passes: the uniform mixture of all cuts found."""
        w = self.store.v.reshape(-1)
        level = self.levels * len(self.groups) / (self.n * self.t)
        return level - 0.5 * self.lam * float(w @ w) / self.t**2

    def finish(self, monitor: Monitor) -> None:
        if not self.certify or self.t <= self.evaluated:
            return
        self._evaluate(monitor, self._mean())
        self.evaluated = self.t
        monitor.record(self.state)

    def _evaluate(self, monitor: Monitor, weights: Any) -> None:
        monitor.count(oracle_calls=self.n, passes=1)
        with monitor.part("certify"):
            groups = np.array_split(self.order, math.ceil(self.n / _EVALUATED))
            value = sum(float(self._violations(part, weights, 1.0)[2].upper.sum()) for part in groups) / self.n
        w = self.store.to_vector(weights)
        monitor.offer(w, 0.5 * self.lam * float(w @ w) + value)

    def state(self) -> dict[str, Any]:
        kept = {"t": self.t, "share": self.share, "levels": self.levels, "whole": self.whole}
        own = {"v": self.store.v, "u": self.store.u, "evaluated": self.evaluated}
        return {**kept, **own, "random": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        saved, shape = Saved(state), self.store.v.shape
        self.t, self.share = saved.whole("t"), saved.number("share", low=0.0)
        self.levels, self.whole = saved.number("levels"), saved.flag("whole")
        self.store.v[...], self.store.u[...] = saved.array("v", shape), saved.array("u", shape)
        self.evaluated = saved.whole("evaluated", -1)
        saved.random("random", self.rng)

    def info(self) -> dict[str, Any]:
        own: dict[str, Any] = {"steps": self.t, "batch_size": self.size}
        return own if self.pattern is None else {**own, "pattern": self.pattern}


class _LeafSteps:
    """Steps of one example each, for single leaves of a tree, in slabs of compiled visits."""

    def __init__(self, risk: StructuredRisk, tree: LeafTree, lam: float) -> None:
        labels = risk.truth.tables[0]
        self.truth = labels.indices[tree.is_leaf[labels.indices]].astype(np.int64)
        self.tree = tree.parent, tree.is_leaf, tree.factor
        self.error = tree.weight, tree.rooted, risk.surrogate.name == "divided"
        self.steps = (np.ones(len(risk)) if risk.weight is None else risk.weight) / lam

    def visit(self, examples: npt.NDArray[np.int64], X: sp.csr_array, store: Weights, pattern: Any, t: int) -> float:
        """Visit the examples in turn, from step `t` on; return the sum of the cuts' levels, times ``1 / lam``."""
        rows = X.data, X.indices, X.indptr
        layout = (np.zeros(0, np.int64), np.zeros(0, np.int32)) if pattern is None else (pattern.ptr, pattern.node)
        v, u = store.v.reshape(-1), store.u.reshape(-1)
        return leaf_steps(examples, rows, self.truth, self.tree, self.error, layout, v, u, t, self.steps)


def _leaf_tree(risk: StructuredRisk) -> LeafTree | None:
    """The tree of a model whose labels are single leaves, where compiled steps know the surrogate; else None."""
    offered = getattr(risk.model, "leaf_tree", None)
    if offered is None or risk.surrogate.name not in ("margin", "divided"):
        return None
    tree: LeafTree | None = offered()
    return tree


def _pattern(X: sp.csr_array, labels: sp.csr_array, everywhere: Sequence[int]) -> Pattern:
    """The features that each node has met, and those that every node keeps."""
    if len(everywhere):
        columns = np.asarray(everywhere, dtype=np.intp)
        row = sp.csr_array((np.ones(columns.size), (np.zeros_like(columns), columns)), shape=(1, X.shape[1]))
        X = sp.csr_array(sp.vstack([X, row], format="csr"))
        labels = sp.csr_array(sp.vstack([labels, np.ones((1, labels.shape[1]))], format="csr"))
    found = seen_features(X, labels)
    assert isinstance(found, Pattern)
    return found
