"""Synthetic data sets of the papers."""

from structopt.data.flow import PathChoice, synthetic_flow
from structopt.data.hierarchy import synthetic_hierarchy

__all__ = ["PathChoice", "synthetic_flow", "synthetic_hierarchy"]
