"""Segments of a sequence: their numbering, sums over their positions, and the algorithm."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt._jit.threads import in_threads
from structopt.algorithms.base import Algorithm, Optimum, Solutions
from structopt.algorithms.question import Question, per_question
from structopt.algorithms.segments import viterbi as segments
from structopt.algorithms.segments.viterbi import viterbi_points
from structopt.errors import DeclarationError, InfeasibleSpace
from structopt.space.compiled import FEASIBILITY_TOLERANCE, FloatArray

__all__ = ["SegmentOracle", "cover", "segment_rows", "window_sums"]

BoolArray = npt.NDArray[np.bool_]


@lru_cache(maxsize=256)
def segment_rows(n: int, max_length: int) -> tuple[IntArray, IntArray]:
    """Start and length of every segment of n positions, by start, then by length (do not write to them)."""
    start, length = np.nonzero(np.arange(n)[:, None] + np.arange(1, min(max_length, n) + 1) <= n)
    return start.astype(np.int64), length.astype(np.int64) + 1


@lru_cache(maxsize=256)
def cover(n: int, max_length: int, mean: bool = False) -> sp.csr_array:
    """Which positions each segment covers, rows as in `segment_rows`; with `mean` every row sums to 1."""
    start, length = segment_rows(n, max_length)
    ptr = np.concatenate([[0], np.cumsum(length)])
    position = np.arange(ptr[-1]) - np.repeat(ptr[:-1] - start, length)
    share = np.repeat(1.0 / length if mean else np.ones(len(length)), length)
    return sp.csr_array((share, position, ptr), shape=(len(start), n))


def window_sums(table: FloatArray, max_length: int, mean: bool = False) -> FloatArray:
    """``sums[t, l - 1]``: the sum (mean) of the stacked rows t .. t + l - 1; meaningless past a sequence's end."""
    n, n_columns = table.shape
    sums = np.zeros((n, max_length, n_columns))
    sums[:, 0] = table
    for shift in range(1, min(max_length, n)):
        np.add(sums[: n - shift, shift - 1], table[shift:], out=sums[: n - shift, shift])
    if mean:
        sums /= np.arange(1.0, max_length + 1)[:, None]
    return sums


class SegmentOracle(Algorithm):
    """Points are ``segment (R, S)``, ``transition (T - 1, S, S)``, if wanted ``initial (S,)``, ``length (L, S)``.

    Parameters
    ----------
    length, max_length : int
        Numbers of positions in all, and in a segment at most.
    transitions : ndarray of bool, shape (S, S)
        Which state may follow which, ``[from, to]``.
    initial : ndarray of bool, shape (S,)
        What may come first.
    first_block, length_block : bool
    """

    name = "semi-Markov Viterbi"
    answers = Question.ARGMAX | Question.K_BEST | Question.OUTSIDE
    steps = per_question(
        argmax="positions x states x (states + longest segment)",
        k_best="k x positions x states x longest segment",
        outside="forbidden x positions x states x longest segment",
    )

    def __init__(
        self,
        length: int,
        max_length: int,
        transitions: BoolArray,
        initial: BoolArray,
        first_block: bool,
        length_block: bool,
    ) -> None:
        self.length = length
        self.max_length = max_length
        self.n_states = len(initial)
        self.first_block, self.length_block = first_block, length_block
        S = self.n_states
        self._start, self._span = segment_rows(length, max_length)
        sizes = [len(self._start) * S, (length - 1) * S * S, S * first_block, max_length * S * length_block]
        self._at = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self._ends = np.array(self._at[1:])
        self.n_variables = int(self._at[-1])
        # Number of the first segment that begins at each position.
        self._row = np.concatenate([[0], np.cumsum(np.minimum(max_length, length - np.arange(length)))])
        self._place = self._start * max_length + self._span - 1
        self._forbidden = np.where(transitions, 0.0, -np.inf)
        self._initial = np.where(initial, 0.0, -np.inf)

    def _tables(self, c: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Scores of segments (T, L, S), transitions (T - 1, S, S) and first states, in the form of the kernel."""
        S, at = self.n_states, self._at
        scores = np.zeros((self.length, self.max_length, S))
        scores.reshape(-1, S)[self._place] = c[: at[1]].reshape(-1, S)
        if self.length_block:
            scores += c[at[3] : at[4]].reshape(1, self.max_length, S)
        steps = c[at[1] : at[2]].reshape(-1, S, S) + self._forbidden
        return scores, steps, self._initial + c[at[2] : at[3]] if self.first_block else self._initial

    def point(self, pairs: IntArray) -> FloatArray:
        """The point of a segmentation given as rows (start, state)."""
        S, at = self.n_states, self._at
        start, state = pairs[:, 0], pairs[:, 1]
        span = np.empty_like(start)  # np.diff would take longer than the recursion
        np.subtract(start[1:], start[:-1], out=span[:-1])
        span[-1] = self.length - start[-1]
        z = np.zeros(self.n_variables)
        z[(self._row[start] + span - 1) * S + state] = 1.0
        z[at[1] + (start[1:] - 1) * S * S + state[:-1] * S + state[1:]] = 1.0
        if self.first_block:
            z[at[2] + state[0]] = 1.0
        if self.length_block:
            np.add.at(z, at[3] + (span - 1) * S + state, 1.0)
        return z

    def pairs(self, z: FloatArray) -> IntArray:
        """Rows (start, state) of a point's segments."""
        row, state = np.nonzero(z[: self._at[1]].reshape(-1, self.n_states) > 0.5)
        return np.stack([self._start[row], state], axis=1)

    def maximize_batch(self, C: FloatArray, *, n_jobs: int = 1, keys: Sequence[Hashable] | None = None) -> Solutions:
        Z, values = np.zeros((len(C), self.n_variables)), np.zeros(len(C))

        def work(first: int, last: int) -> None:
            own = slice(first, last)
            if not viterbi_points(
                C[own], self.max_length, self._ends, self._forbidden, self._initial, Z[own], values[own]
            ):
                raise InfeasibleSpace("Every segmentation is forbidden; allow a transition or an initial state.")

        in_threads(work, len(C), n_jobs)
        return Solutions(Z, values, values)

    def k_best(self, c: FloatArray, k: int) -> Solutions:
        return self._best(c, k, []) if k > 0 else Solutions.stacked([], self.n_variables)

    def _best(self, c: FloatArray, k: int, forbid: list[npt.ArrayLike]) -> Solutions:
        scores, steps, initial = self._tables(c)
        labels, values = segments.k_best(scores, steps, k, initial, forbid=forbid)
        Z = np.array([self.point(y) for y in labels]).reshape(len(labels), self.n_variables)
        return Solutions(Z, values, values)

    def maximize_outside(self, c: FloatArray, no_goods: FloatArray) -> Optimum | None:
        found = self._best(c, 1, [self.pairs(z) for z in no_goods if self._is_label(z)])
        if not len(found.Z):
            raise InfeasibleSpace("Every label of the space is forbidden.")
        return found.row(0)

    def _is_label(self, z: FloatArray) -> bool:
        """Whether z is a segmentation; a point that is none forbids nothing."""
        block = z[: self._at[1]]
        row = np.flatnonzero((block.reshape(-1, self.n_states) > 0.5).any(axis=1))
        ends = np.concatenate([[0], self._start[row] + self._span[row]])
        whole = bool((np.abs(block - np.rint(block)) <= FEASIBILITY_TOLERANCE).all()) and block.sum() <= len(row) + 0.5
        return whole and bool(ends[-1] == self.length and (self._start[row] == ends[:-1]).all())

    def check_size(self, z: FloatArray) -> None:
        """Refuse a point of another space."""
        if z.shape != (self.n_variables,):
            raise DeclarationError(f"A point of this segmentation has {self.n_variables} entries, got shape {z.shape}.")
