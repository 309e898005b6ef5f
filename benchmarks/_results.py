"""Results that are kept: one file ``results/<name>.json`` for each table, from which the documentation makes its pages.

A benchmark prints its rows as they come (`shown`) and ends with ``keep("train.yeast", rows, ...)``. Beside the rows
stand the command that a reader can type, the commit, the versions, the kind of machine, the seeds and the CPU seconds,
and a fingerprint of the code that was measured: where that code has changed since, the page says so. No network and no
git is needed for it.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import math
import os
import platform
import subprocess
import sys
import tokenize
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "changed_since", "fingerprint", "keep", "load", "load_all", "shown"]

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(__file__).resolve().parent / "results"

#: Distributions whose version is told where their module was imported.
_LIBRARIES = {
    "structopt": "structopt-learn",
    "sklearn": "scikit-learn",
    "torch_struct": "torch-struct",
    "pycrfsuite": "python-crfsuite",
    **{
        name: name
        for name in (
            "numpy", "scipy", "highspy", "numba", "pyomo", "pulp", "cvxpy", "torch", "hiclass", "lightgbm", "xgboost",
            "networkx", "dask", "pyepo", "piqp",
        )
    },
}  # fmt: skip
_REQUIRED = (
    "name",
    "title",
    "command",
    "date",
    "machine",
    "versions",
    "cpu_seconds",
    "measures",
    "fingerprint",
    "rows",
)

_kept_at = 0.0  # CPU seconds when the last result was kept


def _cpu_seconds() -> float:
    """Of this process and of those it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def shown(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Print a row, and return it."""

    def text(value: Any) -> str:
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    told = [text(value) if isinstance(value, str) else f"{name} {text(value)}" for name, value in _plain(row).items()]
    print(" | ".join(told), flush=True)
    return row


def keep(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    title: str,
    measures: Sequence[str],
    words: Sequence[str] | None = None,
    seeds: Sequence[int] = (0,),
    ratio: str | None = None,
    note: str = "",
    folder: Path | None = None,
    seconds: float | None = None,
    alone: bool = False,
) -> Path | None:
    """Write a result.

    Parameters
    ----------
    name : str
        ``benchmark`` or ``benchmark.part``; the file is ``results/<name>.json``.
    rows : sequence of mappings
        The figures: text columns say what a row is about, numbers are what was measured. NaN and None are gaps.
    title : str
        What the table shows, in one line.
    measures : sequence of str
        Files and folders of the repository whose change makes the result old, such as ``structopt/train``.
    words : sequence of str, optional
        The arguments that repeat this table alone; those of this process by default.
    seeds : sequence of int
    ratio : str, optional
        The column that is drawn as bars.
    note : str
        What a reader must know to read the figures: the protocol where it differs, why a figure falls short.
    folder : Path, optional
        Another folder than ``benchmarks/results``.
    seconds : float, optional
        CPU seconds, where several processes made the rows; those of this one since the last result by default.
    alone : bool
        Whether the figures are by the clock or of several cores, so that nothing may run beside the benchmark.

    Returns
    -------
    Path or None
        The file; None if a result of another command is kept there, which a quick or partial run does not replace, or
        if nothing can be written.
    """
    global _kept_at
    now = _cpu_seconds()
    seconds, _kept_at = now - _kept_at if seconds is None else seconds, now
    benchmark = name.partition(".")[0]
    command = " ".join(["structopt", "bench", benchmark, *(sys.argv[1:] if words is None else words)])
    path = (folder or FOLDER) / f"{name}.json"
    if path.exists() and (before := json.loads(path.read_text(encoding="utf-8"))["command"]) != command:
        print(f"not kept: results/{path.name} is of the command '{before}'; delete it to keep this run instead")
        return None
    if not rows:
        print(f"not kept: {name} has no rows")
        return None
    result = {
        "name": name,
        "title": title,
        "command": command,
        "commit": _commit(measures),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": _machine(),
        "versions": _versions(),
        "seeds": list(seeds),
        "cpu_seconds": round(seconds, 1),
        "alone": alone,
        "measures": list(measures),
        "fingerprint": fingerprint(measures),
        "ratio": ratio,
        "note": note,
    }
    if ratio is not None and ratio not in rows[0]:
        raise KeyError(f"{name}: there is no column {ratio!r} to draw; the rows have {', '.join(rows[0])}.")
    head = json.dumps(result, indent=1, ensure_ascii=False)[:-2]
    body = ",\n".join("  " + json.dumps(_plain(row), ensure_ascii=False) for row in rows)  # a row a line, for diffs
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(f'{head},\n "rows": [\n{body}\n ]\n}}\n', encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        print(f"not kept: {error}")
        return None
    print(f"kept: results/{path.name}")
    return path


def load(name: str, folder: Path | None = None) -> dict[str, Any]:
    """A kept result, with its ``rows``."""
    path = (folder or FOLDER) / f"{name}.json"
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path.name} is not JSON: {error}.") from error
    missing = [key for key in _REQUIRED if key not in result] if isinstance(result, dict) else list(_REQUIRED)
    if missing:
        raise ValueError(f"{path.name} has no {', '.join(missing)}; run its benchmark again.")
    if result["name"] != name:
        raise ValueError(f"{path.name} is the result {result['name']!r}; a file has the name of its result.")
    return dict(result)


def load_all(folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """All kept results by name."""
    return {path.stem: load(path.stem, folder) for path in sorted((folder or FOLDER).glob("*.json"))}


def changed_since(result: Mapping[str, Any], root: Path = ROOT) -> bool:
    """Whether the measured code is another than when the result was kept."""
    try:
        return bool(fingerprint(result["measures"], root) != result["fingerprint"])
    except FileNotFoundError:  # moved or deleted since
        return True


def fingerprint(paths: Sequence[str], root: Path = ROOT) -> str:
    """A hash of the code below some paths of the repository; comments and docstrings do not count."""
    found = hashlib.sha256()
    for name in sorted(paths):
        top = root / name
        files = [top] if top.is_file() else sorted(top.rglob("*.py"))
        if not files:
            raise FileNotFoundError(f"There is no code at {name!r} in the repository, which a result says it measures.")
        for file in files:
            found.update(file.relative_to(root).as_posix().encode() + b"\0" + _code(file).encode() + b"\0")
    return found.hexdigest()[:16]


@cache
def _code(file: Path) -> str:
    """The lines of a file without comments, docstrings and empty lines.

    The text itself and not its syntax tree, whose form is another in every version of Python.
    """
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            lines[line - 1] = lines[line - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            said = node.body[0]
            for k in range(said.lineno - 1, said.end_lineno or said.lineno):
                lines[k] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row in the types of JSON, numbers to five digits."""

    def value(one: Any) -> Any:
        one = one.tolist() if hasattr(one, "tolist") else one  # numbers of NumPy
        if isinstance(one, float):
            return float(f"{one:.5g}") if math.isfinite(one) else None
        return one if one is None or isinstance(one, bool | int | str) else str(one)

    return {str(key): value(one) for key, one in row.items()}


def _machine() -> str:
    """The kind of machine: system, processor, cores; not its name."""
    model = platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        model = next(line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{platform.system()} {platform.machine()}, {model}, {os.cpu_count()} cores"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for module, distribution in _LIBRARIES.items():
        if module in sys.modules:
            loaded = getattr(sys.modules[module], "__version__", None)
            try:
                found[distribution] = str(loaded or metadata.version(distribution))
            except metadata.PackageNotFoundError:
                continue
    return found


def _commit(paths: Sequence[str]) -> str | None:
    """The commit of the checkout, with ``+`` if the measured code has changes of its own; None without git."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != ROOT:
            return None  # unpacked inside another repository
        return git("rev-parse", "--short=10", "HEAD") + ("+" if git("status", "--porcelain", "--", *paths) else "")
    except (OSError, subprocess.SubprocessError):
        return None
