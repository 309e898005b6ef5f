"""The laws of surrogates hold for every surrogate of the package."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.surrogates import BetaScaling, GeneralizedScaling, LogLoss, Margin, MicroF1, ProbLoss, Product, Slack

#: Surrogates with their formulas as published (thesis Table 3.2), on the points where they are positive.
FORMULAS = {
    Margin(): lambda h, g: h + g,
    Slack(): lambda h, g: (1 + h) * g,
    Product(): lambda h, g: h * g,
    LogLoss(): lambda h, g: np.log1p(np.exp(h)) * g,
}
OTHERS = [
    BetaScaling(0.25), BetaScaling(0.5), BetaScaling(1.0), GeneralizedScaling(1.5, 0.5), GeneralizedScaling(2.0, 1.5),
    ProbLoss(), ProbLoss(convex=True), MicroF1(),
]  # fmt: skip


def points(psi, n=200):
    """Points of which some are outside of the domain."""
    rng = np.random.default_rng(0)
    h, g = 3.0 * rng.normal(size=n), rng.exponential(size=n) * 3.0
    return h, -1.0 - g if isinstance(psi, MicroF1) else g


@pytest.mark.parametrize("psi", [*FORMULAS, *OTHERS], ids=repr)
def test_laws_of_surrogates(psi):
    so.testing.check_surrogate(psi)
    h, g = points(psi)
    one_by_one = [psi.clipped(*p) for p in zip(h.tolist(), g.tolist(), strict=True)]
    np.testing.assert_allclose(psi.clipped_array(h, g), one_by_one, rtol=1e-12)
    positive = np.array(one_by_one) > 0.0
    np.testing.assert_allclose(psi.value(h[positive], g[positive]), np.array(one_by_one)[positive], rtol=1e-12)


@pytest.mark.parametrize("psi", [*FORMULAS, *OTHERS], ids=repr)
def test_no_point_of_a_segment_exceeds_its_bound(psi):
    h, g = points(psi)
    at = np.linspace(0.0, 1.0, 1001)
    for i in range(0, h.size, 2):
        p, q = (h[i], g[i]), (h[i + 1], g[i + 1])
        t, value, upper = psi.segment_maximum(p, q)
        values = psi.clipped_array(p[0] + at * (q[0] - p[0]), p[1] + at * (q[1] - p[1]))
        assert upper >= value >= values.max() * (1.0 - 1e-5)
        assert upper >= values.max()
        assert upper <= values.max() + 1e-2 * (1.0 + values.max())
        here = psi.clipped(p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1]))
        assert abs(here - value) <= 1e-9 * max(1.0, value)


@pytest.mark.parametrize("psi", FORMULAS, ids=repr)
def test_surrogates_have_their_formulas(psi):
    h, g = points(psi)
    inside = (h > psi.h_lower) & (g > 0.0)
    np.testing.assert_allclose(psi.value(h[inside], g[inside]), FORMULAS[psi](h[inside], g[inside]), rtol=1e-9)


def test_every_surrogate_has_a_law():
    exported = [getattr(so.surrogates, name) for name in so.surrogates.__all__]  # other tests register their own
    kinds = {kind for kind in exported if isinstance(kind, type)} - {so.surrogates.Surrogate}
    assert kinds <= {type(psi) for psi in [*FORMULAS, *OTHERS]}
