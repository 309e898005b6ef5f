"""Shared by MPS and LP files: exact decimal numbers, decoding of text, and comments for what a format cannot hold.

A comment renames variables and rows and joins two rows to one; it never changes which points are in the space, so
that tools that pass over comments read the same set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from structopt._archive import read_bytes
from structopt.errors import DeclarationError
from structopt.interop.program import Place
from structopt.space.compiled import FloatArray

__all__ = ["Header", "decoded", "exact", "text_of", "wrap"]

_MARK = "structopt:"
# Characters that only binary files have; 1A ends old texts of DOS.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x19\x1b-\x1f]")


def exact(values: FloatArray) -> list[str]:
    """Shortest decimal texts that read back as the same doubles; ``-0.0`` becomes ``0``."""
    return [text[:-2] if text.endswith(".0") else text for text in map(repr, (values + 0.0).tolist())]


def wrap(words: Iterable[str], width: int = 200) -> Iterator[str]:
    """Join words into indented lines: LP readers limit the length of a line (CPLEX: 560 characters)."""
    line: list[str] = []
    length = 0
    for word in words:
        if line and length + len(word) > width:
            yield " " + " ".join(line)
            line, length = [], 0
        line.append(word)
        length += len(word) + 1
    if line:
        yield " " + " ".join(line)


def text_of(path: Path, *, compressed: bool, max_bytes: int | None = None) -> str:
    """Return the text of a file, UTF-8 or else Latin-1; `max_bytes` limits its size after unpacking."""
    if path.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder, not a file.")
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    return decoded(read_bytes(path, "gzip" if compressed else None, max_bytes), str(path))


def decoded(raw: bytes, shown: str) -> str:
    """The text of a file's bytes: UTF-8, UTF-16 if it begins so, else Latin-1. What is no text is refused.

    Examples
    --------
    >>> decoded("é".encode("latin-1"), "old.csv"), decoded("é".encode("utf-16"), "sheet.csv")
    ('é', 'é')
    """
    try:
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            text = raw.decode("utf-16")
        else:
            text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    found = _CONTROL.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        raise DeclarationError(f"{shown}, line {line}: the character {found[0]!r} is in no text; is the file binary?")
    return text


@dataclass
class Header:
    """Comments at the top of a file that restore names which its format would change, and rows that it would split.

    Each is one JSON list, so that any text survives: ``["variable", "x0", "a b"]``.
    """

    name: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    #: A row with a lower bound, and the row below it with the upper bound of the same terms.
    halves: dict[str, str] = field(default_factory=dict)
    #: A variable that stands in a file only because the format needs one.
    dummy: str | None = None

    @classmethod
    def of_names(
        cls,
        name: str,
        variables: tuple[Sequence[str], Sequence[str]],
        rows: tuple[Sequence[str], Sequence[str]],
    ) -> Header:
        """Record each name in the file (first of the pair) that is not the user's own (second)."""

        def changed(pair: tuple[Sequence[str], Sequence[str]]) -> dict[str, str]:
            return {written: own for written, own in zip(*pair, strict=True) if written != own}

        return cls(name, changed(variables), changed(rows))

    def lines(self, comment: str) -> list[str]:
        """The comment lines, each beginning with the format's own comment sign."""
        entries: list[list[object]] = [["name", self.name]] if self.name else []
        entries += [["variable", written, own] for written, own in self.variables.items()]
        entries += [["row", written, own] for written, own in self.rows.items()]
        entries += [["halves", low, high] for low, high in self.halves.items()]
        entries += [["dummy", self.dummy]] if self.dummy is not None else []
        return [f"{comment} {_MARK} {json.dumps(entry)}" for entry in entries]

    @classmethod
    def parse(cls, text: str, comment: str, file: str) -> Header:
        """Read the comments back from the top of a file; other tools' comments are passed over."""
        header = cls()
        start = f"{comment} {_MARK} "
        position = number = 0
        while text.startswith(comment, position):
            end = text.find("\n", position)
            line = text[position : end if end >= 0 else len(text)]
            number += 1
            if line.startswith(start):
                header._take(line[len(start) :], Place(file, number, line))
            if end < 0:
                break
            position = end + 1
        return header

    def _take(self, text: str, place: Place) -> None:
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError) as error:
            place.refuse(f"a comment of structopt that is not JSON ({error}); remove it")
        match entry:
            case ["name", str(name)]:
                self.name = name
            case ["variable", str(written), str(own)]:
                self.variables[written] = own
            case ["row", str(written), str(own)]:
                self.rows[written] = own
            case ["halves", str(low), str(high)]:
                self.halves[low] = high
            case ["dummy", str(written)]:
                self.dummy = written
