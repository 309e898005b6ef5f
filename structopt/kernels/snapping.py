"""The last look at a solver's answer: integer values made exactly integer, and its value recomputed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt.kernels._common import FloatArray, any_order

__all__ = ["snap_and_value"]


@any_order
def snap_and_value(
    c: FloatArray, z: FloatArray, integer: npt.NDArray[np.bool_], tolerance: float
) -> tuple[bool, float]:
    """Round the entries of `z` where `integer`, in place, if all of them are within `tolerance` of an integer.

    One compiled pass, because right after a solver's run every further function is paid for by cache misses.

    Returns
    -------
    integral : bool
        Whether they are; otherwise `z` is left as it was.
    value : float
        ``c . z``, after the rounding.
    """
    integral = True
    for j in range(len(z)):
        if integer[j] and not abs(z[j] - np.rint(z[j])) <= tolerance:
            integral = False
            break
    if integral:
        for j in range(len(z)):
            if integer[j]:
                z[j] = np.rint(z[j])
    value = 0.0
    for j in range(len(z)):
        value += c[j] * z[j]
    return integral, value
