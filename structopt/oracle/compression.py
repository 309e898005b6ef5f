"""A few dense rows as compressed sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import FloatArray, kernel

__all__ = ["compressed"]


@kernel
def compressed(dense: FloatArray) -> Any:
    """Values, columns and row starts of the entries that are not 0, in order."""
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
