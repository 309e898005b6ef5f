"""Small cuts of a directed graph between a root and every other node, by maximum flows."""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import FloatArray, assign, kernel
from structopt.algorithms.odd_cuts import smallest_cut

__all__ = ["rooted_cuts_below"]


@kernel
def rooted_cuts_below(weights: FloatArray, limit: float) -> Any:
    """Return sets without node 0 that arcs of weight below `limit` enter, and at least one if there are any."""
    n = len(weights)
    cuts, n_cuts = np.zeros((n, n), dtype=np.bool_), 0
    covered = np.zeros(n, dtype=np.bool_)
    inside, parent, queue = np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    residual = np.empty_like(weights)
    for t in range(1, n):
        if covered[t]:  # in a set that is too small to enter already
            continue
        for v in range(n):
            assign(residual[v], weights[v])
        if smallest_cut(residual, 0, t, inside, parent, queue) < limit:
            for v in range(n):
                cuts[n_cuts, v] = not inside[v]
                covered[v] |= not inside[v]
            n_cuts += 1
    return cuts[:n_cuts]
