"""Surrogates that are smooth in the margin: log loss and ProbLoss (thesis Table 3.2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.surrogates.base import Surrogate
from structopt.surrogates.compiled import LOG, PROB, PROB_CONVEX, Form, form

__all__ = ["LogLoss", "ProbLoss"]


class LogLoss(Surrogate):
    """Loss scaled log loss, ψ = g log(1 + e^h).

    At h = 0 it is 0.693 g, not a bound on the task loss; ``bound=True`` divides by log 2, which makes it one.

    Parameters
    ----------
    bound : bool
        Whether to take the upper bound that is linear in g.

    Examples
    --------
    >>> from structopt.surrogates import LogLoss
    >>> round(LogLoss().value(-0.5, 4.0), 10), round(LogLoss(bound=True).value(0.0, 3.0), 10)
    (1.8963079367, 3.0)
    """

    name = "log"

    @checked
    def __init__(self, bound: bool = False) -> None:
        self.bound = bool(bound)
        self._scale = 1.0 / math.log(2.0) if bound else 1.0

    def psi(self, h: Any, g: Any) -> Any:
        return self._scale * g * np.logaddexp(0.0, h)

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return self._scale * g * expit(h), self._scale * np.logaddexp(0.0, h) + 0.0 * g

    def compiled_form(self) -> Form | None:
        return form(LOG, self._scale)

    def _parameters(self) -> dict[str, Any]:
        return {"bound": self.bound}


class ProbLoss(Surrogate):
    r"""ProbLoss, ψ = 2 g N(z) with :math:`z = h \sqrt{\pi / (2 g)} / s` and N the normal distribution function.

    The risk under Gaussian noise of every micro-label (thesis 3.3.2); its slope in h is at most sqrt(g) / s.

    Parameters
    ----------
    convex : bool
        For h > 0 go on linearly, ψ = g + sqrt(g) h / s, which makes the trained objective convex.
    noise : float
        The scale s of the noise: a micro-label has variance :math:`2 s^2 / \pi`. With 1 the slope at h = 0, g = 1 is
        1, as that of the hinge loss; the smaller s, the closer ψ is to a step at margin 0.

    Examples
    --------
    >>> from structopt.surrogates import ProbLoss
    >>> round(ProbLoss().value(-0.5, 4.0), 10), ProbLoss(convex=True).value(0.5, 4.0)
    (3.0161242941, 5.0)
    >>> ProbLoss(convex=True, noise=0.5).value(0.5, 4.0)
    6.0
    """

    name = "prob"

    @checked
    def __init__(self, convex: bool = False, noise: float = 1.0) -> None:
        if not (0.0 < noise < math.inf):
            raise DeclarationError(f"noise must be positive and finite, got {noise}.")
        self.convex = bool(convex)
        self.noise = float(noise)
        self.convex_in_h = self.convex

    def psi(self, h: Any, g: Any) -> Any:
        h, root = h / self.noise, np.sqrt(g)
        # At g = 0 the loss is 0 whatever the margin; the floor keeps 0/0 away.
        values = 2.0 * g * ndtr(h * math.sqrt(math.pi / 2.0) / np.maximum(root, 1e-150))
        if not self.convex:
            return values
        return np.where(np.asarray(h) > 0.0, np.where(root > 0.0, g + root * h, 0.0), values)[()]

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        h, root = h / self.noise, np.maximum(np.sqrt(g), 1e-150)
        z = np.clip(h * math.sqrt(math.pi / 2.0) / root, -1e8, 1e8)  # the square of 1e8 is finite
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        # d/dh 2 g N(z) = sqrt(2 pi g) phi(z) = sqrt(g) exp(-pi h^2 / (4 g))
        psi_h = root * math.sqrt(2.0 * math.pi) * density / self.noise
        psi_g = 2.0 * ndtr(z) - z * density
        if not self.convex:
            return psi_h, psi_g
        right = np.asarray(h) > 0.0
        return np.where(right, root / self.noise, psi_h)[()], np.where(right, 1.0 + 0.5 * h / root, psi_g)[()]

    def direction(self, h: float, g: float) -> float:
        # Far to the left both derivatives underflow; psi_g / psi_h -> -z / sqrt(2 pi g) * (1 + ...) stays finite.
        psi_h, psi_g = self.psi_gradient(h, g)
        if psi_h > 0.0:
            return max(0.0, float(psi_g) / float(psi_h))
        return math.inf if h > 0.0 else -0.5 * h / g

    def compiled_form(self) -> Form | None:
        return form(PROB_CONVEX if self.convex else PROB, 1.0 / self.noise)

    def _parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {"convex": self.convex}
        return parameters if self.noise == 1.0 else {**parameters, "noise": self.noise}
