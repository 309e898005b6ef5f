"""A data set goes from memory with the last object that uses it, without the garbage collector."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from structopt.model.batch import Batch
from structopt.train import StructuredRisk, block_ascent

NAMES = [
    "classes", "tags between", "pairs", "relaxed pairs", "chain", "leaf", "closure", "trees", "assignment",
    "declared budget",
]  # fmt: skip


@pytest.fixture
def no_collector() -> Any:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("surrogate", ["margin", "slack"])
def test_a_risk_takes_its_data_with_it(no_collector, law, name, surrogate):
    model, X, Y = law("test_models").data(name)
    risk = StructuredRisk(model, X, Y, surrogate)
    risk(np.ones(risk.n_features))
    batch = weakref.ref(risk.batch)
    del risk
    assert batch() is None


@pytest.mark.parametrize("name", NAMES)
def test_training_and_prediction_leave_nothing(no_collector, law, name, monkeypatch):
    model, X, Y = law("test_models").data(name)
    made: list[weakref.ref[Any]] = []
    begin = Batch.__init__

    def noted(self: Any, *args: Any) -> None:
        begin(self, *args)
        made.append(weakref.ref(self))

    monkeypatch.setattr(Batch, "__init__", noted)
    risk = StructuredRisk(model, X, Y)
    w = block_ascent(risk, lam=1.0, max_passes=3).w
    model.batch(X).argmax(model.batch(X).tables(w))
    del risk
    assert made and all(batch() is None for batch in made)


def test_labels_outlive_their_batch(law):
    model, X, Y = law("test_models").data("chain")
    labels = model.batch(X).truth(Y)
    assert labels.tables[0].sum() == sum(map(len, Y))
