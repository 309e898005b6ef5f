"""Output of the commands: aligned facts and tables, or JSON."""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from structopt.errors import DeclarationError

__all__ = [
    "Formatter",
    "add_command",
    "check_writable",
    "key_value",
    "number",
    "plain",
    "print_facts",
    "print_json",
    "print_table",
]


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help with its examples as written."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, max_help_position=30, **options)


def add_command(commands: Any, name: str, run: Any, help: str, description: str) -> argparse.ArgumentParser:
    """A sub-command with ``--json``."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=help, description=description, formatter_class=Formatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document, for programs")
    parser.set_defaults(run=run)
    return parser


def check_writable(path: str | Path, what: str) -> None:
    """Refuse a place where no file can be written, before the work whose result it should hold."""
    path = Path(path)
    if path.is_dir():
        raise DeclarationError(f"{what}: {str(path)!r} is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise DeclarationError(f"{what}: there is no folder {str(path.parent)!r} to write {path.name!r} in.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise DeclarationError(f"{what}: {str(path)!r} cannot be written; choose another place.")


def plain(value: Any) -> Any:
    """The value in the types of JSON; what is not finite is None.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"a": np.arange(2), "b": {3, 1}, "c": float("inf")})
    {'a': [0, 1], 'b': [1, 3], 'c': None}
    """
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return [plain(item) for item in sorted(value, key=lambda item: (str(type(item)), item))]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def print_json(document: Any) -> None:
    """One JSON document on one line."""
    print(json.dumps(plain(document), ensure_ascii=False))


def print_facts(facts: Mapping[str, Any]) -> None:
    """A name and a value a line; what is None is left out."""
    shown = {name.replace("_", " "): number(value) for name, value in facts.items() if value is not None}
    width = max((len(name) for name in shown), default=0)
    for name, text in shown.items():
        print(f"{name:<{width}}  {text}")


def print_table(rows: Iterable[Sequence[Any]]) -> None:
    """Columns of the width of their longest cell; the last one runs on."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[k]) for row in cells) for k in range(len(cells[0]) - 1)] if cells else []
    for row in cells:
        print("  ".join([*(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip())


def number(value: Any) -> str:
    """Numbers with six digits, sentences as they are."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def key_value(text: str) -> tuple[str, Any]:
    """``key=value`` of a command line; the value is a Python literal, TOML's true or false, or else a string."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    if value in ("true", "false"):
        return key, value == "true"
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value
