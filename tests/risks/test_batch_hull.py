"""Slack rescaling of whole batches against brute force over all labels, and over the hull for relaxations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt.risks.batch_hull import HullSearch
from structopt.train import StructuredRisk

RAGGED = [3, 4, 2, 1, 3, 2]


def rows(rng, n, d=3):
    return rng.normal(size=(n, d))


def make(family, rng):
    """A model and a data set of a few examples."""
    if family == "mrf":
        return so.structures.PairwiseMRF(4), rows(rng, 8), rng.integers(0, 2, (8, 4))
    if family == "mrf relaxed":
        return so.structures.PairwiseMRF(4, integral="relax"), rows(rng, 8), rng.integers(0, 2, (8, 4))
    if family == "multi-label":
        return so.structures.MultiLabel(5, at_most=3), rows(rng, 8), np.eye(5, dtype=int)[rng.integers(0, 5, 8)]
    if family == "chain":
        X = [rows(rng, t) for t in RAGGED]
        return so.structures.Chain(3), X, [rng.integers(0, 3, len(x)) for x in X]
    if family == "assignment":
        X = [rng.normal(size=(3, 3, 2)) for _ in range(5)]
        return so.structures.Assignment(), X, [rng.permutation(3) for _ in range(5)]
    space = so.LabelSpace("declared")
    y = space.binary("y", 5)
    space.subject_to(np.array([2.0, 3, 1, 2, 4]) @ y <= 6)
    model = so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming())
    points = space.enumerate()
    return model, rows(rng, 6), points[rng.integers(0, len(points), 6)].astype(int)


def brute_force(risk, w):
    """The largest (1 + margin) * loss of every example over all its integral labels."""
    values = []
    for i in range(len(risk)):
        x = risk.batch.input(i)
        labels = risk.model.space(x).enumerate()
        truth = risk.model.encode(risk.Y[i], x)
        c = risk.model.scores(w, x)
        coef, const = risk.model.loss(risk.Y[i], x)
        products = (1 + (labels - truth) @ c) * (labels @ coef + const)
        values.append(max(0.0, products.max()))
    return np.array(values)


FAMILIES = ["mrf", "multi-label", "chain", "assignment", "declared"]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.1, 1.0, 4.0]))
def test_integral_labels(family, seed, size):
    rng = np.random.default_rng(seed)
    model, X, Y = make(family, rng)
    risk = StructuredRisk(model, X, Y, "slack", rtol=1e-6)
    w = size * rng.normal(size=risk.n_features)
    for _ in range(3):  # the later ones start from the edges of the one before
        found = risk.violations(w)
        wanted = brute_force(risk, w)
        np.testing.assert_allclose(found.value, wanted, rtol=2e-6, atol=1e-9)
        assert (found.upper >= wanted * (1 - 1e-9) - 1e-9).all(), "the bound is a promise"
        # the plane of every label lies below the risk elsewhere
        other = w + size * rng.normal(size=w.size)
        cut = risk.cut(w)
        assert cut.plane + cut.subgradient @ (other - w) <= brute_force(risk, other).mean() + 1e-6 * (
            1 + abs(cut.value)
        )
        w = w + 0.1 * size * rng.normal(size=w.size)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.1, 1.0, 4.0]))
def test_relaxation_equals_the_search_of_each_plane(seed, size):
    rng = np.random.default_rng(seed)
    model, X, Y = make("mrf relaxed", rng)
    together = StructuredRisk(model, X, Y, "slack", rtol=1e-7)
    alone = StructuredRisk(model, X, Y, "slack", rtol=1e-7)
    alone._hull = None
    assert together._hull is not None
    w = size * rng.normal(size=together.n_features)
    for _ in range(3):
        a, b = together.violations(w), alone.violations(w)
        np.testing.assert_allclose(a.value, b.value, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(a.upper, b.upper, rtol=1e-6, atol=1e-9)
        assert (a.upper >= b.value * (1 - 1e-9) - 1e-9).all()
        w = w + 0.1 * size * rng.normal(size=w.size)


def test_warm_edges_save_inferences():
    rng = np.random.default_rng(0)
    model, X, Y = so.structures.PairwiseMRF(6, integral="relax"), rows(rng, 40), rng.integers(0, 2, (40, 6))
    batch = model.batch(X)
    truth = batch.truth(Y)
    search = HullSearch(batch, truth, batch.loss(truth))
    w = rng.normal(size=batch.n_weights)
    cold = search.run(batch.tables(w), integral=False, rtol=1e-4)
    warm = search.run(batch.tables(w), integral=False, rtol=1e-4)
    assert warm.rounds < cold.rounds
    np.testing.assert_allclose(warm.h * warm.g, cold.h * cold.g, rtol=2e-4)


def test_no_label_has_a_loss():
    """A single label: nothing can be violated."""
    space = so.LabelSpace()
    y = space.binary("y", 2)
    space.subject_to(y == np.array([1.0, 0.0]))
    model = so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming())
    risk = StructuredRisk(model, np.ones((2, 1)), [[1, 0], [1, 0]], "slack")
    value, gradient = risk(np.array([3.0, -2.0]))
    assert value == 0 and not gradient.any()
