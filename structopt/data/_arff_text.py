"""Parser of ARFF text: header, attributes, dense and sparse rows; `structopt.data.arff` interprets the columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from structopt.data._files import lines_of
from structopt.errors import DeclarationError

__all__ = ["ArffText", "Attribute", "parse_arff"]

_NUMERIC = ("numeric", "real", "integer")
_KEYWORD = re.compile(r"@(relation|attribute|data)\b\s*+(.*+)", re.IGNORECASE | re.DOTALL)
# A value in quotes; a backslash escapes the next character. Nothing here can match in two ways, so that a line takes
# time in proportion to its length, whatever it holds.
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)\"""", re.DOTALL)
# The weight of an example, which Weka writes after it.
_WEIGHT = re.compile(r"\}\s*+,\s*+\{[^{}]*+\}$")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_BLANKS = re.compile(r"\s*+")
_NUMBER_AND_BLANKS = re.compile(r"\s*+[0-9]*+\s*+")


@dataclass(frozen=True)
class Attribute:
    """A column: its name, and its kind ``"numeric"``, ``"nominal"``, ``"hierarchical"`` or another type's name.

    `values` are the values of a nominal column, and the terms of a hierarchical one.
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()


@dataclass
class ArffText:
    """A parsed file: cells are text, by attribute, with the rows that state them (sparse rows leave out zeros)."""

    relation: str = ""
    attributes: list[Attribute] = field(default_factory=list)
    n_rows: int = 0
    rows: list[list[int]] = field(default_factory=list)
    cells: list[list[str]] = field(default_factory=list)


def parse_arff(text: str, where: str) -> ArffText:
    """Parse a file; `where` names it in errors.

    Examples
    --------
    >>> found = parse_arff("@relation r\\n@attribute x real\\n@attribute y {a,b}\\n@data\\n1,b\\n{0 2}\\n", "r.arff")
    >>> [attribute.kind for attribute in found.attributes], found.cells, found.rows
    (['numeric', 'nominal'], [['1', '2'], ['b']], [[0, 1], [0]])
    """
    found = ArffText()
    lines = enumerate(lines_of(text), start=1)
    _read_header(found, lines, where)
    found.rows = [[] for _ in found.attributes]
    found.cells = [[] for _ in found.attributes]
    for number, line in lines:
        line = line.strip()
        if line and not line.startswith("%"):
            _add_row(found, line, f"{where}, line {number}")
    return found


def _read_header(found: ArffText, lines: Iterator[tuple[int, str]], where: str) -> None:
    for number, line in lines:
        line = line.strip()
        if not line or line.startswith("%"):
            continue
        match = _KEYWORD.match(line)
        if match is None:
            raise DeclarationError(
                f"{where}, line {number}: expected @relation, @attribute or @data, got {line[:40]!r}."
            )
        keyword, rest = match[1].lower(), match[2]
        if keyword == "relation":
            found.relation = _name(rest, f"{where}, line {number}")[0] if rest[:1] in ("'", '"') else rest.strip()
        elif keyword == "attribute":
            found.attributes.append(_attribute(rest, f"{where}, line {number}"))
        elif not found.attributes:
            raise DeclarationError(f"{where} has no attributes before @data.")
        else:
            return
    raise DeclarationError(f"{where} has no @data.")


def _attribute(text: str, where: str) -> Attribute:
    name, kind = _name(text, where)
    lower = kind.lower()
    if kind.startswith("{"):
        if not kind.rstrip().endswith("}"):
            raise DeclarationError(f"{where}: the values of attribute {name!r} do not end in '}}'.")
        return Attribute(name, "nominal", tuple(_values(kind.strip()[1:-1], where)))
    if lower.startswith("hierarchical"):
        return Attribute(name, "hierarchical", tuple(_values(kind[len("hierarchical") :], where)))
    if not lower:
        raise DeclarationError(f"{where}: attribute {name!r} has no type.")
    first = lower.split()[0]
    return Attribute(name, "numeric" if first in _NUMERIC else first)


def _name(text: str, where: str) -> tuple[str, str]:
    """A name, in quotes or up to the next blank, and what follows it."""
    if text[:1] in ("'", '"'):
        name, end = _quoted(text, 0, where)
        return name, text[end:].strip()
    name, *rest = text.split(None, 1) or [""]
    return name, rest[0].strip() if rest else ""


def _quoted(text: str, place: int, where: str) -> tuple[str, int]:
    """The value in quotes that begins at a place, and the place after it."""
    match = _QUOTED.match(text, place)
    if match is None:
        raise DeclarationError(f"{where}: the quotation {text[place : place + 20]!r} has no end.")
    inside = match[1] if match[1] is not None else match[2]
    return _ESCAPE.sub(r"\1", inside), match.end()


def _values(line: str, where: str) -> list[str]:
    """The values between commas; most lines have no quotes and need no grammar."""
    if "'" not in line and '"' not in line:
        return [part.strip() for part in line.split(",")]
    return [_value(part, where) for part in _parts(line, where)]


def _value(part: str, where: str) -> str:
    """One value without the quotes around it."""
    part = part.strip()
    if part[:1] not in ("'", '"'):
        return part
    value, end = _quoted(part, 0, where)
    if end != len(part):
        raise DeclarationError(f"{where}: {part[end : end + 20]!r} follows a quotation without a comma.")
    return value


def _parts(line: str, where: str, head: re.Pattern[str] = _BLANKS) -> list[str]:
    """A line cut at the commas outside quotes; a quotation begins after `head`, a quote elsewhere is a letter
    (don't)."""
    parts: list[str] = []
    begin = 0
    while True:
        match = head.match(line, begin)
        end = match.end() if match is not None else begin
        if line[end : end + 1] in ("'", '"'):
            end = _quoted(line, end, where)[1]
        comma = line.find(",", end)
        if comma < 0:
            return [*parts, line[begin:]]
        parts.append(line[begin:comma])
        begin = comma + 1


def _add_row(found: ArffText, line: str, where: str) -> None:
    row = found.n_rows
    found.n_rows += 1
    if line.startswith("{"):
        _add_sparse(found, row, line, where)
        return
    cells = _values(line, where)
    if len(cells) != len(found.attributes):
        raise DeclarationError(f"{where}: {len(cells)} values for {len(found.attributes)} attributes.")
    for rows, column, cell in zip(found.rows, found.cells, cells, strict=True):
        rows.append(row)
        column.append(cell)


def _add_sparse(found: ArffText, row: int, line: str, where: str) -> None:
    line = _WEIGHT.sub("}", line)
    if not line.endswith("}"):
        raise DeclarationError(f"{where}: a sparse row that does not end in '}}'.")
    inside = line[1:-1].strip()
    for pair in _parts(inside, where, _NUMBER_AND_BLANKS) if inside else ():
        place, *cell = pair.split(None, 1) or [""]
        is_number = place.isascii() and place.isdigit() and len(place) < 10
        if not (is_number and cell) or int(place) >= len(found.attributes):
            raise DeclarationError(
                f"{where}: {pair.strip()[:40]!r} is not 'number value' for one of {len(found.attributes)} attributes."
            )
        if found.rows[int(place)][-1:] == [row]:
            raise DeclarationError(f"{where}: attribute {int(place)} has two values.")
        found.rows[int(place)].append(row)
        found.cells[int(place)].append(_value(cell[0], where))
