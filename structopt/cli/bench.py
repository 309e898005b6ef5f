"""``structopt bench``: run a benchmark of a checkout."""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import structopt
from structopt.cli._output import add_command, print_json, print_table
from structopt.errors import DeclarationError

__all__ = ["add", "run"]

_DESCRIPTION = """\
Run a file of benchmarks/ in a checkout of structopt, or list them. Words after the name go to the benchmark.

examples:
  structopt bench
  structopt bench oracle --quick
  structopt bench train yeast
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "bench", run, "run a benchmark of a checkout", _DESCRIPTION)
    parser.add_argument("name", nargs="?", help="file of benchmarks/ without its suffix; none: list them")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...", help="arguments of the benchmark")


def run(arguments: argparse.Namespace) -> int:
    """List or run, and return the exit code."""
    files = {path.stem: path for path in sorted(_folder().glob("*.py")) if not path.stem.startswith("_")}
    if arguments.name is None:
        about = {name: _first_line(path) for name, path in files.items()}
        if arguments.json:
            print_json(about)
        else:
            print_table(about.items())
        return 0
    if arguments.name not in files:
        raise DeclarationError(f"There is no benchmark {arguments.name!r}; choose one of {', '.join(files)}.")
    sys.stdout.flush()
    done = subprocess.run([sys.executable, str(files[arguments.name]), *arguments.words])
    return 0 if done.returncode == 0 else 1


def _folder() -> Path:
    """``benchmarks/`` of the checkout that structopt is imported from, or of the working directory."""
    for top in (Path(structopt.__file__).resolve().parents[1], Path.cwd()):
        if (top / "benchmarks").is_dir() and (top / "structopt").is_dir():
            return top / "benchmarks"
    raise DeclarationError(
        "Benchmarks are not part of the installed package: run this in a checkout of structopt (a clone of its "
        "repository), where the folder benchmarks/ is."
    )


def _first_line(path: Path) -> str:
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return doc.strip().splitlines()[0] if doc.strip() else ""
