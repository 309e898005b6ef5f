"""Integer programs by HiGHS: overhead of its feasibility jump, of handling Ctrl-C, and of the check of its answers.

    python benchmarks/mip.py [--quick]

Each ratio is of CPU times measured in turns in one run; the values of all answers are compared. The package switches
the feasibility jump off.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from time import process_time
from typing import Any

import numpy as np
from _results import keep, shown

import structopt as so
from structopt.backends.highs import Highs
from structopt.space.compiled import CompiledSpace, FloatArray
from structopt.testing.instances import space_of

JUMP = "mip_heuristic_run_feasibility_jump"


def knapsack(n: int, rows: int, seed: int) -> CompiledSpace:
    rng = np.random.default_rng(seed)
    weights = rng.integers(5, 60, (rows, n)).astype(float)
    return space_of(weights, -np.inf, weights.sum(axis=1) // 3, 0.0, 1.0, True)


def exams(n_exams: int, n_slots: int) -> CompiledSpace:
    """Every exam in one slot, no two of a pair in conflict in the same, at most three in a slot."""
    space = so.LabelSpace("exams")
    at = space.binary("at", (n_exams, n_slots))
    space.subject_to(at.sum(axis=1) == 1, at.sum(axis=0) <= 3)
    rng = np.random.default_rng(0)
    for _ in range(n_exams):
        i, j = rng.choice(n_exams, 2, replace=False)
        space.subject_to(at[i] + at[j] <= 1)
    return space.compiled


def shipped() -> Iterator[tuple[str, CompiledSpace]]:
    """The models of models/ that have integer variables and a space of their own."""
    for name in so.available_models():
        model = so.load_model(name).model
        if not model.fixed:
            continue
        space = model.space().compiled
        if space.is_integral and space.n_variables <= 2000:
            yield f"models/{name}", space


def cpu(call: Callable[[], object]) -> float:
    begun = process_time()
    call()
    return process_time() - begun


def jump(title: str, space: CompiledSpace, repeats: int) -> Mapping[str, Any]:
    """CPU time of the MIP with HiGHS's feasibility jump over that without."""
    rng = np.random.default_rng(1)
    with_jump, without = Highs(space, {JUMP: True}), Highs(space)
    times: list[tuple[float, float]] = []
    for k in range(repeats):
        costs = rng.normal(0.5, 1.0, space.n_variables)
        found: list[float] = []

        def solve(backend: Highs, costs: FloatArray = costs, found: list[float] = found) -> None:
            backend.set_costs(costs)
            solution = backend.run()
            assert solution.z is not None
            found.append(float(costs @ solution.z))

        first = cpu(lambda: solve(with_jump)), cpu(lambda: solve(without))
        assert abs(found[0] - found[1]) <= 1e-6 * max(1.0, abs(found[0])), found
        if k:
            times.append(first)
    a, b = np.median(np.array(times), axis=0)
    return shown({"program": title, "ms with the jump": 1e3 * a, "ms without": 1e3 * b, "with / without": a / b})


def watching(space: CompiledSpace, repeats: int) -> Mapping[str, Any]:
    """CPU time of a MIP with the callback that handles Ctrl-C over that without."""
    rng = np.random.default_rng(2)
    plain, watched = Highs(space), Highs(space)
    plain._watched = False
    ratios = []
    for _ in range(repeats):
        costs = rng.normal(0.5, 1.0, space.n_variables)
        pair = []
        for backend in (plain, watched):
            backend.set_costs(costs)
            if backend is plain:
                backend._highs.disableCallbacks()
            pair.append(cpu(backend.run))
        ratios.append(pair[1] / pair[0])
    return shown({"what": "a program that Ctrl-C can end", "watched / unwatched": np.median(ratios), "calls": repeats})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    repeats = 6 if parser.parse_args().quick else 20
    problems = [
        *((f"knapsack {n}, {m} rows", knapsack(n, m, n)) for n, m in ((15, 1), (30, 1), (30, 2), (50, 2))),
        ("exams 12 x 6", exams(12, 6)),
        *shipped(),
    ]
    measures = ("structopt/backends",)
    rows = [jump(title, space, repeats) for title, space in problems]
    keep("mip.jump", rows, title="HiGHS's feasibility jump", measures=measures, ratio="with / without")
    keep("mip.watch", [watching(knapsack(30, 2, 0), 5 * repeats)], title="Handling Ctrl-C", measures=measures)


if __name__ == "__main__":
    main()
