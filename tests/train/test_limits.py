"""Limits of time hold inside a pass, early stops return the best point seen, and edges end in an answer or an error."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError, TimeLimitReached
from structopt.risks.regularizers import L1, L2
from structopt.train import StructuredRisk
from structopt.train.monitor import Monitor, OutOfTime

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

COST = np.array([3.0, 2.0, 2.0, 1.0, 4.0])


def budget():
    """The README's block: tags on a budget."""
    space = so.LabelSpace()
    tag = space.binary("tag", 5)
    space.subject_to(COST @ tag <= 6)
    space.subject_to(tag[0] + tag[1] <= 1)
    model = so.Model(space, features={"tag": so.features.Linear()}, loss=so.losses.Hamming())
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(80, 4)), rng.normal(size=(5, 4))
    return model, X, [model.predict(W.ravel(), x) for x in X]


def test_auto_takes_few_passes_where_they_are_expensive():
    """139 passes in version 0.1.0, where n_slack took 10."""
    model, X, Y = budget()
    svm = so.StructuredSVM(model, "slack", lam=1e-3).fit(X, Y)
    assert svm.result_.converged and svm.result_.passes <= 60


@pytest.mark.parametrize("passes", [3, 5, 8])
def test_an_early_stop_returns_a_better_point_than_zero(passes):
    """Block ascent returned w = 0 for the first ten passes."""
    model, X, Y = budget()
    risk = StructuredRisk(model, X, Y, "slack")
    result = so.train.block_ascent(risk, lam=1e-3, max_passes=passes)
    assert result.w.any() and result.objective < 0.9 * risk(np.zeros(risk.n_features))[0]


class Clock:
    """Time that passes with every oracle call, and only with these."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr("structopt.train.monitor.time.perf_counter", lambda: self.now)
        violations = StructuredRisk.violations_of

        def ticking(risk, tables):
            found = violations(risk, tables)
            self.now += len(risk)
            return found

        monkeypatch.setattr(StructuredRisk, "violations_of", ticking)


@pytest.mark.parametrize("trainer", ["block_ascent", "n_slack", "one_slack", "bcfw", "sgd"])
@pytest.mark.parametrize("seconds", [90, 250, 800])
def test_seconds_hold_inside_a_pass(trainer, seconds, monkeypatch):
    """A pass of 80 seconds, and its certificate, fit into the limit up to one group of examples."""
    model, X, Y = budget()
    risk = StructuredRisk(model, X, Y)
    clock = Clock(monkeypatch)
    try:
        result = getattr(so.train, trainer)(risk, lam=1e-3, tol=0.0, max_passes=1000, max_seconds=seconds)
    except TimeLimitReached as error:
        assert seconds < 160
        result = error.partial
    else:
        assert np.isfinite(result.objective)
    assert result.stopped == "time" and clock.now <= seconds + 10


@pytest.mark.parametrize("trainer", ["block_ascent", "n_slack", "one_slack"])
def test_time_limit_before_the_first_objective_raises(trainer, monkeypatch):
    model, X, Y = budget()
    risk = StructuredRisk(model, X, Y)
    Clock(monkeypatch)
    with pytest.raises(TimeLimitReached, match="max_seconds=30 ended before") as caught:
        getattr(so.train, trainer)(risk, lam=1e-3, max_seconds=30)
    assert caught.value.partial.stopped == "time"
    assert caught.value.partial.w.shape == (risk.n_features,)


def test_the_clock_of_a_monitor(monkeypatch):
    monitor = Monitor("t", max_seconds=1e-9)
    monitor.check_time()  # nothing evaluated yet: a second's grace
    monitor.offer(np.zeros(1), 1.0)
    with pytest.raises(OutOfTime):
        monitor.check_time()


@pytest.mark.parametrize("trainer", ["block_ascent", "n_slack", "one_slack", "bcfw", "sgd"])
def test_features_whose_squares_overflow_are_refused(trainer):
    X = 1e300 * np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    for model, Y in ((so.structures.Multiclass(3), [0, 1, 2]), (so.structures.MultiLabel(2), [[0, 1], [1, 0], [1, 1]])):
        with pytest.raises(DeclarationError, match="Scale the features"):
            so.StructuredSVM(model, trainer=trainer).fit(X, Y)


def test_shared_svm_refuses_them_too():
    h = so.Hierarchy([("root", "a"), ("root", "b")])
    with pytest.raises(DeclarationError, match="Scale the features"):
        so.SharedSVM(h).fit(np.array([[1e300], [-1e300]]), ["a", "b"])


@pytest.mark.parametrize("lam", [1e-6, 1e300])
@pytest.mark.parametrize("X", [np.zeros((5, 2)), np.ones((5, 2)), np.arange(10.0).reshape(5, 2)], ids=["0", "1", "x"])
def test_thresholds_of_ordinal_regression_are_finite(X, lam):
    for y in ([0, 0, 1, 7, 9], [9, 7, 1, 0, 0], [0, 9, 9, 9, 9]):
        ordinal = so.OrdinalRegressor(lam=lam, max_passes=200).fit(X, y)
        assert np.isfinite(ordinal.thresholds_).all() and (np.diff(ordinal.thresholds_) >= 0).all()
        assert set(ordinal.predict(X)) <= set(y)


def test_the_shared_norm_where_class_vectors_are_zero():
    """94 of 300 tiny hierarchies ended in SolverFailed: the bound compared a gain of 0 with a price of 0."""
    h = so.Hierarchy([("r", "a"), ("r", "b")])
    assert so.norms.shared_frobenius([[1.0], [0.0]], h) == pytest.approx(1.0, rel=1e-7)
    for seed in range(15):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 7))
        h = so.Hierarchy([(f"n{rng.integers(0, k)}", f"n{k}") for k in range(1, n)])
        U = rng.normal(size=(h.leaf_index.size, 2)) * (rng.random((h.leaf_index.size, 1)) < 0.6)
        found = so.norms.shared_frobenius(U, h, certificate=True)
        assert found.lower_bound <= found.value <= np.linalg.norm(U) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["block_ascent", "bcfw", "sgd", "one_slack", "n_slack"])
def test_trainers_of_the_squared_norm_take_no_other(helpers, name):
    risk, train = helpers.multiclass(n=8), getattr(so.train, name)
    given, silent = train(risk, L2(), lam=0.1, max_passes=3), train(risk, lam=0.1, max_passes=3)
    assert np.array_equal(given.w, silent.w)
    with pytest.raises(DeclarationError, match=r"cannot minimise L1\(\); use structopt.train.bmrm"):
        train(risk, L1(), lam=0.1)
