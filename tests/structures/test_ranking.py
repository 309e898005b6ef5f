"""Rankings: scores and measures by their definitions, ties, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.risks import ERU, MRR, NDCG, PrecisionAtN
from structopt.structures.ranking import Ranking

MEASURES = ["ndcg", NDCG(k=2), "precision", PrecisionAtN(2), "mrr", MRR(), "eru", ERU(2.0)]


def log_discount(n):
    return 1 / np.log2(np.arange(n) + 2)


@pytest.fixture(params=[0.25, log_discount])
def model(request):
    return Ranking(decay=request.param)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def test_scores_are_linear_and_predictions_are_sorted(model, rng):
    x = rng.normal(size=(4, 3))
    w = rng.normal(size=3)
    c = log_discount(4) if callable(model.decay) else np.arange(1, 5) ** -0.25
    for z in model.space(x).enumerate():
        order = model.decode(z)
        assert model.scores(w, x) @ z == pytest.approx(c @ (x @ w)[order])
        np.testing.assert_allclose(model.joint(x, z), c @ x[order])
    np.testing.assert_array_equal(model.predict(w, x), np.argsort(-(x @ w)))


def test_the_truth_is_sorted_and_ties_keep_their_order():
    model = Ranking()
    np.testing.assert_array_equal(model.decode(model.encode([1, 2, 0, 2, 1])), [1, 3, 0, 4, 2])


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_losses_are_linear_and_by_definition(measure, rng):
    model = Ranking(measure)
    object_of = {"ndcg": NDCG(), "precision": PrecisionAtN(), "mrr": MRR(), "eru": ERU()}
    definition = object_of.get(measure, measure) if isinstance(measure, str) else measure
    for _ in range(4):
        relevance = rng.integers(0, 3, size=4).astype(float)
        coef, const = model.loss(relevance)
        best = definition.score(relevance, relevance)
        for order in itertools.permutations(range(4)):
            z = np.zeros((4, 4))
            z[np.arange(4), order] = 1
            f = np.empty(4)
            f[list(order)] = [4.0, 3.0, 2.0, 1.0]
            value = coef @ z.ravel() + const
            assert value == pytest.approx(best - definition.score(relevance, f))
            assert value >= -1e-12


def test_ndcg_equals_sklearn_and_ties_cost_nothing():
    relevance = np.array([2.0, 0.0, 1.0, 2.0, 0.0])
    coef, const = Ranking(NDCG(k=3)).loss(relevance)
    for order in itertools.permutations(range(5)):
        z = np.zeros((5, 5))
        z[np.arange(5), order] = 1
        f = np.empty(5)
        f[list(order)] = np.arange(5.0, 0.0, -1.0)
        value = coef @ z.ravel() + const
        assert value == pytest.approx(1 - ndcg_score([2.0**relevance - 1], [f], k=3))
        if (np.diff(relevance[list(order)]) <= 0).all():
            assert value == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("relevance", "told"),
    [
        ([1, 0], "one relevance per document"),
        ([1, -2, 0], "Document 1 has relevance -2"),
        ([1, 0, np.nan], "Document 2 has relevance nan"),
        (["high", "low", "low"], "Relevances are numbers"),
    ],
)
def test_wrong_relevances_are_named(relevance, told):
    with pytest.raises(LabelNotInSpace, match=told):
        Ranking().encode(relevance, np.zeros((3, 1)))


def test_bad_inputs(rng):
    with pytest.raises(DeclarationError, match="measure must be"):
        Ranking("auc")
    with pytest.raises(DeclarationError, match="decrease from the top"):
        Ranking(decay=-1.0).predict([1.0], np.ones((3, 1)))
    with pytest.raises(DeclarationError, match="matrix of documents"):
        Ranking().space(np.zeros(3))
    with pytest.raises(DeclarationError, match="use loss"):
        Ranking()._loss_at(Ranking().encode([1, 0]))
    batch = Ranking().batch([np.ones((2, 1)), np.ones((3, 1))])
    with pytest.raises(
        LabelNotInSpace, match="1 of 2 labels cannot be used:\n  example 1: A ground truth has one relevance"
    ):
        batch.truth([[1, 0], [1, 0]])
    with pytest.raises(DeclarationError, match="2 inputs but 1 labels"):
        batch.truth([[1, 0]])
    best, _ = batch.argmax(batch.tables(np.ones(1)))
    with pytest.raises(DeclarationError, match="depends on relevances"):
        batch.loss(best)


def test_reprs(rng):
    model = Ranking(NDCG(k=5), decay=0.5)
    assert repr(model) == "Ranking(measure=NDCG(k=5), decay=0.5)"
    assert repr(model.batch([rng.normal(size=(4, 2))])) == "<Batch of Ranking: 1 examples, 4 rows, 2 weights>"
