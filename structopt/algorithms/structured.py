"""Exact solvers for the free columns of each recognised structure (docs/mathematics/oracles)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from structopt._jit.threads import in_threads
from structopt.algorithms import assignment, paths
from structopt.algorithms.base import Capability
from structopt.algorithms.cardinality import choose_rows
from structopt.algorithms.chain import viterbi as chain
from structopt.algorithms.closure import ClosureGraph
from structopt.algorithms.group_forest import best_states
from structopt.algorithms.pairwise.graph import PairwiseGraph
from structopt.algorithms.tree import labels as tree
from structopt.errors import InfeasibleSpace
from structopt.recognize import (
    Assignment,
    Box,
    Cardinality,
    Closure,
    GroupForest,
    Pairwise,
    Path,
    Simplices,
    Structure,
    Tree,
)
from structopt.space.compiled import FloatArray

__all__ = ["Solver", "solver_of"]

#: One answer per row: an array, or a sequence with None where the answer is not settled.
Values = FloatArray | Sequence[FloatArray | None]

# Entries of the table of a chain's front, and of the points that it returns.
_FRONT_ENTRIES = 10_000_000
# Pairwise models up to this size are enumerated for the whole front of two criteria (docs/mathematics/oracles).
_FRONT_LABELS = 16


def solver_of(structure: Structure) -> Solver | None:
    """The solver for one recognised structure (not a product), or None."""
    arrays = structure.arrays
    if isinstance(arrays, Box):
        return BoxSolver(arrays)
    if isinstance(arrays, Simplices):
        return GroupSolver(arrays, arrays.required.astype(np.int64), np.ones(len(arrays.required), dtype=np.int64))
    if isinstance(arrays, Cardinality):
        return GroupSolver(arrays, arrays.lower, arrays.upper)
    if isinstance(arrays, Closure):
        return ClosureSolver(arrays, structure.columns.size)
    if isinstance(arrays, Pairwise):
        return PairwiseSolver(arrays)
    if isinstance(arrays, Assignment):
        return AssignmentSolver(arrays)
    if isinstance(arrays, Path):
        return PathSolver(arrays)
    if isinstance(arrays, GroupForest):
        return ForestSolver(arrays, structure.columns.size)
    if isinstance(arrays, Tree):
        return TreeSolver(arrays, structure.columns.size)
    return None


class Solver:
    """Solves the free columns of a recognised structure; batches go row by row unless it knows better."""

    #: Whether every answer is integral.
    integral = True
    capabilities = Capability.NOTHING

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray | None:
        """The best values of the free columns, or None if not settled."""
        raise NotImplementedError

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> Values:
        """`solve` for every row."""
        return [self.solve(c, None if keys is None else keys[i]) for i, c in enumerate(C)]

    def k_best(self, c: FloatArray, k: int) -> FloatArray | None:
        """The `k` best values of the free columns, best first, or None if this solver cannot list them."""
        return None

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        """The front of two criteria over the free columns, where it can be listed."""
        return None


class BoxSolver(Solver):
    """No rows: every column goes to the bound that its cost likes."""

    def __init__(self, arrays: Box) -> None:
        self._lower, self._upper = arrays.lower, arrays.upper
        ends = np.concatenate([self._lower, self._upper])
        self.integral = bool((ends == np.rint(ends)).all())

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray:
        return np.where(c > 0, self._upper, self._lower)

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> FloatArray:
        return np.asarray(np.where(C > 0, self._upper, self._lower))


class ClosureSolver(Solver):
    """``y_child <= y_parent``: min cut, or the linear program's own O(n) recursion on a forest."""

    def __init__(self, arrays: Closure, n: int) -> None:
        self._graph = ClosureGraph(n, arrays.child, arrays.parent)
        self._states = _States(self._graph.warm_state)

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray:
        if key is None:
            return self._graph.solve(c)
        return self._graph.solve_warm(self._states[key], c)

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> FloatArray:
        return self._graph.solve_batch(C, state=self._states.batch(keys), n_jobs=n_jobs)


class PairwiseSolver(Solver):
    """Roof duality for the relaxation; enumeration and persistency for 0/1 labels."""

    capabilities = Capability.FRONT

    def __init__(self, arrays: Pairwise) -> None:
        self._label, self._pair = arrays.label, arrays.pair
        self._graph = PairwiseGraph(len(arrays.label), arrays.first, arrays.second)
        self._states = _States(self._graph.warm_state)
        self.integral = arrays.integer or arrays.forest
        self._exact = arrays.integer and not arrays.forest

    def _join(self, y: FloatArray, p: FloatArray) -> FloatArray:
        values = np.empty((*y.shape[:-1], len(self._label) + len(self._pair)))
        values[..., self._label], values[..., self._pair] = y, p
        return values

    def _products(self, y: FloatArray) -> FloatArray:
        return y[..., self._graph.i] * y[..., self._graph.j]

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray | None:
        unary, pair = c[self._label], c[self._pair]
        if self._exact:
            y, _, proved = self._graph.solve_exact(unary, pair)
            return self._join(y, self._products(y)) if proved else None
        if key is None:
            y, p, _ = self._graph.solve(unary, pair)
        else:
            y, p, _ = self._graph.solve_warm(self._states[key], unary, pair)
        return self._join(y, p)

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> Values:
        unary, pair = C[:, self._label], C[:, self._pair]
        if self._exact:
            Y, _, proved = self._graph.solve_exact_batch(unary, pair, n_jobs=n_jobs)
            joined = self._join(Y, self._products(Y))
            return joined if proved.all() else [z if sure else None for z, sure in zip(joined, proved, strict=True)]
        Y, P, _ = self._graph.solve_batch(unary, pair, state=self._states.batch(keys), n_jobs=n_jobs)
        return self._join(Y, P)

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        if not self.integral or len(self._label) > _FRONT_LABELS:
            return None
        labels, pairs = self._label, self._pair
        Y, _, _ = self._graph.front(h[labels], h[pairs], h_const, g[labels], g[pairs], g_const)
        return self._join(Y, self._products(Y))


class GroupSolver(Solver):
    """Disjoint groups with a number of ones between two limits: the largest costs of each."""

    def __init__(self, arrays: Simplices | Cardinality, lower: Any, upper: Any) -> None:
        self._groups = tuple(np.ascontiguousarray(a, dtype=np.int64) for a in (arrays.ptr, arrays.order, lower, upper))

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray:
        return np.asarray(self.solve_batch(c[None, :], 1, None)[0])

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> FloatArray:
        chosen, _, _ = choose_rows(np.ascontiguousarray(C), *self._groups)
        return np.asarray(chosen, dtype=np.float64)


class AssignmentSolver(Solver):
    """Bipartite matchings, block by block, with kept column prices."""

    def __init__(self, arrays: Assignment) -> None:
        self._blocks: list[tuple[Any, Any, Any, tuple[int, int], Any, Any]] = []
        block_of_left = np.repeat(np.arange(len(arrays.left_ptr) - 1), np.diff(arrays.left_ptr))
        for b in range(len(arrays.left_ptr) - 1):
            columns = np.flatnonzero(block_of_left[arrays.left] == b)
            rows = slice(arrays.left_ptr[b], arrays.left_ptr[b + 1])
            others = slice(arrays.right_ptr[b], arrays.right_ptr[b + 1])
            shape = (int(rows.stop - rows.start), int(others.stop - others.start))
            left, right = arrays.left[columns] - rows.start, arrays.right[columns] - others.start
            self._blocks.append(
                (columns, left, right, shape, arrays.left_required[rows], arrays.right_required[others])
            )
        self._n = len(arrays.left)

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray:
        z = np.zeros(self._n)
        for columns, left, right, shape, left_required, right_required in self._blocks:
            scores = np.full(shape, -np.inf)
            scores[left, right] = c[columns]
            whole = left_required.all() and (shape[0] == shape[1] or not right_required.any())
            if whole:
                chosen, _ = assignment.assign(scores)
            else:
                chosen, _ = assignment.match(scores, left_required, right_required)
            z[columns[chosen[left] == right]] = 1.0
        return z


class PathSolver(Solver):
    """Best paths in acyclic graphs, one per block, by the backward recursion."""

    capabilities = Capability.K_BEST

    def __init__(self, arrays: Path) -> None:
        self._dag = paths.Dag.from_arcs(arrays.tail, arrays.head)
        self._ends = [(int(s), int(t)) for s, t in zip(arrays.sources, arrays.sinks, strict=True)]
        self._n = len(arrays.tail)

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray:
        z = np.zeros(self._n)
        for source, sink in self._ends:
            z[paths.best_path(self._dag, c, source, sink)[0]] = 1.0
        return z

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> FloatArray:
        used = [paths.best_path_batch(self._dag, C, source, sink)[0] for source, sink in self._ends]
        return np.asarray(np.sum(used, axis=0, dtype=np.float64))

    def k_best(self, c: FloatArray, k: int) -> FloatArray | None:
        if len(self._ends) != 1:
            return None
        found, _ = paths.k_best(self._dag, c, *self._ends[0], k)
        z = np.zeros((len(found), self._n))
        for row, arcs in zip(z, found, strict=True):
            row[arcs] = 1.0
        return z


class TreeSolver(Solver):
    """A chosen internal node needs a chosen child, one tree or several: the O(n) dynamic program.

    The virtual roots of all trees are chosen. (Without `every_root` some root would do, and all trees but one could
    stay empty.)
    """

    capabilities = Capability.K_BEST

    def __init__(self, arrays: Tree, n: int) -> None:
        self._parent = np.ascontiguousarray(arrays.parent, dtype=np.int64)
        self._real = np.flatnonzero(arrays.column >= 0)
        self._column = arrays.column[self._real]
        self._n = n

    def _gains(self, C: FloatArray) -> FloatArray:
        gains = np.zeros((len(self._parent), *C.shape[1:]))
        gains[self._real] = C[self._column]
        return gains

    def _labels(self, chosen: Any) -> FloatArray:
        z = np.zeros((len(chosen), self._n))
        z[:, self._column] = chosen[:, self._real]
        return z

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray:
        chosen, _ = tree.needed_child(self._gains(c), self._parent, every_root=True)
        return np.asarray(self._labels(chosen[None, :])[0])

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> FloatArray:
        chosen, _ = tree.needed_child_batch(self._gains(np.ascontiguousarray(C.T)), self._parent, every_root=True)
        return self._labels(chosen.T)

    def k_best(self, c: FloatArray, k: int) -> FloatArray | None:
        chosen, _ = tree.k_best(self._gains(c), self._parent, k, every_root=True)
        return self._labels(chosen)


class ForestSolver(Solver):
    """One-of-many groups on a forest: max-sum from the leaves; a single chain also has its k best and its front."""

    capabilities = Capability.K_BEST | Capability.FRONT

    def __init__(self, arrays: GroupForest, n: int) -> None:
        self._arrays = (
            arrays.state_ptr, arrays.column, arrays.parent, arrays.pair_ptr, arrays.above, arrays.below, arrays.pair
        )  # fmt: skip
        self._n = n
        self._chain = _ChainLayout.of(arrays, n)
        self._integer = arrays.integer

    def solve(self, c: FloatArray, key: Hashable | None) -> FloatArray:
        return np.asarray(self.solve_batch(c[None], 1, None)[0])

    def solve_batch(self, C: FloatArray, n_jobs: int, keys: Sequence[Hashable] | None) -> FloatArray:
        Z = np.zeros((len(C), self._n))
        C = np.ascontiguousarray(C)

        def work(first: int, last: int) -> None:
            if best_states(C[first:last], *self._arrays, Z[first:last]) >= 0:
                raise InfeasibleSpace("No choice of states satisfies the rows: every one has a forbidden pair.")

        in_threads(work, len(C), n_jobs)
        return Z

    def k_best(self, c: FloatArray, k: int) -> FloatArray | None:
        # Labels with the same integer variables are one label: only integer states tell all sequences apart.
        if self._chain is None or not self._integer or k < 1:
            return None
        labels, _ = chain.k_best(*self._chain.scores(c), k, self._chain.initial)
        return self._chain.points(labels)

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        layout = self._chain
        if layout is None or g[layout.pair[layout.pair >= 0]].any():
            return None
        losses = chain.in_units(layout.states(g), layout.column >= 0)
        if losses is None:
            return None
        n_levels = int(losses.max(axis=1).sum()) + 1
        if n_levels * max(layout.column.size, self._n) > _FRONT_ENTRIES:
            return None
        U, T = layout.scores(h)
        values, labels = chain.loss_front(U, T, losses, layout.initial)
        # Largest g first; a level is on the front if its h exceeds every h before it.
        order = np.arange(n_levels)[::-1]
        before = np.maximum.accumulate(np.concatenate([[-np.inf], values[order][:-1]]))
        return layout.points(labels[order[values[order] > before]])


class _ChainLayout:
    """A forest of groups that is one chain, as the tables of the chain's algorithms.

    Groups with fewer states than the largest are filled up with states that nothing may follow.
    """

    def __init__(self, column: Any, pair: Any, allowed: Any, n: int) -> None:
        self.column, self.pair, self._allowed, self._n = column, pair, allowed, n
        self.initial = np.where(column[0] >= 0, 0.0, -np.inf)

    @classmethod
    def of(cls, arrays: GroupForest, n: int) -> _ChainLayout | None:
        """The layout of a single chain; None for trees and for several chains."""
        n_groups = arrays.parent.size
        children = np.bincount(arrays.parent[arrays.parent >= 0], minlength=n_groups)
        # A chain whose root is inside is two chains that meet there: its smaller group is no end.
        if (arrays.parent < 0).sum() != 1 or n_groups < 2 or children[1:].max(initial=0) > 1 or children[0] > 2:
            return None
        order = _along(arrays.parent)
        sizes = np.diff(arrays.state_ptr)
        S = int(sizes.max())
        place = np.empty(n_groups, dtype=np.int64)
        place[order] = np.arange(n_groups)
        column = np.full((n_groups, S), -1, dtype=np.int64)
        group = np.repeat(np.arange(n_groups), sizes)
        column[place[group], np.arange(group.size) - arrays.state_ptr[group]] = arrays.column
        child = np.repeat(np.arange(n_groups), np.diff(arrays.pair_ptr))
        forward = place[child] > place[arrays.parent[child]]
        step = np.minimum(place[child], place[arrays.parent[child]])
        source, target = np.where(forward, arrays.above, arrays.below), np.where(forward, arrays.below, arrays.above)
        allowed = np.full((n_groups - 1, S, S), -np.inf)
        allowed[step, source, target] = 0.0
        pair = np.full((n_groups - 1, S, S), -1, dtype=np.int64)
        pair[step, source, target] = arrays.pair
        return cls(column, pair, allowed, n)

    def states(self, c: FloatArray) -> FloatArray:
        """Costs of the states by position, 0 for those that fill up."""
        return np.where(self.column >= 0, c[self.column], 0.0)

    def scores(self, c: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores of states and transitions."""
        return self.states(c), np.where(self.pair >= 0, c[self.pair], 0.0) + self._allowed

    def points(self, labels: Any) -> FloatArray:
        """State sequences as points."""
        Z = np.zeros((len(labels), self._n + 1))  # a last column for the pairs that have none
        row, position = np.arange(len(labels))[:, None], np.arange(labels.shape[1])
        Z[row, self.column[position, labels]] = 1.0
        Z[row, self.pair[position[:-1], labels[:, :-1], labels[:, 1:]]] = 1.0
        return Z[:, : self._n]


def _along(parent: Any) -> Any:
    """The groups of a chain from one end to the other."""
    below: dict[int, list[int]] = {}
    for g, p in enumerate(parent.tolist()):
        below.setdefault(p, []).append(g)
    arms = []
    for g in below.get(0, []):
        arm = [g]
        while arm[-1] in below:
            arm += below[arm[-1]]
        arms.append(arm)
    return np.array([*reversed(arms[1]), 0, *arms[0]] if len(arms) == 2 else [0, *arms[0]], dtype=np.int64)


class _States:
    """Flows to start from, one per example, within a memory limit."""

    _LIMIT = 1 << 28

    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make
        self._single: dict[Hashable, Any] = {}
        self._batch: tuple[tuple[Hashable, ...], Any] | None = None
        self._size = max(1, int(make(1).nbytes))

    def __getitem__(self, key: Hashable) -> Any:
        state = self._single.get(key)
        if state is None:
            if len(self._single) * self._size > self._LIMIT:
                self._single.pop(next(iter(self._single)))
            state = self._single[key] = self._make(1)
        return state

    def batch(self, keys: Sequence[Hashable] | None) -> Any:
        """The flows of a whole batch, kept while it comes back with the same keys."""
        if keys is None or len(keys) * self._size > self._LIMIT:
            return None
        named = tuple(keys)
        if self._batch is None or self._batch[0] != named:
            self._batch = (named, self._make(len(named)))
        return self._batch[1]
