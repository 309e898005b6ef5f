"""Share the rows of a batch between threads; kernels release the GIL, so plain threads are enough."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise

__all__ = ["in_threads"]

#: More threads than this do not help; shares that no thread is free for are done by the caller.
_MOST = max(32, os.cpu_count() or 1)


class _Pool:
    """Threads that stay: to start one may take longer than a batch of chains."""

    executor = ThreadPoolExecutor(_MOST, "structopt")

    @classmethod
    def renew(cls) -> None:
        """Of a process that was forked: threads are not copied with it."""
        cls.executor = ThreadPoolExecutor(_MOST, "structopt")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Pool.renew)


def in_threads(work: Callable[[int, int], object], n_rows: int, n_jobs: int) -> None:
    """Call ``work(first, last)`` on disjoint ranges that cover ``range(n_rows)``, in ``n_jobs`` threads.

    The calling thread is one of them, and takes over what no other has begun: calls within calls cannot block each
    other. All ranges are done, or given up, when this returns or raises.

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
    shares: list[Future[object]] = []
    try:
        for first, last in pairwise(cuts[1:]):
            shares.append(_Pool.executor.submit(work, first, last))
        work(cuts[0], cuts[1])
        for k in range(len(shares), 0, -1):
            if shares[k - 1].cancel():
                work(cuts[k], cuts[k + 1])
    finally:
        begun = [share for share in shares if not share.cancel()]
        wait(begun)  # not for the others, which would have to be taken from the queue first
    for share in begun:
        share.result()
