"""The trust-region bundle method (BMRM (6), Schramm and Zowe 1992), with which BMRM compares itself as BT."""

from __future__ import annotations

import math
import os
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from structopt.checks import checked
from structopt.errors import DeclarationError
from structopt.risks.regularizers import Regularizer
from structopt.risks.risk import Risk, check_lam
from structopt.train.checkpoint import Checkpoint, Saved
from structopt.train.monitor import Callback
from structopt.train.proximal import CentredBundle, ProximalModel, check_centred
from structopt.train.result import TrainResult
from structopt.train.run import Limits, run
from structopt.train.warm import WarmStart

__all__ = ["trust_region_bundle"]

Vector = NDArray[np.float64]

# A step is as long as the radius to this share; the radius itself is no more than a guess.
_LENGTH = 0.1
# The share of the promised decrease that the multiplier's term may have where the ball is too large to matter.
_NOTHING = 0.01
# Solves in search of the multiplier of the ball: one or two in most passes.
_SOLVES = 12


@checked
def trust_region_bundle(
    risk: Risk,
    regularizer: Regularizer | None = None,
    *,
    lam: float,
    tol: float = 1e-3,
    radius: float | None = None,
    serious_share: float = 0.1,
    max_passes: float | None = 10_000,
    max_seconds: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    verbose: bool | int = False,
    w0: Vector | None = None,
    warm: WarmStart | None = None,
) -> TrainResult:
    """Minimise ``J(w) = lam * regularizer(w) + risk(w)`` with cuts of J inside a ball around the best point.

    Each pass minimises the maximum of the cuts of J over ``||w - centre|| <= radius``. If J fell there by at least
    `serious_share` of what the cuts promised, the centre moves (a serious step), and the radius doubles where J fell
    by half of it. Otherwise the cut is kept (a null step), and the radius is halved if the cut lies further below J at
    the centre than was promised: it was taken too far away to say anything about J there.

    The lower bound is that of `bmrm`, from the same cuts of the risk (docs/mathematics/training#bundle-methods).

    Parameters
    ----------
    radius : float, optional
        First radius of the ball; by default the step down the first slope that would close the gap if J were linear.
    serious_share : float
        Share of the predicted decrease that makes a step serious, in (0, 1).
    risk, regularizer, lam, tol, max_passes, max_seconds, callback, checkpoint, verbose, w0, warm
        As in `bmrm`. The regulariser must be finite everywhere.

    Returns
    -------
    TrainResult

    Examples
    --------
    >>> import numpy as np
    >>> from structopt.train import Risk, trust_region_bundle
    >>> class Absolute(Risk):
    ...     lower_bound, n_features = 0.0, 1
    ...     def value_and_subgradient(self, w):
    ...         return abs(w[0] - 3.0), np.sign(w - 3.0)
    >>> result = trust_region_bundle(Absolute(), lam=0.5, tol=1e-6)
    >>> result.converged, round(float(result.w[0]), 3)
    (True, 2.0)
    """
    lam = check_lam(lam)
    if radius is not None and not (math.isfinite(radius) and radius > 0):
        raise DeclarationError(f"radius must be positive, got {radius!r}")
    regularizer, start = check_centred(risk, regularizer, serious_share, w0)
    model = _Ball(start, lam, radius, serious_share)
    method = CentredBundle("trust_region_bundle", risk, regularizer, lam, model, {"radius": radius or 0.0})
    return run(method, Limits(tol, max_passes, max_seconds, callback, checkpoint, verbose, warm))


class _Ball(ProximalModel):
    """Cuts of J in a ball: the proximal model whose zeta is the multiplier of ``||w - centre|| <= radius``."""

    _KEPT: ClassVar[tuple[str, ...]] = (*ProximalModel._KEPT, "radius")

    def __init__(self, start: Vector, zeta: float, radius: float | None, serious_share: float) -> None:
        super().__init__(start, zeta, serious_share)
        self.radius = radius or 0.0

    def _begin(self, slope: Vector, gap: float) -> None:
        size = float(np.linalg.norm(slope))
        if not self.radius:
            self.radius = gap / size if size > 0.0 and 0.0 < gap < math.inf else max(size, 1.0) / self.qp.lam

    def _reach_further(self) -> None:
        self.radius *= 2.0

    def _stay_closer(self) -> None:
        if self.height - self.qp.b[-1] > self.promised:
            self.radius *= 0.5

    def _solve(self, tolerance: float) -> None:
        """Find zeta so that the step has the length of the radius, or is shorter and zeta counts for nothing.

        The step is ``-g / zeta`` with a mean g of the slopes that is the longer the larger zeta is, while the step
        becomes shorter: ``zeta <- ||g|| / radius`` approaches the right one from one side.
        """
        qp, idle = self.qp, self.qp.idle.copy()
        for _ in range(_SOLVES):
            super()._solve(tolerance)
            if not self.promised:
                tolerance *= 0.1  # too loose to tell a better point from the centre
                continue
            size = math.sqrt(max(float(qp.alpha @ qp.gram @ qp.alpha), 0.0))
            length = size / qp.lam
            free = length < self.radius and 0.5 * size * length <= _NOTHING * self.promised
            if free or size == 0.0 or abs(length / self.radius - 1.0) <= _LENGTH:
                break
            qp.lam = size / self.radius
        qp.idle[:] = np.where(qp.alpha > 0.0, 0, idle + 1)

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.radius = Saved(state).number("radius", low=0.0)
        if math.isfinite(self.height) and not self.radius:
            raise DeclarationError("radius must be positive")

    def info(self) -> dict[str, Any]:
        return {"radius": self.radius}
