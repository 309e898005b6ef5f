"""The tests themselves: the same in every run, on a busy machine as on an idle one."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent
FILES = sorted(path for path in HERE.rglob("*.py") if path.parent.name not in ("fuzz", "mutants"))

# Seconds belong to the benchmarks: a test that reads a clock fails on a busy machine.
CLOCKS = {"perf_counter", "process_time", "monotonic", "thread_time", "perf_counter_ns", "timeit"}
# That something ends at all can only be told by a clock: these wait for many times what it takes.
HANGS = {
    "backends/test_interrupts.py",
    "backends/test_supervision.py",
    "distributed/test_faults.py",
    "distributed/test_soak.py",
}
# numpy's old functions share one state between all tests of a process.
SHARED = {"rand", "randn", "randint", "random", "normal", "choice", "shuffle", "permutation", "uniform", "seed"}


@pytest.mark.skipif("STRUCTOPT_EXAMPLES" in os.environ, reason="another profile was asked for")
def test_hypothesis_runs_the_same_examples_every_time() -> None:
    assert settings.default is not None
    assert settings.default.derandomize and settings.default.deadline is None and settings.default.database is None


def complaints(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            if "random" in names:
                yield f"line {node.lineno}: the module `random`; use numpy's default_rng(seed)"
            if isinstance(node, ast.ImportFrom) and node.module == "time" and CLOCKS & set(names):
                yield f"line {node.lineno}: a clock; count operations, or write a benchmark"
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = ast.unparse(node.func.value)
        if node.func.attr in CLOCKS or (owner == "time" and node.func.attr == "time"):
            yield f"line {node.lineno}: a clock; count operations, or write a benchmark"
        if node.func.attr == "default_rng" and not node.args and not node.keywords:
            yield f"line {node.lineno}: a generator without a seed"
        if owner in ("np.random", "numpy.random") and node.func.attr in SHARED:
            yield f"line {node.lineno}: numpy's shared random state; use default_rng(seed)"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_no_test_depends_on_the_clock_or_on_chance(path: Path) -> None:
    found = list(complaints(ast.parse(path.read_text(encoding="utf-8"))))
    if path.relative_to(HERE).as_posix() in HANGS:
        found = [complaint for complaint in found if "a clock" not in complaint]
    assert not found


def test_unsteady_tests_are_reported() -> None:
    bad = """
import random
from time import perf_counter
import time
start = time.perf_counter()
rng = np.random.default_rng()
x = np.random.rand(3)
"""
    assert len(list(complaints(ast.parse(bad)))) == 5
