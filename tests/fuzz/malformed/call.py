"""One call: a function of ours, valid arguments with their kinds, and what its answer must satisfy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from . import kinds

Kind = Callable[..., kinds.Choice]
#: Kinds that follow from an argument's name, and those that follow from the type of its valid value.
_BY_NAME: dict[str, Kind] = {"X": kinds.rows, "path": kinds.path, "random_state": kinds.seed}
_BY_TYPE: dict[type, Kind] = {
    bool: kinds.flag, int: kinds.count, float: kinds.real, str: kinds.option, np.ndarray: kinds.array,
    FunctionType: kinds.function,
}  # fmt: skip


class Argument(NamedTuple):
    """A valid value, and the kind that knows malformed ones (None: it stays as it is)."""

    value: Any
    kind: Kind | None = None


def maybe(value: Any, kind: Kind | None = None) -> Argument:
    """Return an argument that may be None."""
    return Argument(value, partial(kind or _BY_TYPE.get(type(value), kinds.thing), optional=True))


def value_of(argument: Any) -> Any:
    """Return the valid value of an argument that has or has not been given a kind."""
    return argument.value if isinstance(argument, Argument) else argument


@dataclass
class Call:
    """A call that is valid as it stands.

    Attributes
    ----------
    function : callable
        Called with the arguments by name.
    arguments : dict of str to Argument
    tolerance : float or None
        How far the answer for an equivalent argument may lie from the answer for the valid one; None: not compared.
    check : callable
        Raises AssertionError if an answer is not sound; it is given the answer.
    """

    function: Callable[..., Any]
    arguments: dict[str, Argument]
    tolerance: float | None = None
    check: Callable[[Any], None] = field(default=lambda answer: None)

    def run(self, values: dict[str, Any]) -> Any:
        return self.function(**values)

    def checked(self, check: Callable[[Any], None]) -> Call:
        """Let a function look at the answer."""
        self.check = check
        return self


def near(tolerance: float | None, function: Callable[..., Any], /, **values: Any) -> Call:
    """Return a call whose answers are compared; arguments without a kind have that of their name or type."""
    arguments = {}
    for name, value in values.items():
        kind = _BY_NAME.get(name) or _BY_TYPE.get(type(value), kinds.thing)
        arguments[name] = value if isinstance(value, Argument) else Argument(value, kind)
    return Call(function, arguments, tolerance)


#: Calls whose answers are not compared, and calls whose answers must be the same.
call, exact = partial(near, None), partial(near, 1e-9)


Recipe = Callable[[np.random.Generator], Call]
RECIPES: dict[str, Recipe] = {}


def recipe(function: Recipe) -> Recipe:
    """Add a recipe under its name."""
    RECIPES[function.__name__] = function
    return function


def one_of(rng: np.random.Generator, calls: Sequence[Call]) -> Call:
    """Draw one of some calls."""
    return calls[int(rng.integers(len(calls)))]


def eighths(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    """Random numbers that every float type holds."""
    return rng.integers(-24, 25, size=shape) / 8.0


def positional(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """A function that takes the arguments of these names by position."""

    def called(**values: Any) -> Any:
        first = [values.pop(name) for name in names]
        return function(*first, **values)

    return called
