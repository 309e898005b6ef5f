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
    rng = np.random.default_rng(random_state)
    n = len(risk)
    order = rng.permutation(n)
    groups = [_Group(risk, part, planes) for part in np.array_split(order, min(_GROUPS, n))]
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
            certify = _load(state, groups, rng, w)
        while monitor.running:
            found = None
            if certify:
                found = _evaluate(monitor, groups, w, lam, n)
            monitor.count(oracle_calls=n, passes=1)
            gap = _oracle_pass(monitor, groups, found, w, scale, rng)
            _cached_passes(monitor, groups, w, scale, rng, gap, 1 if monitor.passes <= 2 else cached_passes)
            with monitor.part("block steps"):
                low = _rebuild(groups, w, scale, lam, n)
            monitor.bound(low)
            # A stale gap tells when to certify, never that the gap is closed (TRAINERS.md 5).
            certify = gap / n <= 1.2 * max(tol, 1e-12) * abs(low) or monitor.passes % 10 == 0
            if monitor.passes + 1 >= monitor.max_passes:
                certify = True
            monitor.record(partial(_save, groups, rng, w, certify))
        if not np.isfinite(monitor.objective) or monitor.stopped in ("time", "callback"):
            _evaluate(monitor, groups, w, lam, n)
    return monitor.result(planes=sum(group.n_planes for group in groups))


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


def _evaluate(monitor: Monitor, groups: Sequence[_Group], w: FloatArray, lam: float, n: int) -> list[Violations]:
    """All oracles at one w: the certified objective, and planes for the next pass."""
    with monitor.part("oracle"):
        found = [group.risk.violations(w) for group in groups]
    total = sum(float(violations.upper.sum()) for violations in found)
    monitor.offer(w, 0.5 * lam * float(w @ w) + total / n)
    return found


def _oracle_pass(
    monitor: Monitor,
    groups: Sequence[_Group],
    found: Sequence[Violations] | None,
    w: FloatArray,
    scale: float,
    rng: np.random.Generator,
) -> float:
    gap = 0.0
    for k in rng.permutation(len(groups)):
        group = groups[k]
        if found is not None:
            violations = found[k]
        else:
            with monitor.part("oracle"):
                violations = group.risk.violations(w)
        with monitor.part("block steps"):
            gap += group.ascend(violations, w, scale, rng)
    return gap


def _cached_passes(
    monitor: Monitor,
    groups: Sequence[_Group],
    w: FloatArray,
    scale: float,
    rng: np.random.Generator,
    gap: float,
    most: int,
) -> None:
    n = sum(len(group.risk) for group in groups)
    with monitor.part("block steps"):
        for _ in range(most):
            threshold = _WORTH_A_VISIT * sum(float(group.gap.sum()) for group in groups) / n
            total = sum(groups[k].ascend_cached(w, scale, threshold, rng) for k in rng.permutation(len(groups)))
            if total < _CACHED_ENOUGH * gap or monitor.out_of_time:
                break


def _rebuild(groups: Sequence[_Group], w: FloatArray, scale: float, lam: float, n: int) -> float:
    """w anew from the dual point, so that the bound is of exactly this w; returns the bound."""
    w[:] = 0.0
    levels = sum(group.add_weights(w, scale) for group in groups)
    return levels / n - 0.5 * lam * float(w @ w)


class _Group:
    """Some examples with their working sets, in the arrays that the kernels want."""

    def __init__(self, risk: StructuredRisk, examples: npt.NDArray[np.intp], n_planes: int) -> None:
        self.risk = risk.part(examples)
        batch = self.risk.batch
        n = batch.n
        terms = list(batch.model.features.values())
        self._table = next((t for t, term in enumerate(terms) if not isinstance(term, Tied)), None)
        self._tied = [t for t, term in enumerate(terms) if isinstance(term, Tied)]
        offsets = np.concatenate(
            [[0], np.cumsum([k * r.shape[1] for k, r in zip(batch.columns, batch.rows, strict=True)])]
        )
        tied_at = [np.arange(offsets[t], offsets[t + 1]) for t in self._tied]
        tied = np.concatenate(tied_at).astype(np.int64) if tied_at else np.empty(0, dtype=np.int64)
        if self._table is None:
            rows: Any = np.zeros((0, 0))
            self._start = np.zeros(n + 1, dtype=np.int64)
            columns, width, table_at = 1, 0, 0
        else:
            rows = batch.rows[self._table]
            self._start = batch.starts[self._table].astype(np.int64)
            columns, width, table_at = batch.columns[self._table], int(rows.shape[1]), int(offsets[self._table])
        self._features = (*_arrays(rows), self._start)
        self._layout = (columns, width, table_at, tied)
        self._norms = _squared_norms(rows)
        self._n_parts = int(np.diff(self._start).max(initial=0)) * columns + len(tied)
        M = n_planes
        self.begin, self.size = np.full((n, M), -1, dtype=np.int64), np.zeros((n, M), dtype=np.int64)
        self.alpha, self.level = np.zeros((n, M)), np.zeros((n, M))
        self.idle, self.gram = np.zeros((n, M), dtype=np.int64), np.zeros((n, M, M))
        self.part, self.value = np.empty(16 * n, dtype=np.int32), np.empty(16 * n)
        self.end = np.zeros(1, dtype=np.int64)
        self.gap = np.zeros(n)
        self._scratch = (
            np.empty(self._n_parts + 1),
            np.zeros(self._n_parts + 1, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            np.zeros(M + 1),
            np.zeros(M + 1),
        )

    @property
    def planes(self) -> tuple[Any, ...]:
        return (self.begin, self.size, self.alpha, self.level, self.idle, self.gram)

    @property
    def n_planes(self) -> int:
        """Planes in the working sets."""
        return int((self.begin >= 0).sum())

    def ascend(self, violations: Violations, w: FloatArray, scale: float, rng: np.random.Generator) -> float:
        """Offer the labels found to the working sets and move mass; returns the sum of the examples' gaps."""
        new = self._new_planes(violations)
        order = rng.permutation(len(self.risk))
        at = 0
        while True:
            at = ascend_new(
                order, at, new, self.planes, (self.part, self.value), self.end, self._features, self._layout,
                self._norms, w, scale, _PAIR_STEPS, 10, self.gap, self._scratch,
            )  # fmt: skip
            if at == len(order):
                return float(self.gap.sum())
            self._make_room(int(new[1][-1]))

    def ascend_cached(self, w: FloatArray, scale: float, threshold: float, rng: np.random.Generator) -> float:
        """Move mass among the known planes of the examples that still have a gap."""
        order = rng.permutation(len(self.risk))
        total, _ = ascend_cached(
            order, self.planes, (self.part, self.value), self._features, self._layout, w, scale, _PAIR_STEPS,
            threshold, self.gap, self._scratch,
        )  # fmt: skip
        return float(total)

    def add_weights(self, w: FloatArray, scale: float) -> float:
        """Add this group's share of w; returns the sum of its planes' levels."""
        arena = (self.part, self.value)
        return float(weights_of(self.planes, arena, self._features, self._layout, scale, w, self._scratch))

    def _new_planes(self, violations: Violations) -> tuple[Any, ...]:
        """The labels found, as the parts in which they differ from the truth, example by example."""
        n = len(self.risk)
        tables = difference(self.risk.truth, violations.labels)
        example, part, value = [], [], []
        columns = self._layout[0]
        n_table = np.diff(self._start) * columns
        if self._table is not None:
            table = tables[self._table]
            row = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
            owner = np.repeat(np.arange(n), np.diff(self._start))[row]
            example.append(owner)
            part.append((row - self._start[owner]) * columns + table.indices)
            value.append(table.data)
        offset = 0
        for t in self._tied:
            table = tables[t]
            owner = np.repeat(np.arange(n), np.diff(table.indptr))
            example.append(owner)
            part.append(n_table[owner] + offset + table.indices)
            value.append(table.data)
            offset += table.shape[1]
        owners = np.concatenate(example)
        by_example = np.argsort(owners, kind="stable")
        owners = owners[by_example]
        pointer = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=n))]).astype(np.int64)
        values = np.concatenate(value)[by_example] * violations.scale[owners]
        return violations.level, pointer, np.concatenate(part)[by_example].astype(np.int32), values

    def _make_room(self, needed: int) -> None:
        """Drop the parts of forgotten planes; double the arena if most of it is in use."""
        in_use = int(self.size.sum())
        capacity = max(2 * (in_use + needed) + int(self.size.sum(axis=1).max(initial=0)), len(self.part))
        part, value = np.empty(capacity, dtype=np.int32), np.empty(capacity)
        self.end[0] = compact(self.planes, self.part, self.value, part, value)
        self.part, self.value = part, value

    def state(self) -> dict[str, Any]:
        """Everything that later visits depend on."""
        names = ("begin", "size", "alpha", "level", "idle", "gram", "end", "gap")
        kept = {name: getattr(self, name) for name in names}
        return {**kept, "part": self.part[: self.end[0]], "value": self.value[: self.end[0]]}

    def restore(self, state: dict[str, Any]) -> None:
        """Undo `state`."""
        for name in ("begin", "size", "alpha", "level", "idle", "gram", "end", "gap"):
            getattr(self, name)[...] = state[name]
        room = 16 * len(self.risk)
        self.part = np.concatenate([state["part"], np.empty(room, dtype=np.int32)])
        self.value = np.concatenate([state["value"], np.empty(room)])


def _arrays(rows: Any) -> tuple[bool, Any, Any, Any, Any]:
    """Feature rows for the kernels: dense, or the three arrays of a CSR matrix."""
    if sp.issparse(rows):
        matrix = rows.copy()
        matrix.sort_indices()
        empty = np.zeros((0, 0), dtype=matrix.dtype)
        return True, empty, matrix.data, matrix.indices, matrix.indptr
    dense = np.ascontiguousarray(rows)
    return False, dense, np.zeros(0, dtype=dense.dtype), np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int32)


def _squared_norms(rows: Any) -> FloatArray:
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def _save(groups: Sequence[_Group], rng: np.random.Generator, w: FloatArray, certify: bool) -> dict[str, Any]:
    state: dict[str, Any] = {"w": w, "certify": certify, "random": rng.bit_generator.state}
    for k, group in enumerate(groups):
        state |= {f"{k}.{name}": value for name, value in group.state().items()}
    return state


def _load(state: dict[str, Any], groups: Sequence[_Group], rng: np.random.Generator, w: FloatArray) -> bool:
    w[:] = state["w"]
    rng.bit_generator.state = state["random"]
    for k, group in enumerate(groups):
        prefix = f"{k}."
        group.restore({name[len(prefix) :]: value for name, value in state.items() if name.startswith(prefix)})
    return bool(state["certify"])
