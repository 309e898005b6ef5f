"""Sets of leaves in a DAG: a label with a proof of optimality by sweeps, else HiGHS on the core."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt._jit.graphs import topological_order
from structopt._jit.products import dot
from structopt._jit.threads import in_threads
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.leaf_sets.candidates import candidates, greedy_label
from structopt.algorithms.leaf_sets.core import Core, fold, unfold
from structopt.algorithms.leaf_sets.proof import label_and_proof, value_of
from structopt.algorithms.product import Product
from structopt.algorithms.question import per_question
from structopt.backends import make_backend
from structopt.backends.base import Status
from structopt.backends.instance import SolverInstance
from structopt.errors import DeclarationError, SolverFailed
from structopt.hierarchy import Hierarchy
from structopt.recognize import LeafSets, Record
from structopt.recognize.grouping import group_by
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["LeafSetAlgorithm", "parents_first"]

# Between a label and its proof, relative to the gains that enter; rounding stays near 1e-16.
_GAP = 1e-10
# Labels to try before the solver is used.
_LABELS = 2
# Entries of a solver's point this close to 0 are 0: labels are kept sparse.
_ZERO = 1e-9
# A part of the hierarchy with at most this share of its nodes is solved by itself.
_SMALLER = 0.7
# A batch is cut into pieces that each start cold, as in `structopt.Oracle`.
_PIECE = 64


class LeafSetAlgorithm(Algorithm):
    """Sets of leaves with their ancestors on a DAG: the linear program of NHSVM (19), or the best label.

    Nodes with a single parent fold into it. On the remaining core a label is looked for that multipliers prove best in
    both programs. Otherwise HiGHS solves the core, for labels without the leaves that no better label has.
    """

    name = "sets of leaves in a DAG"
    steps = per_question(argmax="nodes, and a small program of the nodes with several parents")

    def __init__(self, hierarchy: Hierarchy, *, relaxed: bool = False) -> None:
        self.relaxed = relaxed
        self.integral = not relaxed
        self._hierarchy = hierarchy
        self._core = Core(hierarchy)
        self._idle: list[_Workspace] = []

    @classmethod
    def of_record(cls, record: Record, n: int) -> Algorithm:
        assert isinstance(record, LeafSets)
        order = parents_first(record, n)
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n)
        hierarchy = Hierarchy._of_arcs(order.tolist(), place[record.parent], place[record.child])
        algorithm = cls(hierarchy, relaxed=not record.integer)
        return algorithm if (order == np.arange(n)).all() else Product([(order, algorithm)])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle": []}  # a live solver does not pickle

    def over(self, *, relaxed: bool) -> LeafSetAlgorithm:
        """This oracle over the relaxation or over labels."""
        if relaxed == self.relaxed:
            return self
        other = object.__new__(LeafSetAlgorithm)
        other.__dict__.update(self.__dict__, relaxed=relaxed, integral=not relaxed, _idle=[])
        return other

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        workspace = self._take()
        z = workspace.solve(c).copy()
        bound = workspace.bound
        self._idle.append(workspace)  # not after an interrupt: its arrays are then half of one call and half of another
        value = dot(np.ascontiguousarray(c), z)
        # The proved bound, or the value where both agree up to rounding.
        return Optimum(z, value, bound if bound - value > 1e-9 * abs(value) else value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        Z, values, bounds = np.empty(C.shape), np.empty(len(C)), np.empty(len(C))

        def work(first: int, last: int) -> None:
            for k in range(_PIECE * first, min(_PIECE * last, len(C)), _PIECE):
                part = slice(k, k + _PIECE)
                rows, values[part], bounds[part] = self.columns_and_bounds(C[part].T)
                Z[part] = rows.toarray()

        in_threads(work, -(-len(C) // _PIECE), n_jobs)
        return Solutions(Z, values, bounds)

    def columns_and_bounds(self, gains: FloatArray) -> tuple[sp.csr_array, FloatArray, FloatArray]:
        """Points ``(examples, nodes)``, values and proved bounds for gains ``(nodes, examples)``; starts cold."""
        C = np.ascontiguousarray(gains.T)
        if not np.isfinite(C.sum()) and not np.isfinite(C).all():
            raise DeclarationError("a node's gain is not finite.")
        nodes, entries = [np.empty(0, np.int64)], [np.empty(0)]
        values, bounds = np.empty(len(C)), np.empty(len(C))
        workspace = self._take()
        workspace.forget()
        for k, c in enumerate(C):
            z = workspace.solve(c)
            nodes.append(np.flatnonzero(z))
            entries.append(z[nodes[-1]])
            values[k], bounds[k] = dot(c, z), workspace.bound
        self._idle.append(workspace)
        ptr = np.cumsum([part.size for part in nodes])
        points = sp.csr_array((np.concatenate(entries), np.concatenate(nodes), ptr), shape=C.shape)
        # The proved bound, or the value where both agree up to rounding.
        return points, values, np.where(bounds - values > 1e-9 * np.abs(values), bounds, values)

    def _take(self) -> _Workspace:
        try:
            return self._idle.pop()  # atomic, as is append: no two threads have the same
        except IndexError:
            return _Workspace(self._hierarchy, self._core, self.relaxed)


class _Workspace:
    """The arrays and the solver of one thread; `bound` is that of the last answer."""

    def __init__(self, hierarchy: Hierarchy, core: Core, relaxed: bool) -> None:
        self._hierarchy = hierarchy
        self._core = core
        self._relaxed = relaxed
        n, m = core.above.size, core.size
        self._z = np.zeros(n)
        self._gain = np.zeros(n)
        self._outside = np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n, np.bool_)
        self._gains = np.zeros(m), np.zeros(m, np.bool_), np.zeros(m)  # rho, needy, alt
        self._x, self._s = np.zeros(m), np.zeros(m)
        state, lam, paid = np.zeros(m, np.int64), np.zeros(core.head.size), np.zeros(m, np.bool_)
        mu, g, room, ease, value = (np.zeros(m) for _ in range(5))
        graph = core.up_ptr, core.tail, core.down_ptr, core.kid
        sweeps = state, lam, mu, g, room, ease, paid, value
        self._arguments: Any = (*graph, *self._gains, *sweeps, self._x, self._s)
        self._worker: SolverInstance | None = None
        self.bound = np.inf

    def forget(self) -> None:
        """Start the solver's next run cold."""
        if self._worker is not None:
            self._worker.forget()

    def solve(self, c: FloatArray) -> FloatArray:
        """The best point; the next call writes over it."""
        core = self._core
        self._gain[1:] = c
        largest = fold(self._gain, core.above, core.place, core.inner, *self._outside, *self._gains)
        arguments: Any = (*self._arguments, largest, _GAP, _LABELS)
        self.bound = label_and_proof(*arguments)
        if self.bound == np.inf and self._relaxed:
            self.bound = self._ask_solver()
        unfold(self._x, self._s, core.above, core.place, core.inner, *self._outside, self._z)
        if self.bound == np.inf:
            self._improve(c)
        return self._z[1:]

    def _improve(self, c: FloatArray) -> None:
        """From some label to the best one, which has only leaves whose bounds allow it."""
        h, z = self._hierarchy, self._z[1:]
        other = greedy_label(h, c)
        if c @ other > c @ z:
            z[:] = other
        value, size = float(c @ z), float(np.abs(c).max() + np.abs(c) @ z)
        leaves, bound = candidates(h, c, value, _GAP * size)
        self.bound = max(value, bound)
        if not leaves.size:
            return
        part = h.restrict(h.leaves[k] for k in leaves.tolist())
        best, bound = self._solve_part(c, part) if len(part) <= _SMALLER * len(h) else self._solve_core(z)
        self.bound = max(self.bound, bound)
        if c @ best > value:
            z[:] = best

    def _solve_part(self, c: FloatArray, part: Hierarchy) -> tuple[FloatArray, float]:
        inside = self._hierarchy.indices(part.nodes)
        found = LeafSetAlgorithm(part).maximize(c[inside])
        z = np.zeros(c.size)
        z[inside] = found.z
        return z, found.bound

    def _solve_core(self, known: FloatArray) -> tuple[FloatArray, float]:
        core, z = self._core, np.zeros_like(self._z)
        bound = self._ask_solver(core.start(known))
        unfold(self._x, self._s, core.above, core.place, core.inner, *self._outside, z)
        return z[1:], bound

    def _ask_solver(self, start: FloatArray | None = None) -> float:
        """The core's optimum; its bound."""
        core, (rho, needy, alt) = self._core, self._gains
        if self._worker is None:
            self._worker = SolverInstance(core.space, "relax" if self._relaxed else "auto", _highs)
        price = np.where(needy & (alt > -np.inf), alt, 0.0)[core.inner_nodes]
        solution, _, _ = self._worker.solve(np.concatenate([rho, price]), None, None, start)
        if solution.status is not Status.OPTIMAL or solution.z is None:
            raise SolverFailed(
                f"HiGHS stopped without an answer on sets of leaves of a hierarchy: {solution.message}. "
                "Try solver='highs-exact'.",
                status=solution.message,
            )
        x = solution.z[: core.size]
        self._x[:] = np.where(x > _ZERO, np.minimum(x, 1.0), 0.0) if self._relaxed else np.rint(x)
        value_of(core.down_ptr, core.kid, *self._gains, self._x, self._s)
        return solution.bound


def parents_first(record: LeafSets, n: int) -> IntArray:
    """Return the columns in an order with parents before children; fewer of them if there is a cycle."""
    if (record.parent < record.child).all():
        return np.arange(n)
    down, ptr = group_by(record.parent, n)
    return topological_order(ptr, record.child[down])


def _highs(space: CompiledSpace) -> Any:
    return make_backend("highs", space)
