"""Sets of nodes of trees in which a chosen internal node needs a chosen child (docs/mathematics/oracles)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, kernel
from structopt._jit.graphs import preorder
from structopt.algorithms.base import Optimum, Solutions
from structopt.algorithms.diagram import Diagram, PathsAlgorithm
from structopt.algorithms.diagram.path_networks import arc_diagram
from structopt.algorithms.question import Question, per_question
from structopt.errors import DeclarationError
from structopt.recognize import Record, Tree
from structopt.space.compiled import FloatArray

__all__ = ["TreeAlgorithm", "check_gains"]

BoolArray = npt.NDArray[np.bool_]

# Examples at a time: four tables of this width fit the cache for a few thousand nodes.
_BLOCK = 16


class TreeAlgorithm(PathsAlgorithm):
    """Needed-child sets of one tree or several, by a dynamic program in O(n); all roots are chosen.

    Ties leave children of value 0 out unless one of them is needed. Then the first best child is chosen.
    """

    name = "tree dynamic program"
    steps = per_question(argmax="nodes")

    def __init__(self, tree: Tree, n: int) -> None:
        self._parent, self._column, self._n = tree.parent, tree.column, n
        self.answers = PathsAlgorithm.answers if tree.integer else Question.ARGMAX

    @classmethod
    def of_record(cls, record: Record, n: int) -> TreeAlgorithm:
        assert isinstance(record, Tree)
        return cls(record, n)

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        z = np.empty(self._n)
        value = _best_set(np.ascontiguousarray(c), self._parent, self._column, z)
        return Optimum(z, value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        chosen, _ = _best_sets(np.ascontiguousarray(C.T), self._parent, self._column)
        return Solutions.of_labels(C, np.ascontiguousarray(chosen.T, dtype=np.float64))

    def maximize_columns(
        self, gains: FloatArray, keys: Sequence[Hashable] | None = None
    ) -> tuple[sp.csr_array, FloatArray]:
        """Return the best labels for the columns of `gains`, as sparse rows, and their values."""
        check_gains(gains)
        chosen, values = _best_sets(gains, self._parent, self._column)
        example, node = np.nonzero(np.ascontiguousarray(chosen.T))
        ptr = np.searchsorted(example, np.arange(gains.shape[1] + 1))
        return sp.csr_array((np.ones(node.size), node, ptr), shape=gains.shape[::-1]), values

    def make_diagram(self) -> Diagram:
        # Nodes are visited parents first, each with its subtree before its later siblings. A state is the next node and
        # whether its parent has a chosen child. After a subtree is left, the parent of the next node has one.
        place, size = preorder(self._parent)
        n, node = len(place), np.arange(len(place))
        parent, column, after = np.empty((3, n), dtype=np.int64)
        column[place], after[place] = self._column, place + size
        parent[place] = np.where(self._parent < 0, -1, place[self._parent])
        root = parent < 0
        last = ~root & (after == after[parent])
        state = np.column_stack([~root, root | (parent < node - 1)])
        number = np.full((n + 1, 2), state.sum())
        number[:n][state] = np.arange(state.sum())
        below = np.where(after == node + 1, number[after, 1], number[node + 1, 0])
        tail, head, decided = [], [], []
        for satisfied in (0, 1):
            beside = number[after, np.where(last, 1, satisfied)]
            skipped = state[:, satisfied] & ~root & ~(last & (satisfied == 0))
            for some, to, own in ((state[:, satisfied], below, column), (skipped, beside, np.full(n, -1))):
                tail.append(number[:n, satisfied][some])
                head.append(to[some])
                decided.append(own[some])
        tails, heads, columns = map(np.concatenate, (tail, head, decided))
        return arc_diagram(tails, heads, columns, np.zeros(self._n))


def check_gains(gains: FloatArray) -> None:
    """Raise if a gain is not finite."""
    if not np.isfinite(gains.sum()) and not np.isfinite(gains).all():
        raise DeclarationError("a node's gain is not finite.")


@kernel
def _best_set(c: FloatArray, parent: IntArray, column: IntArray, z: FloatArray) -> float:
    """Write the best set to `z` and return its value."""
    n = parent.size
    # Values of nodes; the sum of the positive values and the largest value of the children of each node. Slot n stands
    # above all roots.
    x, s, m = np.empty(n), np.zeros(n + 1), np.full(n + 1, -np.inf)
    for i in range(n - 1, -1, -1):
        p = parent[i] if parent[i] >= 0 else n
        below = s[i] if s[i] > 0.0 else m[i]
        v = (c[column[i]] if column[i] >= 0 else 0.0) + (0.0 if m[i] == -np.inf else below)
        x[i] = v
        s[p] += v if v > 0.0 else 0.0
        m[p] = v if v > m[p] else m[p]
    chosen = np.empty(n + 1, np.bool_)
    chosen[n] = True
    value = 0.0
    for i in range(n):
        p = parent[i] if parent[i] >= 0 else n
        pick = s[p] <= 0.0 and x[i] == m[p]
        # Only the first best child is picked: no later one equals +inf.
        m[p] = np.inf if pick else m[p]
        chosen[i] = p == n or (chosen[p] and (x[i] > 0.0 or pick))
        if column[i] >= 0:
            z[column[i]] = 1.0 if chosen[i] else 0.0
            value += c[column[i]] if chosen[i] else 0.0
    return value


@kernel
def _best_sets(r: FloatArray, parent: IntArray, column: IntArray) -> tuple[BoolArray, FloatArray]:
    """Return `_best_set` for the columns of `r`: short loops over examples with few arrays, which vectorise."""
    n, total = parent.size, r.shape[1]
    chosen = np.empty(r.shape, np.bool_)
    values = np.zeros(total)
    width = max(1, min(_BLOCK, total))
    x, s, m = np.empty((n, width)), np.empty((n, width)), np.empty((n, width))
    # The child that is taken if none is positive; kept as a float, since mixed types do not vectorise.
    spare = np.full((n, width), -1.0)
    for first in range(0, total, width):
        size = min(width, total - first)
        s[:] = 0.0
        m[:] = -np.inf
        for i in range(n - 1, -1, -1):
            p, c = parent[i], column[i]
            if p < 0:
                continue
            for e in range(size):
                below = s[i, e] if s[i, e] > 0.0 else m[i, e]
                v = r[c, first + e] + (0.0 if m[i, e] == -np.inf else below)
                x[i, e] = v
                s[p, e] += v if v > 0.0 else 0.0
                m[p, e] = v if v > m[p, e] else m[p, e]
        for i in range(n - 1, -1, -1):
            p = parent[i]
            number = float(i)
            if p >= 0:
                for e in range(size):
                    spare[p, e] = number if x[i, e] == m[p, e] else spare[p, e]
        for i in range(n):
            for e in range(size):
                spare[i, e] = -1.0 if s[i, e] > 0.0 else spare[i, e]
        taken = s  # no longer needed as sums
        for i in range(n):
            p, c = parent[i], column[i]
            number = float(i)
            if p < 0:
                taken[i, :size] = 1.0
            else:
                for e in range(size):
                    taken[i, e] = taken[p, e] if (x[i, e] > 0.0) | (spare[p, e] == number) else 0.0
            if c >= 0:
                for e in range(size):
                    values[first + e] += r[c, first + e] * taken[i, e]
        for i in range(n):
            c = column[i]
            if c >= 0:
                for e in range(size):
                    chosen[c, first + e] = taken[i, e] != 0.0
    return chosen, values
