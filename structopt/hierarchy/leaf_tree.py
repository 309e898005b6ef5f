"""`LeafTree`: a tree whose single leaves are the labels, with the error between two of them, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["LeafTree"]


class LeafTree(NamedTuple):
    """The arrays with which compiled code finds the best leaf of a tree, and its error."""

    parent: npt.NDArray[np.int64]
    is_leaf: npt.NDArray[np.bool_]
    factor: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    rooted: bool
