"""Sets of leaves in a DAG: a label with a proof over all nodes, and a solver for the few that it leaves open."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.backends.combinatorial import Algorithm
from structopt.compiled import FEASIBILITY_TOLERANCE, FloatArray
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy
from structopt.kernels.leaf_set_core import fold, unfold
from structopt.kernels.leaf_set_prices import IN, OPEN, sweep
from structopt.kernels.leaf_set_search import label_and_proof, open_more, open_undecided, value_of
from structopt.kernels.products import dot
from structopt.kernels.threads import in_threads
from structopt.label import Label
from structopt.structures._leaf_set_program import OpenProgram

__all__ = ["LeafSetOracle"]

# Between a point and its proof, relative to the gains that enter; without a solver the rounding stays near 1e-16.
_GAP = 1e-9
# What counts as a wrong sign of a reduced gain, relative to the same.
_SIGN = 1e-13
# Labels to try before a solver is asked, and programs before it gets the whole core.
_LABELS = 4
_PROGRAMS = 30


class LeafSetOracle(Algorithm):
    """Sets of leaves with their ancestors on a DAG: the linear program of MATH.md 6.5, or the best label.

    Parameters
    ----------
    hierarchy : Hierarchy
    relaxed : bool
        Whether fractional optima of the linear program are answers. If not, an integer program settles them.

    Notes
    -----
    Every answer is proved: multipliers of the rows give an upper bound over *all* nodes
    (`structopt.kernels.leaf_set_prices`), and a point is returned when its value reaches the bound, up to 1e-9 of the
    gains. Sweeps over the graph find most points and multipliers. Nodes whose reduced gains contradict them are opened,
    HiGHS solves the program over the open nodes, its multipliers go into the next sweep, and so on: in the worst case
    all nodes are open.

    The integer program is over the nodes that its bound does not decide: with the bound D of the linear program and a
    label of value V, a node with ``|g_n| > D - V`` keeps its value in every better label (reduced cost fixing).

    Examples
    --------
    >>> import numpy as np
    >>> import structopt as so
    >>> from structopt.structures._leaf_set_oracle import LeafSetOracle
    >>> h = so.Hierarchy([("ab", "a"), ("ab", "b"), ("bc", "b"), ("bc", "c"), ("ac", "a"), ("ac", "c")])
    >>> gains = np.where(h.is_leaf, -0.9, 1.0)
    >>> LeafSetOracle(h, relaxed=True).maximize(gains)
    Label(value=1.65, fractional, optimal)
    >>> LeafSetOracle(h).maximize(gains)
    Label(value=1.2, integral, optimal)
    """

    name = "sets of leaves in a DAG"

    def __init__(self, hierarchy: Hierarchy, *, relaxed: bool = False) -> None:
        self.relaxed = relaxed
        self._core = _Core(hierarchy)
        self._idle: list[_Work] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle": []}

    def over(self, *, relaxed: bool) -> LeafSetOracle:
        """This oracle over the relaxation or over labels."""
        if relaxed == self.relaxed:
            return self
        other = object.__new__(LeafSetOracle)
        other.__dict__.update(self.__dict__, relaxed=relaxed)
        return other

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Label:
        work = self._take()
        try:
            bound = work.solve(c, self.relaxed)
            z = work.z[1:].copy()
        finally:
            self._idle.append(work)
        value = dot(np.ascontiguousarray(c), z)
        proved = bound - value <= 1e-9 * abs(value)  # they agree, up to rounding
        return Label(z, value, None if self.relaxed else True, bound=value if proved else max(value, bound))

    def maximize_batch(
        self, C: FloatArray, n_jobs: int = 1, keys: Sequence[Hashable] | None = None
    ) -> list[Label | None]:
        found: list[Label | None] = [None] * len(C)

        def work(first: int, last: int) -> None:
            for k in range(first, last):
                found[k] = self.maximize(C[k])

        in_threads(work, len(C), n_jobs)
        return found

    def maximize_columns(
        self, gains: FloatArray, keys: Sequence[Hashable] | None = None
    ) -> tuple[sp.csr_array, FloatArray]:
        """Points ``(examples, nodes)`` and values for gains ``(nodes, examples)``."""
        C = np.ascontiguousarray(gains.T)
        if not np.isfinite(C.sum()) and not np.isfinite(C).all():
            raise DeclarationError("a node's gain is not finite.")
        chosen, parts = [], []
        values = np.empty(len(C))
        work = self._take()
        try:
            for k, c in enumerate(C):
                work.solve(c, self.relaxed)
                z = work.z[1:]
                chosen.append(np.flatnonzero(z))
                parts.append(z[chosen[-1]])
                values[k] = dot(c, z)
        finally:
            self._idle.append(work)
        ptr = np.concatenate([[0], np.cumsum([part.size for part in parts])]).astype(np.int64)
        none: list[Any] = [np.empty(0)]
        table = (np.concatenate(parts or none), np.concatenate(chosen or none).astype(np.int64), ptr)
        return sp.csr_array(table, shape=C.shape), values

    def _take(self) -> _Work:
        try:
            return self._idle.pop()  # atomic, as is append: every thread has scratch of its own
        except IndexError:
            return _Work(self._core)


class _Core:
    """The nodes with several parents and all above them, under one node above all roots (`leaf_set_core`)."""

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
        self.place = np.where(kept, np.cumsum(kept) - 1, -1)
        inside = kept[tail] & kept[head]
        tail, head = self.place[tail[inside]], self.place[head[inside]]
        by_child = np.lexsort((tail, head))
        self.tail, self.head = tail[by_child], head[by_child]
        self.size = int(kept.sum())
        self.up_ptr = _pointer(self.head, self.size)
        self.arc = np.argsort(self.tail, kind="stable")
        self.kid = self.head[self.arc]
        self.down_ptr = _pointer(self.tail, self.size)
        self.inner = np.diff(self.down_ptr) > 0

    @property
    def graph(self) -> Any:
        """What every kernel takes first: parents and children by node."""
        return self.up_ptr, self.tail, self.down_ptr, self.kid


def _pointer(ends: Any, n: int) -> Any:
    return np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))]).astype(np.int64)


class _Work:
    """The arrays and the solver of one thread."""

    def __init__(self, core: _Core) -> None:
        self._core = core
        n, m = core.above.size, core.size
        self.z = np.zeros(n)
        self._gain = np.zeros(n)
        self._outside = np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n, np.bool_)
        self._gains = np.zeros(m), np.zeros(m, np.bool_), np.zeros(m)  # rho, needy, alt
        self._state, self._x, self._s = np.zeros(m, np.int64), np.zeros(m), np.zeros(m)
        self._priced, self._lam, self._mu = np.zeros(m, np.bool_), np.zeros(core.head.size), np.zeros(m)
        self._g, self._room, self._ease, self._value = (np.zeros(m) for _ in range(4))
        self._paid = np.zeros(m, np.bool_)
        self._program = OpenProgram(core)

    def solve(self, c: FloatArray, relaxed: bool) -> float:
        """Write the best point into `z`; a bound on every other."""
        core = self._core
        self._gain[1:] = c
        largest = fold(self._gain, core.above, core.place, core.inner, *self._outside, *self._gains)
        arguments: Any = (*core.graph, *self._gains, *self._sweep_state(), self._s, largest, _GAP, _LABELS)
        value, bound = label_and_proof(*arguments)
        if not bound - value <= _GAP * self._size(largest):
            bound = self._by_programs(largest)
            if not relaxed:
                bound = self._value_rounded() if self._is_integral() else self._by_integers(largest)
        unfold(self._x, self._s, core.above, core.place, core.inner, *self._outside, self.z)
        return bound

    def _sweep_state(self) -> Any:
        prices = self._priced, self._lam, self._mu, self._g
        return self._state, self._x, *prices, self._room, self._ease, self._paid, self._value

    def _size(self, largest: float) -> float:
        return largest + dot(np.abs(self._gains[0]), self._x)

    def _sweep(self) -> float:
        arguments: Any = (*self._core.graph, *self._gains, *self._sweep_state())
        return sweep(*arguments)

    def _point_value(self) -> float:
        return value_of(self._core.down_ptr, self._core.kid, *self._gains, self._x, self._s)

    def _by_programs(self, largest: float) -> float:
        """Open nodes until the bound meets the value; the bound."""
        state, x = self._state, self._x
        self._priced[:] = False
        bound = self._sweep()
        for k in range(_PROGRAMS):
            wrong: Any = (*self._core.graph, self._core.arc, self._gains[1], self._paid, state, self._lam, self._g)
            wrong = (*wrong, _SIGN * self._size(largest))
            if not open_more(*wrong) or k == _PROGRAMS - 1:
                state[1:] = OPEN
            self._program.solve(self._gains, state, x, (self._lam, self._mu, self._priced))
            fixed = state != OPEN
            x[fixed] = state[fixed] == IN
            bound = self._sweep()
            if bound - self._point_value() <= _GAP * self._size(largest) or (state[1:] == OPEN).all():
                break
        return bound

    def _is_integral(self) -> bool:
        return bool((np.abs(self._x - np.rint(self._x)) <= FEASIBILITY_TOLERANCE).all())

    def _value_rounded(self) -> float:
        np.rint(self._x, out=self._x)
        return self._point_value()

    def _by_integers(self, largest: float) -> float:
        """The best label, after the linear program; its value."""
        state, x, g = self._state, self._x, self._g
        bound = g[0] + np.maximum(g[1:], 0.0).sum()
        unpriced = np.empty_like(self._lam), np.empty_like(self._mu), np.empty_like(self._priced)
        self._program.solve(self._gains, state, x, unpriced, integral=True)
        slack = bound - self._point_value() + _GAP * self._size(largest)
        if open_undecided(self._core.up_ptr, self._core.tail, state, g, slack):
            self._program.solve(self._gains, state, x, unpriced, integral=True)
        return self._point_value()
