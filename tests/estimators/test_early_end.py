"""Every estimator that stops before its tolerance says so: the gap, the reason and the cure."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import structopt as so
from structopt.estimators.linear import _joined
from structopt.train import History, TrainResult
from structopt.train.monitor import Monitor


def test_no_estimator_is_forgotten(cases):
    known = {case.kind.__name__ for case in cases.values()}
    assert known == set(so.estimators.__all__) - {"Persistent", "load"}


def test_stopped_by_passes(case):
    if case.kind is so.estimators.ConditionalRiskMinimizer:
        assert case.fit(case.make()).n_iter_ == 1  # a factorisation: nothing to stop
        return
    with pytest.warns(ConvergenceWarning, match=r"(?s)relative gap of .* above tol=1e-14.*raise max_passes") as told:
        est = case.fit(case.make(tol=1e-14, max_passes=1))
    early = [w for w in told if issubclass(w.category, ConvergenceWarning) and "relative gap" in str(w.message)]
    assert len(early) == 1 and str(early[0].message).startswith(f"{case.kind.__name__} stopped")
    assert early[0].filename.endswith("conftest.py")  # the line that called fit
    assert isinstance(est.n_iter_, int) and est.n_iter_ >= 1
    assert not est.result_.converged


def test_converged_says_nothing(case):
    if case.parameters.get("trainer") == "sgd":
        pytest.skip("stochastic steps do not reach a certified tolerance on so little data")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        est = case.fit(case.make())
    assert est.n_iter_ >= 1


def test_interrupted(case, monkeypatch):
    if case.kind is so.estimators.ConditionalRiskMinimizer:
        pytest.skip("a factorisation: nothing is kept of half of one")
    right, records = Monitor.record, 0

    def record(self, *args, **kwargs):
        nonlocal records
        right(self, *args, **kwargs)
        records += 1
        if records == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Monitor, "record", record)
    with pytest.warns(ConvergenceWarning, match="interrupted by the user; fit again with warm_start=True"):
        est = case.fit(case.make(tol=1e-14))
    assert est.result_.stopped == "interrupted"
    assert np.isfinite(est.coef_).all()


def test_shared_rounds_are_reported(cases):
    case = cases["SharedSVM"]
    with pytest.warns(ConvergenceWarning, match="max_rounds=1 .*raise max_rounds or rounds_tol"):
        case.fit(case.make(max_rounds=1))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_of_several_classes_is_interrupted_if_one_of_them_is(monkeypatch):
    calls = []
    record = Monitor.record

    def one_call(self, *args, **kwargs):
        calls.append(None)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return record(self, *args, **kwargs)

    rng = np.random.default_rng(0)
    monkeypatch.setattr(Monitor, "record", one_call)
    svm = so.LinearSVM(lam=1e-3, tol=0.0, max_passes=3).fit(rng.normal(size=(30, 3)), np.arange(30) % 3)
    assert [part.stopped for part in svm.result_.info["results"]] == ["passes", "interrupted", "passes"]
    assert svm.result_.stopped == "interrupted"


def test_classes_without_a_record_join():
    part = TrainResult(np.zeros(2), np.inf, -np.inf, np.inf, History(), "interrupted")
    joined = _joined([TrainResult.of_weights([1.0, 2.0], 0.5, passes=2.0), part])
    assert joined.stopped == "interrupted" and joined.passes == 1.0 and joined.w.tolist() == [1.0, 2.0, 0.0, 0.0]
