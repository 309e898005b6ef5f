"""``structopt bench``: run a benchmark of a checkout."""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import structopt
from structopt.cli._output import add_command, print_json, print_table
from structopt.errors import DeclarationError

__all__ = ["add", "run"]

_DESCRIPTION = """\
Run a file of benchmarks/ in a checkout of structopt, or list them with the tables that are kept of each in
benchmarks/results and the CPU seconds that these took. Words after the name go to the benchmark. --kept runs the
commands of what is kept, one after the other.

examples:
  structopt bench
  structopt bench oracle --quick
  structopt bench train yeast
  structopt bench --kept
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "bench", run, "run a benchmark of a checkout", _DESCRIPTION)
    parser.add_argument("--kept", action="store_true", help="repeat all that is kept, or all of the benchmark named")
    parser.add_argument("name", nargs="?", help="file of benchmarks/ without its suffix; none: list them")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...", help="arguments of the benchmark")


def run(arguments: argparse.Namespace) -> int:
    """List or run, and return the exit code."""
    folder = _folder()
    files = {path.stem: path for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")}
    if arguments.kept:
        return _repeat(folder, files, arguments.name)
    if arguments.name is None:
        kept = _kept(folder)
        about = {name: {"about": _first_line(path), "kept": kept.get(name, {})} for name, path in files.items()}
        if arguments.json:
            print_json(about)
        else:
            print_table([("benchmark", "kept", "CPU s", "measures"), *(_line(name, about[name]) for name in about)])
        return 0
    if arguments.name not in files:
        raise DeclarationError(f"There is no benchmark {arguments.name!r}; choose one of {', '.join(files)}.")
    sys.stdout.flush()
    done = subprocess.run([sys.executable, str(files[arguments.name]), *arguments.words])
    return 0 if done.returncode == 0 else 1


def _repeat(folder: Path, files: dict[str, Path], only: str | None) -> int:
    """Run every command that results are kept of, once; all of them, also after one that fails."""
    if only is not None and only not in files:
        raise DeclarationError(f"There is no benchmark {only!r}; choose one of {', '.join(files)}.")
    failed = []
    for command in _commands(folder):
        _, _, name, *words = command.split()
        if only not in (None, name):
            continue
        print(f"== {command}", flush=True)
        if name not in files or subprocess.run([sys.executable, str(files[name]), *words]).returncode:
            failed.append(command)
    for command in failed:
        print(f"failed: {command}", file=sys.stderr)
    return 1 if failed else 0


def _commands(folder: Path) -> list[str]:
    """The commands of the kept results in order of their names, each once."""
    found = []
    for path in sorted((folder / "results").glob("*.json")):
        try:
            command = str(json.loads(path.read_text(encoding="utf-8"))["command"])
        except (ValueError, KeyError, TypeError) as error:
            raise DeclarationError(f"{path} is not a kept result; run its benchmark again.") from error
        if not command.startswith("structopt bench "):
            raise DeclarationError(f"{path} is of the command {command!r}, which is no benchmark.")
        found.append(command)
    return list(dict.fromkeys(found))


def _line(name: str, about: dict[str, Any]) -> tuple[str, ...]:
    kept = about["kept"]
    seconds = f"{sum(kept.values()):.0f}" if kept else ""
    return name, f"{len(kept)} tables" if len(kept) != 1 else "1 table", seconds, about["about"]


def _kept(folder: Path) -> dict[str, dict[str, float]]:
    """Tables that are kept of each benchmark, and the CPU seconds that each took."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted((folder / "results").glob("*.json")):
        try:
            seconds = float(json.loads(path.read_text(encoding="utf-8"))["cpu_seconds"])
        except (ValueError, KeyError, TypeError) as error:
            raise DeclarationError(f"{path} is not a kept result; run its benchmark again.") from error
        found.setdefault(path.stem.partition(".")[0], {})[path.stem] = seconds
    return found


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
