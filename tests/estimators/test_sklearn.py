"""scikit-learn's own laws of estimators."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from structopt.estimators import AUCMaximizer, FBetaSVM, LinearSVM, OrdinalRegressor, QuantileRegressor, RankSVM

ESTIMATORS = [
    LinearSVM(),
    LinearSVM(lam=1.0, trainer="coordinate", loss="squared_hinge"),
    LinearSVM(multi_class="crammer_singer"),
    AUCMaximizer(),
    FBetaSVM(),
    RankSVM(),
    QuantileRegressor(),
    OrdinalRegressor(),
]


@parametrize_with_checks(ESTIMATORS)
def test_estimator(estimator: Any, check: Any) -> None:
    check(estimator)
