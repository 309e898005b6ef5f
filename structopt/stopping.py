"""Deadlines and cancellation for running solvers, set by a caller further up or by another thread.

A time limit on a whole fit thus also limits a single integer program: the trainer sets a `deadline`, and the solver
reads `time_left`, without a dependency between the two.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import TypeVar

from structopt.errors import TimeLimitReached

__all__ = [
    "Stop",
    "call_in_thread",
    "current_stop",
    "deadline",
    "is_interrupt",
    "map_in_threads",
    "time_left",
]

_A = TypeVar("_A")
_B = TypeVar("_B")

#: Seconds between two checks of the stop flag. Windows needs a timeout to react to Ctrl-C.
_PAUSE = 0.1


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
    def is_asked(self) -> bool:
        """Whether `ask` was called here or on an outer stop."""
        return self._asked or (self._outer is not None and self._outer.is_asked)

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


def call_in_thread(function: Callable[[], _B]) -> _B:
    """Call a function that reacts neither to signals nor to a stop flag, and return its result.

    The function runs in a thread of its own, so that the caller can react. After Ctrl-C the thread ends by itself, and
    its result is dropped. The thread does not keep the interpreter from exiting. If the function returns just while
    the interpreter exits, Python 3.11 aborts the process: compiled code cannot take the GIL back then.

    Examples
    --------
    >>> call_in_thread(lambda: 3)
    3
    """
    found: list[_B] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            found.append(function())
        except BaseException as error:
            errors.append(error)

    stop, thread = _current.get(), threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_PAUSE)
        if stop is not None and stop.is_asked:
            raise TimeLimitReached("Another thread stopped this call.")
    if errors:
        raise errors[0]
    return found[0]


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
