"""Stored results: one file ``results/<benchmark>.<part>.json`` per table. The documentation makes its pages from them.

In addition to the rows a file has the command, the commit, the versions, the kind of machine, the seeds and the CPU
seconds. The commit says which code was measured. It ends with ``+`` if ``structopt/`` had uncommitted changes.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["COMMAND", "FOLDER", "load", "load_all", "plain", "store"]

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / "results"
#: Every stored command begins with it.
COMMAND = "python benchmarks/run.py"
#: Modules whose versions are stored, if they were imported.
_LIBRARIES = (
    "numpy", "scipy", "sklearn", "highspy", "numba", "pyomo", "pulp", "cvxpy", "networkx", "dask", "piqp", "torch",
    "torch_struct", "pycrfsuite", "hiclass", "lightgbm",
)  # fmt: skip
_REQUIRED = ("name", "title", "command", "commit", "date", "machine", "versions", "seeds", "cpu_seconds", "rows")


def store(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    title: str,
    words: Sequence[str],
    seconds: float,
    seeds: Sequence[int] = (0,),
    ratio: str | None = None,
    note: str = "",
    folder: Path | None = None,
) -> Path | None:
    """Write a result to ``results/<name>.json`` and return its path.

    `name` is ``benchmark.part``. Text columns of the rows say what a row is about, numbers are figures, NaN and None
    are gaps. `words` are the arguments that repeat the table, after the name of the benchmark. `ratio` is the column
    that is drawn as bars. None is returned if the result of another command is stored there, so a quick run does not
    replace it, or if nothing can be written.
    """
    command = " ".join([COMMAND, name.partition(".")[0], *words])
    path = (folder or FOLDER) / f"{name}.json"
    if ratio is not None and rows and ratio not in rows[0]:
        raise KeyError(f"{name}: there is no column {ratio!r} to draw; the rows have {', '.join(rows[0])}.")
    if path.exists() and (before := json.loads(path.read_text(encoding="utf-8"))["command"]) != command:
        print(f"not stored: results/{path.name} is of the command '{before}'; delete it to store this run instead")
        return None
    if not rows:
        print(f"not stored: {name} has no rows")
        return None
    head = {
        "name": name,
        "title": title,
        "command": command,
        "commit": _commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": _machine(),
        "versions": _versions(),
        "seeds": list(seeds),
        "cpu_seconds": round(seconds, 1),
        "ratio": ratio,
        "note": note,
    }
    body = ",\n".join("  " + json.dumps(plain(row), ensure_ascii=False) for row in rows)  # one row per line, for diffs
    text = f'{json.dumps(head, indent=1, ensure_ascii=False)[:-2]},\n "rows": [\n{body}\n ]\n}}\n'
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"not stored: {error}")
        return None
    print(f"stored: results/{path.name}")
    return path


def load(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Return a stored result, with its ``rows``."""
    path = (folder or FOLDER) / f"{name}.json"
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path.name} is not JSON: {error}.") from error
    missing = [key for key in _REQUIRED if not isinstance(result, dict) or key not in result]
    if missing:
        raise ValueError(f"{path.name} has no {', '.join(missing)}; run its benchmark again.")
    if result["name"] != name or not result["command"].startswith(f"{COMMAND} {name.partition('.')[0]} "):
        raise ValueError(f"{path.name} is the result {result['name']!r} of {result['command']!r}; it has another name.")
    return dict(result)


def load_all(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return all stored results by name."""
    return {path.stem: load(path.stem, folder) for path in sorted((folder or FOLDER).glob("*.json"))}


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in the types of JSON, with numbers to five digits."""

    def value(one: Any) -> Any:
        one = one.tolist() if hasattr(one, "tolist") else one  # numbers of NumPy
        if isinstance(one, float):
            return float(f"{one:.5g}") if math.isfinite(one) else None
        return one if one is None or isinstance(one, bool | int | str) else str(one)

    return {str(key): value(one) for key, one in row.items()}


def _machine() -> str:
    """Return the kind of machine: system, processor, cores; not its name."""
    model = platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        model = next(line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{platform.system()} {platform.machine()}, {model}, {os.cpu_count()} cores"


def _versions() -> dict[str, str]:
    """Return the versions of Python and of the imported libraries, by the name of the distribution."""
    known = metadata.packages_distributions()
    names = [known[module][0] for module in _LIBRARIES if module in sys.modules and module in known]
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in names}


def _commit() -> str | None:
    """Return the commit of the checkout, or None without git or inside another repository."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    try:
        prefix, commit, *_ = git("rev-parse", "--show-prefix", "--short=10", "HEAD").splitlines()
        return None if prefix else commit + ("+" if git("status", "--porcelain", "--", "structopt") else "")
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
