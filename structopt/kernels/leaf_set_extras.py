"""Sets of leaves in a DAG: what the labels with a given leaf can be worth at most.

A label y with leaf l holds l and its ancestors, A, and perhaps more, B. Let ``ext(v)`` be what v and all that can come
with it may add: ``max(0, gain(v) + sum over children c of ext(c) / parents(c))``. Summed over B, ``gain(v) <= ext(v) -
sum of ext(c) / parents(c)`` over its children in B; every parent of a node of B is in A or B, so that of ``ext(c)``
just the shares of its parents in A are left. Hence ``value(y) <= sum over A of gain(v) + sum over children c outside A
of ext(c) / parents(c)``, and as all parents of a node of A are in A, this is a sum over A of numbers that do not depend
on the leaf.
"""

from __future__ import annotations

from typing import Any

from structopt.kernels._common import kernel

__all__ = ["extras"]


@kernel
def extras(gain: Any, parent_ptr: Any, parent: Any, own: Any) -> float:
    """Numbers `own` of the nodes: a leaf's bound is their sum over it and its ancestors, plus the one returned.

    Nodes are numbered parents first, `parent_ptr` and `parent` list the parents of each.
    """
    n = gain.size
    for v in range(n):
        own[v] = gain[v]
    elsewhere = 0.0  # what roots may add
    for v in range(n - 1, -1, -1):
        ext = max(0.0, own[v])  # its children are done: own is the gain and their shares
        own[v] -= ext
        n_parents = parent_ptr[v + 1] - parent_ptr[v]
        if n_parents == 0:
            elsewhere += ext
        for e in range(parent_ptr[v], parent_ptr[v + 1]):
            own[parent[e]] += ext / n_parents
    return elsewhere
