"""Needed-child sets, closures and single leaves of random trees, against enumeration and the example of the docs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structopt as so
from structopt.algorithms.registry import algorithm_of
from structopt.errors import DeclarationError
from structopt.recognize import Closure, Leaves, Tree


def random_parents(seed, n):
    rng = np.random.default_rng(seed)
    return np.array([rng.integers(-1, i) if i else -1 for i in range(n)])


def needed_child_sets(parent):
    """Every needed-child set as a 0/1 row."""
    n = len(parent)
    Y = np.array(list(product((0, 1), repeat=n)))
    ok = Y[:, parent < 0].any(axis=1)
    for i in range(n):
        children = np.flatnonzero(parent == i)
        if parent[i] >= 0:
            ok &= Y[:, i] <= Y[:, parent[i]]
        if len(children):
            ok &= Y[:, children].any(axis=1) | (Y[:, i] == 0)
    return Y[ok]


def closures(parent):
    Y = np.array(list(product((0, 1), repeat=len(parent))))
    inner = np.flatnonzero(parent >= 0)
    return Y[(Y[:, inner] <= Y[:, parent[inner]]).all(axis=1)]


def leaves(parent):
    rows = []
    for i in np.setdiff1d(np.arange(len(parent)), parent):
        row = np.zeros(len(parent), dtype=int)
        while i >= 0:
            row[i], i = 1, parent[i]
        rows.append(row)
    return np.array(rows)


def algorithm(kind, parent):
    """The algorithm of a kind, and its labels. The columns are numbered in another order than the nodes."""
    n = len(parent)
    column = np.random.default_rng(n).permutation(n)
    if kind == "tree":
        record, labels = Tree(np.append(-1, column), np.append(-1, parent + 1)), needed_child_sets(parent)
    elif kind == "closure":
        child = np.flatnonzero(parent >= 0)
        record, labels = Closure(column[child], column[parent[child]]), closures(parent)
    else:
        labels = leaves(parent)
        ptr = np.append(0, np.cumsum(labels.sum(axis=1)))
        record = Leaves(ptr, column[np.nonzero(labels)[1]])
    Y = np.zeros_like(labels)
    Y[:, column] = labels
    return algorithm_of(record, n), Y


KINDS = ("tree", "closure", "leaf")
cases = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 9))


@pytest.mark.parametrize("kind", KINDS)
@given(cases)
@settings(deadline=None, max_examples=25)
def test_labels_are_the_paths_of_the_diagram(kind, case):
    solver, Y = algorithm(kind, random_parents(*case))
    assert solver.diagram.count() == len(Y)
    assert {tuple(z) for z in solver.diagram.labels()} == {tuple(z) for z in Y.astype(float)}
    n = Y.shape[1]
    assert solver.diagram.n_nodes <= 2 * n + 2 and solver.diagram.n_arcs <= 4 * n + 1


def test_deep_and_wide_trees():
    n = 300
    gain = np.random.default_rng(0).normal(size=n)
    path, star = np.arange(-1, n - 1), np.append(-1, np.zeros(n - 1, int))
    ends = np.array([n], dtype=np.int64)
    for kind in KINDS:
        solver = algorithm_of(_large(kind, path), n)
        wanted = {"tree": gain.sum(), "leaf": gain.sum(), "closure": max(0.0, np.cumsum(gain).max())}[kind]
        assert solver.maximize(gain).value == pytest.approx(wanted)
        assert solver.count() == (n + 1 if kind == "closure" else 1)
        solver = algorithm_of(_large(kind, star), n)
        assert solver.count() == {"tree": 2 ** (n - 1) - 1, "leaf": n - 1, "closure": 2 ** (n - 1) + 1}[kind]
    front = algorithm_of(_large("tree", star), n).front_plan(np.append(0.0, np.ones(n - 1))[None], np.zeros(1))
    found = front.fronts(gain[None], np.zeros(1), np.zeros(1, int))
    np.testing.assert_allclose(found.h, gain[0] + np.cumsum(np.sort(gain[1:])[::-1]), atol=1e-12)
    assert ends[0] == n


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
    solver, _ = algorithm(kind, np.array([-1, 0, 0, 1, 1]))
    with pytest.raises(DeclarationError, match="finite"):
        solver.maximize_columns(np.array([0, value, 1, 1, 1])[:, None])
