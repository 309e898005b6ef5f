"""Algorithms for the labels of a hierarchy (docs/mathematics/oracles#needed-child-trees).

Each also answers for the columns of a (nodes, examples) table at a time, with sparse labels: `maximize_columns`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt._jit.products import dot
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.closure import ClosureAlgorithm, ClosureGraph
from structopt.algorithms.fronts import FrontPlan
from structopt.algorithms.question import Question
from structopt.algorithms.tree import labels as tree
from structopt.algorithms.tree.front import TreeFrontPlan, closure_forest, common_unit, loss_front
from structopt.backends.arrays import holding_rows
from structopt.backends.base import SideConstraints
from structopt.errors import DeclarationError, InfeasibleSpace
from structopt.hierarchy import Hierarchy
from structopt.space.compiled import FloatArray

__all__ = ["ClosureOracle", "LeafOracle", "NeededChildOracle"]

# The tables of the Pareto front hold at most nodes * (sum of |loss| + 1) entries; merging them takes time of the square
# of that sum.
_FRONT_ENTRIES = 10_000_000
_FRONT_LOSSES = 10_000


class LeafOracle(Algorithm):
    """One leaf with its ancestors: gains accumulate down the tree; on a DAG one sparse product.

    The labels are as many as the leaves, so that k-best, side constraints and fronts are exact by listing them.
    """

    name = "best leaf"
    answers = Question.ARGMAX | Question.K_BEST | Question.OUTSIDE | Question.SIDE_ROWS | Question.FRONT

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._paths = hierarchy.closure
        self._parent = hierarchy.parent_of.copy() if hierarchy.is_tree else None
        self._leaf_index = hierarchy.leaf_index

    def _optimum(self, leaf: int, c: FloatArray) -> Optimum:
        z = np.zeros(c.size)
        z[self._paths.indices[self._paths.indptr[leaf] : self._paths.indptr[leaf + 1]]] = 1.0
        value = dot(c, z)
        return Optimum(z, value, value)

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        if self._parent is None:
            return self._optimum(int((self._paths @ c).argmax()), c)
        nodes, _ = tree.best_leaf_batch(c[:, None], self._parent)
        return self._optimum(int(np.searchsorted(self._leaf_index, nodes[0])), c)

    def maximize_columns(
        self, gains: FloatArray, keys: Sequence[Hashable] | None = None
    ) -> tuple[sp.csr_array, FloatArray]:
        if self._parent is None:
            table = self._paths @ gains
            if not np.isfinite(table.sum()):
                raise DeclarationError("a node's gain is not finite.")
            leaves = table.argmax(axis=0)
            return self._paths[leaves], table[leaves, np.arange(leaves.size)]
        nodes, values = tree.best_leaf_batch(gains, self._parent)
        return self._paths[np.searchsorted(self._leaf_index, nodes)], values

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        rows, _ = self.maximize_columns(np.ascontiguousarray(C.T))
        return Solutions.of_labels(C, rows.toarray())

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        order = np.argsort(-(self._paths @ c), kind="stable")[:k]
        return Solutions.of_labels(c, self._paths[order].toarray())

    def maximize_constrained(self, c: FloatArray, side_constraints: SideConstraints) -> Optimum:
        allowed = np.flatnonzero(holding_rows(side_constraints, self._paths))
        if not allowed.size:
            raise InfeasibleSpace("No leaf satisfies the side constraints of this call.")
        return self._optimum(int(allowed[(self._paths[allowed] @ c).argmax()]), c)

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray:
        across, up = self._paths @ h, self._paths @ g
        # Largest h first; a leaf is on the front if its g exceeds every g before it.
        order = np.lexsort((-up, -across))
        before = np.concatenate([[-np.inf], np.maximum.accumulate(up[order])[:-1]])
        return np.asarray(self._paths[order[up[order] > before]].toarray())


class NeededChildOracle(Algorithm):
    """Sets of leaves with their ancestors on a tree or forest, by a dynamic program in O(M)."""

    name = "tree, needed child"
    answers = Question.ARGMAX | Question.K_BEST | Question.OUTSIDE | Question.FRONT

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._parent = hierarchy.parent_of.copy()

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        chosen, value = tree.needed_child(c, self._parent)
        return Optimum(chosen.astype(np.float64), value, value)

    def maximize_columns(
        self, gains: FloatArray, keys: Sequence[Hashable] | None = None
    ) -> tuple[sp.csr_array, FloatArray]:
        chosen, values = tree.needed_child_batch(gains, self._parent)
        return _rows_of(chosen), values

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        chosen, _ = tree.needed_child_batch(np.ascontiguousarray(C.T), self._parent)
        return Solutions.of_labels(C, np.ascontiguousarray(chosen.T, dtype=np.float64))

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        if k < 1:
            return Solutions.stacked([], c.size)
        chosen, values = tree.k_best(c, self._parent, k)
        return Solutions(chosen.astype(np.float64), values, values)

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        return _tree_front(self._parent, h, g)

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        every = np.arange(self._parent.size)
        return TreeFrontPlan.of(self._parent, every, every, G, g_const)


class ClosureOracle(Algorithm):
    """Sets that hold the parents of their nodes: min cut, or the O(M) recursion on a forest."""

    name = "closure"

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._closure = ClosureAlgorithm(ClosureGraph(len(hierarchy), hierarchy.child, hierarchy.parent))
        self._forest = hierarchy.is_tree
        self._n = len(hierarchy)
        self.answers = Question.ARGMAX | Question.FRONT if self._forest else Question.ARGMAX
        if self._forest:
            self._padded = closure_forest(hierarchy.parent_of)

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        return self._closure.maximize(c, key)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        return self._closure.maximize_batch(C, n_jobs=n_jobs, keys=keys)

    def maximize_columns(
        self, gains: FloatArray, keys: Sequence[Hashable] | None = None
    ) -> tuple[sp.csr_array, FloatArray]:
        C = np.ascontiguousarray(gains.T)
        if self._forest or keys is None:
            Z = self._closure.maximize_batch(C).Z
        else:
            # Flows are kept by example, whatever chunk it comes in.
            Z = np.array([self._closure.maximize(c, key).z for c, key in zip(C, keys, strict=True)])
        return sp.csr_array(Z), np.einsum("ij,ij->i", C, Z)

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        if not self._forest:
            return None
        padding = np.zeros(self._padded.size - self._n)
        points = _tree_front(self._padded, np.concatenate([h, padding]), np.concatenate([g, padding]))
        return None if points is None else points[:, : self._n]

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        every = np.arange(self._n)
        return TreeFrontPlan.of(self._padded, every, every, G, g_const) if self._forest else None


def _tree_front(parent: IntArray, h: FloatArray, g: FloatArray) -> FloatArray | None:
    """The best label for every value of g, where g counts in whole units and the tables are not too large."""
    unit = common_unit(g)
    if unit is None:
        return None
    n_losses = np.abs(g).sum() / unit + 1
    if n_losses > _FRONT_LOSSES or n_losses * g.size > _FRONT_ENTRIES:
        return None
    steps = np.rint(g / unit)
    chosen = loss_front(h, parent, steps.astype(np.int64))[2]
    return chosen.astype(np.float64)


def _rows_of(chosen: np.ndarray) -> sp.csr_array:
    """A boolean (nodes, examples) table as sparse rows (examples, nodes)."""
    by_example = np.ascontiguousarray(chosen.T)
    example, node = np.nonzero(by_example)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(example, minlength=by_example.shape[0]))])
    return sp.csr_array((np.ones(node.size), node, ptr), shape=by_example.shape)
