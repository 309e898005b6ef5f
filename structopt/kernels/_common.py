"""What every kernel file shares: the compiler settings, input conversion and the errors.

A kernel is a numba function on flat arrays that returns a status instead of raising, so that a batch
runs without a Python object inside; the public function around it converts, calls and raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from structopt.errors import DeclarationError, InfeasibleSpace

__all__ = [
    "BAD_NUMBER",
    "INFEASIBLE",
    "SOLVED",
    "any_order",
    "assign",
    "FloatArray",
    "IntArray",
    "fail",
    "floats",
    "inlined",
    "integers",
    "kernel",
    "unusable",
]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

#: Statuses that kernels return.
SOLVED, BAD_NUMBER, INFEASIBLE = 0, 1, 2

_F = TypeVar("_F", bound=Callable[..., Any])


def kernel(function: _F) -> _F:
    """Compile with numba, cached on disk and without the GIL; keeps the type for mypy.

    numba's cache looks at the time of the function's own file only: after a change in a kernel that
    another file calls, remove ``__pycache__``.
    """
    return cast(_F, numba.njit(cache=True, nogil=True)(function))


def inlined(function: _F) -> _F:
    """A part of a kernel: pasted into it, because handing tuples of arrays over costs more than small loops do."""
    return cast(_F, numba.njit(inline="always")(function))


def any_order(function: _F) -> _F:
    """`kernel` for inner products: sums may be taken in any order, so that they vectorise (NaN stays NaN)."""
    return cast(_F, numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})(function))


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
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.ndim != ndim:
        raise DeclarationError(f"{name} must have {ndim} dimensions; it has shape {array.shape}.")
    # A read-only array is another type for numba and would be compiled for seconds: a copy is cheaper.
    return array if array.flags.writeable else array.copy()


def integers(values: npt.ArrayLike, name: str, ndim: int) -> IntArray:
    """`values` as a contiguous, writable int64 array of `ndim` dimensions; fractions are refused."""
    array = np.asarray(values)
    if array.dtype != np.int64:
        exact = array.astype(np.int64)
        if array.size and not np.array_equal(exact, array):
            raise DeclarationError(f"{name} must hold integers.")
        array = exact
    array = np.ascontiguousarray(array)
    if array.ndim != ndim:
        raise DeclarationError(f"{name} must have {ndim} dimensions; it has shape {array.shape}.")
    return array if array.flags.writeable else array.copy()


def fail(status: int, numbers: str, empty: str, index: int = -1) -> NoReturn:
    """Raise the error of a kernel's status; `index` is the culprit in a batch."""
    where = "" if index < 0 else f"Example {index} of the batch: "
    if status == BAD_NUMBER:
        raise DeclarationError(f"{where}{numbers}")
    raise InfeasibleSpace(f"{where}{empty}")
