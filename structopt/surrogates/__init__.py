r"""Bi-criteria surrogates :math:`\psi(h, g)`: the functions that a search maximises over the plane.

A label y is the point (h(y), g(y)); unless a surrogate says otherwise h is the margin error
:math:`m(y) = f(y) - f(y_i)` and g the task loss :math:`L(y, y_i)`. On :math:`K_0 = \{\psi \ge 0\}` every
surrogate here does not decrease in h or in g and is quasi-concave, which is all that the searches use
(thesis 3.3).
"""

from structopt.surrogates.base import Surrogate
from structopt.surrogates.micro_f1 import MicroF1
from structopt.surrogates.registry import from_functions, get, names, register
from structopt.surrogates.rescaling import BetaScaling, GeneralizedScaling, Margin, Product, Slack
from structopt.surrogates.smooth import LogLoss, ProbLoss

__all__ = [
    "BetaScaling",
    "GeneralizedScaling",
    "LogLoss",
    "Margin",
    "MicroF1",
    "ProbLoss",
    "Product",
    "Slack",
    "Surrogate",
    "from_functions",
    "get",
    "names",
    "register",
]
