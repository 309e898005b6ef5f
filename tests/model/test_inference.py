"""Fronts of whole data sets: every surrogate is one scan, and agrees with the search of each plane by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import structopt as so
from structopt.oracle import Oracle
from structopt.train import StructuredRisk

NAMES = ["multiclass", "multilabel", "pairwise", "chain", "leaves", "hierarchy", "tags", "declared leaves"]


def declared(name: str, rng: np.random.Generator) -> tuple[so.Model, Any, Any]:
    """Tags with all pairs, and sets of leaves, as users declare them: the recogniser's algorithms make their fronts."""
    space = so.LabelSpace(name)
    if name == "tags":
        y, (i, j) = space.binary("y", 4), np.triu_indices(4, 1)
        p = space.continuous("pair", len(i), 0, 1)
        space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
        features = {"y": so.features.Linear(), "pair": so.features.Tied()}
    else:
        y, features = space.binary("y", 6), {"y": so.features.Linear()}
        space.subject_to(y[2:4] <= y[0], y[4:] <= y[1], y[2:4].sum() >= y[0], y[4:].sum() >= y[1], y[:2].sum() >= 1)
    labels = space.enumerate()
    points = labels[rng.integers(0, len(labels), 8)]
    return so.Model(space, features, so.losses.Hamming()), rng.normal(size=(8, 3)), points[:, : y.size]


@pytest.mark.parametrize("surrogate", ["slack", so.surrogates.BetaScaling(0.5)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_fronts_hold_the_most_violated_labels(name, surrogate, monkeypatch, fuzz):
    # Labels are listed neither here nor there.
    monkeypatch.setattr(Oracle, "_listed_labels", property(lambda oracle: None))
    rng = np.random.default_rng(NAMES.index(name))
    model, X, Y = declared(name, rng) if name in NAMES[-2:] else fuzz("batches").data_set(name, rng)
    risk = StructuredRisk(model, X, Y, surrogate, rtol=1e-9)
    batch = risk.batch
    assert batch.front_cost(risk.loss) is not None
    for scale in (0.0, 0.1, 1.0):
        tables = batch.tables(scale * rng.normal(size=risk.n_features))
        labels, margin, loss = batch.argmax_surrogate(risk.surrogate, tables, risk.loss, risk.truth)
        found = risk.surrogate.clipped_array(margin, loss)
        np.testing.assert_allclose(found, risk._search(tables).value, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            batch.dot(tables, labels) - batch.dot(tables, risk.truth), margin, rtol=1e-9, atol=1e-9
        )
        np.testing.assert_allclose(batch.loss_values(risk.loss, labels), loss, atol=1e-9)
        some = np.array([1, 4, 5])
        part, part_margin, part_loss = batch.argmax_surrogate(
            risk.surrogate, tables, risk.loss, risk.truth, examples=some
        )
        part_found = risk.surrogate.clipped_array(part_margin[some], part_loss[some])
        np.testing.assert_allclose(part_found, found[some], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            (batch.dot(tables, part) - batch.dot(tables, risk.truth))[some], part_margin[some], rtol=1e-9, atol=1e-9
        )


def walks(x: Any) -> so.LabelSpace:
    """Walks over three nodes, as long as the input has rows: a path in layers."""
    T = len(x["at"])
    tail, head = np.array([0, 0, 1, 1, 2]), np.array([1, 2, 0, 1, 2])
    space = so.LabelSpace(f"walks of {T}")
    at, step = space.binary("at", (T, 3)), space.binary("step", (T - 1, 5))
    space.subject_to(at[0].sum() == 1)
    for node in range(3):
        space.subject_to(step[:, tail == node].sum(axis=1) == at[:-1, node])
        space.subject_to(step[:, head == node].sum(axis=1) == at[1:, node])
    return space


def test_plans_of_many_spaces_forget_what_they_can_make_again(monkeypatch):
    import structopt.model.inference as inference

    rng = np.random.default_rng(1)
    X = [{"at": rng.normal(size=(T, 2))} for T in (5, 4, 6, 5, 4, 6)]
    model = so.Model(walks, {"at": so.features.Table("at")}, {"at": so.losses.Hamming()}, key=lambda x: len(x["at"]))
    Y = [model.predict(rng.normal(size=6), x) for x in X]
    w = rng.normal(size=6)
    kept = StructuredRisk(model, X, Y, "slack")(w)
    monkeypatch.setattr(inference, "_KEPT_BY_PLANS", 10)
    monkeypatch.setattr(Oracle, "_listed_labels", property(lambda oracle: None))
    forgotten = StructuredRisk(model, X, Y, "slack")
    assert forgotten(w)[0] == pytest.approx(kept[0], rel=2e-3)
    plans = forgotten.batch.inference._planned[1]
    assert len(plans) == 3 and plans[-1][1].kept == 0
