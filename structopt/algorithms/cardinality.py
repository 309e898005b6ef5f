"""Boxes, simplices and groups of 0/1 variables with a bounded number of ones (docs/mathematics/oracles).

Every variable is in at most one group; those in none are free, 1 where the cost is positive. Ties: the smallest number
of ones, and among equal costs the variables
that their group lists first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt._jit import FloatArray, IntArray, as_array, floats, integers, kernel
from structopt.algorithms.lawler import BoolArray
from structopt.errors import DeclarationError, InfeasibleSpace, UnboundedObjective

__all__ = ["box", "box_batch", "choose", "choose_batch", "choose_rows", "first_best", "top_k"]


def choose(
    c: npt.ArrayLike,
    ptr: npt.ArrayLike,
    columns: npt.ArrayLike,
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
) -> tuple[BoolArray, float]:
    """The best 0/1 vector with ``lower[i] <= sum over group i <= upper[i]``.

    Parameters
    ----------
    c : array_like, shape (n,)
        Costs, maximised.
    ptr, columns : array_like of int
        Group i has the variables ``columns[ptr[i]:ptr[i + 1]]``.
    lower, upper : array_like of int, shape (n_groups,)

    Returns
    -------
    z : ndarray of bool, shape (n,)
    value : float

    Examples
    --------
    >>> z, value = choose([3, -1, 2, 2, -4], [0, 3, 5], [0, 1, 2, 3, 4], [0, 2], [1, 2])
    >>> z.astype(int).tolist(), value
    ([1, 0, 0, 1, 1], 1.0)
    """
    z, values = choose_batch(floats(c, "c", 1).reshape(1, -1), ptr, columns, lower, upper)
    return z[0], float(values[0])


def choose_batch(
    C: npt.ArrayLike,
    ptr: npt.ArrayLike,
    columns: npt.ArrayLike,
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
) -> tuple[BoolArray, FloatArray]:
    """`choose` for every row of `C`, shape (n_examples, n)."""
    costs = floats(C, "C", 2)
    starts, members = integers(ptr, "ptr", 1), integers(columns, "columns", 1)
    low, high = integers(lower, "lower", 1), integers(upper, "upper", 1)
    _check_groups(costs.shape[1], starts, members, low, high)
    z, values, finite = choose_rows(costs, starts, members, low, high)
    if not finite:
        _refuse(costs)
    return z, values


def top_k(c: npt.ArrayLike, k: int, exactly: bool = False) -> tuple[BoolArray, float]:
    """At most k ones (or exactly k) over all variables.

    Examples
    --------
    >>> top_k([1, 3, -2, 3], 2)[0].astype(int).tolist()
    [0, 1, 0, 1]
    """
    costs = floats(c, "c", 1)
    return choose(costs, [0, costs.size], np.arange(costs.size), [k if exactly else 0], [k])


def first_best(C: npt.ArrayLike) -> tuple[IntArray, FloatArray]:
    """The best vertex of a simplex for every row of `C`: the first largest entry and its cost.

    Examples
    --------
    >>> index, values = first_best([[1, 4, 4], [0, -1, -2]])
    >>> index.tolist(), values.tolist()
    ([1, 0], [4.0, 0.0])
    """
    costs = floats(C, "C", 2)
    if not costs.shape[1]:
        raise InfeasibleSpace("A simplex without variables has no vertex.")
    index = costs.argmax(axis=1)
    values = costs[np.arange(len(costs)), index]
    # argmax stops at a NaN or +inf, so its value tells; -inf elsewhere just never wins.
    if not np.isfinite(values).all():
        _refuse(costs)
    return index, values


def box(c: npt.ArrayLike, lower: npt.ArrayLike = 0.0, upper: npt.ArrayLike = 1.0) -> tuple[FloatArray, float]:
    """The best point of a box: the upper bound where the cost is positive, else the lower one.

    A variable of cost 0 without a lower bound takes its upper bound, or 0 if it has neither.

    Examples
    --------
    >>> z, value = box([2.0, 0.0, -1.0], upper=[1, 1, 3])
    >>> z.tolist(), value
    ([1.0, 0.0, 0.0], 2.0)
    """
    z, values = box_batch(floats(c, "c", 1).reshape(1, -1), lower, upper)
    return z[0], float(values[0])


def box_batch(
    C: npt.ArrayLike, lower: npt.ArrayLike = 0.0, upper: npt.ArrayLike = 1.0
) -> tuple[FloatArray, FloatArray]:
    """`box` for every row of `C`, shape (n_examples, n)."""
    costs = floats(C, "C", 2)
    if not np.isfinite(costs).all():
        _refuse(costs)
    low, high = (_bounds(given, costs.shape[1], name) for given, name in ((lower, "lower"), (upper, "upper")))
    if not (low <= high).all() or (low == np.inf).any() or (high == -np.inf).any():
        j = int(np.flatnonzero(~(low <= high) | (low == np.inf) | (high == -np.inf))[0])
        raise InfeasibleSpace(f"Variable {j} has the bounds [{low[j]}, {high[j]}].")
    rest = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
    z = np.where(costs > 0, high, np.where(costs < 0, low, rest))
    if not np.isfinite(z).all():
        row, j = (int(i) for i in np.argwhere(~np.isfinite(z))[0])
        raise UnboundedObjective(f"Variable {j} has cost {costs[row, j]} and no bound on that side.", (str(j),))
    return z, np.einsum("ij,ij->i", costs, z)


def _bounds(given: npt.ArrayLike, n: int, name: str) -> FloatArray:
    """One bound for all variables, or one for each."""
    bounds = as_array(given, name)
    if bounds.shape not in ((), (n,)):
        raise DeclarationError(f"{name} must be a number or have {n} entries; it has shape {bounds.shape}.")
    return np.broadcast_to(floats(bounds, name, bounds.ndim), (n,))


def _refuse(costs: FloatArray) -> None:
    row, j = (int(i) for i in np.argwhere(~np.isfinite(costs))[0])
    raise DeclarationError(f"Cost {j} of example {row} is {costs[row, j]}; costs must be finite.")


def _check_groups(n: int, ptr: IntArray, columns: IntArray, lower: IntArray, upper: IntArray) -> None:
    groups = len(ptr) - 1
    if groups < 0 or ptr[0] != 0 or ptr[-1] != len(columns) or (ptr[1:] < ptr[:-1]).any():
        raise DeclarationError(f"ptr must rise from 0 to the {len(columns)} entries of columns.")
    if len(lower) != groups or len(upper) != groups:
        raise DeclarationError(f"There are {groups} groups; lower has {len(lower)} and upper {len(upper)} entries.")
    if len(columns):
        if columns.min() < 0 or columns.max() >= n:
            raise DeclarationError(f"columns must hold variables 0..{n - 1}.")
        count = np.bincount(columns, minlength=n)
        if count.max() > 1:
            raise DeclarationError(f"Variable {int(count.argmax())} is in more than one group.")
    empty = (lower > upper) | (lower > np.diff(ptr)) | (upper < 0)
    if empty.any():
        i = int(empty.argmax())
        raise InfeasibleSpace(
            f"Group {i} of {int(ptr[i + 1] - ptr[i])} variables cannot have between {lower[i]} and {upper[i]} ones."
        )


@kernel
def choose_rows(
    C: FloatArray, ptr: IntArray, columns: IntArray, lower: IntArray, upper: IntArray
) -> tuple[BoolArray, FloatArray, bool]:
    """`choose` for every row of `C`, without its checks; the last answer says whether all numbers were finite."""
    count, n = C.shape
    z = np.empty((count, n), np.bool_)
    values = np.zeros(count)
    scratch = np.empty(columns.size)
    for e in range(count):
        c, out = C[e], z[e]
        bad = False
        for j in range(n):
            bad |= not (abs(c[j]) < np.inf)
            out[j] = c[j] > 0.0
        if bad:
            return z, values, False
        for g in range(ptr.size - 1):
            first, size = ptr[g], ptr[g + 1] - ptr[g]
            positive = 0
            for q in range(first, first + size):
                positive += out[columns[q]]
            # The prefix sums of the sorted costs rise as long as costs are positive: the best number is a clip.
            best = min(max(positive, lower[g]), min(upper[g], size))
            if best != positive:
                _take(c, columns[first : first + size], best, scratch[:size], out)
        for j in range(n):
            values[e] += c[j] if out[j] else 0.0
    return z, values, True


@kernel
def _take(c: FloatArray, group: IntArray, k: int, scratch: FloatArray, out: BoolArray) -> None:
    """Set the k largest of a group, the first ones among equals, without sorting it."""
    size = group.size
    if k == 0:
        for q in range(size):
            out[group[q]] = False
        return
    for q in range(size):
        scratch[q] = c[group[q]]
    threshold = _kth_largest(scratch, k)
    spare = k
    for q in range(size):
        above = c[group[q]] > threshold
        out[group[q]] = above
        spare -= above
    for q in range(size):
        if spare and c[group[q]] == threshold:
            out[group[q]] = True
            spare -= 1


@kernel
def _kth_largest(x: FloatArray, k: int) -> float:
    """Hoare's selection; `x` is permuted. (numba's `np.partition` takes several seconds to compile.)"""
    left, right, want = 0, x.size - 1, k - 1
    while left < right:
        pivot = x[(left + right) // 2]
        i, j = left, right
        while i <= j:
            while x[i] > pivot:
                i += 1
            while x[j] < pivot:
                j -= 1
            if i <= j:
                x[i], x[j] = x[j], x[i]
                i += 1
                j -= 1
        if want <= j:
            right = j
        elif want >= i:
            left = i
        else:
            break
    return float(x[want])
