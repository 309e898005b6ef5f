"""Leave-one-out errors of conditional risk along values of the regularisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from structopt.errors import DeclarationError
from structopt.estimators.conditional_risk.programs import RiskProgram
from structopt.estimators.conditional_risk.weights import Spectrum
from structopt.space.compiled import FloatArray

__all__ = ["RegularizationPath", "leave_one_out_path", "regularizations"]


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """Leave-one-out errors along values of lam, all from one eigendecomposition.

    Attributes
    ----------
    lams : ndarray
    loss : ndarray
        Mean task loss of each example's prediction from the others.
    """

    lams: FloatArray
    loss: FloatArray

    @property
    def best(self) -> float:
        """The lam of least loss; the largest one among equals."""
        least = np.flatnonzero(self.loss <= self.loss.min() * (1 + 1e-12))
        return float(self.lams[least].max())

    def __repr__(self) -> str:
        return (
            f"<RegularizationPath: {len(self.lams)} values, best lam={self.best:.3g} with loss {self.loss.min():.6g}>"
        )


def leave_one_out_path(
    program: RiskProgram, spectrum: Spectrum, lams: FloatArray, n_jobs: int = 1
) -> RegularizationPath:
    """The task loss of every example's prediction from the others, for each of `lams`."""
    if program.needs_weights:
        raise DeclarationError(
            "The leave-one-out loss has a closed form for losses that are linear or squared; choose lam by "
            "GridSearchCV here."
        )
    loss = np.empty(len(lams))
    for k, lam in enumerate(lams):
        found = program.solve(spectrum.leave_one_out(program.targets, float(lam)), n_jobs)
        loss[k] = np.average(program.losses(found.Z, program.truths), weights=spectrum.sample_weight)
    return RegularizationPath(np.array(lams), loss)


def regularizations(given: Any) -> FloatArray:
    try:
        values = np.atleast_1d(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 1 or not values.size or not (np.isfinite(values).all() and (values >= 0).all()):
        raise DeclarationError(f"lam must be a finite number that is not negative, or several of them; got {given!r}.")
    return values
