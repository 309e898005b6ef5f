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


_TOL = "predictions are compared to 1e-7, and the optimum is certified to tol; see test_sample_weight.py"


def _expected(estimator: Any) -> dict[str, str]:
    return {f"check_sample_weight_equivalence_on_{kind}_data": _TOL for kind in ("dense", "sparse")}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=_expected)
def test_estimator(estimator: Any, check: Any) -> None:
    check(estimator)
