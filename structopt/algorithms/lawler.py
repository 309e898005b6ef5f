"""The k best labels by the partition scheme of Lawler and Murty, for every structure (docs/mathematics/oracles).

A label is a sequence of decisions. A *cell* fixes a prefix of decisions and forbids some decisions at the next
position. Emitting the best label of the best cell replaces that cell by: the same cell with the label's decision
forbidden as well; and, for every later position, the cell that follows the label up to there and forbids its next
decision. Cells are disjoint and cover every label but the emitted ones, so labels come best first and never twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import numpy.typing as npt

from structopt._jit import FloatArray, IntArray
from structopt.errors import DeclarationError

__all__ = ["Branch", "best_first", "k_best"]

BoolArray = npt.NDArray[np.bool_]

Branch = Callable[[IntArray, int, BoolArray], tuple[IntArray, FloatArray, IntArray]]
"""``branch(label, position, forbidden)`` -> best label, value and position of every new cell.

The first new cell is at `position` with the decisions `forbidden`; the others are later and forbid only the label's
own decision. ``-inf`` marks an empty cell.
"""


def best_first(label: IntArray, value: float, branch: Branch, n_decisions: int) -> Iterator[tuple[IntArray, float]]:
    """Every label from the best (`label`, `value`) on; equal values in lexicographic order of the cells' labels.

    Labels are computed lazily: one call of `branch` for each label.
    """
    # Value, label, position, and what is forbidden there: the set, or its only member until the cell is opened.
    heap: list[tuple[float, tuple[int, ...], int, BoolArray | int]] = [(-value, tuple(label.tolist()), 0, -1)]
    while heap:
        negative, key, position, forbidden = heapq.heappop(heap)
        emitted = np.array(key, dtype=np.int64)
        yield emitted, -negative
        if position >= len(key):
            continue
        if isinstance(forbidden, int):
            only, forbidden = forbidden, np.zeros(n_decisions, dtype=np.bool_)
            if only >= 0:
                forbidden[only] = True
        forbidden[emitted[position]] = True
        labels, values, positions = branch(emitted, position, forbidden)
        for i in np.flatnonzero(values > -np.inf):
            q = int(positions[i])
            kept = forbidden if q == position else key[q]
            heapq.heappush(heap, (-float(values[i]), tuple(labels[i].tolist()), q, kept))


def k_best(stream: Iterator[tuple[IntArray, float]], k: int) -> tuple[list[IntArray], FloatArray]:
    """The first k labels of a stream, sorted by value."""
    if k < 1:
        raise DeclarationError(f"k must be at least 1, not {k}.")
    labels: list[IntArray] = []
    values: list[float] = []
    for label, value in islice(stream, k):
        labels.append(label)
        values.append(value)
    # Values are c . z; a cell found later may be better in the last bit.
    order = np.argsort(-np.array(values), kind="stable") if values else np.empty(0, np.int64)
    return [labels[i] for i in order], np.array(values)[order]
