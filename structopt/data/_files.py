"""What the readers share: text files, plain or compressed, in UTF-8, UTF-16 or Latin-1, and sparse matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from structopt._archive import read_bytes
from structopt.errors import DeclarationError
from structopt.interop.text import decoded

__all__ = ["existing", "is_number", "lines_of", "plain_name", "read_text", "short_indices"]

_COMPRESSED = {".gz": "gzip", ".bz2": "bzip2"}


def existing(path: str | Path) -> Path:
    """Return the path of a file; raise if it does not exist or is not a regular file."""
    found = Path(path)
    if found.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder, not a data file.")
    if found.exists() and not found.is_file():
        raise DeclarationError(f"{str(path)!r} is a pipe or a device; copy its content to a file first.")
    if not found.is_file():
        raise FileNotFoundError(f"There is no data file {str(path)!r}.")
    return found


def short_indices(X: sp.csr_array) -> sp.csr_array:
    """The matrix with indices of 32 bits where they fit: LIBLINEAR and others take no longer ones.

    Examples
    --------
    >>> X = sp.csr_array(np.eye(2))
    >>> X.indices = X.indices.astype(np.int64)
    >>> short_indices(X).indices.dtype
    dtype('int32')
    """
    if max(X.nnz, *X.shape) <= np.iinfo(np.int32).max:
        X.indices, X.indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int32, copy=False)
    return X


def plain_name(path: Path) -> str:
    """The file's name in lower case, without the suffix of a compression.

    Examples
    --------
    >>> plain_name(Path("Yeast.arff.gz"))
    'yeast.arff'
    """
    name = path.name.lower()
    return name.rsplit(".", 1)[0] if name.endswith(tuple(_COMPRESSED)) else name


def read_text(path: str | Path, max_bytes: int | None = None) -> str:
    """Return the text of a file, which ``.gz`` or ``.bz2`` at its end says is compressed.

    Text that is not UTF-8 or UTF-16 is read as Latin-1, as older ARFF files need.
    """
    compression = next((name for suffix, name in _COMPRESSED.items() if str(path).lower().endswith(suffix)), None)
    return decoded(read_bytes(existing(path), compression, max_bytes), str(path))


def is_number(cell: str) -> bool:
    """Whether a cell is a number, or ``?``.

    Examples
    --------
    >>> is_number("-1e3"), is_number("1_000"), is_number("Paris")
    (True, False, False)
    """
    try:
        float(cell)
    except ValueError:
        return cell == "?"
    return "_" not in cell


def lines_of(text: str) -> list[str]:
    """The lines of a text of Unix, Windows or old Macs; other characters that Python takes for line ends are none.

    Examples
    --------
    >>> lines_of("a\\r\\nb\\x85c\\n")
    ['a', 'b\\x85c', '']
    """
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
