"""Training: minimise ``lam * regularizer(w) + risk(w)`` to a certified gap."""

from __future__ import annotations

from structopt.train import regularizers
from structopt.train.block_ascent import block_ascent
from structopt.train.bmrm import bmrm
from structopt.train.checkpoint import Checkpoint
from structopt.train.dual import SimplexQP, solve_simplex_qp
from structopt.train.monitor import Monitor
from structopt.train.proximal import proximal_bundle
from structopt.train.result import History, Record, TrainResult
from structopt.train.risk import Cut, LinearRisk, Risk
from structopt.train.structured import StructuredRisk, Violations

__all__ = [
    "Checkpoint",
    "Cut",
    "History",
    "LinearRisk",
    "Monitor",
    "Record",
    "Risk",
    "SimplexQP",
    "StructuredRisk",
    "TrainResult",
    "Violations",
    "block_ascent",
    "bmrm",
    "proximal_bundle",
    "regularizers",
    "solve_simplex_qp",
]
