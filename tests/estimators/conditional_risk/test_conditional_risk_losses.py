"""Losses under conditional risk: linear forms by definition, flows, and the generalisation bound."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import structopt as so
from structopt.errors import DeclarationError
from structopt.estimators.conditional_risk import ConditionalRiskMinimizer
from structopt.losses import CostMatrix, Footrule, Hamming, HierarchicalLoss
from structopt.structures.assignment import Assignment
from structopt.structures.exclusive import ExclusiveLabels
from structopt.structures.flow import Flow
from structopt.structures.hierarchy import HierarchicalLabels
from structopt.structures.multiclass import Multiclass

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


# ---- losses --------------------------------------------------------------------------------------


def permutation(n):
    space = so.LabelSpace("permutation")
    y = space.binary("y", (n, n))
    space.subject_to(y.sum(axis=0) == 1, y.sum(axis=1) == 1)
    return so.Model(space, {}, Footrule(n))


MODELS = {
    "hamming, tree": closure(),
    "hamming, DAG": closure(DIAMOND),
    "hierarchical, sibling": closure(loss="hierarchical"),
    "hierarchical, uniform": HierarchicalLabels(
        so.Hierarchy(TREE), "closure", loss=HierarchicalLoss(so.Hierarchy(TREE), "uniform")
    ),
    "hierarchical, forest": HierarchicalLabels(
        so.Hierarchy([(0, 1), (2, 3), (2, 4)]), "closure", loss=HierarchicalLoss(so.Hierarchy([(0, 1), (2, 3), (2, 4)]))
    ),
    "leaf, sets of leaves": HierarchicalLabels(so.Hierarchy(TREE), "leaves"),
    "exclusive": ExclusiveLabels(so.Hierarchy(TREE), [(1, 2), (3, 4)], tighten=False),
    "footrule": permutation(4),
    "cost matrix": Multiclass(4, loss=CostMatrix([[0, 1, 4, 2], [1, 0, 2, 3], [4, 2, 0, 1], [2, 3, 1, 0]])),
}


@pytest.mark.parametrize("name", MODELS)
def test_predictions_have_the_least_risk_of_all_labels(name):
    model = MODELS[name]
    labels = model.space().enumerate()
    rng = np.random.default_rng(3)
    X = rng.normal(size=(25, 3))
    Y = labels[rng.integers(len(labels), size=25)]
    words = [model.decode(z) for z in Y]
    (loss,) = model.block_losses().values()
    losses = np.array([[loss.value(y, truth) for truth in Y] for y in labels])
    for solver in ("auto", "highs"):
        est = ConditionalRiskMinimizer(model, "rbf", 1e-3, solver=solver, gamma=0.5).fit(X, words)
        new = rng.normal(size=(12, 3))
        risks = est.weights(new) @ losses.T
        found = est.minimize_risk(new)
        np.testing.assert_allclose(found.risk, risks.min(axis=1), atol=1e-9)
        predicted = [model.encode(word) for word in est.predict(new)]
        np.testing.assert_array_equal(predicted, found.Z)
        assert (found.bound <= found.risk + 1e-9).all()


def test_footrule_through_assignment_with_a_template():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    Y = np.array([np.argsort(np.argsort(x @ [[1, 0, 2, 1], [0, 1, 1, -1], [1, 1, 0, 0]])) for x in X])
    model = Assignment(loss="footrule")
    est = ConditionalRiskMinimizer(model, lam=1e-3, template=np.zeros((4, 4, 1))).fit(X, Y)
    new = rng.normal(size=(6, 3))
    from itertools import permutations

    every = np.array(list(permutations(range(4))))
    loss = np.abs(every[:, None, :] - Y[None, :, :]).sum(axis=2)
    np.testing.assert_allclose(est.minimize_risk(new).risk, (est.weights(new) @ loss.T).min(axis=1), atol=1e-9)
    assert est.predict(new).shape == (6, 4)


ARCS = [("s", "u"), ("s", "v"), ("u", "v"), ("u", "t"), ("v", "t")]


def flows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    paths = np.array([[1, 0, 0, 1, 0], [0, 1, 0, 0, 1], [1, 0, 1, 0, 1]], dtype=float)
    shares = np.exp(3 * X @ [[1, -1, 0], [0, 1, -1]] + rng.normal(size=(n, 3)))
    return X, shares / shares.sum(axis=1, keepdims=True) @ paths


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=6, deadline=None)
def test_absolute_risk_of_flows_against_the_mixed_integer_program(seed, positive):
    model = Flow(ARCS, {"s": 1, "t": -1})
    _, Y = flows(8, seed)
    rng = np.random.default_rng(seed)
    weights = np.abs(rng.normal(size=8)) if positive else rng.normal(size=8) + 0.3
    from structopt.estimators.conditional_risk.separable import AbsoluteProgram

    program = AbsoluteProgram(model.space().compiled, slice(0, 5), Y, rtol=1e-6, max_programs=2000)
    found = program.minimize(weights)
    _, risk = model.least_absolute_risk(weights, Y)
    at_found = float(weights @ np.abs(found.z - Y).sum(axis=1))
    assert model.space().contains(found.z)
    assert found.value == pytest.approx(at_found, abs=1e-9)
    assert found.bound <= risk + 1e-6
    assert found.value == pytest.approx(risk, rel=1e-5, abs=1e-5)
    if positive:
        assert found.convex


def test_flows_under_both_losses():
    X, Y = flows(60)
    new, _ = flows(10, 1)
    grid = []
    for a in np.linspace(0, 1, 41):
        for b in np.linspace(0, 1 - a, 41):
            grid.append(np.array([a, b, 1 - a - b]) @ [[1, 0, 0, 1, 0], [0, 1, 0, 0, 1], [1, 0, 1, 0, 1]])
    grid = np.array(grid)
    for loss, power in (("absolute", 1), ("squared", 2)):
        model = Flow(ARCS, {"s": 1, "t": -1}, loss=loss)
        est = ConditionalRiskMinimizer(model, "rbf", 1e-3, gamma=1.0).fit(X, Y)
        found = est.minimize_risk(new)
        by_definition = est.weights(new) @ (np.abs(grid[:, None, :] - Y[None]) ** power).sum(axis=2).T
        assert (found.bound <= by_definition.min(axis=1) + 1e-7).all()
        assert (found.risk <= by_definition.min(axis=1) * (1 + 2e-3)).all()
        assert all(model.space().contains(f) for f in est.predict(new))
        assert -est.score(X, Y) == pytest.approx(
            np.mean([model.task_loss.value(f, y) for f, y in zip(est.predict(X), Y, strict=True)])
        )


@pytest.mark.parametrize("intercept", [False, True])
def test_leave_one_out_of_the_squared_loss_is_brute_force(intercept):
    X, Y = flows(12)
    est = ConditionalRiskMinimizer(
        Flow(ARCS, {"s": 1, "t": -1}, loss="squared"), "rbf", 0.05 * 12 / 11, intercept, gamma=2.0
    )  # fmt: skip
    left_out = []
    for i in range(12):
        rest = np.arange(12) != i
        left_out.append(clone(est).fit(X[rest], Y[rest]).losses(X[[i]], Y[[i]])[0])
    assert est.regularization_path(X, Y, [0.05]).loss[0] == pytest.approx(np.mean(left_out), abs=1e-6)


def test_losses_of_several_blocks_are_added():
    space = so.LabelSpace()
    a, b = space.binary("a", 2), space.binary("b", 3)
    space.subject_to(a.sum() <= 1, b[0] <= a[0])
    model = so.Model(space, {}, {"a": Hamming(weights=[1, 2]), "b": Hamming(weights=[3, 1, 1])})
    labels = space.enumerate()
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 3)), labels[rng.integers(len(labels), size=30)]
    est = ConditionalRiskMinimizer(model, "rbf", 1e-3, gamma=0.5).fit(X, Y)
    new = rng.normal(size=(8, 3))
    losses = np.abs(labels[:, None] - Y[None]) @ [1, 2, 3, 1, 1]
    np.testing.assert_allclose(est.minimize_risk(new).risk, (est.weights(new) @ losses.T).min(axis=1), atol=1e-9)


def test_squared_risk_that_is_not_convex_is_refused_with_the_input():
    model = Flow(ARCS, {"s": 1, "t": -1}, loss="squared")
    _, Y = flows(6)
    K = np.eye(6)
    est = ConditionalRiskMinimizer(model, "precomputed", 0.1, intercept=False).fit(K, Y)
    with pytest.raises(DeclarationError, match="input 1 is not convex: its weights sum to -"):
        est.predict(np.array([[1.0, 0, 0, 0, 0, 0], [-1.0, 0, 0, 0, 0, 0]]))


def test_search_that_stops_early_says_so():
    from sklearn.exceptions import ConvergenceWarning

    X, Y = flows(40)
    model = Flow(ARCS, {"s": 1, "t": -1})
    est = ConditionalRiskMinimizer(model, "rbf", 1e-8, gamma=3.0, rtol=0.0, max_programs=1).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="non-convex"):
        found = est.minimize_risk(flows(20, 2)[0])
    assert found.n_nonconvex > 0


def test_absolute_and_squared_losses_of_binary_variables_are_linear():
    from structopt.structures.flow import AbsoluteFlowLoss, SquaredFlowLoss

    space = so.LabelSpace()
    space.binary("y", 3)
    X, Y = np.eye(3), np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]])
    plain = ConditionalRiskMinimizer(so.Model(space, {}, Hamming()), lam=0.1).fit(X, Y).conditional_risk(X)
    for loss in (AbsoluteFlowLoss(np.ones(3)), SquaredFlowLoss()):
        est = ConditionalRiskMinimizer(so.Model(space, {}, loss), lam=0.1).fit(X, Y)
        for a, b in zip(est.conditional_risk(X), plain, strict=True):
            np.testing.assert_allclose(a, b)


def flow_estimator(loss):
    return ConditionalRiskMinimizer(Flow(ARCS, {"s": 1, "t": -1}, loss=loss), "rbf", 0.01).fit(*flows(20))


@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_estimators_of_flows_are_pickled(loss):
    est, X = flow_estimator(loss), flows(9)[0]
    again = pickle.loads(pickle.dumps(est))
    np.testing.assert_allclose(again.predict(X), est.predict(X), atol=1e-6)


def test_losses_that_are_not_linear_here():
    with pytest.raises(DeclarationError, match="linear on trees only"):
        closure(DIAMOND, "hierarchical")
    space = so.LabelSpace("shares")
    y = space.continuous("y", 2, 0, 1)
    space.subject_to(y.sum() == 1)
    shares = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
    with pytest.raises(DeclarationError, match="not linear on block 'y'"):
        ConditionalRiskMinimizer(so.Model(space, {}, Hamming())).fit(np.eye(3), shares)
    with pytest.raises(DeclarationError, match="no task loss"):
        ConditionalRiskMinimizer(so.Model(space, {})).fit(np.eye(3), shares)
    est = flow_estimator("absolute")
    for ask in (est.conditional_risk, lambda X: est.ramp_surrogate(X, X, 1.0)):
        with pytest.raises(DeclarationError, match="linear in the label"):
            ask(flows(3)[0])
    with pytest.raises(DeclarationError, match="GridSearchCV"):
        est.regularization_path(*flows(20), [0.1])


# ---- the bound -----------------------------------------------------------------------------------


def test_ramp_surrogate_by_listing_and_its_properties():
    model = closure(loss="hierarchical")
    X, Y = data(model, m=25)
    labels = model.space().enumerate()
    est = ConditionalRiskMinimizer(model, "rbf", 0.5, intercept=False, gamma=0.5).fit(X, Y)
    coef, const = est.conditional_risk(X)
    risks = coef @ labels.T + const[:, None]
    (loss,) = model.block_losses().values()
    losses = np.array([[loss.value(y, truth) for y in labels] for truth in Y])
    largest = max(loss.value(a, b) for a in labels for b in labels)
    before = None
    for rho in (1e-3, 0.1, 1.0, 10.0):
        ramp = est.ramp_surrogate(X, Y, rho)
        listed = np.minimum((losses + (risks.min(axis=1, keepdims=True) - risks) / rho).max(axis=1), largest)
        np.testing.assert_allclose(ramp, listed, atol=1e-9)
        assert (ramp >= est.losses(X, Y) - 1e-9).all()
        assert before is None or (ramp >= before - 1e-9).all()
        before = ramp
    bound = est.generalization_bound(X, Y, rho=1.0, delta=0.1)
    nu = 1 / 0.5 + (1 / 0.5) ** 1.5
    assert largest == bound.L and bound.kappa == 1.0 and bound.m == 25
    assert bound.value == pytest.approx(
        est.ramp_surrogate(X, Y, 1.0).mean() + 4 * largest * nu / 25 + largest * (8 * nu + 1) * np.sqrt(np.log(10) / 50)
    )
    assert bound.vacuous
    uniform = est.generalization_bound(X, Y, rho=1.0, delta=0.1, largest_rho=8.0)  # the fourth of 8, 4, 2, 1
    least = est.ramp_surrogate(X, Y, 1.0).mean() + 4 * largest * nu / 25
    assert uniform.value == pytest.approx(least + largest * (8 * nu + 1) * np.sqrt(np.log(20 / 0.1) / 50))
    assert uniform.delta == 0.1 and uniform.value > bound.value
    assert est.generalization_bound(X, Y, 1.9, 0.1, largest_rho=8.0) == uniform


def test_the_uniform_bound_is_the_least_of_its_grid():
    from structopt.estimators.conditional_risk.stability import stability_bound, uniform_bound

    def surrogates(rho):
        return np.full(100_000, min(1.0, rho / 64))

    best = uniform_bound(surrogates, 1.0, 1.0, 1.0, None, 64.0, 0.05)
    grid = [uniform_bound(surrogates, 1.0, 1.0, 1.0, 64.0 / 2**k, 64.0, 0.05) for k in range(12)]
    assert best == min(grid, key=float) and best.rho < 64.0
    for k, one in enumerate(grid):
        alone = stability_bound(surrogates(one.rho), 1.0, 1.0, 1.0, one.rho, 0.05 / ((k + 1) * (k + 2)))
        assert one.value == alone.value
    with pytest.raises(DeclarationError, match="at most largest_rho"):
        uniform_bound(surrogates, 1.0, 1.0, 1.0, 65.0, 64.0, 0.05)


@pytest.mark.parametrize("name", MODELS)
def test_largest_loss_is_an_upper_bound_and_tight_here(name):
    from structopt.estimators.conditional_risk.stability import largest_loss

    model = MODELS[name]
    labels = model.space().enumerate()
    (loss,) = model.block_losses().values()
    most = max(loss.value(a, b) for a in labels for b in labels)
    assert most <= largest_loss(model) + 1e-12
    if name != "exclusive":  # of two labels, one may not have both of the nodes that exclude each other
        assert largest_loss(model) == pytest.approx(most)


def test_bound_refuses_what_the_theorem_does_not_cover():
    model = closure()
    X, Y = data(model)
    plain = ConditionalRiskMinimizer(model, "rbf", 0.1, False).fit(X, Y)
    with pytest.raises(DeclarationError, match="training set"):
        plain.generalization_bound(X[:10], Y[:10])
    with pytest.raises(DeclarationError, match="rho"):
        plain.generalization_bound(X, Y, rho=0)
    with pytest.raises(DeclarationError, match="delta"):
        plain.generalization_bound(X, Y, delta=1.5)
    with pytest.raises(DeclarationError, match="delta"):
        plain.generalization_bound(X, Y, delta=1.5, largest_rho=2.0)
    with pytest.raises(DeclarationError, match="largest_rho"):
        plain.generalization_bound(X, Y, rho=None)
    for settings_ in ({"intercept": True}, {"lam": [0.1, 1.0]}, {"method": "nystroem"}, {"joint_kernel": "diffusion"}):
        est = clone(plain).set_params(**settings_)
        if "joint_kernel" in settings_:
            est.fit(X, Y)
        with pytest.raises(DeclarationError, match="does not cover"):
            est.fit(X, Y).generalization_bound(X, Y)
