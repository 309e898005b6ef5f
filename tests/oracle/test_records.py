"""Records that a user states: their algorithms solve the space, and wrong records are refused."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

import structopt as so

R = so.records
TREE = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "e")])


def box(space):
    space.integer("y", 4, -1, 2)


def cardinality(space):
    y = space.binary("y", 6)
    space.subject_to(y[:4].sum().between(1, 2))


def closure(space):
    y = space.binary("y", 6)
    space.subject_to(*(y[child] <= y[parent] for parent, child in [(0, 2), (1, 2), (1, 3), (2, 4), (3, 4), (3, 5)]))


def pairwise(space):
    y, p = space.binary("y", 3), space.continuous("p", 3, 0, 1)
    for k, (i, j) in enumerate([(0, 1), (1, 2), (0, 2)]):
        space.subject_to(p[k] <= y[i], p[k] <= y[j], p[k] >= y[i] + y[j] - 1)


def assignment(space):
    for name in "ab":
        x = space.binary(name, (2, 3))
        space.subject_to(x.sum(axis=0) <= 1, x.sum(axis=1) == 1)


def path(space):
    arc = space.binary("arc", 5)  # 0 -> 1, 0 -> 2, 1 -> 2, 1 -> 3, 2 -> 3
    space.subject_to(arc[0] + arc[1] == 1, arc[0] == arc[2] + arc[3], arc[1] + arc[2] == arc[4])


def forest(space):
    y, p = space.binary("y", (3, 2)), space.continuous("p", (2, 2, 2), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])


def tree(space):
    compiled = so.structures.HierarchicalLabels(TREE, "leaves").space().compiled
    y = space.binary("y", compiled.n_variables)
    for row, low, up in zip(compiled.matrix.toarray(), compiled.row_lower, compiled.row_upper, strict=True):
        space.subject_to((row @ y).between(low, up))
    space.subject_to(y[0] == 1)


def leaves(space):
    y = space.binary("y", 5)
    space.subject_to(y[0] == y[2] + y[3], y[1] == y[2] + y[3] + y[4], y[2:].sum() == 1)


ARCS = {"child": [2, 3, 3, 4, 1], "parent": [0, 0, 5, 5, 4]}


def leaf_sets(space):
    """Nodes 0 and 5 stand above node 3. Some parents have larger numbers than their children."""
    y = space.binary("y", 6)
    space.subject_to(y[ARCS["child"]] <= y[ARCS["parent"]], y[0] + y[5] >= 1)
    space.subject_to(y[0] <= y[2] + y[3], y[5] <= y[3] + y[4], y[4] <= y[1])


SPACES = {
    "Box": box,
    "Cardinality": cardinality,
    "Closure": closure,
    "Pairwise": pairwise,
    "Assignment": assignment,
    "Path": path,
    "GroupForest": forest,
    "Tree": tree,
    "Leaves": leaves,
    "LeafSets": leaf_sets,
}
#: The record of the tree, whose root is a fixed column in the recognised one, and one that is not recognised.
STATED = {"Tree": R.Tree(column=range(6), parent=[-1, 0, 0, 1, 1, 2]), "LeafSets": R.LeafSets(**ARCS)}


def declared(name, hidden):
    """A space and its record. A hidden space has one more row, which every label satisfies."""
    space = so.LabelSpace(name)
    SPACES[name](space)
    record = STATED.get(name) or space.structure.record
    if hidden:
        space = space.copy()
        weights = np.arange(1.0, space.n_variables + 1)
        compiled = space.compiled
        ends = np.maximum(weights * compiled.lower, weights * compiled.upper).sum()
        total = sum(w * block.ravel()[k] for block, w, k in entries(space, weights))
        space.subject_to(total <= ends)
    return space, record


def entries(space, weights):
    start = 0
    for block in space:
        for k in range(block.size):
            yield block, weights[start + k], k
        start += block.size


@pytest.mark.parametrize("name", SPACES)
def test_a_record_that_recognition_cannot_prove_is_used(name):
    space, record = declared(name, hidden=True)
    assert type(record).__name__ == name
    assert space.structure.kind == "general" or name == "Box"
    oracle = so.Oracle(space, record=record)
    known = so.Oracle(declared(name, hidden=False)[0])
    assert oracle.algorithm in (known.algorithm, "tree dynamic program", "min cut", "sets of leaves in a DAG")
    report = so.testing.check_oracle(oracle, answers=so.Question.ARGMAX, n=8)
    assert report.ok, report
    c = np.arange(space.n_variables) - 1.5
    assert pickle.loads(pickle.dumps(oracle)).maximize(c).value == oracle.maximize(c).value


@pytest.mark.parametrize("name", SPACES)
def test_lists_are_accepted_as_arrays(name):
    space, record = declared(name, hidden=True)
    plain = {f.name: getattr(record, f.name) for f in fields(record)}
    lists = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in plain.items()}
    oracle = so.Oracle(space, record=type(record)(**lists))
    c = np.cos(np.arange(space.n_variables))
    assert oracle.maximize(c).value == so.Oracle(space, record=record).maximize(c).value


def wrong_records():
    """Each field with an entry too few and with entries out of its range."""
    for name in SPACES:
        _, record = declared(name, hidden=False)
        for f in fields(record):
            value = getattr(record, f.name)
            if value is None or f.name == "hull":
                continue
            if isinstance(value, bool):
                yield f"{name}.{f.name}", name, {f.name: not value}
                continue
            value = np.asarray(value)
            yield f"{name}.{f.name} short", name, {f.name: value[:-1]}
            if value.dtype != np.bool_:
                yield f"{name}.{f.name} large", name, {f.name: np.where(np.arange(len(value)) == 0, 99, value)}
                yield f"{name}.{f.name} low", name, {f.name: np.where(np.arange(len(value)) == 0, -9, value)}


@pytest.mark.parametrize(("name", "change"), [pytest.param(n, c, id=i) for i, n, c in wrong_records()])
def test_wrong_arrays_are_refused(name, change):
    space, record = declared(name, hidden=True)
    with pytest.raises(so.errors.DeclarationError, match=rf"record {name} does not describe|{name}\."):
        so.Oracle(space, record=replace(record, **change))


def test_a_record_of_other_labels_is_refused():
    space, _ = declared("Cardinality", hidden=False)
    every = R.Box(np.zeros(6), np.ones(6))
    with pytest.raises(so.errors.DeclarationError, match="best label for a random objective is not in the space"):
        so.Oracle(space, record=every)


def test_a_record_without_labels_is_refused():
    space, record = declared("Cardinality", hidden=False)
    with pytest.raises(so.errors.DeclarationError, match="has no label"):
        so.Oracle(space, record=replace(record, lower=[3], upper=[2]))


def test_a_record_without_an_algorithm_is_refused():
    space = so.LabelSpace()
    space.binary("y", 3)
    with pytest.raises(so.errors.DeclarationError, match="No algorithm solves a record of type Record"):
        so.Oracle(space, record=so.records.Record())


def test_an_oracle_takes_an_algorithm_or_a_record():
    space, record = declared("Box", hidden=False)
    algorithm = so.structures.Chain(2).algorithm(np.zeros((2, 1)))
    with pytest.raises(so.errors.DeclarationError, match="not both"):
        so.Oracle(space, algorithm=algorithm, record=record)
    with pytest.raises(so.errors.DeclarationError, match="record must be"):
        so.Oracle(space, record="box")


def test_every_record_with_an_algorithm_can_be_stated():
    from structopt.algorithms.registry import ALGORITHMS

    assert {kind.__name__ for kind in ALGORITHMS} == SPACES.keys()


def test_a_relaxed_oracle_does_not_use_the_record():
    space, record = declared("Pairwise", hidden=True)
    assert so.Oracle(space, integral="relax", record=record).algorithm == "highs"


# ---- models --------------------------------------------------------------------------------------


def test_a_model_uses_its_record():
    space, record = declared("Assignment", hidden=True)
    terms = {"a": so.features.Linear(), "b": so.features.Linear()}
    loss = {"a": so.losses.Hamming(), "b": so.losses.Hamming()}
    model = so.Model(space, terms, loss, record=record)
    assert model.oracle().algorithm == "linear assignment"
    X = np.random.default_rng(0).normal(size=(5, 2))
    Y = [model.predict(np.sin(np.arange(24.0)), x) for x in X]
    assert so.testing.check_model(model, X, Y, trials=1).ok
    assert so.Model(space, terms, loss, record=record, solver="highs").oracle().algorithm == "highs"


def test_a_model_of_many_spaces_has_a_record_for_each():
    def one_of_all(x):
        space = so.LabelSpace()
        y = space.binary("y", len(x))
        space.subject_to(y.sum() == 1, np.arange(len(x)) @ y <= len(x))
        return space

    def record(x):
        n = len(x)
        return R.Cardinality([0] * n, [0, n], range(n), [1], [1])

    model = so.Model(one_of_all, {"y": so.features.Shared()}, so.losses.Hamming(), record=record)
    X = [np.random.default_rng(n).normal(size=(n, 2)) for n in (2, 3, 5)]
    assert [model.oracle(x).algorithm for x in X] == ["argmax"] * 3
    assert [int(model.predict([1.0, 0.0], x).argmax()) for x in X] == [int(x[:, 0].argmax()) for x in X]
    fixed = so.Model(one_of_all, {"y": so.features.Shared()}, so.losses.Hamming(), record=record(X[0]))
    with pytest.raises(so.errors.DeclarationError, match="group has 2 entries, not 3"):
        fixed.predict([1.0, 0.0], X[1])


def test_a_record_of_a_model_is_a_record_or_a_function():
    with pytest.raises(so.errors.DeclarationError, match="record must be None or a Record or callable"):
        so.Model(declared("Box", hidden=False)[0], {}, record=3)
