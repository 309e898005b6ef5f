"""Ready-made label spaces: one file per family, each with features, losses, a codec and its fastest exact algorithm."""

from structopt.structures.arborescence import Arborescence
from structopt.structures.assignment import Assignment
from structopt.structures.chain import Chain, bio_rules
from structopt.structures.exclusive import ExclusiveLabels
from structopt.structures.flow import Flow
from structopt.structures.hierarchy import HierarchicalLabels
from structopt.structures.labelled_arborescence import LabelledArborescence
from structopt.structures.matching import Matching
from structopt.structures.mrf import PairwiseMRF
from structopt.structures.multiclass import Multiclass
from structopt.structures.multilabel import MultiLabel
from structopt.structures.ranking import Ranking
from structopt.structures.segmentation import Segmentation, bio_of_segments, segments_of_bio
from structopt.structures.subset import Subset
from structopt.structures.tour import Tour

__all__ = [
    "Arborescence",
    "Assignment",
    "Chain",
    "ExclusiveLabels",
    "Flow",
    "HierarchicalLabels",
    "LabelledArborescence",
    "Matching",
    "MultiLabel",
    "Multiclass",
    "PairwiseMRF",
    "Ranking",
    "Segmentation",
    "Subset",
    "Tour",
    "bio_of_segments",
    "bio_rules",
    "segments_of_bio",
]
