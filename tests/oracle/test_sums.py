"""Sums over all labels: requests that are rejected."""

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
