"""The best path in a directed acyclic graph by a backward pass over a stored topological order.

``-inf`` forbids an arc. Ties: the first arc in the caller's numbering, from the source on.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from structopt._jit import (
    BAD_NUMBER,
    INFEASIBLE,
    SOLVED,
    FloatArray,
    IntArray,
    assign,
    fail,
    floats,
    integers,
    kernel,
    unusable,
)
from structopt._jit.graphs import topological_order
from structopt.algorithms.base import Algorithm, Capability, Optimum, Solutions
from structopt.algorithms.lawler import BoolArray, best_first
from structopt.algorithms.lawler import k_best as lawler_k_best
from structopt.errors import DeclarationError
from structopt.recognize import Path, Structure

__all__ = ["Dag", "PathAlgorithm", "best_path", "best_path_batch", "k_best"]

_NUMBERS = "an arc's gain is NaN or +inf; gains are finite, or -inf where an arc is forbidden."
_EMPTY = "no path leads from the source to the sink over allowed arcs."


@dataclass(frozen=True, eq=False)
class Dag:
    """A directed acyclic graph with the arcs stored in the order of the backward pass.

    Make one with `Dag.from_arcs`. Nodes are renumbered by their place in a topological order.

    Attributes
    ----------
    place : ndarray of int64, shape (n_nodes,)
        Place of each node in the order.
    ptr : ndarray of int64, shape (n_nodes + 1,)
        The slots of the node at place p are ``ptr[p]:ptr[p + 1]``.
    arc : ndarray of int64, shape (n_arcs,)
        The arc in each slot, rising within a node.
    head : ndarray of int64, shape (n_arcs,)
        Place of the head of the arc in each slot.

    Examples
    --------
    >>> Dag.from_arcs([0, 0, 1], [1, 2, 2])
    <Dag: 3 nodes, 3 arcs>
    """

    place: IntArray
    ptr: IntArray
    arc: IntArray
    head: IntArray

    @classmethod
    def from_arcs(cls, tail: npt.ArrayLike, head: npt.ArrayLike, n_nodes: int | None = None) -> Dag:
        """Order the nodes; a cycle is refused by name."""
        tails, heads = integers(tail, "tail", 1), integers(head, "head", 1)
        if tails.shape != heads.shape:
            raise DeclarationError(f"There are {len(tails)} tails and {len(heads)} heads.")
        largest = max(tails.max(initial=-1), heads.max(initial=-1))
        n = int(largest) + 1 if n_nodes is None else n_nodes
        if largest >= n or min(tails.min(initial=0), heads.min(initial=0)) < 0:
            raise DeclarationError(f"Arcs must join nodes 0..{n - 1}.")
        by_tail = np.argsort(tails, kind="stable")
        start = np.zeros(n + 1, np.int64)
        np.cumsum(np.bincount(tails, minlength=n), out=start[1:])
        order = topological_order(start, heads[by_tail])
        if order.size < n:
            raise DeclarationError(f"The arcs contain a cycle: {_cycle(tails, heads, order, n)}.")
        place = np.empty(n, np.int64)
        place[order] = np.arange(n)
        arc = np.argsort(place[tails], kind="stable")
        ptr = np.zeros(n + 1, np.int64)
        np.cumsum(np.diff(start)[order], out=ptr[1:])
        return cls(place, ptr, arc, place[heads[arc]])

    def __repr__(self) -> str:
        return f"<Dag: {len(self.place)} nodes, {len(self.arc)} arcs>"

    def _ends(self, source: int, sink: int) -> tuple[int, int]:
        n = len(self.place)
        if not (0 <= source < n and 0 <= sink < n):
            raise DeclarationError(f"Source {source} and sink {sink} must be nodes 0..{n - 1}.")
        return int(self.place[source]), int(self.place[sink])


def best_path(dag: Dag, gain: npt.ArrayLike, source: int, sink: int) -> tuple[IntArray, float]:
    """The path from source to sink with the largest sum of gains.

    Parameters
    ----------
    dag : Dag
    gain : array_like, shape (n_arcs,)
    source, sink : int

    Returns
    -------
    arcs : ndarray of int64
        The arcs of the path in order.
    value : float

    Examples
    --------
    >>> arcs, value = best_path(Dag.from_arcs([0, 0, 1], [1, 2, 2]), [1.0, 2.5, 2.0], 0, 2)
    >>> arcs.tolist(), value
    ([0, 2], 3.0)
    """
    c = floats(gain, "gain", 1)
    first, last = dag._ends(source, sink)
    if c.shape != dag.arc.shape:
        raise DeclarationError(f"gain has {len(c)} entries; the graph has {len(dag.arc)} arcs.")
    arcs, value, status = _best_path(dag.ptr, dag.arc, dag.head, c, first, last)
    if status:
        fail(status, _NUMBERS, _EMPTY)
    return arcs, value


def best_path_batch(dag: Dag, gain: npt.ArrayLike, source: int, sink: int) -> tuple[BoolArray, FloatArray]:
    """`best_path` for the rows of `gain`, shape (n, n_arcs); a path is a 0/1 row over the arcs."""
    c = floats(gain, "gain", 2)
    first, last = dag._ends(source, sink)
    if c.shape[1] != len(dag.arc):
        raise DeclarationError(f"gain has {c.shape[1]} columns; the graph has {len(dag.arc)} arcs.")
    used, values, status, index = _best_path_batch(dag.ptr, dag.arc, dag.head, c, first, last)
    if status:
        fail(status, _NUMBERS, _EMPTY, index)
    return used, values


def k_best(
    dag: Dag,
    gain: npt.ArrayLike,
    source: int,
    sink: int,
    k: int,
    forbid: list[npt.ArrayLike] | None = None,
) -> tuple[list[IntArray], FloatArray]:
    """The k best paths that are not in a list of excluded ones (arc sequences), best first.

    Examples
    --------
    >>> arcs, values = k_best(Dag.from_arcs([0, 0, 1], [1, 2, 2]), [1.0, 2.5, 2.0], 0, 2, 2)
    >>> [a.tolist() for a in arcs], values.tolist()
    ([[0, 2], [1]], [3.0, 2.5])
    """
    c = floats(gain, "gain", 1)
    first, last = dag._ends(source, sink)
    arcs, value = best_path(dag, c, source, sink)
    best, slot = np.empty(len(dag.place)), np.empty(len(dag.place), np.int64)
    _backward(dag.ptr, dag.arc, dag.head, c, first, last, best, slot)
    # The decision at a node is one of its slots; a label is padded with -1 to the longest path possible.
    width = max(last - first, 0)
    slot_of = np.empty(len(dag.arc), np.int64)
    slot_of[dag.arc] = np.arange(len(dag.arc))

    def padded(path: IntArray) -> IntArray:
        label = np.full(width, -1, np.int64)
        label[: len(path)] = slot_of[path]
        return label

    def branch(label: IntArray, position: int, forbidden: BoolArray) -> tuple[IntArray, FloatArray, IntArray]:
        return _branch(dag.ptr, dag.arc, dag.head, c, first, last, best, slot, label, position, forbidden)

    no_goods = [tuple(padded(path).tolist()) for path in _no_good_paths(forbid, len(dag.arc), width)]
    labels, values = lawler_k_best(best_first(padded(arcs), value, branch, len(dag.arc)), k, no_goods)
    return [dag.arc[label[label >= 0]] for label in labels], values


def _no_good_paths(forbid: list[npt.ArrayLike] | None, n_arcs: int, width: int) -> list[IntArray]:
    paths = [integers(path, "forbid", 1) for path in forbid or ()]
    for path in paths:
        if len(path) > width or (path < 0).any() or (path >= n_arcs).any():
            raise DeclarationError(f"The excluded path {path.tolist()} is not one from the source to the sink.")
    return paths


def _cycle(tails: IntArray, heads: IntArray, ordered: IntArray, n: int) -> str:
    """A cycle among the nodes that could not be ordered: each of them has a predecessor there; follow those."""
    stuck = np.ones(n, np.bool_)
    stuck[ordered] = False
    inner = stuck[tails] & stuck[heads]
    before = dict(zip(heads[inner].tolist(), tails[inner].tolist(), strict=True))
    node = next(iter(before))
    seen: list[int] = []
    while node not in seen:
        seen.append(node)
        node = before[node]
    loop = [*seen[seen.index(node) :], node][::-1]
    return " -> ".join(map(str, loop))


@kernel
def _backward(
    ptr: IntArray,
    arc: IntArray,
    head: IntArray,
    c: FloatArray,
    source: int,
    sink: int,
    best: FloatArray,
    slot: IntArray,
) -> None:
    """``best[p]`` = best gain from place p to the sink and its first slot, for the places from source to sink."""
    if source > sink:
        best[source] = -np.inf
        return
    best[sink] = 0.0
    for p in range(sink - 1, source - 1, -1):
        top, at = -np.inf, -1
        for q in range(ptr[p], ptr[p + 1]):
            h = head[q]
            v = c[arc[q]] + best[h] if h <= sink else -np.inf
            if v > top:
                top, at = v, q
        best[p] = top
        slot[p] = at


@kernel
def _best_path(
    ptr: IntArray, arc: IntArray, head: IntArray, c: FloatArray, source: int, sink: int
) -> tuple[IntArray, float, int]:
    n = ptr.size - 1
    arcs = np.empty(max(sink - source, 0), np.int64)
    if unusable(c):
        return arcs, np.nan, BAD_NUMBER
    best, slot = np.empty(n), np.empty(n, np.int64)
    _backward(ptr, arc, head, c, source, sink, best, slot)
    if best[source] == -np.inf:
        return arcs, -np.inf, INFEASIBLE
    length, value, p = 0, 0.0, source
    while p != sink:
        arcs[length] = arc[slot[p]]
        value += c[arcs[length]]
        length += 1
        p = head[slot[p]]
    return arcs[:length], value, SOLVED


@kernel
def _best_path_batch(
    ptr: IntArray, arc: IntArray, head: IntArray, c: FloatArray, source: int, sink: int
) -> tuple[BoolArray, FloatArray, int, int]:
    n, count = ptr.size - 1, c.shape[0]
    used = np.zeros(c.shape, np.bool_)
    values = np.zeros(count)
    best, slot = np.empty(n), np.empty(n, np.int64)
    for i in range(count):
        if unusable(c[i]):
            return used, values, BAD_NUMBER, i
        _backward(ptr, arc, head, c[i], source, sink, best, slot)
        if best[source] == -np.inf:
            return used, values, INFEASIBLE, i
        p = source
        while p != sink:
            used[i, arc[slot[p]]] = True
            values[i] += c[i, arc[slot[p]]]
            p = head[slot[p]]
    return used, values, SOLVED, -1


@kernel
def _branch(
    ptr: IntArray,
    arc: IntArray,
    head: IntArray,
    c: FloatArray,
    source: int,
    sink: int,
    best: FloatArray,
    slot: IntArray,
    label: IntArray,
    position: int,
    forbidden: BoolArray,
) -> tuple[IntArray, FloatArray, IntArray]:
    """The new cells of `lawler.best_first`: one for every step of the path from `position` on."""
    width = label.size
    labels = np.full((width - position, width), -1, np.int64)
    values = np.full(width - position, -np.inf)
    p = source
    for q in range(position):
        p = head[label[q]]
    cells = 0
    while p != sink:
        q = position + cells
        top, at = -np.inf, -1
        for w in range(ptr[p], ptr[p + 1]):
            if head[w] > sink or w == label[q] or (cells == 0 and forbidden[w]):
                continue
            v = c[arc[w]] + best[head[w]]
            if v > top:
                top, at = v, w
        if at >= 0:
            out = labels[cells]
            assign(out[:q], label)
            w, step = at, q
            while True:
                out[step] = w
                step += 1
                if head[w] == sink:
                    break
                w = slot[head[w]]
            value = 0.0
            for r in range(step):
                value += c[arc[out[r]]]
            values[cells] = value
        p = head[label[q]]
        cells += 1
    return labels[:cells], values[:cells], np.arange(position, position + cells)


class PathAlgorithm(Algorithm):
    """Best paths in acyclic graphs, one per pair of source and sink, by the backward recursion.

    Parameters
    ----------
    dag : Dag
    ends : sequence of (source, sink)
        The paths of different pairs have no arc in common.
    """

    name = "DAG path"

    def __init__(self, dag: Dag, ends: Sequence[tuple[int, int]]) -> None:
        self._dag, self._ends = dag, list(ends)
        self._n = len(dag.arc)
        if len(self._ends) == 1:
            self.capabilities = Capability.K_BEST

    @classmethod
    def of_structure(cls, structure: Structure) -> PathAlgorithm:
        """The algorithm for the free columns of recognised paths."""
        arrays = structure.arrays
        assert isinstance(arrays, Path)
        ends = [(int(s), int(t)) for s, t in zip(arrays.sources, arrays.sinks, strict=True)]
        return cls(Dag.from_arcs(arrays.tail, arrays.head), ends)

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        z, value = np.zeros(self._n), 0.0
        for source, sink in self._ends:
            arcs, own = best_path(self._dag, c, source, sink)
            z[arcs] = 1.0
            value += own
        return Optimum(z, value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        used = [best_path_batch(self._dag, C, source, sink)[0] for source, sink in self._ends]
        return Solutions.of_labels(C, np.asarray(np.sum(used, axis=0, dtype=np.float64)))

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        found = k_best(self._dag, c, *self._ends[0], k)[0] if k > 0 else []
        Z = np.zeros((len(found), self._n))
        for row, arcs in zip(Z, found, strict=True):
            row[arcs] = 1.0
        return Solutions.of_labels(c, Z)
