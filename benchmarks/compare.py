"""Speed gate: compare the CPU times of the working tree and of another commit in one run.

    python benchmarks/compare.py HEAD                    # every row
    python benchmarks/compare.py HEAD~3 --rows fit sums  # rows whose name contains one of the words
    python benchmarks/compare.py --baseline              # the commit in baseline.txt, limit 1.10

Both sides run in worker processes with the same interpreter, pinned to one core, each with its own numba cache. The
two take turns (ABBA). A pair compares the fastest of three repetitions of each side and gives one ratio, new / old. The
result of a row is the median of its ratios with a distribution-free confidence interval. A row fails if its 99 %
interval is at or above the limit. A row passes if its 95 % interval is below the limit: a slower row is called level
with a probability of at most 2.5 %, and a level row fails with at most 0.5 %, per look at its pairs. An undecided row
gets more pairs, up to 40, in new processes. A failure needs the pairs of at least two rounds, because the memory layout
of a process can shift its times by a few percent. The exit code is 1 if a row fails.
"""

from __future__ import annotations

import argparse
import getpass
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Literal

from _threads import ONE_THREAD

__all__ = ["judge", "median_interval"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PARTS = ("structopt", "models", "solvers")
SECONDS = 0.03  # CPU time of a repetition
TURNS = 3  # repetitions of each side in a pair
LONG_CALL, LONG_PAIRS = 0.3, 6  # a row whose call takes longer has this many pairs, of one repetition each
SURE_OF_FAILURE, SURE_OF_LEVEL = 0.99, 0.95  # confidences of the intervals
PAIRS, MOST_PAIRS, ROUNDS_TO_FAIL = 10, 40, 2
LONGEST = 720.0  # seconds after which no new round starts
KEPT = 6  # exported folders

Verdict = Literal["slower", "level", "faster", "undecided"]


def median_interval(ratios: Sequence[float], confidence: float = SURE_OF_LEVEL) -> tuple[float, float]:
    """Return order statistics that enclose the median with this confidence, for any distribution.

    The ends are infinite if there are too few ratios.

    Examples
    --------
    >>> median_interval([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9])
    (1.1, 1.8)
    >>> median_interval([1.0, 1.1])
    (-inf, inf)
    """
    ordered, n = sorted(ratios), len(ratios)
    tail, outside = 0, 0.0
    while True:  # the interval from the (tail + 1)-th smallest to the (tail + 1)-th largest misses with `outside`
        outside += math.comb(n, tail) * 0.5 ** (n - 1)
        if outside > 1.0 - confidence:
            break
        tail += 1
    return (ordered[tail - 1], ordered[n - tail]) if tail else (-math.inf, math.inf)


def judge(rounds: Sequence[Sequence[float]], limit: float) -> Verdict:
    """Return the verdict of a row from the ratios of its pairs, one sequence per pair of processes.

    ``"slower"``: the 99 % interval of the median is at or above the limit, after at least two rounds. ``"faster"`` and
    ``"level"``: the 95 % interval is below the limit, ``"faster"`` if it is also at or below ``1 / limit``.

    Examples
    --------
    >>> judge([[1.1] * 10, [1.1] * 10], 1.05), judge([[1.1] * 10], 1.05), judge([[1.0] * 10], 1.05)
    ('slower', 'undecided', 'level')
    """
    ratios = [ratio for one in rounds for ratio in one]
    if median_interval(ratios, SURE_OF_FAILURE)[0] >= limit:
        return "slower" if len(rounds) >= ROUNDS_TO_FAIL else "undecided"
    high = median_interval(ratios)[1]
    if high <= 1.0 / limit:
        return "faster"
    return "level" if high < limit else "undecided"


# ---- the two sides -------------------------------------------------------------------------------


def export(commit: str | None, side: str, folder: Path) -> Path:
    """Return the folder with the package of a commit, or of the working tree if `commit` is None.

    The name of the folder has a hash of the files, so a later run with the same files finds its compiled kernels. numba
    does not notice changes in kernels of other files. Changed files therefore need another folder.
    """
    if commit is None:
        listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PARTS).decode().split("\0")
        files = {name: (ROOT / name).read_bytes() for name in sorted(listed) if (ROOT / name).is_file()}
    else:
        with tarfile.open(fileobj=BytesIO(_git("archive", "--format=tar", commit, "--", *PARTS))) as archive:
            members = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
            files = {name: file.read() for name, file in sorted(members.items()) if file is not None}
    digest = hashlib.sha256(sys.version.encode())
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    target = folder / f"{side}-{digest.hexdigest()[:16]}"
    if target.is_dir():
        os.utime(target)
        return target
    partial = Path(tempfile.mkdtemp(dir=folder))
    for name, content in files.items():
        (partial / name).parent.mkdir(parents=True, exist_ok=True)
        (partial / name).write_bytes(content)
    return partial.rename(target)


def forget_old(folder: Path) -> None:
    """Delete all but the last few exported folders."""
    for old in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def _git(*words: str) -> bytes:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True)
    if done.returncode:
        sys.exit(f"git {words[0]} failed: {done.stderr.decode().strip()}")
    return done.stdout


class Worker:
    """Process that times rows with the package of one side."""

    def __init__(self, side: Path, core: int | None) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        environment |= ONE_THREAD | {
            "PYTHONPATH": str(side),
            "PYTHONHASHSEED": "0",
            "NUMBA_CACHE_DIR": str(side / "numba_cache"),
            "COMPARE_ROOT": str(side),
        }
        words = [sys.executable, str(HERE / "_rows.py")]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=side
        )
        if core is not None:
            os.sched_setaffinity(self.process.pid, {core})
        self.rows: list[str] = self.receive()["ready"]

    def send(self, request: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit("A worker process ended; its error is above.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@dataclass
class Row:
    """Measurements of one row."""

    name: str
    rounds: list[list[float]] = field(default_factory=list)
    old: list[float] = field(default_factory=list)  # seconds per call
    new: list[float] = field(default_factory=list)
    error: str = ""  # the row does not run in one of the commits
    fails: bool = False
    verdict: str = "undecided"

    def judge(self, limit: float) -> None:
        self.verdict = judge(self.rounds, limit)
        self.fails = self.verdict == "slower"

    def line(self) -> tuple[str, ...]:
        if not self.rounds:
            return (self.name, "", "", "", "", "", f"{'FAILS' if self.fails else 'skipped'}: {self.error}")
        ratios = [ratio for one in self.rounds for ratio in one]
        low, high = median_interval(ratios)
        times = (f"{1e3 * median(self.old):.4g}", f"{1e3 * median(self.new):.4g}")
        verdict = "FAILS: slower" if self.fails else self.verdict
        return (self.name, *times, f"{median(ratios):.3f}", f"{low:.3f} - {high:.3f}", str(len(ratios)), verdict)


def _both(workers: tuple[Worker, Worker], request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Send a request to both workers, which answer at the same time."""
    for worker in workers:
        worker.send(request)
    return workers[0].receive(), workers[1].receive()


def warm(sides: tuple[Path, Path], words: Sequence[str]) -> list[Row]:
    """Compile the kernels of every row on both sides, and return the rows; those with an error are not to be timed."""
    rows = []
    with Worker(sides[0], None) as old, Worker(sides[1], None) as new:
        for name in old.rows:
            if words and not any(word in name for word in words):
                continue
            before, after = _both((old, new), {"row": name, "seconds": 0.0})
            errors = [
                f"{side}: {answer['error']}" for side, answer in (("old", before), ("new", after)) if "error" in answer
            ]
            rows.append(Row(name, error="; ".join(errors), fails="error" in after))
    return rows


def run_round(sides: tuple[Path, Path], rows: Sequence[Row], core: int | None, flip: bool) -> None:
    """Add pairs to each row, in two new processes."""
    with ExitStack() as stack:
        order = (1, 0) if flip else (0, 1)
        started = {side: stack.enter_context(Worker(sides[side], core)) for side in order}
        old, new = started[0], started[1]
        for row in rows:
            found = [_ask(worker, {"row": row.name, "seconds": SECONDS}) for worker in (old, new)]
            request = {"count": max(1, min(answer["count"] for answer in found))}
            spent = [_ask(worker, request)["seconds"] for worker in (old, new)]
            pairs, turns = (LONG_PAIRS, 1) if max(spent) > LONG_CALL * request["count"] else (PAIRS, TURNS)
            times: dict[Worker, list[float]] = {old: [], new: []}
            for turn in range(pairs * turns):
                for worker in (old, new) if (turn + flip) % 2 == 0 else (new, old):
                    times[worker].append(_ask(worker, request)["seconds"] / request["count"])
            best_old, best_new = ([min(of[k : k + turns]) for k in range(0, len(of), turns)] for of in times.values())
            row.old += best_old
            row.new += best_new
            row.rounds.append([after / before for before, after in zip(best_old, best_new, strict=True)])


def _ask(worker: Worker, request: dict[str, Any]) -> dict[str, Any]:
    worker.send(request)
    return worker.receive()


def print_lines(lines: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(width) if k in (0, 6) else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip(), flush=True)


def core_to_use() -> int | None:
    """Return the last core that this process may use, or None if processes cannot be pinned."""
    return max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", help="the commit that the working tree is compared with")
    parser.add_argument("--baseline", action="store_true", help="compare with the commit in baseline.txt, limit 1.10")
    parser.add_argument("--rows", nargs="+", default=[], metavar="WORD", help="only rows whose name contains a word")
    parser.add_argument("--limit", type=float, help="ratio at which a row fails; 1.05 by default")
    arguments = parser.parse_args()
    if arguments.baseline == (arguments.commit is not None):
        parser.error("Name a commit, or use --baseline.")
    commit = (HERE / "baseline.txt").read_text(encoding="utf-8").split()[0] if arguments.baseline else arguments.commit
    limit = arguments.limit or (1.10 if arguments.baseline else 1.05)
    begun = perf_counter()
    folder = Path(tempfile.gettempdir()) / f"structopt-compare-{getpass.getuser()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    sides = (export(commit, "old", folder), export(None, "new", folder))
    forget_old(folder)
    rows = warm(sides, arguments.rows)
    if not rows:
        parser.error(f"No row contains {' or '.join(arguments.rows)}.")
    open_rows = [row for row in rows if not row.error]
    print(f"kernels compiled after {perf_counter() - begun:.0f} s; {len(open_rows)} rows", flush=True)
    for number in range(MOST_PAIRS // PAIRS):
        run_round(sides, open_rows, core_to_use(), bool(number % 2))
        for row in open_rows:
            row.judge(limit)
        measured, open_rows = len(open_rows), [row for row in open_rows if row.verdict == "undecided"]
        spent = perf_counter() - begun
        print(
            f"round {number + 1} ended after {spent:.0f} s; {len(open_rows)} of {measured} rows undecided", flush=True
        )
        if not open_rows or spent > LONGEST:
            break
    print_lines(
        [("row", "ms old", "ms new", "ratio", "95 % interval", "pairs", "verdict"), *(row.line() for row in rows)]
    )
    failed = [row.name for row in rows if row.fails]
    print(f"{len(failed)} of {len(rows)} rows fail at {limit} in {perf_counter() - begun:.0f} s", *failed, sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
