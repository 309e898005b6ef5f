"""All 2^n labels of a small pairwise model: the best, the best product h g, and the Pareto front.

A label is a code in which label 0 is the most significant bit, so that codes in ascending order are labels in
lexicographic order and the first of equal values is the lexicographically smallest.

The codes are walked in blocks of 2^10. Inside a block the low labels' own values are a table made once, and the
influence of the high labels is a linear function of the low ones, filled by doubling: about two additions a label, in
loops that vectorise, where a Gray code needs a field update of n additions. No sum has more than O(n) terms after a
block is entered, so that rounding stays far below 1e-9; callers recompute the winner's value anyway.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from structopt._jit import fast, kernel

__all__ = ["best_code", "best_product_code", "code_bits", "pareto_codes"]

_BLOCK_BITS = 10
_BUCKETS = 1024


@kernel
def code_bits(code: int, n: int, y: Any) -> None:
    """Write the label of ``code`` into ``y``."""
    for v in range(n):
        y[v] = (code >> (n - 1 - v)) & 1


@kernel
def _double(table: Any, half: int, step: Any) -> None:
    """Append ``table[:half] + step`` to the first ``half`` entries."""
    # Two views with indices from 0: a computed index might be negative, and numba's test for it stops vectorisation.
    lower = table[:half]
    upper = table[half : 2 * half]
    for t in range(half):
        upper[t] = lower[t] + step


@kernel
def low_table(n: int, bits: int, field: Any, coupling: Any, table: Any) -> None:
    """Value of every pattern of the last ``bits`` labels when all others are 0."""
    table[0] = 0
    slope = np.zeros_like(table)
    for b in range(bits):
        v = n - 1 - b
        half = 1 << b
        # slope[t] is what label v gains from the lower labels set in t, itself by doubling.
        slope[0] = field[v]
        for k in range(b):
            c = coupling[v, n - 1 - k]
            _double(slope, 1 << k, c)
        upper = table[half : 2 * half]
        for t in range(half):
            upper[t] = table[t] + slope[t]


@kernel
def influence(n: int, bits: int, start: Any, field: Any, table: Any) -> None:
    """``start`` plus the field of every low label that is set, for all patterns of the last ``bits`` labels."""
    table[0] = start
    for b in range(bits):
        _double(table, 1 << b, field[n - 1 - b])


@kernel
def enter_block(block: int, high: int, n: int, unary: Any, coupling: Any, field: Any) -> Any:
    """Value of the high labels of ``block``, and in ``field`` what they add to each low label."""
    value = unary[0] * 0
    for v in range(high, n):
        field[v] = 0
    for u in range(high):
        if (block >> (high - 1 - u)) & 1:
            value += unary[u]
            for v in range(high):
                if v < u and (block >> (high - 1 - v)) & 1:
                    value += coupling[u, v]
            for v in range(high, n):
                field[v] += coupling[u, v]
    return value


@kernel
def best_code(unary: Any, coupling: Any) -> tuple[int, Any]:
    """Return code and value of the best label of integer coefficients; the lexicographically smallest on ties."""
    n = unary.size
    bits = min(n, _BLOCK_BITS)
    high = n - bits
    size = 1 << bits
    own = np.empty(size, np.int64)
    low_table(n, bits, unary, coupling, own)
    outer = np.empty(size, np.int64)
    field = np.zeros(n, np.int64)
    best = np.int64(0)
    best_at = 0
    for block in range(1 << high):
        start = enter_block(block, high, n, unary, coupling, field)
        influence(n, bits, start, field, outer)
        top = own[0] + outer[0]
        for t in range(size):
            top = max(top, own[t] + outer[t])
        if block == 0 or top > best:
            t = 0
            while own[t] + outer[t] != top:
                t += 1
            best = top
            best_at = block * size + t
    return best_at, best


# No NaN can occur; without this assumption the reduction to the maximum is not vectorised. No sum is reordered.
@fast("nnan", "nsz")
def _largest(values: Any) -> float:
    top = values[0]
    for t in range(values.size):
        top = max(top, values[t])
    return top  # type: ignore[no-any-return]


@kernel
def best_product_code(
    h_unary: Any, h_coupling: Any, h_const: float, g_unary: Any, g_coupling: Any, g_const: float
) -> int:
    """Code of the label with the largest ``h(y) g(y)``; the lexicographically smallest on ties."""
    n = h_unary.size
    bits = min(n, _BLOCK_BITS)
    high = n - bits
    size = 1 << bits
    h_own = np.empty(size)
    g_own = np.empty(size)
    low_table(n, bits, h_unary, h_coupling, h_own)
    low_table(n, bits, g_unary, g_coupling, g_own)
    h = np.empty(size)
    g = np.empty(size)
    h_field = np.zeros(n)
    g_field = np.zeros(n)
    best = 0.0
    best_at = 0
    for block in range(1 << high):
        influence(n, bits, h_const + enter_block(block, high, n, h_unary, h_coupling, h_field), h_field, h)
        influence(n, bits, g_const + enter_block(block, high, n, g_unary, g_coupling, g_field), g_field, g)
        for t in range(size):
            h[t] = (h[t] + h_own[t]) * (g[t] + g_own[t])
        top = _largest(h)
        if block == 0 or top > best:
            t = 0
            while h[t] != top:
                t += 1
            best = top
            best_at = block * size + t
    return best_at


@kernel
def _h_range(unary: Any, coupling: Any, const: float) -> tuple[float, float]:
    """A lower bound of h over all labels, and buckets per unit of h."""
    n = unary.size
    least = const
    width = 0.0
    for v in range(n):
        least += min(unary[v], 0.0)
        width += abs(unary[v])
        for u in range(v):
            least += min(coupling[v, u], 0.0)
            width += abs(coupling[v, u])
    return least, (_BUCKETS / width if width > 0 else 0.0)


@kernel
def pareto_codes(h_unary: Any, h_coupling: Any, h_const: float, g_unary: Any, g_coupling: Any, g_const: float) -> Any:
    """Codes of the labels whose point (h, g) no other dominates, by falling h; of equal points the first code.

    A point is dominated if another is at least as large in both coordinates and larger in one.
    """
    n = h_unary.size
    bits = min(n, _BLOCK_BITS)
    high = n - bits
    size = 1 << bits
    h_own = np.empty(size)
    g_own = np.empty(size)
    low_table(n, bits, h_unary, h_coupling, h_own)
    low_table(n, bits, g_unary, g_coupling, g_own)
    h = np.empty(size)
    g = np.empty(size)
    h_field = np.zeros(n)
    g_field = np.zeros(n)
    # The Pareto front so far by falling h, hence rising g.
    front_h = np.empty(64)
    front_g = np.empty(64)
    codes = np.empty(64, np.int64)
    count = 0
    # above[b]: the largest g of the front points whose h lies in a bucket above b. Most labels fail against it at once.
    least, scale = _h_range(h_unary, h_coupling, h_const)
    above = np.empty(_BUCKETS)
    for b in range(_BUCKETS):
        above[b] = -np.inf
    for block in range(1 << high):
        influence(n, bits, h_const + enter_block(block, high, n, h_unary, h_coupling, h_field), h_field, h)
        influence(n, bits, g_const + enter_block(block, high, n, g_unary, g_coupling, g_field), g_field, g)
        for t in range(size):
            hv = h[t] + h_own[t]
            gv = g[t] + g_own[t]
            bucket = min(max(int((hv - least) * scale), 0), _BUCKETS - 1)
            if gv <= above[bucket]:
                continue
            left, right = 0, count  # first front point with a smaller h
            while left < right:
                middle = (left + right) >> 1
                if front_h[middle] >= hv:
                    left = middle + 1
                else:
                    right = middle
            if left > 0 and front_g[left - 1] >= gv:
                continue
            # A kept point with the same h has a smaller g here, so that it is dominated as well.
            first = left
            if left > 0 and front_h[left - 1] == hv:
                first = left - 1
            last = left
            while last < count and front_g[last] <= gv:
                last += 1
            if count + 1 > codes.size and last == first:
                more = 2 * count
                wider_h, wider_g, wider = np.empty(more), np.empty(more), np.empty(more, np.int64)
                for k in range(count):
                    wider_h[k], wider_g[k], wider[k] = front_h[k], front_g[k], codes[k]
                front_h, front_g, codes = wider_h, wider_g, wider
            shift = first + 1 - last
            if shift > 0:
                for k in range(count - 1, last - 1, -1):
                    front_h[k + 1], front_g[k + 1], codes[k + 1] = front_h[k], front_g[k], codes[k]
            elif shift < 0:
                for k in range(last, count):
                    front_h[k + shift], front_g[k + shift], codes[k + shift] = front_h[k], front_g[k], codes[k]
            count += shift
            front_h[first] = hv
            front_g[first] = gv
            codes[first] = block * size + t
            b = bucket - 1
            while b >= 0 and above[b] < gv:
                above[b] = gv
                b -= 1
    return codes[:count]
