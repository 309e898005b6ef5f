"""Labels as points: tables are read as a whole, and to the same effect as one by one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.estimators.conditional_risk import labels as risk_labels
from structopt.estimators.conditional_risk.labels import dense, encode_labels, same
from structopt.structures.exclusive import ExclusiveLabels

TREE = so.Hierarchy([(0, 1), (0, 2), (1, 3)])


def permutations(n):
    space = so.LabelSpace("permutation")
    y = space.binary("y", (n, n))
    space.subject_to(y.sum(axis=0) == 1, y.sum(axis=1) == 1)
    return so.Model(space, {}, so.losses.Hamming())


@pytest.fixture
def no_reading_one_by_one(monkeypatch):
    def fail(*args):
        raise AssertionError("read one by one")

    monkeypatch.setattr(risk_labels, "_one_by_one", fail)
    monkeypatch.setattr(so.structures.HierarchicalLabels(TREE, "closure").codec.__class__, "encode_many", fail)


@pytest.mark.parametrize("kind", [bool, np.int8, int, float])
def test_tables_are_read_as_a_whole(kind, no_reading_one_by_one):
    closed = np.array([[1, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]], kind)
    tree = so.structures.HierarchicalLabels(TREE, "closure")
    for given in (closed, np.asfortranarray(closed)):
        np.testing.assert_array_equal(dense(encode_labels(tree, None, given, 3)), closed)
    at_most = so.structures.MultiLabel(4, at_most=3)
    for given in (closed, sp.csr_array(closed.astype(float))):
        np.testing.assert_array_equal(dense(encode_labels(at_most, None, given, 3)), closed)
    swaps = np.array([np.eye(2), np.eye(2)[::-1]], kind)
    np.testing.assert_array_equal(dense(encode_labels(permutations(2), None, swaps, 2)), swaps.reshape(2, 4))


def test_a_later_change_of_the_labels_changes_nothing():
    Y = np.array([[1.0, 1, 0, 1]])
    for model in (so.structures.HierarchicalLabels(TREE, "closure"), so.structures.MultiLabel(4)):
        truths = encode_labels(model, None, Y, 1)
        Y[0, 0] = 0.0
        np.testing.assert_array_equal(dense(truths), [[1, 1, 0, 1]])
        Y[0, 0] = 1.0


def test_what_is_wrong_in_a_table_is_named():
    tree = so.structures.HierarchicalLabels(TREE, "closure", complete=False)
    with pytest.raises(LabelNotInSpace, match=r"example 1: .*misses 1, an ancestor of 3"):
        encode_labels(tree, None, np.array([[1, 1, 0, 1], [1, 0, 0, 1]]), 2)
    with pytest.raises(LabelNotInSpace, match=r"example 0: .*entry of node 2 is 2"):
        encode_labels(tree, None, np.array([[1, 0, 2, 0]]), 1)
    with pytest.raises(LabelNotInSpace, match=r"example 1: .*1 and 2, which exclude each other"):
        encode_labels(ExclusiveLabels(TREE, [(1, 2)]), None, np.array([[1, 1, 0, 0], [1, 1, 1, 0]]), 2)
    with pytest.raises(LabelNotInSpace, match="example 2"):
        encode_labels(permutations(2), None, np.array([np.eye(2), np.eye(2), [[1, 0], [1, 0]]]), 3)
    with pytest.raises(LabelNotInSpace, match="example 0"):
        encode_labels(so.structures.MultiLabel(3, at_most=1), None, np.array([[1, 1, 0]]), 1)
    for wrong in (0.5, 2.0, -1.0):
        with pytest.raises(LabelNotInSpace, match="example 1"):
            encode_labels(so.structures.MultiLabel(2), None, np.array([[1, 0], [wrong, 0]]), 2)
    with pytest.raises(LabelNotInSpace, match=r"example 0: .*nan"):
        encode_labels(so.structures.MultiLabel(2), None, np.array([[np.nan, 0]]), 1)
    with pytest.raises(DeclarationError, match="3 inputs but 2 labels"):
        encode_labels(so.structures.MultiLabel(2), None, np.eye(2), 3)


def test_missing_ancestors_are_added_where_the_model_says_so():
    tree = so.structures.HierarchicalLabels(TREE, "closure")
    found = dense(encode_labels(tree, None, np.array([[0, 0, 0, 1], [0, 0, 1, 0]]), 2))
    np.testing.assert_array_equal(found, [[1, 1, 0, 1], [1, 0, 1, 0]])


def test_variables_that_are_fixed_stay_fixed():
    space = so.LabelSpace()
    space.integer("y", 2, 0, [1, 0])
    model = so.Model(space, {}, so.losses.Hamming())
    with pytest.raises(LabelNotInSpace, match="example 0"):
        encode_labels(model, None, np.array([[1, 1]]), 1)
    np.testing.assert_array_equal(encode_labels(model, None, np.array([[1, 0]]), 1), [[1, 0]])


def test_equal_tables_of_any_kind_are_the_same():
    A = np.array([[1.0, 0], [0, 1]])
    assert same(A, sp.csr_array(A)) and same(sp.csr_array(A), A) and same(A > 0, A) and same(sp.csr_array(A), A > 0)
    assert not same(A, sp.csr_array(A[::-1])) and not same(A, A[:1]) and not same(sp.csr_array(A), sp.csr_array(A[:1]))
    inputs = ["one", "two"]
    assert same(inputs, inputs) and not same(inputs, list(inputs))
