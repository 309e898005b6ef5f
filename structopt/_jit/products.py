"""Inner products that stay in this thread.

BLAS takes threads for long vectors and waits milliseconds for them on a machine that has anything else to do; for
short ones, a call of numpy right after a solver's run costs more than the product.
"""

from __future__ import annotations

from typing import Any

from structopt._jit import any_order

__all__ = ["dot"]


@any_order
def dot(a: Any, b: Any) -> float:
    """``a . b`` of two contiguous float64 vectors."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total
