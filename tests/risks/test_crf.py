"""Structured logistic losses against enumeration, finite differences and another optimiser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.risks.crf import ChainCRF, PathSoftmax
from structopt.risks.tree_crf import TreeCRF
from structopt.structures.chain import Chain


def sequences(seed: int, n: int = 4, d: int = 2, model: Chain | None = None) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 5), d)) for _ in range(n)]
    model = model or Chain(3)
    weights = rng.normal(size=model.batch(X).n_weights)
    return X, [list(model.predict(weights, x)) for x in X]


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


TREE = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d")])


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
