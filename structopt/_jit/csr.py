"""Sparse matrices for kernels: checked, and converted to CSR with one number type and one index type."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from structopt.errors import DeclarationError

__all__ = ["checked_csr"]

_INT32 = np.iinfo(np.int32).max


def checked_csr(matrix: Any, name: str, dtype: Any = np.float64) -> sp.csr_array:
    """A sparse matrix as CSR of one number type with sorted int32 indices, all of them inside, and no entry twice.

    The index arrays of a matrix can be written to, and scipy checks them only at construction: a kernel would read and
    write past the end of a vector at an index out of range. Numbers and indices have one type each, because every
    other combination is another kernel to compile; int64 indices stay where int32 are too short. The caller's
    matrix is never changed; it is used without a copy if it has this form already.

    Parameters
    ----------
    matrix : sparse matrix or array of any format, of one or two dimensions
    name : str
        For error messages.
    dtype : dtype
        Of the numbers; float32 only where the caller wants to halve the memory.

    Examples
    --------
    >>> checked_csr(sp.coo_array(([1, 2], ([0, 0], [2, 2])), shape=(1, 3)), "X").toarray()
    array([[0., 0., 3.]])
    """
    if matrix.dtype.kind not in "biuf":
        raise DeclarationError(f"{name} must hold real numbers; it has dtype {matrix.dtype}.")
    given = matrix if matrix.ndim == 2 else matrix.reshape((1, -1))
    # csc and bsr have index arrays of their own, which a conversion follows without looking.
    if given.format in ("csr", "csc", "bsr"):
        block = given.blocksize if given.format == "bsr" else (1, 1)
        n, width = given.shape[0] // block[0], given.shape[1] // block[1]
        _check_compressed(given, *((width, n) if given.format == "csc" else (n, width)), name)
    elif given.format == "coo":
        _check_places(given, name)
    rows = sp.csr_array(given, dtype=dtype)
    if not rows.has_canonical_format:
        rows = rows.copy() if rows.data is given.data or np.shares_memory(rows.data, given.data) else rows
        rows.sum_duplicates()
    short = np.int32 if max(rows.nnz, *rows.shape) <= _INT32 else np.int64
    if rows.indices.dtype != short or rows.indptr.dtype != short:
        parts = (rows.data, rows.indices.astype(short), rows.indptr.astype(short))
        rows = sp.csr_array(rows.shape)
        rows.data, rows.indices, rows.indptr = parts
    return rows


def _check_compressed(matrix: Any, n: int, width: int, name: str) -> None:
    """Pointers rise from 0 to the number of entries, and indices lie inside."""
    indptr, indices = matrix.indptr, matrix.indices
    if indptr.shape != (n + 1,) or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise DeclarationError(f"{name} is not a valid {matrix.format} matrix: its indptr must rise from 0.")
    count = int(indptr[-1])
    if count > min(len(indices), len(matrix.data)):
        raise DeclarationError(
            f"{name} is not a valid {matrix.format} matrix: indptr ends at {count}, and there are {len(indices)} "
            f"indices and {len(matrix.data)} entries."
        )
    _check_range(indices[:count], width, name)


def _check_places(matrix: Any, name: str) -> None:
    if not len(matrix.row) == len(matrix.col) == len(matrix.data):
        raise DeclarationError(f"{name} is not a valid coo matrix: its rows, columns and entries differ in number.")
    _check_range(matrix.row, matrix.shape[0], name)
    _check_range(matrix.col, matrix.shape[1], name)


def _check_range(indices: Any, width: int, name: str) -> None:
    if not indices.size:
        return
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= width:
        raise DeclarationError(
            f"{name} has an entry at index {low if low < 0 else high}; indices are 0 to {width - 1}."
        )
