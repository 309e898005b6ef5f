"""Lazy rows: tours whose costs drift, as they do in training, against HiGHS on the rows that were found in the end.

    python benchmarks/lazy.py [--quick]

A call should take at most three times as long as HiGHS takes for the final rows, which nobody knows beforehand, and the
rows found in a call should fall towards zero. CPU times of one run, calls of both in turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from time import process_time
from typing import Any

import numpy as np
from _results import keep, shown

import structopt as so
from structopt.backends.highs import Highs


def drifting_costs(n: int, calls: int, seed: int) -> np.ndarray:
    """Minus the distances of n places, which change a little from call to call."""
    rng = np.random.default_rng(seed)
    place = rng.random((n, 2))
    distance = np.linalg.norm(place[:, None] - place[None], axis=2)
    steps = rng.normal(size=(calls, n, n)) * 0.002
    return np.asarray(-(distance + np.cumsum(steps, axis=0)).reshape(calls, -1))


def measure(n: int, calls: int, seed: int = 0) -> Mapping[str, Any]:
    costs = drifting_costs(n, calls, seed)
    space = so.structures.Tour().space(np.zeros((n, n, 1)))
    oracle = so.Oracle(space)
    oracle.maximize(costs[0])  # compiles the kernel of the cuts
    oracle = so.Oracle(space)
    pool = oracle.lazy_rows
    assert pool is not None
    found, seconds, values = [], [], []
    for c in costs:
        before, begun = pool.found, process_time()
        values.append(oracle.maximize(c).value)
        seconds.append(process_time() - begun)
        found.append(pool.found - before)
    lp, mip, last = Highs(pool.program.relaxed()), Highs(pool.program), []
    for c, value in zip(costs, values, strict=True):
        begun = process_time()
        lp.set_costs(c)
        z = lp.run().z
        if z is None or np.abs(z - np.rint(z)).max() > 1e-6:
            mip.set_costs(c)
            z = mip.run().z
        last.append(process_time() - begun)
        assert z is not None and abs(c @ z - value) <= 1e-6 * max(1.0, abs(value)), "another optimum"
    half = calls // 2
    row = {
        "tours": f"{n} nodes, {calls} calls",
        "ms a call, second half": 1e3 * np.mean(seconds[half:]),
        "ms of HiGHS on the final rows": 1e3 * np.mean(last[half:]),
        "lazy rows / final rows": np.sum(seconds[half:]) / np.sum(last[half:]),
        "rows found, first half": sum(found[:half]),
        "second half": sum(found[half:]),
    }
    return shown(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few nodes and calls")
    quick = parser.parse_args().quick
    rows = [measure(n, 10 if quick else 60) for n in ((10, 20) if quick else (20, 50))]
    measures = ("structopt/oracle", "structopt/backends", "structopt/algorithms")
    keep("lazy", rows, title="Subtours found on the way", measures=measures, ratio="lazy rows / final rows")


if __name__ == "__main__":
    main()
