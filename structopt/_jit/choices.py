"""A choice that a kernel leaves to another room: which label to take, given the best h of every level of its loss.

Kernels of a room cannot import those of a room that stands after it, and a function as an argument would be compiled
anew in every process. The address of machine code is a number, and calling it takes a few nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from structopt._jit import FloatArray

__all__ = [
    "CHOICE",
    "CHOSEN",
    "FAILED",
    "G",
    "G_CONST",
    "H",
    "H_CONST",
    "LEAST",
    "MIXES",
    "N_NUMBERS",
    "N_ROOM",
    "QUANTUM",
    "SECOND",
    "SHARE",
    "SLOPE",
    "UNIT",
    "UPPER",
    "VALUE",
    "LevelChoice",
    "choose",
]

_floats = types.CPointer(types.float64)  # type: ignore[attr-defined, unused-ignore]
#: ``choice(form, heights, step, count, work)``, three pointers to floats and two integers: looks at the heights
#: ``heights[0], heights[step], ...`` of `count` levels and writes what it chose into `work`.
CHOICE = types.void(_floats, _floats, types.int64, types.int64, _floats)

#: The first numbers of the work, before room for `N_ROOM` times as many numbers as there are levels. Given: level k has
#: ``g = g_const + (least + k unit) quantum``, h is `h_const` plus the height, and whether mixtures count. Chosen: a
#: level (-1: none is violated), the other one of a mixture and its share; h, g and ψ there, the derivative of ψ in h,
#: what no ψ exceeds, and whether the choice failed. The level chosen for one example is where the choice of the next
#: one begins to look.
H_CONST, G_CONST, LEAST, UNIT, QUANTUM, MIXES = range(6)
CHOSEN, SECOND, SHARE, H, G, VALUE, SLOPE, UPPER, FAILED = range(6, 15)
N_NUMBERS, N_ROOM = 15, 3


class LevelChoice(NamedTuple):
    """Which label to take, given the best h of every level of the loss.

    Attributes
    ----------
    code : callable
        Returns a compiled function of the type `CHOICE`: compiled when it is first needed, and not where a plan has
        no use for a choice.
    form : ndarray, shape (8,)
        What it is to maximise.
    h_offset : float
        Added to every h.
    mixes : bool
        Whether it may take a mixture of two labels.
    check : callable
        Raises what a function of the user's own raised inside a kernel, which cannot.
    """

    code: Callable[[], Any]
    form: FloatArray
    h_offset: float
    mixes: bool
    check: Callable[[], None]

    @property
    def address(self) -> int:
        """Its machine code."""
        return int(self.code().address)


@intrinsic  # type: ignore[untyped-decorator, unused-ignore]
def choose(
    typing: Any, address: Any, form: Any, heights: Any, first: Any, step: Any, count: Any, work: Any
) -> tuple[Any, Any]:
    """Call a `CHOICE` at an address; its heights begin at entry `first` of an array."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def data(k: int) -> Any:
            return cgutils.create_struct_proxy(signature.args[k])(context, builder, value=args[k]).data

        number, whole = ir.DoubleType().as_pointer(), ir.IntType(64)
        function = ir.FunctionType(ir.VoidType(), [number, number, whole, whole, number])
        heights = builder.gep(data(2), [args[3]])
        builder.call(builder.inttoptr(args[0], function.as_pointer()), [data(1), heights, args[4], args[5], data(6)])
        return context.get_dummy_value()

    return types.void(types.int64, form, heights, types.int64, types.int64, types.int64, work), generate
