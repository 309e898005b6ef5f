"""Listing of labels: what it gives up."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.algorithms.base import Optimum, RowAlgorithm
from structopt.errors import DeclarationError
from structopt.space.enumeration import enumerate_labels


def intervals(n: int) -> so.LabelSpace:
    """Frames that are on form one interval: n (n + 1) / 2 labels, and 2^n ways to choose frames before `start`."""
    space = so.LabelSpace("interval")
    on, start = space.binary("on", n), space.binary("start", n)
    space.subject_to(start[0] >= on[0], start[1:] >= on[1:] - on[:-1], start <= on)
    space.subject_to(start[1:] <= 1 - on[:-1], start.sum() == 1)
    return space


class BestInterval(RowAlgorithm):
    """All pairs of ends."""

    name = "intervals"

    def __init__(self, n: int) -> None:
        ends = [(a, b) for a in range(n) for b in range(a + 1, n + 1)]
        self.labels = np.zeros((len(ends), 2 * n))
        for z, (a, b) in zip(self.labels, ends, strict=True):
            z[a:b] = z[n + a] = 1

    def maximize(self, c, key=None):
        values = self.labels @ c
        best = int(values.argmax())
        return Optimum(self.labels[best], float(values[best]), float(values[best]))


class Intervals(so.Model):
    def __init__(self) -> None:
        super().__init__(lambda x: intervals(len(x)), {"on": so.features.Shared()}, loss=so.losses.Hamming())

    def algorithm(self, x):
        return BestInterval(len(x))


def test_labels_with_too_many_partial_assignments_are_given_up():
    assert len(enumerate_labels(intervals(6).compiled, work=1 << 20)) == 21
    with pytest.raises(DeclarationError, match="too long to list"):
        enumerate_labels(intervals(24).compiled, work=1 << 20)


def test_an_own_algorithm_trains_by_slack_rescaling_without_a_list():
    # Every input has a space of its own, whose few labels took 20 s to list.
    rng = np.random.default_rng(0)
    model = Intervals()
    X = [rng.normal(size=(n, 3)) for n in (24, 26, 28)]
    Y = [model.algorithm(x).labels[k] for k, x in zip((40, 80, 120), X, strict=True)]
    assert model.oracle(X[0]).listed is None
    svm = so.StructuredSVM(model, "slack", lam=0.5, tol=0.05).fit(X, Y)
    assert svm.result_.gap <= 0.05
