"""Rows ``lower <= A z <= upper`` of a space, as arrays: what a comparison of expressions makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import scipy.sparse as sp

from structopt.errors import DeclarationError, SpaceMismatch
from structopt.space.compiled import FloatArray

if TYPE_CHECKING:
    from structopt.space import LabelSpace

__all__ = ["Rows", "Shape", "canonical", "stacked", "widen"]

Shape = tuple[int, ...]


class Rows:
    """Rows ``lower <= matrix @ z <= upper`` made by a comparison, to be given to `LabelSpace.subject_to`."""

    __array_ufunc__ = None

    def __init__(
        self, space: LabelSpace, shape: Shape, matrix: sp.csr_array, lower: FloatArray, upper: FloatArray
    ) -> None:
        if np.isnan(lower).any() or np.isnan(upper).any():
            raise DeclarationError("A row's bound is NaN; check the right-hand side of the comparison.")
        if (lower == np.inf).any() or (upper == -np.inf).any():
            raise DeclarationError("A row's lower bound is +inf or its upper bound is -inf: no label satisfies it.")
        if (lower > upper).any():
            k = int(np.argmax(lower > upper))
            raise DeclarationError(
                f"Element {k} of these rows has lower bound {lower[k]:g} above its upper bound {upper[k]:g}."
            )
        self.space = space
        self.shape = shape
        self.matrix = matrix
        self.lower = lower
        self.upper = upper

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self.lower.shape[0])

    def __repr__(self) -> str:
        return f"<Rows of shape {self.shape}: {self.matrix.nnz} non-zeros>"

    def __bool__(self) -> NoReturn:
        raise DeclarationError(
            "A comparison of expressions makes rows and has no truth value. For a double-bounded row write "
            "expression.between(lower, upper) instead of lower <= expression <= upper, and give every comparison "
            "to space.subject_to(...)."
        )

    def _compared_again(self, other: Any) -> NoReturn:
        raise DeclarationError(
            "These rows are a comparison already and cannot be compared again; "
            "write expression.between(lower, upper) for a double-bounded row."
        )

    __le__ = __ge__ = __lt__ = __gt__ = _compared_again
    __eq__ = __ne__ = _compared_again
    __hash__ = object.__hash__


def widen(matrix: sp.csr_array, n_columns: int) -> sp.csr_array:
    """The same matrix with columns for the variables declared since; shares the arrays."""
    if matrix.shape[1] == n_columns:
        return matrix
    return sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], n_columns))


def canonical(matrix: sp.csr_array) -> sp.csr_array:
    """Sorted, without duplicates and stored zeros, with 32-bit indices where they fit."""
    clean = matrix.copy()
    clean.sum_duplicates()
    clean.eliminate_zeros()
    if clean.nnz < np.iinfo(np.int32).max and clean.indices.dtype != np.int32:
        clean.indices, clean.indptr = clean.indices.astype(np.int32), clean.indptr.astype(np.int32)
    return clean


def stacked(rows: Sequence[Rows]) -> Rows:
    """Several comparisons as one array of rows."""
    space = rows[0].space
    if any(r.space is not space for r in rows):
        raise SpaceMismatch("The rows given together belong to different spaces.")
    n_columns = max(r.matrix.shape[1] for r in rows)
    matrix = sp.vstack([widen(r.matrix, n_columns) for r in rows], format="csr")
    lower, upper = np.concatenate([r.lower for r in rows]), np.concatenate([r.upper for r in rows])
    return Rows(space, (len(lower),), matrix, lower, upper)
