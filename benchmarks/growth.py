"""How set-up and structures grow with size: CPU time and bytes at two sizes, measured in one run.

    python benchmarks/growth.py [--quick]

Ten times the size should take about ten times the time; a loop over pairs would take a hundred times. ``bundle`` has a
table of the products of all pairs of its cuts, and is quadratic in their number. That there is no
Python loop at all is tested by counting calls (tests/conftest.py).

The second table has every structure with a polynomial algorithm. An exponent is the logarithm of the growth over the
logarithm of the growth in size. The script exits with 1 if an exponent of time is more than 0.35 above that of the
algorithm. Times are the best of several repetitions.
"""

from __future__ import annotations

import argparse
import math
import sys
import tracemalloc
from collections.abc import Callable, Mapping
from time import process_time
from typing import Any

import numpy as np
import scipy.sparse as sp
from _growth_cases import CASES, STEPS, Case, calls
from _results import keep, shown
from threadpoolctl import threadpool_limits

import structopt as so
from structopt.programs.simplex_qp import SimplexQP
from structopt.recognize import recognize


def declare(n: int) -> None:
    """A space of n variables and ten n rows."""
    child = np.random.default_rng(0).integers(1, n, 5 * n)
    space = so.LabelSpace()
    y = space.binary("y", n)
    space.subject_to(y[child] <= y[child // 2], y[child] >= y[child // 3] - 1)
    assert space.matrix.shape == (10 * n, n)


def hierarchy(n: int) -> None:
    """A tree of n nodes, and the ancestors of its leaves."""
    parent = (np.random.default_rng(0).random(n - 1) * np.arange(1, n)).astype(int).tolist()
    h = so.Hierarchy(list(zip(parent, range(1, n), strict=True)))
    assert h.closure.shape[0] == len(h.leaves)


def recognise(blocks: int) -> None:
    """A space of n independent paths."""
    path = np.array([[1.0, 1, 0, 0, 0], [-1, 0, 1, 1, 0], [0, -1, -1, 0, 1]])
    A = sp.csr_array(sp.kron(sp.eye_array(blocks), path))
    space = so.LabelSpace()
    x = space.continuous("x", A.shape[1], 0, 1)
    space.subject_to(A @ x == np.tile([1.0, 0.0, 0.0], blocks))
    assert recognize(space.compiled).kind == "path"


def bundle(cuts: int) -> None:
    """The dual of a bundle, solved after every cut to a tenth of the gap."""
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(500, 40)), np.sign(rng.normal(size=500))
    lam, w, best, low = 1e-3, np.zeros(40), np.inf, 0.0
    A, b, qp = np.zeros((cuts, 40)), np.zeros(cuts), SimplexQP(lam)
    for k in range(cuts):
        margin = 1 - y * (X @ w)
        value, A[k] = margin.clip(0).mean(), -(X.T @ (y * (margin > 0))) / 500
        best, b[k] = min(best, 0.5 * lam * w @ w + value), value - A[k] @ w
        qp.add(A[: k + 1] @ A[k], b[k])
        low = max(low, qp.solve(0.1 * (best - low)).value)
        w = -(qp.alpha @ A[: k + 1]) / lam


# An exponent of time may be larger than that of the algorithm by this much.
_SLACK = 0.35
_REPETITIONS = 5
# CPU seconds of a repetition. Faster calls are repeated.
_LEAST_SECONDS = 0.02


def best_seconds(call: Callable[[], Any]) -> float:
    """Return the least CPU seconds of a call over several repetitions."""
    call()
    best = math.inf
    for _ in range(_REPETITIONS):
        start, count, spent = process_time(), 0, 0.0
        while spent < _LEAST_SECONDS:
            call()
            count, spent = count + 1, process_time() - start
        best = min(best, spent / count)
    return best


def peak_bytes(call: Callable[[], Any]) -> int:
    """Return the largest number of bytes allocated at one time."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def structure_rows(case: Case) -> list[Mapping[str, Any]]:
    """Return a row for each step of a structure."""
    rows = []
    small, large = calls(case, case.small), calls(case, case.large)
    times = math.log(case.large / case.small)
    for step in STEPS:
        first, second = best_seconds(small[step]), best_seconds(large[step])
        space = math.log(peak_bytes(large[step]) / peak_bytes(small[step])) / times
        own = case.memory if step == "encode" else max(case.search, case.memory)
        found = math.log(second / first) / times
        row = {"structure": case.name, "step": step, "size": case.small, "CPU s": first}
        row |= {"larger size": case.large, "CPU s there": second, "exponent": found, "of the algorithm": own}
        rows.append(shown(row | {"exponent of bytes": space}))
    return rows


def seconds(work: Callable[[int], None], size: int) -> float:
    start = process_time()
    work(size)
    return process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    small = 0.1 if parser.parse_args().quick else 1.0
    rows = []
    tasks = ((declare, 10_000), (hierarchy, 20_000), (recognise, 1_000), (bundle, 30))
    for work, full in tasks:
        size = max(10, int(small * full))
        work(size)  # kernels are compiled or loaded
        one, ten = seconds(work, size), seconds(work, 10 * size)
        row = {"work": work.__name__, "size": size, "CPU s": one, "at ten times the size": ten}
        rows.append(shown(row | {"growth": ten / max(one, 1e-9)}))
    measures = ("structopt/space", "structopt/hierarchy", "structopt/recognize", "structopt/programs")
    keep("growth", rows, title="Set-up at ten times the size", measures=measures, ratio="growth")
    with threadpool_limits(1):  # idle BLAS threads add CPU time
        rows = [row for case in CASES for row in structure_rows(case)]
    code = ("structopt/structures", "structopt/algorithms", "structopt/train")
    keep("growth.structures", rows, title="Structures at four times the size", measures=code)
    wrong = [row for row in rows if row["exponent"] > row["of the algorithm"] + _SLACK]
    if wrong:
        sys.exit("\n".join(f"{row['structure']}, {row['step']}: exponent {row['exponent']:.2f}" for row in wrong))


if __name__ == "__main__":
    main()
