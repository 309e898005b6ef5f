"""The divided margin of thesis (6.13): the score difference over the norm of the difference of the attributes.

``max over y != y_i of 1 + (score(y) - score(y_i)) / error(y, y_i)``, not below 0, with the normalised error (6.9), that
is with that norm: every subgradient is as long as the features, and the loss at every decision boundary is 1. (The
printed maximum includes y_i, where both norm and difference are 0; as in (6.10) it counts 0 there.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt.structures.hierarchy import HierarchicalLabels
from structopt.surrogates.base import Surrogate

__all__ = ["Divided", "DividedLabels"]


class Divided(Surrogate):
    """``psi(h, g) = 1 + h / g``: convex in the margin, but falling in the error, so that only listing is exact."""

    name = "divided"

    def psi(self, h: Any, g: Any) -> Any:
        return 1.0 + h / g

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return 1.0 / g, -h / g**2

    def inside(self, h: Any, g: Any) -> Any:
        return np.asarray(g) > 0.0

    @property
    def domain(self) -> str:
        return "g > 0"

    def __repr__(self) -> str:
        return "Divided()"


class DividedLabels(HierarchicalLabels):
    """Single leaves that are trained on the divided margin: all of them are listed."""
