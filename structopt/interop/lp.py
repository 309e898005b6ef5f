"""Lossless writer of LP files, which HiGHS, CBC, GLPK, CPLEX and SCIP read as the same space.

Few readers take ``-2 <= a + b <= 3`` for one row (HiGHS 1.15 makes two wrong ones of it), so that such a
row is written as two, which a comment joins again for `lp_reader`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from structopt.interop.lp_reader import KEYWORDS
from structopt.interop.names import stand_ins
from structopt.interop.text import Header, exact, wrap
from structopt.space.compiled import CompiledSpace

__all__ = ["lp_text"]

# CPLEX reserves e, e1 and ee for exponents, HiGHS takes the beginnings inf and nan for numbers, CBC takes 100
# characters at most.
_LEGAL = re.compile(r"(?!(?i:e[0-9.e]|e$|inf|nan))[A-Za-z_][A-Za-z0-9_.,()#@!~]{0,99}")
_RESERVED = KEYWORDS | {"subject", "such", "to", "that", "lazy", "user", "s1", "s2", "obj"}
_BRACKETS = str.maketrans("[] \t\n", "()___")


def _is_legal(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None and name.casefold() not in _RESERVED


def lp_text(compiled: CompiledSpace) -> str:
    """The space as the text of an LP file with a zero objective ``obj``."""
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
    # All variables with coefficient zero: LP files have no other list that keeps their order.
    objective = wrap(["obj:", *(f"+ 0 {variable}" for variable in variables)])
    integers = [variables[j] for j in np.flatnonzero(compiled.integrality)]
    sections = [*header.lines("\\"), "minimize", *objective, "subject to", *constraints, "bounds", *bounds]
    if integers:
        sections += ["generals", *wrap(integers)]
    return "\n".join([*sections, "end", ""])


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
    signs = np.where(matrix.data < 0, "-", "+").tolist()
    sizes = exact(np.abs(matrix.data))
    names = [variables[j] for j in matrix.indices.tolist()]
    terms = [f"{sign} {size} {name}" for sign, size, name in zip(signs, sizes, names, strict=True)]
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
