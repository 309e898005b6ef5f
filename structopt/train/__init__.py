"""Training: minimise ``lam * regularizer(w) + risk(w)`` to a certified gap."""

from __future__ import annotations

from structopt.programs.simplex_qp import SimplexQP, solve_simplex_qp
from structopt.risks import regularizers
from structopt.risks.risk import Cut, LinearRisk, Risk
from structopt.risks.structured import StructuredRisk, Violations
from structopt.train.bcfw import bcfw
from structopt.train.block_ascent import block_ascent
from structopt.train.bmrm import bmrm
from structopt.train.checkpoint import Checkpoint
from structopt.train.coordinate import coordinate_descent
from structopt.train.cutting_plane import n_slack, one_slack
from structopt.train.hierarchical_sgd import hierarchical_sgd
from structopt.train.lbfgs import lbfgs
from structopt.train.monitor import Monitor
from structopt.train.multiclass import multiclass_ascent
from structopt.train.proximal import proximal_bundle
from structopt.train.registry import ProblemSize, Trainer, get, names, register
from structopt.train.result import History, Record, TrainResult
from structopt.train.sgd import sgd
from structopt.train.trust_region import trust_region_bundle
from structopt.train.warm import WarmStart

__all__ = [
    "Checkpoint",
    "Cut",
    "History",
    "LinearRisk",
    "Monitor",
    "ProblemSize",
    "Record",
    "Risk",
    "SimplexQP",
    "StructuredRisk",
    "TrainResult",
    "Trainer",
    "Violations",
    "WarmStart",
    "bcfw",
    "block_ascent",
    "bmrm",
    "coordinate_descent",
    "get",
    "hierarchical_sgd",
    "lbfgs",
    "multiclass_ascent",
    "n_slack",
    "names",
    "one_slack",
    "proximal_bundle",
    "register",
    "regularizers",
    "sgd",
    "solve_simplex_qp",
    "trust_region_bundle",
]
