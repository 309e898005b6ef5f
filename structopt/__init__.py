"""structopt: declare a label space as a linear or integer program; infer, search and learn with it.

``import structopt as so`` is the usual way in.
"""

from structopt import errors, features, losses, plot, risks, search, structures, surrogates, testing, train
from structopt.expressions import Expression, concatenate
from structopt.hierarchy import Hierarchy
from structopt.label import Label
from structopt.model import Model
from structopt.oracle import Oracle, shared_oracle
from structopt.plane import Plane, PointPlane
from structopt.space import Block, LabelSpace

__version__ = "0.1.0"

__all__ = [
    "Block",
    "Expression",
    "Label",
    "Hierarchy",
    "LabelSpace",
    "Model",
    "Oracle",
    "Plane",
    "PointPlane",
    "__version__",
    "concatenate",
    "errors",
    "features",
    "losses",
    "plot",
    "risks",
    "search",
    "shared_oracle",
    "structures",
    "surrogates",
    "testing",
    "train",
]
