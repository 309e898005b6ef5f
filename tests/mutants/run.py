"""Run the tests against small faults of structopt, and report which tests find each of them.

The laws run first (`tests/laws` and the conformance suite of backends), then the other tests that a mutant names::

    python tests/mutants/run.py                            # all mutants
    python tests/mutants/run.py k_best_repeats_a_label     # some of them
    python tests/mutants/run.py --area search --laws-only  # one area, without the other tests

`make mutants` runs all of them, with the arguments in MUTANTS. The exit code is 1 if a mutant is killed by no test or a
source patch has to be renewed. Unless mutants or an area are named, it is also 1 if the laws fail without a mutant.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import multiprocessing
import os
import re
import resource
import shlex
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

for _library in ("OMP", "OPENBLAS", "MKL"):  # before numpy is imported
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import pytest  # noqa: E402

HERE = Path(__file__).resolve().parent
sys.path[:0] = [] if str(HERE) in sys.path else [str(HERE)]

from faults import edges, learning, patches, solving  # noqa: E402, F401
from faults.base import AREAS, LAWS, MUTANTS, ROOT, Patch, Seam  # noqa: E402, F401

#: CPU seconds after which tests without an end are stopped; this counts as a failure. A busy machine takes longer.
_LONG = 900
#: Seconds after which tests that wait for something are stopped.
_WAITING = 4 * _LONG
#: Bytes of memory that tests may take; some mutants list labels for ever.
_MOST_BYTES = 4 << 30
#: Libraries that every run of pytest needs, in the order in which they can be imported.
_LIBRARIES = "cvxpy hypothesis matplotlib.pyplot sklearn.utils numba pandas pyomo.environ pulp highspy"


class Verdict(NamedTuple):
    """Which kind of test kills a mutant, and the test."""

    killer: str
    test: str = ""


def run_pytest(arguments: str, mutant: str) -> str | None:
    """Run some tests with a mutant in a process of its own; return the first test that fails, or None."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "output"
        child = os.fork()
        if not child:
            with path.open("w") as output:
                os.dup2(output.fileno(), 1)
                os.dup2(output.fileno(), 2)
            os.environ["STRUCTOPT_MUTANT"] = mutant
            resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
            resource.setrlimit(resource.RLIMIT_CPU, (_LONG, _LONG))
            plain = ["-p", "plugin", "-p", "no:cacheprovider", "-x", "-q", "--no-header", "--tb=no", "-m", "not slow"]
            os._exit(int(pytest.main([*plain, "--rootdir", str(ROOT), *shlex.split(arguments)])))
        begun, done, status = time.monotonic(), 0, 0
        while not done:
            time.sleep(0.05)
            done, status = os.waitpid(child, os.WNOHANG)
            if not done and time.monotonic() - begun > _WAITING:
                os.kill(child, 9)
                os.waitpid(child, 0)
                return f"no end after {_WAITING} s: {arguments}"
        text = path.read_text(encoding="utf-8", errors="replace")
    code = os.waitstatus_to_exitcode(status)
    if code in (0, 5):  # 5: no test has a name that fits
        return None
    failed = re.findall(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", text, re.MULTILINE)
    return str(failed[0]) if failed else f"pytest ended with {code}: {text[-500:]}"


def judge(task: tuple[str, bool]) -> Verdict:
    """Return the test that kills a mutant: among its own laws, all laws, or other tests."""
    found, laws_only = MUTANTS[task[0]], task[1]
    if isinstance(found.fault, Patch) and found.fault.source() is None:
        return Verdict("renew this patch", found.fault.file)
    stages = [("laws", found.laws), ("laws", " ".join(LAWS))] + [("other tests", found.tests)] * (not laws_only)
    for killer, arguments in stages:
        test = run_pytest(arguments, found.name)
        if test is not None:  # 3 and 4: pytest itself failed, as where structopt cannot be imported at all
            return Verdict("not run" if re.match("pytest ended with [34]:", test) else killer, test)
    return Verdict("none")


def table(verdicts: dict[str, Verdict]) -> str:
    """Return the report: the totals, then a line per mutant, by area."""
    counts = Counter(verdict.killer for verdict in verdicts.values())
    lines = [f"{len(verdicts)} mutants, killed by: " + ", ".join(f"{name} {n}" for name, n in counts.items()), ""]
    width = max(map(len, verdicts), default=0)
    for name, verdict in sorted(verdicts.items(), key=lambda item: (MUTANTS[item[0]].area, item[0])):
        lines.append(f"{MUTANTS[name].area:10}  {name:{width}}  {verdict.killer:11}  {verdict.test}".rstrip())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return "\n".join([*lines, "", f"{(used.ru_utime + used.ru_stime) / 60:.0f} CPU minutes"])


def main(arguments: list[str] | None = None) -> int:
    """Judge the mutants that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="mutants; all by default")
    parser.add_argument("--area", choices=sorted(AREAS), help="only the mutants of this area")
    parser.add_argument("--laws-only", action="store_true", help="do not run other tests than the laws")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at the same time")
    parser.add_argument("--out", type=Path, help="file for the report")
    parser.add_argument("--list", action="store_true", help="print the names of the mutants")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(MUTANTS))
    if unknown:
        parser.error(f"There is no mutant {unknown[0]!r}; --list prints all names.")
    names = [name for name in options.names or MUTANTS if options.area in (None, MUTANTS[name].area)]
    if options.list:
        print("\n".join(names))
        return 0
    os.chdir(ROOT)
    for library in _LIBRARIES.split():  # once for all: each takes up to seconds
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    if not options.names and options.area is None and (failed := run_pytest(" ".join(LAWS), "")):
        print(f"{failed} fails without a mutant.")
        return 1
    verdicts: dict[str, Verdict] = {}
    # The workers of a Pool are daemons, in which tests could not start processes.
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("fork")) as pool:
        judged = pool.map(judge, [(name, options.laws_only) for name in names])
        for name, verdict in zip(names, judged, strict=True):
            verdicts[name] = verdict
            print(f"{name}: {verdict.killer} {verdict.test}", flush=True)
    report = table(verdicts)
    print("\n" + report)
    if options.out is not None:
        options.out.write_text(report + "\n", encoding="utf-8")
    return int(any(verdict.killer not in ("laws", "other tests") for verdict in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
