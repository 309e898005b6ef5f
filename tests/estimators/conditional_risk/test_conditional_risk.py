"""Conditional risk minimisation: the estimate, leave-one-out, scikit-learn's contract and bad input."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace
from structopt.estimators.conditional_risk import ConditionalRiskMinimizer, joint_kernels
from structopt.losses import Hamming, HierarchicalLoss
from structopt.structures.assignment import Assignment
from structopt.structures.exclusive import ExclusiveLabels
from structopt.structures.hierarchy import HierarchicalLabels
from structopt.structures.multiclass import Multiclass
from structopt.structures.multilabel import MultiLabel

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


# ---- the estimate --------------------------------------------------------------------------------


def test_binary_labels_are_regularised_least_squares_classification():
    # ECRM 2.4.1: sign of kernel ridge regression on -1 / +1, with and without intercept.
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(60, 3)), rng.normal(size=(200, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=60) > 0.7, 1, -1)
    for intercept in (False, True):
        est = ConditionalRiskMinimizer(Multiclass([-1, 1]), "rbf", 1e-3, intercept, gamma=0.4).fit(X, y)
        K, V = rbf_kernel(X, X, gamma=0.4), rbf_kernel(new, X, gamma=0.4)
        if intercept:
            system = np.block([[K + 60e-3 * np.eye(60), np.ones((60, 1))], [np.ones((1, 60)), np.zeros((1, 1))]])
            solution = np.linalg.solve(system, np.append(y, 0.0))
            score = V @ solution[:-1] + solution[-1]
        else:
            score = V @ np.linalg.solve(K + 60e-3 * np.eye(60), y)
        clear = np.abs(score) > 1e-9
        assert clear.sum() > 190
        np.testing.assert_array_equal(est.predict(new)[clear], np.sign(score)[clear])
        # R(-1|x) - R(1|x) is that score.
        coef, _ = est.conditional_risk(new)
        np.testing.assert_allclose(coef[:, 0] - coef[:, 1], score, atol=1e-9)


def test_example_of_the_specification():
    X, Y = np.array([[0.0], [1.0], [2.0]]), [[1, 0], [0, 1], [1, 1]]
    for intercept, expected in ((False, [0.46242, 0.48604, -0.06298]), (True, [0.50605, 0.51331, -0.01936])):
        for method in ("cholesky", "eigen"):
            est = ConditionalRiskMinimizer(MultiLabel(2), "rbf", 0.1, intercept, gamma=1.0, method=method).fit(X, Y)
            np.testing.assert_allclose(est.weights([[0.5]])[0], expected, atol=6e-6)


def test_intercept_is_ridge_with_an_unpenalised_intercept():
    rng = np.random.default_rng(1)
    X, new = rng.normal(size=(40, 5)) + 3, rng.normal(size=(10, 5)) + 3
    Y = rng.integers(2, size=(40, 6))
    for method in ("cholesky", "primal", "eigen"):
        est = ConditionalRiskMinimizer(MultiLabel(6), "linear", 0.05, method=method).fit(X, Y)
        coef, const = est.conditional_risk(new)
        ridge = Ridge(alpha=40 * 0.05, solver="cholesky").fit(X, np.column_stack([1 - 2 * Y, Y.sum(axis=1)]))
        np.testing.assert_allclose(np.column_stack([coef, const]), ridge.predict(new), atol=1e-9)
        np.testing.assert_allclose(est.weights(new).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial", "precomputed", "callable"])
def test_kernels_and_inputs_agree(kernel, intercept):
    model = closure()
    X, Y = data(model)
    new = np.random.default_rng(5).normal(size=(7, 4))
    params = {"gamma": 0.3, "coef0": 1.0, "degree": 2}
    if kernel == "precomputed":
        est = ConditionalRiskMinimizer(model, kernel, 0.1, intercept).fit(rbf_kernel(X, gamma=0.3), Y)
        got, name = est.conditional_risk(rbf_kernel(new, X, gamma=0.3)), "rbf"
    elif kernel == "callable":
        est = ConditionalRiskMinimizer(model, polynomial_kernel, 0.1, intercept, kernel_params=params).fit(X, Y)
        got, name = est.conditional_risk(new), "polynomial"
    else:
        est = ConditionalRiskMinimizer(model, kernel, 0.1, intercept, **params).fit(sp.csr_array(X), Y)
        got, name = est.conditional_risk(sp.csr_array(new)), kernel
    plain = ConditionalRiskMinimizer(model, name, 0.1, intercept, method="eigen", **params).fit(X, sp.csr_array(Y))
    for a, b in zip(got, plain.conditional_risk(new), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    # The estimate by definition: weights times losses.
    loss = np.array([[Hamming().value(y, t) for t in Y] for y in model.space().enumerate()])
    coef, const = plain.conditional_risk(new)
    np.testing.assert_allclose(
        coef @ model.space().enumerate().T + const[:, None], plain.weights(new) @ loss.T, atol=1e-9
    )


def test_nystroem_with_all_landmarks_is_exact_and_with_few_is_near():
    model = closure()
    X, Y = data(model, m=50)
    new = np.random.default_rng(7).normal(size=(9, 4))
    for intercept in (False, True):
        exact = ConditionalRiskMinimizer(model, "rbf", 1e-2, intercept, gamma=0.2).fit(X, Y)
        every, some = (
            ConditionalRiskMinimizer(
                model, "rbf", 1e-2, intercept, gamma=0.2, method="nystroem", n_landmarks=n
            ).fit(X, Y)
            for n in (50, 25)
        )  # fmt: skip
        np.testing.assert_allclose(every.conditional_risk(new)[0], exact.conditional_risk(new)[0], atol=1e-7)
        np.testing.assert_allclose(every.weights(new), exact.weights(new), atol=1e-7)
        far = np.abs(some.conditional_risk(new)[0] - exact.conditional_risk(new)[0]).max()
        assert 1e-7 < far < 0.5


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
    B = joint_kernels.neighbours(model.hierarchy)
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


def test_joint_kernels_are_kernels():
    for h in (so.Hierarchy(TREE), so.Hierarchy(DIAMOND), so.Hierarchy([(k, k + 1) for k in range(9)])):
        for B in (joint_kernels.neighbours(h), joint_kernels.diffusion(h), joint_kernels.diffusion(h, 0.0)):
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


def test_exclusions_without_the_parent_are_not_integral_and_still_exact():
    h = so.Hierarchy([("p", "a"), ("p", "b")])
    c = np.array([-1.5, 1.0, 1.0])  # p, a, b: the relaxation gains 1/4 at (1/2, 1/2, 1/2)
    loose = ExclusiveLabels(h, [("a", "b")], tighten=False, solver="highs")
    assert so.Oracle(loose.space(), "highs", integral="relax").maximize(c).value == pytest.approx(0.25)
    assert loose.oracle().maximize(c).value == pytest.approx(0.0)
    assert loose.space().structure.totally_unimodular is not True
    tight = ExclusiveLabels(h, [("a", "b")], solver="highs")
    assert so.Oracle(tight.space(), "highs", integral="relax").maximize(c).value == pytest.approx(0.0)


def test_exclusive_groups_that_make_no_sense():
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


# ---- leave-one-out -------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_leave_one_out_is_brute_force(kernel, intercept):
    model = closure(loss="hierarchical")
    X, Y = data(model, m=9)
    lams = np.array([1e-3, 2.0])
    est = ConditionalRiskMinimizer(model, kernel, 1.0, intercept, gamma=0.5)
    path = est.regularization_path(X, Y, lams)
    spectrum = ConditionalRiskMinimizer(model, kernel, lams, intercept, gamma=0.5).fit(X, Y)
    np.testing.assert_allclose(spectrum.path_.loss, path.loss)
    for lam, loss in zip(lams, path.loss, strict=True):
        left_out = []
        estimates = spectrum.averages_.spectrum().leave_one_out(spectrum.program_.targets, lam)
        for i in range(9):
            rest = np.arange(9) != i
            # The same ridge m lam, from m - 1 examples.
            one = ConditionalRiskMinimizer(model, kernel, lam * 9 / 8, intercept, gamma=0.5).fit(X[rest], Y[rest])
            left_out.append(one.losses(X[[i]], Y[[i]])[0])
            np.testing.assert_allclose(estimates[i, :-1], one.conditional_risk(X[[i]])[0][0], atol=1e-9)
        assert loss == pytest.approx(np.mean(left_out), abs=1e-9)
    assert spectrum.lam_ == path.best and path.loss[lams == path.best] == path.loss.min()


def test_leave_one_out_of_features_is_that_of_the_kernel():
    model = closure()
    X, Y = data(model, m=25)
    lams = [1e-3, 1e-1]
    paths = [
        ConditionalRiskMinimizer(model, method=method).regularization_path(X, Y, lams).loss
        for method in ("primal", "eigen", "cholesky")
    ]
    np.testing.assert_allclose(paths[0], paths[1])
    np.testing.assert_allclose(paths[0], paths[2])


# ---- scikit-learn --------------------------------------------------------------------------------


def test_scikit_learn_contract():
    model = closure()
    X, Y = data(model, m=24)
    est = ConditionalRiskMinimizer(model, "rbf", 0.1, gamma=0.3)
    params = est.get_params()
    assert params["model"] is model and params["lam"] == 0.1
    copy = clone(est)
    assert copy.get_params()["kernel"] == "rbf" and not hasattr(copy, "lam_")
    search = GridSearchCV(est, {"lam": [1e-3, 1e-1], "gamma": [0.1, 1.0]}, cv=3).fit(X, Y)
    assert search.best_score_ <= 0
    assert search.predict(X).shape == (24, 6)
    kernels = GridSearchCV(
        ConditionalRiskMinimizer(model, "precomputed"), {"lam": [1e-3, 1e-1]}, cv=3
    ).fit(rbf_kernel(X), Y)  # fmt: skip
    assert len(kernels.cv_results_["params"]) == 2
    with pytest.raises(NotFittedError):
        est.predict(X)
    assert est.fit(X, Y) is est
    assert est.score(X, Y) == -np.mean(np.abs(est.predict(X) - Y).sum(axis=1))
    again = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(again.predict(X), est.predict(X))


# ---- bad input -----------------------------------------------------------------------------------


def test_singular_kernels():
    model = closure()
    X, Y = data(model)
    for intercept in (False, True):
        repeated = np.concatenate([X, X[:1]])
        est = ConditionalRiskMinimizer(model, "rbf", 0.0, intercept)
        with pytest.raises(DeclarationError, match="singular and lam = 0"):
            est.fit(repeated, np.concatenate([Y, Y[:1]]))
    with pytest.raises(DeclarationError, match="centring makes every kernel matrix singular"):
        ConditionalRiskMinimizer(model, "rbf", 0.0).fit(X, Y)
    with pytest.raises(DeclarationError, match="singular and lam = 0"):
        ConditionalRiskMinimizer(model, "linear", 0.0, method="primal").fit(np.ones((30, 2)), Y)
    with pytest.raises(DeclarationError, match="positive"):
        ConditionalRiskMinimizer(model, lambda A, B: -A @ B.T, 1e-6).fit(X, Y)
    # A regular kernel matrix needs no lam without an intercept: the estimate interpolates.
    exact = ConditionalRiskMinimizer(model, "rbf", 0.0, False, gamma=5.0).fit(X, Y)
    assert exact.score(X, Y) == 0.0


def test_bad_inputs_name_the_culprit():
    model = closure()
    X, Y = data(model)
    fitted = ConditionalRiskMinimizer(model, "rbf", 0.1).fit(X, Y)
    with pytest.raises(ValueError, match=r"3 features.*expecting 4"):
        fitted.predict(X[:, :3])
    with pytest.raises(ValueError, match="NaN"):
        ConditionalRiskMinimizer(model).fit(np.where(X > 2, np.nan, X), Y)
    strict = HierarchicalLabels(so.Hierarchy(TREE), "closure", complete=False)
    wrong = Y.copy()
    wrong[7] = [0, 0, 0, 1, 0, 0]
    with pytest.raises(LabelNotInSpace, match="example 7"):
        ConditionalRiskMinimizer(strict).fit(X, wrong)
    with pytest.raises(DeclarationError, match="30 inputs but 29 labels"):
        ConditionalRiskMinimizer(model).fit(X, Y[:29])
    for lam in (-1.0, np.nan, np.inf, "auto", None, [], [0.1, -0.1], [[0.1]]):
        with pytest.raises(DeclarationError, match="lam must"):
            ConditionalRiskMinimizer(model, lam=lam).fit(X, Y)
    for settings_, told in [
        ({"model": None}, "structopt.Model"),
        ({"kernel": "gaussian"}, "kernel must be"),
        ({"kernel": "precomputed"}, "square"),
        ({"kernel": lambda A, B: np.ones(3)}, "all pairs"),
        ({"method": "lu"}, "method must be"),
        ({"method": "primal", "kernel": "rbf"}, "primal"),
        ({"method": "nystroem", "n_landmarks": 0}, "n_landmarks"),
        ({"method": "nystroem", "n_landmarks": 2.5}, "n_landmarks"),
        ({"kernel": lambda A, B: A @ B.T + (A[:, :1] - 1)}, r"not symmetric: between inputs \d+ and \d+ it is"),
        ({"method": "cholesky", "joint_kernel": "neighbours"}, "eigen"),
    ]:
        with pytest.raises(DeclarationError, match=told):
            ConditionalRiskMinimizer(**{"model": model, **settings_}).fit(X, Y)


def test_inputs_of_different_spaces_are_refused():
    model = Assignment()
    inputs = [np.zeros((2, 2, 1)), np.zeros((3, 3, 1))]
    kernel = lambda A, B: np.eye(len(A), len(B))  # noqa: E731
    with pytest.raises(DeclarationError, match="spaces of these inputs differ"):
        ConditionalRiskMinimizer(model, kernel).fit(inputs, [[0, 1], [0, 1, 2]])
    with pytest.raises(DeclarationError, match="no examples"):
        ConditionalRiskMinimizer(model, kernel).fit([], [])
