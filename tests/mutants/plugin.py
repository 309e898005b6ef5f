"""Plugin of pytest that applies the mutant named by STRUCTOPT_MUTANT; `run.py` loads it by ``-p``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from faults.base import MUTANTS, Patch, PatchFinder, Seam  # noqa: E402


def load() -> None:
    """Register all mutants; this does not import structopt's parts."""
    from faults import edges, learning, patches, solving  # noqa: F401


def _start() -> None:
    """Install a changed source before conftest.py imports structopt."""
    load()
    found = MUTANTS[name].fault if (name := os.environ.get("STRUCTOPT_MUTANT")) else None
    if isinstance(found, Patch):
        sys.meta_path.insert(0, PatchFinder(found))  # type: ignore[arg-type]


def pytest_configure(config: pytest.Config) -> None:
    """Change the seam, after conftest.py has set up the process and before tests are collected."""
    name = os.environ.get("STRUCTOPT_MUTANT")
    if name and not isinstance(fault := MUTANTS[name].fault, Patch):
        seam = Seam(pytest.MonkeyPatch())
        fault(seam)
        assert seam.count, f"{name} changes nothing"


if __name__ == "plugin":  # loaded by -p, and not by the collection of doctests
    _start()
