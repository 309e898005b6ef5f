"""Texts as they lie on the disc: plain or gzipped, UTF-8 or Latin-1."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from structopt.errors import DeclarationError

__all__ = ["existing", "plain_name", "read_text"]

_COMPRESSED = (".gz", ".bz2")


def existing(path: str | Path) -> Path:
    """The path of a file that is there."""
    found = Path(path)
    if not found.is_file():
        raise FileNotFoundError(f"There is no data file {str(path)!r}.")
    return found


def plain_name(path: Path) -> str:
    """The file's name in lower case, without the suffix of a compression.

    Examples
    --------
    >>> plain_name(Path("Yeast.arff.gz"))
    'yeast.arff'
    """
    name = path.name.lower()
    return name.rsplit(".", 1)[0] if name.endswith(_COMPRESSED) else name


def read_text(path: str | Path) -> str:
    """The text of a file; ``.gz`` is unpacked, and what is not UTF-8 is taken for Latin-1 (older ARFF files)."""
    raw = existing(path).read_bytes()
    if str(path).lower().endswith(".gz"):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise DeclarationError(f"{str(path)!r} ends in .gz but is not a gzip file: {error}.") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
