"""Compile with numba, each kernel in one process at a time.

numba looks into its cache on disk, compiles what is not there and writes it, without a lock: the workers of a parallel
search, that start together on an empty cache, would all compile all kernels (and one that writes an index may lose what
another has written). Here a process holds a lock while it compiles a kernel; a process that waits for the lock then
finds the kernel in the cache. Where no lock can be had (a read-only directory, a file system without locks) kernels are
compiled as numba does it.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numba
from numba.core.caching import FunctionCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numba.core.types.misc import unliteral

from structopt._jit.linking import LinkedCache, LinkedCompiler, arrays_boxed_in_c, set_environments

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["LOCKS", "compiled"]

#: Seconds between two looks at a lock that another process holds: at first, and at most.
_SHORT, _LONG = 0.005, 0.1


class Locks:
    """The locks of this process on kernels that it compiles.

    A kernel compiles those that it calls, so that a process may hold several locks. Calls have no cycles but those of
    a kernel with itself, which holds its lock already: no two processes can wait for each other. Threads take their
    turns by numba's own lock, always before a lock of this class.

    Attributes
    ----------
    patience : float
        Seconds that a lock is waited for. After that (its holder was stopped, or the file system is at fault) this
        process compiles without locks.
    """

    def __init__(self, patience: float = 300.0) -> None:
        self.patience = patience
        self._held: set[Path] = set()

    def compile(self, dispatcher: Dispatcher, path: Path | None, signature: Any) -> Any:
        """Compile a kernel for the types of its arguments, or load it, while the lock of a file is held.

        Without a path there is no lock.
        """
        with global_compiler_lock, self.hold(path), _no_collection(), arrays_boxed_in_c():
            return Dispatcher.compile(dispatcher, signature)

    @contextmanager
    def hold(self, path: Path | None) -> Iterator[None]:
        """Hold the lock of a file, if it is available."""
        if path is None or path in self._held or not self.patience:
            yield
            return
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:  # read-only, or another user's
            yield
            return
        try:
            self._wait(descriptor)
            self._held.add(path)
            yield
        finally:
            self._held.discard(path)
            os.close(descriptor)  # releases the lock, as the end of the process would

    def _wait(self, descriptor: int) -> None:
        end, pause = time.monotonic() + self.patience, _SHORT
        while not _take(descriptor):
            if time.monotonic() > end:
                self.patience = 0.0
                return
            time.sleep(pause)
            pause = min(1.5 * pause, _LONG)


def _take(descriptor: int) -> bool:
    """Whether no other process holds the lock any more; True, too, where there are no locks."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            # A record lock, not flock: a child that is forked meanwhile must not keep it.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # not known to this file system
        pass
    return True


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without Python's garbage collector, which takes a seventh of the time of a compilation to find nothing."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


#: Of this process.
LOCKS = Locks()


@cache
def _warn_uncached() -> None:
    """Once a process."""
    warnings.warn(
        "Compiled kernels cannot be kept: neither the folder of structopt nor the user's cache can be written; every "
        "process compiles them anew. Set the environment variable NUMBA_CACHE_DIR to a folder that can be written.",
        RuntimeWarning,
        stacklevel=2,
    )


def _forget_literals(dispatcher: Dispatcher) -> None:
    """One kernel for all numbers: numba compiles one more for a constant, and for a variable that begins as one."""
    resolve = dispatcher.get_call_template

    def get_call_template(arguments: Any, keywords: Any) -> Any:
        try:
            return resolve(
                [unliteral(kind) for kind in arguments],
                {name: unliteral(kind) for name, kind in dict(keywords).items()},
            )
        except NumbaError:  # it needs the constant, as the place in a tuple for example
            return resolve(arguments, keywords)

    dispatcher.get_call_template = get_call_template  # type: ignore[assignment, method-assign, unused-ignore]


def _close_to_python(dispatcher: Dispatcher) -> None:
    """An error for a call from Python, which would follow a null pointer: there is no wrapper to be called."""

    def add_overload(result: Any) -> None:
        dispatcher.overloads[tuple(result.signature.args)] = result  # for kernels; not for the dispatcher's own calls

    def refuse(*arguments: Any, **keywords: Any) -> NoReturn:
        raise TypeError(f"{dispatcher.py_func.__qualname__} is called by other kernels only; its py_func is in Python.")

    dispatcher.add_overload = add_overload  # type: ignore[assignment, method-assign, unused-ignore]
    dispatcher._compile_for_args = refuse  # type: ignore[attr-defined, unused-ignore]


def _linked(function: Callable[..., Any], **options: Any) -> Any:
    """The dispatcher of a function for the kernels that call it."""
    dispatcher = numba.njit(pipeline_class=LinkedCompiler, **{**options, "no_cpython_wrapper": True})(function)
    if isinstance(dispatcher, Dispatcher):
        _keep(dispatcher, LinkedCache)
        _close_to_python(dispatcher)
    return dispatcher


def _link_into_kernels(dispatcher: Any, **options: Any) -> None:
    """What kernels call is another dispatcher of the same function, made for the first of them."""

    @cache
    def linked() -> Any:
        return _linked(dispatcher.py_func, **options)

    add_overload = dispatcher.add_overload

    def add_with_environments(result: Any) -> None:
        set_environments(result)
        add_overload(result)

    dispatcher.linked, dispatcher.add_overload = linked, add_with_environments
    dispatcher.get_call_template = lambda *arguments: linked().get_call_template(*arguments)
    dispatcher.get_overload = lambda signature: linked().get_overload(signature)


def _keep(dispatcher: Any, kind: type[FunctionCache]) -> None:
    """Cache compiled code on disk, and compile in one process at a time."""
    function, path = dispatcher.py_func, None
    dispatcher.compile = lambda signature: LOCKS.compile(dispatcher, path, signature)
    try:
        dispatcher._cache = kind(function)
    except RuntimeError:  # no directory can be written, neither beside the source nor the user's
        if Path(function.__code__.co_filename).is_file():  # not a function typed at a prompt, which is never cached
            _warn_uncached()
        return
    path = Path(dispatcher.stats.cache_path) / f"{dispatcher._cache._impl.filename_base}.lock"


def compiled(function: Callable[..., Any], *, inner: bool = False, **options: Any) -> Any:
    """``numba.njit`` of a function, cached on disk, without the GIL, and compiled by one process at a time.

    Parameters
    ----------
    function : callable
    inner : bool
        Whether only compiled functions call it; Python cannot then.
    **options
        Further options of ``numba.njit``.

    Returns
    -------
    callable
        The dispatcher; `function` itself under ``NUMBA_DISABLE_JIT``.

    Examples
    --------
    >>> compiled(abs_sum := lambda x: abs(x).sum()).py_func is abs_sum
    True
    """
    # Nobody asks for pointers to kernels. `_nrt` is said, because the caller that is compiled first would hand it down.
    options = {"nogil": True, "no_cfunc_wrapper": True, "_nrt": True, **options}
    dispatcher = _linked(function, **options) if inner else numba.njit(**options)(function)
    if not isinstance(dispatcher, Dispatcher):
        return dispatcher
    if inner:
        _forget_literals(dispatcher)
    else:
        _keep(dispatcher, FunctionCache)
        _link_into_kernels(dispatcher, **options)
    return dispatcher
