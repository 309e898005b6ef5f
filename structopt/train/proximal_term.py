"""The proximal term of block ascent's rounds: ``kappa/2 ||w - center||^2`` (docs/mathematics/training#proximal-rounds).

Where ``lam n`` is small, or examples share dense features, one example's step turns the weights of all others: blocks
undo each other's steps, and the weights of an early dual point are far worse than the best known. A term that keeps
the next point near the best one damps all steps alike. It never enters the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from structopt.space.compiled import FloatArray
from structopt.train.checkpoint import Saved

__all__ = ["ProximalTerm"]

# The term is right where the model promises about half of the gap by a better point: a smaller one lets the bound catch
# up; a larger one, after so many points that were no better, the points. Where features differ much in size, a label
# found far above the model may change its minimum by nothing: after so many such points a smaller term is tried, too.
_PROMISE, _SMALL_PROMISE, _FAILURES, _MANY_FAILURES = 0.5, 0.1, 3, 10
# A term far below the regulariser is none.
_LEAST = 1e-3
# The model is minimised to this share of what it promises, to half of that after each point that was no better, and to
# no less than this.
_LOOSENESS, _TIGHT = 0.3, 0.01


class ProximalTerm:
    """Weight and centre of the term, and what the model of the cuts promises beside it.

    Parameters
    ----------
    lam : float
        Weight of the regulariser.

    Attributes
    ----------
    kappa : float
        Weight of the term; 0 as long as there is none.
    center : ndarray
        The best point so far.
    height : float
        The objective there.
    promised : float
        How far below it the minimum of the model lies at most, by the dual point.
    """

    _NUMBERS = ("kappa", "height", "promised", "failures")

    def __init__(self, lam: float) -> None:
        self.lam = lam
        self.kappa, self.height, self.promised, self.failures = 0.0, 0.0, 0.0, 0
        self.center: FloatArray = np.zeros(0)

    @property
    def curvature(self) -> float:
        """Of regulariser and term together."""
        return self.lam + self.kappa

    def adapt(self, gap: float, improved: bool, slope: Callable[[], FloatArray]) -> None:
        """Choose kappa after an evaluation: first by the slope there, then by what is missing, points or bound.

        Parameters
        ----------
        gap : float
            Best objective minus best bound.
        improved : bool
            Whether the point evaluated was better than the centre.
        slope : callable
            The subgradient of the objective at that point.
        """
        if not self.kappa:
            # The step against the slope that would close the gap if the objective were linear.
            g = slope()
            self.kappa = float(g @ g) / gap if gap > 0.0 else 0.0
        else:
            self.failures = 0 if improved else self.failures + 1
            if self.promised < _SMALL_PROMISE * gap:
                self.kappa *= 0.25
            elif improved and self.promised < _PROMISE * gap:
                self.kappa *= 0.5
            elif self.failures % _FAILURES == _FAILURES - 1 and self.promised > _PROMISE * gap:
                self.kappa *= 2.0
            elif self.failures % _MANY_FAILURES == _MANY_FAILURES - 1 and self.promised <= _PROMISE * gap:
                self.kappa *= 0.25
        self.kappa = max(self.kappa, _LEAST * self.lam)

    @property
    def enough(self) -> float:
        """The gap at which the model counts as minimised."""
        return max(_LOOSENESS * 0.5**self.failures, _TIGHT) * self.promised

    def move_to(self, w: FloatArray, objective: float) -> None:
        """Take another centre."""
        self.center, self.height = np.array(w), objective

    def shift(self, shape: tuple[int, ...]) -> FloatArray:
        """Return the weights of the dual point 0."""
        return self.kappa / self.curvature * self.center if self.kappa else np.zeros(shape)

    def pull(self, w: FloatArray, low: float) -> None:
        """Turn the weights of a dual point without the term, of the lower bound `low`, into those with it, in place.

        Both minimise ``lam/2 ||w - u||^2``, u being the weights without, one of them plus the term. The minimum is
        ``lam kappa / (lam + kappa) / 2 ||u - center||^2``, by which the model's dual value exceeds `low`.
        """
        if self.kappa:
            share = self.kappa / self.curvature
            step = w - self.center
            self.promised = self.height - low - 0.5 * self.lam * share * float(np.vdot(step, step))
            w -= share * step

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs."""
        return {"term.center": self.center, **{f"term.{name}": getattr(self, name) for name in self._NUMBERS}}

    def restore(self, state: dict[str, Any], shape: tuple[int, ...]) -> None:
        """Undo `state`, for weights of this shape."""
        saved = Saved(state)
        self.kappa = saved.number("term.kappa", low=0.0)
        self.center = saved.array("term.center", shape if self.kappa else None)
        self.height, self.promised = (saved.number(f"term.{name}", finite=False) for name in ("height", "promised"))
        self.failures = saved.whole("term.failures", high=1000)
