"""Kernels between the parts of a label, for the additive model of conditional risk (ECRM 5).

The kernel between part j at input x and part k at input x' is ``B_jk k(x, x')``. The paper's B, 1 where two nodes of
the hierarchy are neighbours, is not positive semi-definite once the hierarchy has a path of three nodes (eigenvalue
1 - sqrt 2), and is therefore not offered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg as la

from structopt.errors import DeclarationError
from structopt.estimators.conditional_risk.averages import Averager, KernelAverages
from structopt.estimators.conditional_risk.weights import Regression
from structopt.hierarchy import Hierarchy
from structopt.space.compiled import FloatArray

__all__ = ["additive_average", "diffusion", "joint_matrix", "neighbours"]


def neighbours(hierarchy: Hierarchy) -> FloatArray:
    """``(I + A)^2`` for the adjacency matrix A, scaled to a unit diagonal: neighbours, and neighbours of neighbours.

    Examples
    --------
    >>> import structopt as so
    >>> neighbours(so.Hierarchy([("a", "b"), ("b", "c")])).round(3)
    array([[1.   , 0.816, 0.5  ],
           [0.816, 1.   , 0.816],
           [0.5  , 0.816, 1.   ]])
    """
    near = np.eye(len(hierarchy)) + _adjacency(hierarchy)
    return _unit_diagonal(near @ near)


def diffusion(hierarchy: Hierarchy, t: float = 1.0) -> FloatArray:
    """``exp(-t L)`` for the graph Laplacian L, scaled to a unit diagonal; t = 0 separates the nodes."""
    if not (np.isfinite(t) and t >= 0):
        raise DeclarationError(f"The time of a diffusion must be finite and not negative, got {t}.")
    A = _adjacency(hierarchy)
    return _unit_diagonal(la.expm(-t * (np.diag(A.sum(axis=1)) - A)))


def joint_matrix(given: Any, model: Any, n_parts: int) -> FloatArray:
    """The matrix of a ``joint_kernel=`` argument: a name, or an array that is checked to be a kernel."""
    if isinstance(given, str):
        makers = {"neighbours": neighbours, "diffusion": diffusion}
        if given not in makers:
            raise DeclarationError(f"joint_kernel must be an array or one of {', '.join(makers)}, got {given!r}.")
        hierarchy = getattr(model, "hierarchy", None)
        if not isinstance(hierarchy, Hierarchy):
            raise DeclarationError(f"joint_kernel={given!r} needs a model over a hierarchy; give a matrix instead.")
        return makers[given](hierarchy)
    return _checked(given, n_parts)


def additive_average(averages: KernelAverages, slopes: FloatArray, levels: FloatArray, joint: FloatArray) -> Averager:
    """The additive model of ECRM (13): ``l_j(1, .) - l_j(0, .)`` of each part j, and the sum of l_j(0, .), estimated.

    Parameters
    ----------
    averages : KernelAverages
        By eigendecomposition.
    slopes, levels : ndarray, shape (m, n_parts)
        ``l_j(1, y_i) - l_j(0, y_i)`` and ``l_j(0, y_i)``.
    joint : ndarray, shape (n_parts, n_parts)
    """
    slope = averages.average(slopes, joint)
    level = averages.average(levels, joint).regression
    both = Regression(
        np.column_stack([slope.regression.coef, level.coef.sum(axis=1)]),
        np.append(slope.regression.offset, level.offset.sum()),
    )
    return Averager(both, slope.source)


def _checked(given: npt.ArrayLike, n_parts: int) -> FloatArray:
    B = np.asarray(given, dtype=np.float64)
    if B.shape != (n_parts, n_parts):
        raise DeclarationError(f"joint_kernel has shape {B.shape}; the labels have {n_parts} parts.")
    if not np.isfinite(B).all() or np.abs(B - B.T).max() > 1e-10 * np.abs(B).max():
        raise DeclarationError("joint_kernel must be finite and symmetric.")
    least = float(la.eigvalsh(B, subset_by_index=[0, 0])[0])
    if least < -1e-10 * max(1.0, float(np.abs(B).max())):
        raise DeclarationError(
            f"joint_kernel has the eigenvalue {least:.3g}: it is not positive semi-definite. Neighbourhood matrices "
            "of paths are not; use their square, or joint_kernel='neighbours'."
        )
    return B


def _adjacency(hierarchy: Hierarchy) -> FloatArray:
    A = np.zeros((len(hierarchy), len(hierarchy)))
    A[hierarchy.child, hierarchy.parent] = A[hierarchy.parent, hierarchy.child] = 1.0
    return A


def _unit_diagonal(B: FloatArray) -> FloatArray:
    scale = 1 / np.sqrt(B.diagonal())
    return np.asarray(B * scale * scale[:, None])
