"""structopt: declare a label space as a linear or integer program; infer, search and learn with it.

``import structopt as so`` is the usual way in.
"""

from structopt.expressions import Expression, concatenate
from structopt.space import Block, LabelSpace

__version__ = "0.1.0"

__all__ = ["Block", "Expression", "LabelSpace", "concatenate", "__version__"]
