"""Structured logistic losses against enumeration, finite differences and another optimiser."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.risks import Softmax
from structopt.risks.crf import ChainCRF, PathSoftmax
from structopt.risks.tree_crf import TreeCRF
from structopt.structures.chain import Chain

RULES = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=bool)


def sequences(seed: int, n: int = 4, d: int = 2, model: Chain | None = None) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 5), d)) for _ in range(n)]
    model = model or Chain(3)
    weights = rng.normal(size=model.batch(X).n_weights)
    return X, [list(model.predict(weights, x)) for x in X]


def by_enumeration(model: Chain, X: list[Any], Y: list[Any], w: np.ndarray) -> float:
    total = 0.0
    for x, y in zip(X, Y, strict=True):
        scores = model.scores(w, x)
        values = []
        for label in product(range(3), repeat=len(x)):
            try:
                values.append(float(scores @ model.encode(label, x)))
            except LabelNotInSpace:
                continue
        total += logsumexp(values) - float(scores @ model.encode(y, x))
    return total / len(X)


@pytest.mark.parametrize("seed", range(3))
def test_chain_with_rules(seed: int) -> None:
    model = Chain(3, RULES, initial=[1, 0, 1], intercept=True, initial_weights=True)
    X, Y = sequences(seed, model=model)
    risk = ChainCRF(model, X, Y)
    w = np.random.default_rng(seed).normal(size=risk.n_features)
    value, gradient = risk(w)
    assert value == pytest.approx(by_enumeration(model, X, Y, w), abs=1e-9)
    assert gradient == pytest.approx(approx_fprime(w, lambda v: risk(v)[0], 1e-6), abs=1e-5)


def test_chain_sparse_and_threads() -> None:
    X, Y = sequences(1, n=7)
    risk = ChainCRF(Chain(3), X, Y)
    w = np.random.default_rng(0).normal(size=risk.n_features)
    value, gradient = risk(w)
    for other in (ChainCRF(Chain(3), [sp.csr_array(x) for x in X], Y), ChainCRF(Chain(3), X, Y, n_jobs=2)):
        assert other(w)[0] == pytest.approx(value, rel=1e-12)
        assert other(w)[1] == pytest.approx(gradient, abs=1e-12)


def test_chain_refusals() -> None:
    X, Y = sequences(3)
    with pytest.raises(DeclarationError, match=r"must be a Chain, got .*Multiclass"):
        ChainCRF(so.structures.Multiclass(3), X, Y)  # type: ignore[arg-type]
    with pytest.raises(LabelNotInSpace, match="example 1"):
        ChainCRF(Chain(3), X, [Y[0], [7] * len(Y[1]), *Y[2:]])
    assert ChainCRF(Chain(3), X, Y).fingerprint() != ChainCRF(Chain(3), X, [[0] * len(x) for x in X]).fingerprint()


def test_trees_refuse_circles() -> None:
    X, Y = np.ones((2, 1)), np.zeros((2, 3))
    with pytest.raises(DeclarationError, match="form a cycle"):
        TreeCRF(so.structures.PairwiseMRF(3), X, Y)
    with pytest.raises(DeclarationError, match="form a cycle"):  # as few edges as a tree, but one cycle
        TreeCRF(so.structures.PairwiseMRF(4, edges=[(0, 1), (1, 2), (0, 2)]), X, np.zeros((2, 4)))
    with pytest.raises(DeclarationError, match=r"must be a PairwiseMRF, got .*Chain"):
        TreeCRF(Chain(2), X, Y)  # type: ignore[arg-type]


DAG = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("b", "c"), ("a", "d"), ("b", "e"), ("c", "f"), ("c", "g")])
TREE = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])


@pytest.mark.parametrize("hierarchy", [DAG, TREE], ids=["DAG", "tree"])
@pytest.mark.parametrize("weighted", [False, True])
def test_paths_against_enumeration(hierarchy: so.Hierarchy, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 3))
    y = [hierarchy.leaves[k] for k in rng.integers(0, len(hierarchy.leaves), 6)]
    alpha = rng.random(len(hierarchy)) if weighted else np.ones(len(hierarchy))
    risk = PathSoftmax(X, y, hierarchy, alpha if weighted else None)
    w = rng.normal(size=risk.n_features)
    node = X @ w.reshape(len(hierarchy), 3).T * np.sqrt(alpha)
    total = 0.0
    for i, truth in enumerate(y):
        score = {
            leaf: sum(node[i, hierarchy.index(n)] for n in hierarchy.ancestors(leaf, itself=True))
            for leaf in hierarchy.leaves
        }
        total += logsumexp(list(score.values())) - score[truth]
    value, gradient = risk(w)
    assert value == pytest.approx(total / 6, abs=1e-10)
    assert gradient == pytest.approx(approx_fprime(w, lambda v: risk(v)[0], 1e-6), abs=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_average_paths_against_enumeration(weighted: bool) -> None:
    # The ways down to 6 visit 2, 3, 4, 5, 6 with shares 2/3, 1/3, 1/3, 2/3, 1; 7 has two roots above it.
    dag = so.Hierarchy([(1, 2), (1, 3), (2, 4), (2, 5), (3, 5), (4, 6), (5, 6), (3, 7), (8, 7), (8, 9)])
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(5, 2)), [6, 7, 9, 6, 7]
    alpha = rng.random(len(dag)) if weighted else np.ones(len(dag))
    risk = PathSoftmax(X, y, dag, alpha if weighted else None, paths="average")
    w = rng.normal(size=risk.n_features)
    node = X @ w.reshape(len(dag), 2).T * np.sqrt(alpha)

    def ways(name: int) -> list[list[int]]:
        above = [[*way, name] for parent in dag.parents(name) for way in ways(parent)]
        return above or [[name]]

    total = 0.0
    for i, truth in enumerate(y):
        score = {leaf: np.mean([sum(node[i, dag.index(n)] for n in way) for way in ways(leaf)]) for leaf in dag.leaves}
        total += logsumexp(list(score.values())) - score[truth]
    value, gradient = risk(w)
    assert value == pytest.approx(total / 5, abs=1e-10)
    assert gradient == pytest.approx(approx_fprime(w, lambda v: risk(v)[0], 1e-6), abs=1e-5)


def test_average_paths_of_a_tree_are_its_paths() -> None:
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(4, 2)), ["b", "c", "d", "c"]
    w = rng.normal(size=2 * len(TREE))
    assert PathSoftmax(X, y, TREE, paths="average")(w)[0] == pytest.approx(PathSoftmax(X, y, TREE)(w)[0], rel=1e-12)
    with pytest.raises(DeclarationError, match="paths"):
        PathSoftmax(X, y, TREE, paths="mean")  # type: ignore[arg-type]


def test_a_star_is_the_softmax() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(8, 2)), rng.integers(0, 3, 8)
    star = so.Hierarchy([], nodes=[0, 1, 2])
    w = rng.normal(size=6)
    paths, flat = PathSoftmax(sp.csr_array(X), y, star)(w), Softmax(X, y)(w)
    assert paths[0] == pytest.approx(flat[0], rel=1e-12)
    assert paths[1] == pytest.approx(flat[1], abs=1e-12)


def test_wrong_paths_are_named() -> None:
    X = np.eye(3)
    with pytest.raises(LabelNotInSpace, match=r"y\[1\] = 'a' is not a leaf"):
        PathSoftmax(X[:2], ["c", "a"], TREE)
    with pytest.raises(DeclarationError, match="is not a node"):
        PathSoftmax(X[:1], ["cat"], TREE)
    with pytest.raises(DeclarationError, match="1 labels for 2 rows"):
        PathSoftmax(X[:2], ["c"], TREE)
    with pytest.raises(DeclarationError, match="must not be negative"):
        PathSoftmax(X[:1], ["c"], TREE, alpha=-np.ones(5))


@pytest.mark.parametrize("n_jobs", [0, -7])
def test_numbers_of_threads(n_jobs):
    X, Y = [np.array([[1.0], [-1.0]])], [[0, 1]]
    with pytest.raises(DeclarationError, match=f"n_jobs must be -1 or at least 1, got {n_jobs}"):
        so.CRF(n_jobs=n_jobs).fit(X, Y)


def test_score_of_what_is_no_list_of_states():
    X, Y = [np.array([[1.0], [-1.0]]), np.array([[0.5]])], [["a", "b"], ["a"]]
    crf = so.CRF(lam=0.1).fit(X, Y)
    for y, told in (
        (12345, "y must be a sequence"),
        ([["a", None], ["a"]], r"state of y\[0\] is None"),
        ([["a", "b"], [float("nan")]], r"state of y\[1\] is nan"),
        ([np.full((2, 1, 1), "a"), ["a"]], r"state of y\[0\] must be hashable"),
    ):
        with pytest.raises(DeclarationError, match=told):
            crf.score(X, y)
