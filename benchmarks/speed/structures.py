"""Fast oracles against the warm HiGHS LP of the same space: ratios measured in one run, by regime.

The regime decides (docs/mathematics/oracles), so every line names it:

- jump: unrelated objectives, ``c = base + 0.3 noise``, or fresh random ones where HiGHS gains nothing from its basis;
- drift: ``c <- c + 0.03 noise``, as in a training pass: HiGHS keeps its basis, structopt the example's flow (``key=``);
- lambda: ``c = base + lambda g`` for lambda in 0, 1/4, 1/2, 1, 2: only the weight g of the loss moves.

HiGHS is a bare highspy loop (one loaded model, only objective coefficients change; the MIP for the exact pairwise
line). structopt is its public `Oracle`, whose overhead counts. Both solve the same objectives in the same order, must
agree in value, and are measured in CPU time of the process, which other programs on the machine disturb least. A ratio
is total time by total time, the median over the seeds with their range where there are several; ``target`` is what was
wanted of it when it was written. ``--quick`` has fewer calls, and a tenth of the rows to recognise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from _bench import Rows, bare_highs, main, part, timed

import structopt as so
from structopt.recognize import recognize

LAMBDAS = (0.0, 0.25, 0.5, 1.0, 2.0)


@dataclass
class Case:
    """A space, its combinatorial algorithm, and how its objectives are drawn."""

    name: str
    space: so.LabelSpace
    oracle: so.Oracle
    scale: np.ndarray
    counted: np.ndarray
    targets: Mapping[str, float]
    n_calls: int
    fresh: bool = False
    mip: bool = False

    def costs(self, regime: str, rng: np.random.Generator) -> np.ndarray:
        """Return a sequence of objectives."""
        scale, n = self.scale, self.n_calls
        base = scale * rng.normal(size=scale.size)
        if regime == "jump":
            noise = scale * rng.normal(size=(n, scale.size))
            return noise if self.fresh else base + 0.3 * noise
        if regime == "drift":
            return base + 0.03 * np.cumsum(scale * rng.normal(size=(n, scale.size)), axis=0)
        truth = self.oracle.maximize(scale * rng.normal(size=scale.size)).z
        loss = np.where(self.counted, 1 - 2 * truth, 0.0)
        return base + np.outer(np.resize(LAMBDAS, n), loss)


def pairwise(n: int, targets: tuple[float, float], n_calls: int, strength: float = 0.0) -> Case:
    """Return the full graph; couplings of standard deviation 2/n against unit fields are the hardest for flow.

    With `strength` it is the integral problem with couplings of that standard deviation. Strong ones leave the LP all
    at 1/2 and the MIP branches; with weak ones it is done at its root.
    """
    model = so.structures.PairwiseMRF(n, integral="auto" if strength else "relax")
    space = model.space()
    first = np.arange(space.n_variables) < n
    name = f"pairwise {n}, MIP, sd {strength:.2g}" if strength else f"pairwise {n}, relaxation"
    limits = {"jump": targets[0], "lambda": targets[0], "drift": targets[1]}
    scale = np.where(first, 1.0, strength or 2.0 / n)
    return Case(name, space, model.oracle(), scale, first, limits, n_calls, mip=strength > 0)


def plain(
    name: str, model: so.Model, x: object, targets: Mapping[str, float], n_calls: int, fresh: bool = True
) -> Case:
    """Return a case with costs of unit scale; the loss counts the variables of the first block."""
    space = model.space(x)
    counted = np.zeros(space.n_variables, dtype=bool)
    counted[space[space.block_names[0]].slice] = True
    return Case(name, space, model.oracle(x), np.ones(space.n_variables), counted, targets, n_calls, fresh)


def more_arcs(arcs: set[tuple[int, int]], n: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Add random arcs between 500 nodes until there are n."""
    while len(arcs) < n:
        first, second = np.sort(rng.choice(500, 2, replace=False)).tolist()
        arcs.add((first, second))
    return sorted(arcs)


def closure(rng: np.random.Generator, n_calls: int) -> Case:
    arcs = more_arcs({(int(rng.integers(0, child)), child) for child in range(1, 500)}, 800, rng)
    model = so.structures.HierarchicalLabels(so.Hierarchy(arcs), kind="closure")
    return plain("closure 500 / 800", model, None, dict.fromkeys(("jump", "lambda", "drift"), 7), n_calls, False)


def tree(rng: np.random.Generator, n_calls: int) -> Case:
    edges = [(int(rng.integers(0, child)), child) for child in range(1, 5000)]
    model = so.structures.HierarchicalLabels(so.Hierarchy(edges), kind="leaves")
    targets = {"jump": 100, "lambda": 100, "drift": 80}
    return plain("tree multi-label 5,000", model, None, targets, n_calls, False)


def path(rng: np.random.Generator, n_calls: int) -> Case:
    arcs = more_arcs({(node, node + 1) for node in range(499)}, 4000, rng)
    model = so.structures.Flow(arcs, {0: 1, 499: -1})
    return plain("DAG path 500 / 4,000", model, None, {"jump": 300, "drift": 50}, n_calls)


def cases(seed: int, few: int) -> dict[str, Callable[[], Case]]:
    rng, st = np.random.default_rng(1000 + seed), so.structures
    twenty = dict.fromkeys(("jump", "lambda", "drift"), 20)
    longer = {"jump": 300, "drift": 50}
    return {
        "pairwise 14": lambda: pairwise(14, (10, 12), 60),
        "pairwise 50": lambda: pairwise(50, (20, 15), 20),
        "pairwise 100": lambda: pairwise(100, (35, 18), 2 + few),
        "pairwise 159": lambda: pairwise(159, (60, 20), 2 + few // 2),
        "exact pairwise 14": lambda: pairwise(14, (500, 500), few, strength=1.0),
        "exact weak pairwise 14": lambda: pairwise(14, (500, 500), 4 * few, strength=2 / 14),
        "closure": lambda: closure(rng, 5 * few),
        "tree": lambda: tree(rng, 2 * few),
        "chain": lambda: plain("chain 20 x 26", st.Chain(26), np.zeros((20, 1)), {"jump": 300, "drift": 100}, 2 * few),
        "assignment": lambda: plain("assignment 30 x 30", st.Assignment(), np.zeros((30, 30, 1)), twenty, 5 * few),
        "segments": lambda: plain("segments 60, L 10, S 8", st.Segmentation(8, 10), np.zeros((60, 1)), longer, few),
        "path": lambda: path(rng, 5 * few),
    }


# ---- the table -----------------------------------------------------------------------------------


def all_but_first(solve: Callable[[np.ndarray], float], costs: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the values of all objectives but the first, and the CPU seconds."""
    solve(costs[0])
    return timed(lambda: np.array([solve(c) for c in costs[1:]]))


def measured(case: Case, regime: str, seed: int) -> tuple[float, float]:
    """Return the seconds per call of HiGHS and of structopt."""
    costs, seconds, runs = case.costs(regime, np.random.default_rng(seed)), 0.0, 0
    while seconds < 0.02 or runs < 2:  # until it can be measured; every repetition is a new example
        key = ("example", runs) if regime != "jump" else None
        values, spent = all_but_first(lambda c: case.oracle.maximize(c, key=key).value, costs)  # noqa: B023
        seconds, runs = seconds + spent, runs + 1
    wanted, slow = all_but_first(bare_highs(case.space, case.mip), costs)
    assert np.allclose(values, wanted, rtol=1e-6, atol=1e-6), (case.name, regime, np.abs(values - wanted).max())
    return slow / (len(costs) - 1), seconds / runs / (len(costs) - 1)


def median_and_range(name: str, values: np.ndarray) -> dict[str, Any]:
    """Return the columns of a ratio that was measured once per seed."""
    spread = {"least": values.min(), "most": values.max()} if len(values) > 1 else {}
    return {name: np.median(values), **spread}


@part("Combinatorial algorithms beside warm HiGHS", ratio="times faster")
def oracles(seeds: int = 5, quick: bool = False, only: str = "") -> Rows:
    names = [name for name in cases(0, 4) if only in name]
    made = [cases(seed, 4 if quick else 8) for seed in range(seeds)]
    for name in names:
        drawn = [own[name]() for own in made]
        for regime, target in drawn[0].targets.items():
            highs, fast = np.array([measured(case, regime, seed) for seed, case in enumerate(drawn)]).T
            row = {"structure": drawn[0].name, "regime": regime}
            row |= {"HiGHS, ms": 1e3 * np.median(highs), "structopt, ms": 1e3 * np.median(fast)}
            yield row | median_and_range("times faster", highs / fast) | {"target": target}


# ---- batches of chains ---------------------------------------------------------------------------


def numpy_viterbi(U: np.ndarray, ptr: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve all chains at once: by decreasing length, so that the active ones are a prefix."""
    lengths = np.diff(ptr)
    order = np.argsort(-lengths, kind="stable")
    start, lengths = ptr[:-1][order], lengths[order]
    values = U[start]
    back = np.zeros((int(lengths[0]), len(order), U.shape[1]), dtype=np.intp)
    for t in range(1, int(lengths[0])):
        active = int(np.searchsorted(-lengths, -t))
        through = values[:active, :, None] + T
        best = back[t, :active] = through.argmax(axis=1)
        values[:active] = np.take_along_axis(through, best[:, None, :], axis=1)[:, 0] + U[start[:active] + t]
    y = np.empty(len(U), dtype=np.intp)
    state = values.argmax(axis=1)
    for t in range(int(lengths[0]) - 1, -1, -1):
        active = int(np.searchsorted(-lengths, -t))
        y[start[:active] + t] = state[:active]
        state[:active] = back[t, np.arange(active), state[:active]]
    return y, values.max(axis=1)[np.argsort(order)]


@part("A batch of chains beside NumPy")
def batch(seeds: int = 5) -> Rows:
    found, times = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(3, 15, 1000)  # words of the OCR letters have 3 to 14
        chains = so.structures.Chain(26).batch([rng.normal(size=(length, 26)) for length in lengths])
        tables = chains.tables(rng.normal(size=chains.n_weights))
        U, T = np.ascontiguousarray(tables[0]), tables[1][0].reshape(26, 26)
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        calls = partial(chains.argmax, tables), partial(numpy_viterbi, U, ptr, T)
        assert np.allclose(calls[0]()[1], calls[1]()[1])
        own, peer = np.array([[timed(call)[1] for call in calls] for _ in range(3)]).sum(axis=0)
        found.append(own / peer)
        times.append(1e3 * own / 3)
    row = {"batch": "1,000 chains of OCR length", "beside": "Viterbi batched in NumPy", "ms": np.median(times)}
    yield row | median_and_range("batch / beside", np.array(found))


# ---- recognition ---------------------------------------------------------------------------------


def large_spaces(m: int) -> Iterator[so.LabelSpace]:
    """Return one space of about m rows of every kind."""
    rng = np.random.default_rng(0)
    n = round((2 * m / 3) ** 0.5)
    i, j = np.triu_indices(n, k=1)
    for relaxed in (True, False):
        space = so.LabelSpace("pairwise relaxation" if relaxed else "pairwise labels")
        y = space.continuous("y", n, 0, 1) if relaxed else space.binary("y", n)
        p = space.continuous("p", len(i), 0, 1)
        space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
        yield space
    space = so.LabelSpace("closure")
    y = space.binary("y", m // 2)
    child = np.concatenate([np.arange(1, m // 2), rng.integers(1, m // 2, m // 2 + 1)])
    space.subject_to(y[child] <= y[(child * rng.random(len(child))).astype(int)])
    yield space
    space = so.LabelSpace("simplices")
    space.subject_to(space.binary("x", (m, 3)).sum(axis=1) == 1)
    yield space
    k = round(m**0.5)
    space = so.LabelSpace(f"assignment, {k} x {k}")
    x = space.binary("x", (k, k))
    space.subject_to(x.sum(axis=0) == 1)
    space.subject_to(x.sum(axis=1) == 1)
    yield space
    space = so.LabelSpace("path")
    tail = np.concatenate([np.arange(m - 1), rng.integers(0, m - 1, 2 * m)])
    head = np.concatenate([np.arange(1, m), np.minimum(m - 1, tail[m - 1 :] + rng.integers(1, 50, 2 * m))])
    arc, ones = np.arange(len(tail)), np.ones(len(tail))
    ends = np.concatenate([ones, -ones]), (np.concatenate([tail, head]), np.tile(arc, 2))
    network = sp.csr_array(ends, shape=(m, len(tail)))
    space.subject_to(network @ space.continuous("arc", len(tail), 0, 1) == np.concatenate([[1], np.zeros(m - 2), [-1]]))
    yield space
    space = so.LabelSpace("intervals (only unimodularity)")
    columns = (rng.integers(0, m - 6, m)[:, None] + np.arange(5)).ravel()
    intervals = sp.csr_array((np.ones(5 * m), (np.repeat(np.arange(m), 5), columns)), shape=(m, m))
    space.subject_to(intervals @ space.binary("y", m) <= 2)
    yield space


@part("Time to recognise a structure")
def recognise(quick: bool = False) -> Rows:
    for space in large_spaces(100):  # load the kernels
        _ = recognize(space.compiled).unimodular_proof
    for space in large_spaces(10_000 if quick else 100_000):
        compiled = space.compiled
        runs = [timed(lambda: recognize(compiled)) for _ in range(3)]  # noqa: B023
        structure = runs[-1][0]
        proof, proving = timed(lambda: structure.unimodular_proof)  # noqa: B023
        row = {"space": space.name, "rows": compiled.n_rows, "recognised as": structure.kind}
        row |= {"CPU s": np.median([seconds for _, seconds in runs])}
        yield row | {"unimodularity": "proved" if proof else "not proved", "CPU s of the proof": proving}


if __name__ == "__main__":
    main()
