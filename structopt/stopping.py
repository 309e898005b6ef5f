"""Deadlines and cancellation for running solvers, set by a caller further up or by another thread.

A time limit on a whole fit thus also limits a single integer program: the trainer sets a `deadline`, and the solver
reads `time_left`, without a dependency between the two.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import TypeVar

__all__ = ["Stop", "current_stop", "deadline", "is_interrupt", "map_in_threads", "time_left"]

_A = TypeVar("_A")
_B = TypeVar("_B")


class Stop:
    """A moment at which to stop, and a flag for stopping earlier; what stops the outer one stops this one too."""

    __slots__ = ("_asked", "_moment", "_outer")

    def __init__(self, seconds: float, outer: Stop | None) -> None:
        self._moment = monotonic() + seconds
        self._outer = outer
        self._asked = False

    def ask(self) -> None:
        """Stop now; from any thread."""
        self._asked = True

    @property
    def seconds_left(self) -> float:
        """Seconds until the stop, 0 once it is due; infinite if only the flag counts."""
        left = 0.0 if self._asked else max(self._moment - monotonic(), 0.0)
        return left if self._outer is None else min(left, self._outer.seconds_left)


_current: ContextVar[Stop | None] = ContextVar("structopt_stop", default=None)


def current_stop() -> Stop | None:
    """The innermost stop that is in force here, or None if no limit is set."""
    return _current.get()


def time_left() -> float:
    """Seconds that a solver may still take here; infinite if no limit is set."""
    stop = _current.get()
    return math.inf if stop is None else stop.seconds_left


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Solvers called inside return what they have after this many seconds; an outer deadline stays in force.

    An integer program that is stopped answers with its best label and a proved bound (`Label.status` is
    ``"time limit"``), or raises `TimeLimitReached` if it has no label yet.

    Parameters
    ----------
    seconds : float, optional
        From now; None sets no limit.

    Examples
    --------
    >>> with deadline(60.0):
    ...     59.0 < time_left() <= 60.0
    True
    >>> time_left()
    inf
    """
    if seconds is None:
        yield
        return
    token = _current.set(Stop(seconds, _current.get()))
    try:
        yield
    finally:
        _current.reset(token)


def map_in_threads(function: Callable[[_A], _B], items: Iterable[_A], n_jobs: int) -> list[_B]:
    """``[function(item) for item in items]`` by `n_jobs` threads (-1: one per core), within the caller's deadline.

    The first error, and Ctrl-C, end the others' solvers as well.

    Examples
    --------
    >>> map_in_threads(abs, [1, -2, -3], 2)
    [1, 2, 3]
    """
    stop = Stop(math.inf, _current.get())

    def work(item: _A) -> _B:
        token = _current.set(stop)
        try:
            return function(item)
        finally:
            _current.reset(token)

    with ThreadPoolExecutor(n_jobs if n_jobs > 0 else os.cpu_count() or 1) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop.ask()
            for future in futures:
                future.cancel()
            raise


def is_interrupt(error: BaseException | None) -> bool:
    """Whether the user has requested to stop.

    Ctrl-C that arrives while a compiled kernel takes or gives back its arguments is noticed only after the call, as a
    `SystemError` ("returned a result with an exception set") that has the interrupt for its cause.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        if not isinstance(error, SystemError):
            return False
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
