"""Public conformance suites: check your own parts as the built-in ones are checked."""

from structopt.testing.backend import BACKEND_CHECKS, check_backend
from structopt.testing.model import MODEL_CHECKS, check_model
from structopt.testing.oracle import ORACLE_CHECKS, check_oracle
from structopt.testing.regularizer import REGULARIZER_CHECKS, check_regularizer
from structopt.testing.report import Outcome, Report
from structopt.testing.separation import SEPARATION_CHECKS, check_separation
from structopt.testing.surrogate import check_surrogate

__all__ = [
    "BACKEND_CHECKS",
    "MODEL_CHECKS",
    "REGULARIZER_CHECKS",
    "SEPARATION_CHECKS",
    "ORACLE_CHECKS",
    "Outcome",
    "Report",
    "check_backend",
    "check_model",
    "check_oracle",
    "check_regularizer",
    "check_separation",
    "check_surrogate",
]
