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
from structopt.checks import checked
from structopt.errors import DeclarationError

__all__ = ["Checkpoint", "read_checkpoint", "write_checkpoint"]

_FORMAT = "structopt checkpoint 4"
#: Before the names of arrays, which may be any text.
_ARRAY = "state/"

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
            arrays[f"{_ARRAY}{name}"] = np.asarray(value)
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
            value = arrays[_ARRAY + name] if _ARRAY + name in arrays else content["state"][name]
            state[name] = float(value) if isinstance(value, np.ndarray) and value.ndim == 0 else value
    except (DeclarationError, *UNREADABLE) as error:
        raise DeclarationError(
            f"{os.fspath(path)!r} is not a checkpoint of this version ({error}). Delete it or choose another path."
        ) from error
    return state
