"""MPS files: a strict reader of the free and the fixed format, and a lossless writer of the free one.

Both are linear in the size of the file. Fields are the words of a line. If that fails, they are the columns of the
fixed format, in which names may have spaces. Text after ENDATA is ignored, and ``1.0D3`` is 1000. A field after the
second word that begins with ``$`` is a comment, unless it is the name of a row or column.

Ambiguous text is rejected with file, line and text: a negative upper bound without a lower one, several right-hand
sides or sets of bounds, an entry that is stated twice, a row or a column that was not declared. An integer variable
without bounds is read as ``[0, inf)`` with a logged warning, because some tools read ``[0, 1]``. (HiGHS's own writer
rounds to 15 digits.)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from structopt.errors import DeclarationError, UnsupportedModel
from structopt.interop.lp import upper_names
from structopt.interop.names import stand_ins
from structopt.interop.program import Place, Program, signed_infinity
from structopt.interop.text import Header, exact
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.objective import LinearObjective

__all__ = ["mps_text", "read_mps"]

logger = logging.getLogger(__name__)

_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eEdD][+-]?[0-9]++)?")
_D_TO_E = str.maketrans("dD", "ee")  # Fortran writes 1.0D3
_INFINITY = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
#: The order of the sections; those of one number may come in any order.
_ORDER = {"NAME": 0, "OBJSENSE": 0, "ROWS": 2, "COLUMNS": 3, "RHS": 4, "RANGES": 5, "BOUNDS": 6, "ENDATA": 9}
#: HiGHS treats these words as sections at the beginning of any line, and silently drops the line.
_SECTIONS_ANYWHERE = frozenset(("NAME", "OBJSENSE"))
_MORE = {
    **dict.fromkeys(("SOS", "SOS1", "SOS2", "SETS"), "SOS sets"),
    **dict.fromkeys(("QUADOBJ", "QMATRIX", "QSECTION", "QUADS"), "a quadratic objective"),
    **dict.fromkeys(("QCMATRIX", "CSECTION"), "quadratic rows"),
    "INDICATORS": "indicator constraints",
    "GENCONS": "general constraints",
    "PWLOBJ": "a piecewise linear objective",
    "LAZYCONS": "lazy constraints",
    "USERCUTS": "user cuts",
}
_SENSES = {
    **dict.fromkeys(("MAX", "MAXIMIZE", "MAXIMISE"), True),
    **dict.fromkeys(("MIN", "MINIMIZE", "MINIMISE"), False),
}
_WITH_VALUE = ("UP", "LO", "FX", "LI", "UI")
_WITHOUT = ("FR", "MI", "PL", "BV")
_MARKER = "'MARKER'"
#: Columns of the fixed format; all others are blank.
_FIELDS = tuple(slice(a, b) for a, b in ((1, 3), (4, 12), (14, 22), (24, 36), (39, 47), (49, 61)))
_GAPS = tuple(slice(a, b) for a, b in ((0, 1), (3, 4), (12, 14), (22, 24), (36, 39), (47, 49), (61, None)))


def read_mps(text: str, file: str) -> Program:
    """The program of an MPS file; `file` names it in errors.

    Examples
    --------
    >>> found = read_mps("ROWS\\n N obj\\n G r\\nCOLUMNS\\n x obj 1 r 2\\nRHS\\n RHS r 3\\nENDATA\\n", "tiny.mps")
    >>> found.row_lower, found.entries, found.costs
    ([3.0], ([0], [0], [2.0]), {0: 1.0})
    """
    try:
        return _parsed(text, _Reader(file, str.split))
    except DeclarationError as error:
        found = error
    if "$" in text:  # comments, unless it was a name
        try:
            return _parsed(text, _Reader(file, _without_comment))
        except DeclarationError as error:
            found = error
    # Names with spaces need the fixed format. The words above are still the better base of a message.
    try:
        return _parsed(text, _Reader(file, _fixed_fields))
    except (DeclarationError, UnsupportedModel):
        raise found from None


def _parsed(text: str, reader: _Reader) -> Program:
    place = Place(reader.file)  # one object for all lines: most never appear in a message
    for place.number, line in enumerate(_lines(text), start=1):
        if line[:1] != "*":
            place.line = line.removesuffix("\r")
            reader.read(place)
            if reader.section == "ENDATA":
                break
    return reader.finish()


def _lines(text: str) -> Iterator[str]:
    """Yield the lines one by one: text after ENDATA may be long."""
    position = 0
    while (end := text.find("\n", position)) >= 0:
        yield text[position:end]
        position = end + 1
    yield text[position:]


def _without_comment(line: str) -> list[str]:
    """Return the words of a line up to a comment, whose first word begins with ``$``.

    The first two words of a line of data are a type or a name, which may begin with ``$``.
    """
    words = line.split()
    if "$" in line:
        for k in range(2 if line[0] == " " else 1, len(words)):
            if words[k][0] == "$":
                return words[:k]
    return words


def _fixed_fields(line: str) -> list[str]:
    """Return the fields of a line in the fixed format, or no field if it is not in that format.

    Fields 3, 4 and 5 begin a comment if their first character is ``$``.
    """
    if line[:1] != " ":
        return _without_comment(line)  # a section
    for start in (14, 24, 39):
        if line[start : start + 1] == "$":
            line = line[:start]
    if any(line[gap].strip() for gap in _GAPS):
        return []
    return [field for field in (line[part].strip() for part in _FIELDS) if field]


class _Reader:
    def __init__(self, file: str, fields: Callable[[str], list[str]]) -> None:
        self.file = file
        self.fields = fields
        self.program = Program()
        self.section = ""
        self._data: Callable[[list[str], Place], None] = self._name  # reads a line of the section
        self.seen: set[str] = set()
        self.kinds: dict[str, str] = {}  # of every row, the free ones too
        self.objective: str | None = None
        self.right: dict[str, float] = {}
        self.ranges: dict[str, float] = {}
        self.sets: dict[str, str] = {}
        self.integers = False  # between INTORG and INTEND
        self.marked: dict[int, Place] = {}
        self.negative: dict[int, Place] = {}
        self.last = ""  # the column whose entries are being read
        self.of_last: set[str] = set()
        self.sense_stated = False

    def read(self, place: Place) -> None:
        line = place.line
        if "\t" in line:
            line = line.replace("\t", " ")
        if not line.isprintable():
            place.refuse("a character that cannot be printed")
        words = self.fields(line)  # the space is the only printable separator
        if not words:
            if line.strip():
                place.refuse("the line is not in the fixed format")
            return
        if line[0] != " ":
            self._begin(words, place)
        elif not self.section:
            place.refuse("data before the first section; sections begin in the first column")
        elif words[0].upper() in _SECTIONS_ANYWHERE:
            place.refuse(f"a line of data that begins with {words[0]!r}, which tools take for a section; rename it")
        else:
            self._data(words, place)

    def finish(self) -> Program:
        program = self.program
        if self.section != "ENDATA":
            empty = not self.seen
            Place(self.file).refuse(
                "the file is empty" if empty else "the file does not end with ENDATA; is it complete?"
            )
        if "ROWS" not in self.seen or "COLUMNS" not in self.seen:
            Place(self.file).refuse("an MPS file needs the sections ROWS and COLUMNS")
        for row, i in program.row.items():
            program.row_lower[i], program.row_upper[i] = self._sides(row)
        for j, place in self.negative.items():
            if program.lower[j] is None:
                place.refuse("a negative upper bound without a lower one, which tools take for 0 or -inf; add LO or MI")
        for j, place in self.marked.items():
            if program.upper[j] is None and program.lower[j] is None:
                logger.warning(
                    place.message(
                        "integer without bounds, read as [0, inf); some tools read [0, 1]; add UP or PL to BOUNDS"
                    )
                )
                break
        program.constant = 0.0 - self.right.get(self.objective, 0.0) if self.objective is not None else 0.0
        return program

    def _sides(self, row: str) -> tuple[float, float]:
        """Bounds of a row from its type, right-hand side and range."""
        kind, right = self.kinds[row], signed_infinity(self.right.get(row, 0.0))
        width = self.ranges.get(row)
        low, high = {"E": (right, right), "G": (right, np.inf), "L": (-np.inf, right)}[kind]
        if width is not None:
            if kind == "G" or (kind == "E" and width > 0):
                high = signed_infinity(right + abs(width))
            elif kind == "L" or width < 0:
                low = signed_infinity(right - abs(width))
        if low == np.inf or high == -np.inf:
            Place(self.file).refuse(f"row {row!r} has an infinite side that no value can satisfy")
        return low, high

    # -- sections ----------------------------------------------------------------------------------

    def _begin(self, words: list[str], place: Place) -> None:
        word, rest = words[0], words[1:]
        if word in _MORE:
            place.unsupported(
                f"{word}: {_MORE[word]} cannot be read; a label space has a linear objective, linear rows and bounds"
            )
        if word not in _ORDER:
            place.refuse(f"{word!r} in the first column is not a section of an MPS file; data begin after a space")
        if word in self.seen:
            place.refuse(f"the section {word} comes a second time")
        if self.section and _ORDER[word] < _ORDER[self.section]:
            place.refuse(f"the section {word} must come before {self.section}")
        if rest and word not in ("NAME", "OBJSENSE"):
            place.refuse(f"{rest[0]!r} after the name of a section")
        if _ORDER[word] > _ORDER["ROWS"] and "ROWS" not in self.seen:
            place.refuse(f"the section {word} before ROWS")
        if _ORDER[word] > _ORDER["COLUMNS"] and "COLUMNS" not in self.seen:
            place.refuse(f"the section {word} before COLUMNS")
        if self.section == "OBJSENSE" and not self.sense_stated:
            place.refuse("OBJSENSE without MAX or MIN")
        self.section = word
        self._data = getattr(self, f"_{word.lower()}")
        self.seen.add(word)
        if word == "NAME":
            self.program.name = " ".join(rest)
        elif word == "OBJSENSE" and rest:
            self._objsense(rest, place)

    def _name(self, words: list[str], place: Place) -> None:
        place.refuse("data after NAME")

    _endata = _name  # nothing after ENDATA is read

    def _objsense(self, words: list[str], place: Place) -> None:
        if len(words) != 1 or words[0].upper() not in _SENSES or self.sense_stated:
            place.refuse("OBJSENSE is MAX or MIN, once")
        self.program.maximize = _SENSES[words[0].upper()]
        self.sense_stated = True

    def _rows(self, words: list[str], place: Place) -> None:
        if len(words) != 2:
            place.refuse("a row is a type and a name without spaces")
        kind, name = words
        if kind not in ("N", "E", "G", "L"):
            place.refuse(f"{kind!r} is not a type of row: N, E, G or L")
        if name in self.kinds:
            place.refuse(f"a second row is called {name!r}; give it another name")
        self.kinds[name] = kind
        if kind != "N":
            self.program.add_row(name, -np.inf, np.inf, place)
        elif self.objective is None:
            self.objective = name

    def _columns(self, words: list[str], place: Place) -> None:
        if len(words) == 3 and words[1] == _MARKER:
            if words[2] not in ("'INTORG'", "'INTEND'") or self.integers == (words[2] == "'INTORG'"):
                place.refuse(f"the marker {words[2]} is not understood here")
            self.integers = words[2] == "'INTORG'"
            return
        if len(words) not in (3, 5):
            place.refuse("a line of COLUMNS is a column and one or two pairs of a row and a number")
        name = words[0]
        if name != self.last:
            if name in self.program.column:
                place.refuse(f"the entries of column {name!r} are not together")
            self.last, self.of_last = name, set()
            j = self.program.variable(name)
            self.program.integer[j] = self.integers
            if self.integers:
                self.marked[j] = replace(place)
        j = self.program.column[name]
        for row, text in zip(words[1::2], words[2::2], strict=True):
            value = self._number(text, place)
            kind = self._known_row(row, place)
            if row in self.of_last:
                place.refuse(f"a second entry of column {name!r} in row {row!r}")
            self.of_last.add(row)
            if kind != "N":
                self.program.enter(self.program.row[row], j, value)
            elif row == self.objective:
                self.program.costs[j] = value

    def _rhs(self, words: list[str], place: Place) -> None:
        for row, value in self._pairs(words, place):
            if self._known_row(row, place) == "N" and row != self.objective:
                place.refuse(f"row {row!r} is free and has no right-hand side")  # HiGHS takes it for the constant
            if row in self.right:
                place.refuse(f"a second right-hand side of row {row!r}")
            self.right[row] = value

    def _ranges(self, words: list[str], place: Place) -> None:
        for row, value in self._pairs(words, place):
            if self._known_row(row, place) == "N":
                place.refuse(f"row {row!r} is free and has no range")
            if row in self.ranges:
                place.refuse(f"a second range of row {row!r}")
            self.ranges[row] = value

    def _pairs(self, words: list[str], place: Place) -> list[tuple[str, float]]:
        """Rows and numbers after the name of the set, which may be left out."""
        if not 2 <= len(words) <= 5:
            place.refuse(f"a line of {self.section} is a name and one or two pairs of a row and a number")
        if len(words) % 2:
            self._one_set(words[0], place)
            words = words[1:]
        elif self.section == "RANGES":
            place.refuse("a line of RANGES begins with the name of the set")  # HiGHS takes none without
        else:
            self._one_set("", place)
        return [(row, self._number(text, place)) for row, text in zip(words[::2], words[1::2], strict=True)]

    def _bounds(self, words: list[str], place: Place) -> None:
        kind, rest = words[0], words[1:]
        if kind == "SC":
            place.unsupported(
                f"variable {rest[-2] if len(rest) > 1 else '?'!r} is semi-continuous; write it as a continuous "
                "variable between 0 and its bound times a binary one"
            )
        if kind not in _WITH_VALUE and kind not in _WITHOUT:
            place.refuse(f"{kind!r} is not a type of bound: {', '.join((*_WITH_VALUE, *_WITHOUT))}")
        least = 2 if kind in _WITH_VALUE else 1
        if not least <= len(rest) <= 3:
            place.refuse("a bound is a type, the name of the set, a column, and a number for UP, LO, FX, LI and UI")
        value = None
        if kind in _WITH_VALUE or len(rest) == 3:
            value = self._number(rest[-1], place, infinite=True)
            rest = rest[:-1]
        self._one_set(rest[0] if len(rest) == 2 else "", place)
        name = rest[-1]
        if name not in self.program.column:
            place.refuse(f"{name!r} is not a column")
        self._state(kind, name, value if kind in _WITH_VALUE else None, place)

    def _state(self, kind: str, name: str, value: float | None, place: Place) -> None:
        program, j = self.program, self.program.column[name]
        low, high = {
            "UP": (None, value),
            "UI": (None, value),
            "LO": (value, None),
            "LI": (value, None),
            "FX": (value, value),
            "FR": (-np.inf, np.inf),
            "MI": (-np.inf, None),
            "PL": (None, np.inf),
            "BV": (0.0, 1.0),
        }[kind]
        program.bound(j, name, low, high, place)
        if kind in ("UI", "LI", "BV"):
            program.integer[j] = True
            self.marked.setdefault(j, replace(place))
        if high is not None and high < 0:
            self.negative[j] = replace(place)

    # -- words -------------------------------------------------------------------------------------

    def _one_set(self, name: str, place: Place) -> None:
        """Only one set of right-hand sides, ranges or bounds can be meant."""
        if self.sets.setdefault(self.section, name) != name:
            place.refuse(
                f"{self.section} has a second set, {name or '(without name)'!r} after {self.sets[self.section]!r}; "
                "keep one"
            )

    def _known_row(self, row: str, place: Place) -> str:
        kind = self.kinds.get(row)
        if kind is None:
            place.refuse(f"{row!r} is not a row")
        return kind

    def _number(self, text: str, place: Place, *, infinite: bool = False) -> float:
        if _NUMBER.fullmatch(text) is None and not (infinite and _INFINITY.fullmatch(text)):
            place.refuse(f"{text!r} is not a number")
        value = float(text.translate(_D_TO_E)) if "d" in text or "D" in text else float(text)
        if not infinite and value - value != 0.0:  # infinite
            place.refuse(f"{text!r} is too large for a number")
        return value


_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_.,:;()\[\]{}#@!~|/+-]{0,99}")
_RESERVED_WORDS = """
    name rows columns rhs ranges bounds endata objsense objsenses objsect objsection objname refrow marker
    sos sos1 sos2 quadobj quads qmatrix qsection qcmatrix csection indicators lazycons usercuts genconstrs
    max min maximize minimize free inf infinity nan rng bnd obj negative
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())


def _is_legal(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None and name.casefold() not in _RESERVED


def _translate(name: str) -> str:
    return re.sub(r"\s", "_", name)


def _one_word(name: str) -> str:
    """The space's name for other tools, in characters that all of them take; a comment has the name itself."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:100]


def mps_text(compiled: CompiledSpace, objective: LinearObjective | None = None) -> str:
    """Return the text of an MPS file of the space; its objective ``obj`` is zero by default."""
    variables = stand_ins(compiled.variable_names, _is_legal, _translate, "x")
    rows = stand_ins(compiled.row_names, _is_legal, _translate, "r")
    header = Header.of_names(compiled.name, (variables, compiled.variable_names), (rows, compiled.row_names))
    kinds, sides, widths = _row_kinds(compiled.row_lower, compiled.row_upper)
    # A range that rounds is written as two rows: the sum of right-hand side and range would be another bound.
    split = _inexact(kinds, sides, widths, compiled)
    header.halves = upper_names(rows, split.tolist())
    kinds[split], sides[split], widths[split] = "G", compiled.row_lower[split], np.inf
    lines = [*header.lines("*"), f"NAME {_one_word(compiled.name)}".rstrip()]
    lines += ["OBJSENSE", " MAX"] if objective is not None and objective.sense == "maximize" else []
    lines += ["ROWS", " N obj"]
    for kind, row in zip(kinds.tolist(), rows, strict=True):
        lines += [f" {kind} {row}", *([f" L {header.halves[row]}"] if row in header.halves else [])]
    lines += ["COLUMNS", *_columns(compiled, variables, rows, header.halves, objective), "RHS"]
    if objective is not None and objective.constant:
        lines += [f" RHS obj {text}" for text in exact(np.array([-objective.constant]))]  # subtracted by all tools
    uppers = exact(compiled.row_upper)
    for i, (row, side) in enumerate(zip(rows, exact(sides), strict=True)):
        lines += [f" RHS {row} {side}"] if side != "0" else []
        lines += [f" RHS {header.halves[row]} {uppers[i]}"] if row in header.halves else []
    ranged = np.flatnonzero(np.isfinite(widths))
    if ranged.size:
        texts = exact(widths[ranged])
        lines += ["RANGES", *(f" RNG {rows[i]} {text}" for i, text in zip(ranged, texts, strict=True))]
    lines += ["BOUNDS", *_bounds(compiled, variables), "ENDATA", ""]
    return "\n".join(lines)


def _row_kinds(low: FloatArray, high: FloatArray) -> tuple[np.ndarray, FloatArray, FloatArray]:
    """Type, right-hand side and range (infinite: none) of each row.

    A free row is ``>= -1e30``, since most readers (HiGHS too) drop all N rows but the first. Of the two
    sides of a double-bounded row the smaller in size is the right-hand side, so that adding the range
    rounds away as little as possible.
    """
    both = np.isfinite(low) & np.isfinite(high) & (low != high)
    at_low = np.where(both, np.abs(low) <= np.abs(high), np.isfinite(low))
    kinds = np.where(at_low, "G", "L")
    kinds[low == high] = "E"
    sides = np.where(at_low, low, high)
    free = np.isinf(low) & np.isinf(high)
    kinds[free], sides[free] = "G", -1e30
    widths = np.full(low.shape, np.inf)
    widths[both] = high[both] - low[both]
    return kinds, sides, widths


def _inexact(kinds: np.ndarray, sides: FloatArray, widths: FloatArray, compiled: CompiledSpace) -> np.ndarray:
    """Rows whose far side cannot be had exactly as right-hand side plus or minus range."""
    ranged = np.isfinite(widths)
    sign = np.where(kinds == "G", 1.0, -1.0)
    far = np.where(kinds == "G", compiled.row_upper, compiled.row_lower)
    return np.flatnonzero(ranged & (sides + sign * np.where(ranged, widths, 0.0) != far))


def _columns(
    compiled: CompiledSpace,
    variables: list[str],
    rows: list[str],
    halves: dict[str, str],
    objective: LinearObjective | None,
) -> list[str]:
    matrix = sp.csc_array(compiled.matrix)
    matrix.sort_indices()
    # The upper half of a split row stands on the same line.
    again = [f" {halves[row]} " if row in halves else "" for row in rows]
    entries = [
        f"{rows[i]} {value}{again[i] and again[i] + value}"
        for i, value in zip(matrix.indices.tolist(), exact(matrix.data), strict=True)
    ]
    indptr = matrix.indptr.tolist()
    costs = exact(np.zeros(len(variables)) if objective is None else objective.coef)
    lines: list[str] = []
    integer_before = False
    for j, (variable, integer) in enumerate(zip(variables, compiled.integrality.tolist(), strict=True)):
        if integer != integer_before:
            lines.append(f" MARKER 'MARKER' '{'INTORG' if integer else 'INTEND'}'")
            integer_before = integer
        # An entry of zero in the objective declares a variable that is in no row.
        own = entries[indptr[j] : indptr[j + 1]]
        lines += [f" {variable} obj {costs[j]}"] if costs[j] != "0" or not own else []
        lines += [f" {variable} {entry}" for entry in own]
    if integer_before:
        lines.append(" MARKER 'MARKER' 'INTEND'")
    return lines


def _bounds(compiled: CompiledSpace, variables: list[str]) -> list[str]:
    """Bounds of every variable but those of ``[0, inf)``; of integer ones in full, as their default varies."""
    lines: list[str] = []
    lower, upper = compiled.lower, compiled.upper
    default = (lower == 0) & np.isposinf(upper) & ~compiled.integrality
    low_texts, high_texts = exact(lower), exact(upper)
    for j in np.flatnonzero(~default).tolist():
        name = variables[j]
        if lower[j] == upper[j]:
            lines.append(f" FX BND {name} {low_texts[j]}")
        elif np.isinf(lower[j]) and np.isinf(upper[j]):
            lines.append(f" FR BND {name}")
        else:
            lines.append(f" MI BND {name}" if np.isinf(lower[j]) else f" LO BND {name} {low_texts[j]}")
            lines.append(f" PL BND {name}" if np.isinf(upper[j]) else f" UP BND {name} {high_texts[j]}")
    return lines
