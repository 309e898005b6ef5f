"""Weights of nodes and the shared Frobenius norm: the training-free parts of NHSVM and thesis chapter 6.

`normalization` and `maxmin` set the weights from the hierarchy alone; `shared_alpha` and `shared_frobenius` from
vectors at its nodes or classes. Convex programs are solved to a certified gap.
"""

from structopt.norms.frobenius import SharedNorm, shared_frobenius
from structopt.norms.minimal import MinimalGraph, minimal_graph
from structopt.norms.normalization import maxmin, normalization
from structopt.norms.shared import shared_alpha

__all__ = [
    "MinimalGraph",
    "SharedNorm",
    "maxmin",
    "minimal_graph",
    "normalization",
    "shared_alpha",
    "shared_frobenius",
]
