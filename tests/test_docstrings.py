"""Sections of docstrings: a title on a line of its own, underlined in full, after a blank line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import structopt

ROOT = Path(structopt.__file__).parent
TITLES = frozenset(
    (
        "Attributes",
        "Examples",
        "Methods",
        "Notes",
        "Parameters",
        "Raises",
        "References",
        "Returns",
        "See Also",
        "Yields",
    )
)


def faults(text: str) -> Iterator[str]:
    lines = [line.strip() for line in text.split("\n")]
    for k, line in enumerate(lines):
        if any(re.match(rf"{title} -{{3,}}", line) for title in TITLES):
            yield f"title and underline on one line: {line[:60]!r}"
        if re.fullmatch("-{3,}", line):
            title = lines[k - 1] if k else ""
            if title not in TITLES or len(title) != len(line):
                yield f"not a section, or underlined in part: {title!r}"
            elif k > 1 and lines[k - 2]:
                yield f"no blank line before {title!r}"


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_docstring_sections_have_a_title_and_an_underline(path: Path) -> None:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)]
    assert not [(getattr(node, "name", ""), fault) for node in found for fault in faults(ast.get_docstring(node) or "")]
