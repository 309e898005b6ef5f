"""Planes whose labels are split by fixing 0/1 variables, queried together: what branch and bound needs.

A variable is fixed by its objective coefficient. With ±M, for an M above the range of ``h + λ g`` over the box, a free
query returns a label with the wanted value wherever there is one, so that an algorithm without side constraints (a
minimum cut, a matching) answers for every branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.plane.batch import IndexArray
from structopt.plane.oracle import LinearOracle
from structopt.plane.plane import Plane
from structopt.plane.points import SearchPlane
from structopt.space.compiled import FloatArray

__all__ = ["BranchAnswers", "Branches", "FixedArray"]

#: Queries of a plane, and entries of their labels, that a branch and bound may take: a few seconds, some megabytes.
_MOST_QUERIES, _MOST_ENTRIES = 2000, 1 << 22
#: For every branch and variable the value that it has there, or -1.
FixedArray = npt.NDArray[np.int8]


class BranchAnswers(NamedTuple):
    """Labels of some branches: where each lies, the proved maximum of ``h + λ g``, and the labels themselves.

    A branch without labels has ``empty``; its other entries mean nothing.
    """

    h: FloatArray
    g: FloatArray
    bound: FloatArray
    empty: npt.NDArray[np.bool_]
    Z: FloatArray


class Branches:
    """The branches of planes over one oracle.

    Parameters
    ----------
    oracle : LinearOracle
    planes : sequence of Plane
        Planes over that oracle, without side constraints.

    Attributes
    ----------
    n : int
        Number of planes.
    splits : ndarray of bool, shape (n_variables,)
        The variables that can be fixed: 0/1 ones.
    ties : ndarray, shape (n_variables,)
        A measure of how many others depend on a variable: the root of the number of walks of three steps that begin at
        it, from variable to variable by rows in which both occur.
    step, offset : ndarray, shape (n,)
        The levels of g of each plane, as in `structopt.plane.batch.BatchBox`.
    """

    def __init__(self, oracle: LinearOracle, planes: Sequence[Plane]) -> None:
        self.oracle, self._planes, self.n = oracle, planes, len(planes)
        space = oracle.space
        self.splits = space.integrality & (space.lower == 0.0) & (space.upper == 1.0)
        self.ties = _ties(space.matrix)
        axes = [plane.coordinates for plane in planes]
        self._both = np.array([a.both for a in axes])
        self._h0, self._g0 = np.array([a.h0 for a in axes]), np.array([a.g0 for a in axes])
        self.step, self.offset = np.array([plane.lattice_step for plane in planes]), self._g0

    @classmethod
    def of(cls, planes: Sequence[SearchPlane]) -> Branches | None:
        """The branches of planes that have one oracle; None where free queries are not the cheap ones.

        Parameters
        ----------
        planes : sequence of SearchPlane

        Returns
        -------
        Branches or None
        """
        kept: list[Plane] = []
        for plane in planes:
            if not isinstance(plane, Plane) or plane.convex or plane.rows:
                return None
            kept.append(plane)
        if not kept or not kept[0].oracle._prefers_free_calls:
            return None
        oracle = kept[0].oracle
        width = oracle.space.upper - oracle.space.lower
        if any(plane.oracle is not oracle for plane in kept) or not np.isfinite(width).all():
            return None
        return cls(oracle, kept)

    def costs(self, owner: IndexArray, lam: FloatArray) -> FloatArray:
        """``h + λ g`` (g where λ is infinite) as objective coefficients.

        Parameters
        ----------
        owner : ndarray of int, shape (m,)
            The planes.
        lam : ndarray, shape (m,)

        Returns
        -------
        ndarray, shape (m, n_variables)
        """
        far = np.isinf(lam)
        a, b = np.where(far, 0.0, 1.0), np.where(far, 1.0, lam)
        both = self._both[owner]
        return np.asarray(a[:, None] * both[:, 0] + b[:, None] * both[:, 1])

    def query(self, owner: IndexArray, fixed: FixedArray, lam: FloatArray) -> BranchAnswers:
        """The labels that maximise ``h + λ g`` in branches of some planes, each at its own λ in [0, inf].

        Parameters
        ----------
        owner : ndarray of int, shape (m,)
            The plane of each branch.
        fixed : ndarray of int8, shape (m, n_variables)
            Its fixed variables.
        lam : ndarray, shape (m,)

        Returns
        -------
        BranchAnswers
        """
        space = self.oracle.space
        C = self.costs(owner, lam)
        reach = 2.0 * (np.abs(C) @ (space.upper - space.lower)) + 1e-300
        on, off = fixed == 1, fixed == 0
        found = self.oracle._solve_batch(C + reach[:, None] * (on.astype(float) - off))
        for plane, count in zip(self._planes, np.bincount(owner, minlength=self.n).tolist(), strict=True):
            plane.counts["branches"] = plane.counts.get("branches", 0) + count
        Z = found.Z
        h, g = self.places(owner, Z)
        far = np.isinf(lam)
        value = np.where(far, g, h + np.where(far, 0.0, lam) * g)
        # A label off its branch has paid M: no label of the branch does better.
        strays = ((on & (Z < 0.5)) | (off & (Z > 0.5))).any(axis=1)
        slack = np.maximum(found.bounds - found.values, 0.0)
        return BranchAnswers(h, g, value + slack, strays & (slack < 0.25 * reach), Z)

    def places(self, owner: IndexArray, Z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """h and g of labels of some planes, a label each.

        Parameters
        ----------
        owner : ndarray of int, shape (m,)
            The planes.
        Z : ndarray, shape (m, n_variables)

        Returns
        -------
        h, g : ndarray, shape (m,)
        """
        h, g = (np.einsum("ij,ij->i", self._both[owner, k], Z) for k in range(2))
        return h + self._h0[owner], g + self._g0[owner]

    @property
    def limit(self) -> int:
        """Queries of one plane at which a branch and bound is given up."""
        return max(50, min(_MOST_QUERIES, _MOST_ENTRIES // max(1, int(self.splits.size))))


def _ties(matrix: sp.csr_array) -> FloatArray:
    """`Branches.ties`; on closures of four DAGs it takes up to 22 % fewer queries than the number of rows alone."""
    links = sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
    walks = np.ones(matrix.shape[1])
    for _ in range(3):
        walks = links.T @ (links @ walks)
    return np.asarray(np.sqrt(walks))
