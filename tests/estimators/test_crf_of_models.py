"""CRF over declared label spaces, against likelihoods and risks summed over all labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import structopt as so
from structopt.errors import DeclarationError


def problem(n_tags=6, n=25, d=3, seed=0):
    """Tags within a budget, drawn from a random CRF."""
    rng = np.random.default_rng(seed)
    space = so.LabelSpace("budget")
    tag = space.binary("tag", n_tags)
    cost = rng.integers(1, 5, n_tags).astype(float)
    space.subject_to(cost @ tag <= 0.6 * cost.sum(), tag[0] + tag[1] <= 1, name="budget")
    model = so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming())
    X, w = rng.normal(size=(n, d)), rng.normal(size=n_tags * d)
    Y = np.array([model.sample(w, x, random_state=rng)[0] for x in X])
    return model, X, Y


def test_probabilities_and_both_decisions():
    model, X, Y = problem()
    labels = model.space().enumerate()
    crf = so.CRF(model, lam=0.05).fit(X, Y)
    scores = X @ crf.w_.reshape(6, -1).T @ labels.T
    p = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    np.testing.assert_allclose(crf.predict_proba(X), p @ labels, atol=1e-10)
    assert np.array_equal(crf.predict(X), labels[p.argmax(axis=1)])
    risks = p @ np.abs(labels[:, None] - labels[None]).sum(axis=2)
    found = crf.predict(X, decision="bayes")
    place = [int(np.flatnonzero((labels == y).all(axis=1))[0]) for y in found]
    np.testing.assert_allclose(risks[np.arange(len(X)), place], risks.min(axis=1), atol=1e-9)
    assert 0.0 <= crf.score(X, Y) <= 1.0


def test_decisions_of_structured_svms():
    model, X, Y = problem()
    svm = so.StructuredSVM(model, lam=0.05).fit(X, Y)
    labels = model.space().enumerate()
    # At a low temperature the distribution is the best label alone.
    cold = svm.predict(X, decision="bayes", temperature=1e-3)
    values = X @ svm.coef_.reshape(6, -1).T
    np.testing.assert_allclose((values * cold).sum(axis=1), (values @ labels.T).max(axis=1), atol=1e-6)
    with pytest.raises(DeclarationError, match="decision must be"):
        svm.predict(X, decision="mean")
    with pytest.raises(DeclarationError, match="temperature"):
        svm.predict(X, decision="bayes", temperature=0.0)


def test_models_without_a_distribution_are_refused():
    model, X, Y = problem()
    with pytest.raises(DeclarationError, match="states describes the chain"):
        so.CRF(model, states=[0, 1]).fit(X, Y)
    relaxed = so.Model(model.space(), {"tag": so.features.Linear()}, so.losses.Hamming(), integral="relax")
    with pytest.raises(DeclarationError, match="integral"):
        so.CRF(relaxed).fit(X, Y)


def test_sequences_have_labels_of_least_expected_loss():
    rng = np.random.default_rng(1)
    X, Y = [rng.normal(size=(k + 1, 2)) for k in range(3)], [[0], [0, 1], [1, 1, 0]]
    crf = so.CRF(lam=0.1).fit(X, Y)
    likeliest = [p.argmax(axis=1).tolist() for p in crf.predict_proba(X)]
    assert crf.predict(X, decision="bayes") == likeliest
