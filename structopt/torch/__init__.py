"""Scores from a neural network: losses and layers over any label space, for PyTorch (extra ``torch``).

A network gives score tensors, and what is below them is this package's own inference: every loss and every layer works
for each structure of `structopt.structures` and for every declared space. ``import structopt`` does not need PyTorch;
this package does.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "structopt.torch needs PyTorch: pip install 'structopt-learn[torch]'. The how-to page 'Neural scores' says how "
        "to get a build without CUDA."
    ) from error

from structopt.torch.estimator import NeuralStructured
from structopt.torch.fenchel_young import FenchelYoung
from structopt.torch.hinge import StructuredHinge
from structopt.torch.layers import Argmax, Marginals, log_partition, sample, top_k
from structopt.torch.module import DoubleBackward
from structopt.torch.sparsemap import SparseMAP
from structopt.torch.spo import SPOPlus

__all__ = [
    "Argmax",
    "DoubleBackward",
    "FenchelYoung",
    "Marginals",
    "NeuralStructured",
    "SPOPlus",
    "SparseMAP",
    "StructuredHinge",
    "log_partition",
    "sample",
    "top_k",
]
