"""solver= reaches every structure: each label is asked of the chosen solver, and has the value of the own algorithm."""

from __future__ import annotations

import numpy as np
import pytest

import structopt as so
from structopt.backends.highs import Highs

s = so.structures
RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 2))
WORDS = [RNG.normal(size=(3, 2)) for _ in range(4)]
TREE = [("thing", "animal"), ("thing", "oak"), ("animal", "cat"), ("animal", "dog")]
#: Structure, parameters, inputs, labels.
CASES = {
    "Multiclass": (s.Multiclass, (3,), X, [0, 1, 2, 1]),
    "MultiLabel": (s.MultiLabel, (3, 1, 2), X, [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]]),
    "PairwiseMRF": (s.PairwiseMRF, (3,), X, [[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1]]),
    "HierarchicalLabels": (s.HierarchicalLabels, (so.Hierarchy(TREE),), X, ["cat", "dog", "oak", "cat"]),
    "Chain": (s.Chain, (2,), WORDS, [[0, 1, 0], [1, 1, 0], [0, 0, 0], [1, 0, 1]]),
    "Segmentation": (s.Segmentation, (2, 2), WORDS, [[(0, 0), (1, 1)]] * 4),
    "Arborescence": (s.Arborescence, (), [RNG.normal(size=(4, 4, 2)) for _ in range(4)], [[0, 1, 1]] * 4),
    "LabelledArborescence": (
        s.LabelledArborescence,
        (2,),
        [RNG.normal(size=(3, 3, 2)) for _ in range(4)],
        [[(0, 1), (1, 0)]] * 4,
    ),
    "Assignment": (s.Assignment, (), [RNG.normal(size=(3, 3, 2)) for _ in range(4)], [[1, 0, 2]] * 4),
    "Ranking": (s.Ranking, (), [RNG.normal(size=(3, 2)) for _ in range(4)], [[2, 1, 0]] * 4),
    "Flow": (s.Flow, ([("a", "b"), ("b", "c"), ("a", "c")], {"a": 1, "c": -1}), X, [[1, 1, 0], [0, 0, 1]] * 2),
}


class Counting(Highs):
    """HiGHS that counts what it is asked."""

    asked = 0

    def run(self, *args, **kwargs):
        type(self).asked += 1
        return super().run(*args, **kwargs)


@pytest.mark.parametrize("name", CASES)
def test_every_label_is_found_by_the_solver(name):
    family, given, inputs, labels = CASES[name]
    own, asked = family(*given), family(*given, solver=Counting)
    w = np.random.default_rng(1).normal(size=own.batch(inputs).n_weights)
    Counting.asked = 0
    values = []
    for model in (own, asked):
        risk = so.train.StructuredRisk(model, inputs, labels)
        values.append(risk(w)[0])
        batch = model.batch(inputs)
        values.append(batch.argmax(batch.tables(w))[1].sum())
    assert Counting.asked >= 2 * len(labels)
    assert values[0] == pytest.approx(values[2], abs=1e-6) and values[1] == pytest.approx(values[3], abs=1e-6)


def test_cbc_on_a_pairwise_model():
    family, given, inputs, labels = CASES["PairwiseMRF"]
    own = so.StructuredSVM(family(*given), lam=0.1).fit(inputs, np.array(labels))
    cbc = so.StructuredSVM(family(*given, solver="cbc"), lam=0.1, tol=1e-2).fit(inputs, np.array(labels))
    assert cbc.result_.objective == pytest.approx(own.result_.objective, rel=2e-2)
    assert np.asarray(cbc.predict(inputs)).shape == (4, 3)


@pytest.mark.parametrize("family", [so.HierarchicalSVM, so.SharedSVM])
def test_hierarchical_estimators(family):
    own = family(TREE, lam=0.1).fit(X, ["cat", "dog", "oak", "cat"])
    Counting.asked = 0
    chosen = family(TREE, lam=0.1, solver=Counting).fit(X, ["cat", "dog", "oak", "cat"])
    assert Counting.asked > 0
    assert chosen.result_.objective == pytest.approx(own.result_.objective, rel=5e-3)
    Counting.asked = 0
    assert list(chosen.predict(X)) == list(own.predict(X)) and Counting.asked >= 4
