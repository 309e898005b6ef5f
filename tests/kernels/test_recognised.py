"""Algorithms that oracles choose, and two structures side by side."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

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


def side_by_side(*spaces):
    """Independent spaces as one: costs separate, whatever the family."""
    parts = [s.compiled for s in spaces]
    fields = ("row_lower", "row_upper", "lower", "upper", "integrality")
    return so.LabelSpace.from_matrices(
        sp.block_diag([p.matrix for p in parts], format="csr"),
        *(np.concatenate([getattr(p, field) for p in parts]) for field in fields),
    )


def test_two_taxonomies_list_their_labels_in_order():
    def taxonomy():
        s = so.LabelSpace()
        z = s.binary("node", 5)
        s.subject_to(z[[1, 2]] <= z[0], z[[3, 4]] <= z[1], z[0] == 1)
        s.subject_to(z[[1, 2]].sum() >= z[0], z[[3, 4]].sum() >= z[1])
        return s

    space = side_by_side(taxonomy(), taxonomy())
    oracle, labels = so.Oracle(space), space.enumerate()
    assert oracle.algorithm == "tree dynamic program"
    rng = np.random.default_rng(0)
    for _ in range(5):
        c = rng.normal(size=10)
        wanted = np.sort(labels @ c)[::-1]
        best = oracle.k_best(c, len(labels) + 3)
        np.testing.assert_allclose([label.value for label in best], wanted, atol=1e-9)
        assert all(space.contains(label.z) for label in best)
        no_goods = [label.z for label in best[:4]]
        assert oracle.maximize(c, forbid=no_goods).value == pytest.approx(wanted[4])


def test_integral_means_the_integer_variables():
    # The continuous variable is best at 0.5; the label is still integral where it has to be.
    space = so.LabelSpace.from_matrices(np.zeros((0, 2)), lower=0, upper=[1, 0.5], integrality=[1, 0])
    label = so.Oracle(space).maximize([1.0, 1.0])
    assert label.z.tolist() == [1.0, 0.5] and label.integral
    assert not so.Oracle(space.relaxed()).maximize([1.0, 1.0]).integral
