"""Max-sum on a forest of one-of-many groups: declared chains and trees with any number of states.

Group g has the states ``column[state_ptr[g]:state_ptr[g + 1]]``; the allowed pairs of states across the edge to
its parent are listed one by one, with the column of their pair variable or -1. Parents come before children. Ties: the
first state of a root, then the first pair of every edge.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from structopt._jit import FloatArray, IntArray, kernel
from structopt._jit.threads import in_threads
from structopt.algorithms.base import Algorithm, Solutions
from structopt.algorithms.chain import by_loss
from structopt.algorithms.chain import viterbi as chain
from structopt.algorithms.fronts import FrontPlan, Fronts
from structopt.algorithms.question import Question, per_question
from structopt.errors import InfeasibleSpace
from structopt.recognize import GroupForest, Record

__all__ = ["GroupForestAlgorithm", "best_states"]


@kernel
def best_states(
    C: FloatArray,
    state_ptr: IntArray,
    column: IntArray,
    parent: IntArray,
    pair_ptr: IntArray,
    above: IntArray,
    below: IntArray,
    pair: IntArray,
    Z: FloatArray,
) -> int:
    """Write the best label of every row of `C` into `Z` (zeros); return the first row that has none, or -1.

    From the leaves to the roots every state collects, for each child, its best pair with a state of the child; from
    the roots down the pairs remembered are followed. O(states + pairs) a row.
    """
    n_groups, n_states = parent.size, column.size
    score = np.empty(n_states)
    # Of every state of g's parent: the best pair with a state of g, at reach[g] + state.
    reach = np.zeros(n_groups + 1, dtype=np.int64)
    for g in range(n_groups):
        size = state_ptr[parent[g] + 1] - state_ptr[parent[g]] if parent[g] >= 0 else 0
        reach[g + 1] = reach[g] + size
    value, choice = np.empty(reach[n_groups]), np.empty(reach[n_groups], dtype=np.int64)
    state = np.empty(n_groups, dtype=np.int64)
    for row in range(len(C)):
        c, z = C[row], Z[row]
        for s in range(n_states):
            score[s] = c[column[s]]
        for g in range(n_groups - 1, -1, -1):
            above_group = parent[g]
            if above_group < 0:
                continue
            for k in range(reach[g], reach[g + 1]):
                value[k], choice[k] = -np.inf, -1
            first = state_ptr[g]
            for q in range(pair_ptr[g], pair_ptr[g + 1]):
                total = score[first + below[q]]
                if pair[q] >= 0:
                    total += c[pair[q]]
                k = reach[g] + above[q]
                if total > value[k]:
                    value[k], choice[k] = total, q
            start = state_ptr[above_group]
            for k in range(reach[g], reach[g + 1]):
                score[start + k - reach[g]] += value[k]
        for g in range(n_groups):
            if parent[g] < 0:
                best, top = -1, -np.inf
                for s in range(state_ptr[g], state_ptr[g + 1]):
                    if score[s] > top:
                        best, top = s, score[s]
                if best < 0:
                    return row
                state[g] = best - state_ptr[g]
            else:
                q = choice[reach[g] + state[parent[g]]]
                state[g] = below[q]
                if pair[q] >= 0:
                    z[pair[q]] = 1.0
            z[column[state_ptr[g] + state[g]]] = 1.0
    return -1


# Entries of the table of a chain's front, and of the points that it returns.
_FRONT_ENTRIES = 10_000_000


class GroupForestAlgorithm(Algorithm):
    """One-of-many groups on a forest: max-sum from the leaves; a single chain also has its k best and its front.

    Parameters
    ----------
    arrays : structopt.recognize.GroupForest
        The groups and their pairs; see there.
    n : int
        Number of variables.
    """

    name = "max-sum on a forest"
    steps = per_question(
        argmax="pairs of states",
        k_best="k x pairs of states",
        outside="forbidden x pairs of states",
        front="losses x pairs of states",
    )

    def __init__(self, arrays: GroupForest, n: int) -> None:
        self._arrays = (
            arrays.state_ptr, arrays.column, arrays.parent, arrays.pair_ptr, arrays.above, arrays.below, arrays.pair
        )  # fmt: skip
        self._n = n
        self._chain = _ChainLayout.of(arrays, n)
        if self._chain is not None:
            # Labels with the same integer variables are one: only integer states distinguish all sequences.
            listing = Question.K_BEST | Question.OUTSIDE if arrays.integer else Question.ARGMAX
            self.answers = Question.ARGMAX | listing | Question.FRONT

    @classmethod
    def of_record(cls, record: Record, n: int) -> GroupForestAlgorithm:
        assert isinstance(record, GroupForest)
        return cls(record, n)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        Z = np.zeros((len(C), self._n))
        C = np.ascontiguousarray(C)

        def work(first: int, last: int) -> None:
            if best_states(C[first:last], *self._arrays, Z[first:last]) >= 0:
                raise InfeasibleSpace("No choice of states satisfies the rows: every one has a forbidden pair.")

        in_threads(work, len(C), n_jobs)
        return Solutions.of_labels(C, Z)

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        assert self._chain is not None
        if k < 1:
            return Solutions.stacked([], self._n)
        labels, _ = chain.k_best(*self._chain.scores(c), k, self._chain.initial)
        return Solutions.of_labels(c, self._chain.points(labels))

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        layout = self._chain
        assert layout is not None
        if g[layout.pair[layout.pair >= 0]].any():
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

    def front_plan(self, G: FloatArray, g_const: FloatArray) -> FrontPlan | None:
        layout = self._chain
        if layout is None or G[:, layout.pair[layout.pair >= 0]].any():
            return None
        return _ChainFronts.of(layout, G, g_const)


class _ChainFronts(FrontPlan):
    """Fronts of a chain of groups by the loss-indexed recursion."""

    def __init__(self, layout: _ChainLayout, units: by_loss.LossUnits, g_const: FloatArray) -> None:
        self._layout, self._units, self._g_const = layout, units, g_const
        length, n_states = layout.column.shape
        self.cost = float(units.levels.mean()) if len(g_const) else 1.0
        self.entries = by_loss.front_entries(np.full(len(g_const), length), units.levels, n_states)

    @classmethod
    def of(cls, layout: _ChainLayout, G: FloatArray, g_const: FloatArray) -> _ChainFronts | None:
        """The plan, or None where the losses count in no unit."""
        length, n_states = layout.column.shape
        coef = np.where(layout.column >= 0, G[:, layout.column], np.inf).reshape(-1, n_states)
        # What fills up a group has the loss of the best state, and can never be reached.
        coef = np.where(np.isfinite(coef), coef, coef.min(axis=1, keepdims=True))
        units = by_loss.loss_units(coef, np.arange(len(G) + 1) * length)
        return None if units is None else cls(layout, units, g_const)

    def fronts(self, H: FloatArray, h_const: FloatArray, some: IntArray, n_jobs: int = 1) -> Fronts:
        layout, units = self._layout, self._units
        length, n_states = layout.column.shape
        U, steps = layout.score_rows(H)
        ptr = np.arange(len(some) + 1) * length
        rows = units.rows.reshape(-1, length, n_states)[some].reshape(-1, n_states)
        found = by_loss.loss_front_batch(U, ptr, steps, rows, units.levels[some], layout.initial, n_jobs)
        width = np.diff(found.ptr)
        level = np.arange(len(found.values)) - np.repeat(found.ptr[:-1], width)
        g = np.repeat(self._g_const[some] + units.base[some], width) + np.repeat(units.unit[some], width) * level

        def decode(places: IntArray) -> FloatArray:
            return layout.points(found.decode(places - found.ptr[:-1]).reshape(-1, length))

        return Fronts(found.ptr, found.values + np.repeat(h_const, width), g, decode)


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

    def score_rows(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores of the states of many rows, stacked, and of their transitions: one matrix where all steps agree."""
        length, n_states = self.column.shape
        U = np.where(self.column >= 0, C[:, self.column], 0.0).reshape(-1, n_states)
        steps = C[:, self.pair.ravel()].reshape(-1, n_states, n_states)
        if len(steps) and (self.pair >= 0).all() and not self._allowed.any() and bool((steps == steps[:1]).all()):
            return U, steps[0]
        steps = np.where(self.pair >= 0, steps.reshape(len(C), length - 1, n_states, n_states), 0.0) + self._allowed
        return U, steps.reshape(-1, n_states, n_states)

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
