"""Checkpoints: one archive with the arrays and a JSON document, replaced atomically, without pickle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structopt._archive import UNREADABLE, read_archive, write_archive
from structopt.checks import checked, floats, integers, number, whole
from structopt.errors import DeclarationError

__all__ = ["Checkpoint", "Saved", "read_checkpoint", "write_checkpoint"]

_FORMAT = "structopt checkpoint 4"

#: What a trainer may keep: arrays, numbers and whatever JSON can hold.
State = Mapping[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often to write.

    Parameters
    ----------
    path : path
        The file; it is replaced as a whole, so a killed run leaves the last complete one.
    every : float
        Seconds between two writes. Writing never takes more than about a twentieth of the run, whatever this says,
        unless it is 0: then every record is written.

    Examples
    --------
    >>> Checkpoint("run.npz", every=60)
    Checkpoint(path='run.npz', every=60)
    """

    path: str | os.PathLike[str]
    every: float = 10.0

    def __post_init__(self) -> None:
        if not self.every >= 0:
            raise DeclarationError(f"a checkpoint is written every so many seconds, at least 0; got {self.every!r}")
        parent = Path(self.path).resolve().parent
        if not parent.is_dir():
            raise DeclarationError(f"checkpoint {os.fspath(self.path)!r}: the folder {parent} does not exist")


@checked
def write_checkpoint(path: str | os.PathLike[str], state: State) -> None:
    """Write `state` to `path`, completely or not at all.

    Examples
    --------
    >>> import tempfile, os, numpy as np
    >>> path = os.path.join(tempfile.mkdtemp(), "state.npz")
    >>> write_checkpoint(path, {"w": np.ones(2), "passes": 3, "seen": ["a"]})
    >>> read_checkpoint(path)
    {'w': array([1., 1.]), 'passes': 3, 'seen': ['a']}
    """
    arrays: dict[str, NDArray[Any]] = {}
    document: dict[str, Any] = {}
    for name, value in state.items():
        if isinstance(value, (np.ndarray, np.generic, float)):  # so that the type of a number is kept
            arrays[name] = np.asarray(value)
        else:
            document[name] = value
    write_archive(path, _FORMAT, {"keys": list(state), "state": document}, arrays, allow_nan=True)


@checked
def read_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_checkpoint` wrote."""
    try:
        content, arrays = read_archive(path, _FORMAT, allow_nan=True)
        state: dict[str, Any] = {}
        for name in content["keys"]:
            value = arrays[name] if name in arrays else content["state"][name]
            state[name] = float(value) if isinstance(value, np.ndarray) and value.ndim == 0 else value
    except (DeclarationError, *UNREADABLE) as error:
        raise DeclarationError(
            f"{os.fspath(path)!r} is not a checkpoint of this version ({error}). Delete it or choose another path."
        ) from error
    return state


class Saved:
    """The state of a checkpoint, read entry by entry with a check: a file may hold anything.

    Examples
    --------
    >>> saved = Saved({"w": np.ones(2), "steps": 3})
    >>> saved.array("w", (2,)), saved.whole("steps")
    (array([1., 1.]), 3)
    >>> saved.array("w", (3,))
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: w must have shape (3,), got (2,).
    """

    def __init__(self, state: State) -> None:
        self._state = state

    def __contains__(self, name: str) -> bool:
        return name in self._state

    def _get(self, name: str) -> Any:
        if name not in self._state:
            raise DeclarationError(f"{name} is missing")
        return self._state[name]

    def array(
        self,
        name: str,
        shape: tuple[int, ...] | None = None,
        low: float | None = None,
        high: float | None = None,
        finite: bool = True,
    ) -> NDArray[np.float64]:
        """Return a new array of float64 that can be written to."""
        value = self._get(name)
        if not isinstance(value, np.ndarray):
            raise DeclarationError(f"{name} must be an array")
        found = np.array(floats(name, value, shape, finite=finite), order="C")
        if found.size and ((low is not None and found.min() < low) or (high is not None and found.max() > high)):
            raise DeclarationError(f"{name} has entries outside [{low}, {high}]")
        return found

    def indices(
        self, name: str, shape: tuple[int, ...] | None = None, low: int | None = None, high: int | None = None
    ) -> NDArray[np.intp]:
        """Return a new array of integers."""
        value = self._get(name)
        if not isinstance(value, np.ndarray):
            raise DeclarationError(f"{name} must be an array")
        return integers(name, value, shape, low, high)

    def whole(self, name: str, low: int = 0, high: int = 1 << 52) -> int:
        """Return an integer, which a checkpoint may hold as a float."""
        value = self._get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return whole(name, value, low, high)

    def number(self, name: str, low: float | None = None, high: float | None = None, finite: bool = True) -> float:
        """Return a float."""
        return number(name, self._get(name), low, high, finite=finite)

    def flag(self, name: str) -> bool:
        """Return a truth value, which a checkpoint may hold as a float."""
        value = self._get(name)
        if not isinstance(value, (bool, int, float)) or value not in (0, 1):
            raise DeclarationError(f"{name} must be True or False")
        return bool(value)

    def random(self, name: str, generator: np.random.Generator) -> None:
        """Give a generator the state that is saved."""
        value = self._get(name)
        try:
            # With an even increment the generator may repeat one number for ever, and sampling would not end.
            if value["bit_generator"] == "PCG64" and not value["state"]["inc"] & 1:
                raise ValueError("an even increment")
            generator.bit_generator.state = value
        except UNREADABLE as error:
            raise DeclarationError(f"{name} is not the state of a random generator ({error})") from error
