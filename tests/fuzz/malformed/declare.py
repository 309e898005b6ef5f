"""Calls that declare: spaces, expressions, hierarchies, losses, features, models, structures."""

from __future__ import annotations

from typing import Any

import numpy as np

import structopt as so

from . import kinds as k
from .call import Argument as A
from .call import Call, eighths, optional, positional, recipe

Rng = np.random.Generator


def space_of(rng: Rng) -> so.LabelSpace:
    space = so.LabelSpace("fuzz")
    y = space.binary("y", 5)
    space.subject_to(y.sum() <= 3, y[0] <= y[1])
    return space


def tree() -> so.Hierarchy:
    return so.Hierarchy([("r", "a"), ("r", "b"), ("a", "c"), ("a", "d"), ("b", "e")])


@recipe
def declare_block(rng: Rng) -> Call:
    kind = str(rng.choice(["binary", "integer", "continuous"]))
    arguments = {"name": A("y", k.text), "shape": A(3, k.shape)}
    if kind != "binary":
        arguments |= {"lower": A(eighths(rng, 3) - 4.0, k.array), "upper": A(eighths(rng, 3) + 4.0, k.array)}
    space = so.LabelSpace()
    return Call(
        lambda **v: getattr(space, kind)(**v) is None or (space.lower, space.upper),
        arguments,
        tolerance=None,
    )


@recipe
def declare_scalar_bounds(rng: Rng) -> Call:
    space = so.LabelSpace()
    return Call(
        lambda **v: space.integer("y", 3, **v) is None or (space.lower, space.upper),
        {"lower": A(-2.0, k.loose(k.real)), "upper": A(3.0, k.loose(k.real))},
        tolerance=None,
    )


@recipe
def label_space(rng: Rng) -> Call:
    return Call(so.LabelSpace, {"name": A("x", k.text)}, tolerance=None)


@recipe
def subject_to(rng: Rng) -> Call:
    space = space_of(rng)
    row = space["y"].sum() >= 1
    kind = k.thing
    return Call(lambda row, name: space.subject_to(row, name=name), {"row": A(row, kind), "name": A("r", k.text)})


@recipe
def arithmetic(rng: Rng) -> Call:
    space = space_of(rng)
    y = space["y"]
    sign = int(rng.integers(7))
    vector = eighths(rng, 5)
    vector[vector == 0] = 1.0
    table = [
        lambda v: y + v,
        lambda v: v - y,
        lambda v: y * v,
        lambda v: y / v,
        lambda v: y @ v,
        lambda v: v @ y,
        lambda v: y <= v,
    ]

    def compute(v: Any) -> Any:
        found = table[sign](v)
        return (found.matrix.toarray(), getattr(found, "constant", 0), getattr(found, "upper", 0))

    return Call(compute, {"v": A(vector, k.broadcast)})


@recipe
def indexing(rng: Rng) -> Call:
    space = space_of(rng)
    return Call(lambda i: space["y"][i].matrix.toarray().shape and None, {"i": A(2, k.loose(k.thing))})


@recipe
def expression_methods(rng: Rng) -> Call:
    space = so.LabelSpace()
    y = space.binary("y", (2, 3))
    which = int(rng.integers(5))
    if which == 0:
        return Call(lambda axis: y.sum(axis).matrix.toarray(), {"axis": A(1, k.loose(k.thing))})
    if which == 1:
        return Call(lambda shape: y.reshape(shape).matrix.toarray(), {"shape": A((3, 2), k.thing)})
    if which == 2:
        return Call(lambda z: y.value(z), {"z": A(np.ones(6), k.loose(k.array))}, tolerance=None)
    if which == 3:
        return Call(
            lambda lower, upper: y.sum().between(lower, upper).lower,
            {"lower": A(1.0, k.loose(k.real)), "upper": A(3.0, k.loose(k.real))},  # arrays are bounds of several rows
        )
    return Call(
        lambda expressions, axis: so.concatenate(expressions, axis).matrix.toarray(),
        {"expressions": A([y, y], k.thing), "axis": A(0, k.count)},
        tolerance=None,
    )


@recipe
def space_labels(rng: Rng) -> Call:
    space = space_of(rng)
    z = np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    which = int(rng.integers(5))
    if which == 0:
        return Call(lambda z: space.vector(y=z), {"z": A(z, k.array)})
    if which == 1:
        return Call(space.blocks, {"z": A(z, k.array)})
    if which == 2:
        return Call(space.contains, {"z": A(z, k.array), "tol": A(1e-6, k.real)})
    if which == 3:
        return Call(lambda **v: len(space.violations(**v)), {"z": A(z, k.array), "tol": A(1e-6, k.real)})
    return Call(space.enumerate, {"limit": A(1000, k.count)}, tolerance=None)


@recipe
def from_matrices(rng: Rng) -> Call:
    def build(**v: Any) -> Any:
        s = so.LabelSpace.from_matrices(**v)
        return s.matrix.toarray(), s.lower, s.upper, s.integrality

    return Call(
        build,
        {
            "matrix": A(rng.integers(0, 2, (3, 4)).astype(float), k.rows),
            "row_lower": A(np.zeros(3), k.array),
            "row_upper": A(np.full(3, 2.0), k.array),
            "lower": A(np.zeros(4), k.array),
            "upper": A(np.ones(4), k.array),
            "integrality": A(np.ones(4), k.array),
        },
        tolerance=None,
    )


@recipe
def files(rng: Rng) -> Call:
    which = [so.LabelSpace.read, so.load, so.load_model, so.backends.load_profile][int(rng.integers(4))]
    return Call(positional(which, "path"), {"path": A("/nonexistent.lp", k.path)})


@recipe
def interop(rng: Rng) -> Call:
    which = [so.LabelSpace.from_pulp, so.LabelSpace.from_pyomo, so.LabelSpace.from_compiled][int(rng.integers(3))]
    return Call(positional(which, "model"), {"model": A(None, k.thing)})


@recipe
def hierarchy(rng: Rng) -> Call:
    given = [("r", "a"), ("r", "b"), ("a", "c")]
    return Call(
        lambda **v: len(so.Hierarchy(**v)),
        {
            "edges": A(given, k.edges),
            "nodes": A(["r", "x"], k.loose(k.names)),
            "leaves": A(["b", "c", "x"], k.loose(k.names)),
        },
        tolerance=None,
    )


@recipe
def hierarchy_methods(rng: Rng) -> Call:
    h = tree()
    name = str(rng.choice(["index", "parents", "children", "ancestors", "descendants"]))
    if rng.random() < 0.4:
        method = [h.indices, h.restrict][int(rng.integers(2))]
        return Call(positional(method, "names"), {"names": A(["c", "d"], k.loose(k.names))}, tolerance=None)
    return Call(positional(getattr(h, name), "name"), {"name": A("a", k.label)}, tolerance=None)


@recipe
def hierarchy_from(rng: Rng) -> Call:
    if rng.random() < 0.5:
        return Call(so.Hierarchy.from_dict, {"tree": A({"r": {"a": None}}, k.thing)}, tolerance=None)
    return Call(so.Hierarchy.from_networkx, {"graph": A(None, k.thing)}, tolerance=None)


@recipe
def losses(rng: Rng) -> Call:
    h, truth = tree(), np.array([0.0, 1.0, 0.0])
    which = int(rng.integers(8))
    if which == 0:
        return Call(
            lambda weights, normalize, truth: so.losses.Hamming(weights, normalize).linear(truth),
            {"weights": A(np.ones(3), k.array), "normalize": A(False, k.flag), "truth": A(truth, k.array)},
        )
    if which == 1:
        return Call(lambda **v: so.losses.Hamming().value(**v), {"y": A(truth, k.array), "truth": A(truth, k.array)})
    if which == 2:
        return Call(
            lambda costs, truth: so.losses.CostMatrix(costs).linear(truth),
            {"costs": A(1.0 - np.eye(3), k.array), "truth": A(truth, k.array)},
        )
    if which == 3:
        return Call(
            lambda n, truth: so.losses.Footrule(n).linear(truth),
            {"n": A(2, k.count), "truth": A(np.array([1.0, 0, 0, 1.0]), k.array)},
        )
    closure = np.array([1.0, 1, 0, 1, 0, 0])
    if which == 4:
        return Call(
            lambda hierarchy, weights, truth: so.losses.HierarchicalLoss(hierarchy, weights).linear(truth),
            {
                "hierarchy": A(h, k.thing),
                "weights": A(np.ones(6), k.array),
                "truth": A(closure, k.array),
            },
        )
    if which == 5:
        return Call(
            lambda hierarchy, weights: so.losses.HierarchicalLoss(hierarchy, weights).linear(closure),
            {"hierarchy": A(h, k.thing), "weights": A("sibling", k.option)},
        )
    if which == 6:
        return Call(
            lambda hierarchy, scale, truth: so.losses.LeafHamming(hierarchy, scale).linear(truth),
            {"hierarchy": A(h, k.thing), "scale": A(1.0, k.real), "truth": A(closure, k.array)},
        )
    return Call(
        lambda hierarchy, alpha, truth: so.losses.Normalized(hierarchy, alpha).linear(truth),
        {"hierarchy": A(h, k.thing), "alpha": A(np.ones(6), k.array), "truth": A(closure, k.array)},
    )


@recipe
def zero_one(rng: Rng) -> Call:
    return Call(so.losses.ZeroOne().linear, {"truth": A(np.array([0.0, 1.0, 0.0]), k.loose(k.array))})


@recipe
def features(rng: Rng) -> Call:
    space = space_of(rng)
    which = int(rng.integers(3))

    def scores(term: Any, width: int) -> Any:
        model = so.Model(space, features={"y": term}, loss=so.losses.Hamming())
        return model.scores(np.ones(width), np.ones(2))

    if which == 0:
        return Call(
            lambda factor, intercept: scores(so.features.Linear(intercept=intercept, factor=factor), 10),
            {"factor": A(eighths(rng, 5), k.array), "intercept": A(False, k.flag)},
        )
    if which == 1:
        return Call(
            lambda index, n_weights: scores(so.features.Tied(index, n_weights), 2),
            {"index": A(np.array([0, 1, 0, 1, 1]), optional(k.array)), "n_weights": A(2, optional(k.count))},
        )
    # Its callers refuse NaN, with the number of the example.
    return Call(lambda x: so.features.as_rows(x).shape, {"x": A(eighths(rng, 3, 2), k.loose(k.rows))}, tolerance=None)


@recipe
def model(rng: Rng) -> Call:
    space = space_of(rng)
    term: Any = {"y": so.features.Linear()}

    def use(**v: Any) -> Any:
        return so.Model(**v).predict(np.ones(5), [1.0])

    return Call(
        use,
        {
            "space": A(space, k.thing),
            "features": A(term, k.thing),
            "loss": A(so.losses.Hamming(), optional(k.thing)),
            "encode": A(lambda label: np.asarray(label, float), optional(k.function)),
            "decode": A(lambda z: z, optional(k.function)),
            "key": A(lambda x: 0, optional(k.function)),
            "solver": A("auto", k.option),
            "integral": A("auto", k.option),
        },
        tolerance=None,
    )


@recipe
def model_methods(rng: Rng) -> Call:
    m = so.Model(space_of(rng), features={"y": so.features.Linear()}, loss=so.losses.Hamming())
    w, x, y, z = eighths(rng, 10), eighths(rng, 2), [0, 1, 0, 1, 0], np.array([0.0, 1, 0, 1, 0])
    X = eighths(rng, 4, 2)
    calls = [
        Call(m.scores, {"w": A(w, k.weights), "x": A(x, k.array)}),
        Call(m.joint, {"x": A(x, k.loose(k.array)), "z": A(z, k.array)}),
        Call(m.encode, {"label": A(y, k.label)}),
        Call(m.decode, {"z": A(z, k.array)}),
        Call(m.loss, {"label": A(y, k.label)}),
        Call(m.predict, {"w": A(w, k.weights), "x": A(x, k.array)}),
        Call(lambda X: m.batch(X).n_weights, {"X": A(X, k.loose(k.rows))}),
    ]
    return calls[int(rng.integers(len(calls)))]


def structure_of(rng: Rng) -> tuple[Any, Any, Any, Any, Any]:
    """A structure, one input and label, and a small data set."""
    h = tree()
    which = int(rng.integers(11))
    rows = eighths(rng, 6, 3)
    tags = rng.integers(0, 2, (6, 4))
    seqs = [eighths(rng, t, 3) for t in (2, 3, 1, 4, 2, 3)]
    states = [rng.integers(0, 3, len(s)).tolist() for s in seqs]
    if which == 0:
        return so.structures.Multiclass(["p", "q", "s"]), rows, list("pqspqs"), k.rows, k.classes
    if which == 1:
        return so.structures.MultiLabel(4), rows, tags, k.rows, k.indicators
    if which == 2:
        return so.structures.PairwiseMRF(4, [(0, 1), (1, 2)]), rows, tags, k.rows, k.indicators
    if which == 3:
        return so.structures.HierarchicalLabels(h), rows, list("cdecde"), k.rows, k.classes
    if which == 4:
        return so.structures.HierarchicalLabels(h, "leaves"), rows, [{v} for v in "cdecde"], k.rows, k.label
    if which == 5:
        return so.structures.Chain(3), seqs, states, k.rows, k.label
    if which == 6:
        segments = [[(0, int(rng.integers(3)))] for _ in seqs]
        return so.structures.Segmentation(3, 4), seqs, segments, k.rows, k.label
    if which == 7:
        return so.structures.Arborescence(), [eighths(rng, 3, 3, 2) for _ in range(4)], [[0, 1]] * 4, k.rows, k.label
    if which == 8:
        return so.structures.Assignment(), [eighths(rng, 3, 3, 2) for _ in range(4)], [[0, 2, 1]] * 4, k.rows, k.label
    if which == 9:
        return so.structures.Ranking(), [eighths(rng, 3, 2) for _ in range(4)], [[0, 1, 2]] * 4, k.rows, k.relevances
    arcs = [("s", "a"), ("s", "b"), ("a", "t"), ("b", "t")]
    return so.structures.Flow(arcs, {"s": 1, "t": -1}), rows, [[1, 0, 1, 0]] * 6, k.rows, k.flow


def _list(kind: Any) -> Any:
    """A malformed data set: as a whole, or one example of it."""

    def choose(rng: Rng, value: Any) -> k.Choice:
        if isinstance(value, np.ndarray) or rng.random() < 0.4:
            flat = not isinstance(value, np.ndarray)
            word, found, verdict = (k.label if flat else kind)(rng, value)
            return word, found, "odd" if flat else verdict
        one = value[0] if not isinstance(value[0], set) else sorted(value[0])
        inner = k.array if np.ndim(one) >= 1 and np.asarray(one).dtype.kind == "f" else kind
        if inner is not k.array and (kind is k.rows or np.ndim(one) != 1):
            inner = k.label
        word, found, verdict = inner(rng, one)
        if word in ("too long", "too short", "one axis more in front", "one axis more", "negative"):
            verdict = "odd"
        return f"{word} as first example", [found, *value[1:]], "odd" if verdict == "same" else verdict

    return choose


@recipe
def structure_codecs(rng: Rng) -> Call:
    m, X, Y, _, ykind = structure_of(rng)
    x, y = X[0], Y[0]
    which = int(rng.integers(4))
    of_any_length = isinstance(m, so.structures.Chain | so.structures.Segmentation | so.structures.Ranking)
    xkind = k.sequence if of_any_length else k.array
    if which == 0:
        y = sorted(y) if isinstance(y, set) else y
        kind = ykind if ykind in (k.relevances, k.flow) else k.label
        return Call(lambda label, x: m.encode(label, x), {"label": A(y, kind), "x": A(x, None)})
    if which == 1:
        z = m.encode(y, x)
        return Call(lambda z, x: m.decode(z, x) is None, {"z": A(z, k.array), "x": A(x, None)}, tolerance=None)
    if which == 2:
        w = eighths(rng, m.n_weights(x))
        return Call(m.scores, {"w": A(w, k.weights), "x": A(x, xkind)})
    w = eighths(rng, m.n_weights(x))
    return Call(lambda **v: m.predict(**v) is None, {"w": A(w, k.weights), "x": A(x, xkind)}, tolerance=None)


def _none_is_all(kind: Any) -> Any:
    """A kind of pairs for which None stands for all of them."""

    def choose(rng: Rng, value: Any) -> k.Choice:
        word, found, verdict = kind(rng, value)
        return word, found, "odd" if found is None else verdict

    return choose


@recipe
def structures(rng: Rng) -> Call:
    h = tree()
    s = so.structures
    arcs = [("s", "a"), ("s", "b"), ("a", "t"), ("b", "t")]
    which = int(rng.integers(11))
    table: list[tuple[Any, dict[str, A]]] = [
        (
            s.Multiclass,
            {"classes": A(["p", "q"], k.names), "loss": A("zero-one", k.option), "intercept": A(False, k.flag)},
        ),
        (
            s.MultiLabel,
            {
                "n": A(3, k.count),
                "at_least": A(1, optional(k.count)),
                "at_most": A(2, optional(k.count)),
                "loss": A(so.losses.Hamming(), optional(k.thing)),
            },
        ),
        (
            s.PairwiseMRF,
            {
                "n": A(3, k.count),
                "edges": A([(0, 1), (1, 2)], _none_is_all(k.edges)),
                "integral": A("auto", k.option),
                "loss": A(so.losses.Hamming(), optional(k.thing)),
            },
        ),
        (
            s.HierarchicalLabels,
            {
                "hierarchy": A(h, k.thing),
                "kind": A("leaf", k.option),
                "alpha": A(np.ones(6), optional(k.array)),
                "complete": A(True, k.flag),
            },
        ),
        (
            s.Chain,
            {
                "states": A(["a", "b"], k.names),
                "transitions": A(np.array([[1, 1], [1, 0]]), optional(k.array)),
                "initial": A(np.array([1, 0]), optional(k.array)),
                "loss": A(so.losses.Hamming(), k.loose(k.thing)),  # numbers are the costs of states
            },
        ),
        (
            s.Segmentation,
            {
                "states": A(["a", "b"], k.names),
                "max_length": A(2, k.count),
                "transitions": A(np.array([[1, 1], [1, 0]]), optional(k.array)),
                "pooling": A("sum", k.option),
            },
        ),
        (
            s.Arborescence,
            {
                "single_root": A(False, k.flag),
                "projective": A(False, k.flag),
                "flow": A("single", k.option),
                "loss": A(so.losses.Hamming(), optional(k.thing)),
            },
        ),
        (s.Assignment, {"n": A(3, optional(k.count)), "loss": A("hamming", k.option), "normalize": A(False, k.flag)}),
        (s.Ranking, {"measure": A("ndcg", k.option), "decay": A(0.25, k.real)}),
        (
            s.Flow,
            {
                "arcs": A(arcs, k.edges),
                "supply": A({"s": 1, "t": -1}, k.thing),
                "capacity": A(np.ones(4), optional(k.array)),
                "loss": A("absolute", k.option),
            },
        ),
        (s.ExclusiveLabels, {"hierarchy": A(h, k.thing), "exclusive": A([("c", "d"), ("d", "e")], k.edges)}),
    ]
    make, arguments = table[which]
    examples = {
        s.Chain: np.ones((2, 2)),
        s.Segmentation: np.ones((2, 2)),
        s.Arborescence: np.ones((3, 3, 1)),
        s.Assignment: np.ones((3, 3, 1)),
        s.Ranking: np.ones((3, 2)),
    }

    def build(**v: Any) -> Any:
        m = make(**v)
        x = examples.get(make, np.ones(2))
        return m.scores(np.ones(m.n_weights(x)), x), m.oracle(x).maximize(np.ones(m.space(x).n_variables)).value

    return Call(build, arguments, tolerance=None)


@recipe
def bio_rules(rng: Rng) -> Call:
    return Call(lambda tags: so.structures.bio_rules(tags) and None, {"tags": A(["O", "B-x", "I-x"], k.loose(k.names))})
