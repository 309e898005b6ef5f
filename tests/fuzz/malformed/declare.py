"""Calls that declare: spaces, expressions, hierarchies, losses, features, models, structures."""

from __future__ import annotations

from typing import Any

import numpy as np

import structopt as so

from . import kinds as k
from .call import Argument as A
from .call import Call, call, eighths, exact, maybe, one_of, positional, recipe

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
    bounds = {"lower": eighths(rng, 3) - 4.0, "upper": eighths(rng, 3) + 4.0} if kind != "binary" else {}
    space = so.LabelSpace()
    declare = getattr(space, kind)
    found = lambda **v: declare(**v) is None or (space.lower, space.upper)  # noqa: E731
    return call(found, name=A("y", k.text), shape=A(3, k.shape), **bounds)


@recipe
def declare_scalar_bounds(rng: Rng) -> Call:
    space, bound = so.LabelSpace(), k.loose(k.real)
    found = lambda **v: space.integer("y", 3, **v) is None or (space.lower, space.upper)  # noqa: E731
    return call(found, lower=A(-2.0, bound), upper=A(3.0, bound))


@recipe
def label_space(rng: Rng) -> Call:
    return call(so.LabelSpace, name=A("x", k.text))


@recipe
def subject_to(rng: Rng) -> Call:
    space = space_of(rng)
    row = space["y"].sum() >= 1
    return exact(lambda row, name: space.subject_to(row, name=name), row=row, name=A("r", k.text))


@recipe
def arithmetic(rng: Rng) -> Call:
    y, vector = space_of(rng)["y"], eighths(rng, 5)
    vector[vector == 0] = 1.0
    operations = [
        lambda v: y + v, lambda v: v - y, lambda v: y * v, lambda v: y / v, lambda v: y @ v, lambda v: v @ y,
        lambda v: y <= v,
    ]  # fmt: skip
    operation = operations[int(rng.integers(7))]

    def compute(v: Any) -> Any:
        found = operation(v)
        return (found.matrix.toarray(), getattr(found, "constant", 0), getattr(found, "upper", 0))

    return exact(compute, v=A(vector, k.broadcast))


@recipe
def indexing(rng: Rng) -> Call:
    y = space_of(rng)["y"]
    return exact(lambda i: y[i].matrix.toarray().shape and None, i=A(2, k.loose(k.thing)))


@recipe
def expression_methods(rng: Rng) -> Call:
    y = so.LabelSpace().binary("y", (2, 3))
    bound = k.loose(k.real)  # arrays are bounds of several rows
    between = lambda **v: y.sum().between(**v).lower  # noqa: E731
    calls = [
        exact(lambda axis: y.sum(axis).matrix.toarray(), axis=A(1, k.loose(k.thing))),
        exact(lambda shape: y.reshape(shape).matrix.toarray(), shape=(3, 2)),
        call(lambda z: y.value(z), z=A(np.ones(6), k.loose(k.array))),
        exact(between, lower=A(1.0, bound), upper=A(3.0, bound)),
        call(lambda **v: so.concatenate(**v).matrix.toarray(), expressions=[y, y], axis=0),
    ]
    return one_of(rng, calls)


@recipe
def space_labels(rng: Rng) -> Call:
    space, z = space_of(rng), np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    calls = [
        exact(lambda z: space.vector(y=z), z=z),
        exact(space.blocks, z=z),
        exact(space.contains, z=z, tol=1e-6),
        exact(lambda **v: len(space.violations(**v)), z=z, tol=1e-6),
        call(space.enumerate, limit=1000),
    ]
    return one_of(rng, calls)


@recipe
def from_matrices(rng: Rng) -> Call:
    def build(**v: Any) -> Any:
        s = so.LabelSpace.from_matrices(**v)
        return s.matrix.toarray(), s.lower, s.upper, s.integrality

    matrix, bounds = A(rng.integers(0, 2, (3, 4)).astype(float), k.rows), {"lower": np.zeros(4), "upper": np.ones(4)}
    return call(
        build, matrix=matrix, row_lower=np.zeros(3), row_upper=np.full(3, 2.0), integrality=np.ones(4), **bounds
    )


@recipe
def files(rng: Rng) -> Call:
    which = [so.LabelSpace.read, so.load, so.load_model, so.backends.load_profile][int(rng.integers(4))]
    return exact(positional(which, "path"), path="/nonexistent.lp")


@recipe
def interop(rng: Rng) -> Call:
    which = [so.LabelSpace.from_pulp, so.LabelSpace.from_pyomo, so.LabelSpace.from_compiled][int(rng.integers(3))]
    return exact(positional(which, "model"), model=None)


@recipe
def hierarchy(rng: Rng) -> Call:
    edges, names = A([("r", "a"), ("r", "b"), ("a", "c")], k.edges), k.loose(k.names)
    return call(lambda **v: len(so.Hierarchy(**v)), edges=edges, nodes=A(["r", "x"], names), leaves=A([*"bcx"], names))


@recipe
def hierarchy_methods(rng: Rng) -> Call:
    h = tree()
    name = str(rng.choice(["index", "parents", "children", "ancestors", "descendants"]))
    if rng.random() < 0.4:
        method = [h.indices, h.restrict][int(rng.integers(2))]
        return call(positional(method, "names"), names=A(["c", "d"], k.loose(k.names)))
    return call(positional(getattr(h, name), "name"), name=A("a", k.label))


@recipe
def hierarchy_from(rng: Rng) -> Call:
    calls = [call(so.Hierarchy.from_dict, tree={"r": {"a": None}}), call(so.Hierarchy.from_networkx, graph=None)]
    return one_of(rng, calls)


@recipe
def losses(rng: Rng) -> Call:
    s, h, truth, closure = so.losses, tree(), np.array([0.0, 1.0, 0.0]), np.array([1.0, 1, 0, 1, 0, 0])
    square, ones = np.array([1.0, 0, 0, 1.0]), np.ones(6)
    calls = [
        exact(lambda truth, **v: s.Hamming(**v).linear(truth), weights=np.ones(3), normalize=False, truth=truth),
        exact(lambda **v: s.Hamming().value(**v), y=truth, truth=truth),
        exact(lambda costs, truth: s.CostMatrix(costs).linear(truth), costs=1.0 - np.eye(3), truth=truth),
        exact(lambda n, truth: s.Footrule(n).linear(truth), n=2, truth=square),
        exact(lambda truth, **v: s.HierarchicalLoss(**v).linear(truth), hierarchy=h, weights=ones, truth=closure),
        exact(lambda **v: s.HierarchicalLoss(**v).linear(closure), hierarchy=h, weights="sibling"),
        exact(lambda truth, **v: s.LeafHamming(**v).linear(truth), hierarchy=h, scale=1.0, truth=closure),
        exact(lambda truth, **v: s.Normalized(**v).linear(truth), hierarchy=h, alpha=ones, truth=closure),
    ]
    return one_of(rng, calls)


@recipe
def zero_one(rng: Rng) -> Call:
    return exact(so.losses.ZeroOne().linear, truth=A(np.array([0.0, 1.0, 0.0]), k.loose(k.array)))


@recipe
def features(rng: Rng) -> Call:
    space, f = space_of(rng), so.features

    def scores(term: Any, width: int) -> Any:
        model = so.Model(space, features={"y": term}, loss=so.losses.Hamming())
        return model.scores(np.ones(width), np.ones(2))

    index = np.array([0, 1, 0, 1, 1])
    calls = [
        exact(lambda **v: scores(f.Linear(**v), 10), factor=eighths(rng, 5), intercept=False),
        exact(lambda index, n_weights: scores(f.Tied(index, n_weights), 2), index=maybe(index), n_weights=maybe(2)),
        # Its callers refuse NaN, with the number of the example.
        call(lambda x: f.as_rows(x).shape, x=A(eighths(rng, 3, 2), k.loose(k.rows))),
    ]
    return one_of(rng, calls)


@recipe
def model(rng: Rng) -> Call:
    own = {"encode": maybe(lambda label: np.asarray(label, float)), "decode": maybe(lambda z: z)}
    own |= {"key": maybe(lambda x: 0), "loss": maybe(so.losses.Hamming())}
    given: dict[str, Any] = {"space": space_of(rng), "features": {"y": so.features.Linear()}, **own}
    return call(lambda **v: so.Model(**v).predict(np.ones(5), [1.0]), solver="auto", integral="auto", **given)


@recipe
def model_methods(rng: Rng) -> Call:
    m = so.Model(space_of(rng), features={"y": so.features.Linear()}, loss=so.losses.Hamming())
    w, x, z, label = eighths(rng, 10), eighths(rng, 2), np.array([0.0, 1, 0, 1, 0]), A([0, 1, 0, 1, 0], k.label)
    calls = [
        exact(m.scores, w=w, x=x),
        exact(m.joint, x=A(x, k.loose(k.array)), z=z),
        exact(m.encode, label=label),
        exact(m.decode, z=z),
        exact(m.loss, label=label),
        exact(m.predict, w=w, x=x),
        exact(lambda X: m.batch(X).n_weights, X=A(eighths(rng, 4, 2), k.loose(k.rows))),
    ]
    return one_of(rng, calls)


def structure_of(rng: Rng) -> tuple[Any, Any, Any, Any]:
    """A structure, a small data set of it, and the kind of its labels."""
    s, h = so.structures, tree()
    rows, tags = eighths(rng, 6, 3), rng.integers(0, 2, (6, 4))
    seqs = [eighths(rng, t, 3) for t in (2, 3, 1, 4, 2, 3)]
    squares, arcs = [eighths(rng, 3, 3, 2) for _ in range(4)], [("s", "a"), ("s", "b"), ("a", "t"), ("b", "t")]
    table: list[tuple[Any, Any, Any, Any]] = [
        (s.Multiclass(["p", "q", "s"]), rows, list("pqspqs"), k.classes),
        (s.MultiLabel(4), rows, tags, k.indicators),
        (s.PairwiseMRF(4, [(0, 1), (1, 2)]), rows, tags, k.indicators),
        (s.HierarchicalLabels(h), rows, list("cdecde"), k.classes),
        (s.HierarchicalLabels(h, "leaves"), rows, [{v} for v in "cdecde"], k.label),
        (s.Chain(3), seqs, [rng.integers(0, 3, len(x)).tolist() for x in seqs], k.label),
        (s.Segmentation(3, 4), seqs, [[(0, int(rng.integers(3)))] for _ in seqs], k.label),
        (s.Arborescence(), squares, [[0, 1]] * 4, k.label),
        (s.Assignment(), squares, [[0, 2, 1]] * 4, k.label),
        (s.Ranking(), [eighths(rng, 3, 2) for _ in range(4)], [[0, 1, 2]] * 4, k.relevances),
        (s.Flow(arcs, {"s": 1, "t": -1}), rows, [[1, 0, 1, 0]] * 6, k.flow),
    ]
    return table[int(rng.integers(len(table)))]


def of_examples(kind: Any) -> Any:
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
    m, X, Y, ykind = structure_of(rng)
    x, y = A(X[0]), sorted(Y[0]) if isinstance(Y[0], set) else Y[0]
    z, w = m.encode(y, X[0]), eighths(rng, m.n_weights(X[0]))
    of_any_length = isinstance(m, so.structures.Chain | so.structures.Segmentation | so.structures.Ranking)
    own = A(X[0], k.sequence if of_any_length else k.array)
    calls = [
        exact(m.encode, label=A(y, ykind if ykind in (k.relevances, k.flow) else k.label), x=x),
        call(lambda z, x: m.decode(z, x) is None, z=z, x=x),
        exact(m.scores, w=w, x=own),
        call(lambda **v: m.predict(**v) is None, w=w, x=own),
    ]
    return one_of(rng, calls)


def _none_is_all(kind: Any) -> Any:
    """A kind of pairs for which None stands for all of them."""

    def choose(rng: Rng, value: Any) -> k.Choice:
        word, found, verdict = kind(rng, value)
        return word, found, "odd" if found is None else verdict

    return choose


@recipe
def structures(rng: Rng) -> Call:
    s, h, two, pairs = so.structures, tree(), A(["a", "b"], k.names), A([(0, 1), (1, 2)], _none_is_all(k.edges))
    loss, allowed = maybe(so.losses.Hamming()), maybe(np.array([[1, 1], [1, 0]]))
    arcs, groups = A([("s", "a"), ("s", "b"), ("a", "t"), ("b", "t")], k.edges), A([("c", "d"), ("d", "e")], k.edges)
    of_states = A(so.losses.Hamming(), k.loose(k.thing))  # numbers are the costs of states
    yes = {"single_root": False, "projective": False}
    table: list[tuple[Any, Any, dict[str, Any]]] = [
        (s.Multiclass, (2,), {"classes": A(["p", "q"], k.names), "loss": "zero-one", "intercept": False}),
        (s.MultiLabel, (2,), {"n": 3, "at_least": maybe(1), "at_most": maybe(2), "loss": loss}),
        (s.PairwiseMRF, (2,), {"n": 3, "edges": pairs, "integral": "auto", "loss": loss}),
        (s.HierarchicalLabels, (2,), {"hierarchy": h, "kind": "leaf", "alpha": maybe(np.ones(6)), "complete": True}),
        (
            s.Chain, (2, 2),
            {"states": two, "transitions": allowed, "initial": maybe(np.array([1, 0])), "loss": of_states},
        ),
        (s.Segmentation, (2, 2), {"states": two, "max_length": 2, "transitions": allowed, "pooling": "sum"}),
        (s.Arborescence, (3, 3, 1), {**yes, "flow": "single", "loss": loss}),
        (s.Assignment, (3, 3, 1), {"n": maybe(3), "loss": "hamming", "normalize": False}),
        (s.Ranking, (3, 2), {"measure": "ndcg", "decay": 0.25}),
        (s.Flow, (2,), {"arcs": arcs, "supply": {"s": 1, "t": -1}, "capacity": maybe(np.ones(4)), "loss": "absolute"}),
        (s.ExclusiveLabels, (2,), {"hierarchy": h, "exclusive": groups}),
    ]  # fmt: skip
    make, shape, arguments = table[int(rng.integers(len(table)))]

    def build(**v: Any) -> Any:
        m, x = make(**v), np.ones(shape)
        return m.scores(np.ones(m.n_weights(x)), x), m.oracle(x).maximize(np.ones(m.space(x).n_variables)).value

    return call(build, **arguments)


@recipe
def bio_rules(rng: Rng) -> Call:
    return call(lambda tags: so.structures.bio_rules(tags) and None, tags=A(["O", "B-x", "I-x"], k.loose(k.names)))
