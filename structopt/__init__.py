"""structopt: declare a label space as a linear or integer program; infer, search and learn with it.

``import structopt as so`` is the usual way in.
"""

from structopt import errors, features, losses, structures
from structopt.expressions import Expression, concatenate
from structopt.label import Label
from structopt.model import Model
from structopt.oracle import Oracle, shared_oracle
from structopt.space import Block, LabelSpace

__version__ = "0.1.0"

__all__ = [
    "Block",
    "Expression",
    "Label",
    "LabelSpace",
    "Model",
    "Oracle",
    "__version__",
    "concatenate",
    "errors",
    "features",
    "losses",
    "shared_oracle",
    "structures",
]
