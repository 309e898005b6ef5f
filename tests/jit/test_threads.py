"""`in_threads`: every row once, errors come out, calls within calls end, a forked process has threads of its own."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import numpy as np
import pytest

from structopt._jit.threads import in_threads


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 100])
@pytest.mark.parametrize("n_rows", [0, 1, 2, 7, 250])
def test_every_row_is_done_once(n_rows, n_jobs):
    done = np.zeros(n_rows, dtype=int)

    def work(first, last):
        done[first:last] += 1

    in_threads(work, n_rows, n_jobs)
    assert (done == 1).all()


@pytest.mark.parametrize("wrong", [0, 5, 9])
def test_an_error_of_any_share_is_raised(wrong):
    def work(first, last):
        if first <= wrong < last:
            raise ValueError(f"row {wrong}")

    with pytest.raises(ValueError, match=f"row {wrong}"):
        in_threads(work, 10, 3)
    in_threads(lambda first, last: None, 10, 3)  # and the next call is as good as any


def test_calls_within_calls_end():
    """More threads are asked for than there are: whoever waits does the work that nobody has begun."""
    done = np.zeros((40, 40), dtype=int)

    def outer(first, last):
        for i in range(first, last):
            in_threads(lambda a, b, i=i: done[i].__setitem__(slice(a, b), 1), 40, 40)

    in_threads(outer, 40, 40)
    assert done.all()


def _in_child(queue):
    seen = []
    in_threads(lambda first, last: seen.append(last - first), 4, 2)
    queue.put(sum(seen))


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    in_threads(lambda first, last: None, 4, 2)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=_in_child, args=(queue,))
    process.start()
    process.join(60)
    assert process.exitcode == 0 and queue.get() == 4


INTERRUPTED = """
import sys
from structopt._jit.threads import in_threads

moment = 0
def interrupt(frame, event, argument):
    global moment
    if frame.f_code.co_name == "work":
        return None
    moment -= event == "line"
    if moment == 0:
        raise KeyboardInterrupt
    return interrupt

def call():
    done = []
    def work(first, last):
        done.extend(range(first, last))
    in_threads(work, 3, 3)
    return sorted(done)

for at in range(1, 1000):
    moment = at
    sys.settrace(interrupt)
    try:
        call()
        sys.settrace(None)
        break
    except KeyboardInterrupt:
        sys.settrace(None)
    assert call() == [0, 1, 2]
print("interrupted", at)
"""


def test_an_interrupt_at_any_line_leaves_the_pool_usable():
    """An interrupt inside a lock of the pool would block the next call for ever."""
    command = [sys.executable, "-c", INTERRUPTED]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout.split()[1]) > 20
