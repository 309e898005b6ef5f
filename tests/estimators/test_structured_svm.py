"""StructuredSVM: trainers, schedules of surrogates, failures that lose nothing."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.errors import DeclarationError, LabelNotInSpace, SolverFailed

# Tests stop early where an optimum is not what they are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def tags():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = (X @ rng.normal(size=(4, 3)) + 0.3 * rng.normal(size=(60, 3)) > 0).astype(int)
    return X, Y


def mrf(**options):
    return so.StructuredSVM(so.structures.PairwiseMRF(3, intercept=True), lam=0.01, **options)


def test_multiclass_score_is_accuracy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    y = np.array(["a", "b", "c"])[(X @ rng.normal(size=(3, 3))).argmax(axis=1)]
    svm = so.StructuredSVM(so.structures.Multiclass(["a", "b", "c"]), lam=1e-3).fit(X, y)
    assert svm.score(X, y) == pytest.approx((svm.predict(X) == y).mean())
    assert svm.decision_function(X).shape == (50, 3)


def test_not_convex_goes_to_sgd(tags):
    X, Y = tags
    assert mrf().fit(X, Y).trainer_ == "block_ascent"
    svm = so.StructuredSVM(so.structures.PairwiseMRF(3), so.surrogates.ProbLoss(), lam=0.05, max_passes=3).fit(X, Y)
    assert svm.trainer_ == "sgd"
    with pytest.raises(DeclarationError, match="convex"):
        so.StructuredSVM(so.structures.PairwiseMRF(3), so.surrogates.ProbLoss(), trainer="block_ascent").fit(X, Y)


def test_plane_of_an_example(tags):
    X, Y = tags
    svm = mrf(surrogate="slack").fit(X, Y)
    plane = svm.predict_plane(X[0], Y[0])
    result = so.search.exact(plane, "slack")
    assert result.upper_bound >= result.value >= 0


class TestBadInput:
    def test_before_training(self, tags):
        X, Y = tags
        wrong = Y.copy()
        wrong[3, 0] = 2
        with pytest.raises(LabelNotInSpace, match="example 3"):
            mrf().fit(X, wrong)
        holes = X.copy()
        holes[7, 1] = np.nan
        with pytest.raises(DeclarationError, match="example 7"):
            mrf().fit(holes, Y)
        with pytest.raises(DeclarationError, match="labels"):
            mrf().fit(X, Y[:-1])
        with pytest.raises(DeclarationError, match="lam"):
            so.StructuredSVM(so.structures.PairwiseMRF(3), lam=0.0).fit(X, Y)
        with pytest.raises(DeclarationError, match="trainer"):
            mrf(trainer="magic").fit(X, Y)
        with pytest.raises(DeclarationError, match="Model"):
            so.StructuredSVM("model").fit(X, Y)

    def test_other_width_at_prediction(self, tags):
        X, Y = tags
        with pytest.raises(DeclarationError, match="features"):
            mrf().fit(X, Y).predict(X[:, :2])

    def test_one_example_and_duplicates(self, tags):
        X, Y = tags
        assert mrf().fit(X[:1], Y[:1]).result_.converged
        assert mrf().fit(np.repeat(X[:1], 5, axis=0), np.repeat(Y[:1], 5, axis=0)).result_.converged
        assert mrf().fit(X, np.ones_like(Y)).predict(X).all()

    def test_a_failing_solver_keeps_the_model(self, tags, monkeypatch):
        X, Y = tags
        svm = mrf(trainer="bmrm", tol=1e-8)
        calls = 0
        right = so.train.StructuredRisk.violations

        def failing(self, w):
            nonlocal calls
            calls += 1
            if calls > 3:
                raise SolverFailed("the solver stopped", "out of memory")
            return right(self, w)

        monkeypatch.setattr(so.train.StructuredRisk, "violations", failing)
        with pytest.raises(SolverFailed) as info:
            svm.fit(X, Y)
        assert info.value.partial is svm and svm.coef_.shape == (3 * 5 + 3,)

    def test_interrupt_keeps_the_best_model(self, tags, monkeypatch):
        X, Y = tags
        calls = 0
        right = so.train.StructuredRisk.violations

        def interrupted(self, w):
            nonlocal calls
            calls += 1
            if calls > 40:
                raise KeyboardInterrupt
            return right(self, w)

        monkeypatch.setattr(so.train.StructuredRisk, "violations", interrupted)
        svm = mrf(tol=1e-10).fit(X, Y)
        assert svm.result_.stopped == "interrupted" and np.isfinite(svm.result_.gap)


# ---- schedules of surrogates ---------------------------------------------------------------------


def schedule_data(n=60):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 5))
    return X, (X @ rng.normal(size=(5, 4)) + rng.normal(size=(n, 4))).argmax(axis=1)


def test_surrogates_are_trained_one_after_the_other():
    X, y = schedule_data()
    model = so.structures.Multiclass(4)
    alone = so.StructuredSVM(model, "slack", lam=0.01).fit(X, y)
    both = so.StructuredSVM(model, ["margin", so.surrogates.Slack()], lam=0.01).fit(X, y)
    margin = so.StructuredSVM(model, lam=0.01).fit(X, y)
    assert both.result_.converged and both.result_.lower_bound <= alone.result_.objective
    assert alone.result_.lower_bound <= both.result_.objective
    ((surrogate, before),) = both.result_.info["stages"]
    assert repr(surrogate) == repr(so.surrogates.Margin()) and np.array_equal(before.w, margin.coef_)
    assert "stages" not in alone.result_.info
    np.testing.assert_allclose(both.predict_plane(X[0], int(y[0])).query(1.0).g, 0.0, atol=4)


def test_a_surrogate_that_is_not_convex_begins_at_the_weights_of_the_margin():
    X, y = schedule_data()
    model = so.structures.Multiclass(4)
    svm = so.StructuredSVM(model, "prob", lam=0.01, n_starts=3).fit(X, y)
    cold = so.StructuredSVM(model, ["prob"], lam=0.01).fit(X, y)
    ((_, margin),) = svm.result_.info["stages"]
    assert "stages" not in cold.result_.info
    assert svm.result_.info["convex"] is False and "no certificate" in repr(svm.result_)
    assert svm.result_.objective == min(svm.result_.info["objectives"]) and len(svm.result_.info["objectives"]) == 3
    risk = so.train.StructuredRisk(model, X, y, "prob")
    assert svm.result_.objective <= risk(margin.w)[0] + 0.005 * margin.w @ margin.w + 1e-9  # no worse than its start


def test_a_warm_start_trains_the_last_surrogate_alone():
    X, y = schedule_data()
    svm = so.StructuredSVM(so.structures.Multiclass(4), ["margin", "slack"], lam=0.01, warm_start=True).fit(X, y)
    first = svm.result_
    again = svm.fit(X, y).result_
    assert "stages" in first.info and "stages" not in again.info and again.passes <= first.passes


@pytest.mark.parametrize(("surrogate", "message"), [([], "empty"), (["margin", "nonsense"], "nonsense"), ([3], "3")])
def test_schedules_that_are_none_are_refused(surrogate, message):
    X, y = schedule_data(12)
    with pytest.raises(so.errors.DeclarationError, match=message):
        so.StructuredSVM(so.structures.Multiclass(4), surrogate).fit(X, y)
    with pytest.raises(so.errors.DeclarationError, match="n_starts"):
        so.StructuredSVM(so.structures.Multiclass(4), n_starts=0).fit(X, y)
