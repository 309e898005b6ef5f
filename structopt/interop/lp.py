"""LP files (the format of CPLEX): a strict reader, and a lossless writer whose files HiGHS, CBC, GLPK and SCIP read.

Both are linear in the size of the file. What the manuals of CPLEX and GLPK agree on is read; what is ambiguous or
unknown is refused with file, line and text:

- a section begins with its keyword at the beginning of a line; keywords are no names;
- ``[label:] terms <= number``, also with ``number <= terms``, ``number <= terms <= number``, and numbers beside the
  terms, which are moved to the other side. After the right-hand side a further row begins on a new line;
- a row that begins with a number stays on its line: ``2 <= a`` with ``- b <= 5`` below it could be one row or two;
- one bound a line; ``x <= -3`` needs a lower bound, since tools differ on whether it is still zero;
- the file ends with ``end``: a file that was cut off is not another model.

Few readers take ``-2 <= a + b <= 3`` for one row (HiGHS 1.15 makes two wrong ones of it), so that such a row is written
as two, which a comment joins again for the reader here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from structopt.interop.names import stand_ins
from structopt.interop.program import Place, Program, signed_infinity
from structopt.interop.text import Header, exact, wrap
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.space.objective import LinearObjective

__all__ = ["KEYWORDS", "lp_text", "read_lp"]

_OBJECTIVES = {
    **dict.fromkeys(("min", "minimum", "minimise", "minimize"), False),
    **dict.fromkeys(("max", "maximum", "maximise", "maximize"), True),
}
_SECTIONS = {
    **dict.fromkeys(("subject to", "such that", "st", "s.t.", "st."), "rows"),
    **dict.fromkeys(("bounds", "bound"), "bounds"),
    **dict.fromkeys(("generals", "general", "gen", "integers", "integer", "int"), "generals"),
    **dict.fromkeys(("binaries", "binary", "bin"), "binaries"),
    **dict.fromkeys(("semi-continuous", "semis", "semi"), "semi"),
    "end": "end",
}
#: Sections of more than a linear program, and what they hold.
_MORE = {
    **dict.fromkeys(("sos", "sos1", "sos2"), "SOS sets"),
    "ranges": "a section of ranges",
    "lazy constraints": "lazy constraints",
    "user cuts": "user cuts",
    "general constraints": "general constraints",
    "pwlobj": "a piecewise linear objective",
}
_INFINITY = ("inf", "infinity")
#: Words that some reader takes for a keyword or a number wherever they stand.
KEYWORDS = frozenset({*_OBJECTIVES, *_SECTIONS, *_MORE, *_INFINITY, "free", "nan"})

_LINE_START = re.compile(
    r"[ \t]*+(subject[ \t]++to|such[ \t]++that|lazy[ \t]++constraints|user[ \t]++cuts|general[ \t]++constraints"
    r"|semi-continuous|[A-Za-z][A-Za-z0-9.]*+)(?=[ \t]|$|:)",
    re.IGNORECASE,
)
# One token after blanks. Every repetition is possessive, so that no text is looked at twice.
_TOKEN = re.compile(
    r"[ \t]*+(?:(?P<number>(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)"
    r"|(?P<op><=|>=|=<|=>|<|>|=)|(?P<arrow>->)|(?P<sign>[+-])|(?P<colon>:)"
    r"|(?P<name>[^\s<>=:+\-*^\[\]\\/]++)|(?P<other>\S))"
)
_ODD_BLANK = re.compile(r"[^\S \t]")
_OPERATOR = {"<": "<=", "=<": "<=", "<=": "<=", ">": ">=", "=>": ">=", ">=": ">=", "=": "="}


# Kind, text, place, and whether it is the first of its line.
_Token = tuple[str, str, Place, bool]


def read_lp(text: str, file: str) -> Program:
    """The program of an LP file; `file` names it in errors.

    Examples
    --------
    >>> found = read_lp("min\\n obj: a\\nst\\n r: -2 <= 1 a + 3 <= 5\\nend\\n", "tiny.lp")
    >>> found.row_lower, found.row_upper, found.entries
    ([-5.0], [2.0], ([0], [0], [1.0]))
    """
    program = Program()
    reader = _Reader(program, file)
    sections = _sections(text, file)
    for name, place, lines in sections:
        reader.section(name, place, lines)
    reader.finish()
    return program


# ---- lines and sections --------------------------------------------------------------------------


def _sections(text: str, file: str) -> Iterator[tuple[str, Place, list[tuple[Place, str]]]]:
    """Keyword, place and lines (without comments) of each section; whatever follows the keyword belongs to it."""
    current: tuple[str, Place, list[tuple[Place, str]]] | None = None
    place = Place(file)
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        place = Place(file, number, line)
        content = _without_comment(line, place)
        match = _LINE_START.match(content)
        word = " ".join(match[1].lower().split()) if match else ""
        labels = match is not None and content[match.end() :].lstrip(" \t").startswith(":")
        if match is not None and word in KEYWORDS and word not in (*_INFINITY, "free", "nan"):
            if labels and _SECTIONS.get(word) != "rows":
                place.refuse(f"{word!r} is a keyword, not the name of a row")
            if current is not None:
                yield current
            rest = content[match.end() :].lstrip(" \t").removeprefix(":") if labels else content[match.end() :]
            current = word, place, [(place, rest)]
        elif current is None:
            if content.strip(" \t"):
                place.refuse("an LP file begins with minimize or maximize")
        else:
            current[2].append((place, content))
    if current is None or current[0] != "end":
        Place(file).refuse("the file does not end with 'end'; is it complete?" if current else "the file is empty")
    yield current


def _without_comment(line: str, place: Place) -> str:
    begin = line.find("\\")
    if begin < 0:
        return line
    if line.startswith("\\*", begin):
        # Comments \* ... *\ after the model of /* ... */ in other formats: whether text after them counts is not
        # agreed on.
        end = line.find("*\\", begin + 2)
        if end < 0 or line[end + 2 :].strip(" \t"):
            place.refuse("a comment that begins with \\* must end with *\\ on the same line, with nothing after it")
    return line[:begin]


def _tokens(lines: list[tuple[Place, str]]) -> Iterator[_Token]:
    for place, content in lines:
        odd = _ODD_BLANK.search(content)
        if odd is not None:
            place.refuse(f"the character {odd[0]!r} is not understood")
        first, end, before = True, -1, ""
        for match in _TOKEN.finditer(content):
            kind = match.lastgroup
            assert kind is not None
            word = match[kind]
            if kind == "name":
                kind = _kind_of_name(word, before if match.start() == match.start(kind) == end else "", place)
            elif kind == "number" and before and match.start() == match.start(kind) == end:
                place.refuse(f"two numbers without a sign or space between them at {word!r}")
            yield kind, word, place, first
            first, end, before = False, match.end(), word if kind == "number" else ""


def _kind_of_name(word: str, number: str, place: Place) -> str:
    """The kind of a word; `number` is the number that stands before it without a space."""
    if word.casefold() in _INFINITY:
        return "number"
    if not word.isprintable():
        place.refuse(f"the name {word!r} has a character that cannot be printed")
    if word[0].isdigit() or word[0] in ".;" or (number and not (word[0].isalpha() or word[0] == "_")):
        place.refuse(f"{word!r} is neither a number nor a name")
    if number and (word[0] in "eE" or (word[0] in "xX" and number[-1] == "0")):
        place.refuse(f"{word!r} after a number may be its exponent or a name; put a space between them")
    return "name"


# ---- the parts -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Side:
    """Terms and a constant between two operators."""

    terms: list[tuple[int, float]] = field(default_factory=list)
    constant: float = 0.0
    has_number: bool = False
    # What was read of the next term.
    sign: float | None = None
    twice: bool = False  # two signs
    number: float | None = None

    @property
    def is_blank(self) -> bool:
        return not self.terms and not self.has_number and self.sign is None and self.number is None


class _Reader:
    def __init__(self, program: Program, file: str) -> None:
        self.program = program
        self.file = file
        self.seen: set[str] = set()
        self.unnamed: list[int] = []
        self.binaries: dict[int, tuple[str, Place]] = {}
        self.negative: dict[int, tuple[str, Place]] = {}

    def section(self, word: str, place: Place, lines: list[tuple[Place, str]]) -> None:
        if word in _MORE:
            place.unsupported(f"{_MORE[word]} cannot be expressed by linear rows; write them with binary variables")
        kind = "objective" if word in _OBJECTIVES else _SECTIONS[word]
        if (kind == "objective") != (not self.seen):
            place.refuse(
                f"{word!r} where another section should begin"
                if self.seen
                else "an LP file begins with minimize or maximize"
            )
        if kind in self.seen or "end" in self.seen or (kind == "rows" and len(self.seen) > 1):
            place.refuse(f"the section {word!r} comes a second time, or too late")
        self.seen.add(kind)
        if kind == "objective":
            self.program.maximize = _OBJECTIVES[word]
        getattr(self, f"_{kind}")(lines)

    def finish(self) -> None:
        program = self.program
        for j, (name, place) in self.negative.items():
            if program.lower[j] is None and j not in self.binaries:
                place.refuse(
                    f"{name!r} has the upper bound {program.upper[j]!r} and no lower one; tools differ on whether that "
                    "is still zero, so state it"
                )
        for j, (name, place) in self.binaries.items():
            stated = program.lower[j], program.upper[j]
            if stated[0] not in (None, 0.0) or stated[1] not in (None, 1.0):
                place.refuse(
                    f"{name!r} is binary and has the bounds {stated}; list it under generals if the bounds are meant"
                )
            program.lower[j], program.upper[j] = 0.0, 1.0
        # Names that no row of the file has.
        position = dict(zip(program.row.values(), program.row, strict=True))
        taken = {name for i, name in position.items() if i not in set(self.unnamed)}
        for i in self.unnamed:
            name = f"r{i}"
            while name in taken:
                name += "_"
            taken.add(name)
            position[i] = name
        program.row = {position[i]: i for i in range(len(position))}

    # -- objective ---------------------------------------------------------------------------------

    def _objective(self, lines: list[tuple[Place, str]]) -> None:
        tokens = _Stream(_tokens(lines))
        tokens.label()
        side = _Side()
        while tokens.token is not None:
            kind, text, place, _ = tokens.token
            if text == "[":
                place.unsupported("the objective is quadratic, and a label space has a linear one; remove '[ ... ]'")
            elif kind in ("op", "colon", "other", "arrow"):
                place.refuse(f"{text!r} has no place in an objective")
            else:
                self._add(side, kind, text, place)
            tokens.advance()
        self._close(side, Place(self.file, lines[-1][0].number))
        for j, value in side.terms:
            self.program.costs[j] = self.program.costs.get(j, 0.0) + value
        self.program.constant = side.constant

    # -- rows --------------------------------------------------------------------------------------

    def _rows(self, lines: list[tuple[Place, str]]) -> None:
        tokens = _Stream(_tokens(lines))
        while tokens.token is not None:
            self._row(tokens)

    def _row(self, tokens: _Stream) -> None:
        assert tokens.token is not None
        begin = tokens.token[2]
        label = tokens.label()
        side = _Side()
        sides = [side]
        operators: list[str] = []
        ends = False  # whether a number on this side is the right-hand side, the end of the row
        ended = False
        while tokens.token is not None:
            kind, text, place, first = tokens.token
            if kind == "op":
                self._close(side, place)
                ends = bool(side.terms or side.is_blank)
                operators.append(_OPERATOR[text])
                side = _Side()
                sides.append(side)
                ended = False
            elif ended:
                if not first:
                    place.refuse(f"{text!r} follows the right-hand side of a row; a further row begins on a new line")
                break
            elif tokens.at_label():
                break  # of the next row
            elif kind == "colon" or kind == "other" or kind == "arrow":
                if kind == "arrow" or text in "[]^*":
                    place.unsupported(f"{text!r}: quadratic and indicator constraints are more than linear rows")
                place.refuse(f"{text!r} is not understood")
            else:
                if first and operators and not ends and place is not begin and not side.is_blank:
                    place.refuse(
                        f"{text!r} may go on with the row above, which begins with a number, or begin another one; "
                        "put the row on one line, or the number on its right"
                    )
                self._add(side, kind, text, place)
                if ends and side.number is not None:
                    self._close(side, place)
                    ended = True
            tokens.advance()
        self._close(side, begin)
        self._finish_row(label, sides, operators, begin)

    def _finish_row(self, label: str | None, sides: list[_Side], operators: list[str], place: Place) -> None:
        program = self.program
        bodies = [k for k, side in enumerate(sides) if side.terms]
        what = f"row {label!r}" if label is not None else "a row"
        form = "is not of the form terms <= number, number <= terms or number <= terms <= number"
        if len(operators) not in (1, 2) or len(bodies) > 1 or (len(operators) == 2 and bodies != [1]):
            place.refuse(f"{what} {form}")
        if not bodies and not (label is not None and len(operators) == 1 and sides[0].is_blank):
            place.refuse(f"{what} has no variable; write 0 times one of them if that is meant")
        body = bodies[0] if bodies else 0  # HiGHS writes an empty row as `label: >= 1`
        if any(not side.has_number for k, side in enumerate(sides) if k != body):
            place.refuse(f"{what} {form}")
        if len(operators) == 2 and (operators[0] != operators[1] or "=" in operators):
            place.refuse(f"{what} is bounded twice by {operators[0]!r} and {operators[1]!r}")
        low, high = -np.inf, np.inf
        for k, operator in enumerate(operators):
            other = k if k != body else k + 1
            bound = signed_infinity(signed_infinity(sides[other].constant) - sides[body].constant)
            # `number <= terms` bounds from below, `terms <= number` from above.
            if operator == "=" or (operator == "<=") == (other < body):
                low = max(low, bound)
            if operator == "=" or (operator == "<=") == (other > body):
                high = min(high, bound)
        if low == np.inf or high == -np.inf:
            place.refuse(f"{what} has an infinite side that no value can satisfy")
        i = program.add_row(label if label is not None else f"\0{len(program.row)}", low, high, place)
        if label is None:
            self.unnamed.append(i)
        for j, value in sides[body].terms:
            program.enter(i, j, value)

    # -- terms -------------------------------------------------------------------------------------

    def _add(self, side: _Side, kind: str, text: str, place: Place) -> None:
        """One more sign, number or name."""
        if kind == "sign":
            if side.number is not None:
                self._close(side, place)
            if side.twice:
                place.refuse(f"{text!r} is a sign too many")
            side.twice = side.sign is not None
            side.sign = (1.0 if side.sign is None else side.sign) * (-1.0 if text == "-" else 1.0)
            return
        if kind == "number" and side.number is not None:
            place.refuse(f"{text!r} is a number too many")
        if side.sign is None and not (side.is_blank or (kind == "name" and side.number is not None)):
            place.refuse(f"{text!r} follows without + or - between")
        if kind == "number":
            side.number = float(text)
            return
        value = (1.0 if side.sign is None else side.sign) * (1.0 if side.number is None else side.number)
        if value - value != 0.0:
            place.refuse(f"the coefficient of {text!r} is infinite")
        side.terms.append((self._variable(text, place), value))
        side.sign = side.number = None
        side.twice = False

    def _close(self, side: _Side, place: Place) -> None:
        """A number without a name is a constant."""
        if side.number is not None:
            value = (1.0 if side.sign is None else side.sign) * side.number
            if not np.isfinite(value + side.constant) and (side.terms or side.has_number):
                place.refuse("an infinite constant beside other terms")
            side.constant += value
            side.has_number = True
        elif side.sign is not None:
            place.refuse("a sign that nothing follows")
        elif side.terms and not np.isfinite(side.constant):
            place.refuse("an infinite constant beside other terms")
        side.sign = side.number = None
        side.twice = False

    def _variable(self, name: str, place: Place) -> int:
        found = self.program.column.get(name)
        if found is not None:
            return found
        if name.casefold() in KEYWORDS:
            place.refuse(f"{name!r} is a keyword, not a name; rename it, or begin a section on a line of its own")
        return self.program.variable(name)

    # -- bounds and kinds --------------------------------------------------------------------------

    def _bounds(self, lines: list[tuple[Place, str]]) -> None:
        for place, content in lines:
            found = list(_tokens([(place, content)]))
            if found:
                self._bound(found, place)

    def _bound(self, found: list[_Token], place: Place) -> None:
        """``number <= name <= number``, either side left out, ``name = number`` or ``name free``."""
        parts: list[float | str] = []
        shape = ""  # of the parts: v a value, n a name, o an operator
        sign: float | None = None
        for kind, text, _, _ in found:
            if kind == "sign" and sign is None:
                sign = -1.0 if text == "-" else 1.0
            elif kind == "number":
                parts.append((1.0 if sign is None else sign) * float(text))
                shape += "v"
                sign = None
            elif kind in ("name", "op") and sign is None:
                parts.append(text if kind == "name" else _OPERATOR[text])
                shape += kind[0]
            else:
                place.refuse(f"{text!r} has no place in a bound")
        if sign is not None:
            place.refuse("a sign that nothing follows")
        match shape, parts:
            case "nn", [str(name), str(word)] if word.casefold() == "free":
                self._state(name, -np.inf, np.inf, place)
            case "nov", [str(name), str(op), float(value)]:
                self._state(name, *_interval(op, value, first=False), place)
            case "von", [float(value), str(op), str(name)]:
                self._state(name, *_interval(op, value, first=True), place)
            case "vonov", [float(left), str(op), str(name), str(again), float(right)] if op == again != "=":
                self._state(name, *((left, right) if op == "<=" else (right, left)), place)
            case _:
                place.refuse(
                    "a bound has the form number <= name <= number (or one side of it), name = number or name free, "
                    "one a line"
                )

    def _state(self, name: str, low: float | None, high: float | None, place: Place) -> None:
        j = self._variable(name, place)
        self.program.bound(j, name, low, high, place)
        if high is not None and high < 0:
            self.negative[j] = name, place

    def _generals(self, lines: list[tuple[Place, str]]) -> None:
        for name, place in self._names(lines):
            self.program.integer[self._variable(name, place)] = True

    def _binaries(self, lines: list[tuple[Place, str]]) -> None:
        for name, place in self._names(lines):
            j = self._variable(name, place)
            self.program.integer[j] = True
            self.binaries[j] = name, place

    def _semi(self, lines: list[tuple[Place, str]]) -> None:
        for name, place in self._names(lines):
            place.unsupported(
                f"variable {name!r} is semi-continuous; write it as a continuous variable between 0 and its bound "
                "times a binary one"
            )

    def _end(self, lines: list[tuple[Place, str]]) -> None:
        for place, content in lines:
            if content.strip():
                place.refuse("text after 'end'")

    def _names(self, lines: list[tuple[Place, str]]) -> Iterator[tuple[str, Place]]:
        for kind, text, place, _ in _tokens(lines):
            if kind != "name":
                place.refuse(f"{text!r} has no place in a list of names")
            yield text, place


def _interval(op: str, value: float, *, first: bool) -> tuple[float | None, float | None]:
    """Lower and upper bound of ``name op value``, or of ``value op name`` where the value is first."""
    if op == "=":
        return value, value
    return (value, None) if (op == "<=") == first else (None, value)


class _Stream:
    """Tokens with one to look ahead."""

    def __init__(self, tokens: Iterator[_Token]) -> None:
        self._more = tokens
        self.token: _Token | None = next(tokens, None)
        self.after: _Token | None = next(tokens, None)

    def advance(self) -> None:
        self.token = self.after
        self.after = next(self._more, None)

    def at_label(self) -> bool:
        return self.after is not None and self.after[0] == "colon"

    def label(self) -> str | None:
        """The label that the next tokens are, taken; or None."""
        if not self.at_label() or self.token is None:
            return None
        kind, text, place, _ = self.token
        if kind != "name" or text.casefold() in KEYWORDS:
            place.refuse(f"{text!r} is not the name of a row")
        self.advance()
        self.advance()
        return text


# CPLEX reserves e, e1 and ee for exponents, HiGHS takes the beginnings inf and nan for numbers, CBC takes 100
# characters at most.
_LEGAL = re.compile(r"(?!(?i:e[0-9.e]|e$|inf|nan))[A-Za-z_][A-Za-z0-9_.,()#@!~]{0,99}")
_RESERVED = KEYWORDS | {"subject", "such", "to", "that", "lazy", "user", "s1", "s2", "obj"}
_BRACKETS = str.maketrans("[] \t\n", "()___")


def _is_legal(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None and name.casefold() not in _RESERVED


def lp_text(compiled: CompiledSpace, objective: LinearObjective | None = None) -> str:
    """Return the text of an LP file of the space; its objective ``obj`` is zero by default."""
    variables = stand_ins(compiled.variable_names, _is_legal, lambda name: name.translate(_BRACKETS), "x")
    rows = stand_ins(compiled.row_names, _is_legal, lambda name: name.translate(_BRACKETS), "r")
    header = Header.of_names(compiled.name, (variables, compiled.variable_names), (rows, compiled.row_names))
    low, high = compiled.row_lower, compiled.row_upper
    double = np.flatnonzero(np.isfinite(low) & np.isfinite(high) & (low < high)).tolist()
    header.halves = upper_names(rows, double)
    bounds = list(_bounds(compiled, variables))
    if not variables:
        # LP files have no objective and no row without a variable.
        header.dummy, variables, bounds = "x0", ["x0"], [" x0 = 0"]
    constraints = list(_constraints(compiled, variables, rows, header.halves))
    # All variables, also those with coefficient zero: LP files have no other list that keeps their order.
    coef = np.zeros(len(variables)) if objective is None or not compiled.n_variables else objective.coef
    terms = ["obj:", *(f"{term} {variable}" for term, variable in zip(_signed(coef), variables, strict=True))]
    if objective is not None and objective.constant:
        terms += _signed(np.array([objective.constant]))
    sense = "minimize" if objective is None else objective.sense
    integers = [variables[j] for j in np.flatnonzero(compiled.integrality)]
    sections = [*header.lines("\\"), sense, *wrap(terms), "subject to", *constraints, "bounds", *bounds]
    if integers:
        sections += ["generals", *wrap(integers)]
    return "\n".join([*sections, "end", ""])


def _signed(values: FloatArray) -> list[str]:
    """Return exact texts with the sign apart, such as ``- 2``."""
    signs = np.where(values < 0, "-", "+").tolist()
    return [f"{sign} {size}" for sign, size in zip(signs, exact(np.abs(values)), strict=True)]


def upper_names(rows: list[str], double: list[int]) -> dict[str, str]:
    """A free name for the upper half of each row of `double`, by the row's own name."""
    taken = set(rows)
    found: dict[str, str] = {}
    for i in double:
        name = f"{rows[i][:80]}_upper"
        if name in taken:
            name = f"r{i}_upper"
        while name in taken:
            name += "_"
        taken.add(name)
        found[rows[i]] = name
    return found


def _constraints(
    compiled: CompiledSpace, variables: list[str], rows: list[str], halves: dict[str, str]
) -> Iterator[str]:
    matrix = compiled.matrix
    names = [variables[j] for j in matrix.indices.tolist()]
    terms = [f"{term} {name}" for term, name in zip(_signed(matrix.data), names, strict=True)]
    indptr = matrix.indptr.tolist()
    low_texts, high_texts = exact(compiled.row_lower), exact(compiled.row_upper)
    for i, row in enumerate(rows):
        low, high = compiled.row_lower[i], compiled.row_upper[i]
        body = terms[indptr[i] : indptr[i + 1]] or [f"0 {variables[0]}"]
        if low == high:
            tail = f"= {low_texts[i]}"
        elif np.isfinite(low):
            tail = f">= {low_texts[i]}"
        elif np.isfinite(high):
            tail = f"<= {high_texts[i]}"
        else:
            tail = ">= -1e30"  # infinite for every reader; GLPK has no keyword for infinity here
        yield from wrap([f"{row}:", *body, tail])
        if row in halves:
            yield from wrap([f"{halves[row]}:", *body, f"<= {high_texts[i]}"])


def _bounds(compiled: CompiledSpace, variables: list[str]) -> Iterator[str]:
    lower, upper = compiled.lower, compiled.upper
    low_texts, high_texts = exact(lower), exact(upper)
    for j in np.flatnonzero((lower != 0) | ~np.isposinf(upper)).tolist():
        if lower[j] == upper[j]:
            yield f" {variables[j]} = {low_texts[j]}"
        elif np.isinf(lower[j]) and np.isinf(upper[j]):
            yield f" {variables[j]} free"
        elif np.isinf(upper[j]):
            yield f" {variables[j]} >= {low_texts[j]}"
        else:
            yield f" {low_texts[j]} <= {variables[j]} <= {high_texts[j]}"
