"""Declared spaces against shipped structures with the same labels: CPU time of a training pass, ratio in one run.

    python benchmarks/declared.py                # every pair
    python benchmarks/declared.py chain tags     # some

Both models see the same data and weights; a pass is one evaluation of the structured risk (the most violated label of
every example). The two take turns, and the better of several passes counts. ``enumerated``: a declared space of few
labels, which are listed, beside NumPy's own best row of the same list. ``readme`` fits README's example.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

# Before numpy is imported: threads of BLAS that wait for a core would be counted as work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from _results import keep, shown

import structopt as so
from structopt.train import StructuredRisk

N = 200
REPEATS = 7


class Pair(NamedTuple):
    """The same labels twice: a shipped model with its data, and a declared one with its own."""

    shipped: so.Model
    shipped_data: tuple[Any, Any]
    declared: so.Model
    declared_data: tuple[Any, Any]
    weights: Callable[[np.random.Generator], tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


def tags(n: int = 8, d: int = 10) -> Pair:
    """Pairwise tags: binary labels with a product variable for every pair."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(N, d)), (rng.random((N, n)) < 0.4).astype(float)
    i, j = np.triu_indices(n, 1)
    space = so.LabelSpace("tags")
    y, p = space.binary("y", n), space.continuous("pair", len(i), 0, 1)
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    declared = so.Model(space, {"y": so.features.Linear(), "pair": so.features.Tied()}, so.losses.Hamming())
    size = n * d + len(i)

    def weights(rng: np.random.Generator) -> tuple[Any, Any]:
        w = rng.normal(size=size) * 0.3
        return w, w

    return Pair(so.structures.PairwiseMRF(n), (X, Y), declared, (X, Y), weights)


def chain(T: int = 6, S: int = 4, d: int = 10) -> Pair:
    """Chains in local marginal form, every group with its row ``sum = 1``."""
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(T, d)) for _ in range(N)]
    Y = [rng.integers(0, S, T) for _ in range(N)]
    space = so.LabelSpace("chain")
    y, p = space.binary("y", (T, S)), space.continuous("transition", (T - 1, S, S), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
    tied = so.features.Tied(np.tile(np.arange(S * S), T - 1))
    # A wrong state is two wrong variables, and one error of the shipped chain's loss.
    declared = so.Model(space, {"y": so.features.Table(), "transition": tied}, so.losses.Hamming(np.full(T * S, 0.5)))
    Z = [np.eye(S)[labels] for labels in Y]
    size = S * d + S * S

    def weights(rng: np.random.Generator) -> tuple[Any, Any]:
        w = rng.normal(size=size) * 0.3
        return w, w

    return Pair(so.structures.Chain(S), (X, Y), declared, (X, Z), weights)


def _random_tree(n: int, rng: np.random.Generator) -> so.Hierarchy:
    return so.Hierarchy([(int(rng.integers(0, child)), child) for child in range(1, n)])


def _hierarchy_pair(kind: str, n: int, d: int, seed: int) -> Pair:
    """Sets of nodes of one tree, with the loss that counts wrong nodes."""
    rng = np.random.default_rng(seed)
    h = _random_tree(n, rng)
    shipped = so.structures.HierarchicalLabels(h, kind, loss=so.losses.Hamming())  # type: ignore[arg-type]
    space = so.LabelSpace(kind)
    z = space.binary("node", n)
    space.subject_to(z[h.child] <= z[h.parent])
    if kind == "leaves":
        below = sp.csr_array((np.ones(h.below.size), h.below, h.below_ptr), shape=(n, n))
        inner = np.flatnonzero(~h.is_leaf)
        space.subject_to(z @ below[inner].T >= z[inner], z[h.root_index].sum() >= 1)
    declared = so.Model(space, {"node": so.features.Linear()}, so.losses.Hamming())
    X = rng.normal(size=(N, d))
    leaves = list(h.leaves)
    Y = np.array([shipped.encode({leaves[k] for k in rng.integers(0, len(leaves), 2)}) for _ in range(N)])

    def weights(rng: np.random.Generator) -> tuple[Any, Any]:
        w = rng.normal(size=n * d) * 0.3
        return w, w

    return Pair(shipped, (X, Y), declared, (X, Y), weights)


def trees(n: int = 30, d: int = 10) -> Pair:
    """Sets of leaves of a tree with their ancestors."""
    return _hierarchy_pair("leaves", n, d, 2)


def closures(n: int = 30, d: int = 10) -> Pair:
    """Closures of a tree."""
    return _hierarchy_pair("closure", n, d, 3)


def assignments(n: int = 8, d: int = 10) -> Pair:
    """Permutations, every row and column with its row ``sum = 1``."""
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(n, n, d)) for _ in range(N)]
    Y = [rng.permutation(n) for _ in range(N)]
    space = so.LabelSpace("permutations")
    y = space.binary("y", (n, n))
    space.subject_to(y.sum(axis=0) == 1, y.sum(axis=1) == 1)
    # A wrong column is two wrong variables, and one error of the shipped loss.
    loss = so.losses.Hamming(np.full(n * n, 0.5))
    declared = so.Model(space, {"y": so.features.Shared()}, loss)
    Z = [np.eye(n)[columns] for columns in Y]

    def weights(rng: np.random.Generator) -> tuple[Any, Any]:
        w = rng.normal(size=d) * 0.3
        return w, w

    return Pair(so.structures.Assignment(), (X, Y), declared, (X, Z), weights)


PAIRS: dict[str, Callable[[], Pair]] = {
    "tags": tags,
    "chain": chain,
    "trees": trees,
    "closures": closures,
    "assignments": assignments,
}


def compare(name: str, surrogate: str) -> Mapping[str, Any]:
    """The CPU time of a pass of both, and their ratio."""
    pair = PAIRS[name]()
    risks = [
        StructuredRisk(model, *data, surrogate)
        for model, data in ((pair.shipped, pair.shipped_data), (pair.declared, pair.declared_data))
    ]
    best, values = [np.inf, np.inf], [0.0, 0.0]
    for repeat in range(REPEATS):
        weights = pair.weights(np.random.default_rng(repeat))
        for k, (risk, w) in enumerate(zip(risks, weights, strict=True)):
            start = time.process_time()
            values[k] = risk(w)[0]
            if repeat:  # the first pass compiles
                best[k] = min(best[k], time.process_time() - start)
        # Where neither stops at a gap, the objective values are the same.
        assert np.isclose(values[0], values[1], rtol=1e-9 if surrogate == "margin" else 1e-3), values
    ms = [1000 * seconds / N for seconds in best]
    return _row(name, surrogate, "shipped structure", ms)


def _row(name: str, surrogate: str, beside: str, ms: list[float]) -> Mapping[str, Any]:
    row = {"labels": name, "rescaling": surrogate, "beside": beside, "its ms an example": ms[0], "declared, ms": ms[1]}
    return shown(row | {"declared / beside": ms[1] / ms[0]})


def enumerated(surrogate: str, n: int = 6, d: int = 10) -> Mapping[str, Any]:
    """A space without a name, whose labels are listed, against products with the same list written out by hand."""
    rng = np.random.default_rng(5)
    space = so.LabelSpace("at most three of six, the first needs the second")
    y = space.binary("y", n)
    space.subject_to(y.sum() <= 3, y[0] <= y[1], y[2] + y[3] <= 1)
    labels = space.enumerate()
    X, Y = rng.normal(size=(N, d)), labels[rng.integers(0, len(labels), N)]
    risk = StructuredRisk(so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming()), X, Y, surrogate)
    losses = np.abs(labels[None] - Y[:, None]).sum(axis=2)
    rows = np.arange(N)

    def by_hand(w: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        scores = X @ w.reshape(n, d).T
        margin = scores @ labels.T - np.einsum("ij,ij->i", scores, Y)[:, None]
        psi = margin + losses if surrogate == "margin" else (1.0 + margin) * losses
        best = psi.argmax(axis=1)
        value = np.maximum(psi[rows, best], 0.0)
        scale = np.where(value > 0.0, 1.0 if surrogate == "margin" else losses[rows, best], 0.0)
        return float(value.mean()), ((scale[:, None] * (labels[best] - Y)).T @ X).ravel() / N

    best = [np.inf, np.inf]
    for repeat in range(REPEATS):
        w = np.random.default_rng(repeat).normal(size=n * d) * 0.3
        found = []
        evaluations: list[Callable[[Any], tuple[float, Any]]] = [by_hand, risk]
        for k, evaluate in enumerate(evaluations):
            start = time.process_time()
            found.append(evaluate(w)[0])
            if repeat:
                best[k] = min(best[k], time.process_time() - start)
        assert np.isclose(found[0], found[1], rtol=1e-9), found
    ms = [1000 * seconds / N for seconds in best]
    return _row("enumerated", surrogate, "NumPy by hand", ms)


def readme() -> Mapping[str, Any]:
    """README's example: five tags within a budget, two of them exclusive, 80 examples."""
    cost = np.array([3.0, 2.0, 2.0, 1.0, 4.0])
    space = so.LabelSpace("tags within a budget")
    tag = space.binary("tag", 5)
    space.subject_to(cost @ tag <= 6, name="budget")
    space.subject_to(tag[0] + tag[1] <= 1, name="exclusive")
    model = so.Model(space, features={"tag": so.features.Linear()}, loss=so.losses.Hamming())
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(80, 4)), rng.normal(size=(5, 4))
    Y = [model.predict(weights.ravel(), x) for x in X]
    seconds = []
    for _ in range(3):
        start = time.process_time()
        svm = so.StructuredSVM(model, surrogate="slack", lam=1e-3).fit(X, Y)
        seconds.append(time.process_time() - start)
    return shown({"fit": "README's example, 80 examples, slack", "CPU s": min(seconds), "gap": svm.result_.gap})


def main() -> None:
    """Compare what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(PAIRS)}, enumerated, readme")
    wanted = parser.parse_args().names or [*PAIRS, "enumerated", "readme"]
    measures = ("structopt/algorithms", "structopt/recognize", "structopt/risks", "structopt/search", "structopt/model")
    rows = [
        enumerated(surrogate) if name == "enumerated" else compare(name, surrogate)
        for name in wanted
        if name != "readme"
        for surrogate in ("margin", "slack")
    ]
    title = "A declared space and a shipped structure with the same labels"
    keep("declared", rows, title=title, measures=measures, ratio="declared / beside")
    if "readme" in wanted:
        keep("declared.readme", [readme()], title="README's example", measures=measures, words=["readme"])


if __name__ == "__main__":
    main()
