"""Run the fuzz jobs beside this file: random cases, each checked against enumeration, HiGHS or cvxpy.

A job is a module with one function ``case(seed) -> str``: it makes one case from the seed alone, raises if the library
is wrong, and returns a word for what it exercised. So a failure is replayed by its seed::

    python tests/fuzz/run.py                                 # every job, 10,000 cases each
    python tests/fuzz/run.py searches files --seconds 600    # two jobs, ten minutes each at the most
    python tests/fuzz/run.py searches --seed 4711 --cases 1  # one case again, with its traceback

`make fuzz` runs all of them; leave it running with ``make fuzz FUZZ="--cases 1000000 --seed 500000"``.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

# Before numpy is imported: there is a process for every core already.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

HERE = Path(__file__).resolve().parent
#: Cases that a process runs before it reports; small, so that a limit of seconds is kept.
_PIECE = 25
#: Seconds between two lines about a job that goes on.
_TELL_EVERY = 60.0


def job_names() -> list[str]:
    """The jobs beside this file."""
    return sorted(
        path.stem for path in HERE.glob("*.py") if path.stem not in ("run", "conftest") and "test_" not in path.stem
    )


def load_case(job: str) -> Callable[[int], str]:
    """The function of a job."""
    spec = importlib.util.spec_from_file_location(f"structopt_fuzz_{job}", HERE / f"{job}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    case: Callable[[int], str] = module.case
    return case


class Report(NamedTuple):
    """What a piece of work found: how often each kind, and the failures as (seed, traceback)."""

    kinds: Counter[str]
    failures: list[tuple[int, str]]


def run_cases(job: str, seeds: range) -> Report:
    """Run the cases of some seeds in this process."""
    case = load_case(job) if job not in _loaded else _loaded[job]
    _loaded[job] = case
    kinds: Counter[str] = Counter()
    failures: list[tuple[int, str]] = []
    for seed in seeds:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kinds[case(seed)] += 1
        except Exception:
            failures.append((seed, traceback.format_exc()))
    return Report(kinds, failures)


_loaded: dict[str, Callable[[int], str]] = {}


def _pieces(first: int, cases: int) -> Iterator[range]:
    for start in range(first, first + cases, _PIECE):
        yield range(start, min(start + _PIECE, first + cases))


def run_job(job: str, first: int, cases: int, seconds: float, jobs: int) -> tuple[int, int]:
    """Run one job and print its report; return the numbers of cases and of failures."""
    begun, kinds, failures = time.monotonic(), Counter[str](), list[tuple[int, str]]()
    pieces, told = _pieces(first, cases), begun
    # Spawned, because a forked process inherits threads of solvers that do not run in it.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        pending = {}
        while True:
            while len(pending) < 2 * jobs and time.monotonic() - begun < seconds and (seeds := next(pieces, None)):
                pending[pool.submit(run_cases, job, seeds)] = seeds
            if not pending:
                break
            for done in wait(pending, return_when=FIRST_COMPLETED).done:
                seeds = pending.pop(done)
                try:
                    report = done.result()
                except BrokenProcessPool:
                    print(f"{job}: the interpreter died in seeds {seeds.start}..{seeds.stop - 1} or beside them")
                    return sum(kinds.values()) + len(failures), len(failures) + 1
                kinds.update(report.kinds)
                for seed, text in report.failures:
                    print(f"\n{job}: seed {seed} failed; again: run.py {job} --seed {seed} --cases 1\n{text}")
                failures += report.failures
                if time.monotonic() - told > _TELL_EVERY:
                    told = time.monotonic()
                    n = sum(kinds.values()) + len(failures)
                    print(f"{job}: {n} cases so far, {len(failures)} failures, {told - begun:.0f} s", flush=True)
    n = sum(kinds.values()) + len(failures)
    print(f"{job}: {n} cases from seed {first}, {len(failures)} failures, {time.monotonic() - begun:.0f} s")
    for kind, count in kinds.most_common(40):
        print(f"    {count:8d}  {kind}")
    return n, len(failures)


def main(arguments: list[str] | None = None) -> int:
    """Run the jobs that the command line names; the exit code says whether any case failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", help=f"some of {', '.join(job_names())}; all by default")
    parser.add_argument("--cases", type=int, default=10_000, help="cases of each job")
    parser.add_argument("--seconds", type=float, default=3600.0, help="at most so long for each job")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the others follow it")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    wanted = parser.parse_args(arguments)
    unknown = sorted(set(wanted.jobs) - set(job_names()))
    if unknown:
        parser.error(f"there is no job {unknown[0]!r}; the jobs are {', '.join(job_names())}")
    failed = 0
    for job in wanted.jobs or job_names():
        failed += run_job(job, wanted.seed, wanted.cases, wanted.seconds, wanted.processes)[1]
    print("no failure" if not failed else f"{failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
