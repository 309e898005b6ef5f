"""The linear program that a reader of LP or MPS files builds, and errors with file, line and text.

The files are not read by a solver, because solvers' readers guess. HiGHS 1.15 drops the 3 of ``2 a + 3 >= 4``, takes
the name ``infra`` for infinity times ``ra``, and reads an MPS file with an entry of an unknown row as a model without
coefficients, each without a warning. The readers here accept what the formats' manuals define, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from structopt.errors import DeclarationError, UnsupportedModel

__all__ = ["INFINITE", "Place", "Program", "signed_infinity"]

#: A bound of this size or more is none, as in CPLEX, HiGHS and SCIP.
INFINITE = 1e20

_SHOWN = 60


@dataclass(slots=True)
class Place:
    """The current position of a reader: the file, the number of the line (from 1), and its text."""

    file: str
    number: int = 0
    line: str = ""

    def refuse(self, why: str) -> NoReturn:
        """Raise `DeclarationError` with file, line and text."""
        raise DeclarationError(self.message(why))

    def unsupported(self, why: str) -> NoReturn:
        """Raise `UnsupportedModel`: the file is well-formed and holds more than a label space."""
        raise UnsupportedModel(self.message(why))

    def message(self, why: str) -> str:
        """The text of an error."""
        text = self.line.strip()
        shown = f" (the line is {text[:_SHOWN] + ('...' if len(text) > _SHOWN else '')!r})" if text else ""
        where = f"{self.file}, line {self.number}" if self.number else self.file
        return f"{where}: {why}{shown}."


def signed_infinity(value: float) -> float:
    """The value, or an infinity of its sign if it stands for none."""
    return value if -INFINITE < value < INFINITE else float(np.copysign(np.inf, value))


@dataclass
class Program:
    """Columns, rows and entries in the order of the file. A bound that the file does not state is None."""

    name: str = ""
    column: dict[str, int] = field(default_factory=dict)
    lower: list[float | None] = field(default_factory=list)
    upper: list[float | None] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    row: dict[str, int] = field(default_factory=dict)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    #: Entries of the matrix: rows, columns, values.
    entries: tuple[list[int], list[int], list[float]] = field(default_factory=lambda: ([], [], []))
    costs: dict[int, float] = field(default_factory=dict)
    constant: float = 0.0
    maximize: bool = False

    def variable(self, name: str) -> int:
        """The number of a variable, which is new if it was not named before."""
        found = self.column.setdefault(name, len(self.lower))
        if found == len(self.lower):
            self.lower.append(None)
            self.upper.append(None)
            self.integer.append(False)
        return found

    def add_row(self, name: str, low: float, high: float, place: Place) -> int:
        """A further row; a name that is there already is refused."""
        if name in self.row:
            place.refuse(f"a second row is called {name!r}; give it another name")
        self.row[name] = len(self.row_lower)
        self.row_lower.append(low)
        self.row_upper.append(high)
        return len(self.row_lower) - 1

    def enter(self, i: int, j: int, value: float) -> None:
        """A further entry of the matrix; entries of one place are added."""
        rows, columns, values = self.entries
        rows.append(i)
        columns.append(j)
        values.append(value)

    def bound(self, j: int, name: str, low: float | None, high: float | None, place: Place) -> None:
        """State bounds; the same side stated twice with two values is refused (tools take the first or the last)."""
        for side, store, value in (("lower", self.lower, low), ("upper", self.upper, high)):
            if value is None:
                continue
            value = signed_infinity(value)
            if value == (np.inf if side == "lower" else -np.inf):
                place.refuse(f"the {side} bound of {name!r} is {value}; no number lies beyond it")
            if store[j] not in (None, value):
                place.refuse(f"a second {side} bound of {name!r}, {value!r} after {store[j]!r}; keep one of them")
            store[j] = value

    def bounds(self) -> tuple[list[float], list[float]]:
        """Lower and upper bounds with the format's defaults where none was stated."""
        lower = [0.0 if low is None else low for low in self.lower]
        upper = [np.inf if high is None else high for high in self.upper]
        return lower, upper
