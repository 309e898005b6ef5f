"""Stochastic subgradient descent with Pegasos steps, for every surrogate that gives a subgradient."""

from __future__ import annotations

import math
import os
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import kernel
from structopt.checks import checked, seed
from structopt.errors import DeclarationError
from structopt.risks.regularizers import Regularizer, check_l2
from structopt.risks.risk import check_lam
from structopt.risks.structured import StructuredRisk, Violations, check_scale, difference
from structopt.space.compiled import FloatArray
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.monitor import Callback, Monitor
from structopt.train.result import TrainResult
from structopt.train.run import Limits, Method, run
from structopt.train.warm import WarmStart

__all__ = ["sgd"]

Averaging = Literal["weighted", "uniform", "none"]

# Passes that seem to have led to the start of a surrogate that is not convex. On 1,000 sentences of wnut17 ProbLoss
# fell within ten passes from 0.472 at the weights of the margin to 0.420; with 1 to 30 it did not fall, with 400 to
# 0.434.
_TRUSTED_PASSES = 100


@checked
def sgd(
    risk: StructuredRisk,
    regularizer: Regularizer | None = None,
    *,
    lam: float,
    tol: float = 0.0,
    max_passes: float | None = 30,
    batch_size: int | None = None,
    average: Averaging = "weighted",
    certify: bool = True,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    random_state: int = 0,
    w0: FloatArray | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``lam/2 ||w||^2 + risk(w)`` by steps of length ``1/(lam t)`` along subgradients of mini-batches.

    The only trainer for surrogates that are not convex in the weights. For convex ones try `block_ascent` first
    (docs/mathematics/training#stochastic-subgradients).

    Parameters
    ----------
    risk : StructuredRisk
        With any surrogate.
    regularizer : L2, optional
        The steps are those of ``||w||^2 / 2``; for others take `structopt.train.bmrm`.
    lam : float
        Weight of the regulariser, positive.
    tol : float
        Relative gap that counts as converged; the run itself ends by its limits only.
    max_passes : float
        Passes over the data.
    batch_size : int, optional
        Examples per step, whose oracles are evaluated in one batch; half the root of their number by default.
    average : {"weighted", "uniform", "none"}
        Which weights are returned: the mean of the iterates weighted by t, their plain mean, or the last; of a
        surrogate that is not convex, begun at given weights, the last.
    certify : bool
        Spend one more pass on the objective at the returned weights; without it the objective is unknown (``inf``).
    max_seconds, callback, checkpoint, verbose, w0, warm
        As in `structopt.train.bmrm`.
    random_state : int
        Which examples go together, and the order of the steps.

    Returns
    -------
    TrainResult
        For a convex surrogate with a certified lower bound: see Notes. For another one ``info["convex"]`` is False: its
        bound is that of the surrogate's values, 0, and the gap says nothing about how good a minimum was found.

    Notes
    -----
    With these steps the iterate is ``w_t = v_t / t``, where v sums ``-subgradient/lam``: a step adds to v the features
    of its own examples and scales nothing. The means are linear in v too, hence as lazy: ``sum_s v_s`` is
    ``t v_t - u_t`` with ``u_t = sum_s (s - 1) (v_s - v_{s-1})``.

    After whole passes every example has contributed equally many cuts, so that w_t is also the point that belongs to
    the uniform mixture of these: a feasible point of the dual. Its value is a valid bound that needs no further pass.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro, Cotter. Pegasos. Mathematical Programming 127, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.train.sgd import sgd
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> y = (X @ rng.normal(size=(3, 4))).argmax(axis=1)
    >>> risk = so.train.StructuredRisk(so.structures.Multiclass(4), X, y, surrogate=so.surrogates.ProbLoss())
    >>> result = sgd(risk, lam=0.1, max_passes=10)
    >>> bool(result.objective < risk(np.zeros(12))[0])
    True
    """
    check_l2(regularizer, "sgd")
    lam = check_lam(lam)
    size = _check(risk, batch_size, average)
    if not risk.is_convex and (w0 is not None or (warm is not None and warm.w is not None)):
        average = "none"  # a mean with the start would hardly leave it
    method = _Sgd(risk, lam, size, average, certify, random_state)
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm, w0))


class _Sgd(Method):
    name = "sgd"

    def __init__(
        self, risk: StructuredRisk, lam: float, size: int, average: str, certify: bool, random_state: int
    ) -> None:
        check_scale(risk, lam)
        self.risk, self.lam, self.size, self.certify, self.n = risk, lam, size, certify, len(risk)
        self.needs_objective = certify
        self.rng = np.random.default_rng(seed("random_state", random_state))
        parts = np.array_split(self.rng.permutation(self.n), math.ceil(self.n / size))
        self.batches = [_MiniBatch(risk, part) for part in parts]
        self.point = _Iterate(risk.n_features, lam, average)
        self.levels = 0.0  # sum of the cuts' levels so far
        self.whole = True  # every example has been visited equally often
        self.evaluated = -1  # the step after which the objective was evaluated
        self.lower_bound = float(risk.lower_bound)
        self.problem = {
            "risk": risk,
            "lam": lam,
            "batch_size": size,
            "average": average,
            "random_state": random_state,
        }

    @property
    def n_weights(self) -> int:
        return self.point.v.size

    def begin_at(self, monitor: Monitor, w: FloatArray) -> None:
        """Go on after the steps that led here, or, where these are not known, as if one pass had led to `w`.

        Of a surrogate that is not convex the start is all there is: steps as after many passes do not lose it.
        """
        if self.certify:  # the result is then never worse than the start
            monitor.count(oracle_calls=self.n, passes=1)
            self._evaluate(monitor, w)
        else:
            monitor.offer(w)
        if self.point.t == 0:
            self.point.restart(w, len(self.batches) * (1 if self.risk.is_convex else _TRUSTED_PASSES))
            self.whole = False  # no dual point is known that belongs to w

    def take_over(self, state: dict[str, Any], lam: float) -> None:
        self.restore(state)
        self.point.v *= lam / self.lam  # the mixture of cuts is the same, its weights are not
        self.point.u *= lam / self.lam
        self.evaluated = -1

    def iterate(self, monitor: Monitor) -> None:
        point, n_batches = self.point, len(self.batches)
        for k in self.rng.permutation(n_batches):
            batch = self.batches[k]
            with monitor.part("oracle"):
                found = batch.violations(point)
            with monitor.part("steps"):
                batch.step(found, point, n_batches / self.n)
            self.levels += float(found.level.sum())
            monitor.count(oracle_calls=len(batch.risk))
            # What is left must do for the certificate of the weights that are returned.
            asked = monitor.parts["oracle"] / max(monitor.oracle_calls, 1)
            if monitor.seconds_left <= (1.1 * asked * self.n if self.certify else 0.0):
                self.whole = self.whole and point.t % n_batches == 0
                monitor.stop("time")
                break
        monitor.count(passes=monitor.oracle_calls / self.n - monitor.passes)
        if self.whole and self.risk.is_convex:
            monitor.bound(_dual_value(point, self.levels * n_batches / (self.n * point.t), self.lam))
        monitor.offer(point.result())

    def finish(self, monitor: Monitor) -> None:
        if not self.certify or self.point.t <= self.evaluated:
            return
        monitor.count(oracle_calls=self.n, passes=1)
        self._evaluate(monitor, self.point.result())
        self.evaluated = self.point.t
        monitor.record(self.state)

    def _evaluate(self, monitor: Monitor, w: FloatArray) -> None:
        with monitor.part("certify"):
            value = float(self.risk.violations(w).upper.mean())
        monitor.offer(w, 0.5 * self.lam * float(w @ w) + value)

    def state(self) -> dict[str, Any]:
        own = {"levels": self.levels, "whole": self.whole, "evaluated": self.evaluated}
        return {**self.point.state(), **own, "random": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        self.point.restore(state)
        saved = Saved(state)
        self.levels, self.whole = saved.number("levels"), saved.flag("whole")
        self.evaluated = saved.whole("evaluated", -1)
        saved.random("random", self.rng)

    def info(self) -> dict[str, Any]:
        return {"steps": self.point.t, "batch_size": self.size, "convex": self.risk.is_convex}


def _check(risk: StructuredRisk, batch_size: int | None, average: str) -> int:
    """The size of a mini-batch; raises where the arguments make no sense."""
    if not isinstance(risk, StructuredRisk):
        raise DeclarationError(f"sgd needs a StructuredRisk (labels per example), got {type(risk).__name__}; use bmrm.")
    if average not in ("weighted", "uniform", "none"):
        raise DeclarationError(f"average must be 'weighted', 'uniform' or 'none', got {average!r}.")
    return default_batch_size(len(risk)) if batch_size is None else check_batch_size(batch_size, len(risk))


def check_batch_size(batch_size: int, n: int) -> int:
    """A number of examples per step, at most all of them."""
    if batch_size < 1:
        raise DeclarationError(f"batch_size must be at least 1, got {batch_size!r}.")
    return min(int(batch_size), n)


def default_batch_size(n: int) -> int:
    """Half the root of the number of examples: fresh weights for steps, and few calls of the batch oracle."""
    return max(1, round(0.5 * math.sqrt(n)))


def _dual_value(iterate: _Iterate, level: float, lam: float) -> float:
    w = iterate.v / iterate.t
    return level - 0.5 * lam * float(w @ w)


class _Iterate:
    """The point w_t = v/t and its running mean, both as sums of sparse steps (see the Notes of `sgd`)."""

    def __init__(self, n_features: int, lam: float, average: str) -> None:
        self.lam, self.average = lam, average
        self.t = 0
        self.v, self.u = np.zeros(n_features), np.zeros(n_features)
        self.share = 0.0  # sum of the weights of v_1 ... v_t in the mean

    @property
    def scale(self) -> float:
        """w = scale v."""
        return 1.0 / self.t if self.t else 0.0

    def advance(self) -> None:
        """Close a step."""
        self.t += 1
        self.share += 1.0 / self.t if self.average == "uniform" else 1.0

    def result(self) -> FloatArray:
        """The weights to return."""
        if self.average == "none":
            return self.v * self.scale
        total = self.t if self.average == "uniform" else 0.5 * self.t * (self.t + 1)
        return (self.share * self.v - self.u) / max(total, 1.0)

    def restart(self, w: FloatArray, t: int) -> None:
        """Stand at `w` as if `t` equal iterates had led to it."""
        self.t, self.share = t, float(t)
        if self.average == "uniform":
            self.share = sum(1.0 / k for k in range(1, t + 1))
        self.v[:] = t * w
        # The mean of `result` is (share v - u) / total: u is what makes it w.
        total = self.t if self.average == "uniform" else 0.5 * self.t * (self.t + 1)
        self.u[:] = self.share * self.v - total * w

    def state(self) -> dict[str, Any]:
        return {"t": self.t, "share": self.share, "v": self.v, "u": self.u}

    def restore(self, state: dict[str, Any]) -> None:
        """Undo `state`."""
        saved = Saved(state)
        self.t, self.share = saved.whole("t"), saved.number("share", low=0.0)
        self.v[:], self.u[:] = saved.array("v", self.v.shape), saved.array("u", self.u.shape)


class _MiniBatch:
    """Some examples, with their feature rows in the form of the kernels."""

    def __init__(self, risk: StructuredRisk, examples: npt.NDArray[np.intp]) -> None:
        self.risk = risk.part(examples)
        batch = self.risk.batch
        widths = [int(rows.shape[1]) for rows in batch.rows]
        at = np.concatenate([[0], np.cumsum([k * d for k, d in zip(batch.columns, widths, strict=True)])])
        self._terms = [(_features(rows), int(at[t]), widths[t]) for t, rows in enumerate(batch.rows)]

    def violations(self, iterate: _Iterate) -> Violations:
        """The most violated labels at w_t."""
        batch = self.risk.batch
        tables = []
        for (features, at, d), columns in zip(self._terms, batch.columns, strict=True):
            sparse, X, data, indices, indptr = features
            if sparse:
                scores = np.empty((indptr.size - 1, columns))
                score_rows(data, indices, indptr, iterate.v, at, d, iterate.scale, scores)
            else:
                scores = np.asarray(X @ iterate.v[at : at + columns * d].reshape(columns, d).T) * iterate.scale
            tables.append(scores)
        return self.risk.violations_of(tables)

    def step(self, found: Violations, iterate: _Iterate, weight: float) -> None:
        """One step along the subgradient of ``weight * sum of these examples' surrogates``."""
        factor = found.scale * (weight / iterate.lam)
        parts = difference(self.risk.truth, found.labels)
        for table, (features, at, d), start in zip(parts, self._terms, self.risk.batch.starts, strict=True):
            per_row = np.repeat(factor, np.diff(start))
            pieces = (table.indptr.astype(np.int64), table.indices.astype(np.int64), table.data)
            add_parts(pieces, per_row, features, at, d, iterate.v, iterate.u, iterate.share)
        iterate.advance()


def _features(rows: Any) -> tuple[bool, Any, Any, Any, Any]:
    if sp.issparse(rows):
        return True, np.zeros((0, 0), dtype=rows.dtype), rows.data, rows.indices, rows.indptr
    dense = np.require(rows, requirements=["C", "W"])  # rows of a read-only X would be another type for numba
    empty = np.zeros(0, dtype=np.int32)
    return False, dense, np.zeros(0, dtype=dense.dtype), empty, empty


@kernel
def score_rows(
    data: Any, indices: Any, indptr: Any, v: FloatArray, at: int, d: int, scale: float, scores: FloatArray
) -> None:
    """``scale <x_r, v_k>`` of every CSR row and column into `scores`, without reading any other weight."""
    for r in range(scores.shape[0]):
        for k in range(scores.shape[1]):
            first = at + k * d
            total = 0.0
            for q in range(indptr[r], indptr[r + 1]):
                total += data[q] * v[first + indices[q]]
            scores[r, k] = scale * total


@kernel
def add_parts(
    parts: Any, weight: FloatArray, features: Any, at: int, d: int, v: FloatArray, u: FloatArray, share: float
) -> None:
    """``v += delta`` and ``u += share delta``, where delta is the sum of ``weight_r value x_r`` over parts (r, k).

    `parts` is a table of part values as (indptr, columns, values), `weight` has an entry per feature row, `features` is
    (sparse, X, data, indices, indptr), the unused ones empty.
    """
    part_ptr, column, value = parts
    sparse, X, data, indices, indptr = features
    for r in range(weight.size):
        if weight[r] == 0.0:
            continue
        for p in range(part_ptr[r], part_ptr[r + 1]):
            step = weight[r] * value[p]
            first = at + column[p] * d
            if sparse:
                for q in range(indptr[r], indptr[r + 1]):
                    delta = step * data[q]
                    v[first + indices[q]] += delta
                    u[first + indices[q]] += share * delta
            else:
                for j in range(d):
                    delta = step * X[r, j]
                    v[first + j] += delta
                    u[first + j] += share * delta
