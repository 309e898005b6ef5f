"""The loss-indexed Pareto front of trees: the best needed-child set for every value of an integer loss.

Tables are merged child by child. With `X[c]` the table of a chosen child c by loss and `P` the table of the children
merged so far *with at least one chosen*, merging c gives

    P'[e] = max( P[e],  X[c][e],  max_f P[e - f] + X[c][f] )        (c left out; c alone; c with others)

and ``X[i][e] = gain_i + P_i[e - loss_i]`` once all children of i are in. A table is never wider than the sum of |loss|
below it plus one, so that all merges together take O((sum |loss|)^2 + n).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from structopt._jit import SOLVED, FloatArray, IntArray, assign, check_front, floats, integers, kernel
from structopt._jit.threads import in_threads
from structopt.algorithms.fronts import FrontPlan, Fronts
from structopt.algorithms.lawler import BoolArray
from structopt.algorithms.tree.labels import fail_tree, refused
from structopt.errors import DeclarationError

__all__ = ["TreeFrontPlan", "TreeFronts", "closure_forest", "common_unit", "loss_front", "loss_front_batch"]

# Losses of one example, in units, up to which its Pareto front is made: merging takes their square.
_MOST_LOSSES = 10_000


def loss_front(
    gain: npt.ArrayLike, parent: npt.ArrayLike, loss: npt.ArrayLike
) -> tuple[IntArray, FloatArray, BoolArray]:
    """The best needed-child set for every value of an integer loss that is linear in the chosen nodes.

    For every psi(h, g) that does not decrease in h the maximum of psi over all sets is attained on this front
    (docs/mathematics/oracles#loss-indexed-pareto-fronts). Ties leave later-numbered children in and
    earlier ones out.

    Parameters
    ----------
    gain, parent :
        As in `needed_child`.
    loss : array_like of int, shape (n,)
        Loss of choosing each node, of any sign; the Hamming loss is ``1 - 2 truth`` plus the constant ``sum(truth)``.

    Returns
    -------
    losses : ndarray of int64, shape (m,)
        The values that ``loss . chosen`` can take, increasing (without the caller's constant).
    values : ndarray, shape (m,)
        Best gain at each.
    chosen : ndarray of bool, shape (m, n)

    Examples
    --------
    >>> losses, values, _ = loss_front([-1, 0.5, -2, -0.3, -0.4], [-1, 0, 0, 1, 1], [0, 0, 1, -1, 1])
    >>> losses.tolist(), values.round(12).tolist()
    ([-1, 0, 1, 2], [-0.8, -1.2, -0.9, -2.9])
    """
    r, up = floats(gain, "gain", 1), integers(parent, "parent", 1)
    weight = integers(loss, "loss", 1)
    if weight.shape != r.shape:
        raise DeclarationError(f"loss has shape {weight.shape}; there are {len(r)} nodes.")
    check_front(weight, len(r) + 1)
    losses, values, chosen, status = _loss_front(r, up, weight)
    if status:
        fail_tree(status)
    return losses, values, chosen


@kernel
def _loss_front(r: FloatArray, parent: IntArray, loss: IntArray) -> tuple[IntArray, FloatArray, BoolArray, int]:
    n = parent.size
    status = refused(r, parent)
    if status:
        return np.empty(0, np.int64), np.empty(0), np.empty((0, n), np.bool_), status
    last, before, low, start = _layout(parent, loss)
    table = np.full(start[0], -np.inf)
    for i in range(n - 1, -1, -1):
        out = table[start[i + 1] : start[i]]
        _merge(i, r, loss, last, before, low, start, table, out)

    top = last[n]
    root = table[start[top + 1] : start[top]]
    count = 0
    for e in range(root.size):
        count += root[e] > -np.inf
    losses, values = np.empty(count, np.int64), np.zeros(count)
    chosen = np.zeros((count, n), np.bool_)
    stack = np.empty((n + 1, 2), np.int64)
    row = 0
    for e in range(root.size):
        if root[e] == -np.inf:
            continue
        losses[row] = low[top] + e
        _decode(losses[row], top, r, loss, last, before, low, start, table, stack, chosen[row])
        for i in range(n):
            values[row] += r[i] if chosen[row, i] else 0.0
        row += 1
    return losses, values, chosen, SOLVED


@kernel
def _layout(parent: IntArray, loss: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Where the tables are: the one after merging child i is ``table[start[i + 1]:start[i]]`` from loss ``low[i]`` on.

    ``last[p]`` is the child of p merged last and ``before[i]`` the one merged before i (-1: none). Children are merged
    in descending order; slot n is the virtual root.
    """
    n = parent.size
    last, before = np.full(n + 1, -1), np.full(n, -1)
    low, high, start = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    for i in range(n - 1, -1, -1):
        p = parent[i] if parent[i] >= 0 else n
        lo = hi = loss[i]
        if last[i] >= 0:
            lo += low[last[i]]
            hi += high[last[i]]
        # Leaving the child out adds loss 0, so 0 belongs to every range.
        lo, hi = min(lo, 0), max(hi, 0)
        before[i] = last[p]
        if last[p] >= 0:
            lo += min(low[last[p]], 0)
            hi += max(high[last[p]], 0)
        low[i], high[i] = lo, hi
        last[p] = i
        start[i] = start[i + 1] + hi - lo + 1
    return last, before, low, start


@kernel
def _own(
    i: int, last: IntArray, low: IntArray, start: IntArray, loss: IntArray, table: FloatArray, leaf: FloatArray
) -> tuple[int, FloatArray]:
    """Table of the chosen node i without its gain, and the loss of its first entry."""
    if last[i] < 0:
        return loss[i], leaf
    return loss[i] + low[last[i]], table[start[last[i] + 1] : start[last[i]]]


@kernel
def _merge(
    i: int,
    r: FloatArray,
    loss: IntArray,
    last: IntArray,
    before: IntArray,
    low: IntArray,
    start: IntArray,
    table: FloatArray,
    out: FloatArray,
) -> None:
    base, own = _own(i, last, low, start, loss, table, np.zeros(1))
    shift = base - low[i]
    for f in range(own.size):
        out[shift + f] = r[i] + own[f]
    if before[i] < 0:
        return
    rest = table[start[before[i] + 1] : start[before[i]]]
    offset = low[before[i]] - low[i]
    for e in range(rest.size):
        out[offset + e] = max(out[offset + e], rest[e])
    shift = base + low[before[i]] - low[i]
    for e in range(rest.size):
        if rest[e] == -np.inf:
            continue
        row = out[shift + e : shift + e + own.size]
        for f in range(own.size):
            v = rest[e] + (r[i] + own[f])
            row[f] = v if v > row[f] else row[f]


@kernel
def _decode(
    target: int,
    top: int,
    r: FloatArray,
    loss: IntArray,
    last: IntArray,
    before: IntArray,
    low: IntArray,
    start: IntArray,
    table: FloatArray,
    stack: IntArray,
    chosen: BoolArray,
) -> None:
    """Choose the nodes of one entry by looking again for the term that attains each maximum."""
    leaf = np.zeros(1)
    stack[0, 0], stack[0, 1] = top, target
    depth = 1
    while depth:
        depth -= 1
        i, e = stack[depth, 0], stack[depth, 1]
        base, own = _own(i, last, low, start, loss, table, leaf)
        prior = before[i]
        best, mine, others = -np.inf, False, False
        split = e
        if 0 <= e - base < own.size:
            best, mine = r[i] + own[e - base], True
        if prior >= 0:
            rest = table[start[prior + 1] : start[prior]]
            floor = low[prior]
            if 0 <= e - floor < rest.size and rest[e - floor] >= best:
                best, mine, others = rest[e - floor], False, True
            # f, the child's share of the loss, runs where both tables have an entry.
            for f in range(max(base, e - floor - rest.size + 1), min(base + own.size - 1, e - floor) + 1):
                v = rest[e - f - floor] + (r[i] + own[f - base])
                if v > best:
                    best, mine, others, split = v, True, True, f
        if mine:
            chosen[i] = True
            if last[i] >= 0:
                stack[depth, 0], stack[depth, 1] = last[i], split - loss[i]
                depth += 1
        if others:
            stack[depth, 0], stack[depth, 1] = prior, (e - split if mine else e)
            depth += 1


# ---- many examples -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TreeFronts:
    """The best gains by loss: those of example i are ``values[ptr[i]:ptr[i + 1]]``, from the loss ``low[i]`` on.

    A gain is ``-inf`` where no set has that loss.
    """

    ptr: IntArray
    low: IntArray
    values: FloatArray
    _rows: tuple[FloatArray, IntArray, IntArray]
    _tables: tuple[FloatArray, IntArray]

    def decode(self, losses: IntArray) -> BoolArray:
        """The best set with the given loss of every example; empty where there is none."""
        gains, parent, loss = self._rows
        chosen = np.zeros(gains.shape, dtype=np.bool_)
        _decode_rows(gains, parent, loss, *self._tables, np.ascontiguousarray(losses), chosen)
        return chosen


def table_entries(parent: IntArray, loss: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Entries of the tables of every row of losses, the number of its losses, and the smallest of these."""
    entries, levels, low = (np.empty(len(loss), dtype=np.int64) for _ in range(3))
    _sizes(parent, np.ascontiguousarray(loss), entries, levels, low)
    return entries, levels, low


def loss_front_batch(gains: FloatArray, parent: IntArray, loss: IntArray, n_jobs: int = 1) -> TreeFronts:
    """The best gain of a needed-child set for every value of an integer loss, of every row.

    Parameters
    ----------
    gains : ndarray, shape (n, n_nodes)
    parent : ndarray of int64, shape (n_nodes,)
        Parents before children, -1 for roots.
    loss : ndarray of int64, shape (n, n_nodes)
        Loss of choosing each node, of any sign.

    Examples
    --------
    >>> gains, loss = np.array([[-1, 0.5, -2, -0.3, -0.4]]), np.array([[0, 0, 1, -1, 1]])
    >>> front = loss_front_batch(gains, np.array([-1, 0, 0, 1, 1]), loss)
    >>> front.low.tolist(), front.values.round(12).tolist()
    ([-1], [-0.8, -1.2, -0.9, -2.9])
    >>> front.decode(np.array([1])).astype(int).tolist()
    [[1, 1, 0, 0, 1]]
    """
    rows, losses = np.ascontiguousarray(gains, dtype=np.float64), np.ascontiguousarray(loss)
    entries, levels, low = table_entries(parent, losses)
    at, ptr = (np.concatenate([[0], np.cumsum(sizes)]) for sizes in (entries, levels))
    table, values = np.empty(at[-1]), np.empty(ptr[-1])
    statuses: list[int] = []

    def work(first: int, last: int) -> None:
        statuses.append(_fill(rows, parent, losses, table, at, ptr, values, first, last))

    in_threads(work, len(rows), n_jobs)
    for status in statuses:
        if status:
            fail_tree(status)
    return TreeFronts(ptr, low, values, (rows, parent, losses), (table, at))


class TreeFrontPlan(FrontPlan):
    """Fronts of needed-child sets, where every loss counts in whole units.

    Parameters
    ----------
    parent : ndarray of int64
        Parents before children, -1 for roots.
    node, column : ndarray of int
        Nodes that stand for variables, and the variables' numbers; other nodes have neither gain nor loss.
    G, g_const : ndarray
        Losses of the examples, by variable.
    """

    def __init__(self, parent: IntArray, node: IntArray, column: IntArray, G: FloatArray, g_const: FloatArray) -> None:
        unit = common_unit(G)
        if unit is None:
            raise ValueError("The losses count in no unit.")
        self._parent, self._node, self._column = parent, node, column
        self._n_variables, self._unit, self._g_const = G.shape[1], unit, g_const
        self._loss = np.zeros((len(G), len(parent)), dtype=np.int64)
        self._loss[:, node] = np.rint(G[:, column] / unit)
        self.entries, levels, _ = table_entries(parent, self._loss)
        # Merging takes the square of the losses, a maximum one step a node.
        self.cost = float((1.0 + levels.astype(np.float64) ** 2 / len(parent)).mean()) if len(G) else 1.0

    @classmethod
    def of(
        cls, parent: IntArray, node: IntArray, column: IntArray, G: FloatArray, g_const: FloatArray
    ) -> TreeFrontPlan | None:
        """The plan, or None where the losses count in no unit or in too many."""
        unit = common_unit(G)
        if unit is None or np.abs(G).sum(axis=1).max(initial=0.0) / unit > _MOST_LOSSES:
            return None
        return cls(parent, node, column, G, g_const)

    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        gains = np.zeros((len(some), len(self._parent)))
        gains[:, self._node] = H[:, self._column]
        found = loss_front_batch(gains, self._parent, self._loss[some], n_jobs)
        width = np.diff(found.ptr)
        level = np.arange(len(found.values)) - np.repeat(found.ptr[:-1] - found.low, width)
        g = np.repeat(self._g_const[some], width) + self._unit * level

        def decode(places: IntArray) -> FloatArray:
            chosen = found.decode(places - found.ptr[:-1] + found.low)
            Z = np.zeros((len(places), self._n_variables))
            Z[:, self._column] = chosen[:, self._node]
            return Z

        return Fronts(found.ptr, found.values + np.repeat(h_const, width), g, decode)


def closure_forest(parent: IntArray) -> IntArray:
    """The forest whose needed-child sets are the closures of `parent`.

    Every internal node, and the virtual root above all, has one more child, of gain 0 and loss 0, to be satisfied with.
    """
    inner = np.unique(parent[parent >= 0])
    return np.concatenate([parent, inner, [-1]])


def common_unit(g: FloatArray) -> float | None:
    """A number of which all entries are whole multiples: the smallest magnitude or a small fraction of it, else None.

    Sibling weights such as 1/2 and 1/3 count in sixths.
    """
    size = np.unique(np.abs(g[g != 0]))
    if not size.size:
        return 1.0
    for divisor in range(1, 61):
        unit = float(size[0]) / divisor
        if (np.abs(size / unit - np.rint(size / unit)) <= 1e-9).all():
            return unit
    return None


@kernel
def _sizes(parent: IntArray, loss: IntArray, entries: IntArray, levels: IntArray, lowest: IntArray) -> None:
    for k in range(loss.shape[0]):
        last, _, low, start = _layout(parent, loss[k])
        top = last[parent.size]
        entries[k] = start[0]
        levels[k] = start[top] - start[top + 1]
        lowest[k] = low[top]


@kernel
def _fill(
    gains: FloatArray,
    parent: IntArray,
    loss: IntArray,
    table: FloatArray,
    at: IntArray,
    ptr: IntArray,
    values: FloatArray,
    begin: int,
    end: int,
) -> int:
    n = parent.size
    for k in range(begin, end):
        status = refused(gains[k], parent)
        if status:
            return status
        last, before, low, start = _layout(parent, loss[k])
        own = table[at[k] : at[k + 1]]
        own[:] = -np.inf
        for i in range(n - 1, -1, -1):
            _merge(i, gains[k], loss[k], last, before, low, start, own, own[start[i + 1] : start[i]])
        top = last[n]
        assign(values[ptr[k] : ptr[k + 1]], own[start[top + 1] : start[top]])
    return SOLVED


@kernel
def _decode_rows(
    gains: FloatArray,
    parent: IntArray,
    loss: IntArray,
    table: FloatArray,
    at: IntArray,
    losses: IntArray,
    chosen: BoolArray,
) -> None:
    n = parent.size
    stack = np.empty((n + 1, 2), np.int64)
    for k in range(losses.size):
        last, before, low, start = _layout(parent, loss[k])
        own = table[at[k] : at[k + 1]]
        top = last[n]
        place = losses[k] - low[top]
        if 0 <= place < start[top] - start[top + 1] and own[start[top + 1] + place] > -np.inf:
            _decode(losses[k], top, gains[k], loss[k], last, before, low, start, own, stack, chosen[k])
