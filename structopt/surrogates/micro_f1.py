"""The micro-F1 surrogate, which has other factors than margin and task loss (thesis 3.3.3)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from structopt.compiled import FloatArray
from structopt.errors import DeclarationError
from structopt.plane import Plane
from structopt.surrogates.base import Affine, Surrogate, better_end

__all__ = ["MicroF1"]


class MicroF1(Surrogate):
    """Micro-F1 surrogate, ψ = -h / g with h = Hamming + margin and g = -(\\|y\\| + \\|y_i\\|) < 0.

    Its contours are rays, so that the hull search is Dinkelbach's method (MATH.md 4).

    Examples
    --------
    >>> from structopt.surrogates import MicroF1
    >>> MicroF1().value(2.0, -4.0), MicroF1().gradient(2.0, -4.0)
    (0.5, (0.25, 0.125))
    """

    name = "micro_f1"
    h_lower = 0.0
    g_lower = -math.inf

    def inside(self, h: Any, g: Any) -> Any:
        return g < 0.0

    @property
    def domain(self) -> str:
        return "g < 0"

    def psi(self, h: Any, g: Any) -> Any:
        return -h / g

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return -1.0 / g + 0.0 * h, h / (g * g)

    def clipped(self, h: float, g: float) -> float:
        # |y| + |y_i| = 0: the loss is defined as 0; with a positive numerator the limit is infinite.
        if g >= 0.0:
            return math.inf if h > 1e-9 else 0.0
        return max(0.0, -h / g)

    def segment_maximum(self, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float, float]:
        return better_end(self, p, q)

    def factors(
        self, score: npt.ArrayLike, loss: Affine, truth: npt.ArrayLike
    ) -> tuple[tuple[FloatArray, float], tuple[FloatArray, float]]:
        r"""h = Hamming + margin, g = -(\|y\| + \|y_i\|).

        `loss` must be the Hamming loss of a 0/1 truth: its coefficients +1 and -1 mark the variables that count.
        """
        coef, const = np.asarray(loss[0], dtype=float), float(loss[1])
        counted = coef != 0.0
        if not np.all(np.abs(coef[counted]) == 1.0):
            raise DeclarationError(
                "MicroF1 needs the Hamming loss (coefficients +1 where the truth is 0 and -1 where it is 1); "
                f"got the coefficient {coef[counted][np.abs(coef[counted]) != 1.0][0]:g}."
            )
        (h_coef, h_const), _ = super().factors(score, loss, truth)
        size = float(np.asarray(truth, dtype=float)[counted].sum())
        return (h_coef + coef, h_const + const), (-counted.astype(float), -size)

    def plane(self, oracle: Any, score: npt.ArrayLike, loss: Affine, truth: npt.ArrayLike, **options: Any) -> Plane:
        h, g = self.factors(score, loss, truth)
        if g[1] == 0.0:
            # With an empty truth the empty label has g = 0, where F1 is not defined (its loss is 0): leave it out.
            options["rows"] = [*options.get("rows", ()), (-g[0], 1.0, math.inf)]
        return Plane(oracle, h, g, truth=truth, **options)
