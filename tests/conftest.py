"""What tests of every part share."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import signal
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def interrupts_are_heard() -> Iterator[None]:
    """A process that a shell starts in the background ignores SIGINT: tests of Ctrl-C would wait for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def ctrl_c() -> Iterator[Callable[..., None]]:
    """Send SIGINT to this process once, some seconds after `ready`.

    Without the garbage collector: hypothesis has a callback in it, and Python drops a KeyboardInterrupt that is raised
    there, so that a test on a busy machine waited for an interrupt that had come and gone.
    """
    over = threading.Event()
    threads = []

    def send(seconds: float, ready: Callable[[], bool]) -> None:
        while not ready() and not over.wait(0.01):
            pass
        if not over.wait(seconds):
            os.kill(os.getpid(), signal.SIGINT)

    def start(seconds: float, ready: Callable[[], bool] = lambda: True) -> None:
        threads.append(threading.Thread(target=send, args=(seconds, ready), daemon=True))
        threads[-1].start()

    gc.disable()
    yield start
    over.set()
    for thread in threads:
        thread.join()
    gc.enable()


@pytest.fixture
def count_calls() -> Callable[[Callable[[], Any]], int]:
    """How many Python calls a function makes: what "without a loop" means, on a busy machine as on an idle one.

    It is called twice and the second time counts: the first may compile kernels, or load them.
    """

    def count(work: Callable[[], Any]) -> int:
        calls = 0

        def listen(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        work()
        before = sys.getprofile()
        sys.setprofile(listen)
        try:
            work()
        finally:
            sys.setprofile(before)
        return calls

    return count


@pytest.fixture
def peak_bytes() -> Callable[[Callable[[], Any]], int]:
    """Return a function that measures the largest number of bytes allocated at one time during a call."""

    def measure(work: Callable[[], Any]) -> int:
        gc.collect()
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measure


def _loader(folder: str) -> Callable[[str], Any]:
    @functools.cache
    def load(name: str) -> Any:
        path = Path(__file__).parent / folder / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"structopt_{folder}_{name}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def fuzz() -> Callable[[str], Any]:
    """Return a function that loads a fuzz job: its random cases and references serve other tests, too."""
    return _loader("fuzz")


@pytest.fixture(scope="session")
def law() -> Callable[[str], Any]:
    """Return a function that loads a module of laws, whose cases serve other tests, too."""
    return _loader("laws")
