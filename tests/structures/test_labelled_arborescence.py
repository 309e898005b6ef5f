"""Labelled dependency trees: fractional points, bad input."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.structures.labelled_arborescence import LabelledArborescence, WrongArcs


def test_fractional_points_and_sizes():
    model = LabelledArborescence(2)
    z = 0.6 * model.encode([(0, 1), (1, 0)]) + 0.4 * model.encode([(2, 0), (0, 0)])
    np.testing.assert_array_equal(model.decode(z), [[0, 1], [1, 0]])
    with pytest.raises(DeclarationError, match="17 entries"):
        model.decode(np.zeros(17))


@pytest.mark.parametrize(
    ("label", "error", "words"),
    [
        ([(0, 1), (1, 2)], LabelNotInSpace, "relation of token 2 is 2, not one of 0 to 1"),
        ([(0, 1), (1, -1)], LabelNotInSpace, "token 2"),
        ([(0, 1), (1, 0.5)], LabelNotInSpace, "token 2"),
        ([(0, 1), (1, "a")], LabelNotInSpace, "'a'"),
        ([(2, 1), (1, 0)], LabelNotInSpace, "cycle"),
        ([(0, 1)], LabelNotInSpace, "1 heads for 2 tokens"),
        ([0, 1], DeclarationError, "a head and a relation"),
        ([(0, 1), (1, 0, 3)], DeclarationError, "Token 2"),
        (None, DeclarationError, "a head and a relation"),
    ],
)
def test_bad_labels(label, error, words):
    with pytest.raises(error, match=words):
        LabelledArborescence(2).encode(label, 3)


def test_bad_declarations():
    for labels in (0, [], ["a", "a"], "ab"):
        with pytest.raises(DeclarationError):
            LabelledArborescence(labels)
    with pytest.raises(LabelNotInSpace, match="'x', not one of 'a', 'b'"):
        LabelledArborescence(["a", "b"]).encode([(0, "x")])
    with pytest.raises(DeclarationError, match="label_cost"):
        WrongArcs(2, label_cost=2.0)


def test_copies_and_reprs():
    model = LabelledArborescence(["a", "b"], single_root=True)
    assert repr(model) == "LabelledArborescence(['a', 'b'], single_root=True)"
    assert repr(copy.deepcopy(model)) == repr(model)
    assert repr(LabelledArborescence(7)) == "LabelledArborescence(7)"
    assert repr(WrongArcs(3, 0.5, normalize=True)) == "WrongArcs(3, label_cost=0.5, normalize=True)"
