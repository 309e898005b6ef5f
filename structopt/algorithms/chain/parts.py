"""Chains of any lengths, from the scores of their states and transitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from structopt._jit import FloatArray, IntArray
from structopt.algorithms.chain import by_loss, viterbi
from structopt.algorithms.fronts import Fronts
from structopt.algorithms.parts import Losses, Maxima, PartFronts, Parts, PartSolver

__all__ = ["ChainParts", "Rules", "tied_rows"]

#: From the scores of transitions and of first states to the same with -inf for forbidden ones.
Rules = Callable[[FloatArray, FloatArray | None], tuple[FloatArray, FloatArray]]


def tied_rows(parts: Parts) -> list[FloatArray]:
    """Return one row of each table that is the same for all examples."""
    return [np.asarray(table[0]) for table in parts.others]


class ChainParts(PartSolver):
    """Viterbi's recursion over stacked positions; labels are stacked numbers of states."""

    def __init__(self, n_states: int, rules: Rules) -> None:
        self.width, self._rules = n_states, rules

    def _steps(self, parts: Parts) -> tuple[FloatArray, FloatArray]:
        pair, *first = tied_rows(parts)
        return self._rules(pair, first[0] if first else None)

    def maximize_parts(self, parts: Parts) -> Maxima:
        if not parts.examples.size:
            return Maxima(np.empty(0, dtype=np.int64), np.empty(0))
        return Maxima(*viterbi.viterbi_batch(parts.scores, parts.ptr, *self._steps(parts)))

    def front_plan(self, losses: Losses, ptr: IntArray) -> PartFronts | None:
        units = by_loss.loss_units(losses.coef, ptr)
        return None if units is None else _ChainFronts(units, losses.const + units.base, ptr, self._steps)


class _ChainFronts(PartFronts):
    """The best score of every number of units of loss."""

    def __init__(
        self,
        units: by_loss.LossUnits,
        base: FloatArray,
        ptr: IntArray,
        steps: Callable[[Parts], tuple[FloatArray, FloatArray]],
    ) -> None:
        self._units, self._base, self._steps = units, base, steps
        self.cost = float(units.levels.mean())
        self.entries = by_loss.front_entries(np.diff(ptr), units.levels, units.rows.shape[1])

    def fronts(self, parts: Parts, truth: Any, between: tuple[FloatArray, FloatArray] | None = None) -> Fronts:
        units, some, ptr = self._units, parts.examples, parts.ptr
        rows: Any = slice(None) if parts.rows is None else parts.rows
        base, unit, levels = self._base[some], units.unit[some], units.levels[some]
        lowest = np.zeros_like(levels)
        if between is not None:
            low, high = ((limit - base) / unit for limit in between)
            lowest = np.ceil(np.clip(low - 1e-6, 0, levels - 1)).astype(np.int64)
            levels = np.floor(np.clip(high + 1e-6, 0, levels - 1)).astype(np.int64) + 1
            lowest = np.minimum(lowest, levels - 1)
        steps, first = self._steps(parts)
        own = by_loss.sequence_scores(parts.scores, ptr, steps, first, truth[rows])
        found = by_loss.loss_front_batch(
            parts.scores, ptr, steps, units.rows[rows], levels, first, parts.n_jobs, lowest
        )
        level = np.arange(len(found.values)) - np.repeat(found.ptr[:-1], levels)
        g = np.repeat(base, levels) + np.repeat(unit, levels) * level

        def decode(places: IntArray) -> IntArray:
            idle = places < 0
            y = found.decode(np.where(idle, 0, places - found.ptr[:-1]))
            return np.where(np.repeat(idle, np.diff(ptr)), truth[rows], y)

        return Fronts(found.ptr, found.values - np.repeat(own, levels), g, decode)
