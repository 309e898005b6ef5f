"""The laws of oracles hold in every case."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import structopt as so

# Test folders are not packages. The module is registered because pickles of lazy rows refer to it.
spec = importlib.util.spec_from_file_location("structopt_law_cases", Path(__file__).with_name("cases.py"))
assert spec is not None and spec.loader is not None
cases = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = cases
spec.loader.exec_module(cases)
CASES = cases.CASES


@pytest.mark.parametrize("name", CASES)
def test_laws_of_oracles(name):
    case = CASES[name]
    oracle = case.make()
    assert len(so.space.enumeration.enumerate_labels(oracle.space)) == case.n_labels
    report = so.testing.check_oracle(oracle, answers=case.answers, n=12)
    assert report.ok, report
    assert len(report.passed) >= (9 if oracle.space.n_variables else 6), report


def test_every_structure_has_a_case():
    names = {name for name in so.structures.__all__ if isinstance(getattr(so.structures, name), type)}
    source = Path(cases.__file__).read_text(encoding="utf-8")
    assert {name for name in names if f"S.{name}(" not in source} == {"Flow", "Ranking"}
