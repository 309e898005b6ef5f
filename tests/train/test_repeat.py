"""A second fit of the same model object gives the same weights, bit for bit: what solvers remember belongs to a run."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

HIERARCHY = so.Hierarchy([("root", "a"), ("root", "b"), ("a", "c"), ("a", "d"), ("b", "e"), ("b", "d")])


def declared(integral):
    """Tags on a budget with an exclusion, scored and weighted in steps of a half so that labels tie."""
    space = so.LabelSpace()
    tag = space.binary("tag", 6)
    space.subject_to(np.array([3.0, 2.0, 2.0, 1.0, 4.0, 2.0]) @ tag <= 6)
    space.subject_to(tag[0] + tag[1] + tag[5] <= 1)
    return so.Model(space, {"tag": so.features.Linear()}, so.losses.Hamming(), solver="highs", integral=integral)


def problems():
    rng = np.random.default_rng(0)
    X = np.round(2 * rng.normal(size=(14, 3))) / 2
    W = rng.normal(size=(3, 6))
    model = declared("auto")
    Y = [model.predict(W.T.ravel(), x) for x in X]
    yield "declared", model, X, Y
    yield "relaxed", declared("relax"), X, Y
    tags = (X @ W > 0).astype(int)
    yield "mrf", so.structures.PairwiseMRF(6), X, tags
    yield "mrf relaxed", so.structures.PairwiseMRF(6, integral="relax"), X, tags
    yield "multilabel", so.structures.MultiLabel(6), X, tags
    leaves = [["c", "d", "e"][k] for k in (X @ W)[:, :3].argmax(axis=1)]
    yield "leaf of a DAG", so.structures.HierarchicalLabels(HIERARCHY), X, leaves
    sets = [[leaf] for leaf in leaves]
    yield "leaves of a DAG", so.structures.HierarchicalLabels(HIERARCHY, "leaves"), X, sets
    yield "multiclass", so.structures.Multiclass(6), X, (X @ W).argmax(axis=1)
    chains = [X[:5], X[5:9], X[9:]]
    states = [(x @ W)[:, :3].argmax(axis=1) for x in chains]
    yield "chain", so.structures.Chain(3), chains, states
    segments = [[(0, 0), (2, 1)], [(0, 2), (1, 0), (3, 1)], [(0, 1), (2, 2), (4, 0)]]
    yield "segmentation", so.structures.Segmentation(3, max_length=3), chains, segments


SLACK = ("declared", "relaxed", "mrf relaxed", "leaves of a DAG", "chain")
CASES = [pytest.param(model, X, Y, "slack" if name in SLACK else "margin", id=name) for name, model, X, Y in problems()]


@pytest.mark.parametrize(("model", "X", "Y", "surrogate"), CASES)
def test_second_fit_of_one_model(model, X, Y, surrogate):
    for trainer in ("auto", "one_slack", "sgd"):
        svm = so.StructuredSVM(model, surrogate, trainer=trainer, lam=0.01, max_passes=3, random_state=3)
        first = svm.fit(X, Y).coef_.copy()
        svm.predict(X)
        second = svm.fit(X, Y).coef_
        assert np.array_equal(first, second), f"{trainer}: {np.abs(first - second).max()}"


def test_a_fit_leaves_no_trace_in_the_model():
    _, model, X, Y = next(problems())
    calls = model.oracle().statistics.calls
    so.StructuredSVM(model, max_passes=3).fit(X, Y)
    assert model.oracle().statistics.calls == calls
    risk = so.train.StructuredRisk(model, X, Y)
    assert risk.part(np.arange(3)).model is risk.model  # the parts of a run do share


@pytest.mark.parametrize("tol", [1.0, 1e6, np.inf, -1e-3, np.nan, "small", None])
def test_a_tolerance_that_any_point_meets_is_refused(tol):
    _, model, X, Y = next(problems())
    number = isinstance(tol, float) and not np.isnan(tol)
    told = r"tol is a relative gap.*below 1" if number else "tol must be a number, got"
    with pytest.raises(DeclarationError, match=told):
        so.StructuredSVM(model, tol=tol).fit(X, Y)
    with pytest.raises(DeclarationError, match=told):
        so.LinearSVM(tol=tol).fit(X, np.arange(len(X)) % 2)
    with pytest.raises(DeclarationError, match=told):
        so.HierarchicalSVM(HIERARCHY, tol=tol).fit(X, ["c", "d", "e", "d", "c", "e", "d"] * 2)
