"""Parts of labels that are alike, and labels that exclude each other, under conditional risk."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.estimators.conditional_risk import ConditionalRiskMinimizer
from structopt.losses import HierarchicalLoss
from structopt.structures.hierarchy import HierarchicalLabels

TREE = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)]
DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3), (2, 4)]


def data(model, m=30, d=4, seed=0):
    """Inputs, and random labels of the model's space."""
    rng = np.random.default_rng(seed)
    labels = model.space().enumerate()
    X = rng.normal(size=(m, d))
    return X, labels[rng.integers(len(labels), size=m)]


def closure(edges=TREE, loss=None):
    h = so.Hierarchy(edges)
    return HierarchicalLabels(h, "closure", loss=HierarchicalLoss(h) if loss == "hierarchical" else loss)


# ---- the additive model --------------------------------------------------------------------------


def test_additive_model_with_separate_parts_is_the_plain_one():
    model = closure(loss="hierarchical")
    X, Y = data(model)
    for intercept in (False, True):
        plain = ConditionalRiskMinimizer(model, "rbf", 0.02, intercept).fit(X, Y)
        joint = ConditionalRiskMinimizer(model, "rbf", 0.02, intercept, joint_kernel=np.eye(6)).fit(X, Y)
        for a, b in zip(joint.conditional_risk(X[:5]), plain.conditional_risk(X[:5]), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_additive_model_minimises_its_objective(intercept):
    # ECRM (13) with the ridge m lam: the closed form against the explicit system over tasks (j, value).
    model = closure()
    X, Y = data(model, m=12)
    B = so_neighbours(model)
    est = ConditionalRiskMinimizer(model, "rbf", 0.1, intercept, gamma=0.5, joint_kernel="neighbours").fit(X, Y)
    K = rbf_kernel(X, gamma=0.5)
    m, d = 12, 6
    new = np.random.default_rng(9).normal(size=(4, 4))
    V = rbf_kernel(new, X, gamma=0.5)
    estimates = {}
    for value in (0, 1):
        target = (value != Y).astype(float)
        system = np.kron(B, K) + m * 0.1 * np.eye(m * d)
        if intercept:
            ones = np.kron(np.eye(d), np.ones((m, 1)))
            system = np.block([[system, ones], [ones.T, np.zeros((d, d))]])
            solution = np.linalg.solve(system, np.concatenate([target.T.ravel(), np.zeros(d)]))
            offset = solution[m * d :]
        else:
            solution, offset = np.linalg.solve(system, target.T.ravel()), np.zeros(d)
        estimates[value] = V @ solution[: m * d].reshape(d, m).T @ B + offset
    coef, const = est.conditional_risk(new)
    np.testing.assert_allclose(coef, estimates[1] - estimates[0], atol=1e-9)
    np.testing.assert_allclose(const, estimates[0].sum(axis=1), atol=1e-9)


def so_neighbours(model):
    from structopt.estimators.conditional_risk.joint_kernels import neighbours

    return neighbours(model.hierarchy)


def test_joint_kernels_are_kernels():
    from structopt.estimators.conditional_risk.joint_kernels import diffusion, neighbours

    for h in (so.Hierarchy(TREE), so.Hierarchy(DIAMOND), so.Hierarchy([(k, k + 1) for k in range(9)])):
        for B in (neighbours(h), diffusion(h), diffusion(h, 0.0)):
            assert np.linalg.eigvalsh(B)[0] > -1e-10
            np.testing.assert_allclose(B.diagonal(), 1.0)
    model = closure([(0, 1), (1, 2)])
    X, Y = data(model)
    with pytest.raises(DeclarationError, match=r"eigenvalue -0\.414"):
        # The paper's own suggestion on a path of three nodes.
        ConditionalRiskMinimizer(model, joint_kernel=[[1, 1, 0], [1, 1, 1], [0, 1, 1]]).fit(X, Y)
    for wrong in (np.eye(2), [[1, 0, 0], [1, 1, 0], [0, 0, 1]], "friends"):
        with pytest.raises(DeclarationError, match="joint_kernel"):
            ConditionalRiskMinimizer(model, joint_kernel=wrong).fit(X, Y)


# ---- exclusions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tighten", [False, True])
@pytest.mark.parametrize("edges", [TREE, DIAMOND])
def test_exclusive_nodes(edges, tighten):
    from structopt.structures.exclusive import ExclusiveLabels

    h = so.Hierarchy(edges)
    free, model = closure(edges), ExclusiveLabels(h, [(1, 2), (3, 4)], tighten=tighten)
    allowed = np.array([z for z in free.space().enumerate() if z[1] + z[2] <= 1 and z[3] + z[4] <= 1])
    labels = model.space().enumerate()
    assert {tuple(z) for z in labels} == {tuple(z) for z in allowed}
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 3)), labels[rng.integers(len(labels), size=30)]
    est = ConditionalRiskMinimizer(model, "rbf", 1e-4, gamma=1.0).fit(X, Y)
    new = rng.normal(size=(40, 3))
    coef, const = est.conditional_risk(new)
    found = est.minimize_risk(new)
    np.testing.assert_allclose(found.risk, (coef @ labels.T).min(axis=1) + const, atol=1e-9)
    with pytest.raises(LabelNotInSpace, match=r"example 1: .*1 and 2, which exclude each other"):
        est.fit(X[:2], np.array([[0] * len(h), [1, 1, 1] + [0] * (len(h) - 3)]))


def test_exclusions_without_the_parent_are_not_integral_and_still_exact():
    from structopt.structures.exclusive import ExclusiveLabels

    h = so.Hierarchy([("p", "a"), ("p", "b")])
    c = np.array([-1.5, 1.0, 1.0])  # p, a, b: the relaxation gains 1/4 at (1/2, 1/2, 1/2)
    loose = ExclusiveLabels(h, [("a", "b")], tighten=False, solver="highs")
    assert so.Oracle(loose.space(), "highs", integral="relax").maximize(c).value == pytest.approx(0.25)
    assert loose.oracle().maximize(c).value == pytest.approx(0.0)
    assert loose.space().structure.totally_unimodular is not True
    tight = ExclusiveLabels(h, [("a", "b")], solver="highs")
    assert so.Oracle(tight.space(), "highs", integral="relax").maximize(c).value == pytest.approx(0.0)


def test_exclusive_groups_that_make_no_sense():
    from structopt.structures.exclusive import ExclusiveLabels

    h = so.Hierarchy(TREE)
    with pytest.raises(DeclarationError, match="cannot exclude"):
        ExclusiveLabels(h, [(1, 3)])
    for group in ((1,), (1, 1)):
        with pytest.raises(DeclarationError, match="two or more"):
            ExclusiveLabels(h, [group])
    with pytest.raises(DeclarationError, match="not a node"):
        ExclusiveLabels(h, [(1, 99)])
    for groups in ([(1, 2), 3], ["ab"]):
        with pytest.raises(DeclarationError, match=r"exclusive\[\d\] must be a sequence"):
            ExclusiveLabels(h, groups)
