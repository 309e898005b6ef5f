"""Fast oracles against the warm HiGHS LP of the same space: ratios measured in one run, by regime.

    python benchmarks/structures.py [--quick] [--only chain]

The regime decides (docs/mathematics/oracles), so every line names it:

- jump: unrelated objectives, ``c = base + 0.3 noise``, or fresh random ones where HiGHS gains nothing from its basis;
- drift: ``c <- c + 0.03 noise``, as in a training pass: HiGHS keeps its basis, structopt the example's flow (``key=``);
- lambda: ``c = base + lambda g`` for lambda in 0, 1/4, 1/2, 1, 2: only the weight g of the loss moves.

HiGHS is a bare highspy loop (one loaded model, only objective coefficients change; the MIP for the exact pairwise
line). structopt is its public `Oracle`, whose overhead counts. Both solve the same objectives in the same order, must
agree in value, and are measured in CPU time of the process, which other programs on the machine disturb least. A ratio
is total time by total time, the median over the seeds with their range where there are several; ``target`` is what was
wanted of it when it was written.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from time import process_time
from typing import Any

import highspy
import numpy as np
import scipy.sparse as sp
from _results import keep, shown

import structopt as so

LAMBDAS = (0.0, 0.25, 0.5, 1.0, 2.0)


# ---- the two sides -------------------------------------------------------------------------------


def bare_loop(space: so.LabelSpace, integral: bool = False) -> Callable[[np.ndarray], float]:
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
    if integral:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(whole)] for whole in compiled.integrality]
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.passModel(lp)
    columns = np.arange(compiled.n_variables, dtype=np.int32)

    def solve(c: np.ndarray) -> float:
        highs.changeColsCost(len(columns), columns, c)
        highs.run()
        # Not c @ z: BLAS starts threads for long vectors, which on a busy machine takes longer than the rest.
        return float((c * np.array(highs.getSolution().col_value)).sum())

    return solve


def own_loop(oracle: so.Oracle, key: Hashable | None) -> Callable[[np.ndarray], float]:
    """The other side; answers for one `key` start from each other."""
    return lambda c: oracle.maximize(c, key=key).value


def cpu_of(solve: Callable[[np.ndarray], float], costs: np.ndarray) -> tuple[float, np.ndarray]:
    """CPU seconds for all objectives but the first, and the values."""
    solve(costs[0])
    begun = process_time()
    values = [solve(c) for c in costs[1:]]
    return process_time() - begun, np.array(values)


def fast_cpu(oracle: so.Oracle, costs: np.ndarray, keep: bool) -> tuple[float, np.ndarray]:
    """The same for structopt, repeated until it can be measured; every repetition is a new example."""
    seconds, runs = 0.0, 0
    while seconds < 0.02 or runs < 2:
        key = ("example", runs) if keep else None
        spent, values = cpu_of(own_loop(oracle, key), costs)
        seconds, runs = seconds + spent, runs + 1
    return seconds / runs, values


# ---- objectives ----------------------------------------------------------------------------------


def costs_of(case: Case, regime: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """A sequence of objectives."""
    scale = case.scale
    base = scale * rng.normal(size=scale.size)
    if regime == "jump":
        noise = scale * rng.normal(size=(n, scale.size))
        return noise if case.fresh else base + 0.3 * noise
    if regime == "drift":
        return base + 0.03 * np.cumsum(scale * rng.normal(size=(n, scale.size)), axis=0)
    truth = case.oracle.maximize(scale * rng.normal(size=scale.size)).z
    loss = np.where(case.counted, 1 - 2 * truth, 0.0)
    weights = np.array([LAMBDAS[k % len(LAMBDAS)] for k in range(n)])
    return base + np.outer(weights, loss)


# ---- the cases -----------------------------------------------------------------------------------


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


def pairwise(n: int, targets: tuple[float, float], n_calls: int, strength: float = 0.0) -> Case:
    """The full graph; couplings of standard deviation 2/n against unit fields are the hardest for flow.

    With `strength` it is the integral problem with couplings of that standard deviation. Strong ones leave the LP all
    at 1/2 and the MIP branches; with weak ones it is done at its root.
    """
    model = so.structures.PairwiseMRF(n, integral="auto" if strength else "relax")
    space = model.space()
    first = np.arange(space.n_variables) < n
    name = f"pairwise {n}, MIP, sd {strength:.2g}" if strength else f"pairwise {n}, relaxation"
    jump, drift = targets
    limits = {"jump": jump, "lambda": jump, "drift": drift}
    scale = np.where(first, 1.0, strength or 2.0 / n)
    return Case(name, space, model.oracle(), scale, first, limits, n_calls, mip=strength > 0)


def plain(name: str, model: so.Model, x: object, targets: Mapping[str, float], n_calls: int, fresh: bool) -> Case:
    """Costs of unit scale; the loss counts the variables of the first block."""
    space = model.space(x)
    counted = np.zeros(space.n_variables, dtype=bool)
    counted[space[space.block_names[0]].slice] = True
    return Case(name, space, model.oracle(x), np.ones(space.n_variables), counted, targets, n_calls, fresh)


def closure(rng: np.random.Generator, n_calls: int) -> Case:
    arcs = {(int(rng.integers(0, child)), child) for child in range(1, 500)}
    while len(arcs) < 800:
        parent, child = np.sort(rng.choice(500, 2, replace=False)).tolist()
        arcs.add((parent, child))
    model = so.structures.HierarchicalLabels(so.Hierarchy(sorted(arcs)), kind="closure")
    return plain("closure 500 / 800", model, None, dict.fromkeys(("jump", "lambda", "drift"), 7), n_calls, False)


def tree(rng: np.random.Generator, n_calls: int) -> Case:
    edges = [(int(rng.integers(0, child)), child) for child in range(1, 5000)]
    model = so.structures.HierarchicalLabels(so.Hierarchy(edges), kind="leaves")
    targets = {"jump": 100, "lambda": 100, "drift": 80}
    return plain("tree multi-label 5,000", model, None, targets, n_calls, False)


def chain(n_calls: int) -> Case:
    targets = {"jump": 300, "drift": 100}
    return plain("chain 20 x 26", so.structures.Chain(26), np.zeros((20, 1)), targets, n_calls, True)


def assignment(n_calls: int) -> Case:
    targets = dict.fromkeys(("jump", "lambda", "drift"), 20)
    return plain("assignment 30 x 30", so.structures.Assignment(), np.zeros((30, 30, 1)), targets, n_calls, True)


def segments(n_calls: int) -> Case:
    model, targets = so.structures.Segmentation(8, 10), {"jump": 300, "drift": 50}
    return plain("segments 60, L 10, S 8", model, np.zeros((60, 1)), targets, n_calls, True)


def path(rng: np.random.Generator, n_calls: int) -> Case:
    arcs = {(node, node + 1) for node in range(499)}
    while len(arcs) < 4000:
        tail, head = np.sort(rng.choice(500, 2, replace=False)).tolist()
        arcs.add((tail, head))
    model = so.structures.Flow(sorted(arcs), {0: 1, 499: -1})
    return plain("DAG path 500 / 4,000", model, None, {"jump": 300, "drift": 50}, n_calls, True)


def cases(seed: int, quick: bool) -> dict[str, Callable[[], Case]]:
    rng = np.random.default_rng(1000 + seed)
    few = 4 if quick else 8
    return {
        "pairwise 14": lambda: pairwise(14, (10, 12), 60),
        "pairwise 50": lambda: pairwise(50, (20, 15), 20),
        "pairwise 100": lambda: pairwise(100, (35, 18), 2 + few),
        "pairwise 159": lambda: pairwise(159, (60, 20), 2 + few // 2),
        "exact pairwise 14": lambda: pairwise(14, (500, 500), few, strength=1.0),
        "exact weak pairwise 14": lambda: pairwise(14, (500, 500), 4 * few, strength=2 / 14),
        "closure": lambda: closure(rng, 5 * few),
        "tree": lambda: tree(rng, 2 * few),
        "chain": lambda: chain(2 * few),
        "assignment": lambda: assignment(5 * few),
        "segments": lambda: segments(few),
        "path": lambda: path(rng, 5 * few),
    }


# ---- the table -----------------------------------------------------------------------------------


@dataclass
class Line:
    """What was measured for one structure in one regime: ratios and times by seed."""

    target: float
    ratios: list[float]
    highs: list[float]
    fast: list[float]

    def row(self, name: str, regime: str) -> Mapping[str, Any]:
        return {
            "structure": name,
            "regime": regime,
            "HiGHS, ms": 1e3 * np.median(self.highs),
            "structopt, ms": 1e3 * np.median(self.fast),
            **median_and_range("times faster", self.ratios),
            "target": self.target,
        }


def median_and_range(name: str, values: list[float]) -> dict[str, Any]:
    """Columns of what was measured once a seed."""
    spread = {"least": min(values), "most": max(values)} if len(values) > 1 else {}
    return {name: np.median(values), **spread}


def measure(case: Case, regime: str, seed: int, lines: dict[tuple[str, str], Line]) -> None:
    rng = np.random.default_rng(seed)
    costs = costs_of(case, regime, case.n_calls, rng)
    bare = bare_loop(case.space, case.mip)
    fast, values = fast_cpu(case.oracle, costs, keep=regime != "jump")
    slow, wanted = cpu_of(bare, costs)
    assert np.allclose(values, wanted, rtol=1e-6, atol=1e-6), (case.name, regime, np.abs(values - wanted).max())
    line = lines.setdefault((case.name, regime), Line(case.targets[regime], [], [], []))
    line.ratios.append(slow / fast)
    line.highs.append(slow / (len(costs) - 1))
    line.fast.append(fast / (len(costs) - 1))


def ratios(n_seeds: int, quick: bool, only: str) -> list[Mapping[str, Any]]:
    lines: dict[tuple[str, str], Line] = {}
    for seed in range(n_seeds):
        for name, make in cases(seed, quick).items():
            if only not in name:
                continue
            case = make()
            for regime in case.targets:
                measure(case, regime, seed, lines)
    return [shown(line.row(name, regime)) for (name, regime), line in lines.items()]


# ---- batches of chains ---------------------------------------------------------------------------


def numpy_viterbi(U: np.ndarray, ptr: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Viterbi for all chains at once: by decreasing length, so that the active ones are a prefix."""
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


def batch_of_chains(n_seeds: int) -> Mapping[str, Any]:
    found, times = [], []
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(3, 15, 1000)  # words of the OCR letters have 3 to 14
        model = so.structures.Chain(26)
        batch = model.batch([rng.normal(size=(length, 26)) for length in lengths])
        tables = batch.tables(rng.normal(size=batch.n_weights))
        U, T = np.ascontiguousarray(tables[0]), tables[1][0].reshape(26, 26)
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        batch.argmax(tables)
        numpy_viterbi(U, ptr, T)
        seconds = [0.0, 0.0]
        for _ in range(3):
            begun = process_time()
            _, values = batch.argmax(tables)
            middle = process_time()
            _, wanted = numpy_viterbi(U, ptr, T)
            seconds[0] += middle - begun
            seconds[1] += process_time() - middle
            assert np.allclose(values, wanted)
        found.append(seconds[0] / seconds[1])
        times.append(1e3 * seconds[0] / 3)
    row = {"batch": "1,000 chains of OCR length", "beside": "Viterbi batched in NumPy", "ms": np.median(times)}
    return shown(row | median_and_range("batch / beside", found))


# ---- recognition ---------------------------------------------------------------------------------


def large_spaces(scale: int) -> Iterator[so.LabelSpace]:
    """One space of about 10^5 / `scale` rows of every kind."""
    m = 100_000 // scale
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
    x = space.binary("x", (m, 3))
    space.subject_to(x.sum(axis=1) == 1)
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
    arc = space.continuous("arc", len(tail), 0, 1)
    space.subject_to(network(tail, head, m) @ arc == np.concatenate([[1], np.zeros(m - 2), [-1]]))
    yield space
    space = so.LabelSpace("intervals (only unimodularity)")
    y = space.binary("y", m)
    first = rng.integers(0, m - 6, m)
    columns = (first[:, None] + np.arange(5)).ravel()
    space.subject_to(csr(np.ones(5 * m), np.repeat(np.arange(m), 5), columns, (m, m)) @ y <= 2)
    yield space


def csr(data: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    return sp.csr_array((data, (rows, columns)), shape=shape)


def network(tail: np.ndarray, head: np.ndarray, n: int) -> sp.csr_array:
    arc = np.arange(len(tail))
    ones = np.ones(len(tail))
    return csr(np.concatenate([ones, -ones]), np.concatenate([tail, head]), np.tile(arc, 2), (n, len(tail)))


def recognition(scale: int) -> list[Mapping[str, Any]]:
    from structopt.recognize import recognize

    for space in large_spaces(1000):  # load the kernels
        _ = recognize(space.compiled).unimodular_proof
    rows = []
    for space in large_spaces(scale):
        compiled = space.compiled
        seconds = []
        for _ in range(3):
            begun = process_time()
            structure = recognize(compiled)
            seconds.append(process_time() - begun)
        begun = process_time()
        proof = structure.unimodular_proof
        proving = process_time() - begun
        row = {
            "space": space.name,
            "rows": compiled.n_rows,
            "recognised as": structure.kind,
            "CPU s": np.median(seconds),
            "unimodularity": "proved" if proof else "not proved",
            "CPU s of the proof": proving,
        }
        rows.append(shown(row))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed and fewer calls, for a first look")
    parser.add_argument("--only", default="", help="part of a structure's name, such as 'chain'")
    arguments = parser.parse_args()
    quick, only = arguments.quick, arguments.only
    n_seeds = 1 if quick else 5
    rows, seeds = ratios(n_seeds, quick, only), range(n_seeds)
    measures = ("structopt/algorithms", "structopt/oracle")
    title, ratio = "Combinatorial algorithms beside warm HiGHS", "times faster"
    keep("structures", rows, title=title, measures=measures, seeds=seeds, ratio=ratio)
    if not only or "batch" in only:
        rows = [batch_of_chains(n_seeds)]
        keep("structures.batch", rows, title="A batch of chains beside NumPy", measures=measures, seeds=seeds)
    if not only or "recognise" in only:
        rows = recognition(10 if quick else 1)
        keep("structures.recognise", rows, title="Time to recognise a structure", measures=["structopt/recognize"])


if __name__ == "__main__":
    main()
