"""Named arrays of variables: what `LabelSpace.binary`, `integer` and `continuous` return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from structopt.checks import converted
from structopt.errors import DeclarationError
from structopt.space.compiled import FloatArray
from structopt.space.expressions import Expression
from structopt.space.naming import ArrayNames
from structopt.space.rows import Shape

if TYPE_CHECKING:
    from structopt.space import LabelSpace

__all__ = ["Block", "bounds_of", "shape_of"]


class Block(Expression):
    """A named array of variables: an expression, and a slice of ``z``.

    Parameters
    ----------
    space : LabelSpace
        The space that it belongs to.
    start : int
        Where it begins in a point.
    names : sequence of str, optional
        Names of its entries; numbered by default.

    Attributes
    ----------
    name : str
    shape : tuple of int
    slice : slice
        Where the block's variables stand in ``z``, in C order.
    """

    def __init__(
        self, space: LabelSpace, name: str, shape: Shape, start: int, names: Sequence[str] | None = None
    ) -> None:
        size = int(np.prod(shape, dtype=np.int64))
        super().__init__(space, shape, _select(np.arange(start, start + size)), np.zeros(size))
        self.name = name
        self.slice = slice(start, start + size)
        self.names: Sequence[str] = ArrayNames(name, shape) if names is None else tuple(names)

    def _rows(self, index: npt.NDArray[np.intp]) -> Expression:
        return Expression(self.space, index.shape, _select(self.slice.start + index.ravel()), np.zeros(index.size))

    def __repr__(self) -> str:
        return f"<Block {self.name!r} of shape {self.shape}: z[{self.slice.start}:{self.slice.stop}]>"


def shape_of(name: str, shape: Any) -> Shape:
    """The shape of a block as a tuple, checked."""
    several = isinstance(shape, tuple | list) or (isinstance(shape, np.ndarray) and shape.ndim == 1)
    dimensions = tuple(shape) if several else (shape,)
    if any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0 for n in dimensions):
        raise DeclarationError(f"Block {name!r}: a shape is made of non-negative integers, got {shape!r}.")
    return tuple(int(n) for n in dimensions)


def bounds_of(name: str, shape: Shape, lower: npt.ArrayLike, upper: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Flat bounds, one pair a variable, broadcast over the shape and checked to leave room."""
    found = []
    for what, value in (("lower", lower), ("upper", upper)):
        array = converted(f"The {what} bound of {name!r}", value)
        if np.isnan(array).any():
            raise DeclarationError(f"Block {name!r}: {what} bound is NaN.")
        try:
            found.append(np.broadcast_to(array, shape).ravel().copy())
        except ValueError:
            raise DeclarationError(
                f"Block {name!r} has shape {shape}; its {what} bound has shape {array.shape}."
            ) from None
    low, up = found
    wrong = (low > up) | (low == np.inf) | (up == -np.inf)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise DeclarationError(
            f"{ArrayNames(name, shape)[k]} has no value between its bounds {low[k]:g} and {up[k]:g}."
        )
    return low, up


def _select(columns: npt.NDArray[np.intp]) -> sp.csr_array:
    """One row per entry of `columns`, with a 1 in that column."""
    n_columns = int(columns.max()) + 1 if columns.size else 0
    return sp.csr_array(
        (np.ones(columns.size), columns.astype(np.int32), np.arange(columns.size + 1, dtype=np.int32)),
        shape=(columns.size, n_columns),
    )
