"""Single leaves of a hierarchy with all their ancestors."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import scipy.sparse as sp

from structopt._jit import IntArray, kernel
from structopt.algorithms.diagram import Diagram, PathsAlgorithm
from structopt.algorithms.diagram.path_networks import arc_diagram
from structopt.algorithms.question import Question, per_question
from structopt.algorithms.tree import check_gains
from structopt.recognize import Leaves, Record
from structopt.space.compiled import FloatArray

__all__ = ["LeafAlgorithm"]


# Examples at a time: fewer ones take longer, because each row of a block is a view.
_BLOCK = 256


class LeafAlgorithm(PathsAlgorithm):
    """One leaf with its ancestors: gains accumulate down a tree of the shared beginnings of the leaves' lists.

    The beginnings of a tree's lists are its nodes. In other hierarchies a node may occur several times.
    """

    name = "best leaf"
    steps = per_question(argmax="nodes, repeated for each way from a root")

    def __init__(self, leaves: Leaves, n: int) -> None:
        size = np.diff(leaves.ptr)
        #: The 0/1 row of each leaf.
        self.rows = sp.csr_array((np.ones(len(leaves.column)), leaves.column, leaves.ptr), (len(size), n))
        # Columns of many lists come first: the lists then share long beginnings.
        number = np.bincount(leaves.column, minlength=n)
        order = np.lexsort((leaves.column, -number[leaves.column], np.repeat(np.arange(len(size)), size)))
        self._parent, self._column, self._leaf = _beginnings(leaves.ptr, leaves.column[order], n)
        self.answers = PathsAlgorithm.answers if leaves.integer else Question.ARGMAX

    @classmethod
    def of_record(cls, record: Record, n: int) -> LeafAlgorithm:
        assert isinstance(record, Leaves)
        return cls(record, n)

    def maximize_columns(
        self, gains: FloatArray, keys: Sequence[Hashable] | None = None
    ) -> tuple[sp.csr_array, FloatArray]:
        """Return the best labels for the columns of `gains`, as sparse rows, and their values."""
        check_gains(gains)
        leaves, values = _best_leaves(gains, self._parent, self._column, self._leaf)
        return self.rows[leaves], values

    def make_diagram(self) -> Diagram:
        inner = self._leaf < 0
        n_inner = int(inner.sum())
        number = np.where(inner, np.cumsum(inner), n_inner + 1)
        tail = np.where(self._parent < 0, 0, number[self._parent])
        return arc_diagram(tail, number, self._column, np.zeros(self.rows.shape[1]))


def _beginnings(ptr: IntArray, column: IntArray, n: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the tree of the lists' beginnings: parent and last column of each, and the list that ends there or -1."""
    size = np.diff(ptr)
    at = np.full(size.size, -1, dtype=np.int64)
    parents, columns, count = [], [], 0
    for depth in range(size.max(initial=0)):
        some = np.flatnonzero(size > depth)
        own, at[some] = np.unique((at[some] + 1) * n + column[ptr[some] + depth], return_inverse=True)
        at[some] += count
        count += own.size
        parents.append(own // n - 1)
        columns.append(own % n)
    leaf = np.full(count, -1, dtype=np.int64)
    leaf[at] = np.arange(size.size)
    return np.concatenate(parents), np.concatenate(columns), leaf


@kernel
def _best_leaves(r: FloatArray, parent: IntArray, column: IntArray, leaf: IntArray) -> tuple[IntArray, FloatArray]:
    """Return the first best leaf, and its value, for each column of `r`."""
    n, total = parent.size, r.shape[1]
    leaves = np.empty(total, np.int64)
    values = np.full(total, -np.inf)
    width = max(1, min(_BLOCK, total))
    path = np.empty((n, width))
    for first in range(0, total, width):
        size = min(width, total - first)
        best, place = values[first : first + size], leaves[first : first + size]
        for i in range(n):
            gain, own, p = r[column[i], first : first + size], path[i], parent[i]
            if p < 0:
                for e in range(size):
                    own[e] = gain[e]
            else:
                above = path[p]
                for e in range(size):
                    own[e] = gain[e] + above[e]
            if leaf[i] >= 0:
                for e in range(size):
                    if own[e] > best[e]:
                        best[e], place[e] = own[e], leaf[i]
    return leaves, values
