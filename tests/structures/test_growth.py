"""Allocated bytes grow with the size of a structure no faster than its algorithm needs."""

from __future__ import annotations

import gc
import importlib.util
import math
import sys
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "speed" / "_growth_cases.py"
if not PATH.is_file():
    pytest.skip("benchmarks are in a checkout only", allow_module_level=True)
spec = importlib.util.spec_from_file_location("growth_cases", PATH)
assert spec is not None and spec.loader is not None
growth = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = growth  # dataclasses look their module up
spec.loader.exec_module(growth)

SLACK = 0.2


@pytest.fixture(scope="module", autouse=True)
def earlier_objects_are_not_collected():
    """A collection of all objects of a test run takes longer than a measurement."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("case", growth.CASES, ids=lambda case: case.name)
def test_bytes_grow_with_the_exponent_of_the_structure(case, peak_bytes):
    first, second = case.bytes_at
    small, large = growth.calls(case, first), growth.calls(case, second)
    for step in growth.STEPS:
        small[step]()  # kernels are compiled, and arrays that are kept are made
        large[step]()
        exponent = math.log(peak_bytes(large[step]) / peak_bytes(small[step])) / math.log(second / first)
        assert exponent <= case.memory + SLACK, step
