"""Cycle inequalities of pairwise models, against all cycles and HiGHS over all their rows."""

from __future__ import annotations

import itertools
import signal

import networkx as nx
import numpy as np
import pytest

import structopt as so
import structopt.algorithms.pairwise.graph as graph_module
from structopt.algorithms.pairwise.cycle_relaxation import metric_polytope
from structopt.algorithms.pairwise.graph import PairwiseGraph
from structopt.errors import DeclarationError
from structopt.model.inference import Query
from structopt.structures import PairwiseMRF
from structopt.structures.mrf import Cycles


def all_rows(n, i, j):
    """Every cycle inequality of a graph: signs of the edges, and the right-hand sides."""
    edge = {frozenset(ends): e for e, ends in enumerate(zip(i.tolist(), j.tolist(), strict=True))}
    signs, upper = [], []
    for cycle in nx.simple_cycles(nx.Graph([tuple(ends) for ends in edge])):
        around = [edge[frozenset(pair)] for pair in zip(cycle, cycle[1:] + cycle[:1], strict=True)]
        for size in range(1, len(around) + 1, 2):
            for odd in itertools.combinations(around, size):
                row = np.zeros(len(i))
                row[around] = -1.0
                row[list(odd)] = 1.0
                signs.append(row)
                upper.append(size - 1.0)
    return np.array(signs).reshape(-1, len(i)), np.array(upper)


def listed(n, i, j):
    """The local polytope with every cycle inequality listed."""
    space = PairwiseMRF(n, np.stack([i, j], axis=1)).space().copy()
    y, p = space["y"], space["pair"]
    signs, upper = all_rows(n, i, j)
    if len(upper):
        space.subject_to(signs @ (y[i] + y[j] - 2 * p) <= upper)
    return so.Oracle(space, "highs", integral="relax")


def graphs(rng, trials):
    for _ in range(trials):
        n = int(rng.integers(3, 6))
        i, j = np.triu_indices(n, 1)
        kept = rng.random(len(i)) < rng.choice([0.7, 1.0])
        yield n, i[kept], j[kept]


def coefficients(rng, n, m, whole):
    """Frustrated models; whole ones have ties and zeros."""
    if whole:
        return rng.integers(1, 4, n).astype(float), rng.integers(-3, 1, m).astype(float)
    return rng.normal(1.0, 0.5, n), rng.normal(-1.0, 1.0, m)


@pytest.mark.parametrize("whole", [False, True])
def test_the_metric_polytope_equals_highs(whole):
    rng = np.random.default_rng(0)
    for _ in range(15):
        n = int(rng.integers(2, 7))
        a, b = np.triu_indices(n, 1)
        number = np.zeros((n, n), dtype=int)
        number[a, b] = number[b, a] = np.arange(len(a))
        rows, upper = [], []
        for three in itertools.combinations(range(n), 3):
            sides = [number[pair] for pair in itertools.combinations(three, 2)]
            for kind in range(4):
                row = np.zeros(len(a))
                row[sides] = 1.0 if kind == 3 else [1.0 if k == kind else -1.0 for k in range(3)]
                rows.append(row)
                upper.append(2.0 if kind == 3 else 0.0)
        space = so.LabelSpace()
        x = space.continuous("x", len(a), 0, 1)
        if rows:
            space.subject_to(np.array(rows) @ x <= np.array(upper))
        c = rng.integers(-2, 3, len(a)).astype(float) if whole else rng.normal(size=len(a))
        cost, vertex = np.zeros((n, n)), np.empty((n, n))
        cost[a, b] = cost[b, a] = c
        bound = metric_polytope(cost, vertex)
        want = so.Oracle(space, "highs").maximize(c).value
        assert bound == pytest.approx(want, abs=1e-8) and c @ vertex[a, b] == pytest.approx(want, abs=1e-8)
        assert bound >= c @ vertex[a, b] - 1e-12 and space.contains(vertex[a, b])


@pytest.mark.parametrize("whole", [False, True])
def test_tightened_points_equal_all_cycles_listed(whole):
    rng = np.random.default_rng(1)
    closed = fractional = 0
    for n, i, j in graphs(rng, 10):
        graph, oracle = PairwiseGraph(n, i, j), listed(n, i, j)
        drawn = [coefficients(rng, n, len(i), whole) for _ in range(6)]
        U, P = np.array([u for u, _ in drawn]), np.array([p for _, p in drawn])
        Z, values = graph.solve_points(U, P)
        halves = (Z[:, :n] == 0.5).any(axis=1)
        bounds = graph.tighten(U, P, Z, values)
        for k, (c, z) in enumerate(zip(np.hstack([U, P]), Z, strict=True)):
            want = oracle.maximize(c).value
            assert values[k] == pytest.approx(want, abs=1e-7) and c @ z == pytest.approx(values[k], abs=1e-12)
            assert values[k] <= bounds[k] + 1e-12 and bounds[k] <= want + 1e-7
            assert oracle.declared.relaxed().contains(z)
        fractional += halves.sum()
        closed += (halves & (Z[:, :n] == np.rint(Z[:, :n])).all(axis=1)).sum()
    assert closed > 0.8 * fractional > 3


def test_cycles_are_found_wherever_one_is_violated():
    rng = np.random.default_rng(2)
    seen = [0, 0]
    for trial, (n, i, j) in enumerate(graphs(rng, 60)):
        if not len(i):
            continue
        y = rng.choice([0.0, 0.5, 0.5, 1.0], n) if trial % 2 else rng.random(n)
        low, up = np.maximum(0.0, y[i] + y[j] - 1.0), np.minimum(y[i], y[j])
        pair = low + (up - low) * rng.choice([0.0, 0.2, 0.9, 1.0], len(i))
        signs, upper = all_rows(n, i, j)
        if not len(upper):
            continue
        excess = (signs @ (y[i] + y[j] - 2 * pair) - upper).max()
        rows = Cycles(n, i, j)
        if trial % 3 == 0:
            rows._triangles = rows._triangles[:0]  # shortest paths alone
        answer = rows({"y": y, "pair": pair})
        if excess > 1.1e-5:
            matrix, _, bound = answer
            assert (matrix @ np.concatenate([y, pair]) > bound + 9e-6).all()
            wanted = {
                (*row, limit) for row, limit in zip((signs @ rows._differ.toarray()).tolist(), upper, strict=True)
            }
            assert all((*row, limit) in wanted for row, limit in zip(matrix.toarray().tolist(), bound, strict=True))
            seen[1] += 1
        elif excess <= 0:
            assert answer is None
            seen[0] += 1
    assert min(seen) > 5


def test_what_the_kernel_leaves_open_goes_to_the_solver():
    """A ring of more labels than it takes, each of which excludes the next: all are 1/2 without the inequality."""
    n = 23
    ring = [(v, (v + 1) % n) for v in range(n)]
    c = np.concatenate([np.ones(n), np.full(n, -2.0)])
    x = np.zeros((1, 1))
    for tighten, value in ((None, n / 2), ("cycles", n // 2)):
        model = PairwiseMRF(n, ring, integral="relax", tighten=tighten)
        assert model.oracle().maximize(c).value == pytest.approx(value, abs=1e-7)
        svm_scores = [np.ones((1, n)), np.full((1, n), -2.0)]
        inference = model.batch(x).inference
        assert inference.maximize(Query(svm_scores))[0].values == pytest.approx([value], abs=1e-7)


def test_forests_have_no_cycles_and_other_words_are_refused():
    assert not PairwiseMRF(3, [(0, 1), (1, 2)], tighten="cycles").space().compiled.separations
    with pytest.raises(DeclarationError, match="tighten"):
        PairwiseMRF(3, tighten="triangles")


def test_a_batch_can_be_interrupted(monkeypatch):
    """Ctrl-C is raised between pieces of a batch; what is tightened until then is right, and the next call is whole."""
    graph = so.structures.PairwiseMRF(3).graph
    U, P = np.ones((500, 3)), np.full((500, 3), -2.0)
    Z, values = graph.solve_points(U, P)
    before = Z.copy()
    calls, plain = [], graph_module.tighten_rows

    def interrupted(*arguments):
        plain(*arguments)
        calls.append(arguments)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(graph_module, "tighten_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        graph.tighten(U, P, Z, values)
    done = (before != Z).any(axis=1).sum()
    assert 0 < done < 500 and (Z[:done] == np.rint(Z[:done])).all() and (Z[done:] == before[done:]).all()
    monkeypatch.undo()
    Z, values = graph.solve_points(U, P)
    assert (graph.tighten(U, P, Z, values) == values).all() and (np.rint(Z) == Z).all()
