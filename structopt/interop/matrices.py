"""From the entries that a reader found to a `CompiledSpace`: canonical matrix, checked numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.errors import DeclarationError
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["assemble", "canonical"]


def canonical(matrix: sp.sparray) -> sp.csr_array:
    """Rows sorted, duplicates summed, zeros dropped, 32-bit indices where they fit (CompiledSpace)."""
    rows = sp.csr_array(matrix, dtype=np.float64, copy=True)  # a copy: the caller's matrix must not change
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.sort_indices()
    if max(rows.nnz, *rows.shape) <= np.iinfo(np.int32).max:
        rows.indices = rows.indices.astype(np.int32, copy=False)
        rows.indptr = rows.indptr.astype(np.int32, copy=False)
    return rows


def assemble(
    matrix: sp.sparray,
    row_bounds: tuple[npt.ArrayLike, npt.ArrayLike],
    bounds: tuple[npt.ArrayLike, npt.ArrayLike],
    integrality: npt.ArrayLike,
    variable_names: Sequence[str],
    row_names: Sequence[str],
    name: str,
) -> CompiledSpace:
    """A `CompiledSpace` from what a reader found; NaN and infinite coefficients are refused by name."""
    rows = canonical(matrix)
    broken = np.flatnonzero(~np.isfinite(rows.data))
    if broken.size:
        row = int(np.searchsorted(rows.indptr, broken[0], side="right")) - 1
        raise DeclarationError(
            f"The coefficient of variable {variable_names[rows.indices[broken[0]]]!r} in row "
            f"{row_names[row]!r} is {rows.data[broken[0]]}; coefficients must be finite numbers."
        )
    low, high = (_numbers(f"{side} bound of row", part, row_names) for side, part in _sides(row_bounds))
    lower, upper = (_numbers(f"{side} bound of variable", part, variable_names) for side, part in _sides(bounds))
    return CompiledSpace(
        matrix=rows,
        row_lower=low,
        row_upper=high,
        lower=lower,
        upper=upper,
        integrality=np.array(integrality, dtype=bool).reshape(len(variable_names)),
        variable_names=tuple(variable_names),
        row_names=tuple(row_names),
        name=name,
    )


def _sides(pair: tuple[npt.ArrayLike, npt.ArrayLike]) -> tuple[tuple[str, npt.ArrayLike], ...]:
    return ("lower", pair[0]), ("upper", pair[1])


def _numbers(what: str, values: npt.ArrayLike, names: Sequence[str]) -> FloatArray:
    # Adding 0.0 turns -0.0 into 0.0: PuLP and Pyomo store right-hand sides with the sign flipped.
    array = np.array(values, dtype=np.float64).reshape(len(names)) + 0.0
    if np.isnan(array).any():
        raise DeclarationError(f"The {what} {names[int(np.isnan(array).argmax())]!r} is NaN.")
    return array
