"""Declared spaces against shipped structures with the same labels: CPU time of a training pass, ratio in one run.

Both models see the same data and weights; a pass is one evaluation of the structured risk (the most violated label of
every example). The two take turns, and the better of several passes counts. ``enumerated``: a declared space of few
labels, which are listed, beside NumPy's own best row of the same list. ``readme`` fits README's example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from _bench import Rows, cycled, in_turns, main, part, timed

import structopt as so
from structopt.train import StructuredRisk

N, D = 200, 10  # examples, features
Evaluate = Callable[[np.ndarray], tuple[float, Any]]


class Pair(NamedTuple):
    """The same labels twice, with the same inputs: a shipped model with its labels, and a declared one with its own."""

    X: Any
    shipped: so.Model
    Y: Any
    declared: so.Model
    Z: Any

    def evaluations(self, surrogate: str) -> tuple[str, StructuredRisk, StructuredRisk]:
        shipped = StructuredRisk(self.shipped, self.X, self.Y, surrogate)
        return "shipped structure", shipped, StructuredRisk(self.declared, self.X, self.Z, surrogate)


def tags(n: int = 8) -> Pair:
    """Return pairwise tags: binary labels with a product variable for every pair."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(N, D)), (rng.random((N, n)) < 0.4).astype(float)
    i, j = np.triu_indices(n, 1)
    space = so.LabelSpace("tags")
    y, p = space.binary("y", n), space.continuous("pair", len(i), 0, 1)
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    declared = so.Model(space, {"y": so.features.Linear(), "pair": so.features.Tied()}, so.losses.Hamming())
    return Pair(X, so.structures.PairwiseMRF(n), Y, declared, Y)


def chain(T: int = 6, S: int = 4) -> Pair:
    """Return chains in local marginal form, every group with its row ``sum = 1``."""
    rng = np.random.default_rng(1)
    X, Y = [rng.normal(size=(T, D)) for _ in range(N)], [rng.integers(0, S, T) for _ in range(N)]
    space = so.LabelSpace("chain")
    y, p = space.binary("y", (T, S)), space.continuous("transition", (T - 1, S, S), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
    tied = so.features.Tied(np.tile(np.arange(S * S), T - 1))
    # A wrong state is two wrong variables, and one error of the shipped chain's loss.
    declared = so.Model(space, {"y": so.features.Table(), "transition": tied}, so.losses.Hamming(np.full(T * S, 0.5)))
    return Pair(X, so.structures.Chain(S), Y, declared, [np.eye(S)[labels] for labels in Y])


def hierarchy(kind: Any, seed: int, n: int = 30) -> Pair:
    """Return sets of nodes of one tree, with the loss that counts wrong nodes."""
    rng = np.random.default_rng(seed)
    h = so.Hierarchy([(int(rng.integers(0, child)), child) for child in range(1, n)])
    shipped = so.structures.HierarchicalLabels(h, kind, loss=so.losses.Hamming())
    space = so.LabelSpace(kind)
    z = space.binary("node", n)
    space.subject_to(z[h.child] <= z[h.parent])
    if kind == "leaves":
        below = sp.csr_array((np.ones(h.below.size), h.below, h.below_ptr), shape=(n, n))
        inner = np.flatnonzero(~h.is_leaf)
        space.subject_to(z @ below[inner].T >= z[inner], z[h.root_index].sum() >= 1)
    X, leaves = rng.normal(size=(N, D)), list(h.leaves)
    Y = np.array([shipped.encode({leaves[k] for k in rng.integers(0, len(leaves), 2)}) for _ in range(N)])
    return Pair(X, shipped, Y, so.Model(space, {"node": so.features.Linear()}, so.losses.Hamming()), Y)


def assignments(n: int = 8) -> Pair:
    """Return permutations, every row and column with its row ``sum = 1``."""
    rng = np.random.default_rng(4)
    X, Y = [rng.normal(size=(n, n, D)) for _ in range(N)], [rng.permutation(n) for _ in range(N)]
    space = so.LabelSpace("permutations")
    y = space.binary("y", (n, n))
    space.subject_to(y.sum(axis=0) == 1, y.sum(axis=1) == 1)
    # A wrong column is two wrong variables, and one error of the shipped loss.
    declared = so.Model(space, {"y": so.features.Shared()}, so.losses.Hamming(np.full(n * n, 0.5)))
    return Pair(X, so.structures.Assignment(), Y, declared, [np.eye(n)[columns] for columns in Y])


def enumerated(surrogate: str, n: int = 6) -> tuple[str, Evaluate, StructuredRisk]:
    """Return products with a list of labels written out by hand, and the declared space, whose labels are listed."""
    rng = np.random.default_rng(5)
    space = so.LabelSpace("at most three of six, the first needs the second")
    y = space.binary("y", n)
    space.subject_to(y.sum() <= 3, y[0] <= y[1], y[2] + y[3] <= 1)
    labels = space.enumerate()
    X, Y = rng.normal(size=(N, D)), labels[rng.integers(0, len(labels), N)]
    risk = StructuredRisk(so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming()), X, Y, surrogate)
    losses, rows = np.abs(labels[None] - Y[:, None]).sum(axis=2), np.arange(N)

    def by_hand(w: np.ndarray) -> tuple[float, np.ndarray]:
        scores = X @ w.reshape(n, D).T
        margin = scores @ labels.T - np.einsum("ij,ij->i", scores, Y)[:, None]
        psi = margin + losses if surrogate == "margin" else (1.0 + margin) * losses
        best = psi.argmax(axis=1)
        value = np.maximum(psi[rows, best], 0.0)
        scale = np.where(value > 0.0, 1.0 if surrogate == "margin" else losses[rows, best], 0.0)
        return float(value.mean()), ((scale[:, None] * (labels[best] - Y)).T @ X).ravel() / N

    return "NumPy by hand", by_hand, risk


CASES: dict[str, Callable[[str], tuple[str, Evaluate, StructuredRisk]]] = {
    "tags": lambda surrogate: tags().evaluations(surrogate),
    "chain": lambda surrogate: chain().evaluations(surrogate),
    "trees": lambda surrogate: hierarchy("leaves", 2).evaluations(surrogate),
    "closures": lambda surrogate: hierarchy("closure", 3).evaluations(surrogate),
    "assignments": lambda surrogate: assignments().evaluations(surrogate),
    "enumerated": enumerated,
}


@part("A declared space and a shipped structure with the same labels", ratio="declared / beside")
def pairs(only: tuple[str, ...] = tuple(CASES)) -> Rows:
    for name in only:
        for surrogate in ("margin", "slack"):
            beside, first, second = CASES[name](surrogate)
            weights = [0.3 * np.random.default_rng(k).normal(size=second.n_features) for k in range(7)]
            for w in weights:  # if neither stops at a gap, the values are the same
                same = np.isclose(first(w)[0], second(w)[0], rtol=1e-9 if surrogate == "margin" else 1e-3)
                assert same, (name, surrogate)
            calls: dict[str, Callable[[], Any]] = {"it": cycled(first, weights), "declared": cycled(second, weights)}
            ms = {key: 1e3 * min(seconds) / N for key, seconds in in_turns(calls, 6).items()}
            row = {"labels": name, "rescaling": surrogate, "beside": beside, "its ms an example": ms["it"]}
            yield row | {"declared, ms": ms["declared"], "declared / beside": ms["declared"] / ms["it"]}


@part("README's example")
def readme() -> Rows:
    cost = np.array([3.0, 2.0, 2.0, 1.0, 4.0])
    space = so.LabelSpace("tags within a budget")
    tag = space.binary("tag", 5)
    space.subject_to(cost @ tag <= 6, name="budget")
    space.subject_to(tag[0] + tag[1] <= 1, name="exclusive")
    model = so.Model(space, features={"tag": so.features.Linear()}, loss=so.losses.Hamming())
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(80, 4)), rng.normal(size=(5, 4))
    Y = [model.predict(weights.ravel(), x) for x in X]
    svm, seconds = timed(lambda: so.StructuredSVM(model, surrogate="slack", lam=1e-3).fit(X, Y), 3)
    yield {"fit": "README's example, 80 examples, slack", "CPU s": seconds, "gap": svm.result_.gap}


if __name__ == "__main__":
    main()
