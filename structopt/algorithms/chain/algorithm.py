"""The algorithm of one-of-many groups on a forest: chains and trees of groups, shipped and declared."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from math import isqrt

import numpy as np

from structopt._jit import FloatArray, IntArray, floats
from structopt._jit.threads import in_threads
from structopt.algorithms.base import Optimum, Solutions
from structopt.algorithms.chain import by_loss, forest, loops, viterbi
from structopt.algorithms.diagram.algorithm import PathsAlgorithm
from structopt.algorithms.diagram.diagram import Diagram
from structopt.algorithms.fronts import FrontPlan, Fronts
from structopt.algorithms.question import Question, per_question
from structopt.errors import InfeasibleSpace
from structopt.recognize import GroupForest, Record

__all__ = ["GroupForestAlgorithm"]

#: Entries of the table of a front, and of the points that it returns.
_FRONT_ENTRIES = 10_000_000
#: Pairs up to which the front of a diagram is made: 1 ms. With 12,800 pairs it takes 23 ms, and a search 1 ms.
_FEW_PAIRS = 500
_EMPTY = "No choice of states satisfies the rows: each choice has a forbidden pair."


class GroupForestAlgorithm(PathsAlgorithm):
    """One state of every group; the pairs of states that may meet join the groups to a forest.

    If no group has more than two neighbours, the groups form chains, and all questions are answered. Of other forests
    there is no diagram: a tree is not a path. They have the best label, sums and samples.
    """

    name = "max-sum on a forest"
    steps = per_question(
        argmax="pairs of states",
        k_best="pairs of states + k x groups x states",
        outside="pairs of states + forbidden x groups x states",
        side_rows="pairs of states x paths of the search",
        front="losses x pairs of states",
        sums="pairs of states",
        sample="pairs of states",
    )

    def __init__(self, record: GroupForest, n: int) -> None:
        self._n = n
        self._forest = _sorted_arrays(record)
        self._order = _line_of(record.parent)
        self._n_states, self._forbidden, self._start = _in_order(self._forest, self._order, n)
        # Labels with the same integer variables are one: only integer states distinguish all labels.
        self.answers = Question.ARGMAX
        if record.integer:
            self.answers = ~Question(0) if self._order.size else Question.ARGMAX | Question.SUMS | Question.SAMPLE

    @classmethod
    def of_record(cls, record: Record, n: int) -> GroupForestAlgorithm:
        assert isinstance(record, GroupForest)
        return cls(record, n)

    @cached_property
    def _line(self) -> _Line:
        return _Line(self._forest, self._order, self._n_states, self._forbidden, self._n)

    def make_diagram(self) -> Diagram:
        return self._line.diagram()

    # ---- the best label --------------------------------------------------------------------------

    def _solve(self, C: FloatArray, Z: FloatArray, values: FloatArray) -> None:
        if self._n_states:
            failed = loops.best_points(C, len(self._order), self._forbidden, self._start, Z, values)
        else:
            failed = forest.best_states(C, self._forest, Z, values)
        if failed >= 0:
            raise InfeasibleSpace(_EMPTY)

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        Z, values = np.zeros((1, self._n)), np.empty(1)
        self._solve(floats(c[None], "c", 2), Z, values)
        value = float(values[0])
        return Optimum(Z[0], value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        costs = floats(C, "C", 2)
        Z, values = np.zeros((len(C), self._n)), np.empty(len(C))
        in_threads(lambda a, b: self._solve(costs[a:b], Z[a:b], values[a:b]), len(C), n_jobs)
        return Solutions(Z, values, values.copy())

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        if k < 1:
            return Solutions.stacked([], self._n)
        # In half of the time of the diagram, which has an arc for every pair.
        labels, values = viterbi.k_best(*self._line.tables(c[None]), k, self._line.start)
        return Solutions(self._line.points(labels), values, values)

    # ---- two criteria ----------------------------------------------------------------------------

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        plan = self.front_plan(g[None], np.array([g_const]))
        if not isinstance(plan, _ChainFronts):
            return super().front(h, h_const, g, g_const) if self._few_pairs else None
        if plan.entries[0] > _FRONT_ENTRIES or plan.units.levels[0] * self._n > _FRONT_ENTRIES:
            return None
        found = plan.best_scores(h[None], np.zeros(1, dtype=np.int64))
        # Largest g first; a level is on the front if its h exceeds every h before it.
        falling = found.values[::-1]
        kept = falling > np.maximum.accumulate(np.concatenate([[-np.inf], falling[:-1]]))
        levels = len(falling) - 1 - np.flatnonzero(kept)
        return self._line.points(found.decode(levels, np.zeros_like(levels)).reshape(len(levels), -1))

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        if Question.FRONT not in self.answers:
            return None
        units = self._line.loss_units(G)
        if units is not None:
            return _ChainFronts(self._line, units, g_const)
        return super().front_plan(G, g_const) if self._few_pairs else None

    @property
    def _few_pairs(self) -> bool:
        """Whether the diagram makes fronts of losses that count in no unit, or of pairs; a search is faster if not."""
        return len(self._forest[-1]) <= _FEW_PAIRS

    # ---- sums over all labels --------------------------------------------------------------------

    def log_partition(self, C: FloatArray) -> FloatArray:
        return self._expectations(C)[1]

    def marginals(self, C: FloatArray) -> FloatArray:
        return self._expectations(C)[0]

    def sums(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, log_z = self._expectations(C)
        return log_z, mean

    def covariance_products(self, C: FloatArray, V: FloatArray) -> FloatArray:
        return self._expectations(C, floats(V, "V", 2))[0]

    def _expectations(self, C: FloatArray, V: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        mean, log_z = np.zeros((len(C), self._n)), np.empty(len(C))
        if forest.expectations(floats(C, "C", 2), V, self._forest, mean, log_z) >= 0:
            raise InfeasibleSpace(_EMPTY)
        return mean, log_z

    def sample(self, c: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
        Z = np.zeros((size, self._n))
        if forest.draw_states(floats(c, "c", 1), self._forest, rng.random((size, self._forest[2].size)), Z) >= 0:
            raise InfeasibleSpace(_EMPTY)
        return Z


def _sorted_arrays(record: GroupForest) -> forest.Arrays:
    """Return the arrays of a record, with the pairs of each group sorted by the state of the parent."""
    above, below, pair = record.above, record.below, record.pair
    child = np.repeat(np.arange(len(record.parent)), np.diff(record.pair_ptr))
    key = child * (1 + int(above.max(initial=0))) + above
    if (np.diff(key) < 0).any():
        order = np.argsort(key, kind="stable")
        above, below, pair = above[order], below[order], pair[order]
    return record.state_ptr, record.column, record.parent, record.pair_ptr, above, below, pair


def _line_of(parent: IntArray) -> IntArray:
    """Return the groups in the order of one chain, tree after tree; nothing if a group has three neighbours."""
    below: list[list[int]] = [[] for _ in range(len(parent))]
    roots = np.flatnonzero(parent < 0).tolist()
    for group, above in enumerate(parent.tolist()):
        if above >= 0:
            below[above].append(group)
    order: list[int] = []
    for root in roots:
        # A root inside of its chain is where two arms meet.
        arms = [[group] for group in below[root]]
        for arm in arms:
            while len(below[arm[-1]]) == 1:
                arm += below[arm[-1]]
        order += [*(arms[1][::-1] if len(arms) == 2 else ()), root, *(arms[0] if arms else ())]
    return np.array(order if len(order) == len(parent) else [], dtype=np.int64)


def _in_order(arrays: forest.Arrays, order: IntArray, n: int) -> tuple[int, FloatArray, FloatArray]:
    """Return the number of states if costs are tables by (position, state) and (step, from, to), or 0.

    Also -inf for the transitions that are forbidden, and for the states that may not come first.
    """
    state_ptr, column, parent, pair_ptr, above, below, pair = arrays
    T = len(order)
    # T S + (T - 1) S^2 variables, and perhaps a few more that no label has.
    S = 0 if not T else n if T == 1 else (isqrt(T * T + 4 * (T - 1) * n) - T) // (2 * (T - 1))
    none = 0, np.empty((0, 0, 0)), np.empty(0)
    if not S or (parent != np.arange(-1, T - 1)).any() or (order != np.arange(T)).any():
        return none
    state = column - np.repeat(np.arange(T) * S, np.diff(state_ptr))
    child = np.repeat(np.arange(T), np.diff(pair_ptr))
    source, target = state[state_ptr[child - 1] + above], state[state_ptr[child] + below]
    place = ((child - 1) * S + source) * S + target
    if (state < 0).any() or (state >= S).any() or (pair != T * S + place).any():
        return none
    # The kernel of lists of pairs is faster if less than one pair of ten may meet.
    if 10 * len(pair) < (T - 1) * S * S:
        return none
    start = np.full(S, -np.inf)
    start[state[: state_ptr[1]]] = 0.0
    forbidden = np.zeros((0, S, S))
    if len(pair) < (T - 1) * S * S:
        forbidden = np.full((T - 1, S, S), -np.inf)
        forbidden.reshape(-1)[place] = 0.0
    # All steps have one rule, except for the states that may not come first.
    first = start == 0.0
    if T > 2 and (forbidden[1:] == forbidden[1:2]).all() and (forbidden[:1, first] == forbidden[1:2, first]).all():
        forbidden = forbidden[1:2] if forbidden[1:2].any() else forbidden[:0]
    return S, forbidden, start


class _Line:
    """Groups in the order of one chain, as tables by position and state.

    Groups with fewer states than the largest one are filled up with states that are never reached. Every state may
    follow the last group of a tree.
    """

    def __init__(self, arrays: forest.Arrays, order: IntArray, n_states: int, forbidden: FloatArray, n: int) -> None:
        state_ptr, column, parent, pair_ptr, above, below, pair = arrays
        T, sizes = len(order), np.diff(state_ptr)
        self._n, self._dense = n, n_states > 0
        if self._dense:
            S = n_states
            self.column = np.arange(T * S).reshape(T, S)
            self.pair = T * S + np.arange((T - 1) * S * S).reshape(T - 1, S, S)
            self.start = np.full(S, -np.inf)
            self.start[column[: state_ptr[1]]] = 0.0
            self._forbidden = forbidden
            return
        S = int(sizes.max())
        place = np.empty(T, dtype=np.int64)
        place[order] = np.arange(T)
        group, child = np.repeat(np.arange(T), sizes), np.repeat(np.arange(T), np.diff(pair_ptr))
        self.column = np.full((T, S), -1, dtype=np.int64)
        self.column[place[group], np.arange(group.size) - state_ptr[group]] = column
        self.start = np.where(self.column[0] >= 0, 0.0, -np.inf)
        forward = place[child] > place[parent[child]]
        step = np.minimum(place[child], place[parent[child]])
        source, target = np.where(forward, above, below), np.where(forward, below, above)
        self.pair = np.full((T - 1, S, S), -1, dtype=np.int64)
        self.pair[step, source, target] = pair
        self._forbidden = np.full((T - 1, S, S), -np.inf)
        self._forbidden[step, source, target] = 0.0
        joint = (parent[order[1:]] != order[:-1]) & (parent[order[:-1]] != order[1:])
        present = self.column >= 0
        self._forbidden[joint] = np.where(present[:-1, :, None] & present[1:, None, :], 0.0, -np.inf)[joint]

    def tables(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores of states and of transitions for every row of `C`, stacked."""
        n, (T, S) = len(C), self.column.shape
        if self._dense:
            U, steps = C[:, : T * S], C[:, T * S : T * S + self.pair.size].reshape(n, T - 1, S, S)
        else:
            U, steps = (np.where(place >= 0, C[:, place], 0.0) for place in (self.column, self.pair))
        if len(self._forbidden):
            steps = steps + self._forbidden
        return U.reshape(-1, S), steps.reshape(n * (T - 1), S, S)

    def points(self, labels: IntArray) -> FloatArray:
        """Return state sequences as points."""
        Z = np.zeros((len(labels), self._n + (not self._dense)))  # a last column for pairs without a variable
        row, position = np.arange(len(labels))[:, None], np.arange(labels.shape[1])
        Z[row, self.column[position, labels]] = 1.0
        Z[row, self.pair[position[:-1], labels[:, :-1], labels[:, 1:]]] = 1.0
        return Z[:, : self._n]

    def loss_units(self, G: FloatArray) -> by_loss.LossUnits | None:
        """Return losses in whole units by position and state; None if transitions have losses, or losses no unit."""
        T, S = self.column.shape
        if G[:, slice(T * S, T * S + self.pair.size) if self._dense else self.pair[self.pair >= 0]].any():
            return None
        if self._dense:
            coef = G[:, : T * S].reshape(-1, S)
        else:
            coef = np.where(self.column >= 0, G[:, self.column], np.inf).reshape(-1, S)
            # Padding states get the loss of the best state. They are never reached.
            coef = np.where(np.isfinite(coef), coef, coef.min(axis=1, keepdims=True))
        return by_loss.loss_units(coef, np.arange(len(G) + 1) * T)

    def diagram(self) -> Diagram:
        """Return the graph with a node for every state, and an arc for every pair of states that may meet."""
        T, S = self.column.shape
        allowed = np.zeros((T - 1, S, S), dtype=np.bool_)
        allowed[:] = True if not len(self._forbidden) else self._forbidden == 0.0
        alive = np.zeros((T, S), dtype=np.bool_)
        alive[0] = self.start == 0.0
        for t in range(T - 1):
            alive[t + 1] = (allowed[t] & alive[t, :, None]).any(axis=0)
        for t in range(T - 2, -1, -1):
            alive[t] &= (allowed[t] & alive[t + 1]).any(axis=1)
        if not alive[0].any():
            raise InfeasibleSpace(_EMPTY)
        step, source, target = np.nonzero(allowed & alive[:-1, :, None] & alive[1:, None, :])
        first = np.flatnonzero(alive[0])
        # The root, the states of all positions but the last one, and the terminal.
        number = np.cumsum(alive.ravel()).reshape(T, S)
        number[-1] = n_nodes = int(alive[:-1].sum()) + 1
        tail = np.concatenate([np.zeros_like(first), number[step, source]])
        head = np.concatenate([number[0, first], number[step + 1, target]])
        state = np.concatenate([self.column[0, first], self.column[step + 1, target]])
        pair = np.concatenate([np.full_like(first, -1), self.pair[step, source, target]])
        variables = np.column_stack([state, pair])
        has = variables >= 0
        return Diagram(
            ptr=np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=n_nodes)), [len(tail)]]),
            head=head,
            label=np.arange(len(head), dtype=np.int32),
            label_ptr=np.concatenate([[0], np.cumsum(has.sum(axis=1))]),
            label_variable=variables[has],
            label_value=np.ones(int(has.sum())),
            const=np.zeros(self._n),
        )


class _ChainFronts(FrontPlan):
    """Fronts of a chain by the loss-indexed recursion."""

    def __init__(self, line: _Line, units: by_loss.LossUnits, g_const: FloatArray) -> None:
        self._line, self.units, self._g_const = line, units, g_const
        T, S = line.column.shape
        self.cost = float(units.levels.mean()) if len(g_const) else 1.0
        self.entries = by_loss.front_entries(np.full(len(g_const), T), units.levels, S)

    def best_scores(self, H: FloatArray, some: IntArray, n_jobs: int = 1) -> by_loss.LossFronts:
        T, S = self._line.column.shape
        U, steps = self._line.tables(H)
        if len(steps) and (steps[0] == steps[-1]).all() and (steps == steps[:1]).all():
            steps = steps[0]
        rows = self.units.rows.reshape(-1, T, S)[some].reshape(-1, S)
        levels = self.units.levels[some]
        return by_loss.loss_front_batch(U, np.arange(len(some) + 1) * T, steps, rows, levels, self._line.start, n_jobs)

    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        found = self.best_scores(H, some, n_jobs)
        width = np.diff(found.ptr)
        level = np.arange(len(found.values)) - np.repeat(found.ptr[:-1], width)
        base, unit = self._g_const[some] + self.units.base[some], self.units.unit[some]
        g = np.repeat(base, width) + np.repeat(unit, width) * level

        def decode(places: IntArray) -> FloatArray:
            return self._line.points(found.decode(places - found.ptr[:-1]).reshape(len(some), -1))

        return Fronts(found.ptr, found.values + np.repeat(h_const, width), g, decode)
