"""Segmentations of any lengths, from the scores of positions, transitions and lengths."""

from __future__ import annotations

import numpy as np

from structopt._jit import FloatArray
from structopt.algorithms.chain.parts import Rules, tied_rows
from structopt.algorithms.parts import Maxima, Parts, PartSolver
from structopt.algorithms.segments.algorithm import window_sums
from structopt.algorithms.segments.viterbi import viterbi_batch

__all__ = ["SegmentParts"]


class SegmentParts(PartSolver):
    """The semi-Markov recursion; labels are slots, as `viterbi_batch` returns them.

    A segment scores the sum of its positions, or their mean. Losses are by position or by segment.
    """

    most_entries = 1 << 18  # 2 MB, which fit the cache
    adds_loss = True

    def __init__(
        self, n_states: int, max_length: int, rules: Rules, mean: bool, has_lengths: bool, by_segment: bool
    ) -> None:
        self._shape, self.width = (max_length, n_states), max_length * n_states
        self._rules, self._mean, self._has_lengths, self._by_segment = rules, mean, has_lengths, by_segment

    def maximize_parts(self, parts: Parts) -> Maxima:
        if not parts.examples.size:
            return Maxima(np.empty(0, dtype=np.int64), np.empty(0))
        pair, *first = tied_rows(parts)
        scores = self._segment_scores(parts)
        if self._has_lengths:
            scores += first.pop().reshape(self._shape)
        return Maxima(*viterbi_batch(scores, parts.ptr, *self._rules(pair, first[0] if first else None)))

    def _segment_scores(self, parts: Parts) -> FloatArray:
        """Return the score of each segment by start, length and state, with the loss."""
        unary, loss, length = parts.scores, parts.loss, self._shape[0]
        if loss is None:
            return window_sums(unary, length, self._mean)
        if self._by_segment:
            scores = window_sums(unary, length, self._mean)
            loss.added(scores.reshape(len(scores), -1), scores.reshape(len(scores), -1))
            return scores
        if not self._mean:
            return window_sums(loss.added(unary), length)
        return window_sums(unary, length, True) + window_sums(loss.added(np.zeros(unary.shape)), length)
