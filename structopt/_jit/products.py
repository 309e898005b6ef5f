"""Inner products without BLAS, in the calling thread.

For long vectors BLAS starts threads and may wait milliseconds for them on a loaded machine; for short ones, a numpy
call right after a solver's run takes longer than the product itself.
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
