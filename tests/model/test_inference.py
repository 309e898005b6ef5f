"""Fronts of whole data sets: every surrogate is one scan, and agrees with the search of each plane by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.oracle import Oracle
from structopt.train import StructuredRisk

TREE = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "e"), ("b", "f")])
N, D = 8, 3


def declared_chain(rng: np.random.Generator) -> tuple[so.Model, Any, Any]:
    T, S = 4, 3
    space = so.LabelSpace("chain")
    y, p = space.binary("y", (T, S)), space.continuous("transition", (T - 1, S, S), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
    tied = so.features.Tied(np.tile(np.arange(S * S), T - 1))
    loss = so.losses.Hamming(np.full(T * S, 0.5))
    model = so.Model(space, {"y": so.features.Table(), "transition": tied}, loss)
    return model, [rng.normal(size=(T, D)) for _ in range(N)], [np.eye(S)[rng.integers(0, S, T)] for _ in range(N)]


def declared_nodes(rng: np.random.Generator, kind: str) -> tuple[so.Model, Any, Any]:
    n = len(TREE)
    space = so.LabelSpace(kind)
    z = space.binary("node", n)
    space.subject_to(z[TREE.child] <= z[TREE.parent])
    if kind == "leaves":
        below = sp.csr_array((np.ones(TREE.below.size), TREE.below, TREE.below_ptr), shape=(n, n))
        inner = np.flatnonzero(~TREE.is_leaf)
        space.subject_to(z @ below[inner].T >= z[inner], z[TREE.root_index].sum() >= 1)
    shipped = so.structures.HierarchicalLabels(TREE, kind)
    leaves = list(TREE.leaves)
    Y = np.array([shipped.encode({leaves[k]}) for k in rng.integers(0, len(leaves), N)])
    return so.Model(space, {"node": so.features.Linear()}, so.losses.Hamming()), rng.normal(size=(N, D)), Y


def tags(rng: np.random.Generator) -> tuple[so.Model, Any, Any]:
    n = 4
    i, j = np.triu_indices(n, 1)
    space = so.LabelSpace("tags")
    y, p = space.binary("y", n), space.continuous("pair", len(i), 0, 1)
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    model = so.Model(space, {"y": so.features.Linear(), "pair": so.features.Tied()}, so.losses.Hamming())
    return model, rng.normal(size=(N, D)), (rng.random((N, n)) < 0.4).astype(float)


def case(name: str, rng: np.random.Generator) -> tuple[so.Model, Any, Any]:
    if name == "declared chain":
        return declared_chain(rng)
    if name == "declared tags":
        return tags(rng)
    if name.startswith("declared"):
        return declared_nodes(rng, name.split()[1])
    leaves = list(TREE.leaves)
    X = rng.normal(size=(N, D))
    sequences = [rng.normal(size=(int(rng.integers(1, 5)), D)) for _ in range(N)]
    states = [rng.integers(0, 3, len(x)) for x in sequences]
    sets = (rng.random((N, 4)) < 0.5).astype(float)
    one = sets.copy()
    one[:, 0], one[:, 1] = 1.0, 0.0
    pairs = [{leaves[a], leaves[b]} for a, b in rng.integers(0, len(leaves), (N, 2))]
    made: dict[str, tuple[so.Model, Any, Any]] = {
        "multiclass": (so.structures.Multiclass(4), X, rng.integers(0, 4, N)),
        "sets": (so.structures.MultiLabel(4), X, sets),
        "limited sets": (so.structures.MultiLabel(4, 1, 3), X, one),
        "pairwise": (so.structures.PairwiseMRF(4), X, sets),
        "no pairs": (so.structures.PairwiseMRF(4, edges=np.empty((0, 2), int)), X, sets),
        "chain": (so.structures.Chain(3), sequences, states),
        "normalized chain": (so.structures.Chain(3, loss="normalized", initial_weights=True), sequences, states),
        "leaf": (so.structures.HierarchicalLabels(TREE, "leaf"), X, [leaves[k] for k in rng.integers(0, 4, N)]),
        "leaves": (so.structures.HierarchicalLabels(TREE, "leaves"), X, pairs),
        "closure": (so.structures.HierarchicalLabels(TREE, "closure"), X, pairs),
    }
    return made[name]


NAMES = ["multiclass", "sets", "limited sets", "pairwise", "no pairs", "chain", "normalized chain", "leaf", "leaves",
         "closure", "declared chain", "declared tags", "declared closure", "declared leaves"]  # fmt: skip


@pytest.mark.parametrize("surrogate", ["slack", so.surrogates.BetaScaling(0.5)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_fronts_hold_the_most_violated_labels(name, surrogate, monkeypatch):
    # Labels are listed neither here nor there: the recogniser's algorithms make the fronts of declared spaces.
    monkeypatch.setattr(Oracle, "_list_labels", lambda self: None)
    rng = np.random.default_rng(NAMES.index(name))
    model, X, Y = case(name, rng)
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


def budget(x: Any) -> so.LabelSpace:
    """Items of an input with a price each: no structure is known, and few labels are listed."""
    n = len(x["at"])
    space = so.LabelSpace(f"budget of {n}")
    y = space.binary("at", (n, 3))
    space.subject_to((np.arange(1, n + 1)[:, None] * y).sum() <= n + 1)
    return space


def listed_for(model: so.Model, x: Any) -> Any:
    return model.space(x).enumerate()


@pytest.mark.parametrize("declare", [walks, budget])
@pytest.mark.parametrize("surrogate", ["margin", "slack", so.surrogates.BetaScaling(0.5)])
@pytest.mark.parametrize("search", ["auto", "convex_hull"])
def test_spaces_by_input_are_searched_together(declare, surrogate, search):
    """Examples of different spaces, one after the other: values and planes are those of the list of all labels."""
    rng = np.random.default_rng(0)
    X = [{"at": rng.normal(size=(T, 2))} for T in (4, 2, 3, 4, 2, 2, 3, 4, 3)]
    model = so.Model(
        declare,
        {"at": so.features.Table("at")},
        {"at": so.losses.Hamming()},
        key=lambda x: len(x["at"]),
    )
    labels = [listed_for(model, x) for x in X]
    truth = [Z[rng.integers(0, len(Z))] for Z in labels]
    Y = [model.decode(z, x) for z, x in zip(truth, X, strict=True)]
    risk = StructuredRisk(model, X, Y, surrogate, search=search, rtol=1e-9)
    psi = so.surrogates.get(surrogate)
    for scale in (0.0, 0.7):
        w = scale * rng.normal(size=risk.n_features)
        found = risk.violations(w)
        value, subgradient = risk(w)
        for i, (x, Z, z) in enumerate(zip(X, labels, truth, strict=True)):
            margin = Z @ model.scores(w, x) - z @ model.scores(w, x)
            coef, const = model.loss(Y[i], x)
            best = max(0.0, max(psi.value(h, g) for h, g in zip(margin, Z @ coef + const, strict=True)))
            assert found.value[i] <= found.upper[i] + 1e-9
            if search == "auto":
                assert found.value[i] == pytest.approx(best, rel=1e-6, abs=1e-9)
            else:  # mixtures of labels may exceed the best label
                assert found.upper[i] >= best - 1e-9
        # The plane lies below the risk elsewhere.
        for other in w + 0.3 * rng.normal(size=(5, len(w))):
            assert risk(other)[0] >= value + subgradient @ (other - w) - 1e-6


def test_plans_of_many_spaces_forget_what_they_can_make_again(monkeypatch):
    import structopt.model.inference as inference

    rng = np.random.default_rng(1)
    X = [{"at": rng.normal(size=(T, 2))} for T in (5, 4, 6, 5, 4, 6)]
    model = so.Model(walks, {"at": so.features.Table("at")}, {"at": so.losses.Hamming()}, key=lambda x: len(x["at"]))
    Y = [model.predict(rng.normal(size=6), x) for x in X]
    w = rng.normal(size=6)
    kept = StructuredRisk(model, X, Y, "slack")(w)
    monkeypatch.setattr(inference, "_KEPT_BY_PLANS", 10)
    monkeypatch.setattr(Oracle, "listed", None)
    forgotten = StructuredRisk(model, X, Y, "slack")
    assert forgotten(w)[0] == pytest.approx(kept[0], rel=2e-3)
    plans = forgotten.batch.inference._planned[1]
    assert len(plans) == 3 and plans[-1].plan.kept == 0
