"""Dependency trees: relaxations, directed cuts, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.structures.arborescence import Arborescence, directed_cuts


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def is_tree(heads, single_root=False):
    n = len(heads)
    for start in range(1, n + 1):
        v = start
        for _ in range(n):
            v = heads[v - 1] if v else 0
        if v:
            return False
    return not single_root or list(heads).count(0) == 1


@pytest.mark.parametrize("single_root", [False, True])
def test_relaxations(rng, single_root):
    """Directed cuts: integral. One commodity: an upper bound, and not always attained."""
    loose = 0
    for _ in range(15):
        W = rng.integers(-3, 4, size=(5, 5)).astype(float)
        values = {}
        for flow in ("single", "cuts"):
            model = Arborescence(single_root, flow=flow)
            c = np.zeros(model.space(5).n_variables)
            c[:25] = W.ravel()
            relaxed = so.Oracle(model.space(5), "highs", integral="relax").maximize(c)
            values[flow] = relaxed.value
            best = model.oracle(5).maximize(c).value
            heads = model.decode(relaxed.z)
            assert is_tree(heads, single_root)
            if flow == "cuts":
                assert np.allclose(relaxed.z, np.rint(relaxed.z), atol=1e-6) and model.space(5).contains(relaxed.z)
        assert values["cuts"] == pytest.approx(best, abs=1e-6)
        assert values["single"] >= best - 1e-6
        loose += values["single"] > best + 1e-3
    assert loose > 0


def test_directed_cuts_equal_all_sets():
    """Arcs of random weights: a set that less than 1 enters is found if there is any, and cuts off no tree."""
    rng = np.random.default_rng(8)
    trees = [heads for heads in itertools.product(range(4), repeat=3) if is_tree(heads)]
    trees = np.array([Arborescence(flow="cuts").encode(heads) for heads in trees])
    seen = set()
    for _ in range(30):
        arc = rng.random((4, 4)) * (rng.random((4, 4)) < 0.6)
        arc[:, 0] = 0.0
        sets = [np.array([False, *side]) for side in itertools.product([False, True], repeat=3) if any(side)]
        least = min(arc[~side][:, side].sum() for side in sets)
        answer = directed_cuts({"arc": arc})
        assert (answer is not None) == (least < 1.0 - 1e-5)
        seen.add(answer is None)
        if answer is not None:
            assert (answer[0] @ arc.ravel() < 1.0).all() and (answer[0] @ trees.T >= 1.0).all()
    assert len(seen) == 2
    assert so.testing.check_separation(
        Arborescence(flow="cuts").space(4), lambda z: is_tree(z["arc"][:, 1:].argmax(axis=0)), trials=3
    ).ok


@pytest.mark.parametrize(
    ("rules", "heads", "told"),
    [
        ({}, [2, 1, 0], "cycle, token by token 1 -> 2 -> 1"),
        ({}, [0, 3, 4, 2], "2 -> 3 -> 4 -> 2"),
        ({}, [0, 2, 1], "Token 2 is its own head"),
        ({}, [0, 4, 1], "head of token 2 is 4"),
        ({}, [0, -1], "head of token 2 is -1"),
        ({}, [0, 0.5], "token 2 is 0.5"),
        ({"single_root": True}, [2, 0, 0], "Tokens 2 and 3 both hang from the root"),
        ({"projective": True}, [3, 0, 2, 1], "arcs 3 -> 1 and 0 -> 2 cross"),
    ],
)
def test_wrong_heads_are_named(rules, heads, told):
    with pytest.raises(LabelNotInSpace, match=told):
        Arborescence(**rules).encode(heads)


def test_bad_inputs(rng):
    model = Arborescence()
    with pytest.raises(DeclarationError, match="flow must be"):
        Arborescence(flow="none")
    with pytest.raises(DeclarationError, match="use 'cuts'"):
        Arborescence(flow="multi")
    with pytest.raises(DeclarationError):
        Arborescence(flow="cuts").decode(np.zeros(18))
    with pytest.raises(DeclarationError, match=r"got \(3, 4, 2\)"):
        model.space(rng.normal(size=(3, 4, 2)))
    with pytest.raises(DeclarationError, match=r"got \(7, 2\)"):
        model.space(sp.csr_array(np.ones((7, 2))))
    with pytest.raises(DeclarationError, match="Heads must be an array of numbers"):
        model.encode(["a", "b"])
    with pytest.raises(LabelNotInSpace, match="2 heads for 3 tokens"):
        model.encode([0, 1], rng.normal(size=(4, 4, 2)))
    batch = model.batch(rng.normal(size=(3, 3, 3, 2)))
    with pytest.raises(LabelNotInSpace, match="1 of 3 labels cannot be used:\n  example 1: The heads form a cycle"):
        batch.truth([[0, 0], [2, 1], [0, 1]])
    with pytest.raises(DeclarationError, match="3 inputs but 2 labels"):
        batch.truth([[0, 0], [0, 1]])
    x = rng.normal(size=(3, 3, 2))
    x[0, 1, 0] = np.nan
    with pytest.raises(DeclarationError, match="example 1 contain NaN"):
        model.batch([rng.normal(size=(2, 2, 2)), x])


def test_reprs(rng):
    model = Arborescence(single_root=True, flow="cuts")
    x = rng.normal(size=(4, 4, 2))
    assert repr(model) == "Arborescence(single_root=True, flow='cuts')"
    assert "Chu-Liu/Edmonds" in repr(model.oracle(x))
    assert repr(model.batch([x])) == "<Batch of Arborescence: 1 examples, 16 rows, 2 weights>"
