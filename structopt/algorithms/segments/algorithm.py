"""Segments of a sequence: their numbering, sums over their positions, and their paths."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from structopt._jit import IntArray
from structopt.errors import DeclarationError
from structopt.space.compiled import FloatArray

__all__ = ["SegmentVariables", "cover", "segment_rows", "window_sums"]


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


class SegmentVariables:
    """Variables of a segmentation, block by block.

    The blocks are ``segment (R, S)``, ``transition (T - 1, S, S)``, and optionally ``initial (S,)``, ``length (L, S)``.
    """

    def __init__(self, length: int, max_length: int, n_states: int, first_block: bool, length_block: bool) -> None:
        self.length, self.max_length, self.n_states = length, max_length, n_states
        self.first_block, self.length_block = first_block, length_block
        S = n_states
        self._start, self._span = segment_rows(length, max_length)
        sizes = [len(self._start) * S, (length - 1) * S * S, S * first_block, max_length * S * length_block]
        self._at = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self.n_variables = int(self._at[-1])
        # Number of the first segment that begins at each position.
        self._row = np.concatenate([[0], np.cumsum(np.minimum(max_length, length - np.arange(length)))])

    def point(self, pairs: IntArray) -> FloatArray:
        """Return the point of a segmentation given as rows (start, state)."""
        S, at = self.n_states, self._at
        start, state = pairs[:, 0], pairs[:, 1]
        span = np.empty_like(start)  # np.diff would take longer
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
        """Return the rows (start, state) of a point's segments."""
        row, state = np.nonzero(z[: self._at[1]].reshape(-1, self.n_states) > 0.5)
        return np.stack([self._start[row], state], axis=1)

    def check_size(self, z: FloatArray) -> None:
        """Refuse a point of another space."""
        if z.shape != (self.n_variables,):
            raise DeclarationError(f"A point of this segmentation has {self.n_variables} entries, got shape {z.shape}.")
