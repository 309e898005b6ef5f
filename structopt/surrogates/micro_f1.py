"""The micro-F1 surrogate, which has other factors than margin and task loss (thesis 3.3.3)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.errors import DeclarationError
from structopt.plane import Plane
from structopt.space.compiled import FloatArray
from structopt.surrogates.base import Affine, Surrogate, better_end
from structopt.surrogates.compiled import RATIO, ROUNDED, WIDENED, Form, form

__all__ = ["MicroF1"]


class MicroF1(Surrogate):
    r"""Micro-F1 surrogate, ψ = -h / g with h = H + margin and g = -(\|y\| + \|y_i\|) < 0.

    H counts the variables that only one of label and ground truth has (false positives and false negatives), \|y\|
    those that are on, so that ψ at margin 0 is H / (\|y\| + \|y_i\|) = 1 - F1. The variables are those that the task
    loss counts, each of them: in a chain, a matching or a tree a wrong position is two wrong variables, one that is on
    and one that is missing, \|y\| is the number of positions, and 1 - F1 is the share of wrong ones.

    Its contours are rays, so that the hull search is Dinkelbach's method.

    Examples
    --------
    >>> from structopt.surrogates import MicroF1
    >>> MicroF1().value(2.0, -4.0), MicroF1().gradient(2.0, -4.0)
    (0.5, (0.25, 0.125))
    """

    name = "micro_f1"
    h_lower = 0.0
    g_lower = -math.inf
    counts = True

    def inside(self, h: Any, g: Any) -> Any:
        return g < 0.0

    @property
    def domain(self) -> str:
        return "g < 0"

    def psi(self, h: Any, g: Any) -> Any:
        return -h / g

    def psi_gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        return -1.0 / g + 0.0 * h, h / (g * g)

    def compiled_form(self) -> Form | None:
        return form(RATIO, g_lower=-math.inf)

    def clipped(self, h: float, g: float) -> float:
        # |y| + |y_i| = 0: the loss is defined as 0; with a positive numerator the limit is infinite.
        if g >= 0.0:
            return math.inf if h > 1e-9 else 0.0
        return max(0.0, -h / g)

    def segment_maximum(self, p: tuple[float, float], q: tuple[float, float]) -> tuple[float, float, float]:
        return better_end(self, p, q)

    def _widened(self, p: tuple[float, float], q: tuple[float, float], t: float, upper: float) -> float:
        rounding = ROUNDED * (abs(p[1]) + abs(q[1]))
        if p[1] + t * (q[1] - p[1]) + rounding >= 0.0:  # the quotient is infinite there
            return upper * WIDENED
        return super()._widened(p, q, t, upper)

    def factors(
        self, score: npt.ArrayLike, loss: Affine, truth: npt.ArrayLike, counted: Any = None
    ) -> tuple[tuple[FloatArray, float], tuple[FloatArray, float]]:
        r"""h = H + margin, g = -(\|y\| + \|y_i\|).

        Parameters
        ----------
        score, loss, truth
            As in `plane`.
        counted : array, shape (n_variables,), or matrix, shape (n_counts, n_variables), optional
            A weight for each variable, 0 for those that do not count; ``model.counted(x)`` has it. Or a matrix whose
            products with a label are the 0/1 numbers that count, such as the states of positions by segments. Without
            it `loss` must be the Hamming loss over all variables: its coefficients alone do not determine which ones
            count.
        """
        (h_coef, h_const), _ = super().factors(score, loss, truth)
        z = np.asarray(truth, dtype=float)
        if counted is None:
            every = np.ones(z.shape)
            self._check_hamming(loss, z, every)
            counted = every
        if sp.issparse(counted) or np.ndim(counted) == 2:
            errors, every, total = self._counts_of_rows(counted, z)
            return (h_coef + errors, h_const + total), (-every, -total)
        weights = np.asarray(counted, dtype=float)
        if weights.shape != z.shape or not (weights >= 0.0).all() or not np.isfinite(weights).all():
            raise DeclarationError(
                f"counted has a weight of at least 0 for each of the {z.size} variables; got shape {weights.shape}."
            )
        if not weights.any():
            raise DeclarationError("counted is 0 everywhere: micro-F1 has nothing to count.")
        on = weights > 0.0
        if not np.isin(z[on], (0.0, 1.0)).all():
            bad = z[on][~np.isin(z[on], (0.0, 1.0))][0]
            raise DeclarationError(f"Micro-F1 counts 0/1 variables; one of the ground truth's is {bad:g}.")
        size = float(weights @ z)
        return (h_coef + weights * (1.0 - 2.0 * z), h_const + size), (-weights, -size)

    @staticmethod
    def _counts_of_rows(counted: Any, z: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Coefficients of the errors and of what is on, and how much is on in the ground truth."""
        rows = sp.csr_array(counted)
        if rows.shape[1] != z.size or not np.isfinite(rows.data).all():
            raise DeclarationError(
                f"counted has a column of finite numbers for each of the {z.size} variables; got shape {rows.shape}."
            )
        at = np.asarray(rows @ z)
        if not np.isin(at, (0.0, 1.0)).all():
            bad = at[~np.isin(at, (0.0, 1.0))][0]
            raise DeclarationError(f"Micro-F1 counts 0/1 numbers; one of the ground truth's is {bad:g}.")
        on = np.asarray(rows.sum(axis=0), dtype=float).ravel()
        return on - 2.0 * np.asarray(rows.T @ at), on, float(at.sum())

    def plane(
        self,
        oracle: Any,
        score: npt.ArrayLike,
        loss: Affine,
        truth: npt.ArrayLike,
        *,
        counted: Any = None,
        **options: Any,
    ) -> Plane:
        """The plane of this surrogate; see `Surrogate.plane`.

        Parameters
        ----------
        counted : array or matrix, optional
            As in `factors`. By default the 0/1 variables of the space, and `loss` must be the Hamming loss over them.
        """
        if counted is None:
            space = oracle.space
            binary: FloatArray = (space.integrality & (space.lower >= 0.0) & (space.upper <= 1.0)).astype(float)
            self._check_hamming(loss, np.asarray(truth, dtype=float), binary)
            counted = binary
        h, g = self.factors(score, loss, truth, counted)
        if g[1] == 0.0:
            # With an empty ground truth the empty label has g = 0, where F1 is not defined (its loss is 0): leave it
            # out.
            least = float(-g[0][g[0] < 0.0].max())
            options["rows"] = [*options.get("rows", ()), (-g[0], least, math.inf)]
        return Plane(oracle, h, g, truth=truth, **options)

    @staticmethod
    def _check_hamming(loss: Affine, truth: FloatArray, counted: FloatArray) -> None:
        coef, const = np.asarray(loss[0], dtype=float), float(loss[1])
        if not np.array_equal(coef, counted * (1.0 - 2.0 * truth)) or const != float(counted @ truth):
            raise DeclarationError(
                "MicroF1 counts 0/1 variables, and this loss does not determine which: it is not the Hamming loss over "
                "all of them (coefficients +1 where the ground truth is 0, else -1). Give counted=, a weight "
                "for each variable; model.counted(x) has it."
            )
