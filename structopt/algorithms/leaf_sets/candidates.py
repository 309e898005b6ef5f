"""Sets of leaves in a DAG: a good label, and the leaves that a better one may have.

The linear program of NHSVM (19) is weak where gains are negative: half a leaf serves two parents, half of each. Its
value is then far above the best label's, and branch and bound on tens of thousands of nodes does not close the gap.
A bound for each leaf does: it is exact where no gain is positive, and weaker the more of them are.

**The bound of a leaf.** Let k(c) be the number of parents of c, and ``worth(v)`` what v may add with all that comes
with it when every node is paid by its parents in equal shares: ``gain(v)``, and of its children at least one, at
``worth(c) / k(c)`` each.

A label y with leaf l holds l and its ancestors, A, and perhaps more, B. An inner node v of B has children in y, all of
them in B, so that ``gain(v) <= worth(v) - sum of worth(c) / k(c)`` over these. All parents of a node of B are in A or
B: summed over B, of each ``worth(c)`` just the shares of its parents in A are left. Hence ``value(y) <= sum over A of
gain(v) + sum over children c of A outside A of max(0, worth(c)) / k(c)``; and as all parents of a node of A are in A,
this is a sum over A of numbers that do not depend on the leaf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import IntArray, kernel
from structopt.hierarchy import Hierarchy
from structopt.space.compiled import FloatArray

__all__ = ["candidates", "greedy_label"]

# Leaves to add one at a time; each takes a product with the closure.
_ADDED = 30


def greedy_label(h: Hierarchy, gain: FloatArray) -> FloatArray:
    """The best leaf with its ancestors, then the leaf that adds most, as long as one adds anything."""
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
    """Leaves, by number, that a label above a value may have; the bound of labels with no such leaf.

    A leaf whose bound exceeds the value by at most `slack` is left out.
    """
    own = np.empty(len(h))
    elsewhere = extras(gain, h.parent_ptr, h.parent, own)
    bound = h.closure @ own + elsewhere
    better = bound > value + slack
    return np.flatnonzero(better), float(bound[~better].max(initial=-np.inf))


@kernel
def extras(gain: Any, parent_ptr: Any, parent: Any, own: Any) -> float:
    """Numbers `own` of the nodes: a leaf's bound is their sum over it and its ancestors, plus the one returned.

    Nodes are numbered parents first, `parent_ptr` and `parent` list the parents of each. The bound of a leaf is
    proved in the docstring of this module.
    """
    n = gain.size
    best = np.full(n, -np.inf)  # largest share of a child's worth
    for v in range(n):
        own[v] = gain[v]
    elsewhere = 0.0  # what roots may add
    for v in range(n - 1, -1, -1):
        worth = own[v]  # its children are done: this is the gain and their positive shares
        if -np.inf < best[v] < 0.0:
            worth += best[v]
        extra = max(0.0, worth)
        own[v] -= extra
        n_parents = parent_ptr[v + 1] - parent_ptr[v]
        if n_parents == 0:
            elsewhere += extra
        for e in range(parent_ptr[v], parent_ptr[v + 1]):
            own[parent[e]] += extra / n_parents
            best[parent[e]] = max(best[parent[e]], worth / n_parents)
    return elsewhere
