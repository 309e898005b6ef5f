"""Euclidean projection on a polytope: the conditional risk of the squared loss is minimised by one (ECRM 6.2)."""

from __future__ import annotations

import highspy
import numpy as np
import scipy.sparse as sp

from structopt.backends.base import Status
from structopt.backends.highs import Highs
from structopt.compiled import CompiledSpace, FloatArray
from structopt.errors import DeclarationError, SolverFailed

__all__ = ["Projection"]


class Projection:
    """The nearest point of a polytope, by the quadratic solver of HiGHS; the model is kept from call to call.

    Parameters
    ----------
    space : CompiledSpace
        Without integer variables.
    columns : slice
        The variables whose distance counts.

    Examples
    --------
    >>> import structopt as so
    >>> space = so.LabelSpace("shares")
    >>> y = space.continuous("y", 3, 0, 1)
    >>> space.subject_to(y.sum() == 1)
    >>> Projection(space.compiled, slice(0, 3))([1.0, 0.6, -0.4]).round(6)
    array([0.7, 0.3, 0. ])
    """

    def __init__(self, space: CompiledSpace, columns: slice) -> None:
        if space.is_integral:
            raise DeclarationError("The squared loss over integer variables that are not 0/1 is not supported.")
        self.space = space
        self.columns = np.arange(space.n_variables)[columns]
        self._backend = _Quadratic(space)
        self._backend.set_curvature(self.columns)

    def __call__(self, point: FloatArray) -> FloatArray:
        """The point z of the polytope with the smallest ``|z[columns] - point|``."""
        costs = np.zeros(self.space.n_variables)
        costs[self.columns] = 2 * np.asarray(point, dtype=np.float64)
        self._backend.set_costs(costs)
        solution = self._backend.run()
        if solution.status is not Status.OPTIMAL or solution.z is None:
            raise SolverFailed(f"HiGHS stopped its quadratic program at {solution.message!r}.", status=solution.message)
        # The active-set method leaves bounds by as much as rounding.
        return np.clip(solution.z, self.space.lower, self.space.upper)


class _Quadratic(Highs):
    """HiGHS maximising ``c . z - |z[columns]|^2``."""

    def set_curvature(self, columns: np.ndarray) -> None:
        n = self.space.n_variables
        diagonal = np.zeros(n)
        diagonal[columns] = -2.0
        matrix = sp.csc_array(sp.diags_array(diagonal, format="csc"))
        matrix.eliminate_zeros()
        hessian = highspy.HighsHessian()
        hessian.dim_ = n
        hessian.format_ = highspy.HessianFormat.kTriangular
        hessian.start_, hessian.index_, hessian.value_ = matrix.indptr, matrix.indices, matrix.data
        if self._highs.passHessian(hessian) == highspy.HighsStatus.kError:
            raise DeclarationError(f"HiGHS refuses a quadratic objective on {self.space!r}.")
