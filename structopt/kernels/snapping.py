"""The last look at a solver's answer: integer values made exactly integer, and its value recomputed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt.kernels._common import FloatArray, any_order

__all__ = ["snap", "snap_and_value"]


@any_order
def snap(z: FloatArray, integer: npt.NDArray[np.bool_], tolerance: float) -> bool:
    """Round the entries of `z` where `integer`, in place, if all of them are within `tolerance` of an integer.

    Returns whether they are; otherwise `z` is left as it was.
    """
    for j in range(len(z)):
        if integer[j] and not abs(z[j] - np.rint(z[j])) <= tolerance:
            return False
    for j in range(len(z)):
        if integer[j]:
            z[j] = np.rint(z[j])
    return True


@any_order
def snap_and_value(
    c: FloatArray, z: FloatArray, integer: npt.NDArray[np.bool_], tolerance: float
) -> tuple[bool, float]:
    """`snap`, and ``c . z`` after it.

    One compiled pass, because right after a solver's run every further function is paid for by cache misses.
    """
    integral = snap(z, integer, tolerance)
    value = 0.0
    for j in range(len(z)):
        value += c[j] * z[j]
    return integral, value
