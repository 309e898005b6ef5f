"""Surrogates: values, gradients, domains, the registry and its conformance check."""

from __future__ import annotations

import math

import numpy as np
import pytest

from structopt import surrogates
from structopt.errors import DeclarationError
from structopt.surrogates import (
    BetaScaling,
    GeneralizedScaling,
    Margin,
    MicroF1,
    ProbLoss,
    Slack,
    Surrogate,
)
from structopt.testing.surrogate import check_surrogate


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.5, 1.0), (1.0, 1.5), (2.5, 1.0), (1.0, -0.5), (-1.0, -1.0), (math.nan, 0.5), (math.inf, 1.0)]
)
def test_generalized_scaling_refuses_what_is_not_quasi_concave(alpha, beta):
    with pytest.raises(DeclarationError, match=r"0 <= alpha - beta <= 1|alpha must be a number, got NaN"):
        GeneralizedScaling(alpha, beta)


@pytest.mark.parametrize("beta", [-0.1, 1.1, math.nan])
def test_beta_scaling_refuses(beta):
    with pytest.raises(DeclarationError, match=r"0 <= beta <= 1|beta must be a number, got NaN"):
        BetaScaling(beta)


def test_the_ends_of_beta_scaling():
    rng = np.random.default_rng(0)
    h, g = rng.normal(size=50), rng.exponential(size=50)
    assert np.allclose(BetaScaling(0).value(h, g), Margin().value(h, g))
    assert np.allclose(BetaScaling(1).value(h, g), Slack().value(h, g))


def test_outside_the_domain():
    with pytest.raises(DeclarationError, match="needs finite values with g >= 0"):
        Slack().value(1.0, -1.0)
    with pytest.raises(DeclarationError, match=r"not defined at \(h, g\) = \(2, -3\)"):
        ProbLoss().gradient([1.0, 2.0], [1.0, -3.0])
    with pytest.raises(DeclarationError, match="g < 0"):
        MicroF1().value(1.0, 0.0)
    with pytest.raises(DeclarationError, match="nan"):
        Margin().value(math.nan, 1.0)
    assert Slack().clipped(-3.0, -2.0) == 0.0
    assert ProbLoss().value(3.0, 0.0) == 0.0
    assert ProbLoss(convex=True).value(3.0, 0.0) == 0.0


def test_prob_loss_far_out_has_a_direction():
    assert ProbLoss().direction(-60.0, 1.0) > 10.0
    assert ProbLoss().direction(200.0, 1.0) == math.inf
    assert 0.0 <= ProbLoss().gradient(-1e5, 1e-8)[0] < math.inf


def test_micro_f1_refuses_coefficients_that_are_not_hamming():
    truth = np.array([1.0, 0.0, 1.0])
    with pytest.raises(DeclarationError, match="Hamming"):
        MicroF1().factors(np.zeros(3), (2.0 * (1.0 - 2.0 * truth), 4.0), truth)


def test_get_by_name():
    assert surrogates.get("slack") == Slack()
    assert surrogates.get("generalized", alpha=1.0, beta=0.25) == GeneralizedScaling(1.0, 0.25)
    assert surrogates.get(Slack()) == Slack()
    assert hash(BetaScaling(0.5)) == hash(BetaScaling(0.5))
    assert {"margin", "slack", "beta", "generalized", "log", "prob", "micro_f1", "product"} <= set(surrogates.names())
    for name in ("margin", "slack", "beta", "log", "prob", "micro_f1", "product"):
        assert surrogates.get(name).name == name
    with pytest.raises(DeclarationError, match="Registered: beta"):
        surrogates.get("hinge")


class Cubed(Surrogate):
    name = "test cubed"

    def psi(self, h, g):
        return (1 + h) * g**3

    def psi_gradient(self, h, g):
        return g**3 + 0 * h, 3 * (1 + h) * g**2


def test_register_a_class_and_refuse_a_second_of_the_same_name():
    surrogates.register(Cubed)
    assert surrogates.get("test cubed").value(1.0, 2.0) == 16.0
    with pytest.raises(DeclarationError, match="registered already"):
        surrogates.register(Slack(), name="margin")


@pytest.mark.parametrize(
    ("what", "psi", "gradient"),
    [
        ("not quasi-concave", lambda h, g: h**2 * (h > 0) + g**2, lambda h, g: (2 * h * (h > 0), 2 * g)),
        ("decreases in g", lambda h, g: h - g, lambda h, g: (1 + 0 * h, -1 + 0 * g)),
        ("decreases in h", lambda h, g: g - h, lambda h, g: (-1 + 0 * h, 1 + 0 * g)),
        ("differences give", lambda h, g: (1 + h) * g, lambda h, g: (g, h)),
        ("positive almost nowhere", lambda h, g: -1 - 0 * h * g, lambda h, g: (0 * h, 0 * g)),
        ("shape", lambda h, g: 1.0, lambda h, g: (0 * h, 0 * g)),
        (
            "not convex in h",
            lambda h, g: np.minimum(h + 1, g),
            lambda h, g: (1.0 * (h + 1 < g), 1.0 * (h + 1 >= g)),
        ),
        ("is inf", lambda h, g: np.where(g > 1, np.inf, h + g), lambda h, g: (1 + 0 * h, 1 + 0 * g)),
    ],
)
def test_register_refuses_a_bad_surrogate(what, psi, gradient):
    bad = surrogates.from_functions("test bad", psi, gradient)
    with pytest.raises(DeclarationError, match=what):
        surrogates.register(bad)
    assert "test bad" not in surrogates.names()


def test_the_printed_range_of_the_thesis_is_wrong():
    """alpha = 0.5, beta = 1 satisfies the range printed in thesis 3.3.1 and is not monotone."""
    printed = surrogates.from_functions("printed", lambda h, g: h * g + g**0.5, lambda h, g: (g, h + 0.5 / g**0.5))
    with pytest.raises(DeclarationError):
        check_surrogate(printed)


@pytest.mark.parametrize("noise", [0.0, -1.0, math.inf, math.nan])
def test_noise_of_probloss_is_positive(noise):
    with pytest.raises(DeclarationError, match="noise"):
        ProbLoss(noise=noise)


def test_noise_is_part_of_what_probloss_is():
    assert ProbLoss(noise=2.0) != ProbLoss() == ProbLoss(noise=1.0)
    assert repr(ProbLoss()) == "ProbLoss(convex=False)" and "noise=2.0" in repr(ProbLoss(noise=2.0))
    # At a small noise it is the step of the task loss at margin 0.
    assert ProbLoss(noise=1e-6).value(-0.1, 3.0) == 0.0 and ProbLoss(noise=1e-6).value(0.1, 3.0) == pytest.approx(6.0)
