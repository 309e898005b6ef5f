"""What counts as a label of a task loss; its linear forms are in test_model.py and test_hierarchy.py."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError

TREE = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "e")])
LOSSES = [so.losses.LeafHamming(TREE), so.losses.HierarchicalLoss(TREE), so.losses.Normalized(TREE, np.ones(6))]


def row(*names: str) -> np.ndarray:
    closed = {a for name in names for a in TREE.ancestors(name, itself=True)}
    return np.array([float(node in closed) for node in TREE.nodes])


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_names_stand_for_their_paths(loss: so.losses.TaskLoss) -> None:
    for y, truth in itertools.product(TREE.leaves, repeat=2):
        assert loss.value(y, truth) == loss.value(row(y), row(truth))
        coef, const = loss.linear(truth)
        assert coef @ row(y) + const == pytest.approx(loss.value(y, truth))
    assert loss.value({"c", "e"}, ["d"]) == loss.value(row("c", "e"), row("d"))


def test_a_set_as_large_as_the_hierarchy_is_still_names() -> None:
    pair = so.Hierarchy([(0, 1)])
    loss = so.losses.LeafHamming(pair)
    assert loss.value({0, 1}, [1, 0]) == 1  # the set names both nodes, the list is a row


@pytest.mark.parametrize("label", ["cc", ["c", "zz"], np.ones(4), np.ones(9, dtype=bool)])
def test_what_is_no_label_is_refused(label: object) -> None:
    with pytest.raises(DeclarationError, match=r"not a node|0/1 rows over the 6 nodes"):
        LOSSES[0].value(label, "c")  # type: ignore[arg-type]


def test_records_are_no_label() -> None:
    with pytest.raises(DeclarationError, match="A label is a name, names, or a 0/1 row"):
        LOSSES[0].value("c", np.zeros(6, [("a", float)]))


def test_footrule_takes_permutations_and_matrices() -> None:
    loss = so.losses.Footrule(4)
    eye = np.eye(4)
    for y in itertools.permutations(range(4)):
        for truth in ([0, 1, 2, 3], [3, 1, 0, 2]):
            by_definition = sum(abs(a - b) for a, b in zip(y, truth, strict=True))
            assert loss.value(y, truth) == loss.value(eye[list(y)], eye[truth].ravel()) == by_definition
            for given in (truth, eye[truth]):
                coef, const = loss.linear(given)
                assert coef @ eye[list(y)].ravel() + const == by_definition
    with pytest.raises(DeclarationError, match="not a permutation"):
        loss.value([0, 0, 1, 2], [0, 1, 2, 3])
    with pytest.raises(DeclarationError, match=r"got shape \(3,\)"):
        loss.linear([0, 1, 2])


def test_hamming_leaves_out_integers_of_weight_0():
    """A file's space has integers beside its 0/1 variables: they have weight 0, and any value."""
    loss = so.losses.Hamming(weights=[1, 1, 0])
    coef, const = loss.linear([1, 0, 7])
    assert np.array_equal(coef, [-1, 1, 0]) and const == 1.0
    batch, consts = loss.linear_batch([[1, 0, 7], [0, 0, -3]])
    assert np.array_equal(batch, [[-1, 1, 0], [1, 1, 0]]) and np.array_equal(consts, [1, 0])
    for weights in (None, [1, 0, 1]):
        with pytest.raises(DeclarationError, match="a ground truth is 7"):
            so.losses.Hamming(weights).linear([1, 0, 7])


def test_too_many_items_are_refused_before_their_distances_are_made():
    with pytest.raises(DeclarationError, match="n must be between 1 and 65536"):
        so.losses.Footrule(10**30)
