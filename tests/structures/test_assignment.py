"""Assignments: rounding of fractional points, bad input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.structures.assignment import Assignment


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_a_fractional_point_is_rounded_to_a_matching():
    model = Assignment()
    np.testing.assert_array_equal(model.decode([0.5, 0.5, 0.0, 0.5, 0.3, 0.2, 0.0, 0.2, 0.8]), [1, 0, 2])
    np.testing.assert_array_equal(Assignment(unmatched=True).decode([0.6, 0.0, 0.1, 0.3]), [0, -1])


@pytest.mark.parametrize(
    ("options", "label", "told"),
    [
        ({}, [0, 1, 1], "Not a permutation: rows 1 and 2 both have column 1"),
        ({}, [0, 1, 3], "Row 2 has column 3; columns are 0 to 2"),
        ({}, [0, -1, 2], "Row 1 has column -1.*unmatched=True allows"),
        ({"unmatched": True}, [0, 0, -1], "Not a matching: rows 0 and 1 both have column 0"),
        ({"unmatched": True}, [0, -2, -1], "Row 1 has column -2"),
        ({}, [0, 1.5, 2], "Row 1 has column 1.5"),
        ({}, [0, np.nan, 2], "Row 1 has column nan"),
        ({}, [0, 1], "array of 3 columns"),
        ({}, ["a", "b", "c"], r"array of columns, one per row; got \['a', 'b', 'c'\]"),
    ],
)
def test_wrong_labels_are_named(options, label, told):
    with pytest.raises(LabelNotInSpace, match=told):
        Assignment(**options).encode(label, np.zeros((3, 3, 1)))


def test_bad_inputs(rng):
    with pytest.raises(DeclarationError, match="one of hamming, footrule"):
        Assignment(loss="kendall")
    with pytest.raises(DeclarationError, match="footrule is not defined"):
        Assignment(loss="footrule", unmatched=True)
    with pytest.raises(DeclarationError, match="at least one row"):
        Assignment(0)
    with pytest.raises(DeclarationError, match=r"3 rows cannot each have one of 2 columns.*unmatched=True"):
        Assignment().space(np.zeros((3, 2, 1)))
    with pytest.raises(DeclarationError, match="has 3 rows; this model was made for n = 2"):
        Assignment(2).space(np.zeros((3, 3, 1)))
    with pytest.raises(DeclarationError, match=r"got \(6, 1\)"):
        Assignment().space(sp.csr_array(np.zeros((6, 1))))
    with pytest.raises(DeclarationError, match=r"got \(3, 3\)"):
        Assignment().space(np.zeros((3, 3)))
    batch = Assignment().batch(rng.normal(size=(2, 3, 3, 1)))
    with pytest.raises(LabelNotInSpace, match="1 of 2 labels cannot be used:\n  example 1: Not a permutation"):
        batch.truth([[0, 1, 2], [0, 0, 1]])
    with pytest.raises(DeclarationError, match="2 inputs but 1 labels"):
        batch.truth([[0, 1, 2]])


def test_reprs():
    model = Assignment(3, loss="footrule")
    assert repr(model) == "Assignment(n=3, loss='footrule')"
    assert "RowLoss((3, 4), kind='footrule')" in repr(model._task_of((3, 4)))
