"""Label spaces with a concave quadratic objective, by HiGHS."""

from __future__ import annotations

import highspy
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.backends.highs import Highs
from structopt.errors import DeclarationError
from structopt.space.compiled import FloatArray

__all__ = ["Quadratic"]


class Quadratic(Highs):
    """HiGHS maximising ``c . z - |z[columns]|^2``."""

    def set_curvature(self, columns: npt.NDArray[np.intp]) -> None:
        """Say which variables count in the square."""
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

    def row_duals(self) -> FloatArray:
        """The dual variables of the rows at the last answer."""
        return np.array(self._highs.getSolution().row_dual, dtype=np.float64)
