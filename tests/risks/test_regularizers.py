"""Regularisers: curvature, limits of the conjugates, and wrong parameters."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from structopt.errors import DeclarationError
from structopt.risks.regularizers import L1, L2, Entropy, Lp, Quadratic

D = 5
_root = np.random.default_rng(0).normal(size=(D, D))
B = _root @ _root.T + 0.5 * np.eye(D)
SMOOTH = [L2(), Lp(1.3), Lp(2), Lp(4), Quadratic(B), Quadratic(scipy.sparse.csr_array(B)), Quadratic(np.arange(1.0, 6))]
SMOOTH += [Entropy(), Entropy(normalized=False)]


@pytest.mark.parametrize("regularizer", SMOOTH, ids=repr)
def test_curvature_by_finite_differences(regularizer):
    rng = np.random.default_rng(2)
    mu, step = rng.normal(size=D), 1e-5
    for kind, second, first in (
        ("smooth", regularizer.conjugate_curvature, regularizer.conjugate_gradient),
        ("interior", regularizer.curvature, regularizer.subgradient),
    ):
        if regularizer.kind == kind:
            diagonal, factor, vector = second(mu)
            hessian = np.diag(diagonal) + factor * np.outer(vector, vector)
            change = [(first(mu + step * e) - first(mu - step * e)) / (2 * step) for e in np.eye(D)]
            assert hessian == pytest.approx(np.array(change), abs=1e-6)


def test_l1_bound_is_minus_infinity_where_nothing_stops_the_slope():
    assert L1().dual_point(np.array([2.0]), 1.0, 1.0)[1] == -np.inf
    assert L1().dual_point(np.array([2.0]), 1.0, 1.0, floor=0.0)[1] == pytest.approx(0.5)
    assert L1().dual_point(np.array([0.5]), 1.0, 1.0)[1] == pytest.approx(1.0)


def test_entropy_overflow_is_an_infinite_conjugate_not_a_warning():
    entropy = Entropy(normalized=False)
    assert entropy.conjugate(np.array([1e4])) == np.inf
    assert np.isfinite(entropy.conjugate_gradient(np.array([1e4]))).all()
    assert Entropy().conjugate(np.array([1e4, 0.0])) == pytest.approx(1e4)


def test_quadratic_line():
    rng = np.random.default_rng(4)
    w, d, regularizer = rng.normal(size=D), rng.normal(size=D), Quadratic(B)
    slope, curvature = regularizer.along(w, d)
    expected = regularizer.value(w) + 0.3 * slope + 0.5 * 0.09 * curvature
    assert regularizer.value(w + 0.3 * d) == pytest.approx(expected)


def test_wrong_parameters_are_named():
    for p in (1.0, 0.5, np.inf):
        with pytest.raises(DeclarationError, match="L1"):
            Lp(p)
    with pytest.raises(DeclarationError, match="p must be a number, got NaN"):
        Lp(np.nan)
    with pytest.raises(DeclarationError, match="positive definite"):
        Quadratic([1.0, 0.0])
    with pytest.raises(DeclarationError, match="positive definite"):
        Quadratic(np.diag([1.0, -1.0]))
    with pytest.raises(DeclarationError, match="positive definite"):
        Quadratic(scipy.sparse.csr_array(np.diag([1.0, -1.0])))
    with pytest.raises(DeclarationError, match="symmetric"):
        Quadratic([[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(DeclarationError, match="square"):
        Quadratic(np.ones((2, 3)))
    with pytest.raises(DeclarationError, match="finite"):
        Quadratic([1.0, np.nan])
    for empty in ([], np.empty((0, 0)), scipy.sparse.csr_array((0, 0))):
        with pytest.raises(DeclarationError, match="an entry for each weight"):
            Quadratic(empty)
    for call in (Quadratic([1.0, 2.0]).value, Quadratic(np.eye(2)).conjugate):
        with pytest.raises(DeclarationError, match="B is for 2 weights, and there are 3"):
            call(np.ones(3))
    with pytest.raises(DeclarationError, match="non-negative"):
        Entropy().check(np.array([1.5, -0.5]))
    with pytest.raises(DeclarationError, match="sum to 1"):
        Entropy().check(np.array([1.5, 0.5]))


def test_equality_and_repr():
    assert L2() == L2() and hash(L2()) == hash(L2()) and L2() != L1()
    assert Lp(1.5) == Lp(1.5) and Lp(1.5) != Lp(3)
    assert Quadratic([1.0, 2.0]) == Quadratic([1.0, 2.0]) and Quadratic([1.0, 2.0]) != Quadratic([1.0, 3.0])
    assert repr(Entropy(normalized=False)) == "Entropy(normalized=False)"
    assert repr(Quadratic(B)) == "Quadratic(<dense 5 x 5>)"
