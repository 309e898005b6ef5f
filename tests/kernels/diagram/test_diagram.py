"""Decision diagrams: what is compiled, what is refused and why, and every answer against all labels."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.algorithms.diagram import DiagramAlgorithm, compile_diagram
from structopt.errors import DiagramRefused, InfeasibleSpace


@pytest.mark.parametrize("first", range(0, 90, 30))
def test_random_spaces_against_brute_force(first, fuzz):
    kinds = [fuzz("diagrams").case(seed) for seed in range(first, first + 30)]
    # Most are compiled; what is refused is refused for a reason that brute force confirms.
    assert kinds.count("compiled") >= 15
    assert set(kinds) <= {"compiled", "empty", "refused: tolerance", "refused: not determined"}


def knapsack(n=12, rows=2, seed=0):
    W = np.random.default_rng(seed).integers(1, 10, (rows, n)).astype(float)
    return so.LabelSpace.from_matrices(W, -np.inf, np.floor(W.sum(axis=1) * 0.4))


def compiled(space):
    """The diagram of a space, whose labels are the enumerated ones."""
    diagram = compile_diagram(space.compiled)
    labels = {tuple(z) for z in np.round(diagram.labels(), 9).tolist()}
    assert labels == {tuple(z) for z in np.round(space.enumerate(), 9).tolist()}
    assert len(labels) == diagram.count()
    return diagram


def check_everything(space):
    report = so.testing.check_oracle(so.Oracle(space, "diagram"), answers=~so.Question(0), n=4)
    assert report.ok, report
    return compiled(space)


def test_one_of_groups_are_one_layer():
    space = so.LabelSpace()
    y = space.binary("y", (4, 3))
    space.subject_to(y.sum(axis=1) == 1, y[:-1, 0] + y[1:, 0] <= 1)
    assert len(check_everything(space).widths) == 4


def test_chain_marginals_are_determined():
    space = so.LabelSpace()
    y, p = space.binary("y", (4, 3)), space.continuous("p", (3, 3, 3), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
    space.subject_to(y[:, 2].sum() <= 1)
    diagram = check_everything(space)
    assert diagram.count() == 2**4 + 4 * 2**3


def test_independent_blocks_add_up():
    blocks = [knapsack(8, 2, seed).compiled for seed in range(3)]
    space = so.LabelSpace.from_matrices(
        sp.block_diag([block.matrix for block in blocks], format="csr"),
        -np.inf,
        np.concatenate([block.row_upper for block in blocks]),
    )
    apart = [compile_diagram(block) for block in blocks]
    together = compile_diagram(space.compiled)
    assert together.n_arcs == sum(diagram.n_arcs for diagram in apart)
    assert together.count() == np.prod([diagram.count() for diagram in apart])
    c = np.random.default_rng(0).normal(size=24)
    value = sum(DiagramAlgorithm(d).maximize(part).value for d, part in zip(apart, np.split(c, 3), strict=True))
    assert DiagramAlgorithm(together).maximize(c).value == pytest.approx(value)


def test_equal_blocks_are_compiled_once(monkeypatch):
    from structopt.algorithms.diagram import compiler

    made = []
    compile_block = compiler._compile_block
    monkeypatch.setattr(compiler, "_compile_block", lambda *args: made.append(1) or compile_block(*args))
    space = so.LabelSpace()
    y = space.binary("y", (4, 3))
    weight, most = np.array([[3.0, 5, 2], [3, 5, 2], [5, 3, 2], [3, 5, 2]]), [5, 5, 5, 6]
    for k in range(4):
        space.subject_to(weight[k] @ y[k] <= most[k])
    group = space.binary("group", (2, 3))
    space.subject_to(group.sum(axis=1) == 1, group[:, 0] + group[:, 1] <= 1)
    compiled(space)
    # Rows 0 and 1 are equal; 5 3 2 is another order of the same weights, 6 another bound; the groups are equal.
    assert len(made) == 4


def test_free_variables_and_fixed_ones():
    space = so.LabelSpace.from_matrices(
        [[1, 1, 0, 0, 0]], 1, 1, lower=[0, 0, -1, 2, 0], upper=[1, 1, 1, 2, 1], integrality=1
    )
    assert check_everything(space).count() == 2 * 3 * 2


def test_all_variables_fixed():
    space = so.LabelSpace.from_matrices([[1, 1]], 3, 3, lower=[1, 2], upper=[1, 2])
    diagram = check_everything(space)
    assert (diagram.n_nodes, diagram.n_arcs, diagram.count()) == (1, 0, 1)


def test_counts_are_exact_beyond_floats():
    space = so.LabelSpace.from_matrices(np.ones((1, 200)), 0, 100)
    diagram = compile_diagram(space.compiled)
    assert diagram.count() == sum(math.comb(200, k) for k in range(101))


def test_the_same_space_gives_the_same_diagram():
    one, two = compile_diagram(knapsack().compiled), compile_diagram(knapsack().compiled)
    assert all(np.array_equal(a, b) for a, b in zip(one.arrays, two.arrays, strict=True))


def test_pickles_and_is_frozen():
    diagram = pickle.loads(pickle.dumps(compile_diagram(knapsack().compiled)))
    assert "labels" in repr(diagram) and diagram.nbytes > 0
    with pytest.raises(ValueError, match="read-only"):
        diagram.head[0] = 0


def test_ties_go_to_the_lexicographically_first_label_of_one_row():
    space = so.LabelSpace.from_matrices(np.ones((1, 4)), 2, 2)
    algorithm = DiagramAlgorithm(compile_diagram(space.compiled))
    assert algorithm.maximize(np.zeros(4)).z.tolist() == space.enumerate()[0].tolist()


def test_large_costs_do_not_overflow_in_sums():
    algorithm = DiagramAlgorithm(compile_diagram(knapsack().compiled))
    c = 1e4 * np.random.default_rng(0).normal(size=12)
    best = algorithm.maximize(c)
    np.testing.assert_allclose(algorithm.marginals(c[None])[0], best.z, atol=1e-12)
    assert algorithm.log_partition(c[None])[0] == pytest.approx(best.value)


@pytest.mark.parametrize("size", [1e17, 1e300])
def test_huge_equal_costs_leave_probabilities(size):
    # Beside a value of 1e17 the logarithm of a number of labels is lost; marginals must not be.
    space = so.LabelSpace.from_matrices([[1, 1, 1, 1, 1, 2]], 0, 3)
    algorithm = DiagramAlgorithm(compile_diagram(space.compiled))
    labels = algorithm.diagram.labels()
    best = labels[labels.sum(axis=1) == 3.0]
    assert len(best) == 10
    c = np.full(6, size)
    np.testing.assert_allclose(algorithm.marginals(c[None])[0], best.mean(axis=0), atol=1e-12)
    drawn = algorithm.sample(c, 2000, np.random.default_rng(0))
    assert np.abs(drawn.mean(axis=0) - best.mean(axis=0)).max() < 5 * np.sqrt(0.25 / 2000)


@pytest.mark.parametrize("unit", [1e7, 1e17, 1e300])
def test_fronts_of_huge_losses(unit):
    algorithm = DiagramAlgorithm(compile_diagram(knapsack().compiled))
    h = np.random.default_rng(0).normal(size=12)
    expected = algorithm.front(h, 0.0, np.ones(12), 0.0)
    np.testing.assert_array_equal(algorithm.front(h, 0.0, np.full(12, unit), 0.0), expected)


# ---- refusals --------------------------------------------------------------------------------------


def test_too_wide_names_the_rows():
    rng = np.random.default_rng(0)
    space = so.LabelSpace.from_matrices(rng.integers(1, 1000, (3, 40)), -np.inf, 8000)
    with pytest.raises(DiagramRefused, match="too wide") as told:
        compile_diagram(space.compiled, max_nodes=1000)
    assert told.value.reason == "width" and len(told.value.widths) > 3
    assert set(told.value.rows) == {"row[0]", "row[1]", "row[2]"}


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        (lambda: so.LabelSpace.from_matrices([[1, 1]], 0, 1, 0, 1, integrality=0), "no integers"),
        (lambda: so.LabelSpace.from_matrices([[1, -1]], 0, 1, 0, np.inf), "unbounded"),
        (lambda: so.LabelSpace.from_matrices([[1, 1]], 0, 4000, 0, 2000), "domain"),
        (lambda: so.LabelSpace.from_matrices([[1, 1]], 0, 1, 0, 1, integrality=[1, 0]), "not determined"),
        (lambda: so.LabelSpace.from_matrices([[1, -1, 1]], -np.inf, 0.9999995), "tolerance"),
    ],
)
def test_reasons(space, reason):
    with pytest.raises(DiagramRefused) as told:
        compile_diagram(space().compiled)
    assert told.value.reason == reason


def test_unbounded_integers_are_bounded_by_rows():
    space = so.LabelSpace.from_matrices([[2, 3]], 0, 12, 0, np.inf)
    assert compile_diagram(space.compiled).count() == sum(1 for a in range(7) for b in range(5) if 2 * a + 3 * b <= 12)


@pytest.mark.parametrize("unit", [np.pi, 1e15, 1e-9, -np.e, 1e-150])
def test_a_side_that_the_signs_imply_is_not_a_matter_of_tolerance(unit):
    # 0 <= a z with a >= 0 holds for every label, also where a is no small fraction.
    row = unit * np.array([[1.0, 2.0, 3.1, np.sqrt(2)]])
    low, up = min(0.0, 4.05 * unit), max(0.0, 4.05 * unit)
    compiled(so.LabelSpace.from_matrices(row, low, up))


@pytest.mark.parametrize("unit", [1e-300, 1e300, 1e308])
def test_coefficients_whose_multiples_overflow_are_refused(unit):
    with pytest.raises(DiagramRefused, match=r"Row row\[0\] has the coefficient") as told:
        compile_diagram(so.LabelSpace.from_matrices(unit * np.array([[1.0, 1.5, 1.0]]), 0, 1.7 * unit).compiled)
    assert told.value.reason == "tolerance" and told.value.rows == ("row[0]",)


def test_a_budget_beyond_memory_is_refused():
    with pytest.raises(so.errors.DeclarationError, match="max_nodes"):
        so.compile_space(knapsack(), max_nodes=10**12)


def test_empty_spaces():
    for A, low, up in ([[1, 1]], 3, 4), ([[1, 1]], 1.3, 1.4), ([[2, 2], [1, -1]], [2, 0], [2, 0]):
        with pytest.raises(InfeasibleSpace):
            compile_diagram(so.LabelSpace.from_matrices(A, low, up).compiled)


def test_a_small_excess_in_a_row_of_large_coefficients_is_not_taken_for_rounding():
    # The tolerance of `contains` is relative to the terms that meet: here to 1, and not to the 10,000 of the other.
    space = so.LabelSpace.from_matrices([[1, -10_000]], -np.inf, 0.999995)
    assert not space.contains([1, 0])
    with pytest.raises(DiagramRefused):
        compile_diagram(space.compiled)
