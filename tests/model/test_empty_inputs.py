"""Examples whose label space has no variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import structopt as so
from structopt.errors import InfeasibleSpace

SIZES = [[2, 0, 1], [0, 2, 1], [2, 1, 0], [0, 0, 3], [0, 0]]


def tags(x: Any) -> so.LabelSpace:
    """One tag per row of the input; an input without rows has one label, the empty one."""
    space = so.LabelSpace()
    space.binary("tag", len(x))
    return space


def data(sizes: list[int]) -> tuple[so.Model, list[Any], list[Any], Any]:
    rng = np.random.default_rng(0)
    model = so.Model(tags, {"tag": so.features.Shared()}, so.losses.Hamming(), key=len)
    X = [rng.normal(size=(n, 2)) for n in sizes]
    return model, X, [rng.integers(0, 2, n).astype(float) for n in sizes], rng.normal(size=2)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]], ids=["empty first", "empty last"])
def test_slack_risk_does_not_depend_on_the_place_of_an_empty_example(order: list[int]) -> None:
    def at_least_one(x: Any) -> so.LabelSpace:
        space = tags(x)
        if len(x):
            space.subject_to(space["tag"].sum() >= 1)
        return space

    model = so.Model(at_least_one, {"tag": so.features.Shared()}, so.losses.Hamming(), key=len)
    rng = np.random.default_rng(0)
    X, y = [np.empty((0, 2)), rng.normal(size=(3, 2))], [[], [1, 0, 0]]
    risk = so.risks.StructuredRisk(model, [X[i] for i in order], [y[i] for i in order], "slack", rtol=1e-9)
    alone = so.risks.StructuredRisk(model, X[1:], y[1:], "slack", rtol=1e-9)
    for w in rng.normal(size=(20, 2)):
        assert risk(w)[0] == pytest.approx(0.5 * alone(w)[0], abs=1e-9)


@pytest.mark.parametrize("solver", ["auto", "highs", "scipy"])
def test_space_without_variables_has_one_label(solver: str) -> None:
    oracle = so.Oracle(tags([]), solver=solver)
    assert [label.value for label in oracle.k_best([], 3)] == [0.0]
    with pytest.raises(InfeasibleSpace):
        oracle.maximize([], forbid=[[]])
    log_partition, means = oracle.sums(np.zeros((2, 0)))
    assert log_partition.tolist() == [0.0, 0.0] and means.shape == (2, 0)
    assert oracle.sample([], 2).shape == (2, 0)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_crf_takes_empty_examples(sizes: list[int]) -> None:
    model, X, Y, _ = data(sizes)
    crf = so.CRF(model, lam=0.1).fit(X, Y)
    likelihood = crf.log_likelihood(X, Y)
    assert [len(label) for label in crf.predict(X)] == sizes
    assert [len(mean) for mean in crf.predict_proba(X)] == sizes
    assert all(likelihood[i] == 0.0 for i, n in enumerate(sizes) if n == 0)
