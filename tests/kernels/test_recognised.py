"""Algorithms that oracles choose."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so


def test_boxes_and_forests_have_algorithms_of_their_own():
    space = so.LabelSpace()
    space.integer("k", 5, -1, 3)
    assert so.Oracle(space).algorithm == "signs"
    space = so.LabelSpace()
    y = space.binary("y", 6)
    space.subject_to(y[[1, 2, 3]] <= y[[0, 0, 1]])
    assert so.Oracle(space).algorithm == "forest dynamic program"


def test_relaxed_mode_of_an_integral_space_uses_roof_duality():
    oracle = so.Oracle(so.structures.PairwiseMRF(3).space(), integral="relax")
    assert oracle.algorithm == "roof duality"
    assert oracle.maximize(np.r_[np.ones(3), -2 * np.ones(3)]).value == pytest.approx(1.5)


def test_integral_means_the_integer_variables():
    # The continuous variable is best at 0.5; the label is still integral where it has to be.
    space = so.LabelSpace.from_matrices(np.zeros((0, 2)), lower=0, upper=[1, 0.5], integrality=[1, 0])
    label = so.Oracle(space).maximize([1.0, 1.0])
    assert label.z.tolist() == [1.0, 0.5] and label.integral
    assert not so.Oracle(space.relaxed()).maximize([1.0, 1.0]).integral
