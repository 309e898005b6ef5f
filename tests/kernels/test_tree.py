"""Needed-child sets, closures and single leaves of deep and wide trees, and the example of the docs."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.algorithms.registry import algorithm_of
from structopt.errors import DeclarationError
from structopt.recognize import Closure, Leaves, Tree

KINDS = ("tree", "closure", "leaf")


def test_deep_and_wide_trees():
    n = 300
    gain = np.random.default_rng(0).normal(size=n)
    path, star = np.arange(-1, n - 1), np.append(-1, np.zeros(n - 1, int))
    for kind in KINDS:
        solver = algorithm_of(_large(kind, path), n)
        wanted = {"tree": gain.sum(), "leaf": gain.sum(), "closure": max(0.0, np.cumsum(gain).max())}[kind]
        assert solver.maximize(gain).value == pytest.approx(wanted)
        assert solver.count() == (n + 1 if kind == "closure" else 1)
        assert solver.diagram.n_nodes <= 2 * n + 2 and solver.diagram.n_arcs <= 4 * n + 1
        solver = algorithm_of(_large(kind, star), n)
        assert solver.count() == {"tree": 2 ** (n - 1) - 1, "leaf": n - 1, "closure": 2 ** (n - 1) + 1}[kind]
        assert solver.diagram.n_nodes <= 2 * n + 2 and solver.diagram.n_arcs <= 4 * n + 1
    front = algorithm_of(_large("tree", star), n).front_plan(np.append(0.0, np.ones(n - 1))[None], np.zeros(1))
    found = front.fronts(gain[None], np.zeros(1), np.zeros(1, int))
    np.testing.assert_allclose(found.h, gain[0] + np.cumsum(np.sort(gain[1:])[::-1]), atol=1e-12)


def _large(kind, parent):
    n, inner = len(parent), np.flatnonzero(parent >= 0)
    if kind == "tree":
        return Tree(np.arange(-1, n), np.append(-1, parent + 1))
    if kind == "closure":
        return Closure(inner, parent[inner])
    rows = so.Hierarchy([(int(parent[i]), int(i)) for i in inner]).closure
    return Leaves(rows.indptr, rows.indices)


def test_the_example_of_the_docs():
    solver = algorithm_of(Tree(np.arange(-1, 5), np.array([-1, 0, 1, 1, 2, 2])), 5)
    found = solver.maximize(np.array([-1, 0.5, -2, -0.3, -0.4]))
    assert np.flatnonzero(found.z).tolist() == [0, 1, 3] and found.value == pytest.approx(-0.8)
    both = algorithm_of(Tree(np.array([0, 1]), np.array([-1, -1])), 2)
    assert both.maximize(np.array([3.0, -2.0])).value == 1.0, "every root is chosen"


def test_a_relaxation_answers_only_for_the_best_label():
    relaxed = Tree(np.array([-1, 0, 1]), np.array([-1, 0, 0]), integer=False)
    for record in (relaxed, Closure(np.array([1]), np.array([0]), integer=False)):
        assert algorithm_of(record, 2).answers == so.Question.ARGMAX
        assert algorithm_of(record, 2).front_plan(np.ones((1, 2)), np.zeros(1)) is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_gains_must_be_finite(value, kind):
    solver = algorithm_of(_large(kind, np.array([-1, 0, 0, 1, 1])), 5)
    with pytest.raises(DeclarationError, match="finite"):
        solver.maximize_columns(np.array([0, value, 1, 1, 1])[:, None])
