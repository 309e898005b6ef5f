"""Statistics of the speed gate."""

from __future__ import annotations

import importlib.util
import math
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import structopt as so

FILE = Path(__file__).parents[1] / "benchmarks" / "compare.py"

pytestmark = pytest.mark.skipif(not FILE.exists(), reason="benchmarks are in a checkout only")


@pytest.fixture(scope="module")
def gate():
    sys.path.append(str(FILE.parent))
    spec = importlib.util.spec_from_file_location("test_compare_gate", FILE)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(center, n=10, rounds=1, spread=0.02, seed=0):
    rng = np.random.default_rng(seed)
    return [list(center * np.exp(spread * rng.standard_normal(n))) for _ in range(rounds)]


@pytest.mark.parametrize("confidence", [0.95, 0.99])
@pytest.mark.parametrize("n", [8, 10, 20, 40])
def test_interval_misses_the_median_with_the_stated_probability(gate, n, confidence):
    low, high = gate.median_interval(list(range(n)), confidence)
    # With k ratios below the median, the interval encloses it if low + 1 <= k <= high.
    missed = sum(math.comb(n, k) for k in range(n + 1) if not low + 1 <= k <= high) / 2**n
    wider = sum(math.comb(n, k) for k in range(n + 1) if not low + 2 <= k <= high - 1) / 2**n
    assert missed <= 1.0 - confidence < wider


def test_interval_is_infinite_for_few_ratios(gate):
    for confidence, most in ((0.95, 6), (0.99, 8)):
        for n in range(most):
            assert gate.median_interval([1.0] * n, confidence) == (-math.inf, math.inf)


def test_failure_needs_a_wider_interval_than_level(gate):
    ratios = sorted(drawn(1.0)[0])
    edge = ratios[-1] - 1e-9  # all ratios but the largest are below this limit, the smallest is above the other
    assert gate.judge([ratios], edge) == "level"
    assert gate.judge([ratios[:5], ratios[5:]], ratios[1]) == "undecided"


def test_interval_does_not_depend_on_the_order(gate):
    ratios = drawn(1.0)[0]
    assert gate.median_interval(ratios) == gate.median_interval(ratios[::-1])


@pytest.mark.parametrize(
    ("center", "options", "verdict"),
    [
        (1.0, {"rounds": 2}, "level"),
        (1.10, {"rounds": 1}, "undecided"),
        (1.10, {"rounds": 2}, "slower"),
        (0.8, {}, "faster"),
    ],
)
def test_verdict_on_a_ratio_with_a_spread(gate, center, options, verdict):
    for seed in range(50):
        assert gate.judge(drawn(center, seed=seed, **options), 1.05) == verdict


def test_wide_spread_is_undecided(gate):
    assert gate.judge(drawn(1.06, spread=0.3, rounds=4), 1.05) == "undecided"


def test_one_shifted_process_pair_is_not_slower(gate):
    shifted, *level = drawn(1.08) + drawn(1.0, rounds=3, seed=1)
    for n in range(1, 4):
        for others in combinations(level, n):
            assert gate.judge([shifted, *others], 1.05) != "slower"


def test_single_outliers_do_not_decide(gate):
    ratios = drawn(1.0, n=20)[0]
    ratios[3] = ratios[11] = 4.0
    assert gate.judge([ratios], 1.05) == "level"


def test_ratio_at_the_limit_fails(gate):
    assert gate.judge([[1.05] * 10] * 2, 1.05) == "slower"
    assert gate.judge([[1.05] * 10] * 2, 1.10) == "level"


def test_every_structure_with_inference_of_its_own_has_a_row(gate):
    rows = importlib.import_module("_rows")
    found = {type(make()) for make, _, _ in rows._SHIPPED.values()}
    classes = [getattr(so.structures, name) for name in so.structures.__all__]
    assert found >= {one for one in classes if "_part_solver" in vars(one)}
