"""Risks of BMRM's appendix A: ``risk(w) -> (value, subgradient)`` for any trainer of `structopt.train`.

=============================  =======================================================================
scalar predictions             `Hinge`, `SquaredHinge`, `Logistic`, `Exponential`, `Novelty`, `LeastSquares`,
                               `Absolute`, `Quantile`, `EpsilonInsensitive`, `Huber`, `Poisson`
one prediction per class       `Multiclass`, `Softmax`, `MultivariateRegression`, `Ontology`
all examples together          `ROCArea`, `Ordinal`, `Preference`, `Ranking`, `FBeta`, `Jaccard`, `BalancedAccuracy`,
                               `PrecisionAt`, `RecallAt`, `BreakEven`, `Contingency`
log-likelihood of structures   `ChainCRF`, `TreeCRF`, `PathSoftmax`, `SpaceCRF`
surrogates of structures       `StructuredRisk`
=============================  =======================================================================
"""

from __future__ import annotations

from structopt.losses.ranking_measures import ERU, MRR, NDCG, PrecisionAtN, RankingMeasure
from structopt.risks.contingency import (
    BalancedAccuracy,
    BreakEven,
    Contingency,
    FBeta,
    Jaccard,
    PrecisionAt,
    RecallAt,
)
from structopt.risks.crf import ChainCRF, PathSoftmax
from structopt.risks.ontology import Ontology
from structopt.risks.ordinal import Ordinal
from structopt.risks.preference import Preference
from structopt.risks.ranking import Ranking
from structopt.risks.risk import Cut, LinearRisk, Risk
from structopt.risks.roc import ROCArea
from structopt.risks.scalar import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    LeastSquares,
    Logistic,
    Novelty,
    Poisson,
    Quantile,
    SquaredHinge,
)
from structopt.risks.space_crf import SpaceCRF, likelihood
from structopt.risks.structured import StructuredRisk, Violations
from structopt.risks.tree_crf import TreeCRF
from structopt.risks.vector import Multiclass, MultivariateRegression, Softmax

__all__ = [
    "Hinge",
    "SquaredHinge",
    "Logistic",
    "Exponential",
    "Novelty",
    "LeastSquares",
    "Absolute",
    "Quantile",
    "EpsilonInsensitive",
    "Huber",
    "Poisson",
    "Multiclass",
    "Softmax",
    "MultivariateRegression",
    "Ontology",
    "ROCArea",
    "Ordinal",
    "Preference",
    "Ranking",
    "RankingMeasure",
    "NDCG",
    "MRR",
    "PrecisionAtN",
    "ERU",
    "FBeta",
    "Jaccard",
    "BalancedAccuracy",
    "PrecisionAt",
    "RecallAt",
    "BreakEven",
    "Contingency",
    "ChainCRF",
    "PathSoftmax",
    "SpaceCRF",
    "likelihood",
    "TreeCRF",
    "Cut",
    "LinearRisk",
    "Risk",
    "StructuredRisk",
    "Violations",
]
