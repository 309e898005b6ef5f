"""Lazy sequences of names: the strings of a million rows are not stored."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

__all__ = ["ArrayNames", "ChainedNames", "ChosenNames"]


class _Names(Sequence[str]):
    """Names that are made when they are asked for."""

    @abstractmethod
    def _name(self, position: int) -> str:
        """The name at a position, from 0."""

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self._name(int(index) % len(self))


@dataclass(frozen=True)
class ArrayNames(_Names):
    """Names of the elements of an array: ``y``, ``y[3]``, ``y[0,2]``."""

    name: str
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def _name(self, position: int) -> str:
        if not self.shape:
            return self.name
        place = np.unravel_index(position, self.shape)
        return f"{self.name}[{','.join(str(int(k)) for k in place)}]"


@dataclass(frozen=True)
class ChosenNames(_Names):
    """Some names of a sequence, by their positions in it."""

    names: Sequence[str]
    positions: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return self.positions.size

    def _name(self, position: int) -> str:
        return self.names[int(self.positions[position])]


class ChainedNames(_Names):
    """Several sequences of names seen as one."""

    def __init__(self, parts: Sequence[Sequence[str]]) -> None:
        self._parts = tuple(part for part in parts if len(part))
        self._starts = [0]
        for part in self._parts:
            self._starts.append(self._starts[-1] + len(part))

    def __len__(self) -> int:
        return self._starts[-1]

    def _name(self, position: int) -> str:
        part = bisect_right(self._starts, position) - 1
        return self._parts[part][position - self._starts[part]]

    def __repr__(self) -> str:
        shown = ", ".join(repr(name) for name in self[:4])
        return f"<{len(self)} names: {shown}{', ...' if len(self) > 4 else ''}>"
