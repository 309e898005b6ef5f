"""Sums over all labels: log-partition, marginals and samples against enumeration, by every algorithm that has them."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError, SpaceMismatch


def budget(n=6, limit=8):
    """0/1 variables within a budget: compiled into a diagram."""
    space = so.LabelSpace("budget")
    y = space.binary("y", n)
    space.subject_to(np.arange(1.0, n + 1) @ y <= limit)
    return space


def levels():
    """General integers: listed."""
    space = so.LabelSpace("levels")
    k = space.integer("k", 2, -1, 2)
    space.subject_to(k.sum() <= 2)
    return space


@pytest.mark.parametrize("space", [budget(), levels(), so.LabelSpace.from_matrices([[1, 1, 1]], 0, 1)], ids=repr)
@pytest.mark.parametrize("solver", ["auto", "diagram", "highs"])
def test_sums_are_those_over_the_enumerated_labels(space, solver):
    rng = np.random.default_rng(0)
    labels = space.enumerate()
    C = rng.normal(size=(5, space.n_variables))
    scores = C @ labels.T
    expected = np.logaddexp.reduce(scores, axis=1)
    probabilities = np.exp(scores - expected[:, None])
    oracle = so.Oracle(space, solver)
    log_partition, marginals = oracle.sums(C)
    np.testing.assert_allclose(log_partition, expected, rtol=1e-12)
    np.testing.assert_allclose(marginals, probabilities @ labels, atol=1e-12)
    np.testing.assert_allclose(oracle.log_partition(C), expected, rtol=1e-12)
    np.testing.assert_allclose(oracle.marginals(C), marginals, atol=1e-14)
    drawn = oracle.sample(C[0], 4000, random_state=0)
    assert {tuple(z) for z in drawn.tolist()} <= {tuple(z) for z in labels.tolist()}
    np.testing.assert_allclose(drawn.mean(axis=0), marginals[0], atol=0.1)


def test_sums_need_integral_labels_and_costs_of_the_space():
    with pytest.raises(DeclarationError, match="integral"):
        so.Oracle(budget(), integral="relax").log_partition(np.zeros((1, 6)))
    continuous = so.LabelSpace("box")
    continuous.continuous("x", 2, 0, 1)
    with pytest.raises(DeclarationError, match="integral"):
        so.Oracle(continuous).sums(np.zeros((1, 2)))
    oracle = so.Oracle(budget())
    with pytest.raises(SpaceMismatch):
        oracle.marginals(np.zeros(6))
    with pytest.raises(SpaceMismatch):
        oracle.marginals(np.zeros((1, 5)))
    with pytest.raises(DeclarationError, match="n must be"):
        oracle.sample(np.zeros(6), -1)
    assert oracle.sample(np.zeros(6), 0).shape == (0, 6)
