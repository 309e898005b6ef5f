"""Chains and trees of one-of-many groups and what only looks like them."""

import numpy as np
import pytest

import structopt as so
from structopt.errors import InfeasibleSpace


def tree(edges, n_states, skip=()):
    """Groups joined by pair variables: the local marginal polytope."""
    n_groups = max(map(max, edges)) + 1
    space = so.LabelSpace("tree")
    y = space.binary("y", (n_groups, n_states))
    space.subject_to(y.sum(axis=1) == 1, name="one")
    for number, (a, b) in enumerate(edges):
        pair = space.continuous(f"pair{number}", (n_states, n_states), 0, 1)
        rows = [pair.sum(axis=1) == y[a], pair.sum(axis=0) == y[b]]
        for side, row in enumerate(rows):
            if (number, side) not in skip:
                space.subject_to(row, name=f"edge{number}.{side}")
    return space


CHAIN = [(0, 1), (1, 2), (2, 3)]


def conflicts(pairs, n_groups=3, n_states=3, kind="binary"):
    space = so.LabelSpace("states that may not meet")
    y = getattr(space, kind)("y", (n_groups, n_states), *(() if kind == "binary" else (0, 1)))
    space.subject_to(y.sum(axis=1) == 1)
    for (a, s), (b, k) in pairs:
        space.subject_to(y[a, s] + y[b, k] <= 1)
    return space


def test_groups_that_may_never_meet_are_infeasible():
    space = conflicts([((0, s), (1, k)) for s in range(3) for k in range(3)], n_groups=2)
    assert space.structure.kind == "general"
    with pytest.raises(InfeasibleSpace):
        so.Oracle(space).maximize(np.zeros(space.n_variables))


def near_misses():
    yield "a marginal row is missing", tree(CHAIN, 3, skip={(1, 0)})
    yield "a cycle of groups", tree([*CHAIN, (0, 3)], 2)
    yield "two edges between the same groups", tree([(0, 1), (0, 1)], 2)
    yield "conflicts of continuous states", conflicts([((0, 0), (1, 1))], kind="continuous")
    yield "a cycle of conflicts", conflicts([((0, 0), (1, 0)), ((1, 1), (2, 1)), ((0, 2), (2, 2))])
    space = tree(CHAIN, 3)
    space.subject_to(space["y"][0, 0] + space["y"][1, 0] + space["y"][2, 0] <= 1)
    yield "a row of three states", space
    space = tree(CHAIN, 3)
    space.subject_to(space["y"][0, 0] == space["y"][3, 0])
    yield "two states are equal", space
    space = tree(CHAIN, 2)
    space.subject_to(space["pair0"][0, 0] <= 0.5)
    yield "a pair variable of at most one half", space
    space = tree(CHAIN, 2)
    space.subject_to(space["pair0"][0, 0] + space["pair1"][0, 0] <= 1)
    yield "a row over pair variables", space
    space = so.LabelSpace("at most one")
    y, pair = space.binary("y", (2, 2)), space.continuous("pair", (2, 2), 0, 1)
    space.subject_to(y.sum(axis=1) <= 1, pair.sum(axis=1) == y[0], pair.sum(axis=0) == y[1])
    yield "a group that may stay empty", space
    space = so.LabelSpace("three rows in a circle")
    y, pair = space.binary("y", (3, 2)), space.continuous("pair", (3, 2), 0, 1)
    space.subject_to(y == pair + pair[[1, 2, 0]], y[0].sum() == 1)
    yield "marginal rows with two edges each", space


@pytest.mark.parametrize("name, space", list(near_misses()), ids=lambda value: value if isinstance(value, str) else "")
def test_near_misses_are_solved_right_whatever_they_are(name, space):
    assert space.structure.kind != "group forest", name
    fast, solver = so.Oracle(space), so.Oracle(space, "highs", integral="force")
    for seed in range(3):
        c = np.random.default_rng(seed).normal(size=space.n_variables)
        label = fast.maximize(c)
        assert space.contains(label.z)
        assert label.value == pytest.approx(solver.maximize(c).value, abs=1e-7)


def test_labels_are_distinguished_by_integer_variables_only():
    """Two paths that differ in continuous variables are one label, of which there is no second best."""
    space = so.LabelSpace("one integer arc")
    arc = space.continuous("arc", 4, 0, 1)
    last = space.binary("last", 1)
    space.subject_to(arc.sum() == 1, arc.sum() == last.sum())
    c = np.array([3.0, 2.0, 1.0, 0.0, 0.0])
    values = [[label.value for label in so.Oracle(space, solver).k_best(c, 3)] for solver in ("auto", "highs")]
    assert values[0] == pytest.approx(values[1])
