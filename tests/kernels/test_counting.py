"""Sets of labels under any surrogate, by sorting: against all labels, and no search is left to do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import structopt as so
from structopt.risks import structured
from structopt.surrogates import BetaScaling, GeneralizedScaling, LogLoss, ProbLoss, Slack

SURROGATES = [Slack(), BetaScaling(0.5), GeneralizedScaling(1.5, 0.5), LogLoss(), ProbLoss(), ProbLoss(convex=True)]


def best_value(psi, scores, truth, weights, low, high):
    best = 0.0
    for label in itertools.product([0.0, 1.0], repeat=len(truth)):
        y = np.array(label)
        g = float(weights @ np.abs(y - truth))
        if low <= y.sum() <= high and g > 0:
            best = max(best, psi.clipped(float(scores @ (y - truth)), g))
    return best


@pytest.mark.parametrize("psi", SURROGATES, ids=repr)
@pytest.mark.parametrize("limits", [(0, 4), (1, 2), (0, 0)])
@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_every_surrogate_equals_enumeration(psi, limits, weight):
    rng = np.random.default_rng(3)
    low, high = limits
    truths = [y for y in itertools.product([0, 1], repeat=4) if low <= sum(y) <= high]
    Y = np.array([truths[k] for k in rng.integers(0, len(truths), 12)])
    X = rng.normal(size=(12, 3))
    loss = so.losses.Hamming(weights=np.full(4, weight))
    model = so.structures.MultiLabel(4, at_least=low, at_most=high, loss=loss)
    w = rng.normal(size=12) * rng.choice([0.2, 2.0])
    risk = so.train.StructuredRisk(model, X, Y, psi)
    found = risk.violations(w)
    scores = X @ w.reshape(4, 3).T
    want = [best_value(psi, s, y, np.full(4, weight), low, high) for s, y in zip(scores, Y.astype(float), strict=True)]
    assert found.value == pytest.approx(want, rel=1e-12) and found.upper == pytest.approx(want, rel=1e-12)
    # The plane is that of the label: h and g are its own.
    tables = risk.batch.tables(w)
    margin = risk.batch.dot(tables, found.labels) - risk.batch.dot(tables, risk.truth)
    assert found.level + found.scale * margin == pytest.approx(found.value, rel=1e-9, abs=1e-12)


def test_weights_that_differ_are_listed():
    rng = np.random.default_rng(4)
    weights = np.array([1.0, 0.5, 2.0, 1.0])
    X, Y = rng.normal(size=(10, 3)), rng.integers(0, 2, (10, 4))
    risk = so.train.StructuredRisk(so.structures.MultiLabel(4, loss=so.losses.Hamming(weights=weights)), X, Y, "slack")
    w = rng.normal(size=12)
    scores = X @ w.reshape(4, 3).T
    want = [best_value(Slack(), s, y, weights, 0, 4) for s, y in zip(scores, Y.astype(float), strict=True)]
    assert risk.violations(w).value == pytest.approx(want)


@pytest.mark.parametrize("make", [so.structures.MultiLabel, lambda n: so.structures.PairwiseMRF(n, [])])
def test_no_search_is_left(make, monkeypatch):
    """Slack on 14 independent labels took 17 times as long as the same labels declared as a graph without edges."""

    def refuse(*arguments, **options):
        raise AssertionError("a search was started")

    monkeypatch.setattr(structured.StructuredRisk, "_search", refuse)
    monkeypatch.setattr(structured.StructuredRisk, "_search_together", refuse)
    rng = np.random.default_rng(5)
    for n in (14, 40):
        X, Y = rng.normal(size=(5, 3)), rng.integers(0, 2, (5, n))
        value, _ = so.train.StructuredRisk(make(n), X, Y, "slack")(rng.normal(size=3 * n))
        assert value > 0.0


def test_both_declarations_agree():
    rng = np.random.default_rng(6)
    X, Y = rng.normal(size=(20, 3)), rng.integers(0, 2, (20, 6))
    w = rng.normal(size=18)
    for psi in SURROGATES:
        one = so.train.StructuredRisk(so.structures.MultiLabel(6), X, Y, psi)(w)
        other = so.train.StructuredRisk(so.structures.PairwiseMRF(6, []), X, Y, psi)(w)
        assert one[0] == pytest.approx(other[0]) and one[1] == pytest.approx(other[1])


def test_a_subclass_of_slack_is_not_taken_for_slack():
    class Doubled(Slack):
        """Twice slack rescaling, under the name that it inherits."""

        def psi(self, h, g):
            return 2.0 * (h + 1.0) * g

        def psi_gradient(self, h, g):
            return 2.0 * g + 0.0 * h, 2.0 * (h + 1.0) + 0.0 * g

        def clipped(self, h, g):
            return 2.0 * super().clipped(h, g)

        def segment_maximum(self, p, q):
            t, value, upper = super().segment_maximum(p, q)
            return t, 2.0 * value, 2.0 * upper

    rng = np.random.default_rng(7)
    X, Y = rng.normal(size=(6, 2)), rng.integers(0, 2, (6, 3))
    w = rng.normal(size=9)
    once = so.train.StructuredRisk(so.structures.PairwiseMRF(3), X, Y, "slack", rtol=1e-9)(w)[0]
    twice = so.train.StructuredRisk(so.structures.PairwiseMRF(3), X, Y, Doubled(), rtol=1e-9)(w)[0]
    assert twice == pytest.approx(2.0 * once, rel=1e-6)
