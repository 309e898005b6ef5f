"""Public conformance suites: check your own parts as the built-in ones are checked."""

from structopt.testing.backend import BACKEND_CHECKS, check_backend
from structopt.testing.loss import LOSS_CHECKS, check_loss
from structopt.testing.model import MODEL_CHECKS, check_model
from structopt.testing.oracle import ORACLE_CHECKS, check_oracle
from structopt.testing.regularizer import REGULARIZER_CHECKS, check_regularizer
from structopt.testing.report import Outcome, Report
from structopt.testing.risk import RISK_CHECKS, check_risk
from structopt.testing.separation import SEPARATION_CHECKS, check_separation
from structopt.testing.surrogate import check_surrogate
from structopt.testing.trainer import TRAINER_CHECKS, TRAINER_PROBLEMS, check_trainer

__all__ = [
    "BACKEND_CHECKS",
    "LOSS_CHECKS",
    "MODEL_CHECKS",
    "ORACLE_CHECKS",
    "REGULARIZER_CHECKS",
    "RISK_CHECKS",
    "SEPARATION_CHECKS",
    "TRAINER_CHECKS",
    "TRAINER_PROBLEMS",
    "Outcome",
    "Report",
    "check_backend",
    "check_loss",
    "check_model",
    "check_oracle",
    "check_regularizer",
    "check_risk",
    "check_separation",
    "check_surrogate",
    "check_trainer",
]
