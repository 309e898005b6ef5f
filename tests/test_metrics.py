"""Metrics against scikit-learn and their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as skm

from structopt import metrics
from structopt.errors import DeclarationError
from structopt.hierarchy import Hierarchy
from structopt.losses import HierarchicalLoss

TREE = Hierarchy([("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")])
DIAMOND = Hierarchy([(0, 1), (0, 2), (1, 3), (2, 3)])


def random_labels(seed: int, n: int = 20, k: int = 5):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2, (n, k)), rng.integers(0, 2, (n, k))


def closed(h: Hierarchy, rows):
    """Rows completed by their ancestors, one set at a time."""
    out = np.zeros((len(rows), len(h)), dtype=int)
    for i, row in enumerate(rows):
        for k in np.flatnonzero(row):
            out[i, h.indices(h.ancestors(h.nodes[k], itself=True))] = 1
    return out


@given(seed=st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_equal_scikit_learn_on_matrices(seed):
    truth, guess = random_labels(seed)
    for kind in (np.asarray, sp.csr_array, lambda y: y.tolist(), lambda y: y.astype(bool)):
        t, g = kind(truth), kind(guess)
        assert metrics.accuracy(t, g) == pytest.approx(skm.accuracy_score(truth, guess))
        assert metrics.label_loss(t, g) == pytest.approx(skm.hamming_loss(truth, guess))
        assert metrics.micro_f1(t, g) == pytest.approx(skm.f1_score(truth, guess, average="micro"))
        assert metrics.macro_f1(t, g) == pytest.approx(skm.f1_score(truth, guess, average="macro", zero_division=0))
        by_example = skm.f1_score(truth, guess, average="samples", zero_division=0)
        assert metrics.macro_f1(t, g, over="examples") == pytest.approx(by_example)
        share = skm.jaccard_score(truth, guess, average="samples", zero_division=1)
        assert metrics.jaccard(t, g) == pytest.approx(share)


def test_one_column_is_the_positive_class_only():
    truth, guess = [[1], [1], [0]], [[1], [0], [0]]
    assert metrics.micro_f1(truth, guess) == pytest.approx(2 / 3)
    assert metrics.macro_f1(truth, guess) == pytest.approx(2 / 3)
    assert metrics.label_loss(truth, guess) == pytest.approx(1 / 3)
    assert metrics.macro_f1([[1, 0, 1]], [[1, 1, 0]], over="examples") == pytest.approx(1 / 2)


def test_names_and_sets_without_a_hierarchy():
    truth, guess = ["a", "b", "c"], np.array(["a", "c", "c"])
    assert metrics.accuracy(truth, guess) == pytest.approx(2 / 3)
    assert metrics.micro_f1(truth, guess) == pytest.approx(skm.f1_score(truth, guess, average="micro"))
    assert metrics.macro_f1(truth, guess) == pytest.approx(skm.f1_score(truth, guess, average="macro", zero_division=0))
    sets = [{"a", "b"}, frozenset(), ["c"]], [("a",), set(), {"c"}]
    assert metrics.accuracy(*sets) == pytest.approx(2 / 3)
    assert metrics.jaccard(*sets) == pytest.approx((0.5 + 1 + 1) / 3)
    assert metrics.micro_f1(*sets) == pytest.approx(2 * 2 / (3 + 2))


def test_macro_f1_counts_labels_that_occur():
    truth, guess = [[1, 0, 0], [1, 0, 0]], [[1, 0, 0], [1, 1, 0]]
    assert metrics.macro_f1(truth, guess) == pytest.approx((1 + 0) / 2)
    assert metrics.macro_f1([[0, 0]], [[0, 0]]) == 0
    assert metrics.macro_f1([[0, 0]], [[0, 0]], zero_division=1.0) == 1


def test_a_hierarchy_completes_names():
    assert metrics.accuracy([{"cat"}], [{"cat", "animal", "thing"}], TREE) == 1
    assert metrics.accuracy(["cat"], ["dog"], TREE) == 0
    assert metrics.label_loss(["cat"], ["dog"], TREE) == pytest.approx(2 / 5)
    assert metrics.label_loss(["cat"], ["dog"], TREE, nodes="leaves") == pytest.approx(2 / 3)
    rows = np.array([[1, 1, 0, 1, 0]])
    assert metrics.label_loss(rows, ["dog"], TREE) == pytest.approx(2 / 5)


def test_hierarchical_f1_of_a_computed_example():
    # {animal, cat} and {oak} against {animal, dog} and {oak}: 2 of 3 right on both sides.
    assert metrics.hierarchical_f1(["cat", "oak"], ["dog", "oak"], TREE) == pytest.approx(2 / 3)
    assert metrics.hierarchical_f1(["cat", "oak"], ["dog", "oak"], TREE, root=True) == pytest.approx(4 / 5)
    assert metrics.hierarchical_f1(["cat"], ["thing"], TREE) == 0


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_hierarchical_f1_by_sets(seed):
    h = DIAMOND
    truth, guess = (closed(h, y) for y in random_labels(seed, 6, len(h)))
    kept = [k for k, name in enumerate(h.nodes) if name not in h.roots]
    both = (truth & guess)[:, kept].sum()
    total = truth[:, kept].sum() + guess[:, kept].sum()
    expected = 2 * both / total if total else 0.0
    assert metrics.hierarchical_f1(truth, guess, h) == pytest.approx(expected)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_hierarchical_loss_is_the_mean_of_the_loss(seed):
    truth, guess = (closed(TREE, y) for y in random_labels(seed, 8, len(TREE)))
    for weights in ("sibling", "uniform", [1, 2, 3, 4, 5]):
        loss = HierarchicalLoss(TREE, weights)
        expected = np.mean([loss.value(g, t) for t, g in zip(truth, guess, strict=True)])
        assert metrics.hierarchical_loss(truth, guess, TREE, weights=weights) == pytest.approx(expected)


def test_hierarchical_loss_on_a_dag_counts_mistakes_with_right_ancestors():
    truth = [[1, 1, 1, 1]]
    losses = [metrics.hierarchical_loss(truth, [g], DIAMOND) for g in ([1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0])]
    assert losses == [2, 1, 1]


def test_refuses():
    with pytest.raises(DeclarationError, match="2 true labels and 1"):
        metrics.accuracy([[1], [0]], [[1]])
    with pytest.raises(DeclarationError, match="shape"):
        metrics.accuracy([[1, 0]], [[1]])
    with pytest.raises(DeclarationError, match="0/1"):
        metrics.micro_f1([[2, 0]], [[1, 0]])
    for dtype in ("timedelta64[s]", complex, [("a", float)]):  # numpy would make numbers of them
        with pytest.raises(DeclarationError, match="y_pred is not a 0/1 matrix"):
            metrics.accuracy(np.eye(2), np.zeros((2, 2), dtype))
    with pytest.raises(DeclarationError, match="Hierarchy"):
        metrics.hierarchical_f1(["a"], ["a"], None)
    with pytest.raises(ValueError, match="ct"):
        metrics.accuracy(["ct"], ["cat"], TREE)
    with pytest.raises(DeclarationError, match="nodes"):
        metrics.label_loss(["cat"], ["cat"], TREE, nodes="some")
    with pytest.raises(DeclarationError, match="over"):
        metrics.macro_f1([[1, 0]], [[1, 0]], over="rows")


@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        (["O", "O"], set()),
        (["B-PER", "I-PER", "O"], {("PER", 0, 2)}),
        (["B-PER", "B-PER"], {("PER", 0, 1), ("PER", 1, 2)}),
        (["I-PER", "I-LOC", "I-LOC"], {("PER", 0, 1), ("LOC", 1, 3)}),  # as conlleval: I- after another kind begins one
        (["B-PER", "I-LOC"], {("PER", 0, 1), ("LOC", 1, 2)}),
        (["S-PER", "B-LOC", "E-LOC"], {("PER", 0, 1), ("LOC", 1, 3)}),
        (["U-PER", "B-LOC", "I-LOC", "L-LOC", "I-LOC"], {("PER", 0, 1), ("LOC", 1, 4), ("LOC", 4, 5)}),
        (["E-LOC", "E-LOC"], {("LOC", 0, 1), ("LOC", 1, 2)}),
        (["B-a-b", "I-a-b"], {("a-b", 0, 2)}),
        ([], set()),
    ],
)
def test_entities_of_tags(tags, entities):
    assert metrics._entities(tags) == entities


def test_nothing_marked_has_no_f1():
    truth = [["O"] * 9 + ["B-PER"]] * 10
    guess = [["O"] * 10] * 10
    assert np.mean(np.array(truth) == np.array(guess)) == 0.9
    assert metrics.entity_f1(truth, guess) == 0
    assert metrics.entity_scores(truth, truth) == (1, 1, 1, 10, 10, 10)
    with pytest.raises(DeclarationError, match="Sentence 1"):
        metrics.entity_f1([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(DeclarationError, match="sentences"):
        metrics.entity_f1([["O"]], [])


def test_texts_and_mixed_forms_are_refused():
    with pytest.raises(DeclarationError, match="y_true must be a sequence"):
        metrics.accuracy("text", list("abcd"))
    rows = np.array([[1, 0, 0], [0, 1, 0]])
    for other in ([0, 1], np.array([0, 1]), ["a", "b"], [{0}, {1}]):
        for pair in ((rows, other), (other, rows), (sp.csr_array(rows), other), (rows.tolist(), other)):
            with pytest.raises(DeclarationError, match="is a matrix with a column for each label and"):
                metrics.micro_f1(*pair)
    assert metrics.accuracy([{3}, {5}], [[3], [5, 3]]) == 0.5, "lists that are no matrix are collections of names"
