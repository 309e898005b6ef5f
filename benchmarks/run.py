"""Run benchmarks of this checkout.

    python benchmarks/run.py                     # list the benchmarks with their stored tables and CPU seconds
    python benchmarks/run.py train               # list the parts of one benchmark
    python benchmarks/run.py train yeast slack   # run parts; --help shows their options
    python benchmarks/run.py --stored [train]    # repeat every stored result with its own command; as `make bench`

Each benchmark runs in a process of its own with one thread for linear algebra.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from _results import COMMAND, load_all
from _threads import ONE_THREAD

HERE = Path(__file__).resolve().parent


def benchmarks() -> dict[str, Path]:
    """Return the files of all benchmarks by name."""
    return {path.stem: path for folder in ("papers", "speed") for path in sorted((HERE / folder).glob("[!_]*.py"))}


def start(path: Path, words: Sequence[str]) -> int:
    """Run a benchmark and return its exit code."""
    paths = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.stdout.flush()
    environment = ONE_THREAD | os.environ | {"PYTHONPATH": paths}
    return subprocess.run([sys.executable, str(path), *words], env=environment).returncode


def repeat(name: str | None) -> int:
    """Run each command of the stored results once, and return 1 if one fails."""
    files, failed = benchmarks(), []
    commands = dict.fromkeys(result["command"] for result in load_all(HERE / "results").values())
    for command in commands:
        benchmark, *words = command.removeprefix(COMMAND).split()
        if name in (None, benchmark):
            print(f"== {command}", flush=True)
            if benchmark not in files or start(files[benchmark], words):
                failed.append(command)
    for command in failed:
        print(f"failed: {command}", file=sys.stderr)
    return 1 if failed else 0


def show() -> int:
    """Print a line per benchmark."""
    stored = load_all(HERE / "results")
    for name, path in benchmarks().items():
        own = [result["cpu_seconds"] for key, result in stored.items() if key.partition(".")[0] == name]
        about = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        print(f"{path.parent.name}/{name:17} {len(own):2} tables {sum(own):6.0f} CPU s  {about}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stored", action="store_true", help="repeat every stored result, or those of one benchmark")
    parser.add_argument("name", nargs="?", help="benchmark")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="its parts and options")
    given, files = parser.parse_args(arguments), benchmarks()
    if given.name is not None and given.name not in files:
        parser.error(f"There is no benchmark {given.name!r}; choose one of {', '.join(files)}.")
    if given.stored:
        return repeat(given.name)
    return show() if given.name is None else start(files[given.name], given.words)


if __name__ == "__main__":
    sys.exit(main())
