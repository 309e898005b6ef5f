"""Whether sets of nodes, given as the rows of a table, contain all their ancestors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray, kernel

__all__ = ["all_closed"]


@kernel
def all_closed(rows: npt.NDArray[np.bool_], parent_ptr: IntArray, parent: IntArray) -> bool:
    """Whether in every row all parents of a node that is on are on.

    Examples
    --------
    The path 0 - 1 - 2:

    >>> ptr, parent = np.array([0, 0, 1, 2]), np.array([0, 1])
    >>> all_closed(np.array([[True, True, False], [False, False, False]]), ptr, parent)
    True
    >>> all_closed(np.array([[True, False, True]]), ptr, parent)
    False
    """
    n_rows, n_nodes = rows.shape
    for i in range(n_rows):
        for j in range(n_nodes):
            if rows[i, j]:
                for k in range(parent_ptr[j], parent_ptr[j + 1]):
                    if not rows[i, parent[k]]:
                        return False
    return True
