"""Compiled label spaces against HiGHS: CPU time of a call, of a batch, and of the compilation, ratios in one run.

``spaces``: every space, or those whose name contains one of the words of ``--only``. ``refused``: how long it takes to
reject a space that is too wide. ``fits``: the shipped models that no other algorithm solves. ``coupling``: a diagram
and one more row by search, against HiGHS on all rows. ``lists``: lists of labels against diagrams, by the number of
labels.

"jump" is HiGHS on unrelated costs, one after the other; "drift" on costs that move by a tenth. The answers of both must
agree. All figures are CPU time of this process, in microseconds unless a unit is given.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from _bench import Rows, best_seconds, cycled, main, part, timed

import structopt as so
from structopt.algorithms.diagram import DiagramAlgorithm, compile_diagram
from structopt.algorithms.enumeration import Enumeration
from structopt.errors import DiagramRefused
from structopt.surrogates import Slack
from structopt.surrogates.levels import level_choice

# ---- spaces ----------------------------------------------------------------------------------------


def readme() -> so.LabelSpace:
    """Return the tags of the README."""
    space = so.LabelSpace("README tags")
    tag = space.binary("tag", 5)
    space.subject_to(np.array([3.0, 2.0, 2.0, 1.0, 4.0]) @ tag <= 6, tag[0] + tag[1] <= 1)
    return space


def rota(nurses: int, days: int, shifts: int) -> so.LabelSpace:
    """Return rotas: every shift has one nurse, who works once a day, rests after a late shift, and has few shifts."""
    space = so.LabelSpace(f"rota {nurses} x {days} x {shifts}")
    duty = space.binary("duty", (nurses, days, shifts))
    space.subject_to(duty.sum(axis=0) == 1, duty.sum(axis=2) <= 1)
    space.subject_to(duty[:, :-1, shifts - 1] + duty[:, 1:, 0] <= 1)
    space.subject_to(duty.sum(axis=2).sum(axis=1) <= -(-days * shifts // nurses) + 1)
    return space


def knapsacks(n: int, rows: int, weight: int) -> so.LabelSpace:
    """Return dense rows of integer weights, each with a capacity of 0.3 of their sum; weight 0: floats."""
    rng = np.random.default_rng(n * 100 + rows)
    W = rng.integers(1, weight + 1, (rows, n)).astype(float) if weight else rng.random((rows, n))
    space = so.LabelSpace(f"{rows} knapsack {n}, W {weight or 'float'}")
    bound = W.sum(axis=1) * 0.3
    space.subject_to(W @ space.binary("y", n) <= (np.floor(bound) if weight else bound))
    return space


def integers(n: int, rows: int) -> so.LabelSpace:
    """Return integers 0..10 in knapsacks."""
    W = np.random.default_rng(n).integers(1, 6, (rows, n)).astype(float)
    space = so.LabelSpace(f"integers 0..10 {n} x {rows}")
    space.subject_to(W @ space.integer("y", n, 0, 10) <= np.floor(W.sum(axis=1) * 3))
    return space


def marginals(length: int, states: int) -> so.LabelSpace:
    """Return a chain with the marginals of pairs as continuous variables."""
    space = so.LabelSpace(f"chain marginals {length} x {states}")
    add_pairs(space, space.binary("y", (length, states)))
    return space


def add_pairs(space: so.LabelSpace, y: Any) -> None:
    """Give each position one state, and add the marginals of neighbours."""
    length, states = y.shape
    p = space.continuous("p", (length - 1, states, states), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])


def entities(length: int, most: int, pairs: bool) -> so.LabelSpace:
    """Return BIO tags of two types with at most this many entities; `pairs` adds marginals of neighbours."""
    space = so.LabelSpace(f"BIO {length}{' with pairs' if pairs else ''}, at most {most}")
    y = space.binary("y", (length, 5))  # O, then B and I of each type
    for begin, inside in ((1, 2), (3, 4)):
        space.subject_to(y[0, inside] <= 0)
        space.subject_to(y[1:, inside] <= y[:-1, begin] + y[:-1, inside])
    if pairs:
        add_pairs(space, y)
    else:
        space.subject_to(y.sum(axis=1) == 1)
    space.subject_to(y[:, 1::2].sum() <= most)
    return space


def pairwise(name: str, n: int, edges: Sequence[tuple[int, int]], most: int = 0) -> so.LabelSpace:
    """Return labels with a product variable for each edge."""
    i, j = np.array(edges).T
    space = so.LabelSpace(name)
    y, p = space.binary("y", n), space.continuous("p", len(i), 0, 1)
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1)
    # Without a further row it would be recognised.
    space.subject_to(y.sum() <= most if most else y[0] + y[1] + y[2] <= 2)
    return space


def grid(k: int) -> so.LabelSpace:
    """Return a k x k grid of labels."""
    edges = [(r * k + c, r * k + c + 1) for r in range(k) for c in range(k - 1)]
    edges += [(r * k + c, r * k + c + k) for r in range(k - 1) for c in range(k)]
    return pairwise(f"MRF grid {k} x {k}", k * k, edges)


def full(n: int, most: int = 0) -> so.LabelSpace:
    """Return all pairs of labels."""
    return pairwise(
        f"MRF full {n}{f', at most {most}' if most else ''}", n, list(itertools.combinations(range(n), 2)), most
    )


def taxonomy(n: int, most: int) -> so.LabelSpace:
    """Return a random tree of topics with some exclusions, and at most this many."""
    rng = np.random.default_rng(n)
    parent = np.array([int(rng.integers(max(0, v // 4), v)) if v else -1 for v in range(n)])
    space = so.LabelSpace(f"taxonomy {n}, at most {most}")
    y, child = space.binary("y", n), np.arange(1, n)
    i, j = rng.integers(0, n, (2, n // 5))
    space.subject_to(y[child] <= y[parent[child]], y[i[i != j]] + y[j[i != j]] <= 1, y.sum() <= most)
    return space


def some_pairs(n: int, density: float) -> tuple[np.ndarray, np.ndarray]:
    i, j = np.triu_indices(n, 1)
    kept = np.random.default_rng(n).random(len(i)) < density
    return i[kept], j[kept]


def cover(n: int, density: float) -> so.LabelSpace:
    """Return vertex covers of a random graph."""
    space, (i, j) = so.LabelSpace(f"cover {n} ({density})"), some_pairs(n, density)
    y = space.binary("y", n)
    space.subject_to(y[i] + y[j] >= 1)
    return space


def exams(n: int, slots: int, most: int = 0) -> so.LabelSpace:
    """Return exams in slots: one slot each, conflicts apart, perhaps few in a slot."""
    space, (i, j) = so.LabelSpace(f"exams {n} x {slots}{f', at most {most}' if most else ''}"), some_pairs(n, 0.3)
    y = space.binary("y", (n, slots))
    space.subject_to(y.sum(axis=1) == 1, y[i] + y[j] <= 1)
    if most:
        space.subject_to(y.sum(axis=0) <= most)
    return space


def packing(rows: int, n: int, local: bool) -> so.LabelSpace:
    """Return sets of three of the rows (or within six neighbours) that may not overlap."""
    rng, A = np.random.default_rng(n), np.zeros((rows, n))
    for column in range(n):
        first = int(rng.integers(0, max(1, rows - 5)))
        three = rng.choice(min(6, rows), 3, replace=False) + first if local else rng.choice(rows, 3, replace=False)
        A[three, column] = 1
    if local:
        A = A[:, np.argsort(A.argmax(axis=0), kind="stable")]
    space = so.LabelSpace(f"packing {rows} x {n}{' local' if local else ''}")
    space.subject_to(A[A.any(axis=1)] @ space.binary("y", n) <= 1)
    return space


def assignment(n: int) -> so.LabelSpace:
    """Return permutations, and one more row so that they are not recognised."""
    space = so.LabelSpace(f"assignment {n}")
    y = space.binary("y", (n, n))
    space.subject_to(y.sum(axis=0) == 1, y.sum(axis=1) == 1, y[0, 0] + y[1, 1] + y[2, 2] <= 2)
    return space


def compiled_spaces() -> list[so.LabelSpace]:
    shipped = ("taxonomy_exclusions", "budgeted_tagger", "vertex_cover", "shift_rota")
    integral = ((50, 1, 10), (50, 1, 100), (20, 2, 10), (30, 2, 10), (50, 2, 10), (20, 1, 0), (30, 1, 0))
    return [
        readme(),
        *(so.load_model(name).model.space(None) for name in shipped),
        rota(5, 7, 2),
        *itertools.starmap(knapsacks, integral),
        *itertools.starmap(marginals, ((20, 10), (20, 26), (50, 26))),
        *itertools.starmap(entities, ((50, 5, False), (20, 3, True))),
        *map(grid, (4, 8)),
        *itertools.starmap(full, ((14, 0), (20, 3))),
        *itertools.starmap(taxonomy, ((40, 6), (100, 8))),
        *itertools.starmap(cover, ((30, 0.1), (50, 0.06))),
        *itertools.starmap(exams, ((12, 6, 0), (12, 6, 3))),
        *itertools.starmap(packing, ((20, 30, False), (40, 80, True))),
        *itertools.starmap(integers, ((8, 2), (12, 1))),
    ]


def wide_spaces() -> list[so.LabelSpace]:
    rows = ((150, 1, 100), (60, 2, 10), (30, 3, 10), (34, 1, 0), (10_000, 1, 1000))
    first = [assignment(16), grid(14), packing(40, 80, False)]
    return [*first, *itertools.starmap(knapsacks, rows), exams(18, 6), exams(14, 6, 3)]


# ---- tables ----------------------------------------------------------------------------------------


def warm() -> None:
    """Have all kernels compiled by numba."""
    compile_diagram(pairwise("warm", 4, [(0, 1), (1, 2), (2, 3)]).compiled)
    compile_diagram(knapsacks(5, 1, 0).compiled)
    algorithm = DiagramAlgorithm(compile_diagram(readme().compiled))
    c = np.ones(5)
    algorithm.maximize(c), algorithm.maximize_batch(c[None]), algorithm.k_best(c, 2), algorithm.marginals(c[None])
    algorithm.log_partition(c[None]), algorithm.front(c, 0.0, c, 0.0), algorithm.sample(c, 1, np.random.default_rng(0))
    algorithm.front(c, 0.0, np.sqrt(np.arange(1.0, 6.0)), 0.0)


@part("Compiled spaces beside HiGHS, microseconds", ratio="times faster")
def spaces(only: tuple[str, ...] = ("",)) -> Rows:
    warm()
    for space in compiled_spaces():
        if not any(word in space.name for word in only):
            continue
        diagram, made = timed(partial(compile_diagram, space.compiled))
        algorithm, rng = DiagramAlgorithm(diagram), np.random.default_rng(0)
        jump = rng.normal(size=(200, space.n_variables))
        drift = jump[0] + 0.1 * np.cumsum(rng.normal(size=(200, space.n_variables)), axis=0) / 10
        H = np.tile(jump, (5, 1))
        one = best_seconds(cycled(so.Oracle(space, "diagram").maximize, jump))
        batch = best_seconds(partial(algorithm.maximize_batch, H)) / 1000
        # Exact slack: one ground truth for all, and one for each.
        same = np.tile(algorithm.maximize(jump[0]).z, (1000, 1))
        slack, own = (
            slack_seconds(algorithm, space, H, Y) for Y in (same, algorithm.maximize_batch(rng.normal(size=H.shape)).Z)
        )
        row = {"space": space.name, "labels": float(diagram.count()), "width": diagram.width, "arcs": diagram.n_arcs}
        row |= {"made, ms": 1e3 * made, "one call": 1e6 * one, "in a batch": 1e6 * batch}
        row |= {"slack / batch": slack / batch, "own slack / batch": own / batch}
        row |= {"10 best": 1e6 * best_seconds(partial(algorithm.k_best, jump[0], 10))}
        row |= {"log Z": 1e6 * best_seconds(partial(algorithm.log_partition, jump[:16])) / 16}
        oracle = so.Oracle(space, "highs")
        for c in jump[:3]:
            value, other = algorithm.maximize(c).value, oracle.maximize(c).value
            assert abs(value - other) <= 1e-6 * max(1.0, abs(other)), (space.name, value, other)
        slow, steady = (best_seconds(cycled(oracle.maximize, costs), 1, 0.4) for costs in (jump, drift))
        yield row | {"HiGHS, jump": 1e6 * slow, "HiGHS, drift": 1e6 * steady, "times faster": slow / one}


def slack_seconds(algorithm: DiagramAlgorithm, space: so.LabelSpace, H: np.ndarray, Y: np.ndarray) -> float:
    """Return the seconds of an exact search of slack rescaling per example, or NaN if there is no plan for it."""
    counted = np.where(space.integrality, Y, 0.0)
    G = np.where(space.integrality, 1.0 - 2.0 * (Y > 0.5), 0.0)
    plan, best, zero = (
        algorithm.front_plan(G, counted.sum(axis=1)),
        level_choice(Slack(), mixes=False),
        np.zeros(len(H)),
    )
    if plan is None or plan.most_violated(H, zero, best) is None:
        return np.nan
    return best_seconds(lambda: plan.most_violated(H, zero, best)) / len(H)


@part("Time to refuse what is too wide")
def refused() -> Rows:
    warm()

    def answer(space: so.LabelSpace) -> str:
        try:
            return repr(compile_diagram(space.compiled))
        except DiagramRefused as refusal:
            return str(refusal)[:150]

    for space in wide_spaces():
        told, seconds = timed(partial(answer, space))
        yield {"space": space.name, "CPU s": seconds, "answer": told}


@part("Models that no other algorithm solves")
def fits() -> Rows:
    warm()

    def fit(name: str, surrogate: str, solver: str) -> Any:
        loaded = so.load_model(name)
        loaded.model.solver = solver
        return so.StructuredSVM(loaded.model, surrogate=surrogate, lam=1e-2).fit(*loaded.data()).result_

    for name in ("budgeted_tagger", "vertex_cover", "shift_rota"):  # HiGHS takes minutes for the slack of them
        for surrogate, solver in (("margin", "auto"), ("margin", "highs"), ("slack", "auto")):
            # The second time all kernels are compiled.
            result, seconds = timed(partial(fit, name, surrogate, solver), 1 if solver == "highs" else 2)
            row = {"model": name, "rescaling": surrogate, "solver": solver, "CPU s": seconds}
            yield row | {"lower bound": result.lower_bound, "objective": result.objective}


@part("A diagram and one more row beside HiGHS", ratio="times faster")
def coupling() -> Rows:
    warm()
    rng = np.random.default_rng(0)
    made = (knapsacks(20, 2, 10), knapsacks(30, 2, 10), rota(5, 7, 2), exams(12, 6), entities(50, 5, False))
    for space, kind, alike in itertools.product(made, ("upper", "tight", "lower", "range", "signed"), (False, True)):
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
        low, middle, high = (float(np.quantile(some, share)) for share in (0.02, 0.3, 0.9))
        lower, upper = {
            "upper": (-np.inf, 0.9 * reached),
            "tight": (-np.inf, low),
            "lower": (high, np.inf),
            "range": (middle - 20.0, middle + 20.0),
            "signed": (-np.inf, reached - 0.1 * abs(reached)),
        }[kind]
        A = sp.vstack([rows.matrix, weight[None]], format="csr")
        bounds = np.append(rows.row_lower, lower), np.append(rows.row_upper, upper)
        highs = so.Oracle(so.LabelSpace.from_matrices(A, *bounds), "highs")
        side = sp.csr_array(weight[None]), np.array([lower]), np.array([upper])
        search = partial(algorithm.maximize_constrained, side_constraints=side)
        for c in costs[:3]:
            found, other = search(c), highs.maximize(c).value
            assert found is not None and abs(found.value - other) <= 1e-6 * max(1.0, abs(other)), (space.name, kind)
        own, solver = best_seconds(cycled(search, costs)), best_seconds(cycled(highs.maximize, costs), 1, 0.3)
        row = {"space": space.name, "row": kind, "costs": "alike" if alike else "unrelated", "search, us": 1e6 * own}
        yield row | {"HiGHS, us": 1e6 * solver, "times faster": solver / own}


@part("Lists of labels beside diagrams")
def lists() -> Rows:
    warm()
    rng = np.random.default_rng(0)
    for n, share in ((6, 0.3), (8, 0.3), (10, 0.3), (12, 0.35), (14, 0.4), (14, 0.6), (17, 0.4), (20, 0.4)):
        W = np.random.default_rng(0).integers(1, 10, (2, n)).astype(float)
        space = so.LabelSpace.from_matrices(W, -np.inf, np.floor(W.sum(axis=1) * share))
        listed, first = timed(lambda: Enumeration(space.enumerate(limit=10**6)))  # noqa: B023
        algorithm, second = timed(lambda: DiagramAlgorithm(compile_diagram(space.compiled)))  # noqa: B023
        C = rng.normal(size=(1000, n))
        row: dict[str, Any] = {"labels": len(listed.labels), "arcs": algorithm.diagram.n_arcs}
        for told, one, made in (("list", listed, first), ("diagram", algorithm, second)):
            row |= {f"{told} made, ms": 1e3 * made, f"{told} one call, us": 1e6 * best_seconds(cycled(one.maximize, C))}
            row |= {f"{told} in a batch, us": 1e3 * best_seconds(partial(one.maximize_batch, C))}
        yield row


if __name__ == "__main__":
    main()
