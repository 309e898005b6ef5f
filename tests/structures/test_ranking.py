"""Rankings: sort and assignment = HiGHS = brute force; measures; ties; batch = loop; bad input."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import ndcg_score

import structopt as so
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


def test_oracle_equals_highs_brute_force_and_sorting(model, rng):
    x = rng.normal(size=(4, 2))
    space, oracle = model.space(x), model.oracle(x)
    labels = space.enumerate()
    assert len(labels) == 24
    slow = so.Oracle(space, "highs")
    for _ in range(5):
        c = rng.normal(size=16)
        assert oracle.maximize(c).value == pytest.approx((labels @ c).max())
        assert slow.maximize(c).value == pytest.approx((labels @ c).max(), abs=1e-7)
    w = rng.normal(size=2)
    np.testing.assert_array_equal(model.predict(w, x), np.argsort(-(x @ w)))
    values = np.sort(labels @ model.scores(w, x))[::-1]
    np.testing.assert_allclose([label.value for label in oracle.k_best(model.scores(w, x), 24)], values)


def test_scores_are_linear(model, rng):
    x = rng.normal(size=(4, 3))
    w = rng.normal(size=3)
    c = log_discount(4) if callable(model.decay) else np.arange(1, 5) ** -0.25
    for z in model.space(x).enumerate():
        order = model.decode(z)
        assert model.scores(w, x) @ z == pytest.approx(c @ (x @ w)[order])
        np.testing.assert_allclose(model.joint(x, z), c @ x[order])


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


def test_hinge_bounds_the_loss_of_the_prediction(rng):
    """max over pi of loss + score - score of the ground truth is at least 1 - NDCG of sorting by the scores."""
    model = Ranking()
    X = [rng.normal(size=(n, 3)) for n in rng.integers(2, 9, size=40)]
    Y = [rng.integers(0, 4, size=len(x)) for x in X]
    batch = model.batch(X)
    truth = batch.truth(Y)
    loss = batch.loss(truth)
    for scale in (0.1, 1.0, 10.0):
        tables = batch.tables(scale * rng.normal(size=3))
        _, values = batch.argmax(tables, loss)
        predicted, _ = batch.argmax(tables)
        hinge = values - batch.dot(tables, truth)
        assert (hinge >= batch.loss_values(loss, predicted) - 1e-9).all()


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array])
def test_batch_equals_loop(model, rng, convert):
    X = [convert(rng.normal(size=(n, 3))) for n in (4, 2, 5, 1, 4)]
    Y = [rng.integers(0, 3, size=x.shape[0]) for x in X]
    batch = model.batch(X)
    truth = batch.truth(Y)
    loss = batch.loss(truth)
    for _ in range(3):  # prices are kept from one call to the next
        w = rng.normal(size=3)
        tables = batch.tables(w)
        best, values = batch.argmax(tables, loss, 0.5, n_jobs=2)
        plain, plain_values = batch.argmax(tables)
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            c = model.scores(w, x)
            coef, const = model.loss(y, x)
            labels = model.space(x).enumerate()
            assert values[i] == pytest.approx((labels @ (c + 0.5 * coef)).max() + 0.5 * const)
            assert plain_values[i] == pytest.approx((labels @ c).max())
            np.testing.assert_array_equal(batch.decode(plain)[i], model.predict(w, x))
            assert batch.dot(tables, truth)[i] == pytest.approx(c @ model.encode(y, x))
        np.testing.assert_allclose(values, batch.dot(tables, best) + 0.5 * batch.loss_values(loss, best))
        some = np.array([4, 1])
        for given in (loss, None):
            part, part_values = batch.argmax(tables, given, 0.5, examples=some)
            np.testing.assert_allclose(part_values[some], (values if given else plain_values)[some])
            assert not batch.dot(tables, part)[[0, 2, 3]].any()
            assert not part_values[[0, 2, 3]].any()
    np.testing.assert_allclose(batch.loss_values(loss, truth), 0, atol=1e-12)
    points = [model.encode(y, x) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(batch.joint(truth), sum(map(model.joint, X, points)), atol=1e-12)
    folded = batch.fold(points)
    np.testing.assert_allclose(batch.dot(tables, folded), batch.dot(tables, truth))
    np.testing.assert_allclose(batch.loss_values(loss, folded), 0, atol=1e-12)
    for order, y in zip(batch.decode(truth), Y, strict=True):
        np.testing.assert_array_equal(order, np.argsort(-y, kind="stable"))
        assert (np.diff(y[order]) <= 0).all()


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
        Ranking().loss_at(Ranking().encode([1, 0]))
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


def test_copies_and_reprs(rng):
    model = Ranking(NDCG(k=5), decay=0.5)
    x = rng.normal(size=(4, 2))
    w = rng.normal(size=2)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(twin.predict(w, x), model.predict(w, x))
        assert repr(twin) == "Ranking(measure=NDCG(k=5), decay=0.5)"
    assert repr(model.batch([x])) == "<Batch of Ranking: 1 examples, 4 rows, 2 weights>"
