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
import numpy.typing as npt
import scipy.sparse as sp

from structopt.compiled import FloatArray
from structopt.errors import DeclarationError
from structopt.features import Tied
from structopt.kernels.working_sets import ascend_cached, ascend_new, compact, weights_of
from structopt.train.checkpoint import Checkpoint
from structopt.train.monitor import Callback, Monitor
from structopt.train.multiclass import is_multiclass, multiclass_ascent
from structopt.train.result import TrainResult
from structopt.train.risk import check_lam
from structopt.train.structured import StructuredRisk, Violations, difference

__all__ = ["block_ascent"]

# Examples are asked in this many groups a pass: all oracles of a group at one w, in one batch. More groups mean fresher
# weights, fewer mean less overhead per batch.
_GROUPS = 12
# Cached passes end early once they have closed this share of the gap that the oracle pass saw.
_CACHED_ENOUGH = 0.3
# Examples below this share of the mean gap are left out of cached passes.
_WORTH_A_VISIT = 0.1
_PAIR_STEPS = 5
# Oracle visits without mass after which a plane is forgotten.
_PATIENCE = 4


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
    _check(risk, cached_passes, planes)
    if is_multiclass(risk):  # exact block steps instead of pair steps
        return multiclass_ascent(
            risk, lam=lam, tol=tol, cached_passes=cached_passes, max_passes=max_passes, max_seconds=max_seconds,
            callback=callback, checkpoint=checkpoint, verbose=verbose, random_state=random_state,
        )  # fmt: skip
    rng = np.random.default_rng(random_state)
    n = len(risk)
    sets = _WorkingSets(risk, rng.permutation(n), planes)
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
            found = _evaluate(monitor, sets, w, lam) if certify else None
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
            _evaluate(monitor, sets, w, lam)
    return monitor.result(planes=int(sets.count.sum()))


def _check(risk: StructuredRisk, cached_passes: int, planes: int) -> None:
    if not isinstance(risk, StructuredRisk):
        raise DeclarationError(
            f"block_ascent needs a StructuredRisk (labels per example), got {type(risk).__name__}; use bmrm."
        )
    if not risk.is_convex:
        raise DeclarationError(f"{risk.surrogate!r} is not convex in the weights: use sgd, or ProbLoss(convex=True).")
    if cached_passes < 0 or planes < 2:
        raise DeclarationError("cached_passes must be at least 0 and planes at least 2.")
    tables = [term for term in risk.model.features.values() if not isinstance(term, Tied)]
    if len(tables) > 1:
        raise DeclarationError("block_ascent takes models with one table of features besides tied weights; use bmrm.")


def _evaluate(monitor: Monitor, sets: _WorkingSets, w: FloatArray, lam: float) -> list[Violations]:
    """All oracles at one w: the certified objective, and planes for the next pass."""
    with monitor.part("oracle"):
        found = [group.violations(w) for group in sets.groups]
    total = sum(float(violations.upper.sum()) for violations in found)
    monitor.offer(w, 0.5 * lam * float(w @ w) + total / len(sets.gap))
    return found


def _oracle_pass(
    monitor: Monitor,
    sets: _WorkingSets,
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


class _WorkingSets:
    """The planes of all examples, in the arrays that the kernels want.

    Examples are asked in groups, each a `StructuredRisk` of its own; they are numbered group by group here.
    """

    _KEPT = ("count", "begin", "size", "alpha", "level", "idle", "gram", "end", "gap")

    def __init__(self, risk: StructuredRisk, order: npt.NDArray[np.intp], n_planes: int) -> None:
        parts = np.array_split(order, min(_GROUPS, len(order)))
        self.groups = [risk.part(part) for part in parts]
        self.first = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        terms = list(risk.model.features.values())
        batch = self.groups[0].batch
        self._table = next((t for t, term in enumerate(terms) if not isinstance(term, Tied)), None)
        sizes = [k * rows.shape[1] for k, rows in zip(batch.columns, batch.rows, strict=True)]
        self._offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        n, M = len(order), n_planes
        rows = self._stack_rows(n)
        self._features = (*_arrays(rows), _squared_norms(rows))
        self._n_table = np.diff(self._start) * (batch.columns[self._table] if self._table is not None else 0)
        n_tied = sum(k for k, term in zip(batch.columns, terms, strict=True) if isinstance(term, Tied))
        n_parts = int(self._n_table.max(initial=0)) + n_tied
        self.count = np.zeros(n, dtype=np.int64)
        self.begin, self.size = np.zeros((n, M), dtype=np.int64), np.zeros((n, M), dtype=np.int64)
        self.alpha, self.level = np.zeros((n, M)), np.zeros((n, M))
        self.idle, self.gram = np.zeros((n, M), dtype=np.int64), np.zeros((n, M, M))
        self.arena = _new_arena(32 * n)
        self.end = np.zeros(1, dtype=np.int64)
        self.gap = np.zeros(n)
        stamps = np.zeros(n_parts + 1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self._scratch = (np.empty(n_parts + 1), *stamps, np.zeros(M + 1), np.zeros(M + 1))

    def _stack_rows(self, n: int) -> Any:
        """The feature rows of all groups as one matrix, of which the groups' dense rows become views."""
        t = self._table
        if t is None:
            self._start = np.zeros(n + 1, dtype=np.int64)
            return np.zeros((0, 0))
        batches = [group.batch for group in self.groups]
        counts = np.concatenate([np.diff(batch.starts[t]) for batch in batches])
        self._start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        if sp.issparse(batches[0].rows[t]):
            return sp.vstack([batch.rows[t] for batch in batches], format="csr")
        rows = np.concatenate([batch.rows[t] for batch in batches])
        for batch, first in zip(batches, self._start[self.first[:-1]], strict=True):
            batch.rows[t] = rows[first : first + batch.rows[t].shape[0]]
        return rows

    @property
    def planes(self) -> tuple[Any, ...]:
        return (self.count, self.begin, self.size, self.alpha, self.level, self.idle, self.gram)

    def ascend(self, k: int, violations: Violations, w: FloatArray, scale: float, rng: np.random.Generator) -> float:
        """Offer the labels that group `k` found and move mass; returns the sum of its examples' gaps."""
        new = self._new_planes(k, violations)
        first, last = int(self.first[k]), int(self.first[k + 1])
        order = first + rng.permutation(last - first)
        at = 0
        while True:
            at = ascend_new(
                order, at, first, new, self.planes, self.arena, self.end, self._features, w, scale, _PAIR_STEPS,
                _PATIENCE, self.gap, self._scratch,
            )  # fmt: skip
            if at == len(order):
                return float(self.gap[first:last].sum())
            self._make_room(int(new[1][-1]))

    def ascend_cached(self, w: FloatArray, scale: float, rng: np.random.Generator) -> float:
        """Move mass among the known planes of the examples that still have a gap; returns the sum of gaps."""
        order = rng.permutation(len(self.gap))
        threshold = _WORTH_A_VISIT * float(self.gap.mean())
        total, _ = ascend_cached(
            order, self.planes, self.arena, self._features, w, scale, _PAIR_STEPS, threshold, self.gap, self._scratch
        )
        return float(total)

    def rebuild(self, w: FloatArray, scale: float) -> float:
        """w anew from the dual point; returns the sum of the planes' levels."""
        w[:] = 0.0
        return float(weights_of(self.planes, self.arena, self._features, scale, w, self._scratch))

    def _new_planes(self, k: int, violations: Violations) -> tuple[Any, ...]:
        """The labels found, as the parts in which they differ from the truth, example by example."""
        group = self.groups[k]
        batch = group.batch
        first, last = int(self.first[k]), int(self.first[k + 1])
        owner, part, row, at, value = [], [], [], [], []
        behind = self._n_table[first:last]  # tied weights are numbered behind the table
        for t, table in enumerate(difference(group.truth, violations.labels)):
            line = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
            at.append(self._offsets[t] + table.indices.astype(np.int64) * batch.rows[t].shape[1])
            value.append(table.data)
            if t == self._table:
                start = batch.starts[t]
                owner.append(np.repeat(np.arange(batch.n), np.diff(start))[line])
                part.append((line - start[owner[-1]]) * batch.columns[t] + table.indices)
                row.append(line + self._start[first])
            else:
                owner.append(line)
                part.append(behind[line] + table.indices)
                row.append(np.full(len(line), -1))
                behind = behind + batch.columns[t]
        owners = np.concatenate(owner)
        order = np.argsort(owners, kind="stable")
        pointer = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=batch.n))]).astype(np.int64)
        values = np.concatenate(value)[order] * violations.scale[owners[order]]
        parts, rows = (np.concatenate(a)[order].astype(np.int32) for a in (part, row))
        return violations.level, pointer, parts, rows, np.concatenate(at)[order], values

    def _make_room(self, needed: int) -> None:
        """Drop the parts of forgotten planes; enlarge the arena if most of it is in use."""
        sizes = np.where(np.arange(self.size.shape[1]) < self.count[:, None], self.size, 0).sum(axis=1)
        capacity = max(2 * (int(sizes.sum()) + needed) + int(sizes.max(initial=0)), len(self.arena[0]))
        target = _new_arena(capacity)
        self.end[0] = compact(self.planes, self.arena, target)
        self.arena = target

    def state(self) -> dict[str, Any]:
        """Everything that later visits depend on."""
        end = int(self.end[0])
        kept = {name: getattr(self, name) for name in self._KEPT}
        return {**kept, **{f"arena{k}": array[:end] for k, array in enumerate(self.arena)}}

    def restore(self, state: dict[str, Any]) -> None:
        """Undo `state`."""
        for name in self._KEPT:
            getattr(self, name)[...] = state[name]
        end = int(self.end[0])
        self.arena = _new_arena(end + 32 * len(self.gap))
        for k, array in enumerate(self.arena):
            array[:end] = state[f"arena{k}"]


def _new_arena(capacity: int) -> tuple[Any, ...]:
    """Part, row, place in w and value of `capacity` parts."""
    kinds = (np.int32, np.int32, np.int64, np.float64)
    return tuple(np.empty(capacity, dtype=kind) for kind in kinds)


def _arrays(rows: Any) -> tuple[Any, Any, Any, Any]:
    """Feature rows for the kernels: dense, or the three arrays of a CSR matrix."""
    if sp.issparse(rows):
        matrix = rows.copy()
        matrix.sort_indices()
        return np.zeros((0, 0), dtype=matrix.dtype), matrix.data, matrix.indices, matrix.indptr
    dense = np.ascontiguousarray(rows)
    return dense, np.zeros(0, dtype=dense.dtype), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)


def _squared_norms(rows: Any) -> FloatArray:
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def _save(sets: _WorkingSets, rng: np.random.Generator, w: FloatArray, certify: bool) -> dict[str, Any]:
    return {"w": w, "certify": certify, "random": rng.bit_generator.state, **sets.state()}


def _load(state: dict[str, Any], sets: _WorkingSets, rng: np.random.Generator, w: FloatArray) -> bool:
    w[:] = state["w"]
    rng.bit_generator.state = state["random"]
    sets.restore(state)
    return bool(state["certify"])
