"""Sets of leaves in a DAG: its core, what hangs below it, and the program of the core.

Subtrees under a single parent are eliminated (docs/mathematics/hierarchies#sets-of-leaves). Nodes are numbered parents
first; node 0 is above all roots. Below a node v whose descendants have one parent each, all rows are homogeneous in
``z_v``, so that the best there is a number times ``z_v``: the value of the tree's dynamic program, for labels and for
the linear program alike. The nodes with several parents and all above them are left; they are called the core.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray, kernel
from structopt.hierarchy import Hierarchy
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["Core", "fold", "unfold"]


class Core:
    """The nodes with several parents and all above them, under one node above all roots.

    `place` is the number in the core of every node, shifted by one for the node above, or -1; `above` its parent. Arcs
    of the core are numbered by child, then parent. `space` is the program over the core: x of its nodes, then s of its
    inner nodes, what they take of their best child outside (`fold`).
    """

    def __init__(self, h: Hierarchy) -> None:
        n = len(h) + 1
        tail = np.concatenate([h.parent + 1, np.zeros(h.root_index.size, np.int64)])
        head = np.concatenate([h.child + 1, h.root_index + 1])
        kept = np.bincount(head, minlength=n) > 1
        kept[0] = True
        upwards = np.argsort(-head, kind="stable")
        for p, c in zip(tail[upwards].tolist(), head[upwards].tolist(), strict=True):
            if kept[c]:
                kept[p] = True
        self.above = np.zeros(n, np.int64)
        self.above[head] = tail
        self.place: IntArray = np.where(kept, np.cumsum(kept) - 1, -1)
        leaves_core = np.zeros(n, np.bool_)
        leaves_core[tail[~kept[head]]] = True
        inside = kept[tail] & kept[head]
        tail, head = self.place[tail[inside]], self.place[head[inside]]
        by_child = np.lexsort((tail, head))
        self.tail, self.head = tail[by_child], head[by_child]
        self.size = m = int(kept.sum())
        self.up_ptr = _pointer(self.head, m)
        self.kid = self.head[np.argsort(self.tail, kind="stable")]
        self.down_ptr = _pointer(self.tail, m)
        self.inner = np.diff(self.down_ptr) > 0
        self.inner_nodes = np.flatnonzero(self.inner)
        self.space = self._program(leaves_core[kept][self.inner])

    def _program(self, has_other: npt.NDArray[np.bool_]) -> CompiledSpace:
        arcs, inner, m = np.flatnonzero(self.tail > 0), self.inner_nodes, self.size
        row = np.zeros(m, np.int64)
        row[inner] = arcs.size + np.arange(inner.size)
        one, s = np.arange(arcs.size), m + np.arange(inner.size)
        lower, upper = (np.full(arcs.size + inner.size, bound) for bound in (-np.inf, np.inf))
        #  z_c - z_p <= 0 for every arc;  sum of z_c + s_n - z_n >= 0 for every inner node
        i = np.concatenate([one, one, row[self.tail], row[inner], row[inner]])
        j = np.concatenate([self.head[arcs], self.tail[arcs], self.head, s, inner])
        signs = np.repeat([1.0, -1.0, 1.0, -1.0], [one.size, one.size, self.head.size + inner.size, inner.size])
        upper[: arcs.size] = 0.0
        lower[arcs.size :] = 0.0
        shape = (arcs.size + inner.size, m + inner.size)
        low, high = np.zeros(shape[1]), np.ones(shape[1])
        low[0] = 1.0
        high[m:] = has_other
        matrix = sp.csr_array((signs, (i, j)), shape=shape)
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
        integrality = np.arange(shape[1]) < m
        names = [f"node {k}" for k in range(m)] + [f"outside {k}" for k in inner.tolist()]
        return CompiledSpace(matrix, lower, upper, low, high, integrality, names, [""] * shape[0])

    def start(self, z: FloatArray) -> FloatArray:
        """The point of `space` for a label: inner nodes without a child in the core have one outside."""
        x = np.ones(self.size)
        x[self.place[1:][self.place[1:] >= 0]] = z[self.place[1:] >= 0]
        children = np.bincount(self.tail, weights=x[self.head], minlength=self.size)
        return np.concatenate([x, np.maximum(x - children, 0.0)[self.inner_nodes]])


def _pointer(ends: IntArray, n: int) -> IntArray:
    return np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))]).astype(np.int64)


@kernel
def fold(
    gain: Any, above: Any, place: Any, inner: Any, worth: Any, best: Any, best_child: Any, many: Any, rho: Any,
    needy: Any, alt: Any,
) -> float:  # fmt: skip
    """Gains `rho` of the core's nodes with what hangs below them; the largest magnitude of all these.

    `place` is a node's number in the core or -1, `above` its parent where it is not in the core, `inner` whether a
    node of the core has children in the core. `worth` of a node outside is what one unit of it adds with all below it:
    it takes all children that are worth more than 0 (`many`), or else its `best_child`. In the core, a node that such
    children do not satisfy is `needy`: it needs a child in the core, or one outside at `alt` a unit (-inf: has none).
    """
    n = gain.size
    for v in range(n):
        worth[v] = gain[v]
        best[v] = -np.inf
        best_child[v] = -1
        many[v] = False
    for v in range(n - 1, 0, -1):
        if place[v] >= 0:
            continue
        if best_child[v] >= 0 and not many[v]:
            worth[v] += best[v]
        p = above[v]
        if worth[v] > best[p]:
            best[p] = worth[v]
            best_child[p] = v
        if worth[v] > 0.0:
            worth[p] += worth[v]
            many[p] = True
    largest = 0.0
    for v in range(n):
        k = place[v]
        if k < 0:
            continue
        rho[k] = worth[v]
        alt[k] = best[v]
        needy[k] = inner[k] and not best[v] >= 0.0
        if not inner[k] and best_child[v] >= 0 and not many[v]:
            rho[k] += best[v]
        largest = max(largest, abs(rho[k]))
        if needy[k] and best_child[v] >= 0:
            largest = max(largest, abs(alt[k]))
    return largest


@kernel
def unfold(
    x: Any, s: Any, above: Any, place: Any, inner: Any, worth: Any, best: Any, best_child: Any, many: Any, z: Any
) -> None:
    """The whole point `z` from the core's `x` and from `s`, what needy nodes take of their best child outside."""
    for v in range(z.size):
        k = place[v]
        if k >= 0:
            z[v] = x[k]
            continue
        p = above[v]
        z[v] = 0.0
        if many[p]:
            if worth[v] > 0.0:
                z[v] = z[p]
        elif best_child[p] == v:
            q = place[p]
            z[v] = s[q] if q >= 0 and inner[q] and best[p] < 0.0 else z[p]
