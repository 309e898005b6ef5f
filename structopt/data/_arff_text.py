"""The grammar of ARFF: header, attributes, dense and sparse rows. What the columns mean is for `arff`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from structopt.errors import DeclarationError

__all__ = ["ArffText", "Attribute", "parse_arff"]

_NUMERIC = ("numeric", "real", "integer")
_KEYWORD = re.compile(r"@(relation|attribute|data)\b\s*(.*)", re.IGNORECASE | re.DOTALL)
# A value in quotes (a backslash escapes the next character) or up to the next separator.
_VALUE = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,]*?))\s*(?:,|$)""")
_NAME = re.compile(r"""(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(\S+))\s*(.*)""", re.DOTALL)
# The weight of an example, which Weka writes after it.
_WEIGHT = re.compile(r"\}\s*,\s*\{[^{}]*\}$")
_ESCAPE = re.compile(r"\\(.)")


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
    lines = enumerate(text.splitlines(), start=1)
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
            found.relation = _name(rest)[0] if rest[:1] in ("'", '"') else rest.strip()
        elif keyword == "attribute":
            found.attributes.append(_attribute(rest, f"{where}, line {number}"))
        elif not found.attributes:
            raise DeclarationError(f"{where} has no attributes before @data.")
        else:
            return
    raise DeclarationError(f"{where} has no @data.")


def _attribute(text: str, where: str) -> Attribute:
    name, kind = _name(text)
    lower = kind.lower()
    if kind.startswith("{"):
        if not kind.rstrip().endswith("}"):
            raise DeclarationError(f"{where}: the values of attribute {name!r} do not end in '}}'.")
        return Attribute(name, "nominal", tuple(_values(kind.strip()[1:-1])))
    if lower.startswith("hierarchical"):
        return Attribute(name, "hierarchical", tuple(_values(kind[len("hierarchical") :])))
    if not lower:
        raise DeclarationError(f"{where}: attribute {name!r} has no type.")
    first = lower.split()[0]
    return Attribute(name, "numeric" if first in _NUMERIC else first)


def _name(text: str) -> tuple[str, str]:
    match = _NAME.match(text)
    if match is None:
        return "", ""
    quoted = match[1] if match[1] is not None else match[2]
    return (match[3] if quoted is None else _ESCAPE.sub(r"\1", quoted)), match[4].strip()


def _values(line: str) -> list[str]:
    """The values between commas; most lines have no quotes and need no grammar."""
    if "'" not in line and '"' not in line:
        return [part.strip() for part in line.split(",")]
    values: list[str] = []
    place = 0
    while place <= len(line):
        match = _VALUE.match(line, place)
        if match is None:
            return [*values, line[place:].strip()]
        quoted = match[1] if match[1] is not None else match[2]
        values.append(match[3] if quoted is None else _ESCAPE.sub(r"\1", quoted))
        if not match[0].endswith(",") or match.end() == place:
            break
        place = match.end()
    return values


def _add_row(found: ArffText, line: str, where: str) -> None:
    row = found.n_rows
    found.n_rows += 1
    if line.startswith("{"):
        _add_sparse(found, row, line, where)
        return
    cells = _values(line)
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
    for pair in _pairs(inside) if inside else ():
        place, *cell = pair.split(None, 1)
        if not (place.isdigit() and cell) or int(place) >= len(found.attributes):
            raise DeclarationError(
                f"{where}: {pair.strip()!r} is not 'number value' for one of {len(found.attributes)} attributes."
            )
        found.rows[int(place)].append(row)
        found.cells[int(place)].append(_values(cell[0].strip())[0])


def _pairs(inside: str) -> list[str]:
    """``3 1, 7 'a, b'`` cut at the commas outside quotes."""
    if "'" not in inside and '"' not in inside:
        return inside.split(",")
    return re.findall(r"""(?:[^,'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")+""", inside)
