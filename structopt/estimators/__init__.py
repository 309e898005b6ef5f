"""scikit-learn estimators: fit, predict and score with a certificate in ``result_``; saved without pickle."""

from __future__ import annotations

from structopt.estimators.conditional_risk import ConditionalRiskMinimizer
from structopt.estimators.crf import CRF
from structopt.estimators.fbeta import FBetaSVM
from structopt.estimators.hierarchical import HierarchicalSVM
from structopt.estimators.linear import LinearSVM
from structopt.estimators.persistence import Persistent, load
from structopt.estimators.ranking import AUCMaximizer, RankSVM
from structopt.estimators.regression import OrdinalRegressor, QuantileRegressor
from structopt.estimators.shared import SharedSVM
from structopt.estimators.structured import StructuredSVM

__all__ = [
    "AUCMaximizer",
    "CRF",
    "ConditionalRiskMinimizer",
    "FBetaSVM",
    "HierarchicalSVM",
    "LinearSVM",
    "OrdinalRegressor",
    "Persistent",
    "QuantileRegressor",
    "RankSVM",
    "SharedSVM",
    "StructuredSVM",
    "load",
]
