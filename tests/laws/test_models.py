"""The laws of models hold for every shipped structure with its options, and for declared models."""

from __future__ import annotations

import copy
import functools
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import structopt as so
from structopt.backends.highs import Highs

# Test folders are not packages. The module is registered because pickles refer to it.
spec = importlib.util.spec_from_file_location("structopt_law_cases", Path(__file__).with_name("cases.py"))
assert spec is not None and spec.loader is not None
cases = sys.modules.get(spec.name) or importlib.util.module_from_spec(spec)
if spec.name not in sys.modules:
    sys.modules[spec.name] = cases
    spec.loader.exec_module(cases)
S, L = so.structures, so.losses
TREE = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "e")])
FOREST = so.Hierarchy([("a", "c"), ("a", "d"), ("b", "e")])
DAG = so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("b", "c"), ("b", "d")])
#: Four levels; every fourth leaf has a second parent.
LARGE = so.Hierarchy(
    [(0, 1 + k) for k in range(3)]
    + [(1 + k % 3, 4 + k) for k in range(12)]
    + [(4 + k % 12, 16 + k) for k in range(44)]
    + [(4 + (k + 5) % 12, 16 + k) for k in range(0, 44, 4)]
)
#: So many nodes that tables of a batch are sparse.
WIDE = so.Hierarchy([((k - 1) // 4, k) for k in range(1, 140)])
#: A ring of so many nodes that labels are kept without their pairs.
MANY = [(k, (k + 1) % 500) for k in range(500)]
CLASS_COSTS = np.array([[0, 1, 4, 2], [1, 0, 2, 1], [4, 2, 0, 1], [2, 1, 1, 0]])
STATE_COSTS = np.array([[0, 1, 2], [3, 0, 1], [1, 1, 0]])
RULES = [[1, 0, 1], [1, 1, 0], [0, 1, 1]]
CHANGE = ~np.eye(3, dtype=bool)
ARCS = [("s", "u"), ("s", "v"), ("u", "v"), ("u", "t"), ("v", "t"), ("s", "t")]
UNIT = {"s": 1, "t": -1}
LENGTHS = ((3, 2), (1, 2), (4, 2), (2, 2), (3, 2))
SQUARES = ((4, 4, 2), (3, 3, 2), (4, 4, 2), (2, 2, 2))
NODES = ((4, 4, 2), (5, 5, 2), (4, 4, 2))


class Late(L.TaskLoss):
    """A loss that the batch of a chain does not know: a wrong state at position t costs t + 1."""

    def linear(self, truth):
        y = np.asarray(truth, dtype=float).reshape(-1, 2)
        price = np.arange(1.0, len(y) + 1)[:, None]
        return (-price * y).ravel(), float(price.sum())

    def value(self, y, truth):
        coef, const = self.linear(truth)
        return float(coef @ np.asarray(y, dtype=float).ravel() + const)


class Backwards(so.features.Term):
    """Variable j of n has the weights of row n - 1 - j, and only `fold` and `unfold` say so."""

    def n_columns(self, shape):
        return int(np.prod(shape))

    def fold(self, x, block):
        return block.ravel()[::-1][None]

    def unfold(self, x, table, shape):
        return table.ravel()[::-1].reshape(shape)


def own_features():
    """A term of a user, and tied weights that depend on the input, over one space for all inputs."""
    space = so.LabelSpace("tags")
    y, mark = space.binary("y", 3), space.binary("mark", 2)
    space.subject_to(y.sum() <= 2, mark[0] <= y[0])
    tied = so.features.Tied(lambda x: np.array([0, 1 + int(np.sum(x) > 0)]), 3)
    return so.Model(space, {"y": Backwards(), "mark": tied}, {"y": L.Hamming(), "mark": L.Hamming()})


def budget(integral="auto"):
    """Tags with a score per pair and at most two of them; pairs are auxiliary variables."""
    space = so.LabelSpace("budget")
    y, (i, j) = space.binary("y", 4), np.triu_indices(4, k=1)
    p = space.continuous("pair", len(i), 0, 1)
    space.subject_to(p <= y[i], p <= y[j], p >= y[i] + y[j] - 1, y.sum() <= 2)
    features = {"y": so.features.Linear(intercept=True), "pair": so.features.Tied()}
    return so.Model(space, features, L.Hamming(), integral=integral)


def blocks():
    """Two blocks of which neither follows from the other: a label is a dict."""
    space = so.LabelSpace("blocks")
    y, mark = space.binary("y", 3), space.binary("mark", 2)
    space.subject_to(y.sum() <= 2, mark[0] <= y[0])
    features = {"y": so.features.Linear(), "mark": so.features.Linear()}
    return so.Model(space, features, {"y": L.Hamming(), "mark": L.Hamming([1, 2])})


def groups(known=False):
    """One of three states per position, with tied weights of transitions; the first state may be known."""
    space = so.LabelSpace("chain")
    y, p = space.binary("y", (4, 3)), space.continuous("transition", (3, 3, 3), 0, 1)
    space.subject_to(y.sum(axis=1) == 1, p.sum(axis=2) == y[:-1], p.sum(axis=1) == y[1:])
    if known:
        space.subject_to(y[0, 1] == 1)
    tied = so.features.Tied(np.tile(np.arange(9), 3))
    return so.Model(space, {"y": so.features.Table(), "transition": tied}, L.Hamming(np.full(12, 0.5)))


def length(x):
    return x.shape[0]


def by_length(x):
    """At most one state per position, and marks that are not neighbours."""
    space = so.LabelSpace(f"{length(x)} positions")
    y, mark = space.binary("y", (length(x), 2)), space.binary("mark", length(x))
    space.subject_to(y.sum(axis=1) <= 1, mark[1:] + mark[:-1] <= 1)
    return space


def two_blocks():
    """A space per length, two blocks with losses, and a label of both."""
    features = {"y": so.features.Table(), "mark": so.features.Shared()}
    both = {"y": L.Hamming(), "mark": L.Hamming()}
    return so.Model(
        by_length, features, both, key=length,
        encode=lambda label: np.concatenate([np.ravel(label[0]), label[1]]),
        decode=lambda z: (z[: 2 * (len(z) // 3)].reshape(-1, 2), z[2 * (len(z) // 3) :]),
    )  # fmt: skip


def nodes(hierarchy, kind, **options):
    return lambda: S.HierarchicalLabels(hierarchy, kind, **options)


def empty():
    """A tag per row of the input; an input without rows has one label."""

    def space(x):
        space = so.LabelSpace(f"{length(x)} tags")
        space.binary("tag", length(x))
        return space

    return so.Model(space, {"tag": so.features.Shared()}, L.Hamming(), key=length)


def own_index():
    """Segments whose transitions have two sets of weights; the input says which of them."""
    shipped = S.Segmentation(2, 3, pooling="mean", initial_weights=True)
    terms = dict(shipped.features)
    terms["transition"] = so.features.Tied(lambda x: np.full(4 * (length(x) - 1), int(x[0, 0] > 0)), 4)
    return so.Model(shipped.space, terms, L.Hamming(), key=length)


#: Models whose inputs are vectors.
VECTORS = {
    "classes": lambda: S.Multiclass(["a", "b", "c", "d"]),
    "classes with costs": lambda: S.Multiclass(4, loss=CLASS_COSTS, intercept=True),
    "one class": lambda: S.Multiclass(1),
    "tags": lambda: S.MultiLabel(5, intercept=True),
    "tags between": lambda: S.MultiLabel(5, 1, 3, L.Hamming([1, 2, 3, 1, 1])),
    "pairs": lambda: S.PairwiseMRF(4),
    "some pairs": lambda: S.PairwiseMRF(5, edges=[(0, 1), (3, 1), (2, 4)], intercept=True),
    "no pairs": lambda: S.PairwiseMRF(4, edges=np.empty((0, 2), int)),
    "relaxed pairs": lambda: S.PairwiseMRF(4, integral="relax"),
    "relaxed pairs with cycles": lambda: S.PairwiseMRF(4, integral="relax", tighten="cycles"),
    "pairs with cycles": lambda: S.PairwiseMRF(4, tighten="cycles"),
    "many pairs": lambda: S.PairwiseMRF(500, edges=MANY),
    "many relaxed pairs": lambda: S.PairwiseMRF(500, edges=MANY, integral="relax"),
    "leaf": nodes(TREE, "leaf"),
    "leaf with a hierarchical loss": nodes(TREE, "leaf", loss=L.HierarchicalLoss(TREE), alpha=[1, 2, 0, 3, 4, 5]),
    "leaf with a normalized loss": nodes(TREE, "leaf", loss=L.Normalized(TREE, np.arange(1.0, 7.0)), intercept=True),
    "leaf of a forest": nodes(FOREST, "leaf", loss=L.LeafHamming(FOREST)),
    "leaf of a dag": nodes(DAG, "leaf", alpha=[1, 2, 0, 3, 4]),
    "leaves": nodes(TREE, "leaves", intercept=True),
    "leaves with a hierarchical loss": nodes(TREE, "leaves", loss=L.HierarchicalLoss(TREE)),
    "leaves of a forest": nodes(FOREST, "leaves", loss=L.LeafHamming(FOREST)),
    "leaves of a dag": nodes(DAG, "leaves"),
    "leaves by a solver": nodes(TREE, "leaves", solver="highs"),
    "leaf of a wide tree": nodes(WIDE, "leaf"),
    "leaves of a wide tree": nodes(WIDE, "leaves"),
    "closure of a wide tree": nodes(WIDE, "closure"),
    "leaves of a large dag": nodes(LARGE, "leaves"),
    "relaxed leaves of a large dag": nodes(LARGE, "leaves", integral="relax"),
    "closure": nodes(TREE, "closure", loss=L.Hamming([1, 2, 3, 1, 2, 1])),
    "closure of a forest": nodes(FOREST, "closure"),
    "closure of a dag": nodes(DAG, "closure", intercept=True),
    "exclusive labels": lambda: S.ExclusiveLabels(TREE, [["a", "b"]]),
    "flow": lambda: S.Flow(ARCS, UNIT, intercept=True),
    "flow with capacities": lambda: S.Flow(ARCS, {"s": 2, "t": -2}, 1),
    "declared budget": budget,
    "declared relaxed budget": lambda: budget("relax"),
    "declared dict": blocks,
    "declared features": own_features,
}
#: Models whose inputs are arrays of these shapes.
ARRAYS = {
    "chain": (lambda: S.Chain(3), LENGTHS),
    "chain of tags": (lambda: S.Chain(["O", "B-PER", "I-PER"], transitions="bio", initial_weights=True), LENGTHS),
    "chain with rules": (
        lambda: S.Chain("abc", transitions=RULES, initial=[1, 1, 0], loss=STATE_COSTS, intercept=True), LENGTHS,
    ),
    "chain with a normalized loss": (
        lambda: S.Chain(2, loss="normalized", initial_weights=True, intercept=True), LENGTHS,
    ),
    "chain with another loss": (lambda: S.Chain(2, loss=Late()), LENGTHS),
    "segments": (lambda: S.Segmentation(2, 2), LENGTHS),
    "means of segments": (
        lambda: S.Segmentation(2, 3, pooling="mean", intercept=True, loss="normalized", length_weights=True), LENGTHS,
    ),
    "segments without repeats": (
        lambda: S.Segmentation("abc", 3, transitions=CHANGE, initial=[1, 0, 1], loss=STATE_COSTS), LENGTHS,
    ),
    "segments with all weights": (
        lambda: S.Segmentation(["x", "y"], 2, initial_weights=True, length_weights=True, loss=[1, 2]), LENGTHS,
    ),
    "segments of one position": (lambda: S.Segmentation(3, 1, initial_weights=True), LENGTHS),
    "entities": (lambda: S.Segmentation(["PER", "O"], 2, loss="entities"), LENGTHS),
    "trees": (lambda: S.Arborescence(intercept=True), SQUARES),
    "trees with one root": (lambda: S.Arborescence(single_root=True), SQUARES),
    "projective trees": (lambda: S.Arborescence(projective=True), SQUARES),
    "projective trees with one root": (lambda: S.Arborescence(single_root=True, projective=True), SQUARES),
    "trees by cuts": (lambda: S.Arborescence(flow="cuts", single_root=True), SQUARES),
    "labelled trees": (lambda: S.LabelledArborescence(2), SQUARES),
    "labelled projective trees": (
        lambda: S.LabelledArborescence(["x", "y"], single_root=True, projective=True), SQUARES,
    ),
    "assignment": (lambda: S.Assignment(3, intercept=True), ((3, 3, 2),) * 4),
    "assignment of several shapes": (lambda: S.Assignment(3), ((3, 3, 2), (3, 5, 2), (3, 4, 2), (3, 5, 2))),
    "assignment with distances": (lambda: S.Assignment(3, loss="footrule", normalize=True), ((3, 3, 2),) * 3),
    "assignment with another loss": (lambda: S.Assignment(3, loss=L.Hamming()), ((3, 3, 2),) * 3),
    "unmatched items": (lambda: S.Assignment(3, unmatched=True), ((3, 3, 2), (3, 2, 2), (3, 3, 2), (3, 4, 2))),
    "matching": (lambda: S.Matching(intercept=True), NODES),
    "perfect matching": (lambda: S.Matching(perfect=True), SQUARES[::2]),
    "tour": (lambda: S.Tour(), NODES),
    "directed tour": (lambda: S.Tour(directed=True), NODES),
    "ranking": (lambda: S.Ranking(), LENGTHS),
    "ranking by another measure": (lambda: S.Ranking("mrr", decay=lambda n: 1 / np.log2(np.arange(n) + 2)), LENGTHS),
    "declared chain": (groups, ((4, 2),) * 4),
    "declared chain with a known state": (lambda: groups(known=True), ((4, 2),) * 4),
    "declared blocks": (two_blocks, LENGTHS),
    "declared empty inputs": (empty, ((3, 2), (0, 2), (1, 2), (0, 2))),
    "declared index of the input": (own_index, LENGTHS),
}  # fmt: skip
#: Structures without a model here have those of the oracles.
HERE = {type(make()) for make in (*VECTORS.values(), *(make for make, _ in ARRAYS.values()))}
for case_name, case in cases.CASES.items():
    if case.model is not None and type(case.model) not in HERE:
        make = functools.partial(copy.deepcopy, case.model)
        if case.x is None:
            VECTORS[case_name] = make
        else:
            ARRAYS[case_name] = (make, (case.x.shape,) * 3)
#: Laws that do not concern a model, and why.
SKIPPED = {
    "ranking": ["codec"],  # a ranking is learned from relevances and predicted as an order
    "ranking by another measure": ["codec", "pickling"],  # a lambda does not pickle
    "declared blocks": ["pickling"],
    "declared features": ["pickling"],
    "declared empty inputs": ["pickling"],
    "declared index of the input": ["pickling"],
}


def data(name):
    """A model, random inputs, and the labels that random weights predict."""
    rng = np.random.default_rng(3)
    make, shapes = ARRAYS[name] if name in ARRAYS else (VECTORS[name], ())
    model = make()
    X = [rng.normal(size=shape) for shape in shapes] if shapes else rng.normal(size=(5, 3))
    if isinstance(model, S.Ranking):
        return model, X, [rng.integers(0, 3, len(x)) for x in X]
    w = rng.normal(size=model.batch(X).n_weights)
    return model, X, [model.predict(w, x) for x in X]


@pytest.mark.parametrize("name", [*VECTORS, *ARRAYS])
def test_laws_of_models(name):
    model, X, Y = data(name)
    skip = SKIPPED.get(name, [])
    report = so.testing.check_model(model, X, Y, skip=skip, trials=1)
    assert report.ok, report
    assert {outcome.check for outcome in report.skipped} == set(skip), report


#: Models with functions, which a file does not hold.
WITH_FUNCTIONS = [
    "chain with another loss", "declared blocks", "declared features", "ranking by another measure",
    "declared empty inputs", "declared index of the input",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [*VECTORS, *ARRAYS])
def test_a_trained_model_is_the_same_in_a_file(name, tmp_path):
    model, X, Y = data(name)
    path, svm = tmp_path / "model.npz", so.StructuredSVM(model, lam=0.1, tol=0.1, max_passes=3).fit(X, Y)
    if name in WITH_FUNCTIONS:
        with pytest.raises(so.errors.DeclarationError, match="Use pickle"):
            svm.save(path)
        return
    svm.save(path)
    loaded = so.load(path)
    assert repr(loaded.predict(X)) == repr(svm.predict(X))
    again = loaded.model
    assert type(again) is type(model) and repr(again) == repr(model)
    for y, x in zip(Y, X, strict=True):
        for one, other in zip(again.loss(y, x), model.loss(y, x), strict=True):
            np.testing.assert_array_equal(one, other)


class Counting(Highs):
    """HiGHS that counts its runs."""

    runs = 0

    def run(self, *args, **options):
        type(self).runs += 1
        return super().run(*args, **options)


#: Models of which each label is found by a solver, if one is chosen.
SOLVED = [
    "classes", "tags between", "pairs", "leaf", "leaves", "closure of a dag", "exclusive labels", "flow",
    "chain of tags", "segments with all weights", "trees with one root", "labelled projective trees", "unmatched items",
    "perfect matching", "directed tour", "ranking",
]  # fmt: skip


@pytest.mark.parametrize("name", SOLVED)
def test_every_label_is_found_by_a_chosen_solver(name):
    model, X, Y = data(name)
    chosen = data(name)[0]
    chosen.solver = Counting
    w, found = np.random.default_rng(1).normal(size=model.batch(X).n_weights), []
    Counting.runs = 0
    for one in (model, chosen):
        batch = one.batch(X)
        found.append((so.train.StructuredRisk(one, X, Y)(w)[0], batch.argmax(batch.tables(w))[1].sum()))
    assert Counting.runs >= 2 * len(Y)
    assert found[0] == pytest.approx(found[1], abs=1e-6)


class WrongLosses(S.MultiLabel):
    def batch(self, X):
        batch = super().batch(X)
        right = batch.loss_values
        batch.loss_values = lambda *arguments: 1.1 * right(*arguments)
        return batch


class WrongRest(S.MultiLabel):
    """Examples outside a subset keep a value."""

    def batch(self, X):
        batch = super().batch(X)
        right = batch.argmax
        batch.argmax = lambda *a, examples=None, **k: (right(*a, examples=examples, **k)[0], right(*a, **k)[1])
        return batch


class WrongSparse(S.MultiLabel):
    def batch(self, X):
        return super().batch(1.1 * X if sp.issparse(X) else X)


class WrongCopy(S.MultiLabel):
    def __getstate__(self):
        return super().__getstate__() | {"_declared": S.MultiLabel(3, at_most=1).space()}


@pytest.mark.parametrize(
    ("law", "wrong"),
    {"batch_labels": WrongLosses, "subsets": WrongRest, "inputs": WrongSparse, "pickling": WrongCopy}.items(),
)
def test_wrong_models_are_found(law, wrong):
    X, Y = np.random.default_rng(0).normal(size=(4, 2)), [[1, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 1]]
    report = so.testing.check_model(wrong(3), X, Y, trials=1)
    assert law in {outcome.check for outcome in report.failed}, report


def test_every_structure_has_a_case():
    kinds = {type(data(name)[0]) for name in (*VECTORS, *ARRAYS)}
    assert kinds >= {getattr(S, name) for name in S.__all__ if isinstance(getattr(S, name), type)}
