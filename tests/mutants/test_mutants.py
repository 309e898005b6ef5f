"""Every mutant can still be applied. `make mutants` runs the tests against them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("structopt_mutants_run", Path(__file__).with_name("run.py"))
run = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = run
spec.loader.exec_module(run)
MUTANTS = run.MUTANTS
PATCHES = {name: found.fault for name, found in MUTANTS.items() if isinstance(found.fault, run.Patch)}


def test_most_mutants_change_public_seams():
    assert len(MUTANTS) >= 60
    assert 3 * len(PATCHES) <= len(MUTANTS)


def test_patched_lines_exist_once():
    assert not [f"renew the patch {name} of {patch.file}" for name, patch in PATCHES.items() if patch.source() is None]


@pytest.mark.parametrize("area", run.AREAS)
def test_seams_of_mutants_exist(area):
    for name, found in MUTANTS.items():
        if found.area == area and name not in PATCHES:
            with pytest.MonkeyPatch.context() as monkeypatch:
                seam = run.Seam(monkeypatch)
                found.fault(seam)
                assert seam.count, f"{name} changes nothing"


def test_tests_of_mutants_exist():
    words = {word for found in MUTANTS.values() for word in f"{found.laws} {found.tests}".split() if "/" in word}
    assert not [word for word in words if not (run.ROOT / word).exists()]
