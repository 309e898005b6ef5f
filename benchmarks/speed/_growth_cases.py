"""Every shipped structure at a size, and the exponents of size that its algorithms have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import structopt as so
from structopt import structures as st

__all__ = ["CASES", "STEPS", "Case", "calls"]

#: The calls that are measured.
STEPS = ("argmax", "encode", "block_ascent", "bmrm")


@dataclass(frozen=True)
class Case:
    """A structure whose size grows.

    `small` and a size four times as large are those of the benchmark, `bytes_at` those of the test of allocated bytes.
    `search` is the exponent of the algorithm, `memory` the exponent of scores and labels. `shape` is the shape of an
    input. Structures without it have a row of features per input.
    """

    name: str
    model: Callable[[int], Any]
    small: int
    bytes_at: tuple[int, int]
    search: float = 1
    memory: float = 1
    shape: Callable[[int], tuple[int, ...]] | None = None

    @property
    def large(self) -> int:
        return 4 * self.small - 3 * (self.small % 2)  # trees have an odd number of nodes

    def make(self, size: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Return the model at a size, and random inputs."""
        if self.shape is None:
            return self.model(size), rng.normal(size=(20, 4))
        return self.model(size), [rng.normal(size=self.shape(size)) for _ in range(3)]


def _tree(n: int) -> so.Hierarchy:
    """Return a binary tree of n nodes."""
    return so.Hierarchy([((k - 1) // 2, k) for k in range(1, n)])


def _sets(kind: Any) -> Callable[[int], st.HierarchicalLabels]:
    return lambda n: st.HierarchicalLabels(_tree(n), kind)


def _path(n: int) -> st.Flow:
    """Return a flow of one unit along n nodes, with arcs that skip one node."""
    arcs = [(k, k + step) for k in range(n) for step in (1, 2) if k + step < n]
    return st.Flow(arcs, {0: 1, n - 1: -1})


def _exclusive(n: int) -> st.ExclusiveLabels:
    """Return the closed sets of a binary tree in which two siblings exclude each other."""
    return st.ExclusiveLabels(_tree(n), [(k, k + 1) for k in range(1, n - 1, 2)])


def _line(n: int) -> st.PairwiseMRF:
    return st.PairwiseMRF(n, edges=[(k, k + 1) for k in range(n - 1)])


def _rows(n: int) -> tuple[int, ...]:
    return (n, 4)


def _pairs(n: int) -> tuple[int, ...]:
    return (n, n, 4)


#: Tour is left out: it is NP-hard, as is PairwiseMRF with cycles. Sorting n documents counts as n.
CASES = (
    Case("Multiclass, classes", st.Multiclass, 4000, (2000, 8000)),
    Case("MultiLabel, labels", st.MultiLabel, 2000, (1000, 4000)),
    Case("HierarchicalLabels leaf, nodes", _sets("leaf"), 2001, (1001, 4001)),
    Case("HierarchicalLabels leaves, nodes", _sets("leaves"), 2001, (1001, 4001)),
    Case("HierarchicalLabels closure, nodes", _sets("closure"), 2001, (1001, 4001)),
    # Between 1,201 and 1,601 nodes argmax becomes about 50 times slower. Both sizes are above the jump.
    Case("ExclusiveLabels, nodes", _exclusive, 1601, (201, 801)),
    Case("PairwiseMRF line, nodes", _line, 500, (500, 2000)),
    Case("Flow path, nodes", _path, 1000, (500, 2000)),
    Case("Chain, positions", lambda n: st.Chain(5), 4000, (2000, 8000), shape=_rows),
    Case("Chain, states", st.Chain, 100, (50, 200), 2, 2, lambda n: (30, 4)),
    Case("Segmentation, positions", lambda n: st.Segmentation(3, max_length=5), 2000, (1000, 4000), shape=_rows),
    Case("Ranking, documents", lambda n: st.Ranking(), 200, (100, 400), 1, 2, _rows),
    Case("Assignment, rows", lambda n: st.Assignment(), 60, (40, 160), 3, 2, _pairs),
    Case("Matching, nodes", lambda n: st.Matching(), 30, (16, 64), 3, 2, _pairs),
    Case("Arborescence, nodes", lambda n: st.Arborescence(), 60, (40, 160), 3, 2, _pairs),
    Case("LabelledArborescence, nodes", lambda n: st.LabelledArborescence(3), 60, (40, 160), 3, 2, _pairs),
)


def calls(case: Case, size: int) -> dict[str, Callable[[], Any]]:
    """Return the call of each step at a size."""
    rng = np.random.default_rng(0)
    model, X = case.make(size, rng)
    batch = model.batch(X)
    tables = [rng.normal(size=table.shape) for table in batch.tables(np.zeros(batch.n_weights))]
    if isinstance(model, st.Ranking):
        Y: Any = [rng.integers(0, 3, len(x)) for x in X]
    else:
        Y = batch.decode(batch.argmax(tables)[0])
    risk = so.train.StructuredRisk(model, X, Y)
    return {
        "argmax": lambda: batch.argmax(tables),
        "encode": lambda: batch.truth(Y),
        "block_ascent": lambda: so.train.block_ascent(risk, lam=0.1, max_passes=1),
        "bmrm": lambda: so.train.bmrm(risk, lam=0.1, max_passes=1),
    }
