"""Stochastic subgradient descent for many nodes and sparse features: weights by feature, only where they are needed.

The iterates are those of `structopt.train.sgd`; what differs is how the weights lie in memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit.csr import checked_csr
from structopt.errors import DeclarationError
from structopt.losses import Hamming, LeafHamming, Normalized
from structopt.model.batch import LabelBatch
from structopt.risks.identity import digest
from structopt.risks.risk import check_lam
from structopt.risks.sample_weight import relative_weights
from structopt.risks.structured import StructuredRisk, difference
from structopt.space.compiled import FloatArray
from structopt.structures.hierarchy import HierarchicalLabels
from structopt.train.checkpoint import Checkpoint
from structopt.train.kernels.node_weights import leaf_steps
from structopt.train.monitor import Callback, Monitor
from structopt.train.node_weights import AllWeights, Pattern, SeenWeights, Weights, seen_features
from structopt.train.result import TrainResult
from structopt.train.sgd import default_batch_size
from structopt.train.warm import WarmStart

__all__ = ["Pattern", "hierarchical_sgd", "seen_features"]

_CHUNK = 1 << 20
# Examples between two looks at the clock and at Ctrl-C.
_SLAB = 1024


def hierarchical_sgd(
    model: HierarchicalLabels,
    X: sp.csr_array,
    Y: Any,
    *,
    lam: float,
    surrogate: Any = "margin",
    pattern: Pattern | None = None,
    dtype: Any = np.float64,
    tol: float = 0.0,
    max_passes: float | None = 30,
    batch_size: int | None = None,
    certify: bool = True,
    n_jobs: int = 1,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    random_state: int = 0,
    sample_weight: Any = None,
    warm: WarmStart | None = None,
) -> tuple[TrainResult, Any]:
    """Minimise ``lam/2 ||W||^2 + risk(W)`` over node weights, for sparse examples.

    Parameters
    ----------
    model : HierarchicalLabels
    X : csr_array, shape (n, d)
    Y : labels, best as a sparse 0/1 matrix over the nodes
    lam : float
        Weight of the regulariser, positive.
    surrogate : str or Surrogate
    pattern : Pattern, optional
        Keep weights only there (`seen_features`); the others are fixed at 0. All by default.
    dtype : float64 or float32
        Of the weights.
    batch_size : int, optional
        Examples per step. By default 1 for single leaves of a tree, which one compiled loop visits, and half the root
        of their number elsewhere; in a first pass fresh weights are worth much.
    tol, max_passes, certify, max_seconds, callback, checkpoint, verbose, random_state, warm
        As in `structopt.train.sgd`. There is a lower bound in float64 only: rounding would invalidate it.
    n_jobs : int
        Threads over the examples of a mini-batch.
    sample_weight : array of shape (n,), optional
        As of `structopt.train.StructuredRisk`: steps are as long as their examples are heavy, visits equally frequent.

    Returns
    -------
    result : TrainResult
        ``result.w`` has the weights by feature, as they are stored.
    W : ndarray or csc_array, shape (nodes, d)

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> import structopt as so
    >>> from structopt.train.hierarchical_sgd import hierarchical_sgd
    >>> h = so.Hierarchy([("animal", "cat"), ("animal", "dog")])
    >>> X = sp.csr_array(np.eye(4))
    >>> model = so.structures.HierarchicalLabels(h)
    >>> result, W = hierarchical_sgd(model, X, ["cat", "cat", "dog", "dog"], lam=0.1, max_passes=5)
    >>> W.shape, bool((W[1] == -W[2]).all())
    ((3, 4), True)
    """
    lam = check_lam(lam)
    X = checked_csr(X if sp.issparse(X) else sp.csr_array(X), "X", dtype)
    n, n_nodes = X.shape[0], len(model.hierarchy)
    labels = sp.csr_array(model.codec.encode_many(Y, n))
    weight = relative_weights(sample_weight, n, "hierarchical_sgd")
    if weight is not None and not weight.all():
        kept = np.flatnonzero(weight)
        X, labels, n = X[kept], labels[kept], len(kept)
        weight = relative_weights(weight[kept], n, "hierarchical_sgd")
    if batch_size is not None and batch_size < 1:
        raise DeclarationError(f"batch_size must be at least 1, got {batch_size!r}.")
    single = _error_weights(model, surrogate)
    size = (1 if single else default_batch_size(n)) if batch_size is None else min(int(batch_size), n)
    rng = np.random.default_rng(random_state)
    order = rng.permutation(n)
    groups: Any = order if single and size == 1 else np.array_split(order, math.ceil(n / size))
    store: Weights = AllWeights(X.shape[1], n_nodes, dtype) if pattern is None else SeenWeights(pattern, dtype)
    steps = _Steps(model.private_twin(), X, labels, surrogate, store, lam, n_jobs, weight)
    leaves = _LeafSteps(steps, single) if single and size == 1 else None
    problem = {"lam": lam, "batch_size": size, "weights": store.v.size, "examples": n, "dtype": str(np.dtype(dtype))}
    problem["random_state"] = random_state
    with Monitor(
        "hierarchical sgd",
        tol=tol,
        max_passes=max_passes,
        max_seconds=max_seconds,
        callback=callback,
        checkpoint=checkpoint,
        verbose=verbose,
        lower_bound=0.0,
        problem=problem if checkpoint is None else problem | _identity(model, X, labels, surrogate, pattern, weight),
    ) as monitor:
        state = monitor.resume()
        if state is not None:
            steps.restore(state)
            rng.bit_generator.state = state["random"]
        elif warm is not None and (start := warm.weights(store.v.size)) is not None:
            steps.restart(start, len(groups))
            monitor.offer(start)
        while monitor.running:
            try:
                (_one_pass if leaves is None else leaves.one_pass)(monitor, steps, groups, rng)
            except KeyboardInterrupt:
                monitor.offer(steps.mean())  # a pass may take half an hour: what it has learned is kept
                raise
            monitor.count(passes=monitor.oracle_calls / n - monitor.passes)
            if steps.whole and np.dtype(dtype) == np.float64 and steps.convex:
                monitor.bound(steps.dual_value(len(groups) / n))
            monitor.offer(steps.mean())
            monitor.record(lambda: steps.state() | {"random": rng.bit_generator.state})
        if certify and monitor.stopped != "callback" and not math.isfinite(monitor.objective):
            with monitor.part("certify"):
                store.replace(steps.mean())
                steps.t = 1  # the stored weights are now the mean itself
                value = sum(steps.value(part) for part in np.array_split(order, math.ceil(n / 256))) / n
            monitor.count(oracle_calls=n, passes=1)
            w = store.v.ravel().astype(np.float64, copy=False)
            monitor.offer(w, 0.5 * lam * float(w @ w) + value)
            monitor.record()
    result = monitor.result(batch_size=size, n_weights=int(store.v.size))
    if warm is not None:
        warm.w = result.w
    store.release()
    return result, store.matrix(result.w)


def _identity(
    model: HierarchicalLabels, X: Any, labels: Any, surrogate: Any, pattern: Any, weight: Any
) -> dict[str, Any]:
    """Hashes of what determines the objective."""
    loss = model._loss
    return {
        "model": digest(type(model), model.hierarchy, model.kind, model.factor, model.integral),
        "X": digest(X),
        "Y": digest(labels),
        "loss": digest(loss),
        "surrogate": digest(getattr(surrogate, "name", surrogate)),
        "pattern": digest(pattern),
        "sample_weight": digest(weight),
    }


def _one_pass(monitor: Monitor, steps: _Steps, groups: Sequence[Any], rng: np.random.Generator) -> None:
    n = steps.X.shape[0]
    for k in rng.permutation(len(groups)):
        with monitor.part("oracle and steps"):
            steps.visit(groups[k], len(groups) / n)
        monitor.count(oracle_calls=len(groups[k]))
        if monitor.out_of_time:
            steps.whole = steps.whole and steps.t % len(groups) == 0
            return


def _error_weights(model: HierarchicalLabels, surrogate: Any) -> tuple[FloatArray, bool, bool] | None:
    """Node weights, root and division of the error, where `leaf_steps` knows it; else None."""
    loss, name = model._loss, getattr(surrogate, "name", surrogate)
    if (
        model.solver != "auto"
        or model.kind != "leaf"
        or not model.hierarchy.is_tree
        or name not in ("margin", "divided")
    ):
        return None
    divided = name == "divided"
    if type(loss) is Hamming:
        return np.array(loss.linear(np.zeros(len(model.hierarchy)))[0], dtype=np.float64), False, divided
    if isinstance(loss, LeafHamming):
        return np.array(loss.form.base), False, divided
    if isinstance(loss, Normalized):
        return np.array(loss.alpha_), True, divided
    return None


class _LeafSteps:
    """Steps of one example each, for single leaves of a tree, in slabs of compiled visits."""

    def __init__(self, steps: _Steps, error: tuple[FloatArray, bool, bool]) -> None:
        h = steps.model.hierarchy
        factor = np.ones(len(h)) if steps.model.factor is None else np.array(steps.model.factor)
        at_leaf = h.is_leaf[steps.labels.indices]
        self.truth = steps.labels.indices[at_leaf].astype(np.int64)
        self.tree = h.parent_of.copy(), h.is_leaf.copy(), factor
        self.error = error
        self.rows = steps.X.data, steps.X.indices, steps.X.indptr
        own = np.ones(steps.X.shape[0]) if steps.weight is None else steps.weight
        self.steps = own / steps.lam
        pattern = getattr(steps.store, "pattern", None)
        self.layout = (np.zeros(0, np.int64), np.zeros(0, np.int32)) if pattern is None else (pattern.ptr, pattern.node)

    def one_pass(self, monitor: Monitor, steps: _Steps, order: Any, rng: np.random.Generator) -> None:
        visits = np.asarray(order)[rng.permutation(len(order))].astype(np.int64)
        v, u = steps.store.v.reshape(-1), steps.store.u.reshape(-1)
        for at in range(0, visits.size, _SLAB):
            part = visits[at : at + _SLAB]
            with monitor.part("oracle and steps"):
                steps.levels += steps.lam * leaf_steps(
                    part, self.rows, self.truth, self.tree, self.error, self.layout, v, u, steps.t, self.steps
                )
            steps.t += part.size
            steps.share = float(steps.t)
            monitor.count(oracle_calls=part.size)
            if monitor.out_of_time:
                steps.whole = steps.whole and steps.t % visits.size == 0
                return


class _Steps:
    """Pegasos steps on the mini-batches of one data set; the iterate is ``v / t`` (Notes of `structopt.train.sgd`)."""

    def __init__(
        self,
        model: HierarchicalLabels,
        X: Any,
        labels: Any,
        surrogate: Any,
        store: Weights,
        lam: float,
        n_jobs: int,
        weight: FloatArray | None = None,
    ) -> None:
        self.weight = weight
        self.model, self.X, self.labels, self.surrogate = model, X, labels, surrogate
        self.store, self.lam, self.n_jobs = store, lam, n_jobs if n_jobs > 0 else os.cpu_count() or 1
        self.t = 0
        self.share = 0.0
        self.levels = 0.0
        self.whole = True  # every example has been visited equally often
        self.convex = True

    def _asked(self, examples: npt.NDArray[np.intp]) -> tuple[Any, StructuredRisk, Any]:
        X = self.X[examples]
        risk = StructuredRisk(self.model, X, self.labels[examples], self.surrogate, n_jobs=self.n_jobs)
        risk.weight = None if self.weight is None else self.weight[examples]
        scores = self.store.scores(X, 1.0 / self.t if self.t else 0.0, self.n_jobs)
        return X, risk, risk.violations_of([scores])

    def visit(self, examples: npt.NDArray[np.intp], weight: float) -> None:
        """One step along the subgradient of ``weight * sum of these examples' surrogates``."""
        X, risk, found = self._asked(examples)
        self.convex = risk.is_convex
        (table,) = _differences(risk.truth, found.labels)
        parts = (table.indptr.astype(np.int64), table.indices.astype(np.int64), table.data)
        self.store.add(parts, found.scale * (weight / self.lam), X, self.share)
        self.levels += float(found.level.sum())
        self.t += 1
        self.share += 1.0

    def value(self, examples: npt.NDArray[np.intp]) -> float:
        """The sum of the surrogates of these examples."""
        return float(self._asked(examples)[2].upper.sum())

    def mean(self) -> Any:
        """The mean of the iterates weighted by t, as a flat array."""
        total = max(0.5 * self.t * (self.t + 1), 1.0)
        v, u = self.store.v.reshape(-1), self.store.u.reshape(-1)
        w = np.empty(v.size)
        for at in range(0, v.size, _CHUNK):  # whole temporaries would be as large as the weights
            part = slice(at, at + _CHUNK)
            w[part] = (self.share * v[part].astype(np.float64) - u[part]) / total
        return w

    def dual_value(self, weight: float) -> float:
        """Value of the feasible dual point of whole passes: the uniform mixture of all planes found."""
        w = self.store.v.ravel()
        return self.levels * weight / self.t - 0.5 * self.lam * float(w @ w) / self.t**2

    def restart(self, w: FloatArray, t: int) -> None:
        """Stand at `w` as if `t` equal iterates had led to it; no dual point is known that belongs to it."""
        self.t, self.share, self.whole = t, float(t), False
        # The mean is (share v - u) / total: u is what makes it w.
        self.store.v.reshape(-1)[:] = t * w
        self.store.u.reshape(-1)[:] = (t * t - 0.5 * t * (t + 1)) * w

    def state(self) -> dict[str, Any]:
        """Everything that later steps depend on."""
        kept = {"t": self.t, "share": self.share, "levels": self.levels, "whole": self.whole}
        return {**kept, "v": self.store.v, "u": self.store.u}

    def restore(self, state: dict[str, Any]) -> None:
        """Undo `state`."""
        self.t, self.share = int(state["t"]), float(state["share"])
        self.levels, self.whole = float(state["levels"]), bool(state["whole"])
        self.store.v[...], self.store.u[...] = state["v"], state["u"]


def _differences(truth: LabelBatch, labels: LabelBatch) -> list[sp.csr_array]:
    tables = difference(truth, labels)
    for table in tables:
        table.sort_indices()  # `add_seen` searches forwards
    return tables
