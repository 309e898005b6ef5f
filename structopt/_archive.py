"""Npz files of plain arrays: sizes are checked before arrays are unpacked, and nothing is pickled or unpickled.

`numpy.load` allocates whatever size a file's header declares: a few bytes can request a terabyte, and a kilobyte of
compressed zeros may unpack to a gigabyte. Here declared and actual sizes are compared before anything is read.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from structopt.errors import DeclarationError

__all__ = ["UNREADABLE", "read_arrays", "write_arrays"]

#: What reading a damaged or hostile file may raise; callers turn it into a `DeclarationError` that names the file.
UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    EOFError,
    ArithmeticError,
    MemoryError,
    RecursionError,
    NotImplementedError,
    RuntimeError,  # an encrypted member
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)

#: Unpacked bytes that are read by default, and how many times the file's own size beyond that.
_FREE_BYTES = 1 << 30
_RATIO = 50


def write_arrays(file: IO[bytes], arrays: dict[str, np.ndarray[Any, Any]], *, compressed: bool = False) -> None:
    """Write an npz file of plain arrays; ValueError where one holds objects.

    `numpy.savez` of NumPy 1 pickles objects, and takes ``allow_pickle=False`` for an array of that name.

    Examples
    --------
    >>> import io
    >>> write_arrays(io.BytesIO(), {"x": np.array([object()])})
    Traceback (most recent call last):
    ValueError: The array 'x' holds objects, and a file holds data only.
    """
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(f"The array {name!r} holds objects, and a file holds data only.")
    save: Any = np.savez_compressed if compressed else np.savez
    save(file, **arrays)


def read_arrays(path: str | os.PathLike[str], max_bytes: int | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of an npz file.

    Parameters
    ----------
    path : path
    max_bytes : int, optional
        Refuse a file whose arrays are larger together; by default one GiB and fifty times the size of the file, which
        only very repetitive data exceed.

    Raises
    ------
    UNREADABLE
        Some error of this list if the file is no npz file of plain arrays.

    Examples
    --------
    >>> import tempfile, os, numpy as np
    >>> path = os.path.join(tempfile.mkdtemp(), "a.npz")
    >>> np.savez(path, x=np.arange(3))
    >>> read_arrays(path)
    {'x': array([0, 1, 2])}
    >>> read_arrays(path, max_bytes=10)
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: its arrays take 152 bytes, more than the 10 allowed; give max_bytes= ...
    """
    limit = _FREE_BYTES + _RATIO * os.path.getsize(path) if max_bytes is None else max_bytes
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > limit:
            raise DeclarationError(
                f"its arrays take {total} bytes, more than the {limit} allowed; give max_bytes= if you trust it"
            )
        names = [member.filename.removesuffix(".npy") for member in members]
        if len(set(names)) < len(names):
            raise DeclarationError("it holds an array twice")
        found = {}
        for name, member in zip(names, members, strict=True):
            with archive.open(member) as file:
                found[name] = _read_array(file, member.file_size, name)
    return found


def _read_array(file: IO[bytes], size: int, name: str) -> np.ndarray[Any, Any]:
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = npy.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = npy.read_array_header_2_0(file)
    else:
        raise DeclarationError(f"array {name!r} has version {version} of the npy format")
    if dtype.hasobject:
        raise DeclarationError(f"array {name!r} holds pickled objects")
    if any(not isinstance(length, int) or isinstance(length, bool) or length < 0 for length in shape):
        raise DeclarationError(f"array {name!r} has the shape {shape}")
    count = 1
    for length in shape:  # Python's integers: a product in 64 bits may wrap around
        count *= length
    expected = count * dtype.itemsize
    if expected > size:
        raise DeclarationError(f"array {name!r} declares {expected} bytes and has {size}")
    content = file.read(expected + 1)
    if len(content) != expected:
        raise DeclarationError(f"array {name!r} does not have the {expected} bytes that its header declares")
    # A copy, because an array over bytes cannot be written to.
    flat = np.frombuffer(content, dtype=dtype, count=count).copy() if expected else np.empty(count, dtype=dtype)
    return flat.reshape(shape, order="F" if fortran else "C")
