"""Sweeps over a directed acyclic graph, O(nodes + arcs): order, levels, ancestor sets.

Nodes are numbered 0 .. n-1. `up_ptr, up` list the parents of every node in CSR form: those of node v are
``up[up_ptr[v]:up_ptr[v + 1]]``. Except in `topological_order`, parents are numbered before children.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from structopt._jit import IntArray, assign, integers, kernel
from structopt.errors import DeclarationError

__all__ = ["ancestor_sets", "levels", "topological_order"]


def ancestor_sets(
    ptr: npt.ArrayLike, member: npt.ArrayLike, up_ptr: IntArray, up: IntArray
) -> tuple[IntArray, IntArray]:
    """Every set of nodes together with all its ancestors, ascending.

    Set i is ``member[ptr[i]:ptr[i + 1]]``; so is the answer. The work is the number of arcs inside the answer.
    """
    bounds, members = integers(ptr, "ptr", 1), integers(member, "member", 1)
    above = integers(up_ptr, "up_ptr", 1)
    n = above.size - 1
    if bounds.size < 1 or bounds[0] != 0 or bounds[-1] != members.size or (bounds[1:] < bounds[:-1]).any():
        raise DeclarationError(f"ptr must rise from 0 to the {members.size} entries of member.")
    if members.size and (members.min() < 0 or members.max() >= n):
        raise DeclarationError(f"member must hold nodes 0..{n - 1}.")
    out_ptr, out = _ancestor_sets(bounds, members, above, integers(up, "up", 1))
    # All sets are sorted in one call of numpy: a sort in a kernel takes a second to compile.
    first = np.repeat(np.arange(len(out_ptr) - 1) * n, np.diff(out_ptr))
    out += first
    out.sort()
    out -= first
    return out_ptr, out


@kernel
def topological_order(n: int, parent: IntArray, child: IntArray) -> IntArray:
    """Nodes with parents before children, the smallest number first among those that could be next.

    Nodes on a cycle, and those below one, are missing from the answer.
    """
    waiting = np.zeros(n, np.int64)
    ptr = np.zeros(n + 1, np.int64)
    for e in range(child.size):
        waiting[child[e]] += 1
        ptr[parent[e] + 1] += 1
    for v in range(n):
        ptr[v + 1] += ptr[v]
    fill = ptr[:n].copy()
    below = np.empty(child.size, np.int64)
    for e in range(child.size):
        below[fill[parent[e]]] = child[e]
        fill[parent[e]] += 1
    # Ascending, hence a heap already.
    ready = [v for v in range(n) if waiting[v] == 0]
    order = np.empty(n, np.int64)
    count = 0
    while len(ready):
        v = heapq.heappop(ready)
        order[count] = v
        count += 1
        for k in range(ptr[v], ptr[v + 1]):
            waiting[below[k]] -= 1
            if waiting[below[k]] == 0:
                heapq.heappush(ready, below[k])
    return order[:count]


@kernel
def levels(up_ptr: IntArray, up: IntArray) -> IntArray:
    """Return the number of arcs on the longest path from a root to each node."""
    level = np.zeros(up_ptr.size - 1, np.int64)
    for v in range(level.size):
        for k in range(up_ptr[v], up_ptr[v + 1]):
            level[v] = max(level[v], level[up[k]] + 1)
    return level


@kernel
def _ancestor_sets(ptr: IntArray, member: IntArray, up_ptr: IntArray, up: IntArray) -> tuple[IntArray, IntArray]:
    n, n_sets = up_ptr.size - 1, ptr.size - 1
    seen = np.full(n, -1, np.int64)
    found = np.empty(n, np.int64)
    out_ptr = np.zeros(n_sets + 1, np.int64)
    out = np.empty(max(16, 4 * member.size), np.int64)
    for i in range(n_sets):
        count = 0
        for k in range(ptr[i], ptr[i + 1]):
            if seen[member[k]] != i:
                seen[member[k]] = i
                found[count] = member[k]
                count += 1
        done = 0
        while done < count:
            v = found[done]
            done += 1
            for k in range(up_ptr[v], up_ptr[v + 1]):
                if seen[up[k]] != i:
                    seen[up[k]] = i
                    found[count] = up[k]
                    count += 1
        first = out_ptr[i]
        if first + count > out.size:
            grown = np.empty(max(2 * out.size, first + count), np.int64)
            assign(grown[:first], out)
            out = grown
        assign(out[first : first + count], found)
        out_ptr[i + 1] = first + count
    return out_ptr, out[: out_ptr[n_sets]].copy()
