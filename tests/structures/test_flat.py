"""Multiclass, multi-label and pairwise models: solvers, compact labels and losses, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_hard_pairwise_models_fall_back_to_the_solver(monkeypatch, rng):
    """Where persistency stops at its node limit, the MIP takes over from the incumbent."""
    model = so.structures.PairwiseMRF(5)
    batch = model.batch(rng.normal(size=(3, 2)))
    w = rng.normal(size=batch.n_weights)
    tables = batch.tables(w)
    _, wanted = batch.argmax(tables)
    exact = model.graph.solve_exact

    def unproved(*args, **kwargs):
        Y, values, proved = exact(*args, **kwargs)
        return np.zeros_like(Y), np.zeros_like(values), np.zeros_like(proved)

    monkeypatch.setattr(model.graph, "solve_exact", unproved)
    _, values = batch.argmax(tables)
    np.testing.assert_allclose(values, wanted, atol=1e-7)


class TestBadInput:
    def test_unknown_class(self, rng):
        model = so.structures.Multiclass(["a", "b"])
        with pytest.raises(LabelNotInSpace, match="'c' is not one of the classes 'a', 'b'"):
            model.encode("c")
        with pytest.raises(LabelNotInSpace, match=r"2 of 3 labels.*example 0: 'c'"):
            model.batch(rng.normal(size=(3, 2))).truth(["c", "a", ["a"]])

    def test_declarations(self):
        for wrong, words in [
            (lambda: so.structures.Multiclass([]), "at least one"),
            (lambda: so.structures.Multiclass(["a", "a"]), "same name"),
            (lambda: so.structures.Multiclass(3, loss=np.zeros((2, 2))), "shape"),
            (lambda: so.structures.Multiclass(3, loss="0-1"), "zero-one"),
            (lambda: so.structures.MultiLabel(3, at_least=2, at_most=1), "no labels"),
            (lambda: so.structures.PairwiseMRF(3, edges=[(0, 3)]), r"\(0, 3\)"),
            (lambda: so.structures.PairwiseMRF(3, edges=[(1, 1)]), "itself"),
            (lambda: so.structures.PairwiseMRF(3, edges=[(0, 1), (1, 0)]), "twice"),
        ]:
            with pytest.raises(DeclarationError, match=words):
                wrong()

    def test_label_rows(self, rng):
        model = so.structures.MultiLabel(3, at_most=1)
        batch = model.batch(rng.normal(size=(2, 2)))
        with pytest.raises(LabelNotInSpace, match="example 1: 2 labels"):
            batch.truth([[0, 0, 1], [1, 1, 0]])
        with pytest.raises(LabelNotInSpace, match="contains 2"):
            batch.truth([[0, 0, 2], [1, 0, 0]])
        with pytest.raises(DeclarationError, match="shape"):
            batch.truth([[0, 0], [1, 0]])
        with pytest.raises(LabelNotInSpace, match="cardinality"):
            model.encode([1, 1, 0])


@pytest.mark.parametrize("loss", [int, "text", [[0, "a"], [1, 0]], [[0, [1]], [1, 0]], 3])
def test_what_is_no_loss_of_classes_is_refused(loss):
    with pytest.raises(DeclarationError, match=r"loss must be|loss matrix has shape"):
        so.structures.Multiclass(2, loss=loss)


def test_a_memoryview_is_a_matrix():
    X = np.random.default_rng(0).normal(size=(6, 3))
    model = so.structures.Multiclass(2)
    w = np.arange(6.0)
    assert model.batch(memoryview(X)).n == 6
    viewed, plain = (so.risks.StructuredRisk(model, x, [0, 1] * 3)(w) for x in (memoryview(X), X))
    assert viewed[0] == plain[0]


class _ListedZeroOne(so.losses.ZeroOne):
    """The 0/1 loss under another type, so that its coefficients are listed."""


@pytest.mark.parametrize("weight", [1.0, -0.5, "each"])
def test_implicit_zero_one_loss_breaks_ties_as_listed_coefficients_do(weight, rng):
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 4, 40)
    implicit, listed = (
        so.train.StructuredRisk(so.structures.Multiclass(4, loss=loss), X, y) for loss in ("zero-one", _ListedZeroOne())
    )
    factors = rng.integers(-2, 3, 40).astype(float) if weight == "each" else weight
    scores = rng.integers(0, 3, (40, 4)).astype(float)
    scores[5], scores[6, 2] = -np.inf, np.nan
    for some in (None, np.array([0, 5, 6, 30])):
        for table in (scores, np.asfortranarray(scores), scores.astype(np.float32)):
            (a, best), (b, expected) = (
                risk.batch.argmax([table], risk.loss, factors, examples=some) for risk in (implicit, listed)
            )
            assert np.array_equal(a.native, b.native)
            assert np.array_equal(best, expected, equal_nan=True)


def test_inference_under_the_zero_one_loss_does_not_copy_the_scores(rng, peak_bytes):
    risk = so.train.StructuredRisk(so.structures.Multiclass(2000), rng.normal(size=(50, 2)), rng.integers(0, 2000, 50))
    tables = risk.batch.tables(rng.normal(size=risk.n_features))
    risk.batch.argmax(tables, risk.loss)  # kernels are compiled
    assert peak_bytes(lambda: risk.batch.argmax(tables, risk.loss)) < 0.1 * tables[0].nbytes


@pytest.mark.parametrize("what", ["structured risk", "block ascent", "vector risk"])
def test_zero_one_loss_allocates_no_table_of_pairs_of_classes(what, rng, peak_bytes):
    K = 3000
    X, y = rng.normal(size=(4, 2)), rng.integers(0, K, 4)

    def work(n_classes):
        if what == "vector risk":
            risk = so.risks.Multiclass(X, y % n_classes, n_classes=n_classes)
        else:
            risk = so.train.StructuredRisk(so.structures.Multiclass(n_classes), X, y % n_classes)
        if what == "block ascent":
            so.train.block_ascent(risk, lam=0.1, max_passes=2)
        else:
            risk(np.zeros(risk.n_features))

    work(5)  # kernels are compiled
    assert peak_bytes(lambda: work(K)) < 0.1 * K * K * 8
