"""Decorators that compile kernels with numba, conversion of their inputs, and the errors for their statuses.

A kernel is a numba function on flat arrays that returns a status instead of raising, so that a batch
runs without a Python object inside; the public function around it converts, calls and raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from structopt._jit.locks import compiled
from structopt.errors import DeclarationError, InfeasibleSpace

__all__ = [
    "BAD_NUMBER",
    "INFEASIBLE",
    "SOLVED",
    "any_order",
    "as_array",
    "assign",
    "check_front",
    "FloatArray",
    "IntArray",
    "fail",
    "fast",
    "floats",
    "in_place",
    "inlined",
    "inner",
    "integers",
    "kernel",
    "unusable",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Statuses that kernels return.
SOLVED, BAD_NUMBER, INFEASIBLE = 0, 1, 2

# Entries of the tables of a loss-indexed Pareto front: 2 GB.
_FRONT_ENTRIES = 1 << 28

_F = TypeVar("_F", bound=Callable[..., Any])


def kernel(function: _F) -> _F:
    """Compile with numba, cached on disk and without the GIL; keeps the type for mypy.

    numba's cache looks at the time of the function's own file only: after a change in a kernel that
    another file calls, remove ``__pycache__``.
    """
    return cast(_F, compiled(function))


def in_place(function: _F) -> _F:
    """`kernel` that allocates no array, returns none and calls nothing that returns one: without reference counts.

    They take time to compile where arguments are tuples of arrays, each of which is counted wherever the tuple goes.
    """
    return cast(_F, compiled(function, _nrt=False))


def inner(function: _F) -> _F:
    """`in_place` for a function that only kernels call: compiled in about 60 % of the time of a `kernel`.

    Examples
    --------
    >>> @inner
    ... def twice(x: float) -> float:
    ...     return 2.0 * x
    >>> twice(1.0)
    Traceback (most recent call last):
    TypeError: twice is called by other kernels only; its py_func is in Python.
    >>> twice.py_func(1.0)
    2.0
    """
    return cast(_F, compiled(function, inner=True, _nrt=False))


def inlined(function: _F) -> _F:
    """A function inlined into the kernels that call it: passing tuples of arrays takes longer than small loops do."""
    return cast(_F, numba.njit(inline="always")(function))


def any_order(function: _F) -> _F:
    """`kernel` for inner products: sums may be taken in any order, so that they vectorise (NaN stays NaN)."""
    return cast(_F, compiled(function, fastmath={"reassoc", "contract", "nsz"}))


def fast(*rules: str) -> Callable[[_F], _F]:
    """`kernel` under other rules of LLVM for floating-point numbers.

    Examples
    --------
    >>> @fast("nnan", "nsz")
    ... def larger(a: float, b: float) -> float:
    ...     return max(a, b)
    >>> larger(1.0, 2.0)
    2.0
    """

    def decorate(function: _F) -> _F:
        return cast(_F, compiled(function, fastmath=set(rules)))

    return decorate


@kernel
def assign(target: Any, source: Any) -> None:
    """``target[:] = source`` in one dimension, which numba compiles for seconds because it might have to broadcast."""
    for k in range(target.size):
        target[k] = source[k]


@kernel
def unusable(x: FloatArray) -> bool:
    """Whether a flat array holds NaN or +inf."""
    bad = False
    for i in range(x.size):
        bad |= not (x[i] < np.inf)
    return bad


def floats(values: npt.ArrayLike, name: str, ndim: int) -> FloatArray:
    """`values` as a contiguous, writable float64 array of `ndim` dimensions, without a copy if it is one."""
    array = values if isinstance(values, np.ndarray) else as_array(values, name)
    if array.ndim != ndim:
        raise DeclarationError(f"{name} must have {ndim} dimensions; it has shape {array.shape}.")
    if array.dtype != np.float64:
        array = _numbers(array, name)
    array = np.ascontiguousarray(array)
    # A read-only array is another type for numba and would be compiled for seconds: a copy is cheaper.
    return array if array.flags.writeable else array.copy()


def integers(values: npt.ArrayLike, name: str, ndim: int) -> IntArray:
    """`values` as a contiguous, writable int64 array of `ndim` dimensions; fractions are refused."""
    array = values if isinstance(values, np.ndarray) else as_array(values, name)
    if array.ndim != ndim:
        raise DeclarationError(f"{name} must have {ndim} dimensions; it has shape {array.shape}.")
    if array.dtype != np.int64:
        array = _whole(array, name)
    array = np.ascontiguousarray(array)
    return array if array.flags.writeable else array.copy()


def as_array(values: Any, name: str) -> npt.NDArray[Any]:
    """`values` as an array of any type; what has no shape is refused."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise DeclarationError(f"{name} must be an array of numbers ({error}).") from None


def _numbers(array: npt.NDArray[Any], name: str) -> FloatArray:
    """Real numbers of any type as float64; objects are taken one by one."""
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    if array.dtype.kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            pass
    raise DeclarationError(f"{name} must hold real numbers; it has dtype {array.dtype}.")


def _whole(array: npt.NDArray[Any], name: str) -> IntArray:
    if array.dtype.kind == "b" or (array.dtype.kind in "iu" and array.dtype != np.uint64):
        return array.astype(np.int64)
    if not array.size and array.dtype.kind in "fO":
        return np.empty(array.shape, dtype=np.int64)  # an empty list is one of floats
    values = _numbers(array, name)
    wrong = np.flatnonzero(~((values == np.rint(values)) & (np.abs(values) < 2.0**53)).ravel())
    if wrong.size:
        raise DeclarationError(f"{name} must hold integers; entry {int(wrong[0])} is {values.ravel()[wrong[0]]}.")
    return values.astype(np.int64)


def check_front(losses: IntArray, copies: int) -> None:
    """Refuse integer losses whose table, one row for each value of their sum, does not fit into memory."""
    total = float(np.abs(losses.astype(np.float64)).sum())
    if (total + 1.0) * copies > _FRONT_ENTRIES:
        raise DeclarationError(
            f"The Pareto front has an entry for every value of the loss: losses that sum to {total:.3g} need too many. "
            "Divide the losses by a common factor."
        )


def fail(status: int, numbers: str, empty: str, index: int = -1) -> NoReturn:
    """Raise the error of a kernel's status; `index` is the failing row of a batch."""
    where = "" if index < 0 else f"Example {index} of the batch: "
    if status == BAD_NUMBER:
        raise DeclarationError(f"{where}{numbers}")
    raise InfeasibleSpace(f"{where}{empty}")
