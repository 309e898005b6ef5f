"""Small structured problems whose optimum a quadratic program over all labels gives."""

from __future__ import annotations

import json
import os
import signal
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.errors import SolverFailed
from structopt.train.checkpoint import Checkpoint

SURROGATES = {
    "margin": so.surrogates.Margin(),
    "slack": so.surrogates.Slack(),
    "beta": so.surrogates.BetaScaling(0.5),
}


def multiclass_risk(surrogate="margin", n=24, seed=0, loss="zero-one", **options):
    """A noisy problem of four classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (X @ rng.normal(size=(3, 4)) + 0.5 * rng.normal(size=(n, 4))).argmax(axis=1)
    return so.train.StructuredRisk(so.structures.Multiclass(4, loss=loss), X, y, surrogate, rtol=1e-10, **options)


def pairwise_risk(surrogate="margin", n=16, seed=0, **options):
    """Three labels with all pairs: two feature terms, one of them tied."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    Y = (X @ rng.normal(size=(2, 3)) + 0.5 * rng.normal(size=(n, 3)) > 0).astype(int)
    return so.train.StructuredRisk(so.structures.PairwiseMRF(3), X, Y, surrogate, rtol=1e-10, **options)


def walks(x):
    """Walks over three nodes, as long as the input has rows."""
    T, tail, head = x["at"].shape[0], np.array([0, 0, 1, 1, 2]), np.array([1, 2, 0, 1, 2])
    space = so.LabelSpace(f"walks of {T}")
    at, step = space.binary("at", (T, 3)), space.binary("step", (T - 1, 5))
    first = space.binary("first", 3)
    space.subject_to(at[0].sum() == 1, first == at[0])
    for node in range(3):
        space.subject_to(step[:, tail == node].sum(axis=1) == at[:-1, node])
        space.subject_to(step[:, head == node].sum(axis=1) == at[1:, node])
    return space


def length(x):
    return x["at"].shape[0]


def walks_risk(surrogate="margin", sparse=False, n=14, seed=0, **options):
    """Declared walks of different lengths with two tables of features of different widths, and tied weights."""
    rng = np.random.default_rng(seed)
    features = {
        "at": so.features.Table("at"),
        "step": so.features.Shared("step"),
        "first": so.features.Tied(),
    }
    model = so.Model(walks, features, {"at": so.losses.Hamming()}, key=length)
    made = sp.csr_array if sparse else np.asarray
    X = [
        {"at": made(rng.normal(size=(T, 2))), "step": made(rng.normal(size=(5 * (T - 1), 3)))}
        for T in rng.integers(2, 5, n)
    ]
    w = rng.normal(size=3 * 2 + 3 + 3)
    Y = [model.predict(w + 0.7 * rng.normal(size=w.size), x) for x in X]
    return so.train.StructuredRisk(model, X, Y, surrogate, rtol=1e-10, **options)


def equal_features_risk(surrogate="margin", n=8, seed=0, closure=True, tied=False):
    """Labels with the joint features of the true label and a positive loss.

    Closures of a tree whose root has weight 0, or a block that counts in the loss and has no features, or one whose
    variables share a weight, so the features of two labels cancel.
    """
    rng = np.random.default_rng(seed)
    if closure:
        tree = so.Hierarchy([("root", "a"), ("root", "b")])
        model = so.structures.HierarchicalLabels(tree, "closure", alpha=[0.0, 1.0, 1.0])
    else:
        space = so.LabelSpace("two blocks")
        a, b = space.binary("a", 3), space.binary("b", 2)
        space.subject_to(a.sum() == 1, b[0] <= a[0])
        features = {"a": so.features.Linear()} | ({"b": so.features.Tied([0, 0])} if tied else {})
        model = so.Model(space, features, {"a": so.losses.Hamming(), "b": so.losses.Hamming()})
    X = rng.normal(size=(n, 2))
    labels = model.space(X[0]).enumerate()
    Y = [labels[k] for k in rng.integers(len(labels), size=n)]
    return so.train.StructuredRisk(model, X, Y, surrogate, rtol=1e-10)


def unscaled_links_risk(surrogate="slack", n=12, seed=0, solver="auto"):
    """One example of a relaxed program with few weights, whose features differ in size by a factor of 10,000."""
    rng = np.random.default_rng(seed)
    space = so.LabelSpace("links")
    node, edge = space.binary("node", n), space.binary("edge", (n, n))
    space.subject_to(edge.sum(axis=0) <= 1, edge.sum(axis=1) == node)
    features = {name: so.features.Shared(name) for name in ("node", "edge")}
    losses = {name: so.losses.Hamming() for name in features}
    model = so.Model(space, features, losses, integral="relax", solver=solver)
    a, b = rng.uniform(0, 100, (2, n, 2))
    d = np.linalg.norm(a[:, None] - b, axis=2).ravel()
    x = {
        "node": np.column_stack([rng.normal(size=n), np.ones(n)]),
        "edge": np.column_stack([d, d**2, rng.normal(size=n * n), np.ones(n * n)]),
    }
    on = (rng.random(n) < 0.7).astype(float)
    return so.train.StructuredRisk(model, [x], [{"node": on, "edge": np.diag(on)}], surrogate)


def all_labels(model, x):
    if isinstance(model, so.structures.Multiclass):
        return [model.encode(name) for name in model.names]
    if isinstance(model, so.structures.PairwiseMRF):
        return [model.encode(np.array(y)) for y in product([0, 1], repeat=3)]
    return model.space(x).enumerate()


def planes(risk):
    """The planes of all labels of all examples (surrogates affine in h): slopes in w, levels, and whose they are."""
    model = risk.model
    rows, levels, owners = [], [], []
    for i in range(len(risk)):
        x = risk.X[i]
        truth = model.encode(risk.Y[i], x)
        coef, const = model._loss_at(truth, x)
        for z in all_labels(model, x):
            g = float(coef @ z + const)
            slope = float(risk.surrogate.gradient(0.0, g)[0])
            rows.append(slope * (model.joint(x, z) - model.joint(x, truth)))
            levels.append(float(risk.surrogate.value(0.0, g)))
            owners.append(i)
    return np.array(rows), np.array(levels), np.array(owners)


OPTIMA = {}


def optimum(risk, lam):
    """Return the minimum of ``lam/2 ||w||^2 + risk(w)``, by one constraint per example and label; solve it once."""
    key = json.dumps([risk.identity(), lam], sort_keys=True)
    if key not in OPTIMA:
        OPTIMA[key] = _optimum(risk, lam)
    return OPTIMA[key]


def _optimum(risk, lam):
    n = len(risk)
    rows, levels, owners = planes(risk)
    w, xi = cp.Variable(risk.n_features), cp.Variable(n)
    constraints = [np.eye(n)[owners] @ xi >= rows @ w + levels, xi >= 0]
    problem = cp.Problem(cp.Minimize(0.5 * lam * cp.sum_squares(w) + cp.sum(xi) / n), constraints)
    tight = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    return float(problem.solve(solver=cp.CLARABEL, **tight))


def killed_in_the_middle(train, path, after):
    """Run `train(checkpoint, callback)` in a child that ends itself with SIGKILL in its record number `after`."""
    seen = []

    def callback(result):
        seen.append(result)
        if len(seen) == after:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            train(Checkpoint(path, every=0), callback)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the run ended before it could be killed"
    assert os.path.exists(path)


class Helpers:
    """What the trainers' tests share; a fixture, because test folders are not packages."""

    multiclass = staticmethod(multiclass_risk)
    pairwise = staticmethod(pairwise_risk)
    walks = staticmethod(walks_risk)
    equal_features = staticmethod(equal_features_risk)
    unscaled_links = staticmethod(unscaled_links_risk)
    optimum = staticmethod(optimum)
    planes = staticmethod(planes)
    surrogates = SURROGATES

    @staticmethod
    def bounds_hold(train, best):
        """Train with a callback that checks the bounds at every record: lower bound <= optimum <= objective."""
        slack = 1e-9 * max(1.0, abs(best))
        seen = []

        def callback(result):
            assert result.lower_bound <= best + slack
            assert result.objective >= best - slack
            seen.append(result)

        result = train(callback)
        assert seen
        return result

    @staticmethod
    def resumes(train, path, after=4):
        """A run killed with SIGKILL and resumed must end at the very weights of an uninterrupted one."""
        if not hasattr(os, "fork"):
            pytest.skip("needs fork")
        whole = train(None, None)
        killed_in_the_middle(train, path, after)
        resumed = train(path, None)
        assert np.array_equal(resumed.w, whole.w)
        assert resumed.objective == whole.objective and resumed.lower_bound == whole.lower_bound
        assert resumed.passes == whole.passes and len(resumed.history) == len(whole.history)

    @staticmethod
    def interrupted(train):
        """Ctrl-C after the third record returns the best model so far."""
        seen = []

        def callback(result):
            seen.append(result)
            if len(seen) == 3:
                raise KeyboardInterrupt

        result = train(callback)
        assert result.stopped == "interrupted"
        assert np.array_equal(result.w, seen[-1].w)

    @staticmethod
    def fails_in_the_middle(train, monkeypatch, after):
        """A solver that gives up: the example is named and the model so far travels with the error."""
        risk = pairwise_risk(surrogate="slack", search="angular")  # one solver call after the other
        calls = []
        search = so.train.StructuredRisk._search_one

        def failing(self, i, *arguments):
            calls.append(self.examples[i])
            if len(calls) > after:
                raise SolverFailed("the solver lost its mind", status="numerical trouble")
            return search(self, i, *arguments)

        monkeypatch.setattr(so.train.StructuredRisk, "_search_one", failing)
        with pytest.raises(SolverFailed, match="lost its mind") as caught:
            train(risk)
        assert f"example {calls[-1]}:" in str(caught.value)
        assert caught.value.status == "numerical trouble"
        assert caught.value.partial.w.shape == (risk.n_features,)
        assert caught.value.partial.stopped == "failed"


@pytest.fixture(scope="session")
def helpers():
    return Helpers
