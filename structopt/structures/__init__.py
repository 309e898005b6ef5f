"""Ready-made label spaces: one file per family, each with features, losses, a codec and its fastest exact oracle."""

from structopt.structures.hierarchy import HierarchicalLabels
from structopt.structures.mrf import PairwiseMRF
from structopt.structures.multiclass import Multiclass
from structopt.structures.multilabel import MultiLabel

__all__ = ["HierarchicalLabels", "MultiLabel", "Multiclass", "PairwiseMRF"]
