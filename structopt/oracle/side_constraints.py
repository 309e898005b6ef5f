"""Side constraints of one call: vectors with bounds, and no-good cuts of single labels, as one sparse matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt._jit import FloatArray, kernel
from structopt.backends.base import SideConstraints
from structopt.backends.no_goods import no_good_rows
from structopt.checks import converted, sequence, shown
from structopt.checks import number as real
from structopt.errors import DeclarationError, SpaceMismatch
from structopt.space.compiled import CompiledSpace
from structopt.space.rows import Rows, widen

__all__ = ["Row", "compressed", "plain_rows", "row_names", "side_constraints_of"]

Row = tuple[npt.ArrayLike, float, float]


def plain_rows(name: str, space: CompiledSpace, rows: Any) -> Sequence[Row]:
    """Return side constraints as triples (a, lower, upper); a comparison, or several of them, become triples too."""
    rows = [rows] if isinstance(rows, Rows) else sequence(name, rows)
    if not any(isinstance(row, Rows) for row in rows):
        return rows  # type: ignore[no-any-return]
    found: list[Row] = []
    for number, row in enumerate(rows):
        if not isinstance(row, Rows):
            found.append(row)
            continue
        declared, names = row.space, space.variable_names
        known = declared.n_variables <= space.n_variables and all(
            names[block.slice.start + k] == block.names[k]
            for block in declared
            for k in (0, block.size - 1)
            if block.size
        )
        if not known:
            raise SpaceMismatch(f"{name}[{number}] is about variables of {declared!r}, not of {space!r}.")
        matrix = widen(row.matrix, space.n_variables)
        found += zip(matrix.toarray(), row.lower.tolist(), row.upper.tolist(), strict=True)
    return found


def row_names(rows: Any, n_forbidden: int) -> list[str]:
    """Return the names of side constraints and no-goods by their positions, one per row."""
    found = []
    for number, row in enumerate([rows] if isinstance(rows, Rows) else rows):
        several = isinstance(row, Rows) and row.size > 1
        found += [f"rows[{number}][{k}]" for k in range(row.size)] if several else [f"rows[{number}]"]
    return [*found, *(f"forbid[{number}]" for number in range(n_forbidden))]


def side_constraints_of(space: CompiledSpace, rows: Sequence[Row], forbid: Sequence[npt.ArrayLike]) -> SideConstraints:
    """The rows ``lower <= a . z <= upper`` and the no-good cuts of forbidden labels, in this order."""
    found = [_dense_rows(rows, space.n_variables)] if len(rows) else []
    if len(forbid):
        cuts, least = no_good_rows(space, forbid)
        found.append((cuts, least, np.full(len(least), np.inf)))
    if len(found) == 1:
        return found[0]
    matrices, lower, upper = zip(*found, strict=True)
    return sp.vstack(matrices, format="csr"), np.concatenate(lower), np.concatenate(upper)


def _dense_rows(rows: Sequence[Row], n: int) -> SideConstraints:
    """Rows given as vectors, as one sparse matrix; built without scipy, which takes longer than the solver."""
    dense = np.empty((len(rows), n))
    bounds = np.empty((2, len(rows)))
    for number, row in enumerate(rows):
        if not isinstance(row, tuple | list) or len(row) != 3:
            raise DeclarationError(f"Extra row {number} must be (a, lower, upper), got {shown(row)}.")
        a, low, up = row
        vector = converted(f"Extra row {number}", a)
        if vector.shape != (n,):
            raise SpaceMismatch(f"Extra row {number} has shape {vector.shape}.")
        dense[number] = vector
        if type(low) is not float or type(up) is not float:
            low, up = (real(f"A bound of extra row {number}", bound) for bound in (low, up))
        bounds[:, number] = low, up
    if not np.isfinite(dense).all() or np.isnan(bounds).any():
        wrong = ~np.isfinite(dense).all(axis=1) | np.isnan(bounds).any(axis=0)
        number = int(np.argmax(wrong))
        raise DeclarationError(f"Extra row {number} has a NaN or infinite coefficient, or a NaN bound.")
    matrix = sp.csr_array(compressed(dense), shape=dense.shape)
    matrix.has_canonical_format = True
    return matrix, bounds[0], bounds[1]


@kernel
def compressed(dense: FloatArray) -> Any:
    """Values, columns and row starts (CSR) of the entries of a few dense rows that are not 0."""
    m, n = dense.shape
    starts = np.zeros(m + 1, dtype=np.int32)
    count = 0
    for i in range(m):
        for j in range(n):
            count += dense[i, j] != 0.0
        starts[i + 1] = count
    values = np.empty(count)
    columns = np.empty(count, dtype=np.int32)
    at = 0
    for i in range(m):
        for j in range(n):
            if dense[i, j] != 0.0:
                values[at], columns[at] = dense[i, j], j
                at += 1
    return values, columns, starts
