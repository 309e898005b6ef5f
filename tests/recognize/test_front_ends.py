"""The same structures, found in models written in Pyomo and PuLP."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from structopt.recognize import recognize

pulp = pytest.importorskip("pulp")
pyo = pytest.importorskip("pyomo.environ")
read_pulp = pytest.importorskip("structopt.interop.pulp").read_pulp
read_pyomo = pytest.importorskip("structopt.interop.pyomo").read_pyomo


def pulp_simplices():
    problem = pulp.LpProblem("sudoku_cells", pulp.LpMaximize)
    x = pulp.LpVariable.dicts("x", (range(3), range(4)), cat="Binary")
    for i in range(3):
        problem += pulp.lpSum(x[i][k] for k in range(4)) == 1
    return problem


def pulp_closure():
    problem = pulp.LpProblem("taxonomy", pulp.LpMaximize)
    y = pulp.LpVariable.dicts("y", range(5), 0, 1)
    for child, parent in [(1, 0), (2, 0), (3, 1), (3, 2), (4, 2)]:
        problem += y[child] <= y[parent]
    return problem


def pulp_pairwise():
    problem = pulp.LpProblem("pairs", pulp.LpMaximize)
    y = pulp.LpVariable.dicts("y", range(4), cat="Binary")
    for j, k in itertools.combinations(range(4), 2):
        p = pulp.LpVariable(f"p_{j}_{k}", 0, 1)
        problem += p <= y[j]
        problem += p <= y[k]
        problem += p >= y[j] + y[k] - 1
    return problem


def pulp_assignment():
    problem = pulp.LpProblem("rota", pulp.LpMaximize)
    x = pulp.LpVariable.dicts("x", (range(3), range(4)), lowBound=0, cat="Integer")  # no upper bound declared
    for i in range(3):
        problem += pulp.lpSum(x[i].values()) == 1
    for j in range(4):
        problem += pulp.lpSum(x[i][j] for i in range(3)) <= 1
    return problem


def pyomo_path():
    model = pyo.ConcreteModel()
    arcs = [("s", "a"), ("s", "b"), ("a", "b"), ("a", "t"), ("b", "t")]
    model.x = pyo.Var(range(len(arcs)), domain=pyo.NonNegativeReals)

    def conserve(m, v):
        out = sum(m.x[k] for k, (a, _) in enumerate(arcs) if a == v)
        into = sum(m.x[k] for k, (_, b) in enumerate(arcs) if b == v)
        return into + {"s": 1, "t": -1}.get(v, 0) == out

    model.flow = pyo.Constraint(["s", "a", "b", "t"], rule=conserve)
    return model


def pyomo_tree():
    model = pyo.ConcreteModel()
    children = {0: [1, 2], 1: [3, 4, 5], 2: [6]}
    model.z = pyo.Var(range(7), domain=pyo.Binary)
    model.root = pyo.Constraint(expr=model.z[0] == 1)
    model.below = pyo.ConstraintList()
    for p, kids in children.items():
        model.below.add(sum(model.z[c] for c in kids) >= model.z[p])
        for c in kids:
            model.below.add(model.z[c] <= model.z[p])
    return model


def pyomo_cardinality():
    model = pyo.ConcreteModel()
    model.y = pyo.Var(range(6), domain=pyo.Binary)
    model.count = pyo.Constraint(expr=(1, sum(model.y[j] for j in range(6)), 3))
    return model


def pyomo_pairwise():
    model = pyo.ConcreteModel()
    edges = [(0, 1), (1, 2), (0, 2)]
    model.y = pyo.Var(range(3), bounds=(0, 1))
    model.p = pyo.Var(edges, bounds=(0, 1))
    model.a = pyo.Constraint(edges, rule=lambda m, j, k: m.p[j, k] <= m.y[j])
    model.b = pyo.Constraint(edges, rule=lambda m, j, k: m.p[j, k] - m.y[k] <= 0)
    model.c = pyo.Constraint(edges, rule=lambda m, j, k: 2 * m.y[j] + 2 * m.y[k] - 2 * m.p[j, k] <= 2)
    return model


@pytest.mark.parametrize(
    ("read", "declare", "kind", "oracle"),
    [
        (read_pulp, pulp_simplices, "simplices", "argmax"),
        (read_pulp, pulp_closure, "closure", "min cut"),
        (read_pulp, pulp_pairwise, "pairwise", "persistency"),
        (read_pulp, pulp_assignment, "assignment", "linear assignment"),
        (read_pyomo, pyomo_path, "path", "DAG path"),
        (read_pyomo, pyomo_tree, "tree", "tree dynamic program"),
        (read_pyomo, pyomo_cardinality, "cardinality", "top-k"),
        (read_pyomo, pyomo_pairwise, "pairwise", "roof duality"),
    ],
)
def test_hand_written_models_are_recognised(kit, read, declare, kind, oracle):
    space = read(declare())
    structure = recognize(space)
    assert (structure.kind, structure.oracle) == (kind, oracle), structure
    rng = np.random.default_rng(0)
    if space.n_variables <= 12:
        kit.check(space, structure, rng, objectives=4)
