"""Conditional risk minimisation (ECRM): the estimator, and the programs and weights that it is made of."""

from structopt.estimators.conditional_risk.estimator import ConditionalRiskMinimizer
from structopt.estimators.conditional_risk.path import RegularizationPath

__all__ = ["ConditionalRiskMinimizer", "RegularizationPath"]
