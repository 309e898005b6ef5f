"""Labels of several blocks and unusual names through every estimator: fit, predict, score, save and load.

Predictions have the form of the labels given to `fit` and the types of the names. `score` takes the predictions and
gives them full marks. A loaded estimator returns the same predictions. Labels of several blocks also go through
`model.predict` and `top_k`, and are compared with enumeration.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import structopt as so
from structopt import estimators
from structopt.errors import DeclarationError, LabelNotAClass

_BLOCKS = ("y", "self", "x 1", "größe", "z", "values", "class", "0", "y[0]", "form", "\n", "w")
#: Names of classes, states and nodes; three of each tuple are used.
_NAMES: tuple[tuple[Any, ...], ...] = (
    ("a", "b", "c"),
    (0, 1, 2),
    (2.5, -1.0, 3.0),
    ("", " ", "\n"),
    (("a", 1), ("b", 2), ("c", 3)),
    (("a", ("b", (1, 2))), ("a", ("b", (1, 3))), ()),
    (frozenset({1}), frozenset({2}), frozenset()),
    (frozenset({1}), 1, (1,)),
    (True, False, 2),
    (-5, 10**12, 7),
    (10**30, -(10**30), 0),
    ("nan", "inf", "None"),
    (np.int64(3), np.int64(4), np.int64(5)),
    (np.str_("a"), np.str_("b"), np.str_("ab")),
    (np.float32(0.1), np.float64(0.1), 0.5),
    (b"a", b"b", b"\x00"),
    ("a\x00", "a", "\x00"),
    ("a", 1, 2.5),
    (True, "x", None),
    (None, "None", 0),
    ("1", 1, b"1"),
    (float("inf"), -float("inf"), 0.0),
    ("größe", "日本", "🙂"),
    (np.bool_(True), np.bool_(False), "no"),
    ((np.int64(1), "a"), (1.5, None), "a"),
    (1, "1", (1,)),
)
_HAS_TORCH = importlib.util.find_spec("torch") is not None


def case(seed: int) -> str:
    """Run one random case; return the estimator and the form of the labels."""
    rng = np.random.default_rng(seed)
    kinds: list[tuple[Callable[[np.random.Generator], str], float]] = [
        (_blocks, 0.35),
        (_classes, 0.25),
        (_sequences, 0.1),
        (_nodes, 0.15),
        (_linear, 0.15),
    ]
    which = int(rng.choice(len(kinds), p=[share for _, share in kinds]))
    return kinds[which][0](rng)


# ---- estimators ------------------------------------------------------------------------------------


def _estimator(rng: np.random.Generator, model: so.Model, n_features: int = 2) -> Any:
    """Return an estimator of any model, with few passes."""
    which = int(rng.integers(4 if _HAS_TORCH else 3))
    if which == 0:
        surrogate = ["margin", "slack"][int(rng.integers(2))]
        return so.StructuredSVM(model, surrogate, lam=0.1, tol=0.1, max_passes=5)
    if which == 1:
        return so.CRF(model, lam=0.1, tol=0.1, max_passes=5)
    if which == 2:
        return so.ConditionalRiskMinimizer(model, kernel="rbf", lam=0.01)
    return _neural(model, n_features)


def _neural(model: so.Model, n_features: int) -> Any:
    """Return a `NeuralStructured` with one linear layer per block."""
    import torch

    from structopt.torch import NeuralStructured

    if isinstance(model, so.structures.Chain):
        return NeuralStructured(model, lambda: torch.nn.Linear(n_features, len(model.states)), epochs=1)
    shapes = {block.name: block.shape for block in model.space()}

    class Net(torch.nn.Module):
        """Scores of every block."""

        def __init__(self) -> None:
            super().__init__()
            sizes = [int(np.prod(shape, dtype=int)) for shape in shapes.values()]
            self.layers = torch.nn.ModuleList([torch.nn.Linear(n_features, size) for size in sizes])

        def forward(self, X: torch.Tensor) -> dict[str, torch.Tensor]:
            parts = zip(shapes.items(), self.layers, strict=True)
            return {name: layer(X).reshape(len(X), *shape) for (name, shape), layer in parts}

    return NeuralStructured(model, Net, epochs=1)


def _is_same(a: Any, b: Any) -> bool:
    """Return whether two values are equal and have the same types all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and _is_same(a.tolist(), b.tolist())
    if isinstance(a, dict):
        return list(a) == list(b) and all(_is_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return bool(a == b)


def _check_round(rng: np.random.Generator, estimator: Any, X: Any, y: Any, *, best: float = 1.0) -> Any:
    """Fit, predict, score the predictions, in some cases save and load; return the predictions."""
    estimator.fit(X, y=y)
    found = estimator.predict(X)
    orders = isinstance(estimator, estimators.RankSVM | estimators.AUCMaximizer)  # their scores judge the order
    if not orders:
        score = estimator.score(X, y=found)
        assert abs(score - best) < 1e-9, f"the predictions score {score}"
    estimator.score(X, y=y)
    if rng.random() < 0.5:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "estimator.npz"
            estimator.save(path)
            again = type(estimator)(**estimator.get_params(deep=False)) if _is_neural(estimator) else None
            again = so.load(path) if again is None else again.load(path)
        assert _is_same(again.predict(X), found), "a loaded estimator predicts something else"
        # Names that equal each other (1 and True) would pass for each other in the comparison of labels only.
        labels = y if orders else found
        assert abs(again.score(X, y=labels) - estimator.score(X, y=labels)) < 1e-9
    return found


def _is_neural(estimator: Any) -> bool:
    return type(estimator).__name__ == "NeuralStructured"


def _best(estimator: Any) -> float:
    """Return the score of predictions that are all right."""
    return 0.0 if isinstance(estimator, so.ConditionalRiskMinimizer) else 1.0


def _check_names(found: Any, names: Sequence[Any]) -> None:
    """Raise unless every predicted name has the value and type of a name that was given."""
    plain = found.tolist() if isinstance(found, np.ndarray) else found
    items = isinstance(found, np.ndarray) and found.dtype != object
    for label in plain:
        known = [name.item() if items and isinstance(name, np.generic) else name for name in names]
        assert any(_is_same(label, name) for name in known), f"{label!r} is not one of {names!r}"


def _container(rng: np.random.Generator, labels: list[Any]) -> Any:
    """Return labels as a list, a tuple or an array of objects."""
    which = int(rng.integers(4))
    if which == 0:
        return tuple(labels)
    if which == 1:
        return np.fromiter(labels, dtype=object, count=len(labels))
    return labels


# ---- labels ----------------------------------------------------------------------------------------


def _space(rng: np.random.Generator, follows: bool) -> so.LabelSpace:
    """Return a space of one to three blocks; all others follow from the first one if wanted."""
    names = rng.permutation(_BLOCKS).tolist()[:3]
    space = so.LabelSpace("drawn")
    shape: Any = [(2,), (3,), (2, 2), (1,), ()][int(rng.integers(5))]
    first = space.binary(names[0], shape)
    for name in names[1 : 1 + int(rng.integers(3))]:
        other = space.binary(name, shape)
        if follows:
            space.subject_to(other + first == 1 if rng.random() < 0.5 else other == first)
        elif rng.random() < 0.7:
            space.subject_to(other <= first)
    return space


def _blocks(rng: np.random.Generator) -> str:
    """Run labels of several blocks, in each of the three forms."""
    form = ["first", "blocks", "vector"][int(rng.integers(3))]
    space = _space(rng, follows=form == "first" or rng.random() < 0.2)
    terms = {block.name: so.features.Linear() for block in space}
    losses = {block.name: so.losses.Hamming() for block in space}
    model = so.Model(space, terms, losses if rng.random() < 0.7 else so.losses.Hamming())
    n, Z = int(rng.integers(2, 6)), space.enumerate()
    X, points = rng.normal(size=(n, 2)), Z[rng.integers(len(Z), size=n)]
    first = next(iter(space))
    if form == "blocks":
        y: Any = [space.blocks(z) for z in points]
    elif form == "vector":
        y = points if rng.random() < 0.5 else [z.tolist() for z in points]
    else:
        y = points[:, first.slice].reshape(n, *first.shape)
        y = y if rng.random() < 0.5 else list(y)
    assert all(space.contains(label) for label in y)
    estimator = _estimator(rng, model)
    found = _check_round(rng, estimator, X, y, best=_best(estimator))
    _check_form(space, found, form, n)
    if isinstance(estimator, so.StructuredSVM | so.CRF):
        w = np.ravel(estimator.result_.w)
        for x, label in zip(X, found, strict=True):
            _check_best(model, w, x, label, Z)
        if rng.random() < 0.2:
            _check_form(space, estimator.predict(X, decision="bayes"), form, n)
    if rng.random() < 0.3:
        _check_model(rng, model, X, Z)
    return f"{type(estimator).__name__}, {form}"


def _check_form(space: so.LabelSpace, found: Any, form: str, n: int) -> None:
    """Raise unless predictions have a form and lie in the space."""
    shape = next(iter(space)).shape if form == "first" else (space.n_variables,)
    if form == "blocks":
        assert isinstance(found, list) and all(list(label) == list(space.block_names) for label in found), found
        assert all(label[block.name].shape == block.shape for label in found for block in space), found
    else:
        assert isinstance(found, np.ndarray) and found.shape == (n, *shape), found
    assert len(found) == n and all(space.contains(label) for label in found)


def _check_best(model: so.Model, w: Any, x: Any, label: Any, Z: Any) -> None:
    """Raise unless a label has the largest score of all labels."""
    c = model.scores(w, x)
    assert abs(float(c @ model.encode(label, x)) - float((Z @ c).max())) < 1e-7, "the prediction is not the best label"


def _check_model(rng: np.random.Generator, model: so.Model, X: Any, Z: Any) -> None:
    """Compare `model.predict` and `top_k` at random weights with enumeration."""
    w = rng.normal(size=model.n_weights(X[0]))
    first = next(iter(model.space()))
    for x in X:
        label = model.predict(w, x)
        if not isinstance(label, dict):  # the first block alone: the other blocks follow from it
            same = (Z[:, first.slice] == np.ravel(label)).all(axis=1)
            assert same.sum() == 1, f"{label} is the first block of {same.sum()} labels"
        _check_best(model, w, x, label, Z)
    if not _HAS_TORCH:
        return
    import torch

    from structopt.torch import top_k

    c = model.scores(w, X[0])
    tables = {block.name: torch.tensor(c[block.slice]).reshape(1, *block.shape) for block in model.space()}
    labels, values = top_k(model, tables, 3)
    best = np.sort(Z @ c)[::-1][:3]
    assert np.allclose(values[0].numpy(), best), f"{values[0]}, not {best}"
    assert np.allclose([c @ model.encode(label) for label in labels[0]], best), "top_k: labels and values differ"
    assert len({model.encode(label).tobytes() for label in labels[0]}) == len(best), "top_k: a label occurs twice"


def _drawn_names(rng: np.random.Generator) -> list[Any]:
    names = list(_NAMES[int(rng.integers(len(_NAMES)))])
    return [names[k] for k in rng.permutation(len(names))][: int(rng.integers(2, 4))]


def _classes(rng: np.random.Generator) -> str:
    """Run class names through the estimators of a `Multiclass` model."""
    names, n = _drawn_names(rng), int(rng.integers(3, 7))
    model = so.structures.Multiclass(names)
    X, y = rng.normal(size=(n, 2)), [names[k] for k in rng.integers(len(names), size=n)]
    estimator = _estimator(rng, model)
    found = _check_round(rng, estimator, X, _container(rng, y), best=_best(estimator))
    assert len(found) == n
    _check_names(found, names)
    return f"{type(estimator).__name__}, classes"


def _sequences(rng: np.random.Generator) -> str:
    """Run names of states through the estimators of a `Chain` model."""
    names = _drawn_names(rng)
    lengths = rng.integers(1, 5, size=int(rng.integers(2, 6)))
    X = [rng.normal(size=(length, 2)) for length in lengths]
    y = [[names[k] for k in rng.integers(len(names), size=length)] for length in lengths]
    which = int(rng.integers(4 if _HAS_TORCH else 3))
    model = so.structures.Chain(names)
    if which == 0:
        estimator: Any = so.StructuredSVM(model, lam=0.1, tol=0.1, max_passes=5)
    elif which == 1:
        estimator = so.CRF(model, lam=0.1, tol=0.1, max_passes=5)
    elif which == 2:
        estimator = so.CRF(lam=0.1, tol=0.1, max_passes=5)  # finds the states itself
    else:
        estimator = _neural(model, 2)
    try:
        found = _check_round(rng, estimator, X, y)
    except DeclarationError as error:
        missing = "states are missing" in str(error) and None in names
        assert which == 2 and (missing or "cannot be sorted" in str(error)), error
        return "CRF, refused states without an order"
    assert [len(label) for label in found] == lengths.tolist()
    for label in found:
        _check_names(label, names)
    return f"{type(estimator).__name__}, states"


def _nodes(rng: np.random.Generator) -> str:
    """Run names of nodes through the estimators of a hierarchy."""
    a, b, c = _NAMES[int(rng.integers(len(_NAMES)))]
    root: Hashable = ("the root", 7)
    arcs = [(root, a), (root, b), (b, c)] if rng.random() < 0.5 else [(root, a), (root, b), (root, c)]
    hierarchy = so.Hierarchy(arcs)
    kind: Any = ["leaf", "leaves", "closure"][int(rng.integers(3))]
    n, leaves = int(rng.integers(4, 8)), list(hierarchy.leaves)
    X, drawn = rng.normal(size=(n, 2)), rng.integers(len(leaves), size=n)
    if kind == "leaf":
        y: Any = _container(rng, [leaves[k] for k in drawn])
    elif kind == "leaves":
        y = [{leaves[k], leaves[(k + 1) % len(leaves)]} if rng.random() < 0.5 else {leaves[k]} for k in drawn]
    else:
        points = so.structures.HierarchicalLabels(hierarchy, kind).space().enumerate()
        y = points[rng.integers(len(points), size=n)].astype(int)
    estimator: Any
    if rng.random() < 0.6:
        estimator = so.HierarchicalSVM(hierarchy, kind=kind, lam=0.1, tol=0.1, max_passes=5)
    else:
        estimator = so.SharedSVM(hierarchy, kind=kind, lam=0.1, tol=0.1, max_passes=5, max_rounds=2)
    found = _check_round(rng, estimator, X, y)
    if kind == "leaf":
        _check_names(found, leaves)
    elif kind == "leaves":
        for label in found:
            _check_names(list(label), leaves)
    else:
        assert found.shape == (n, len(hierarchy))
    return f"{type(estimator).__name__}, {kind}"


def _linear(rng: np.random.Generator) -> str:
    """Run class names and levels through the linear estimators."""
    which, n = int(rng.integers(6)), int(rng.integers(6, 10))
    X = rng.normal(size=(n, 2))
    options: dict[str, Any] = {"lam": 0.1, "tol": 0.1, "max_passes": 5}
    if which < 3:
        names = _drawn_names(rng)[: 3 if which == 0 else 2]
        y = [names[k % len(names)] for k in range(n)]
        make = (estimators.LinearSVM, estimators.FBetaSVM, estimators.AUCMaximizer)[which]
        estimator: Any = make(**options)
        try:
            estimator.fit(X, y=_container(rng, y))
        except (LabelNotAClass, ValueError) as error:
            # The classes are texts or whole numbers, as scikit-learn has it. The message about fractions is its own.
            fractions = any(isinstance(name, float | np.floating) and not float(name).is_integer() for name in names)
            assert fractions or isinstance(error, LabelNotAClass), error
            assert not all(isinstance(name, str) and not name.endswith("\0") for name in names)
            whole = all(isinstance(name, int | np.integer) and abs(name) < 2**63 for name in names)
            assert not whole, "whole numbers were refused"
            return f"{make.__name__}, refused"
        positive = which != 1 or bool((estimator.predict(X) == estimator.classes_[1]).any())
        found = _check_round(rng, estimator, X, y, best=1.0 if positive else 0.0)
        kinds = {type(name) for name in names}
        assert found.dtype == estimator.classes_.dtype and (len(kinds) > 1 or found.dtype == np.array(names).dtype)
        assert all(any(label == name for name in names) for label in found.tolist()), found
        return f"{make.__name__}, classes"
    y = rng.integers(3, size=n).astype(rng.choice(["int64", "float64", "int8"]))
    y[:2] = 0, 1
    estimator = (estimators.QuantileRegressor, estimators.OrdinalRegressor, estimators.RankSVM)[which - 3](**options)
    found = _check_round(rng, estimator, X, y if rng.random() < 0.5 else y.tolist())
    assert found.shape == (n,)
    return f"{type(estimator).__name__}, levels"
