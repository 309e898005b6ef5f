"""Order in which items are decided: candidates, and an estimate of the size of each order's diagram.

The width after some items is estimated by ``2^min(P, W + min(R, B))``. P counts the bits of all decisions so far. W and
R count the bits of open rows; W those of *wide* rows, which contain more than a third of the items. A row has no more
bits than its entries done, its entries left, and the values of its activity. B counts the bits of decisions in open
rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from structopt._jit import kernel
from structopt.algorithms.diagram.program import Program

__all__ = ["best_orders"]

IntArray = npt.NDArray[np.int64]

#: With more entries in the graph of items that share a row, only the declared and the greedy orders are candidates.
_MOST_ENTRIES = 2_000_000
#: Limits of work up to which all five starts of greedy orders are tried, or two of them. Beyond, one start and one
#: order are tried.
_MOST_WORK, _LARGE_WORK = 3_000_000, 30_000_000


def best_orders(program: Program, block: IntArray) -> list[IntArray]:
    """Return the two orders of a block's items with the least estimates, the best first."""
    if len(block) <= 2:
        return [block]
    items, rows = program.items, program.rows
    structure = _structure(block, items, rows)
    n = len(block)
    sizes = np.diff(structure[2])
    candidates = [np.arange(n)]
    incidence = sp.csr_array(
        (np.ones(len(structure[1]), dtype=np.int32), structure[1], structure[0]), shape=(n, len(sizes))
    )
    degree = np.zeros(n)
    if int((sizes.astype(np.float64) ** 2).sum()) <= _MOST_ENTRIES:
        graph = sp.csr_array(incidence @ incidence.T)
        degree = np.diff(graph.indptr)
        candidates.append(reverse_cuthill_mckee(graph, symmetric_mode=True).astype(np.int64))
    by_degree = np.argsort(degree, kind="stable")
    starts = dict.fromkeys([int(by_degree[0]), int(by_degree[-1]), 0, n - 1, n // 2])
    work = float(n) * float(len(structure[1]))
    chosen = list(starts)[: 5 if work <= _MOST_WORK else 2 if work <= _LARGE_WORK else 1]
    candidates += [_greedy(structure, start, separators) for start in chosen for separators in (False, True)]
    estimates = np.array([_estimate(structure, order) for order in candidates])
    found: list[IntArray] = []
    for k in np.argsort(estimates, kind="stable").tolist():
        order = block[candidates[k]]
        if not any(np.array_equal(order, other) for other in found):
            found.append(order)
        if len(found) == 2 or work > _LARGE_WORK:
            break
    return found


@kernel
def _structure(block: Any, items: Any, rows: Any) -> Any:
    """Return the rows of each item and the items of each row, with the bits of each row and of each entry."""
    n = len(block)
    number = np.full(len(rows.lower), -1, np.int64)
    n_rows = n_entries = 0
    for x in range(n):
        for t in range(items.touched_ptr[block[x]], items.touched_ptr[block[x] + 1]):
            r = items.touched[t]
            if number[r] < 0:
                number[r] = n_rows
                n_rows += 1
            n_entries += 1
    item_ptr, item_rows = np.zeros(n + 1, np.int64), np.empty(n_entries, np.int64)
    row_ptr = np.zeros(n_rows + 1, np.int64)
    span, divisor = np.zeros(n_rows), np.zeros(n_rows, np.int64)
    bits = np.empty(n_entries)
    option_bits, options = np.empty(n), np.empty(n)
    e = 0
    for x in range(n):
        i = block[x]
        first, width = items.touched_ptr[i], items.touched_ptr[i + 1] - items.touched_ptr[i]
        n_options = items.option_ptr[i + 1] - items.option_ptr[i]
        options[x] = n_options
        option_bits[x] = np.log2(float(n_options))
        values = np.empty(n_options, np.int64)
        for k in range(width):
            r = number[items.touched[first + k]]
            item_rows[e] = r
            row_ptr[r + 1] += 1
            for o in range(n_options):
                values[o] = items.effects[items.effect_ptr[i] + o * width + k]
            values.sort()
            distinct = 1
            for o in range(1, n_options):
                step = values[o] - values[o - 1]
                if step > 0:
                    distinct += 1
                    a = divisor[r]
                    while step:
                        a, step = step, a % step
                    divisor[r] = a
            bits[e] = np.log2(float(distinct))
            span[r] += values[n_options - 1] - values[0]
            e += 1
        item_ptr[x + 1] = e
    for r in range(n_rows):
        row_ptr[r + 1] += row_ptr[r]
    fill = row_ptr[:-1].copy()
    row_items, row_bits = np.empty(n_entries, np.int64), np.zeros(n_rows)
    for x in range(n):
        for e in range(item_ptr[x], item_ptr[x + 1]):
            r = item_rows[e]
            row_items[fill[r]] = x
            row_bits[r] += bits[e]
            fill[r] += 1
    span_bits = np.zeros(n_rows)
    for r in range(n_rows):
        span_bits[r] = np.log2(span[r] / max(divisor[r], 1) + 1.0)
    return item_ptr, item_rows, row_ptr, row_items, row_bits, span_bits, option_bits, options, bits


@kernel
def _estimate(structure: Any, order: Any) -> float:
    """Sum the estimated width times the number of options over the layers."""
    item_ptr, item_rows, row_ptr, row_items, row_bits, span_bits, option_bits, options, bits = structure
    n, n_rows = len(order), len(span_bits)
    done = np.zeros(n_rows)
    now = np.zeros(n_rows)
    left, open_rows = np.diff(row_ptr), np.diff(item_ptr)
    wide = np.zeros(n_rows, np.bool_)
    for r in range(n_rows):
        wide[r] = row_ptr[r + 1] - row_ptr[r] > max(8.0, n / 3.0)
        if wide[r]:
            for e in range(row_ptr[r], row_ptr[r + 1]):
                open_rows[row_items[e]] -= 1
    decided = np.zeros(n, np.bool_)
    prefix = wide_bits = row_sum = item_sum = 0.0
    cost = 0.0
    width = 0.0
    for place in range(n):
        x = order[place]
        cost += 2.0 ** min(width, 200.0) * options[x]
        decided[x] = True
        prefix += option_bits[x]
        if open_rows[x] > 0:
            item_sum += option_bits[x]
        for e in range(item_ptr[x], item_ptr[x + 1]):
            r = item_rows[e]
            done[r] += bits[e]
            left[r] -= 1
            after = min(done[r], span_bits[r], row_bits[r] - done[r]) if left[r] else 0.0
            if wide[r]:
                wide_bits += after - now[r]
            else:
                row_sum += after - now[r]
                if not left[r]:
                    for f in range(row_ptr[r], row_ptr[r + 1]):
                        y = row_items[f]
                        open_rows[y] -= 1
                        if open_rows[y] == 0 and decided[y]:
                            item_sum -= option_bits[y]
            now[r] = after
        width = max(min(prefix, wide_bits + min(row_sum, item_sum)), 0.0)
    return cost


@kernel
def _greedy(structure: Any, start: int, separators: bool) -> Any:
    """Build an order that adds at each step the neighbour of the open rows with the least new bits."""
    item_ptr, item_rows, row_ptr, row_items, row_bits, span_bits, option_bits, _, bits = structure
    n, n_rows = len(option_bits), len(span_bits)
    done, left, open_rows = np.zeros(n_rows), np.diff(row_ptr), np.diff(item_ptr)
    counted = np.ones(n_rows, np.bool_)
    if separators:
        for r in range(n_rows):
            if row_ptr[r + 1] - row_ptr[r] > max(8.0, n / 3.0):
                counted[r] = False
                for e in range(row_ptr[r], row_ptr[r + 1]):
                    open_rows[row_items[e]] -= 1
    order = np.empty(n, np.int64)
    decided, near = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    frontier, n_near = np.empty(n, np.int64), 0
    opened = np.zeros(n_rows, np.bool_)
    x = start
    unseen = 0
    for place in range(n):
        if place > 0:
            best, best_tie, best_at = np.inf, np.inf, -1
            kept = 0
            for k in range(n_near):
                y = frontier[k]
                if decided[y]:
                    continue
                frontier[kept] = y
                kept += 1
                change, tie = 0.0, 0.0
                closing = 0
                for e in range(item_ptr[y], item_ptr[y + 1]):
                    r = item_rows[e]
                    if separators:
                        if not counted[r]:
                            continue
                        if left[r] == 1:
                            closing += 1
                            # Decided items whose last open row this was.
                            for f in range(row_ptr[r], row_ptr[r + 1]):
                                if decided[row_items[f]] and open_rows[row_items[f]] == 1:
                                    change -= option_bits[row_items[f]]
                        elif not opened[r]:
                            tie += row_ptr[r + 1] - row_ptr[r] - 1
                    else:
                        change -= min(done[r], span_bits[r], row_bits[r] - done[r])
                        if left[r] > 1:
                            change += min(done[r] + bits[e], span_bits[r], row_bits[r] - done[r] - bits[e])
                        else:
                            tie -= 1.0
                if separators and open_rows[y] > closing:
                    change += option_bits[y]
                better = change < best - 1e-12
                if not better and change <= best + 1e-12:
                    better = tie < best_tie or (tie == best_tie and y < best_at)
                if better:
                    best, best_tie, best_at = change, tie, y
            n_near = kept
            if best_at < 0:
                while decided[unseen]:
                    unseen += 1
                best_at = unseen
            x = best_at
        order[place] = x
        decided[x] = True
        for e in range(item_ptr[x], item_ptr[x + 1]):
            r = item_rows[e]
            done[r] += bits[e]
            left[r] -= 1
            if not left[r] and counted[r]:
                for f in range(row_ptr[r], row_ptr[r + 1]):
                    open_rows[row_items[f]] -= 1
            if not opened[r] and counted[r]:
                for f in range(row_ptr[r], row_ptr[r + 1]):
                    y = row_items[f]
                    if not decided[y] and not near[y]:
                        near[y] = True
                        frontier[n_near] = y
                        n_near += 1
            opened[r] = True
    return order
