"""Assignments: prices, losses by their definitions, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.structures.assignment import Assignment, RowLoss

CASES = [((3, 3), False), ((2, 4), False), ((3, 2), True)]


def matchings(shape, unmatched):
    rows, columns = shape
    choices = range(-1 if unmatched else 0, columns)
    for label in itertools.product(choices, repeat=rows):
        used = [k for k in label if k >= 0]
        if len(used) == len(set(used)):
            yield label


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_losses_are_linear(case):
    shape, unmatched = case
    labels = [np.array(label) for label in matchings(shape, unmatched)]
    for kind in ("hamming",) if unmatched else ("hamming", "footrule"):
        for normalize in (False, True):
            model = Assignment(unmatched=unmatched, loss=kind, normalize=normalize)
            x = np.zeros((*shape, 1))
            task = RowLoss(shape, kind, normalize)
            for truth in labels:
                coef, const = model.loss(truth, x)
                for y in labels:
                    wanted = (np.abs(y - truth) if kind == "footrule" else y != truth).sum()
                    wanted = wanted / shape[0] if normalize else wanted
                    z = model.encode(y, x)
                    assert coef @ z + const == pytest.approx(wanted)
                    assert task.value(z, model.encode(truth, x)) == pytest.approx(wanted)


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
    assert "RowLoss((3, 4), 'footrule')" in repr(model.row_loss(3, 4))
