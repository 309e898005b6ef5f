"""Sixteen floats side by side: every operation against NumPy."""

import numpy as np
import pytest

from structopt._jit import kernel
from structopt._jit.lanes import (
    EVERY_LANE,
    LANES,
    everywhere,
    lanes_equal,
    larger,
    load,
    lowest_lane,
    minus,
    plus,
    room,
    smaller,
    store,
    store_whole,
    times,
    where,
)


@kernel
def _operations(a, b, at, bits, out):
    x, y = load(a, at), load(b, at)
    store(out, 0, plus(x, y))
    store(out, LANES, minus(x, y))
    store(out, 2 * LANES, times(x, y))
    store(out, 3 * LANES, larger(x, y))
    store(out, 4 * LANES, smaller(x, y))
    store(out, 5 * LANES, everywhere(2.5))
    store(out, 6 * LANES, where(bits, x, y))


@pytest.mark.parametrize("at", [0, 3, 16])
def test_operations_are_those_of_numpy_bit_by_bit(at):
    rng = np.random.default_rng(at)
    a, b = rng.normal(size=(2, 40))
    a[5] = b[6] = -np.inf
    b[at + 7] = a[at + 7]
    bits = int(rng.integers(EVERY_LANE))
    out = np.full(8 * LANES, 7.0)
    _operations(a, b, at, bits, out)
    x, y = a[at : at + LANES], b[at : at + LANES]
    chosen = (bits >> np.arange(LANES)) & 1 == 1
    expected = [x + y, x - y, x * y, np.maximum(x, y), np.minimum(x, y), np.full(LANES, 2.5), np.where(chosen, x, y)]
    np.testing.assert_array_equal(out.reshape(8, LANES)[:-1], expected)
    np.testing.assert_array_equal(out[-LANES:], 7.0)  # what lies beside stays as it was


@kernel
def _whole(a, whole, number):
    store_whole(whole, 4, load(a, 0))
    return lanes_equal(whole, 4, number)


def test_whole_numbers_and_lanes_that_equal_one():
    a = np.array([3.0, -2.0, 0.0, 3.0] * 4)
    whole = np.full(24, 9, dtype=np.int32)
    for number in (3, -2, 5):
        bits = _whole(a, whole, number)
        np.testing.assert_array_equal((bits >> np.arange(LANES)) & 1 == 1, a == number)
        assert bits <= EVERY_LANE
    np.testing.assert_array_equal(whole, [9] * 4 + a.astype(int).tolist() + [9] * 4)


@kernel
def _lowest(bits):
    return lowest_lane(bits)


def test_the_lowest_lane():
    assert [_lowest(bits) for bits in (1, 12, 1 << 15, EVERY_LANE)] == [0, 2, 15, 0]


def test_room_starts_at_a_line_of_the_cache():
    for rows in (0, 1, 7):
        found = room(rows)
        assert found.shape == (rows * LANES,) and found.ctypes.data % 64 == 0
