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

    `small` and `large` are the sizes of the benchmark. `bytes_at` are the sizes of the test of allocated bytes.
    `search` is the exponent of the algorithm, `memory` the exponent of scores and labels.
    """

    name: str
    make: Callable[[int, np.random.Generator], tuple[Any, Any]]
    small: int
    large: int
    search: float
    memory: float
    bytes_at: tuple[int, int]


def _flat(model: Callable[[int], Any]) -> Callable[[int, np.random.Generator], tuple[Any, Any]]:
    return lambda n, rng: (model(n), rng.normal(size=(20, 4)))


def _inputs(model: Any, shape: Callable[[int], tuple[int, ...]]) -> Callable[[int, np.random.Generator], Any]:
    return lambda n, rng: (model(n), [rng.normal(size=shape(n)) for _ in range(3)])


def _tree(n: int) -> so.Hierarchy:
    """Return a binary tree of n nodes."""
    return so.Hierarchy([((k - 1) // 2, k) for k in range(1, n)])


def _path(n: int) -> st.Flow:
    """Return a flow of one unit along n nodes, with arcs that skip one node."""
    arcs = [(k, k + step) for k in range(n) for step in (1, 2) if k + step < n]
    return st.Flow(arcs, {0: 1, n - 1: -1})


def _exclusive(n: int) -> st.ExclusiveLabels:
    """Return the closed sets of a binary tree in which two siblings exclude each other."""
    return st.ExclusiveLabels(_tree(n), [(k, k + 1) for k in range(1, n - 1, 2)])


def _line(n: int) -> st.PairwiseMRF:
    return st.PairwiseMRF(n, edges=[(k, k + 1) for k in range(n - 1)])


#: Tour is left out: it is NP-hard, as is PairwiseMRF with cycles. Sorting n documents counts as n.
CASES = (
    Case("Multiclass, classes", _flat(st.Multiclass), 4000, 16000, 1, 1, (2000, 8000)),
    Case("MultiLabel, labels", _flat(st.MultiLabel), 2000, 8000, 1, 1, (1000, 4000)),
    Case(
        "HierarchicalLabels leaf, nodes",
        _flat(lambda n: st.HierarchicalLabels(_tree(n))),
        2001,
        8001,
        1,
        1,
        (1001, 4001),
    ),
    Case(
        "HierarchicalLabels leaves, nodes",
        _flat(lambda n: st.HierarchicalLabels(_tree(n), "leaves")),
        2001,
        8001,
        1,
        1,
        (1001, 4001),
    ),
    Case(
        "HierarchicalLabels closure, nodes",
        _flat(lambda n: st.HierarchicalLabels(_tree(n), "closure")),
        2001,
        8001,
        1,
        1,
        (1001, 4001),
    ),
    # Between 1,201 and 1,601 nodes argmax becomes about 50 times slower. Both sizes are above the jump.
    Case("ExclusiveLabels, nodes", _flat(_exclusive), 1601, 6401, 1, 1, (201, 801)),
    Case("PairwiseMRF line, nodes", _flat(_line), 500, 2000, 1, 1, (500, 2000)),
    Case("Flow path, nodes", _flat(_path), 1000, 4000, 1, 1, (500, 2000)),
    Case("Chain, positions", _inputs(lambda n: st.Chain(5), lambda n: (n, 4)), 4000, 16000, 1, 1, (2000, 8000)),
    Case("Chain, states", _inputs(st.Chain, lambda n: (30, 4)), 100, 400, 2, 2, (50, 200)),
    Case(
        "Segmentation, positions",
        _inputs(lambda n: st.Segmentation(3, max_length=5), lambda n: (n, 4)),
        2000,
        8000,
        1,
        1,
        (1000, 4000),
    ),
    Case("Ranking, documents", _inputs(lambda n: st.Ranking(), lambda n: (n, 4)), 200, 800, 1, 2, (100, 400)),
    Case("Assignment, rows", _inputs(lambda n: st.Assignment(), lambda n: (n, n, 4)), 60, 240, 3, 2, (40, 160)),
    Case("Matching, nodes", _inputs(lambda n: st.Matching(), lambda n: (n, n, 4)), 30, 120, 3, 2, (16, 64)),
    Case("Arborescence, nodes", _inputs(lambda n: st.Arborescence(), lambda n: (n, n, 4)), 60, 240, 3, 2, (40, 160)),
    Case(
        "LabelledArborescence, nodes",
        _inputs(lambda n: st.LabelledArborescence(3), lambda n: (n, n, 4)),
        60,
        240,
        3,
        2,
        (40, 160),
    ),
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
