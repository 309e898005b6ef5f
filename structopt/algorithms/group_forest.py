"""Max-sum on a forest of one-of-many groups: chains and trees with any number of states, as they were declared.

Group g has the states ``column[state_ptr[g]:state_ptr[g + 1]]``; the pairs of states that may meet across the edge to
its parent are listed one by one, with the column of their pair variable or -1. Parents come before children. Ties: the
first state of a root, then the first pair of every edge.
"""

from __future__ import annotations

import numpy as np

from structopt._jit import FloatArray, IntArray, kernel

__all__ = ["best_states"]


@kernel
def best_states(
    C: FloatArray,
    state_ptr: IntArray,
    column: IntArray,
    parent: IntArray,
    pair_ptr: IntArray,
    above: IntArray,
    below: IntArray,
    pair: IntArray,
    Z: FloatArray,
) -> int:
    """Write the best label of every row of `C` into `Z` (zeros); return the first row that has none, or -1.

    From the leaves to the roots every state collects, for each child, its best pair with a state of the child; from
    the roots down the pairs remembered are followed. O(states + pairs) a row.
    """
    n_groups, n_states = parent.size, column.size
    score = np.empty(n_states)
    # Of every state of g's parent: the best pair with a state of g, at reach[g] + state.
    reach = np.zeros(n_groups + 1, dtype=np.int64)
    for g in range(n_groups):
        size = state_ptr[parent[g] + 1] - state_ptr[parent[g]] if parent[g] >= 0 else 0
        reach[g + 1] = reach[g] + size
    value, choice = np.empty(reach[n_groups]), np.empty(reach[n_groups], dtype=np.int64)
    state = np.empty(n_groups, dtype=np.int64)
    for row in range(len(C)):
        c, z = C[row], Z[row]
        for s in range(n_states):
            score[s] = c[column[s]]
        for g in range(n_groups - 1, -1, -1):
            above_group = parent[g]
            if above_group < 0:
                continue
            for k in range(reach[g], reach[g + 1]):
                value[k], choice[k] = -np.inf, -1
            first = state_ptr[g]
            for q in range(pair_ptr[g], pair_ptr[g + 1]):
                total = score[first + below[q]]
                if pair[q] >= 0:
                    total += c[pair[q]]
                k = reach[g] + above[q]
                if total > value[k]:
                    value[k], choice[k] = total, q
            start = state_ptr[above_group]
            for k in range(reach[g], reach[g + 1]):
                score[start + k - reach[g]] += value[k]
        for g in range(n_groups):
            if parent[g] < 0:
                best, top = -1, -np.inf
                for s in range(state_ptr[g], state_ptr[g + 1]):
                    if score[s] > top:
                        best, top = s, score[s]
                if best < 0:
                    return row
                state[g] = best - state_ptr[g]
            else:
                q = choice[reach[g] + state[parent[g]]]
                state[g] = below[q]
                if pair[q] >= 0:
                    z[pair[q]] = 1.0
            z[column[state_ptr[g] + state[g]]] = 1.0
    return -1
