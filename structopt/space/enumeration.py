"""Every integral label of a small space, by breadth-first assignment with row-activity pruning.

The reference that fast algorithms are tested against, and the algorithm for tiny spaces.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from structopt.errors import DeclarationError
from structopt.space.compiled import FEASIBILITY_TOLERANCE, CompiledSpace, FloatArray
from structopt.space.feasibility import satisfies_lazy_rows
from structopt.space.tolerance import broken_rows, row_room
from structopt.stopping import time_left

__all__ = ["complete", "enumerate_labels", "propagated_bounds"]

# Partial assignments expanded at once, and row activities of the expansion; the others wait for their turn.
_CHUNK, _MOST_ACTIVITIES = 1 << 14, 1 << 19
#: Points times matrix entries of one call of bound propagation, whose temporary arrays then fit into the cache.
_MOST_ENTRIES = 1 << 16
#: Integers are exact in float64 up to this.
_LARGEST = 2.0**53
#: Rounds of bound propagation, and the width (of 1 or of the value) at which two bounds have met.
_MOST_ROUNDS, _MET = 50, 1e-12


def enumerate_labels(space: CompiledSpace, limit: int = 100_000, work: float = np.inf) -> FloatArray:
    """All labels of `space` with integral integer variables, one per row, in lexicographic order.

    Continuous variables must follow from the integer ones (as the products of a linearised pairwise model
    do): they are found by bound propagation.

    Raises
    ------
    DeclarationError
        If there are more than `limit` labels, an integer variable is unbounded, no variable is integer, a continuous
        variable is not determined by the integer ones, the partial assignments have more than `work` row activities, or
        the deadline of `structopt.stopping` passes.
    """
    integer = np.flatnonzero(space.integrality)
    if space.n_variables and not integer.size:
        raise DeclarationError(
            f"{space!r} has no integer variables, so its labels cannot be listed; "
            "enumerate the space before relaxing it."
        )
    unbounded = integer[~(np.maximum(-space.lower[integer], space.upper[integer]) < _LARGEST)]
    if unbounded.size:
        raise DeclarationError(
            f"Integer variable {space.variable_names[unbounded[0]]} is unbounded; "
            "give it bounds to enumerate the space."
        )
    found: list[FloatArray] = []
    n_found = 0
    for block in _assignments(space, integer, work):
        labels = _complete(space, integer, block)
        if space.separations:
            labels = labels[[satisfies_lazy_rows(space, z) for z in labels]]
        found.append(labels)
        n_found += len(labels)
        if n_found > limit:
            raise DeclarationError(f"{space!r} has more than {limit} labels; raise limit=, or use an oracle instead.")
    return np.concatenate(found) if found else np.empty((0, space.n_variables))


def complete(space: CompiledSpace, known: np.ndarray, values: FloatArray) -> FloatArray:
    """Return the only points of the space with the given values at the indices `known`, by bound propagation.

    `values` has one row per point.

    Raises
    ------
    DeclarationError
        If a variable's value does not follow from the known ones.
    """
    points = np.zeros((len(values), space.n_variables))
    points[:, known] = values
    free = np.setdiff1d(np.arange(space.n_variables), known)
    for first, low, up in _free_bounds(space, free, points):
        loose = np.argwhere(up - low > FEASIBILITY_TOLERANCE)
        if loose.size:
            i, k = loose[0]
            raise DeclarationError(
                f"{space.variable_names[free[k]]} does not follow from the values given (it may be anything in "
                f"[{low[i, k]:g}, {up[i, k]:g}]); give the whole point, or an encode= function."
            )
        middle = (low + up) / 2
        points[first : first + len(low), free] = np.where(
            np.abs(middle - np.rint(middle)) < 1e-9, np.rint(middle), middle
        )
    return points


def follow_from(space: CompiledSpace, known: np.ndarray, points: FloatArray) -> bool:
    """Return whether `complete` finds every one of the points from its entries at the indices `known`."""
    free = np.setdiff1d(np.arange(space.n_variables), known)
    given = np.zeros_like(points)
    given[:, known] = points[:, known]
    for first, low, up in _free_bounds(space, free, given):
        own = points[first : first + len(low), free]
        wrong = np.abs((low + up) / 2 - own) > 1e-6 * np.maximum(1.0, np.abs(own))
        if (up - low > FEASIBILITY_TOLERANCE).any() or wrong.any():
            return False
    return True


def _free_bounds(
    space: CompiledSpace, free: np.ndarray, points: FloatArray
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Bounds of the free variables, in pieces of points that fit into the processor's cache."""
    size = max(1, _MOST_ENTRIES // max(1, space.matrix.nnz))
    for first in range(0, len(points) if free.size else 0, size):
        low, up = _propagate(space, free, points[first : first + size], space.integrality[free], True)
        yield first, low, up


def _assignments(space: CompiledSpace, integer: np.ndarray, work: float) -> Iterator[FloatArray]:
    """Blocks of integer assignments that no row refutes, given the bounds of the continuous variables."""
    columns = space.matrix.tocsc()
    lower, upper = space.lower + 0.0, space.upper + 0.0  # no negative zeros
    if (lower > upper).any():
        return
    # A partial assignment is pruned if no completion satisfies a row, even with the largest room of any completion.
    # `_complete` checks the labels themselves.
    reach = np.maximum(np.abs(lower), np.abs(upper))
    size = abs(space.matrix) @ np.where(np.isfinite(reach), reach, 0.0)
    tolerance = row_room(space.row_units, size, FEASIBILITY_TOLERANCE)
    positive, negative = space.matrix.maximum(0), space.matrix.minimum(0)
    minimum = _product(positive, lower) + _product(negative, upper)
    maximum = _product(positive, upper) + _product(negative, lower)
    at_once = max(1, _MOST_ACTIVITIES // max(1, space.n_rows))
    # Depth, partial assignments, the ends of their row activities, and the number of the next value to assign.
    stack = [(0, np.empty((1, 0)), minimum[None, :], maximum[None, :], 0)]
    while stack:
        depth, partial, low, up, first = stack.pop()
        if depth == len(integer):
            yield partial
            continue
        j = integer[depth]
        count = min(int(upper[j] - lower[j]) + 1 - first, at_once)
        most = min(_CHUNK, max(1, at_once // count))
        if len(partial) > most:
            stack.append((depth, partial[most:], low[most:], up[most:], first))
            partial, low, up = partial[:most], low[:most], up[:most]
        if lower[j] + first + count <= upper[j]:
            stack.append((depth, partial, low, up, first + count))
        values = lower[j] + np.arange(first, first + count)
        work -= low.size * count
        if work < 0 or time_left() <= 0.0:
            raise DeclarationError(f"The labels of {space!r} take too long to list; use an oracle instead.")
        entries = slice(columns.indptr[j], columns.indptr[j + 1])
        rows, coefficients = columns.indices[entries], columns.data[entries]
        low, up = np.repeat(low, len(values), axis=0), np.repeat(up, len(values), axis=0)
        chosen = np.tile(values, len(partial))
        ends = np.stack([coefficients * lower[j], coefficients * upper[j]])
        low[:, rows] += np.outer(chosen, coefficients) - ends.min(axis=0)
        up[:, rows] += np.outer(chosen, coefficients) - ends.max(axis=0)
        tol = tolerance[rows]
        alive = ((low[:, rows] <= space.row_upper[rows] + tol) & (up[:, rows] >= space.row_lower[rows] - tol)).all(
            axis=1
        )
        partial = np.column_stack([np.repeat(partial, len(values), axis=0), chosen])[alive]
        if len(partial):
            stack.append((depth + 1, partial, low[alive], up[alive], 0))


def _product(matrix: sp.csr_array, bound: FloatArray) -> FloatArray:
    """``matrix @ bound`` where a bound may be infinite (0 * inf counts as 0: there is no entry)."""
    infinite = ~np.isfinite(bound)
    if not infinite.any():
        return np.asarray(matrix @ bound)
    total = matrix @ np.where(infinite, 0.0, bound)
    signs = matrix.sign()
    plus = signs @ np.where(bound == np.inf, 1.0, 0.0) - signs @ np.where(bound == -np.inf, 1.0, 0.0)
    return np.asarray(np.where(plus > 0, np.inf, np.where(plus < 0, -np.inf, total)))


def _complete(space: CompiledSpace, integer: np.ndarray, assignments: FloatArray) -> FloatArray:
    """Fill in the continuous variables of each assignment; drop the assignments that no value completes."""
    labels = np.zeros((len(assignments), space.n_variables))
    labels[:, integer] = assignments
    continuous = np.flatnonzero(~space.integrality)
    if continuous.size:
        low, up = _propagate(space, continuous, labels)
        empty = (low > up + FEASIBILITY_TOLERANCE).any(axis=1)
        labels, low, up = labels[~empty], low[~empty], up[~empty]
        loose = up - low > FEASIBILITY_TOLERANCE
        if loose.any():
            label, variable = np.argwhere(loose)[0]
            raise DeclarationError(
                f"Continuous variable {space.variable_names[continuous[variable]]} can take any value in "
                f"[{low[label, variable]:g}, {up[label, variable]:g}] for one label: "
                "only spaces whose continuous variables follow from the integer ones can be enumerated."
            )
        middle = (low + up) / 2
        # Propagated bounds carry rounding; snap what is integral up to it.
        labels[:, continuous] = np.where(np.abs(middle - np.rint(middle)) < 1e-9, np.rint(middle), middle)
    broken = broken_rows(space.matrix, space.row_lower, space.row_upper, labels, FEASIBILITY_TOLERANCE, space.row_units)
    fits = ~broken.any(axis=1)
    if continuous.size and not fits.all():
        # Bounds that approach each other slowly are not close enough for large coefficients: no proof of emptiness.
        vague = ~fits & (up - low > 1e-9 * np.maximum(1.0, np.abs(middle))).any(axis=1)
        if vague.any():
            label = int(np.argmax(vague))
            variable = int(np.argmax((up - low)[label]))
            raise DeclarationError(
                f"The value of the continuous variable {space.variable_names[continuous[variable]]} is found by bound "
                f"propagation only to [{low[label, variable]:.12g}, {up[label, variable]:.12g}], too rough for its "
                "rows: this space cannot be enumerated."
            )
    return np.asarray(labels[fits])


def propagated_bounds(space: CompiledSpace) -> tuple[FloatArray, FloatArray]:
    """Bounds of all variables that the rows imply."""
    everything = np.arange(space.n_variables)
    low, up = _propagate(space, everything, np.zeros((1, space.n_variables)), space.integrality)
    return low[0], up[0]


def _propagate(
    space: CompiledSpace,
    continuous: np.ndarray,
    labels: FloatArray,
    integer: np.ndarray | None = None,
    until_met: bool = False,
) -> tuple[FloatArray, FloatArray]:
    """Bounds of some variables implied by the rows, to a fixed point, for all labels at once.

    `integer` marks the integers among them, whose bounds are rounded. A label whose bounds cross has no completion and
    keeps them crossed. `until_met` stops as soon as all bounds have met, before the rows refute a label.
    """
    part = space.matrix[:, continuous].tocsr()
    columns, values = part.indices, part.data
    counts = np.diff(part.indptr)
    used = np.flatnonzero(counts)
    rows, row_starts, row_of = (
        np.repeat(np.arange(space.n_rows), counts),
        part.indptr[used],
        np.repeat(np.arange(len(used)), counts[used]),
    )
    low = np.tile(space.lower[continuous], (len(labels), 1))
    up = np.tile(space.upper[continuous], (len(labels), 1))
    if not len(values):
        return low, up
    fixed = np.asarray((space.matrix @ labels.T).T)[:, rows]  # continuous entries of `labels` are still 0
    row_upper, row_lower = space.row_upper[rows] - fixed, space.row_lower[rows] - fixed
    positive = values > 0
    order = np.argsort(columns, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(columns[order]) > 0])
    touched = columns[order][starts]
    empty = np.zeros(len(labels), dtype=np.bool_)
    for _ in range(_MOST_ROUNDS):
        ends = low[:, columns] * values, up[:, columns] * values
        most = (row_upper - _rest(np.minimum(*ends), row_starts, row_of)) / values
        least = (row_lower - _rest(np.maximum(*ends), row_starts, row_of)) / values
        new_up, new_low = np.where(positive, most, least), np.where(positive, least, most)
        tighter_up = np.minimum(up[:, touched], np.minimum.reduceat(new_up[:, order], starts, axis=1))
        tighter_low = np.maximum(low[:, touched], np.maximum.reduceat(new_low[:, order], starts, axis=1))
        if integer is not None:
            whole = integer[touched]
            tighter_up[:, whole] = np.floor(tighter_up[:, whole] + FEASIBILITY_TOLERANCE)
            tighter_low[:, whole] = np.ceil(tighter_low[:, whole] - FEASIBILITY_TOLERANCE)
        # Bounds that have met stay, and so do those of a label without completion: a crossing by rounding alone would
        # grow from round to round.
        was_up, was_low = up[:, touched], low[:, touched]
        size = np.where(np.isfinite(was_low), np.maximum(1.0, np.abs(was_low)), 1.0)
        met = tighter_low > tighter_up
        crossed = tighter_low > tighter_up + FEASIBILITY_TOLERANCE * size
        kept = empty[:, None] | ((was_up - was_low <= _MET * size) & ~crossed)
        middle = np.clip((np.where(met, tighter_low, 0.0) + np.where(met, tighter_up, 0.0)) / 2, was_low, was_up)
        tighter_up = np.where(kept, was_up, np.where(met & ~crossed, middle, tighter_up))
        tighter_low = np.where(kept, was_low, np.where(met & ~crossed, middle, tighter_low))
        empty |= crossed.any(axis=1)
        moved = ((tighter_up < was_up - _MET) | (tighter_low > was_low + _MET))[~empty].any()
        up[:, touched], low[:, touched] = tighter_up, tighter_low
        if not moved or (until_met and (up - low <= _MET).all()):
            break
    return low, up


def _rest(contribution: FloatArray, starts: np.ndarray, row_of: np.ndarray) -> FloatArray:
    """Sum of the other entries' contributions in the same row; infinite if another one is."""
    infinite = ~np.isfinite(contribution)
    some = infinite.any()
    finite = np.where(infinite, 0.0, contribution) if some else contribution
    total = np.add.reduceat(finite, starts, axis=1)[:, row_of] - finite
    if not some:
        return np.asarray(total)
    signed = np.where(infinite, np.sign(contribution), 0.0)
    others = np.add.reduceat(signed, starts, axis=1)[:, row_of] - signed
    return np.asarray(np.where(others > 0, np.inf, np.where(others < 0, -np.inf, total)))
