"""Branch and bound by free queries against the enumeration of all labels."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt import search
from structopt.plane import Plane, PointPlane
from structopt.plane.branches import Branches
from structopt.plane.oracle import LinearOracle
from structopt.surrogates import ProbLoss, Slack


def dag(n, rng):
    edges = {(int(rng.integers(0, child)), child) for child in range(1, n) for _ in range(1 + child % 2)}
    return so.structures.HierarchicalLabels(so.Hierarchy(sorted(edges)), "closure")


def planes_of(oracle, labels, rng, n):
    """Planes with hubs: a few variables have large scores, so that labels lie below their hull; some losses are 0."""
    width = labels.shape[1]
    for _ in range(n):
        score = rng.normal(size=width) * rng.choice([0.3, 1.0, 6.0], width, p=[0.4, 0.4, 0.2])
        if rng.random() < 0.3:
            score = np.rint(score)
        truth = labels[rng.integers(len(labels))]
        weights = (
            rng.choice([0.0, 1.0, 2.0], width, p=[0.1, 0.6, 0.3]) if rng.random() < 0.7 else rng.uniform(0, 2, width)
        )
        coef = weights * (1.0 - 2.0 * truth)
        yield Plane(oracle, (score, -float(score @ truth)), (coef, -float(coef @ truth)), truth=truth)


def best_of(psi, plane, labels):
    points = [plane.evaluate(z) for z in labels]
    return max(psi.clipped(p.h, p.g if abs(p.g) > 1e-9 else 0.0) for p in points)


def test_a_relative_gap_is_kept():
    rng = np.random.default_rng(2)
    model = dag(60, rng)
    loose = tight = 0
    for plane in planes_of(model.oracle(), np.zeros((1, 60)), rng, 10):
        found = search.exact(plane, ProbLoss(), rtol=0.02, front=False)
        best = search.exact(plane, ProbLoss(), front=False)
        assert found.value >= 0.98 * found.upper_bound and found.upper_bound >= best.value * (1 - 1e-9)
        assert best.gap <= 1e-9
        loose, tight = loose + found.queries, tight + best.queries
    assert loose < tight


def test_larger_closures_against_constrained_queries():
    rng = np.random.default_rng(3)
    model = dag(25, rng)
    by_solver = so.Oracle(model.space(), solver="highs")
    proofs = []
    for plane in planes_of(model.oracle(), np.zeros((1, 25)), rng, 12):
        axes = plane.coordinates
        other = Plane(by_solver, (axes.h, axes.h0), (axes.g, axes.g0), truth=plane.truth)
        found, want = search.exact(plane, Slack(), front=False), search.exact(other, Slack(), front=False)
        assert found.value == pytest.approx(want.value, rel=1e-5, abs=1e-6)
        proofs.append(found.proof)
    assert "branch_and_bound" in proofs


class Listing(LinearOracle):
    """An oracle of one's own: it has `maximize`, and says that it is cheap."""

    _prefers_free_calls = True

    def __init__(self, space):
        self.space, self.labels = space.compiled, np.array(space.enumerate(), dtype=float)

    def maximize(self, c, rows=(), forbid=()):
        assert not len(rows) and not len(forbid)
        values = self.labels @ np.asarray(c)
        return so.Label(self.labels[values.argmax()], float(values.max()))


def test_an_oracle_of_ones_own():
    rng = np.random.default_rng(4)
    space = dag(8, rng).space()
    oracle = Listing(space)
    for plane in planes_of(oracle, oracle.labels, rng, 20):
        found = search.exact(plane, "slack", front=False)
        assert found.value == pytest.approx(best_of(Slack(), plane, oracle.labels), rel=1e-9, abs=1e-9)
        assert found.proof in ("vertex", "branch_and_bound")


def test_a_branch_without_labels_is_empty():
    space = so.LabelSpace.from_matrices([[1, 1, 1]], 1, 1)
    oracle = Listing(space)
    plane = Plane(oracle, ([1.0, 2.0, 3.0], 0.0), ([1.0, 0.0, 1.0], 0.0))
    branches = Branches.of([plane, plane])
    fixed = np.array([[1, -1, -1], [0, 0, -1], [1, 1, -1], [0, 0, 0]], dtype=np.int8)
    answer = branches.query(np.array([0, 1, 0, 1]), fixed, np.array([1.0, 0.0, 1.0, np.inf]))
    assert answer.empty.tolist() == [False, False, True, True]
    assert answer.Z[:2].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert answer.bound[:2].tolist() == [2.0, 3.0] and plane.counts["branches"] == 4


def test_planes_that_cannot_be_branched():
    space = so.LabelSpace()
    space.binary("y", 3)
    coordinates = ([1.0, 2.0, 3.0], 0.0), ([1.0, 1.0, 1.0], 0.0)
    by_solver = Plane(so.Oracle(space, solver="highs"), *coordinates)
    relaxed = Plane(so.Oracle(space, integral="relax"), *coordinates)
    rowed = Plane(so.Oracle(space), *coordinates, rows=[([1.0, 1.0, 1.0], 1.0, 3.0)])
    for planes in ([by_solver], [relaxed], [rowed], [PointPlane([(1, 1)])], []):
        assert Branches.of(planes) is None
