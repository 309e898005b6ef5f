"""Text and HTML representations of a space."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from structopt.space.lazy import described_row

if TYPE_CHECKING:
    from structopt.space import Block, LabelSpace

__all__ = ["counted", "html_table", "is_small", "space_algebra", "space_html", "space_summary"]

#: `print(space)` shows the constraints of spaces up to this size.
_SMALL_VARIABLES, _SMALL_ROWS = 40, 20


def counted(number: int, noun: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def html_table(header: list[str], rows: list[list[str]], caption: str = "") -> str:
    """A small HTML table; cells are escaped here."""
    head = "".join(f"<th style='text-align:left'>{escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    title = f"<caption style='text-align:left'>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def space_summary(space: LabelSpace) -> str:
    """``14 binary and 91 continuous variables, 274 rows``."""
    kinds = [_kind(space, block) for block in space]
    sizes = [block.size for block in space]
    counts = []
    for kind in ("binary", "integer", "continuous", "mixed"):
        number = sum(size for k, size in zip(kinds, sizes, strict=True) if k == kind)
        if number:
            counts.append(f"{number} {kind}")
    names = " and ".join([", ".join(counts[:-1]), counts[-1]] if len(counts) > 1 else counts) or "no"
    noun = "variable" if space.n_variables == 1 else "variables"
    lazy = ", ".join(repr(separation.name) for separation in space._lazy)
    return f"{names} {noun}, {counted(space.n_rows, 'row')}{f', lazy rows {lazy}' if lazy else ''}"


def is_small(space: LabelSpace) -> bool:
    """Return whether the constraints of a space fit on a screen."""
    return space.n_variables <= _SMALL_VARIABLES and space.n_rows <= _SMALL_ROWS


def space_algebra(space: LabelSpace, max_rows: int, max_terms: int) -> str:
    """Return the variables and constraints of a space as text."""
    compiled = space.compiled
    shown = min(max_rows, compiled.n_rows)
    names = [str(compiled.row_names[k]) for k in range(shown)]
    width = max((len(name) for name in names), default=0)
    lines = [space.name or "label space"]
    lines += [f"  {_declared(space, block)}" for block in space]
    matrix = compiled.matrix
    for k, name in enumerate(names):
        part = slice(matrix.indptr[k], matrix.indptr[k + 1])
        row = described_row(
            compiled.variable_names,
            matrix.indices[part],
            matrix.data[part],
            float(compiled.row_lower[k]),
            float(compiled.row_upper[k]),
            max_terms,
        )
        lines.append(f"  {f'{name}:':{width + 1}} {row}")
    if compiled.n_rows > shown:
        lines.append(f"  ... {counted(compiled.n_rows - shown, 'more row')}")
    lines += [f"  {separation.name}: lazy rows, found by a function" for separation in space._lazy]
    return "\n".join(lines)


def space_html(space: LabelSpace) -> str:
    """Blocks and rows of a space as a table."""
    compiled = space.compiled
    blocks = [
        [
            block.name,
            str(block.shape),
            _kind(space, block),
            _range(space, block),
            f"z[{block.slice.start}:{block.slice.stop}]",
        ]
        for block in space
    ]
    table = html_table(["block", "shape", "kind", "bounds", "place"], blocks)
    rows = [
        [
            str(names[0]) + (f" ... {names[-1]}" if len(names) > 1 else ""),
            str(len(names)),
            str(matrix.nnz),
            _sense(low, up),
        ]
        for names, matrix, low, up in space._rows
        if len(names)
    ]
    below = html_table(["rows", "number", "non-zeros", "sense"], rows) if rows else ""
    title = escape(space.name) or "Label space"
    notes = "".join(f"<br><em>{escape(note)}</em>" for note in space.notes)
    return (
        f"<div><strong>{title}</strong>: {escape(space_summary(space))}, {compiled.matrix.nnz} non-zeros"
        f"{table}{below}{notes}</div>"
    )


def _declared(space: LabelSpace, block: Block) -> str:
    """Return a block with its domain, ``tag[0..4] in {0, 1}``."""
    places = ", ".join(f"0..{size - 1}" if size > 1 else "0" * size for size in block.shape)
    name = f"{block.name}[{places}]" if block.shape else block.name
    kind = _kind(space, block)
    if kind == "binary" and (space.lower[block.slice] == 0).all() and (space.upper[block.slice] == 1).all():
        return f"{name} in {{0, 1}}"
    return f"{name} in {_range(space, block)}{'' if kind == 'continuous' else f', {kind}'}"


def _kind(space: LabelSpace, block: Block) -> str:
    integer = space.integrality[block.slice]
    if not integer.any():
        return "continuous"
    if not integer.all():
        return "mixed"
    zero_one = (space.lower[block.slice] >= 0).all() and (space.upper[block.slice] <= 1).all()
    return "binary" if zero_one else "integer"


def _range(space: LabelSpace, block: Block) -> str:
    lower, upper = space.lower[block.slice], space.upper[block.slice]
    if not lower.size:
        return ""
    ends = [f"{side.min():g}" if side.min() == side.max() else "varied" for side in (lower, upper)]
    return f"[{ends[0]}, {ends[1]}]"


def _sense(lower: np.ndarray, upper: np.ndarray) -> str:
    if (lower == upper).all():
        return "="
    if np.isinf(lower).all():
        return "<="
    if np.isinf(upper).all():
        return ">="
    return "between" if np.isfinite(lower).all() and np.isfinite(upper).all() else "mixed"
