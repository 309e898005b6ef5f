"""``structopt bench``: run a benchmark of a checkout."""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structopt
from structopt.cli._output import add_command, print_json, print_table
from structopt.errors import DeclarationError

__all__ = ["add", "run"]

_DESCRIPTION = """\
Run a file of benchmarks/ in a checkout of structopt, or list them with the tables that are kept of each in
benchmarks/results and the CPU seconds that these took. Words after the name go to the benchmark. --kept runs the
commands of what is kept, one after the other or --jobs of them at a time, those that are measured by the clock alone.

examples:
  structopt bench
  structopt bench oracle --quick
  structopt bench train yeast
  structopt bench --kept
  structopt bench --kept --jobs 2
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(commands, "bench", run, "run a benchmark of a checkout", _DESCRIPTION)
    parser.add_argument("--kept", action="store_true", help="repeat all that is kept, or all of the benchmark named")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="commands that run at a time, with --kept")
    parser.add_argument("name", nargs="?", help="file of benchmarks/ without its suffix; none: list them")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...", help="arguments of the benchmark")


def run(arguments: argparse.Namespace) -> int:
    """List or run, and return the exit code."""
    folder = _folder()
    files = {path.stem: path for path in sorted(folder.glob("*.py")) if not path.stem.startswith("_")}
    if arguments.jobs < 1:
        raise DeclarationError(f"--jobs is {arguments.jobs}; at least one command runs at a time.")
    if arguments.jobs > 1 and not arguments.kept:
        raise DeclarationError("--jobs is for the commands of --kept: structopt bench --kept --jobs 2.")
    if arguments.kept:
        return _repeat(folder, files, arguments.name, arguments.jobs)
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


@dataclass
class _Command:
    """A command that results are kept of."""

    text: str
    seconds: float = 0.0  # CPU seconds that its results took
    alone: bool = False  # measured by the clock, or with all cores

    @property
    def benchmark(self) -> str:
        return self.text.split()[2]


def _repeat(folder: Path, files: dict[str, Path], only: str | None, jobs: int) -> int:
    """Run every command that results are kept of, once; all of them, also after one that fails."""
    if only is not None and only not in files:
        raise DeclarationError(f"There is no benchmark {only!r}; choose one of {', '.join(files)}.")
    commands = [command for command in _commands(folder) if only in (None, command.benchmark)]
    before, failed = _cpu_seconds(), []

    def ended(command: _Command, code: int) -> None:
        if code:
            failed.append(command.text)

    # The longest first, so that no core waits for one that began last. What each says stays in one piece.
    together = [command for command in commands if jobs > 1 and not command.alone]
    together.sort(key=lambda command: -command.seconds)
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(_captured, command, files): command for command in together}
        try:
            for future in as_completed(running):
                code, said = future.result()
                print(f"== {running[future].text}\n{said}", end="", flush=True)
                ended(running[future], code)
        except BaseException:  # such as Ctrl-C, which those that run have, too: no other begins
            pool.shutdown(cancel_futures=True)
            raise
    for command in commands:
        if command not in together:
            print(f"== {command.text}", flush=True)
            ended(command, _run(command, files))
    minutes = (_cpu_seconds() - before) / 60.0
    print(f"{len(commands)} commands in {minutes:.1f} CPU minutes, {len(failed) or 'none'} failed", flush=True)
    for text in failed:
        print(f"failed: {text}", file=sys.stderr)
    return 1 if failed else 0


def _run(command: _Command, files: dict[str, Path], **streams: Any) -> int:
    """Run a command and return its exit code; 1 if its benchmark is there no more."""
    _, _, name, *words = command.text.split()
    if name not in files:
        return 1
    return subprocess.run([sys.executable, str(files[name]), *words], **streams).returncode


def _captured(command: _Command, files: dict[str, Path]) -> tuple[int, str]:
    """The exit code, and what the command said; one thread for linear algebra, as there are others beside it."""
    threads = {name: os.environ.get(name, "1") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        code = _run(command, files, stdout=said, stderr=subprocess.STDOUT, env=os.environ | threads)
        said.seek(0)
        return code, said.read()


def _cpu_seconds() -> float:
    """Of the commands that have ended."""
    used = os.times()
    return used.children_user + used.children_system


def _commands(folder: Path) -> list[_Command]:
    """The commands of the kept results in order of their names, each once."""
    found: dict[str, _Command] = {}
    for path in sorted((folder / "results").glob("*.json")):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
            text, seconds = str(result["command"]), float(result["cpu_seconds"])
        except (ValueError, KeyError, TypeError) as error:
            raise DeclarationError(f"{path} is not a kept result; run its benchmark again.") from error
        if not text.startswith("structopt bench "):
            raise DeclarationError(f"{path} is of the command {text!r}, which is no benchmark.")
        command = found.setdefault(text, _Command(text))
        command.seconds += seconds
        command.alone |= bool(result.get("alone"))
    return list(found.values())


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
