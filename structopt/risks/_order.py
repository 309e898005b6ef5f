"""An ascending order of floats, faster than argsort for large arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from structopt._jit import kernel
from structopt.risks._features import FloatArray, IntArray

__all__ = ["ascending"]

UnsignedArray = npt.NDArray[np.uint64]

# Below this size argsort is as fast.
_SMALL = 1 << 13


def ascending(values: FloatArray) -> IntArray:
    """Return the order that sorts `values`.

    numpy sorts 64-bit integers with vector instructions but argsorts them one by one. So the leading bits of each
    float and its index are packed into one integer and those are sorted; the few that agree in the leading bits
    are then put right by insertion. Arrays with too many of these go to argsort.
    """
    if values.size < _SMALL or values.size >= 1 << 31:
        return np.argsort(values)
    index_bits = int(values.size - 1).bit_length()
    packed = _pack(np.ascontiguousarray(values), np.uint64(index_bits))
    packed.sort()
    order = np.empty(values.size, dtype=np.int64)
    if _unpack(packed, values, np.uint64(index_bits), order):
        return order
    return np.argsort(values)


@kernel
def _pack(values: FloatArray, index_bits: np.uint64) -> UnsignedArray:
    bits = values.view(np.uint64)
    packed = np.empty(values.size, np.uint64)
    top = np.uint64(1) << np.uint64(63)
    for i in range(values.size):
        b = bits[i]
        # Negative floats grow with decreasing bits, positive ones come after them.
        key = ~b if b & top else b | top
        packed[i] = ((key >> index_bits) << index_bits) | np.uint64(i)
    return packed


@kernel
def _unpack(packed: UnsignedArray, values: FloatArray, index_bits: np.uint64, order: IntArray) -> bool:
    """Fill `order`; False if it needed more than a few insertions per entry."""
    mask = (np.uint64(1) << index_bits) - np.uint64(1)
    budget = 4 * order.size
    run = 0  # start of the entries that agree in the leading bits; only these are compared, by value
    for i in range(order.size):
        index = np.int64(packed[i] & mask)
        if i > 0 and packed[i] >> index_bits != packed[i - 1] >> index_bits:
            run = i
        j = i
        while j > run and values[order[j - 1]] > values[index]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = index
        budget -= i - j
        if budget < 0:
            return False
    return True
