"""The algorithm of a chain: Viterbi, the k best, no-good cuts, the loss-indexed Pareto front, sums over all labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray, fail
from structopt._jit.threads import in_threads
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.chain import sums
from structopt.algorithms.chain import viterbi as chain
from structopt.algorithms.question import Question, per_question
from structopt.errors import InfeasibleSpace
from structopt.space.compiled import FEASIBILITY_TOLERANCE, FloatArray

__all__ = ["ChainOracle"]

BoolArray = npt.NDArray[np.bool_]

# Entries of the front's table, and of the points it returns.
_FRONT_ENTRIES = 10_000_000


class ChainOracle(Algorithm):
    """Points are laid out as ``y (T, S)``, ``transition (T - 1, S, S)`` and, if `first_block`, ``initial (S,)``.

    Parameters
    ----------
    length : int
        Number of positions T.
    transitions : ndarray of bool, shape (S, S)
        What may follow what, ``[from, to]``.
    initial : ndarray of bool, shape (S,)
        What may come first.
    first_block : bool
    """

    name = "Viterbi"
    answers = Question.ARGMAX | Question.K_BEST | Question.OUTSIDE | Question.FRONT | Question.SUMS | Question.SAMPLE
    steps = per_question(
        argmax="positions x states^2",
        k_best="positions x states x (states + k)",
        outside="positions x states x (states + forbidden)",
        front="losses x positions x states^2",
        sums="positions x states^2",
        sample="positions x states^2",
    )

    def __init__(self, length: int, transitions: BoolArray, initial: BoolArray, first_block: bool) -> None:
        self.length = length
        self.n_states = len(initial)
        self.first_block = first_block
        S = self.n_states
        self._n_unary, self._n_pair = length * S, (length - 1) * S * S
        self.n_variables = self._n_unary + self._n_pair + S * first_block
        self._forbidden = None if transitions.all() else np.where(transitions, 0.0, -np.inf)
        self._start = np.where(initial, 0.0, -np.inf)

    # ---- the layout ------------------------------------------------------------------------------

    def _tables(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores of states ``(n T, S)`` and transitions ``(n (T - 1), S, S)`` for the rows of `C`."""
        n, S, T = len(C), self.n_states, self.length
        U = C[:, : self._n_unary].reshape(n, T, S)
        if self.first_block:
            U = U.copy()
            U[:, 0] += C[:, self._n_unary + self._n_pair :]
        steps = C[:, self._n_unary : self._n_unary + self._n_pair].reshape(-1, S, S)
        if self._forbidden is not None:
            steps = steps + self._forbidden
        return U.reshape(-1, S), steps

    def points(self, labels: IntArray) -> FloatArray:
        """The points of state sequences, one per row."""
        n, S, T = len(labels), self.n_states, self.length
        Z = np.zeros((n, self.n_variables))
        row = np.arange(n)[:, None]
        Z[row, np.arange(T) * S + labels] = 1.0
        Z[row, self._n_unary + np.arange(T - 1) * S * S + labels[:, :-1] * S + labels[:, 1:]] = 1.0
        if self.first_block:
            Z[row[:, 0], self._n_unary + self._n_pair + labels[:, 0]] = 1.0
        return Z

    # ---- questions -------------------------------------------------------------------------------

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum:
        U, steps = self._tables(c[None])
        y, value = chain.viterbi(U, steps, self._start)
        return Optimum(self.points(y[None])[0], value, value)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        labels, values = np.empty((len(C), self.length), dtype=np.int64), np.empty(len(C))

        def work(first: int, last: int) -> None:
            U, steps = self._tables(C[first:last])
            ptr = np.arange(last - first + 1) * self.length
            y, values[first:last] = chain.viterbi_batch(U, ptr, steps, self._start)
            labels[first:last] = y.reshape(-1, self.length)

        if len(C):
            in_threads(work, len(C), n_jobs)
        return Solutions(self.points(labels), values, values.copy())

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        U, steps = self._tables(c[None])
        if k < 1:
            return Solutions(np.empty((0, c.size)), np.empty(0), np.empty(0))
        labels, values = chain.k_best(U, steps, k, self._start)
        return Solutions(self.points(labels), values, values)

    def maximize_outside(self, c: FloatArray, no_goods: FloatArray) -> Optimum:
        onehot = no_goods[:, : self._n_unary].reshape(-1, self.length, self.n_states)
        states = onehot.argmax(axis=2)
        # A point that is no label forbids nothing; rounding it to a label would.
        exact = np.eye(self.n_states)[states]
        proper = (np.abs(onehot - exact).reshape(len(no_goods), -1) <= FEASIBILITY_TOLERANCE).all(axis=1)
        U, steps = self._tables(c[None])
        labels, values = chain.k_best(U, steps, 1, self._start, forbid=states[proper])
        if not len(labels):
            raise InfeasibleSpace("Every label of the space is forbidden.")
        return Optimum(self.points(labels)[0], float(values[0]), float(values[0]))

    def front(self, h: FloatArray, h_const: float, g: FloatArray, g_const: float) -> FloatArray | None:
        if g[self._n_unary : self._n_unary + self._n_pair].any():
            return None
        losses = chain.in_units(self._tables(g[None])[0])
        if losses is None:
            return None
        n_levels = int(losses.max(axis=1).sum()) + 1
        if n_levels * max(self._n_unary, self.n_variables) > _FRONT_ENTRIES:
            return None
        U, steps = self._tables(h[None])
        values, labels = chain.loss_front(U, steps, losses, self._start)
        # Largest g first; a level is on the front if its h exceeds every h before it.
        order = np.arange(n_levels)[::-1]
        before = np.maximum.accumulate(np.concatenate([[-np.inf], values[order][:-1]]))
        return self.points(labels[order[values[order] > before]])

    # ---- sums over all labels --------------------------------------------------------------------

    def log_partition(self, C: FloatArray) -> FloatArray:
        return self.sums(C)[0]

    def marginals(self, C: FloatArray) -> FloatArray:
        return self.sums(C)[1]

    def sums(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        n, S, T = len(C), self.n_states, self.length
        U, steps = self._tables(C)
        log_z, node, pair = np.empty(n), np.empty((n * T, S)), np.zeros((n * (T - 1), S, S))
        status = sums.marginals_of_steps(
            np.ascontiguousarray(U), T, np.ascontiguousarray(steps), self._start, log_z, node, pair
        )
        if status:
            fail(status, chain.NUMBERS, chain.EMPTY)
        parts = [node.reshape(n, -1), pair.reshape(n, -1)]
        return log_z, np.hstack([*parts, parts[0][:, :S]] if self.first_block else parts)

    def covariance_products(self, C: FloatArray, V: FloatArray) -> FloatArray:
        n, S, T = len(C), self.n_states, self.length
        (U, steps), (dU, d_steps) = self._tables(C), self._tables(V)
        node, pair = np.empty((n * T, S)), np.zeros((n * (T - 1), S, S))
        status = sums.tangents_of_steps(
            np.ascontiguousarray(U),
            T,
            np.ascontiguousarray(steps),
            self._start,
            np.ascontiguousarray(dU),
            np.ascontiguousarray(d_steps),
            node,
            pair,
        )
        if status:
            fail(status, chain.NUMBERS, chain.EMPTY)
        parts = [node.reshape(n, -1), pair.reshape(n, -1)]
        return np.hstack([*parts, parts[0][:, :S]] if self.first_block else parts)

    def sample(self, c: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
        U, steps = self._tables(c[None])
        labels = np.empty((size, self.length), dtype=np.int64)
        status = sums.sample(
            np.ascontiguousarray(U), np.ascontiguousarray(steps), self._start, rng.random(labels.shape), labels
        )
        if status:
            fail(status, chain.NUMBERS, chain.EMPTY)
        return self.points(labels)
