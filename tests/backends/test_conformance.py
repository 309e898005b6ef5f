"""Every registered backend, through every profile that pip alone provides, passes the conformance suite."""

from __future__ import annotations

import numpy as np
import pytest

from structopt.backends import BACKENDS, Solution, Status, available_profiles, load_profile
from structopt.backends.highs import Highs
from structopt.testing import BACKEND_CHECKS, check_backend

TESTED = ["highs", "highs-exact", "highs-ipm", "scipy", "cbc", "glpk", "pyomo-highs", "pyomo-cbc", "pyomo-glpk", "scip"]
NOT_TESTED = {"gurobi": "the licence of its wheel ends at 2,000 rows, which one check exceeds"}
#: Writing 100,000 rows takes PuLP and Pyomo ten seconds and more: with the slow tests.
FAST_AT_MANY_ROWS = ("highs", "scipy")


def _available(name: str) -> str:
    missing = load_profile(name).unavailable()
    if missing is not None:
        pytest.skip(missing)
    return name


def test_no_backend_is_forgotten() -> None:
    assert {load_profile(name).backend for name in TESTED} == set(BACKENDS)


def test_no_profile_is_forgotten() -> None:
    assert set(TESTED) | set(NOT_TESTED) == set(available_profiles())


@pytest.mark.parametrize("name", TESTED)
def test_conformance(name: str) -> None:
    skip = [] if name in FAST_AT_MANY_ROWS else ["many_rows"]
    report = check_backend(_available(name), skip=skip)
    assert report.ok, report
    assert len(report.passed) >= 15, report


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TESTED if name not in FAST_AT_MANY_ROWS])
def test_many_rows(name: str) -> None:
    report = check_backend(_available(name), skip=set(BACKEND_CHECKS) - {"many_rows"})
    assert report.ok, report


class Forgetful(Highs):
    """Keeps extra rows that were removed."""

    def remove_rows(self) -> None:
        pass


class Relaxed(Highs):
    """Solves the LP in place of the MIP."""

    def _build(self) -> None:
        self.space = self.space.relaxed()
        super()._build()


class Gullible(Highs):
    """Takes any costs."""

    def set_costs(self, c: np.ndarray) -> None:
        super().set_costs(np.nan_to_num(np.resize(c, self.space.n_variables)))


class Boastful(Highs):
    """Promises a bound below the optimum."""

    def run(self, start: np.ndarray | None = None) -> Solution:
        found = super().run(start)
        return Solution(found.status, found.z, found.bound - 0.01, found.iterations, found.message)


class Stale(Highs):
    """Answers the first costs for ever."""

    def run(self, start: np.ndarray | None = None) -> Solution:
        if not hasattr(self, "_first"):
            self._first = super().run(start)
        return self._first


class Hopeful(Highs):
    """Calls everything that has no point unbounded."""

    def run(self, start: np.ndarray | None = None) -> Solution:
        found = super().run(start)
        return found if found.z is not None else Solution(Status.UNBOUNDED, None)


@pytest.mark.parametrize(
    ("wrong", "broken"),
    [
        (Forgetful, "extra_rows"),
        (Relaxed, "optimal_mip"),
        (Gullible, "bad_costs"),
        (Boastful, "optimal_lp"),
        (Stale, "resolve"),
        (Hopeful, "infeasible"),
    ],
)
def test_the_suite_finds_what_is_wrong(wrong: type[Highs], broken: str) -> None:
    report = check_backend(wrong, skip=set(BACKEND_CHECKS) - {broken})
    assert [outcome.check for outcome in report.failed] == [broken]
    assert broken in repr(report)
    assert "failed" in report._repr_html_()


def test_a_check_without_its_capability_is_skipped_and_said() -> None:
    report = check_backend("scipy", skip=set(BACKEND_CHECKS) - {"mip_start"})
    (outcome,) = [outcome for outcome in report.skipped if outcome.check == "mip_start"]
    assert "MIP_START" in outcome.reason


def test_an_unknown_check_is_an_error() -> None:
    with pytest.raises(ValueError, match="no check 'nonsense'"):
        check_backend("highs", skip=["nonsense"])
