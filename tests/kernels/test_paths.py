"""Paths of acyclic graphs, declared as rows, that may be fractional or only look like paths; paths have a law."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.algorithms.paths import PathAlgorithm
from structopt.errors import DeclarationError, InfeasibleSpace
from structopt.oracle import Question


def network(integral, signs=(1.0,)):
    """The space of one path through five nodes, per sign of its rows."""
    matrix = np.zeros((5, 7))
    matrix[[0, 0, 1, 1, 2, 3, 2], range(7)] += 1.0
    matrix[[1, 2, 3, 4, 3, 4, 4], range(7)] -= 1.0
    supply = np.kron(signs, [1.0, 0.0, 0.0, 0.0, -1.0])
    return so.LabelSpace.from_matrices(np.kron(np.diag(signs), matrix), supply, supply, 0, 1, integral)


def path_algorithm(oracle):
    """The algorithm of an oracle, without the columns that are fixed."""
    algorithm = oracle._algorithm
    return getattr(algorithm, "_algorithm", algorithm)


def test_of_flows_that_may_be_fractional_only_the_best_is_a_path():
    rng = np.random.default_rng(3)
    space = network(1, signs=(1.0, -1.0))
    labels = space.enumerate()
    relaxed = so.Oracle(space, integral="relax")
    declared_so = so.Oracle(space.relaxed())
    for oracle, answers in ((relaxed, Question.ARGMAX), (declared_so, Question.ARGMAX | Question.K_BEST)):
        assert isinstance(oracle._algorithm, PathAlgorithm) and oracle.answers == answers
        c = rng.normal(size=labels.shape[1])
        assert oracle.maximize(c).value == pytest.approx((labels @ c).max())
        # A mixture of two paths meets the row, and no path need.
        row = rng.normal(size=labels.shape[1])
        level = 0.5 * float((labels @ row).min() + (labels @ row).max())
        found = oracle.maximize(c, rows=[(row, level, level)])
        assert found.z @ row == pytest.approx(level, abs=1e-6)
        assert found.value <= (labels @ c).max() + 1e-9
        with pytest.raises(DeclarationError, match="integral"):
            oracle.sums(c[None])


@pytest.mark.parametrize("integral", [[0] * 7, [1] + [0] * 6], ids=["continuous", "one integer arc"])
def test_the_paths_of_a_flow_are_not_listed_as_its_labels(integral):
    """A mixture of two paths may violate more than each: no search may take the paths for all that there is."""
    space = network(integral)
    assert isinstance(path_algorithm(so.Oracle(space)), PathAlgorithm)
    assert so.Oracle(space)._listed_labels is None
    if any(integral):
        return
    rng = np.random.default_rng(0)
    paths = network(1).enumerate()
    model = so.Model(space, {space.block_names[0]: so.features.Linear()}, so.losses.Hamming())
    X, Y, w = rng.normal(size=(40, 3)), paths[rng.integers(0, len(paths), 40)], rng.normal(size=21)
    found = so.train.StructuredRisk(model, X, Y, "slack", search="exact", rtol=1e-8).violations(w)
    scores, share, above = X @ w.reshape(7, 3).T, np.linspace(0.0, 1.0, 101), 0
    for i in range(40):
        h, g = (paths - Y[i]) @ scores[i], np.abs(paths - Y[i]).sum(axis=1)
        mixed_h, mixed_g = (np.multiply.outer(x, share)[:, None] + np.multiply.outer(x, 1.0 - share) for x in (h, g))
        best = ((1.0 + mixed_h) * mixed_g).max()
        assert found.upper[i] >= best - 1e-9
        above += best > ((1.0 + h) * g).max() + 1e-6
    assert above  # some mixture is worse than every path


def test_near_misses_are_no_paths():
    """A cycle, two units, a capacity below 1, a node that keeps some: all against enumeration or HiGHS."""
    arcs = np.array([[1, 1, 0, 0, 0], [-1, 0, 1, 1, 0], [0, -1, -1, 0, 1], [0, 0, 0, -1, -1]], dtype=float)
    cyclic = np.column_stack([arcs, [0, 1, -1, 0], [0, -1, 1, 0]])
    cases = {
        "cycle": so.LabelSpace.from_matrices(cyclic, [1, 0, 0, -1], [1, 0, 0, -1], 0, 1, 1),
        "two units": so.LabelSpace.from_matrices(arcs, [2, 0, 0, -2], [2, 0, 0, -2], 0, 1, 1),
        "capacity": so.LabelSpace.from_matrices(arcs, [1, 0, 0, -1], [1, 0, 0, -1], 0, [0.5, 1, 1, 1, 1], 0),
        "a node keeps some": so.LabelSpace.from_matrices(arcs, [1, 0, 0, -1], [1, 0, 1, 0], 0, 1, 1),
        "no way": so.LabelSpace.from_matrices(arcs, [1, 0, 0, -1], [1, 0, 0, -1], 0, [1, 1, 1, 0, 0], 1),
    }
    rng = np.random.default_rng(0)
    for name, space in cases.items():
        oracle, slow = so.Oracle(space), so.Oracle(space, solver="highs")
        assert not isinstance(path_algorithm(oracle), PathAlgorithm), name
        for c in rng.normal(size=(10, space.n_variables)):
            if name == "no way":
                for one in (oracle, slow):
                    with pytest.raises(InfeasibleSpace):
                        one.maximize(c)
            else:
                assert oracle.maximize(c).value == pytest.approx(slow.maximize(c).value, abs=1e-6), name


def test_a_large_network_is_its_own_diagram():
    """Walks of ten steps in a grid: too wide to be compiled item by item."""
    h, w, steps = 6, 7, 9
    cell = np.arange(h * w).reshape(h, w)
    ways = [(cell[:, :-1], cell[:, 1:]), (cell[:, 1:], cell[:, :-1]), (cell[:-1], cell[1:]), (cell[1:], cell[:-1])]
    tail = np.concatenate([a.ravel() for a, _ in ways])
    head = np.concatenate([b.ravel() for _, b in ways])
    leaves = sp.csr_array((np.ones(len(tail)), (tail, np.arange(len(tail)))), shape=(h * w, len(tail)))
    arrives = sp.csr_array((np.ones(len(tail)), (head, np.arange(len(tail)))), shape=(h * w, len(tail)))
    space = so.LabelSpace("walks")
    at, step = space.binary("at", (h * w, steps + 1)), space.binary("step", (len(tail), steps))
    space.subject_to(at[:, 0].sum() == 1, leaves @ step == at[:, :-1], arrives @ step == at[:, 1:])
    ways_on = np.zeros((h * w, h * w))
    ways_on[tail, head] = 1.0
    n_walks = int(np.linalg.matrix_power(ways_on, steps).sum())
    assert space.count() == n_walks
    oracle = so.Oracle(space)
    assert "DAG path" in repr(oracle)
    assert oracle.log_partition(np.zeros((1, space.n_variables)))[0] == pytest.approx(np.log(n_walks))
    c = np.random.default_rng(0).normal(size=space.n_variables)
    assert oracle.maximize(c).value == pytest.approx(so.Oracle(space, solver="highs").maximize(c).value)
    assert so.compile_space(space).count() == n_walks
    assert so.Oracle(space, solver="diagram").maximize(c).value == pytest.approx(oracle.maximize(c).value)


def walks_on_a_line(cells, steps, first=None):
    """Walks on a line, one cell on or back or none at each step; from the cell `first` if it is given."""
    tail = np.r_[np.arange(cells), np.arange(cells - 1), np.arange(1, cells)]
    head = np.r_[np.arange(cells), np.arange(1, cells), np.arange(cells - 1)]
    arc = np.arange(len(tail))
    leaves, arrives = (sp.csr_array((np.ones(len(arc)), (end, arc)), shape=(cells, len(arc))) for end in (tail, head))
    space = so.LabelSpace("walks on a line")
    at, step = space.binary("at", (cells, steps + 1)), space.binary("step", (len(arc), steps))
    space.subject_to(at[:, 0].sum() == 1, leaves @ step == at[:, :-1], arrives @ step == at[:, 1:])
    if first is not None:
        space.subject_to(at[first, 0] == 1)
    ways = np.array([[1 if abs(a - b) <= 1 else 0 for b in range(cells)] for a in range(cells)], dtype=object)
    count = np.ones(cells, dtype=object)
    for _ in range(steps):
        count = ways @ count
    return space, int(count.sum() if first is None else count[first])


def test_a_start_that_is_fixed_is_found_however_many_steps_follow():
    """Every step makes a few more cells unreachable: as many rounds as steps, and more than a hierarchy is deep."""
    space, count = walks_on_a_line(60, 50, first=0)
    assert space.structure.kind == "path"
    oracle = so.Oracle(space)
    assert isinstance(path_algorithm(oracle), PathAlgorithm)
    assert space.count() == count
    assert oracle.log_partition(np.zeros((1, space.n_variables)))[0] == pytest.approx(np.log(float(count)))


def test_walks_that_are_a_chain_of_groups_have_a_diagram():
    space, count = walks_on_a_line(40, 30)
    assert space.structure.kind == "group forest"
    assert space.count() == count
    oracle = so.Oracle(space)
    c = np.random.default_rng(0).normal(size=space.n_variables)
    assert oracle.log_partition(np.zeros((1, space.n_variables)))[0] == pytest.approx(np.log(float(count)))
    compiled = so.Oracle(space, solver="diagram")
    assert compiled.maximize(c).value == pytest.approx(oracle.maximize(c).value)
