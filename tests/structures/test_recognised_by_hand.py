"""Models written by hand in Pyomo and PuLP get the fast oracle from their matrix alone, with HiGHS's values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import structopt as so

pulp = pytest.importorskip("pulp")
pyo = pytest.importorskip("pyomo.environ")


# ---- PuLP ----------------------------------------------------------------------------------------


def one_colour_each() -> so.LabelSpace:
    problem = pulp.LpProblem("colours", pulp.LpMaximize)
    x = pulp.LpVariable.dicts("x", (range(5), range(4)), cat="Binary")
    for i in range(5):
        problem += pulp.lpSum(x[i].values()) == 1
    return so.LabelSpace.from_pulp(problem)


def ontology() -> so.LabelSpace:
    """A DAG: term 5 has two parents. Rows are scaled and turned around as people do."""
    problem = pulp.LpProblem("ontology", pulp.LpMaximize)
    y = pulp.LpVariable.dicts("y", range(8), cat="Binary")
    for child, parent in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 1)]:
        problem += y[child] <= y[parent]
    problem += 2 * y[2] - 2 * y[5] >= 0
    problem += y[6] - y[2] <= 0
    problem += y[5] / 3 - y[7] / 3 >= 0
    return so.LabelSpace.from_pulp(problem)


def pairs_of_tags(integer: bool) -> so.LabelSpace:
    problem = pulp.LpProblem("tags", pulp.LpMaximize)
    kind = {"cat": "Binary"} if integer else {"lowBound": 0, "upBound": 1}
    y = pulp.LpVariable.dicts("y", range(7), **kind)
    for j, k in itertools.combinations(range(7), 2):
        p = pulp.LpVariable(f"p_{j}_{k}", 0, 1)
        problem += p <= y[j]
        problem += p <= y[k]
        problem += p >= y[j] + y[k] - 1
    return so.LabelSpace.from_pulp(problem)


def workers_and_jobs() -> so.LabelSpace:
    problem = pulp.LpProblem("jobs", pulp.LpMaximize)
    x = pulp.LpVariable.dicts("x", (range(4), range(6)), lowBound=0, cat="Integer")
    for i in range(4):
        problem += pulp.lpSum(x[i].values()) == 1
    for j in range(6):
        problem += pulp.lpSum(x[i][j] for i in range(4)) <= 1
    return so.LabelSpace.from_pulp(problem)


def at_most_three() -> so.LabelSpace:
    problem = pulp.LpProblem("top", pulp.LpMaximize)
    y = pulp.LpVariable.dicts("y", range(9), cat="Binary")
    problem += pulp.lpSum(y.values()) <= 3
    return so.LabelSpace.from_pulp(problem)


# ---- Pyomo ---------------------------------------------------------------------------------------


def chain_as_flow() -> so.LabelSpace:
    """Five positions, three tags, as a path from a start to an end: how the recogniser wants chains."""
    T, S = 5, range(3)
    m = pyo.ConcreteModel()
    m.first = pyo.Var(S, domain=pyo.Binary)
    m.step = pyo.Var(range(T - 1), S, S, domain=pyo.Binary)
    m.last = pyo.Var(S, domain=pyo.Binary)
    m.start = pyo.Constraint(expr=sum(m.first[s] for s in S) == 1)

    def through(m, t, s):
        into = m.first[s] if t == 0 else sum(m.step[t - 1, r, s] for r in S)
        out = m.last[s] if t == T - 1 else sum(m.step[t, s, r] for r in S)
        return into == out

    m.through = pyo.Constraint(range(T), S, rule=through)
    m.end = pyo.Constraint(expr=sum(m.last[s] for s in S) == 1)
    return so.LabelSpace.from_pyomo(m)


def shortest_path() -> so.LabelSpace:
    arcs = [(i, j) for i, j in itertools.combinations(range(7), 2) if j - i <= 3]
    m = pyo.ConcreteModel()
    m.x = pyo.Var(arcs, domain=pyo.NonNegativeReals)

    def conserve(m, v):
        out = sum(m.x[a] for a in arcs if a[0] == v)
        into = sum(m.x[a] for a in arcs if a[1] == v)
        return out - into == {0: 1, 6: -1}.get(v, 0)

    m.conserve = pyo.Constraint(range(7), rule=conserve)
    return so.LabelSpace.from_pyomo(m)


def leaves_of_a_tree() -> so.LabelSpace:
    children = {0: [1, 2, 3], 1: [4, 5], 2: [6, 7, 8], 3: [9]}
    m = pyo.ConcreteModel()
    m.z = pyo.Var(range(10), domain=pyo.Binary)
    m.root = pyo.Constraint(expr=m.z[0] == 1)
    m.rows = pyo.ConstraintList()
    for p, below in children.items():
        m.rows.add(sum(m.z[c] for c in below) >= m.z[p])
        for c in below:
            m.rows.add(m.z[c] <= m.z[p])
    return so.LabelSpace.from_pyomo(m)


def permutations() -> so.LabelSpace:
    n = range(5)
    m = pyo.ConcreteModel()
    m.x = pyo.Var(n, n, bounds=(0, 1))  # no integrality declared: the matrix has it
    m.rows = pyo.Constraint(n, rule=lambda m, i: sum(m.x[i, j] for j in n) == 1)
    m.columns = pyo.Constraint(n, rule=lambda m, j: sum(m.x[i, j] for i in n) == 1)
    return so.LabelSpace.from_pyomo(m)


def two_problems_in_one() -> so.LabelSpace:
    """A closure and a choice that do not touch: solved apart."""
    m = pyo.ConcreteModel()
    m.y = pyo.Var(range(5), domain=pyo.Binary)
    m.x = pyo.Var(range(4), domain=pyo.Binary)
    m.above = pyo.Constraint([(1, 0), (2, 0), (3, 1), (3, 2), (4, 2)], rule=lambda m, c, p: m.y[c] <= m.y[p])
    m.one = pyo.Constraint(expr=sum(m.x[k] for k in range(4)) == 1)
    return so.LabelSpace.from_pyomo(m)


CASES = {
    "simplices in PuLP": (one_colour_each, "simplices", "argmax"),
    "closure in PuLP": (ontology, "closure", "min cut"),
    "pairwise labels in PuLP": (lambda: pairs_of_tags(True), "pairwise", "persistency"),
    "pairwise relaxation in PuLP": (lambda: pairs_of_tags(False), "pairwise", "roof duality"),
    "matching in PuLP": (workers_and_jobs, "assignment", "linear assignment"),
    "cardinality in PuLP": (at_most_three, "cardinality", "top-k"),
    "chain in Pyomo": (chain_as_flow, "path", "DAG path"),
    "path in Pyomo": (shortest_path, "path", "DAG path"),
    "tree in Pyomo": (leaves_of_a_tree, "tree", "tree dynamic program"),
    "permutations in Pyomo": (permutations, "assignment", "linear assignment"),
    "product in Pyomo": (two_problems_in_one, "product", None),
}


@pytest.fixture(params=CASES, ids=lambda name: name.replace(" ", "-"))
def case(request):
    declare, kind, oracle = CASES[request.param]
    return declare(), kind, oracle


def test_the_matrix_alone_gives_the_fast_oracle(case):
    space, kind, name = case
    assert space.structure.kind == kind, space.structure
    fast, reference = so.Oracle(space), so.Oracle(space, "highs")
    if name is not None:
        assert fast.algorithm == name
    assert "highs" not in fast.algorithm
    rng = np.random.default_rng(0)
    C = np.concatenate([rng.normal(size=(4, space.n_variables)), rng.integers(-2, 3, (3, space.n_variables))])
    C = C.astype(float)
    batch = fast.maximize_batch(C)
    for c, in_batch in zip(C, batch, strict=True):
        label, wanted = fast.maximize(c), reference.maximize(c).value
        assert label.value == pytest.approx(wanted, abs=1e-7)
        assert in_batch.value == pytest.approx(wanted, abs=1e-7)
        assert c @ label.z == pytest.approx(label.value, abs=1e-9)
        assert space.contains(label.z)
    # No solver was asked.
    assert fast.statistics.fast == 2 * len(C)


@pytest.mark.parametrize("front_end", ["pulp", "pyomo"])
def test_a_knapsack_is_no_structure_and_goes_to_highs(front_end):
    sizes = [3, 5, 2, 7, 4, 6, 1, 8, 3, 5, 2, 4, 6, 7, 3, 9]
    if front_end == "pulp":
        problem = pulp.LpProblem("knapsack", pulp.LpMaximize)
        y = pulp.LpVariable.dicts("y", range(len(sizes)), cat="Binary")
        problem += pulp.lpSum(size * y[k] for k, size in enumerate(sizes)) <= 20
        space = so.LabelSpace.from_pulp(problem)
    else:
        m = pyo.ConcreteModel()
        m.y = pyo.Var(range(len(sizes)), domain=pyo.Binary)
        m.budget = pyo.Constraint(expr=sum(size * m.y[k] for k, size in enumerate(sizes)) <= 20)
        space = so.LabelSpace.from_pyomo(m)
    assert space.structure.kind == "general"
    assert not space.structure.totally_unimodular
    assert so.Oracle(space).algorithm == "highs"


def test_one_more_row_takes_the_structure_away():
    """Nearly an assignment is none: a row that couples two of its cells must not be overlooked."""
    m = pyo.ConcreteModel()
    n = range(5)
    m.x = pyo.Var(n, n, domain=pyo.Binary)
    m.rows = pyo.Constraint(n, rule=lambda m, i: sum(m.x[i, j] for j in n) == 1)
    m.columns = pyo.Constraint(n, rule=lambda m, j: sum(m.x[i, j] for i in n) == 1)
    m.together = pyo.Constraint(expr=m.x[0, 0] + m.x[1, 1] <= 1)
    space = so.LabelSpace.from_pyomo(m)
    oracle, reference = so.Oracle(space), so.Oracle(space, "highs")
    assert space.structure.kind != "assignment"
    rng = np.random.default_rng(3)
    for _ in range(10):
        c = rng.normal(size=(5, 5))
        c[0, 0] = c[1, 1] = 5.0
        found = oracle.maximize(c.ravel())
        assert found.z[0] + found.z[6] <= 1
        assert found.value == pytest.approx(reference.maximize(c.ravel()).value, abs=1e-7)
