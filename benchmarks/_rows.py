"""Rows of the speed gate `compare.py`, and the worker process that times them for one commit.

A row is a function that prepares data and returns the action to time. The action does the same work in every call. Both
commits run this file, each with its own ``structopt``. If a name of the API differs between the commits, write a second
function with the same row name: the first one that works in a commit is its adapter.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import structopt as so

__all__ = ["ROWS", "prepare"]

Action = Callable[[], object]
Setup = Callable[[], Action]

#: Adapters of each row, in the order in which they are tried.
ROWS: dict[str, list[Setup]] = {}

_MISSING = (AttributeError, ImportError, TypeError)  # errors of a call to an API that has other names


def row(name: str) -> Callable[[Setup], Setup]:
    """Register a function as an adapter of a row."""

    def register(setup: Setup) -> Setup:
        ROWS.setdefault(name, []).append(setup)
        return setup

    return register


def prepare(name: str) -> Action:
    """Return the action of a row after its first call, from the first adapter that this commit supports."""
    *others, last = ROWS[name]
    for setup in others:
        try:
            action = setup()
            action()
            return action
        except _MISSING:
            continue
    action = last()
    action()
    return action


def _random(name: str) -> np.random.Generator:
    return np.random.default_rng(list(name.encode()))


def _tree(n: int, parents: int = 1) -> so.Hierarchy:
    rng = _random("tree")
    return so.Hierarchy(sorted({(int(rng.integers(0, child)), child) for child in range(1, n) for _ in range(parents)}))


def _arcs(nodes: int, n: int) -> list[tuple[int, int]]:
    rng = _random("arcs")
    arcs = {(node, node + 1) for node in range(nodes - 1)}
    while len(arcs) < n:
        tail, head = np.sort(rng.choice(nodes, 2, replace=False)).tolist()
        arcs.add((tail, head))
    return sorted(arcs)


# ---- one oracle ----------------------------------------------------------------------------------


def _oracle(model: Any, x: Any) -> tuple[so.Oracle, np.ndarray]:
    """Return the oracle of one input and 20 objectives, which are zero for the auxiliary flow of a spanning tree."""
    oracle = model.oracle(x)
    C = _random("costs").normal(size=(20, oracle.space.n_variables))
    if isinstance(model, so.structures.Arborescence):
        C[:, len(x) ** 2 :] = 0.0
    return oracle, C


def _argmax(name: str, make: Callable[[], Any], x: Any = None) -> None:
    @row(f"argmax {name}")
    def setup() -> Action:
        oracle, C = _oracle(make(), x)
        return lambda: [oracle.maximize(c) for c in C]


def _knapsack() -> so.LabelSpace:
    space = so.LabelSpace("knapsack")
    item = space.binary("item", 20)
    space.subject_to(np.arange(1, 21) @ item <= 60, item[0] + item[1] <= 1, item[2] <= item[3])
    return space


def _declared_model(space: so.LabelSpace) -> so.Model:
    name = space.block_names[0]
    return so.Model(space, {name: so.features.Linear()}, so.losses.Hamming())


_argmax("chain", lambda: so.structures.Chain(26), np.zeros((20, 1)))
_argmax("segmentation", lambda: so.structures.Segmentation(4, 6), np.zeros((30, 1)))
_argmax("leaves", lambda: so.structures.HierarchicalLabels(_tree(1000), "leaves"))
_argmax("relaxed pairs", lambda: so.structures.PairwiseMRF(14, integral="relax"))
_argmax("arborescence", lambda: so.structures.Arborescence(), np.zeros((15, 15, 1)))


@row("argmax diagram")
def argmax_diagram() -> Action:
    oracle = so.Oracle(_knapsack(), solver="diagram")
    C = _random("costs").normal(size=(20, 20))
    return lambda: [oracle.maximize(c) for c in C]


@row("argmax HiGHS")
def argmax_highs() -> Action:
    oracle = so.Oracle(_knapsack(), solver="highs")
    C = _random("costs").normal(size=(5, 20))
    return lambda: [oracle.maximize(c) for c in C]


@row("batch of chains")
def batch_of_chains() -> Action:
    rng = _random("batch")
    batch = so.structures.Chain(26).batch([rng.normal(size=(length, 26)) for length in rng.integers(3, 15, 300)])
    tables = batch.tables(rng.normal(size=batch.n_weights))
    return lambda: batch.argmax(tables)


@row("k-best chain")
def k_best_chain() -> Action:
    oracle, C = _oracle(so.structures.Chain(8), np.zeros((12, 1)))
    return lambda: [oracle.k_best(c, 10) for c in C]


@row("k-best assignment")
def k_best_assignment() -> Action:
    oracle, C = _oracle(so.structures.Assignment(), np.zeros((8, 8, 1)))
    return lambda: [oracle.k_best(c, 5) for c in C[:3]]


@row("k-best diagram")
def k_best_diagram() -> Action:
    oracle = so.Oracle(_knapsack(), solver="diagram")
    C = _random("costs").normal(size=(20, 20))
    return lambda: [oracle.k_best(c, 10) for c in C]


def _front(name: str, make: Callable[[], Any], x: Any = None) -> None:
    @row(f"front {name}")
    def setup() -> Action:
        model = make()
        oracle, C = _oracle(model, x)
        truth = oracle.maximize(C[0]).z
        g = (1.0 - 2.0 * truth, float(truth.sum()))
        if oracle.front((C[1], 0.0), g) is None:
            raise RuntimeError(f"The oracle of {name} returns no front, so there is nothing to time.")
        return lambda: [oracle.front((c, 0.0), g) for c in C[1:6]]


_front("leaves", lambda: so.structures.HierarchicalLabels(_tree(60), "leaves"))
_front("diagram", lambda: _declared_model(_knapsack()))


def _sums(name: str, make: Callable[[], Any], x: Any = None) -> None:
    @row(f"sums {name}")
    def setup() -> Action:
        oracle, C = _oracle(make(), x)
        return lambda: oracle.sums(C)


_sums("chain", lambda: so.structures.Chain(12), np.zeros((20, 1)))
_sums("diagram", lambda: _declared_model(_knapsack()))


@row("side rows chain")
def side_rows_chain() -> Action:
    oracle, C = _oracle(so.structures.Chain(6), np.zeros((10, 1)))
    one = np.zeros(oracle.space.n_variables)
    one[7] = 1.0
    return lambda: [oracle.maximize(c, rows=[(one, 1.0, 1.0)]) for c in C[:10]]


@row("side rows declared")
def side_rows_declared() -> Action:
    oracle = so.Oracle(_knapsack())
    C = _random("costs").normal(size=(10, 20))
    row = (np.ones(20), 0.0, 5.0)
    return lambda: [oracle.maximize(c, rows=[row]) for c in C]


# ---- declared programs ---------------------------------------------------------------------------


@row("declare and compile")
def declare() -> Action:
    h = _tree(2000)

    def action() -> object:
        space = so.LabelSpace("tree")
        node = space.binary("node", 2000)
        space.subject_to(node[h.child] <= node[h.parent])
        return space.compiled

    return action


@row("encode chain and leaves")
def encode() -> Action:
    rng = _random("encode")
    chain = so.structures.Chain(12)
    X = [np.zeros((length, 1)) for length in rng.integers(3, 15, 120)]
    y = [rng.integers(0, 12, len(x)) for x in X]
    h = _tree(300)
    tree = so.structures.HierarchicalLabels(h, "leaves")
    leaves = list(h.leaves)
    labels = [{leaves[k] for k in rng.integers(0, len(leaves), 3)} for _ in range(20)]
    return lambda: (list(map(chain.encode, y, X)), list(map(tree.encode, labels)))


# ---- whole fits ----------------------------------------------------------------------------------


def _symmetric(n: int, nodes: int, d: int) -> list[np.ndarray]:
    drawn = [_random(f"symmetric {k}").normal(size=(nodes, nodes, d)) for k in range(n)]
    return [a + a.transpose(1, 0, 2) for a in drawn]


def _rows_of(n: int, d: int) -> np.ndarray:
    return _random("rows").normal(size=(n, d))


def _list_of(n: int, *shape: int) -> list[np.ndarray]:
    return list(_random("list").normal(size=(n, *shape)))


def _exclusive() -> so.structures.ExclusiveLabels:
    h = so.Hierarchy([((child - 1) // 4, child) for child in range(1, 21)])
    return so.structures.ExclusiveLabels(h, [(1, 2), (13, 14, 15, 16)])


#: Name, model, inputs for margin rescaling and (a part of them) for slack rescaling.
_SHIPPED: dict[str, tuple[Callable[[], Any], Callable[[], Any], int]] = {
    "multiclass": (lambda: so.structures.Multiclass(10), lambda: _rows_of(300, 8), 150),
    "multilabel": (lambda: so.structures.MultiLabel(10, at_most=3), lambda: _rows_of(100, 8), 50),
    "pairs": (lambda: so.structures.PairwiseMRF(8), lambda: _rows_of(60, 6), 60),
    "chain": (lambda: so.structures.Chain(5), lambda: _list_of(40, 8, 8), 1),
    "segmentation": (lambda: so.structures.Segmentation(3, 4), lambda: _list_of(20, 8, 4), 1),
    "leaves": (lambda: so.structures.HierarchicalLabels(_tree(20), "leaves"), lambda: _rows_of(60, 6), 5),
    "closure": (lambda: so.structures.HierarchicalLabels(_tree(20, 2), "closure"), lambda: _rows_of(40, 6), 1),
    "exclusive": (lambda: _exclusive(), lambda: _rows_of(40, 6), 4),
    "assignment": (lambda: so.structures.Assignment(), lambda: _list_of(40, 6, 6, 8), 25),
    "matching": (lambda: so.structures.Matching(), lambda: _symmetric(9, 6, 4), 4),
    "arborescence": (lambda: so.structures.Arborescence(), lambda: _list_of(40, 7, 7, 6), 25),
    "relations": (lambda: so.structures.LabelledArborescence(3), lambda: _list_of(30, 6, 6, 5), 15),
    "tour": (lambda: so.structures.Tour(), lambda: _list_of(5, 6, 6, 4), 2),
    "flow": (lambda: so.structures.Flow(_arcs(30, 120), {0: 1, 29: -1}), lambda: _rows_of(40, 2), 2),
    "ranking": (lambda: so.structures.Ranking(), lambda: _list_of(60, 8, 6), 40),
}


def _labels(name: str, model: Any, X: Any) -> list[Any]:
    """Return labels of a hidden weight vector, a fifth of them shifted by one example."""
    rng = _random("labels")
    if name == "ranking":
        return [rng.integers(0, 3, len(x)) for x in X]
    w = rng.normal(size=model.n_weights(X[0]))
    y = [model.predict(w, x) for x in X]
    for k in range(0, len(y) - 1, 5):
        y[k] = y[k + 1]
    return y


def _fit(model: Any, X: Any, y: Any, surrogate: str) -> so.StructuredSVM:
    lam, tol = (0.02, 0.1) if surrogate == "slack" else (0.02, 0.01)  # slack rescaling takes more passes
    return so.StructuredSVM(model, surrogate=surrogate, lam=lam, tol=tol).fit(X, y)


def _shipped_fit(name: str) -> None:
    @row(f"fit {name}")
    def setup() -> Action:
        make, inputs, few = _SHIPPED[name]
        X = inputs()
        y = _labels(name, make(), X)
        return lambda: (_fit(make(), X, y, "margin"), _fit(make(), X[:few], y[:few], "slack"))


for _name in _SHIPPED:
    _shipped_fit(_name)


def _declared_pairs() -> tuple[so.LabelSpace, Any, Any]:
    n = 6
    i, j = np.triu_indices(n, 1)
    space = so.LabelSpace("pairs")
    y, p = space.binary("y", n), space.continuous("pair", len(i), 0, 1)
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    model = so.Model(space, {"y": so.features.Linear(), "pair": so.features.Tied()}, so.losses.Hamming())
    return space, model, _rows_of(40, 5)


def _declared_chain() -> tuple[so.LabelSpace, Any, Any]:
    T, S = 6, 3
    space = so.LabelSpace("chain")
    y, p = space.binary("y", (T, S)), space.continuous("transition", (T - 1, S, S), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
    tied = so.features.Tied(np.tile(np.arange(S * S), T - 1))
    model = so.Model(space, {"y": so.features.Table(), "transition": tied}, so.losses.Hamming(np.full(T * S, 0.5)))
    return space, model, _list_of(20, T, 5)


def _declared_closure() -> tuple[so.LabelSpace, Any, Any]:
    h = _tree(12)
    space = so.LabelSpace("closure")
    z = space.binary("node", 12)
    space.subject_to(z[h.child] <= z[h.parent])
    return space, _declared_model(space), _rows_of(40, 5)


def _declared_assignment() -> tuple[so.LabelSpace, Any, Any]:
    n = 6
    space = so.LabelSpace("permutations")
    y = space.binary("y", (n, n))
    space.subject_to(y.sum(axis=0) == 1, y.sum(axis=1) == 1)
    loss = so.losses.Hamming(np.full(n * n, 0.5))
    return space, so.Model(space, {"y": so.features.Shared()}, loss), _list_of(30, n, n, 6)


def _declared_knapsack() -> tuple[so.LabelSpace, Any, Any]:
    space = _knapsack()
    return space, _declared_model(space), _rows_of(20, 4)


_DECLARED: dict[str, Callable[[], tuple[so.LabelSpace, Any, Any]]] = {
    "pairs": _declared_pairs,
    "chain": _declared_chain,
    "closure": _declared_closure,
    "assignment": _declared_assignment,
    "knapsack": _declared_knapsack,
}


def _declared_fit(name: str) -> None:
    @row(f"fit declared {name}")
    def setup() -> Action:
        _, model, X = _DECLARED[name]()
        y = _labels(name, model, X)
        return lambda: [_fit(_DECLARED[name]()[1], X, y, surrogate) for surrogate in ("margin", "slack")]


for _name in _DECLARED:
    _declared_fit(_name)


@row("fit CRF")
def fit_crf() -> Action:
    model = so.structures.Chain(5)
    X = _list_of(30, 8, 8)
    y = _labels("chain", model, X)
    return lambda: so.CRF(so.structures.Chain(5), lam=0.02, tol=0.01).fit(X, y)


# ---- predictions and files -----------------------------------------------------------------------


@row("predict chain and closure")
def predict() -> Action:
    chain, X = so.structures.Chain(5), _list_of(30, 8, 8)
    closure, Z = so.structures.HierarchicalLabels(_tree(40, 2), "closure"), _rows_of(120, 6)
    of_chains = _fit(chain, X, _labels("chain", chain, X), "margin")
    of_closures = _fit(closure, Z[:30], _labels("closure", closure, Z[:30]), "margin")
    many = X * 40
    return lambda: (of_chains.predict(many), of_closures.predict(Z))


@row("save and load")
def save_and_load() -> Action:
    model = so.structures.Chain(5)
    X = _list_of(20, 8, 8)
    svm = _fit(model, X, _labels("chain", model, X), "margin")
    folder = tempfile.TemporaryDirectory()  # deleted with the action
    path = Path(folder.name) / "svm.npz"

    def action() -> object:
        svm.save(path)
        return so.load(path), folder

    return action


# ---- new processes -------------------------------------------------------------------------------


def _child(code: str) -> Action:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


@row("import")
def import_structopt() -> Action:
    return _child("import structopt as so; so.structures")


_FIRST_FIT = """
import numpy as np, structopt as so
X = np.random.default_rng(0).normal(size=(60, 5))
y = (X @ np.random.default_rng(1).normal(size=(5, 3)) > 0).astype(int)
so.StructuredSVM(so.structures.PairwiseMRF(3), lam=0.01).fit(X, y)
"""


@row("first fit")
def first_fit() -> Action:
    return _child(_FIRST_FIT)


# ---- the worker ----------------------------------------------------------------------------------


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of the processes that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def _measure(action: Action, count: int) -> float:
    gc.collect()
    gc.disable()
    begun = _cpu_seconds()
    for _ in range(count):
        action()
    spent = _cpu_seconds() - begun
    gc.enable()
    return spent


def _calibrate(action: Action, seconds: float) -> int:
    """Return the number of calls that take about `seconds`."""
    count, spent = 1, _measure(action, 1)
    while spent < seconds / 4:
        count *= 4
        spent = _measure(action, count)
    return max(1, round(count * seconds / spent))


def serve(requests: Iterable[str]) -> None:
    """Answer requests, one JSON object per line: prepare a row, or time a number of calls of it."""
    action: Action = _nothing
    for line in requests:
        request = json.loads(line)
        answer: dict[str, Any] = {}
        if "row" in request:
            action = _nothing  # frees the row before
            gc.unfreeze()
            try:
                action = prepare(request["row"])
                answer["count"] = _calibrate(action, request["seconds"])
            except Exception as error:  # another commit may lack the row: the caller decides
                answer["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
            gc.collect()
            gc.freeze()  # a collection before each timing then looks at new objects only
        else:
            answer["seconds"] = _measure(action, request["count"])
        print(json.dumps(answer), flush=True)


def _nothing() -> None:
    """Do nothing."""


if __name__ == "__main__":
    where = Path(so.__file__).resolve()
    if Path(os.environ["COMPARE_ROOT"]).resolve() not in where.parents:
        sys.exit(f"The worker imported {where} instead of its commit's package.")
    print(json.dumps({"ready": list(ROWS)}), flush=True)
    serve(sys.stdin)
