"""`SharedSVM`: the alternation falls to the joint optimum; its other rules stand where they say."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import structopt as so
from structopt import norms
from structopt.errors import StructoptError
from structopt.estimators.shared import SharedSVM
from structopt.losses import LeafHamming, Normalized
from structopt.risks.structured import StructuredRisk
from structopt.structures.hierarchy import HierarchicalLabels

# Tests stop early where an optimum is not what they are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

TREE = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (2, 7)])
DAG = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 4), (2, 5)])


@pytest.mark.parametrize("h", [TREE, DAG])
def test_alternation_never_increases_the_objective(leaf_data, h):
    X, y = leaf_data(h)
    est = SharedSVM(h, lam=0.2, tol=1e-3, max_rounds=6, rounds_tol=1e-4).fit(X, y)
    assert len(est.objectives_) >= 3 and (np.diff(est.objectives_) <= 0).all()
    sums = h.closure @ est.alpha_
    assert (sums <= 1 + 1e-9).all()
    # The last objective, from coefficients and alpha alone.
    U = np.column_stack([est.coef_, est.intercept_])
    norm = sum((U[k] @ U[k]) / est.alpha_[k] for k in range(len(h)) if est.alpha_[k] > 0)
    model = HierarchicalLabels(h, loss=LeafHamming(h, 0.5), intercept=True)
    risk, _ = StructuredRisk(model, X, y)(U.ravel())
    assert est.objectives_[-1] == pytest.approx(0.1 * norm + risk, rel=1e-8)
    assert est.result_.lower_bound <= est.result_.objective == est.objectives_[-1]


@pytest.mark.parametrize("h", [TREE, DAG])
def test_alternation_reaches_the_joint_optimum(leaf_data, h):
    """(14) of NHSVM, vectors and weights at once, by a conic solver."""
    X, y = leaf_data(h, n=12, d=2)
    est = SharedSVM(h, lam=0.2, tol=1e-4, max_rounds=60, rounds_tol=1e-5, intercept=False).fit(X, y)
    U, alpha, t = cp.Variable((len(h), 2)), cp.Variable(len(h), nonneg=True), cp.Variable(len(h))
    scores = X @ (h.closure.toarray() @ U).T
    own = np.array([h.leaves.index(leaf) for leaf in y])
    others = 1.0 - np.eye(len(h.leaves))[own]
    hinge = cp.max(scores + others, axis=1) - cp.sum(cp.multiply(scores, 1.0 - others), axis=1)
    rows = [cp.quad_over_lin(U[k], alpha[k]) <= t[k] for k in range(len(h))]
    joint = cp.Problem(cp.Minimize(0.1 * cp.sum(t) + cp.sum(hinge) / len(y)), [*rows, h.closure @ alpha <= 1])
    joint.solve(solver="CLARABEL")
    assert joint.value * (1 - 1e-6) <= est.objectives_[-1] <= joint.value * (1 + 3e-3)


def test_final_alpha_is_best_for_the_final_vectors(leaf_data):
    X, y = leaf_data(TREE)
    est = SharedSVM(TREE, lam=0.2, tol=1e-4, max_rounds=15).fit(X, y)
    U = np.column_stack([est.coef_, est.intercept_])
    squares = (U**2).sum(axis=1)
    best = norms.shared_alpha(squares, TREE, root=False)
    on = best > 0
    now = (squares[est.alpha_ > 0] / est.alpha_[est.alpha_ > 0]).sum()
    assert (squares[on] / best[on]).sum() <= now * (1 + 1e-12)
    assert now <= (squares[on] / best[on]).sum() * 1.01


def test_published_shares_stand_still_at_the_end(leaf_data):
    X, y = leaf_data(TREE, n=20)
    est = SharedSVM(TREE, lam=0.2, tol=1e-5, margin="normalized", shares="published", rounds_tol=1e-3).fit(X, y)
    U = np.column_stack([est.coef_, est.intercept_])
    again = norms.shared_alpha((U**2).sum(axis=1), TREE, root=False, shares="published")
    np.testing.assert_allclose(est.alpha_, again, atol=2e-3)
    assert 2 <= est.n_rounds_ == len(est.objectives_) < 20
    # The error is (9) at the weights of the start, whatever alpha has become.
    model = HierarchicalLabels(TREE, loss=Normalized(TREE, norms.normalization(TREE)), intercept=True)
    risk, _ = StructuredRisk(model, X, y)(U.ravel())
    on = est.alpha_ > 0
    assert est.objectives_[-1] == pytest.approx(
        0.1 * ((U[on] ** 2).sum(axis=1) / est.alpha_[on]).sum() + risk, rel=1e-8
    )


def test_bad_arguments(leaf_data):
    X, y = leaf_data(TREE)
    with pytest.raises(StructoptError, match="margin must be"):
        SharedSVM(TREE, margin="squared").fit(X, y)
    with pytest.raises(StructoptError, match="kind='leaf'"):
        SharedSVM(TREE, kind="closure", margin="normalized").fit(X, y)
    with pytest.raises(StructoptError, match="shares must be"):
        SharedSVM(TREE, shares="printed").fit(X, y)
    with pytest.raises(StructoptError, match="rule for trees"):
        SharedSVM(DAG, shares="published").fit(*leaf_data(DAG))
