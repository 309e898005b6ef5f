"""`LeafTree`: a tree whose single leaves are the labels, with the error between two of them, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["LeafTree"]


class LeafTree(NamedTuple):
    """The arrays with which compiled code finds the best leaf of a tree, and its error.

    Attributes
    ----------
    parent : ndarray of int
        Of each node, -1 at roots; parents before their children.
    is_leaf : ndarray of bool
    factor : ndarray
        Node n scores ``factor_n <w_n, x>``.
    weight : ndarray
        The error between two leaves is the sum of the weights of the nodes that only one of their paths has,
    rooted : bool
        or the square root of that sum.
    """

    parent: npt.NDArray[np.int64]
    is_leaf: npt.NDArray[np.bool_]
    factor: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    rooted: bool
