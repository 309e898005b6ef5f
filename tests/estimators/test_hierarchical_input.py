"""Hierarchical SVMs are estimators like any other: every form of input works, and what is wrong is named."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV

import structopt as so
from structopt import metrics
from structopt.errors import StructoptError
from structopt.estimators.hierarchical import HierarchicalSVM
from structopt.estimators.shared import SharedSVM

# Tests stop early where an optimum is not what they are about.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

TREE = so.Hierarchy([(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6), (2, 7)])


@pytest.mark.parametrize("cls", [HierarchicalSVM, SharedSVM])
def test_score_is_the_accuracy(leaf_data, cls):
    X, y = leaf_data(TREE)
    fitted = cls(list(TREE.edges), max_passes=10, tol=5e-2, lam=0.1).fit(X, y)
    assert fitted.score(X, y) == pytest.approx(metrics.accuracy(y, fitted.predict(X)))
    assert fitted.classes_.tolist() == list(TREE.leaves)


def test_sets_of_leaves_in_a_grid_search(leaf_set_data):
    X, y = leaf_set_data(TREE)
    search = GridSearchCV(HierarchicalSVM(TREE, kind="leaves", tol=0.1), {"lam": [0.1, 1.0]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert 0 <= search.fit(X, y).best_score_ <= 1


def test_every_form_of_hierarchy_is_the_same():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    names = np.array(["a/c", "a/d", "b"])[rng.integers(3, size=30)]
    forms = [
        ["a/c", "a/d", "b"],
        {"a": ["a/c", "a/d"], "b": None},
        nx.DiGraph([("a", "a/c"), ("a", "a/d")]),
        so.Hierarchy([("a", "a/c"), ("a", "a/d")], nodes=["b"]),
    ]
    forms[2].add_node("b")
    answers = [HierarchicalSVM(form, lam=0.3, tol=1e-4).fit(X, names).result_.objective for form in forms]
    assert np.ptp(answers) < 3e-4
    array = HierarchicalSVM(np.array([[0, 1], [0, 2]]), lam=0.3).fit(X, rng.integers(1, 3, size=30))
    assert array.hierarchy_.nodes == (0, 1, 2)


def test_unseen_nodes_are_reported(leaf_data):
    X, y = leaf_data(TREE)
    known = y < 6
    with pytest.warns(UserWarning, match="have no training example"):
        est = HierarchicalSVM(TREE, lam=0.1).fit(X[known], y[known])
    assert set(est.unseen_nodes_) == {6, 7}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "have no training example")
        assert HierarchicalSVM(TREE, max_passes=2).fit(X, y).unseen_nodes_ == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"normalization": "rhoo"},
            "normalization must be 'flat', 'none', 'rho', 'directional' or 'maxmin', got 'rhoo'",
        ),
        ({"margin": "leafs"}, "margin must be 'auto', 'hamming', 'leaf' or 'normalized', got 'leafs'"),
        ({"kind": "node"}, "kind must be"),
        ({"kind": "leaves", "margin": "normalized"}, "between single leaves only"),
        ({"kind": "leaves", "divided": True}, "single-label"),
        ({"margin": "leaf", "divided": True}, "norm of the attributes"),
        ({"kind": "closure", "normalization": "flat"}, "leaves only"),
        ({"normalization": "maxmin", "tolerance": 1.5}, "tolerance belongs"),
        ({"rho": 1.0}, "rho must be"),
        ({"lam": 0.0}, "lam"),
        ({"trainer": "adam"}, "no trainer called .adam."),
        ({"support": "some"}, "support must be"),
        ({"support": "seen"}, "sparse X"),
        ({"dtype": "int32"}, "dtype must be"),
        ({"max_memory": -1}, "max_memory"),
    ],
)
def test_bad_arguments(leaf_data, options, message):
    X, y = leaf_data(TREE, n=20)
    if options.get("kind") == "leaves":
        y = [{leaf} for leaf in y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(StructoptError, match=message):
            HierarchicalSVM(TREE, **options).fit(X, y)


def test_bad_data(leaf_data):
    X, y = leaf_data(TREE, n=20)
    with pytest.raises(StructoptError, match="example 3"):
        HierarchicalSVM(TREE).fit(np.where(np.arange(20)[:, None] == 3, np.nan, X), y)
    bad = sp.csr_array(X)
    bad.data[-1] = np.inf
    with pytest.raises(StructoptError, match="example 19"):
        HierarchicalSVM(TREE).fit(bad, y)
    with pytest.raises(StructoptError, match=r"example 0: .*99"):
        HierarchicalSVM(TREE).fit(X, [99, *y[1:]])
    with pytest.raises(StructoptError, match="without any of its leaves"):
        HierarchicalSVM(TREE).fit(X, [1, *y[1:]])
    with pytest.raises(ValueError, match="19 labels"):
        HierarchicalSVM(TREE).fit(X, y[1:])
    with pytest.raises(StructoptError, match="hierarchy must be"):
        HierarchicalSVM(7).fit(X, y)
    with pytest.raises(StructoptError, match="needs labels"):
        HierarchicalSVM(TREE).fit(X, None)
    with pytest.raises(ValueError, match="6 features"), pytest.warns(UserWarning):
        HierarchicalSVM(TREE, max_passes=1).fit(X, y).predict(X[:, :-1])
