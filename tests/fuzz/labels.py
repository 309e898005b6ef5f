"""Labels of several blocks and unusual class names through every estimator: fit, predict, score, save and load.

Predictions have the form of the labels given to `fit`, `score` takes them, and a loaded estimator repeats them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import structopt as so

_NAMES = ("y", "self", "x 1", "größe", "z", "values", "class", "", "0", "y[0]")
_CLASSES: tuple[tuple[Any, ...], ...] = (
    ("a", "b", "c"),
    (0, 1, 2),
    (2.5, -1.0, 3.0),
    ("", " ", "\n"),
    (("a", 1), ("b", 2), ("c", 3)),
    (frozenset({1}), frozenset({2}), frozenset()),
    (True, False),
    (-5, 10**12, 7),
    ("nan", "inf", "None"),
    (np.int64(3), np.int64(4), np.int64(5)),
)


def case(seed: int) -> str:
    """Run one random case; return the estimator and the form of the labels."""
    rng = np.random.default_rng(seed)
    return _classes(rng) if rng.random() < 0.25 else _blocks(rng)


def _space(rng: np.random.Generator, follows: bool) -> so.LabelSpace:
    """Return a space of one to three blocks; all others follow from the first one if wanted."""
    names = [name for name in rng.permutation(_NAMES).tolist() if name][:3]
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
    _round(estimator, X, y, [model.encode(label) for label in y], model)
    found = estimator.predict(X)
    shape = first.shape if form == "first" else (space.n_variables,)
    if form == "blocks":
        assert isinstance(found, list) and all(list(label) == list(space.block_names) for label in found), found
    else:
        assert isinstance(found, np.ndarray) and found.shape == (n, *shape), found
    assert all(space.contains(label) for label in found)
    return f"{type(estimator).__name__}, {form}"


def _estimator(rng: np.random.Generator, model: so.Model) -> Any:
    which = int(rng.integers(3))
    if which == 0:
        surrogate = ["margin", "slack"][int(rng.integers(2))]
        return so.StructuredSVM(model, surrogate, lam=0.1, tol=0.1, max_passes=5)
    if which == 1:
        return so.CRF(model, lam=0.1, tol=0.1, max_passes=5)
    return so.ConditionalRiskMinimizer(model, kernel="rbf", lam=0.01)


def _round(estimator: Any, X: Any, y: Any, truth: list[Any], model: so.Model) -> None:
    """Fit, predict, score the predictions, save, load and predict again."""
    estimator.fit(X, y=y)
    found = estimator.predict(X)
    best = 0.0 if isinstance(estimator, so.ConditionalRiskMinimizer) else 1.0
    assert abs(estimator.score(X, y=found) - best) < 1e-9, "the score of the predictions themselves"
    estimator.score(X, y=y)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "estimator.npz"
        estimator.save(path)
        again = so.load(path)
    assert repr(again.predict(X)) == repr(found), "predictions after loading"
    encoded = [model.encode(label) for label in found]
    assert all(np.shape(z) == np.shape(truth[0]) for z in encoded)


def _classes(rng: np.random.Generator) -> str:
    """Run class names through the estimators that take one class per example."""
    names = _CLASSES[int(rng.integers(len(_CLASSES)))]
    model, n = so.structures.Multiclass(list(names)), int(rng.integers(3, 7))
    X, y = rng.normal(size=(n, 2)), [names[k] for k in rng.integers(len(names), size=n)]
    estimator = _estimator(rng, model)
    _round(estimator, X, y, [model.encode(label) for label in y], model)
    for label in estimator.predict(X):
        assert (tuple(label) if isinstance(label, np.ndarray) else label) in names, label
    return f"{type(estimator).__name__}, classes"
