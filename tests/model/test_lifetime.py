"""A data set goes from memory with the last object that uses it, without the garbage collector."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import structopt as so
from structopt.model.batch import Batch
from structopt.train import StructuredRisk, block_ascent

RNG = np.random.default_rng(0)
TREE = so.Hierarchy([("root", "a"), ("root", "b"), ("a", "c"), ("a", "d")])


def declared() -> so.Model:
    space = so.LabelSpace("at most two")
    y = space.binary("y", 4)
    space.subject_to(y.sum() <= 2)
    return so.Model(space, {"y": so.features.Linear()}, so.losses.Hamming())


CASES: dict[str, tuple[so.Model, Any, Any]] = {
    "classes": (so.structures.Multiclass(3), RNG.normal(size=(6, 2)), [0, 1, 2, 0, 1, 2]),
    "sets": (so.structures.MultiLabel(3), RNG.normal(size=(6, 2)), RNG.integers(0, 2, (6, 3))),
    "pairs": (so.structures.PairwiseMRF(3), RNG.normal(size=(6, 2)), RNG.integers(0, 2, (6, 3))),
    "relaxed pairs": (
        so.structures.PairwiseMRF(3, integral="relax"), RNG.normal(size=(6, 2)), RNG.integers(0, 2, (6, 3)),
    ),
    "chains": (
        so.structures.Chain(3), [RNG.normal(size=(n, 2)) for n in (2, 3)], [RNG.integers(0, 3, n) for n in (2, 3)],
    ),
    "leaves": (so.structures.HierarchicalLabels(TREE, "leaf"), RNG.normal(size=(3, 2)), ["b", "c", "d"]),
    "closures": (so.structures.HierarchicalLabels(TREE, "closure"), RNG.normal(size=(2, 2)), [["root", "b"], ["root"]]),
    "heads": (so.structures.Arborescence(), [RNG.normal(size=(4, 4, 2))], [np.array([0, 1, 1])]),
    "assignments": (so.structures.Assignment(), [RNG.normal(size=(3, 3, 2))], [np.array([2, 0, 1])]),
    "declared": (declared(), RNG.normal(size=(4, 2)), np.eye(4, dtype=int)),
}  # fmt: skip


@pytest.fixture
def no_collector() -> Any:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("surrogate", ["margin", "slack"])
def test_a_risk_takes_its_data_with_it(no_collector, name, surrogate):
    model, X, Y = CASES[name]
    risk = StructuredRisk(model, X, Y, surrogate)
    risk(np.ones(risk.n_features))
    batch = weakref.ref(risk.batch)
    del risk
    assert batch() is None


@pytest.mark.parametrize("name", CASES)
def test_training_and_prediction_leave_nothing(no_collector, name, monkeypatch):
    model, X, Y = CASES[name]
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


def test_labels_outlive_their_batch():
    model, X, Y = CASES["chains"]
    labels = model.batch(X).truth(Y)
    assert labels.tables[0].sum() == sum(map(len, Y))
