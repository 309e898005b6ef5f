"""Margin rescaling, slack rescaling, and the families between them (thesis Table 3.2)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.surrogates.base import Surrogate, better_end
from structopt.surrogates.compiled import GENERALIZED, MARGIN, PRODUCT, Form, form

__all__ = ["BetaScaling", "GeneralizedScaling", "Margin", "Product", "Slack"]


class Margin(Surrogate):
    """Margin rescaling, ψ = h + g.

    Examples
    --------
    >>> from structopt.surrogates import Margin
    >>> Margin().value(-0.5, 4.0)
    3.5
    """

    name = "margin"

    def psi(self, h: Any, g: Any) -> Any:
        return h + g

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return 1.0 + 0.0 * h, 1.0 + 0.0 * g

    def compiled_form(self) -> Form | None:
        return form(MARGIN)

    def segment_maximum(self, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float, float]:
        return better_end(self, p, q)


class Slack(Surrogate):
    """Slack rescaling, ψ = (1 + h) g with h = m(y).

    Examples
    --------
    >>> from structopt.surrogates import Slack
    >>> Slack().value(-0.5, 4.0), Slack().gradient(-0.5, 4.0)
    (2.0, (4.0, 0.5))
    """

    name = "slack"
    h_lower = -1.0
    shift: ClassVar[float] = 1.0
    product_shift = 1.0  # the product searches find the largest (1 + h) g on its plane, too

    def psi(self, h: Any, g: Any) -> Any:
        return (h + self.shift) * g

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return g + 0.0 * h, h + self.shift + 0.0 * g

    def compiled_form(self) -> Form | None:
        return form(PRODUCT, self.shift)

    def clipped(self, h: float, g: float) -> float:
        value = (h + self.shift) * g
        return value if value > 0.0 and g > 0.0 else 0.0

    def segment_maximum(self, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float, float]:
        # A parabola in t ; written out, because a search evaluates it many times per query.
        (h, g), dh, dg = p, q[0] - p[0], q[1] - p[1]
        h += self.shift
        bend = dh * dg
        if bend < 0.0:
            t = -(h * dg + g * dh) / (2.0 * bend)
            if 0.0 < t < 1.0:
                best_h, best_g = h + t * dh, g + t * dg
                if best_h > 0.0 and best_g > 0.0:
                    value = best_h * best_g
                    return t, value, self._widened(p, q, t, value)
        return better_end(self, p, q)


class Product(Slack):
    """The product ψ = h g of a plane whose h is already 1 + m(y): slack rescaling as a product.

    What `sarawagi`, `binary`, `bisecting` and `angular` maximise; with it `convex_hull` and `exact` run on the
    same plane.

    Examples
    --------
    >>> from structopt.surrogates import Product
    >>> Product().value(5.0, 3.0)
    15.0
    """

    name = "product"
    h_lower = 0.0
    h_offset = 1.0
    shift = 0.0
    product_shift = 0.0


class GeneralizedScaling(Surrogate):
    """Generalized scaling, ψ = h g^beta + g^alpha.

    Parameters
    ----------
    alpha, beta : float
        ``beta >= 0`` and ``0 <= alpha - beta <= 1``; otherwise ψ is not quasi-concave or not monotone. (The
        range printed in thesis 3.3.1 exchanges the two: docs/mathematics/surrogates.)

    Examples
    --------
    >>> from structopt.surrogates import GeneralizedScaling
    >>> GeneralizedScaling(alpha=1, beta=0.5).value(-0.5, 4.0)
    3.0
    """

    name = "generalized"

    @checked
    def __init__(self, alpha: float = 1.0, beta: float = 0.5) -> None:
        alpha, beta = float(alpha), float(beta)
        if not (beta >= 0.0 and 0.0 <= alpha - beta <= 1.0 and math.isfinite(alpha)):
            raise DeclarationError(
                f"GeneralizedScaling needs beta >= 0 and 0 <= alpha - beta <= 1, got alpha={alpha:g}, beta={beta:g}: "
                "outside that range h*g**beta + g**alpha is not quasi-concave and monotone, so no search is exact."
            )
        self.alpha = alpha
        self.beta = beta

    def psi(self, h: Any, g: Any) -> Any:
        return h * g**self.beta + g**self.alpha

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        a, b = self.alpha, self.beta
        g = np.maximum(g, 1e-300)  # g**(b - 1) at 0 is infinite; a search never evaluates it there
        return g**b + 0.0 * h, (b * h * g ** (b - 1.0) if b else 0.0 * h) + (a * g ** (a - 1.0) if a else 0.0)

    def compiled_form(self) -> Form | None:
        return form(GENERALIZED, self.alpha, self.beta)

    def _parameters(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "beta": self.beta}


class BetaScaling(GeneralizedScaling):
    """Beta scaling, ψ = h g^beta + g: margin rescaling at beta = 0, slack rescaling at beta = 1.

    Parameters
    ----------
    beta : float
        In [0, 1].

    Examples
    --------
    >>> from structopt.surrogates import BetaScaling
    >>> BetaScaling(0.25).value(-0.5, 4.0).__round__(10)
    3.2928932188
    """

    name = "beta"

    @checked
    def __init__(self, beta: float = 0.5) -> None:
        if not 0.0 <= beta <= 1.0:
            raise DeclarationError(
                f"BetaScaling needs 0 <= beta <= 1, got {beta!r}: 0 is margin and 1 is slack rescaling."
            )
        super().__init__(1.0, beta)

    def _parameters(self) -> dict[str, Any]:
        return {"beta": self.beta}
