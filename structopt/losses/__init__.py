"""Task losses that are linear in the label: ``loss(y, truth) = coef . y + const`` for ground truth and label ``y``.

Losses act on one block of 0/1 variables, flattened. Linearity is what lets one declaration serve loss-augmented
inference, the λ-oracle and conditional risk.
"""

from structopt.losses.base import TaskLoss
from structopt.losses.hierarchical import HierarchicalLoss, LeafHamming, Normalized
from structopt.losses.permutations import Footrule
from structopt.losses.thermometer import thermometer
from structopt.losses.variables import CostMatrix, Hamming, ZeroOne

__all__ = [
    "CostMatrix",
    "Footrule",
    "Hamming",
    "HierarchicalLoss",
    "LeafHamming",
    "Normalized",
    "TaskLoss",
    "ZeroOne",
    "thermometer",
]
