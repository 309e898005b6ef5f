"""Paths of a directed acyclic graph: the graph is its own decision diagram.

Every path from the source to the sink is one label, which has the variables of its arcs at 1. What a diagram can do
(the best label, the k best, side constraints, Pareto fronts, sums over all labels) are done here by the same kernels,
and nothing is compiled.
"""

from __future__ import annotations

import numpy as np

from structopt.algorithms.diagram import Diagram, DiagramAlgorithm
from structopt.algorithms.diagram.path_networks import path_diagram
from structopt.algorithms.question import Question
from structopt.recognize import Path, Record

__all__ = ["PathAlgorithm"]


class PathAlgorithm(DiagramAlgorithm):
    """Best paths in acyclic graphs, one for each pair of source and sink; of equal ones that of the first arcs."""

    name = "DAG path"

    def __init__(self, path: Path) -> None:
        self._path = path
        # Of flows that may be fractional the paths are the vertices only: they are no list of what a side constraint
        # leaves, nor of the points at which a surrogate may be largest.
        self.answers = (
            DiagramAlgorithm.answers if path.integer else Question.ARGMAX | Question.K_BEST | Question.OUTSIDE
        )

    @classmethod
    def of_record(cls, record: Record, n: int) -> PathAlgorithm:
        assert isinstance(record, Path)
        return cls(record)

    def make_diagram(self) -> Diagram:
        n = self._path.tail.size
        return path_diagram(self._path, np.arange(n), np.zeros(n))

    def __repr__(self) -> str:
        return f"<PathAlgorithm: {self._path.tail.size} arcs over {self._path.order.size} nodes>"
