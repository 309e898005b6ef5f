from __future__ import annotations

import numpy as np
import pytest

import structopt.risks as risks
from structopt.errors import DeclarationError


def at(cls, f, y, **settings):
    """Loss and derivative of one prediction."""
    value, slope = cls([[1.0]], [y], **settings)(np.array([f]))
    return value, slope[0]


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.8])
def test_quantile_estimates_the_quantile_of_that_name(tau):
    y = np.random.default_rng(0).normal(size=1001)
    risk = risks.Quantile(np.ones((y.size, 1)), y, tau)
    t, _ = risk.line_search(np.array([-10.0]), np.ones(1), 1e-12)
    assert np.mean(y <= t - 10.0 + 1e-9) == pytest.approx(tau, abs=2e-3)


@pytest.mark.parametrize("f", [40.0, 45.0, 1e3, 1e6])
def test_exponential_is_continued_by_its_tangent(f):
    value, derivative = at(risks.Exponential, -f, 1)
    assert derivative == -np.exp(40.0)
    assert value == pytest.approx(np.exp(40.0) * (1 + f - 40.0), rel=1e-15)


def test_poisson_stays_finite_and_convex_beyond_the_cap():
    low, high = at(risks.Poisson, 39.0, 2), at(risks.Poisson, 5000.0, 2)
    assert np.isfinite(high).all()
    assert high[0] >= low[0] + low[1] * (5000.0 - 39.0)
    assert low[0] >= high[0] + high[1] * (39.0 - 5000.0)


def test_poisson_with_huge_counts_still_has_its_minimum():
    y = np.exp(60.0)
    risk = risks.Poisson([[1.0]], [y])
    assert risk(np.array([60.0]))[0] == pytest.approx(risk.lower_bound, rel=1e-10)
    assert risk(np.array([75.0]))[1][0] > 0.0


def test_poisson_lower_bound_is_attained_and_never_passed():
    y = np.array([0.0, 1.0, 3.0, 20.0])
    risk = risks.Poisson(np.eye(4), y)
    value = risk(np.array([-40.0, 0.0, np.log(3.0), np.log(20.0)]))[0]
    assert risk.lower_bound <= value
    assert value == pytest.approx(risk.lower_bound, rel=1e-11)


def test_logistic_does_not_overflow():
    assert at(risks.Logistic, -1e5, 1) == (1e5, -1.0)
    assert at(risks.Logistic, 1e5, 1) == (0.0, 0.0)


BINARY = [risks.Hinge, risks.SquaredHinge, risks.Logistic, risks.Exponential, risks.ROCArea, risks.FBeta]


@pytest.mark.parametrize("cls", BINARY)
@pytest.mark.parametrize("y", [[0, 1], [1, 2], [0.5, 1]])
def test_labels_other_than_signs_are_refused_by_name(cls, y):
    with pytest.raises(DeclarationError, match=rf"{cls.__name__}: labels must be -1 or \+1; y\[\d\] is"):
        cls([[1.0], [2.0]], y)


def test_the_targets_are_copied():
    y = np.array([1.0, -1.0])
    risk = risks.Hinge(np.eye(2), y)
    y[:] = -1.0
    assert risk(np.array([1.0, -1.0]))[0] == 0.0


def test_huge_but_finite_features_are_accepted():
    assert len(risks.Hinge(np.full((3, 1), 1e308), np.ones(3))) == 3


def test_zero_eps_is_absolute():
    X, y = np.eye(2), np.array([1.0, -1.0])
    assert risks.EpsilonInsensitive(X, y, eps=0)(np.zeros(2))[0] == risks.Absolute(X, y)(np.zeros(2))[0]


def test_dense_input_is_not_copied():
    X = np.ones((4, 2), dtype=np.float32)
    assert risks.Hinge(X, np.ones(4))._features.matrix is X


def test_all_positive_labels_are_allowed_where_the_score_is_defined():
    assert risks.FBeta([[1.0], [2.0]], [1, 1])(np.zeros(1))[0] == 1.0
