"""No number is small in itself: the same problem in other units takes the same way.

The units are powers of two, so that every product rounds as before and any difference is a threshold that is absolute.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.risks import Hinge, SquaredHinge
from structopt.risks import regularizers as r
from structopt.train import block_ascent, bmrm, coordinate_descent
from structopt.train.result import relative_gap


def data(n: int = 24, d: int = 4) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d))
    return X, (X @ rng.normal(size=(d, 3)) + 0.5 * rng.normal(size=(n, 3))).argmax(axis=1)


def multiclass(loss_unit: float = 1.0, feature_unit: float = 1.0, surrogate: str = "margin") -> Any:
    X, y = data()
    model = so.structures.Multiclass(3, loss=loss_unit * np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0.0]]))
    return so.train.StructuredRisk(model, feature_unit * X, y, surrogate)


TRAINERS = [
    "block_ascent", "bcfw", "n_slack", "one_slack", "bmrm", "proximal_bundle", "trust_region_bundle",
    "multiclass_ascent",
]  # fmt: skip


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize(("losses", "features"), [(2.0**-40, 1.0), (1.0, 2.0**20)])
def test_losses_and_features_in_another_unit(name: str, losses: float, features: float) -> None:
    """The problem is ``lam/2 |w|^2 + max_y L(y) + <w, dphi>``.

    Losses times s, lam over s and w times s give s times the objective. Features times s and lam times s^2 give the
    same objective.
    """
    train: Any = getattr(so.train, name)
    options = {"tol": 0.05 if name == "bcfw" else 1e-5, "max_passes": 1000}
    wanted = train(multiclass(), lam=0.02, **options)
    found = train(multiclass(losses, features), lam=0.02 * features**2 / losses, **options)
    assert wanted.converged and found.converged
    assert found.passes == pytest.approx(wanted.passes, rel=0.05, abs=2)
    assert found.objective / losses == pytest.approx(wanted.objective, rel=2 * options["tol"])
    assert found.lower_bound / losses == pytest.approx(wanted.lower_bound, rel=2 * options["tol"])


@pytest.mark.parametrize("unit", [2.0**-20, 2.0**20])
def test_slack_rescaling_in_another_unit(unit: float) -> None:
    """``L(y) (1 + <w, dphi>)``: losses and lam times s give s times the objective at the same weights."""
    wanted = block_ascent(multiclass(surrogate="slack"), lam=0.02, tol=1e-6)
    found = block_ascent(multiclass(unit, surrogate="slack"), lam=0.02 * unit, tol=1e-6)
    assert found.converged and found.objective / unit == pytest.approx(wanted.objective, rel=2e-6)


class Scaled(so.train.Risk):
    """A risk in another unit, as a user might write one."""

    lower_bound = 0.0

    def __init__(self, risk: Any, unit: float) -> None:
        self.risk, self.unit, self.n_features = risk, unit, risk.n_features

    def value_and_subgradient(self, w: Any) -> Any:
        value, subgradient = self.risk(w)
        return self.unit * value, self.unit * subgradient


@pytest.mark.parametrize("regularizer", [r.L2(), r.L1(), r.Lp(3.0), r.Lp(1.5)], ids=repr)
@pytest.mark.parametrize("unit", [2.0**-40, 2.0**20])
def test_a_bundle_of_any_regulariser_in_another_unit(regularizer: Any, unit: float) -> None:
    X, y = data()
    risk = Hinge(X, np.where(y == 0, 1, -1))
    wanted = bmrm(Scaled(risk, 1.0), regularizer, lam=0.01, tol=1e-5)
    found = bmrm(Scaled(risk, unit), regularizer, lam=0.01 * unit, tol=1e-5)
    assert wanted.converged and found.converged
    assert found.objective / unit == pytest.approx(wanted.objective, rel=2e-5)
    np.testing.assert_allclose(found.lower_bound / unit, wanted.lower_bound, rtol=2e-5)


@pytest.mark.parametrize("Risk", [Hinge, SquaredHinge])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("lam", [1e-4, 1e-9])
def test_small_objectives_do_not_stall_coordinate_descent(Risk: Any, storage: Any, lam: float) -> None:
    """Separable data and little regularisation: the objective is about lam, far below the derivatives of the dual."""
    rng = np.random.default_rng(400)
    X = rng.normal(size=(2, 5)) * (rng.random((2, 5)) < 0.8)
    y = np.where(X @ rng.normal(size=5) > 0, 1, -1)
    result = coordinate_descent(Risk(storage(X), y), lam=lam, tol=1e-6)
    assert result.converged and result.gap <= 1e-6 and result.objective < 10 * lam
    optimum = bmrm(Risk(storage(X), y), lam=lam, tol=1e-7)
    assert result.lower_bound <= optimum.objective * (1 + 1e-9) and optimum.lower_bound <= result.objective * (1 + 1e-9)


def test_the_example_that_stalled() -> None:
    rng = np.random.default_rng(400)
    X = rng.normal(size=(2, 5)) * (rng.random((2, 5)) < 0.4)
    y = np.where(X @ rng.normal(size=5) + 0.5 * rng.normal(size=2) > 0, 1, -1)
    result = coordinate_descent(Hinge(sp.csr_array(X), y), lam=1e-4, tol=1e-8, random_state=400)
    assert result.stopped == "tol" and result.objective == pytest.approx(1.2501411661891683e-05, rel=1e-7)


def test_no_run_converges_because_its_losses_are_small() -> None:
    """An objective of 1e-15 at w = 0 had a relative gap of 1e-3, measured by an absolute 1e-12."""
    found = bmrm(Scaled(Hinge(*[(a := data())[0], np.where(a[1] == 0, 1, -1)]), 1e-15), lam=1e-17, tol=1e-3)
    assert found.converged and found.passes > 2 and found.objective < 0.9e-15
    assert relative_gap(1e-15, 0.0, 1e-15) == 1.0 and relative_gap(0.0, 0.0, 1e-15) == 0.0


@pytest.mark.parametrize("surrogate", ["margin", "slack"])
def test_planes_taken_far_out_keep_their_height_at_0(surrogate: str) -> None:
    """Their slopes cancel in the mean over examples, so that a height far out says nothing about the one at 0."""
    X, y = data()
    X = np.vstack([X, X])
    risk = so.train.StructuredRisk(so.structures.Multiclass(3), 1e6 * X, np.concatenate([y, (y + 1) % 3]), surrogate)
    w = 1e9 * np.random.default_rng(0).normal(size=risk.n_features)
    cut = risk.cut(w)
    assert cut.offset(w) == pytest.approx(risk.violations(w).level.mean(), rel=1e-9)
    assert cut.offset(w) <= risk(np.zeros(risk.n_features))[0]
