"""Sixteen floats side by side as one value of a kernel: a column for each of sixteen examples.

LLVM turns a loop into vector instructions only where it is long, or expects it to be: loops over the columns of a
table, which are short, stay scalar. Here the operations on all columns are single instructions of its intermediate
language, which become as many vector instructions as the processor needs for them (two with AVX-512, four with AVX2,
eight with SSE2 or NEON). Nothing is reordered: results are those of the loops, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic, models, register_model

from structopt._jit import kernel

__all__ = [
    "EVERY_LANE",
    "LANES",
    "everywhere",
    "lanes_equal",
    "larger",
    "load",
    "lowest_lane",
    "minus",
    "plus",
    "room",
    "smaller",
    "store",
    "store_whole",
    "times",
    "where",
]

#: Floats in a value.
LANES = 16
#: A bit for each of them.
EVERY_LANE = (1 << LANES) - 1

_Generated = tuple[Any, Callable[..., Any]]


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"Lanes({LANES})")


_lanes = _Lanes()
_FLOATS = ir.VectorType(ir.DoubleType(), LANES)
_INTEGERS = ir.VectorType(ir.IntType(32), LANES)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, front_end: Any) -> None:
        super().__init__(manager, front_end, _FLOATS)


def _place(context: Any, builder: Any, signature: Any, args: Any, vector: Any) -> Any:
    """The pointer to the lanes at an index of a flat array; looks at the index where numba's bounds checking is on."""
    array = cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0])
    index = context.cast(builder, args[1], signature.args[1], types.int64)
    if config.BOUNDSCHECK:
        last = builder.add(index, index.type(LANES))
        outside = builder.or_(
            builder.icmp_signed("<", index, index.type(0)), builder.icmp_signed(">", last, array.nitems)
        )
        with builder.if_then(outside):
            context.call_conv.return_user_exc(builder, IndexError, ("lanes outside of their array",))
    return builder.bitcast(builder.gep(array.data, [index]), vector.as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def load(typing: Any, array: Any, index: Any) -> _Generated:
    """``array[index : index + LANES]`` of a flat array of floats."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_place(context, builder, signature, args, _FLOATS), align=8)

    return _lanes(array, index), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(typing: Any, array: Any, index: Any, value: Any) -> _Generated:
    """``array[index : index + LANES] = value``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _place(context, builder, signature, args, _FLOATS), align=8)
        return context.get_dummy_value()

    return types.void(array, index, value), generate


@intrinsic  # type: ignore[untyped-decorator]
def store_whole(typing: Any, array: Any, index: Any, value: Any) -> _Generated:
    """``array[index : index + LANES] = value``, of whole numbers, in a flat array of 32-bit integers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature, args, _INTEGERS)
        builder.store(builder.fptosi(args[2], _INTEGERS), place, align=4)
        return context.get_dummy_value()

    return types.void(array, index, value), generate


@intrinsic  # type: ignore[untyped-decorator]
def lanes_equal(typing: Any, array: Any, index: Any, number: Any) -> _Generated:
    """The lanes of ``array[index : index + LANES]``, 32-bit integers, that equal a number, as bits of an integer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = builder.load(_place(context, builder, signature, args, _INTEGERS), align=4)
        number = builder.trunc(args[2], ir.IntType(32))
        equal = builder.icmp_signed("==", values, _in_all(builder, _INTEGERS, number))
        return builder.zext(builder.bitcast(equal, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(array, index, types.int64), generate


def _in_all(builder: Any, vector: Any, number: Any) -> Any:
    none = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(none, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(ir.IntType(32), LANES), None))


@intrinsic  # type: ignore[untyped-decorator]
def everywhere(typing: Any, number: Any) -> _Generated:
    """A float in all lanes."""

    return _lanes(types.float64), lambda context, builder, signature, args: _in_all(builder, _FLOATS, args[0])


@intrinsic  # type: ignore[untyped-decorator]
def plus(typing: Any, a: Any, b: Any) -> _Generated:
    """``a + b``."""
    return _lanes(a, b), lambda context, builder, signature, args: builder.fadd(*args)


@intrinsic  # type: ignore[untyped-decorator]
def minus(typing: Any, a: Any, b: Any) -> _Generated:
    """``a - b``."""
    return _lanes(a, b), lambda context, builder, signature, args: builder.fsub(*args)


@intrinsic  # type: ignore[untyped-decorator]
def times(typing: Any, a: Any, b: Any) -> _Generated:
    """``a * b``."""
    return _lanes(a, b), lambda context, builder, signature, args: builder.fmul(*args)


@intrinsic  # type: ignore[untyped-decorator]
def larger(typing: Any, a: Any, b: Any) -> _Generated:
    """``a if a > b else b``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return _lanes(a, b), generate


@intrinsic  # type: ignore[untyped-decorator]
def smaller(typing: Any, a: Any, b: Any) -> _Generated:
    """``a if a < b else b``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return _lanes(a, b), generate


@intrinsic  # type: ignore[untyped-decorator]
def lowest_lane(typing: Any, bits: Any) -> _Generated:
    """The number of the lowest bit that is set."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def where(typing: Any, bits: Any, one: Any, other: Any) -> _Generated:
    """``one`` in the lanes whose bits are set, ``other`` elsewhere."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = builder.bitcast(builder.trunc(args[0], ir.IntType(LANES)), ir.VectorType(ir.IntType(1), LANES))
        return builder.select(mask, args[1], args[2])

    return _lanes(types.int64, one, other), generate


@kernel
def room(rows: int) -> Any:
    """A flat array for so many values, none of which lies on two more lines of the cache than it must."""
    array = np.empty(rows * LANES + 8)
    first = (-array.ctypes.data % 64) // 8
    return array[first : first + rows * LANES]
