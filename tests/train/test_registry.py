"""Trainers by name, and functions and objects of a user's own in their place."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt import train
from structopt.errors import DeclarationError
from structopt.train import registry


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    return X, (X @ rng.normal(size=(4, 3)) > 0).astype(int)


@pytest.fixture
def own_names(monkeypatch):
    """Forget what other tests and doctests of this process have registered."""
    ours = {name: trainer for name, trainer in registry._TRAINERS.items() if name in registry._OURS}
    monkeypatch.setattr(registry, "_TRAINERS", ours)


def patient(risk, *, lam, tol=1e-3):
    return train.bmrm(risk, lam=lam, tol=tol)


class Halved:
    """A trainer with settings: an object that is called."""

    name = "halved"
    needs = ("cut",)

    def __call__(self, risk, *, lam, **options):
        self.options = options
        return train.bmrm(risk, lam=lam, tol=options["tol"] / 2)


def test_every_registered_trainer_says_what_it_needs(data):
    X, Y = data
    structured = train.StructuredRisk(so.structures.MultiLabel(3), X, Y)
    hinge = so.risks.Hinge(X, np.where(Y[:, 0], 1.0, -1.0))
    for name in registry._OURS:
        trainer = train.get(name)
        assert trainer.name == name and trainer.needs
        assert getattr(train, name) is trainer.function
        able = all(hasattr(hinge, need) for need in trainer.needs)
        if able:
            trainer.check(hinge)
        else:
            with pytest.raises(DeclarationError, match=rf"Hinge does not work with the trainer '{name}': it has no "):
                trainer.check(hinge)
    assert train.get("sgd").minimise(structured, lam=0.1, max_passes=2, tol=0.0, warm=None).trainer == "sgd"


def test_functions_objects_and_partials(data):
    X, Y = data
    model = so.structures.MultiLabel(3)
    optimum = so.StructuredSVM(model, lam=0.1, tol=1e-6).fit(X, Y).result_.objective
    halved = Halved()
    for given, name in ((patient, "patient"), (halved, "halved"), (functools.partial(train.bmrm, theta=1.0), "bmrm")):
        svm = so.StructuredSVM(model, lam=0.1, trainer=given).fit(X, Y)
        assert svm.trainer_ == name and svm.result_.converged
        assert svm.result_.objective == pytest.approx(optimum, rel=2e-3)
    assert halved.options["tol"] == 1e-3 and halved.options["random_state"] == 0


@pytest.mark.parametrize(("trainer", "storage"), [(patient, sp.csr_array), (train.get("bmrm"), np.asarray)])
def test_in_every_estimator_that_has_a_trainer(data, trainer, storage):
    X, Y = data
    rows = storage(X)
    y = np.array(["a", "b", "c"])[Y.sum(axis=1) % 3]
    for est in (
        so.HierarchicalSVM([("r", "a"), ("r", "b"), ("r", "c")], trainer=trainer, lam=0.1),
        so.SharedSVM([("r", "a"), ("r", "b"), ("r", "c")], trainer=trainer, lam=0.1, max_rounds=2, rounds_tol=1.0),
        so.LinearSVM(trainer=trainer, lam=0.1),
        so.LinearSVM(trainer=trainer, lam=0.1, multi_class="crammer_singer"),
    ):
        assert est.fit(rows, y).result_.trainer == "bmrm"
    words = [X[:3], X[3:8]]
    crf = so.CRF(trainer=trainer, lam=0.1).fit(words, [list(y[:3]), list(y[3:8])])
    assert crf.result_.converged


@pytest.mark.usefixtures("own_names")
def test_registered_by_name(data):
    X, Y = data
    train.register("patient", patient, needs=["cut"], memory=lambda size: {"everything": 8.0 * size.weights})
    assert "patient" in train.names()
    assert so.StructuredSVM(so.structures.MultiLabel(3), trainer="patient").fit(X, Y).trainer_ == "patient"
    y = np.array(["a", "b"])[Y[:, 0]]
    svm = so.HierarchicalSVM([("r", "a"), ("r", "b")], trainer="patient").fit(X, y)
    assert "everything" in svm.plan_
    with pytest.raises(DeclarationError, match="everything"):
        so.HierarchicalSVM([("r", "a"), ("r", "b")], trainer="patient", max_memory=8).fit(X, y)
    train.register("patient", patient)  # the same again
    with pytest.raises(DeclarationError, match=r"'patient' is registered already.*replace=True"):
        train.register("patient", Halved())
    train.register("patient", Halved(), replace=True)
    with pytest.raises(DeclarationError, match="is a trainer of structopt"):
        train.register("bmrm", patient)
    with pytest.raises(DeclarationError, match="auto"):
        train.register("auto", patient)


def test_what_goes_wrong_is_told(data):
    X, Y = data
    model = so.structures.MultiLabel(3)
    with pytest.raises(DeclarationError, match=r"no trainer called 'bmrn'.*bmrm"):
        so.StructuredSVM(model, trainer="bmrn").fit(X, Y)
    with pytest.raises(DeclarationError, match=r"'patient' has no parameter 'max_seconds'.*risk, lam, tol"):
        so.StructuredSVM(model, trainer=patient, max_seconds=5.0).fit(X, Y)
    with pytest.raises(DeclarationError, match="warm_start"):
        so.StructuredSVM(model, trainer=patient, warm_start=True).fit(X, Y)
    with pytest.raises(DeclarationError, match=r"returned ndarray, and must return a TrainResult"):
        so.StructuredSVM(model, trainer=lambda risk, *, lam: np.zeros(risk.n_features)).fit(X, Y)


def changed(w_of):
    def trainer(risk, *, lam):
        result = train.bmrm(risk, lam=lam)
        return dataclasses.replace(result, w=w_of(result.w))

    return trainer


@pytest.mark.parametrize("w_of", [lambda w: w[:-1], lambda w: w * np.nan, lambda w: np.zeros(0)])
def test_weights_that_are_none_of_the_risk_are_refused(data, w_of):
    X, Y = data
    with pytest.raises(DeclarationError, match="'trainer' returned weights"):
        so.StructuredSVM(so.structures.MultiLabel(3), lam=0.1, trainer=changed(w_of)).fit(X, Y)


def test_trainers_that_cannot_be_called_are_refused(data):
    X, Y = data
    unknown = functools.partial(train.bmrm, no_such_parameter=1)
    for trainer, message in ((Halved, "class Halved"), (unknown, "cannot be called")):
        with pytest.raises(DeclarationError, match=message):
            so.StructuredSVM(so.structures.MultiLabel(3), lam=0.1, trainer=trainer).fit(X, Y)


def test_one_need_may_stand_alone(data, own_names):
    X, Y = data
    train.register("alone", patient, needs="cut")
    assert train.get("alone").needs == ("cut",)
    so.StructuredSVM(so.structures.MultiLabel(3), lam=0.1, trainer="alone").fit(X, Y)
    own = Halved()
    for needs in (5, [1]):
        own.needs = needs
        with pytest.raises(DeclarationError, match="needs must be"):
            train.get(own)


def test_what_a_trainer_may_be_is_said():
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    for estimator in (so.LinearSVM(trainer=3), so.StructuredSVM(so.structures.Multiclass(2), trainer=3)):
        with pytest.raises(
            DeclarationError, match=r"trainer must be a name \('auto', .*'bmrm'.*\) or a function f\(risk"
        ):
            estimator.fit(X, y)
