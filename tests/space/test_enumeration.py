"""Listing of labels: what it gives up."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import structopt as so
from structopt.algorithms.base import Optimum, RowAlgorithm
from structopt.errors import DeclarationError
from structopt.space.enumeration import enumerate_labels
from structopt.stopping import deadline


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
    assert model.oracle(X[0])._listed_labels is None
    svm = so.StructuredSVM(model, "slack", lam=0.5, tol=0.05).fit(X, Y)
    assert svm.result_.gap <= 0.05


def test_listing_keeps_its_arrays_small(peak_bytes):
    """The oracle of four integers of 401 values with 98 rows once took 18 GB."""
    rng = np.random.default_rng(0)
    space = so.LabelSpace()
    k = space.integer("k", 4, lower=-200, upper=200)
    space.subject_to(rng.integers(-9, 10, (98, 4)).astype(float) @ k <= 3000.0)
    assert peak_bytes(lambda: so.Oracle(space)) < 1 << 27
    assert so.Oracle(space).algorithm == "highs"


def test_labels_of_wide_integers_are_those_of_brute_force(monkeypatch):
    monkeypatch.setattr("structopt.space.enumeration._MOST_ACTIVITIES", 32)
    rng = np.random.default_rng(1)
    for _ in range(20):
        low, width = rng.integers(-6, 3, 3), rng.integers(0, 12, 3)
        space = so.LabelSpace()
        k = space.integer("k", 3, lower=low, upper=low + width)
        A, b = rng.integers(-3, 4, (4, 3)), rng.integers(0, 12, 4)
        space.subject_to(A.astype(float) @ k <= b.astype(float))
        grid = itertools.product(*(range(x, x + w + 1) for x, w in zip(low, width, strict=True)))
        expected = [list(map(float, z)) for z in grid if (A @ z <= b).all()]
        assert space.enumerate().tolist() == expected


def test_listing_ends_at_the_deadline():
    space = so.LabelSpace()
    space.integer("k", 4, lower=0, upper=9)
    with deadline(0.0), pytest.raises(so.errors.DeclarationError, match="too long"):
        space.enumerate()
    assert len(space.enumerate()) == 10_000


def test_a_time_limit_covers_the_preparation_of_an_oracle():
    space = so.LabelSpace()
    k = space.integer("k", 3, lower=0, upper=9)
    space.subject_to(3 * k[0] + 5 * k[1] - 7 * k[2] <= 4)
    assert so.Oracle(space).algorithm == "enumeration"
    assert so.Oracle(space, time_limit=1e-9).algorithm == "highs"
