"""Spaces of few labels: every surrogate by products with all of them."""

import numpy as np
import pytest

import structopt as so

SURROGATES = [so.surrogates.Slack(), so.surrogates.LogLoss(), so.surrogates.ProbLoss(), so.surrogates.BetaScaling(0.0)]


@pytest.mark.parametrize("surrogate", SURROGATES, ids=repr)
def test_few_labels_are_compared_at_once(surrogate):
    """The most violated labels of a small declared space, by products with all labels, against a search of each."""
    rng = np.random.default_rng(2)
    space = so.LabelSpace("budget")
    z = space.binary("z", 5)
    space.subject_to(z @ np.array([1.0, 2.0, 3.0, 1.0, 2.0]) <= 4)
    model = so.Model(space, {"z": so.features.Linear()}, so.losses.Hamming())
    labels = space.enumerate()
    X, Y = rng.normal(size=(12, 3)), labels[rng.integers(0, len(labels), 12)]
    risk = so.train.StructuredRisk(model, X, Y, surrogate)
    psi = so.surrogates.get(surrogate)
    for _ in range(3):
        w = rng.normal(size=risk.n_features)
        found = risk.violations(w)
        scores = X @ w.reshape(5, 3).T
        for i in range(12):
            margin = (labels - Y[i]) @ scores[i]
            loss = np.abs(labels - Y[i]).sum(axis=1)
            best = max(psi.clipped(float(h), float(g)) for h, g in zip(margin, loss, strict=True))
            assert found.value[i] == pytest.approx(best, rel=1e-9, abs=1e-9)
            assert found.upper[i] >= best - 1e-9
