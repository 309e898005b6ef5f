"""Likelihoods over declared spaces, against sums over all labels written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import structopt as so
from structopt.errors import DeclarationError


def budget(n=6):
    """Tags with costs, a budget, an exclusion and products of neighbours."""
    rng = np.random.default_rng(n)
    space = so.LabelSpace("budget")
    tag = space.binary("tag", n)
    both = space.continuous("both", n - 1, 0, 1)
    cost = rng.integers(1, 5, n).astype(float)
    space.subject_to(cost @ tag <= 0.6 * cost.sum(), tag[0] + tag[1] <= 1)
    space.subject_to(both <= tag[:-1], both <= tag[1:], both >= tag[:-1] + tag[1:] - 1)
    features = {"tag": so.features.Linear(), "both": so.features.Tied()}
    return so.Model(space, features, so.losses.Hamming())


def test_probabilities_of_a_model():
    model = budget(5)
    labels = model.space().enumerate()
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=2), rng.normal(size=14)
    for temperature in (0.3, 1.0, 10.0):
        scores = labels @ model.scores(w, x) / temperature
        p = np.exp(scores - logsumexp(scores))
        np.testing.assert_allclose(model.marginals(w, x, temperature=temperature), p @ labels, atol=1e-12)
    assert model.log_partition(w, x) == pytest.approx(logsumexp(labels @ model.scores(w, x)))
    drawn = model.sample(w, x, 4000, random_state=0)
    np.testing.assert_allclose(np.mean(drawn, axis=0), model.marginals(w, x)[:5], atol=0.04)
    assert model.sample(w, x, 0) == []


def test_what_cannot_be_summed_is_refused():
    space = so.LabelSpace("a polytope")
    flow = space.continuous("flow", 3, 0, 1)
    space.subject_to(flow.sum() <= 2)
    with pytest.raises(DeclarationError, match="integral labels"):
        so.Oracle(space).log_partition(np.zeros((1, 3)))
    with pytest.raises(DeclarationError, match="temperature"):
        budget(4).marginals(np.zeros(11), np.zeros(2), temperature=0.0)
