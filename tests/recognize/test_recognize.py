"""Recognition is invariant under how a space is written, and every claim holds on mutated declarations."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.recognize import (
    Assignment,
    Cardinality,
    Closure,
    Pairwise,
    Path,
    Tree,
    recognize,
)

#: What the declarations of the fuzz job are recognised as, where they are not simpler by chance.
KINDS = {
    name: name
    for name in ("box", "simplices", "cardinality", "closure", "pairwise", "assignment", "tree", "path", "flow")
} | {"forest": "closure", "groups": "group forest"}


@pytest.mark.parametrize("name", KINDS)
def test_disguised_declarations_are_recognised(kit, name):
    seen = []
    for seed in range(8):
        rng = np.random.default_rng([seed, list(KINDS).index(name)])
        rows = getattr(kit.job, name)(rng)
        seen.append(recognize(kit.of_rows(rows)).kind)
        kit.job.disguise(rng, rows)
        structure = recognize(kit.of_rows(rows))
        assert structure.kind == seen[-1], structure
        kit.check(kit.of_rows(rows), rng)
    assert seen.count(KINDS[name]) >= 2, seen


@pytest.mark.parametrize("first", [10, 30, 50, 70])
def test_claims_hold_on_mutated_declarations(kit, first):
    found = [kit.job.case(seed) for seed in range(first, first + 20)]
    assert sum("general" not in word for word in found) >= 5, found


def test_blocks_make_a_product(kit):
    products = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, 7])
        one, two = (getattr(kit.job, name)(rng) for name in rng.choice([k for k in KINDS if k != "flow"], 2))
        rows = kit.job.join(rng, one, two)
        if rows.n > 13 or len(rows.did) > 2:  # blocks that share a column
            continue
        kit.job.disguise(rng, rows)
        structure = recognize(kit.of_rows(rows))
        kit.check(kit.of_rows(rows), rng)
        products += structure.kind == "product"
        if structure.kind == "product":
            columns = np.concatenate([structure.fixed_columns, *(part.columns for part in structure.parts)])
            assert np.array_equal(np.sort(columns), np.arange(rows.n))
    assert products >= 3


def test_fixed_columns_are_substituted(kit):
    # A matching in which one pair is forced and another forbidden leaves a smaller matching.
    A = np.zeros((8, 16))
    for i in range(4):
        for j in range(4):
            A[[i, 4 + j], 4 * i + j] = 1
    upper = np.ones(16)
    upper[5] = 0
    lower = np.zeros(16)
    lower[0] = 1
    space = kit.space(A, 1, 1, lower, upper)
    structure = recognize(space)
    assert structure.kind == "assignment"
    assert structure.fixed_columns.tolist() == [0, 1, 2, 3, 4, 5, 8, 12]
    assert structure.fixed_values.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert isinstance(structure.record, Assignment) and structure.record.left_ptr.tolist() == [0, 3]
    kit.check(space, np.random.default_rng(0))


def test_closure_below_a_fixed_root_stays_a_closure(kit):
    A = np.array([[-1.0, 1, 0, 0], [-1, 0, 1, 0], [0, -1, 0, 1], [0, 0, -1, 1]])  # a diamond
    structure = recognize(kit.space(A, -np.inf, 0, [1, 0, 0, 0], 1))
    assert structure.kind == "closure" and structure.columns.tolist() == [1, 2, 3]
    assert isinstance(structure.record, Closure) and structure.oracle == "min cut"
    assert structure.oracle == "min cut"


def test_the_tree_of_the_mathematical_specification(kit):
    # docs/mathematics/hierarchies#normalisation: root 0 with children 1, 2; node 1 with leaves 3, 4.
    rows = [({1: 1, 0: -1}, 1), ({2: 1, 0: -1}, 1), ({3: 1, 1: -1}, 1), ({4: 1, 1: -1}, 1)]
    rows += [({1: 1, 2: 1, 0: -1}, 0), ({3: 1, 4: 1, 1: -1}, 0)]
    A = np.zeros((6, 5))
    for i, (entries, _) in enumerate(rows):
        for j, a in entries.items():
            A[i, j] = a
    upper = np.array([0.0 if below else np.inf for _, below in rows])
    lower = np.array([-np.inf if below else 0.0 for _, below in rows])
    space = kit.space(A, lower, upper, [1, 0, 0, 0, 0], 1)
    structure = recognize(space)
    assert structure.kind == "tree" and structure.integral
    assert isinstance(structure.record, Tree)
    for gains, value, label in (
        ([-1, 0.5, -2, -0.3, -0.4], -0.8, [1, 1, 0, 1, 0]),
        ([0.2, -3, 1, 1, 2], 1.2, [1, 0, 1, 0, 0]),
    ):
        z = so.Oracle(space).maximize(gains).z
        assert z.tolist() == label and z @ gains == pytest.approx(value)
    # Several roots: sum over roots >= 1 instead of a fixed root.
    forest = kit.space(A[[2, 3, 4, 5]][:, 1:], [-np.inf, -np.inf, 1, 0], [0, 0, np.inf, np.inf])
    assert recognize(forest).kind == "tree"
    # One cover row less, and a node needs no child: not this program.
    assert recognize(kit.space(A[:5], lower[:5], upper[:5], [1, 0, 0, 0, 0], 1)).kind != "tree"


def test_a_missing_third_row_is_a_closure_not_a_local_polytope(kit):
    A = np.array([[-1.0, 0, 1], [0, -1, 1]])
    assert recognize(kit.space(A, -np.inf, 0)).kind == "closure"


def test_pairwise_integrality_decides_the_oracle(kit):
    A = np.array([[-1.0, 0, 1], [0, -1, 1], [-1, -1, 1]])
    bounds = ([-np.inf, -np.inf, -1], [0, 0, np.inf])
    triangle = np.zeros((9, 6))
    for e, (j, k) in enumerate([(0, 1), (0, 2), (1, 2)]):
        triangle[3 * e, [3 + e, j]] = triangle[3 * e + 1, [3 + e, k]] = 1, -1
        triangle[3 * e + 2, [3 + e, j, k]] = 1, -1, -1
    low, high = np.tile(bounds[0], 3), np.tile(bounds[1], 3)
    relaxed = recognize(kit.space(triangle, low, high, integrality=False))
    assert relaxed.kind == "pairwise" and relaxed.oracle == "roof duality"
    assert relaxed.half_integral and not relaxed.integral
    exact = recognize(kit.space(triangle, low, high, integrality=[True] * 3 + [False] * 3))
    assert exact.oracle == "persistency"
    # Some labels integer and others not: neither oracle solves that, unless the pairs form a forest.
    assert recognize(kit.space(triangle, low, high, integrality=[True] + [False] * 5)).kind == "general"
    # An integer p above continuous labels is a different problem, too.
    assert recognize(kit.space(triangle, low, high, integrality=[False] * 3 + [True] * 3)).kind == "general"
    forest = recognize(kit.space(A, *bounds, integrality=[True, False, False]))
    assert forest.kind == "pairwise" and forest.integral and forest.oracle == "roof duality"
    assert isinstance(forest.record, Pairwise) and forest.record.forest and forest.record.integer


def test_two_variables_for_one_pair_are_not_recognised(kit):
    A = np.array([[-1.0, 0, 1, 0], [0, -1, 1, 0], [-1, -1, 1, 0], [-1, 0, 0, 1], [0, -1, 0, 1], [-1, -1, 0, 1]])
    structure = recognize(kit.space(A, [-np.inf, -np.inf, -1] * 2, [0, 0, np.inf] * 2))
    assert structure.kind == "general" and not structure.integral


def test_integer_rows_are_rounded_inwards_and_say_so(kit):
    space = kit.space([[2.0, 2.0, 2.0]], -np.inf, 5.0)
    structure = recognize(space)
    assert structure.kind == "cardinality" and structure.tightened
    assert isinstance(structure.record, Cardinality) and structure.record.upper.tolist() == [2]
    # The LP as declared has the vertex (1, 1, 1/2): nothing may be claimed about it.
    assert not structure.integral and not structure.half_integral
    kit.check(space, np.random.default_rng(0), objectives=5)
    assert recognize(space.relaxed()).kind != "cardinality"


def test_a_bound_within_tolerance_of_an_integer_means_what_contains_says(kit):
    # 0.3 / 0.1 is just below 3, and three ones are a label.
    space = kit.space([[0.1] * 4], -np.inf, 0.3)
    structure = recognize(space)
    assert structure.kind == "cardinality" and structure.tightened
    kit.check(space, np.random.default_rng(0), objectives=5)
    # With terms of both signs the tolerance grows with them, and no integer row says the same.
    structure = recognize(kit.space([[0.1, 0.1, -0.1, -0.1]], -np.inf, 0.1 - 2e-8))
    assert structure.oracle == "mip" and not structure.tightened


def test_fractional_bounds_beside_other_rows_and_fixed_columns(kit):
    # Only the second row needs the rule of `contains`; its entry in the fixed column moves into the bound.
    rows = [[1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.1, 0.1, 0.1], [3.0, 3.0, 0.0, 0.0, 0.0]]
    space = kit.space(rows, -np.inf, [1.0, 0.2, 5.0], lower=[0, 0, 0, 0, 1])
    structure = recognize(space)
    assert structure.kind == "simplices" and structure.tightened
    assert structure.fixed_columns.tolist() == [4] and structure.fixed_values.tolist() == [1.0]
    kit.check(space, np.random.default_rng(0), objectives=20)


def test_division_that_would_free_a_row_is_not_made(kit):
    structure = recognize(kit.space([[1e-300, 1e-300]], -np.inf, 1e10))
    assert structure.kind == "general" and not structure.integral


def test_an_empty_space_is_left_to_the_solver(kit):
    for A, low, high in (
        ([[1.0, 1.0]], 3, 4),
        ([[1.0, 0.0], [1.0, 0.0]], [1, -np.inf], [1, 0]),
        ([[0.0, 0.0]], 1, 1),
    ):
        structure = recognize(kit.space(A, low, high))
        assert structure.kind == "general" and "empty" in structure.reason and not structure.integral


def test_unbounded_columns_are_general(kit):
    space = kit.space(np.zeros((0, 2)), 0, 0, 0, np.inf)
    assert recognize(space).kind == "general"
    assert "'x0'" in recognize(space).reason


def test_a_budget_row_is_named_as_the_obstacle(kit):
    space = kit.space([[-1.0, 1, 0], [-1, 0, 1], [2, 3, 4]], -np.inf, [0, 0, 5])
    structure = recognize(space)
    assert structure.kind == "general" and "'r2'" in structure.reason
    assert structure.oracle == "mip" and structure.totally_unimodular is None
    assert recognize(space.relaxed()).oracle == "lp"


def test_general_but_unimodular_spaces_need_no_mip(kit):
    A = np.array([[1.0, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1]])  # overlapping intervals
    space = kit.space(A, 1, 2)
    structure = recognize(space)
    assert structure.kind == "general" and structure.totally_unimodular and structure.oracle == "lp"
    kit.check(space, np.random.default_rng(0), objectives=5)
    fractional = recognize(kit.space(A, 1, 1.5, integrality=False))
    assert fractional.totally_unimodular and not fractional.integral


def test_the_unimodularity_proof_is_computed_on_demand(kit, monkeypatch):
    def refuse(matrix):
        raise AssertionError("not asked for")

    monkeypatch.setattr("structopt.recognize.structure.prove_totally_unimodular", refuse)
    A = np.array([[1.0, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1]])
    structure = recognize(kit.space(A, 1, 2))
    repr(structure), structure._repr_html_()
    assert recognize(kit.space([[-1.0, 1.0]], -np.inf, 0)).integral
    assert recognize(kit.space(A, 1, 2, integrality=False)).oracle == "lp"
    with pytest.raises(AssertionError, match="not asked for"):
        structure.totally_unimodular  # noqa: B018


def test_chain_in_node_arc_form_is_a_path(kit):
    rng = np.random.default_rng(3)
    length, states = 4, 3
    arcs = [(-1, s) for s in range(states)]
    arcs += [
        (t * states + r, (t + 1) * states + s) for t in range(length - 1) for r in range(states) for s in range(states)
    ]
    last = (length - 1) * states
    A = np.zeros((length * states + 1, len(arcs) + states))
    for k, (a, b) in enumerate(arcs):
        A[a, k], A[b, k] = 1, -1  # row -1 is the source
    for s in range(states):
        A[last + s, len(arcs) + s] = 1  # into the sink, whose row is redundant and missing
    supply = np.zeros(len(A))
    supply[-1] = 1
    space = kit.space(A, supply, supply)
    structure = recognize(space)
    assert structure.kind == "path" and structure.oracle == "DAG path"
    assert isinstance(structure.record, Path) and structure.record.order.size == length * states + 2
    kit.check(space, rng, objectives=5)
    # Forbidding a transition by an upper bound of 0 keeps the path; closing a cycle does not.
    upper = np.ones(space.n_variables)
    upper[states] = 0
    assert recognize(kit.space(A, supply, supply, 0, upper)).kind == "path"
    cycle = np.zeros((len(A), 1))
    cycle[states, 0], cycle[0, 0] = 1, -1
    assert recognize(kit.space(np.hstack([A, cycle]), supply, supply)).kind == "flow"


def test_an_unreachable_sink_is_not_a_path(kit):
    A = np.array([[1.0, 0, 0], [-1, 0, 1], [0, 1, -1], [0, -1, 0]])
    # Arcs 0 -> 1, 2 -> 3 and 1 -> 2; without the last one there is no way through.
    supply = np.array([1.0, 0, 0, -1])
    assert recognize(kit.space(A[:, :2], supply, supply)).kind in ("general", "flow")


def test_ten_thousand_blocks_are_not_a_loop(kit, count_calls):
    blocks = 10_000
    triangle = np.zeros((9, 6))
    for e, (j, k) in enumerate([(0, 1), (0, 2), (1, 2)]):
        triangle[3 * e, [3 + e, j]] = triangle[3 * e + 1, [3 + e, k]] = 1, -1
        triangle[3 * e + 2, [3 + e, j, k]] = 1, -1, -1
    path = np.array([[1.0, 1, 0, 0, 0], [-1, 0, 1, 1, 0], [0, -1, -1, 0, 1]])
    A = sp.kron(sp.eye_array(blocks), sp.block_diag([triangle, path]))
    low = np.tile([-np.inf, -np.inf, -1] * 3 + [1, 0, 0], blocks)
    high = np.tile([0, 0, np.inf] * 3 + [1, 0, 0], blocks)
    space = kit.space(A, low, high)
    found = []
    assert count_calls(lambda: found.append(recognize(space))) < blocks
    structure = found[0]
    assert [part.kind for part in structure.parts] == ["pairwise", "path"]
    assert structure.parts[1].record.sources.size == blocks


def test_claims_survive_pickling_and_print_well(kit):
    structure = recognize(kit.space([[-1.0, 1.0, 0.0]], -np.inf, 0))
    again = pickle.loads(pickle.dumps(structure))
    assert again.kind == "closure" and again.totally_unimodular and again.integral
    assert repr(structure).startswith("<Structure closure: 3 variables")
    assert "y_child &lt;= y_parent" in structure._repr_html_()
    assert "child=[1]" in repr(structure.record)


def test_repeated_and_implied_rows_do_no_harm(kit):
    A = np.array([[-1.0, 1, 0], [-2, 2, 0], [-1, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0]])
    structure = recognize(kit.space(A, [-np.inf, -np.inf, -np.inf, -1, -1, 0], [0, 0, 0, 3, 1, 9]))
    assert structure.kind == "closure" and structure.integral
    # The claim of unimodularity is about every declared row, also those that never bind.
    odd = np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]])
    idle = recognize(kit.space(odd, -np.inf, 2))
    assert idle.kind == "box" and idle.totally_unimodular is None and idle.integral


def test_arcs_that_lead_nowhere_are_fixed():
    """A chain of nodes that nothing leaves: what flows into them is 0, one after the other, and paths are left."""
    tail = [0, 0, 1, 2, 1, 4, 5]
    head = [1, 2, 3, 3, 4, 5, 6]
    A = np.zeros((7, 7))
    A[tail, range(7)], A[head, range(7)] = 1.0, -1.0
    b = np.array([1.0, 0, 0, -1, 0, 0, 0])
    for sign in (1.0, -1.0):
        structure = so.LabelSpace.from_matrices(sign * A, sign * b, sign * b, 0, 1, 1).structure
        assert structure.fixed_columns.tolist() == [4, 5, 6] and not structure.fixed_values.any()
        assert structure.kind != "flow" and structure.kind != "general"


def test_a_row_that_holds_in_one_corner_fixes_its_columns():
    """x + y - z >= 2 of 0/1 variables: x = y = 1, z = 0."""
    A = np.array([[1.0, 1, -1, 0, 0], [0, 0, 1, 1, 1]])
    structure = so.LabelSpace.from_matrices(A, [2, 1], [np.inf, 1], 0, 1, 1).structure
    assert structure.fixed_columns.tolist() == [0, 1, 2] and structure.fixed_values.tolist() == [1, 1, 0]
    assert structure.kind == "simplices"
    empty = so.LabelSpace.from_matrices(np.vstack([A, [[0, 0, 1, 0, 0]]]), [2, 1, 1], [np.inf, 1, 1], 0, 1, 1)
    with pytest.raises(so.errors.InfeasibleSpace):
        so.Oracle(empty).maximize(np.ones(5))
