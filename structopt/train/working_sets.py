"""The cuts of all examples of a structured risk, in the arrays of the kernels.

What the trainers that work example by example share: `block_ascent` and `n_slack` move mass between an example's
cuts, `bcfw` keeps one mixture of them, `one_slack` uses them as a cache of labels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.checks import whole
from structopt.errors import DeclarationError
from structopt.features import Tied
from structopt.programs.simplex_qp import SimplexQP
from structopt.risks.structured import StructuredRisk, Violations, check_scale
from structopt.risks.watch import CACHED_CALL, CACHED_VISIT
from structopt.space.compiled import FloatArray
from structopt.train.checkpoint import Saved
from structopt.train.kernels.cuts import compact, dense_cuts, differences, weights_of
from structopt.train.kernels.working_sets import ascend
from structopt.train.monitor import Monitor
from structopt.train.proximal_term import ProximalTerm
from structopt.train.run import Method

__all__ = ["MOST_CACHED", "DualMethod", "WorkingSets", "check_risk", "feature_arrays", "working_set_size"]

# Examples are processed in groups: all oracles of a group at one w, in one batch. More groups mean fresher weights,
# fewer mean less overhead per batch: at least so many groups, and more where they would be larger than this.
_GROUPS = 8
_GROUP_SIZE = 256
# Examples below this share of the mean gap are left out of cached passes.
_WORTH_A_VISIT = 0.2
_PAIR_STEPS = 5
# Oracle visits without mass after which a cut is forgotten.
_PATIENCE = 4
# Passes over the working sets before the next round of oracles, should the restricted dual converge slowly; whether it
# is solved is looked at every so many.
_LEAST_INNER, _MOST_INNER, _CHECK_INNER = 50, 500, 5
# If the block steps do not converge, a restricted dual of at most this many cuts, and of this many entries as dense
# rows, is solved as one quadratic program.
_MOST_CUTS, _MOST_ENTRIES = 300, 1_000_000
# Parts per example that there is room for at first.
_FIRST_ROOM = 160
#: Labels that an example may keep: there is a table of their products.
MOST_CACHED = 4096

# What `ascend` is offered where no oracle was asked: level, pointer, part, row, place in w, value.
_NOTHING_NEW = tuple(
    np.zeros(1, dtype=kind) for kind in (np.float64, np.int64, np.int32, np.int32, np.int64, np.float64)
)


class WorkingSets:
    """At most `n_planes` labels of each example, with mass on them: a dual point.

    Examples are processed in groups, each with its own `StructuredRisk`; they are numbered group by group here.

    Parameters
    ----------
    risk : StructuredRisk
        With a convex surrogate.
    order : array of int
        The examples, group by group.
    n_planes : int
        Slots per example.

    Attributes
    ----------
    groups : list of StructuredRisk
    gap : ndarray
        Of each example at its last visit.
    count : ndarray
        Cuts of each example.
    """

    _KEPT = ("count", "begin", "size", "alpha", "level", "idle", "gram", "gap", "_ends")

    def __init__(self, risk: StructuredRisk, order: npt.NDArray[np.intp], n_planes: int) -> None:
        parts = np.array_split(order, min(max(_GROUPS, len(order) // _GROUP_SIZE), len(order)))
        self.groups = risk.parts(parts)
        self.first = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        n, M = len(order), n_planes
        columns = np.array(self.groups[0].batch.columns, dtype=np.int64)
        width = np.array([block.shape[1] for block in self.groups[0].batch.rows], dtype=np.int64)
        offset = np.concatenate([[0], np.cumsum(columns * width)])[:-1]
        self._layout = (columns, width, offset)
        tables = [t for t, term in enumerate(risk.model.features.values()) if not isinstance(term, Tied)]
        rows_of_each = np.ones((len(columns), n), dtype=np.int64)  # of tied weights there is one
        for t in tables:
            rows_of_each[t] = np.concatenate([np.diff(group.batch.starts[t]) for group in self.groups])
        n_parts = int((columns @ rows_of_each).max(initial=0)) + 1
        self._features = self._stack_rows(tables)
        # Rows of one table after those of another; groups one after the other within each.
        self._first_row = np.full((len(self.groups), len(columns)), -1, dtype=np.int64)
        self._rows_of_each, self._first_rows = rows_of_each, dict[int, Any]()  # of every example
        above = 0
        for t in tables:
            begins = above + np.concatenate([[0], np.cumsum(rows_of_each[t])])
            self._first_row[:, t], self._first_rows[t] = begins[self.first[:-1]], begins[:-1]
            above = begins[-1]
        self._truths = [(_starts(group), _stacked(group.truth.tables)) for group in self.groups]
        self.count = np.zeros(n, dtype=np.int64)
        self.begin, self.size = np.zeros((n, M), dtype=np.int64), np.zeros((n, M), dtype=np.int64)
        self.alpha, self.level = np.zeros((n, M)), np.zeros((n, M))
        self.idle, self.gram = np.zeros((n, M), dtype=np.int64), np.zeros((n, M, M))
        self._arena, self._unions = _new_arena(_FIRST_ROOM * n), _new_unions(n, _FIRST_ROOM * n)
        self._ends = np.zeros(2, dtype=np.int64)
        self.gap = np.zeros(n)
        self._where = np.zeros(int(columns.max()), dtype=np.int64)
        numbers = (np.zeros(size, dtype=np.int64) for size in (n_parts, n_parts, 1, n_parts))
        self._scratch = (np.zeros(n_parts), *numbers, *(np.zeros(M + 1) for _ in range(3)), np.zeros(risk.n_features))

    def _stack_rows(self, tables: Sequence[int]) -> tuple[Any, ...]:
        """The feature rows of all groups, table by table, and their squared norms, as the kernels take them."""
        batches = [group.batch for group in self.groups]
        if not tables:
            return (*feature_arrays(np.zeros((0, 0))), np.zeros(0))
        if len(tables) == 1 and not sp.issparse(batches[0].rows[tables[0]]):
            t = tables[0]
            rows = _whole([batch.rows[t] for batch in batches])
            at = 0
            for batch in batches:  # whose own rows become views
                batch.rows[t] = rows[at : at + batch.rows[t].shape[0]]
                at += batch.rows[t].shape[0]
            return (*feature_arrays(rows), _squared_norms(rows))
        # Rows of different widths: a sparse row says by itself how long it is.
        parts = [sp.vstack([sp.csr_array(batch.rows[t]) for batch in batches], format="csr") for t in tables]
        arrays = [feature_arrays(part) for part in parts]
        sizes = np.cumsum([0, *(part.nnz for part in parts)])
        indptr = np.concatenate([[0], *(size + part[3][1:] for size, part in zip(sizes[:-1], arrays, strict=True))])
        data, indices = (np.concatenate([part[k] for part in arrays]) for k in (1, 2))
        dense = arrays[0][0]
        return dense, data, indices, indptr, np.concatenate([_squared_norms(part) for part in parts])

    # ---- visits ----------------------------------------------------------------------------------

    def ascend(self, k: int, violations: Violations, w: FloatArray, scale: float, rng: np.random.Generator) -> float:
        """Offer the labels that group `k` found and move mass; returns the sum of its examples' gaps."""
        new = self._new_planes(k, violations)
        first, last = int(self.first[k]), int(self.first[k + 1])
        order = first + rng.permutation(last - first)

        def visit(at: int) -> int:
            return ascend(
                order, at, -np.inf, True, first, new, *self._storage, self._features, w, scale, _PAIR_STEPS, _PATIENCE,
                self.gap, self._scratch,
            )  # fmt: skip

        self._visit_all(visit, 0, len(order), new)
        return float(self.gap[first:last].sum())

    def ascend_cached(
        self, w: FloatArray, scale: float, rng: np.random.Generator, worth: float = _WORTH_A_VISIT
    ) -> float:
        """Move mass among the known cuts of the examples whose gap is `worth` a visit; returns the sum of gaps.

        `worth` is a share of the mean gap; gaps of examples that are left out are those of their last visit.
        """
        ascend(
            _visiting_order(rng, len(self.gap)), 0, worth * float(self.gap.mean()), False, 0, _NOTHING_NEW,
            *self._storage, self._features, w, scale, _PAIR_STEPS, _PATIENCE, self.gap, self._scratch,
        )  # fmt: skip
        return float(self.gap.sum())

    def rebuild(self, w: FloatArray, scale: float) -> float:
        """w anew from the dual point; returns the sum of the cuts' levels."""
        w[:] = 0.0
        return float(weights_of(self.planes, self._arena, self._unions, self._features, scale, w, self._scratch))

    @property
    def solvable(self) -> bool:
        """Whether the cuts are few enough to move the mass of all of them at once."""
        n_cuts = int(self.count.sum())
        return n_cuts <= _MOST_CUTS and n_cuts * len(self._scratch[8]) <= _MOST_ENTRIES

    def solve(self, shift: FloatArray, scale: float, tol: float) -> None:
        """Move the mass of all cuts to the best dual point for ``w = shift + scale sum alpha_ik psi_ik``.

        Stop at the sum of gaps `tol`. Unlike block steps, this converges if the cuts are badly conditioned.
        """
        rows = np.zeros((int(self.count.sum()), len(shift)))
        dense_cuts(self.planes, self._arena, self._unions, self._features, rows)
        own = _slots(self.count, self.alpha.shape[1])
        program = SimplexQP(1.0 / scale, np.ones(len(self.count)), zero_plane=True)
        program.restore(
            {
                "gram": rows @ rows.T,
                "b": self.level[own] - rows @ shift,
                "alpha": self.alpha[own],
                "block": np.repeat(np.arange(len(self.count)), self.count),
                "idle": np.zeros(len(rows), dtype=np.int64),
            }
        )
        program.solve(tol)
        self.alpha[own] = program.alpha

    # ---- storage ---------------------------------------------------------------------------------

    @property
    def planes(self) -> tuple[Any, ...]:
        """The first tuple of `structopt.train.kernels.cuts`."""
        return (self.count, self.begin, self.size, self.alpha, self.level, self.idle, self.gram)

    @property
    def _storage(self) -> tuple[Any, Any, Any, Any]:
        return (self.planes, self._arena, self._unions, self._ends)

    def _visit_all(self, visit: Callable[[int], int], at: int, last: int, new: tuple[Any, ...]) -> None:
        """Visit from `at` to `last`; a kernel stops where room runs out, and goes on once it has been made."""
        while True:
            at = visit(at)
            if at == last:
                return
            self._make_room(int(new[1][-1]))

    def _new_planes(self, k: int, violations: Violations) -> tuple[Any, ...]:
        """The labels found, as the parts in which they differ from the ground truth, example by example."""
        first, last = int(self.first[k]), int(self.first[k + 1])
        starts, truth = self._truths[k]
        labels = _stacked(violations.labels.tables)
        size = len(truth[1]) + len(labels[1])
        pointer, at = np.empty(last - first + 1, dtype=np.int64), np.empty(size, dtype=np.int64)
        out = (pointer, np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32), at, np.empty(size))
        differences(
            truth, labels, (starts, *self._layout), self._first_row[k], violations.scale, self._where, out,
        )  # fmt: skip
        return (violations.level, *out)

    def _make_room(self, needed: int) -> None:
        """Drop the parts of forgotten cuts; enlarge arena and unions to twice what is in use."""
        sizes = np.where(np.arange(self.size.shape[1]) < self.count[:, None], self.size, 0).sum(axis=1)
        used = self._unions[1]
        arena = _new_arena(max(2 * (int(sizes.sum()) + needed) + int(sizes.max(initial=0)), len(self._arena[0])))
        room = 3 * int(used.sum()) + 2 * needed + 2 * int(used.max(initial=0))
        unions = _new_unions(len(self.gap), max(room, len(self._unions[3])))
        compact(self.planes, self._arena, self._unions, arena, unions, self._ends)
        self._arena, self._unions = arena, unions

    def state(self) -> dict[str, Any]:
        """Everything that later visits depend on."""
        end, union_end = self._ends.tolist()
        state = {name: getattr(self, name) for name in self._KEPT}
        state |= {f"arena{k}": array[:end] for k, array in enumerate(self._arena)}
        return state | {f"union{k}": array[: union_end if k > 2 else None] for k, array in enumerate(self._unions)}

    def restore(self, state: dict[str, Any]) -> None:
        """Undo `state`; raise DeclarationError unless every index is one that the kernels may use."""
        saved = Saved(state)
        found = self._checked_planes(saved)
        arena, unions = self._checked_parts(saved, found)
        for name in self._KEPT:
            getattr(self, name)[...] = found[name]
        end, union_end = self._ends.tolist()
        n = len(self.gap)
        self._arena, self._unions = _new_arena(end + _FIRST_ROOM * n), _new_unions(n, union_end + _FIRST_ROOM * n)
        for to, array in zip((*self._arena, *self._unions), (*arena, *unions), strict=True):
            to[: len(array)] = array

    def _checked_planes(self, saved: Saved) -> dict[str, Any]:
        """Return the arrays of `_KEPT`: sizes in their ranges, masses that are a dual point."""
        n, M = self.alpha.shape
        found: dict[str, Any] = {
            "count": saved.indices("count", (n,), 0, M),
            "begin": saved.indices("begin", (n, M), 0),
            "size": saved.indices("size", (n, M), 0),
            "alpha": saved.array("alpha", (n, M), 0.0),
            "level": saved.array("level", (n, M)),
            "idle": saved.indices("idle", (n, M), 0),
            "gram": saved.array("gram", (n, M, M)),
            "gap": saved.array("gap", (n,)),
            "_ends": saved.indices("_ends", (2,), 0),
        }
        if (found["alpha"][~_slots(found["count"], M)] != 0.0).any() or (found["alpha"].sum(axis=1) > 1.0 + 1e-9).any():
            raise DeclarationError("alpha is not a dual point: an example has more mass than 1")
        return found

    def _checked_parts(self, saved: Saved, found: dict[str, Any]) -> tuple[Any, Any]:
        """Return arena and unions, every part of which is one of its example."""
        n, M = self.alpha.shape
        end, union_end = found["_ends"].tolist()
        values = saved.array("arena1", (end,))
        local = saved.indices("arena0", (end,), 0)
        start, used, room = (saved.indices(f"union{k}", (n,), 0) for k in range(3))
        parts = tuple(saved.indices(f"union{k}", (union_end,)) for k in range(3, 6))
        if (used > room).any() or not _are_disjoint(start, room, union_end):
            raise DeclarationError("unions overlap")
        active = _slots(found["count"], M)
        first, sizes = found["begin"][active], found["size"][active]
        if not _are_disjoint(first, sizes, end):
            raise DeclarationError("cuts overlap")
        example = np.repeat(np.arange(n), found["count"])
        if (local[_ranges(first, sizes)] >= np.repeat(used[example], sizes)).any():
            raise DeclarationError("arena0 has a number beyond its union")
        self._check_unions(np.repeat(np.arange(n), used), *(part[_ranges(start, used)] for part in parts))
        return (local, values), (start, used, room, *parts)

    def _check_unions(self, example: Any, part: Any, row: Any, at: Any) -> None:
        """Raise unless row and place of every part are those that its number stands for, once in each example."""
        columns, width, offset = self._layout
        wrong = np.ones(len(part), dtype=bool)
        behind = np.zeros(len(self.gap), dtype=np.int64)
        for t in range(len(columns)):
            number = part - behind[example]
            behind = behind + columns[t] * self._rows_of_each[t]
            line, column = number // columns[t], number % columns[t]
            expected = -1 if self._first_row[0, t] < 0 else self._first_rows[t][example] + line
            own = (number >= 0) & (part < behind[example])
            wrong &= ~(own & (row == expected) & (at == offset[t] + column * width[t]))
        if wrong.any() or len(np.unique(np.stack([example, part]), axis=1).T) < len(part):
            raise DeclarationError("unions hold a part that the example does not have")


class DualMethod(Method):
    """A trainer whose iterate is the dual point of working sets, and the weights ``w`` that belong to it."""

    patience: int | None = 100

    def __init__(self, risk: StructuredRisk, sets: WorkingSets, lam: float, rng: np.random.Generator) -> None:
        check_scale(risk, lam)
        self.risk, self.sets, self.lam, self.rng = risk, sets, lam, rng
        self.n = len(risk)
        self.w = np.zeros(risk.n_features)
        self.term = ProximalTerm(lam)  # of the rounds
        self.improved = 0  # evaluations in a row that found a better point
        self.pass_seconds = 0.0  # of the last pass through all oracles: what a certificate takes
        self.pass_work = 0.0  # of the same, in counted work

    @property
    def n_weights(self) -> int:
        return len(self.w)

    def begin_at(self, monitor: Monitor, w: FloatArray) -> None:
        """The labels most violated at `w` are the first cuts; those known already give a bound."""
        monitor.count(oracle_calls=self.n, passes=1)
        found = self.evaluate(monitor, w)
        if self.sets.count.any():
            monitor.bound(self.rebuild())
        with monitor.part("block steps"):
            self.ascend(found, range(len(found)))
            low = self.rebuild()
        monitor.bound(low)

    def take_over(self, state: dict[str, Any], lam: float) -> None:
        self.sets.restore(state)  # mass and cuts, which do not depend on lam; w does

    def evaluate(self, monitor: Monitor, w: FloatArray) -> list[Violations]:
        """All oracles at one w: the certified objective, and cuts for the next pass."""
        with monitor.part("oracle"), self.timed():
            found = []
            for group in self.sets.groups:
                monitor.check_time()
                found.append(group.violations(w))
        total = sum(float(violations.upper.sum()) for violations in found)
        better = monitor.offer(w, 0.5 * self.lam * float(w @ w) + total / self.n)
        self.improved = self.improved + 1 if better else 0
        return found

    def ascend(self, found: list[Violations], order: Iterable[int]) -> float:
        """Offer the labels that all groups found and move mass; empties `found`, and returns the sum of the gaps.

        The part tables of labels with thousands of pairs are made here, and must go again group by group.
        """
        by_group = dict(enumerate(found))
        found.clear()
        return sum(self.sets.ascend(k, by_group.pop(k), self.w, self.scale, self.rng) for k in order)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure one pass through all oracles."""
        start, work = time.perf_counter(), self.risk.work
        yield
        self.pass_seconds, self.pass_work = time.perf_counter() - start, self.risk.work - work

    def candidate(self, monitor: Monitor, theta: float) -> FloatArray:
        """Where to evaluate next: ``(1 - theta) w_best + theta w``.

        The weights of an early dual point may be far worse than 0 where ``lam n`` is small; on the way to them from the
        best point there are better ones.
        """
        if monitor.w is None or theta >= 1.0:
            return self.w
        return (1.0 - theta) * monitor.w + theta * self.w

    def round(self, monitor: Monitor) -> None:
        """Evaluate all oracles at one point, then ascend until the next one minimises the model of all known cuts.

        The model has a proximal term around the best point (docs/mathematics/training#proximal-rounds).
        """
        if monitor.w is not None and not self.term.kappa:
            self.w[:] = monitor.w  # the model must be right at the centre first
        found = self.evaluate(monitor, self.w)
        monitor.count(oracle_calls=self.n, passes=1)
        assert monitor.w is not None
        with monitor.part("block steps"):
            self.term.adapt(monitor.absolute_gap, bool(self.improved), lambda: self._slope(found))
            self.term.move_to(monitor.w, monitor.objective)
            self.rebuild()
            self.ascend(found, range(len(found)))
            low = self._solve_restricted(monitor)
        monitor.bound(low)

    def _slope(self, found: Sequence[Violations]) -> FloatArray:
        """Subgradient of the objective at w, where these labels were found."""
        slope = self.lam * self.w
        for group, violations in zip(self.sets.groups, found, strict=True):
            scale = violations.scale / self.n
            labels = violations.labels
            if labels.native is not None:  # with tables of their own, which go again
                labels = group.batch.labels(labels.native)
            slope += group.batch.joint(labels, scale) - group.batch.joint(group.truth, scale)
        return slope

    def _solve_restricted(self, monitor: Monitor) -> float:
        """Ascend until the minimum of the model is known to a share of what it promises. Return the lower bound.

        Block steps stop after ten times the work of the oracles, because the next labels are then worth more. If the
        cuts are few, a quadratic program solves what the block steps did not.
        """
        solvable = self.sets.solvable
        most = int(10.0 * self.pass_work / (CACHED_CALL + CACHED_VISIT * self.n))
        most = _LEAST_INNER if solvable else min(max(most, _LEAST_INNER), _MOST_INNER)
        for inner in range(1, most + 1):
            # Gaps of examples that were left out are out of date: the sum counts only if all have been visited.
            last = inner == most or monitor.out_of_time
            if inner % _CHECK_INNER and not last:
                self.sets.ascend_cached(self.w, self.scale, self.rng)
                continue
            left = self.sets.ascend_cached(self.w, self.scale, self.rng, worth=0.0)
            low = self.rebuild()
            if last or left <= self.n * self.term.enough:
                break
        if solvable and left > self.n * self.term.enough and not monitor.out_of_time:
            self.sets.solve(self.term.shift(self.w.shape), self.scale, self.n * self.term.enough)
            low = self.rebuild()
        return low

    @property
    def scale(self) -> float:
        """What a unit of mass on a cut adds to w, over the slope of the cut."""
        return 1.0 / (self.term.curvature * self.n)

    def rebuild(self) -> float:
        """w anew from the dual point; returns the lower bound of exactly this point, without the proximal term."""
        levels = self.sets.rebuild(self.w, 1.0 / (self.lam * self.n)) / self.n
        low = levels - 0.5 * self.lam * float(self.w @ self.w)
        self.term.pull(self.w, low)
        return low

    def state(self) -> dict[str, Any]:
        own = {"w": self.w, "improved": self.improved, "random": self.rng.bit_generator.state}
        return {**own, **self.term.state(), **self.sets.state()}

    def restore(self, state: dict[str, Any]) -> None:
        saved = Saved(state)
        self.w[:] = saved.array("w", self.w.shape)
        self.improved = saved.whole("improved")
        self.term.restore(state, self.w.shape)
        saved.random("random", self.rng)
        self.sets.restore(state)


def _slots(count: npt.NDArray[np.intp], n_slots: int) -> npt.NDArray[np.bool_]:
    """Return which slots of every example hold a cut."""
    return np.asarray(np.arange(n_slots) < count[:, None])


def _ranges(first: npt.NDArray[np.intp], size: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the numbers ``first_i, ..., first_i + size_i - 1`` of all i, one after the other."""
    return np.repeat(first - np.cumsum(size) + size, size) + np.arange(size.sum())


def _are_disjoint(first: npt.NDArray[np.intp], size: npt.NDArray[np.intp], end: int) -> bool:
    """Return whether these ranges lie below `end` and no two of them share a number."""
    first, size = first[size > 0], size[size > 0]
    if (size > end).any() or (first > end - size).any():
        return False
    order = np.argsort(first)
    return bool((first[order][:-1] + size[order][:-1] <= first[order][1:]).all())


def _visiting_order(rng: np.random.Generator, n: int) -> npt.NDArray[np.intp]:
    """Runs of up to 16 neighbours in random order.

    Neighbours lie side by side in memory, which saves a sixth of a visit; one run after the other in their own order
    takes two to four times as many passes.
    """
    size = min(max(n // 64, 1), 16)
    runs = rng.permutation(-(-n // size))
    if size == 1:
        return runs
    order = np.asarray((runs[:, None] * size + np.arange(size)).ravel(), dtype=np.intp)
    return order[order < n]


def working_set_size(cached_labels: int | None, n_examples: int, usual: int) -> int:
    """Return how many labels each example keeps: by default `usual`, or more if the examples are few.

    The optimum may need as many cuts as there are weights. Few examples with `usual` cuts each would have too few.
    """
    if cached_labels is None:
        return max(usual, _MOST_CUTS // n_examples)
    return whole("cached_labels", cached_labels, 2, MOST_CACHED)


def check_risk(risk: StructuredRisk, trainer: str) -> None:
    """Refuse what cannot be trained cut by cut."""
    if not isinstance(risk, StructuredRisk):
        raise DeclarationError(
            f"{trainer} needs a StructuredRisk (labels per example), got {type(risk).__name__}; use bmrm."
        )
    if not risk.is_convex:
        raise DeclarationError(f"{risk.surrogate!r} is not convex in the weights: use sgd, or ProbLoss(convex=True).")


def _new_arena(capacity: int) -> tuple[Any, ...]:
    """Number in the union, and value, of `capacity` parts."""
    return np.empty(capacity, dtype=np.uint32), np.empty(capacity)


def _new_unions(n: int, capacity: int) -> tuple[Any, ...]:
    """Begin, used and reserved size of n unions; number, row and place in w of `capacity` parts."""
    sizes = (np.zeros(n, dtype=np.int64) for _ in range(3))
    return (*sizes, *(np.empty(capacity, dtype=kind) for kind in (np.int32, np.int32, np.int64)))


def _starts(group: StructuredRisk) -> npt.NDArray[np.int64]:
    """Where the rows of every term's examples begin, the part tables below one another."""
    heights = [int(start[-1]) for start in group.batch.starts]
    above = np.concatenate([[0], np.cumsum(heights)])[:-1]
    return np.array([start + a for start, a in zip(group.batch.starts, above, strict=True)], dtype=np.int64)


def _stacked(tables: Sequence[sp.csr_array]) -> tuple[Any, Any, Any]:
    """Part tables below one another: indptr, indices and data."""
    indptr = np.empty(1 + sum(len(table.indptr) - 1 for table in tables), dtype=np.int64)
    at = size = indptr[0] = 0
    for table in tables:
        np.add(table.indptr, size, out=indptr[at : at + len(table.indptr)], casting="unsafe")
        at, size = at + len(table.indptr) - 1, size + len(table.indices)
    indices = np.concatenate([table.indices for table in tables], dtype=np.int64, casting="unsafe")
    return indptr, indices, np.concatenate([table.data for table in tables], dtype=np.float64, casting="unsafe")


def _whole(parts: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Concatenate matrices; return their common base without a copy if they are its consecutive rows."""
    base, at = parts[0].base, 0
    if isinstance(base, np.ndarray) and base.ndim == 2 and base.flags.c_contiguous:
        for part in parts:
            here = base[at : at + len(part)]
            if part.base is not base or part.shape != here.shape or part.ctypes.data != here.ctypes.data:
                break
            at += len(part)
        else:
            if at == len(base) and base.dtype == parts[0].dtype:
                return base
    return np.concatenate(parts)


def feature_arrays(rows: Any) -> tuple[Any, Any, Any, Any]:
    """Feature rows for the kernels: dense, or the three arrays of a CSR matrix with sorted rows."""
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
