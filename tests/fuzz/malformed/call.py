"""One call: a function of ours, valid arguments with their kinds, and what its answer must satisfy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .kinds import Choice

Kind = Callable[..., Choice]


class Argument(NamedTuple):
    """A valid value, and the kind that knows malformed ones (None: it stays as it is)."""

    value: Any
    kind: Kind | None = None


@dataclass
class Call:
    """A call that is valid as it stands.

    Attributes
    ----------
    function : callable
        Called with the arguments by name.
    arguments : dict of str to Argument
    check : callable
        Raises AssertionError if an answer is not sound; it is given the answer.
    tolerance : float or None
        How far the answer for an equivalent argument may lie from the answer for the valid one; None: not compared.
    """

    function: Callable[..., Any]
    arguments: dict[str, Argument]
    check: Callable[[Any], None] = field(default=lambda answer: None)
    tolerance: float | None = 1e-9

    def run(self, values: dict[str, Any]) -> Any:
        return self.function(**values)


Recipe = Callable[[np.random.Generator], Call]
RECIPES: dict[str, Recipe] = {}


def recipe(function: Recipe) -> Recipe:
    """Add a recipe under its name."""
    RECIPES[function.__name__] = function
    return function


def optional(kind: Kind) -> Kind:
    """The kind of an argument that may be None."""
    return partial(kind, optional=True)


def eighths(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    """Random numbers that every float type holds."""
    return rng.integers(-24, 25, size=shape) / 8.0


def positional(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """A function that takes the arguments of these names by position."""

    def call(**values: Any) -> Any:
        first = [values.pop(name) for name in names]
        return function(*first, **values)

    return call
