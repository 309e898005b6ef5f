"""Chains: rules, losses by their definitions, fronts, bad input, and the OCR letters."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError, InfeasibleSpace, LabelNotInSpace
from structopt.structures.chain import Chain, bio_rules

TAGS = ["O", "B-PER", "I-PER"]


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def test_the_recogniser_proves_the_declared_lp_integral():
    assert Chain(3).space(np.zeros((4, 1))).structure.totally_unimodular


def test_a_forbidden_point_that_is_not_a_label_excludes_nothing(rng):
    for model in (Chain(2), so.structures.Segmentation(2, 2)):
        oracle = model.oracle(np.zeros((3, 1)))
        c = rng.normal(size=oracle.space.n_variables)
        best = oracle.maximize(c)
        for point in (np.zeros_like(c), np.ones_like(c), 0.6 * best.z):
            assert oracle.maximize(c, forbid=[point]).value == pytest.approx(best.value)


def test_long_chains_have_a_front_only_if_the_loss_of_states_counts(rng):
    oracle = Chain(10).oracle(np.zeros((8, 1)))
    c, g = rng.normal(size=(2, oracle.space.n_variables))
    assert oracle.front((c, 0.0), (g, 0.0)) is None
    g[80:] = 0.0
    assert oracle.front((c, 0.0), (g, 0.0)) is None
    assert len(oracle.front((c, 0.0), (np.where(g > 0.0, 0.5, 0.0), 0.0))) > 1


def test_bio_rules():
    tags = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    rules = bio_rules(tags)
    for a, b in itertools.product(range(5), repeat=2):
        wanted = tags[b][0] != "I" or (tags[a] != "O" and tags[a][2:] == tags[b][2:])
        assert rules.transitions[a, b] == wanted
    assert rules.initial.tolist() == [True, True, False, True, False]
    assert Chain(tags, transitions=rules).rules.initial.tolist() == rules.initial.tolist()
    assert bio_rules(["B", "I", "O"]).initial.tolist() == [True, False, True]
    for wrong in (["O", "X-PER"], ["O-PER"], ["B-"], ["O", 3]):
        with pytest.raises(DeclarationError, match="not a BIO tag"):
            bio_rules(wrong)
    with pytest.raises(DeclarationError, match="no 'B-LOC'"):
        bio_rules(["O", "B-PER", "I-LOC"])


def test_bad_declarations():
    for arguments, message in [
        ({"states": 0}, "at least one state"),
        ({"states": ["a", "b", "a"]}, "named 'a'"),
        ({"states": 2, "transitions": np.ones((3, 3))}, "shape"),
        ({"states": 2, "transitions": [[0.5, 1], [1, 1]]}, "True or False"),
        ({"states": 2, "transitions": "ioe"}, "'bio'"),
        ({"states": 2, "initial": [0, 0]}, "may come first"),
        ({"states": 2, "loss": "zero-one"}, "loss must be"),
        ({"states": 2, "loss": [1, 2, 3]}, "shape"),
        ({"states": 2, "loss": [1, -2]}, "non-negative"),
    ]:
        with pytest.raises(DeclarationError, match=message):
            Chain(**arguments)


def test_bad_labels():
    model = Chain(TAGS, transitions="bio")
    x = np.zeros((3, 2))
    for label, message in [
        (["O", "B-LOC", "O"], "position 1: 'B-LOC' is not one of the states 'O', 'B-PER', 'I-PER'"),
        (["O", ["O"], "O"], r"position 1: \['O'\]"),
        (["O", "O", "I-PER"], "position 2: 'I-PER' may not follow 'O'"),
        (["I-PER", "O", "O"], "position 0: 'I-PER' may not come first"),
        (["O", "O"], "2 states for a sequence of 3"),
    ]:
        with pytest.raises(LabelNotInSpace, match=message):
            model.encode(label, x)
        with pytest.raises(LabelNotInSpace, match=f"1 of 2 labels cannot be used:\n  example 1: .*{message}"):
            model.batch([x, x]).truth([["O"] * 3, label])
    with pytest.raises(LabelNotInSpace, match="empty"):
        model.encode([])
    with pytest.raises(LabelNotInSpace, match="position 1: 7"):
        Chain(3).encode(np.array([1, 7]))
    with pytest.raises(DeclarationError, match="2 inputs but 1 labels"):
        model.batch([x, x]).truth([["O"] * 3])


def test_bad_inputs():
    model = Chain(2)
    w = np.zeros(8)
    with pytest.raises(DeclarationError, match=r"Example 1: .*empty"):
        model.batch([np.zeros((2, 2)), np.zeros((0, 2))])
    with pytest.raises(DeclarationError, match="empty"):
        model.predict(w, np.zeros((0, 2)))
    with pytest.raises(DeclarationError, match=r"\(T, d\) matrix"):
        model.space(np.zeros(4))
    with pytest.raises(DeclarationError, match=r"wrap a single sequence as \[x\]"):
        model.batch(np.zeros((4, 2)))
    with pytest.raises(DeclarationError, match="Example 1 has 3 features"):
        model.batch([np.zeros((2, 2)), np.zeros((2, 3))])
    with pytest.raises(DeclarationError, match="example 1 contain NaN"):
        model.batch([np.zeros((2, 2)), np.full((2, 2), np.nan)])
    with pytest.raises(DeclarationError, match="8 weights"):
        model.predict(np.zeros(5), np.zeros((3, 2)))
    with pytest.raises(DeclarationError, match="not one of a chain"):
        model.decode(np.zeros(5))
    with pytest.raises(DeclarationError, match="n_jobs"):
        batch = model.batch([np.zeros((2, 2))])
        batch.argmax(batch.tables(w), n_jobs=0)


def test_rules_that_end():
    """A chain of states without a way back has labels only up to its length."""
    model = Chain("abc", transitions=np.triu(np.ones((3, 3)), 1))
    assert model.predict(np.zeros(12), np.zeros((3, 1))) == ["a", "b", "c"]
    with pytest.raises(InfeasibleSpace, match="at most 3 positions, not 4"):
        model.space(np.zeros((4, 1)))
    with pytest.raises(InfeasibleSpace, match=r"Example 1: .*at most 3"):
        model.batch([np.zeros((3, 1)), np.zeros((5, 1))])


def test_a_stack_of_equal_lengths(rng):
    X = rng.normal(size=(4, 3, 2))
    batch = Chain(2).batch(X)
    assert batch.starts[0].tolist() == [0, 3, 6, 9, 12]
    assert batch.decode(batch.truth(np.ones((4, 3), dtype=int)))[2].tolist() == [1, 1, 1]


def test_labels_in_arrays_are_checked_like_lists():
    model = Chain(2, [[True, True], [False, True]], [True, False])
    batch = model.batch([np.zeros((2, 1)), np.zeros((3, 1))])
    right = [np.array([0, 1]), np.array([0, 0, 1], dtype=np.int32)]
    np.testing.assert_array_equal(batch.truth(right).native, [0, 1, 0, 0, 1])
    np.testing.assert_array_equal(batch.truth([list(y) for y in right]).native, [0, 1, 0, 0, 1])
    for wrong in ([0, 1, 0], [1, 1, 1], [0, 0, 2], [0, -1, 1], [0, 0]):
        with pytest.raises(LabelNotInSpace, match="example 1"):
            batch.truth([np.array([0, 1]), np.array(wrong)])


@pytest.mark.parametrize("surrogate", ["margin", "slack", "micro_f1"])
def test_a_risk_of_chains_declares_no_space_of_all_transitions(surrogate):
    # The space of a chain has states^2 * positions variables; training needs states^2 weights only.
    rng, S, T = np.random.default_rng(0), 60, 50
    X, Y = [rng.normal(size=(T, 2)) for _ in range(2)], [rng.integers(0, S, T).tolist() for _ in range(2)]
    model = so.structures.Chain(S)
    risk = so.train.StructuredRisk(model, X, Y, surrogate=surrogate)
    risk(np.zeros(risk.n_features))
    assert all(space.n_variables < S * S for space in model._spaces.values())
    assert risk.n_features == 2 * S + S * S
