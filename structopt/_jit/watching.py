"""Who is told when a kernel is compiled: a progress bar that would stand still, a command that counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

__all__ = ["compilations_told_to"]

_EVENT = "numba:compile"


class _Listener(event.Listener):  # type: ignore[misc, unused-ignore]
    """Tells a function the name of every kernel that its own thread compiles, those inside another one left out."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._thread = threading.get_ident()
        self._depth = 0

    def on_start(self, event: Any) -> None:
        if threading.get_ident() == self._thread:
            self._depth += 1
            if self._depth == 1:
                self._tell(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event: Any) -> None:
        if threading.get_ident() == self._thread:
            self._depth -= 1


@contextmanager
def compilations_told_to(tell: Callable[[str], None]) -> Iterator[None]:
    """Within a ``with`` block, call `tell` with the name of every kernel that this thread begins to compile.

    Kernels that are in numba's cache on disk are loaded, not compiled.

    Parameters
    ----------
    tell : callable
        Takes a name; it must not raise.

    Examples
    --------
    >>> import numba
    >>> twice = numba.njit(lambda x: 2 * x)
    >>> names = []
    >>> with compilations_told_to(names.append):
    ...     _ = twice(1.0), twice(2.0)
    >>> names
    ['<lambda>']
    """
    listener = _Listener(tell)
    event.register(_EVENT, listener)
    try:
        yield
    finally:
        event.unregister(_EVENT, listener)
