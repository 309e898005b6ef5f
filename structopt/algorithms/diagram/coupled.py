"""Algorithm for spaces that one row makes too wide: the diagram of the other rows, and a search within that row.

The search is the exact search for side constraints (`side_constraints`). In `python benchmarks/run.py diagrams
coupling` it is 1.2 to 810 times faster on average than an integer program. A search can still be slow, so its time is
measured.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from time import thread_time

import numpy as np
import scipy.sparse as sp

from structopt.algorithms.base import Optimum, RowAlgorithm
from structopt.algorithms.diagram.algorithm import DiagramAlgorithm
from structopt.algorithms.diagram.cache import DIAGRAMS, DiagramCache
from structopt.algorithms.diagram.diagram import Diagram
from structopt.algorithms.question import Question, per_question
from structopt.backends.arrays import holding_rows
from structopt.backends.base import SideConstraints
from structopt.errors import DiagramRefused, InfeasibleSpace
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["CoupledDiagram", "coupled_diagram"]

#: Diagrams without a row. They must be smaller than other diagrams: a search traverses them about forty times.
_WITHOUT_A_ROW = DiagramCache(1 << 27, max_nodes=50_000, max_width=20_000, max_arcs=200_000, max_work=4_000_000)

#: Calls before their mean time counts, paths of a search per second, and least and largest limit of paths.
_CALLS, _PATHS_A_SECOND, _FEWEST_PATHS, _MOST_PATHS = 5, 1_500_000, 2_000, 300_000


class CoupledDiagram(RowAlgorithm):
    """Algorithm for the diagram of all rows but one, with a search within that row.

    A search stops without a result after about the time of one call of a solver. If stopped searches make calls slower
    than the solver alone, there are no more searches.
    """

    name = "decision diagram and a row"
    answers = Question.ARGMAX | Question.SIDE_ROWS
    steps = per_question(argmax="100 µs + 70 ns x arcs", side_rows="arcs x paths of the search")

    def __init__(self, diagram: Diagram, row: SideConstraints, worth: float) -> None:
        self.diagram = diagram
        self._free, self._row, self._worth = DiagramAlgorithm(diagram), row, worth
        self._calls, self._seconds = -1, 0.0  # the first call may have to load its kernels
        self._given_up = False

    def seconds_per_call(self, batch: bool = False) -> float:
        """Return the estimated time of a call, as fitted on the spaces of the benchmark."""
        return 1e-4 + 7e-8 * self.diagram.n_arcs

    def maximize(self, c: FloatArray, key: Hashable | None = None) -> Optimum | None:
        """Return a best label, or None if the search stops early."""
        best = self._free.maximize(c)
        if holding_rows(self._row, best.z[None])[0]:
            return best
        try:
            return self._search(c, self._row)
        except InfeasibleSpace:
            return None  # the solver reports which rows contradict each other

    def maximize_constrained(self, c: FloatArray, side_constraints: SideConstraints) -> Optimum | None:
        """Return a best label within side constraints, or None if the search stops early."""
        rows = zip(self._row, side_constraints, strict=True)
        (own, other), *bounds = rows
        lower, upper = (np.concatenate(pair) for pair in bounds)
        return self._search(c, (sp.vstack([own, other], format="csr"), lower, upper))

    def _search(self, c: FloatArray, rows: SideConstraints) -> Optimum | None:
        if self._given_up:
            return None
        begun = thread_time()  # excludes the time of other processes
        paths = min(max(int(self._worth * _PATHS_A_SECOND), _FEWEST_PATHS), _MOST_PATHS)
        found = self._free.maximize_constrained(c, rows, paths)
        seconds = thread_time() - begun + (self._worth if found is None else 0.0)
        self._calls, self._seconds = self._calls + 1, self._seconds + (seconds if self._calls >= 0 else 0.0)
        self._given_up = self._calls >= _CALLS and self._seconds > self._worth * self._calls
        return found


def coupled_diagram(space: CompiledSpace, worth: float) -> CoupledDiagram | None:
    """Return the diagram of a space without its widest row, or None if a search is too slow or impossible."""
    refusal = DIAGRAMS.refusal(space)
    if not isinstance(refusal, DiagramRefused) or refusal.reason != "width" or not refusal.rows:
        return None
    at = list(space.row_names).index(refusal.rows[0])
    row = space.matrix[[at]]
    if not space.integrality[row.indices].all():
        return None  # without the row a continuous variable would not be determined
    others = np.arange(space.n_rows) != at
    names = [name for name, kept in zip(space.row_names, others.tolist(), strict=True) if kept]
    without = replace(
        space,
        matrix=space.matrix[others],
        row_lower=space.row_lower[others],
        row_upper=space.row_upper[others],
        row_names=names,
    )
    try:
        diagram = _WITHOUT_A_ROW.get(without)
    except (DiagramRefused, InfeasibleSpace):
        return None
    found = CoupledDiagram(diagram, (row, space.row_lower[[at]], space.row_upper[[at]]), worth)
    return found if found.seconds_per_call() < 0.5 * worth else None
