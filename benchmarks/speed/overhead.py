"""Overhead of the oracle beyond the solver, and the growth of set-up and structures with size.

CPU time of the process, except for the threads. Each ratio is measured in one run. ``--quick`` has a tenth of the
sizes and calls.

``jump`` and ``watch``: integer programs by HiGHS. The package switches HiGHS's feasibility jump off, and lets Ctrl-C
end a program. The calls take turns, and the values of all solutions are compared.

``growth``: ten times the size should take about ten times the time; a loop over pairs would take a hundred times.
``bundle`` has a table of the products of all pairs of its cuts, and is quadratic in their number. That there is no
Python loop at all is tested by counting calls (tests/conftest.py). ``structures`` has every structure with a polynomial
algorithm. An exponent is the logarithm of the growth over the logarithm of the growth in size. The command exits with 1
if an exponent of time is more than 0.35 above that of the algorithm. Times are the best of several repetitions.
"""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Iterator
from time import perf_counter

import numpy as np
import psutil
import scipy.sparse as sp
from _bench import Rows, bare_highs, best_seconds, cycled, in_turns, main, part, peak_bytes, timed
from _growth_cases import CASES, STEPS, calls

import structopt as so
from structopt.backends.highs import Highs
from structopt.programs.simplex_qp import SimplexQP
from structopt.recognize import recognize
from structopt.space.compiled import CompiledSpace
from structopt.testing.instances import space_of

# ---- the oracle and HiGHS ------------------------------------------------------------------------


def pairwise(n: int) -> so.LabelSpace:
    space = so.LabelSpace(f"pairwise relaxation, {n} labels")
    y = space.continuous("y", n, 0, 1)
    i, j = np.triu_indices(n, k=1)
    p = space.continuous("pair", len(i), 0, 1)
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    return space


def drawn(space: so.LabelSpace, n: int, seed: int) -> np.ndarray:
    """Return costs around one vector."""
    rng = np.random.default_rng(seed)
    return np.asarray(rng.normal(size=space.n_variables) + 0.3 * rng.normal(size=(n, space.n_variables)))


@part("A call beside a bare loop over highspy", ratio="maximize / bare highspy")
def call(quick: bool = False) -> Rows:
    for n, n_calls in ((14, 2000), (30, 400)):
        space = pairwise(n)
        costs = drawn(space, n_calls // (10 if quick else 1), 0)
        bare, oracle = bare_highs(space), so.Oracle(space, "highs")
        assert all(abs(bare(c) - oracle.maximize(c).value) < 1e-6 for c in costs[:20])
        spent = in_turns({"bare": cycled(bare, costs), "own": cycled(oracle.maximize, costs)}, 3 * len(costs))
        row = {"space": f"{space.name}, unrelated costs", "bare highspy, ms": 1e3 * np.mean(spent["bare"])}
        yield row | {"maximize / bare highspy": sum(spent["own"]) / sum(spent["bare"]), "limit": 1.15}


@part("Two threads on two cores")
def threads(quick: bool = False) -> Rows:
    space = pairwise(30)
    C, oracle, speedups = drawn(space, 64 if quick else 640, 1), so.Oracle(space, "highs"), []
    oracle.maximize_batch(C[:64], n_jobs=2)
    for _ in range(3):
        one, alone = timed(lambda: oracle.maximize_batch(C), clock=perf_counter)
        two, both = timed(lambda: oracle.maximize_batch(C, n_jobs=2), clock=perf_counter)
        speedups.append(alone / both)
        assert all(np.array_equal(a.z, b.z) for a, b in zip(one, two, strict=True))
    yield {"space": space.name, "2 threads / 1 thread, speed": np.median(speedups)}


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


@part("Declaring a hierarchy beside Pyomo and PuLP", ratio="times as long")
def declaring(quick: bool = False) -> Rows:
    n, m = (20_000, 40_000) if quick else (200_000, 400_000)
    rng = np.random.default_rng(2)
    child = np.concatenate([np.arange(1, n), rng.integers(1, n, m - n + 1)])
    parent = (child * rng.random(m)).astype(int)
    first = 0.0
    for name, declare in (("structopt", declare_native), ("pyomo", declare_pyomo), ("pulp", declare_pulp)):
        gc.collect()
        seconds = timed(lambda: declare(child, parent, n))[1]  # noqa: B023
        first = first or seconds
        row = {"declared in": name, "nodes": n, "rows": m, "CPU s": seconds, "times as long": seconds / first}
        if name == "structopt":
            A = declare_native(child, parent, n).matrix
            peak = peak_bytes(lambda: declare_native(child, parent, n))
            row["peak memory / CSR matrix"] = peak / (A.data.nbytes + A.indices.nbytes + A.indptr.nbytes)
        yield row


@part("Memory of many calls")
def memory(quick: bool = False) -> Rows:
    space, n_calls, early = pairwise(14), 1000 if quick else 10_000, 0
    oracle, rng, process = so.Oracle(space, "highs"), np.random.default_rng(3), psutil.Process()
    for k in range(n_calls):
        oracle.maximize(rng.normal(size=space.n_variables))
        if k + 1 == n_calls // 10:
            gc.collect()
            early = process.memory_info().rss
    gc.collect()
    late = process.memory_info().rss
    row = {"calls": n_calls, "MiB": late / 2**20, "memory at the end / after a tenth of the calls": late / early}
    yield row | {"limit": 1.05}


# ---- integer programs ----------------------------------------------------------------------------


def knapsack(n: int, rows: int, seed: int) -> CompiledSpace:
    weights = np.random.default_rng(seed).integers(5, 60, (rows, n)).astype(float)
    return space_of(weights, -np.inf, weights.sum(axis=1) // 3, 0.0, 1.0, True)


def programs() -> Iterator[tuple[str, CompiledSpace]]:
    """Return knapsacks, exams in slots with conflicts, and the models of models/ with a fixed integral space."""
    for n, m in ((15, 1), (30, 1), (30, 2), (50, 2)):
        yield f"knapsack {n}, {m} rows", knapsack(n, m, n)
    exams = so.LabelSpace("exams")
    at = exams.binary("at", (12, 6))
    exams.subject_to(at.sum(axis=1) == 1, at.sum(axis=0) <= 3)
    rng = np.random.default_rng(0)
    for _ in range(12):
        i, j = rng.choice(12, 2, replace=False)
        exams.subject_to(at[i] + at[j] <= 1)
    yield "exams 12 x 6", exams.compiled
    for name in so.available_models():
        model = so.load_model(name).model
        if model.fixed and model.space().compiled.is_integral and model.space().n_variables <= 2000:
            yield f"models/{name}", model.space().compiled


def solve(backend: Highs, costs: np.ndarray) -> float:
    backend.set_costs(costs)
    solution = backend.run()
    assert solution.z is not None
    return float(costs @ solution.z)


@part("HiGHS's feasibility jump", ratio="with / without")
def jump(quick: bool = False) -> Rows:
    for title, space in programs():
        costs = np.random.default_rng(1).normal(0.5, 1.0, (6 if quick else 20, space.n_variables))
        backends = Highs(space, {"mip_heuristic_run_feasibility_jump": True}), Highs(space)
        times = np.empty((len(costs), 2))
        for k, c in enumerate(costs):
            (one, times[k, 0]), (two, times[k, 1]) = (timed(lambda: solve(own, c)) for own in backends)  # noqa: B023
            assert abs(one - two) <= 1e-6 * max(1.0, abs(one)), (one, two)
        a, b = np.median(times[1:], axis=0)
        yield {"program": title, "ms with the jump": 1e3 * a, "ms without": 1e3 * b, "with / without": a / b}


@part("Handling Ctrl-C")
def watch(quick: bool = False) -> Rows:
    space, repeats = knapsack(30, 2, 0), 30 if quick else 100
    plain, watched, ratios = Highs(space), Highs(space), []
    plain._watched = False
    for costs in np.random.default_rng(2).normal(0.5, 1.0, (repeats, space.n_variables)):
        for backend in (plain, watched):
            backend.set_costs(costs)
        plain._highs.disableCallbacks()
        alone = timed(plain.run)[1]
        ratios.append(timed(watched.run)[1] / alone)
    yield {"what": "a program that Ctrl-C can end", "watched / unwatched": np.median(ratios), "calls": repeats}


# ---- growth --------------------------------------------------------------------------------------


def declare(n: int) -> None:
    """Declare a space of n variables and ten n rows."""
    child = np.random.default_rng(0).integers(1, n, 5 * n)
    space = so.LabelSpace()
    y = space.binary("y", n)
    space.subject_to(y[child] <= y[child // 2], y[child] >= y[child // 3] - 1)
    assert space.matrix.shape == (10 * n, n)


def hierarchy(n: int) -> None:
    """Make a tree of n nodes, and the ancestors of its leaves."""
    parent = (np.random.default_rng(0).random(n - 1) * np.arange(1, n)).astype(int).tolist()
    h = so.Hierarchy(list(zip(parent, range(1, n), strict=True)))
    assert h.closure.shape[0] == len(h.leaves)


def recognise(blocks: int) -> None:
    """Recognise a space of n independent paths."""
    path = np.array([[1.0, 1, 0, 0, 0], [-1, 0, 1, 1, 0], [0, -1, -1, 0, 1]])
    A = sp.csr_array(sp.kron(sp.eye_array(blocks), path))
    space = so.LabelSpace()
    x = space.continuous("x", A.shape[1], 0, 1)
    space.subject_to(A @ x == np.tile([1.0, 0.0, 0.0], blocks))
    assert recognize(space.compiled).kind == "path"


def bundle(cuts: int) -> None:
    """Solve the dual of a bundle after every cut, to a tenth of the gap."""
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


@part("Set-up at ten times the size", ratio="growth")
def growth(quick: bool = False) -> Rows:
    for work, full in ((declare, 10_000), (hierarchy, 20_000), (recognise, 1_000), (bundle, 30)):
        size = max(10, full // 10) if quick else full
        work(size)  # kernels are compiled or loaded
        one, ten = (timed(lambda: work(n))[1] for n in (size, 10 * size))  # noqa: B023
        row = {"work": work.__name__, "size": size, "CPU s": one, "at ten times the size": ten}
        yield row | {"growth": ten / max(one, 1e-9)}


@part("Structures at four times the size")
def structures() -> Rows:
    wrong = []
    for case in CASES:
        small, large = calls(case, case.small), calls(case, case.large)
        times = math.log(case.large / case.small)
        for step in STEPS:
            first, second = best_seconds(small[step]), best_seconds(large[step])
            own = case.memory if step == "encode" else max(case.search, case.memory)
            found = math.log(second / first) / times
            row = {"structure": case.name, "step": step, "size": case.small, "CPU s": first}
            row |= {"larger size": case.large, "CPU s there": second, "exponent": found, "of the algorithm": own}
            yield row | {"exponent of bytes": math.log(peak_bytes(large[step]) / peak_bytes(small[step])) / times}
            if found > own + 0.35:
                wrong.append(f"{case.name}, {step}: exponent {found:.2f}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
