"""What the writers of MPS and LP files share: exact numbers, and comments that carry what a format cannot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from structopt.compiled import FloatArray

__all__ = ["Header", "exact", "wrap"]

_MARK = "structopt:"


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


@dataclass
class Header:
    """Comments at the top of a file that restore names and row bounds which its format would change.

    Each is one JSON list, so that any text survives: ``["variable", "x0", "a b"]``.
    """

    name: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    rows: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

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
        entries += [["range", written, low, high] for written, (low, high) in self.ranges.items()]
        return [f"{comment} {_MARK} {json.dumps(entry)}" for entry in entries]

    @classmethod
    def parse(cls, text: str, comment: str) -> Header:
        """Read the comments back from the top of a file; other tools' comments are passed over."""
        header = cls()
        start = f"{comment} {_MARK} "
        position = 0
        while text.startswith(comment, position):
            end = text.find("\n", position)
            line = text[position : end if end >= 0 else len(text)]
            if line.startswith(start):
                header._take(json.loads(line[len(start) :]))
            if end < 0:
                break
            position = end + 1
        return header

    def _take(self, entry: list[object]) -> None:
        match entry:
            case ["name", str(name)]:
                self.name = name
            case ["variable", str(written), str(own)]:
                self.variables[written] = own
            case ["row", str(written), str(own)]:
                self.rows[written] = own
            case ["range", str(written), float(low) | int(low), float(high) | int(high)]:
                self.ranges[written] = float(low), float(high)
