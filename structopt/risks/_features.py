"""The matrix X of a risk: checked once, multiplied from both sides in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit.csr import checked_csr
from structopt.checks import number as real
from structopt.checks import numeric
from structopt.errors import DeclarationError

__all__ = [
    "BoolArray",
    "Features",
    "FloatArray",
    "IntArray",
    "finite_vector",
    "integer_vector",
    "number_between",
    "shard_rows",
    "signs",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# Rows of a float32 matrix that are widened at a time: a block that stays in the second-level cache.
_BLOCK_BYTES = 1 << 18


class Features:
    """A dense or CSR matrix with one row per example.

    Sums are always taken in float64, so that a cut's value and slope agree and its bound holds. A dense float32
    matrix stays float32 in memory and is widened block by block, in cache; a sparse one is widened once.

    Parameters
    ----------
    X : array_like or sparse matrix of shape (n_rows, n_columns)
        The feature vectors. A dense float32 or float64 array is not copied.
    owner : str
        Name for error messages.
    """

    def __init__(self, X: Any, owner: str) -> None:
        self.matrix = checked_csr(X, f"{owner}: X") if sp.issparse(X) else _dense(X, owner)
        if self.matrix.ndim != 2 or 0 in self.matrix.shape:
            raise DeclarationError(
                f"{owner}: X has shape {self.matrix.shape}; pass one row per example and at least one column."
            )
        _refuse_non_finite(self.matrix, owner)

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns: the length of a weight vector."""
        return int(self.matrix.shape[1])

    def forward(self, weights: FloatArray) -> FloatArray:
        """Return ``X weights``."""
        if not self._widens:
            return np.asarray(self.matrix @ weights)
        result = np.empty((len(self), *weights.shape[1:]))
        for rows in self._blocks():
            np.matmul(self.matrix[rows].astype(np.float64), weights, out=result[rows])
        return result

    def back(self, derivative: FloatArray) -> FloatArray:
        """Return ``derivative' X``, of shape (n_columns,) or (n_outputs, n_columns)."""
        if sp.issparse(self.matrix):
            return np.asarray((self.matrix.T @ derivative).T)
        if not self._widens:
            return np.asarray(derivative.T @ self.matrix)
        result = np.zeros((*derivative.shape[1:], self.n_columns))
        for rows in self._blocks():
            result += derivative[rows].T @ self.matrix[rows].astype(np.float64)
        return result

    def rows(self, rows: slice | IntArray) -> Features:
        """Return part of the rows; a slice of a dense matrix is a view."""
        part = object.__new__(Features)
        part.matrix = self.matrix[rows]
        return part

    @property
    def _widens(self) -> bool:
        return bool(self.matrix.dtype == np.float32)

    def _blocks(self) -> list[slice]:
        height = max(16, _BLOCK_BYTES // (8 * self.n_columns))
        return [slice(start, start + height) for start in range(0, len(self), height)]


def _dense(X: Any, owner: str) -> Any:
    array = numeric(f"{owner}: X", X)
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)


def _refuse_non_finite(matrix: Any, owner: str) -> None:
    values = matrix.data if sp.issparse(matrix) else matrix
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):  # one pass without a temporary, nearly always enough
            return
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    if sp.issparse(matrix):
        rows = np.unique(np.searchsorted(matrix.indptr, np.flatnonzero(bad), side="right") - 1)
    else:
        rows = np.flatnonzero(bad.any(axis=1))
    raise DeclarationError(
        f"{owner}: X is NaN or infinite in {rows.size} rows (first: row {int(rows[0])}); remove or impute them."
    )


def finite_vector(values: Any, name: str, length: int, owner: str) -> FloatArray:
    """Return `values` as float64 of shape (length,), or say what is wrong with it."""
    # A private copy: the caller's may change, or be read-only.
    vector = np.array(numeric(f"{owner}: {name}", values), dtype=np.float64)
    if vector.shape != (length,):
        raise DeclarationError(f"{owner}: {name} has shape {vector.shape}; X has {length} rows, pass ({length},).")
    bad = np.flatnonzero(~np.isfinite(vector))
    if bad.size:
        raise DeclarationError(
            f"{owner}: {name} is NaN or infinite at {bad.size} positions (first: {int(bad[0])}); remove those examples."
        )
    return vector


def integer_vector(values: Any, name: str, length: int, owner: str) -> IntArray:
    """Return `values` as int64 of shape (length,); fractions are refused."""
    vector = finite_vector(values, name, length, owner)
    whole = vector.astype(np.int64)
    bad = np.flatnonzero(whole != vector)
    if bad.size:
        raise DeclarationError(f"{owner}: {name} must hold integers; entry {int(bad[0])} is {vector[bad[0]]}.")
    return whole


def signs(y: Any, length: int, owner: str) -> FloatArray:
    """Return labels -1 and +1 as float64; other labels are refused by name."""
    vector = finite_vector(y, "y", length, owner)
    bad = np.flatnonzero(np.abs(vector) != 1.0)
    if bad.size:
        raise DeclarationError(
            f"{owner}: labels must be -1 or +1; y[{int(bad[0])}] is {vector[bad[0]]:g}. "
            "Map them first, e.g. y = np.where(labels == positive, 1, -1)."
        )
    return vector


def shard_rows(k: int, n: int, length: int, owner: str) -> slice:
    """Return ``k::n`` after checking that no part is empty."""
    if not (0 <= k < n <= length):
        raise DeclarationError(
            f"{owner}: shard({k}, {n}) of {length} parts to share out; it needs 0 <= k < n <= {length}."
        )
    return slice(k, None, n)


def number_between(name: str, value: float, low: float, high: float, owner: str, closed: bool = False) -> float:
    """Return `value` as a float between `low` and `high`, or name the argument that is not."""
    number = real(f"{owner}: {name}", value)
    if math.isfinite(number) and (low < number < high or (closed and number in (low, high))):
        return number
    interval = f"{'[' if closed else '('}{low:g}, {high:g}{']' if closed and math.isfinite(high) else ')'}"
    raise DeclarationError(f"{owner}: {name} must be finite and lie in {interval}, got {value!r}.")
