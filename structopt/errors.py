"""Exceptions: each message names the offending part in the user's terms and says how to fix it.

Few classes, each with one meaning. All derive from `StructoptError`; those that report a wrong
argument also derive from `ValueError` or `TypeError`, so that ordinary ``except`` clauses work.
Those that need more than a sentence carry a note with their section of the how-to guide.

Every module imports this one, so it is here that an installation is found to be spoiled: another distribution has the
import name ``structopt``, too, and replaces ``structopt/__init__.py`` when it is installed over this one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

__all__ = [
    "CheckpointWarning",
    "ClusterLost",
    "DeclarationError",
    "DiagramRefused",
    "InfeasibleSpace",
    "LabelNotAClass",
    "LabelNotInSpace",
    "NoGoodNotExpressible",
    "SeparationFailed",
    "ShardFailed",
    "SolverFailed",
    "SolverNotAvailable",
    "SpaceMismatch",
    "StructoptError",
    "TimeLimitReached",
    "UnboundedObjective",
    "UnsupportedModel",
    "UnsupportedSpace",
]


class StructoptError(Exception):
    """Base of every error raised on purpose by structopt.

    Tracebacks end with the note of a class that has a section in the guide; ``str(error)`` stays the bare sentence.

    Examples
    --------
    >>> InfeasibleSpace("The label space is empty.").__notes__
    ['See docs/howto/errors.md#infeasiblespace.']
    """

    #: The section of the guide, a heading's anchor.
    guide: ClassVar[str] = ""
    #: The message, cut before and after each number of an example: every second piece is a number.
    _pieces: tuple[str, ...] = ()

    def __init__(self, *arguments: Any) -> None:
        if arguments and isinstance(arguments[0], str) and _MARK in arguments[0]:
            self._pieces = tuple(arguments[0].split(_MARK))
            arguments = ("".join(self._pieces), *arguments[1:])
        super().__init__(*arguments)
        if self.guide:
            self.add_note(f"See docs/howto/errors.md#{self.guide}.")


# Stands around numbers of examples until the message reaches its error. No text of a user contains it.
_MARK = f"\x00{os.urandom(8).hex()}\x00"


def marked(i: int) -> str:
    """Return the number of an example for the message of an error, in which `numbered` can replace it.

    Examples
    --------
    >>> with numbered([4, 7]):
    ...     raise DeclarationError(f"Example {marked(1)} has the label 'example 1'.")
    Traceback (most recent call last):
    structopt.errors.DeclarationError: Example 7 has the label 'example 1'.
    """
    return f"{_MARK}{int(i)}{_MARK}"


@contextmanager
def numbered(numbers: Sequence[int] | Any) -> Iterator[None]:
    """Let errors about part of a data set name its examples by their numbers in the whole.

    Code that sees only the part counts from 0, and writes numbers of examples with `marked`. The message,
    `LabelNotInSpace.violations` and `LabelNotInSpace.examples` are changed in the error itself, which may have notes
    and attributes of its own.

    Parameters
    ----------
    numbers : sequence of int
        The number in the whole of each example of the part.

    Examples
    --------
    >>> with numbered([4, 7]):
    ...     raise LabelNotInSpace(f"example {marked(1)}: no label.", examples=(1,))
    Traceback (most recent call last):
    structopt.errors.LabelNotInSpace: example 7: no label.
    See docs/howto/errors.md#labelnotinspace.
    """

    try:
        yield
    except StructoptError as error:
        number_examples(error, numbers)
        raise


def number_examples(error: StructoptError, numbers: Sequence[int] | Any) -> None:
    """Change one error as `numbered` does; a context manager takes microseconds even if there is no error."""

    def number(i: int) -> int:
        return int(numbers[i]) if i < len(numbers) else i

    def whole(pieces: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(number(int(piece))) if k % 2 else piece for k, piece in enumerate(pieces))

    if error._pieces and error.args and error.args[0] == "".join(error._pieces):
        error._pieces = whole(error._pieces)
        error.args = ("".join(error._pieces), *error.args[1:])
    if isinstance(error, LabelNotInSpace):
        error._violation_pieces = tuple(map(whole, error._violation_pieces))
        error.violations = tuple(map("".join, error._violation_pieces))
        error.examples = tuple(map(number, error.examples))


class DeclarationError(StructoptError, ValueError):
    """A declaration is malformed: a wrong shape, a NaN coefficient, a name used twice."""


class LabelNotAClass(DeclarationError):
    """A label given to a classifier's score cannot be one of its classes: a text where they are numbers, or a list."""

    guide = "labelnotaclass"


class SpaceMismatch(DeclarationError):
    """Variables or vectors of one label space were used with another."""


class DiagramRefused(DeclarationError):
    """A space cannot be compiled into a decision diagram.

    Attributes
    ----------
    reason : str
        ``"width"``, ``"labels"``, ``"tolerance"``, ``"not determined"``, ``"unbounded"``, ``"domain"``,
        ``"no integers"`` or ``"lazy rows"``.
    widths : tuple of int
        States of the layers that were made, where the diagram got too wide.
    rows : tuple of str
        Names of the rows that keep it wide, or that a tolerance decides about.
    """

    guide = "diagramrefused"

    def __init__(
        self, message: str, reason: str = "", widths: tuple[int, ...] = (), rows: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.widths = widths
        self.rows = rows


class InfeasibleSpace(StructoptError, ValueError):
    """The label space is empty, or no label satisfies the side constraints of a call.

    Attributes
    ----------
    rows : tuple of str
        Names of a smallest set of rows that contradict each other, if one was found. Side constraints are named by
        their position: ``"rows[0]"``, ``"forbid[2]"``.
    """

    guide = "infeasiblespace"

    def __init__(
        self,
        message: str,
        rows: tuple[str, ...] = (),
        diagnose: Callable[[], tuple[str, tuple[str, ...]]] | None = None,
    ) -> None:
        super().__init__(message)
        self._rows = rows
        # Searches catch many of these errors, so the conflict is only looked for if someone reads it.
        self._diagnose = diagnose

    @property
    def rows(self) -> tuple[str, ...]:
        diagnose, self._diagnose = self._diagnose, None
        if diagnose is not None:
            message, self._rows = diagnose()
            self.args = (message,)
        return self._rows

    def __str__(self) -> str:
        return str(self.args[0]) if self.rows or self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.rows)


class UnboundedObjective(StructoptError, ValueError):
    """The objective grows without limit over the space.

    Attributes
    ----------
    variables : tuple of str
        Names of the variables that move along an unbounded ray.
    """

    guide = "unboundedobjective"

    def __init__(self, message: str, variables: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.variables = variables


class LabelNotInSpace(StructoptError, ValueError):
    """A vector is not a label of the space.

    Attributes
    ----------
    violations : tuple of str
        The rows that the vector violates, or what is wrong with each label of a data set.
    examples : tuple of int
        The numbers of all labels of a data set that cannot be used. It is empty if the error is about one label.
    """

    guide = "labelnotinspace"

    def __init__(self, message: str, violations: tuple[str, ...] = (), examples: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self._violation_pieces = tuple(tuple(text.split(_MARK)) for text in violations)
        self.violations = tuple(map("".join, self._violation_pieces))
        self.examples = examples


class UnsupportedSpace(StructoptError, TypeError):
    """A backend cannot solve this kind of space (integers, free variables, extra rows, ...)."""

    guide = "unsupportedspace"


class UnsupportedModel(StructoptError, TypeError):
    """A Pyomo, PuLP or file model holds a part that a label space cannot express."""

    guide = "unsupportedmodel"


class NoGoodNotExpressible(StructoptError, ValueError):
    """No no-good cut, a linear row, excludes the label alone: some variable is strictly inside its bounds."""

    guide = "nogoodnotexpressible"


class SeparationFailed(StructoptError, RuntimeError):
    """A function that finds lazy rows raised an exception, returned no rows, or rows that cut off a label.

    Attributes
    ----------
    name : str
        Of the lazy rows.
    point : ndarray or None
        The point at which the function was called, or the label that was cut off.
    """

    guide = "separationfailed"

    def __init__(self, message: str, name: str = "", point: Any = None) -> None:
        super().__init__(message)
        self.name = name
        self.point = point


class SolverNotAvailable(StructoptError, RuntimeError):
    """A solver or its executable is not installed; the message says how to get it."""

    guide = "solvernotavailable"


class SolverFailed(StructoptError, RuntimeError):
    """A solver stopped without an answer.

    Attributes
    ----------
    status : str
        The status message of the solver.
    partial : object
        What had been found before the failure (an incumbent, a half-trained model), or None.
    """

    guide = "solverfailed"

    def __init__(self, message: str, status: str = "", partial: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.partial = partial


class TimeLimitReached(SolverFailed):
    """The time limit, or the rounds of a separation, were over before any feasible label was found.

    Attributes
    ----------
    bound : float
        No label has a larger value; infinite if nothing was proved.
    """

    guide = "timelimitreached"

    def __init__(self, message: str, status: str = "", partial: Any = None, bound: float = float("inf")) -> None:
        super().__init__(message, status, partial)
        self.bound = bound


class ShardFailed(StructoptError, RuntimeError):
    """A part of distributed data could not be loaded or used; the error of the worker is the cause.

    Attributes
    ----------
    shard : int
        Its number.
    partial : object
        What had been learned before, or None.
    """

    guide = "shardfailed"

    def __init__(self, message: str, shard: int = -1, partial: Any = None) -> None:
        super().__init__(message)
        self.shard = shard
        self.partial = partial


class ClusterLost(StructoptError, RuntimeError):
    """The workers of a cluster do not answer: the client was closed, no worker is left, or a pass took too long.

    Attributes
    ----------
    partial : object
        What had been learned before, or None.
    """

    guide = "clusterlost"

    def __init__(self, message: str, partial: Any = None) -> None:
        super().__init__(message)
        self.partial = partial


class CheckpointWarning(RuntimeWarning):
    """A checkpoint could not be written (a full or read-only disk, a folder that is gone); training goes on."""


T = TypeVar("T")


def removed_name(name: str, instead: str) -> AttributeError:
    """Return the error for a name that was removed."""
    return AttributeError(f"{name} was removed: {instead}.")


def removed(**instead: str) -> Callable[[type[T]], type[T]]:
    """Decorate a class whose attributes of these names were removed.

    Examples
    --------
    >>> @removed(area="use size * size")
    ... class Square:
    ...     size = 2
    >>> Square().area
    Traceback (most recent call last):
        ...
    AttributeError: Square.area was removed: use size * size.
    """

    def decorate(owner: type[T]) -> type[T]:
        for name, remedy in instead.items():
            setattr(owner, name, _Removed(f"{owner.__name__}.{name}", remedy))
        return owner

    return decorate


class _Removed:
    """Attribute that raises, so that `hasattr` is false. A `__getattr__` would slow every attribute of its class."""

    def __init__(self, name: str, instead: str) -> None:
        self.name = name
        self.instead = instead

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        raise removed_name(self.name, self.instead)


def _check_installation() -> None:
    """Refuse to go on under the ``structopt/__init__.py`` of another distribution, or without any."""
    package = sys.modules["structopt"]
    if getattr(package, "__distribution__", None) == "structopt-learn":
        return
    from importlib import metadata

    where = getattr(package, "__file__", None)
    others = sorted(
        distribution.metadata["Name"]
        for distribution in metadata.distributions()
        if distribution.metadata["Name"] != "structopt-learn"
        and any(str(file) == "structopt/__init__.py" for file in distribution.files or ())
    )
    if where is None:
        cause = "structopt/__init__.py is missing: another distribution with this import name was uninstalled"
    elif others:
        cause = f"{where} was overwritten by the distribution {others[0]!r}, which has the same import name"
    else:
        cause = f"{where} is not the file of structopt-learn"
    uninstall = f"pip uninstall --yes {others[0]}; " if others else ""
    raise ImportError(
        f"This installation of structopt-learn is spoiled: {cause}. Repair it by: "
        f"{uninstall}pip install --force-reinstall --no-deps structopt-learn"
    )


_check_installation()
