"""Share the rows of a batch between threads; kernels release the GIL, so plain threads are enough."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

__all__ = ["in_threads"]


def in_threads(work: Callable[[int, int], object], n_rows: int, n_jobs: int) -> None:
    """Call ``work(first, last)`` on disjoint ranges that cover ``range(n_rows)``, in ``n_jobs`` threads.

    Examples
    --------
    >>> seen = []
    >>> in_threads(lambda first, last: seen.append((first, last)), 5, n_jobs=1)
    >>> seen
    [(0, 5)]
    """
    n_jobs = max(1, min(n_jobs, n_rows))
    if n_jobs == 1:
        work(0, n_rows)
        return
    cuts = [n_rows * k // n_jobs for k in range(n_jobs + 1)]
    with ThreadPoolExecutor(n_jobs) as pool:
        for _ in pool.map(work, cuts[:-1], cuts[1:]):
            pass
