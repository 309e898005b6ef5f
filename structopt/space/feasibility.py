"""Whether a point satisfies the rows, bounds and integrality of a space, and which of them it violates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from structopt._jit import kernel
from structopt.checks import converted
from structopt.errors import DeclarationError, LabelNotInSpace, SpaceMismatch
from structopt.space.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.lazy import described_row, found_rows
from structopt.space.tolerance import bound_holds, broken_bounds, broken_rows, row_holds

__all__ = ["Violation", "check_label", "contains", "point_of", "rows_in", "satisfies_lazy_rows", "violations"]


class Violation(NamedTuple):
    """One violated row, bound or integrality condition: its name, the value found, the range allowed."""

    name: str
    kind: str
    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        if self.kind == "integrality":
            return f"{self.name} = {self.value:g} is not an integer"
        wanted = f"= {self.lower:g}" if self.lower == self.upper else f"in [{self.lower:g}, {self.upper:g}]"
        return f"{self.kind} {self.name}: {self.value:g} is not {wanted}"


def point_of(space: CompiledSpace, z: npt.ArrayLike) -> FloatArray:
    """`z` as a float vector of the space's length, checked."""
    point = converted("z", z)
    if point.shape != (space.n_variables,):
        raise SpaceMismatch(
            f"A point of {space.name or 'this space'!r} has {space.n_variables} entries, got {point.shape}."
        )
    if not np.isfinite(point).all():
        k = int(np.argmin(np.isfinite(point)))
        raise DeclarationError(f"Entry {space.variable_names[k]} of the point is {point[k]}.")
    return point


def contains(space: CompiledSpace, z: npt.ArrayLike, tol: float = FEASIBILITY_TOLERANCE) -> bool:
    """Return whether `z` satisfies every row, bound and integrality within `tol`."""
    point = point_of(space, z)
    integer = point[space.integrality]
    if (np.abs(integer - np.rint(integer)) > tol).any():
        return False
    if broken_bounds(point, space.integrality, space.lower, space.upper, tol).any():
        return False
    if broken_rows(space.matrix, space.row_lower, space.row_upper, point, tol, space.row_units).any():
        return False
    return not space.separations or satisfies_lazy_rows(space, point, tol)


def satisfies_lazy_rows(space: CompiledSpace, point: FloatArray, tol: float = FEASIBILITY_TOLERANCE) -> bool:
    """Whether no separation of the space finds a row that the point violates."""
    found = found_rows(space, point, tol)
    return found is None or not found.violated.any()


def rows_in(space: CompiledSpace, Z: FloatArray, tol: float = FEASIBILITY_TOLERANCE) -> npt.NDArray[np.bool_]:
    """`contains` of every row of `Z` (finite values), in one loop."""
    matrix, good = space.matrix, np.ones(len(Z), dtype=np.bool_)
    _hold(
        np.ascontiguousarray(Z, dtype=np.float64), space.lower, space.upper, space.integrality, matrix.indptr,
        matrix.indices, matrix.data, space.row_lower, space.row_upper, space.row_units, tol, good,
    )  # fmt: skip
    if space.separations:
        for i in np.flatnonzero(good).tolist():
            good[i] = satisfies_lazy_rows(space, Z[i], tol)
    return good


@kernel
def _hold(
    Z: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    integrality: npt.NDArray[np.bool_],
    indptr: Any,
    indices: Any,
    data: FloatArray,
    row_lower: FloatArray,
    row_upper: FloatArray,
    units: FloatArray,
    tol: float,
    good: npt.NDArray[np.bool_],
) -> None:
    """Mark the points that violate a bound, integrality or a row; for few points array operations take longer."""
    for i in range(Z.shape[0]):
        z = Z[i]
        for j in range(z.size):
            if not bound_holds(z[j], integrality[j], lower[j], upper[j], tol):
                good[i] = False
        for r in range(row_lower.size):
            value = size = 0.0
            for q in range(indptr[r], indptr[r + 1]):
                value += data[q] * z[indices[q]]
                size += np.abs(data[q] * z[indices[q]])
            if not row_holds(value, size, units[r], row_lower[r], row_upper[r], tol):
                good[i] = False


def violations(space: CompiledSpace, z: npt.ArrayLike, tol: float = FEASIBILITY_TOLERANCE) -> list[Violation]:
    """Everything that `z` violates: rows first, then lazy rows, bounds and integrality."""
    point = point_of(space, z)
    value = space.matrix @ point
    bad_rows = broken_rows(space.matrix, space.row_lower, space.row_upper, point, tol, space.row_units)
    found = [
        Violation(space.row_names[k], "row", float(value[k]), float(space.row_lower[k]), float(space.row_upper[k]))
        for k in np.flatnonzero(bad_rows).tolist()
    ]
    found += _lazy_violations(space, point, tol)
    fractional = space.integrality & (np.abs(point - np.rint(point)) > tol)
    out_of_bounds = broken_bounds(point, space.integrality & ~fractional, space.lower, space.upper, tol)
    found += [
        Violation(space.variable_names[k], "bound", float(point[k]), float(space.lower[k]), float(space.upper[k]))
        for k in np.flatnonzero(out_of_bounds).tolist()
    ]
    found += [
        Violation(
            space.variable_names[k],
            "integrality",
            float(point[k]),
            float(space.lower[k]),
            float(space.upper[k]),
        )
        for k in np.flatnonzero(fractional).tolist()
    ]
    return found


def _lazy_violations(space: CompiledSpace, point: FloatArray, tol: float) -> list[Violation]:
    """The rows that the separations of the space find, written out: nobody knows them by name."""
    lazy = found_rows(space, point, tol) if space.separations else None
    found = []
    for k in () if lazy is None else np.flatnonzero(lazy.violated).tolist():
        assert lazy is not None
        part = lazy.matrix[[k]]
        ends = float(lazy.lower[k]), float(lazy.upper[k])
        row = described_row(space.variable_names, part.indices, part.data, *ends)
        found.append(Violation(f"{lazy.names[k]} ({row})", "row", float((part @ point)[0]), *ends))
    return found


def check_label(space: CompiledSpace, z: npt.ArrayLike, label: Any = None) -> FloatArray:
    """`z` as a vector, or `LabelNotInSpace` with the names of what it violates (at most ten); `label` is shown."""
    point = point_of(space, z)
    if contains(space, point):
        return point
    broken = violations(space, point)
    listed = "; ".join(str(v) for v in broken[:10]) + ("; ..." if len(broken) > 10 else "")
    what = "The label" if label is None else f"Label {label!r:.60}"
    raise LabelNotInSpace(f"{what} is not in the space {space.name!r}: {listed}.", tuple(v.name for v in broken))
