"""One class out of several, from tables with a score per class."""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import FloatArray, IntArray, kernel
from structopt.algorithms.fronts import Fronts
from structopt.algorithms.parts import Losses, Maxima, PartFronts, Parts, PartSolver

__all__ = ["ClassParts"]

_KEPT_LOSSES = 1 << 20  # 8 MB


class ClassParts(PartSolver):
    """The largest entry of each row; labels are numbers of classes."""

    most_entries = 1 << 22  # 32 MB
    splits = False
    adds_loss = True

    def __init__(self, n_classes: int) -> None:
        self.width = n_classes

    def maximize_parts(self, parts: Parts) -> Maxima:
        scores, stored = parts.scores, None if parts.loss is None else parts.loss.stored()
        if stored is not None:
            losses, rows, factors = stored
            best, values = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
            arrays = losses.indptr, losses.indices, losses.data
            _best_classes(np.ascontiguousarray(scores), *arrays, rows, factors, best, values)
            return Maxima(best, values)
        scores = scores if parts.loss is None else parts.loss.added(scores)
        best = scores.argmax(axis=1)
        return Maxima(best, scores[np.arange(len(best)), best])

    def front_plan(self, losses: Losses, ptr: IntArray) -> PartFronts:
        return _ClassFronts(losses, self.width)


class _ClassFronts(PartFronts):
    """All classes."""

    def __init__(self, losses: Losses, n_classes: int) -> None:
        self._losses, self.cost = losses, 1.0
        self.entries = np.full(len(losses.const), 2 * n_classes)
        # The losses do not depend on the weights: those of few examples are kept.
        few = len(losses.const) * n_classes <= _KEPT_LOSSES
        self._kept = losses.rows(None) + losses.const[:, None] if few else None

    def _loss_values(self, some: IntArray) -> FloatArray:
        """Return the loss of every class, for some examples."""
        if self._kept is not None:
            return self._kept[some]
        return self._losses.rows(some) + self._losses.const[some][:, None]

    def fronts(self, parts: Parts, truth: Any, between: tuple[FloatArray, FloatArray] | None = None) -> Fronts:
        scores, own, rows = parts.scores, truth[parts.examples], np.arange(len(parts.examples))
        h = scores - scores[rows, own][:, None]
        g = self._loss_values(parts.examples)
        g[rows, own] = 0.0  # exactly
        ptr = np.arange(len(rows) + 1) * scores.shape[1]
        return Fronts(ptr, h.ravel(), g.ravel(), lambda places: np.where(places < 0, own, places - ptr[:-1]))


@kernel
def _best_classes(
    scores: Any, indptr: Any, indices: Any, data: Any, rows: Any, factors: Any, best: Any, values: Any
) -> None:
    """Write the first largest entry of each row plus a sparse one, and its value.

    Nothing is copied: the scores of a thousand classes take longer to copy than to read.
    """
    for i in range(best.size):
        row, factor, q, end = scores[i], factors[i], indptr[rows[i]], indptr[rows[i] + 1]
        place, top, t = 0, -np.inf, indices[q] if q < end else -1
        for k in range(row.size):
            value = row[k]
            if k == t:
                value += factor * data[q]
                q += 1
                t = indices[q] if q < end else -1
            if not value <= top:
                place, top = k, value
                if value != value:  # as numpy: NaN is the largest
                    break
        best[i], values[i] = place, top
