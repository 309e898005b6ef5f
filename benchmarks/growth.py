"""How set-up grows with size: CPU time at a size and at ten times that size, measured in one run.

    python benchmarks/growth.py [--quick]

Ten times the size should take about ten times the time; a loop over pairs would take a hundred times. ``bundle`` has a
table of the products of all pairs of its cuts, and is quadratic in their number. That there is no
Python loop at all is tested by counting calls (tests/conftest.py); times are measured here, without a pass or fail.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time

import numpy as np
import scipy.sparse as sp
from _results import keep, shown

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


if __name__ == "__main__":
    main()
