"""Share the rows of a batch between threads; kernels release the GIL, so plain threads are enough."""

from __future__ import annotations

import _thread
import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise
from queue import Empty, SimpleQueue

__all__ = ["in_threads"]

#: More threads than this do not help; the caller does the shares that no thread is free for.
_MOST = max(32, os.cpu_count() or 1)


class _Call:
    """One call of `in_threads`: the ranges that are left, and the threads that have begun and ended to help.

    It has no locks, only operations that Ctrl-C cannot divide. An interrupt inside a lock of `threading` leaves the
    lock held.
    """

    def __init__(self, work: Callable[[int, int], object], ranges: Iterable[tuple[int, int]]) -> None:
        self.work: Callable[[int, int], object] | None = work
        self.left = deque(ranges)
        self.closed = False
        self.begun: list[None] = []
        self.ended: list[BaseException | None] = []
        self.bell: SimpleQueue[None] = SimpleQueue()

    def run(self) -> None:
        """Do ranges until no more are left; an error gives up those that have not begun."""
        work = self.work
        try:
            while work is not None:
                try:
                    first, last = self.left.popleft()
                except IndexError:
                    return
                work(first, last)
        except BaseException:
            self.left.clear()
            raise

    def help(self) -> None:
        """Do ranges in a thread of the pool, unless the call is over."""
        self.begun.append(None)  # before the look at `closed`, which `close` sets before it looks at `begun`
        error: BaseException | None = None
        if not self.closed:
            try:
                self.run()
            except BaseException as raised:
                error = raised
        self.ended.append(error)
        self.bell.put(None)

    def close(self) -> None:
        """Wait for the threads that have begun, even if Ctrl-C comes meanwhile."""
        interrupt: KeyboardInterrupt | None = None
        waiting = True
        while waiting:
            try:
                self.closed = True
                while len(self.ended) < len(self.begun):
                    with contextlib.suppress(Empty):
                        self.bell.get(timeout=1.0)
                waiting = False
            except KeyboardInterrupt as raised:
                interrupt = raised
                self.left.clear()
        self.work = None  # the call may stay in the pool's queue for a while, the data may not
        if interrupt is not None:
            raise interrupt


class _Pool:
    """Threads that stay, because to start one may take longer than a batch of chains."""

    calls: SimpleQueue[_Call] = SimpleQueue()
    n_threads = 0

    @classmethod
    def add(cls, call: _Call, helpers: int) -> None:
        """Let up to this many threads help with a call."""
        while cls.n_threads < min(helpers, _MOST):
            try:
                _thread.start_new_thread(cls.serve, (cls.calls,))
            except RuntimeError:  # the process may not have more threads
                break
            cls.n_threads += 1
        for _ in range(min(helpers, cls.n_threads)):
            cls.calls.put(call)

    @staticmethod
    def serve(calls: SimpleQueue[_Call]) -> None:
        """Help with one call after the other, in a thread of the pool."""
        while True:
            calls.get().help()

    @classmethod
    def renew(cls) -> None:
        """Forget the threads of the parent process, which a forked process does not have."""
        cls.calls, cls.n_threads = SimpleQueue(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Pool.renew)


def in_threads(work: Callable[[int, int], object], n_rows: int, n_jobs: int) -> None:
    """Call ``work(first, last)`` on disjoint ranges that cover ``range(n_rows)``, in ``n_jobs`` threads.

    The calling thread is one of them and takes over the ranges that no other thread has begun, so calls within calls
    cannot block each other. All ranges are done or given up if this returns or raises.

    Examples
    --------
    >>> seen = []
    >>> in_threads(lambda first, last: seen.append((first, last)), 5, n_jobs=1)
    >>> seen
    [(0, 5)]
    """
    if n_jobs <= 1 or n_rows <= 1:
        work(0, n_rows)
        return
    n_jobs = min(n_jobs, n_rows)
    call = _Call(work, pairwise(n_rows * k // n_jobs for k in range(n_jobs + 1)))
    try:
        _Pool.add(call, n_jobs - 1)
        call.run()
    finally:
        call.close()
    for error in call.ended:
        if error is not None:
            raise error
