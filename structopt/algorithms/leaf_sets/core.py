"""Sets of leaves in a DAG: elimination of subtrees under a single parent (docs/mathematics/hierarchies#sets-of-leaves).

Nodes are numbered parents first; node 0 stands above all roots. Below a node v whose descendants have one parent each,
all rows are homogeneous in ``z_v``, so that the best there is a number times ``z_v``: the value of the tree's dynamic
program, for labels and for the linear program alike. What is left, the nodes with several parents and all above them,
is called the core.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import kernel

__all__ = ["fold", "unfold"]


@kernel
def fold(
    gain: Any, above: Any, place: Any, inner: Any, worth: Any, best: Any, best_child: Any, many: Any, rho: Any,
    needy: Any, alt: Any,
) -> float:  # fmt: skip
    """Gains `rho` of the core's nodes with what hangs below them; the largest magnitude of all these.

    `place` is a node's number in the core or -1, `above` its parent where it is not in the core, `inner` whether a
    node of the core has children in the core. `worth` of a node outside is what one unit of it adds with all below it:
    it takes all children that are worth more than 0 (`many`), or else its `best_child`. In the core, a node that such
    children do not satisfy is `needy`: it needs a child in the core, or one outside at `alt` a unit (-inf: has none).
    """
    n = gain.size
    for v in range(n):
        worth[v] = gain[v]
        best[v] = -np.inf
        best_child[v] = -1
        many[v] = False
    for v in range(n - 1, 0, -1):
        if place[v] >= 0:
            continue
        if best_child[v] >= 0 and not many[v]:
            worth[v] += best[v]
        p = above[v]
        if worth[v] > best[p]:
            best[p] = worth[v]
            best_child[p] = v
        if worth[v] > 0.0:
            worth[p] += worth[v]
            many[p] = True
    largest = 0.0
    for v in range(n):
        k = place[v]
        if k < 0:
            continue
        rho[k] = worth[v]
        alt[k] = best[v]
        needy[k] = inner[k] and not best[v] >= 0.0
        if not inner[k] and best_child[v] >= 0 and not many[v]:
            rho[k] += best[v]
        largest = max(largest, abs(rho[k]))
        if needy[k] and best_child[v] >= 0:
            largest = max(largest, abs(alt[k]))
    return largest


@kernel
def unfold(
    x: Any, s: Any, above: Any, place: Any, inner: Any, worth: Any, best: Any, best_child: Any, many: Any, z: Any
) -> None:
    """The whole point `z` from the core's `x` and from `s`, what needy nodes take of their best child outside."""
    for v in range(z.size):
        k = place[v]
        if k >= 0:
            z[v] = x[k]
            continue
        p = above[v]
        z[v] = 0.0
        if many[p]:
            if worth[v] > 0.0:
                z[v] = z[p]
        elif best_child[p] == v:
            q = place[p]
            z[v] = s[q] if q >= 0 and inner[q] and best[p] < 0.0 else z[p]
