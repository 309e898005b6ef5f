from __future__ import annotations

import numpy as np
import pytest

import structopt.risks as risks
from structopt.errors import DeclarationError
from structopt.risks.ontology import path_shares


def test_softmax_by_definition_and_for_large_scores():
    rng = np.random.default_rng(2)
    X, y, W = rng.normal(size=(10, 3)), rng.integers(0, 4, 10), rng.normal(size=(4, 3))
    f = X @ W.T
    expected = np.mean(np.log(np.exp(f).sum(axis=1)) - f[np.arange(10), y])
    assert risks.Softmax(X, y, n_classes=4)(W.ravel())[0] == pytest.approx(expected, rel=1e-13)
    value, slope = risks.Softmax([[1.0]], [0], n_classes=2)(np.array([-1e4, 1e4]))
    assert value == 2e4 and slope.tolist() == [-1.0, 1.0]


BINARY_TREE = [(k // 2, k) for k in range(2, 16)]


def phi(edges, node):
    nodes, shares, _ = path_shares(edges)
    return {nodes[v]: s for v, s in enumerate(shares.toarray()[nodes.index(node)]) if s}


def test_paths_of_the_binary_tree_of_figure_13():
    assert phi(BINARY_TREE, 8) == {2: 1, 4: 1, 8: 1}
    assert phi(BINARY_TREE, 13) == {3: 1, 6: 1, 13: 1}


def test_paths_of_the_dag_of_figure_13():
    edges = [(1, 2), (1, 3), (2, 4), (2, 5), (3, 5), (3, 6), (4, 7), (4, 8), (4, 9), (5, 10), (5, 11), (6, 12), (6, 13)]
    edges += [(12, 14), (12, 15)]
    assert phi(edges, 10) == {2: 0.5, 3: 0.5, 5: 1, 10: 1}
    assert phi(edges, 15) == {3: 1, 6: 1, 12: 1, 15: 1}


def test_parents_weigh_by_their_paths():
    edges = [(1, 2), (1, 3), (2, 4), (2, 5), (3, 5), (4, 6), (5, 6)]
    assert phi(edges, 6) == pytest.approx({2: 2 / 3, 3: 1 / 3, 4: 1 / 3, 5: 2 / 3, 6: 1})


@pytest.mark.parametrize(
    ("y", "edges", "labels", "words"),
    [
        ([1], [(0, 1), (1, 0)], None, "cycle"),
        ([1], [(0, 1), (2, 1)], None, "one root; it has 2"),
        ([3], [(0, 1), (0, 2)], None, r"y\[0\] is 3"),
        ([[1]], [(0, 1), (0, 2)], None, r"y\[0\] must be hashable"),
        ([1], [(0, 1), (0, 2)], [1, 9], "label 9 is not a node"),
        ([1], [(0, 1), (0, 2)], [1, 1], "twice"),
        ([1], [(0, 1), (0, 2)], [0, 1], "label 0 is not a node below the root"),
    ],
)
def test_bad_ontologies_name_the_culprit(y, edges, labels, words):
    with pytest.raises(DeclarationError, match=words):
        risks.Ontology([[1.0]], y, edges, labels)
