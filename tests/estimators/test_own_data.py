"""A fitted estimator owns what it keeps: writing into the training data afterwards changes nothing, nor does fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.estimators.conditional_risk import ConditionalRiskMinimizer

# Tests stop early where an optimum is not what they are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def arrays(data: Any) -> list[np.ndarray]:
    """The arrays that hold the numbers of a data set."""
    if sp.issparse(data):
        return [data.data, data.indices, data.indptr]
    return [data] if isinstance(data, np.ndarray) else [part for item in data for part in arrays(item)]


def private(data: Any) -> Any:
    """A copy of a data set, whose arrays may be written to."""
    if isinstance(data, np.ndarray) or sp.issparse(data):
        return data.copy()
    return [private(item) if isinstance(item, np.ndarray | list) else item for item in data]


def told(values: Any) -> str:
    """All numbers and names of a data set, of one length or of many."""
    return repr([value.tolist() if isinstance(value, np.ndarray) else value for value in values])


def test_fit_does_not_write_into_the_data_and_keeps_its_own_copy(case: Any) -> None:
    X, y = private(case.X), private(case.y)
    inputs = X if isinstance(X, list) else [X]
    frozen = [part for part in (*inputs, y) if isinstance(part, np.ndarray)]
    for part in frozen:
        part.setflags(write=False)
    before = told(X), told(y)
    short = {} if case.kind is ConditionalRiskMinimizer else {"max_passes": 4}
    estimator = case.make(**short)
    type(case)(case.kind, case.parameters, X, y, case.query).fit(estimator)
    assert (told(X), told(y)) == before
    for part in frozen:
        part.setflags(write=True)
    fresh = private(X)
    wanted = told(estimator.predict(fresh))
    learned = {name: np.array(value) for name, value in vars(estimator).items() if isinstance(value, np.ndarray)}
    for part in inputs:
        part[...] = 1e6
    if isinstance(y, np.ndarray):
        y[...] = y[0]
    else:
        y[:] = [y[0]] * len(y)
    assert told(estimator.predict(fresh)) == wanted
    for name, value in learned.items():
        np.testing.assert_array_equal(getattr(estimator, name), value, err_msg=name)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed", "callable"])
@pytest.mark.parametrize("method", ["auto", "eigen"])
@pytest.mark.parametrize("sparse", [False, True])
def test_conditional_risk_keeps_a_copy_of_its_inputs(kernel: str, method: str, sparse: bool) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(12, 3)), rng.integers(0, 2, (12, 2))
    test = rng.normal(size=(4, 3))
    if kernel == "precomputed":
        X, test = X @ X.T, test @ X.T
    X = sp.csr_array(X) if sparse else X

    def products(A: Any, B: Any) -> Any:
        return (A @ B.T).toarray() if sp.issparse(A) else A @ B.T

    chosen = products if kernel == "callable" else kernel
    est = ConditionalRiskMinimizer(so.structures.MultiLabel(2), chosen, lam=0.1, method=method).fit(X, Y)
    test = sp.csr_array(test) if sparse else test
    wanted = est.weights(test)
    risk = est.conditional_risk(test)[0]
    arrays(X)[0][...] = 17.0
    Y[...] = 0
    np.testing.assert_allclose(est.weights(test), wanted, rtol=1e-12)
    np.testing.assert_allclose(est.conditional_risk(test)[0], risk, rtol=1e-12)


def test_matrices_of_labels_and_of_rows_are_not_tidied_in_place() -> None:
    h = so.Hierarchy([("a", "b"), ("a", "c")])

    def untidy() -> sp.csr_array:
        parts = np.array([1.0, 0.0, 1.0, 1.0]), np.array([2, 1, 0, 0]), np.array([0, 3, 4])
        return sp.csr_array(parts, shape=(2, 3))

    given, kept = untidy(), untidy()
    so.structures.HierarchicalLabels(h, "closure").batch(np.ones((2, 1))).truth(given)
    so.metrics.accuracy(given, given, h)
    so.structures.Multiclass(2).batch(given)
    so.risks.Hinge(given, [1, -1])
    for one, other in zip(arrays(given), arrays(kept), strict=True):
        np.testing.assert_array_equal(one, other)


def test_losses_and_terms_own_their_tables() -> None:
    costs, weights, factor = np.array([[0.0, 1], [2, 0]]), np.array([1.0, 2.0]), np.array([1.0, 3.0])
    index = np.array([0, 1])
    losses = so.losses.CostMatrix(costs), so.losses.Hamming(weights)
    terms = so.features.Linear(factor=factor), so.features.Tied(index)
    chain = so.structures.Chain(2, loss=costs)
    for table in (costs, weights, factor, index):
        table[...] = 5
    assert losses[0].costs.tolist() == [[0, 1], [2, 0]] and losses[1].weights.tolist() == [1, 2]
    assert terms[0].factor.tolist() == [1, 3] and terms[1].index(None, 2).tolist() == [0, 1]
    assert chain.loss([0, 1])[0].max() == 2
