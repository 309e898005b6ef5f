"""Closures: the heaviest set of nodes that holds the parents of all its nodes (docs/mathematics/oracles#closures).

    max  sum_v w_v y_v    subject to  y_child <= y_parent,  y in {0, 1}

One minimum cut; the constraint matrix is totally unimodular, so that this is the linear program too. In a forest, where
every node has at most one parent, one pass up and one pass down suffice.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import FloatArray, floats, kernel
from structopt._jit.graphs import preorder
from structopt._jit.products import dot
from structopt._jit.threads import in_threads
from structopt.algorithms.base import Optimum, Solutions
from structopt.algorithms.diagram import Diagram, PathsAlgorithm
from structopt.algorithms.diagram.path_networks import arc_diagram
from structopt.algorithms.maxflow import (
    FlowState,
    adjacency,
    check_arcs,
    dinic,
    flow_scratch,
    integer_scale,
    rescale_flow,
)
from structopt.algorithms.question import Question, per_question
from structopt.algorithms.warm_starts import WarmStarts
from structopt.errors import DeclarationError
from structopt.recognize import Closure, Record
from structopt.recognize.patterns import forest_order

__all__ = ["ClosureAlgorithm", "ClosureGraph"]

# Sum of |integer weights| < 2^54. The head-room is for warm starts, whose flows may pile up on the arcs, which have no
# capacity: a kept flow that sums to more than 2^60 is dropped, and nothing exceeds 2^62.
_BITS = 54
_KEPT_LIMIT = 2.0**60
_UNBOUNDED = 2**61


class ClosureGraph:
    """Oracle of the closures of one graph: a chosen child needs its parent, and the nodes of a cycle come together.

    Ties: the smallest optimal closure, which is the intersection of all. Weights are rounded to 54-bit integers, so
    that an answer is within ``n 2^-53 sum|w|`` of the optimum.
    """

    def __init__(self, n: int, child: npt.ArrayLike, parent: npt.ArrayLike) -> None:
        self.n = n = int(n)
        self.child, self.parent = check_arcs(n, child, parent, ("child", "parent"))
        self.n_arcs = m = self.child.size
        ptr, slot, back = adjacency(n, self.child, self.parent)
        head = np.empty(2 * m, np.uint32)
        rev = np.empty(2 * m, np.uint32)
        head[slot], rev[slot] = self.parent, back
        head[back], rev[back] = self.child, slot
        self._network = (ptr, head, rev, slot)
        self._no_state = (np.empty((0, 0), np.int64), np.empty(0, np.int64))
        #: Nodes of a forest, parents first, and the place of each node's parent in this order; None for other graphs.
        self.forest = forest_order(self.child, self.parent, n)
        self._n_flows = m if self.forest is None else 0
        if self.forest is not None:
            order, parents = self.forest
            self._order, self._up = order.astype(np.int32), np.full(n, -1, dtype=np.int32)
            self._up[order] = np.where(parents >= 0, order[parents], -1)

    def __repr__(self) -> str:
        return f"ClosureGraph(n={self.n}, n_arcs={self.n_arcs}, is_forest={self.is_forest})"

    @property
    def is_forest(self) -> bool:
        """Whether every node has at most one parent and there is no cycle."""
        return self.forest is not None

    def warm_state(self, n_examples: int = 1) -> FlowState:
        """Room for the flows of ``n_examples`` examples: 8 bytes an arc each (none in a forest)."""
        return FlowState(n_examples, self._n_flows)

    def solve(self, weights: npt.ArrayLike, state: FlowState | None = None, index: int = 0) -> FloatArray:
        """Return the heaviest closure as a 0/1 vector; row `index` of a state warms it and keeps its flow."""
        w = floats(weights, "weights", 1)
        if w.size != self.n:
            raise DeclarationError(f"weights must have {self.n} entries for {self!r}; they have {w.size}.")
        if state is not None:
            state.check(self._n_flows, 0, index)
        Y, finite = np.empty((1, self.n)), np.empty(1, np.bool_)
        self._solve_rows(w[None], state, index, 0, 1, Y, finite)
        if not finite[0]:
            _refuse(w)
        y: FloatArray = Y[0]
        return y

    def _solve_rows(
        self, W: FloatArray, state: FlowState | None, index: int, first: int, last: int, Y: FloatArray, finite: Any
    ) -> None:
        if self.is_forest:
            _forest_rows(self._order, self._up, W, first, last, Y, finite)
        else:
            kept = self._no_state if state is None else (state.flow, state.exponent)
            _cut_rows(*self._network, W, state is not None, *kept, index, first, last, Y, finite)

    def solve_batch(self, weights: npt.ArrayLike, state: FlowState | None = None, n_jobs: int = 1) -> FloatArray:
        """`solve` for every row of ``weights`` (B, n); row k of the state warms row k."""
        W = floats(weights, "weights", 2)
        B = W.shape[0]
        if W.shape[1] != self.n:
            raise DeclarationError(f"weights must have shape (B, {self.n}) for {self!r}; they have {W.shape}.")
        if state is not None:
            state.check(self._n_flows, 0)
            if len(state) != B:
                raise DeclarationError(f"the batch has {B} examples and the warm state {len(state)}.")
        Y, finite = np.empty((B, self.n)), np.empty(B, np.bool_)
        in_threads(lambda first, last: self._solve_rows(W, state, 0, first, last, Y, finite), B, n_jobs)
        wrong = np.flatnonzero(~finite)
        if wrong.size:
            _refuse(W[wrong[0]], int(wrong[0]))
        return Y


def _refuse(weights: FloatArray, row: int | None = None) -> None:
    where = "" if row is None else f"example {row} of the batch: "
    k = int(np.flatnonzero(~np.isfinite(weights))[0])
    raise DeclarationError(f"{where}weights[{k}] is {weights[k]}; weights must be finite numbers.")


@kernel
def _to_integers(weights: Any, W: Any) -> tuple[bool, int]:
    """Round the weights times ``2**exponent``; return whether they are finite, and the exponent."""
    total = 0.0
    for v in range(weights.size):
        total += abs(weights[v])
    shift = 0
    if not np.isfinite(total):
        for v in range(weights.size):
            if not np.isfinite(weights[v]):
                return False, 0
        # Only the sum overflows: add up in smaller units.
        total = 0.0
        for v in range(weights.size):
            total += abs(weights[v]) * 2.0**-64
        shift = -64
    exponent = integer_scale(total, _BITS) + shift
    factor = math.ldexp(1.0, exponent)
    for v in range(weights.size):
        W[v] = np.int64(np.rint(weights[v] * factor))
    return True, exponent


@kernel
def _solve_forest(order: Any, up: Any, weights: Any, y: Any) -> bool:
    """Best value of each subtree from the leaves up, then choose from the roots down."""
    n = order.size
    best = np.empty(n, np.int64)
    finite, _ = _to_integers(weights, best)
    if not finite:
        return False
    for k in range(n - 1, -1, -1):
        v = order[k]
        if up[v] >= 0:
            best[up[v]] += max(best[v], 0)
    for k in range(n):
        v = order[k]
        chosen = 1.0 if best[v] > 0 else 0.0
        y[v] = chosen if up[v] < 0 else chosen * y[up[v]]
    return True


@kernel
def _forest_rows(order: Any, up: Any, W: Any, first: int, last: int, Y: Any, finite: Any) -> None:
    for k in range(first, last):
        finite[k] = _solve_forest(order, up, W[k], Y[k])


@kernel
def _cut(
    ptr: Any, head: Any, rev: Any, slot: Any, weights: Any, warm: bool, flow: Any, exponents: Any, index: int,
    scratch: Any, y: Any,
) -> bool:  # fmt: skip
    n = weights.size
    res, ex, work = scratch
    finite, exponent = _to_integers(weights, ex)
    if not finite:
        return False
    for e in range(slot.size):
        res[slot[e]] = _UNBOUNDED
        res[rev[slot[e]]] = 0
    if warm:
        kept = flow[index]
        if exponent != exponents[index]:
            rescale_flow(kept, exponent - exponents[index])
            exponents[index] = exponent
        total = 0.0
        for e in range(kept.size):
            total += kept[e]
        for e in range(kept.size):
            if total > _KEPT_LIMIT:
                kept[e] = 0
            q = slot[e]
            res[q] -= kept[e]
            res[rev[q]] = kept[e]
            ex[head[rev[q]]] -= kept[e]
            ex[head[q]] += kept[e]
    level = dinic(n, ptr, head, rev, res, ex, work)
    for v in range(n):
        y[v] = 1.0 if level[v] >= 0 else 0.0
    if warm:
        for e in range(kept.size):
            kept[e] = res[rev[slot[e]]]
    return True


@kernel
def _cut_rows(
    ptr: Any, head: Any, rev: Any, slot: Any, W: Any, warm: bool, flow: Any, exponents: Any, kept_from: int,
    first: int, last: int, Y: Any, finite: Any,
) -> None:  # fmt: skip
    """Close the rows ``first .. last-1``; row k owns row ``kept_from + k`` of the warm state."""
    n = W.shape[1]
    scratch = np.empty(head.size, np.int64), np.empty(n, np.int64), flow_scratch(n)
    for k in range(first, last):
        finite[k] = _cut(ptr, head, rev, slot, W[k], warm, flow, exponents, kept_from + k, scratch, Y[k])


class ClosureAlgorithm(PathsAlgorithm):
    """``y_child <= y_parent``: min cut, or the linear program's own O(n) recursion on a forest.

    The closures of a forest of integer variables are the paths of a graph, which answers all questions.
    """

    name = "closure"
    steps = per_question(argmax="nodes of a forest; a minimum cut of other graphs")

    def __init__(self, graph: ClosureGraph, integer: bool = True) -> None:
        self.graph = graph
        self.answers = PathsAlgorithm.answers if graph.is_forest and integer else Question.ARGMAX
        self._flows = WarmStarts(graph.warm_state)

    @classmethod
    def of_record(cls, record: Record, n: int) -> ClosureAlgorithm:
        assert isinstance(record, Closure)
        return cls(ClosureGraph(n, record.child, record.parent), record.integer)

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        z = self.graph.solve(c, None if key is None else self._flows[key])
        value = dot(c, z)
        return Optimum(z, value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        return Solutions.of_labels(C, self.graph.solve_batch(C, state=self._flows.batch(keys), n_jobs=n_jobs))

    def maximize_columns(
        self, gains: FloatArray, keys: Sequence[Hashable] | None = None
    ) -> tuple[sp.csr_array, FloatArray]:
        """Return the best labels for the columns of `gains`, as sparse rows, and their values."""
        C = np.ascontiguousarray(gains.T)
        if self.graph.is_forest or keys is None:
            Z = self.graph.solve_batch(C)
        else:
            # Flows are kept by example, whatever chunk it comes in.
            Z = np.array([self.maximize(c, key).z for c, key in zip(C, keys, strict=True)]).reshape(C.shape)
        return sp.csr_array(Z), np.einsum("ij,ij->i", C, Z)

    def make_diagram(self) -> Diagram:
        # Nodes are visited in depth-first order. A node is chosen, or left out with its subtree.
        assert self.graph.forest is not None
        order, parent = self.graph.forest
        place, size = preorder(parent)
        tail = np.concatenate([place, place])
        head = np.concatenate([place + 1, place + size])
        column = np.concatenate([order, np.full(order.size, -1)])
        return arc_diagram(tail, head, column, np.zeros(order.size))
