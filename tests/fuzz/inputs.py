"""Spaces that depend on the input: empty inputs, arrays, dicts, lists and objects, with and without ``key=``.

Predictions lie in the space of their own input and equal enumeration. Risks equal enumeration, and an input without
variables adds 0. Two spaces under one key raise an error that names ``key=``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import structopt as so
from structopt.errors import DeclarationError


class _Object:
    """An input of a class of the user."""

    def __init__(self, rows: Any, both: Any, rule: int) -> None:
        self.parts = {"rows": rows, "both": both, "rule": rule}

    def __getitem__(self, name: str) -> Any:
        return self.parts[name]


#: How an input is made of the feature rows of tags and pairs and the number of its rule, and the fields of the three.
_FORMS: dict[str, tuple[Callable[[Any, Any, int], Any], tuple[Any, Any, Any]]] = {
    "dict": (lambda rows, both, rule: {"rows": rows, "both": both, "rule": rule}, ("rows", "both", "rule")),
    "list": (lambda rows, both, rule: [rows, both, rule], (0, 1, 2)),
    "object": (_Object, ("rows", "both", "rule")),
    "array": (lambda rows, both, rule: rows, (None, None, None)),
}


def _declared(size: int, rule: int, pairs: bool) -> so.LabelSpace:
    """Return the space of an input: tags with a rule, and pairs of neighbouring tags if wanted."""
    space = so.LabelSpace(f"{size} tags, rule {rule}")
    tag = space.binary("tag", size)
    if size and rule == 1:
        space.subject_to(tag.sum() <= 1 + size // 2)
    if size and rule == 2:
        space.subject_to((tag * np.arange(1.0, size + 1.0)).sum() >= 1)
    if pairs:
        both = space.binary("both", max(size - 1, 0))
        for k in range(size - 1):
            space.subject_to(both[k] <= tag[k])
            space.subject_to(both[k] <= tag[k + 1])
            space.subject_to(both[k] >= tag[k] + tag[k + 1] - 1)
    return space


def case(seed: int) -> str:
    """Run one random case; return the form of the inputs and what was checked."""
    rng = np.random.default_rng(seed)
    form = list(_FORMS)[int(rng.integers(len(_FORMS)))]
    make, fields = _FORMS[form]
    pairs, n = bool(rng.random() < 0.3), int(rng.integers(1, 6))
    sizes = np.where(rng.random(n) < 0.3, 0, rng.integers(1, 5, size=n))
    X = [
        make(rng.normal(size=(size, 2)), rng.normal(size=(max(size - 1, 0), 2)), int(rng.integers(3)))
        for size in sizes.tolist()
    ]

    def rows_of(x: Any) -> Any:
        return x if form == "array" else x[fields[0]]

    def rule_of(x: Any) -> int:
        return len(x) % 3 if form == "array" else x[fields[2]]

    def space(x: Any) -> so.LabelSpace:
        return _declared(len(rows_of(x)), rule_of(x), pairs)

    terms: dict[str, Any] = {"tag": so.features.Shared(fields[0])}
    if pairs and form != "array" and rng.random() < 0.5:
        terms["both"] = so.features.Shared(fields[1])
    losses: Any = {"tag": so.losses.Hamming(), "both": so.losses.Hamming()} if pairs else so.losses.Hamming()
    wrong = bool(rng.random() < 0.25)

    def own_key(x: Any) -> Any:
        return len(rows_of(x)), rule_of(x)

    keys: list[Any] = [lambda x: 0, lambda x: rule_of(x), lambda x: len(rows_of(x)) > 1] if wrong else [own_key]
    key: Any = keys[int(rng.integers(len(keys)))]
    if form == "array" and not wrong and rng.random() < 0.5:
        key = None
    model = so.Model(space, terms, losses, key=key)
    points = [_declared(len(rows_of(x)), rule_of(x), pairs).enumerate() for x in X]
    truths = [Z[int(rng.integers(len(Z)))] for Z in points]
    first = bool(rng.random() < 0.5)
    y = [z[: len(rows_of(x))] if first else _declared(len(rows_of(x)), rule_of(x), pairs).blocks(z)
         for x, z in zip(X, truths, strict=True)]  # fmt: skip
    w = rng.normal(size=2 * len(terms))
    if wrong:
        return f"{form}, {_check_wrong(rng, model, X, y, w, key)}"
    best = [_check_prediction(model, w, x, Z) for x, Z in zip(X, points, strict=True)]
    for surrogate in ("margin", "slack"):
        risk = so.train.StructuredRisk(model, X, y, surrogate, rtol=1e-9)
        # Models of functions are not copied, and weights, of features or of examples, do not matter to empty examples.
        report = so.testing.check_risk(risk, n=4, skip=("copies", "weights", "rejected"), random_state=seed)
        assert report.ok, report
    if rng.random() < 0.3:
        _check_fit(rng, model, X, y, points)
    return f"{form}, {'key' if key else 'shape'}{', empty' if 0 in sizes else ''}{', only empty' * (not any(best))}"


def _check_prediction(model: so.Model, w: Any, x: Any, Z: Any) -> int:
    """Compare one prediction with enumeration; return the number of variables."""
    c = model.scores(w, x)
    z = model.encode(model.predict(w, x), x)
    assert _holds(z, Z), f"{z} is not in the space of its input"
    assert abs(float(c @ z) - float((Z @ c).max())) < 1e-7, "the prediction is not the best label"
    return int(z.size)


def _holds(z: Any, Z: Any) -> bool:
    return bool((np.abs(Z - z) < 1e-6).all(axis=1).any())


def _check_fit(rng: np.random.Generator, model: so.Model, X: Any, y: Any, points: list[Any]) -> None:
    """Fit an estimator; its predictions lie in the spaces of their inputs and score 1."""
    make: Any = so.StructuredSVM if rng.random() < 0.6 else so.CRF
    estimator = make(model, lam=0.1, tol=0.1, max_passes=5).fit(X, y)
    found = estimator.predict(X)
    for x, label, Z in zip(X, found, points, strict=True):
        c, z = model.scores(estimator.result_.w, x), model.encode(label, x)
        assert _holds(z, Z) and abs(float(c @ z) - float((Z @ c).max())) < 1e-7
    assert abs(estimator.score(X, found) - 1.0) < 1e-9


def _check_wrong(rng: np.random.Generator, model: so.Model, X: Any, y: Any, w: Any, key: Any) -> str:
    """Two different spaces under one key raise; a coarse key is fine if no two spaces meet under it."""
    spaces: dict[Any, set[str]] = {}
    for x in X:
        spaces.setdefault(key(x), set()).add(model._declare(x).fingerprint)  # type: ignore[misc]
    clash = any(len(found) > 1 for found in spaces.values())
    calls: list[Callable[[], Any]] = [
        lambda: model.batch(X),
        lambda: so.train.StructuredRisk(model, X, y, "margin"),
        lambda: so.StructuredSVM(model, max_passes=2).fit(X, y),
        lambda: [model.predict(w, x) for x in X],
    ]
    call = calls[int(rng.integers(len(calls)))]
    try:
        call()
    except DeclarationError as error:
        assert "key=" in str(error), error
        assert clash, error
        return "wrong key: rejected"
    assert not clash, "two spaces under one key"
    return "coarse key: right"
