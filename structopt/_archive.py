"""Files: one atomic writer, one checked reader, and archives of plain arrays with a JSON document.

`write_file` replaces a file completely or not at all. `read_bytes` and `read_arrays` compare sizes with a limit before
they unpack. `numpy.load` allocates the size that a header declares: a few bytes can request a terabyte.
"""

from __future__ import annotations

import bz2
import hashlib
import json
import os
import re
import secrets
import stat
import struct
import sys
import threading
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from structopt.errors import DeclarationError

if sys.platform != "win32":
    import fcntl

__all__ = [
    "PARSER",
    "UNREADABLE",
    "open_file",
    "read_archive",
    "read_arrays",
    "read_bytes",
    "remove_leftovers",
    "write_archive",
    "write_arrays",
    "write_file",
]

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
    SyntaxError,  # the header of an npy file is a Python literal
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)

#: Unpacked bytes that are read by default, and how many times the file's own size beyond that.
_FREE_BYTES = 1 << 30
_RATIO = 50
#: Members of an archive that are not arrays of the caller: its document, and the digest of everything else.
_DOCUMENT, _DIGEST = "json", "digest"
#: Bytes that are unpacked at a time.
_CHUNK = 1 << 20


# ---- writing -----------------------------------------------------------------------------------------


def write_file(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Replace a file by what `write` writes, completely or not at all.

    The bytes go to a new file of a random name in the same folder, reach the disk, and then take the name. A link is
    followed, so the file that it names is replaced. On any error the old file remains and no other file.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers"
    >>> write_file(path, lambda file: file.write(b"123"))
    >>> path.read_bytes(), [found.name for found in path.parent.iterdir()]
    (b'123', ['numbers'])
    """
    target = Path(os.path.realpath(path))
    if not target.name or os.path.isdir(path):
        raise DeclarationError(f"{os.fspath(path)!r} is a folder; give the name of a file.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise DeclarationError(f"{os.fspath(path)!r} is a device or a pipe; give the name of a file.")
    temporary: Path | None = None
    before = sys.exc_info()[1]
    try:
        while True:
            temporary = target.with_name(f"{target.name}.{secrets.token_hex(8)}.tmp")
            try:
                file = open(temporary, "xb")  # noqa: SIM115
            except FileExistsError:
                temporary = None
                continue
            if _lock(file.fileno()) and os.path.lexists(temporary):
                break
            file.close()  # `remove_leftovers` of another run came between the two
        with file:
            with suppress(OSError, AttributeError):  # an existing file keeps its permissions
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            write(file)
            file.flush()
            os.fsync(file.fileno())  # the new name must not reach the disk before the bytes do
            if sys.platform != "win32":  # which cannot rename an open file
                os.replace(temporary, target)
        if sys.platform == "win32":
            os.replace(temporary, target)
    except BaseException as error:  # Ctrl-C may come as soon as the file exists
        if temporary is not None:
            with suppress(OSError):  # the folder may have disappeared: the first error is the one to report
                os.unlink(temporary)
        if _hides_interrupt(error, before):
            raise KeyboardInterrupt from error
        raise
    _sync_folder(target.parent)


def _hides_interrupt(error: BaseException, before: BaseException | None) -> bool:
    """Return whether an error replaced Ctrl-C that came after the exception `before`.

    `zipfile` raises ValueError if Ctrl-C comes between a member's first and last byte.
    """
    found = error.__context__
    while found is not None and found is not before:
        if isinstance(found, KeyboardInterrupt):
            return True
        found = found.__context__
    return False


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove temporary files that killed writers of `path` left; those of running writers are locked, and stay."""
    target = Path(os.path.realpath(path))
    pattern = re.compile(re.escape(target.name) + r"\.[0-9a-f]{16}\.tmp")
    with suppress(OSError):
        for found in os.scandir(target.parent):
            if pattern.fullmatch(found.name) and found.is_file(follow_symlinks=False):
                with suppress(OSError):
                    _remove_unlocked(found.path)


def _remove_unlocked(path: str) -> None:
    if sys.platform == "win32":
        os.unlink(path)  # fails if the file is open
        return
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if _lock(descriptor):
            os.unlink(path)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; False if another descriptor has the lock."""
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # the file system has no locks
            pass
    return True


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a loss of power, if the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---- reading -----------------------------------------------------------------------------------------


def open_file(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file for reading; raise for folders, and for pipes and devices, which might never end."""
    if os.path.isdir(path):
        raise IsADirectoryError(f"{os.fspath(path)!r} is a folder, not a file.")
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DeclarationError(f"{os.fspath(path)!r} is a pipe or a device; copy its content to a file first.")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: str | os.PathLike[str], compression: str | None = None, max_bytes: int | None = None) -> bytes:
    """Return the content of a file, unpacked if `compression` is ``"gzip"`` or ``"bzip2"``.

    Raises DeclarationError if the file is larger than `max_bytes`, or if it is not compressed as stated. Without
    `max_bytes` only unpacking is limited: to one GiB and fifty times the size of the file.

    Examples
    --------
    >>> import gzip, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "zeros.gz"
    >>> _ = path.write_bytes(gzip.compress(bytes(1000)))
    >>> len(read_bytes(path, "gzip"))
    1000
    >>> read_bytes(path, "gzip", max_bytes=999)
    Traceback (most recent call last):
        ...
    structopt.errors.DeclarationError: '...' has more than the 999 bytes allowed; give max_bytes= if you ...
    """
    shown = repr(os.fspath(path))
    too_large = f"{shown} has more than the %d bytes allowed; give max_bytes= if you trust it."
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if compression is None:
            if max_bytes is not None and size > max_bytes:
                raise DeclarationError(too_large % max_bytes)
            return file.read()
        limit = _FREE_BYTES + _RATIO * size if max_bytes is None else max_bytes
        found = bytearray()
        try:
            for chunk in _unpacked(file, compression):
                found += chunk
                if len(found) > limit:
                    break
        except (OSError, EOFError, ValueError, zlib.error) as error:
            suffix = Path(path).suffix
            raise DeclarationError(f"{shown} ends in {suffix} but is not a {compression} file: {error}.") from error
        if len(found) > limit:
            raise DeclarationError(too_large % limit)
    return bytes(found)


def _unpacked(file: IO[bytes], compression: str) -> Any:
    """Unpack a file of one or several compressed streams, piece by piece."""
    make = _GzipStream if compression == "gzip" else bz2.BZ2Decompressor
    stream: Any = make()
    fresh, rest = True, b""
    while rest or (rest := file.read(_CHUNK)):
        if fresh and not rest.strip(b"\0"):  # padding after the last stream
            rest = b""
            continue
        fresh = False
        yield stream.decompress(rest, _CHUNK)
        rest = b""
        while not stream.eof and not stream.needs_input:
            yield stream.decompress(b"", _CHUNK)
        if stream.eof:
            stream, rest, fresh = make(), stream.unused_data, True
    if not fresh:
        raise EOFError("it ends in the middle")


class _GzipStream:
    """One gzip stream, with the interface of `bz2.BZ2Decompressor`."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    def decompress(self, raw: bytes, most: int) -> bytes:
        return self._stream.decompress(self._stream.unconsumed_tail + raw, most)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def needs_input(self) -> bool:
        return not self._stream.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data


# ---- archives of arrays ------------------------------------------------------------------------------


def write_archive(
    path: str | os.PathLike[str],
    format: str,
    document: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray[Any, Any]],
    *,
    allow_nan: bool = False,
    compressed: bool = False,
) -> None:
    """Write an npz file of plain arrays with a JSON document inside, completely or not at all.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "state.npz"
    >>> write_archive(path, "example 1", {"steps": 3}, {"w": np.ones(2)})
    >>> read_archive(path, "example 1")
    ({'steps': 3}, {'w': array([1., 1.])})
    """
    _check_plain(arrays)
    text = json.dumps({"format": format, **document}, allow_nan=allow_nan)
    content = {**arrays, _DOCUMENT: np.frombuffer(text.encode(), dtype=np.uint8)}
    content[_DIGEST] = _digest(content)
    write_file(path, lambda file: write_arrays(file, content, compressed=compressed))


def read_archive(
    path: str | os.PathLike[str],
    format: str,
    max_bytes: int | None = None,
    *,
    allow_nan: bool = False,
    undigested: str | None = None,
) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Return document and arrays of a file that `write_archive` wrote; raise one of `UNREADABLE` if it is damaged.

    The digest does not protect from forgery: callers check what they read. `undigested` is the name of an older format,
    whose files have no digest.
    """
    arrays = read_arrays(path, max_bytes)
    digest = arrays.pop(_DIGEST, None)
    if digest is not None and not np.array_equal(digest, _digest(arrays)):
        raise DeclarationError("it is damaged: its content does not match its digest")
    document = json.loads(arrays.pop(_DOCUMENT).tobytes(), parse_constant=None if allow_nan else _no_constant)
    found = document.pop("format")
    if found != (format if digest is not None else undigested):
        raise DeclarationError(f"its format is {found!r:.60}{'' if digest is not None else ' without a digest'}")
    return document, arrays


def _no_constant(text: str) -> Any:
    raise DeclarationError(f"{text} is not a number of a JSON document")


def _digest(arrays: Mapping[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Hash names, types, shapes and contents."""
    found = hashlib.blake2b(digest_size=32)
    for name in sorted(arrays):
        array = arrays[name]
        found.update(repr((name, array.dtype.str, array.shape)).encode("utf-8", "surrogatepass"))
        if array.nbytes:
            found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return np.frombuffer(found.digest(), dtype=np.uint8)


def write_arrays(file: IO[bytes], arrays: Mapping[str, np.ndarray[Any, Any]], *, compressed: bool = False) -> None:
    """Write an npz file of plain arrays; raise ValueError if one holds objects.

    `numpy.savez` of NumPy 1 pickles objects, and takes ``allow_pickle=False`` for an array of that name.

    Examples
    --------
    >>> import io
    >>> write_arrays(io.BytesIO(), {"x": np.array([object()])})
    Traceback (most recent call last):
    ValueError: The array 'x' holds objects, and a file holds data only.
    """
    _check_plain(arrays)
    save: Any = np.savez_compressed if compressed else np.savez
    save(file, **arrays)


def _check_plain(arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(f"The array {name!r} holds objects, and a file holds data only.")


def read_arrays(path: str | os.PathLike[str], max_bytes: int | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of an npz file.

    Parameters
    ----------
    path : path
    max_bytes : int, optional
        Reject a file whose arrays are larger together; by default one GiB and fifty times the size of the file, which
        only very repetitive data exceed.

    Raises
    ------
    UNREADABLE
        Some error of this list if the file is not an npz file of plain arrays.

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
    with open_file(path) as raw, zipfile.ZipFile(raw) as archive:
        size = os.fstat(raw.fileno()).st_size
        limit = _FREE_BYTES + _RATIO * size if max_bytes is None else max_bytes
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


#: NumPy parses headers, and `inspect` parses signatures, with `ast`, which raises SystemError in concurrent threads of
#: Python 3.11.
PARSER = threading.RLock()


def _read_header(read: Callable[[IO[bytes]], Any], file: IO[bytes]) -> Any:
    """Return shape, order and dtype of an array in a file."""
    with PARSER:
        return read(file)


def _read_array(file: IO[bytes], size: int, name: str) -> np.ndarray[Any, Any]:
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = _read_header(npy.read_array_header_1_0, file)
    elif version == (2, 0):
        shape, fortran, dtype = _read_header(npy.read_array_header_2_0, file)
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
