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

from structopt.torch.hinge import StructuredHinge
from structopt.torch.module import DoubleBackward

__all__ = ["DoubleBackward", "StructuredHinge"]
