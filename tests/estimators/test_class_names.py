"""Class names of several types come back unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structopt as so
from structopt.errors import LabelNotAClass
from structopt.estimators._labels import as_array, name_array

NAMES: list[list[Any]] = [
    ["a", 1, 2.5],
    [True, "x", None],
    [("a", 1), ("b", 2), ("c", (3, 4))],
    [("a", ("b", 1)), ("a",), "a"],
    [(1, 2), (3, 4), (5, 6)],
    [1, frozenset({1}), "1"],
    ["a", "a\0", "b"],
    [2**70, -1, 2**63],
    [b"a", "a", b"\0"],
    [np.str_("a"), "b", 1],
    [np.float64(0.5), 0.25, np.float32(2)],
]
X = np.vstack([np.eye(3)] * 3)


@pytest.mark.parametrize("names", NAMES, ids=str)
@pytest.mark.parametrize("estimator", [so.StructuredSVM, so.CRF, so.ConditionalRiskMinimizer])
def test_class_names_keep_value_and_type(estimator: Any, names: list[Any], tmp_path: Path) -> None:
    Y = names * 3
    fitted = estimator(so.structures.Multiclass(names)).fit(X, Y)
    fitted.save(tmp_path / "model.npz")
    for model in (fitted, so.load(tmp_path / "model.npz")):
        found = model.predict(X)
        found = found.tolist() if isinstance(found, np.ndarray) else found
        assert found == Y and [type(name) for name in found] == [type(name) for name in Y]


def test_name_array_uses_object_only_if_needed() -> None:
    assert name_array(["a", "b"]).dtype.kind == "U" and name_array([1, 2]).dtype.kind == "i"
    assert name_array([(1, 2), (3, 4)]).tolist() == [(1, 2), (3, 4)]
    assert name_array([1, True]).tolist() == [1, True] and type(name_array([1, True])[1]) is bool
    assert as_array([np.zeros(2), np.ones(2)]).shape == (2, 2)
    assert isinstance(as_array([np.zeros(2), np.ones(3)]), list)


def test_linear_classifiers_reject_texts_among_numbers() -> None:
    with pytest.raises(LabelNotAClass, match="texts and other values"):
        so.LinearSVM().fit(X, ["a", 1, 2.5] * 3)


@pytest.mark.parametrize("kind", ["leaf", "leaves"])
def test_nodes_that_are_sets_of_nodes_are_told_apart(kind: Any) -> None:
    hierarchy = so.Hierarchy([("root", 1), ("root", frozenset({1})), ("root", (1, 2)), ("root", (3, 4))])
    model = so.structures.HierarchicalLabels(hierarchy, kind)
    leaves = list(hierarchy.leaves)
    labels = leaves if kind == "leaf" else [frozenset({leaf}) for leaf in leaves] + [frozenset(leaves)]
    points = [model.encode(label) for label in labels]
    assert len({point.tobytes() for point in points}) == len(labels)
    assert [model.decode(z) for z in points] == labels
    rows = model.codec.encode_many(labels, len(labels)).toarray()
    np.testing.assert_array_equal(rows, points)
    svm = so.HierarchicalSVM(hierarchy, kind=kind, lam=1e-3).fit(np.eye(4), labels[:4])
    found = svm.predict(np.eye(4))
    assert list(found) == labels[:4] and svm.score(np.eye(4), list(found)) == 1.0


@pytest.mark.parametrize(
    "names", [["a", None], [b"a", b"b"], [(1, 2), (3,)], [(1, (2,)), (3, 4)], [10**30, 1], ["a\0", "a"]], ids=repr
)
def test_linear_estimators_reject_classes_that_are_not_texts_or_numbers(names):
    for y in (names * 3, np.fromiter(names * 3, dtype=object, count=6)):
        with pytest.raises(LabelNotAClass, match=r"y\[\d\] is .*texts or numbers.*Multiclass"):
            so.estimators.LinearSVM().fit(np.arange(12.0).reshape(6, 2), y)


def test_linear_estimators_take_numbers_in_an_array_of_objects():
    y = np.fromiter([3, 4, 5, 3, 4, 5], dtype=object, count=6)
    svm = so.estimators.LinearSVM().fit(np.arange(12.0).reshape(6, 2), y)
    assert svm.classes_.dtype == np.int64 and svm.predict(np.zeros((1, 2))).dtype == np.int64
