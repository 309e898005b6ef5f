"""Euclidean projection on a polytope: the conditional risk of the squared loss is minimised by one (ECRM 6.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg as la
import scipy.sparse as sp

from structopt.backends.base import Status
from structopt.backends.highs import Highs
from structopt.errors import DeclarationError, InfeasibleSpace, SolverFailed
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.tolerance import broken_rows

__all__ = ["Projection"]

_DENSE_ENTRIES = 1 << 20
_ROUNDING = 1e-12
#: Tolerance and least regularisation of the attempts; few programs need the second one.
_ATTEMPTS = (1e-11, 1e-13), (1e-8, 1e-8)


class Projection:
    """The nearest point of a polytope, by the interior-point method piqp; the model is kept from call to call."""

    def __init__(self, space: CompiledSpace, columns: slice) -> None:
        if space.is_integral:
            raise DeclarationError("The squared loss over integer variables that are not 0/1 is not supported.")
        space.refuse_lazy_rows("A projection")
        self.space = space
        self.columns = np.arange(space.n_variables)[columns]
        self._solver = _quadratic(space, self.columns)
        self._hull = _affine_hull(space) if len(self.columns) == space.n_variables else None

    def __call__(self, point: FloatArray) -> FloatArray:
        """The point z of the polytope with the smallest ``|z[columns] - point|``."""
        import piqp

        costs = np.zeros(self.space.n_variables)
        costs[self.columns] = -2.0 * np.asarray(point, dtype=np.float64)
        for tolerance, least in _ATTEMPTS:
            settings = self._solver.settings
            settings.reg_lower_limit = settings.reg_finetune_lower_limit = least
            settings.eps_abs = settings.eps_rel = tolerance
            settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = tolerance
            self._solver.update(c=costs)
            status = self._solver.solve()
            if status == piqp.PIQP_SOLVED:
                # It leaves bounds by as much as rounding.
                return np.asarray(np.clip(self._solver.result.x, self.space.lower, self.space.upper))
            self._solver = _quadratic(self.space, self.columns)  # the next attempt is a cold start
        backend = Highs(self.space)
        backend.set_costs(np.zeros(self.space.n_variables))
        if backend.run().status is Status.INFEASIBLE:
            raise InfeasibleSpace(f"{self.space!r} is empty.")
        raise SolverFailed(f"No quadratic solver projects on {self.space!r}: piqp stopped at {status}.")

    def many(self, points: FloatArray) -> FloatArray:
        """The nearest point of the polytope to each row.

        A point and its projection on the affine hull have the same nearest point, so that a quadratic program is left
        only where that projection breaks an inequality: for no average of points of the polytope, for example.
        """
        points = np.asarray(points, dtype=np.float64)
        Z = np.empty((len(points), self.space.n_variables))
        rest = np.arange(len(points))
        if self._hull is not None:
            flat = self._hull(points)
            inside = _satisfies(self.space, flat)
            Z[inside], points, rest = flat[inside], flat, np.flatnonzero(~inside)
        for i in rest.tolist():
            Z[i] = self(points[i])
        return Z


def _affine_hull(space: CompiledSpace) -> Callable[[FloatArray], FloatArray] | None:
    """Return the projection of points on the equations of a space; None if they are too many for a dense inverse."""
    equal = np.flatnonzero(space.row_lower == space.row_upper)
    if equal.size * space.n_variables > _DENSE_ENTRIES:
        return None
    matrix, right = space.matrix[equal].toarray(), space.row_lower[equal]
    inverse = la.pinv(matrix)
    return lambda points: np.asarray(points - (points @ matrix.T - right) @ inverse.T)


def _satisfies(space: CompiledSpace, Z: FloatArray) -> npt.NDArray[np.bool_]:
    """Which rows of `Z` are in the polytope, up to rounding."""
    broken = broken_rows(space.matrix, space.row_lower, space.row_upper, Z, _ROUNDING, space.row_units)
    return np.asarray(~broken.any(axis=1) & (np.clip(Z, space.lower, space.upper) == Z).all(axis=1))


def _quadratic(space: CompiledSpace, columns: npt.NDArray[np.intp]) -> Any:
    """Return piqp minimising ``|z[columns]|^2`` plus costs."""
    import piqp

    curvature = np.zeros(space.n_variables)
    curvature[columns] = 2.0
    equal = space.row_lower == space.row_upper
    rows, rest, matrix = np.flatnonzero(equal), np.flatnonzero(~equal), sp.csc_matrix(space.matrix)
    solver = piqp.SparseSolver()
    solver.settings.check_duality_gap = True
    solver.setup(
        sp.csc_matrix(sp.diags_array(curvature, format="csc")), np.zeros(space.n_variables), matrix[rows],
        space.row_lower[rows], matrix[rest], space.row_lower[rest], space.row_upper[rest], space.lower, space.upper,
    )  # fmt: skip
    return solver
