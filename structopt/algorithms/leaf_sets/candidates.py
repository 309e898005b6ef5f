"""Sets of leaves in a DAG: a good label, and the leaves that a better one may have.

The linear program of NHSVM (19) is weak where gains are negative: half a leaf serves two parents, half of each. Its
value is then far above the best label's, and branch and bound on tens of thousands of nodes does not close the gap.
A bound for each leaf does: it is exact where no gain is positive, and weaker the more of them are.
"""

from __future__ import annotations

import numpy as np

from structopt._jit import IntArray
from structopt.algorithms.leaf_sets.extras import extras
from structopt.hierarchy import Hierarchy
from structopt.space.compiled import FloatArray

__all__ = ["candidates", "greedy_label"]

# Leaves to add one at a time; each takes a product with the closure.
_ADDED = 30


def greedy_label(h: Hierarchy, gain: FloatArray) -> FloatArray:
    """The best leaf with its ancestors, then the leaf that adds most, as long as one adds anything.

    Examples
    --------
    >>> import structopt as so
    >>> h = so.Hierarchy([("r", "p"), ("r", "q"), ("p", "a"), ("p", "b"), ("q", "b"), ("q", "c")])
    >>> h.nodes
    ('r', 'p', 'q', 'a', 'b', 'c')
    >>> greedy_label(h, np.array([0.0, 1.0, -1.0, 0.5, -3.0, 1.5]))
    array([1., 1., 1., 1., 0., 1.])
    """
    closure, z = h.closure, np.zeros(len(h))
    left = gain.copy()
    for _ in range(_ADDED):
        adds = closure @ left
        best = int(adds.argmax())
        if z.any() and not adds[best] > 0.0:
            break
        members = closure.indices[closure.indptr[best] : closure.indptr[best + 1]]
        z[members] = 1.0
        left[members] = 0.0
    return z


def candidates(h: Hierarchy, gain: FloatArray, value: float, slack: float) -> tuple[IntArray, float]:
    """Leaves, numbered among the leaves, of which a label may exceed a value; the bound of labels with no such leaf.

    A leaf whose bound is above the value by no more than `slack` is none.

    Examples
    --------
    >>> import structopt as so
    >>> h = so.Hierarchy([("r", "p"), ("r", "q"), ("p", "a"), ("p", "b"), ("q", "b"), ("q", "c")])
    >>> gain = np.array([0.0, -1.0, -1.0, -2.0, -0.5, -3.0])  # r p q a b c
    >>> candidates(h, gain, -2.5, 1e-9)
    (array([], dtype=int64), -2.5)
    >>> candidates(h, gain, -3.0, 1e-9)
    (array([1]), -3.0)
    """
    own = np.empty(len(h))
    elsewhere = extras(gain, h.parent_ptr, h.parent, own)
    bound = h.closure @ own + elsewhere
    better = bound > value + slack
    return np.flatnonzero(better), float(bound[~better].max(initial=-np.inf))
