"""Lossless writer of free-format MPS files (HiGHS's own writer rounds to 15 digits)."""

from __future__ import annotations

import re

import numpy as np
import scipy.sparse as sp

from structopt.interop.lp import upper_names
from structopt.interop.names import stand_ins
from structopt.interop.text import Header, exact
from structopt.space.compiled import CompiledSpace, FloatArray

__all__ = ["mps_text"]

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


def mps_text(compiled: CompiledSpace) -> str:
    """The space as the text of an MPS file with a zero objective ``obj``."""
    variables = stand_ins(compiled.variable_names, _is_legal, _translate, "x")
    rows = stand_ins(compiled.row_names, _is_legal, _translate, "r")
    header = Header.of_names(compiled.name, (variables, compiled.variable_names), (rows, compiled.row_names))
    kinds, sides, widths = _row_kinds(compiled.row_lower, compiled.row_upper)
    # A range that rounds is written as two rows: the sum of right-hand side and range would be another bound.
    split = _inexact(kinds, sides, widths, compiled)
    header.halves = upper_names(rows, split.tolist())
    kinds[split], sides[split], widths[split] = "G", compiled.row_lower[split], np.inf
    lines = [*header.lines("*"), f"NAME {_one_word(compiled.name)}".rstrip(), "ROWS", " N obj"]
    for kind, row in zip(kinds.tolist(), rows, strict=True):
        lines += [f" {kind} {row}", *([f" L {header.halves[row]}"] if row in header.halves else [])]
    lines += ["COLUMNS", *_columns(compiled, variables, rows, header.halves), "RHS"]
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


def _columns(compiled: CompiledSpace, variables: list[str], rows: list[str], halves: dict[str, str]) -> list[str]:
    matrix = sp.csc_array(compiled.matrix)
    matrix.sort_indices()
    # The upper half of a split row stands on the same line.
    again = [f" {halves[row]} " if row in halves else "" for row in rows]
    entries = [
        f"{rows[i]} {value}{again[i] and again[i] + value}"
        for i, value in zip(matrix.indices.tolist(), exact(matrix.data), strict=True)
    ]
    indptr = matrix.indptr.tolist()
    lines: list[str] = []
    integer_before = False
    for j, (variable, integer) in enumerate(zip(variables, compiled.integrality.tolist(), strict=True)):
        if integer != integer_before:
            lines.append(f" MARKER 'MARKER' '{'INTORG' if integer else 'INTEND'}'")
            integer_before = integer
        # An entry of zero in the objective declares a variable that is in no row.
        own = entries[indptr[j] : indptr[j + 1]] or ["obj 0"]
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
