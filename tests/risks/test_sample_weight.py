"""Weights of examples: weighted queries, parts of a risk, and training compared with cvxpy."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.train import StructuredRisk

N, D = 14, 3
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, D))
ROWS = (RNG.random((N, 3)) > 0.5).astype(int)
COPIES = np.random.default_rng(5).integers(0, 4, N)


def test_structured_parts_keep_their_weights():
    risk = StructuredRisk(so.structures.PairwiseMRF(3), X, ROWS, sample_weight=COPIES)
    w = np.random.default_rng(0).normal(size=risk.n_features)
    np.testing.assert_array_equal(risk.examples, np.flatnonzero(COPIES))
    halves = np.array_split(np.arange(len(risk)), 2)
    parts = [risk.part(half) for half in halves]
    total = sum(float(part.violations(w).upper.sum()) for part in parts) / len(risk)
    assert total == pytest.approx(risk(w)[0])


@pytest.mark.parametrize("kind", ["label", "loss", "width", "score"])
def test_errors_name_examples_by_their_numbers_in_the_data_set(kind):
    weight = np.ones(8)
    weight[[0, 2, 3]] = 0.0
    x, y = [np.ones((2, 2)) for _ in range(8)], [np.array([0, 1]) for _ in range(8)]
    loss = _NoLossOfNothing() if kind == "loss" else so.losses.Hamming()
    model = so.Model(_two(), {"a": so.features.Shared()}, loss)
    if kind == "loss":
        y[5] = np.array([0, 0])
    if kind == "label":
        y[5] = y[7] = np.array([1, 1])
    if kind == "width":
        x[5] = np.ones((2, 3))
    with pytest.raises(so.errors.StructoptError, match=r"[Ee]xample 5\b") as caught:
        risk = StructuredRisk(model, x, y, sample_weight=weight)
        if kind == "score":
            part = risk.parts([np.array([4, 2]), np.array([0, 1, 3])])[0]
            with np.errstate(all="ignore"):
                tables = part.batch.tables(np.ones(part.n_features))
                tables[0][2] = np.nan
                part.violations_of(tables)
    if kind == "label":
        assert caught.value.examples == (5, 7)
        assert [text.split(":")[0] for text in caught.value.violations] == ["example 5", "example 7"]


@pytest.mark.parametrize("estimator", [so.StructuredSVM, so.CRF])
def test_estimators_name_wrong_labels_by_their_numbers_in_the_data_set(estimator):
    model = so.Model(_two(), {"a": so.features.Linear()}, so.losses.Hamming())
    y = [np.array([0, 1])] * 5 + [np.array([1, 1])]
    with pytest.raises(so.errors.LabelNotInSpace, match="example 5: ") as caught:
        estimator(model).fit(np.ones((6, 2)), y, sample_weight=[0, 1, 0, 1, 1, 1])
    assert caught.value.examples == (5,)


def test_labels_that_look_like_numbers_of_examples_stay_as_they_are():
    model = so.structures.Multiclass(["a", "b"])
    with pytest.raises(so.errors.LabelNotInSpace, match="classes of the model: example 3: 'example 1'"):
        StructuredRisk(model, np.ones((4, 1)), ["a", "b", "a", "example 1"], sample_weight=[0, 1, 0, 1])


class _NoLossOfNothing(so.losses.Hamming):
    def linear(self, truth):
        if not np.any(truth):
            raise so.errors.DeclarationError("nothing is on.")
        return super().linear(truth)

    def linear_batch(self, truths):
        return None


def _two():
    space = so.LabelSpace()
    a = space.binary("a", 2)
    space.subject_to(a.sum() <= 1)
    return space
