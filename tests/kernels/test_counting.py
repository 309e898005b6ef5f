"""Sets of labels under any surrogate are compared by sorting; no search is left to do."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.risks import structured
from structopt.surrogates import Slack


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
