from __future__ import annotations

import numpy as np
import pytest

import structopt.risks as risks
from structopt.errors import DeclarationError


def test_softmax_by_definition_and_for_large_scores():
    rng = np.random.default_rng(2)
    X, y, W = rng.normal(size=(10, 3)), rng.integers(0, 4, 10), rng.normal(size=(4, 3))
    f = X @ W.T
    expected = np.mean(np.log(np.exp(f).sum(axis=1)) - f[np.arange(10), y])
    assert risks.Softmax(X, y, n_classes=4)(W.ravel())[0] == pytest.approx(expected, rel=1e-13)
    value, slope = risks.Softmax([[1.0]], [0], n_classes=2)(np.array([-1e4, 1e4]))
    assert value == 2e4 and slope.tolist() == [-1.0, 1.0]


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
