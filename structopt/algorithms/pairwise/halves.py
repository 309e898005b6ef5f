"""Half-integral labels of many pairs, kept without the pairs.

An optimum of roof duality has labels in {0, 1/2, 1}, and the best value of a pair follows from its two labels; only
between two halves it depends on the objective: 1/2 where the pair attracts, 0 otherwise. So a byte for each label and,
for all examples together, a bit for each pair are enough: of 159 labels with all pairs the hundredth part of a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt._jit import FloatArray, IntArray, kernel

__all__ = ["HalfLabels", "fill_pairs", "half_scores"]


@dataclass(frozen=True, eq=False)
class HalfLabels:
    """Half-integral labels of many examples: twice each label, and which of the objectives says which pairs attract."""

    twice: npt.NDArray[np.int8]
    attracts: npt.NDArray[np.bool_]
    objective: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.twice)

    @property
    def y(self) -> FloatArray:
        """The labels, without their pairs."""
        return np.multiply(0.5, self.twice, dtype=np.float64)

    @classmethod
    def of(cls, twice: npt.NDArray[np.int8], attracts: npt.NDArray[np.bool_]) -> HalfLabels:
        """Labels found under one objective for all, or one for each."""
        n = len(twice)
        return cls(twice, attracts, np.zeros(n, np.int32) if len(attracts) == 1 else np.arange(n, dtype=np.int32))

    @classmethod
    def of_labels(cls, rows: FloatArray, n_edges: int) -> HalfLabels:
        """Return 0/1 labels without their pairs."""
        return cls.of((2.0 * rows).astype(np.int8), np.ones((1, n_edges), np.bool_))

    def spread(self, some: IntArray, n: int) -> HalfLabels:
        """Return these labels as labels of `some` of n examples, with zeros for the others."""
        twice, objective = np.zeros((n, self.twice.shape[1]), np.int8), np.zeros(n, np.int32)
        twice[some], objective[some] = self.twice, self.objective
        return HalfLabels(twice, self.attracts, objective)

    @classmethod
    def taken(cls, labels: Sequence[HalfLabels], which: IntArray) -> HalfLabels:
        """Return the label of example i in ``labels[which[i]]``, for all i."""
        twice, objective = np.empty_like(labels[0].twice), np.empty(len(labels[0]), np.int32)
        rows: dict[bytes, int] = {}  # objectives that agree in which pairs attract are one
        kept: list[npt.NDArray[np.bool_]] = []
        for k in np.unique(which):
            mine, label = np.flatnonzero(which == k), labels[k]
            twice[mine] = label.twice[mine]
            used, place = np.unique(label.objective[mine], return_inverse=True)
            number = np.empty(len(used), np.int32)
            for at, row in enumerate(label.attracts[used]):
                number[at] = rows.setdefault(np.packbits(row).tobytes(), len(rows))
                if number[at] == len(kept):
                    kept.append(row)
            objective[mine] = number[place]
        return cls(twice, np.array(kept), objective)


@kernel
def half_scores(
    ptr: Any, edge: Any, end: Any, twice: Any, attracts: Any, objective: Any, unary: Any, pair: Any, out: Any
) -> None:
    """The score of every label; `pair` may have one row for all. `edge` and `end` are of `slot_ends`."""
    for i in range(twice.shape[0]):
        out[i] = half_score(ptr, edge, end, twice[i], attracts[objective[i]], unary[i], pair[i if len(pair) > 1 else 0])


@kernel
def half_score(ptr: Any, edge: Any, end: Any, twice: Any, attracts: Any, unary: Any, pair: Any) -> float:
    """The score of one label: a sum over what is on."""
    total = 0.0
    for v in range(twice.size):
        if twice[v]:
            total += 0.5 * twice[v] * unary[v]
    for v in range(twice.size):
        if twice[v]:
            for q in range(ptr[v], ptr[v + 1]):
                w = end[q]
                if w > v and twice[w]:
                    e = edge[q]
                    both = twice[v] + twice[w]
                    if both > 2:
                        total += pair[e] if both == 4 else 0.5 * pair[e]
                    elif attracts[e]:
                        total += 0.5 * pair[e]
    return total


@kernel
def fill_pairs(
    ptr: Any, edge: Any, end: Any, twice: Any, attracts: Any, objective: Any, indptr: Any, indices: Any, data: Any
) -> None:
    """Write the table of pairs that are not zero: row pointers, and unless they are None, numbers and values."""
    at = 0
    indptr[0] = 0
    for i in range(twice.shape[0]):
        for v in range(twice.shape[1]):
            if twice[i, v]:
                for q in range(ptr[v], ptr[v + 1]):
                    w = end[q]
                    if w > v and twice[i, w]:
                        both = twice[i, v] + twice[i, w]
                        if both > 2 or attracts[objective[i], edge[q]]:
                            if indices is not None and data is not None:
                                indices[at], data[at] = edge[q], 1.0 if both == 4 else 0.5
                            at += 1
        indptr[i + 1] = at
