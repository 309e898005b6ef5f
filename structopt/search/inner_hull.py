"""Inner hulls of many examples in the (h, g) plane, and the largest product on each (docs/mathematics/searches)."""

from __future__ import annotations

import math
from typing import Any

from structopt._jit import kernel

__all__ = ["join"]


@kernel
def join(new: int, some: Any, H: Any, G: Any, value: Any, h: Any, g: Any, share: Any, ends: Any) -> None:
    """Let point `new` of some examples join their hulls; H and G are (points, examples), h = nan where there is none.

    Every edge of a hull is a segment between two of its points, and every such segment lies in it: the largest product
    on all segments to the new point, or the one known, is that of the hull. It is at ``(h, g)``, the mixture
    ``(1 - share) ends[0] + share ends[1]``.
    """
    for position in range(some.size):
        i = some[position]
        h1, g1 = H[new, i], G[new, i]
        for a in range(new):
            h0, g0 = H[a, i], G[a, i]
            if math.isnan(h0):
                continue
            dh, dg = h1 - h0, g1 - g0
            bend = dh * dg
            if bend < 0.0:
                t = min(max(-(h0 * dg + g0 * dh) / (2.0 * bend), 0.0), 1.0)
            else:
                t = 1.0 if h1 * g1 >= h0 * g0 else 0.0
            h_t, g_t = h0 + t * dh, g0 + t * dg
            if h_t > 0.0 and h_t * g_t > value[i]:
                value[i], h[i], g[i], share[i] = h_t * g_t, h_t, g_t, t
                ends[0, i], ends[1, i] = a, new
