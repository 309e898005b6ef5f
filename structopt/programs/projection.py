"""Euclidean projection on a polytope: the conditional risk of the squared loss is minimised by one (ECRM 6.2)."""

from __future__ import annotations

from collections.abc import Callable

import highspy
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
# HiGHS adds 1e-7 to the curvature, which is also what its prices are wrong by.
_GAP, _NO_PRICE = 1e-6, 1e-6


class Projection:
    """The nearest point of a polytope, by the quadratic solver of HiGHS; the model is kept from call to call.

    Every answer is checked by its own prices, and one that fails is computed again by the interior-point method piqp.
    """

    def __init__(self, space: CompiledSpace, columns: slice) -> None:
        if space.is_integral:
            raise DeclarationError("The squared loss over integer variables that are not 0/1 is not supported.")
        space.refuse_lazy_rows("A projection")
        self.space = space
        self.columns = np.arange(space.n_variables)[columns]
        self._backend = _quadratic(space, self.columns)
        self._hull = _affine_hull(space) if len(self.columns) == space.n_variables else None

    def __call__(self, point: FloatArray) -> FloatArray:
        """The point z of the polytope with the smallest ``|z[columns] - point|``."""
        costs = np.zeros(self.space.n_variables)
        costs[self.columns] = 2 * np.asarray(point, dtype=np.float64)
        self._backend.set_costs(costs)
        solution = self._backend.run()
        if solution.status is Status.INFEASIBLE:
            raise InfeasibleSpace(f"{self.space!r} is empty.")
        z = solution.z
        if solution.status is not Status.OPTIMAL or z is None or self._gap(costs, z) > _GAP * (1 + np.abs(costs).max()):
            z = self._interior(costs)
        # Both methods leave bounds by as much as rounding.
        return np.clip(z, self.space.lower, self.space.upper)

    def _gap(self, costs: FloatArray, z: FloatArray) -> float:
        """How far ``c . z - |z|^2`` may be from its maximum, proved by the prices of the rows.

        Needed: the quadratic solver of HiGHS (1.15) calls one in a hundred small projections optimal that are not.
        """
        space, prices = self.space, self._backend.row_duals()
        gradient = costs.copy()
        gradient[self.columns] -= 2 * z[self.columns]
        activity = space.matrix @ z
        by_rows = _gain(prices, space.row_lower - activity, space.row_upper - activity)
        return by_rows + _gain(gradient - space.matrix.T @ prices, space.lower - z, space.upper - z)

    def _interior(self, costs: FloatArray) -> FloatArray:
        """The same program by an interior-point method."""
        import piqp

        space = self.space
        curvature = np.zeros(space.n_variables)
        curvature[self.columns] = 2.0
        equal = space.row_lower == space.row_upper
        solver = piqp.SparseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = 1e-11
        solver.settings.check_duality_gap = True
        solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = 1e-11
        rows, matrix = np.flatnonzero(equal), sp.csc_matrix(space.matrix)
        rest = np.flatnonzero(~equal)
        solver.setup(
            sp.csc_matrix(sp.diags_array(curvature, format="csc")), -costs, matrix[rows], space.row_lower[rows],
            matrix[rest], space.row_lower[rest], space.row_upper[rest], space.lower, space.upper,
        )  # fmt: skip
        status = solver.solve()
        if status != piqp.PIQP_SOLVED:
            raise SolverFailed(f"No quadratic solver projects on {self.space!r}: piqp stopped at {status}.")
        return np.array(solver.result.x, dtype=np.float64)

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


def _gain(prices: FloatArray, below: FloatArray, above: FloatArray) -> float:
    """Return the gain of moving every quantity to the end that its price favours."""
    paid = np.abs(prices) > _NO_PRICE
    return float(np.sum(prices[paid] * np.where(prices > 0, above, below)[paid]))


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


def _quadratic(space: CompiledSpace, columns: npt.NDArray[np.intp]) -> Highs:
    """Return HiGHS maximising ``c . z - |z[columns]|^2``."""
    diagonal = np.zeros(space.n_variables)
    diagonal[columns] = -2.0
    matrix = sp.csc_array(sp.diags_array(diagonal, format="csc"))
    matrix.eliminate_zeros()
    hessian = highspy.HighsHessian()
    hessian.dim_ = space.n_variables
    hessian.format_ = highspy.HessianFormat.kTriangular
    hessian.start_, hessian.index_, hessian.value_ = matrix.indptr, matrix.indices, matrix.data
    backend = Highs(space)
    if backend._highs.passHessian(hessian) == highspy.HighsStatus.kError:
        raise DeclarationError(f"HiGHS refuses a quadratic objective on {space!r}.")
    return backend
