"""Ctrl-C while a kernel runs."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

from structopt._jit import kernel


@kernel
def slow_array(n):
    x = np.zeros(2)
    for _ in range(n):
        x[0] = np.sin(x[0] + 1.0)
    return x


@kernel
def slow_tuple(n):
    x = slow_array(n)
    return x, x + 1.0, n


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("function", [slow_array, slow_tuple])
def test_ctrl_c_in_a_kernel_that_returns_arrays_is_a_keyboard_interrupt(function):
    found = function(10)
    assert type(found[0] if function is slow_tuple else found) is np.ndarray
    for _ in range(3):
        thread = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            function(20_000_000)
            thread.join()  # on a slow machine the signal comes late
        thread.join()
    np.testing.assert_array_equal(function(10)[0], found[0])
