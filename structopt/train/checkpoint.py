"""Checkpoints: one file, arrays as npz and the rest as JSON inside it, replaced atomically, no pickle."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structopt._archive import UNREADABLE, read_arrays, write_arrays
from structopt.checks import checked
from structopt.errors import DeclarationError

__all__ = ["Checkpoint", "read_checkpoint", "write_checkpoint"]

_FORMAT = "structopt checkpoint 3"
_DOCUMENT = "json"

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
        if isinstance(value, (np.ndarray, np.generic, float)):  # JSON has no inf, so floats are arrays too
            arrays[name] = np.asarray(value)
        else:
            document[name] = value
    text = json.dumps({"format": _FORMAT, "keys": list(state), "state": document})
    arrays[_DOCUMENT] = np.frombuffer(text.encode(), dtype=np.uint8)
    target = Path(path).resolve()
    handle, temporary = tempfile.mkstemp(prefix=target.name + ".", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            write_arrays(file, arrays)
            file.flush()
            os.fsync(file.fileno())  # the rename must not reach the disk before the bytes do
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):  # the folder may be gone or read-only by now: the first error is the one to report
            Path(temporary).unlink(missing_ok=True)
        raise


@checked
def read_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_checkpoint` wrote."""
    try:
        arrays = read_arrays(path)
        content = json.loads(arrays.pop(_DOCUMENT).tobytes())
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r:.60}")
        state: dict[str, Any] = {}
        for name in content["keys"]:
            value = arrays[name] if name in arrays else content["state"][name]
            state[name] = float(value) if isinstance(value, np.ndarray) and value.ndim == 0 else value
    except UNREADABLE as error:
        raise DeclarationError(
            f"{os.fspath(path)!r} is not a checkpoint of this version ({error}). Delete it or choose another path."
        ) from error
    return state
