"""Overhead of the oracle beyond the solver: ratios measured in one run.

    python benchmarks/oracle.py [--quick]

1. `Oracle.maximize` against a bare highspy loop (changeColsCost, run, getSolution) on the pairwise relaxation;
2. two threads against one on the 30-label relaxation;
3. declaring a hierarchy of 200,000 nodes and 400,000 rows against Pyomo and PuLP, and its memory;
4. resident memory over ten thousand calls.

``--quick`` has a tenth of the nodes, rows and calls.

CPU time of the process, but for the threads.
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc
from collections.abc import Callable, Mapping
from time import perf_counter, process_time
from typing import Any

import highspy
import numpy as np
import psutil
from _results import keep, shown

import structopt as so

MEASURES = ("structopt/oracle", "structopt/backends")
Row = Mapping[str, Any]


def pairwise(n: int) -> so.LabelSpace:
    space = so.LabelSpace(f"pairwise relaxation, {n} labels")
    y = space.continuous("y", n, 0, 1)
    i, j = np.triu_indices(n, k=1)
    p = space.continuous("pair", len(i), 0, 1)
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    return space


def bare_loop(space: so.LabelSpace) -> Callable[[np.ndarray], float]:
    """The least that a user of highspy can write."""
    compiled = space.compiled
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = compiled.n_variables, compiled.n_rows
    lp.col_cost_ = np.zeros(compiled.n_variables)
    lp.col_lower_, lp.col_upper_ = compiled.lower, compiled.upper
    lp.row_lower_, lp.row_upper_ = compiled.row_lower, compiled.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = compiled.matrix.indptr, compiled.matrix.indices
    lp.a_matrix_.value_ = compiled.matrix.data
    lp.sense_ = highspy.ObjSense.kMaximize
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.passModel(lp)
    columns = np.arange(compiled.n_variables, dtype=np.int32)

    def solve(c: np.ndarray) -> float:
        highs.changeColsCost(len(columns), columns, c)
        highs.run()
        z = np.array(highs.getSolution().col_value)
        return float(c @ z)

    return solve


def overhead(n: int, n_calls: int) -> Row:
    space = pairwise(n)
    rng = np.random.default_rng(0)
    costs = rng.normal(size=space.n_variables) + 0.3 * rng.normal(size=(n_calls, space.n_variables))
    bare, oracle = bare_loop(space), so.Oracle(space, "highs")
    ratios, times = [], []
    for _ in range(3):  # the two take turns, so that noise hits both
        seconds = [0.0, 0.0]
        for k, c in enumerate(costs):
            for which in (0, 1) if k % 2 else (1, 0):
                begun = process_time()
                value = bare(c) if which == 0 else oracle.maximize(c).value
                seconds[which] += process_time() - begun
                if which == 0:
                    reference = value
            assert abs(value - reference) < 1e-6 or which == 0
        ratios.append(seconds[1] / seconds[0])
        times.append(1000 * seconds[0] / n_calls)
    row = {"space": f"pairwise relaxation, {n} labels, unrelated costs", "bare highspy, ms": np.median(times)}
    return shown(row | {"maximize / bare highspy": np.median(ratios), "limit": 1.15})


def threads(n_calls: int) -> Row:
    space = pairwise(30)
    rng = np.random.default_rng(1)
    C = rng.normal(size=space.n_variables) + 0.3 * rng.normal(size=(n_calls, space.n_variables))
    oracle = so.Oracle(space, "highs")
    oracle.maximize_batch(C[:64], n_jobs=2)
    speedups = []
    for _ in range(3):
        begun = perf_counter()
        one = oracle.maximize_batch(C)
        middle = perf_counter()
        two = oracle.maximize_batch(C, n_jobs=2)
        speedups.append((middle - begun) / (perf_counter() - middle))
        assert all(np.array_equal(a.z, b.z) for a, b in zip(one, two, strict=True))
    return shown({"space": "pairwise relaxation, 30 labels", "2 threads / 1 thread, speed": np.median(speedups)})


def hierarchy_arrays(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    child = np.concatenate([np.arange(1, n), rng.integers(1, n, m - n + 1)])
    return child, (child * rng.random(m)).astype(int)


def declare_native(child: np.ndarray, parent: np.ndarray, n: int) -> so.LabelSpace:
    space = so.LabelSpace("hierarchy")
    y = space.binary("y", n)
    space.subject_to(y[child] <= y[parent])
    space.compiled  # noqa: B018  (compiled on demand)
    return space


def declare_pyomo(child: np.ndarray, parent: np.ndarray, n: int) -> None:
    import pyomo.environ as pyo

    model = pyo.ConcreteModel()
    model.y = pyo.Var(range(n), domain=pyo.Binary)
    model.c = pyo.Constraint(range(len(child)), rule=lambda m, k: m.y[child[k]] <= m.y[parent[k]])


def declare_pulp(child: np.ndarray, parent: np.ndarray, n: int) -> None:
    import pulp

    problem = pulp.LpProblem("hierarchy", pulp.LpMaximize)
    y = [pulp.LpVariable(f"y_{k}", cat="Binary") for k in range(n)]
    for c, p in zip(child.tolist(), parent.tolist(), strict=True):
        problem += y[c] <= y[p]


def declaring(n: int, m: int) -> list[Row]:
    child, parent = hierarchy_arrays(n, m)
    seconds = {}
    for name, declare in (("structopt", declare_native), ("pyomo", declare_pyomo), ("pulp", declare_pulp)):
        gc.collect()
        begun = process_time()
        declare(child, parent, n)
        seconds[name] = process_time() - begun
    tracemalloc.start()
    space = declare_native(child, parent, n)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    A = space.matrix
    size = A.data.nbytes + A.indices.nbytes + A.indptr.nbytes
    rows = [
        {"declared in": name, "nodes": n, "rows": m, "CPU s": took, "times as long": took / seconds["structopt"]}
        for name, took in seconds.items()
    ]
    rows[0]["peak memory / CSR matrix"] = peak / size
    return [shown(row) for row in rows]


def leaks(n_calls: int) -> Row:
    space = pairwise(14)
    oracle = so.Oracle(space, "highs")
    rng = np.random.default_rng(3)
    process = psutil.Process()
    early = 0
    for k in range(n_calls):
        oracle.maximize(rng.normal(size=space.n_variables))
        if k + 1 == n_calls // 10:
            gc.collect()
            early = process.memory_info().rss
    gc.collect()
    late = process.memory_info().rss
    row = {"calls": n_calls, "MiB": late / 2**20, "memory at the end / after a tenth of the calls": late / early}
    return shown(row | {"limit": 1.05})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a first look")
    quick = parser.parse_args().quick
    scale = 10 if quick else 1
    rows = [overhead(14, 2000 // scale), overhead(30, 400 // scale)]
    title, ratio = "A call beside a bare loop over highspy", "maximize / bare highspy"
    keep("oracle.overhead", rows, title=title, measures=MEASURES, ratio=ratio)
    keep("oracle.threads", [threads(640 // scale)], title="Two threads on two cores", measures=MEASURES, alone=True)
    rows = declaring(200_000 // scale, 400_000 // scale)
    title = "Declaring a hierarchy beside Pyomo and PuLP"
    keep("oracle.declaring", rows, title=title, measures=["structopt/space"], ratio="times as long")
    keep("oracle.memory", [leaks(10_000 // scale)], title="Memory of many calls", measures=MEASURES)


if __name__ == "__main__":
    main()
