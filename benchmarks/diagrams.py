"""Compiled label spaces against HiGHS: CPU time of a call, of a batch, and of the compilation, ratios in one run.

    python benchmarks/diagrams.py                    # every space
    python benchmarks/diagrams.py knapsack exams     # those whose name contains one of the words
    python benchmarks/diagrams.py --refused          # how long it takes to refuse what is too wide
    python benchmarks/diagrams.py --train            # the shipped models that no other algorithm solves
    python benchmarks/diagrams.py --coupling         # a diagram and one more row by search, against HiGHS on all rows
    python benchmarks/diagrams.py --lists            # lists of labels against diagrams, by the number of labels

"jump" is HiGHS on unrelated costs, one after the other; "drift" on costs that move by a tenth. The answers of both must
agree. All figures are CPU time of this process, in microseconds unless a unit is given.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

# Before numpy is imported: threads of BLAS that wait for a core would be counted as work.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.sparse as sp
from _results import keep, shown

import structopt as so
from structopt.algorithms.diagram import DiagramAlgorithm, compile_diagram
from structopt.algorithms.enumeration import Enumeration
from structopt.errors import DiagramRefused
from structopt.surrogates import Slack
from structopt.surrogates.levels import level_choice

MEASURES = ("structopt/algorithms/diagram", "structopt/oracle")
FloatArray = np.ndarray[Any, np.dtype[np.float64]]
Row = Mapping[str, Any]


# ---- spaces ----------------------------------------------------------------------------------------


def readme() -> so.LabelSpace:
    """The tags of the README."""
    space = so.LabelSpace("README tags")
    tag = space.binary("tag", 5)
    space.subject_to(np.array([3.0, 2.0, 2.0, 1.0, 4.0]) @ tag <= 6, tag[0] + tag[1] <= 1)
    return space


def shipped(name: str) -> Callable[[], so.LabelSpace]:
    """The space of a model in ``models/`` that is the same for every input."""

    def make() -> so.LabelSpace:
        return so.load_model(name).model.space(None)

    return make


def rota(nurses: int, days: int, shifts: int) -> so.LabelSpace:
    """Every shift has one nurse, who works once a day, rests after a late shift, and has few shifts a week."""
    space = so.LabelSpace(f"rota {nurses} x {days} x {shifts}")
    duty = space.binary("duty", (nurses, days, shifts))
    space.subject_to(duty.sum(axis=0) == 1, duty.sum(axis=2) <= 1)
    space.subject_to(duty[:, :-1, shifts - 1] + duty[:, 1:, 0] <= 1)
    most = -(-days * shifts // nurses) + 1
    space.subject_to(duty.sum(axis=2).sum(axis=1) <= most)
    return space


def knapsacks(n: int, rows: int, weight: int, share: float = 0.3) -> so.LabelSpace:
    """Dense rows of integer weights, each with a capacity of a share of their sum; weight 0: floats."""
    rng = np.random.default_rng(n * 100 + rows)
    W = rng.integers(1, weight + 1, (rows, n)).astype(float) if weight else rng.random((rows, n))
    space = so.LabelSpace(f"{rows} knapsack {n}, W {weight or 'float'}")
    y = space.binary("y", n)
    bound = W.sum(axis=1) * share
    space.subject_to(W @ y <= (np.floor(bound) if weight else bound))
    return space


def integers(n: int, rows: int) -> so.LabelSpace:
    """Integers 0..10 in knapsacks."""
    rng = np.random.default_rng(n)
    W = rng.integers(1, 6, (rows, n)).astype(float)
    space = so.LabelSpace(f"integers 0..10 {n} x {rows}")
    y = space.integer("y", n, 0, 10)
    space.subject_to(W @ y <= np.floor(W.sum(axis=1) * 3))
    return space


def marginals(length: int, states: int) -> so.LabelSpace:
    """A chain with the marginals of pairs as continuous variables."""
    space = so.LabelSpace(f"chain marginals {length} x {states}")
    y = space.binary("y", (length, states))
    p = space.continuous("p", (length - 1, states, states), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
    return space


def entities(length: int, most: int, pairs: bool) -> so.LabelSpace:
    """BIO tags with at most so many entities; `pairs` adds marginals of neighbours."""
    space = so.LabelSpace(f"BIO {length}{' with pairs' if pairs else ''}, at most {most}")
    types = 2
    states = 1 + 2 * types  # O, then B and I of each type
    y = space.binary("y", (length, states))
    space.subject_to(y.sum(axis=1) == 1)
    for t in range(types):
        begin, inside = 1 + 2 * t, 2 + 2 * t
        space.subject_to(y[0, inside] <= 0)
        space.subject_to(y[1:, inside] <= y[:-1, begin] + y[:-1, inside])
    if pairs:
        p = space.continuous("p", (length - 1, states, states), 0, 1)
        space.subject_to(p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
    space.subject_to(y[:, 1::2].sum() <= most)
    return space


def pairwise(
    name: str, n: int, edges: Iterator[tuple[int, int]] | list[tuple[int, int]], most: int = 0
) -> so.LabelSpace:
    """Labels with a product variable for each edge."""
    i, j = np.array(list(edges)).T
    space = so.LabelSpace(name)
    y, p = space.binary("y", n), space.continuous("p", len(i), 0, 1)
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    if most:
        space.subject_to(y.sum() <= most)
    else:
        space.subject_to(y[0] + y[1] + y[2] <= 2)  # or it would be recognised
    return space


def grid(k: int) -> so.LabelSpace:
    """A k x k grid of labels."""
    edges = [(r * k + c, r * k + c + 1) for r in range(k) for c in range(k - 1)]
    edges += [(r * k + c, r * k + c + k) for r in range(k - 1) for c in range(k)]
    return pairwise(f"MRF grid {k} x {k}", k * k, edges)


def full(n: int, most: int = 0) -> so.LabelSpace:
    """All pairs of labels."""
    name = f"MRF full {n}{f', at most {most}' if most else ''}"
    return pairwise(name, n, [(i, j) for i in range(n) for j in range(i + 1, n)], most)


def taxonomy(n: int, most: int) -> so.LabelSpace:
    """A random tree of topics with some exclusions, and at most so many."""
    rng = np.random.default_rng(n)
    parent = np.array([int(rng.integers(max(0, v // 4), v)) if v else -1 for v in range(n)])
    space = so.LabelSpace(f"taxonomy {n}, at most {most}")
    y = space.binary("y", n)
    child = np.arange(1, n)
    space.subject_to(y[child] <= y[parent[child]])
    i, j = rng.integers(0, n, (2, n // 5))
    space.subject_to(y[i[i != j]] + y[j[i != j]] <= 1)
    space.subject_to(y.sum() <= most)
    return space


def cover(n: int, density: float) -> so.LabelSpace:
    """Vertex covers of a random graph."""
    rng = np.random.default_rng(n)
    i, j = np.triu_indices(n, 1)
    kept = rng.random(len(i)) < density
    space = so.LabelSpace(f"cover {n} ({density})")
    y = space.binary("y", n)
    space.subject_to(y[i[kept]] + y[j[kept]] >= 1)
    return space


def exams(n: int, slots: int, most: int = 0) -> so.LabelSpace:
    """Exams in slots: one slot each, conflicts apart, perhaps few in a slot."""
    rng = np.random.default_rng(n)
    i, j = np.triu_indices(n, 1)
    kept = rng.random(len(i)) < 0.3
    space = so.LabelSpace(f"exams {n} x {slots}{f', at most {most}' if most else ''}")
    y = space.binary("y", (n, slots))
    space.subject_to(y.sum(axis=1) == 1, y[i[kept]] + y[j[kept]] <= 1)
    if most:
        space.subject_to(y.sum(axis=0) <= most)
    return space


def packing(rows: int, n: int, local: bool) -> so.LabelSpace:
    """Sets of three of the rows (or within six neighbours) that may not overlap."""
    rng = np.random.default_rng(n)
    A = np.zeros((rows, n))
    for column in range(n):
        first = int(rng.integers(0, max(1, rows - 5)))
        A[
            rng.choice(min(6, rows), 3, replace=False) + first if local else rng.choice(rows, 3, replace=False), column
        ] = 1
    if local:
        A = A[:, np.argsort(A.argmax(axis=0), kind="stable")]
    A = A[A.any(axis=1)]
    space = so.LabelSpace(f"packing {rows} x {n}{' local' if local else ''}")
    y = space.binary("y", n)
    space.subject_to(A @ y <= 1)
    return space


def assignment(n: int) -> so.LabelSpace:
    """Permutations, and one more row so that they are not recognised."""
    space = so.LabelSpace(f"assignment {n}")
    y = space.binary("y", (n, n))
    space.subject_to(y.sum(axis=0) == 1, y.sum(axis=1) == 1, y[0, 0] + y[1, 1] + y[2, 2] <= 2)
    return space


SPACES: tuple[Callable[[], so.LabelSpace], ...] = (
    readme,
    shipped("taxonomy_exclusions"),
    shipped("budgeted_tagger"),
    shipped("vertex_cover"),
    shipped("shift_rota"),
    lambda: rota(5, 7, 2),
    lambda: knapsacks(50, 1, 10),
    lambda: knapsacks(50, 1, 100),
    lambda: knapsacks(20, 2, 10),
    lambda: knapsacks(30, 2, 10),
    lambda: knapsacks(50, 2, 10),
    lambda: knapsacks(20, 1, 0),
    lambda: knapsacks(30, 1, 0),
    lambda: marginals(20, 10),
    lambda: marginals(20, 26),
    lambda: marginals(50, 26),
    lambda: entities(50, 5, pairs=False),
    lambda: entities(20, 3, pairs=True),
    lambda: grid(4),
    lambda: grid(8),
    lambda: full(14),
    lambda: full(20, 3),
    lambda: taxonomy(40, 6),
    lambda: taxonomy(100, 8),
    lambda: cover(30, 0.1),
    lambda: cover(50, 0.06),
    lambda: exams(12, 6),
    lambda: exams(12, 6, 3),
    lambda: packing(20, 30, local=False),
    lambda: packing(40, 80, local=True),
    lambda: integers(8, 2),
    lambda: integers(12, 1),
)

REFUSED: tuple[Callable[[], so.LabelSpace], ...] = (
    lambda: assignment(16),
    lambda: grid(14),
    lambda: packing(40, 80, local=False),
    lambda: knapsacks(150, 1, 100),
    lambda: knapsacks(60, 2, 10),
    lambda: knapsacks(30, 3, 10),
    lambda: knapsacks(34, 1, 0),
    lambda: knapsacks(10_000, 1, 1000),
    lambda: exams(18, 6),
    lambda: exams(14, 6, 3),
)


# ---- clocks ----------------------------------------------------------------------------------------


def cpu(work: Callable[[], object], seconds: float = 0.2, repeats: int = 3) -> float:
    """CPU seconds of a call, the least of several measurements of about `seconds` in all."""
    begun = time.process_time()
    work()
    once = max(time.process_time() - begun, 1e-7)
    number = max(1, int(seconds / repeats / once))
    best = once
    for _ in range(repeats):
        begun = time.process_time()
        for _ in range(number):
            work()
        best = min(best, (time.process_time() - begun) / number)
        if once > seconds:
            break
    return best


def cycled(function: Callable[[FloatArray], Any], costs: FloatArray) -> Callable[[], Any]:
    """Calls with one row of costs after the other."""
    rows = itertools.cycle(costs)
    return lambda: function(next(rows))


def row_of(space: so.LabelSpace, highs: bool) -> Row:
    """Measure one space."""
    begun = time.process_time()
    diagram = compile_diagram(space.compiled)
    compiled = time.process_time() - begun
    algorithm = DiagramAlgorithm(diagram)
    rng = np.random.default_rng(0)
    jump = rng.normal(size=(200, space.n_variables))
    drift = jump[0] + 0.1 * np.cumsum(rng.normal(size=(200, space.n_variables)), axis=0) / 10
    one = cpu(cycled(so.Oracle(space, "diagram").maximize, jump))
    batch = cpu(lambda: algorithm.maximize_batch(np.tile(jump, (5, 1)))) / 1000
    truth = algorithm.maximize(jump[0]).z
    H, G = np.tile(jump, (5, 1)), np.zeros((1000, space.n_variables))
    G[:] = np.where(space.integrality, 1.0 - 2.0 * (truth > 0.5), 0.0)

    # Exact slack: one ground truth for all, and one for each.
    plan = algorithm.front_plan(G, np.full(1000, truth.sum()))
    best = level_choice(Slack(), mixes=False)
    slack = np.nan if plan is None else cpu(lambda: plan.most_violated(H, np.zeros(1000), best)) / 1000
    truths = algorithm.maximize_batch(rng.normal(size=(1000, space.n_variables))).Z
    own_G = np.where(space.integrality, 1.0 - 2.0 * (truths > 0.5), 0.0)
    own_plan = algorithm.front_plan(own_G, np.where(space.integrality, truths, 0.0).sum(axis=1))
    kept = own_plan is not None and own_plan.most_violated(H[:, :], np.zeros(1000), best) is not None
    own = np.nan
    if own_plan is not None and kept:
        own = cpu(lambda: own_plan.most_violated(H, np.zeros(1000), best)) / 1000
    ten = cpu(lambda: algorithm.k_best(jump[0], 10))
    sums = cpu(lambda: algorithm.log_partition(jump[:16])) / 16
    row: dict[str, Any] = {
        "space": space.name,
        "labels": float(diagram.count()),
        "width": diagram.width,
        "arcs": diagram.n_arcs,
        "made, ms": 1e3 * compiled,
        "one call": 1e6 * one,
        "in a batch": 1e6 * batch,
        "slack / batch": slack / batch,
        "own slack / batch": own / batch,
        "10 best": 1e6 * ten,
        "log Z": 1e6 * sums,
    }
    if highs:
        oracle = so.Oracle(space, "highs")
        for c in jump[:3]:
            value, other = algorithm.maximize(c).value, oracle.maximize(c).value
            assert abs(value - other) <= 1e-6 * max(1.0, abs(other)), (space.name, value, other)
        slow = cpu(cycled(oracle.maximize, jump), 0.4, 1)
        steady = cpu(cycled(oracle.maximize, drift), 0.4, 1)
        row |= {"HiGHS, jump": 1e6 * slow, "HiGHS, drift": 1e6 * steady, "times faster": slow / one}
    return shown(row)


def warm() -> None:
    """Have all kernels compiled by numba."""
    compile_diagram(pairwise("warm", 4, [(0, 1), (1, 2), (2, 3)]).compiled)
    compile_diagram(knapsacks(5, 1, 0).compiled)
    algorithm = DiagramAlgorithm(compile_diagram(readme().compiled))
    c = np.ones(5)
    algorithm.maximize(c), algorithm.maximize_batch(c[None]), algorithm.k_best(c, 2), algorithm.marginals(c[None])
    algorithm.log_partition(c[None]), algorithm.front(c, 0.0, c, 0.0), algorithm.sample(c, 1, np.random.default_rng(0))
    algorithm.front(c, 0.0, np.sqrt(np.arange(1.0, 6.0)), 0.0)


def train() -> list[Row]:
    """Fit the shipped models that no structure is recognised in; HiGHS takes minutes for the slack of them."""
    rows = []
    for name in ("budgeted_tagger", "vertex_cover", "shift_rota"):
        for surrogate, solver in (("margin", "auto"), ("margin", "highs"), ("slack", "auto")):
            X, Y = so.load_model(name).data()
            for _ in range(2):  # the second time all kernels are compiled
                model = so.load_model(name).model
                model.solver = solver
                begun = time.process_time()
                result = so.StructuredSVM(model, surrogate=surrogate, lam=1e-2).fit(X, Y).result_
                seconds = time.process_time() - begun
                if solver == "highs":
                    break
            row = {"model": name, "rescaling": surrogate, "solver": solver, "CPU s": seconds}
            rows.append(shown(row | {"lower bound": result.lower_bound, "objective": result.objective}))
    return rows


def coupling() -> list[Row]:
    """A diagram without its widest row, by search within that row, against HiGHS on the complete space."""
    rng = np.random.default_rng(0)
    rows_told = []
    spaces = (knapsacks(20, 2, 10), knapsacks(30, 2, 10), rota(5, 7, 2), exams(12, 6), entities(50, 5, False))
    for space, kind, alike in itertools.product(spaces, ("upper", "tight", "lower", "range", "signed"), (False, True)):
        n, rows = space.n_variables, space.compiled
        weight = rng.integers(1, 1000, n).astype(float)
        if kind == "signed":
            weight *= rng.choice([-1.0, 1.0], n)
        # Costs that have nothing to do with the weights, and nearly proportional ones, which are hard for solvers.
        costs = rng.normal(size=(15, n))
        if alike:
            costs = weight / 1000 + 0.05 * costs
        algorithm = DiagramAlgorithm(compile_diagram(rows))
        reached = float(np.median(algorithm.maximize_batch(costs).Z @ weight))
        some = algorithm.sample(np.zeros(n), 200, rng) @ weight
        middle = float(np.quantile(some, 0.3))
        lower, upper = {
            "upper": (-np.inf, 0.9 * reached),
            "tight": (-np.inf, float(np.quantile(some, 0.02))),
            "lower": (float(np.quantile(some, 0.9)), np.inf),
            "range": (middle - 20.0, middle + 20.0),
            "signed": (-np.inf, reached - 0.1 * abs(reached)),
        }[kind]
        complete = so.LabelSpace.from_matrices(
            sp.vstack([rows.matrix, weight[None]], format="csr"),
            np.append(rows.row_lower, lower),
            np.append(rows.row_upper, upper),
        )
        highs, side = so.Oracle(complete, "highs"), (sp.csr_array(weight[None]), np.array([lower]), np.array([upper]))
        for c in costs[:3]:
            found, other = algorithm.maximize_constrained(c, side), highs.maximize(c).value
            assert found is not None and abs(found.value - other) <= 1e-6 * max(1.0, abs(other)), (space.name, kind)
        search = cpu(cycled(lambda c: algorithm.maximize_constrained(c, side), costs), 0.1)  # noqa: B023
        solver = cpu(cycled(highs.maximize, costs), 0.3, 1)
        row: dict[str, Any] = {"space": space.name, "row": kind, "costs": "alike" if alike else "unrelated"}
        row |= {"search, us": 1e6 * search, "HiGHS, us": 1e6 * solver, "times faster": solver / search}
        rows_told.append(shown(row))
    return rows_told


def lists() -> list[Row]:
    """Products with all labels against the diagram."""
    rng = np.random.default_rng(0)
    rows = []
    for n, share in ((6, 0.3), (8, 0.3), (10, 0.3), (12, 0.35), (14, 0.4), (14, 0.6), (17, 0.4), (20, 0.4)):
        W = np.random.default_rng(0).integers(1, 10, (2, n)).astype(float)
        space = so.LabelSpace.from_matrices(W, -np.inf, np.floor(W.sum(axis=1) * share))
        begun = time.process_time()
        listed = Enumeration(space.enumerate(limit=10**6))
        middle = time.process_time()
        algorithm = DiagramAlgorithm(compile_diagram(space.compiled))
        made = middle - begun, time.process_time() - middle
        C = rng.normal(size=(1000, n))
        one = [1e6 * cpu(cycled(a.maximize, C), 0.05) for a in (listed, algorithm)]
        batch = [1e3 * cpu(partial(a.maximize_batch, C), 0.1) for a in (listed, algorithm)]
        row: dict[str, Any] = {"labels": len(listed.labels), "arcs": algorithm.diagram.n_arcs}
        for what, pair in (("made, ms", [1e3 * t for t in made]), ("one call, us", one), ("in a batch, us", batch)):
            row |= {f"list {what}": pair[0], f"diagram {what}": pair[1]}
        rows.append(shown(row))
    return rows


def main() -> None:
    """Print the tables that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--refused", action="store_true")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--no-highs", action="store_true")
    parser.add_argument("--coupling", action="store_true")
    parser.add_argument("--lists", action="store_true")
    wanted = parser.parse_args()
    warm()
    if wanted.coupling:
        title = "A diagram and one more row beside HiGHS"
        keep("diagrams.coupling", coupling(), title=title, measures=MEASURES, ratio="times faster")
        return
    if wanted.lists:
        keep("diagrams.lists", lists(), title="Lists of labels beside diagrams", measures=MEASURES)
        return
    if wanted.train:
        keep("diagrams.train", train(), title="Models that no other algorithm solves", measures=MEASURES)
        return
    if wanted.refused:
        rows: list[Row] = []
        for make in REFUSED:
            space = make()
            begun = time.process_time()
            try:
                told = repr(compile_diagram(space.compiled))
            except DiagramRefused as refusal:
                told = str(refusal)[:150]
            rows.append(shown({"space": space.name, "CPU s": time.process_time() - begun, "answer": told}))
        keep("diagrams.refused", rows, title="Time to refuse what is too wide", measures=MEASURES)
        return
    spaces = [make() for make in SPACES]
    chosen = [space for space in spaces if not wanted.words or any(word in space.name for word in wanted.words)]
    rows = [row_of(space, not wanted.no_highs) for space in chosen]
    ratio = None if wanted.no_highs else "times faster"
    keep("diagrams", rows, title="Compiled spaces beside HiGHS, microseconds", measures=MEASURES, ratio=ratio)


if __name__ == "__main__":
    main()
