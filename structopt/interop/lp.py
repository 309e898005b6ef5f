"""LP files: a writer that loses nothing, and a pass that makes HiGHS read them right.

HiGHS 1.15 reads ``r: -2 <= 1 a + b <= 3`` as two wrong rows and drops the 3 of ``r: 2 a + 3 >= 4``, both
without a word. `normalise` rewrites such rows before HiGHS sees them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from structopt.compiled import CompiledSpace
from structopt.errors import DeclarationError
from structopt.interop.names import stand_ins
from structopt.interop.text import Header, exact, wrap

__all__ = ["lp_text", "normalise"]

_LEGAL = re.compile(r"(?![eE][0-9.]|[eE]$)[A-Za-z_][A-Za-z0-9_.,()#@!~|]{0,253}")
_RESERVED_WORDS = """
    st s.t. st. subject such to that bound bounds bin binary binaries gen general generals int integer
    integers semi semis semi-continuous sos sos1 sos2 s1 s2 end free inf infinity nan ranges min minimum minimise
    minimize max maximum maximise maximize obj
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())
_BRACKETS = str.maketrans("[] \t\n", "()___")


def _is_legal(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None and name.casefold() not in _RESERVED


def lp_text(compiled: CompiledSpace) -> str:
    """The space as the text of an LP file with a zero objective ``obj``."""
    variables = stand_ins(compiled.variable_names, _is_legal, lambda name: name.translate(_BRACKETS), "x")
    rows = stand_ins(compiled.row_names, _is_legal, lambda name: name.translate(_BRACKETS), "r")
    header = Header.of_names(compiled.name, (variables, compiled.variable_names), (rows, compiled.row_names))
    constraints = list(_constraints(compiled, variables, rows, header))
    # All variables with coefficient zero: LP files have no other list that keeps their order.
    objective = wrap(["obj:", *(f"+ 0 {variable}" for variable in variables)])
    integers = [variables[j] for j in np.flatnonzero(compiled.integrality)]
    sections = [*header.lines("\\"), "minimize", *objective, "subject to", *constraints]
    sections += ["bounds", *_bounds(compiled, variables)]
    if integers:
        sections += ["generals", *wrap(integers)]
    return "\n".join([*sections, "end", ""])


def _constraints(compiled: CompiledSpace, variables: list[str], rows: list[str], header: Header) -> Iterator[str]:
    matrix = compiled.matrix
    signs = np.where(matrix.data < 0, "-", "+").tolist()
    sizes = exact(np.abs(matrix.data))
    names = [variables[j] for j in matrix.indices.tolist()]
    terms = [f"{sign} {size} {name}" for sign, size, name in zip(signs, sizes, names, strict=True)]
    indptr = matrix.indptr.tolist()
    nothing = [f"0 {variables[0]}"] if variables else []
    low_texts, high_texts = exact(compiled.row_lower), exact(compiled.row_upper)
    for i, row in enumerate(rows):
        low, high = compiled.row_lower[i], compiled.row_upper[i]
        body = terms[indptr[i] : indptr[i + 1]] or nothing
        head = [f"{row}:"]
        if low == high:
            tail = f"= {low_texts[i]}"
        elif np.isinf(low) and np.isinf(high):
            tail = ">= -inf"
        elif np.isinf(low):
            tail = f"<= {high_texts[i]}"
        elif np.isinf(high) or not body:
            tail = f">= {low_texts[i]}"
        else:
            head.append(f"{low_texts[i]} <=")
            tail = f"<= {high_texts[i]}"
        if not body and low < high:
            header.ranges[row] = float(low), float(high)
        yield from wrap([*head, *body, tail])


def _bounds(compiled: CompiledSpace, variables: list[str]) -> Iterator[str]:
    lower, upper = compiled.lower, compiled.upper
    low_texts, high_texts = exact(lower), exact(upper)
    for j in np.flatnonzero((lower != 0) | ~np.isposinf(upper)).tolist():
        if lower[j] == upper[j]:
            yield f" {variables[j]} = {low_texts[j]}"
        elif np.isinf(lower[j]) and np.isinf(upper[j]):
            yield f" {variables[j]} free"
        else:
            yield f" {low_texts[j]} <= {variables[j]} <= {high_texts[j]}"


_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?(?![^\s<>=:+\-])"
_NAME = r"[^\s<>=:+\-*^\[\]\\0-9.][^\s<>=:+\-*^\[\]\\]*"
_TOKEN = re.compile(
    rf"\\[^\n]*|(?P<op><=|>=|=)|(?P<number>{_NUMBER})|(?P<sign>[+-])"
    rf"|(?P<label>{_NAME})\s*:(?!:)|(?P<name>{_NAME})|(?P<other>\S)",
    re.IGNORECASE,
)
# A number that is neither a coefficient (a name follows) nor a right-hand side (an operator before it).
_SUSPECT = re.compile(
    rf"(?P<after>[<>=]\s*(?:[+-]\s*)?)?(?<![^\s<>=:+\-])(?<!e[+\-])(?>{_NUMBER})(?=\s*(?:(?P<op>[<>=])|[+\-0-9.]))",
    re.IGNORECASE,
)
_BEGIN = re.compile(r"(?im)^[ \t]*(?:subject[ \t]+to|such[ \t]+that|s\.t\.|st\.|st)(?=\s|:)[ \t]*:?")
_END = re.compile(
    r"(?im)^[ \t]*(?:bounds?|bin|binary|binaries|gen|generals?|int|integers?|semi\S*|sos[12]?|ranges|lazy\b.*"
    r"|user\b.*|pwlobj|end)[ \t]*(?:\\.*)?$"
)


def normalise(text: str) -> tuple[str, dict[int, tuple[float, float]]]:
    """Rewrite the rows of an LP file as ``terms <= number``, and return the bounds of the double ones.

    Returns
    -------
    text : str
        The same model, its double-bounded rows with one side only.
    ranges : dict
        Lower and upper bound of each double-bounded row, by its position.

    Examples
    --------
    >>> normalise("min\\n obj: a\\nst\\n r: -2 <= 1 a + 3 <= 5\\nend\\n")
    ('min\\n obj: a\\nst\\n r: + 1.0 a >= -5.0\\nend\\n', {0: (-5.0, 2.0)})
    """
    text = re.sub(r"(?<!-)(?:[<>]=?|=[<>])", lambda match: "<=" if "<" in match[0] else ">=", text)
    begin = _BEGIN.search(text)
    end = _END.search(text, begin.end()) if begin else None
    if begin is None or end is None:
        return text, {}
    section = text[begin.end() : end.start()]
    if not any(match["after"] is None or match["op"] for match in _SUSPECT.finditer(section)):
        return text, {}
    rows = _statements(section)
    if rows is None:
        return text, {}
    ranges = {i: row.bounds for i, row in enumerate(rows) if row.is_double}
    lines = [line for row in rows for line in row.lines()]
    return "\n".join([text[: begin.end()], *lines, text[end.start() :]]), ranges


@dataclass
class _Statement:
    """One row while it is read: its sides (terms and a constant each) and the operators between them."""

    label: str = ""
    operators: list[str] = field(default_factory=list)
    terms: list[list[str]] = field(default_factory=lambda: [[]])
    constants: list[float] = field(default_factory=lambda: [0.0])
    has_number: bool = False

    def compare(self, operator: str) -> None:
        self.operators.append(operator)
        self.terms.append([])
        self.constants.append(0.0)
        self.has_number = False

    @property
    def is_double(self) -> bool:
        return len(self.operators) == 2

    @property
    def is_begun(self) -> bool:
        return bool(self.label or self.operators or any(self.terms))

    @property
    def is_complete(self) -> bool:
        return bool(self.operators) and self.has_number and any(self.terms[:-1])

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the terms, the constants moved away from them."""
        low, high = -np.inf, np.inf
        body = self._body()
        for k, operator in enumerate(self.operators):
            other = k if k != body else k + 1
            bound = self.constants[other] - self.constants[body]
            # `number <= terms` bounds from below, `terms <= number` from above.
            if operator == "=" or (operator == "<=") == (other < body):
                low = max(low, bound)
            if operator == "=" or (operator == "<=") == (other > body):
                high = min(high, bound)
        return low, high

    def _body(self) -> int:
        bodies = [k for k, terms in enumerate(self.terms) if terms]
        place = 1 if self.is_double else bodies[0] if bodies else 0
        if len(self.operators) not in (1, 2) or bodies not in ([], [place]):
            words = self.label or " ".join(word for terms in self.terms for word in terms)
            raise DeclarationError(
                f"row {words!r} of the LP file is not of the form terms <= number, number <= terms or "
                "number <= terms <= number."
            )
        return place

    def lines(self) -> Iterator[str]:
        low, high = self.bounds
        tail = f"= {low!r}" if low == high else f">= {low!r}" if low > -np.inf else f"<= {high!r}"
        yield from wrap([*([f"{self.label}:"] if self.label else []), *self.terms[self._body()], tail])


def _statements(section: str) -> list[_Statement] | None:
    """The rows of the constraint section, or None where it holds more than linear rows (HiGHS will say)."""
    rows: list[_Statement] = []
    row = _Statement()
    sign, number = 1.0, None
    for match in _TOKEN.finditer(section):
        kind = match.lastgroup
        if kind is None:  # a comment
            continue
        if kind == "other":
            return None
        if number is not None and kind != "name":
            row.constants[-1] += sign * number
            row.has_number = True
            sign, number = 1.0, None
        starts_row = kind == "label" or (row.is_complete and kind != "op")
        if starts_row and row.is_begun:
            rows.append(row)
            row = _Statement()
        if kind == "label":
            row.label = match["label"]
        elif kind == "op":
            row.compare(match["op"])
            sign = 1.0
        elif kind == "sign":
            sign = -sign if match["sign"] == "-" else sign
        elif kind == "number":
            number = float(match["number"])
            if any(row.terms[:-1]):  # a right-hand side: no name can belong to it
                row.constants[-1] += sign * number
                row.has_number = True
                sign, number = 1.0, None
        else:
            value = sign * (1.0 if number is None else number)
            row.terms[-1].append(f"{'-' if value < 0 else '+'} {abs(value)!r} {match['name']}")
            sign, number = 1.0, None
    if number is not None:
        row.constants[-1] += sign * number
    if row.is_begun:
        rows.append(row)
    return rows
